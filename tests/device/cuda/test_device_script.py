#!/usr/bin/env python3
"""scripts/cuda_device.sh on simulated machines: with a GPU, with and without ncu and compute-sanitizer, with an old driver or
toolkit, with an emulated device. nvidia-smi, nvcc, ncu and others are scripts that print what the real ones document.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]

SMI = """#!/bin/sh
case "$1" in
*compute_cap) echo "{compute}" ;;
*=name) echo "NVIDIA H100 80GB HBM3" ;;
*driver_version) echo "580.65.06" ;;
*memory.total) echo "{memory}" ;;
*) echo "1980 MHz, 2619 MHz, 700.00 W" ;;
esac
"""
NVCC = """#!/bin/sh
case "$*" in
*--version*) echo "Cuda compilation tools, release 13.0, V13.0.48" ;;
*--list-gpu-arch*) printf 'compute_75\\ncompute_90\\n' ;;
*) while [ $# -gt 0 ]; do [ "$1" != -o ] || echo cubin >"$2"; shift; done
   cat "{folder}/ptxas" ;;
esac
"""
CMAKE = """#!/bin/sh
echo "$*" >>"{folder}/cmake.log"
[ "$1" != -S ] || {{ mkdir -p "$4/bin" "$4/cuda" && cp "{folder}/gdn" "$4/bin/gdn" && cp "{folder}/ptxas" "$4/cuda/gdn_cuda.ptxas"; }}
"""
GDN = """#!/bin/sh
case "$1" in
--version) echo "gdn 0.1.0" ;;
info) printf 'cuda        available\\n                         0: {device}\\n                            fma              exact\\nvulkan      available\\n                         0: {vulkan}\\n' ;;
bench) echo "$*" >>"{folder}/bench.log"; echo "a table"
    while [ $# -gt 0 ]; do [ "$1" != --json ] || echo "{{}}" >"$2"; shift; done ;;
*) echo "3 kernels, 0 failed" ;;
esac
"""
SANITIZER = '#!/bin/sh\necho "ERROR SUMMARY: 0 errors"\n'
NCU = """#!/bin/sh
echo "GDN_KNOWN_ANSWERS=$GDN_KNOWN_ANSWERS $*" >>"{folder}/ncu.log"
cat "{folder}/counts"
exit {status}
"""
COUNTS = """==PROF== Connected to process 4711 (build-cuda/bin/gdn)
  gdn_cuda_delta_rows_4 (8, 32, 2)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    gpu__time_duration.sum        us        20.48
    smsp__inst_executed.sum     inst       45,056
"""
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n"
PTXAS = """ptxas info    : Compiling entry function 'gdn_cuda_conv_4' for 'sm_90'
ptxas info    : Function properties for gdn_cuda_conv_4
    0 bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 1024 bytes smem
"""
failures = []


def require(good, what, said=""):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}\n{said}")


def program(folder, name, text):
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


REAL = ("ncu", "compute-sanitizer", "nvidia-smi", "nvcc")


def path_of(folder):
    """A PATH with the folder first, and then all that this machine's has but the real tools."""
    parts = [str(folder)]
    for number, part in enumerate(pathlib.Path(part) for part in os.environ["PATH"].split(":") if part):
        if any((part / tool).exists() for tool in REAL):
            others = folder / f"path{number}"
            others.mkdir()
            for entry in part.iterdir():
                if entry.name not in REAL:
                    (others / entry.name).symlink_to(entry)
            part = others
        parts.append(str(part))
    return ":".join(parts)


def machine(folder, compute="9.0", memory="81559", device="NVIDIA H100", vulkan="NVIDIA H100", ncu=0, sanitizer=True, leave_out=(), spilled=0):
    """Programs in a folder, and the environment in which they are found."""
    named = {"folder": folder, "compute": compute, "memory": memory, "device": device, "vulkan": vulkan, "status": ncu}
    for name, text in (("nvidia-smi", SMI), ("nvcc", NVCC), ("cmake", CMAKE), ("gdn", GDN), ("ncu", NCU), ("compute-sanitizer", SANITIZER)):
        if name not in leave_out and not (name == "ncu" and ncu is None) and not (name == "compute-sanitizer" and not sanitizer):
            program(folder, name, text.format(**named))
    (folder / "ptxas").write_text(PTXAS.format(spilled=spilled))
    (folder / "counts").write_text(DENIED if ncu else COUNTS)
    return {**os.environ, "PATH": path_of(folder), "CUDA_HOME": str(folder / "nowhere"), "CUDA_VISIBLE_DEVICES": "0,1"}


def device(**how):
    """(exit status, what was said, the report, the folder) of cuda_device.sh on a machine."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    environment = machine(folder, **how)
    done = subprocess.run(["sh", str(ROOT / "scripts/cuda_device.sh"), "--quick", "--build", str(folder / "build"), "--out", str(folder / "out")],
                          capture_output=True, text=True, env=environment, timeout=300)
    report = folder / "out/cuda-nvidia-h100-80gb-hbm3.md"
    return done.returncode, done.stdout + done.stderr, report.read_text() if report.exists() else "", folder


def whole():
    status, said, report, folder = device()
    require(status == 0, "all steps pass", said)
    for step in ("check", "check_f16", "memcheck", "racecheck", "initcheck", "synccheck", "bench", "resources", "ncu"):
        require(f"| {step} | passed |" in report, f"the step {step} passes", report + said)
    built, benched, counted = ((folder / f"{name}.log").read_text() for name in ("cmake", "bench", "ncu"))
    require("-DGDN_CUDA_ARCHITECTURES=90 " in built and "-DGDN_VULKAN=OFF" in built, "compute capability 9.0 is sm_90", built)
    require("--rotate-mib 2048 --json" in benched and benched.count("\n") == 1, "one benchmark, whose table is the JSON's", benched)
    require(counted.count("GDN_KNOWN_ANSWERS=off") == 3 and "--launch-count 1" in counted and "--kernel-name regex:gdn_cuda_delta_" in counted,
            "ncu counts the call's own launch", counted)
    for line in ("    gated_delta_net/decode/seqs:8", "    smsp__inst_executed.sum     inst       45,056", "clocks and power limit: 1980 MHz"):
        require(line.strip() in report, f"the report has '{line.strip()}'", report)


def partly():
    status, said, _, folder = device(spilled=4)
    require(status == 1 and "4 bytes of spills; at most 255 and 0" in (folder / "build/device/resources.log").read_text(), "a spill is noticed", said)
    status, said, report, _ = device(ncu=None, sanitizer=False)
    require("| compute-sanitizer | NOT RUN | it is not on this machine |" in report and "| ncu | NOT RUN | it is not on this machine |" in report,
            "tools that are not there", report + said)
    _, said, report, folder = device(ncu=1, memory="4096")
    require("| ncu | NOT RUN | this user may not read the device's counters (ERR_NVGPUCTRPERM) |" in report, "counters that this user may not read", report + said)
    require("--rotate-mib 512 " in (folder / "bench.log").read_text(), "a device of 4 GiB", report)
    _, said, report, _ = device(vulkan="SIMT emulator, emulated")
    require("| check | passed |" in report, "what is emulated beside it does not matter", said)


def refused():
    for what, says, how in (
            ("no nvidia-smi", "there is no nvidia-smi here", {"leave_out": ("nvidia-smi",)}),
            ("no nvcc", "there is no nvcc here", {"leave_out": ("nvcc",)}),
            ("an old driver", "does not say which compute capability", {"compute": 'Field "compute_cap" is not a valid field to query.'}),
            ("an old toolkit", "the device is of sm_120, which", {"compute": "12.0"}),
            ("an emulated device", "the device is emulated", {"device": "SIMT emulator, emulated"})):
        status, said, report, _ = device(**how)
        require(status == 2 and says in said and not report, f"{what}: exit status {status}", said)


with tempfile.TemporaryDirectory() as scratch:
    whole()
    partly()
    refused()
print(f"cuda_device.sh on 10 machines: {len(failures)} problems")
sys.exit(1 if failures else 0)
