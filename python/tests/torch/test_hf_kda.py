"""The bounded gate against the modules of HF transformers that have it: GLM-5.3-Flash and Ling-3.0. Their forget gate and
their recurrence, in binary64, are what gdn.torch is held to, from the projections on."""
import importlib
import types
import unittest

import torch

import gdn.torch as G

GATES = ( # module, class, the config's members besides the sizes
    ("glm5_next", "Glm5NextTextForgetGate", {"linear_lower_bound": -5.0}),
    ("bailing_hybrid", "BailingHybridForgetGate", {"kda_safe_gate": True, "kda_lower_bound": -5.0}),
)
HEADS, DIM, HIDDEN, TOKENS = 4, 32, 48, 70


def module_of(name):
    try:
        return importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    except ImportError:
        return None


def rule(q, k, v, g, beta):
    """The recurrence of the modules, in the type of its operands."""
    state = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=q.dtype)
    out = torch.empty_like(v)
    for t in range(q.shape[1]):
        state = state * g[:, t].exp()[..., None]
        delta = (v[:, t] - (state * k[:, t][..., None]).sum(-2)) * beta[:, t][..., None]
        state = state + k[:, t].unsqueeze(-1) * delta.unsqueeze(-2)
        out[:, t] = (state * q[:, t].unsqueeze(-1) * q.shape[3] ** -0.5).sum(-2)
    return out, state


class Gates(unittest.TestCase):
    def test_modules(self):
        found = 0
        for name, gate, members in GATES:
            module = module_of(name)
            if module is None:
                continue
            found += 1
            torch.manual_seed(found)
            config = types.SimpleNamespace(hidden_size=HIDDEN, linear_head_dim=DIM, linear_num_heads=HEADS, **members)
            layer = getattr(module, gate)(config)
            for parameter in layer.parameters():
                torch.nn.init.normal_(parameter, std=0.7)
            hidden = torch.randn(2, TOKENS, HIDDEN)
            raw = layer.f_proj(hidden) if hasattr(layer, "f_proj") else layer.f_b_proj(layer.f_a_proj(hidden))
            q, k, v = (torch.randn(2, TOKENS, HEADS, DIM) for _ in range(3))
            beta = torch.rand(2, TOKENS, HEADS)
            # The module's gate from the same projection, in binary64: it converts to float itself, so that its formula is here, too.
            shift = raw.double() + layer.dt_bias.double()
            wide = -5.0 * torch.sigmoid(layer.A_log.double().exp()[:, None] * shift.view(2, TOKENS, HEADS, DIM))
            self.assertLess((layer(hidden) - wide).abs().max().item(), 1e-5, f"{name}: its own gate")
            unit = [x.double() / torch.sqrt((x.double() ** 2).sum(-1, keepdim=True) + 1e-6) for x in (q, k)]
            want, state = rule(*unit, v.double(), wide, beta.double())
            with torch.no_grad():
                for operator in (G.chunk_kda, G.fused_recurrent_kda):
                    safe = {"safe_gate": True} if operator is G.chunk_kda else {}
                    out, last = operator(q, k, v, raw.view(2, TOKENS, HEADS, DIM), beta, A_log=layer.A_log, dt_bias=layer.dt_bias,
                                         use_gate_in_kernel=True, use_qk_l2norm_in_kernel=True, lower_bound=-5, output_final_state=True,
                                         **safe)
                    self.assertLess((out - want).abs().max().item(), 2e-6 * want.abs().max().item() * TOKENS ** 0.5, name)
                    self.assertLess((last - state).abs().max().item(), 2e-6 * state.abs().max().item() * TOKENS ** 0.5, name)
                wrong, _ = G.chunk_kda(q, k, v, raw.view(2, TOKENS, HEADS, DIM), beta, A_log=layer.A_log, dt_bias=layer.dt_bias,
                                       use_gate_in_kernel=True, use_qk_l2norm_in_kernel=True, lower_bound=-4.99, safe_gate=True)
                self.assertGreater((wrong - want).abs().max().item(), 1e-4 * want.abs().max().item(), "the bound matters")
        if not found:
            self.skipTest("this transformers has none of the modules")


if __name__ == "__main__":
    unittest.main()
