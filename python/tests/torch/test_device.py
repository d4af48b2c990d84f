"""gdn.torch on a CUDA device: the bits of the CPU, on the streams of PyTorch, in graphs and compiled. Skipped without a device, and where
libgdn is built without CUDA."""
import unittest

import torch

import gdn
import gdn.torch as G
from gdn import _cuda

THERE = torch.cuda.is_available() and not _cuda.why_not()


def operands(batches=2, tokens=20, channel=False, dtype=torch.float32):
    made = [torch.randn(batches, tokens, heads, 128).to(dtype) for heads in (2, 2, 4)]
    return [*made, -torch.rand(batches, tokens, 4, *[128] * channel), torch.rand(batches, tokens, 4)]


def there(tensors):
    return [tensor.cuda() for tensor in tensors]


@unittest.skipUnless(THERE, "no CUDA device that this libgdn can use")
class Device(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def same(self, mine, wanted):
        for a, b in zip(mine, wanted):
            self.assertTrue(torch.equal(*(x.cpu().flatten().view(torch.uint8) for x in (a, b))))

    def both(self, function, tensors, **named):
        starts = named.pop("cu_seqlens", None)
        self.same(function(*there(tensors), **named, cu_seqlens=None if starts is None else starts.cuda()),
                  function(*tensors, **named, cu_seqlens=starts))

    def test_bits(self):
        keywords = {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
        for tokens in (1, 4, 20, 300):
            for dtype in (torch.float32, torch.bfloat16, torch.float16):
                self.both(G.chunk_gated_delta_rule, operands(2, tokens, dtype=dtype), **keywords)
                self.both(G.chunk_kda, operands(2, tokens, True, dtype), **keywords)
        self.both(G.chunk_gated_delta_rule, operands(1, 40), cu_seqlens=torch.tensor([0, 1, 2, 30, 40]), **keywords)

    def test_convolution(self):
        for tokens in (1, 5, 200):
            x, weight, bias = torch.randn(2, 64, tokens), torch.randn(64, 4), torch.randn(64)
            self.same([G.causal_conv1d_fn(x.cuda(), weight.cuda(), bias.cuda(), activation="silu")],
                      [G.causal_conv1d_fn(x, weight, bias, activation="silu")])
            past = [torch.randn(2, 64, 3)] * 2
            states = [past[0].cuda(), past[1].clone()]
            self.same([G.causal_conv1d_update(x.cuda(), states[0], weight.cuda()), states[0]],
                      [G.causal_conv1d_update(x, states[1], weight), states[1]])

    def test_stream(self):
        """A stream's earlier work is done before, and later work after."""
        given = operands()
        wanted, _ = G.chunk_gated_delta_rule(*given)
        slow, stream = torch.randn(4096, 4096, device="cuda"), torch.cuda.Stream()
        mine = there(given)
        late = torch.zeros_like(mine[2])
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(20):
                slow = (slow @ slow).tanh()
            late.copy_(mine[2])
            out, _ = G.chunk_gated_delta_rule(mine[0], mine[1], late, *mine[3:])
            twice = out * 2
        stream.synchronize()
        self.same([out, twice], [wanted, wanted * 2])

    def test_graph(self):
        given, other = operands(), operands()
        mine, graph = there(given), torch.cuda.CUDAGraph()
        G.chunk_gated_delta_rule(*mine)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out, final = G.chunk_gated_delta_rule(*mine, output_final_state=True)
        for tensors in (other, given):
            for to, tensor in zip(mine, tensors):
                to.copy_(tensor)
            graph.replay()
            self.same([out, final], G.chunk_gated_delta_rule(*tensors, output_final_state=True))

    def test_compiled(self):
        def function(q, k, v, g, beta):
            return G.chunk_gated_delta_rule(q, k, v * 2, g, beta)[0] + 1

        given = operands()
        self.same([torch.compile(function, fullgraph=True)(*there(given))], [function(*given)])

    def test_bad_starts(self):
        given = there(operands(1, 8))
        G.chunk_gated_delta_rule(*given, cu_seqlens=torch.tensor([0, 9, 8], device="cuda"))
        torch.cuda.synchronize()
        with self.assertRaises(gdn.BadMap):
            G.chunk_gated_delta_rule(*given)
        G.chunk_gated_delta_rule(*given)

    def test_model(self):
        import gdn.transformers
        from models import model
        tokens = torch.randint(2, 97, (2, 40), device="cuda")
        one = model("qwen3_5").cuda()
        self.addCleanup(gdn.transformers.undo)
        with torch.no_grad():
            theirs, written = one(tokens).logits, one.generate(tokens, max_new_tokens=20, do_sample=False)
            gdn.transformers.use()
            self.assertLess((one(tokens).logits - theirs).abs().max(), 1e-3 * theirs.std())
            self.assertTrue(torch.equal(one.generate(tokens, max_new_tokens=20, do_sample=False), written))


if __name__ == "__main__":
    unittest.main()
