#!/usr/bin/env python3
"""Hold the CUDA kernels' machine code to limits: loads that wait for one another, spills, instructions per token.

    sass_gate.py FOLDER                 judge what scripts/cuda_report.sh left there; exit status 1 where a limit is exceeded
    sass_gate.py FOLDER --write FILE    and write the table
    sass_gate.py FOLDER --limits FILE   other limits than those of scripts/sass_limits.txt
    sass_gate.py --tool                 print where nvdisasm is; exit status 1 where it is not

No GPU is needed. nvdisasm is $NVDISASM, one in the PATH or beside nvcc, the one that Python's package triton brings, or the
one that scripts/nvdisasm.sh has put below build-test/. scripts/sass_measure.py says what is measured, and what the estimates leave out.

A line of the limits is KERNEL ARCHITECTURES MEASURE <= NUMBER, or >=, and why; KERNEL is a pattern such as delta_rows_*,
ARCHITECTURES 80,90 or *, which is all from sm_80 on: sm_75 has no asynchronous copies, and is held to lines that name it.
Of several lines for one measure of a kernel the last holds. In the place of NUMBER there may be another kernel's name: no
more than that one. `tokens KERNEL NUMBER` says how many tokens a tile, or a pass of an unrolled loop, has; otherwise it is
one. `tokens KERNEL NUMBER EACH`: and a pass of the loop over a tile's tokens takes EACH. A line for which there is no kernel
is an error.
"""
import argparse
import fnmatch
import importlib.util
import os
import pathlib
import re
import shutil
import sys

import cuda_report
import sass
import sass_measure

LIMITS = pathlib.Path(__file__).resolve().parent / "sass_limits.txt"
FETCHED = LIMITS.parents[1] / "build-test/nvdisasm"  # where scripts/nvdisasm.sh puts it
PREFIX = "gdn_cuda_"
COLUMNS = (("registers", "registers"), ("warps", "warps per SM"), ("spilled", "spilled bytes"), ("local", "local memory"),
           ("in_flight", "loads in flight"), ("bytes", "bytes in flight per lane"), ("start_trips", "round trips to the first token"),
           ("token_trips", "per token"), ("tile_trips", "per tile"), ("prefetch_waits", "waits for what is loaded ahead"),
           ("token", "instructions per token"), ("token_arithmetic", "arithmetic"), ("token_exchange", "exchanges"),
           ("token_shared", "shared"), ("token_global", "global"), ("token_rest", "rest"), ("staging", "of these for tiles"),
           ("aside", "of a warp that prepares"), ("cycles_1", "cycles per token, 1 warp"), ("cycles_2", "2 warps"))
HEAD = """# The CUDA kernels' machine code

Made by `sh scripts/cuda_report.sh --arch 80,90,100,120 --table docs/backends/cuda-machine-code.md` from what {nvcc} compiled.
**All figures are read from machine code; no GPU has run it.** Cycles are estimates of an in-order model with assumed latencies,
to compare versions of a kernel by. `scripts/sass_measure.py` says how each is found, and `scripts/sass_limits.txt` which of
them must not get worse.

A *round trip* is a wait for global memory that nothing else overlaps; loads issued together share one. *Loads in flight* are on their
way when one of them is first waited for. Instructions are a warp's, on the path with the most work through a token that stores no state. *1 warp* and *2
warps* are of each of the four schedulers of a multiprocessor, as in a prefill with 8 and 64 heads of 128 columns on 132
multiprocessors; where there are as many again that prepare tokens, whose instructions are counted apart, these run as well. Bank conflicts, caches and instruction fetch are not modelled. Where a cell is empty there is no such loop, or none
was found.
"""


class Wrong(Exception):
    """A limit that cannot be read."""


def tool():
    """Where nvdisasm is, or None."""
    beside = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").with_name("nvdisasm")
    places = [os.environ.get("NVDISASM"), shutil.which("nvdisasm"), beside]
    package = importlib.util.find_spec("triton")
    for folder in package.submodule_search_locations or () if package else ():
        places.append(pathlib.Path(folder) / "backends/nvidia/bin/nvdisasm")
    places += sorted(FETCHED.glob("**/bin/nvdisasm"))
    return next((str(place) for place in places if place and os.access(place, os.X_OK)), None)


def read_limits(text):
    """([(pattern, architectures or None, measure, sign, number or kernel, why)], [(pattern, tokens, tokens of a pass)])"""
    limits, tokens = [], []
    for number, line in enumerate(text.split("\n"), 1):
        rule, _, why = line.partition("#")
        words = rule.split()
        if not words:
            continue
        if words[0] == "tokens" and len(words) in (3, 4) and all(word.isdigit() for word in words[2:]):
            tokens.append((words[1], *map(int, (*words[2:], 1)[:2])))
        elif len(words) == 5 and words[3] in ("<=", ">="):
            pattern, archs, measure, sign, most = words
            if measure not in dict(COLUMNS):
                raise Wrong(f"line {number}: no measure '{measure}'; there are {', '.join(name for name, _ in COLUMNS)}")
            limits.append((pattern, None if archs == "*" else [int(a) for a in archs.split(",")], measure, sign,
                           float(most) if re.fullmatch(r"[\d.]+", most) else most, why.strip()))
        else:
            raise Wrong(f"line {number}: '{rule.strip()}' is neither KERNEL ARCHITECTURES MEASURE <= NUMBER nor tokens KERNEL NUMBER")
    return limits, tokens


def holds(only, arch):
    """Whether a limit for these architectures, or for None, is one for this one."""
    return arch in only if only else arch >= 80


def judge(measured, limits):
    """Sentences on what {(kernel, architecture): {measure: number}} exceeds."""
    archs, held = {arch for _, arch in measured}, {}
    for pattern, only, measure, sign, most, why in limits:
        fits = [key for key in sorted(measured) if fnmatch.fnmatchcase(key[0], pattern) and holds(only, key[1])]
        if not fits and any(holds(only, arch) for arch in archs):
            yield f"no kernel is called {pattern}, of which there is a limit for {measure}"
        for key in fits:
            held[(*key, measure, sign)] = most, why
    for (name, arch, measure, sign), (most, why) in sorted(held.items(), key=str):
        have, limit, than = measured[name, arch].get(measure), most, ""
        if isinstance(most, str):
            limit, than = measured.get((most, arch), {}).get(measure), f", which is that of {most}"
        if have is None or limit is None:
            yield f"{name} on sm_{arch}: {measure}{than} cannot be told: there is no such kernel or loop; {why}"
        elif have > limit if sign == "<=" else have < limit:
            yield f"{name} on sm_{arch}: {measure} is {have:g}, and has to be {sign} {limit:g}{than}; {why}"


def read(folder, tokens):
    """{(kernel, architecture): {measure: number}} of a folder of cuda_report.sh."""
    measured = {}
    for listing in sorted(folder.glob("*.sass")):
        arch = int(listing.stem.rpartition("_")[2])
        resources = cuda_report.resources(listing.with_suffix(".ptxas").read_text())
        for symbol, code in sass.parse(listing.read_text()).items():
            name = symbol.removeprefix(PREFIX)
            per = next((counts for pattern, *counts in reversed(tokens) if fnmatch.fnmatchcase(name, pattern)), (1,))
            found = sass_measure.measure(code, arch, *(*per, 1)[:2])
            registers, spilled, stack, shared, warps = resources[symbol]
            blocks, _ = cuda_report.occupancy(arch, registers, shared, warps)
            found.update(registers=registers, spilled=spilled + stack, warps=blocks * warps)
            measured[name, arch] = found
    return measured


def table(measured, nvcc):
    lines = [HEAD.format(nvcc=nvcc)]
    for arch in sorted({arch for _, arch in measured}):
        lines += [f"## sm_{arch}", "", "| kernel | " + " | ".join(title for _, title in COLUMNS) + " |", "|" + "---|" * (len(COLUMNS) + 1)]
        for (name, of), found in sorted(measured.items()):
            if of == arch:
                lines.append(f"| {name} | " + " | ".join(f"{round(found[key])}" if key in found else "" for key, _ in COLUMNS) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=pathlib.Path)
    arguments.add_argument("--write", type=pathlib.Path)
    arguments.add_argument("--limits", type=pathlib.Path, default=LIMITS)
    arguments.add_argument("--tool", action="store_true")
    given = arguments.parse_args()
    if given.tool:
        print(tool() or "no nvdisasm: not in $NVDISASM, PATH, beside nvcc, in Python's package triton, or below build-test/")
        return 0 if tool() else 1
    if not given.folder:
        arguments.error("a folder of scripts/cuda_report.sh is needed")
    try:
        limits, tokens = read_limits(given.limits.read_text())
    except Wrong as error:
        print(f"sass_gate: {given.limits}: {error}")
        return 1
    measured = read(given.folder, tokens)
    if given.write:
        version = given.folder / "nvcc"
        given.write.write_text(table(measured, version.read_text().strip() if version.exists() else "nvcc"))
    problems = list(judge(measured, limits)) if measured else ["no machine code was found"]
    for problem in problems:
        print(f"sass_gate: {problem}")
    print(f"machine code of {len(measured)} kernels, {len(limits)} limits, {len(problems)} exceeded")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
