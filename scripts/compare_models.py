#!/usr/bin/env python3
"""The runtime against HF transformers on models of shapes that are drawn at random.

    compare_models.py LOGITS [--models N] [--first SEED] [--keep FOLDER]

LOGITS is build-test/bin/test_rt_answers (tests/runtime/answers.c). Needs torch, transformers >= 5.2, gguf and numpy. For each model
HF's own classes compute logits, in float64 where they do not insist on float32. The runtime reads the GGUF file that
scripts/models writes of the same weights, with keys named as llama.cpp's converter names them. Its logits are within 1e-4 of
the largest one, or it refuses the file with a reason. A refusal is right only where the draw expects one.
"""
import argparse
import collections
import math
import pathlib
import random
import sys
import tempfile

import numpy as np
import torch

from models import convert, gguf_io, hf, program

BOUND, N_TOKENS, VOCABULARY = 1e-4, 24, 64


def draw_rope(draw, head_dim):
    """(HF's parameters, what refusals may say)"""
    n_rot = max(2, 2 * int(head_dim * draw.choice([0.25, 0.5, 0.75, 1.0]) / 2))
    rope = dict(rope_type="default", rope_theta=draw.choice([100.0, 1e4, 1e6, 1e7]), partial_rotary_factor=n_rot / head_dim,
                mrope_section=gguf_io.sections(n_rot // 2)[:3], mrope_interleaved=True)
    kind, refusals = draw.choice(["default", "default", "linear", "yarn", "yarn", "yarn"]), []
    if kind != "default":
        rope.update(rope_type=kind, factor=draw.choice([1.5, 2.0, 4.0, 8.0, 40.0]))
    if kind == "yarn":
        rope.update(original_max_position_embeddings=draw.choice([8, 16, 64, 512, 4096, 32768]))
        if draw.random() < 0.4:
            rope.update(beta_fast=draw.choice([16.0, 64.0]), beta_slow=draw.choice([0.5, 2.0]))
        if draw.random() < 0.15:
            rope.update(attention_factor=draw.choice([1.0, 0.7]))
            refusals.append("yarn_attn_factor")

        def dimension(turns):
            return n_rot * math.log(rope["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

        if max(math.floor(dimension(rope.get("beta_fast", 32))), 0) > min(math.ceil(dimension(rope.get("beta_slow", 1))), n_rot - 1):
            refusals.append("YaRN with a base of")  # HF and llama.cpp differ there
    return rope, refusals


def draw_config(draw):
    """(architecture, HF's config, what refusals may say; one is due if that is not nothing)"""
    arch = draw.choice(list(hf.CLASSES))
    head_dim, nkv, nk = draw.choice([8, 16, 24, 32, 64]), draw.choice([1, 2, 3]), draw.choice([1, 2, 3])
    layers, state = draw.choice([1, 2, 3, 4, 6]), draw.choice([16, 32, 48, 64, 128])
    rope, refusals = draw_rope(draw, head_dim)
    shape = dict(hidden_size=32 * draw.choice([1, 2, 3, 5]), num_hidden_layers=layers, vocab_size=VOCABULARY,
                 num_attention_heads=nkv * draw.choice([1, 2, 3, 4]), num_key_value_heads=nkv, head_dim=head_dim,
                 linear_key_head_dim=state, linear_value_head_dim=state, linear_num_key_heads=nk,
                 linear_num_value_heads=nk * draw.choice([1, 2, 3]), linear_conv_kernel_dim=draw.choice([2, 3, 4, 5]),
                 max_position_embeddings=draw.choice([64, 512, 4096]), attention_bias=draw.random() < 0.4,
                 rms_norm_eps=draw.choice([1e-6, 1e-5, 1e-3]), tie_word_embeddings=draw.random() < 0.5, rope_parameters=rope)
    kinds = [draw.choice(["linear_attention", "linear_attention", "full_attention"]) for _ in range(layers)]
    if draw.random() < 0.5:
        interval = draw.choice([2, 3, 4])
        kinds = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)]
    if "linear_attention" not in kinds:
        refusals.append("no recurrent layers")
    shape["layer_types"] = kinds
    if draw.random() < 0.05:
        shape["linear_value_head_dim"] = 16 if state != 16 else 32
        refusals.append("ssm.inner_size")
    if arch == "qwen35":
        shape["intermediate_size"] = 32 * draw.choice([1, 2, 3])
    else:
        experts = draw.choice([1, 2, 4, 7])
        shape.update(num_experts=experts, num_experts_per_tok=draw.randint(1, experts), moe_intermediate_size=32 * draw.choice([1, 2]),
                     shared_expert_intermediate_size=32 * draw.choice([1, 2]))
        if arch == "qwen3next":
            shape["norm_topk_prob"] = draw.random() < 0.5
    config = hf.CLASSES[arch][0](**shape)
    config._attn_implementation = config._experts_implementation = "eager"  # plain loops, also in float64
    return arch, config, refusals


@torch.no_grad()
def expected(arch, config, weights, tokens):
    """Logits, and by how little an expert was chosen."""
    trunk, _ = hf.load(arch, config, weights)
    gaps = hf.watch_router_gaps(trunk) if getattr(config, "num_experts", 0) > getattr(config, "num_experts_per_tok", 0) else []
    out = trunk.double()(torch.tensor(tokens)[None], use_cache=False).logits[0].double().numpy()
    return out, min(gaps, default=1.0)


def ask(runtime, path, tokens):
    what, _, rest = runtime.ask("logits", path, "f32", 64, len(tokens), *tokens).strip().partition(" ")
    return rest if what == "refused" else np.array(rest.split(), dtype=np.float64).reshape(len(tokens), -1)


def judge(have, want, refusals):
    """(verdict, text); a verdict in capitals is a mistake."""
    if isinstance(have, str):
        if any(text in have for text in refusals):
            return "refused", have
        return "REFUSED FOR ANOTHER REASON" if refusals else "REFUSED WITHOUT REASON", have
    gap = np.abs(have - want).max() / np.abs(want).max()
    if refusals:
        return "NOT REFUSED", f"{gap:.2g}, though {refusals}"
    return ("close", f"{gap:.2g}") if gap <= BOUND else ("FAR", f"{gap:.2g}")


def describe(arch, config):
    rope = {name: x for name, x in config.rope_parameters.items() if not name.startswith("mrope")}
    kinds = "".join(kind[0] for kind in config.layer_types)
    return (f"{arch} E {config.hidden_size}, layers {kinds}, heads {config.num_attention_heads}/{config.num_key_value_heads} x {config.head_dim}, "
            f"delta net {config.linear_num_key_heads}/{config.linear_num_value_heads} x {config.linear_key_head_dim}, bias "
            f"{config.attention_bias}, tied {config.tie_word_embeddings}, experts {getattr(config, 'num_experts', 0)}, {rope}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("logits", type=pathlib.Path)
    p.add_argument("--models", type=int, default=200)
    p.add_argument("--first", type=int, default=1, metavar="SEED")
    p.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep the models that are wrong there")
    args = p.parse_args()
    torch.set_num_threads(1)
    runtime, counts, worst = program.Program(args.logits), collections.Counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.models):
            draw = random.Random(seed)
            arch, config, refusals = draw_config(draw)
            tokens = [draw.randrange(VOCABULARY) for _ in range(N_TOKENS)]
            weights = hf.random_weights(arch, config, seed, least=0.5, most=1)
            want, choice = expected(arch, config, weights, tokens)
            path = pathlib.Path(folder) / f"drawn-{seed}.gguf"
            tensors = {} if "ssm.inner_size" in refusals else convert.to_gguf(config, weights)
            gguf_io.write(path, config, tensors, lambda *_: "F32", path.stem, [], config.max_position_embeddings)
            have = ask(runtime, path, tokens)
            verdict, text = judge(have, want, refusals)
            if verdict == "FAR" and choice < 1e-4:
                verdict, text = "close to another choice", f"{text}; two experts differ by {choice:.2g}"
            counts[verdict] += 1
            if verdict == "close":
                worst = max(worst, float(text))
            print(f"{seed}: {verdict}: {text}" + (f"  [{describe(arch, config)}]" if verdict.isupper() else ""), flush=True)
            if args.keep and verdict.isupper():
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / path.name).write_bytes(path.read_bytes())
            path.unlink()
    print(f"{args.models} models: {', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))}; largest difference {worst:.2g}")
    return 1 if runtime.end() or any(verdict.isupper() for verdict in counts) else 0


sys.exit(main())
