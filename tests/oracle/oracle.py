"""Recomputes every call in a file of calls and compares the memory after each call, to the bit.

    python3 oracle.py FILE

Written from the manual alone: include/gdn/*.h, docs/reference/numerics*.md and kernels/*.md, at the level GDN_EXACT.
Comments name its sections. docs/design/check.md describes FILE.
Exit status: 0 all is right; 1 a record is wrong, none was judged, or a kernel has none; 2 bad file.
"""
import json
import sys
from collections import Counter

import numpy as np

F32, F16, BF16, Q8_0, I32, I64 = range(6)
DTYPES = ("F32", "F16", "BF16", "Q8_0", "I32", "I64", "DIGITS2", "DIGITS3")
RAW = ("<u4", "<u2", "<u2", "u1", "<i4", "<i8")  # elements are read and written as bit patterns, bytes or integers
SIZES, NONE, SKIP = (4, 2, 2, 1, 4, 8), -1, -2
PARTS = ("inputs", "log", "checkpoints", "tree", "rounding", "chunked")
CHOICES = {"gate": ("SCALAR", "CHANNEL"), "head_map": ("GROUPED", "TILED"), "state_layout": ("VK", "KV"),
           "qk_norm": ("NONE", "ADD", "CLAMP"), "gate_input": ("LOG", "LINEAR", "RAW", "RAW_A_LOG", "BOUNDED"),
           "beta_input": ("PLAIN", "LOGIT"), "activation": ("NONE", "SILU")}
f32, f64, u32, u64 = np.float32, np.float64, np.uint32, np.uint64

# ---- Arithmetic: numerics.md, "Arithmetic" and "dot32" ----
def bits(x):
    """The 32-bit words of an array of binary32 numbers."""
    return np.ascontiguousarray(x, f32).view(u32)

def round_sum(product, c):
    """product + c, rounded once to binary32. product: exact products of binary32 numbers, as binary64."""
    total = product + c
    result = total.astype(f32)
    # Rounding twice can only be wrong where total is a tie of binary32, or in binary32's subnormal range.
    doubtful = ((total.view(u64) << u64(35)) == u64(1 << 63)) | (np.abs(result) <= f32(2.0 ** -126))
    if doubtful.any():
        s, p, c = total[doubtful], *(np.broadcast_to(x, total.shape)[doubtful].astype(f64) for x in (product, c))
        back = s - p
        error = (p - (s - back)) + (c - back)  # TwoSum: p + c = s + error, exactly
        step = np.where((error > 0) == (s > 0), 1, -1) * ((np.abs(error) > 0) & (s.view(u64) % 2 == 0))
        result[doubtful] = (s.view(np.int64) + step).view(f64).astype(f32)  # to odd, then to binary32
    return result

def fma(a, b, c):
    """a * b + c with one rounding."""
    return round_sum(np.atleast_1d(np.multiply(a, b, dtype=f64)), c)

def dot32(a, b):
    """numerics.md, "dot32", along the last axis."""
    product = np.multiply(a, b, dtype=f64)
    p = np.zeros(product.shape[:-1] + (32,), f32)
    for i in range(0, product.shape[-1], 32):
        part = product[..., i:i + 32]
        p[..., :part.shape[-1]] = round_sum(part, p[..., :part.shape[-1]])
    for h in (16, 8, 4, 2, 1):
        p = p[..., :h] + p[..., h:2 * h]
    return p[..., 0]

# ---- numerics-elementary.md, "Every operation, in order" ----
def constants(text):
    return [f32(float.fromhex(word)) for word in text.split()]

M, L, H, W, EXP_SUBNORMAL, ONE_127TH = constants("0x1.8p23 0x1.715476p0 0x1.62e4p-1 0x1.7f7d1cp-20 -0x1.5d589ep6 "
                                                 "0x1.020408p-7")
E2_TO_E6 = constants("0x1.fffffcp-2 0x1.55548cp-3 0x1.555858p-5 0x1.123de8p-7 0x1.6ac83ap-10")
G2_TO_G10 = constants("-0x1.0p-1 0x1.5555acp-2 -0x1.000082p-2 0x1.99673ep-3 -0x1.54d7e2p-3 0x1.28748ep-3 "
                      "-0x1.0e73c0p-3 0x1.b16c90p-4 -0x1.788726p-5")

def horner(coefficients, r):
    """The polynomial q: the last coefficient, then fma(q, r, coefficient) down to the first."""
    q = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        q = fma(q, r, coefficient)
    return q

def exp(x):
    x = np.where(x > 89, f32(89), np.where(x < -104, f32(-104), x))
    t = fma(x, L, M)
    t = np.where(t < M - f32(149), M - f32(149), t)
    n = t - M
    h = fma(-n, H, x)
    r = fma(-n, W, h)
    c = fma(-n, W, h - r)
    u = fma(r * r, horner(E2_TO_E6, r), c)
    s = np.where(x < EXP_SUBNORMAL, f32(1), f32(1) + r)
    w = (r - (s - f32(1))) + u
    b = bits(t) << u32(23)
    a = (b.view(np.int32) >> 1).view(u32) & u32(0xff800000)
    s1, s2 = (u32(0x3f800000) + a).view(f32), (u32(0x3f800000) + (b - a)).view(f32)
    return fma(w * s1, s2, (s * s1) * s2)

def log1p(x):
    k = (bits(f32(1) + x) - u32(0x3f400000)) & u32(0xff800000)
    f = (bits(x) - k).view(f32) + fma(f32(0.25), (u32(0x40800000) - k).view(f32), f32(-1))
    z = k.view(np.int32).astype(f32)
    h = z * (H * f32(2.0 ** -23))
    s = h + f
    low = f - (s - h)
    y = s + fma(f * f, horner(G2_TO_G10, f), fma(z, W * f32(2.0 ** -23), low))
    y = np.where(x > -1, y, np.where(x == -1, f32(-np.inf), f32(np.nan)))
    return (bits(np.where(x == np.inf, x, y)) | (bits(x) & u32(0x80000000))).view(f32)

def logistic(x, num=None):
    """sigmoid(x) where num is 1, silu(x) where it is absent."""
    x = np.where(x < -110, f32(-110), x)
    num = x if num is None else num
    t = fma(x, -L, M)
    n = t - M
    r = fma(n, W, fma(n, H, x))
    v = fma(horner(E2_TO_E6, -r), -r, f32(1)) * r  # fma(-p, r, E) is fma(p, -r, E)
    b = bits(t) << u32(23)
    a = (b.view(np.int32) >> 1).view(u32) & u32(0xff800000)
    s1, s2 = (u32(0x3f800000) + (b - a)).view(f32), (u32(0xbf800000) - a).view(f32)
    return np.where(x > 18, num, (-num / (s1 - fma(v, s1, s2))) * s2)

def rsqrt(x):
    """1 / sqrt(x), correctly rounded: no binary32 number is so near a tie that binary64 would not decide it."""
    return (1 / np.sqrt(x.astype(f64))).astype(f32)

# ---- Types: base.h, 7, and numerics.md, "set_rows" ----
def widen(raw, dtype):
    """Bit patterns of F32, F16 or BF16 as binary32 numbers, exactly."""
    if dtype == BF16:
        return (raw.astype(u32) << u32(16)).view(f32)
    return np.ascontiguousarray(raw).view(f32 if dtype == F32 else np.float16).astype(f32)

def narrow(x, dtype):
    """Bit patterns of dtype: to nearest, ties to even; subnormals kept; too large becomes infinity; NaN a NaN."""
    if dtype != BF16:  # numpy rounds to F16 by these rules: checked against integer arithmetic for all 2^32 inputs
        return bits(x) if dtype == F32 else x.astype(np.float16).view(np.uint16)
    word = bits(x)
    rounded = (word + u32(0x7fff) + (word >> u32(16) & u32(1))) >> u32(16)
    return np.where(np.isnan(x), u32(0x7fc0), rounded).astype(np.uint16)

def q8_0(x):
    """numerics.md, "set_rows": rows of binary32 numbers as the bytes of Q8_0 blocks."""
    x = x.reshape(len(x), -1, 32)
    amax = np.fmax.reduce(np.abs(x), axis=-1, initial=f32(0))
    q0 = amax * ONE_127TH
    d = fma(fma(f32(-127), q0, amax), ONE_127TH, q0)
    d = np.where(np.isinf(amax), f32(np.inf), d)
    no_scale = (d < f32(2.0 ** -100)) | np.isinf(d)
    y = x * np.where(no_scale, f32(0), f32(1) / d)[..., None]
    q = np.where(np.isnan(y), f32(0), (y + f32(12582912)) - f32(12582912)).astype(np.int8)
    scale = narrow(d, F16).astype("<u2")[..., None]
    return np.concatenate([scale.view(np.uint8), q.view(np.uint8)], axis=-1).reshape(len(x), -1)

# ---- A call and its operands: base.h, 7 ----
def parse_float(text):  # the 8 hex digits of its bits
    return np.array([int(text, 16)], u32).view(f32)[0]

def arguments(record):
    """The arguments of a record by name; those of a part in a dictionary, which is None where the part is absent."""
    args = dict.fromkeys(PARTS)
    for name, value in [*record["numbers"].items(), *record["operands"].items()]:
        part, _, member = name.rpartition(".")
        if not part:
            args[name] = value
        elif args[part] or name in record["numbers"]:
            args[part] = {**(args[part] or {}), member: value}
    return args

def packed(operand, first, *shape):
    """base.h, gdn_tensor: strides of a shape, from stride[first] on. 0 is the packed one."""
    strides, extent = [SIZES[operand["dtype"]]], 0
    for axis in reversed(range(len(shape) - 1)):
        extent = max(extent, strides[0]) * shape[axis + 1]
        strides.insert(0, operand["stride"][first + axis] or extent)
    return strides

def slot(pool, index, *shape):
    """base.h, gdn_pool: where the slot row * n_slots + slot is, for Call.read() and Call.write()."""
    strides = packed(pool, 0, 0, pool["n_slots"], *shape)
    return pool, index // pool["n_slots"] * strides[0] + index % pool["n_slots"] * strides[1], shape, strides[2:]

def ring(pool, row, position, *shape):
    """The slot of a position in a row of a ring: position % n_slots."""
    return slot(pool, row * pool["n_slots"] + position % pool["n_slots"], *shape)

def elements(memories, operand, start, shape, strides):
    """Elements as bit patterns, in the memory itself. numpy refuses a view that leaves the memory."""
    dtype = RAW[operand.get("dtype", I32)]
    return np.ndarray(shape, dtype, memories[operand["memory"]], operand["offset"] + start, strides)

def token_axes(operand, s, begin, count, *inside):
    """base.h, "Ragged batches": where a sequence's tokens are."""
    strides, of_sequence = packed(operand, 1, count, *inside), operand["stride"][0]
    return operand, s * of_sequence if of_sequence else begin * strides[0], (count, *inside), strides

class Call:
    """A record: its arguments, its memory (which the call changes), its features, and what the call has written."""

    def __init__(self, record, memory):
        self.kernel, self.case, self.memory, self.args = record["kernel"], record["case"], memory, arguments(record)
        self.writes, self.features = [], {}
        self.see_arguments("", self.args)

    def see(self, features):
        """Notes the features that such a call can have: {name: whether this call has it}."""
        for name, seen in features.items():
            self.features[name] = self.features.get(name, False) or bool(seen)

    def see_arguments(self, prefix, args):
        for name, value in args.items():
            if name in CHOICES:
                self.see({f"{prefix}{name} {choice}": i == value for i, choice in enumerate(CHOICES[name])})
            elif value is None or isinstance(value, dict):
                self.see({f"{prefix}{name}": value, f"{prefix}{name} absent": not value})
                if value and "dtype" in value:
                    dtypes = {"index": DTYPES[4:6], "dst": DTYPES[:4], "entries": DTYPES[:1]}.get(name, DTYPES[:3])
                    self.see({f"{prefix}{name} {dtype}": dtype == DTYPES[value["dtype"]] for dtype in dtypes})
                    self.see({f"stride[{i}] of {prefix}{name}": n for i, n in enumerate(value["stride"]) if n})
                elif value and "memory" not in value:
                    self.see_arguments(name + ".", value)

    def read(self, *where):
        """Elements as binary32 numbers."""
        return widen(elements(self.memory, *where), where[0]["dtype"])

    def write(self, name, values, operand, start, shape, strides):
        """Writes bit patterns, or binary32 numbers rounded once, and notes where."""
        raw = narrow(values, operand["dtype"]) if values.dtype == f32 else values
        elements(self.memory, operand, start, shape, strides)[...] = raw
        self.writes.append((name, operand, start, shape, strides))

    def map(self, span, default):
        """An int32 map as a list; default where it is absent."""
        return elements(self.memory, span, 0, (len(default),), (4,)).tolist() if span else default

    def sequences(self):
        """base.h, "Ragged batches": s, its first token, the number of its tokens."""
        n, tokens = self.args["n_seqs"], self.args["n_tokens"]
        starts = self.map(self.args["seq_start"] if n else None, [s * (tokens // max(n, 1)) for s in range(n + 1)])
        self.see({"no sequences": n == 0, "lead tokens": starts[0] > 0, "tail tokens": n and starts[n] < tokens,
                  "no tokens": tokens == 0, "one token": tokens == 1, "several tokens": tokens > 1})
        return [(s, starts[s], starts[s + 1] - starts[s]) for s in range(n)]

    def parents(self, begin, count):
        """base.h, gdn_token_tree: the token that each token follows, from 0 in its sequence; -1 before the first."""
        tree, chain = self.args["tree"], list(range(-1, count - 1))
        given = tree and tree["parent"]
        parents = self.map(given, [0] * self.args["n_tokens"])[begin:begin + count] if given else chain
        self.see({"tree with branches": parents != chain})
        return parents

    def due(self, position, count):
        """How many checkpoints the tokens of a sequence reach."""
        interval = self.args["checkpoints"]["interval"] if self.args["checkpoints"] else position + count + 1
        return (position + count) // interval - position // interval

    def checkpoints(self, s, position, count):
        """base.h, gdn_checkpoints: {number of tokens: entry of dst}."""
        part = self.args["checkpoints"]
        if not part:
            return {}
        n, interval, first, due = part["n"], part["interval"], position // part["interval"] + 1, self.due(position, count)
        targets = self.map(part["dst"], [NONE] * (self.args["n_seqs"] * n))[s * n:s * n + min(due, n)]
        self.see({"checkpoints.dst: used": targets, "checkpoints.dst: NONE": NONE in targets,
                  "checkpoints.dst: more are due": due > n})
        return {(first + i) * interval: target for i, target in enumerate(targets) if target != NONE}

# ---- gated_delta_net: gated_delta_net.h, 8; numerics.md, "gated_delta_net" ----
def normalise(inputs, x):
    """numerics.md, qk_norm: q or k of each head."""
    if not inputs or inputs["qk_norm"] == 0:
        return x
    eps, square = parse_float(inputs["qk_norm_eps"]), dot32(x, x)
    limit = np.inf if eps == 0 else min(1 / float(eps), float(np.finfo(f32).max))
    factor = rsqrt(square + eps) if inputs["qk_norm"] == 1 else np.minimum(rsqrt(square), f32(limit))
    return x * factor[..., None]

def exponent(call, inputs, g):
    """numerics.md, gate_input: what exp is taken of, of each token and head and, for GATE_CHANNEL, key channel."""
    form = inputs["gate_input"] if inputs else 0
    if form < 2:
        return g
    ssm_a, dt_bias = (call.read(o, 0, shape, packed(o, 0, *shape)) if o else None for o, shape in (
        (inputs["ssm_a"], (g.shape[1], 1)), (inputs["dt_bias"], g.shape[1:])))
    x = g + (f32(0) if dt_bias is None else dt_bias)
    if form == 4:
        factor = f32(1) if ssm_a is None else exp(ssm_a)
        return parse_float(inputs["lower_bound"]) * logistic(factor * x, f32(1))
    softplus = np.where(x > 20, x, log1p(exp(x)))
    return (ssm_a if form == 2 else -exp(ssm_a)) * softplus

def prepare(call, inputs, where, gates):
    """numerics.md, inputs: q, k, r, v, g before exp, and beta of a sequence's tokens."""
    hk, hv, dk, dv = (call.args[m] for m in ("n_heads_k", "n_heads_v", "head_dim_k", "head_dim_v"))
    read_key = inputs and inputs["read_key"]
    q, k = (normalise(inputs, call.read(*token_axes(call.args[name], *where, hk, dk))) for name in "qk")
    r = call.read(*token_axes(read_key, *where, hk, dk)) if read_key else k
    v, g, beta = (call.read(*token_axes(call.args[name], *where, hv, n))
                  for name, n in (("v", dv), ("g", gates), ("beta", 1)))
    if inputs:  # numerics.md, beta_input
        beta = parse_float(inputs["beta_factor"]) * (logistic(beta, f32(1)) if inputs["beta_input"] else beta)
    return q, k, r, v, exponent(call, inputs, g), beta

def update(state, k, d, a):
    """numerics.md: S[i] = fma(k[i], d, a * S[i])."""
    return fma(k[:, None, :], d[:, :, None], a[:, None, :] * state)

def gated_delta_net(call):
    args, see = call.args, call.see
    if args["chunked"]:  # 8.8: the other form has a contract and a file of its own
        import chunked
        return chunked.gated_delta_net(call)
    n_seqs, hk, hv, dk, dv = (args[m] for m in ("n_seqs", "n_heads_k", "n_heads_v", "head_dim_k", "head_dim_v"))
    inputs, log, tree, scale = args["inputs"], args["log"], args["tree"], parse_float(args["scale"])
    dtype, snapshots, gates = args["state"]["dtype"], args["n_snapshots"], dk if args["gate"] else 1
    entry_size = hk * dk + hv * (dv + gates)  # 8.5: k, d, a
    key_head = np.arange(hv) % hk if args["head_map"] else np.arange(hv) // (hv // hk)
    interval = args["rounding"]["interval"] if args["rounding"] else 1
    written = "state_out" if args["state_out"] else "state"
    # 8.2: the maps. Without log and checkpoints the call does not read position.
    all_seqs, absent = range(n_seqs), [NONE] * n_seqs
    positions = call.map(args["position"] if log or args["checkpoints"] or interval > 1 else None, [0] * n_seqs)
    sources = call.map(args["state_src"], [s * args["state"]["n_slots"] for s in all_seqs])
    targets = [s * args[written]["n_slots"] + r for s in all_seqs for r in range(snapshots)]
    targets = call.map(args["state_dst"], targets)
    rows = call.map(log["row"], list(all_seqs)) if log else absent
    bases = call.map(log["base_position"], positions) if log else positions
    commits = call.map(log["commit"], absent) if log else absent
    see({"n_snapshots 0": snapshots == 0, "n_snapshots > 1": snapshots > 1, "log and snapshots": log and snapshots,
         "1 < n_heads_k < n_heads_v": 1 < hk < hv, "head_dim_k % 32": dk % 32, "interval > 1": interval > 1,
         "interval > 1, no log": interval > 1 and not log, "interval > 1, tree": interval > 1 and tree})

    def state_at(pool, index):
        """8.1: where a state is, as [n_heads_v][head_dim_v][head_dim_k] in either layout."""
        kv = args["state_layout"] == 1
        pool, start, shape, strides = slot(pool, index, hv, *((dk, dv) if kv else (dv, dk)))
        return pool, start, (hv, dv, dk), [strides[i] for i in ((0, 2, 1) if kv else (0, 1, 2))]

    def rounded(state, count):
        """numerics.md: S[i] = widen(round(S[i])) where the sequence has a multiple of N tokens."""
        return state if dtype == F32 or count % interval else widen(narrow(state, dtype), dtype)

    for s, begin, count in call.sequences():
        source, position, row, target = sources[s], positions[s], rows[s], commits[s]
        see({"state_src: NONE": source == NONE, "state_src: SKIP": source == SKIP, "log.row: NONE": log and row == NONE,
             "sequence without tokens": count == 0, "more snapshots than tokens": snapshots > count})
        if source == SKIP or count == 0 and target == NONE:
            continue
        # Step 1: load, replay the log (8.5), commit the state at the last multiple of the interval (8.7).
        state = np.zeros((hv, dv, dk), f32) if source == NONE else call.read(*state_at(args["state"], source))
        base, commit_at = bases[s], position // interval * interval
        for p in range(base, position + 1):
            if p == commit_at and target != NONE:
                call.write(written, state, *state_at(args[written], target))
            if p < position:
                k, d, a = np.split(call.read(*ring(log["entries"], row, p, entry_size)), (hk * dk, hk * dk + hv * dv))
                state = update(state, k.reshape(hk, dk)[key_head], d.reshape(hv, dv), a.reshape(hv, gates))
                state = rounded(state, p + 1)
        replay, commit = position - base, target != NONE
        see({"replay": replay, "replay: tree": replay and tree, "replay: interval > 1": replay and interval > 1,
             "replay: over the end of the ring": replay and position % log["entries"]["n_slots"] < replay,
             "commit": commit, "commit: after replay": commit and commit_at > base,
             "commit: row NONE": commit and row == NONE, "commit: no tokens": commit and count == 0,
             "commit: in place": commit and target == source, "commit: state_out": commit and args["state_out"],
             "commit: before position": commit and commit_at < position})
        if count == 0:
            continue
        # Steps 0 and 2: prepare the tokens.
        where = (s, begin, count)
        q, k, r, v, g, beta = prepare(call, inputs, where, gates)
        a = g if inputs and inputs["gate_input"] == 1 else exp(g)
        parents, checkpoints = call.parents(begin, count), call.checkpoints(s, position, count)
        out, branch, number = np.empty((count, hv, dv), f32), {-1: state}, {-1: position}
        for t in range(count):
            state = branch[parents[t]] if tree else state
            number[t] = number[parents[t]] + 1  # tokens of the sequence or, in a tree, of the branch
            # Steps 3 to 7.
            kt, qt, rt = (x[t][key_head] for x in (k, q, r))
            kv = dot32(state, (a[t] * rt)[:, None, :]) if args["gate"] else a[t] * dot32(state, rt[:, None, :])
            d = beta[t] * (v[t] - kv)
            state = update(state, kt, d, a[t])
            out[t] = scale * dot32(state, qt[:, None, :])
            state = rounded(state, number[t])
            branch[t] = state if tree else None
            if row != NONE:
                where_entry = ring(log["entries"], row, position + t, entry_size)
                call.write("log.entries", np.concatenate([k[t], d, a[t]], axis=None), *where_entry)
            age = count - 1 - t  # entry r of state_dst is the state r tokens before the newest
            snapshot = targets[s * snapshots + age] if age < snapshots else NONE
            see({"state_dst: NONE": age < snapshots and snapshot == NONE})
            for index in (snapshot, checkpoints.get(number[t], NONE)):
                if index != NONE:
                    call.write(written, state, *state_at(args[written], index))
        call.write("out", out, *token_axes(args["out"], *where, hv, dv))

# ---- ssm_conv: ssm_conv.h, 9; numerics.md, "ssm_conv" ----
def ssm_conv(call):
    args, see, channels, width = call.args, call.see, call.args["n_channels"], call.args["kernel_width"]
    history, written = args["history"], "history_out" if args["history_out"] else "history"
    all_seqs, dtype = list(range(args["n_seqs"])), history["dtype"] if history else F32
    positions = call.map(args["position"], [0] * args["n_seqs"])
    sources, targets = (call.map(args[name], all_seqs) for name in ("history_src", "history_dst"))
    weight, bias = (call.read(o, 0, shape, packed(o, 0, *shape)) if o else None
                    for o, shape in ((args["weight"], (channels, width, 1)), (args["bias"], (channels,))))

    for s, begin, count in call.sequences():
        source, target, position = sources[s], targets[s], positions[s]
        newest, n_slots = position + count, args[written]["n_slots"] if history else 0
        see({"history_src: SKIP": source == SKIP, "sequence without tokens": count == 0,
             "history_src: NONE": source == NONE, "history_src: NONE, position > 0": source == NONE and position,
             "history_dst: NONE": target == NONE, "more tokens than slots": count > n_slots, "width 1": width == 1})
        if source == SKIP or count == 0:
            continue
        # Step 1: the inputs by position, as the history holds them, before anything is written.
        older = range(max(0, position - history["n_slots"]), position) if history and source != NONE else ()
        kept = {p: elements(call.memory, *ring(history, source, p, channels)).copy() for p in older}
        where = token_axes(args["x"], s, begin, count, channels)
        x, zero = call.read(*where), np.zeros(channels, RAW[dtype])
        fresh = elements(call.memory, *where) if args["x"]["dtype"] == dtype else narrow(x, dtype)
        kept |= zip(range(position, newest), fresh)
        # Steps 2 to 4: the taps of a token are itself, its ancestors in the call, then the history.
        before = [widen(kept.get(p, zero), dtype)[None] for p in range(position - width + 1, position)]
        inputs, parents = np.concatenate([*before, x]), call.parents(begin, count)
        taps = np.empty((width, count), int)
        for t in range(count):
            i = t
            for j in reversed(range(width)):
                taps[j, t] = i + width - 1  # inputs[0] is width - 1 positions before the first token
                i = parents[i] if i >= 0 else i - 1
        u = f32(0) if bias is None else bias
        for j in range(width):
            u = fma(weight[:, j, 0], inputs[taps[j]], u)
        call.write("out", logistic(u) if args["activation"] else u, *token_axes(args["out"], s, begin, count, channels))
        # Step 5: checkpoints, then the newest n_slots inputs. A row that is also read has the older ones already.
        keep = [(row, min(p, width - 1), p) for p, row in call.checkpoints(s, position, count).items()]
        keep += [(target, min(newest, n_slots), newest)] if history and target != NONE else []
        for row, n, end in keep:
            for p in range(end - n, end):
                to, of = ring(args[written], row, p, channels), ring(history, source, p, channels)
                in_place = source != NONE and all(to[0][m] == of[0][m] for m in ("memory", "offset")) and to[1] == of[1]
                if p >= position or not in_place:
                    call.write(written, kept.get(p, zero), *to)

# ---- set_rows: set_rows.h, 10; numerics.md, "set_rows" ----
def set_rows(call):
    args, see = call.args, call.see
    src, dst, index, n, columns = (args[name] for name in ("src", "dst", "index", "n_rows", "n_columns"))
    n_batch, index_batch, of, to = args["n_batch"], args["index_batch"], src["dtype"], dst["dtype"]
    row_bytes = columns // 32 * 34 if to == Q8_0 else columns
    strides = packed(src, 0, *n_batch, n, columns)
    out_strides = packed(dst, 0, *n_batch, args["n_rows_dst"], row_bytes)
    index_strides = packed(index, 0, *index_batch, n, 1)
    see({f"{a} to {b}": (a, b) == (DTYPES[of], DTYPES[to]) for a in DTYPES[:3] for b in DTYPES[:4]})
    see({"n_batch": n_batch != [1, 1], "index_batch repeats": index_batch != n_batch, "no rows": n == 0})
    for b, c in np.ndindex(*n_batch):
        at = np.dot((b % index_batch[0], c % index_batch[1]), index_strides[:2])
        rows = elements(call.memory, index, at, (n,), index_strides[2:3]).tolist()
        last = {r: i for i, r in enumerate(rows) if r != NONE}  # of two rows with one target the later one
        see({"index: NONE": NONE in rows, "index: a target twice": len(last) < sum(r != NONE for r in rows)})
        for r, i in last.items():
            raw = elements(call.memory, src, np.dot((b, c, i), strides[:3]), (columns,), strides[3:])
            if to != of:
                x = widen(raw, of)
                raw = q8_0(x[None])[0] if to == Q8_0 else x
            call.write("dst", raw, dst, np.dot((b, c, r), out_strides[:3]), (row_bytes,), out_strides[3:])

# ---- The file: docs/design/check.md ----
def mismatches(call, after):
    """Lines about the first three wrong elements. A NaN that the call writes may have other bits."""
    lines = []
    for name, operand, start, *axes in call.writes:
        want, got = (elements(memory, operand, start, *axes) for memory in (call.memory, after))
        wrong = want != got
        if operand["dtype"] != Q8_0:
            wrong &= ~np.isnan(widen(want, operand["dtype"])) | ~np.isnan(widen(got, operand["dtype"]))
        for i in np.argwhere(wrong)[:3].tolist():
            byte = operand["offset"] + start + np.dot(i, axes[1])
            lines.append(f"memory {operand['memory']}, {name}: byte {byte:.0f}, element {i} of what one step writes: "
                         f"expected {want[tuple(i)]:0{2 * want.itemsize}x}, got {got[tuple(i)]:0{2 * want.itemsize}x}")
        got[...] = want
    for m, (want, got) in enumerate(zip(call.memory, after)):
        lines += [f"memory {m}, nothing that the call writes: byte {i}: expected {want[i]:02x}, got {got[i]:02x}"
                  for i in np.flatnonzero(want != got)[:3]]
    return [f"{call.kernel} {call.case}: {line}" for line in lines[:3]]

def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    kernels = {kernel.__name__: kernel for kernel in (gated_delta_net, ssm_conv, set_rows)}
    judged, wrong, features = Counter(), Counter(), {kernel: Counter() for kernel in kernels}
    np.seterr(all="ignore")
    try:
        with open(sys.argv[1], "rb") as file:
            while line := file.readline():
                record = json.loads(line)
                data = np.frombuffer(file.read(2 * sum(record["memory"])), np.uint8).copy()
                parts = np.split(data, np.cumsum(np.repeat(record["memory"], 2)))
                if len(data) < 2 * sum(record["memory"]):
                    raise ValueError("the file ends within a record")
                call = Call(record, parts[:-1:2])
                try:
                    kernels[call.kernel](call)
                    lines = mismatches(call, parts[1::2])
                except (ValueError, IndexError) as error:  # an operand or a map's entry is outside its memory
                    lines = [f"{call.kernel} {call.case}: cannot be performed: {error}"]
                judged[call.kernel] += 1
                wrong[call.kernel] += bool(lines)
                features[call.kernel].update({name: int(seen) for name, seen in call.features.items()})
                print("".join(line + "\n" for line in lines), end="")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{sys.argv[1]}: bad file: {error!r}", file=sys.stderr)
        return 2
    for kernel in kernels:
        print(f"{kernel}: {judged[kernel]} records judged, {wrong[kernel]} wrong")
        for name in sorted(features[kernel]):
            print(f"    {features[kernel][name] or 'NOT SEEN':>8}  {name}")
    return int(any(wrong.values()) or len(judged) < len(kernels))

if __name__ == "__main__":
    sys.exit(main())
