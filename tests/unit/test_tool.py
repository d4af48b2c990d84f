#!/usr/bin/env python3
"""The command line of the tool gdn, and what becomes of output that cannot be written.

    test_tool.py GDN          GDN is the tool, with an emulator in front of it where it needs one
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

TOOL = sys.argv[1:]
EVERYWHERE = ("--quick", "--cases", "3", "--case", "random/*", "--json")
FEW = (*EVERYWHERE[:-1], "--backend", "cpu", "--json")  # a software device compiles pipelines for seconds each time
failures = []


def gdn(*arguments, **how):
    return subprocess.run([*TOOL, *arguments], capture_output=True, text=True, **how)


def require(good, what, done):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}\n  {' '.join(done.args)}\n  status {done.returncode}\n  {done.stdout}\n  {done.stderr}")


def refused(says, *arguments):
    done = gdn("check", *arguments)
    require(done.returncode == 2 and says in done.stderr and not done.stdout, f"refused: {says}", done)


def ran(*arguments, few=FEW):
    """(kernels, implementations) that ran, each in the order of the report."""
    done = gdn("check", *few, *arguments)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"backends": []}
    require(done.returncode == 0 and report["backends"], "a few cases pass", done)
    kernels = [kernel["kernel"] for kernel in report["backends"][0]["kernels"]] if report["backends"] else []
    return kernels, [backend["implementation"] for backend in report["backends"]]


def same(what, got, expected):
    if got != expected:
        failures.append(what)
        print(f"FAILED: {what}: {got}, expected {expected}")


def lists():
    """Options that take lists accumulate."""
    kernels, everywhere = ran(few=EVERYWHERE)
    same("all kernels", kernels, ["gated_delta_net", "ssm_conv", "set_rows"])
    kernels, implementations = ran()
    same("all kernels on the CPU", kernels, ["gated_delta_net", "ssm_conv", "set_rows"])
    same("the CPU's implementations come first", everywhere[: len(implementations)], implementations)
    if not implementations:
        return
    best, last = implementations[0], implementations[-1]
    same("--kernel twice", ran("--kernel", "ssm_conv", "--kernel=set_rows")[0], ["ssm_conv", "set_rows"])
    same("--kernel with a list", ran("--kernel", "set_rows,ssm_conv")[0], ["ssm_conv", "set_rows"])
    same("--impl twice", ran("--impl", best, "--impl", last)[1], list(dict.fromkeys((best, last))))
    same("--backend twice", ran("--backend", "cpu")[1], implementations)
    refused("backend 'metal' is not available", "--backend", "metal", "--backend", "cpu")
    refused("no backend 'first'", "--backend", "first", "--backend", "cpu")
    refused("no kernel 'first'", "--kernel", "first", "--kernel", "ssm_conv")
    refused("no implementation 'first'", "--impl", "first", "--impl", last)
    refused("at most 64, not 65", "--threads", "65", "--threads", "1")
    refused("not '1,2'", *("--threads", "1,2") * 9)  # 18 numbers


def single():
    """What has one value is not given twice; flags may be."""
    for option in ("--seed", "--cases", "--case", "--device", "--max-reports"):
        refused(f"'{option}' is given twice", option, "1", option, "1")
    for wrong in ("", ",", "ssm_conv,", ",ssm_conv", "ssm_conv,,set_rows"):
        refused("'--kernel' wants names", "--kernel", wrong)
    same("--quick twice", ran("--quick")[0], ["gated_delta_net", "ssm_conv", "set_rows"])


def verbose():
    """Each case has a line before it runs, with the command that runs it alone: the last one names a crash."""
    done = gdn("check", *FEW, "--kernel", "ssm_conv", "--seed", "7", "--verbose")
    lines = re.findall(r"^running: gdn (.*)$", done.stderr, flags=re.MULTILINE)
    require(done.returncode == 0 and len(lines) >= 6 and lines[0] == "check --kernel ssm_conv --seed 7 --case random/0", "--verbose", done)
    if len(lines) > 1:
        alone = gdn(*lines[1].split(), "--json")
        require(alone.returncode == 0 and json.loads(alone.stdout)["cases"] == 1, "the command of a case", alone)


def recorded():
    """Results of the reference in a file: they count, and that there are none is an error."""
    for option in ("--record", "--expect"):
        require(option not in gdn("check", "--help").stdout, f"{option} is not for users", gdn("check", "--help"))
    few = ("check", "--backend", "cpu", "--quick", "--cases", "8", "--kernel", "set_rows", "--case", "random/*")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "reference")
        refused("cannot be written", "--record", folder)
        refused("is no file that", "--expect", str(file))
        require(gdn(*few, "--record", str(file)).returncode == 0, "a record", gdn(*few))
        text = file.read_text()
        require(text.count("\n") == 9, "a line for each call", gdn(*few))
        require(gdn(*few, "--expect", str(file)).returncode == 0, "a record is expected", gdn(*few))
        done = gdn(*few, "--seed", "2", "--expect", str(file))
        require(done.returncode == 2 and "has none of these calls" in done.stderr, "a record of other calls", done)
        file.write_text(text[:-2] + f"{int(text[-2], 16) ^ 1:x}\n")
        done = gdn(*few, "--expect", str(file))
        require(done.returncode == 1 and "MISMATCH" in done.stdout and "the digest is not that" in done.stdout, "one bit is another", done)
        file.write_text("\n".join(line[:-1] + f"{int(line[-1], 16) ^ 1:x}" if " " in line and "gdn" not in line else line
                                  for line in text.splitlines()) + "\n")
        done = gdn(*few, "--expect", str(file), "--max-reports", "0", "--stop", "--json")
        report = json.loads(done.stdout)
        require(done.returncode == 1 and (report["cases"], report["mismatches"]) == (1, 1), "--stop leaves after the first", done)
        file.write_text(text[:-2] + "?\n")
        refused("is no file that", "--expect", str(file))


def digests():
    """One number for all implementations and threads, and another for other calls."""
    few = ("check", "--backend", "cpu", "--cases", "8", "--case", "random/*", "--digest")

    def of(*arguments):
        done = gdn(*few, *arguments)
        found = re.findall(r"^digest ([0-9a-f]{16})$", done.stdout, flags=re.MULTILINE)
        require(done.returncode == 0 and len(found) == 1, "a digest", done)
        return found[0] if found else ""

    all_of_them = of()
    for implementation in ran()[1]:
        same(f"the digest of {implementation}", of("--impl", implementation), all_of_them)
    for threads in ("1", "2,5", "1,2,3,4,5,6,7,8,9"):
        same(f"the digest with threads {threads}", of("--threads", threads), all_of_them)
    same("the digest in JSON", json.loads(gdn(*few, "--json").stdout).get("digest"), all_of_them)
    same("no digest if there was no --digest", json.loads(gdn(*few[:-1], "--json").stdout).get("digest"), None)
    others = [of("--seed", "2"), *(of("--kernel", name) for name in ("gated_delta_net", "ssm_conv", "set_rows"))]
    same("digests of other calls", len({all_of_them, *others}), 5)
    refused("--digest and --stop", "--digest", "--stop")
    done = gdn("check", "--backend", "cpu", "--digest", "--kernel", "set_rows", "--case", "batches/0")
    require(done.returncode == 1 and "no digest: no fixed or random case" in done.stderr and "digest" not in done.stdout, "a family", done)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "reference")
        same("the digest beside --record", of("--record", str(file)), all_of_them)
        same("the digest beside --expect", of("--expect", str(file)), all_of_them)
        text = file.read_text()
        file.write_text(text[:-2] + f"{int(text[-2], 16) ^ 1:x}\n")
        done = gdn(*few, "--expect", str(file))
        require(done.returncode == 1 and "has not passed 1 of the 24 cases" in done.stderr and "\ndigest" not in done.stdout,
                "no digest of results that differ", done)


def said(text):
    """What standard error says besides progress, which a busy machine may have time for."""
    return re.sub(r"^progress: .*\n", "", text, flags=re.MULTILINE)


COMMANDS = (("--help",), ("--version",), ("help", "check"), ("info",), ("info", "--json"), ("check", "--list"), ("check", *FEW),
            ("check", *FEW[:-1]), ("bench", "--list"), ("bench", "--help"))


def lost():
    """Output that cannot be written is a failure, and standard error says so, but for a pipe whose reader is gone."""
    for command in COMMANDS:
        if pathlib.Path("/dev/full").exists():
            with open("/dev/full", "wb") as full:
                done = subprocess.run([*TOOL, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            require(done.returncode == 1 and said(done.stderr) == "gdn: cannot write the output: No space left on device\n",
                    f"{' '.join(command)} on a full device", done)
        if len(TOOL) == 1:  # an emulator would take the place of the closed stream itself
            done = subprocess.run([*TOOL, *command], stderr=subprocess.PIPE, text=True, timeout=300, preexec_fn=lambda: os.close(1))
            require(done.returncode == 1 and said(done.stderr) == "gdn: cannot write the output: Bad file descriptor\n",
                    f"{' '.join(command)} without standard output", done)
        if "wine" in TOOL[0]:  # which gives another error
            continue
        for handler, status in ((signal.SIG_IGN, 1), (signal.SIG_DFL, -signal.SIGPIPE)):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([*TOOL, *command], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300,
                                  restore_signals=False, preexec_fn=lambda: signal.signal(signal.SIGPIPE, handler))
            os.close(writer)
            require(done.returncode == status and not said(done.stderr), f"{' '.join(command)} into a broken pipe", done)
    if len(TOOL) > 1:
        return
    with tempfile.TemporaryDirectory() as folder:  # the file is not what stands in for standard output
        path = pathlib.Path(folder) / "bench.json"
        done = subprocess.run([*TOOL, "bench", "--quick", "--filter", "set_rows/f32_to_f32/threads:1", "--rotate-mib", "1", "--min-reps", "1",
                               "--min-time", "0.001", "--no-peer", "--json", str(path)], stderr=subprocess.PIPE, text=True, timeout=300,
                              preexec_fn=lambda: os.close(1))
        good = path.exists() and "benchmarks" in json.loads(path.read_text())
        require(good and done.returncode == 1, "gdn bench --json FILE without standard output", done)


def habits():
    for command in ("info", "check", "bench"):
        long, short = gdn(command, "--help"), gdn("help", command)
        require(short.returncode == 0 and short.stdout == long.stdout and f"Usage: gdn {command}" in short.stdout, f"help {command}", short)
    require(gdn("help").stdout == gdn("--help").stdout, "help", gdn("help"))
    require(gdn("-V").stdout == gdn("--version").stdout and gdn("-V").returncode == 0, "-V", gdn("-V"))
    for option in ("-V", "--version"):
        done = gdn(option, "extra")
        require(done.returncode == 2 and f"unexpected operand 'extra' behind {option}" in done.stderr and not done.stdout, f"{option} extra", done)
    done = gdn("bench", "--json", "/no/such/folder/x")
    require(done.returncode == 1 and "cannot write '/no/such/folder/x'" in done.stderr and not done.stdout, "a file that cannot be written, before measuring", done)
    done = gdn("bench", "--quick", "--impl", "first")
    require(done.returncode == 2 and '--impl is "first"' in done.stderr and "desc" not in done.stderr, "bench --impl first", done)
    one = {"preexec_fn": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})} if hasattr(os, "sched_setaffinity") else None
    if one:  # threads that share a processor measure nothing
        done = gdn("bench", "--threads", "1,2", **one)
        require(done.returncode == 2 and "--threads has 2, and this process may run on 1 of" in done.stderr and not done.stdout, "bench on a shared processor", done)
        done = gdn("bench", "--list", **one)
        require(done.returncode == 0 and "/threads:1\n" in done.stdout and "/threads:2" not in done.stdout, "rows on one processor", done)
    for arguments in (("help", "first"), ("first",)):
        done = gdn(*arguments)
        require(done.returncode == 2 and "unknown command 'first'" in done.stderr and not done.stdout, "an unknown command", done)
    for command in ("check", "bench"):
        done = gdn(command, "--device", "7", "--backend", "cpu")
        require(done.returncode == 2 and not done.stdout, f"{command} --device 7", done)


def progress():
    """Lines without control characters where standard error is no terminal."""
    few = ("check", *FEW[:-1], "--kernel", "set_rows")
    done = subprocess.run([*TOOL, *few], capture_output=True, text=True, timeout=300, env={**os.environ, "GDN_PROGRESS": "0"})
    lines = done.stderr.splitlines()
    require(done.returncode == 0 and len(lines) > 2 and all(re.fullmatch(r"progress: \d+/\d+ \(\d+%\) [ -~]+", line) for line in lines),
            "lines of progress", done)
    done = subprocess.run([*TOOL, *few], capture_output=True, text=True, timeout=300, env={**os.environ, "GDN_PROGRESS": "off"})
    require(done.returncode == 0 and not done.stderr, "no progress", done)


if not TOOL:
    sys.exit(__doc__)
lists()
single()
verbose()
recorded()
digests()
lost()
habits()
progress()
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
