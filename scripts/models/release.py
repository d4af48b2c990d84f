"""A trained checkpoint as a GGUF file, checked against HF's classes; and what the file achieves on held-out text."""
import math
import pathlib
import types

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from models import bpe, convert, corpus, forward, gguf_io, golden, hf
from models.net import Net

# ChatML, as the dialogues of the corpus are written
CHAT = ("{% for message in messages %}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
ABOUT = [("general.description", "Small model for tests and demonstrations, trained on the King James Version"),
         ("general.license", "mit")]


def configuration(shape):
    s = types.SimpleNamespace(**shape)
    return hf.make_config("qwen35", n_rot_sections=[s.n_rot // 2 - 2 * (s.n_rot // 6), s.n_rot // 6, s.n_rot // 6],
                          rope_base=s.rope_base, vocab_size=s.vocab, hidden_size=s.hidden, intermediate_size=s.ffn,
                          num_hidden_layers=s.layers, full_attention_interval=s.interval, num_attention_heads=s.heads,
                          num_key_value_heads=s.kv_heads, head_dim=s.head_dim, linear_conv_kernel_dim=s.kernel,
                          linear_key_head_dim=s.d, linear_value_head_dim=s.d, linear_num_key_heads=s.nk,
                          linear_num_value_heads=s.nv, max_position_embeddings=2048)


def kind_of(name, x):
    return "F32" if x.ndim == 1 or "conv1d" in name else "Q8_0"


@torch.no_grad()
def logits_apart(shape, config, weights, tokens):
    """Largest difference between the training network and HF's classes, trunk and first draft step."""
    net = Net(types.SimpleNamespace(**shape)).eval()
    net.load_state_dict({name: torch.tensor(x) for name, x in weights.items() if name != "lm_head.weight"})
    trunk, mtp = hf.load("qwen35", config, weights)
    ours = net(tokens[None], 1)
    logits, _, final = hf.run_trunk(trunk, tokens, len(tokens))
    drafts, _, _ = hf.run_mtp(trunk, mtp, tokens, final, [0], 1)
    return max((ours[0][0] - logits).abs().max().item(), (ours[1][0] - drafts).abs().max().item())


def export(work, out, shape, say):
    saved = torch.load(pathlib.Path(work) / "checkpoint.pt")
    data = torch.load(pathlib.Path(work) / "data.pt")
    weights = {name: x.numpy() for name, x in saved["net"].items()}
    config = configuration(shape)
    tokens = data["held"][:128].long()
    gap = logits_apart(shape, config, weights, tokens)
    say(f"step {saved['step']}: the training network and HF's classes differ by {gap:.2g} in logits")
    if gap > 1e-3:
        raise SystemExit("that is too much")
    tokenizer = Tokenizer.from_file(str(pathlib.Path(work) / "tokenizer.json"))
    end, chat_end = (tokenizer.token_to_id(name) for name in (corpus.END, "<|im_end|>"))
    pairs = gguf_io.tokenizer_pairs(*bpe.metadata(tokenizer), end, chat_end) + [("tokenizer.chat_template", CHAT)]
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    gguf_io.write(out, config, convert.to_gguf(config, weights), kind_of, "kjv-small", pairs, 2048, ABOUT)
    back = convert.from_gguf(config, gguf_io.read(out))
    gap = max(np.abs(back[name] - x).max() for name, x in weights.items() if name in back and x.ndim == 1)
    if gap > 1e-5:
        raise SystemExit(f"{out}: vectors come back changed by {gap}")
    say(f"{out}: {pathlib.Path(out).stat().st_size} bytes; vectors come back within {gap:.1g}, then the matrices' "
        f"rounding changes HF's logits by up to {apart_from_original(config, weights, back, tokens):.2g}")


@torch.no_grad()
def apart_from_original(config, weights, back, tokens):
    a, b = (hf.run_trunk(hf.load("qwen35", config, w)[0], tokens, len(tokens))[0] for w in (weights, back))
    return (a - b).abs().max().item()


@torch.no_grad()
def loss(net, stream, tokenizer, length=512):
    """(nats per token, nats per byte) over windows of `length` that start with no memory."""
    nats, n_tokens, n_bytes = 0.0, 0, 0
    for at in range(0, len(stream) - 1, length):
        part = stream[at:at + length + 1].long()
        pad = -(len(part) - 1) % 64
        logits = net(F.pad(part[:-1], (0, pad))[None], 0)[0][0, :len(part) - 1]
        nats += F.cross_entropy(logits, part[1:], reduction="sum").item()
        n_tokens += len(part) - 1
        n_bytes += len(tokenizer.decode(part[1:].tolist(), skip_special_tokens=True).encode())
    return nats / n_tokens, nats / n_bytes


@torch.no_grad()
def generate(trunk, prompt, n, temperature, draw):
    cache, tokens, feed = hf.DynamicCache(config=trunk.config), list(prompt), torch.tensor(prompt)
    for _ in range(n):
        out = trunk.model(feed[None], past_key_values=cache, use_cache=True)
        logits = trunk.lm_head(out.last_hidden_state[0, -1])
        token = (int(logits.argmax()) if temperature == 0 else
                 int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=draw)))
        tokens.append(token)
        feed = torch.tensor([token])
    return tokens


@torch.no_grad()
def acceptance(trunk, mtp, sequences, n_prompt, depth=3):
    """[share of accepted drafts at step 1, 2, ... given that the earlier were], mean tokens per verification."""
    tried, kept = np.zeros(depth), np.zeros(depth)
    for tokens in sequences:
        t = torch.tensor(tokens)
        _, _, final = hf.run_trunk(trunk, t, len(t))
        starts = list(range(n_prompt, len(t) - depth))
        drafted = hf.run_mtp(trunk, mtp, t, final, starts, depth)[2][0]
        for p, row in zip(starts, drafted.tolist()):
            for step, token in enumerate(row):
                tried[step] += 1
                if token != tokens[p + 1 + step]:
                    break
                kept[step] += 1
    return (kept / np.maximum(tried, 1)).tolist(), 1 + float(kept.sum() / tried[0])


def measure(work, path, shape, say, n_sequences=24, n_prompt=64, n_new=96):
    data = torch.load(pathlib.Path(work) / "data.pt")
    tokenizer = Tokenizer.from_file(str(pathlib.Path(work) / "tokenizer.json"))
    config = configuration(shape)
    weights = convert.from_gguf(config, gguf_io.read(path))
    net = Net(types.SimpleNamespace(**shape)).eval()
    net.load_state_dict({name: torch.tensor(x) for name, x in weights.items()})
    for name, stream in (("held out", data["held"]), ("training", data["train"][500_000:500_000 + len(data["held"])])):
        per_token, per_byte = loss(net, stream, tokenizer)
        say(f"{name}: {per_token:.4f} nats/token, {per_byte:.4f} nats/byte ({per_byte / math.log(2):.3f} bits/byte), "
            f"{len(stream) - 1} tokens")
    trunk, mtp = hf.load("qwen35", config, weights)
    step = (len(data["held"]) - n_prompt) // n_sequences
    prompts = [data["held"][i * step:i * step + n_prompt].tolist() for i in range(n_sequences)]
    for temperature in (0.0, 0.8):
        draw = torch.Generator().manual_seed(1)
        made = [generate(trunk, p, n_new, temperature, draw) for p in prompts]
        rates, gain = acceptance(trunk, mtp, made, n_prompt)
        say(f"temperature {temperature}: accepted {', '.join(f'{r:.3f}' for r in rates)} at draft step 1, 2, 3; "
            f"{gain:.2f} tokens per verification")
        for tokens in made[:3]:
            say("..." + tokenizer.decode(tokens[n_prompt - 16:], skip_special_tokens=False).replace("\n", " / "))
    rates, gain = acceptance(trunk, mtp, [data["held"][i * step:i * step + n_prompt + n_new].tolist()
                                          for i in range(n_sequences)], n_prompt)
    say(f"held-out text itself: {', '.join(f'{r:.3f}' for r in rates)}; {gain:.2f} tokens per verification")


TEXTS = (
    "In the beginning God created the heaven and the earth.", "Ruth 1\n1 Now it came to pass in the days",
    "  two  spaces, a tab\tand a line\n\n\nmore   \n", "don't I'LL we've they're it's", "3 score and 10, 1611 A.D.",
    "Na\u00efve caf\u00e9 \u2014 \u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05c1\u05b4\u05d9\u05ea "
    "\u03bb\u03cc\u03b3\u03bf\u03c2 \u592a\u521d\u6709\u9053",
    "\U0001f54a\ufe0f\U0001f468\u200d\U0001f469\u200d\U0001f467", "((( ...!? ))) --;:", "a\r\nb\rc \n d",
    "\u00a0\u3000x", "<|im_start|>user\nPeace be unto you.<|im_end|>\n<|im_start|>assistant\n", "x<|endoftext|>y", "")


@torch.no_grad()
def write_golden(work, path, out, shape, n_prompt=48, n_new=48):
    """What HF's tokenizer and classes say about the shipped file, for tests of the whole chain."""
    data = torch.load(pathlib.Path(work) / "data.pt")
    tokenizer = Tokenizer.from_file(str(pathlib.Path(work) / "tokenizer.json"))
    arrays = {}
    for i, text in enumerate(TEXTS):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if tokenizer.decode(ids, skip_special_tokens=False) != text:
            raise SystemExit(f"{text!r} does not survive the tokenizer")
        arrays[f"text_{i}"] = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        arrays[f"tokens_{i}"] = np.array(ids, np.int32)
    config = configuration(shape)
    trunk, mtp = hf.load("qwen35", config, convert.from_gguf(config, gguf_io.read(path)))
    tokens = generate(trunk, data["held"][1:n_prompt + 1].tolist(), n_new, 0.0, None)
    logits, _, final = hf.run_trunk(trunk, torch.tensor(tokens), n_prompt)
    best = logits.sort(-1, descending=True)
    starts = list(range(0, len(tokens) - 3, 4))
    drafted = hf.run_mtp(trunk, mtp, torch.tensor(tokens), final, starts, 3)[2]
    rows = [0, 1, n_prompt - 1, len(tokens) - 1]
    ahead = drafted[1].sort(-1, descending=True).values
    arrays |= dict(n_prompt=np.array([n_prompt]), tokens=np.array(tokens), best=best.indices[:, 0].numpy(),
                   margin=(best.values[:, 0] - best.values[:, 1]).numpy(), rows=np.array(rows),
                   logits=logits[rows].numpy(), draft_from=np.array(starts), draft_tokens=drafted[0].numpy(),
                   draft_margin=(ahead[..., 0] - ahead[..., 1]).numpy())
    golden.write(out, arrays)
    whole = dict(tokens=np.array(tokens), **{k: x.numpy() for k, x in zip(
        ("logits", "hidden", "final"), hf.run_trunk(trunk, torch.tensor(tokens), n_prompt))})
    return forward.compare(path, whole)
