#!/usr/bin/env python3
"""Train the small model that ships in models/: qwen35 with an MTP block, on the King James Version.

  train_small_model.py train --steps 3000      corpus, tokenizer, training; checkpoints in --work
  train_small_model.py export                  the newest checkpoint to models/kjv-small-q8_0.gguf, checked against HF
  train_small_model.py golden                  what HF says about that file: tests/runtime/fixtures/kjv-small.golden
  train_small_model.py measure                 losses and draft acceptance on held-out books, from the GGUF file

Needs torch, transformers >= 5.2, tokenizers, gguf, numpy (from PyPI) and Debian's packages bible-kjv and
bible-kjv-text, installed or fetched with --fetch. One seed decides everything but the rounding of the matrix products
of another machine or thread count. --resume goes on from the newest checkpoint, with the same batches as if it had
never stopped; the learning rate reaches zero at --steps, so a run that must end sooner is resumed with fewer steps.
"""
import argparse
import math
import pathlib
import sys
import time
import types

import torch
import torch.nn.functional as F

from models import bpe, corpus, release
from models.muon import Muon
from models.net import Net

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/kjv-small-q8_0.gguf"
GOLDEN = MODEL.parent.parent / "tests/runtime/fixtures/kjv-small.golden"
SHAPE = dict(hidden=256, layers=8, interval=4, ffn=384, nk=2, nv=4, d=64, kernel=4, heads=4, kv_heads=2, head_dim=64,
             n_rot=16, rope_base=10000.0, vocab=2048)
DRAFT_WEIGHTS = (0.3, 0.15)  # of the first and second draft step's loss
DEPTH_TWO_FROM = 0.6         # the second draft step is trained in the rest of the run
LONG_FROM = 0.75             # windows are twice as long, and half as many, in the rest of the run


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def prepare(args):
    """Tokenizer and token streams, made once per work folder."""
    work = pathlib.Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    saved = work / "data.pt"
    if not saved.exists():
        root = corpus.fetch(work / "packages") if args.fetch else args.root
        train, held = corpus.load(root, args.seed, args.dialogues)
        tokenizer = bpe.train(train, SHAPE["vocab"])
        tokenizer.save(str(work / "tokenizer.json"))
        end = tokenizer.token_to_id(corpus.END)
        streams = []
        for texts in (train, held):
            ids = [[end] + e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
            streams.append(torch.tensor([i for part in ids for i in part] + [end], dtype=torch.int32))
        torch.save(dict(train=streams[0], held=streams[1], train_bytes=sum(len(t) for t in train),
                        held_bytes=sum(len(t) for t in held)), saved)
    return torch.load(saved)


def split_parameters(net):
    matrices, others = [], []
    for name, p in net.named_parameters():
        small = p.ndim != 2 or "embed_tokens" in name or "in_proj_a" in name or "in_proj_b" in name
        (others if small else matrices).append(p)
    return matrices, others


def losses(net, tokens, depth, bf16):
    """Cross entropy of the trunk; then for each draft step the cross entropy against the trunk's own distribution."""
    x, y = tokens[:, :-1], tokens[:, 1:].flatten()
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(bf16)):
        logits = net(x, depth)
    trunk = logits[0].float().flatten(0, 1)
    out = [F.cross_entropy(trunk, y)]
    if depth:
        with torch.no_grad():
            target = trunk.softmax(-1)
        out += [F.cross_entropy(l.float().flatten(0, 1), target) for l in logits[1:]]
    return out


@torch.no_grad()
def validate(net, held, length, bf16):
    """(nats per token of the trunk on the held-out stream, share of rows where a draft step's choice is the trunk's)"""
    n = (len(held) - 1) // length
    tokens = torch.stack([held[i * length:i * length + length + 1] for i in range(n)]).long()
    total, same = 0.0, [0, 0]
    for part in tokens.split(8):
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(bf16)):
            logits = net(part[:, :-1], 2)
        total += F.cross_entropy(logits[0].float().flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        best = logits[0].argmax(-1)
        for i in (0, 1):
            same[i] += (logits[i + 1].argmax(-1) == best).sum().item()
    return total / (n * length), [s / (n * length) for s in same]


def train(args):
    torch.manual_seed(args.seed)
    data, work, started = prepare(args), pathlib.Path(args.work), time.time()
    net = Net(types.SimpleNamespace(**SHAPE))
    matrices, others = split_parameters(net)
    optimizers = [Muon(matrices, args.lr, weight_decay=0.05),
                  torch.optim.AdamW(others, 0.15 * args.lr, betas=(0.9, 0.95), weight_decay=0.0)]
    first, before = 0, 0.0
    if args.resume:
        saved = torch.load(work / "checkpoint.pt")
        net.load_state_dict(saved["net"])
        for o, state in zip(optimizers, saved["optimizers"]):
            o.load_state_dict(state)
        first, before = saved["step"], saved["seconds"]
    say(f"{sum(p.numel() for p in net.parameters())} parameters, {len(data['train'])} training tokens of "
        f"{data['train_bytes']} bytes, {len(data['held'])} held out of {data['held_bytes']} bytes")
    base = [g["lr"] if not args.resume else g["initial"] for o in optimizers for g in o.param_groups]
    average, last_saved, mark = None, time.time(), (time.time(), first)
    for step in range(first, args.steps):
        done = step / args.steps
        rate = min(1.0, (step + 1) / 60) * 0.5 * (1 + math.cos(math.pi * done))
        for g, lr in zip((g for o in optimizers for g in o.param_groups), base):
            g["initial"], g["lr"] = lr, lr * rate
        draw = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
        long = 1 + (done >= LONG_FROM)
        at = torch.randint(0, len(data["train"]) - args.length * long - 1, (args.batch // long,), generator=draw)
        tokens = torch.stack([data["train"][i:i + args.length * long + 1] for i in at.tolist()]).long()
        found = losses(net, tokens, 2 if done >= DEPTH_TWO_FROM else 1, args.bf16)
        loss = found[0] + sum(w * l for w, l in zip(DRAFT_WEIGHTS, found[1:]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for o in optimizers:
            o.step()
            o.zero_grad()
        now = found[0].item()
        average = now if average is None else 0.98 * average + 0.02 * now
        if not math.isfinite(now):
            sys.exit(f"the loss is {now} at step {step}")
        if (step + 1) % 25 == 0:
            speed = (step + 1 - mark[1]) * args.batch * args.length / (time.time() - mark[0])
            mark = (time.time(), step + 1)
            say(f"step {step + 1}/{args.steps} loss {average:.3f} draft {found[1].item():.3f} {speed:.0f} tokens/s")
        if time.time() - last_saved > args.save_every or step + 1 == args.steps:
            last_saved = time.time()
            torch.save(dict(net=net.state_dict(), optimizers=[o.state_dict() for o in optimizers], step=step + 1,
                            seconds=before + time.time() - started, loss=average, args=vars(args)),
                       work / "checkpoint.tmp")
            (work / "checkpoint.tmp").replace(work / "checkpoint.pt")
            held, same = validate(net, data["held"], 256, args.bf16)
            say(f"saved step {step + 1}; held out {held:.3f} nats/token, draft agrees {same[0]:.3f} {same[1]:.3f}")
    say(f"done, {before + time.time() - started:.0f} s in all")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=["train", "export", "golden", "measure"])
    p.add_argument("--work", default="build/kjv", help="corpus, tokenizer and checkpoints")
    p.add_argument("--root", default="/", help="where bible-kjv and bible-kjv-text are installed or unpacked")
    p.add_argument("--fetch", action="store_true", help="get the two packages with apt-get download")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--dialogues", type=int, default=1200)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bf16", type=int, default=1)
    p.add_argument("--save-every", type=float, default=180.0, help="seconds")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--model", default=str(MODEL), help="the GGUF file to write or to measure")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    if args.command == "train":
        train(args)
    elif args.command == "export":
        release.export(args.work, args.model, SHAPE, say)
    elif args.command == "golden":
        say("HF and the float64 forward pass differ by", release.write_golden(args.work, args.model, GOLDEN, SHAPE))
    else:
        release.measure(args.work, args.model, SHAPE, say)


if __name__ == "__main__":
    main()
