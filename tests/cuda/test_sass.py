#!/usr/bin/env python3
"""scripts/sass*.py on small pieces of machine code: what is measured is what is there, and limits are held.

Each piece is written as STALL WRITE READ WAIT | INSTRUCTION, from which the listing with its encodings is made; two are
recorded as nvdisasm and cuobjdump printed them. At the end the reader and the measures are broken, one mistake after
another, and some expectation has to notice each.
"""
import inspect
import pathlib
import sys
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import sass  # noqa: E402
import sass_gate  # noqa: E402
import sass_measure  # noqa: E402

RECORDED = pathlib.Path(__file__).with_name("sass_recorded.txt")


def listing(piece, name="k"):
    """A listing as nvdisasm's of a piece: labels as they are, 16 bytes per instruction."""
    lines, address = [f".text.{name}:"], 0
    for line in piece.strip().split("\n"):
        line = line.strip()
        if line.endswith(":"):
            lines.append(line)
            continue
        control, text = line.split("|")
        stall, write, read, wait = control.split()
        number = lambda board: 7 if board == "-" else int(board)
        mask = 0 if wait == "-" else sum(1 << int(b) for b in wait)
        high = (int(stall) | 1 << 4 | number(write) << 5 | number(read) << 8 | mask << 11) << 41
        lines += [f"        /*{address:04x}*/                   {text.strip()} ;  /* 0x0000000000007918 */",
                  f"                                              /* 0x{high:016x} */"]
        address += 16
    return "\n".join(lines) + "\n"


def measured(piece, arch=90, tokens=1, each=1):
    return sass_measure.measure(sass.parse(listing(piece))["k"], arch, tokens, each)


# Maps are read, then the state in four loads, one token is computed with, and the next loaded behind the last use of this one.
ROWS = """
    1 - - -  | LDC R1, c[0x0][0x28]
    1 0 - -  | LDG.E.CONSTANT R2, [R4.64]
    4 - - 0  | ISETP.GE.AND P0, PT, R2, RZ, PT
    5 - - -  | @!P0 EXIT
    1 1 - -  | LDG.E.128.CONSTANT R40, [R4.64]
    1 2 - -  | LDG.E.128 R8, [R4.64]
    1 2 - -  | LDG.E.128 R12, [R4.64+0x200]
    1 2 - -  | LDG.E.128 R16, [R4.64+0x400]
    1 2 - -  | LDG.E.128 R20, [R4.64+0x600]
.L_x_0:
    4 - - 12 | FFMA R30, R40, R8, RZ
    4 - - -  | FFMA R30, R41, R12, R30
    4 3 - -  | SHFL.BFLY PT, R31, R30, 0x4, 0x1f
    4 - - 3  | FADD R30, R30, R31
    1 1 - -  | LDG.E.128.CONSTANT R40, [R4.64]
    1 - 4 -  | STG.E [R6.64], R30
    4 - - -  | ISETP.LT.AND P1, PT, R3, R2, PT
    5 - - -  | BRA !P1, `(.L_x_1)
    1 - 4 4  | STG.E.128 [R6.64], R8
    1 - 4 -  | STG.E.128 [R6.64+0x200], R12
    1 - 4 -  | STG.E.128 [R6.64+0x400], R16
    1 - 4 -  | STG.E.128 [R6.64+0x600], R20
.L_x_1:
    5 - - -  | @P0 BRA `(.L_x_0)
    5 - - -  | EXIT
"""

# Tiles: what is loaded ahead is stored to shared memory behind the loop over tokens.
TILES = """
    1 2 - -  | LDG.E R8, [R4.64]
    1 2 - -  | LDG.E R9, [R4.64+0x20]
    1 0 - -  | LDG.E.128.CONSTANT R40, [R6.64]
    1 - 4 0  | STS.128 [R3], R40
    4 - - 2  | LOP3.LUT R8, R8, RZ, RZ, 0xfc, !PT
    5 1 - -  | BAR.SYNC.DEFER_BLOCKING 0x0
.L_x_0:
    1 0 - -  | LDG.E.128.CONSTANT R40, [R6.64]
    4 - - -  | MOV R2, RZ
.L_x_1:
    1 1 - -  | LDS.128 R20, [R3]
    4 - - 1  | FFMA R30, R20, R8, RZ
    4 - - -  | FFMA R30, R21, R9, R30
    4 3 - -  | SHFL.BFLY PT, R31, R30, 0x4, 0x1f
    4 - - 3  | FADD R30, R30, R31
    4 - - -  | IADD3 R2, R2, 0x1, RZ
    5 - - -  | @P0 BRA `(.L_x_1)
    1 - 4 0  | STS.128 [R3], R40
    5 - - 4  | BAR.SYNC.DEFER_BLOCKING 0x0
    5 - - -  | @P1 BRA `(.L_x_0)
    5 - - -  | EXIT
"""

# Strips: copies to shared memory, which a DEPBAR waits for; two tokens in a pass, and a loop behind it that takes what is left,
# one at a time, whose state may be stored.
STRIPS = """
    1 2 - -  | LDG.E R8, [R4.64]
    1 - - -  | LDGSTS.E [R3], [R6.64]
    1 0 - -  | LDGDEPBAR
    1 - - 0  | DEPBAR.LE SB0, 0x0
    4 - - 2  | LOP3.LUT R8, R8, RZ, RZ, 0xfc, !PT
    5 1 - -  | BAR.SYNC.DEFER_BLOCKING 0x0
.L_x_0:
    1 - - -  | LDGSTS.E [R3], [R6.64]
    1 - - -  | LDGSTS.E [R3+0x200], [R6.64]
    1 0 - -  | LDGDEPBAR
.L_x_1:
    1 1 - -  | LDS.128 R20, [R3]
    4 - - 1  | FFMA R30, R20, R8, RZ
    4 3 - -  | SHFL.BFLY PT, R31, R30, 0x4, 0x1f
    4 - - 3  | FADD R30, R30, R31
    1 1 - -  | LDS.128 R20, [R3+0x200]
    4 - - 1  | FFMA R30, R20, R8, RZ
    4 3 - -  | SHFL.BFLY PT, R31, R30, 0x4, 0x1f
    4 - - 3  | FADD R30, R30, R31
    5 - - -  | @P0 BRA `(.L_x_1)
    5 - - -  | @P3 BRA `(.L_x_3)
.L_x_2:
    1 1 - -  | LDS.128 R20, [R3]
    4 - - 1  | FFMA R30, R20, R8, RZ
    4 3 - -  | SHFL.BFLY PT, R31, R30, 0x4, 0x1f
    4 - - 3  | FADD R30, R30, R31
    1 - 4 -  | STG.E [R6.64], R8
    5 - - 4  | @P2 BRA `(.L_x_2)
.L_x_3:
    1 - - 0  | DEPBAR.LE SB0, 0x0
    5 - - -  | BAR.SYNC.DEFER_BLOCKING 0x0
    5 - - -  | @P1 BRA `(.L_x_0)
    5 - - -  | EXIT
"""

# Warps that prepare: a loop of its own with a barrier, whose chain is longer than that of the tokens of a tile.
ASIDE = TILES.replace("1 2 - -  | LDG.E R8", "5 - - -  | @P5 BRA `(.L_x_5)\n    1 2 - -  | LDG.E R8").rstrip() + """
.L_x_5:
    1 0 - -  | LDG.E.128.CONSTANT R40, [R6.64]
    4 - - 0  | IADD3 R6, R40, R6, RZ
    1 0 - -  | LDG.E.128.CONSTANT R40, [R6.64]
    4 - - 0  | FFMA R30, R40, R8, RZ
    9 3 - -  | MUFU.EX2 R30, R30
    15 3 - 3 | MUFU.EX2 R30, R30
    5 - - -  | @P2 BRA `(.L_x_6)
    15 3 - 3 | MUFU.EX2 R30, R30
    15 3 - 3 | MUFU.EX2 R30, R30
.L_x_6:
    5 - - 3  | BAR.SYNC.DEFER_BLOCKING 0x0
    5 - - -  | @P4 BRA `(.L_x_5)
    5 - - -  | EXIT
"""

# A jump to one of two places that a table has.
TABLE = ROWS.replace("    4 - - 12 | FFMA R30, R40, R8, RZ", """    5 - - -  | BRX R2 -0x40 (*"BRANCH_TARGETS .L_x_8,.L_x_9"*)
    4 - - -  | FFMA R30, R40, R8, RZ
.L_x_8:
    4 - - 12 | FFMA R30, R40, R8, RZ
    5 - - -  | BRA `(.L_x_7)
.L_x_9:
    4 - - 12 | FFMA R30, R40, R8, RZ
    4 - - -  | FFMA R30, R40, R8, RZ
.L_x_7:""")


def change(piece, old, new, count=1):
    """A piece with one line's text changed; the line must be there."""
    if old not in piece:
        raise KeyError(old)
    return piece.replace(old, new, count)


# The defects, and what each must be seen by.
WAITS_BETWEEN = change(ROWS, "1 2 - -  | LDG.E.128 R16", "1 2 - 2  | LDG.E.128 R16")        # two, a wait, two
FOR_THE_TOKEN = change(ROWS, "1 2 - -  | LDG.E.128 R8", "1 2 - 1  | LDG.E.128 R8")          # the state behind the token
CONVERTED = change(ROWS, "1 - 4 -  | STG.E [R6.64], R30", "4 - - 1  | SHL R40, R40, 0x10\n    1 1 - -  | LDG.E.64 R42, [R4.64]")
SHARED_BOARD = change(TILES, "4 - - 1  | FFMA R30, R20", "4 - - 01 | FFMA R30, R20")        # waits for what is loaded ahead
LE_BOARD = change(TILES, "4 - - 1  | FFMA R30, R20", "4 - - 1  | FFMA R30, R20, R8, R8\n    2 - - - | DEPBAR.LE SB0, 0x0\n    4 - - - | FFMA R30, R20")
LEFT_BY_CALL = change(TILES, "5 - - -  | @P0 BRA `(.L_x_1)", "5 - - -  | @P2 CALL.REL.NOINC `(.L_x_2)\n    5 - - -  | BRA `(.L_x_1)\n.L_x_2:")  # as on sm_80
SPILLED = change(ROWS, "4 - - -  | FFMA R30", "4 5 - -  | LDL R50, [R1]\n    4 - - 5  | FFMA R30")

EXPECTED = (
    ("rows", ROWS, {"in_flight": 5, "bytes": 80, "start_trips": 2, "token_trips": 1, "local": 0, "start": 9, "token": 9,
                    "token_arithmetic": 3, "token_exchange": 1, "token_global": 2}),
    ("the state in two steps", WAITS_BETWEEN, {"in_flight": 3, "bytes": 48, "start_trips": 3, "token_trips": 1}),
    ("the state behind the token", FOR_THE_TOKEN, {"in_flight": 4, "bytes": 64, "start_trips": 3}),
    ("converted where it is loaded", CONVERTED, {"token_trips": 2}),
    ("tiles", TILES, {"prefetch_waits": 0, "tile_trips": 1, "token": 7 + 5 / 8, "staging": 5 / 8, "token_shared": 1 + 1 / 8}),
    ("a scoreboard in common", SHARED_BOARD, {"prefetch_waits": 1}),
    ("a loop that is left by a call", LEFT_BY_CALL, {"tile_trips": 1, "token": 7 + 5 / 8 + 1, "prefetch_waits": 0}),
    ("DEPBAR", LE_BOARD, {"prefetch_waits": 1}),
    ("a spill", SPILLED, {"local": 1}),
    ("a table of jumps", TABLE, {"in_flight": 5, "start_trips": 2, "token_trips": 1, "token": 11, "token_arithmetic": 4}),
    ("a wait within the token for what it loads ahead", change(ROWS, "    5 - - -  | @P0 BRA `(.L_x_0)", "    4 - - 1  | MOV R50, R40\n    5 - - -  | @P0 BRA `(.L_x_0)"),
     {"start_trips": 2, "token_trips": 1}),
    ("warps that prepare", ASIDE, {"aside": 11 / 8, "token": 7 + 5 / 8, "tile_trips": 1}),
)
LIMITED = """
k * bytes >= 80 # all at once
k 90 token_trips <= 1
j * token_trips <= k # as the other
"""


def expectations():
    """Sentences on what is not as it must be."""
    for name, piece, want in EXPECTED:
        have = measured(piece, tokens=8 if "BAR.SYNC" in piece else 1)
        for key, value in want.items():
            if have.get(key) != value:
                yield f"{name}: {key} is {have.get(key)}, and should be {value}"
    yield from strips()
    # They are waited for: twice 500 cycles for a load, five times 18 and more, and the barrier, in each tile of 8 tokens.
    waits = measured(ASIDE.replace("1 0 - -  | LDG.E.128.CONSTANT R40, [R6.64]\n    4 - - -  | MOV", "4 - - -  | MOV"), tokens=8)
    if not 1100 < 8 * waits["cycles_1"] < 1200:
        yield f"a tile whose warps wait for others takes {8 * waits['cycles_1']} cycles"
    alone, together = (measured(p, tokens=8) for p in (TILES, SHARED_BOARD))
    if not together["cycles_1"] > alone["cycles_1"] + 40:
        yield f"a wait for 500 cycles in each tile of 8 costs {together['cycles_1'] - alone['cycles_1']} cycles a token"
    if not alone["cycles_1"] < alone["cycles_2"] < 2 * alone["cycles_1"]:
        yield f"one warp takes {alone['cycles_1']} cycles a token, two {alone['cycles_2']}"
    limits, _ = sass_gate.read_limits(LIMITED)
    both = {("k", 90): measured(ROWS), ("j", 90): measured(CONVERTED)}
    said = list(sass_gate.judge(both, limits))
    if len(said) != 1 or "j on sm_90: token_trips is 2" not in said[0]:
        yield f"of two kernels of which one waits twice the gate says {said}"
    said = list(sass_gate.judge({("k", 90): measured(WAITS_BETWEEN)}, limits))
    if len(said) != 2 or "no kernel is called j" not in said[0] or "all at once" not in said[1]:
        yield f"of a kernel whose loads wait, and one that is missing, the gate says {said}"
    for text in ("k * nonsense <= 1", "k * bytes = 1", "k bytes <= 1"):
        try:
            sass_gate.read_limits(text)
            yield f"the limit '{text}' is taken"
        except sass_gate.Wrong:
            pass
    try:
        sass.parse(listing(ROWS).rsplit("\n", 2)[0])
        yield "an instruction without its upper half is taken"
    except ValueError:
        pass
    yield from recorded()


def strips():
    """Of 8 tokens, two in a pass: what is in the passes, in the copies, and not in the loop that takes what is left."""
    have = measured(STRIPS, tokens=8, each=2)
    want = {"token": (4 * 9 + 3 + 4) / 8, "token_shared": 1, "token_exchange": 1, "token_arithmetic": 2, "token_global": 2 / 8, "staging": 7 / 8,
            "tile_trips": 1, "prefetch_waits": 0, "start_trips": 1}
    for key, value in want.items():
        if have.get(key) != value:
            yield f"strips: {key} is {have.get(key)}, and should be {value}"
    # Two warps that both wait for the unit of exchanges take turns: passes take as long as one another, twice as long as one warp's.
    loop = [one for one in sass.parse(listing(STRIPS))["k"] if one.root == "SHFL"] * 8
    one, two = (sass_measure.run([[loop] * 3], 90, warps) for warps in (1, 2))
    if not all(1.9 < b / a < 2.1 for a, b in zip(one, two)):
        yield f"passes of two warps take {two} cycles, and of one {one}"
    # 16 bytes for each lane are four requests of shared memory, an exchange is one.
    loads = [one for one in sass.parse(listing(STRIPS))["k"] if one.root == "LDS"]
    wide, narrow = (sass_measure.run([[part * (64 // len(part))] * 3], 90, 2)[2] for part in (loads, loop[:len(loop) // 8]))
    if not 3.8 < wide / narrow < 4.2:
        yield f"passes of loads take {wide} cycles, and {narrow} of as many exchanges"


def recorded():
    """The two recorded listings, of one kernel: the same instructions with the same control bits."""
    first, second = (sass.parse(part) for part in RECORDED.read_text().split("=== cuobjdump\n"))
    (name, code), (_, other) = *first.items(), *second.items()
    plain = lambda one: (one.address, one.opcode, one.stall, one.write, one.read, one.wait, one.to)
    if [*map(plain, code)] != [*map(plain, other)]:
        yield f"{name} is not the same in nvdisasm's listing and cuobjdump's"
    controls = {one.address: (one.stall, one.write, one.read, one.wait) for one in code}
    for address, control in RECORDED_CONTROL.items():
        if controls.get(address) != control:
            yield f"the recorded instruction at {address:#x} has the control bits {controls.get(address)}, and not {control}"
    have = sass_measure.measure(code, 90)
    for key, value in RECORDED_WANT.items():
        if have.get(key) != value:
            yield f"the recorded kernel: {key} is {have.get(key)}, and should be {value}"


# Before the jump that needs its result, the multiplication's 12 cycles; a load; what waits for it.
RECORDED_CONTROL = {0x70: (12, None, None, (1,)), 0x100: (4, 2, None, ()), 0x150: (1, None, None, (2,))}
RECORDED_WANT = {"local": 0, "in_flight": 2, "bytes": 8, "start_trips": 1, "token_trips": 1, "token": 11, "token_arithmetic": 2, "token_global": 2,
                 "token_rest": 7}
CONTROL, PATH, INIT = sass.control, sass_measure.Kernel.path, sass.Instruction.__init__


def no_depbar(self, address, text, high):
    INIT(self, address, text, high)
    if self.root == "DEPBAR":
        self.wait = ()


def another_run(old, new):
    """sass_measure.run with something else in its text."""
    text = inspect.getsource(sass_measure.run)
    if old not in text:
        raise KeyError(old)
    names = dict(vars(sass_measure))
    exec(text.replace(old, new), names)
    return names["run"]


MEASURE, TAKEN = sass_measure.measure, sass_measure.taken
BREAK = {
    "copies to shared memory are not waited for": (sass.Instruction, "loads", property(lambda one: one.root in ("LDG", "LD"))),
    "a pass of two tokens is taken for one": (sass_measure, "measure", lambda code, arch, tokens=1, each=1: MEASURE(code, arch, tokens, 1)),
    "wide loads are one request": (sass_measure, "taken", lambda one, arch: (TAKEN(one, arch)[0], min(4, TAKEN(one, arch)[1]))),
    "what is left of a tile is on every tile's path": (sass_measure.Kernel, "_other_tokens", lambda self: set()),
    "the warp that is ahead goes on": (sass_measure, "run", another_run("(when, met[w], at[w]) < best[:3]", "(when, -at[w]) < (best[0], -best[2])")),
    "warps do not wait for others": (sass_measure, "run", another_run("met[w] += 1", "pass")),
    "other warps are not known": (sass_measure.Kernel, "_aside", lambda self: None),
    "tables of jumps lead nowhere": (sass, "TABLES", ()),
    "what a token loads ahead is a part of the start": (sass_measure.Kernel, "start_trips", lambda self: self.trips(
        [self.start + self.first + self.body + self.last])[0]),
    "scoreboard 0 is never waited for": (sass, "control", lambda high: (*CONTROL(high)[:3], tuple(b for b in CONTROL(high)[3] if b))),
    "scoreboard 2 is never waited for": (sass, "control", lambda high: (*CONTROL(high)[:3], tuple(b for b in CONTROL(high)[3] if b != 2))),
    "calls lead nowhere": (sass, "JUMPS", ("BRA", "JMP", "UBRA")),
    "all waits are one bit off": (sass, "control", lambda high: CONTROL(high)[:3] + (tuple((b + 1) % 6 for b in CONTROL(high)[3]),)),
    "write and read scoreboards are mixed up": (sass, "control", lambda high: tuple(CONTROL(high)[n] for n in (0, 2, 1, 3))),
    "stall counts are read a bit too low": (sass, "control", lambda high: (CONTROL(high)[0] >> 1, *CONTROL(high)[1:])),
    "a wait leaves its loads outstanding": (sass_measure.Waiting, "step", lambda self, one: []),
    "a DEPBAR is no wait": (sass.Instruction, "__init__", no_depbar),
    "loads of global memory are not known": (sass.Instruction, "loads", property(lambda one: one.root == "LD")),
    "the path goes through stores": (sass_measure.Kernel, "path", lambda self, region, start, ends, worth: PATH(
        self, region, start, ends, lambda n: tuple(-x for x in worth(n)))),
    "local memory is not known": (sass_measure, "LOCAL", ()),
    "jumps back are overlooked": (sass.Graph, "_loops", lambda self: []),
    "limits hold the other way round": (sass_gate, "judge", lambda measured, limits: []),
}


def main():
    problems = list(expectations())
    for problem in problems:
        print(f"test_sass: {problem}")
    for name, (where, what, broken) in BREAK.items() if not problems else ():
        with mock.patch.object(where, what, broken):
            try:
                noticed = any(expectations())
            except Exception:  # a reader so broken that it stops is noticed, too
                noticed = True
        if not noticed:
            problems.append(name)
            print(f"test_sass: nothing notices that {name}")
    print(f"{len(EXPECTED)} pieces of machine code, {len(BREAK)} mistakes, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
