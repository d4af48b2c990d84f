#!/usr/bin/env python3
"""How fast are the gated-delta layers, and a whole model, with libgdn in the place of transformers' fallbacks?

    speed.py layer [--plot FILE.svg]     the delta rule and the convolution against the length of the prompt
    speed.py model [--tokens 2048]       a random Qwen3.5 of 0.8B shapes: prompt, then generation; its gated-delta layers, all of it

Both sides run by turns in one process, on one thread; what is compared is the processor's time, of which another program takes
none, and the least of the repetitions. Needs torch and transformers, and matplotlib for the plot.
"""
import argparse
import contextlib
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


class Clock:
    """Processor time of the gated-delta layers, or of their cores: the functions that libgdn has."""

    def __init__(self, model):
        self.seconds = 0.0
        for module in model.modules():
            if isinstance(module, modeling.Qwen3_5GatedDeltaNet):
                module.register_forward_pre_hook(lambda *_: self.add(-1))
                module.register_forward_hook(lambda *_: self.add(1))

    def add(self, sign):
        self.seconds += sign * time.process_time()


def model(tokens, generated, n_layers, repetitions):
    config = transformers.models.qwen3_5.Qwen3_5TextConfig(**{**SHAPE, "num_hidden_layers": n_layers}, vocab_size=32000)
    with torch.no_grad():
        made = transformers.models.qwen3_5.Qwen3_5ForCausalLM(config).eval()
        clock, prompt = Clock(made), torch.randint(0, 32000, (1, tokens))
        best = {}
        for _ in range(repetitions):
            for used in (True, False):
                with library(used):
                    cache = transformers.DynamicCache(config=config)
                    given = prompt
                    for what, steps in (("prompt", 1), ("generation", generated)):
                        clock.seconds, begin = 0.0, time.process_time()
                        for _ in range(steps):
                            logits = made(given, past_key_values=cache, logits_to_keep=1).logits
                            given = logits[:, -1:].argmax(-1)
                        key = what, used
                        taken = clock.seconds, time.process_time() - begin
                        best[key] = min(best.get(key, taken), taken)
    for what, count in (("prompt", tokens), ("generation", generated)):
        (layers, whole), (old_layers, old_whole) = best[what, True], best[what, False]
        print(f"{what} of {count} tokens: gated-delta layers {layers:.2f} s, without {old_layers:.2f} s, {old_layers / layers:.2f}x; "
              f"whole model {whole:.2f} s, without {old_whole:.2f} s, {old_whole / whole:.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("layer", "model"))
    parser.add_argument("--lengths", default="1,4,16,64,256,1024,2048", help="of the prompt, for layer")
    parser.add_argument("--plot", metavar="FILE", help="draw what layer measured")
    parser.add_argument("--tokens", type=int, default=2048, help="of the prompt, for model")
    parser.add_argument("--generate", type=int, default=16, help="tokens after it")
    parser.add_argument("--layers", type=int, default=24, help="of the model; three of four are gated-delta layers")
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if given.what == "model":
        model(given.tokens, given.generate, given.layers, given.repetitions)
        return
    rows = layer([int(length) for length in given.lengths.split(",")], given.repetitions)
    if given.plot:
        plot(rows, given.plot)


if __name__ == "__main__":
    main()
