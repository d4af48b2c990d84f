"""gdn.transformers on random models of HF transformers: logits against its fallbacks, and the same bits in the layers for
prefill and decoding, batches and single sequences."""
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

import torch
import transformers

import gdn.transformers
from models import CACHE, FUNCTIONS, LAYER_CACHE, LAYERS, NAMES, layers_of, model, module_of, without
from test_operators import same

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Recorder:
    """What the layers call while it is in place, with arguments and results."""

    def __init__(self, name):
        self.module = module_of(name)
        self.calls = []

    def __enter__(self):
        self.kept = {}
        for function in FUNCTIONS:
            self.kept[function] = getattr(self.module, function)
            setattr(self.module, function, self.recording(function))
        return self.calls

    def recording(self, function):
        def call(*args, **kwargs):
            given = [x.clone() if torch.is_tensor(x) else x for x in args]
            result = self.kept[function](*args, **kwargs)
            self.calls.append((function, given, kwargs, result))
            return result
        return call

    def __exit__(self, *exception):
        for function, original in self.kept.items():
            setattr(self.module, function, original)


def rule_in_float64(query, key, value, g, beta, initial_state=None, **named):
    """The formula, token by token; transformers' own goes back to float32 inside."""
    query, key, value, g, beta = (x.double() for x in (query, key, value, g, beta))
    query, key = ((x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()).repeat_interleave(value.shape[2] // x.shape[2], 2) for x in (query, key))
    state, parts = torch.zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1], dtype=torch.float64), []
    for t in range(value.shape[1]):
        state = state * g[:, t].exp()[..., None, None]
        delta = beta[:, t, :, None] * (value[:, t] - torch.einsum("bhij,bhi->bhj", state, key[:, t]))
        state = state + key[:, t, :, :, None] * delta[:, :, None]
        parts.append(torch.einsum("bhij,bhi->bhj", state, query[:, t]) * key.shape[-1] ** -0.5)
    return torch.stack(parts, 1), None


class Models(unittest.TestCase):
    """The functions that the layers call, where their own forward is transformers'."""

    def setUp(self):
        self.addCleanup(gdn.transformers.undo)
        self.assertLessEqual(set(NAMES), set(gdn.transformers.use(layers=False)))

    def recorded(self, run):
        """For each of the models: its name, it, what run() of it gives, and the functions that its layers called."""
        for name in NAMES:
            one = model(name)
            with Recorder(name) as calls:
                ours = run(one)
            yield name, one, ours, {function for function, *_ in calls}

    @torch.no_grad()
    def test_logits(self):
        tokens = torch.randint(0, 97, (2, 70), generator=torch.Generator().manual_seed(2))
        for name, one, ours, called in self.recorded(lambda one: one(tokens, use_cache=False).logits):
            self.assertEqual(called, {"torch_chunk_gated_delta_rule", "causal_conv1d_fn"}, name)
            gdn.transformers.undo()
            theirs = one(tokens, use_cache=False).logits
            module = module_of(name)
            with unittest.mock.patch.object(module, "torch_chunk_gated_delta_rule", rule_in_float64):
                double = one.double()(tokens, use_cache=False).logits
            gdn.transformers.use(layers=False)
            spread = double.std()
            self.assertGreater(spread, 0.1, name)
            self.assertFalse(torch.equal(ours, theirs), name)  # it is not the fallback that ran
            self.assertLess((ours - theirs).abs().max(), 1e-4 * spread, name)
            error, fallback = (ours - double).abs().max(), (theirs - double).abs().max()
            self.assertLess(error, 3 * fallback, name)
            print(f"{name}: logits differ from float64's by {error / spread:.1e}, the fallback's by {fallback / spread:.1e} deviations")

    @torch.no_grad()
    def test_generate(self):
        tokens = torch.randint(0, 97, (2, 12), generator=torch.Generator().manual_seed(3))
        options = dict(max_new_tokens=8, do_sample=False, output_logits=True, return_dict_in_generate=True)
        for name, one, ours, called in self.recorded(lambda one: one.generate(tokens, **options)):
            self.assertIn("torch_recurrent_gated_delta_rule", called)
            self.assertIn("causal_conv1d_update", called)
            again = one(ours.sequences[:, :-1]).logits[:, 11:]  # all at once
            self.assertLess((torch.stack(ours.logits, 1) - again).abs().max(), 1e-4 * again.std(), name)
            cache = transformers.DynamicCache(config=one.config)
            parts = [one(part, **{CACHE: cache}).logits for part in ours.sequences[:, :-1].split((5, 7, 1, 6), 1)]
            self.assertLess((torch.cat(parts, 1)[:, 11:] - again).abs().max(), 1e-4 * again.std(), name)
            gdn.transformers.undo()
            theirs = one.generate(ours.sequences[:, :12], **options)
            gdn.transformers.use(layers=False)
            self.assertLess((ours.logits[0] - theirs.logits[0]).abs().max(), 1e-4 * again.std(), name)

    @torch.no_grad()
    def test_sixteen_bits(self):
        """Not with experts: which of them a token has hangs on the last bit of a bfloat16."""
        tokens = torch.randint(0, 97, (1, 40), generator=torch.Generator().manual_seed(4))
        one = model("qwen3_5", torch.bfloat16)
        ours = one(tokens).logits.float()
        gdn.transformers.undo()
        theirs, exact = one(tokens).logits.float(), one.float()(tokens).logits
        self.assertFalse(torch.equal(ours, theirs))
        self.assertLess((ours - exact).abs().mean(), 1.5 * (theirs - exact).abs().mean())

    @torch.no_grad()
    def test_the_layers_give_the_same_bits_token_by_token_and_alone(self):
        """What the layers of a prefill were given is given again one token at a time, as decoding does, and one sequence at a
        time: the same bits. (Matrix products between the layers are PyTorch's, whose bits depend on the batch.)"""
        tokens = torch.randint(0, 97, (3, 33), generator=torch.Generator().manual_seed(5))
        for name in NAMES:
            for dtype in (torch.float32, torch.bfloat16):
                one = model(name, dtype)
                with Recorder(name) as calls:
                    one(tokens)
                module = module_of(name)
                self.assertEqual(len(calls), 4)
                for function, args, kwargs, result in calls:
                    if function == "causal_conv1d_fn":
                        x, weight, bias = args[0], *(args[1:] or (kwargs["weight"], kwargs["bias"]))
                        state = torch.zeros(3, x.shape[1], 4, dtype=dtype)  # as transformers keeps it
                        parts = [module.causal_conv1d_update(x[..., t:t + 1], state, weight, bias, kwargs["activation"]) for t in range(33)]
                        self.assertTrue(same(torch.cat(parts, -1), result), name)
                        for s in range(3):
                            alone = module.causal_conv1d_fn(x[s:s + 1], weight, bias, activation=kwargs["activation"])
                            self.assertTrue(same(alone[0], result[s]), name)
                        continue
                    q, k, v = args
                    g, beta = kwargs["g"], kwargs["beta"]
                    named = dict(use_qk_l2norm_in_kernel=True, output_final_state=True)
                    whole, final = module.torch_chunk_gated_delta_rule(q, k, v, g=g, beta=beta, **named)
                    self.assertTrue(same(whole, result[0]), name)
                    state, parts = None, []
                    for t in range(33):
                        now = [x[:, t:t + 1] for x in (q, k, v, g, beta)]
                        rule = module.torch_chunk_gated_delta_rule if state is None else module.torch_recurrent_gated_delta_rule
                        out, state = rule(*now[:3], g=now[3], beta=now[4], initial_state=state, **named)
                        parts.append(out)
                    self.assertTrue(same(torch.cat(parts, 1), whole) and same(state, final), name)
                    for s in range(3):
                        alone, last = module.torch_chunk_gated_delta_rule(q[s:s + 1], k[s:s + 1], v[s:s + 1], g=g[s:s + 1],
                                                                          beta=beta[s:s + 1], **named)
                        self.assertTrue(same(alone[0], whole[s]) and same(last[0], final[s]), name)

    def test_packed_sequences_and_recorded_pasts_have_the_functions(self):
        """What the layers' forward of ours does not do is done by transformers', on the functions."""
        gdn.transformers.use()
        hidden = torch.randn(1, 6, 64)
        for name in LAYERS:
            one = model(name).requires_grad_(False)
            cache = transformers.DynamicCache(config=one.config)
            cache.layers[0].activate_past_recording()
            layer = layers_of(one)[0]
            for named in (dict(cu_seq_lens_q=torch.tensor([0, 2, 6])), {LAYER_CACHE: cache}):
                with Recorder(name) as calls:
                    layer(hidden, **named)
                self.assertEqual({function for function, *_ in calls}, {"torch_chunk_gated_delta_rule", "causal_conv1d_fn"}, name)
            with Recorder(name) as calls:
                layer(hidden)
            self.assertEqual(calls, [], name)

    def test_heads_over_ranks(self):
        """examples/ranks.py compares two processes with one."""
        done = subprocess.run([sys.executable, EXAMPLES / "ranks.py", "--tokens", "40"], capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stdout), (0, "2 ranks, 4 value heads each: the same bits as one process\n"), done.stderr)

    def test_undo(self):
        import transformers.models.qwen3_5.modeling_qwen3_5 as module
        ours = module.causal_conv1d_fn
        gdn.transformers.use(layers=False)
        self.assertIs(module.causal_conv1d_fn, ours)  # twice is once
        forward = module.Qwen3_5GatedDeltaNet.forward
        gdn.transformers.use()
        self.assertIs(module.causal_conv1d_fn, ours)
        self.assertEqual(module.Qwen3_5GatedDeltaNet.forward is not forward, "qwen3_5" in LAYERS)
        gdn.transformers.undo()
        self.assertIs(module.Qwen3_5GatedDeltaNet.forward, forward)
        theirs = module.causal_conv1d_fn
        self.assertIsNot(theirs, ours)
        gdn.transformers.undo()
        self.assertIs(module.causal_conv1d_fn, theirs)
        self.assertEqual(gdn.transformers.use(["qwen3_5"]), ("qwen3_5",))
        module.causal_conv1d_fn = somebodys = lambda *args, **kwargs: None
        gdn.transformers.undo()
        self.assertIs(module.causal_conv1d_fn, somebodys)
        module.causal_conv1d_fn = theirs
        with self.assertRaisesRegex(ValueError, "'gpt2' is not a model with these functions"):
            gdn.transformers.use(["gpt2"])

    def test_other_devices_get_what_was_there(self):
        import transformers.models.qwen3_5.modeling_qwen3_5 as module
        x = torch.empty(1, 8, 5, device="meta")
        self.assertEqual(module.causal_conv1d_fn(x, torch.empty(8, 4, device="meta"), None, activation="silu").device.type, "meta")


def theirs_of(run):
    with without():
        return run()


class Layers(unittest.TestCase):
    """The layers' own forward."""

    def setUp(self):
        self.addCleanup(gdn.transformers.undo)
        self.assertLessEqual(set(NAMES), set(gdn.transformers.use()))
        self.calls = []
        for name in ("conv", "rule"):
            patch = unittest.mock.patch.object(gdn.transformers._layer, name, self.recording(getattr(gdn.transformers._layer, name)))
            patch.start()
            self.addCleanup(patch.stop)

    def recording(self, function):
        def call(*args):
            given = [x.clone() if torch.is_tensor(x) else x for x in args]
            result = function(*args)
            self.calls.append((function, given, args, result))
            return result
        return call

    @torch.no_grad()
    def test_logits(self):
        tokens = torch.randint(0, 97, (2, 70), generator=torch.Generator().manual_seed(2))
        padded = torch.ones_like(tokens)
        padded[0, :9] = 0
        for name in LAYERS:
            one = model(name)
            for mask in (None, padded):
                del self.calls[:]
                ours = one(tokens, attention_mask=mask, use_cache=False).logits
                self.assertEqual(len(self.calls), 4, name)
                theirs = theirs_of(lambda: one(tokens, attention_mask=mask, use_cache=False).logits)
                seen = padded.bool() if mask is not None else torch.ones_like(padded, dtype=torch.bool)
                self.assertFalse(torch.equal(ours, theirs), name)
                self.assertLess((ours - theirs)[seen].abs().max(), 1e-4 * theirs.std(), name)

    @torch.no_grad()
    def test_generate(self):
        """In one piece and in several, greedy and in beams, whose states transformers reorders."""
        tokens = torch.randint(0, 97, (2, 12), generator=torch.Generator().manual_seed(3))
        for name in LAYERS:
            one = model(name)
            for beams in (1, 3):
                options = dict(max_new_tokens=8, num_beams=beams, do_sample=False, output_logits=True, return_dict_in_generate=True)
                ours = one.generate(tokens, **options)
                theirs = theirs_of(lambda: one.generate(tokens, **options))
                self.assertLess((torch.stack(ours.logits) - torch.stack(theirs.logits)).abs().max(), 1e-4 * theirs.logits[0].std(), name)
                self.assertTrue(torch.equal(ours.sequences, theirs.sequences), name)
            again = one(ours.sequences[:, :-1]).logits
            cache = transformers.DynamicCache(config=one.config)
            parts = [one(part, **{CACHE: cache}).logits for part in ours.sequences[:, :-1].split((5, 7, 1, 2, 4), 1)]
            self.assertLess((torch.cat(parts, 1) - again).abs().max(), 1e-4 * again.std(), name)
            cache = transformers.DynamicCache(config=one.config)  # begun by transformers, gone on with by the library
            first = theirs_of(lambda: one(ours.sequences[:, :5], **{CACHE: cache}).logits)
            rest = one(ours.sequences[:, 5:-1], **{CACHE: cache}).logits
            self.assertLess((torch.cat((first, rest), 1) - again).abs().max(), 1e-4 * again.std(), name)

    @torch.no_grad()
    def test_sixteen_bits(self):
        tokens = torch.randint(0, 97, (1, 40), generator=torch.Generator().manual_seed(4))
        one = model("qwen3_5", torch.bfloat16)
        ours = one(tokens).logits.float()
        theirs = theirs_of(lambda: one(tokens).logits.float())
        exact = theirs_of(lambda: one.float()(tokens).logits)
        self.assertFalse(torch.equal(ours, theirs))
        self.assertLess((ours - exact).abs().mean(), 1.5 * (theirs - exact).abs().mean())

    @torch.no_grad()
    def test_the_same_bits_token_by_token_and_alone(self):
        tokens = torch.randint(0, 97, (3, 33), generator=torch.Generator().manual_seed(5))
        for name in LAYERS:
            for dtype in (torch.float32, torch.bfloat16):
                del self.calls[:]
                one = model(name, dtype)
                cache = transformers.DynamicCache(config=one.config)
                one(tokens, **{CACHE: cache})
                self.assertEqual(len(self.calls), 4)
                for at, ((conv, given, _, mixed), (rule, projected, written, out)) in enumerate(zip(*[iter(self.calls)] * 2)):
                    qkv, weight, bias, _ = given
                    final, begins = written[5], projected[5]
                    cached = cache.layers[2 * at]
                    self.assertTrue(same(cached.recurrent_states[0], final), name)
                    self.assertTrue(same(cached.conv_states[0], qkv[:, -4:].transpose(1, 2)), name)
                    self.assertEqual(cached.conv_states[0].stride(1), 1)  # as the library reads it
                    for some in (slice(0, 3), slice(1, 2)):
                        past, state, parts = torch.zeros(len(qkv[some]), 4, qkv.shape[-1], dtype=dtype), torch.zeros_like(begins[some]), []
                        for t in range(33):
                            now = qkv[some, t:t + 1]
                            step = conv(now, weight, bias, past)
                            self.assertTrue(same(step[:, 0], mixed[some, t]), name)
                            past = torch.cat((past[:, 1:], now), 1)
                            parts.append(rule(step, *(x[some, t:t + 1] for x in projected[1:3]), *projected[3:5], state, False, *projected[7:]))
                        self.assertTrue(same(torch.cat(parts, 1), out[some]) and same(state, final[some]), name)

    def test_push(self):
        push = gdn.transformers._layer.push
        for dtype in (torch.float32, torch.bfloat16):
            before, x = torch.randn(3, 4, 6).to(dtype), torch.randn(3, 9, 6).to(dtype)
            for tokens in (1, 2, 3, 4, 9):
                for some, columns in ((x[:, :tokens], before.clone()), (x[:, :tokens].contiguous(), before.clone()),
                                      (x[:, :tokens].contiguous(), before.transpose(1, 2).contiguous().transpose(1, 2))):
                    push(columns, some)
                    self.assertTrue(same(columns, torch.cat((before, x[:, :tokens]), 1)[:, -4:]))

    @torch.no_grad()
    def test_norm_in_pieces(self):
        one, hidden = layers_of(model("qwen3_5"))[0], torch.randn(2, 50, 64)
        whole = one(hidden)
        with unittest.mock.patch.object(gdn.transformers, "_NORM_ROWS", 64):
            self.assertTrue(same(one(hidden), whole))


if __name__ == "__main__":
    unittest.main()
