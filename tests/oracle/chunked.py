"""Recomputes a call of the chunked form of gated_delta_net, for oracle.py.

Written from the manual alone: docs/reference/numerics-chunked.md and section 8.8 of include/gdn/gated_delta_net.h.
Comments name their sections. Arrays begin with the value head: [head][token][...], and a state is [head][value][key].
"""
import numpy as np
from oracle import (CHOICES, DTYPES, F32, NONE, Q8_0, SKIP, bits, dot32, elements, exp, f32, f64, fma, parse_float,
                    prepare, ring, slot, token_axes)

CHUNK, BLOCK = 32, 16

# ---- "Lines and digits" ----
class Lines:
    """Vectors along the last axis, with one power of two each: digits[a] is [..., n], factor is [...]."""
    def __init__(self, digits, factor):
        self.digits, self.factor = digits, factor
        self.left = factor * f32(2.0 ** -8) if len(digits) == 2 else factor

    def values(self):
        """What the digits of a state stand for: fl(n[i] * 2^(e-8w+1)), which is n[i] * factor * 2^(8-8w)."""
        n = sum(digit * 256.0 ** -a for a, digit in enumerate(self.digits))  # n[i] * 2^(8-8w), exactly
        return (n * self.factor[..., None].astype(f64)).astype(f32)

def lines(x, count):
    """The lines, with count digits, of the vectors along the last axis of x."""
    most = (bits(x) & np.uint32(0x7fffffff)).max(-1)
    bad = most >= 0x7f800000
    y = most.view(f32) * f32(float.fromhex("0x1.022p0"))
    e = np.maximum((bits(y) >> np.uint32(23)).astype(int) - 126, -104)
    scaled = x * np.ldexp(f32(1), 8 * count - 1 - e)[..., None]
    n = np.where(bad[..., None], 0, np.rint(scaled)).astype(np.int64)
    digits = []
    for _ in range(count - 1):
        digits.insert(0, ((n + 128) & 255) - 128)
        n = (n - digits[0]) >> 8
    assert (np.abs(2 * n + 1) <= 255).all(), "a top digit outside of -128 .. 127"
    factor = np.where(bad, np.uint32(0x7fc00000).view(f32), np.ldexp(f32(1), e - 7)).astype(f32)
    return Lines([digit.astype(f64) for digit in (n, *digits)], factor)

def dot(a, b):
    """dot(a, b) of each line of a with each line of b: [head][lines of a][lines of b]."""
    other = [digit.swapaxes(-1, -2) for digit in b.digits]
    z = [sum(a.digits[p] @ other[m - p] for p in range(m + 1)).astype(f32) for m in range(len(other))]  # exact integers
    if len(z) == 2:
        return fma(f32(256), z[0], z[1])
    return fma(f32(2.0 ** -8), fma(f32(2.0 ** -8), z[2], z[1]), z[0])

def dot_factor(a, b):
    """fl(dot(a, b) * factor_b)."""
    return dot(a, b) * b.factor[:, None, :]

def prod(a, b):
    return dot_factor(a, b) * a.left[:, :, None]

# ---- "Gates" ----
def steps(g):
    exact = 2.0 ** 30 * np.where(g <= 0, np.maximum(g, -100), 0).astype(f64)  # a comparison with a NaN is false
    return np.rint(exact).astype(np.int64)

def dec(distance):
    """The decay of a sum of steps."""
    distance = np.maximum(distance, -2 ** 37)
    low = (distance & 65535).astype(f32) * f32(2.0 ** -30)
    return exp(fma((distance >> 16).astype(f32), f32(2.0 ** -14), low))

class Gates:
    """The gates g[head][token][1 or key] of a chunk's tokens so far."""
    def __init__(self, g):
        self.step, spoiled = steps(g), np.logical_or.accumulate(~(g <= 0), axis=1)
        self.sum = np.cumsum(self.step, axis=1)
        self.gam = np.where(spoiled, f32(np.nan), dec(self.sum))

    def between(self, later, earlier):
        """dec(G_later - G_earlier) of tokens; 1 where that is not later."""
        return dec(np.minimum(self.sum[:, later] - self.sum[:, earlier], 0))

# ---- "A chunk, a gate per head", "A gate per key channel" ----
class Chunk:
    """An open chunk: the state before it, its lines, and the entries k, d, g of its tokens so far."""
    def __init__(self, state, state_lines, count, per_channel):
        self.state, self.lines, self.count, self.per_channel = state, state_lines, count, per_channel
        hv, dv, dk = state.shape
        self.k, self.d, self.g = (np.empty((hv, 0, n), f32) for n in (dk, dv, dk if per_channel else 1))

    def append(self, k, d, g):
        """Appends entries of the log. d may be absent."""
        self.k, self.g = np.concatenate([self.k, k], axis=1), np.concatenate([self.g, g], axis=1)
        self.d = self.d if d is None else np.concatenate([self.d, d], axis=1)

    def outputs(self, q, k, r, v, g, beta, scale):
        """Appends tokens. The result is out, before it is rounded to its type."""
        old = self.k.shape[1]
        self.append(k, None, g)
        gates, size = Gates(self.g), self.k.shape[1]
        gam = gates.gam[:, old:]
        if self.per_channel:
            a, p = self.weights_per_channel(gates, old, q, r, beta)
            r, q, gam = lines(r * gam, self.count), lines(q * gam, self.count), f32(1)
        else:
            r, q, keys = (lines(x, self.count) for x in (r, q, self.k))
            decay = gates.between(np.arange(old, size)[:, None], np.arange(size)[None])[..., 0]
            a, p = prod(r, keys) * beta * decay, prod(q, keys) * decay
        x = beta * fma(-(gam * r.left[..., None]), dot_factor(r, self.lines), v)
        o = (gam * q.left[..., None]) * dot_factor(q, self.lines)
        for s in range(size):  # each token takes the entries before it in their order
            d = x[:, s - old] if s >= old else self.d[:, s]
            t, after = max(s - old, 0), max(s + 1 - old, 0)
            x[:, after:] = fma(-a[:, after:, s, None], d[:, None], x[:, after:])
            o[:, t:] = fma(p[:, t:, s, None], d[:, None], o[:, t:])
        self.d = np.concatenate([self.d, x], axis=1)
        return scale * o

    def weights_per_channel(self, gates, old, q, r, beta):
        """A and P: [head][new token][token]. Those of tokens that are not before the new one are not used."""
        size, middle = self.k.shape[1], [BLOCK - 1]
        a, p = np.zeros((2, len(q), size - old, size), f32)
        for first in range(0, size, BLOCK):  # within a block
            w = np.empty((len(q), 0, self.k.shape[2]), f32)
            for t in range(first, min(first + BLOCK, size)):
                w = np.concatenate([w * dec(gates.step[:, t:t + 1]), self.k[:, t:t + 1]], axis=1)
                if t >= old:
                    a[:, t - old, first:t + 1] = dot32(r[:, t - old, None], w)
                    p[:, t - old, first:t + 1] = dot32(q[:, t - old, None], w)
        late = np.arange(max(old, BLOCK), size)
        if len(late):  # of the second block with the first
            early, decay, at = np.arange(BLOCK), gates.between(late, middle), late - old
            keys = lines(self.k[:, early] * gates.between(middle, early), self.count)
            a[:, at, :BLOCK] = prod(lines(r[:, at] * decay, self.count), keys)
            p[:, at, :BLOCK] = prod(lines(q[:, at] * decay, self.count), keys)
        return a * beta, p

    def next(self, digit_state):
        """The chunk after this one, which has all its tokens."""
        gates, last = Gates(self.g), [CHUNK - 1]
        decay = gates.between(last, np.arange(CHUNK))
        k, d = (self.k * decay, self.d) if self.per_channel else (self.k, self.d * decay)
        k, e = (lines(x.swapaxes(1, 2), self.count) for x in (k, d))
        state = fma(k.left[:, None, :], dot_factor(k, e).swapaxes(1, 2), self.state * gates.gam[:, last])
        state_lines = lines(state, self.count)
        state = state_lines.values() if digit_state else state
        return Chunk(state, state_lines, self.count, self.per_channel)

# ---- "States" ----
class Pool:
    """Reads and writes the states of a call."""
    def __init__(self, call, count):
        self.call, self.count = call, count
        self.shape = tuple(call.args[m] for m in ("n_heads_v", "head_dim_v", "head_dim_k"))
        self.digits, self.transposed = call.args["state"]["dtype"] != F32, call.args["state_layout"] == 1

    def at(self, pool, index):
        """Where a state is: F32 elements, or the bytes of its heads."""
        hv, dv, dk = self.shape
        if self.digits:  # Q8_0: bytes
            return slot({**pool, "dtype": Q8_0}, index, hv, dv * (self.count * dk + 4))
        pool, start, shape, strides = slot(pool, index, hv, *((dk, dv) if self.transposed else (dv, dk)))
        return pool, start, self.shape, [strides[i] for i in ((0, 2, 1) if self.transposed else (0, 1, 2))]

    def load(self, index):
        """A state and its lines."""
        (hv, dv, dk), pool = self.shape, self.call.args["state"]
        if index == NONE or not self.digits:
            state = np.zeros(self.shape, f32) if index == NONE else self.call.read(*self.at(pool, index))
            return state, lines(state, self.count)
        raw, split = elements(self.call.memory, *self.at(pool, index)).copy(), dv * self.count * dk
        digits = raw[:, :split].view(np.int8).reshape(hv, dv // 16, dk // 4, self.count, 16, 4).astype(f64)
        digits = digits.transpose(3, 0, 1, 4, 2, 5).reshape(self.count, hv, dv, dk)
        state_lines = Lines(list(digits), np.ascontiguousarray(raw[:, split:]).view("<f4").astype(f32))
        return state_lines.values(), state_lines

    def store(self, name, chunk, index):
        """Writes the state before a chunk."""
        (hv, dv, dk), where = self.shape, self.at(self.call.args[name], index)
        if not self.digits:
            self.call.write(name, chunk.state, *where)
            return
        digits = np.stack(chunk.lines.digits).astype(np.int8).reshape(self.count, hv, dv // 16, 16, dk // 4, 4)
        digits = np.ascontiguousarray(digits.transpose(1, 2, 4, 0, 3, 5)).reshape(hv, -1).view(np.uint8)
        words = bits(chunk.lines.factor).astype("<u4")  # a copied NaN keeps its bits
        self.call.write(name, np.concatenate([digits, words.view(np.uint8)], axis=1), *where)

# ---- The call: gated_delta_net.h, 8.8 ----
def gated_delta_net(call):
    args, see = call.args, call.see
    n_seqs, hk, hv, dk, dv = (args[m] for m in ("n_seqs", "n_heads_k", "n_heads_v", "head_dim_k", "head_dim_v"))
    inputs, log, scale, count = args["inputs"], args["log"], parse_float(args["scale"]), args["chunked"]["digits"]
    per_channel, snapshots, pool = bool(args["gate"]), args["n_snapshots"], Pool(call, count)
    gates, sizes = dk if per_channel else 1, (hk * dk, hk * dk + hv * dv)  # 8.5: k, d, then g
    key_head = np.arange(hv) % hk if args["head_map"] else np.arange(hv) // (hv // hk)
    written = "state_out" if args["state_out"] else "state"
    all_seqs, absent = range(n_seqs), [NONE] * n_seqs
    positions = call.map(args["position"], [0] * n_seqs)
    sources = call.map(args["state_src"], [s * args["state"]["n_slots"] for s in all_seqs])
    targets = call.map(args["state_dst"], [s * args[written]["n_slots"] for s in all_seqs]) if snapshots else absent
    rows = call.map(log["row"], list(all_seqs)) if log else absent
    bases = call.map(log["base_position"], [p // CHUNK * CHUNK for p in positions]) if log else positions
    commits = call.map(log["commit"], absent) if log else absent
    for n, dtype, gate in [(n, t, c) for n in (2, 3) for t in (0, n + 4) for c in (0, 1)]:
        see({f"chunked: {n} digits, states in {DTYPES[dtype]}, {CHOICES['gate'][gate]}":
             (n, dtype, gate) == (count, args["state"]["dtype"], args["gate"])})

    for s, begin, length in call.sequences():
        source, position, row, target, commit = sources[s], positions[s], rows[s], targets[s], commits[s]
        see({"chunked: SKIP": source == SKIP, "chunked: no tokens": length == 0, "chunked: no row": row == NONE,
             "chunked: state_dst NONE": snapshots and target == NONE})
        if source == SKIP or length == 0 and commit == NONE:
            continue
        # Load the state, replay the log, commit the state at the last multiple.
        base = bases[s] if row != NONE else position
        if base % CHUNK:
            raise ValueError(f"sequence {s}: its base position {base} is no multiple of {CHUNK}")
        chunk = Chunk(*pool.load(source), count, per_channel)
        for at in range(base, position):
            k, d, g = np.split(call.read(*ring(log["entries"], row, at, sizes[1] + hv * gates)), sizes)
            chunk.append(k.reshape(hk, 1, dk)[key_head], d.reshape(hv, 1, dv), g.reshape(hv, 1, gates))
            chunk = chunk.next(pool.digits) if (at + 1) % CHUNK == 0 else chunk
        moved = position >= base + CHUNK
        see({"chunked: replay": position > base, "chunked: replay of whole chunks": moved,
             "chunked: commit": commit != NONE, "chunked: commit after them": commit != NONE and moved})
        if commit != NONE:
            pool.store(written, chunk, commit)
        if length == 0:
            continue
        # Compute the tokens, up to each multiple.
        q, k, r, v, g, beta = prepare(call, inputs, (s, begin, length), gates)
        by_head = [x[:, key_head].swapaxes(0, 1) for x in (q, k, r)] + [x.swapaxes(0, 1) for x in (v, g, beta)]
        out, d = np.empty((2, length, hv, dv), f32)
        checkpoints, at, end = call.checkpoints(s, position, length), position, position + length
        while at < end:
            n = min(CHUNK - at % CHUNK, end - at)
            part, at = slice(at - position, at - position + n), at + n
            out[part] = chunk.outputs(*(x[:, part] for x in by_head), scale).swapaxes(0, 1)
            d[part] = chunk.d[:, -n:].swapaxes(0, 1)
            if at % CHUNK == 0:
                chunk = chunk.next(pool.digits)
                if checkpoints.get(at, NONE) != NONE:
                    pool.store(written, chunk, checkpoints[at])
        reached = end // CHUNK - position // CHUNK
        see({"chunked: multiple reached": reached, "chunked: several multiples": reached > 1,
             "chunked: in place": target == source, "chunked: copied": target not in (NONE, source) and not reached,
             "chunked: spoiled gate": (~(g <= 0)).any(), "chunked: checkpoint": checkpoints,
             "chunked: checkpoint NONE": call.due(position, length) > len(checkpoints),
             "chunked: a state is read, none kept": source != NONE and target == commit == NONE and not checkpoints,
             "chunked: none kept, multiple reached": reached and target == commit == NONE and not checkpoints})
        if target != NONE:
            pool.store(written, chunk, target)
        # The entries that the sequence needs afterwards.
        first = end if target != NONE else position if commit != NONE else base
        first = first // CHUNK * CHUNK
        for t in range(max(first - position, 0), length if row != NONE else 0):
            entry = np.concatenate([k[t], d[t], g[t]], axis=None)
            call.write("log.entries", entry, *ring(log["entries"], row, position + t, len(entry)))
        call.write("out", out, *token_axes(args["out"], s, begin, length, hv, dv))
