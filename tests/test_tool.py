#!/usr/bin/env python3
"""The command line of the tool gdn, and that `gdn check --json` is one JSON object however it ends.

    test_tool.py GDN          GDN is the tool, with an emulator in front of it where it needs one
"""
import json
import subprocess
import sys

TOOL = sys.argv[1:]
FEW = ("--quick", "--cases", "3", "--case", "random/*", "--json")
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


def ran(*arguments):
    """(kernels, implementations) that ran, each in the order of the report."""
    done = gdn("check", *FEW, *arguments)
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
    kernels, implementations = ran()
    same("all kernels", kernels, ["gated_delta_net", "ssm_conv", "set_rows"])
    if not implementations:
        return
    best, last = implementations[0], implementations[-1]
    same("--kernel twice", ran("--kernel", "ssm_conv", "--kernel=set_rows")[0], ["ssm_conv", "set_rows"])
    same("--kernel with a list", ran("--kernel", "set_rows,ssm_conv")[0], ["ssm_conv", "set_rows"])
    same("--impl twice", ran("--impl", best, "--impl", last)[1], list(dict.fromkeys((best, last))))
    same("--backend twice", ran("--backend", "cpu", "--backend", "cpu")[1], ran("--backend", "cpu")[1])
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
    for kind, signal in (("memory", "SIGSEGV"), ("thread", "SIGSEGV"), ("stack", "SIGSEGV"), ("abort", "SIGABRT"),
                         ("hang", "HANG"), ("spin", "HANG")):
        done = gdn("check", *FEW, "--kernel", "ssm_conv", "--seed", "7", "--crash", kind)
        try:
            report = json.loads(done.stdout)
            crash = report["crash"]
            good = report["crashed"] is True and report["seed"] == 7 and crash["signal"] == signal and \
                crash["kernel"] == "ssm_conv" and crash["case"] == "random/0" and "--case random/0" in crash["repeat"]
        except (ValueError, KeyError):
            good = False
        require(good and done.returncode == 1 and crash["repeat"] in done.stderr, f"a JSON object after {kind}", done)
        done = gdn("check", "--quick", "--crash", kind)
        require(done.returncode == 1 and signal in done.stderr, f"a text after {kind}", done)
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


if not TOOL:
    sys.exit(__doc__)
lists()
single()
crashes()
errors()
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
