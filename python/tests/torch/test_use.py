"""What gdn.transformers.use() takes and what it leaves to transformers: signatures, arguments, limits, gradients."""
import importlib.util
import inspect
import unittest
import unittest.mock

import torch
import transformers

import gdn.transformers
import test_functions
from models import CACHE, KINDS, FUNCTIONS, LAYER_CACHE, LAYERS, NAMES, SUPPORTED, layers_of, model, module_of, without
from test_operators import same

TOKENS = torch.randint(2, 97, (2, 20), generator=torch.Generator().manual_seed(1))
PADDED = torch.ones_like(TOKENS)
PADDED[0, :7] = 0


class Used(unittest.TestCase):
    layers = True

    def setUp(self):
        self.addCleanup(gdn.transformers.undo)
        gdn.transformers.use(layers=self.layers)

    def near(self, ours, theirs, what=""):
        self.assertLess((ours - theirs).abs().max(), 1e-4 * theirs.std(), what)


class Signatures(Used):
    def test_this_release(self):
        """A new model of a new release needs a look here, and an entry in models.py or test_functions.py."""
        told = gdn.transformers.supported()
        release = tuple(map(int, transformers.__version__.split(".")[:2]))
        self.assertEqual({name for name, how in told.items() if how == "layers"}, set(LAYERS))
        known = {*KINDS, *test_functions.KINDS, "inkling2_loop"}
        self.assertEqual(set(told), {name for name in known if importlib.util.find_spec(f"transformers.models.{name}")})
        self.assertIn("qwen4_exp", SUPPORTED)
        self.assertEqual(set(SUPPORTED) if release >= (5, 23) else set(), set(LAYERS))
        self.assertEqual("lara_mini" in LAYERS, release >= (5, 24))
        self.assertEqual(told["kimi_linear"], "functions: it has no gated-delta layers")
        self.assertEqual(told["mamba"], "functions: it has no gated-delta layers")
        self.assertNotIn("llama", told)  # which has nothing to replace

    def test_functions_of_another_signature_are_refused(self):
        gdn.transformers.undo()
        module = module_of("qwen3_5")
        for function in FUNCTIONS:
            original = getattr(module, function)
            found = str(inspect.signature(original))
            for change in (lambda a, b: None, lambda query, *args: None):
                with unittest.mock.patch.object(module, function, change):
                    with self.assertRaisesRegex(ImportError, rf"qwen3_5: modeling_qwen3_5.{function} has the signature "
                                                             rf"\((a, b|query, \*args)\); known is \([a-z_, =0-9NoneFalse*]*\)$"):
                        gdn.transformers.use(["qwen3_5"])
                    self.assertIs(getattr(module, function), change)
                    used = gdn.transformers.use()
                    self.assertEqual((set(NAMES) - set(used), "qwen3_5" in used), ({"qwen3_5"}, False))
                    self.assertRegex(gdn.transformers.supported()["qwen3_5"], f"^not covered: .*{function} has the signature")
                    gdn.transformers.undo()
            self.assertEqual(str(inspect.signature(getattr(module, function))), found)

    def test_a_forward_of_another_signature_or_code_stays(self):
        gdn.transformers.undo()
        kind = module_of("qwen3_5").Qwen3_5GatedDeltaNet

        def renamed(self, hidden_states, past=None, attention_mask=None, **kwargs):
            return hidden_states

        def changed(self, hidden_states, cache=None, attention_mask=None, **kwargs):
            return hidden_states

        for forward, why in ((renamed, r"Qwen3_5GatedDeltaNet.forward has the signature \(self, hidden_states, past=None, "),
                             (changed, "the code of Qwen3_5GatedDeltaNet.forward is not one that is known")):
            with unittest.mock.patch.object(kind, "forward", forward):
                self.assertRegex(gdn.transformers.supported()["qwen3_5"], "^functions: " + why)
                self.assertIn("qwen3_5", gdn.transformers.use())
                self.assertIs(kind.forward, forward)
                gdn.transformers.undo()

    def test_arguments(self):
        """One that has a meaning elsewhere is refused; others are transformers' to take or leave."""
        q, k, v = torch.randn(1, 5, 4, 16), torch.randn(1, 5, 4, 16), torch.randn(1, 5, 4, 32)
        g, beta, x, weight = -torch.rand(1, 5, 4), torch.rand(1, 5, 4), torch.randn(1, 8, 5), torch.randn(8, 4)
        for name in NAMES:
            chunk, recurrent, conv, update = (getattr(module_of(name), function) for function in FUNCTIONS)
            for function, args, named in ((chunk, (q, k, v), dict(g=g, beta=beta)), (recurrent, (q, k, v), dict(g=g, beta=beta)),
                                          (conv, (x, weight), {}), (update, (x, torch.zeros(1, 8, 4), weight), {})):
                for argument, value in (("scale", 1.0), ("state_v_first", True), ("conv_state_indices", torch.tensor([0]))):
                    with self.assertRaisesRegex(TypeError, f"{argument} is .*; there is no argument '{argument}'"):
                        function(*args, **named, **{argument: value})
                fresh = lambda: tuple(torch.zeros_like(x) if x.shape == (1, 8, 4) else x for x in args)
                theirs = function.__wrapped__(*fresh(), **named)
                for other in (dict(use_cache=True), dict(somebodys=1)):
                    got = function(*fresh(), **named, **other)
                    self.near(*(x[0] if isinstance(x, tuple) else x for x in (got, theirs)))

    @torch.no_grad()
    def test_the_older_name_of_the_cache(self):
        hidden = torch.randn(2, 9, 64)
        for name in LAYERS:
            one = model(name)
            layer, parts = layers_of(one)[0], []
            for names in (("cache_params",), (LAYER_CACHE,), ()):
                cache = transformers.DynamicCache(config=one.config)
                steps = [layer(part, **{names[0]: cache}) if names else layer(part, cache) for part in hidden.split((6, 1, 2), 1)]
                parts.append(torch.cat(steps, 1))
            with without():
                self.near(parts[0], layer(hidden), name)
            self.near(parts[1], parts[0], name)
            self.assertTrue(same(parts[1], parts[2]), name)


class Limits(Used):
    """Models that the library does not serve run as before."""

    @torch.no_grad()
    def test_shapes_and_activations(self):
        for name in NAMES:
            for more in (dict(linear_key_head_dim=8, linear_value_head_dim=8), dict(linear_value_head_dim=272), dict(linear_conv_kernel_dim=20),
                         dict(hidden_act="gelu")):
                one = model(name, **more)
                ours = one(TOKENS[:, :12]).logits
                step = one.generate(TOKENS[:, :6], max_new_tokens=3, do_sample=False)
                with without():
                    self.near(ours, one(TOKENS[:, :12]).logits, (name, more))
                    self.assertTrue(torch.equal(step, one.generate(TOKENS[:, :6], max_new_tokens=3, do_sample=False)), (name, more))

    def test_linear_layers_without_a_weight(self):
        class Quantized(torch.nn.Module):
            def __init__(self, linear):
                super().__init__()
                self.register_buffer("codes", linear.weight.detach().clone())

            def forward(self, x):
                return x @ self.codes.T

        for name in NAMES:
            one = model(name).requires_grad_(False)
            for layer in layers_of(one):
                for child, linear in list(layer.named_children()):
                    if isinstance(linear, torch.nn.Linear):
                        setattr(layer, child, Quantized(linear))
            for gradients in (True, False):
                with torch.set_grad_enabled(gradients):
                    ours = one(TOKENS).logits
                    with without():
                        self.near(ours, one(TOKENS).logits, name)
        plain = model("qwen3_5").requires_grad_(False)
        one = torch.ao.quantization.quantize_dynamic(plain, {torch.nn.Linear}, dtype=torch.qint8)
        ours = one(TOKENS).logits
        with without():  # an activation between two integers may become either: far less than what rounding itself costs
            theirs = one(TOKENS).logits
            self.assertLess((ours - theirs).square().mean().sqrt(), 0.1 * (theirs - plain(TOKENS).logits).square().mean().sqrt())

    @torch.no_grad()
    def test_projections_of_another_type(self):
        """float64 from an adapter: the library reads no such thing."""
        layer, hidden = layers_of(model("qwen3_5"))[0], torch.randn(1, 5, 64)
        layer.in_proj_a.register_forward_hook(lambda module, args, out: out.double())
        ours = layer(hidden)
        with without():
            self.near(ours, layer(hidden))

    @torch.no_grad()
    def test_packed_sequences(self):
        """cu_seq_lens_q alone keeps the convolution of sequences apart, too."""
        hidden = torch.randn(1, 6, 64)
        for name in NAMES:
            layer = layers_of(model(name))[0]
            packed = layer(hidden, cu_seq_lens_q=torch.tensor([0, 2, 6]))
            both = layer(hidden, cu_seq_lens_q=torch.tensor([0, 2, 6]), seq_idx=torch.tensor([[0, 0, 1, 1, 1, 1]], dtype=torch.int32))
            for part in (slice(0, 2), slice(2, 6)):
                self.near(packed[:, part], layer(hidden[:, part]), name)
            self.near(packed, both, name)


class Padding(Used):
    @torch.no_grad()
    def test_left_padding(self):
        """Prefill, decoding and beams, against transformers, and against the sequence without padding."""
        for name in NAMES:
            one = model(name)
            for beams in (1, 2):
                options = dict(max_new_tokens=5, num_beams=beams, do_sample=False, output_logits=True, return_dict_in_generate=True)
                ours = one.generate(TOKENS, attention_mask=PADDED, **options)
                alone = one.generate(TOKENS[:1, 7:], **options)
                with without(self.layers):
                    theirs = one.generate(TOKENS, attention_mask=PADDED, **options)
                self.assertTrue(torch.equal(ours.sequences, theirs.sequences), (name, beams))
                self.assertTrue(torch.equal(ours.sequences[:1, 20:], alone.sequences[:, 13:]), (name, beams))
                self.near(torch.stack(ours.logits), torch.stack(theirs.logits), name)

    @torch.no_grad()
    def test_static_cache_and_pieces(self):
        for name in NAMES:
            one = model(name)
            whole = one(TOKENS).logits
            for kind in (transformers.DynamicCache, lambda config: transformers.StaticCache(config=config, max_cache_len=32)):
                cache = kind(config=one.config)
                parts = [one(part, **{CACHE: cache}).logits for part in TOKENS.split((7, 1, 1, 5, 6), 1)]
                self.near(torch.cat(parts, 1), whole, name)


class PaddingFunctions(Padding):
    layers = False


class Training(Used):
    """Gradients through the library: close to transformers', behind a forward pass with the bits that it has without them."""

    def gradients(self, one, run):
        one.zero_grad(set_to_none=True)
        run().backward()
        return {name: parameter.grad for name, parameter in one.named_parameters() if parameter.grad is not None}

    def compare(self, one, what, run=None):
        run = run or (lambda: one(TOKENS, labels=TOKENS, use_cache=False).loss)
        ours = self.gradients(one, run)
        with without(self.layers):
            theirs = self.gradients(one, run)
        self.assertEqual(ours.keys(), theirs.keys(), what)
        self.assertTrue(ours, what)
        for name, gradient in theirs.items():
            self.assertLessEqual((ours[name] - gradient).abs().max(), 1e-4 * gradient.abs().max() + 1e-7, (what, name))
        return ours

    def test_whole_models(self):
        for name in NAMES:
            one = model(name).train()
            got = self.compare(one, name)
            self.assertTrue(all(got[key].any() for key in got if "linear_attn" in key), name)
            for reentrant in (False, True):
                one.gradient_checkpointing_enable(dict(use_reentrant=reentrant))
                self.compare(one, (name, "checkpoints", reentrant))

    def test_bits(self):
        """With and without gradients, in training and not."""
        for name in NAMES:
            one = model(name)
            logits = one(TOKENS, use_cache=False).logits
            self.assertTrue(logits.requires_grad)
            with torch.no_grad():
                self.assertTrue(same(logits.detach(), one(TOKENS, use_cache=False).logits), name)
            self.assertTrue(same(logits.detach(), one.train()(TOKENS).logits.detach()), name)

    def test_cache(self):
        """A prompt in pieces, and a token: outputs' bits, states' bits, and the last piece's gradients with the states as given."""
        for name in NAMES:
            one, hidden = model(name), torch.randn(2, 9, 64)
            layer = layers_of(one)[0]

            def run(piece):
                torch.manual_seed(2)
                cache, start = transformers.DynamicCache(config=one.config), torch.randn(2, 20, 64)
                with torch.no_grad():
                    layer(start, **{LAYER_CACHE: cache})
                out = layer(piece, **{LAYER_CACHE: cache})
                kept = cache.layers[layer.layer_idx]
                return out, kept.conv_states[0].detach(), kept.recurrent_states[0].detach()
            for piece in (hidden, hidden[:, :1]):
                results = run(piece)
                with torch.no_grad():
                    for x, y in zip(results, run(piece)):
                        self.assertTrue(same(x.detach().contiguous(), y.contiguous()), name)
                with without(self.layers):
                    for x, y in zip(results, run(piece)):
                        self.near(x.detach(), y.detach(), name)

    def test_one_tensor(self):
        for name in NAMES:
            one = model(name).requires_grad_(False)
            for key, parameter in layers_of(one)[0].named_parameters():
                parameter.requires_grad_(True)
                got = self.compare(one, (name, key))
                self.assertTrue(len(got) == 1 and next(iter(got.values())).any(), (name, key))
                parameter.requires_grad_(False)

    def test_a_tensor_of_another_module(self):
        """Of an embedding: the layer's input has the gradient. Of a hook: only a projection's result has."""
        for name in NAMES:
            one = model(name).requires_grad_(False)
            one.get_input_embeddings().requires_grad_(True)
            self.compare(one, name)
        for child in ("in_proj_z", "in_proj_a", "in_proj_qkv"):
            layer, hidden, factor = layers_of(model("qwen3_5").requires_grad_(False))[0], torch.randn(1, 5, 64), torch.ones(1, requires_grad=True)
            getattr(layer, child).register_forward_hook(lambda module, args, out: out * factor)
            layer(hidden).sum().backward()
            ours, factor.grad = factor.grad, None
            with without(self.layers):
                layer(hidden).sum().backward()
            self.assertGreater(factor.grad.abs(), 1e-4)
            self.assertLess((ours - factor.grad).abs(), 1e-3 * factor.grad.abs(), child)

    def test_lora(self):
        try:
            import peft
        except ImportError:
            self.skipTest("the package peft is not installed")
        for name in NAMES:
            base = model(name)
            targets = [child for child, linear in layers_of(base)[0].named_children() if isinstance(linear, torch.nn.Linear)]
            for some in (targets, targets[:1]):
                one = peft.get_peft_model(model(name), peft.LoraConfig(r=2, target_modules=some, lora_dropout=0.0))
                for key, parameter in one.named_parameters():
                    if "lora_B" in key:
                        torch.nn.init.normal_(parameter, std=0.1)
                self.compare(one, (name, some))

    def test_transforms(self):
        hidden, tangent = torch.randn(2, 5, 64), torch.randn(2, 5, 64)
        for name in NAMES:
            layer = layers_of(model(name).requires_grad_(False))[0]
            for run in (lambda: torch.func.jvp(layer, (hidden,), (tangent,))[1], lambda: torch.func.vjp(layer, hidden)[1](tangent)[0],
                        lambda: torch.func.vmap(layer)(hidden[:, None])[:, 0]):
                with torch.no_grad():
                    ours = run()
                    with without(self.layers):
                        self.near(ours, run(), name)
            forward = torch.autograd.forward_ad
            with forward.dual_level():
                run = lambda: forward.unpack_dual(layer(forward.make_dual(hidden, tangent))).tangent
                ours = run()
                with without(self.layers):
                    self.near(ours, run(), name)

    def test_compile(self):
        hidden = torch.randn(2, 9, 64)
        for name in NAMES:
            layer = layers_of(model(name))[0]
            torch._dynamo.reset()
            compiled = torch.compile(layer, backend="aot_eager")
            with torch.no_grad():
                ours = compiled(hidden)
                with without(self.layers):
                    theirs = layer(hidden)
            self.near(ours, theirs, name)
            compiled = torch.compile(layer, backend="eager")  # aot_eager cannot compile transformers' own
            self.compare(layer, name, lambda: (compiled(hidden) * hidden).sum())


class TrainingFunctions(Training):
    layers = False


if __name__ == "__main__":
    unittest.main()
