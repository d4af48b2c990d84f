"""gdn.fla in the layers of flash-linear-attention, beside plain PyTorch in float64. Skipped where fla 0.6 is not installed."""
import unittest

import torch
import torch.nn.functional as F

try:
    import fla
    import fla.layers
    from fla.models.utils import Cache
except ImportError:
    fla = None

import gdn.fla


def convolved(x, conv):
    """[B, T, D] through a short convolution and silu."""
    weight = conv.weight.double()
    return F.silu(F.conv1d(F.pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0)), weight, None if conv.bias is None else conv.bias.double(),
                           groups=weight.shape[0])).transpose(1, 2)


def wanted(layer, x):
    """The forward of GatedDeltaNet and KimiDeltaAttention, token by token."""
    x = x.double()
    linear = lambda of, y=x: F.linear(y, of.weight.double(), None if of.bias is None else of.bias.double())  # noqa: E731
    heads = lambda y, d: y.unflatten(-1, (-1, d))  # noqa: E731
    q, k, v = (convolved(linear(getattr(layer, f"{name}_proj")), getattr(layer, f"{name}_conv1d")) for name in "qkv")
    q, k, v = heads(q, layer.head_k_dim), heads(k, layer.head_k_dim), heads(v, layer.head_v_dim)
    q, k = (y * (y.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for y in (q, k))
    beta = linear(layer.b_proj).sigmoid()
    if isinstance(layer, fla.layers.GatedDeltaNet):
        g = (-layer.A_log.double().exp() * F.softplus(linear(layer.a_proj) + layer.dt_bias.double())).unsqueeze(-1)
        gate = heads(linear(layer.g_proj), layer.head_v_dim)
        gate = F.silu(gate)
    else:
        raw = linear(layer.f_proj[1], linear(layer.f_proj[0])) + layer.dt_bias.double()
        g = -layer.A_log.double().exp()[:, None] * F.softplus(heads(raw, layer.head_k_dim))
        gate = heads(linear(layer.g_proj[1], linear(layer.g_proj[0])), layer.head_v_dim).sigmoid()
    state, parts = torch.zeros(*q.shape[:1], *q.shape[2:], v.shape[-1], dtype=torch.float64), []
    for t in range(x.shape[1]):
        state = state * g[:, t].exp().unsqueeze(-1)
        delta = beta[:, t].unsqueeze(-1) * (v[:, t] - torch.einsum("bhij,bhi->bhj", state, k[:, t]))
        state = state + k[:, t].unsqueeze(-1) * delta.unsqueeze(-2)
        parts.append(torch.einsum("bhij,bhi->bhj", state, q[:, t]) * layer.head_k_dim ** -0.5)
    out = torch.stack(parts, 1)
    out = out * (out.square().mean(-1, keepdim=True) + layer.o_norm.eps).rsqrt() * layer.o_norm.weight.double() * gate
    return linear(layer.o_proj, out.flatten(2))


@unittest.skipIf(fla is None or not fla.__version__.startswith("0.6."), "fla 0.6 is not installed")
class Layers(unittest.TestCase):
    def setUp(self):
        gdn.fla.register()
        torch.manual_seed(1)

    def layers(self):
        sizes = {"hidden_size": 128, "head_dim": 32, "num_heads": 4, "layer_idx": 0}
        return [kind(**sizes).eval() for kind in (fla.layers.GatedDeltaNet, fla.layers.KimiDeltaAttention)]

    @torch.no_grad()
    def test_layers(self):
        for layer in self.layers():
            for tokens in (1, 3, 40, 100):
                x = torch.randn(2, tokens, 128)
                theirs = wanted(layer, x)
                self.assertLess((layer(x)[0] - theirs).abs().max(), 2e-5 * theirs.std(), (type(layer).__name__, tokens))

    @torch.no_grad()
    def test_cache(self):
        for layer in self.layers():
            x = torch.randn(2, 100, 128)
            theirs = wanted(layer, x)
            for pieces in ([2] + [1] * 98, [70] + [1] * 30, [40, 2, 33, 25]):
                cache = Cache()
                parts = [layer(some, past_key_values=cache, use_cache=True)[0] for some in x.split(pieces, 1)]
                self.assertLess((torch.cat(parts, 1) - theirs).abs().max(), 2e-5 * theirs.std(), (type(layer).__name__, pieces))

    @torch.no_grad()
    def test_packed(self):
        for layer in self.layers():
            x, starts = torch.randn(1, 100, 128), [0, 30, 31, 100]
            out = layer(x, cu_seqlens=torch.tensor(starts))[0]
            for begin, end in zip(starts, starts[1:]):
                theirs = wanted(layer, x[:, begin:end])
                self.assertLess((out[:, begin:end] - theirs).abs().max(), 2e-5 * theirs.std(), type(layer).__name__)

    @torch.no_grad()
    def test_no_tokens(self):
        """A piece without tokens leaves the cache as it is."""
        for layer in self.layers():
            x = torch.randn(2, 9, 128)
            self.assertEqual(layer(x[:, :0])[0].shape, (2, 0, 128))
            for pieces in ((5, 0, 4), (5, 3, 0, 1), (0, 9)):
                cache = Cache()
                parts = [layer(some, past_key_values=cache, use_cache=True)[0] for some in x.split(pieces, 1)]
                self.assertLess((torch.cat(parts, 1) - wanted(layer, x)).abs().max(), 2e-5 * wanted(layer, x).std(), (type(layer).__name__, pieces))

    @torch.no_grad()
    def test_limits(self):
        """What it does not cover raises an error that names it, instead of Triton's "0 active drivers"."""
        try:
            import triton
        except ImportError:
            self.skipTest("fla without Triton has other errors")
        if triton.runtime.driver._active is not None or torch.cuda.is_available():
            self.skipTest("a GPU is here")
        sizes = {"hidden_size": 128, "head_dim": 32, "num_heads": 4, "layer_idx": 0}
        for make in (lambda: fla.layers.GatedDeltaNet(use_gate=False, **sizes), lambda: fla.layers.Comba(**sizes), lambda: fla.layers.MesaNet(**sizes),
                     lambda: fla.layers.GatedDeltaNet2(**sizes), lambda: fla.layers.DeltaNet(hidden_size=128, num_heads=4, layer_idx=0)):
            with self.assertRaisesRegex(NotImplementedError, "needs Triton and a GPU.*GatedDeltaNet.use_gate=False.*Comba"):
                make().eval()(torch.randn(2, 20, 128))

    @torch.no_grad()
    def test_unregister(self):
        from fla.layers import gated_deltanet
        layer, x = self.layers()[0], torch.randn(1, 100, 128)
        ours = gated_deltanet.fused_recurrent_gated_delta_rule
        gdn.fla.register()  # again, with nothing new
        self.assertIs(gated_deltanet.fused_recurrent_gated_delta_rule, ours)
        gdn.fla.unregister()
        gdn.fla.unregister()
        self.assertIs(gated_deltanet.fused_recurrent_gated_delta_rule, ours.__wrapped__)
        with self.assertRaises((RuntimeError, ValueError)):
            layer(x)
        gdn.fla.register()
        self.assertLess((layer(x)[0] - wanted(layer, x)).abs().max(), 2e-5 * wanted(layer, x).std())

    def test_gradients(self):
        for layer in self.layers():
            for tokens, starts in ((3, [0, 3]), (100, [0, 100]), (100, [0, 30, 31, 100])):
                x, d = torch.randn(1, tokens, 128, requires_grad=True), torch.randn(1, tokens, 128)
                given = {} if len(starts) == 2 else {"cu_seqlens": torch.tensor(starts)}
                out = layer(x, **given)[0]
                with torch.no_grad():
                    self.assertTrue(torch.equal(out, layer(x, **given)[0]))
                named = {"x": x, **dict(layer.named_parameters())}
                ours = torch.autograd.grad(out, list(named.values()), d)
                exact = torch.cat([wanted(layer, x[:, begin:end]) for begin, end in zip(starts, starts[1:])], 1)
                theirs = torch.autograd.grad(exact, list(named.values()), d.double())
                for name, ours, theirs in zip(named, ours, theirs):
                    self.assertLess((ours - theirs).norm(), 2e-5 * theirs.norm(), (type(layer).__name__, tokens, name))

    def test_gradients_of_functions(self):
        """Those that layers do not use: the convolution's states and residual, a norm with mean, bias and residual."""
        from fla.modules.causal_conv1d import causal_conv1d
        from fla.modules.norm.fused_norm_gate import LayerNormGatedFunction
        x, weight, bias, residual, state = (torch.randn(*shape, requires_grad=True) for shape in ((2, 9, 8), (8, 4), (8,), (2, 9, 8), (2, 8, 4)))
        out, final = causal_conv1d(x, weight, bias, residual, state, output_final_state=True, activation="silu")
        known = torch.cat((state.mT, x), 1).double()
        exact = F.silu(F.conv1d(known[:, 1:].mT, weight.double().unsqueeze(1), bias.double(), groups=8)).mT + residual.double()
        self.agree((out, final), (exact, known[:, -4:].mT), (x, weight, bias, residual, state))
        x, gate, weight, bias, residual = (torch.randn(*shape, requires_grad=True) for shape in ((6, 8), (6, 8), (8,), (8,), (6, 8)))
        found = LayerNormGatedFunction.apply(x, gate, weight, bias, "swish", residual, 1e-5, True)
        kept = (x + residual).double()
        exact = F.layer_norm(kept, (8,), weight.double(), bias.double(), 1e-5) * F.silu(gate.double())
        self.agree(found, (exact, kept), (x, gate, weight, bias, residual))

    def agree(self, ours, theirs, inputs):
        d = [torch.randn(y.shape) for y in ours]
        for x, y in zip(torch.autograd.grad(ours, inputs, d), torch.autograd.grad(theirs, inputs, [y.double() for y in d])):
            self.assertLess((x - y).norm(), 1e-5 * y.norm())


if __name__ == "__main__":
    unittest.main()
