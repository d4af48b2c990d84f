"""Calls that are prepared once for a layout: random sequences of calls, whose layouts change in every way, give the bits and
the errors of calls that are prepared anew.

    GDN_DRAWS=2000 python -m unittest test_prepared     as many sequences as that; GDN_DRAW=123 repeats one
"""
import ctypes as C
import os
import random
import re
import signal
import threading
import unittest

import numpy as np

import gdn
from cases import same

DRAWS, ONE = int(os.environ.get("GDN_DRAWS", 60)), os.environ.get("GDN_DRAW")


def laid_out(rng, values, free=()):
    """The same values in other memory: packed, in a wider array, or with other axes outermost; the last axis stays
    contiguous, unless it is free."""
    how = rng.choice(("packed", "wide", "swapped", "spread" if free else "packed"))
    if how == "wide":
        wide = np.full((*values.shape[:-1], values.shape[-1] + rng.choice((4, 8))), 7, values.dtype)
        made = wide[..., :values.shape[-1]]
    elif how == "swapped" and values.ndim > 2:
        made = np.full((values.shape[1], values.shape[0], *values.shape[2:]), 7, values.dtype).swapaxes(0, 1)
    elif how == "spread":
        made = np.full((*values.shape, 2), 7, values.dtype)[..., 0]
    else:
        made = np.full(values.shape, 7, values.dtype)
    made[...] = values
    return made


def types(rng, *allowed):
    return rng.choice(allowed or (np.float32, np.float32, np.float16))


def rule_call(rng, values):
    """A random call of gated_delta_net, with few dimensions, so that calls of a sequence often differ in one thing."""
    n, tokens, heads, dim = rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((16, 32))
    channel, layout, flat = rng.random() < 0.2, rng.choice(("vk", "kv")), rng.random() < 0.3
    lead = (n * tokens,) if flat else (n, tokens)
    def normal(*shape):
        return values.standard_normal(shape).astype(np.float32) * 0.3
    kind = types(rng)
    ops = {"q": normal(*lead, 1, dim), "k": normal(*lead, 1, dim), "v": normal(*lead, heads, 16),
           "g": -np.abs(normal(*lead, heads, dim) if channel else normal(*lead, heads)), "beta": np.abs(normal(*lead, heads))}
    ops = {name: laid_out(rng, x.astype(types(rng) if rng.random() < 0.2 else kind), free=name == "beta") for name, x in ops.items()}
    slots = rng.choice((None, 1, 2))
    pool = (n + 1, *([] if slots is None else [slots]), heads, *((16, dim) if layout == "vk" else (dim, 16)))
    named = {"state_layout": layout}
    state = rng.choice(("in place", "in place", "out", None))
    if state is not None:
        named["state"] = laid_out(rng, normal(*pool).astype(types(rng)))
    if state == "out":
        named["state_out"] = laid_out(rng, normal(*pool).astype(named["state"].dtype))
    if flat:
        named["seq_start"] = rng.choice((list, np.array))(range(0, n * tokens + 1, tokens))
    log = state is not None and rng.random() < 0.3
    if state is not None and rng.random() < 0.5:
        named["state_src"] = np.array([rng.choice((gdn.NONE, gdn.SKIP, row * (slots or 1))) for row in range(n)],
                                      rng.choice((np.int32, np.int64)))
    if state is not None and not log and rng.random() < 0.5:
        dst = [row * (slots or 1) for row in rng.sample(range(n + 1), n)]
        named["state_dst"] = dst if rng.random() < 0.5 else [[x, gdn.NONE] for x in dst]
    if rng.random() < 0.4 or log:
        named["position"] = [rng.choice((0, 1, 5))] * n
    if log:
        named["log"] = normal(n + 1, rng.choice((8, 9)), dim + heads * (16 + (dim if channel else 1)))
        if rng.random() < 0.5:
            named["log_row"] = rng.sample(range(n + 1), n)
        if rng.random() < 0.5:
            named["commit"] = [gdn.NONE if rng.random() < 0.5 else row * (slots or 1) for row in range(n)]
    elif state is not None and rng.random() < 0.3:
        named.update(checkpoint_interval=rng.choice((1, 2)), checkpoints=[n * (slots or 1) if not row else gdn.NONE for row in range(n)])
    if rng.random() < 0.4:
        named["scale"] = rng.choice((0.5, 1, 1.0, np.float32(0.25), 2))
    if rng.random() < 0.4:
        named.update(qk_norm=rng.choice(("add", "clamp")), qk_norm_eps=rng.choice((1e-6, 1e-2)))
    if rng.random() < 0.4:
        named.update(beta_input=rng.choice(("plain", "logit")), beta_factor=rng.choice((1.0, 2.0)))
    if rng.random() < 0.4:
        named.update(gate_input=rng.choice(("raw", "raw_a_log")), ssm_a=laid_out(rng, normal(heads), free=True))
        if rng.random() < 0.5:
            named["dt_bias"] = normal(heads, dim) if channel else normal(heads)
    if rng.random() < 0.2:
        named["read_key"] = laid_out(rng, ops["k"])
    if rng.random() < 0.4:
        named["out"] = laid_out(rng, normal(*ops["v"].shape).astype(types(rng)))
    elif rng.random() < 0.5:
        named["out_dtype"] = rng.choice((np.float32, np.float16, "float32", np.dtype(np.float16)))
    return gdn.gated_delta_net, {**ops, **named}


def conv_call(rng, values):
    n, tokens, channels, width = rng.choice((1, 2)), rng.choice((1, 2, 3)), rng.choice((8, 12)), rng.choice((3, 4))
    def normal(*shape):
        return laid_out(rng, values.standard_normal(shape).astype(types(rng)))
    named = {"x": normal(n, tokens, channels), "weight": normal(width, channels).T if rng.random() < 0.3 else normal(channels, width),
             "silu": rng.choice((False, True))}
    if rng.random() < 0.5:
        named["bias"] = values.standard_normal(channels).astype(types(rng))
    if rng.random() < 0.7:
        columns = rng.choice((3, 5))
        named["history"] = normal(n + 1, columns, channels)
        if rng.random() < 0.3:
            named["history_out"] = laid_out(rng, named["history"])
        if rng.random() < 0.5:
            named["history_src"] = [rng.choice((row, gdn.NONE, gdn.SKIP)) for row in range(n)]
        if rng.random() < 0.5:
            named["history_dst"] = rng.sample(range(n + 1), n)
        if rng.random() < 0.5:
            named["position"] = [rng.choice((0, 3))] * n
    if rng.random() < 0.4:
        named["out"] = normal(n, tokens, channels)
    return gdn.ssm_conv, named


def rows_call(rng, values):
    n, columns = rng.choice((1, 3)), rng.choice((32, 64))
    src = laid_out(rng, values.standard_normal((2, n, columns)).astype(types(rng)))
    dst = np.zeros((2, 5, columns // 32 * 34), np.uint8) if rng.random() < 0.3 else laid_out(rng, np.zeros((2, 5, columns), types(rng)))
    index = laid_out(rng, np.array([[rng.choice((gdn.NONE, 0, 4)) for _ in range(n)]] * rng.choice((1, 2)),
                                   rng.choice((np.int32, np.int64))), free=True)
    return gdn.set_rows, {"dst": dst, "index": index, "src": src}


def spoil(rng, named):
    """A call with one argument that may be wrong."""
    arrays = [name for name, x in named.items() if isinstance(x, np.ndarray)]
    name = rng.choice(arrays)
    x = named[name]
    change = rng.choice(("type", "order", "short", "axes", "locked", "backwards", "map", "option", "float", "overlap", "unknown"))
    bad = dict(named)
    if change == "type":
        bad[name] = x.astype(np.float64)
    elif change == "order":
        bad[name] = x.astype(x.dtype.newbyteorder())
    elif change == "short":
        bad[name] = x[..., :-1]
    elif change == "axes":
        bad[name] = x[None]
    elif change == "locked":
        bad[name] = x.view()
        bad[name].flags.writeable = False
    elif change == "backwards":
        bad[name] = x[::-1]
    elif change == "map":
        bad[rng.choice(("position", "state_src", "history_src", "seq_start", "log_row"))] = rng.choice(([9], [0.5], [1 << 40], [-7, 3]))
    elif change == "option":
        bad[rng.choice(("qk_norm", "state_layout", "gate_input", "silu", "uint16"))] = rng.choice(("no", [1], 3))
    elif change == "float":
        bad[rng.choice(("checkpoint_interval", "rounding_interval", "n_snapshots"))] = rng.choice((1.0, 2.0, True, "2"))
    elif change == "overlap":
        bad["out"] = x
    else:
        bad[rng.choice(("flags", "n_tokens", "bogus"))] = 1
    return bad


def copied(x):
    """A copy with the same layout."""
    if not isinstance(x, np.ndarray):
        return x
    if not x.size:
        return x.copy()
    reach = [(extent - 1) * stride for extent, stride in zip(x.shape, x.strides)]
    low, high = sum(step for step in reach if step < 0), sum(step for step in reach if step > 0) + x.itemsize
    memory = np.frombuffer(C.string_at(x.ctypes.data + low, high - low), np.uint8).copy()
    made = np.ndarray(x.shape, x.dtype, memory, -low, x.strides)
    made.flags.writeable = x.flags.writeable
    return made


def outcome(kernel, named, context):
    """The result and all arrays after a call, or its error."""
    copies = {}  # of one array for all its names
    given = {name: copies.setdefault(id(x), copied(x)) for name, x in named.items()}
    try:
        out = kernel(**given, context=context)
    except Exception as error:  # whatever is raised, the other call has to raise it too
        return type(error), re.sub("0x[0-9a-f]+", "address", str(error))
    return [out] + [x for x in given.values() if isinstance(x, np.ndarray)]


def equal(one, other):
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


class Sequences(unittest.TestCase):
    def test_draws(self):
        told = {"good": 0, "bad": 0}
        for seed in range(DRAWS) if ONE is None else [int(ONE)]:
            rng, values = random.Random(seed), np.random.default_rng(seed)
            context, anew = gdn.Context(n_threads=rng.choice((1, 2))), gdn.Context(n_threads=1)
            drawn = [rng.choice((rule_call, rule_call, conv_call, rows_call))(rng, values) for _ in range(rng.choice((2, 12)))]
            for at in range(40):
                kernel, named = rng.choice(drawn)
                if rng.random() < 0.3:
                    named = spoil(rng, named)
                anew.thread.calls.clear()
                got, want = outcome(kernel, named, context), outcome(kernel, named, anew)
                told["good" if isinstance(want, list) else "bad"] += 1
                self.assertTrue(equal(got, want), f"GDN_DRAW={seed}, call {at} of {kernel.__name__}: {got if isinstance(got, tuple) else ''} "
                                f"{want if isinstance(want, tuple) else ''}")
            self.assertLessEqual(len(context.thread.calls), gdn._prepared.MOST)
        self.assertTrue(told["good"] > told["bad"] > 0, told)

    def test_one_change(self):
        """Each thing that a prepared call depends on, alone, behind a call without it."""
        def call(**changed):
            rng = np.random.default_rng(1)
            q, k, v = (rng.standard_normal((2, 3, 2, 16)).astype(np.float32) for _ in range(3))
            return {"q": q, "k": k, "v": v, "g": -rng.random((2, 3, 2), np.float32), "beta": rng.random((2, 3, 2), np.float32),
                    "state": rng.standard_normal((2, 2, 16, 16)).astype(np.float32), **changed}
        plain = call()
        wide = np.zeros((2, 3, 2, 24), np.float32)
        wide[..., :16] = plain["q"]
        changes = [{"q": wide[..., :16]}, {"q": plain["q"].astype(np.float16)}, {"q": plain["q"].view(np.int32)}, {"scale": 0.5}, {"scale": 1}, {"scale": 1.0},
                   {"state_layout": "kv"}, {"state": None}, {"state_out": np.zeros((2, 2, 16, 16), np.float32)},
                   {"state": plain["state"].swapaxes(0, 1).copy().swapaxes(0, 1)}, {"out": np.zeros((2, 3, 2, 16), np.float16)},
                   {"out_dtype": np.float16}, {"beta_factor": 2.0}, {"beta_input": "logit"}, {"gate_input": "linear"},
                   {"qk_norm": "add", "qk_norm_eps": 1e-6}, {"qk_norm": "add", "qk_norm_eps": 1e-2}, {"qk_norm": "clamp", "qk_norm_eps": 1e-6},
                   {"state_src": [gdn.NONE, 1]}, {"state_dst": [gdn.NONE, 1]}, {"state_src": [gdn.NONE, gdn.SKIP]}, *(
                       {"gate_input": "bounded", "lower_bound": -1.0, name: np.ones(2, np.float32)} for name in ("ssm_a", "dt_bias")), {"state_dst": [[1], [0]]}, {"head_map": "tiled"},
                   {"read_key": plain["q"]}, {"n_snapshots": 1}, {"n_snapshots": 1.0}, {"n_snapshots": 2}, {"ssm_a": np.ones(2, np.float32)},
                   {"gate_input": "raw", "ssm_a": -np.ones(2, np.float32)}, {"gate_input": "raw", "ssm_a": -np.ones((2, 2), np.float32)[:, 0]},
                   {"checkpoint_interval": 2, "checkpoints": [gdn.NONE] * 2}, {"uint16": "float16"}, {"scale": np.array(0.5)}]
        good = 0
        for first in ({}, *changes):
            for then in ({}, *changes):
                context, anew = gdn.Context(n_threads=1), gdn.Context(n_threads=1)
                good += isinstance(outcome(gdn.gated_delta_net, call(**first), context), list)
                got, want = (outcome(gdn.gated_delta_net, call(**then), where) for where in (context, anew))
                self.assertTrue(equal(got, want), (first, then, got, want))
        self.assertGreater(good, 0.7 * len(changes) ** 2)

    def test_option_that_changes(self):
        """An option that is an object with a value of its own is read each time."""
        class Half:
            value = 0.5

            def __float__(self):
                return self.value
        operands, half = rule_call(random.Random(3), np.random.default_rng(3))[1], Half()
        for name in [name for name in operands if name not in ("q", "k", "v", "g", "beta")]:
            del operands[name]
        first = gdn.gated_delta_net(**operands, scale=half)
        half.value = 0.25
        self.assertFalse(same(first, gdn.gated_delta_net(**operands, scale=half)))

    def test_bounded(self):
        context = gdn.Context(n_threads=1)
        for tokens in range(1, gdn._prepared.MOST + 20):
            gdn.ssm_conv(np.ones((1, tokens, 8), np.float32), np.ones((8, 2), np.float32), context=context)
        self.assertEqual(len(context.thread.calls), gdn._prepared.MOST)

    def test_threads(self):
        """Threads with one context and one layout, each with values of its own."""
        context, wrong = gdn.Context(n_threads=2), []

        def work(value):
            x, weight = np.full((1, 4, 16), value, np.float32), np.ones((16, 1), np.float32)
            for _ in range(200):
                if not (gdn.ssm_conv(x, weight, context=context) == value).all():
                    wrong.append(value)
        threads = [threading.Thread(target=work, args=(value,)) for value in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    @unittest.skipUnless(hasattr(signal, "setitimer"), "no timers here")
    def test_interrupted(self):
        """A signal handler makes the same call between the steps of another one."""
        context, weight, count, wrong = gdn.Context(n_threads=1), np.ones((16, 1), np.float32), [0], []
        one, two = np.ones((1, 4, 16), np.float32), np.full((1, 4, 16), 2, np.float32)

        def handler(*_):
            if count[0] < 0:  # in a handler: on a slow machine a call takes longer than the timer
                return
            count[0] = -count[0] - 1
            if not (gdn.ssm_conv(two, weight, context=context) == 2).all():
                wrong.append(2)
            count[0] = -count[0]
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-4, 2e-4)
            for _ in range(20000):
                if not (gdn.ssm_conv(one, weight, context=context) == 1).all():
                    wrong.append(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(wrong, [])
        self.assertGreater(count[0], 20)


if __name__ == "__main__":
    unittest.main()
