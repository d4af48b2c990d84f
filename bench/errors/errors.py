#!/usr/bin/env python3
"""Errors of both forms of gated_delta_net against the recurrence in binary64, beside chunks of BF16 and TF32.

    errors.py [--calls FILE] [--tokens N] [--quick]

All get the same q, k (normalised), v, g and beta in float32. An error is the root mean square of the differences of out, divided by
that of out. `chunks` are the usual form of flash-linear-attention: chunks of 64 tokens, operands of products rounded to BF16 or TF32,
sums in float32. FILE is of capture.c: the layers of a model; then its columns are of the first, a middle and the last layer. Needs
the packages gdn and numpy. Prints a table in Markdown.
"""
import argparse
import json
import pathlib
import sys
import time

import numpy as np

import gdn

F = np.float32
CHUNK = 64


# ---- The recurrence in binary64, and chunks with rounded operands ---------------------------------------------------------
def recurrence64(q, k, v, g, beta):
    """out [T][H][dv] of q, k [T][H][dk]."""
    q, k, v, a, beta = (x.astype(np.float64) for x in (q, k, v, np.exp(g.astype(np.float64)), beta))
    S, out = np.zeros((*q.shape[1:], v.shape[2])), np.empty(v.shape)
    for t in range(len(q)):
        S *= a[t][:, None, None]
        d = beta[t][:, None] * (v[t] - np.matmul(k[t][:, None], S)[:, 0])
        S += k[t][:, :, None] * d[:, None]
        out[t] = np.matmul(q[t][:, None], S)[:, 0]
    return out / np.sqrt(q.shape[2])


def rounded(x, bits):
    """float32 with so many bits of the significand after the first, to nearest even."""
    drop = 23 - bits
    i = np.ascontiguousarray(x, F).view(np.uint32)
    return ((i + ((1 << (drop - 1)) - 1) + ((i >> drop) & 1)) & np.uint32(-(1 << drop) & 0xffffffff)).view(F)


def chunks(bits, q, k, v, g, beta):
    def mul(a, b):
        return np.matmul(rounded(a, bits), rounded(b, bits))

    T, H, dk = q.shape
    q, k, v, g, beta = (np.moveaxis(x, 1, 0) for x in (q, k, v, g, beta))
    S, out = np.zeros((H, dk, v.shape[2]), F), np.empty(v.shape, F)
    for at in range(0, T, CHUNK):
        Q, K, V, B = (x[:, at:at + CHUNK] for x in (q, k, v, beta))
        G = np.cumsum(g[:, at:at + CHUNK].astype(np.float64), 1)
        n = K.shape[1]
        decay = np.tril(np.exp(np.minimum(G[:, :, None] - G[:, None], 0))).astype(F)
        gam, to_end = np.exp(G).astype(F)[..., None], np.exp(G[:, -1:] - G).astype(F)[..., None]
        A = np.tril(mul(K, K.swapaxes(1, 2)) * decay, -1) * B[..., None]
        inverse = np.linalg.inv((np.eye(n) + A).astype(np.float64)).astype(F)
        W, U = mul(inverse, B[..., None] * gam * K), mul(inverse, B[..., None] * V)
        D = U - mul(W, S)
        out[:, at:at + n] = gam * mul(Q, S) + mul(mul(Q, K.swapaxes(1, 2)) * decay, D)
        S = gam[:, -1:] * S + mul((K * to_end).swapaxes(1, 2), D)
    return np.moveaxis(out, 0, 1) / F(np.sqrt(dk))


def ours(digits, q, k, v, g, beta):
    """By the library; with digits, in the chunked form."""
    T, H, dk = q.shape
    more = {"digits": digits, "log": np.zeros((1, 32, H * dk + H * (v.shape[2] + 1)), F), "position": np.zeros(1, np.int32)} if digits else {}
    state = np.zeros((1, H, v.shape[2], dk), F)
    return gdn.gated_delta_net(q, k, v, g, beta, state, state_src=np.full(1, gdn.NONE, np.int32), seq_start=np.array([0, T], np.int32), **more)


METHODS = {"recurrence, F32": lambda *x: ours(0, *x), "chunked, 3 digits": lambda *x: ours(3, *x), "chunked, 2 digits": lambda *x: ours(2, *x),
           "TF32 chunks": lambda *x: chunks(10, *x), "BF16 chunks": lambda *x: chunks(7, *x)}


# ---- Data -------------------------------------------------------------------------------------------------------------------
def unit(x):
    return (x / np.sqrt((x.astype(np.float64) ** 2).sum(-1, keepdims=True) + 1e-6)).astype(F)


def silu(x):
    return x / (1 + np.exp(-x))


def layer(T, H=2, d=128, seed=1):
    """q, k, v, g, beta as a layer's projections give them: of correlated hidden vectors, through silu."""
    draw = np.random.default_rng(seed)
    hidden = draw.standard_normal((T, 256)).astype(F)
    for t in range(1, T):
        hidden[t] = 0.6 * hidden[t - 1] + 0.8 * hidden[t]
    into = lambda n: hidden @ (draw.standard_normal((256, n)) / 16).astype(F)  # noqa: E731
    q, k, v = (silu(into(H * d)).reshape(T, H, d) for _ in "qkv")
    rate, bias = draw.uniform(1, 16, H), draw.uniform(-6, -1, H)
    g = -rate * np.log1p(np.exp(into(H) + bias))
    return unit(q), unit(k), v.astype(F), g.astype(F), (1 / (1 + np.exp(-into(H)))).astype(F)


def similar_keys(T):
    q, k, v, g, beta = layer(T)
    return q, unit(k * F(0.3) + k.mean(0) * 3), v, g, beta


def eigenvalues(T):
    q, k, v, g, beta = layer(T)
    return q, k, v, g, np.full_like(beta, 1.95)


def one_key(T):
    q, k, v, g, beta = layer(T)
    return q, np.broadcast_to(k[:1], k.shape).copy(), v, g * F(0.01), np.full_like(beta, 1.99)


def hold(T):
    """Slow gates, and few writes."""
    q, k, v, g, beta = layer(T)
    return q, k, v, np.full_like(g, -1e-5), np.where(np.arange(T)[:, None] % 64 == 0, beta, F(1e-3)).astype(F)


def one_hot(T):
    """Each key has a channel of its own; values differ by 2^14."""
    q, k, v, g, beta = layer(T)
    eye = np.eye(128, dtype=F)
    t = np.arange(T)
    k = np.repeat(eye[t % 128][:, None], 2, 1)
    q = np.repeat(eye[(5 * t + 3) % 128][:, None], 2, 1)
    return q, k, v * np.exp2(-2.0 * (t % 8)).astype(F)[:, None, None], np.full_like(g, -1e-3), np.full_like(beta, 0.9)


def smallest_memory(out, want):
    """Of one_hot: the error of outputs that read the smallest values."""
    t = np.arange(len(out))
    small = (t > len(out) // 2) & ((5 * t + 3) % 128 % 8 == 7)
    return error(out[small], want[small])


def of_calls(path):
    """The prepared operands of each layer, first to last; all layers have the calls of their tokens in turn."""
    calls = []
    with open(path, "rb") as f:
        while head := f.readline():
            c = json.loads(head)
            n, shapes = c["tokens"], [(c["heads_k"], c["dim_k"]), (c["heads_k"], c["dim_k"]), (c["heads_v"], c["dim_v"]), (c["heads_v"],), (c["heads_v"],)]
            calls.append((c, [np.fromfile(f, F, n * int(np.prod(s))).reshape(n, *s) for s in shapes],
                          [np.fromfile(f, F, c["heads_v"]) for _ in "ab"]))
    known = {}
    for c, x, (rate, bias) in calls:
        known.setdefault((rate.tobytes(), bias.tobytes()), []).append((c, x))
    for (rate, bias), parts in known.items():
        first = next(at for at in reversed(range(len(parts))) if parts[at][0]["position"] == 0)
        c = parts[first][0]
        q, k, v, g, beta = (np.concatenate([x[i] for _, x in parts[first:]]) for i in range(5))
        heads = np.arange(c["heads_v"])
        of_key = heads % c["heads_k"] if c["head_map"] else heads // (c["heads_v"] // c["heads_k"])
        y = (g + np.frombuffer(bias, F)).astype(np.float64)
        g = (np.frombuffer(rate, F) * np.logaddexp(0, y)).astype(F)
        yield unit(q[:, of_key]), unit(k[:, of_key]), v, g, (1 / (1 + np.exp(-beta.astype(np.float64)))).astype(F)


def error(out, want):
    return np.sqrt(((out - want) ** 2).mean() / (want ** 2).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=pathlib.Path, help="what capture.c wrote")
    parser.add_argument("--tokens", type=int, default=65536, help="of the long layer; the other rows have at most 4,096 (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="512 tokens each")
    args = parser.parse_args()
    some, long = (512, 512) if args.quick else (min(4096, args.tokens), args.tokens)
    cases = [(f"layer, {some:,} tokens", lambda: layer(some), error), (f"layer, {long:,} tokens", lambda: layer(long), error),
             ("similar keys", lambda: similar_keys(some), error), ("beta 1.95", lambda: eigenvalues(some), error),
             ("one key, beta 1.99", lambda: one_key(some), error), ("slow gates, few writes", lambda: hold(some), error),
             ("one-hot keys, values 1 to 2^-14", lambda: one_hot(some), error), ("... the smallest memory", lambda: one_hot(some), smallest_memory)]
    if args.calls:
        layers = list(of_calls(args.calls))
        for name, at in ("first", 0), ("middle", len(layers) // 2), ("last", -1):
            cases.append((f"the model's {name} layer, {len(layers[at][0]):,} tokens", lambda at=at: layers[at], error))
    print(f"| out against binary64 | {' | '.join(METHODS)} |\n|{'---|' * (len(METHODS) + 1)}", flush=True)
    for name, make, judge in cases:
        begin = time.time()
        data = make()
        want = recurrence64(*data)
        row = [judge(method(*data).astype(np.float64), want) for method in METHODS.values()]
        print(f"| {name} | {' | '.join(f'{x:.1e}' for x in row)} |", flush=True)
        print(f"{name}: {time.time() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
