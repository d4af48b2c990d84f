#!/usr/bin/env python3
"""Prints the polynomial coefficients of numerics/elementary.h.

Each is a weighted minimax fit (Remez exchange, 60 digits). The coefficients are then rounded to
binary32. The first two are rounded one at a time, and the rest are fitted again each time. So the
others compensate the rounding errors of the two that matter most.

    python3 scripts/fit_elementary.py        (needs python3-mpmath)
"""
import struct
from mpmath import mp, mpf, matrix, lu_solve, exp, expm1, log, log1p

mp.dps = 60


def to_float32(v):
    """v rounded to binary32, to nearest."""
    return mpf(struct.unpack("<f", struct.pack("<f", float(v)))[0])


def bits(v):
    return "0x%08x" % struct.unpack("<I", struct.pack("<f", float(v)))[0]


def remez(target, weight, lo, hi, powers, points=1000):
    """c minimising max |weight(t) * (target(t) - sum c[k] t^powers[k])| over [lo, hi]."""
    n = len(powers)
    grid = [lo + (hi - lo) * mpf(i) / points for i in range(points + 1)]
    grid = [t for t in grid if weight(t) != 0]
    want = [target(t) for t in grid]
    weights = [weight(t) for t in grid]
    ref = [round((1 - mp.cos(mp.pi * i / n)) / 2 * (len(grid) - 1)) for i in range(n + 1)]
    for _ in range(60):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, g in enumerate(ref):
            for k, power in enumerate(powers):
                a[row, k] = weights[g] * grid[g] ** power
            a[row, n] = (-1) ** row
            b[row] = weights[g] * want[g]
        solution = lu_solve(a, b)
        c, level = [solution[k] for k in range(n)], abs(solution[n])
        error = [w * (v - sum(ck * t ** p for ck, p in zip(c, powers)))
                 for t, v, w in zip(grid, want, weights)]
        # The new reference: the largest error of every run of one sign.
        runs = [0]
        for g in range(1, len(grid)):
            if (error[g] > 0) != (error[runs[-1]] > 0):
                runs.append(g)
            elif abs(error[g]) > abs(error[runs[-1]]):
                runs[-1] = g
        while len(runs) > n + 1:
            runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
        worst = max(abs(e) for e in error)
        if len(runs) < n + 1 or worst < level * (1 + mpf(10) ** -6):
            return c, worst
        ref = runs
    return c, worst


def fit(name, target, weight, lo, hi, degree):
    fixed = []
    for k in range(3):
        rest = lambda t: target(t) - sum(c * t ** i for i, c in enumerate(fixed))
        c, worst = remez(rest, weight, lo, hi, list(range(k, degree + 1)))
        fixed += [to_float32(ck) for ck in (c[:1] if k < 2 else c)]
    error = max(abs(weight(t) * (target(t) - sum(c * t ** i for i, c in enumerate(fixed))))
                for t in (lo + (hi - lo) * mpf(i) / 4000 for i in range(4001)) if weight(t) != 0)
    print("%s: relative error 2^%.2f" % (name, mp.log(error, 2)))
    for k, c in enumerate(fixed):
        print("  c%d  %-18s %s" % (k + 2, repr(float(c)), bits(c)))


def main():
    half = log(2) / 2 + mpf(2) ** -20
    fit("exp(r) = 1 + r + r^2 (c2 + c3 r + ...)",
        lambda r: (expm1(r) - r) / r ** 2 if r else mpf(1) / 2,
        lambda r: r ** 2 / exp(r), -half, half, 4)
    fit("log1p(f) = f + f^2 (c2 + c3 f + ...)",
        lambda f: (log1p(f) - f) / f ** 2 if f else mpf(-1) / 2,
        lambda f: abs(f ** 2 / log1p(f)) if f else mpf(0), mpf(-1) / 4, mpf(1) / 2, 8)
    # ln 2 in two parts: 15 bits, so that k * hi is exact for |k| < 512, and the rest.
    hi = mp.floor(log(2) * 2 ** 15) / 2 ** 15
    print("ln2: hi %r %s  lo %r %s" % (float(hi), bits(hi), float(to_float32(log(2) - hi)), bits(log(2) - hi)))
    print("log2(e): %r %s" % (float(to_float32(1 / log(2))), bits(1 / log(2))))


if __name__ == "__main__":
    main()
