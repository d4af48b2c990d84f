"""The kernels on NumPy arrays: bits against the library's reference, values against formulas in float64, and the same bits
however arrays lie and however calls are cut."""
import unittest

import numpy as np

import gdn
from cases import conv_formula, gdn_formula, gdn_operands, same

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

REFERENCE = gdn.Context("reference")


def both(kernel, operands, states=(), **named):
    """Run on the CPU and on the reference, with copies of the states; the results, which must be the same bits."""
    results = []
    for context in (gdn.default_context(), REFERENCE):
        kept = [None if state is None else state.copy() for state in states]
        results.append((kernel(*operands, *kept, context=context, **named), *kept))
    return results


class GatedDeltaNet(unittest.TestCase):
    def hold(self, operands, state, want_error=2e-5, **named):
        """Bits against the reference, values against the formula. `state` is [n, heads, dim_v, dim_k]."""
        (out, after), (want_out, want_after) = both(gdn.gated_delta_net, operands, [state], **named)
        self.assertTrue(same(out, want_out) and same(after, want_after))
        formula_out, formula_state = gdn_formula(*operands, state.swapaxes(-1, -2), named.get("head_map", "grouped"))
        self.assertLess(np.abs(out.astype(np.float64) - formula_out).max(), want_error)
        self.assertLess(np.abs(after.swapaxes(-1, -2) - formula_state).max(), 2e-5)
        self.assertGreater(np.abs(formula_out).max(), 0.01)  # so that zeros would not do

    def test_shapes(self):
        rng = np.random.default_rng(1)
        for shape in ((1, 1, 1, 1, 16, 16), (2, 7, 2, 4, 64, 32), (3, 1, 4, 4, 128, 128), (1, 70, 1, 3, 48, 80), (2, 5, 2, 6, 256, 16)):
            for channel in (False, True):
                for head_map in ("grouped", "tiled"):
                    with self.subTest(shape=shape, channel=channel, head_map=head_map):
                        state = rng.standard_normal((shape[0], shape[3], shape[5], shape[4])).astype(np.float32) * 0.1
                        self.hold(gdn_operands(rng, *shape, channel=channel), state, head_map=head_map)

    def test_state_kv_is_state_vk_transposed(self):
        rng = np.random.default_rng(2)
        operands = gdn_operands(rng, 2, 9, 2, 2, 32, 64)
        vk = rng.standard_normal((2, 2, 64, 32)).astype(np.float32)
        kv = np.ascontiguousarray(vk.swapaxes(-1, -2))
        out = [gdn.gated_delta_net(*operands, state, state_layout=layout) for state, layout in ((vk, "vk"), (kv, "kv"))]
        self.assertTrue(same(*out) and same(vk, kv.swapaxes(-1, -2)))

    def test_sixteen_bits(self):
        rng = np.random.default_rng(3)
        for dtype in [np.float16] + ([ml_dtypes.bfloat16] if ml_dtypes else []):
            with self.subTest(dtype=dtype):
                operands = gdn_operands(rng, 2, 11, 1, 2, 32, 48, dtype)
                state = np.zeros((2, 2, 48, 32), np.float32)
                self.hold(operands, state, want_error=0.02)
                self.assertEqual(gdn.gated_delta_net(*operands).dtype, dtype)
                exact = gdn.gated_delta_net(*operands, out_dtype=np.float32)
                self.assertTrue(same(exact.astype(dtype), gdn.gated_delta_net(*operands)))

    def test_uint16_is_what_it_is_said_to_be(self):
        operands = gdn_operands(np.random.default_rng(4), 1, 5, 1, 1, 16, 16)
        halves = [x.astype(np.float16) for x in operands]
        want = gdn.gated_delta_net(*halves)
        bits = [x.view(np.uint16) for x in halves]
        got = gdn.gated_delta_net(*bits, uint16="float16", out=np.empty_like(bits[2]))
        self.assertTrue(same(got.view(np.float16), want))
        brain = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in operands]
        floats = [(x.astype(np.uint32) << 16).view(np.float32) for x in brain]
        out = gdn.gated_delta_net(*brain, uint16="bfloat16", out=np.empty_like(floats[2]))
        self.assertTrue(same(out, gdn.gated_delta_net(*floats)))
        self.assertEqual(gdn.gated_delta_net(*brain, uint16="bfloat16").dtype, np.uint16)
        with self.assertRaisesRegex(TypeError, 'q has dtype uint16; uint16="bfloat16"'):
            gdn.gated_delta_net(*bits)

    def test_slices_of_one_projection(self):
        rng = np.random.default_rng(5)
        row = rng.standard_normal((2, 6, 2 * 64 + 2 * 64 + 4 * 32 + 8)).astype(np.float32) * 0.2
        q, k = row[..., :128].reshape(2, 6, 2, 64), row[..., 128:256].reshape(2, 6, 2, 64)
        v, beta, g = row[..., 256:384].reshape(2, 6, 4, 32), row[..., 384:388], row[..., 388:]
        self.assertIs(q.base if q.base is not None else q, row)  # views, not copies
        state = np.zeros((2, 4, 32, 64), np.float32)
        out = gdn.gated_delta_net(q, k, v, g, beta, state, qk_norm="add", qk_norm_eps=1e-6, beta_input="logit")
        packed = [np.ascontiguousarray(x) for x in (q, k, v, g, beta)]
        other = np.zeros_like(state)
        self.assertTrue(same(out, gdn.gated_delta_net(*packed, other, qk_norm="add", qk_norm_eps=1e-6, beta_input="logit")))
        self.assertTrue(same(state, other))
        # Tokens outside sequences, every second head, and every second row of a pool of states.
        by_token = [np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1) for x in packed]
        pool = np.zeros((4, 8, 32, 64), np.float32)
        wide = np.zeros((2, 6, 8, 32), np.float32)
        gdn.gated_delta_net(*by_token, pool[::2, 1::2], out=wide[:, :, ::2], qk_norm="add", qk_norm_eps=1e-6, beta_input="logit")
        self.assertTrue(same(wide[:, :, ::2], out) and same(pool[::2, 1::2], state))
        self.assertFalse(wide[:, :, 1::2].any() or pool[1::2].any() or pool[:, ::2].any())

    def test_however_it_is_cut(self):
        rng = np.random.default_rng(6)
        operands = gdn_operands(rng, 3, 10, 2, 4, 64, 64)
        whole = np.zeros((3, 4, 64, 64), np.float32)
        out = gdn.gated_delta_net(*operands, whole)
        for cuts in ((1,) * 10, (3, 7), (9, 1)):
            state, parts, begin = np.zeros_like(whole), [], 0
            for n in cuts:
                parts.append(gdn.gated_delta_net(*(x[:, begin:begin + n] for x in operands), state))
                begin += n
            self.assertTrue(same(np.concatenate(parts, axis=1), out) and same(state, whole))
        for s in range(3):  # alone, and without the axis of sequences
            state = np.zeros((1, 4, 64, 64), np.float32)
            self.assertTrue(same(gdn.gated_delta_net(*(x[s] for x in operands), state), out[s]) and same(state[0], whole[s]))
        for n_threads in (1, 2, 5):
            for one in gdn.default_context().device.implementations:
                with gdn.Context(n_threads=n_threads, implementation=one.name) as context:
                    state = np.zeros_like(whole)
                    self.assertTrue(same(gdn.gated_delta_net(*operands, state, context=context), out) and same(state, whole))

    def test_ragged_with_maps_and_snapshots(self):
        rng = np.random.default_rng(7)
        start = [0, 3, 3, 8]
        operands = [x[0] for x in gdn_operands(rng, 1, 8, 1, 2, 32, 32)]
        pool = rng.standard_normal((4, 3, 2, 32, 32)).astype(np.float32) * 0.1
        before = pool.copy()
        state_dst = np.array([[0, gdn.NONE], [gdn.NONE, gdn.NONE], [7, 6]])
        out = gdn.gated_delta_net(*operands, pool, seq_start=start, state_src=[2 * 3 + 2, gdn.NONE, gdn.NONE], state_dst=state_dst)
        first, second = before[2, 2][None].copy(), np.zeros((1, 2, 32, 32), np.float32)
        self.assertTrue(same(gdn.gated_delta_net(*(x[:3] for x in operands), first), out[:3]))
        parts = gdn.gated_delta_net(*(x[3:7] for x in operands), second)
        self.assertTrue(same(parts, out[3:7]) and same(second[0], pool[2, 0]))  # 6: the state one token before the newest
        gdn.gated_delta_net(*(x[7:] for x in operands), second)
        self.assertTrue(same(second[0], pool[2, 1]) and same(first[0], pool[0, 0]))
        untouched = np.ones((4, 3), bool)
        untouched[0, 0] = untouched[2, 0] = untouched[2, 1] = False
        self.assertTrue(same(pool[untouched], before[untouched]))

    def test_state_out(self):
        operands = gdn_operands(np.random.default_rng(8), 2, 4, 1, 1, 16, 16)
        state = np.ones((2, 1, 16, 16), np.float32)
        to, place = np.zeros_like(state), state.copy()
        out = gdn.gated_delta_net(*operands, state, state_out=to)
        self.assertTrue(same(out, gdn.gated_delta_net(*operands, place)) and same(to, place) and (state == 1).all())

    def test_checkpoints(self):
        operands = gdn_operands(np.random.default_rng(15), 2, 9, 1, 2, 32, 32)
        pool, plain = np.zeros((6, 2, 32, 32), np.float32), np.zeros((2, 2, 32, 32), np.float32)
        out = gdn.gated_delta_net(*operands, pool, position=[1, 0], checkpoint_interval=4, checkpoints=[[2, 3], [4, gdn.NONE]])
        self.assertTrue(same(out, gdn.gated_delta_net(*operands, plain)) and same(pool[:2], plain))
        for row, s, tokens in ((2, 0, 3), (3, 0, 7), (4, 1, 4)):
            prefix = np.zeros((1, 2, 32, 32), np.float32)
            gdn.gated_delta_net(*(x[s, :tokens] for x in operands), prefix)
            self.assertTrue(same(prefix[0], pool[row]), row)
        self.assertFalse(pool[5].any())
        with self.assertRaisesRegex(ValueError, "checkpoints is given, but no state"):
            gdn.gated_delta_net(*operands, checkpoint_interval=4, checkpoints=[2, 3])

    def test_log(self):
        """Drafts are verified, rejected and rolled back without a state being written; what is left is plain decoding."""
        rng = np.random.default_rng(16)
        for channel in (False, True):
            operands = gdn_operands(rng, 1, 12, 2, 4, 32, 16, channel=channel)
            state, plain = np.zeros((1, 4, 16, 32), np.float32), np.zeros((1, 4, 16, 32), np.float32)
            want = gdn.gated_delta_net(*operands, plain)
            log = np.full((1, 8, 2 * 32 + 4 * (16 + (32 if channel else 1))), np.nan, np.float32)
            at = stands = 0
            for tokens, kept, commit in ((4, 2, False), (4, 4, False), (2, 1, True), (5, 5, True), (0, 0, True)):
                drafts = [x[0, at:at + tokens].copy() for x in operands]
                drafts[2][kept:] += 1
                before = state.copy()
                out = gdn.gated_delta_net(*drafts, state, position=[at], base_position=[stands], log=log, commit=[0] if commit else None)
                self.assertTrue(same(out[:kept], want[0, at:at + kept]))
                self.assertTrue(commit or same(state, before))
                stands, at = at if commit else stands, at + kept
            self.assertTrue(at == stands == 12 and same(state, plain))
        operands = [x[0] for x in operands]
        for text, bad in (("log has shape", {"log": log[:, :, 1:]}), ("log_row is given, but no log", {"log_row": [0]}),
                          ("it needs at least one row and slot", {"log": log[:, :0]})):
            with self.assertRaisesRegex(ValueError, text):
                gdn.gated_delta_net(*operands, state, **bad)
        with self.assertRaisesRegex(gdn.InvalidArgument, "log.n_slots is 8; sequence 0 has 12 tokens"):
            gdn.gated_delta_net(*operands, state, log=log)

    def test_trees(self):
        """Two branches behind the first token: each as if it were alone."""
        operands = gdn_operands(np.random.default_rng(17), 1, 4, 1, 2, 32, 32)
        state = np.random.default_rng(18).standard_normal((1, 2, 32, 32)).astype(np.float32)
        log = np.zeros((1, 6, 32 + 2 * 33), np.float32)
        out = gdn.gated_delta_net(*operands, state.copy(), log=log, parent=[gdn.NONE, 0, 0, 1])
        for branch in ([0, 1, 3], [0, 2]):
            alone = gdn.gated_delta_net(*(x[:, branch] for x in operands), state.copy())
            self.assertTrue(same(out[0, branch], alone[0]), branch)
        with self.assertRaisesRegex(gdn.InvalidArgument, r"parent\[2\] is 2; it is token 2 of sequence 0"):
            gdn.gated_delta_net(*operands, state.copy(), log=log, parent=[gdn.NONE, 0, 2, 1])
        with self.assertRaisesRegex(gdn.InvalidArgument, "a tree needs a log"):
            gdn.gated_delta_net(*operands, state.copy(), parent=[gdn.NONE, 0, 0, 1])

    def test_states_of_sixteen_bits(self):
        """Token by token with rounding by the caller between calls: the same. Every second token: with a log."""
        operands = gdn_operands(np.random.default_rng(20), 1, 5, 1, 2, 32, 32)
        begin = np.random.default_rng(21).standard_normal((1, 2, 32, 32)).astype(np.float16)
        state = begin.copy()
        out = gdn.gated_delta_net(*operands, state)
        wide = begin.astype(np.float32)
        for t in range(5):
            one = gdn.gated_delta_net(*(x[:, t : t + 1] for x in operands), wide)
            self.assertTrue(same(out[:, t : t + 1], one), t)
            wide = wide.astype(np.float16).astype(np.float32)
        self.assertTrue(same(state, wide.astype(np.float16)))
        log = np.zeros((1, 8, 32 + 2 * 33), np.float32)
        every = {"position": [0], "rounding_interval": 2, "log": log}
        whole = gdn.gated_delta_net(*operands, begin.copy(), **every)
        first = gdn.gated_delta_net(*(x[:, :3] for x in operands), begin.copy(), **every)
        rest = gdn.gated_delta_net(*(x[:, 3:] for x in operands), begin.copy(), **{**every, "position": [3]},
                                   base_position=[0])
        self.assertTrue(same(whole, np.concatenate((first, rest), axis=1)))
        with self.assertRaisesRegex(gdn.InvalidArgument, "rounding_interval is 2 and"):
            gdn.gated_delta_net(*operands, state, rounding_interval=2)

    def test_chunked_form(self):
        """A prompt in one call, in pieces, token by token, and with drafts of which one is accepted: the same bits."""
        operands = gdn_operands(np.random.default_rng(30), 1, 70, 1, 2, 32, 32)
        part = lambda first, last: [x[:, first:last] for x in operands]
        for digits, as_digits in ((2, False), (3, False), (2, True), (3, True)):
            state = np.zeros((1, 2, 32 * (32 * digits + 4)), np.uint8) if as_digits else np.zeros((1, 2, 32, 32), np.float32)
            log = np.zeros((1, 35, 32 + 2 * 33), np.float32)
            whole = gdn.gated_delta_net(*operands, state, digits=digits, log=log, position=[0])
            pieces, mine, entries = [], np.zeros_like(state), np.zeros_like(log)
            for first, last in ((0, 31), (31, 32), (32, 50), (50, 51), (51, 66)):
                pieces.append(gdn.gated_delta_net(*part(first, last), mine, digits=digits, log=entries, position=[first]))
            for first in range(66, 69):  # the state at 64, and entries behind it; the second token is a draft that is not accepted
                pieces.append(gdn.gated_delta_net(*part(first, first + 2), mine, digits=digits, log=entries, position=[first],
                                                  base_position=[64], commit=[0])[:, :1])
            pieces.append(gdn.gated_delta_net(*part(69, 70), mine, digits=digits, log=entries, position=[69]))
            self.assertTrue(same(whole, np.concatenate(pieces, axis=1)), digits)
            self.assertTrue(same(state, mine), digits)
            plain = gdn.gated_delta_net(*operands, np.zeros((1, 2, 32, 32), np.float32))
            self.assertFalse(same(whole, plain))
            np.testing.assert_allclose(whole, plain, rtol=0, atol=1e-3 if digits == 2 else 1e-5)
        with self.assertRaisesRegex(ValueError, r"^state has shape \[1, 2, 3200\]; it must be \[any, 2, 2176\]"):
            gdn.gated_delta_net(*operands, state, digits=2, log=log)
        state = np.zeros((1, 2, 32, 32), np.float32)
        with self.assertRaisesRegex(gdn.InvalidArgument, "^digits is 4; 2 to 3 are allowed"):
            gdn.gated_delta_net(*operands, state, digits=4)
        with self.assertRaisesRegex(gdn.InvalidArgument, "sequence 0 has no row of the log and a new length"):
            gdn.gated_delta_net(*operands, state, digits=3)

    def test_what_is_left_out(self):
        """scale, and the states that are written; zeros do not mean that something is left out."""
        operands = gdn_operands(np.random.default_rng(22), 1, 3, 1, 1, 32, 16)
        pool, other = (np.zeros((1, 3, 1, 16, 32), np.float32) for _ in range(2))
        out = gdn.gated_delta_net(*operands, pool)
        self.assertTrue(same(out, gdn.gated_delta_net(*operands, other, scale=1 / np.sqrt(32), state_dst=[[0, 1, 2]])))
        self.assertTrue(same(pool, other) and pool.any(axis=(2, 3, 4)).all())
        gdn.gated_delta_net(*operands, np.zeros((1, 1, 16, 32), np.float32), state_out=other)
        self.assertTrue(same(pool, other))
        kept = pool.copy()
        self.assertTrue(same(out, gdn.gated_delta_net(*operands, pool, state_src=[gdn.NONE], log=np.zeros((1, 3, 32 + 17), np.float32))))
        self.assertTrue(same(pool, kept))
        for text, bad in (("scale is 0", {"scale": 0}), ("^beta_factor is 0", {"beta_factor": 0}),
                          ("^rounding_interval is 0", {"rounding_interval": 0}), ("^checkpoint_interval is 0", {"checkpoints": [0]}),
                          ("^the number of checkpoints is 0", {"checkpoint_interval": 4})):
            with self.assertRaisesRegex(gdn.InvalidArgument, text):
                gdn.gated_delta_net(*operands, pool, **bad)

    def test_members_without_a_parameter(self):
        operands = gdn_operands(np.random.default_rng(14), 1, 3, 1, 1, 16, 16)
        few, all_ = np.zeros((1, 3, 1, 16, 16), np.float32), np.zeros((1, 3, 1, 16, 16), np.float32)
        gdn.gated_delta_net(*operands, few, n_snapshots=2)
        gdn.gated_delta_net(*operands, all_)
        self.assertTrue(same(few[:, :2], all_[:, :2]) and all_[:, 2].any() and not few[:, 2].any())
        with self.assertRaisesRegex(gdn.InvalidArgument, "flags is 0x2; it must be 0"):
            gdn.set_rows(np.zeros((2, 4), np.float32), np.array([1]), np.ones((1, 4), np.float32), flags=2)
        for name in ("chunk_size", "q_norm", "_fields_", "size", "q", "n_tokens", "inputs", "rounding"):
            with self.assertRaises(TypeError):
                gdn.gated_delta_net(*operands, **{name: 1})

    def test_raw_projections(self):
        rng = np.random.default_rng(9)
        q, k, v, _, _ = gdn_operands(rng, 1, 6, 2, 2, 32, 32)
        raw, logit = (rng.standard_normal((1, 6, 2)).astype(np.float32) for _ in range(2))
        a_log, bias = np.array([0.3, -1], np.float32), np.array([0.1, 0.2], np.float32)
        state = np.zeros((1, 2, 32, 32), np.float32)
        named = dict(qk_norm="clamp", qk_norm_eps=1e-6, gate_input="raw_a_log", ssm_a=a_log, dt_bias=bias, beta_input="logit", beta_factor=2.0)
        (out, after), (want, want_after) = both(gdn.gated_delta_net, (3 * q, 5 * k, v, raw, logit), [state], **named)
        self.assertTrue(same(out, want) and same(after, want_after))
        g = -np.exp(a_log.astype(np.float64)) * np.logaddexp(0, raw.astype(np.float64) + bias)
        formula, _ = gdn_formula(q, k, v, g, 2 / (1 + np.exp(-logit.astype(np.float64))), state)
        self.assertLess(np.abs(out - formula).max(), 2e-5)

    def test_read_key(self):
        """k writes and another key reads, as in GDN-2; with k itself it is the call without one."""
        rng = np.random.default_rng(12)
        q, k, v, g, beta = gdn_operands(rng, 1, 6, 2, 2, 32, 32)
        state = rng.standard_normal((1, 2, 32, 32)).astype(np.float32)
        read = (k * rng.random(k.shape, np.float32)).astype(np.float32)
        (out, after), (want, want_after) = both(gdn.gated_delta_net, (q, k, v, g, beta), [state], read_key=read)
        self.assertTrue(same(out, want) and same(after, want_after))
        plain, plain_after = both(gdn.gated_delta_net, (q, k, v, g, beta), [state])[0]
        again, again_after = both(gdn.gated_delta_net, (q, k, v, g, beta), [state], read_key=k)[0]
        self.assertTrue(same(plain, again) and same(plain_after, again_after) and not same(plain, out))
        S, formula = state[0].astype(np.float64), np.empty(v.shape)
        for t in range(6):
            for h in range(2):
                S[h] *= np.exp(np.float64(g[0, t, h]))
                d = np.float64(beta[0, t, h]) * (v[0, t, h] - S[h] @ read[0, t, h].astype(np.float64))
                S[h] += np.outer(d, k[0, t, h])
                formula[0, t, h] = S[h] @ q[0, t, h].astype(np.float64) / np.sqrt(32)
        self.assertLess(np.abs(out - formula).max(), 2e-5)
        with self.assertRaisesRegex(ValueError, "read_key"):
            gdn.gated_delta_net(q, k, v, g, beta, state, read_key=read[:, :5])

    def test_tokens_that_no_sequence_has(self):
        """Outside seq_start, or of padding: zeros in a new array, what was there in one that is given."""
        dirt = [np.full((40, 2, 32), np.nan, np.float32) for _ in range(8)]  # so that new memory is seldom zeros by itself
        del dirt
        operands = [x[0] for x in gdn_operands(np.random.default_rng(21), 1, 40, 1, 2, 32, 32)]
        conv = np.ones((40, 64), np.float32), np.ones((64, 4), np.float32)
        for named, nobodys in ((dict(seq_start=[2, 3, 38]), [0, 1, 38, 39]), (dict(seq_start=[0, 3, 38, 40]), [])):
            for skipped in (False, True):
                maps, rows = dict(named), list(nobodys)
                count = len(named["seq_start"]) - 1
                if skipped:
                    maps["state_src"] = [gdn.SKIP] + [gdn.NONE] * (count - 1)
                    rows += range(named["seq_start"][0], 3)
                rest = [t for t in range(40) if t not in rows]
                state = np.zeros((count, 2, 32, 32), np.float32)
                out, given = gdn.gated_delta_net(*operands, state, **maps), np.full((40, 2, 32), 7, np.float32)
                gdn.gated_delta_net(*operands, np.zeros_like(state), out=given, **maps)
                self.assertTrue((out[rows] == 0).all() and (given[rows] == 7).all() and np.array_equal(out[rest], given[rest]))
                self.assertTrue((np.abs(out[rest]).max(axis=(1, 2)) > 0).all())
                if skipped:
                    maps["history_src"] = maps.pop("state_src")
                    maps["history"] = np.zeros((count, 3, 64), np.float32)
                out, given = gdn.ssm_conv(*conv, **maps), np.full((40, 64), 7, np.float32)
                gdn.ssm_conv(*conv, out=given, **maps)
                self.assertTrue((out[rows] == 0).all() and (given[rows] == 7).all() and (out[rest] > 0).all())

        padded = [x.reshape(2, 20, *x.shape[1:]) for x in operands]
        out = gdn.gated_delta_net(*padded, np.zeros((2, 2, 32, 32), np.float32), state_src=[gdn.SKIP, gdn.NONE])
        self.assertTrue((out[0] == 0).all() and (out[1] != 0).all())
        out = gdn.ssm_conv(conv[0].reshape(2, 20, 64), conv[1], None, np.zeros((2, 3, 64), np.float32), history_src=[gdn.SKIP, gdn.NONE])
        self.assertTrue((out[0] == 0).all() and (out[1] != 0).all())

    def test_nothing_to_do(self):
        operands = gdn_operands(np.random.default_rng(10), 2, 0, 1, 1, 16, 16)
        state = np.ones((2, 1, 16, 16), np.float32)
        self.assertEqual(gdn.gated_delta_net(*operands, state).shape, (2, 0, 1, 16))
        self.assertTrue((state == 1).all())


class SsmConv(unittest.TestCase):
    def test_values_bits_and_cuts(self):
        rng = np.random.default_rng(11)
        for n_seqs, tokens, channels, width, silu in ((1, 1, 5, 4, True), (2, 33, 96, 4, True), (3, 6, 40, 1, False), (1, 20, 7, 16, False)):
            x = rng.standard_normal((n_seqs, tokens, channels)).astype(np.float32)
            weight, bias = rng.standard_normal((channels, width)).astype(np.float32), rng.standard_normal(channels).astype(np.float32)
            columns = max(width - 1, 1) + 2
            history = np.zeros((n_seqs, columns, channels), np.float32)
            (out, after), (want, want_after) = both(gdn.ssm_conv, (x, weight, bias), [history], silu=silu)
            self.assertTrue(same(out, want) and same(after, want_after))
            self.assertLess(np.abs(out - conv_formula(x, weight, bias, silu)).max(), 2e-5)
            ring, parts = np.zeros_like(history), []
            for t in range(tokens):
                parts.append(gdn.ssm_conv(x[:, t:t + 1], weight, bias, ring, silu=silu, position=[t] * n_seqs))
            self.assertTrue(same(np.concatenate(parts, axis=1), out) and same(ring, after))
            by_channel = np.ascontiguousarray(weight.T).T  # taps outside channels
            self.assertTrue(same(gdn.ssm_conv(x, by_channel, bias, silu=silu), out))

    def test_trees(self):
        rng = np.random.default_rng(19)
        x, weight = rng.standard_normal((4, 24)).astype(np.float32), rng.standard_normal((24, 3)).astype(np.float32)
        history = rng.standard_normal((1, 6, 24)).astype(np.float32)
        out = gdn.ssm_conv(x, weight, history=history.copy(), position=[5], parent=[gdn.NONE, 0, 0, 1])
        for branch in ([0, 1, 3], [0, 2]):
            alone = gdn.ssm_conv(x[branch], weight, history=history.copy(), position=[5])
            self.assertTrue(same(out[branch], alone), branch)

    def test_sixteen_bits_and_strides(self):
        rng = np.random.default_rng(12)
        wide = rng.standard_normal((2, 9, 64)).astype(np.float16)
        weight = rng.standard_normal((24, 4)).astype(np.float16)
        x = wide[:, :, 8:32]
        (out, after), (want, want_after) = both(gdn.ssm_conv, (x, weight, None), [np.zeros((2, 3, 24), np.float16)])
        self.assertTrue(same(out, want) and same(after, want_after) and out.dtype == np.float16)
        self.assertTrue(same(gdn.ssm_conv(np.ascontiguousarray(x), weight), out))
        self.assertLess(np.abs(out - conv_formula(x, weight, None, False)).max(), 0.02)


class SetRows(unittest.TestCase):
    def test_types_and_batches(self):
        rng = np.random.default_rng(13)
        src = rng.standard_normal((2, 3, 4, 64)).astype(np.float32)
        index = np.array([[[3, -1, 0, 3]]], np.int64)
        for make in (lambda: np.zeros((2, 3, 5, 64), np.float32), lambda: np.zeros((2, 3, 5, 64), np.float16),
                     lambda: np.zeros((2, 3, 5, 2 * 34), np.uint8)):
            (one, _), (other, _) = ((gdn.set_rows(dst, index, src, context=c), dst) for c, dst in
                                    ((gdn.default_context(), make()), (REFERENCE, make())))
            self.assertTrue(same(one, other))
            if one.dtype != np.uint8:
                want = make()
                want[:, :, 0], want[:, :, 3] = src[:, :, 2], src[:, :, 3]
                self.assertTrue(same(one, want))
        scale = one[0, 0, 3, :2].copy().view(np.float16)[0]
        quants = one[0, 0, 3, 2:34].copy().view(np.int8)
        self.assertLess(np.abs(scale * quants.astype(np.float32) - src[0, 0, 3, :32]).max(), np.abs(src).max() / 127)

    def test_two_axes_and_int32(self):
        dst, src = np.zeros((6, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
        self.assertIs(gdn.set_rows(dst, np.array([4, 1], np.int32), src), dst)
        self.assertTrue((dst[[4, 1]] == src).all() and not dst[[0, 2, 3, 5]].any())
        wide = np.zeros((6, 8), np.float32)
        gdn.set_rows(wide[::2, 2:5], np.array([0, 2]), src)
        self.assertTrue((wide[[0, 4], 2:5] == src).all() and not wide[1::2].any() and not wide[:, 5:].any())


if __name__ == "__main__":
    unittest.main()
