"""gdn.transformers.use() against transformers itself, on random combinations of what callers combine. These are caches, padding,
packed sequences, prompts in pieces, hooks, strided and shared parameters, adapters, 16 bit, and derivatives of both modes. A draw
passes if values, caches, derivatives and what hooks see agree, or if both raise the same exception.

    python -m unittest test_combinations                    50 draws of each model
    GDN_DRAWS=2000 python -m unittest test_combinations     as many as that; GDN_DRAW=123 repeats one
"""
import contextlib
import copy
import os
import random
import re
import unittest
import unittest.mock

import torch
import torch.autograd.forward_ad as forward_ad
import transformers

import gdn.transformers
from models import LAYER_CACHE, NAMES, layers_of, model, without

DRAWS, ONE = int(os.environ.get("GDN_DRAWS", 50)), os.environ.get("GDN_DRAW")
GATES = ("A_log", "dt_bias")


class Adapter(torch.nn.Module):
    """A projection with a low-rank addition and dropout."""

    def __init__(self, linear, trained):
        super().__init__()
        self.linear = linear
        self.down = torch.nn.Parameter(torch.randn(4, linear.in_features, dtype=linear.weight.dtype), trained)
        self.up = torch.nn.Parameter(torch.randn(linear.out_features, 4, dtype=linear.weight.dtype) * 0.05, trained)

    def forward(self, x):
        return self.linear(x) + torch.nn.functional.dropout(x, 0.3, self.training) @ self.down.T @ self.up.T


class Case:
    """One combination: a layer of a small model and what is done with it."""

    def __init__(self, name, seed):
        rng = random.Random(f"{name} {seed}")
        self.name, self.seed = name, seed
        self.dtype = rng.choice((torch.float32, torch.float32, torch.float32, torch.bfloat16))
        self.batch = rng.choice((1, 1, 2, 3))
        self.pieces = [rng.choice((1, 1, 1, 2, 3, 5, 17, 66)) for _ in range(rng.choice((1, 2, 4)))]
        self.cache = rng.choice((None, "dynamic", "dynamic", "static", "recording"))
        self.padded = rng.choice((0, 0, 2))
        self.packed = rng.choice((None,) * 7 + ("cu", "seq_idx", "both"))
        if self.packed:
            self.batch, self.cache = 1, rng.choice((None, None, self.cache))
        self.hooked = rng.choice((None, None, "norm", "projection", "convolution", "all modules"))
        self.gates = rng.choice(("plain", "strided", "expanded", "shared"))
        self.weight = rng.choice(("plain", "strided"))
        self.adapter = rng.choice((None, None, None, "frozen", "trained", "dropout"))
        self.mode = rng.choice(("no_grad", "no_grad", "inference", "frozen", "trained", "input", "one parameter", "state",
                                "forward of the input", "forward of a weight", "jvp"))
        self.layers = rng.choice((True, True, False))
        self.threads = rng.choice((1, 1, 2))
        if self.mode == "state" and self.cache != "dynamic":
            self.mode = "no_grad"

    def __repr__(self):
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())

    def layer(self):
        """A layer of its own; the same weights each time."""
        torch.manual_seed(self.seed)
        one = copy.deepcopy(LAYERS_OF[self.name])
        with torch.no_grad():
            for gate, low in zip(GATES, (-3, -2)):
                getattr(one, gate).uniform_(low, 1)
        one = one.to(self.dtype)
        if self.gates == "expanded":  # one value for all heads
            for gate in GATES:
                getattr(one, gate).data = getattr(one, gate).detach()[:1].expand(one.num_v_heads)
        elif self.gates == "strided":  # columns of one tensor, as fused checkpoints have them
            fused = torch.stack([torch.full_like(one.A_log, 50), one.A_log.detach(), one.dt_bias.detach()], 1)
            one.A_log.data, one.dt_bias.data = fused[:, 1], fused[:, 2]
        elif self.gates == "shared":
            one.dt_bias = one.A_log
        if self.weight == "strided":
            one.conv1d.weight.data = one.conv1d.weight.detach().transpose(0, 2).contiguous().transpose(0, 2)
        if self.adapter:
            for child, linear in list(one.named_children()):
                if isinstance(linear, torch.nn.Linear):
                    setattr(one, child, Adapter(linear, self.adapter == "trained"))
            one.train(self.adapter == "dropout")
        one.requires_grad_(self.mode in ("trained", "one parameter"))
        if self.mode == "one parameter":
            chosen = random.Random(self.seed).choice(list(one.named_parameters()))[0]
            for key, parameter in one.named_parameters():
                parameter.requires_grad_(key == chosen)
        return one

    def watch(self, one):
        """What hooks see: module and shape of each result."""
        seen = []
        kinds = {"norm": "norm", "projection": "proj", "convolution": "conv", "all modules": ""}
        for name, module in one.named_modules():
            if self.hooked and name and kinds[self.hooked] in name:
                module.register_forward_hook(lambda module, args, out, name=name: seen.append((name, tuple(out.shape))))
        return seen

    def packing(self, tokens):
        if not self.packed:
            return {}
        cut = max(1, tokens // 3)
        bounds, index = [0, cut, tokens], [0] * cut + [1] * (tokens - cut)
        if tokens == cut:
            bounds = bounds[:2]
        named = {}
        if self.packed in ("cu", "both"):
            named.update(cu_seq_lens_q=torch.tensor(bounds, dtype=torch.int32), cu_seq_lens_k=torch.tensor(bounds, dtype=torch.int32),
                         max_length_q=tokens, max_length_k=tokens)
        if self.packed in ("seq_idx", "both"):
            named["seq_idx"] = torch.tensor([index], dtype=torch.int32)
        return named

    def run(self, apart=False):
        """(results, exception): what the combination gives. `apart`: packed sequences one by one, without packing."""
        one = self.layer()
        seen = self.watch(one)
        config = CONFIGS[self.name]
        kinds = {"static": lambda: transformers.StaticCache(config=config, max_cache_len=300)}
        cache = kinds.get(self.cache, lambda: transformers.DynamicCache(config=config))() if self.cache else None
        if self.cache == "recording":
            cache.layers[one.layer_idx].activate_past_recording()
        rng = torch.Generator().manual_seed(self.seed)
        inputs = [torch.randn(self.batch, tokens, 64, generator=rng).to(self.dtype) for tokens in self.pieces]
        tangents = [torch.randn(x.shape, generator=rng).to(self.dtype) for x in inputs]
        results, loss = [], torch.zeros(())
        torch.manual_seed(self.seed)  # of dropout
        with contextlib.ExitStack() as stack:
            if self.mode == "no_grad":
                stack.enter_context(torch.no_grad())
            elif self.mode == "inference":
                stack.enter_context(torch.inference_mode())
            elif self.mode.startswith("forward of"):
                stack.enter_context(forward_ad.dual_level())
            if self.mode == "forward of a weight":
                inner = next(x for x in one.modules() if isinstance(x, torch.nn.Linear))
                weight = inner.weight.detach()
                del inner._parameters["weight"]
                inner.weight = forward_ad.make_dual(weight, torch.ones_like(weight))
            for at, (x, tangent) in enumerate(zip(inputs, tangents)):
                if self.mode == "state" and at:
                    held = cache.layers[one.layer_idx].recurrent_states
                    held[0] = torch.nn.Parameter(held[0].detach().clone())
                if self.mode == "input":
                    x.requires_grad_(True)
                elif self.mode == "forward of the input":
                    x = forward_ad.make_dual(x, tangent)
                named = {} if apart else self.packing(x.shape[1])
                if cache is not None:
                    named[LAYER_CACHE] = cache
                if self.padded and not at and x.shape[1] > self.padded:
                    named["attention_mask"] = torch.ones(self.batch, x.shape[1], dtype=torch.long)
                    named["attention_mask"][0, :self.padded] = 0
                call = lambda x: one(x, **named)
                if apart:
                    bounds = self.packing(x.shape[1])["cu_seq_lens_q"].tolist()
                    mask = named.pop("attention_mask", None)
                    parts = [one(x[:, a:b], **({} if mask is None else {"attention_mask": mask[:, a:b]})) for a, b in zip(bounds, bounds[1:])]
                    out = torch.cat(parts, 1)
                elif self.mode == "jvp":
                    out, derivative = torch.func.jvp(call, (x,), (tangent,))
                    results.append(derivative)
                else:
                    out = call(x)
                if self.mode.startswith("forward of"):
                    out, derivative = forward_ad.unpack_dual(out)
                    results.append(torch.zeros(()) if derivative is None else derivative)
                results.append(out)
                loss = loss + out.float().square().sum()
            if loss.requires_grad:
                loss.backward()
            results += [x.grad for x in inputs if x.grad is not None]
            results += [parameter.grad for _, parameter in sorted(one.named_parameters()) if parameter.grad is not None]
            if cache is not None:
                kept = cache.layers[one.layer_idx]
                results += [kept.conv_states[0], kept.recurrent_states[0]]
                if self.mode == "state":
                    results.append(torch.tensor(float(kept.recurrent_states[0].requires_grad)))
            return [forward_ad.unpack_dual(x)[0].detach().float() if forward_ad._current_level >= 0 else x.detach().float() for x in results], seen


MODELS = {name: model(name) for name in NAMES}
LAYERS_OF = {name: layers_of(one)[0] for name, one in MODELS.items()}
CONFIGS = {name: one.config for name, one in MODELS.items()}


def outcome(run):
    try:
        return run(), None
    except Exception as error:  # whatever transformers raises
        return None, error


class Combinations(unittest.TestCase):
    def setUp(self):
        self.addCleanup(gdn.transformers.undo)
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        rows = unittest.mock.patch.object(gdn.transformers, "_NORM_ROWS", 48)  # more than one block of the norm in many draws
        rows.start()
        self.addCleanup(rows.stop)

    def compare(self, case):
        torch.set_num_threads(case.threads)
        gdn.transformers.use(layers=case.layers)
        ours, error = outcome(case.run)
        gdn.transformers.undo()
        # transformers without flash-linear-attention refuses packed sequences, or computes them as one (5.19); without a cache the library
        # takes them.
        apart = error is None and case.packed in ("cu", "both") and case.cache is None
        theirs, wanted = outcome(lambda: case.run(apart))
        if apart and wanted is None:
            if case.adapter != "dropout":  # of other elements, where sequences are apart
                self.near(ours[0], theirs[0], case)
        elif case.packed in ("cu", "both") and "cu_seqlens is given; gdn takes packed sequences without a cache" in str(error):
            self.assertTrue(case.cache or case.mode.startswith("forward of") or case.mode == "jvp", case)
        elif error is not None or wanted is not None:
            packed = case.packed in ("cu", "both") and case.cache is None and error is None
            # Either function may be the first to refuse, and either tensor the first that was written after it was saved.
            said = [re.sub("`.*?`|\\[torch.* instead", "", str(one)) for one in (error, wanted)]
            self.assertTrue(packed or type(error) is type(wanted) and said[0] == said[1], f"{case}: {error!r}, transformers: {wanted!r}")
        else:
            self.near(ours[0], theirs[0], case)
            self.assertEqual(ours[1], theirs[1], case)
        return error is not None or wanted is not None

    def near(self, ours, theirs, case):
        self.assertEqual([x.shape for x in ours], [x.shape for x in theirs], case)
        # A bfloat16's last bit is 2^-8; the derivatives of gates sum over all tokens.
        bound = 2e-4 if case.dtype is torch.float32 else 0.1
        for at, (x, y) in enumerate(zip(ours, theirs)):
            scale = max(y.abs().max().item(), 1e-3)
            self.assertLess((x - y).abs().max().item(), bound * scale, (at, case))

    def test_draws(self):
        for name in NAMES:
            raised = 0
            for seed in range(DRAWS) if ONE is None else [int(ONE)]:
                raised += self.compare(Case(name, seed))
            print(f"{name}: {DRAWS} draws, {raised} raise in transformers")


if __name__ == "__main__":
    unittest.main()
