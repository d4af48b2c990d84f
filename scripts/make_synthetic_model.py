#!/usr/bin/env python3
"""Write a model of real size with random weights, for measuring throughput. What it says is noise.

  make_synthetic_model.py OUT.gguf [--shape 0.8b] [--type Q8_0] [--vocab 248320] [--layers N]
  make_synthetic_model.py OUT.gguf --echo 0.025       with drafts that are often right
  make_synthetic_model.py OUT.gguf --shape 35b-a3b --layers 4 [--experts 256] [--used 8] [--shared 512]

Shapes are those of the published Qwen3.5 text models, MTP block included but in mixtures of experts; of those, a few
layers do, as they are all alike. Weights are random bits with a fixed scale
per matrix, so that activations keep their size; nothing is quantised, which makes this as fast as the disk. No draft of
such a model is ever right. With --echo E, what layers add to the residual stream is E times as large, and the MTP block
passes its token on. Then the likeliest token mostly is the last one again, which both the trunk and the draft head find.
Sometimes it is another one, which only the trunk finds. The larger E, the more often. How many drafts are right has to be
measured, and says nothing about trained models. That other token is among the first eighth of the
vocabulary, which stands for the frequent tokens (gdn run --draft-vocab). The vocabulary is the 256 bytes, invented tokens and the chat marks. Needs numpy and gguf (from PyPI).
"""
import argparse
import time
import types

import gguf
import numpy as np

from models import gguf_io

SHAPES = {
    "0.8b": dict(hidden_size=1024, num_hidden_layers=24, intermediate_size=3584, num_attention_heads=8,
                 num_key_value_heads=2, linear_num_value_heads=16),
    "4b": dict(hidden_size=2560, num_hidden_layers=32, intermediate_size=9216, num_attention_heads=16,
               num_key_value_heads=4, linear_num_value_heads=32),
    "35b-a3b": dict(hidden_size=2048, num_hidden_layers=40, num_attention_heads=16, num_key_value_heads=2,
                    linear_num_value_heads=32, num_experts=256, num_experts_per_tok=8, moe_intermediate_size=512,
                    shared_expert_intermediate_size=512, model_type="qwen3_5_moe_text"),
}
COMMON = dict(model_type="qwen3_5_text", head_dim=256, linear_num_key_heads=16, linear_key_head_dim=128,
              linear_value_head_dim=128, linear_conv_kernel_dim=4, rms_norm_eps=1e-6, tie_word_embeddings=True,
              rope_parameters=dict(rope_theta=1e7, partial_rotary_factor=0.25))
BLOCKS = {"Q8_0": (np.dtype([("d", "<f2"), ("q", "i1", 32)]), 128 / 3 ** 0.5),  # and the deviation of random integers
          "Q4_0": (np.dtype([("d", "<f2"), ("q", "u1", 16)]), (255 / 12) ** 0.5)}


def configuration(shape, vocab, **changes):
    """changes: of what the shape says, where they are not None; whether a mixture has a shared expert too."""
    c = types.SimpleNamespace(**{**COMMON, **SHAPES[shape], **{k: v for k, v in changes.items() if v is not None}}, vocab_size=vocab)
    c.layer_types = ["linear_attention" if (i + 1) % 4 else "full_attention" for i in range(c.num_hidden_layers)]
    return c


def feed_forward(c):
    """The same of one layer's feed forward. Experts' matrices are stacks."""
    e = c.hidden_size
    if not hasattr(c, "num_experts"):
        f = c.intermediate_size
        return [("ffn_gate.weight", (f, e)), ("ffn_up.weight", (f, e)), ("ffn_down.weight", (e, f))]
    n, f, s = c.num_experts, c.moe_intermediate_size, c.shared_expert_intermediate_size
    own = [("ffn_gate_inp.weight", (n, e)), ("ffn_gate_exps.weight", (n, f, e)), ("ffn_up_exps.weight", (n, f, e)),
           ("ffn_down_exps.weight", (n, e, f))]
    return own + [("ffn_gate_inp_shexp.weight", (e,)), ("ffn_gate_shexp.weight", (s, e)), ("ffn_up_shexp.weight", (s, e)),
                  ("ffn_down_shexp.weight", (e, s))] * (s > 0)


def matrices(c, n_mtp):
    """[(name, numpy shape)] of everything; one dimension means a vector, kept in F32, as a router is."""
    e, hd, nh, nkv = c.hidden_size, c.head_dim, c.num_attention_heads, c.num_key_value_heads
    nv, d = c.linear_num_value_heads, c.linear_value_head_dim
    inner, channels = nv * d, nv * d + 2 * c.linear_num_key_heads * d
    out = [("token_embd.weight", (c.vocab_size, e)), ("output_norm.weight", (e,))]
    for i, kind in enumerate([*c.layer_types, *["full_attention"] * n_mtp]):
        own = [("attn_norm.weight", (e,)), ("post_attention_norm.weight", (e,))]
        if kind == "full_attention":
            own += [("attn_q.weight", (2 * hd * nh, e)), ("attn_k.weight", (hd * nkv, e)),
                    ("attn_v.weight", (hd * nkv, e)), ("attn_output.weight", (e, hd * nh)),
                    ("attn_q_norm.weight", (hd,)), ("attn_k_norm.weight", (hd,))]
        else:
            own += [("attn_qkv.weight", (channels, e)), ("attn_gate.weight", (inner, e)), ("ssm_beta.weight", (nv, e)),
                    ("ssm_alpha.weight", (nv, e)), ("ssm_conv1d.weight", (channels, c.linear_conv_kernel_dim)),
                    ("ssm_dt.bias", (nv,)), ("ssm_a", (nv,)), ("ssm_norm.weight", (d,)), ("ssm_out.weight", (e, inner))]
        own += feed_forward(c)
        if i == c.num_hidden_layers:
            own += [("nextn.eh_proj.weight", (e, 2 * e)), ("nextn.enorm.weight", (e,)), ("nextn.hnorm.weight", (e,)),
                    ("nextn.shared_head_norm.weight", (e,))]
        out += [(f"blk.{i}.{name}", shape) for name, shape in own]
    return out


def vector(name, shape, rng):
    if "conv1d" in name:
        x = rng.normal(0, 0.5, shape)
    elif "ssm_a" in name:
        x = -rng.uniform(0.5, 8, shape)
    elif "ssm_dt" in name:
        x = rng.normal(-3, 1, shape)
    elif "ffn_gate_inp" in name:
        x = rng.normal(0, 2 * shape[-1] ** -0.5, shape)  # some experts are chosen clearly
    else:
        x = 1 + rng.normal(0, 0.05, shape)
    return x.astype(np.float32)


def blocks(shape, kind, rng, size=1.0):
    """A matrix, or a stack, as bytes, one row per row. size: of its products, about that of the inputs."""
    dtype, deviation = BLOCKS[kind]
    x = np.empty((*shape[:-1], shape[-1] // 32), dtype)
    x["d"] = size * shape[-1] ** -0.5 / deviation
    x["q"] = np.frombuffer(rng.bytes(x["q"].nbytes), x["q"].dtype).reshape(x["q"].shape)
    return x.view(np.uint8)


def hand_on(e):
    """The MTP block's first matrix, Q8_0: of its two inputs the first one, the token's embedding."""
    x = np.zeros((e, 2 * e // 32), BLOCKS["Q8_0"][0])
    x["d"] = 1 / 127
    x["q"][np.arange(e), np.arange(e) // 32, np.arange(e) % 32] = 127
    return x.view(np.uint8)


def vocabulary(n):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    fill = [f"\u0120w{i}" for i in range(n - len(alphabet) - len(marks) - 1)]
    tokens = [*alphabet, "th", *fill, *marks]
    types_of = [1] * (n - len(marks)) + [3] * len(marks)
    return gguf_io.tokenizer_pairs(tokens, types_of, ["t h"], n - 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--shape", choices=SHAPES, default="0.8b")
    p.add_argument("--type", choices=BLOCKS, default="Q8_0")
    p.add_argument("--vocab", type=int, default=248320, help="tokens; 260 at least (248320)")
    p.add_argument("--layers", type=int, help="of the trunk (the shape's)")
    p.add_argument("--experts", type=int, help="experts of a layer, where there are any (the shape's)")
    p.add_argument("--used", type=int, help="experts of a token (the shape's)")
    p.add_argument("--shared", type=int, help="width of the shared expert, a multiple of 32; 0: there is none (the shape's)")
    p.add_argument("--echo", type=float, metavar="E", help="0 < E < 1: tokens repeat themselves, as described above")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    mixture = "num_experts" in SHAPES[args.shape]
    for name in ("experts", "used", "shared"):
        if getattr(args, name) is not None and not mixture:
            p.error(f"--{name} is for mixtures of experts; the shape is {args.shape}")
    if args.shared is not None and (args.shared < 0 or args.shared % 32):
        p.error(f"--shared is {args.shared}; multiples of 32 are allowed")
    if args.vocab < 260:
        p.error(f"--vocab is {args.vocab}; 260 is the least")
    if args.echo is not None and (mixture or args.type != "Q8_0" or not 0 < args.echo < 1):
        p.error("--echo is between 0 and 1, for dense models of type Q8_0")
    started, rng = time.monotonic(), np.random.default_rng(args.seed)
    c = configuration(args.shape, args.vocab, num_hidden_layers=args.layers, num_experts=args.experts,
                      num_experts_per_tok=args.used, shared_expert_intermediate_size=args.shared)
    if mixture and not 1 <= c.num_experts_per_tok <= c.num_experts:
        p.error(f"{c.num_experts_per_tok} of {c.num_experts} experts cannot be used")
    n_mtp = int(not mixture)
    writer = gguf_io.open_writer(args.out, "qwen35moe" if mixture else "qwen35", f"synthetic {args.shape}",
                                 [*gguf_io.hyperparameters(c, n_mtp, 262144), *vocabulary(args.vocab)])
    listed = matrices(c, n_mtp)
    is_vector = lambda name, shape: len(shape) == 1 or "conv1d" in name or "gate_inp" in name
    total = 0
    for name, shape in listed:
        if is_vector(name, shape):
            writer.add_tensor_info(name, shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
        else:
            row = shape[-1] // 32 * BLOCKS[args.type][0].itemsize
            writer.add_tensor_info(name, (*shape[:-1], row), np.dtype(np.uint8), int(np.prod(shape[:-1])) * row,
                                   raw_dtype=gguf.GGMLQuantizationType[args.type])
        total += int(np.prod(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, shape in listed:
        adds = args.echo and name.endswith(("ffn_down.weight", "attn_output.weight", "ssm_out.weight"))
        if is_vector(name, shape):
            writer.write_tensor_data(vector(name, shape, rng))
        elif args.echo and name.endswith("eh_proj.weight"):
            writer.write_tensor_data(hand_on(c.hidden_size))
        else:
            weights = blocks(shape, args.type, rng, args.echo if adds else 1.0)
            if args.echo and name == "token_embd.weight":
                weights.view(BLOCKS["Q8_0"][0])[args.vocab // 8:]["d"] *= 0.5
            writer.write_tensor_data(weights)
    writer.close()
    print(f"{args.out}: {total / 1e6:.0f} million weights, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
