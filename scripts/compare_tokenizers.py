#!/usr/bin/env python3
"""The runtime's tokenizer against the PyPI package tokenizers, on random Unicode strings.

    compare_tokenizers.py LOGITS [--strings N] [--seed N]

LOGITS is build-test/bin/test_rt_answers (tests/runtime/answers.c). Needs tokenizers and gguf from PyPI. The vocabulary has a token
for every pair of bytes, and merges in a random order: text that is cut into other words has other tokens, whatever it is.
Each string is compared for each way of cutting. Strings that Qwen's normaliser (NFC) would change are counted, too: a
GGUF file does not say that a model's tokenizer has a normaliser, and the runtime has none.
"""
import argparse
import pathlib
import random
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import make_tokenizer_fixtures as fixtures
from models import gguf_io, program

SPECIAL = "'\u017f\u212a\u2019\r\n\t\v\f \x1c\x85\xa0\u1680\u180e\u2003\u2028\u202f\u3000\ufeff\u200b\u200d\u0301\u0308sStTrReEvVmMlLdDkK09"


def vocabulary(draw):
    """(tokens, merges as pairs)"""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(a, b) for a in letters for b in letters]
    draw.shuffle(merges)
    return letters + [a + b for a, b in merges], merges


def theirs(form, tokens, merges):
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = fixtures.cutter(form)
    return tokenizer


def draw_string(draw, marks):
    """Characters of all planes, of few blocks, of the few that the expressions name, and marks behind them."""
    kind, out = draw.randrange(5), []
    block = draw.choice([0, 0, 0x300, 0x600, 0x900, 0xE00, 0x1100, 0x3000, 0x4E00, 0xAC00, 0x10300, 0x11000, 0x1D400, 0x1F300, 0x20000])
    for _ in range(draw.randint(1, 40)):
        roll = draw.random()
        if kind == 0 or roll < 0.15:
            c = draw.choice(SPECIAL)
        elif kind == 1:
            c = chr(draw.randrange(0x80))
        elif kind == 2 or roll < 0.3:
            c = chr(block + draw.randrange(0x100))
        elif kind == 3:
            c = chr(draw.randrange(0x20, 0x3000))
        else:
            c = chr(draw.randrange(0x110000))
        if roll > 0.9:
            c += draw.choice(marks)
        out.append(c)
    return "".join(out).encode("utf-8", "ignore").decode()  # without surrogates


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("logits", type=pathlib.Path)
    p.add_argument("--strings", type=int, default=100_000)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    wrong = 0
    marks = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c))[0] == "M"]
    runtime = program.Program(args.logits)
    tokens, merges = vocabulary(random.Random(args.seed))
    for form in fixtures.REGEX:
        draw, other, differ, normal = random.Random(args.seed), theirs(form, tokens, merges), [], 0
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "vocabulary.gguf"
            pairs = [("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", form), ("tokenizer.ggml.tokens", tokens),
                     ("tokenizer.ggml.merges", [" ".join(pair) for pair in merges])]
            gguf_io.finish(gguf_io.open_writer(path, "qwen35", "pairs", pairs))
            for i in range(args.strings):
                text = draw_string(draw, marks) or "a"
                answer = runtime.ask("text", "-" if i else path, text.encode().hex())
                if not answer.startswith("ok"):
                    sys.exit(f"compare_tokenizers: {answer}")
                if [int(x) for x in answer[2:].split(";")[0].split()] != other.encode(text).ids:
                    differ.append(text)
                normal += normalizers.NFC().normalize_str(text) != text
        wrong += len(differ)
        print(f"{form}: {args.strings} strings, {len(differ)} with other tokens; NFC would change {normal}", flush=True)
        for text in differ[:20]:
            print(f"  {ascii(text)}")
    return 1 if runtime.end() or wrong else 0


sys.exit(main())
