#!/usr/bin/env python3
"""The command line of the tool gdn, what becomes of output that cannot be written, and that `gdn check --json` is one JSON
object however it ends.

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


def gdn(*arguments):
    return subprocess.run([*TOOL, *arguments], capture_output=True, text=True)


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


def crashes():
    for kind, name, status in (("memory", "SIGSEGV", 1), ("thread", "SIGSEGV", 1), ("stack", "SIGSEGV", 1), ("abort", "SIGABRT", 1),
                               ("interrupt", "SIGINT", -signal.SIGINT), ("stop", "SIGTERM", -signal.SIGTERM)):
        done = gdn("check", *FEW, "--kernel", "ssm_conv", "--seed", "7", "--crash", kind)
        try:
            report = json.loads(done.stdout)
            crash = report["crash"]
            good = report["crashed"] is True and report["seed"] == 7 and crash["signal"] == name and \
                crash["kernel"] == "ssm_conv" and crash["case"] == "random/0" and "--case random/0" in crash["repeat"]
        except (ValueError, KeyError):
            good = False
        require(good and done.returncode == status and crash["repeat"] in done.stderr, f"a JSON object after {kind}", done)
        done = gdn("check", "--quick", "--crash", kind)
        require(done.returncode == status and name in done.stderr, f"a text after {kind}", done)
    require("--crash" not in gdn("check", "--help").stdout, "--crash is not for users", gdn("check", "--help"))
    odd = gdn("check", "--json", "--case", 'random/"\\', "--crash", "abort")
    try:
        good = json.loads(odd.stdout)["crash"]["case"] == 'random/"\\'
    except (ValueError, KeyError):
        good = False
    require(good, "names are escaped", odd)


def errors():
    """A call that times out is an error, named as what it is, and no mismatch."""
    few = ("--quick", "--cases", "3", "--case", "random/*", "--kernel", "ssm_conv", "--backend", "cpu", "--crash", "timeout")
    done = gdn("check", *few, "--json")
    try:
        report = json.loads(done.stdout)
        good = report["errors"] >= 3 and report["mismatches"] == 0 and report["cases"] == report["errors"] and \
            report["backends"][0]["kernels"][0]["errors"] == 3
    except (ValueError, KeyError, IndexError):
        good = False
    require(good and done.returncode == 1 and "the call failed: GDN_TIMEOUT" in done.stderr, "timeouts are errors in JSON", done)
    done = gdn("check", *few)
    require(done.returncode == 1 and "ERROR ssm_conv random/0" in done.stdout and "the call failed: GDN_TIMEOUT" in done.stdout and
            "calls that returned an error" in done.stdout and "MISMATCH" not in done.stdout and "differ" not in done.stdout,
            "timeouts are errors in text", done)
    done = gdn("check", *few, "--max-reports", "0", "--stop", "--json")
    report = json.loads(done.stdout)
    require(done.returncode == 1 and (report["cases"], report["errors"]) == (1, 1), "--stop leaves after the first", done)


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
        file.write_text(text[:-2] + "?\n")
        refused("is no file that", "--expect", str(file))


def said(text):
    """What standard error says besides progress, which a busy machine may have time for."""
    return re.sub(r"^progress: .*\n", "", text, flags=re.MULTILINE)


COMMANDS = (("--help",), ("--version",), ("help", "check"), ("info",), ("info", "--json"), ("check", "--list"), ("check", *FEW),
            ("check", *FEW[:-1]), ("bench", "--list"), ("bench", "--help"))


def lost():
    """Output that cannot be written is a failure, and standard error says so, but for a pipe that nobody reads."""
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
    for arguments in (("help", "first"), ("first",)):
        done = gdn(*arguments)
        require(done.returncode == 2 and "unknown command 'first'" in done.stderr and not done.stdout, "an unknown command", done)
    for command in ("check", "bench"):
        done = gdn(command, "--device", "7", "--backend", "cpu")
        require(done.returncode == 2 and not done.stdout, f"{command} --device 7", done)


def progress():
    """Lines without control characters where standard error is no terminal; a bar that is wiped off where it is one, before what
    says how to repeat the case."""
    few = ("check", *FEW[:-1], "--kernel", "set_rows")
    done = subprocess.run([*TOOL, *few], capture_output=True, text=True, timeout=300, env={**os.environ, "GDN_PROGRESS": "0"})
    lines = done.stderr.splitlines()
    require(done.returncode == 0 and len(lines) > 2 and all(re.fullmatch(r"progress: \d+/\d+ \(\d+%\) [ -~]+", line) for line in lines),
            "lines of progress", done)
    done = subprocess.run([*TOOL, *few], capture_output=True, text=True, timeout=300, env={**os.environ, "GDN_PROGRESS": "off"})
    require(done.returncode == 0 and not done.stderr, "no progress", done)
    for number in (signal.SIGINT, signal.SIGTERM):
        master, terminal = os.openpty()
        process = subprocess.Popen([*TOOL, "check", "--backend", "cpu"], stdout=subprocess.DEVNULL, stderr=terminal,
                                   env={**os.environ, "TERM": "xterm"}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(terminal)
        seen = b""
        while b"]" not in seen:
            seen += os.read(master, 4096)
        process.send_signal(number)
        status = process.wait(timeout=300)
        try:
            while (more := os.read(master, 4096)):
                seen += more
        except OSError:  # the terminal is closed
            pass
        os.close(master)
        require(status == -number and re.search(rb"\r\x1b\[KSTOPPED: SIG.*\s+to repeat: gdn check .* --case .*\s+$", seen),
                f"signal {number} wipes the bar off: {status}, {seen[-60:]}", gdn("info"))


if not TOOL:
    sys.exit(__doc__)
lists()
single()
crashes()
errors()
recorded()
lost()
habits()
progress()
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
