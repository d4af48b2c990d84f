"""What a kernel's machine code says of its speed, without a GPU: scripts/sass.py's graph, measured.

Paths. A kernel's loop over tokens is the innermost one with the most exchanges between lanes, for kernels without exchanges
the one with the most arithmetic; it has fused multiply-adds, or is none. Where it lies in a loop over tiles of tokens (the next one out with a barrier) that is
measured, too. Through either we follow the path with the most work (arithmetic, exchanges, accesses of shared memory), of those the one
with the most loads of inputs, of those the shortest: a token that stores no state, with the most costly type and form of the
gates. Before the loop it is the path that loads the most state, and of those the one that waits most often.

Round trips. Loads that are issued before any of them is waited for share one; a load that is issued after another's wait
needs one more. A wait is one for a scoreboard that a load of global memory has raised and nothing waited for since.

Cycles. Warps of one scheduler, in order: stall counts, scoreboards, and how long a unit is taken. What is not in the code is
assumed (LATENCY, `taken`), after arXiv 1804.06826 and arXiv 2402.13499; caches, bank conflicts and instruction fetch are
not modelled. Of several warps that could go on the one that is behind does, so that no pass is measured while the others have
finished. An estimate, to compare two versions of a kernel by, and no measurement.
"""
from sass import Graph

LATENCY = {"LDG": 500, "LD": 500, "LDGDEPBAR": 500, "LDS": 30, "SHFL": 25, "LDL": 40, "LDGSTS": 500, "BAR": 20}  # of what raises a scoreboard
OTHER_LATENCY, OPERANDS_READ = 18, 14
ARITHMETIC = ("FFMA", "FMUL", "FADD", "FFMA2", "FMUL2", "FADD2", "FFMA32I", "FMUL32I", "FADD32I")
CLASSES = ("arithmetic", "exchange", "shared", "global", "rest")
SHARED = ("LDS", "STS", "LDSM", "ATOMS")
GLOBAL = ("LDG", "STG", "LD", "ST", "LDGSTS", "RED", "ATOMG", "ATOM")
LOCAL = ("LDL", "STL")
FMA_LIKE = ARITHMETIC + ("IMAD", "FSEL", "FSETP")
FREE = ("BRA", "EXIT", "BSSY", "BSYNC", "NOP", "WARPSYNC", "DEPBAR", "LDGDEPBAR", "BAR", "S2R", "YIELD")


def kind(one):
    if one.root in ARITHMETIC:
        return "arithmetic"
    if one.root == "SHFL":
        return "exchange"
    return "shared" if one.root in SHARED else "global" if one.root in GLOBAL else "rest"


class Waiting:
    """What is on its way while instructions are walked through: for each scoreboard its loads, each as (round trips that had
    been waited for when it was issued, bytes); and how many round trips have been waited for in all."""

    def __init__(self):
        self.boards, self.trips = [[] for _ in range(6)], 0

    def step(self, one):
        """Returns the loads that this instruction waits for."""
        waited = []
        for board in one.wait:
            left = one.left if one.opcode.startswith("DEPBAR") and board == one.wait[-1] else 0
            here = self.boards[board]
            done, self.boards[board] = here[:len(here) - left], here[len(here) - left:]
            waited += done
        if waited:
            self.trips = max(self.trips, 1 + max(trips for trips, _ in waited))
        if one.loads and one.write is not None:
            self.boards[one.write].append((self.trips, one.bytes))
        return waited

    def outstanding(self):
        return [load for board in self.boards for load in board]


class Kernel:
    """A kernel's graph and what is found in it: `token` and `tile` are its loops, or None; `start`, `first`, `body` and `last` the
    instructions on the path to the loops, in a tile before and behind its tokens, and in a token."""

    def __init__(self, code):
        self.graph = Graph(code)
        self.token = self._token_loop()
        self.tile = None
        loop = self.token.outer if self.token else None
        while loop and not self.tile:
            if self._count(loop.own, lambda one: one.root == "BAR"):
                self.tile = loop
            loop = loop.outer
        self.start, self.first, self.body, self.last, self.aside = [], [], [], [], []
        if self.token:
            self._paths()
        if self.tile:
            self._aside()

    def _count(self, blocks, test):
        return sum(test(one) for n in blocks for one in self.graph.blocks[n])

    def _token_loop(self):
        count = lambda loop, *roots: self._count(loop.own, lambda one: one.root in roots)
        loops = [loop for loop in self.graph.loops if count(loop, "FFMA", "FFMA2")]
        return max(loops, key=lambda loop: (count(loop, "SHFL"), count(loop, *ARITHMETIC)), default=None)

    def _other_tokens(self):
        """Blocks of loops in the one over tiles that take tokens, too, but fewer at a time: those whose state is stored, or the
        last one of an odd number."""
        inner = [loop.blocks for loop in self.graph.loops if loop.blocks < self.tile.blocks and not self.token.blocks & loop.blocks]
        return set().union(*(blocks for blocks in inner if self._count(blocks, lambda one: one.root == "SHFL")))

    def _paths(self):
        blocks, loop = self.graph.blocks, self.tile or self.token
        exchanges = self._count(self.token.own, lambda one: one.root == "SHFL")

        def work(n):
            maps = exchanges and n in self.token.blocks  # what is loaded there in less than 8 bytes are maps
            return (sum(kind(one) in ("arithmetic", "exchange", "shared") or one.root == "LDGSTS" for one in blocks[n]),
                    sum(one.loads and (one.bytes >= 8 or not maps) for one in blocks[n]), -len(blocks[n]))

        def state(n):
            plain = sum(one.bytes for one in blocks[n] if one.loads and ".CONSTANT" not in one.opcode)
            wide = sum(one.bytes for one in blocks[n] if one.loads and one.bytes == 16 and ".CONSTANT" not in one.opcode)
            return wide, plain, sum(bool(one.wait) for one in blocks[n]), *work(n)

        flat = lambda path: [one for n in path for one in blocks[n]]
        body = self.path(self.token.blocks, self.token.head, self.token.ends, work)
        self.body = flat(body)
        if self.tile:
            before = {n for n in self.tile.blocks - self.token.blocks if n < self.token.head} | {self.token.head}
            to = self.path(before, self.tile.head, [self.token.head], work)
            behind = {n for n in self.tile.blocks - self.token.blocks - self._other_tokens() if n > self.token.head}
            exits = sorted({m for n in self.token.blocks for m in self.graph.after[n] if m in behind})
            paths = [self.path(behind, n, self.tile.ends, work) for n in exits]
            rest = max((path for path in paths if path), key=lambda path: sum(work(n)[0] for n in path), default=[])
            self.first, self.last = flat(to[:-1]), flat(rest)
        outside, stack = set(), [n for n in self.graph.before[loop.head] if n not in loop.blocks]
        ends = list(stack)
        while stack:
            n = stack.pop()
            if n not in outside:
                outside.add(n)
                stack.extend(self.graph.before[n])
        self.start = flat(self.path(outside, 0, ends, state))

    def _aside(self):
        """What other warps of a block do meanwhile: the loop with a barrier that has no part in the one over tiles. Of its
        branches the most work."""
        work = lambda n: (len(self.graph.blocks[n]), 0)
        loops = [loop for loop in self.graph.loops if not loop.blocks & self.tile.blocks and
                 self._count(loop.blocks, lambda one: one.root == "BAR")]
        if loops:
            loop = max(loops, key=lambda loop: len(loop.blocks))
            self.aside = [one for n in self.path(loop.blocks, loop.head, loop.ends, work) for one in self.graph.blocks[n]]

    def path(self, region, start, ends, worth):
        """Blocks of the region from start to one of the ends, those that are worth most in sum, without jumps back."""
        graph, best, came = self.graph, {start: worth(start)}, {}
        for n in sorted(region):
            if n in best:
                for m in graph.forward(n, region):
                    value = tuple(a + b for a, b in zip(best[n], worth(m)))
                    if m not in best or value > best[m]:
                        best[m], came[m] = value, n
        ends = [n for n in ends if n in best]
        if not ends:
            return []
        blocks = [max(ends, key=lambda n: best[n])]
        while blocks[-1] != start:
            blocks.append(came[blocks[-1]])
        return blocks[::-1]

    def trips(self, parts):
        """Round trips until the end of each part, lists of instructions one behind the other."""
        state, until = Waiting(), []
        for part in parts:
            for one in part:
                state.step(one)
            until.append(state.trips)
        return until

    def start_trips(self):
        """Round trips until the first token is computed, or the first tile. Where the compiler has put the wait for what it loads
        ahead behind all that, it is not one of them."""
        state, until = Waiting(), 0
        for one in self.start + self.first + self.body + self.last:
            state.step(one)
            if kind(one) != "rest":
                until = state.trips
        return until

    def in_flight(self):
        """(loads, bytes per lane) on their way when one of them is first waited for: the most on the path to the first token
        and through it."""
        state, best = Waiting(), (0, 0)
        for one in self.start + self.first + self.body:
            loads = state.outstanding()
            if state.step(one):
                best = max(best, (sum(size for _, size in loads), len(loads)))
        return best[1], best[0]

    def prefetch_waits(self):
        """Instructions of a token that wait for what the loop over tiles has loaded ahead."""
        state = Waiting()
        for one in self.last + self.first:
            state.step(one)
        ahead = {board for board, loads in enumerate(state.boards) if loads}
        return sum(bool(ahead & set(one.wait)) for one in self.body)


def taken(one, arch):
    """(unit, cycles for which an instruction takes its scheduler's share of it). A multiprocessor has 128 lanes for float
    arithmetic (64 on sm_80), 64 for integers, and 32 for exchanges and memory, which its four schedulers share."""
    if one.root in FREE:
        return None, 0
    if one.root == "SHFL" or one.root in SHARED or one.root in GLOBAL or one.root in LOCAL:
        return "memory", 4 if one.root == "SHFL" else max(4, one.bytes)
    if one.root in FMA_LIKE:
        return "float", 2 if arch == 80 or one.root == "IMAD" else 1
    return "integer", 2


def facts_of(code, arch):
    return [(one.wait, one.left, one.stall or 1, one.write, one.read, LATENCY.get(one.root, OTHER_LATENCY), *taken(one, arch),
             one.root == "BAR") for one in code]


def run(kinds, arch, blocks):
    """Cycles that each pass takes. `kinds` has a list of passes, each a list of instructions, for every warp that a block has on a
    scheduler, on which so many blocks are. Warps of different kinds wait for one another at barriers, of which a pass has as
    many for each; what is measured is the first kind."""
    programs = [[one for part in passes for one in part] for passes in kinds]
    facts = [facts_of(code, arch) for code in programs]
    ends, n = [], 0
    for part in kinds[0]:
        n += len(part)
        ends.append(n)
    of = [kind for kind in range(len(kinds)) for _ in range(blocks)]
    warps = range(len(of))
    at, ready = [0] * len(of), [0] * len(of)
    boards = [[[] for _ in range(6)] for _ in warps]
    met, came = [0] * len(of), {}  # barriers that a warp has come to, and the last arrival at each of a block's
    units, slot, finished = {None: 0}, 0, [0] * len(ends)
    while True:
        best = None
        for w in warps:
            if at[w] == len(facts[of[w]]):
                continue
            wait, left, _, _, _, _, unit, _, _ = facts[of[w]][at[w]]
            arrivals = came.get((w % blocks, met[w] - 1)) if len(kinds) > 1 and met[w] else None
            if arrivals and len(arrivals) < len(kinds):
                continue  # it waits for the others
            when = max(ready[w], slot, units.get(unit, 0), max(arrivals) if arrivals else 0)
            for board in wait:
                ends_at = boards[w][board]
                keep = left if left and board == wait[-1] else 0
                if len(ends_at) > keep:
                    when = max(when, sorted(ends_at)[len(ends_at) - keep - 1])
            if best is None or (when, met[w], at[w]) < best[:3]:  # of several that could, the one that is behind
                best = when, met[w], at[w], w
        if best is None:
            return [b - a for a, b in zip([0] + finished, finished)]
        when, _, _, w = best
        wait, left, stall, write, read, latency, unit, cycles, meets = facts[of[w]][at[w]]
        for board in wait:
            boards[w][board] = [t for t in boards[w][board] if t > when]
        if write is not None:
            boards[w][write].append(when + latency)
        if read is not None:
            boards[w][read].append(when + OPERANDS_READ)
        ready[w], slot = when + stall, when + 1
        if unit:
            units[unit] = when + cycles
        if meets and len(kinds) > 1:
            came.setdefault((w % blocks, met[w]), []).append(when + LATENCY["BAR"])
            met[w] += 1
        at[w] += 1
        for i, end in enumerate(ends):
            if of[w] == 0 and at[w] == end:
                finished[i] = max(finished[i], when + 1)


def measure(code, arch, tokens=1, each=1):
    """{measure: number} of a kernel; a measure that it has no place for (no loop over tokens, say) is missing. A tile, or a
    pass of a loop without tiles, has so many tokens; a pass of a loop over the tokens of a tile takes `each` of them.

    local           instructions that access local memory: spills, arrays indexed at run time
    in_flight       loads on their way when one of them is first waited for; `bytes` per lane
    start_trips     round trips until the first token is done, or the first tile
    token_trips     round trips of each further pass of a loop over tokens, tile_trips of each further tile
    prefetch_waits  instructions of the loop over tokens that wait for the next tile's loads
    token           instructions of a warp for a token, and of each class: token_arithmetic and so on
    staging         of those outside of the loop over tokens
    start           instructions of a warp before the loop
    cycles_1        estimated cycles per token with one warp per scheduler, cycles_2 with two
    """
    found = {"local": sum(one.root in LOCAL for one in code)}
    kernel = Kernel(code)
    if not kernel.token:
        return found
    found["in_flight"], found["bytes"] = kernel.in_flight()
    body = kernel.body * (tokens // each) if kernel.tile else kernel.body
    one = kernel.first + body + kernel.last
    until = kernel.trips([kernel.start, one, one, one])
    found["start_trips"] = kernel.start_trips()
    found["tile_trips" if kernel.tile else "token_trips"] = until[3] - until[2]
    if kernel.tile:
        found["prefetch_waits"] = kernel.prefetch_waits()
        found["staging"] = len(kernel.first + kernel.last) / tokens
    found["start"], found["token"] = len(kernel.start), len(one) / tokens
    for name in CLASSES:
        found["token_" + name] = sum(kind(i) == name for i in one) / tokens
    kinds = [one] + ([kernel.aside] if kernel.aside else [])
    if kernel.aside:
        found["aside"] = len(kernel.aside) / tokens
    for blocks in (1, 2):
        found[f"cycles_{blocks}"] = run([[code] * 3 for code in kinds], arch, blocks)[2] / tokens
    return found
