"""Machine code of NVIDIA GPUs as `nvdisasm -hex` or `cuobjdump -sass` print it: instructions with their control bits, the
graph of their blocks, and its loops. scripts/sass_measure.py measures kernels with it, scripts/sass_gate.py judges them.

Since Volta an instruction has 128 bits, and the compiler says in 21 of them how it is scheduled. The layout is published:
Z. Jia, M. Maggioni, B. Staiger, D. Scarpazza, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking",
arXiv 1804.06826, section 2.1; it has stayed the same on every architecture since. From bit 105 on:

    4  stall    cycles until the warp's next instruction may issue
    1  yield    no concern here
    3  write    the scoreboard, 0 to 5, that is raised until the result is there; 7: none
    3  read     the scoreboard that is raised until the operands have been read; 7: none
    6  wait     the scoreboards that must be down before this instruction issues
    4  reuse    no concern here

A scoreboard is a counter: each instruction that raises it adds one, and a wait is for zero. So a wait is for all loads that
share the scoreboard, whichever of them was meant. DEPBAR.LE waits until at most so many are left.
"""
import re

LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\*\s*0x([0-9a-f]{16})\s*\*/")
HIGH = re.compile(r"^\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
WORDS = re.compile(r"^(?:@(!?U?P[T0-9]+)\s+)?([A-Z][\w.]*)\s*(.*)$")
LABEL = re.compile(r"^(\.L_\w+):")
FUNCTION = re.compile(r"^\s*(?:Function : |\.text\.)([\w$]+):?\s*$")
TARGET = re.compile(r"`\((\.L_\w+)\)|\b0x([0-9a-f]+)\s*$")
SCOREBOARDS = range(6)
# CALL.REL.NOINC, guarded, is how sm_80 leaves some loops; other calls come back.
JUMPS = ("BRA", "JMP", "UBRA", "CALL")
TABLES = ("BRX", "BRXU")  # to one of several places, which nvdisasm names


class Instruction:
    """One instruction. `write` and `read` are scoreboards or None; `wait` is a tuple of them; `left`, for DEPBAR, how many
    may be left on its scoreboard; `to` is where it may jump, an address, or a label until the whole function was read; `table` are
    such places, where there are several."""

    __slots__ = ("address", "guard", "opcode", "root", "operands", "stall", "write", "read", "wait", "left", "to", "table")

    def __init__(self, address, text, high):
        guard, self.opcode, self.operands = WORDS.match(text).groups()
        self.address, self.guard = address, None if guard in (None, "PT", "UPT") else guard
        self.root = self.opcode.split(".")[0]
        self.stall, self.write, self.read, self.wait = control(high)
        self.left, self.to, self.table = 0, None, ()
        if self.opcode.startswith("DEPBAR.LE"):
            board, left = re.match(r"SB(\d)\s*,\s*(0x[0-9a-f]+|\d+)", self.operands).groups()
            self.wait, self.left = (*(b for b in self.wait if b != int(board)), int(board)), int(left, 0)
        elif self.root in (*JUMPS, "BSSY"):
            target = TARGET.search(self.operands)
            if target:
                self.to = target.group(1) or int(target.group(2), 16)
        elif self.root in TABLES:
            self.table = tuple(re.findall(r"\.L_\w+", self.operands))

    @property
    def loads(self):
        """It reads global memory, or memory of an unknown kind, into registers; or it stands for the copies to shared memory
        before it, which have no scoreboard of their own."""
        return self.root in ("LDG", "LD", "LDGDEPBAR")

    @property
    def stores(self):
        return self.root in ("STG", "ST")

    @property
    def bytes(self):
        """Of memory that a lane accesses."""
        for word, size in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1), (".16", 2), (".8", 1)):
            if word in self.opcode:
                return size
        return 4


def control(high):
    """(stall, write, read, wait) of the upper 64 bits of an instruction."""
    bits = high >> 41
    write, read, wait = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
    return bits & 15, None if write == 7 else write, None if read == 7 else read, tuple(b for b in SCOREBOARDS if wait >> b & 1)


def parse(text):
    """{function: [Instruction, ...]} of a listing with encodings; an instruction without its second word is an error."""
    functions, labels, pending, here = {}, {}, None, None
    for number, line in enumerate(text.split("\n"), 1):
        if pending:
            second = HIGH.match(line)
            if not second:
                raise ValueError(f"line {number}: no upper 64 bits of the instruction before: {line.strip()[:60]!r}")
            here.append(Instruction(*pending, int(second.group(1), 16)))
            pending = None
            continue
        found = FUNCTION.match(line)
        if found:
            here = functions.setdefault(found.group(1), [])
            continue
        found = LABEL.match(line)
        if found:
            labels[found.group(1)] = (id(here), len(here) if here is not None else 0)
            continue
        found = LINE.match(line)
        if found and here is not None:
            pending = int(found.group(1), 16), found.group(2)
    if pending:
        raise ValueError("the listing ends within an instruction")
    for code in functions.values():
        def address(label):
            owner, index = labels.get(label, (None, 0))
            return code[index].address if owner == id(code) and index < len(code) else None
        for one in code:
            one.to = address(one.to) if isinstance(one.to, str) else one.to
            one.table = tuple(map(address, one.table))
    return {name: code for name, code in functions.items() if code}


class Graph:
    """Blocks of a function and its loops.

    blocks       [[Instruction, ...], ...], reachable ones only, in an order in which only jumps back go back
    after        {block: [block, ...]}, and `before`
    dominator    {block: the last block through which every path to it goes}
    loops        [Loop, ...]
    """

    def __init__(self, code):
        first = {one.address: i for i, one in enumerate(code)}
        begins = {0}
        for i, one in enumerate(code):
            begins.update(first[to] for to in (one.to, *one.table) if to in first)
            if one.root in (*JUMPS, *TABLES, "BSYNC", "EXIT", "RET") and i + 1 < len(code):
                begins.add(i + 1)
        begins = sorted(begins)
        block_of = {begin: n for n, begin in enumerate(begins)}
        cut = [code[a:b] for a, b in zip(begins, begins[1:] + [len(code)])]
        leaves, meets = [], {}
        for n, block in enumerate(cut):
            for one in block:
                if one.root == "BSSY":
                    meets[one.operands.split(",")[0]] = one.to
            last, out = block[-1], []
            if last.root in JUMPS and last.to in first and ".DIV" not in last.opcode:
                out.append(block_of[first[last.to]])  # .DIV: a warp whose lanes have parted, which none of ours has
            if last.root == "BSYNC":  # on to where the lanes meet, which BSSY said
                meet = meets.get(last.operands.split(",")[0])
                out.append(block_of[first[meet]] if meet in first else n + 1)
            out += [block_of[first[to]] for to in last.table if to in first]
            if falls_through(last) and n + 1 < len(cut):
                out.append(n + 1)
            leaves.append(sorted(set(m for m in out if m < len(cut))))
        order, seen, stack = [], {0}, [(0, iter(leaves[0]))]
        while stack:
            n, rest = stack[-1]
            for m in rest:
                if m not in seen:
                    seen.add(m)
                    stack.append((m, iter(leaves[m])))
                    break
            else:
                order.append(n)
                stack.pop()
        new = {n: i for i, n in enumerate(reversed(order))}
        self.blocks = [cut[n] for n in reversed(order)]
        self.after = {new[n]: sorted(new[m] for m in leaves[n]) for n in order}
        self.before = {n: [] for n in self.after}
        for n, out in self.after.items():
            for m in out:
                self.before[m].append(n)
        self.dominator = self._dominators()
        self.loops = self._loops()

    def _dominators(self):
        idom, changed = {0: 0}, True
        while changed:
            changed = False
            for n in range(1, len(self.blocks)):
                best = None
                for m in self.before[n]:
                    if m in idom:
                        best = m if best is None else self._meet(idom, best, m)
                if idom.get(n) != best:
                    idom[n], changed = best, True
        return idom

    @staticmethod
    def _meet(idom, a, b):
        while a != b:
            if a > b:
                a = idom[a]
            else:
                b = idom[b]
        return a

    def dominates(self, a, b):
        while b > a:
            b = self.dominator[b]
        return a == b

    def _loops(self):
        found = {}
        for n, out in self.after.items():
            for head in out:
                if head <= n and self.dominates(head, n):
                    body = found.setdefault(head, Loop(head))
                    body.ends.append(n)
                    stack = [n]
                    while stack:
                        m = stack.pop()
                        if m not in body.blocks:
                            body.blocks.add(m)
                            stack.extend(self.before[m])
        loops = sorted(found.values(), key=lambda loop: len(loop.blocks))
        for i, loop in enumerate(loops):
            loop.outer = next((other for other in loops[i + 1:] if loop.blocks < other.blocks), None)
            inner = [other.blocks for other in loops[:i] if other.blocks < loop.blocks]
            loop.own = loop.blocks - set().union(*inner) if inner else set(loop.blocks)
        return loops

    def forward(self, n, region):
        """Blocks of the region that come after n, without jumps back."""
        return [m for m in self.after[n] if m > n and m in region]


class Loop:
    """A loop: its first block, those that jump back to it, all blocks, and those in no loop within it."""

    def __init__(self, head):
        self.head, self.ends, self.blocks, self.own, self.outer = head, [], {head}, set(), None


def falls_through(last):
    if last.root in ("BRA", "JMP", "UBRA"):  # a call comes back
        return last.guard is not None or ".DIV" in last.opcode or bool(re.match(r"!?U?P\d", last.operands))
    if last.root in ("EXIT", "RET", "BSYNC", *TABLES):
        return last.guard is not None
    return True
