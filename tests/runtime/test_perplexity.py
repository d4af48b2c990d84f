#!/usr/bin/env python3
"""gdn run --perplexity, against the sums of log-probabilities that the forward pass of oracle.py gives, in Python's own floats.

    test_perplexity.py GDN FOLDER   GDN is the tool; FOLDER has the repository's models in ../../models
"""
import json
import math
import re

import oracle
import tool
from tool import MODEL, gdn, refused, require

VOCABULARY = list("abcdefghijklmnopqrstuvw") + ["jj"]  # one merge, since a tokenizer must have some
TEXT = "thequickbronfoejumpsoverthelangelahandhasaneggatnoonsothatislonger"
TOKENS = [VOCABULARY.index(letter) for letter in TEXT]
BOS = VOCABULARY.index("w")


def speaking(folder, bos):
    """A tiny model with a token for each letter. bos: texts begin with BOS."""
    model = oracle.Model(seed=3, tied=False)
    model.keys.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": VOCABULARY, "tokenizer.ggml.token_type": [1] * len(VOCABULARY),
                       "tokenizer.ggml.merges": ["j j"], "tokenizer.ggml.bos_token_id": BOS, "tokenizer.ggml.add_bos_token": bos})
    oracle.write(folder / "speaking.gguf", model)
    (folder / "text.txt").write_text(TEXT + "\n")
    return model


def logprob(scores, token):
    highest = max(scores)
    return scores[token] - highest - math.log(sum(math.exp(x - highest) for x in scores))


def expected(model, tokens, window, bos):
    """Perplexities after each window, and the standard error of the last one."""
    each, after = [], []
    for begin in range(0, len(tokens) - window + 1, window):
        read = tokens[begin:begin + window]
        inputs = [BOS] + read[1:] if bos else read
        scores = oracle.logits(model, inputs, kv="f16")
        rows = [scores[i:i + oracle.VOCABULARY] for i in range(0, len(scores), oracle.VOCABULARY)]
        each += [logprob(rows[i], read[i + 1]) for i in range(window // 2, window - 1)]
        after.append(math.exp(-sum(each) / len(each)))
    mean = sum(each) / len(each)
    variance = sum((x - mean) ** 2 for x in each) / len(each)
    return after, after[-1] * math.sqrt(variance / (len(each) - 1)), len(each)


def near(have, want):
    return abs(have - want) < 2e-3 * want


def like_the_formula(folder):
    for bos in (False, True):
        model = speaking(folder, bos)
        tokens = [BOS] * bos + TOKENS
        for window in (8, 13, 40):  # of 40 one window, with more than one part of scored rows
            after, error, n = expected(model, tokens, window, bos)
            done = gdn("-m", folder / "speaking.gguf", "--perplexity", folder / "text.txt", "--ctx", window, "--json")
            what = f"perplexity, window {window}, bos {bos}"
            require(done.returncode == 0, what, done)
            if done.returncode:
                continue
            report = json.loads(done.stdout)
            require(report["windows"] == len(after) and report["scored_tokens"] == n, f"{what}: windows and tokens", done)
            require(near(report["perplexity"], after[-1]) and near(report["standard_error"], error), f"{what}: {after[-1]} +/- {error}", done)
            shown = re.findall(rb"\[(\d+)\]([0-9.]+)", done.stderr)
            require([int(number) for number, _ in shown] == list(range(1, len(after) + 1)), f"{what}: progress", done)
            require(all(near(float(have), want) for (_, have), want in zip(shown, after)), f"{what}: {after} as progress", done)


def same_bits(folder):
    (folder / "text.txt").write_text("In the beginning God created the heaven and the earth. " * 12)
    given = ("-m", MODEL, "--perplexity", folder / "text.txt", "--ctx", "70")
    plain = gdn(*given)
    require(re.fullmatch(rb"PPL = \d+\.\d{4} \+/- \d+\.\d{5}\n", plain.stdout) and plain.returncode == 0, "the last line", plain)
    for way in (("--batch", "5"), ("--threads", "1"), ("--isa", "scalar", "--impl", "scalar")):
        done = gdn(*given, *way)
        require((done.stdout, done.stderr) == (plain.stdout, plain.stderr), f"{way}: the same perplexity", done)
    done = gdn("-m", MODEL, "--perplexity", "-", "--ctx", "70", text=(folder / "text.txt").read_bytes())
    require(done.stdout == plain.stdout, "of standard input", done)


def refusals(folder):
    (folder / "text.txt").write_text("In the beginning")
    given = ("-m", MODEL, "--perplexity", str(folder / "text.txt"))
    refused("a window has 512 (--ctx)", 2, *given)
    refused("--ctx is 7; 8 to", 2, *given, "--ctx", "7")
    for option in (("-p", "x"), ("--chat",), ("--spec", "mtp"), ("--temp", "1"), ("--bench",), ("--parallel", "2"), ("--stats",)):
        refused("has no effect with --perplexity", 2, *given, *option)
    refused("No such file", 1, "-m", MODEL, "--perplexity", str(folder / "none.txt"))


tool.run_tests(like_the_formula, same_bits, refusals)
