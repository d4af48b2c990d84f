#!/usr/bin/env python3
"""Registers and bytes of spills of each CUDA kernel, compared with LIMITS.

    cuda_resources.py FILE    what `nvcc -Xptxas -v` printed; a build with nvcc writes it to <build>/cuda/gdn_cuda.ptxas

The exit status is 1 if a limit is exceeded, or if there are no kernels.
"""
import fnmatch
import pathlib
import re
import sys

LIMITS = (  # kernel, architectures (None: all), registers, bytes of spills; the last row that fits holds. Of nvcc 13.0.
    ("*", None, 255, 0),
    ("delta_decode_4*", None, 128, 420),  # four blocks of 4 warps; 16-bit states and those with a log exceed it
    ("delta_decode_4*", (90,), 128, 170),
    ("delta_rows_general*", (90,), 255, 64),  # heads of other sizes
    ("delta_rows_4", None, 168, 0),  # three blocks of 4 warps per multiprocessor hide the latency of memory
    ("delta_tiles_4*", None, 128, 0),  # two blocks of 8 warps: producers beside consumers
    ("delta_tiles_4*", (75, 80), 128, 340),  # replaying a log exceeds 128 registers
    ("delta_tiles_4*", (90,), 128, 24),
    ("delta_tiles_4_wide*", None, 255, 0),  # one block of 8 warps
)
KERNEL = re.compile(r"Compiling entry function 'gdn_cuda_(\w+)' for 'sm_(\d+)'(.*?Used (\d+) registers)", re.S)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows, exceeded = [], 0
    for name, arch, text, registers in KERNEL.findall(pathlib.Path(sys.argv[1]).read_text()):
        spills = sum(int(n) for n in re.findall(r"(\d+) bytes (?:spill|stack frame)", text))
        most = [row[2:] for row in LIMITS if fnmatch.fnmatchcase(name, row[0]) and (not row[1] or int(arch) in row[1])][-1]
        over = int(registers) > most[0] or spills > most[1]
        exceeded += over
        rows.append(f"sm_{arch:4} {name:40} {registers:>3} registers, {spills:>3} bytes of spills{over * f'; at most {most[0]} and {most[1]}'}")
    print("\n".join([*sorted(rows), f"{len(rows)} kernels, registers and spills of {exceeded} exceed a limit"]))
    return 1 if exceeded or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
