#!/usr/bin/env python3
"""scripts/cuda_report.py on a kernel that is written here: what it reads, and that each kind of limit can be exceeded."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import cuda_report  # noqa: E402

PTXAS = """ptxas info    : Compiling entry function 'gdn_cuda_one' for 'sm_90'
ptxas info    : Function properties for gdn_cuda_one
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'gdn_cuda_two' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 2 barriers
"""
NONE = 7
# Opcode, the scoreboard that it raises, and those that it waits for.
CODE = (("LDG.E.128.CONSTANT", 0, ()), ("@P0 LDG.E.64", 1, ()), ("LDG.E.U16", 0, ()), ("FFMA", NONE, (1,)), ("LDG.E", 2, ()),
        ("FADD.FTZ", NONE, (0, 2)), ("STL", NONE, ()), ("MUFU.RCP", NONE, ()), ("MUFU.EX2", NONE, ()))
failures = []


def listing(code):
    lines = ["\t.text.gdn_cuda_one:"]
    for number, (opcode, write, wait) in enumerate(code):
        schedule = (write << 5 | NONE << 8 | sum(1 << board for board in wait) << 11) << 41
        lines += [f"        /*{16 * number:04x}*/                   {opcode} R0, R2 ;   /* 0x0000000000000000 */",
                  f"                                                   /* 0x{schedule:016x} */"]
    return "\n".join(lines) + "\n"


def require(good, what):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}")


def main():
    resources = cuda_report.resources(PTXAS, 90)
    # 65,536 registers are 16 warps of 128 each. Two barriers are a block of eight warps.
    require(resources["one"] == {"registers": 128, "spilled": 28, "warps": 16}, f"resources: {resources['one']}")
    require(resources["two"] == {"registers": 64, "spilled": 0, "warps": 32} and not cuda_report.resources(PTXAS, 80), "another kernel")
    code = cuda_report.instructions(listing(CODE))["one"]
    measured = cuda_report.measure(code)
    # 16 + 8 + 2 bytes are on their way when the product waits for 8 of them; then 16 + 2 + 4.
    require(measured == {"local": 1, "in_flight": 26, "inexact": 2}, f"machine code: {measured}")
    try:
        cuda_report.instructions(listing(CODE).rpartition("\n  ")[0])
        require(False, "half an instruction is an error")
    except cuda_report.Unusable:
        pass
    both = {("one", 90): {**resources["one"], **measured}}
    for limit, exceeded in (("one * local <= 1", 0), ("one * local <= 0", 1), ("o* 90 in_flight >= 26", 0), ("o* 90 in_flight >= 27", 1),
                            ("* 80 spilled <= 0", 0), ("* * spilled <= 0\none 90 spilled <= 28", 0), ("three * warps >= 1", 1)):
        found = list(cuda_report.judge(both, cuda_report.read_limits(limit)))
        require(len(found) == exceeded, f"{limit}: {found}")
    for wrong in ("one * speed <= 1", "one * local < 1", "one local <= 1", "one * local <= x"):
        try:
            cuda_report.read_limits(wrong)
            require(False, f"'{wrong}' is a limit")
        except cuda_report.Unusable:
            pass
    require(len(cuda_report.read_limits(cuda_report.LIMITS.read_text())) > 10, "the limits of the kernels")
    print(f"cuda_report.py: {len(failures)} problems")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
