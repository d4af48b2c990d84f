#!/usr/bin/env python3
"""Make tests/runtime/fixtures/: tiny random models and what HF transformers computes with them.

  make_tiny_models.py [--out FOLDER]     write tiny-*.gguf and tiny-*.golden
  make_tiny_models.py --check            rebuild HF's models from the files and compare; also with tests/runtime/oracle.py

Needs torch, transformers >= 5.2, gguf and numpy (from PyPI). The models are strong on purpose: weights of standard
deviation 0.3 to 0.5, decays over three orders of magnitude; a weak random model forgives a wrong state.
Goldens are HF's float32 CPU results with exactly the weights of the file (dequantised where it is quantised).
The arrays and their shapes are listed in tests/runtime/fixtures/README.md, the container's format in tests/golden/README.md.
"""
import argparse
import pathlib
import sys

import gguf
import numpy as np
import torch

from models import convert, gguf_io, golden, hf

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/runtime/fixtures"
sys.path.insert(0, str(FIXTURES.parent))
import oracle  # noqa: E402
N_PROMPT, N_MORE, DEPTH = 40, 8, 3
CLOSE = 1e-3  # in logits: no choice among experts or drafted tokens is closer, so that rounding cannot change it
STARTS = [0, 1, 5, 17, 31, 38, 39, 43, 47]  # positions from which three draft steps are recorded
BASE = dict(hidden_size=64, num_hidden_layers=4, full_attention_interval=2, vocab_size=96, num_attention_heads=2,
            num_key_value_heads=1, head_dim=32, linear_key_head_dim=16, linear_value_head_dim=16,
            linear_num_key_heads=2, linear_num_value_heads=6, linear_conv_kernel_dim=4, max_position_embeddings=512,
            sections=[2, 1, 1])
EXPERTS = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32,
               hidden_size=32, norm_topk_prob=True)
# name: architecture, MTP block, changes to BASE, matrix types (taken in turn)
MODELS = {
    "tiny-qwen35": ("qwen35", True, dict(intermediate_size=32), ["F32"]),
    "tiny-qwen35-d128": ("qwen35", False, dict(hidden_size=32, num_hidden_layers=2, intermediate_size=32, tied=False,
                                               linear_key_head_dim=128, linear_value_head_dim=128, vocab_size=64,
                                               linear_num_key_heads=1, linear_num_value_heads=3), ["BF16"]),
    "tiny-qwen35-mixed": ("qwen35", False, dict(hidden_size=256, num_hidden_layers=2, intermediate_size=256,
                                                vocab_size=64, num_attention_heads=2, head_dim=64,
                                                linear_key_head_dim=32, linear_value_head_dim=32,
                                                sections=[3, 3, 2]),
                          ["Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0"]),
    "tiny-qwen35moe": ("qwen35moe", True, EXPERTS, ["BF16"]),
    "tiny-qwen3next": ("qwen3next", False, dict(EXPERTS, tied=False), ["BF16"]),
}
MIXED = {"ssm_beta": "F16", "ssm_alpha": "BF16", "attn_k": "F16", "attn_v": "BF16"}


def configure(name):
    arch, mtp, changes, kinds = MODELS[name]
    shape = {**BASE, **changes}
    sections = shape.pop("sections")
    if arch == "qwen35":
        shape.pop("norm_topk_prob", None)
    elif arch == "qwen35moe":
        shape.pop("norm_topk_prob")
    return arch, mtp, hf.make_config(arch, n_rot_sections=sections, **shape), kinds


def vocabulary(n):
    """n tokens of one printable character each, one merge, and the end."""
    letters = [chr(c) for c in (range(33, 127) if n > 64 else (*range(97, 123), *range(65, 91), *range(48, 58)))]
    tokens = ["\u0120", *letters][:n - 2] + ["th", "<|endoftext|>"]
    types = [int(gguf.TokenType.NORMAL)] * (n - 1) + [int(gguf.TokenType.CONTROL)]
    return gguf_io.tokenizer_pairs(tokens, types, ["t h"], n - 1)


def kind_chooser(kinds):
    """The type of each matrix: the given ones in turn; vectors, convolutions and routers stay F32."""
    count = [0]

    def kind_of(name, x):
        if x.ndim == 1 or "conv1d" in name or "ffn_gate_inp" in name:
            return "F32"
        if len(kinds) == 1:
            return kinds[0]
        for part, kind in MIXED.items():
            if f".{part}." in name:
                return kind
        fitting = kinds if x.shape[-1] % 256 == 0 else [kind for kind in kinds if not kind.endswith("_K")]
        count[0] += 1
        return fitting[(count[0] - 1) % len(fitting)]
    return kind_of


class TooClose(Exception):
    pass


def draw_tokens(config, seed):
    return torch.randint(0, config.vocab_size, (N_PROMPT + N_MORE,), generator=torch.Generator().manual_seed(seed))


def compute(arch, config, weights, tokens):
    """The golden arrays of a model."""
    trunk, mtp = hf.load(arch, config, weights)
    gaps = hf.watch_router_gaps(trunk, mtp)
    logits, hidden, final = hf.run_trunk(trunk, tokens, N_PROMPT)
    whole = hf.run_trunk(trunk, tokens, len(tokens))
    spread = (whole[0] - logits).abs().max().item()
    if spread > 2e-3 * logits.abs().max().item():
        sys.exit(f"{arch}: HF's steps and HF's prefill differ by {spread}")
    out = dict(n_prompt=np.array([N_PROMPT]), tokens=tokens.numpy(), logits=logits.numpy(), hidden=hidden.numpy(),
               final=final.numpy())
    if mtp:
        rows, h, (ids, draft_logits, draft_hidden) = hf.run_mtp(trunk, mtp, tokens, final, STARTS, DEPTH)
        out |= dict(mtp_logits=rows.numpy(), mtp_hidden=h.numpy(), draft_from=np.array(STARTS),
                    draft_tokens=ids.numpy(), draft_logits=draft_logits.numpy(), draft_hidden=draft_hidden.numpy())
        best = np.sort(draft_logits.numpy(), -1)
        gaps.append(float((best[..., -1] - best[..., -2]).min()))
    if gaps and min(gaps) < CLOSE:
        raise TooClose(f"two experts or two drafted tokens are as close as {min(gaps):.2g}")
    return out, spread


def make(name, folder, seed):
    arch, mtp, config, kinds = configure(name)
    path = folder / f"{name}.gguf"
    while True:
        tensors = convert.to_gguf(config, hf.random_weights(arch, config, seed, mtp))
        gguf_io.write(path, config, tensors, kind_chooser(kinds), name, vocabulary(config.vocab_size), 512)
        try:
            arrays, spread = compute(arch, config, convert.from_gguf(config, gguf_io.read(path)),
                                     draw_tokens(config, seed))
            break
        except TooClose as problem:
            print(f"{name}, seed {seed}: {problem}")
            seed += 100
    path.with_suffix(".golden").write_bytes(golden.pack(arrays))
    print(f"{name}: {path.stat().st_size} + {path.with_suffix('.golden').stat().st_size} bytes, logits up to "
          f"{np.abs(arrays['logits']).max():.3g}, HF's prefill and steps differ by {spread:.2g}", flush=True)


def compare(path, arrays):
    """Largest difference of each golden array from the forward pass of tests/runtime/oracle.py, relative to its largest element."""
    model, worst = oracle.Model.__new__(oracle.Model), {}
    fields = gguf.GGUFReader(path).fields
    model.arch = fields["general.architecture"].contents()
    model.keys = {key.removeprefix(f"{model.arch}."): field.contents() for key, field in fields.items()}
    model.tensors = {name: (x.shape[::-1], x.ravel().tolist()) for name, x in gguf_io.read(path).items()}
    text, before, cells = oracle.Pass(model), np.zeros(model.get("embedding_length")), []

    def note(key, got, *at):
        gap = np.abs(got - arrays[key][at]).max() / np.abs(arrays[key]).max()
        worst[key] = max(worst.get(key, 0.0), float(gap))

    for p, token in enumerate(arrays["tokens"]):
        if "mtp_logits" in arrays:
            h, logits = text.draft(token, list(before), p, cells)
            note("mtp_hidden", h, p)
            note("mtp_logits", logits, p)
            for row in np.flatnonzero(arrays["draft_from"] == p):
                own = list(cells)
                for step, drafted in enumerate(arrays["draft_tokens"][row]):
                    note("draft_hidden", h, row, step)
                    note("draft_logits", logits, row, step)
                    if np.argmax(logits) != drafted:
                        worst["draft_tokens"] = 1.0
                    h, logits = text.draft(drafted, h, p + 1 + step, own)
        before = text.step(token)
        note("final", before, p)
        note("logits", text.head(before), p)
    return worst


def check(name, folder):
    arch, _, config, _ = configure(name)
    have = golden.unpack((folder / f"{name}.golden").read_bytes())
    weights = convert.from_gguf(config, gguf_io.read(folder / f"{name}.gguf"))
    want, _ = compute(arch, config, weights, torch.tensor(have["tokens"].astype(np.int64)))
    worst = 0.0
    for key, x in want.items():
        if x.dtype.kind == "i":
            worst = max(worst, float(not np.array_equal(x, have[key])))
        else:
            worst = max(worst, float(np.abs(x - have[key]).max() / np.abs(x).max()))
    other = compare(folder / f"{name}.gguf", have)
    print(f"{name}: largest relative difference from HF {worst:.2g}, from the oracle "
          + ", ".join(f"{key} {x:.2g}" for key, x in other.items()), flush=True)
    return worst < 1e-4 and want.keys() == have.keys() and max(other.values()) < 1e-4


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, default=FIXTURES)
    p.add_argument("--check", action="store_true")
    p.add_argument("names", nargs="*", metavar="MODEL", help="all if none is named")
    args = p.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    failed = False
    for seed, name in enumerate(MODELS, 1):
        if not args.names or name in args.names:
            if args.check:
                failed |= not check(name, args.out)
            else:
                make(name, args.out, seed)
    sys.exit(failed)


if __name__ == "__main__":
    main()
