#!/usr/bin/env python3
"""How fast are the gated-delta layers, and a whole model, with libgdn in the place of transformers' fallbacks?

    speed.py layer [--plot FILE.svg] [--data FILE.json]
                                         the delta rule and the convolution against the length of the prompt
    speed.py plot --data FILE.json --plot FILE.svg
                                         draw what was measured before
    speed.py model [--tokens 2048]       a random Qwen3.5 of 0.8B shapes: prompt, then generation; its gated-delta layers, what they
                                         consist of, all of it
    speed.py all --plot FILE.svg         both, the model in float32 and bfloat16, and with 8 sequences: what docs/guide/python.md has

Both sides run by turns in one process, on one thread or --threads. The least processor time of the repetitions is compared:
other programs do not add to it. Needs torch and transformers, and matplotlib for the plot.
"""
import argparse
import contextlib
import json
import time

import torch
import transformers
from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling

import gdn.transformers

SHAPE = dict(hidden_size=1024, intermediate_size=3584, num_hidden_layers=24, num_attention_heads=8, num_key_value_heads=2, head_dim=256,
             linear_num_key_heads=16, linear_num_value_heads=16, linear_key_head_dim=128, linear_value_head_dim=128)


@contextlib.contextmanager
def library(used):
    """transformers with libgdn, or without."""
    if used:
        gdn.transformers.use(["qwen3_5"])
    try:
        yield
    finally:
        gdn.transformers.undo()


def least(repetitions, work):
    """The least processor time of `work` in seconds, with libgdn and without, by turns."""
    best = {True: float("inf"), False: float("inf")}
    for _ in range(repetitions):
        for used in best:
            with library(used):
                begin = time.process_time()
                work()
                best[used] = min(best[used], time.process_time() - begin)
    return best[True], best[False]


def layer(lengths, repetitions):
    """[(length, (rule with, without), (conv with, without))] of one layer's functions, from a zero state."""
    rows = []
    for length in lengths:
        q, k, v = (torch.randn(1, length, 16, 128) for _ in range(3))
        g, beta = -torch.rand(1, length, 16), torch.rand(1, length, 16)
        x, weight = torch.randn(1, length, 3 * 16 * 128).transpose(1, 2), torch.randn(3 * 16 * 128, 4)
        state = torch.zeros(1, 16, 128, 128)
        name = "torch_chunk_gated_delta_rule" if length > 1 else "torch_recurrent_gated_delta_rule"  # as the layers choose
        rule = least(repetitions, lambda: getattr(modeling, name)(q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True,
                                                                  use_qk_l2norm_in_kernel=True))
        conv = least(repetitions, lambda: modeling.causal_conv1d_fn(x, weight, None, activation="silu"))
        rows.append((length, rule, conv))
        print(f"{length:6d} tokens: delta rule {rule[0] * 1e3:9.3f} ms, without {rule[1] * 1e3:9.3f} ms, {rule[1] / rule[0]:6.1f}x;  "
              f"convolution {conv[0] * 1e3:8.3f} ms, without {conv[1] * 1e3:8.3f} ms, {conv[1] / conv[0]:6.1f}x", flush=True)
    return rows


def plot(rows, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(7, 4))
    for part, name in ((1, "delta rule"), (2, "convolution and silu")):
        axes.plot([row[0] for row in rows], [row[part][1] / row[part][0] for row in rows], marker="o", label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("tokens in one call")
    axes.set_ylabel("transformers' fallback / libgdn, processor time")
    axes.set_title("One gated-delta layer of Qwen3.5-0.8B's shape, float32, one thread", fontsize=9)
    axes.legend(fontsize=8)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.endswith(".svg") else None)
    print(path)


PARTS = {"projections": ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"), "norm": ("norm",)}


class Clock:
    """Processor time of the gated-delta layers and, with `parts`, of the modules of theirs that are PyTorch's on both sides."""

    def __init__(self, model, parts):
        self.seconds, self.hooks = {}, []
        for layer in (one for one in model.modules() if isinstance(one, modeling.Qwen3_5GatedDeltaNet)):
            self.watch("layers", layer)
            for part, names in PARTS.items() if parts else ():
                for name in names:
                    self.watch(part, getattr(layer, name))

    def watch(self, part, module):
        self.hooks.append(module.register_forward_pre_hook(lambda *_: self.add(part, -time.process_time())))
        self.hooks.append(module.register_forward_hook(lambda *_: self.add(part, time.process_time())))

    def add(self, part, seconds):
        self.seconds[part] = self.seconds.get(part, 0) + seconds

    def remove(self):
        for hook in self.hooks:
            hook.remove()


def model(given):
    """Prompt and generation of a random model, whose weights are of given.dtype, with libgdn and without, by turns."""
    config = transformers.models.qwen3_5.Qwen3_5TextConfig(**{**SHAPE, "num_hidden_layers": given.layers}, vocab_size=32000)
    dtype = getattr(torch, given.dtype)
    best = {}
    with torch.no_grad():
        made = transformers.models.qwen3_5.Qwen3_5ForCausalLM(config).eval().to(dtype)
        prompt = torch.randint(0, 32000, (given.batch, given.tokens))
        for repetition in range(2 * given.repetitions):
            for used in (True, False):
                with library(used):
                    cache, tokens = transformers.DynamicCache(config=config), prompt
                    for what, steps in (("prompt", 1), ("generation", given.generate)):
                        clock, begin = Clock(made, parts=repetition % 2 == 1), time.process_time()
                        for _ in range(steps):
                            logits = made(tokens, past_key_values=cache, logits_to_keep=1).logits
                            tokens = logits[:, -1:].argmax(-1)
                        taken = {**clock.seconds, "whole model": time.process_time() - begin}
                        clock.remove()
                        for part, seconds in taken.items():
                            if part in PARTS or repetition % 2 == 0:  # the clocks of the parts cost time themselves
                                best[what, part, used] = min(best.get((what, part, used), seconds), seconds)
    for what, count in (("prompt", given.tokens), ("generation", given.generate)):
        report(f"{given.dtype}, {given.batch} sequence(s), {what} of {count} tokens", lambda part, used: best[what, part, used])


def report(title, of):
    """Both sides, and what the layers' ratio would be if what libgdn computes took no time at all: its floor is PyTorch's part."""
    print(f"{title}: with libgdn, without, ratio")
    for part in ("layers", *PARTS, "whole model"):
        print(f"  {part:12} {of(part, True):9.4f} s {of(part, False):9.4f} s {of(part, False) / of(part, True):6.2f}")
    ours, theirs = (of("layers", used) - sum(of(part, used) for part in PARTS) for used in (True, False))
    print(f"  {'the rest':12} {ours:9.4f} s {theirs:9.4f} s {theirs / ours:6.2f}   (of the layers: what libgdn has, and the calls around it)")
    print(f"  projections are {of('projections', False) / of('layers', False):.0%} of the layers without libgdn; were they all that is left, "
          f"the layers' ratio would be {of('layers', False) / of('projections', True):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("layer", "model", "all", "plot"))
    parser.add_argument("--lengths", default="1,4,16,64,256,1024,2048", help="of the prompt, for layer")
    parser.add_argument("--plot", metavar="FILE", help="draw what layer measured")
    parser.add_argument("--data", metavar="FILE", help="write the same as JSON, seconds with libgdn and without; plot reads it")
    parser.add_argument("--tokens", type=int, default=2048, help="of the prompt, for model")
    parser.add_argument("--generate", type=int, default=16, help="tokens after it")
    parser.add_argument("--layers", type=int, default=8, help="of the model; three of four are gated-delta layers")
    parser.add_argument("--batch", type=int, default=1, help="sequences, for model")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the model's weights")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    transformers.logging.set_verbosity_error()
    if given.what == "model":
        model(given)
        return
    if given.what == "plot":
        with open(given.data) as file:
            plot([(row["tokens"], row["delta_rule"], row["convolution"]) for row in json.load(file)], given.plot)
        return
    rows = layer([int(length) for length in given.lengths.split(",")], given.repetitions)
    if given.data:
        with open(given.data, "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(dict(zip(("tokens", "delta_rule", "convolution"), row))) for row in rows) + "\n]\n")
    if given.plot:
        plot(rows, given.plot)
    if given.what == "all":
        for dtype, batch, tokens in (("float32", 1, given.tokens), ("bfloat16", 1, given.tokens), ("float32", 8, 128), ("bfloat16", 8, 128)):
            model(argparse.Namespace(**{**vars(given), "dtype": dtype, "batch": batch, "tokens": tokens}))


if __name__ == "__main__":
    main()
