#!/usr/bin/env python3
"""Compile the CUDA kernels, without a GPU, and hold what the compiler made of them to scripts/cuda_limits.txt.

    cuda_report.py [--arch LIST] [--out FOLDER]      LIST: such as 80,90 (default: 75,80,90,100,120, those that nvcc knows)
    cuda_report.py --built FOLDER [--out FOLDER]     the kernels of a build with GDN_CUDA_KEEP=ON, from its folder cuda/

Of each kernel and architecture:

    registers   per thread
    spilled     bytes of spills and of the stack
    local       instructions that access local memory
    warps       per multiprocessor, at most
    in_flight   bytes of global memory per lane on their way when an instruction waits for some of them: the most that there are
                anywhere in the kernel, following its instructions in their order
    inexact     instructions that the contract does not know: approximations, divisions, .FTZ

A line of the limits is KERNEL ARCHITECTURES MEASURE <= NUMBER, or >=, with a reason behind #. KERNEL is a pattern, ARCHITECTURES
80,90 or *; the last line that fits holds. A line without a kernel is an error.

Machine code needs nvdisasm: $NVDISASM, one in the PATH or beside nvcc, or NVIDIA's package from PyPI, which is put into
build-test/nvdisasm. Without it, registers and spills alone are judged, and the last line says SKIPPED. FOLDER (build/cuda-report)
gets report.md. The exit status is 1 where a limit is exceeded.
"""
import argparse
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = ROOT / "scripts/cuda_limits.txt"
FETCHED = ROOT / "build-test/nvdisasm"
MEASURES = ("registers", "spilled", "local", "warps", "in_flight", "inexact")
# Of a multiprocessor: warps, blocks, kilobytes of shared memory (CUDA C++ Programming Guide, "Compute Capabilities").
SIZES = {75: (32, 16, 64), 80: (64, 32, 164), 86: (48, 16, 100), 89: (48, 24, 100), 90: (64, 32, 228), 100: (64, 32, 228), 120: (48, 24, 100)}
REGISTERS, WARPS = 65536, 4 # of a multiprocessor; of a thread block

# An instruction has 128 bits, of which the compiler says in bits 105 to 125 how it is scheduled: Z. Jia, M. Maggioni, B. Staiger,
# D. Scarpazza, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826, section 2.1. A load raises
# one of six scoreboards; an instruction names those that must be down before it issues.
LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T0-9]+\s+)?([A-Z][\w.]*)([^;]*);\s*/\*\s*0x[0-9a-f]{16}\s*\*/")
HIGH = re.compile(r"^\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
FUNCTION = re.compile(r"^\s*\.text\.([\w$]+):")
BYTES = (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1))


class Unusable(Exception):
    """Something is missing or broken: not a limit."""


def find_nvdisasm(nvcc):
    """Its path, or (None, why)."""
    there = [os.environ.get("NVDISASM"), shutil.which("nvdisasm"), pathlib.Path(nvcc).with_name("nvdisasm"), *FETCHED.glob("**/bin/nvdisasm")]
    found = next((str(path) for path in there if path and os.access(path, os.X_OK)), None)
    if found:
        return found, None
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        venv = FETCHED.with_suffix(".venv")
        made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True, check=False)
        if made.returncode:
            return None, "no nvdisasm, and python3 -m venv does not work, which would get it"
        pip = [venv / "bin/pip"]
    done = subprocess.run([*pip, "install", "-q", "--disable-pip-version-check", "--timeout", "20", "--retries", "1", "--no-deps",
                           "--only-binary", ":all:", "--target", FETCHED, "nvidia-cuda-nvdisasm>=13,<14"],
                          capture_output=True, text=True, check=False)
    found = next((str(path) for path in FETCHED.glob("**/bin/nvdisasm")), None)
    return found, None if found else f"no nvdisasm, and pip cannot get it: {(done.stderr.strip() or 'it has none')[-200:]}"


def resources(text, arch):
    """{kernel: measures} of what ptxas -v says."""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        if f"for 'sm_{arch}'" not in part.split("\n")[0]:
            continue
        number = lambda pattern: sum(int(n) for n in re.findall(pattern, part))
        registers, shared = number(r"Used (\d+) registers"), number(r"(\d+) bytes smem")
        # A block that has producer warps, as many again, has a numbered barrier.
        of_block = 2 * WARPS if number(r"used (\d+) barriers") > 1 else WARPS
        warps, blocks, kilobytes = SIZES.get(arch, SIZES[90])
        most = min(REGISTERS // (-(-registers * 32 // 256) * 256) // 4 * 4 // of_block, warps // of_block, blocks)
        most = min(most, kilobytes * 1024 // (shared + 1024)) if shared else most
        found[part.split("'")[0].removeprefix("gdn_cuda_")] = {
            "registers": registers, "spilled": number(r"(\d+) bytes spill") + number(r"(\d+) bytes stack frame"), "warps": most * of_block}
    return found


def instructions(text):
    """{kernel: [(opcode, bits of its schedule), ...]} of a listing with encodings."""
    functions, here, opcode = {}, None, None
    for number, line in enumerate(text.split("\n"), 1):
        if opcode:
            second = HIGH.match(line)
            if not second:
                raise Unusable(f"nvdisasm, line {number}: no upper 64 bits of the instruction before: {line.strip()[:60]!r}")
            here.append((opcode, int(second[1], 16) >> 41))
            opcode = None
            continue
        begins, found = FUNCTION.match(line), LINE.match(line)
        if begins:
            here = functions.setdefault(begins[1].removeprefix("gdn_cuda_"), [])
        elif found and here is not None:
            opcode = found[1]
    if opcode:
        raise Unusable("what nvdisasm says ends within an instruction")
    return functions


def measure(code):
    """The measures of a kernel's machine code."""
    boards, most = [0] * 6, 0
    for opcode, schedule in code:
        write, wait = schedule >> 5 & 7, schedule >> 11 & 63
        waits = [board for board in range(6) if wait >> board & 1 and boards[board]]
        if waits:
            most = max(most, sum(boards))
            for board in waits:
                boards[board] = 0
        if opcode.split(".")[0] in ("LDG", "LD") and write < 6:
            boards[write] += next((size for word, size in BYTES if word in opcode.split(".")), 4)
    inexact = sum(op.startswith("FCHK") or (op.startswith("MUFU") and op != "MUFU.RCP") or
                  (".FTZ" in op and op.startswith(("FFMA", "FMUL", "FADD", "FSETP"))) for op, _ in code) # MUFU.RCP: of integers
    return {"local": sum(op.startswith(("LDL", "STL")) for op, _ in code), "in_flight": most, "inexact": inexact}


def read_limits(text):
    limits = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 5 or words[2] not in MEASURES or words[3] not in ("<=", ">=") or not words[4].isdigit():
            raise Unusable(f"{LIMITS.name}, line {number}: not KERNEL ARCHITECTURES MEASURE <= NUMBER: {line}")
        archs = None if words[1] == "*" else [int(arch) for arch in words[1].split(",")]
        limits.append((words[0], archs, words[2], words[3], int(words[4]), line.partition("#")[2].strip()))
    return limits


def judge(measured, limits):
    """Sentences on what {(kernel, architecture): measures} exceeds."""
    held, archs = {}, {arch for _, arch in measured}
    for pattern, only, name, sign, number, why in limits:
        fits = [key for key in measured if fnmatch.fnmatchcase(key[0], pattern) and (only is None or key[1] in only)]
        if not fits and (only is None or archs & set(only)):
            yield f"no kernel is called {pattern}, which has a limit for {name}"
        held.update({(*key, name, sign): (number, why) for key in fits})
    for (kernel, arch, name, sign), (number, why) in sorted(held.items()):
        have = measured[kernel, arch].get(name)
        if have is not None and (have > number if sign == "<=" else have < number):
            yield f"{kernel} on sm_{arch}: {name} is {have}, and has to be {sign} {number}; {why}"


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unusable(f"{' '.join(map(str, command))[:200]}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout + done.stderr


def compiled(args, nvcc):
    """(architecture, what ptxas said, cubin) of what there is to look at."""
    if args.built:
        said = args.built / "gdn_cuda.ptxas"
        if not said.is_file():
            raise Unusable(f"no {said}; the build needs GDN_CUDA_KEEP=ON")
        text = said.read_text()
        for arch in sorted(set(map(int, re.findall(r"Compiling entry function.*for 'sm_(\d+)'", text)))):
            yield arch, text, max(args.built.glob(f"all.*_{arch}.cubin"), key=os.path.getmtime, default=args.built / f"all.sm_{arch}.cubin")
        return
    known = run(nvcc, "--list-gpu-arch").split()
    for arch in map(int, args.arch.split(",")):
        if f"compute_{arch}" not in known:
            print(f"nvcc does not know sm_{arch}")
            continue
        for kernel in ("gated_delta_net", "ssm_conv", "set_rows", "probe"):
            cubin = args.out / f"{kernel}_{arch}.cubin" # with the flags of cuda/sources.cmake
            yield arch, run(nvcc, "-std=c++17", "-O3", "-fmad=false", "-ftz=false", "-I.", "-Xptxas", "-v", f"-arch=sm_{arch}", "-cubin",
                            "-o", cubin, f"cuda/{kernel}.cu"), cubin


def report(args):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not args.built and not os.access(nvcc, os.X_OK):
        raise Unusable("no nvcc")
    limits = read_limits(args.limits.read_text())
    args.out.mkdir(parents=True, exist_ok=True)
    nvdisasm, missing = find_nvdisasm(nvcc)
    measured = {}
    for arch, said, cubin in compiled(args, nvcc):
        code = instructions(run(nvdisasm, "-hex", "-c", cubin)) if nvdisasm else {}
        for kernel, found in resources(said, arch).items():
            if nvdisasm and kernel not in code and not args.built:
                raise Unusable(f"nvdisasm shows no kernel {kernel}")
            measured[kernel, arch] = {**measured.get((kernel, arch), {}), **found, **(measure(code[kernel]) if kernel in code else {})}
    if not measured:
        raise Unusable("nothing was compiled")
    lines = ["| sm | kernel | " + " | ".join(MEASURES) + " |", "|" + "---|" * (2 + len(MEASURES))]
    for (kernel, arch), found in sorted(measured.items(), key=lambda item: (item[0][1], item[0][0])):
        lines.append(f"| {arch} | {kernel} | " + " | ".join(str(found.get(name, "?")) for name in MEASURES) + " |")
    (args.out / "report.md").write_text("\n".join(lines) + "\n")
    problems = list(judge(measured, limits))
    print("\n".join([*lines, *(f"cuda_report: {problem}" for problem in problems)]))
    if missing:
        print(f"machine code SKIPPED: {missing}")
    print(f"{len(measured)} kernels, {len(limits)} limits, {len(problems)} exceeded")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", metavar="LIST", default="75,80,90,100,120")
    parser.add_argument("--built", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--out", metavar="FOLDER", type=pathlib.Path, default=ROOT / "build/cuda-report")
    parser.add_argument("--limits", metavar="FILE", type=pathlib.Path, default=LIMITS)
    args = parser.parse_args()
    for name in ("out", "built", "limits"):
        setattr(args, name, getattr(args, name) and getattr(args, name).resolve())
    try:
        return report(args)
    except Unusable as error:
        print(f"cuda_report: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
