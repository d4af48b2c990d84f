"""gdn.torch: values against formulas in float64, the same bits however the work is cut, shapes for torch.compile, refusals."""
import os
import pathlib
import re
import sys
import threading
import unittest
import unittest.mock

import numpy as np
import torch
import torch.nn.functional as F

import gdn
import gdn.torch as G
from gdn.torch import _again, _layer, _operators

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from cases import conv_formula, gdn_formula, gdn_operands  # noqa: E402


def operands(seed, *shape, dtype=torch.float32, channel=False):
    return [torch.from_numpy(x).to(dtype) for x in gdn_operands(np.random.default_rng(seed), *shape, channel=channel)]


def same(a, b):
    """The same bits."""
    as_bytes = [x.flatten().contiguous().view(torch.uint8) for x in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(*as_bytes)


class Rule(unittest.TestCase):
    def test_values(self):
        for dtype, error in ((torch.float32, 2e-5), (torch.bfloat16, 0.02), (torch.float16, 0.005)):
            for channel in (False, True):
                for v_first in (False, True):
                    ops = operands(1, 2, 9, 2, 4, 32, 48, dtype=dtype, channel=channel)
                    state = torch.randn(2, 4, 32, 48) * 0.1
                    function = G.chunk_kda if channel else G.chunk_gated_delta_rule
                    out, final = function(*ops, initial_state=state.transpose(-1, -2) if v_first else state, output_final_state=True,
                                          state_v_first=v_first)
                    want, want_state = gdn_formula(*(x.double().numpy() for x in ops), state.numpy())
                    self.assertEqual((out.dtype, final.dtype), (dtype, torch.float32))
                    self.assertLess(np.abs(out.double().numpy() - want).max(), error)
                    final = final.transpose(-1, -2) if v_first else final
                    self.assertLess(np.abs(final.numpy() - want_state).max(), 2e-5)

    def test_norm_scale_gates(self):
        q, k, v, _, _ = operands(2, 1, 7, 2, 4, 32, 32)
        raw, logit = torch.randn(1, 7, 4), torch.randn(1, 7, 4)
        a_log, bias = torch.tensor([0.1, -1, 0.5, 1]), torch.randn(4)
        g = -a_log.double().exp() * F.softplus(raw.double() + bias)
        want, _ = gdn_formula(q, k, v, g, 2 * logit.double().sigmoid(), torch.zeros(1, 4, 32, 32), scale=0.5)
        named = dict(scale=0.5, use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True,
                     use_gate_in_kernel=True, A_log=a_log, dt_bias=bias)
        out, final = G.chunk_gated_delta_rule(3 * q, 0.2 * k, v, raw, logit, **named)
        self.assertIsNone(final)
        self.assertLess((out - torch.from_numpy(want)).abs().max(), 3e-5)
        again, _ = G.fused_recurrent_gated_delta_rule(3 * q, 0.2 * k, v, raw, beta=logit, **named)
        self.assertTrue(same(out, again))
        raw = torch.randn(1, 7, 4, 32)
        bias = torch.randn(4 * 32)
        g = -a_log.double().exp()[:, None] * F.softplus(raw.double() + bias.view(4, 32))
        want, _ = gdn_formula(q, k, v, g, logit.double().sigmoid(), torch.zeros(1, 4, 32, 32))
        named = dict(use_beta_sigmoid_in_kernel=True, use_gate_in_kernel=True, A_log=a_log, dt_bias=bias)
        out, _ = G.chunk_kda(q, k, v, raw, logit, **named)
        self.assertLess((out - torch.from_numpy(want)).abs().max(), 2e-5)
        self.assertTrue(same(out, G.fused_recurrent_kda(q, k, v, raw, logit, **named)[0]))

    def test_bounded_gate(self):
        q, k, v, _, beta = operands(4, 1, 7, 2, 4, 32, 32)
        raw, a_log, bias = 3 * torch.randn(1, 7, 4, 32), torch.tensor([0.1, -1, 0.5, 1]), torch.randn(4 * 32)
        for given in (a_log, None):
            factor = 1 if given is None else a_log.double().exp()[:, None]
            g = -5 * torch.sigmoid(factor * (raw.double() + bias.view(4, 32)))
            want, _ = gdn_formula(q, k, v, g, beta, torch.zeros(1, 4, 32, 32))
            named = dict(use_gate_in_kernel=True, A_log=given, dt_bias=bias, lower_bound=-5)
            out, _ = G.chunk_kda(q, k, v, raw, beta, safe_gate=True, **named)
            self.assertLess((out - torch.from_numpy(want)).abs().max(), 2e-5)
            self.assertTrue(same(out, G.fused_recurrent_kda(q, k, v, raw, beta, **named)[0]))

    def test_gates_of_the_recurrent_form(self):
        q, k, v, gk, beta = operands(3, 1, 6, 2, 2, 32, 32, channel=True)
        g = -torch.rand(1, 6, 2)
        rule = G.fused_recurrent_gated_delta_rule
        self.assertTrue(same(rule(q, k, v, gk=gk, beta=beta)[0], G.chunk_kda(q, k, v, gk, beta)[0]))
        self.assertTrue(same(rule(q, k, v, g, gk=gk, beta=beta)[0], G.chunk_kda(q, k, v, gk + g[..., None], beta)[0]))
        self.assertTrue(same(rule(q, k, v)[0], G.chunk_gated_delta_rule(q, k, v, torch.zeros(1, 6, 2), torch.ones(1, 6, 2))[0]))

    def test_prefill_is_decode_and_batches_are_sequences(self):
        for dtype in (torch.float32, torch.bfloat16):
            ops = operands(4, 3, 40, 2, 4, 64, 64, dtype=dtype)
            whole, final = G.chunk_gated_delta_rule(*ops, output_final_state=True, use_qk_l2norm_in_kernel=True)
            state, parts = None, []
            for t in range(40):
                q, k, v, g, beta = (x[:, t:t + 1] for x in ops)
                out, state = G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=state, output_final_state=True,
                                                                use_qk_l2norm_in_kernel=True)
                parts.append(out)
            self.assertTrue(same(torch.cat(parts, 1), whole) and same(state, final))
            for s in range(3):
                out, state = G.chunk_gated_delta_rule(*(x[s:s + 1] for x in ops), output_final_state=True, use_qk_l2norm_in_kernel=True)
                self.assertTrue(same(out[0], whole[s]) and same(state[0], final[s]))
            threads = torch.get_num_threads()
            try:
                for n in (1, 3):
                    torch.set_num_threads(n)
                    self.assertTrue(same(G.chunk_gated_delta_rule(*ops, use_qk_l2norm_in_kernel=True)[0], whole))
            finally:
                torch.set_num_threads(threads)

    def test_calls_again(self):
        """Calls of one form after another, with other tensors and numbers in the maps, give what the first call of a form gives."""
        rng = np.random.default_rng(3)
        pick = lambda *values: values[int(rng.integers(len(values)))]
        again = unittest.mock.Mock(wraps=_again.rule)
        ran = refused = 0
        forms = [(pick(1, 2), pick(1, 3), pick(16, 32), pick(torch.float32, torch.bfloat16), pick(False, True), pick(False, True),
                  pick("new", "none", "kept", "half", "in place", "pool", "pool", "drafts"), pick("plain", "raw")) for _ in range(24)]
        for turn in range(200):
            batch, tokens, dim, dtype, v_first, channel, kind, gate = forms[int(rng.integers(len(forms)))]
            q, k, v, g, beta = operands(turn, batch, tokens, 1, 2, dim, dim, dtype=dtype, channel=channel)
            if rng.random() < 0.5:
                q = torch.cat((q, q), 2)[:, :, :1] if rng.random() < 0.5 else torch.stack((q, q), -1)[..., 0]
            shape = (batch + 2 if kind in ("pool", "drafts") else batch, 2, dim, dim)
            state = torch.randn(shape, dtype=torch.bfloat16 if kind == "half" else torch.float32)
            options = {"use_qk_l2norm_in_kernel": True, "state_v_first": v_first, "scale": pick(None, 0.5)}
            rule = G.fused_recurrent_kda if channel else G.fused_recurrent_gated_delta_rule
            if gate == "raw":
                options.update(use_gate_in_kernel=True, A_log=torch.randn(2), dt_bias=torch.randn(2 * dim if channel else 2))
            if kind in ("pool", "drafts"):
                rows = torch.from_numpy(rng.permutation(batch + 2)[:batch].astype(pick("int32", "int64")))
                if kind == "drafts":
                    rows = torch.stack((rows,) + (torch.full_like(rows, -1),) * (tokens - 1), 1)
                    if rng.random() < 0.5:
                        options["num_accepted_tokens"] = torch.ones(batch, dtype=torch.int32)
                elif rng.random() < 0.3:
                    rows[0] = pick(-1, batch + 2)  # padding, and none
                options["ssm_state_indices"] = rows
            if kind in ("in place", "pool", "drafts"):
                options["inplace_final_state"] = True
            else:
                options["output_final_state"] = True
            results = []
            for key in (None, _again.key, _again.key):
                own = None if kind == "none" else state.clone()
                with unittest.mock.patch.object(_again, "rule", again), unittest.mock.patch.object(_again, "key", key or (lambda *given: None)):
                    again.reset_mock()
                    try:
                        out, final = rule(q, k, v, g, beta=beta, initial_state=own, **options)
                        results.append((out, final, own if kind in ("in place", "pool", "drafts") else None))
                    except gdn.Error as error:
                        results.append(str(error))
            ran += again.called
            refused += isinstance(results[0], str)
            for result in results[1:]:
                if isinstance(results[0], str):
                    self.assertEqual(result, results[0])
                else:
                    self.assertTrue(all(x is y is None or same(x, y) for x, y in zip(result, results[0])), (turn, kind))
        self.assertGreater(ran, 150)
        self.assertGreater(refused, 0)

    def test_maps_that_change_without_a_trace(self):
        q, k, v, g, beta = operands(1, 1, 2, 1, 2, 32, 32)
        starts, rows, pool = torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32), torch.randn(4, 2, 32, 32)
        for numbers in ((0, 1), (2, 3), (3, 0), (0, 1)):
            rows.numpy()[:] = numbers
            results = []
            for key in (None, _again.key):
                own = pool.clone()
                with unittest.mock.patch.object(_again, "key", key or (lambda *given: None)):
                    results.append((G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=own, inplace_final_state=True,
                                                                       cu_seqlens=starts, ssm_state_indices=rows)[0], own))
            self.assertTrue(all(map(same, *results)), numbers)

    def test_packed_sequences(self):
        ops = operands(5, 1, 20, 2, 2, 32, 32)
        starts = torch.tensor([0, 7, 7, 20])
        state = torch.randn(3, 2, 32, 32) * 0.1
        out, final = G.chunk_gated_delta_rule(*ops, initial_state=state, output_final_state=True, cu_seqlens=starts)
        for s, (begin, end) in enumerate(((0, 7), (7, 7), (7, 20))):
            alone, last = G.chunk_gated_delta_rule(*(x[:, begin:end] for x in ops), initial_state=state[s:s + 1], output_final_state=True)
            self.assertTrue(same(alone[0], out[0, begin:end]) and same(last[0], final[s]))
        self.assertTrue(same(final[1], state[1]))
        _, fresh = G.chunk_gated_delta_rule(*ops, output_final_state=True, cu_seqlens=starts)
        self.assertFalse(fresh[1].any())
        out, final = G.chunk_gated_delta_rule(*ops, output_final_state=True, cu_seqlens=torch.tensor([2, 7, 11]))  # 0, 1, 11... are nobody's
        self.assertFalse(out[:, :2].any() or out[:, 11:].any())
        alone, last = G.chunk_gated_delta_rule(*(x[:, 7:11] for x in ops), output_final_state=True)
        self.assertTrue(same(alone[0], out[0, 7:11]) and same(last[0], final[1]))

    def test_layouts(self):
        row = torch.randn(2, 6, 4 * 3 * 32)
        q, k, v = (x.view(2, 6, 4, 32) for x in row.split(128, dim=-1))
        g, beta = -torch.rand(2, 6, 4), torch.rand(2, 6, 4)
        want, _ = G.chunk_gated_delta_rule(q.contiguous(), k.contiguous(), v.contiguous(), g, beta, use_qk_l2norm_in_kernel=True)
        for change in (lambda x: x, lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
                       lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2)):
            out, _ = G.chunk_gated_delta_rule(*map(change, (q, k, v, g, beta)), use_qk_l2norm_in_kernel=True)
            self.assertTrue(same(out, want))
        one = q[:, :1].expand(2, 6, 4, 32)
        self.assertTrue(same(G.chunk_gated_delta_rule(one, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0],
                             G.chunk_gated_delta_rule(one.contiguous(), k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]))

    def test_refusals(self):
        q, k, v, g, beta = operands(6, 2, 4, 1, 1, 16, 16)
        rule = G.chunk_gated_delta_rule
        for kind, text, call in (
                (NotImplementedError, "q is on meta; gdn.torch runs on the CPU", lambda: rule(q.to("meta"), k, v, g, beta)),
                (ValueError, "lower_bound is -5, which needs use_gate_in_kernel",
                 lambda: G.chunk_kda(q, k, v, g[..., None].expand(-1, -1, -1, 16), beta, lower_bound=-5)),
                (ValueError, "lower_bound is -6; -5 and above",
                 lambda: G.chunk_kda(q, k, v, g[..., None].expand(-1, -1, -1, 16), beta, lower_bound=-6, use_gate_in_kernel=True)),
                (ValueError, "which needs lower_bound", lambda: G.chunk_kda(
                    q, k, v, g[..., None].expand(-1, -1, -1, 16), beta, safe_gate=True, use_gate_in_kernel=True)),
                (NotImplementedError, "gv is", lambda: G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, gv=v)),
                (TypeError, "there is no argument 'chunksize'", lambda: rule(q, k, v, g, beta, chunksize=None)),
                (ValueError, "head_first is False; fla has removed it", lambda: rule(q, k, v, g, beta, head_first=False)),
                (ValueError, "chunk_size is 63; 16, 32, 64 are allowed", lambda: rule(q, k, v, g, beta, chunk_size=63)),
                (ValueError, "chunk_size is 16; 32, 64 are allowed",
                 lambda: G.chunk_kda(q, k, v, g[..., None].expand(-1, -1, -1, 16), beta, chunk_size=16)),
                (ValueError, "names of one argument", lambda: rule(q, k, v, g, beta, state_v_first=True, transpose_state_layout=False)),
                (ValueError, "use_gate_in_kernel is True, which needs g",
                 lambda: G.fused_recurrent_gated_delta_rule(q, k, v, beta=beta, use_gate_in_kernel=True, A_log=torch.zeros(1))),
                (ValueError, r"g has shape \[2, 4, 1\]; it must be \[B, T, HV, K\]", lambda: G.chunk_kda(q, k, v, g, beta)),
                (ValueError, r"it must be \[B, T, HV\]", lambda: rule(q, k, v, g[..., None].expand(-1, -1, -1, 16), beta)),
                (TypeError, "initial_state has dtype torch.float64",
                 lambda: G.chunk_kda(q, k, v, q, beta, initial_state=torch.zeros(2, 1, 16, 16).double())),
                (ValueError, "allow_neg_eigval", lambda: rule(q, k, v, g, beta, allow_neg_eigval=True)),
                (ValueError, "needs A_log", lambda: rule(q, k, v, g, beta, use_gate_in_kernel=True)),
                (ValueError, r"initial_state has shape \[1, 1, 16, 16\]; it must be \[2, 1, 16, 16\]",
                 lambda: rule(q, k, v, g, beta, initial_state=torch.zeros(1, 1, 16, 16))),
                (ValueError, "q has 2 batches", lambda: rule(q, k, v, g, beta, cu_seqlens=torch.tensor([0, 4]))),
                (ValueError, "k has shape|must be", lambda: rule(q, k[:, :3], v, g, beta)),
                (TypeError, "float64", lambda: rule(q.double(), k, v, g, beta)),
                (ValueError, "head_dim_k is 8; 16 to 256 are allowed", lambda: rule(q[..., :8], k[..., :8], v, g, beta))):
            with self.assertRaisesRegex(kind, text):
                call()
        rule(q, k, v, g, beta, chunk_size=32, cu_seqlens_cpu=None)  # what has no meaning here is taken

    def test_kinds_of_operands(self):
        """What is no dense tensor, and integers that do not fit."""
        q, k, v, g, beta = operands(6, 1, 4, 1, 1, 16, 16)
        rule, step, far = G.chunk_gated_delta_rule, G.fused_recurrent_gated_delta_rule, 1 << 32
        x, weight, pool = torch.randn(1, 8, 5), torch.randn(8, 4), lambda: torch.zeros(4, 1, 16, 16)

        def in_place(**named):
            return step(q, k, v, g, beta=beta, initial_state=pool(), inplace_final_state=True, **named)
        rows = torch.tensor([[0, 1, 2, 3]])
        for kind, text, call in (
                (TypeError, "^q is of type ndarray; a torch.Tensor is needed", lambda: rule(*(y.numpy() for y in (q, k, v, g, beta)))),
                (TypeError, "^k is of type ndarray", lambda: G.gated_delta_net(q, k.numpy(), v, g, beta)),
                (TypeError, "^v is None; a torch.Tensor", lambda: rule(q, k, None, g, beta)),
                (TypeError, "^x is of type ndarray", lambda: G.causal_conv1d_fn(x.numpy(), weight)),
                (TypeError, "^weight is of type ndarray", lambda: G.ssm_conv(x, weight.numpy())),
                (TypeError, "^cache_seqlens is of type list", lambda: G.causal_conv1d_update(x[..., :1], torch.zeros(1, 8, 3), weight, cache_seqlens=[1])),
                (TypeError, "^cu_seqlens is of type list", lambda: rule(q, k, v, g, beta, cu_seqlens=[0, 4])),
                (TypeError, "cu_seqlens has dtype torch.float32; integers", lambda: rule(q, k, v, g, beta, cu_seqlens=torch.tensor([0.0, 3.7]))),
                (ValueError, r"cu_seqlens has shape \[0\]; it must be \[N \+ 1\]", lambda: rule(q, k, v, g, beta, cu_seqlens=torch.zeros(0).int())),
                (ValueError, "cu_seqlens has values from 0 to 4294967300; int32", lambda: rule(q, k, v, g, beta, cu_seqlens=torch.tensor([0, far + 4]))),
                (ValueError, "cu_seqlens has values from 0 to 4294967301; int32", lambda: G.ssm_conv(x.transpose(1, 2), weight, cu_seqlens=torch.tensor([0, far + 5]))),
                (ValueError, "ssm_state_indices has values from 4294967297 to", lambda: in_place(ssm_state_indices=torch.tensor([far + 1]))),
                (ValueError, "ssm_state_indices has values from -4294967296 to", lambda: in_place(ssm_state_indices=torch.tensor([-far]))),
                (TypeError, "ssm_state_indices has dtype torch.float32", lambda: in_place(ssm_state_indices=torch.tensor([1.0]))),
                (ValueError, r"num_accepted_tokens is \[0\]; 1 to 4, ", lambda: in_place(ssm_state_indices=rows, num_accepted_tokens=torch.tensor([0]))),
                (ValueError, r"num_accepted_tokens is \[5\]; 1 to 4, ", lambda: in_place(ssm_state_indices=rows, num_accepted_tokens=torch.tensor([5]))),
                (ValueError, "num_accepted_tokens is", lambda: in_place(ssm_state_indices=rows, num_accepted_tokens=torch.tensor([far + 1]))),
                (gdn.InvalidArgument, r"^ssm_state_indices\[0\] is 9; 0 to 3", lambda: in_place(ssm_state_indices=torch.tensor([9]))),
                (gdn.InvalidArgument, r"^cu_seqlens\[1\] is 9", lambda: rule(q, k, v, g, beta, cu_seqlens=torch.tensor([0, 9]))),
                (ValueError, "initial_state: the last axis .* it is written in place, so allocate", lambda: step(
                    q, k, v, g, beta=beta, initial_state=pool()[:1].transpose(2, 3), inplace_final_state=True)),
                (TypeError, "^q is a nested tensor; a dense tensor", lambda: rule(torch.nested.nested_tensor([q[0]], layout=torch.jagged), k, v, g, beta)),
                (TypeError, "^initial_state has layout torch.sparse_coo; a dense", lambda: rule(q, k, v, g, beta, initial_state=pool()[:1].to_sparse())),
                (TypeError, "^weight has layout torch.sparse_coo", lambda: G.causal_conv1d_fn(x, weight.to_sparse())),
                (TypeError, "scale is 'auto'; a number", lambda: rule(q, k, v, g, beta, scale="auto")),
                (ValueError, r"^q has shape \[4, 1, 16\]; it must be \[B, T, H, K\]", lambda: rule(q[0], k, v, g, beta)),
                (ValueError, r"^x has shape \[8, 5\]; it must be \[batch, dim, seqlen\]", lambda: G.causal_conv1d_fn(x[0], weight)),
                (ValueError, r"^a_log has shape \[3\]; it must be \[1\]", lambda: rule(q, k, v, g, beta, use_gate_in_kernel=True, A_log=torch.zeros(3)))):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()

    def test_empty_batches(self):
        q, k, v, g, beta = (y[:0] for y in operands(6, 1, 4, 1, 2, 16, 32))
        out, final = G.chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True)
        self.assertEqual((out.shape, final.shape), ((0, 4, 2, 32), (0, 2, 16, 32)))
        pool = torch.ones(4, 2, 16, 32)
        for state, named in ((pool[:0], {}), (pool, {"ssm_state_indices": torch.zeros(0).int()}),
                             (pool, {"ssm_state_indices": torch.zeros(0, 4).int(), "num_accepted_tokens": torch.zeros(0).int()})):
            out, same_one = G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=state, inplace_final_state=True, **named)
            self.assertTrue(out.shape == (0, 4, 2, 32) and same_one is state and (pool == 1).all())
        with self.assertRaisesRegex(ValueError, "k has shape"):
            G.chunk_gated_delta_rule(q, k[:, :3], v, g, beta)
        packed = operands(6, 1, 4, 1, 2, 16, 32)
        out, final = G.chunk_gated_delta_rule(*packed, cu_seqlens=torch.tensor([0]), output_final_state=True)
        self.assertTrue(out.shape == (1, 4, 2, 32) and not out.any() and final.shape == (0, 2, 16, 32))
        x, weight = torch.ones(0, 8, 5), torch.randn(8, 4)
        out, final = G.causal_conv1d_fn(x, weight, initial_states=torch.ones(0, 8, 3), return_final_states=True)
        self.assertEqual((out.shape, final.shape), ((0, 8, 5), (0, 8, 3)))
        self.assertFalse(G.ssm_conv(torch.ones(1, 5, 8), weight, cu_seqlens=torch.tensor([0])).any())
        for states, index in ((torch.ones(0, 8, 3), None), (torch.ones(4, 8, 3), torch.zeros(0).int())):
            self.assertEqual(G.causal_conv1d_update(x[..., :1], states, weight, conv_state_indices=index).shape, (0, 8, 1))
            self.assertTrue((states == 1).all())

    def test_versions(self):
        """Writing a tensor that a backward pass saved is noticed, as for PyTorch's own operators."""
        q, k, v, g, beta = operands(6, 1, 2, 1, 1, 16, 16)
        qkv, projected = torch.cat((q, k, v), -1).flatten(2), torch.randn(1, 2, 1)

        def rule(pool):
            G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=pool, inplace_final_state=True)

        def layer(pool):
            _layer.rule(qkv, projected, projected, torch.zeros(1), torch.zeros(1), pool, False, 1)

        def push(pool):
            _layer.push(pool[0], torch.zeros(1, 1, 16))
        for run in (rule, layer, push):
            with self.subTest(run.__name__):
                weight, pool = torch.ones(1, 1, 16, 16, requires_grad=True), torch.ones(1, 1, 16, 16)
                loss = (weight * pool).sum()
                run(pool)
                self.assertGreater(pool._version, 0)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    loss.backward()
                with torch.inference_mode():
                    pool = torch.ones(1, 1, 16, 16)
                    run(pool)
                    self.assertFalse((pool == 1).all())
                before = pool.clone()
                with self.assertRaisesRegex(RuntimeError, "Inplace update to inference tensor outside InferenceMode"):
                    run(pool)
                self.assertTrue(same(pool, before))

    def test_threads_end(self):
        """A context that no thread uses any more is closed, with its threads."""
        q, k, v, g, beta = operands(6, 4, 40, 2, 4, 32, 32)
        before = torch.get_num_threads()
        try:
            want = G.chunk_gated_delta_rule(q, k, v, g, beta)[0]
            for n in (*range(2, 10), 1):
                torch.set_num_threads(n)
                self.assertTrue(same(G.chunk_gated_delta_rule(q, k, v, g, beta)[0], want))
                self.assertEqual(len(_operators._contexts), 1)
            kept = _operators.context()
            ready, go = threading.Event(), threading.Event()

            def work():
                G.chunk_gated_delta_rule(q, k, v, g, beta)
                ready.set()
                go.wait()
            other = threading.Thread(target=work)
            other.start()
            ready.wait()
            self.assertIs(_operators.context(), kept)
            go.set()
            other.join()
        finally:
            torch.set_num_threads(before)

    def test_profiler(self):
        ops = operands(6, 1, 2, 1, 1, 16, 16)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            G.chunk_gated_delta_rule(*ops)
            G.causal_conv1d_fn(torch.randn(1, 8, 5), torch.randn(8, 4))
            _layer.conv(torch.randn(1, 5, 8), torch.randn(8, 4), None, None)
        counts = {event.key: event.count for event in profile.key_averages()}
        self.assertEqual((counts.get("gdn::gated_delta_net"), counts.get("gdn::ssm_conv")), (1, 2))

    def test_states_in_place_are_forward_only(self):
        q, k, v, g, beta = operands(7, 1, 4, 1, 1, 16, 16)
        out, _ = G.fused_recurrent_gated_delta_rule(q.requires_grad_(), k, v, g, beta=beta, initial_state=torch.zeros(1, 1, 16, 16),
                                                    inplace_final_state=True)
        with self.assertRaisesRegex(NotImplementedError, "inplace_final_state is True, which is forward only"):
            out.sum().backward()

    def test_operators_are_well_behaved(self):
        ops = operands(8, 2, 4, 1, 2, 16, 16)
        torch.library.opcheck(torch.ops.gdn.gated_delta_net.default, tuple(ops))
        torch.library.opcheck(torch.ops.gdn.gated_delta_net.default, (*operands(8, 1, 4, 1, 2, 16, 32), None, torch.tensor([0, 1, 4])))
        torch.library.opcheck(torch.ops.gdn.ssm_conv.default, (torch.randn(2, 5, 8), torch.randn(8, 4), torch.randn(8), torch.randn(2, 3, 8), None, True))

    def test_compile(self):
        weight = torch.randn(96, 4)

        def layer(x, g, beta, state, history):
            out = G.causal_conv1d_update(x, history, weight, None, "silu")
            q, k, v = (part.transpose(1, 2).unflatten(-1, (2, 16)) for part in out.split(32, dim=1))
            return G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=state, output_final_state=True,
                                                      use_qk_l2norm_in_kernel=True)

        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        for tokens in (1, 5):
            arguments = [torch.randn(2, 96, tokens), -torch.rand(2, tokens, 2), torch.rand(2, tokens, 2), torch.randn(2, 2, 16, 16)]
            histories = [torch.ones(2, 96, 3), torch.ones(2, 96, 3)]
            with torch.no_grad():
                want, got = (function(*arguments, history) for function, history in zip((layer, compiled), histories))
            self.assertTrue(same(want[0], got[0]) and same(want[1], got[1]) and same(*histories))

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_fork(self):
        ops = operands(9, 1, 20, 1, 1, 32, 32)
        want, _ = G.chunk_gated_delta_rule(*ops)
        child = os.fork()
        if not child:
            status = 1
            try:
                status = 0 if same(G.chunk_gated_delta_rule(*ops)[0], want) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Arrays(unittest.TestCase):
    def test_tensors_in_the_functions_for_arrays(self):
        """By DLPack, as they lie, also bfloat16, which NumPy does not take that way."""
        wide = torch.randn(2, 6, 40).bfloat16()
        x, weight, out = wide[..., 8:24], torch.randn(16, 4).bfloat16(), torch.zeros(2, 6, 16, dtype=torch.bfloat16)
        self.assertIs(gdn.ssm_conv(x, weight, out=out), out)
        self.assertTrue(same(out, G.ssm_conv(x, weight)))
        ops = operands(10, 1, 5, 1, 2, 32, 32)
        state = torch.zeros(1, 2, 32, 32)
        got = gdn.gated_delta_net(*ops, state, state_layout="kv", out=torch.empty(1, 5, 2, 32))
        want, final = G.chunk_gated_delta_rule(*ops, output_final_state=True)
        self.assertTrue(same(got, want) and same(state, final))
        with self.assertRaisesRegex(TypeError, "int32 is|has dtype int32|dtype int32; allowed"):
            gdn.ssm_conv(x.int(), weight)


class Documents(unittest.TestCase):
    def test_python_md(self):
        text = (pathlib.Path(__file__).resolve().parents[3] / "docs/guide/python.md").read_text(encoding="utf-8")
        blocks = [block for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S) if "torch" in block]
        self.assertGreaterEqual(len(blocks), 2)
        for block in blocks:
            exec(compile(block, "docs/guide/python.md", "exec"), {})


class Conv(unittest.TestCase):
    def setUp(self):
        self.x = torch.randn(2, 24, 11, generator=torch.Generator().manual_seed(1))
        self.weight, self.bias = torch.linspace(-1, 1, 96).view(24, 4), torch.linspace(-0.5, 0.5, 24)

    def test_values(self):
        for dtype, error in ((torch.float32, 2e-5), (torch.bfloat16, 0.05), (torch.float16, 0.01)):
            for bias in (None, self.bias.to(dtype)):
                for activation in (None, "silu", "swish"):
                    x, weight = self.x.to(dtype), self.weight.to(dtype)
                    out = G.causal_conv1d_fn(x, weight, bias, activation=activation)
                    want = conv_formula(x.transpose(1, 2).double().numpy(), weight.double().numpy(),
                                        None if bias is None else bias.double().numpy(), activation is not None)
                    self.assertEqual(out.dtype, dtype)
                    self.assertLess(np.abs(out.transpose(1, 2).double().numpy() - want).max(), error)

    def test_layout_and_batches(self):
        out = G.causal_conv1d_fn(self.x, self.weight, self.bias, activation="silu")
        last = self.x.transpose(1, 2).contiguous().transpose(1, 2)  # channels contiguous
        self.assertTrue(same(G.causal_conv1d_fn(last, self.weight, self.bias, activation="silu"), out))
        self.assertTrue(same(G.causal_conv1d_fn(self.x[1:], self.weight, self.bias, activation="silu")[0], out[1]))

    def test_states(self):
        whole = G.causal_conv1d_fn(self.x, self.weight, self.bias)
        for cut in (1, 2, 5, 10):
            first, state = G.causal_conv1d_fn(self.x[..., :cut], self.weight, self.bias, return_final_states=True)
            want = F.pad(self.x[..., :cut], (3, 0))[..., -3:]
            self.assertTrue(same(state, want))
            held = torch.empty_like(want)
            rest, final = G.causal_conv1d_fn(self.x[..., cut:], self.weight, self.bias, initial_states=state, return_final_states=True,
                                             final_states_out=held)
            self.assertTrue(same(torch.cat((first, rest), -1), whole) and same(final, self.x[..., -3:]) and final is held)

    def test_packed(self):
        index = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 7]], dtype=torch.int32)
        out = G.causal_conv1d_fn(self.x, self.weight, self.bias, seq_idx=index, activation="silu")
        for batch, begin, end in ((0, 0, 3), (0, 3, 8), (0, 8, 11), (1, 0, 10), (1, 10, 11)):
            alone = G.causal_conv1d_fn(self.x[batch:batch + 1, :, begin:end], self.weight, self.bias, activation="silu")
            self.assertTrue(same(alone[0], out[batch, :, begin:end]))

    def test_packed_with_initial_states(self):
        """They are the inputs before the first sequence of each row, which may be shorter than the width; or padding."""
        index = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2], [-1, -1, 5, 5, 5, 5, 5, 5, 5, 5, 7]], dtype=torch.int32)
        initial = torch.randn(2, 24, 3, generator=torch.Generator().manual_seed(2))
        for dtype in (torch.float32, torch.bfloat16):
            x, before = self.x.to(dtype), initial.to(dtype)
            out = G.causal_conv1d_fn(x, self.weight, self.bias, seq_idx=index, initial_states=before, activation="silu")
            first = G.causal_conv1d_fn(x[:1, :, :2], self.weight, self.bias, initial_states=before[:1], activation="silu")
            self.assertTrue(same(first[0], out[0, :, :2]) and not out[1, :, :2].any())
            self.assertFalse(same(first[0], G.causal_conv1d_fn(x[:1, :, :2], self.weight, self.bias, activation="silu")[0]))
            for batch, begin, end in ((0, 2, 8), (0, 8, 11), (1, 2, 10), (1, 10, 11)):
                alone = G.causal_conv1d_fn(x[batch:batch + 1, :, begin:end], self.weight, self.bias, activation="silu")
                self.assertTrue(same(alone[0], out[batch, :, begin:end]))
        empty = G.causal_conv1d_fn(self.x[..., :0], self.weight, seq_idx=index[:, :0], initial_states=initial)
        self.assertEqual(empty.shape, (2, 24, 0))

    def test_negated_views(self):
        """A view whose elements PyTorch negates lazily."""
        lazy = torch._neg_view(self.x)
        self.assertTrue(lazy.is_neg() and same(G.causal_conv1d_fn(lazy, self.weight), G.causal_conv1d_fn(-self.x, self.weight)))

    def test_packed_padding(self):
        """Tokens of negative numbers, as causal_conv1d has them; and tokens outside cu_seqlens."""
        index = torch.tensor([[-1, -1, 0, 0, 0, 0, 4, 4, 4, -1, -3], [7, 7, 7, 7, -1, -1, -1, -1, 2, 2, 2]], dtype=torch.int32)
        x = self.x.masked_fill((index < 0)[:, None], float("nan"))
        out = G.causal_conv1d_fn(x, self.weight, self.bias, seq_idx=index, activation="silu")
        self.assertTrue(same(out.transpose(1, 2)[index < 0], torch.zeros(8, 24)))
        for batch, begin, end in ((0, 2, 6), (0, 6, 9), (1, 0, 4), (1, 8, 11)):
            alone = G.causal_conv1d_fn(self.x[batch:batch + 1, :, begin:end], self.weight, self.bias, activation="silu")
            self.assertTrue(same(alone[0], out[batch, :, begin:end]))
        tokens = self.x[:1].transpose(1, 2)
        out = G.ssm_conv(tokens, self.weight, self.bias, None, torch.tensor([3, 5, 8]))
        self.assertTrue(same(out[:, 5:8], G.ssm_conv(tokens[:, 5:8], self.weight, self.bias)) and not out[:, :3].any() and not out[:, 8:].any())
        with self.assertRaisesRegex(IndexError, "seq_idx has a number again after another one.*found 3"):
            G.causal_conv1d_fn(self.x[:1, :, :3], self.weight, seq_idx=torch.tensor([[3, -1, 3]]))
        G.causal_conv1d_fn(self.x[:1, :, :5], self.weight, seq_idx=torch.tensor([[3, -1, -1, -1, 3]]))  # out of the width's reach
        with self.assertRaisesRegex(ValueError, r"seq_idx has shape \[1, 11\]; it must be \[2, 11\]"):
            G.causal_conv1d_fn(self.x, self.weight, seq_idx=torch.zeros(1, 11))

    def test_update_padding(self):
        x, before = self.x[..., :2], torch.randn(5, 24, 4)
        for seqlens in (None, torch.tensor([6, 9], dtype=torch.int32)):
            for index, real in (([3, -1], {0: 3}), ([-7, 0], {1: 0}), ([-1, -2], {}), ([4, 1], {0: 4, 1: 1})):
                pool, index = before.clone(), torch.tensor(index, dtype=torch.int32)
                given = x.masked_fill((index < 0)[:, None, None], float("nan"))
                run = lambda index, pool: G.causal_conv1d_update(given, pool, self.weight, self.bias, "silu", seqlens, index)
                out, want = run(index, pool), before.clone()
                for batch in range(2):
                    if batch in real:
                        row = want[real[batch]:real[batch] + 1]
                        alone = G.causal_conv1d_update(x[batch:batch + 1], row, self.weight, self.bias, "silu",
                                                       None if seqlens is None else seqlens[batch:batch + 1])
                        self.assertTrue(same(out[batch], alone[0]))
                    else:
                        self.assertTrue(same(out[batch], torch.zeros(24, 2)))
                self.assertTrue(same(pool, want))
                with torch.no_grad():
                    again = before.clone()
                    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)(index, again)
                self.assertTrue(same(compiled, out) and same(again, pool))
        one = G.causal_conv1d_update(x[..., 0], before.clone(), self.weight, conv_state_indices=torch.tensor([2, -1]))
        self.assertFalse(one[1].any())
        with self.assertRaisesRegex(IndexError, "conv_state_indices has to be below 5, conv_state's rows; found 7"):
            G.causal_conv1d_update(x, before.clone(), self.weight, conv_state_indices=torch.tensor([3, 7]))
        with self.assertRaisesRegex(ValueError, r"conv_state_indices has shape \[1\]; it must be \[2\]"):
            G.causal_conv1d_update(x, before.clone(), self.weight, conv_state_indices=torch.tensor([3]))

    def test_update(self):
        whole = G.causal_conv1d_fn(self.x, self.weight, self.bias, activation="silu")
        for length in (3, 4, 6):
            state, parts = torch.zeros(2, 24, length), []
            ring = torch.zeros(2, 24, length)
            for t in range(11):
                parts.append(G.causal_conv1d_update(self.x[..., t], state, self.weight, self.bias, "silu"))
                other = G.causal_conv1d_update(self.x[..., t:t + 1], ring, self.weight, self.bias, "silu",
                                               cache_seqlens=torch.tensor([t, t], dtype=torch.int32))
                self.assertTrue(same(other[..., 0], parts[-1]))
                self.assertTrue(same(ring[..., t % length], self.x[..., t]))
            self.assertTrue(same(torch.stack(parts, -1), whole) and same(state, self.x[..., -length:]))
        pool = torch.zeros(5, 24, 3)
        out = G.causal_conv1d_update(self.x[..., :4], pool, self.weight, self.bias, "silu", conv_state_indices=torch.tensor([3, 1]))
        self.assertTrue(same(out, whole[..., :4]) and same(pool[[3, 1]], self.x[..., 1:4]) and not pool[[0, 2, 4]].any())

    def test_refusals(self):
        for kind, text, call in (
                (NotImplementedError, "activation is 'relu'", lambda: G.causal_conv1d_fn(self.x, self.weight, activation="relu")),
                (NotImplementedError, "x is on meta", lambda: G.causal_conv1d_fn(self.x.to("meta"), self.weight)),
                (ValueError, "seq_idx is given", lambda: G.causal_conv1d_fn(self.x, self.weight, seq_idx=torch.zeros(2, 11), return_final_states=True)),
                (ValueError, "conv_state has 2 columns", lambda: G.causal_conv1d_update(self.x, torch.zeros(2, 24, 2), self.weight)),
                (ValueError, "initial_states has shape", lambda: G.causal_conv1d_fn(self.x, self.weight, initial_states=torch.zeros(2, 24, 2))),
                (ValueError, "weight has shape", lambda: G.causal_conv1d_fn(self.x, self.weight[:5]))):
            with self.assertRaisesRegex(kind, text):
                call()


if __name__ == "__main__":
    unittest.main()
