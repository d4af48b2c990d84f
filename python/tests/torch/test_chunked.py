"""The chunked form of fla's functions: the same bits however tokens are cut and batched, the recurrence's gradients, refusals."""
import random
import unittest

import torch

from gdn.torch import chunk_gated_delta_rule, chunk_kda, fused_recurrent_gated_delta_rule, fused_recurrent_kda

FORMS = "chunked", "chunked2"
FUNCTIONS = (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule), (chunk_kda, fused_recurrent_kda)


def same(a, b):
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def operands(n, tokens, channel, dtype=torch.float32, heads=4, dims=(32, 32)):
    q, k = (torch.randn(n, tokens, 2, dims[0]) for _ in "qk")
    k = torch.nn.functional.normalize(k, dim=-1)
    v, beta = torch.randn(n, tokens, heads, dims[1]), torch.rand(n, tokens, heads)
    g = -torch.rand(n, tokens, heads, *dims[:1] * channel) ** 4
    return {**{name: x.to(dtype) for name, x in zip("qkv", (q, k, v))}, "g": g, "beta": beta}


class Chunked(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    @torch.no_grad()
    def test_cuts_and_batches(self):
        draw = random.Random(1)
        for trial in range(24):
            channel, n, first = draw.random() < 0.3, draw.randint(1, 3), 32 * draw.randint(1, 3)
            rest = draw.choice((1, 5, 32, 45, 64))
            whole = operands(n, first + rest, channel, draw.choice((torch.float32, torch.float16, torch.bfloat16)))
            options = {"form": draw.choice(FORMS), "use_qk_l2norm_in_kernel": draw.random() < 0.5, "state_v_first": draw.random() < 0.5}
            f = draw.choice(FUNCTIONS[channel])
            torch.set_num_threads(draw.randint(1, 2))
            final = rest % 32 == 0
            out, end = f(**whole, output_final_state=final, **options)
            head, state = f(**{name: x[:, :first] for name, x in whole.items()}, output_final_state=True, **options)
            self.assertTrue(same(out[:, :first], head), f"{trial}: the first tokens")
            f = draw.choice(FUNCTIONS[channel])
            tail, last = f(**{name: x[:, first:] for name, x in whole.items()}, initial_state=state, output_final_state=final, **options)
            self.assertTrue(same(out[:, first:], tail), f"{trial}: from the state at {first}")
            self.assertTrue(not final or same(end, last), f"{trial}: the final states")
            starts = torch.arange(n + 1) * (first + rest)
            packed, _ = f(**{name: x.flatten(0, 1).unsqueeze(0) for name, x in whole.items()}, cu_seqlens=starts, **options)
            self.assertTrue(same(out.flatten(0, 1), packed[0]), f"{trial}: packed")
            plain = chunk_kda if channel else chunk_gated_delta_rule
            expected, _ = plain(**whole, **{**options, "form": "recurrence"})
            error = (out.float() - expected.float()).norm() / expected.float().norm()
            self.assertLess(error, 1e-2 if whole["q"].dtype != torch.float32 else 1e-5 if options["form"] == "chunked" else 2e-3)
            other, _ = plain(**whole, **{**options, "form": FORMS[options["form"] == FORMS[0]]})
            self.assertFalse(whole["q"].dtype == torch.float32 and (same(out, expected) or same(out, other)), f"{trial}: the forms have different bits")

    def test_gradients(self):
        for channel, f in enumerate(f for f, _ in FUNCTIONS):
            found = {}
            given = operands(2, 70, channel)
            with torch.no_grad():
                plain, _ = f(**given, form="chunked")
            for form in ("recurrence", "chunked"):
                leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
                out, _ = f(**leaves, form=form)
                self.assertTrue(form == "recurrence" or same(out.detach(), plain), "gradients change no bit")
                (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
                found[form] = [x.grad for x in leaves.values()]
            self.assertTrue(all(same(a, b) for a, b in zip(found["recurrence"], found["chunked"])), "both forms have the same gradients")

    @torch.no_grad()
    def test_refusals(self):
        given = operands(1, 40, False)
        for error, text, options in ((ValueError, "form is 'other'; 'recurrence', 'chunked', 'chunked2' are allowed", {"form": "other"}),
                                     (ValueError, "has 40 tokens; this form has states after multiples of 32", {"form": "chunked", "output_final_state": True}),
                                     (ValueError, "has 8 tokens", {"form": "chunked", "output_final_state": True, "cu_seqlens": torch.tensor([0, 32, 40])}),
                                     (NotImplementedError, "inplace_final_state", {"form": "chunked2", "inplace_final_state": True, "initial_state": torch.zeros(1, 4, 32, 32)})):
            with self.assertRaisesRegex(error, text):
                fused_recurrent_gated_delta_rule(**given, **options)


if __name__ == "__main__":
    unittest.main()
