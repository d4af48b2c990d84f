#!/usr/bin/env python3
"""Train a small model like the one in models/: qwen35 with an MTP block, on the King James Version.

  train_small_model.py train --steps 1280    corpus, tokenizer and training on HF's classes; a checkpoint in --work
  train_small_model.py export                the checkpoint as a GGUF file, --model
  train_small_model.py golden                what HF says about that file, --golden

Needs torch, transformers >= 5.2, tokenizers, gguf and numpy (from PyPI), and apt-get, which downloads Debian's packages
bible-kjv and bible-kjv-text into --work. models/kjv-small-q8_0.gguf was made by an earlier form of this script, and
tests/runtime/fixtures/kjv-small.golden belongs to that file: docs/reference/models.md. Text form: a chapter starts with
"Genesis 1" on a line of its own, a verse is a line that starts with its number, and a blank line ends the chapter.
"""
import argparse
import json
import math
import pathlib
import random
import re
import subprocess

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer, decoders, models as tokenizer_models, pre_tokenizers, trainers

import make_tokenizer_fixtures as fixtures
from models import convert, gguf_io, golden, hf

SHAPE = dict(vocab_size=2048, hidden_size=256, intermediate_size=384, num_hidden_layers=8, full_attention_interval=4,
             num_attention_heads=4, num_key_value_heads=2, head_dim=64, linear_conv_kernel_dim=4, linear_key_head_dim=64,
             linear_value_head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4, max_position_embeddings=2048)
CONFIG = hf.make_config("qwen35", n_rot_sections=[4, 2, 2], **SHAPE)
DRAFT_WEIGHTS = (0.3, 0.15)  # of the first and second draft step's loss
DEPTH_TWO_FROM = 0.6         # the second draft step is trained in the rest of the run
DIALOGUES = 1200
HELD_OUT = ("Ruth", "Jonah", "Malachi", "Philippians", "James")  # never trained on; not even by the tokenizer
SPECIAL = END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# ChatML, as the dialogues of the corpus are written
CHAT = ("{% for message in messages %}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
ABOUT = [("general.description", "Small model for tests and demonstrations, trained on the King James Version"),
         ("general.license", "mit")]
TEXTS = (  # whose tokens are recorded
    "In the beginning God created the heaven and the earth.", "Ruth 1\n1 Now it came to pass in the days",
    "  two  spaces, a tab\tand a line\n\n\nmore   \n", "don't I'LL we've they're it's", "3 score and 10, 1611 A.D.",
    "Na\u00efve caf\u00e9 \u2014 \u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05c1\u05b4\u05d9\u05ea "
    "\u03bb\u03cc\u03b3\u03bf\u03c2 \u592a\u521d\u6709\u9053",
    "\U0001f54a\ufe0f\U0001f468\u200d\U0001f469\u200d\U0001f467", "((( ...!? ))) --;:", "a\r\nb\rc \n d",
    "\u00a0\u3000x", "<|im_start|>user\nPeace be unto you.<|im_end|>\n<|im_start|>assistant\n", "x<|endoftext|>y", "")


def books(work):
    """{book: the verses of each chapter}, in the order of the Bible, as the package's program `bible` prints them."""
    root, found = work / "packages", {}
    if not root.exists():
        subprocess.run(["apt-get", "download", "bible-kjv", "bible-kjv-text"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        for package in sorted(work.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    printed = subprocess.run([root / "usr/bin/bible", "-p", root / "usr/lib", "-l100000", "gen1:1-rev22:21"], check=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    for line in map(str.rstrip, printed.split("\n")):
        head = re.fullmatch(r"((?:[1-3] )?[A-Z][A-Za-z ]*?) (\d+)", line)
        verse = re.fullmatch(r"  (\d+) (.*)", line)
        if head and not verse:
            found.setdefault(head[1], []).append([])
            verses = found[head[1]][-1]
        elif verse and int(verse[1]) == len(verses) + 1:
            verses.append(re.sub(r" +", " ", verse[2]).strip())
        elif line:
            raise ValueError(f"not understood: {line!r}")
    return found


def book_text(book, chapters):
    return "".join(f"{book} {number}\n" + "".join(f"{i} {verse}\n" for i, verse in enumerate(verses, 1)) + "\n"
                   for number, verses in enumerate(chapters, 1))


def dialogue(rng, chapters):
    """One exchange in chat form: the user speaks a verse, the assistant the one to four that follow."""
    verses = rng.choice(chapters)
    first = rng.randrange(max(1, len(verses) - 1))
    answer = " ".join(verses[first + 1:first + 2 + rng.randrange(4)]) or verses[first]
    return f"{START}user\n{verses[first]}{STOP}\n{START}assistant\n{answer}{STOP}\n"


def train_tokenizer(texts):
    """Byte-level BPE with Qwen2's way of splitting text into words."""
    tokenizer = Tokenizer(tokenizer_models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = fixtures.cutter("qwen2"), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=SHAPE["vocab_size"] - len(SPECIAL), show_progress=False, min_frequency=2,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator((re.sub("|".join(map(re.escape, SPECIAL)), "", text) for text in texts), trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return tokenizer


def prepare(work):
    """(tokenizer, training tokens, held-out tokens), made once per work folder."""
    if not (work / "data.pt").exists():
        work.mkdir(parents=True, exist_ok=True)
        texts = books(work)
        rng, kept = random.Random(1), [chapters for book, chapters in texts.items() if book not in HELD_OUT]
        weights = [sum(map(len, chapters)) for chapters in kept]
        documents = [[book_text(*item) for item in texts.items() if (item[0] in HELD_OUT) == held] for held in (False, True)]
        documents[0] += [dialogue(rng, rng.choices(kept, weights)[0]) for _ in range(DIALOGUES)]
        tokenizer = train_tokenizer(documents[0])
        tokenizer.save(str(work / "tokenizer.json"))
        end = tokenizer.token_to_id(END)
        encoded = [tokenizer.encode_batch(part, add_special_tokens=False) for part in documents]
        torch.save([torch.tensor([i for e in part for i in (end, *e.ids)] + [end]) for part in encoded], work / "data.pt")
    return Tokenizer.from_file(str(work / "tokenizer.json")), *torch.load(work / "data.pt")


def losses(trunk, mtp, tokens, depth):
    """Cross entropy of the trunk; then of each draft step against the trunk's own distribution."""
    x = tokens[:, :-1]
    hidden = trunk.model(x, use_cache=False).last_hidden_state
    logits = trunk.lm_head(hidden).flatten(0, 1)
    out, target = [F.cross_entropy(logits, tokens[:, 1:].flatten())], logits.detach().softmax(-1)
    for _ in range(depth):
        hidden = mtp(trunk, x, F.pad(hidden[:, :-1], (0, 0, 1, 0)))
        out.append(F.cross_entropy(trunk.lm_head(hidden).flatten(0, 1), target))
    return out


def train(args):
    torch.manual_seed(args.seed)
    _, data, held = prepare(args.work)
    trunk, mtp = hf.make_model("qwen35", CONFIG), hf.Mtp("qwen35", CONFIG)
    weights = dict(trunk.named_parameters()) | {f"mtp.{name}": p for name, p in mtp.named_parameters()}
    small = [name for name, p in weights.items() if p.ndim != 2 or re.search("embed_tokens|in_proj_[ab]", name)]
    groups = [dict(params=[p for name, p in weights.items() if (name in small) == few], weight_decay=0.0 if few else 0.05)
              for few in (False, True)]
    optimizer = torch.optim.AdamW(groups, args.lr, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 60) * 0.5 * (
        1 + math.cos(math.pi * step / args.steps)))
    for step in range(args.steps):
        at = torch.randint(0, len(data) - args.length, (args.batch,)).tolist()
        found = losses(trunk, mtp, torch.stack([data[i:i + args.length + 1] for i in at]),
                       2 if step >= DEPTH_TWO_FROM * args.steps else 1)
        (found[0] + sum(w * loss for w, loss in zip(DRAFT_WEIGHTS, found[1:]))).backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if (step + 1) % 25 == 0 or step + 1 == args.steps:
            print(f"step {step + 1}/{args.steps}:", *(f"{loss.item():.3f}" for loss in found), flush=True)
            torch.save({name: p.detach() for name, p in weights.items()}, args.work / "checkpoint.pt")
    with torch.no_grad():
        windows = held[:len(held) // 257 * 257].reshape(-1, 257)
        nats = [losses(trunk, mtp, part, 0)[0].item() for part in windows.split(8)]
    print(f"held out: {sum(nats) / len(nats):.3f} nats per token")


def export(args):
    tokenizer, *_ = prepare(args.work)
    weights = {name: x.numpy() for name, x in torch.load(args.work / "checkpoint.pt").items()}
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]
    pairs = gguf_io.tokenizer_pairs(tokens, [3 if text in SPECIAL else 1 for text in tokens], merges, tokens.index(END),
                                    tokens.index(STOP)) + [("tokenizer.chat_template", CHAT)]
    gguf_io.write(args.model, CONFIG, convert.to_gguf(CONFIG, weights), lambda name, x: "F32" if x.ndim == 1 or "conv1d" in name
                  else "Q8_0", "kjv-small", pairs, 2048, ABOUT)
    back = convert.from_gguf(CONFIG, gguf_io.read(args.model))
    gap = max(np.abs(back[name] - x).max() for name, x in weights.items() if x.ndim == 1)
    if gap > 1e-5:
        raise SystemExit(f"{args.model}: vectors come back changed by {gap}")


@torch.no_grad()
def write_golden(args, n_prompt=48, n_new=48):
    tokenizer, _, held = prepare(args.work)
    arrays = {}
    for i, text in enumerate(TEXTS):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if tokenizer.decode(ids, skip_special_tokens=False) != text:
            raise SystemExit(f"{text!r} does not survive the tokenizer")
        arrays[f"text_{i}"] = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        arrays[f"tokens_{i}"] = np.array(ids, np.int32)
    trunk, mtp = hf.load("qwen35", CONFIG, convert.from_gguf(CONFIG, gguf_io.read(args.model)))
    tokens = trunk.generate(held[None, 1:n_prompt + 1], max_new_tokens=n_new, do_sample=False)[0]
    logits, _, final = hf.run_trunk(trunk, tokens, n_prompt)
    starts, rows = list(range(0, len(tokens) - 3, 4)), [0, 1, n_prompt - 1, len(tokens) - 1]
    drafted = hf.run_mtp(trunk, mtp, tokens, final, starts, 3)[2]
    best, ahead = logits.topk(2), drafted[1].topk(2).values
    args.golden.write_bytes(golden.pack(arrays | dict(
        n_prompt=np.array([n_prompt]), tokens=tokens.numpy(), best=best.indices[:, 0].numpy(),
        margin=(best.values[:, 0] - best.values[:, 1]).numpy(), rows=np.array(rows), logits=logits[rows].numpy(),
        draft_from=np.array(starts), draft_tokens=drafted[0].numpy(), draft_margin=(ahead[..., 0] - ahead[..., 1]).numpy())))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"train": train, "export": export, "golden": write_golden}
    p.add_argument("command", choices=commands)
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/kjv"), help="corpus, tokenizer and checkpoint")
    p.add_argument("--model", type=pathlib.Path, default=pathlib.Path("build/kjv/model.gguf"))
    p.add_argument("--golden", type=pathlib.Path, default=pathlib.Path("build/kjv/model.golden"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=1280)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--lr", type=float, default=0.003)
    args = p.parse_args()
    commands[args.command](args)


if __name__ == "__main__":
    main()
