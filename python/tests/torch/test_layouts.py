"""Prepared calls of tensors. Random sequences of calls, whose layouts change, give the bits and the errors of calls that are
prepared anew. States in place, with rows and drafts as engines pass them, equal those of separate calls.

    GDN_DRAWS=2000 python -m unittest test_layouts     as many sequences as that; GDN_DRAW=123 repeats one
"""
import os
import random
import re
import unittest

import torch

import gdn.torch as G
from gdn.torch import _operators

DRAWS, ONE = int(os.environ.get("GDN_DRAWS", 40)), os.environ.get("GDN_DRAW")
RULE, KDA = G.fused_recurrent_gated_delta_rule, G.fused_recurrent_kda


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(*(x.flatten().clone().view(torch.uint8) for x in (a, b)))


def laid_out(rng, x):
    """The same values in other memory."""
    how = rng.choice(("packed", "wide", "swapped", "spread", "expanded"))
    if how == "wide":
        made = x.new_full((*x.shape[:-1], x.shape[-1] + 5), 7)[..., :x.shape[-1]]
    elif how == "swapped" and x.dim() > 1:
        made = x.new_empty((x.shape[1], x.shape[0], *x.shape[2:])).transpose(0, 1)
    elif how == "spread":
        made = x.new_empty((*x.shape, 2))[..., 1]
    elif how == "expanded":
        return x[..., :1].expand(x.shape)
    else:
        made = torch.empty_like(x, memory_format=torch.contiguous_format)
    return made.copy_(x)


def rule_call(rng, values):
    def normal(*shape):
        return torch.randn(shape, generator=values) * 0.3
    n, tokens, heads, dim, channel = rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((16, 32)), rng.random() < 0.3
    packed, v_first = rng.random() < 0.3, rng.random() < 0.4
    lead, kind = ((1, n * tokens) if packed else (n, tokens)), rng.choice((torch.float32, torch.bfloat16))
    ops = {"q": normal(*lead, 1, dim), "k": normal(*lead, 1, dim), "v": normal(*lead, heads, 16),
           "g": -normal(*lead, heads, dim).abs() if channel else -normal(*lead, heads).abs(), "beta": normal(*lead, heads).abs()}
    ops = {name: laid_out(rng, x.to(torch.float16 if rng.random() < 0.1 else kind)) for name, x in ops.items()}
    named = {"output_final_state": True, "state_v_first": v_first, "use_qk_l2norm_in_kernel": rng.random() < 0.5,
             "use_beta_sigmoid_in_kernel": rng.random() < 0.5, "scale": rng.choice((None, 1, 1.0, 0.5))}
    if packed:
        named["cu_seqlens"] = torch.arange(0, n * tokens + 1, tokens, dtype=rng.choice((torch.int32, torch.int64)))
    if rng.random() < 0.7:
        rows = n + (named.setdefault("inplace_final_state", rng.random() < 0.6) and 3)
        state = normal(rows, heads, *((16, dim) if v_first else (dim, 16)))
        if named["inplace_final_state"]:
            columns = rng.choice((None, tokens, tokens + 1))
            index = torch.tensor(rng.sample(range(rows), n) if columns is None else
                                 [[one] + [-1] * (columns - 1) for one in rng.sample(range(rows), n)], dtype=rng.choice((torch.int32, torch.int64)))
            named["ssm_state_indices"] = index
            state = state.to(rng.choice((torch.float32, torch.float32, torch.bfloat16)))
            if columns is not None and rng.random() < 0.5:
                named["num_accepted_tokens"] = torch.tensor([1] * n)
        else:
            state = laid_out(rng, state)
        named["initial_state"] = state
    if rng.random() < 0.3:
        named.update(use_gate_in_kernel=True, A_log=laid_out(rng, normal(heads)), dt_bias=normal(heads * (dim if channel else 1)))
        if channel and rng.random() < 0.5:
            named["lower_bound"] = rng.choice((-5.0, -1.0))
    return (KDA if channel else RULE), {**ops, **named}


def conv_call(rng, values):
    def normal(*shape):
        return laid_out(rng, torch.randn(shape, generator=values).to(rng.choice((torch.float32, torch.bfloat16))))
    n, tokens, channels, width = rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((8, 12)), rng.choice((3, 4))
    named = {"x": normal(n, channels, tokens), "weight": normal(channels, width), "activation": rng.choice((None, "silu"))}
    if rng.random() < 0.5:
        named["bias"] = normal(channels)
    if rng.random() < 0.5:
        named["initial_states"] = normal(n, channels, width - 1)
    return G.causal_conv1d_fn, named


def spoil(rng, named):
    name = rng.choice([name for name, x in named.items() if isinstance(x, torch.Tensor)])
    x = named[name]
    change = rng.choice(("type", "short", "axes", "meta", "drop", "unknown"))
    if change == "unknown":
        return {**named, "bogus": 1}
    if change == "drop":
        return {**named, name: None} if name not in ("q", "k", "v", "x", "g", "weight") else named
    return {**named, name: {"type": lambda: x.double(), "short": lambda: x[..., :-1], "axes": lambda: x[None], "meta": lambda: x.to("meta")}[change]()}


def outcome(function, named):
    given = dict(named)
    if named.get("inplace_final_state") and isinstance(named["initial_state"], torch.Tensor):
        given["initial_state"] = named["initial_state"].clone()
    try:
        out = function(**given)
    except Exception as error:  # whatever is raised, the other call has to raise it too
        return type(error), re.sub("0x[0-9a-f]+", "address", str(error))
    return [x for x in (out if isinstance(out, tuple) else (out,)) if x is not None]


def equal(one, other):
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


class Sequences(unittest.TestCase):
    def test_draws(self):
        """Against calls that are prepared anew, and against the operators of torch.library."""
        told = {"good": 0, "bad": 0}
        for seed in range(DRAWS) if ONE is None else [int(ONE)]:
            rng, values = random.Random(seed), torch.Generator().manual_seed(seed)
            drawn = [rng.choice((rule_call, rule_call, conv_call))(rng, values) for _ in range(rng.choice((2, 10)))]
            calls = _operators.context().thread.calls
            for at in range(30):
                function, named = rng.choice(drawn)
                if rng.random() < 0.3:
                    named = spoil(rng, named)
                got = outcome(function, named)
                kept = calls.copy()
                calls.clear()
                want = outcome(function, named)
                with torch.overrides.BaseTorchFunctionMode():  # a mode: nothing but operators
                    other = outcome(function, named)
                calls.clear()
                calls.update(kept)
                told["good" if isinstance(want, list) else "bad"] += 1
                self.assertTrue(equal(got, want), f"GDN_DRAW={seed}, call {at} of {function.__name__}: {got} {want}")
                if isinstance(want, list):
                    self.assertTrue(equal(got, other), f"GDN_DRAW={seed}, call {at} of {function.__name__}: the operator gives {other}")
        self.assertTrue(told["good"] > told["bad"] > 0, told)

    def test_one_change(self):
        """Each option and operand alone, behind a call without it."""
        rng = torch.Generator().manual_seed(1)
        q, k, v = (torch.randn(2, 2, 2, 16, generator=rng) for _ in range(3))
        state = torch.randn(2, 2, 16, 16, generator=rng)
        plain = {"q": q, "k": k, "v": v, "g": -torch.rand(2, 2, 2, generator=rng), "beta": torch.rand(2, 2, 2, generator=rng), "output_final_state": True}
        bounded = {"use_gate_in_kernel": True, "lower_bound": -1.0, "g": torch.randn(2, 2, 2, 16, generator=rng)}
        in_place = {"initial_state": state, "inplace_final_state": True}
        changes = [{}, {"scale": 0.5}, {"scale": 1}, {"use_qk_l2norm_in_kernel": True}, {"use_beta_sigmoid_in_kernel": True},
                   {"use_beta_sigmoid_in_kernel": True, "allow_neg_eigval": True}, {"state_v_first": True}, {"initial_state": state},
                   {"initial_state": state.half()}, in_place, {**in_place, "initial_state": state.half()}, {**in_place, "state_v_first": True},
                   {**in_place, "ssm_state_indices": torch.tensor([1, 0])}, {**in_place, "ssm_state_indices": torch.tensor([[1, -1], [0, -1]])},
                   {"use_gate_in_kernel": True, "A_log": torch.ones(2)}, {"q": q.half()}, {"q": laid_out(random.Random(7), q)}, {"v": v[..., :1].expand(v.shape)},
                   bounded, {**bounded, "lower_bound": -2.0}, {**bounded, "A_log": torch.ones(32)[:2]}, {**bounded, "dt_bias": torch.ones(32)}]
        calls = _operators.context().thread.calls
        for first in changes:
            for then in changes:
                calls.clear()
                got = [outcome(KDA if "lower_bound" in named else RULE, {**plain, **named}) for named in (first, then)]
                calls.clear()
                want = outcome(KDA if "lower_bound" in then else RULE, {**plain, **then})
                self.assertIsInstance(want, list, then)
                self.assertTrue(equal(got[1], want), (first, then))
        gates = [{name: torch.ones(2)} for name in ("a_log", "dt_bias")]  # the same layout
        given = [G.gated_delta_net(*(plain[name] for name in ("q", "k", "v", "g", "beta")), lower_bound=-1.0, **gate)[0] for gate in gates]
        calls.clear()
        self.assertTrue(same(given[1], G.gated_delta_net(*(plain[name] for name in ("q", "k", "v", "g", "beta")), lower_bound=-1.0, **gates[1])[0]))


class InPlace(unittest.TestCase):
    def operands(self, seed, batch, tokens, heads=2, dim=32):
        rng = torch.Generator().manual_seed(seed)
        q, k, v = (torch.randn(batch, tokens, n, dim, generator=rng) * 0.3 for n in (1, 1, heads))
        return q, k, v, -torch.rand(batch, tokens, heads, generator=rng), torch.rand(batch, tokens, heads, generator=rng)

    def token(self, ops, s, t, state):
        one = [x[s:s + 1, t:t + 1] for x in ops]
        return RULE(*one[:4], beta=one[4], initial_state=state[None], output_final_state=True)

    def test_state_is_written(self):
        ops = self.operands(1, 3, 4)
        state = torch.randn(3, 2, 32, 32, generator=torch.Generator().manual_seed(2))
        want, final = RULE(*ops[:4], beta=ops[4], initial_state=state, output_final_state=True)
        pool = torch.zeros(3, 5, 2, 32, 32)[:, 1]  # rows of an engine's block, which lie apart
        pool.copy_(state)
        out, same_one = RULE(*ops[:4], beta=ops[4], initial_state=pool, inplace_final_state=True)
        self.assertTrue(same_one is pool and same(out, want) and same(pool, final))
        for text, named in (("needs initial_state", {}), ("has 4 rows; it must be 3", {"initial_state": torch.zeros(4, 2, 32, 32)})):
            with self.assertRaisesRegex(ValueError, text):
                RULE(*ops[:4], beta=ops[4], inplace_final_state=True, **named)
        with self.assertRaisesRegex(ValueError, "needs inplace_final_state"):
            RULE(*ops[:4], beta=ops[4], initial_state=state, ssm_state_indices=torch.tensor([0, 1, 2]))

    def drafts(self, packed, accepted, compiled=False):
        """Steps of an engine: each token's state goes to a row of its own, and the next step begins at an accepted one."""
        lengths = (3, 1, 2) if packed else (3, 3, 3)
        pool = torch.randn(12, 2, 32, 32, generator=torch.Generator().manual_seed(3))
        index = torch.tensor([[1, 4, 7], [2, 5, 8], [3, 6, 9]], dtype=torch.int32)
        ops = self.operands(4, 3, 3)
        start = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
        given = [torch.cat([x[s, :length] for s, length in enumerate(lengths)])[None] for x in ops] if packed else ops
        want = pool.clone()
        parts = []
        for s, length in enumerate(lengths):
            state = pool[index[s, accepted[s] - 1]]
            for t in range(length):
                out, state = self.token(ops, s, t, state)
                state = state[0]
                want[index[s, t]] = state
                parts.append(out[0, 0])

        def run(pool):
            return RULE(*given[:4], beta=given[4], initial_state=pool, inplace_final_state=True, cu_seqlens=start if packed else None,
                        ssm_state_indices=index, num_accepted_tokens=torch.tensor(accepted, dtype=torch.int32))
        if compiled:
            run = torch.compile(run, backend="aot_eager", fullgraph=True)
        with torch.no_grad():
            out, final = run(pool)
        self.assertTrue(same(out.flatten(0, 1), torch.stack(parts)) and same(pool, want) and same(final, pool))

    def test_drafts(self):
        for packed in (False, True):
            for accepted in ([1, 1, 1], [3, 1, 2], [2, 3, 1]):
                self.drafts(packed, accepted)
            self.drafts(packed, [2, 1, 3], compiled=True)

    def test_rows_and_padding(self):
        ops = self.operands(5, 3, 1)
        before = torch.randn(6, 2, 32, 32, generator=torch.Generator().manual_seed(6))
        for index in ([4, -1, 0], [[4], [-7], [0]]):
            for dtype in (torch.int32, torch.int64):
                pool, want = before.clone(), before.clone()
                out, _ = RULE(*ops[:4], beta=ops[4], initial_state=pool, inplace_final_state=True, ssm_state_indices=torch.tensor(index, dtype=dtype))
                for s, row in ((0, 4), (2, 0)):
                    alone, state = self.token(ops, s, 0, before[row])
                    want[row] = state[0]
                    self.assertTrue(same(out[s], alone[0]))
                self.assertTrue(same(pool, want) and not out[1].any())
        for error, index, accepted in ((ValueError, [6, 1, 2], None), (ValueError, [1, 2], None), (ValueError, [1, 2, 3], [1, 1, 1]),
                                       (Exception, [[1], [2], [3]], [2, 1, 1]), (Exception, [[1], [2], [3]], [0, 1, 1]),
                                       (ValueError, [2, 2, 1], None)):
            pool = before.clone()
            with self.assertRaises(error):
                RULE(*ops[:4], beta=ops[4], initial_state=pool, inplace_final_state=True, ssm_state_indices=torch.tensor(index),
                     num_accepted_tokens=None if accepted is None else torch.tensor(accepted))
            self.assertTrue(same(pool, before))

    def test_gradients_are_refused(self):
        ops = self.operands(7, 1, 1)
        with self.assertRaises((NotImplementedError, RuntimeError)):
            out, _ = RULE(ops[0].requires_grad_(), *ops[1:4], beta=ops[4], initial_state=torch.zeros(1, 2, 32, 32), inplace_final_state=True)
            out.sum().backward()


if __name__ == "__main__":
    unittest.main()
