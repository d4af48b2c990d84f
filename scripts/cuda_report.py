#!/usr/bin/env python3
"""The table and the verdict of scripts/cuda_report.sh, from the compiler's output in a folder.

    cuda_report.py FOLDER
"""
import fnmatch
import pathlib
import re
import sys

import sass

# Per multiprocessor: registers, warps, blocks, kilobytes of shared memory (CUDA C++ Programming Guide, "Compute Capabilities").
LIMITS = {75: (65536, 32, 16, 64), 80: (65536, 64, 32, 164), 86: (65536, 48, 16, 100), 89: (65536, 48, 24, 100),
          90: (65536, 64, 32, 228), 100: (65536, 64, 32, 228), 103: (65536, 64, 32, 228), 110: (65536, 48, 24, 228), 120: (65536, 48, 24, 100)}
WARPS = 4  # of a block


def resources(text):
    """{kernel: (registers, spilled bytes, stack bytes, shared bytes, warps of a block)} of ptxas -v. Kernels that have warps which
    prepare tokens, as many again, have a barrier with a number, which is not the first."""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", part))
        stack = int(re.search(r"(\d+) bytes stack frame", part).group(1))
        shared = re.search(r"(\d+) bytes smem", part)
        barriers = re.search(r"used (\d+) barriers", part)
        found[name] = (int(re.search(r"Used (\d+) registers", part).group(1)), spills, stack, int(shared.group(1)) if shared else 0,
                       2 * WARPS if barriers and int(barriers.group(1)) > 1 else WARPS)
    return found


def instructions(text):
    """{kernel: {"FFMA": n, ...}} of a listing of nvdisasm."""
    found = {}
    for name, code in sass.parse(text).items():
        ops = [one.opcode for one in code]
        found[name] = {
            "FFMA": sum(op.startswith("FFMA") for op in ops),
            "FMUL": sum(op.startswith("FMUL") for op in ops), "FADD": sum(op.startswith("FADD") for op in ops),
            "loads": sum(op.startswith("LDG") and ".128" in op for op in ops), "stores": sum(op.startswith("STG") and ".128" in op for op in ops),
            "copies": sum(op.startswith("LDGSTS") for op in ops),
            "shared": sum(op.startswith("LDS") and ".128" in op for op in ops), "SHFL": sum(op.startswith("SHFL") for op in ops),
            "local": sum(op.startswith(("LDL", "STL")) for op in ops),
            # MUFU.RCP is part of an integer division; a division of floats has FCHK besides
            "bad": sum(op.startswith("FCHK") or (op.startswith("MUFU") and op != "MUFU.RCP") or
                       (".FTZ" in op and op.startswith(("FFMA", "FMUL", "FADD", "FSETP"))) for op in ops), "all": len(ops),
            "generic": sum(op.startswith(("LD.", "ST.")) for op in ops),
        }
    return found


def occupancy(arch, registers, shared, of_block=WARPS):
    all_registers, warps, blocks, kilobytes = LIMITS.get(arch, LIMITS[90])
    per_warp = -(-registers * 32 // 256) * 256
    per_block = min(all_registers // per_warp // 4 * 4 // of_block, warps // of_block, blocks)
    if shared:
        per_block = min(per_block, kilobytes * 1024 // (shared + 1024))
    return per_block, 100 * per_block * of_block // warps


def known_spills(name, arch):
    """How many accesses of local memory scripts/sass_limits.txt lets this kernel have, which scripts/sass_gate.py counts, too."""
    import sass_gate # which takes resources() and occupancy() from here
    limits, *_ = sass_gate.read_limits(sass_gate.LIMITS.read_text())
    most = [number for pattern, only, measure, sign, number, _ in limits if measure == "local" and sign == "<=" and sass_gate.holds(only, arch)
            and fnmatch.fnmatchcase(name.removeprefix(sass_gate.PREFIX), pattern)]
    return most[-1] if most else 0


def main(folder):
    folder = pathlib.Path(folder)
    problems, rows, with_sass = [], [], False
    for ptxas in sorted(folder.glob("*.ptxas"), key=lambda p: (int(p.stem.rpartition("_")[2]), p.stem)):
        arch = int(ptxas.stem.rpartition("_")[2])
        sass = instructions(ptxas.with_suffix(".sass").read_text())
        for name, (registers, spills, stack, shared, warps) in sorted(resources(ptxas.read_text()).items()):
            blocks, percent = occupancy(arch, registers, shared, warps)
            ops = sass.get(name)
            cells = [f"{ops[key]}" for key in ("FFMA", "FMUL", "FADD", "SHFL", "loads", "stores", "shared", "all")] if ops else ["?"] * 8
            rows.append(f"| {arch} | {name} | {registers} | {spills} | {shared} | {warps} | {blocks} | {percent}% | " + " | ".join(cells) + " |")
            where = f"{name} on sm_{arch}"
            known = known_spills(name, arch) if spills or stack else 0
            if (spills or stack) and not known:
                problems.append(f"{where}: {spills} bytes of spills, {stack} bytes of stack")
            if not ops:
                continue
            with_sass = True
            exact_shape = "delta" in name and "general" not in name
            if "delta" in name and not ops["FFMA"]:
                problems.append(f"{where}: no FFMA")
            # sm_75 has no asynchronous copies: of each there are a load and a store, of 4 bytes.
            # Where types are known at run time, rows come 8 bytes at a time; states of `tiles` come by elements.
            of_types = "tiles" in name and re.search("_(typed|log|half)", name)
            if exact_shape and arch >= 80 and not ops["loads"] and not ops["copies"] and not of_types:
                problems.append(f"{where}: no 128-bit loads, nor asynchronous copies")
            if exact_shape and "rows" in name and not ops["stores"]:
                problems.append(f"{where}: no 128-bit stores")
            if exact_shape and "tiles" in name and not ops["shared"]:
                problems.append(f"{where}: no 128-bit loads of shared memory")
            if ops["local"] > known:
                problems.append(f"{where}: {ops['local']} accesses of local memory")
            if ops["generic"]:
                problems.append(f"{where}: {ops['generic']} accesses of memory of an unknown kind")
            if ops["bad"]:
                problems.append(f"{where}: {ops['bad']} instructions that approximate or flush")
    head = ["# The CUDA kernels as compiled", "", "Made by `scripts/cuda_report.sh`. Instructions are counted in the code, not as executed.",
            "", "| sm | kernel | registers | spilled bytes | shared bytes | warps of a block | blocks per SM | occupancy | FFMA | FMUL | FADD | SHFL | LDG.128 | STG.128 "
            "| LDS.128 | all |", "|" + "---|" * 16]
    (folder / "report.md").write_text("\n".join(head + rows) + "\n")
    print("\n".join(head + rows))
    for problem in problems:
        print(f"cuda_report: {problem}")
    if not rows:
        print("cuda_report: nothing was compiled")
        return 1
    checked = "registers and SASS" if with_sass else "registers (no nvdisasm: SASS was not looked at)"
    print(f"{len(rows)} kernels compiled by nvcc, {checked}, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
