#!/usr/bin/env python3
"""scripts/cuda_device.sh and scripts/nvdisasm.sh on machines that there are not: with a GPU, with and without ncu and
compute-sanitizer, with an old driver or toolkit, with an emulated device, without PyPI. nvidia-smi, nvcc, cmake, ncu and the
rest are little scripts that print what the real ones document. What is tested is what the scripts make of that, and nothing
of a GPU.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(pathlib.Path(__file__).parent)]
import cuda_count  # noqa: E402
import test_sass  # noqa: E402

KERNELS = (("delta_rows_4", test_sass.ROWS, 164), ("delta_tiles_4", test_sass.TILES, 127))
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
[ "$1" != -S ] || {{ mkdir -p "$4/bin" && cp "{folder}/gdn" "$4/bin/gdn"; }}
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
# Its options are looked at, and the program is run as it would be.
NCU = """#!/bin/sh
echo "GDN_KNOWN_ANSWERS=$GDN_KNOWN_ANSWERS $*" >>"{folder}/ncu.log"
row=
while [ $# -gt 0 ]; do
    case "$1" in --log-file) file=$2 ;; --filter) row=$2 ;; esac
    shift
done
cat "{folder}/$(echo "$row" | tr / _)csv" >"$file"
exit {status}
"""
# As ncu prints --page raw, and other pages: names, units, values, which may have commas.
IDENTITY = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
RAW = f"""==PROF== Connected to process 4711 (build-cuda/bin/gdn)
==PROF== Disconnected from process 4711
{IDENTITY},"gpu__time_duration.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",\
"l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum","launch__registers_per_thread","sm__cycles_elapsed.max","smsp__inst_executed.sum"
"","","","","","","","","","","","ns","sector","sector","sector","register/thread","cycle","inst"
"0","4711","gdn","127.0.0.1","gdn_cuda_%s","1","7","(128, 1, 1)","(8, 32, 2)","0","9.0","%s","524,288","0","0","%d","%s","%s"
"""
LONG = "".join(f'"0","4711","gdn","127.0.0.1","gdn_cuda_delta_tiles_4(params)","1","7","(128, 1, 1)","(4, 32, 1)","0","9.0","Command line profiler metrics",'
               f'"{name}","{unit}","{value}"\n' for name, unit, value in (
                   ("gpu__time_duration.sum", "usecond", "153.25"), ("launch__registers_per_thread", "register/thread", "127"),
                   ("smsp__inst_executed.sum", "inst", "52,690,944"), ("sm__cycles_elapsed.max", "cycle", "n/a")))
LONG = f'==PROF== Connected\n{IDENTITY},"Section Name","Metric Name","Metric Unit","Metric Value"\n{LONG}'
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n"
failures = []


def require(good, what, said=""):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}\n{said}")


def program(folder, name, text):
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


REAL = ("ncu", "compute-sanitizer", "nvidia-smi", "nvdisasm", "nvcc")


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


def machine(folder, compute="9.0", memory="81559", device="NVIDIA H100", vulkan="NVIDIA H100", ncu=0, sanitizer=True, leave_out=()):
    """Programs in a folder, and the environment in which they are found."""
    named = {"folder": folder, "compute": compute, "memory": memory, "device": device, "vulkan": vulkan, "status": ncu}
    for name, text in (("nvidia-smi", SMI), ("nvcc", NVCC), ("cmake", CMAKE), ("gdn", GDN), ("ncu", NCU), ("compute-sanitizer", SANITIZER)):
        if name not in leave_out and not (name == "ncu" and ncu is None) and not (name == "compute-sanitizer" and not sanitizer):
            program(folder, name, text.format(**named))
    program(folder, "nvdisasm", f'#!/bin/sh\ncat "{folder}/listing"\n')
    (folder / "listing").write_text("".join(  # in which no label is there twice
        test_sass.listing(piece.replace(".L_x_", f".L_x_{n}"), f"gdn_cuda_{name}") for n, (name, piece, _) in enumerate(KERNELS)))
    (folder / "ptxas").write_text("".join(
        f"ptxas info    : Compiling entry function 'gdn_cuda_{name}' for 'sm_90'\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        f"ptxas info    : Used {registers} registers\n" for name, _, registers in KERNELS))
    for row, name, registers, time, cycles, instructions in (("decode/seqs:8", "delta_rows_4", 164, "20,480", "36,000", "45,056"),
                                                             ("prefill512/seqs:8", "delta_tiles_4", 127, "260,000", "460,800", "8,388,608")):
        (folder / f"gated_delta_net_{row.replace('/', '_')}_csv").write_text(DENIED if ncu else RAW % (name, time, registers, cycles, instructions))
    (folder / "gated_delta_net_prefill512_seqs:1_csv").write_text(DENIED if ncu else LONG)
    return {**os.environ, "PATH": path_of(folder), "CUDA_HOME": str(folder / "nowhere"), "NVDISASM": str(folder / "nvdisasm"), "CUDA_VISIBLE_DEVICES": "0,1"}


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
    # The two kernels are not all that there are limits for, which the gate notices, and nothing else is wrong.
    require(status == 1 and "no kernel is called" in (folder / "build/device/report.log").read_text(), "the gate judges what was compiled", said)
    for step in ("check", "memcheck", "racecheck", "initcheck", "synccheck", "bench", "ncu"):
        require(f"| {step} | passed |" in report, f"the step {step} passes", report + said)
    built, benched, counted = ((folder / f"{name}.log").read_text() for name in ("cmake", "bench", "ncu"))
    require("-DGDN_CUDA_ARCHITECTURES=90 " in built and "-DGDN_VULKAN=OFF" in built, "compute capability 9.0 is sm_90", built)
    require("--rotate-mib 2048 --json" in benched and benched.count("\n") == 1, "one benchmark, whose table is the JSON's", benched)
    require(counted.count("GDN_KNOWN_ANSWERS=off") == 3 and "--launch-count 1" in counted and "--kernel-name regex:gdn_cuda_delta_" in counted,
            "ncu counts the call's own launch", counted)
    # ROWS has 9 instructions before the loop and 9 in it. 512 blocks of 4 warps: 45,056 / 2,048.
    for line in ("gated_delta_net/decode/seqs:8: `delta_rows_4`, 512 blocks of 128 threads", "| registers | 164 | 164 |",
                 "| instructions of a warp, estimated and executed | 18 | 22 |", "| 32-byte sectors of global memory loaded | | 524,288 |",
                 "| local memory: instructions that access it, sectors accessed | 0 | 0 |", "| duration, us | | 20.5 |",
                 "`delta_tiles_4`, 128 blocks of 128 threads", "| duration, us | | 153.2 |", "| duration, us | | 260.0 |",
                 f"| instructions of a warp, estimated and executed | {of_tiles()[0]} | 4,096 |", f"elapsed | {of_tiles()[1]} | 900 |",
                 f"elapsed | {of_tiles()[1]} | ? |",
                 "clocks and power limit: 1980 MHz"):
        require(line in report, f"the report has '{line}'", report)


def of_tiles():
    """TILES' instructions for 512 tokens, and its cycles, as the report has them: the limits say that a strip of this kernel has
    16 tokens, two in a pass."""
    found = test_sass.measured(test_sass.TILES, tokens=16, each=2)
    return f"{found['start'] + 512 * found['token']:,.0f}", f"{found['cycles_1']:.0f}, {found['cycles_2']:.0f}"


def partly():
    status, said, report, _ = device(ncu=None, sanitizer=False)
    require("| compute-sanitizer | NOT RUN | it is not on this machine |" in report and "| ncu | NOT RUN | ncu is not on this machine |" in report,
            "tools that are not there", report + said)
    _, said, report, folder = device(ncu=1, memory="4096")
    require("| ncu | NOT RUN | this user may not read the device's counters (ERR_NVGPUCTRPERM) |" in report and "| registers |" not in report,
            "counters that this user may not read", report + said)
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


def disassembler():
    """nvdisasm.sh without a tool: from what pip installs, or without PyPI, or where pip fails for another reason."""
    venv = """#!/bin/sh
case "$*" in
*sass_gate.py*) exec {python} "$@" ;;
"-m venv "*) mkdir -p "$3/bin" && cp "{folder}/pip" "$3/bin/pip" ;;
esac
"""
    pip = '#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done\n{does}\n'
    install = 'mkdir -p "$2/nvidia/cu13/bin" && echo "$3" >"{folder}/wanted" && cp "{folder}/tool" "$2/nvidia/cu13/bin/nvdisasm"'
    for what, does, status, says in (
            ("PyPI has it", install, 0, "nvidia/cu13/bin/nvdisasm"),
            ("PyPI cannot be reached", 'echo "ERROR: Could not find a version (from versions: none)"; exit 1', 77, "cannot be had from PyPI: ERROR: Could"),
            ("pip fails", 'echo "ERROR: No space left on device"; exit 1', 1, "No space left")):
        folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
        tree = folder / "tree/scripts"
        tree.mkdir(parents=True)
        for name in ("nvdisasm.sh", "sass_gate.py", "sass.py", "sass_measure.py", "cuda_report.py"):
            (tree / name).write_bytes((ROOT / "scripts" / name).read_bytes())
        program(folder, "python3", venv.format(folder=folder, python=sys.executable))
        program(folder, "pip", pip.format(does=does.format(folder=folder)))
        program(folder, "tool", '#!/bin/sh\necho "nvdisasm: NVIDIA (R) CUDA disassembler"\n')
        program(folder, "nvcc", NVCC.format(folder=folder))
        environment = {**os.environ, "PATH": path_of(folder), "NVDISASM": str(folder / "none"), "PYTHONPATH": ""}
        done = subprocess.run(["sh", str(tree / "nvdisasm.sh")], capture_output=True, text=True, env=environment, timeout=300)
        if "triton" in done.stdout and not done.returncode:
            continue  # there is one here after all
        require(done.returncode == status and says in done.stdout + done.stderr, f"nvdisasm.sh where {what}: exit status {done.returncode}", done.stdout + done.stderr)
        require(sorted(path.name for path in (folder / "tree/build-test").iterdir()) == ([] if status else ["nvdisasm"]), f"{what}: nothing else is left")
        if not status:
            require((folder / "wanted").read_text() == "nvidia-cuda-nvdisasm>=13,<14\n", "a version that reads what this nvcc makes")


def numbers():
    """What ncu writes is read as it is meant."""
    for text, value in (("1,024", 1024), ("0.5", 0.5), ("n/a", None), ("", None), (None, None), ("1.5e+06", 1.5e6)):
        require(cuda_count.number(text) == value, f"'{text}' is {value}")
    require(cuda_count.size("(8, 32, 2)") == 512, "a grid")
    require(cuda_count.counted(DENIED) == [] and cuda_count.counted("") == [], "no counts")
    one = cuda_count.counted(LONG)[0]
    require(one["kernel"] == "gdn_cuda_delta_tiles_4" and one["gpu__time_duration.sum"] == 153250 and "sm__cycles_elapsed.max" not in one, "a line for each", one)


with tempfile.TemporaryDirectory() as scratch:
    numbers()
    whole()
    partly()
    refused()
    disassembler()
print(f"cuda_device.sh on 9 machines, nvdisasm.sh on 3, {len(failures)} problems")
sys.exit(1 if failures else 0)
