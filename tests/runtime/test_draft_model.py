#!/usr/bin/env python3
"""--draft-model: the MTP block in a file of its own drafts as in the file of the whole model, and files of other models are refused.

    test_draft_model.py GDN FOLDER   GDN is the tool; FOLDER has fixtures/, and the repository's models in ../../models
"""
import pathlib

import oracle
import tool
from gguf_file import File, value
from tool import FOLDER, MODEL, refused, require

COUNTS = ("drafted", "accepted", "rounds", "rollbacks")


def parts(path, folder):
    """(the trunk, the MTP block) of a model, as two files; the second as llama.cpp's converter writes it with --mtp."""
    whole = File(pathlib.Path(path))
    last = whole.number("block_count") - 1
    block = [name for name in whole.tensors if name.startswith(f"blk.{last}.")]
    trunk = whole.but({"block_count": last, "nextn_predict_layers": None}, dict.fromkeys(block))
    others = [name for name in whole.tensors if name.startswith("blk.") and name not in block]
    return trunk.write(folder / "trunk.gguf"), whole.having(tensors=dict.fromkeys(others)).write(folder / "mtp.gguf")


def drafts_alike(folder):
    for model, text in ((MODEL, "In the beginning"), (str(FOLDER / "fixtures/tiny-qwen35moe.gguf"), "abcabcabc")):
        trunk, block = parts(model, folder)
        common = ("-p", text, "-n", "40", "--ignore-end", "--always-draft")
        none = {"requests": [], **dict.fromkeys(COUNTS, 0)}
        whole = tool.report("-m", model, *common, otherwise=none)
        two = tool.report("-m", trunk, "--draft-model", block, *common, otherwise=none)
        require([two[name] for name in COUNTS] == [whole[name] for name in COUNTS] and whole["drafted"] > 20, f"{model}: drafts {two} {whole}")
        require([r["tokens"] for r in two["requests"]] == [r["tokens"] for r in whole["requests"]], f"{model}: the text")
        require(two["memory_bytes"]["weights"] == whole["memory_bytes"]["weights"], f"{model}: the weights are counted once")
        both = tool.report("-m", model, "--draft-model", block, *common, otherwise=none)
        require(both["accepted"] == whole["accepted"], f"{model}: a model with a block of its own takes the file's")


def what_the_file_leaves_out(folder):
    """The block's own embeddings, output matrix and norm are in the file, or they are the model's."""
    model = oracle.Model(seed=5, tied=False, nextn_predict_layers=1, block_count=3)
    letters = list("abcdefghijklmnopqrstuvw") + ["jj"]
    model.keys.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": letters, "tokenizer.ggml.token_type": [1] * len(letters),
                       "tokenizer.ggml.merges": ["j j"]})
    oracle.write(folder / "all.gguf", model)
    common, seen = ("-p", "abcabdabc", "-n", "30", "--ignore-end", "--always-draft"), set()
    for name in (None, "embed_tokens", "shared_head_head", "shared_head_norm"):
        path = File(folder / "all.gguf").having(tensors={f"blk.2.nextn.{name}.weight": None}).write(folder / "whole.gguf")
        trunk, block = parts(path, folder)
        # what is of the trunk, which the file does not have
        File(block).but({"full_attention_interval": 3}, {"output_norm.weight": None}).write(block)
        none = {"requests": [{"drafted": 0, "accepted": 0}]}
        whole, two = (tool.report("-m", m, *given, *common, otherwise=none)["requests"][0] for m, given in ((path, ()), (trunk, ("--draft-model", block))))
        require(two == {**whole, **{key: two[key] for key in whole if key.endswith("seconds")}}, f"without {name}: {two}, {whole}")
        seen.add((whole["drafted"], whole["accepted"]))
    require(len(seen) > 1, f"they do matter: {seen}")


def saves(folder):
    """Conversations and prefixes are those of the trunk, wherever the MTP block is; a context that no YaRN reads may differ."""
    trunk, block = parts(MODEL, folder)
    other = File(block).but({"context_length": 77}).write(folder / "other.gguf")
    models = (("-m", MODEL), ("-m", trunk, "--draft-model", other), ("-m", trunk), ("-m", MODEL, "--spec", "off"))
    talk = ("--chat", "--temp", "0", "-n", "20", "--ignore-end")
    want = tool.report("-m", MODEL, *talk, "-p", "Who?", "-p", "And?", "--save", folder / "all", otherwise={"turns": []})["turns"][1:]
    cache = ("--prefix-cache", "8", "--prefix-interval", "16", "-p", "In the beginning God created the heaven and the earth. " * 4, "-n", "4")
    for i, saved in enumerate(models):
        tool.report(*saved, *talk, "-p", "Who?", "--save", folder / "talk", otherwise={})
        tool.report(*saved, *cache, "--prefix-file", folder / f"prefixes{i}", otherwise={})
        for j, loaded in enumerate(models):
            turns = tool.report(*loaded, *talk, "-p", "And?", "--load", folder / "talk", otherwise={"turns": [{}]})["turns"]
            require([t.get("tokens") for t in turns] == [t["tokens"] for t in want], f"a conversation of {saved}, with {loaded}")
            found = tool.report(*loaded, *cache, "--prefix-file", folder / f"prefixes{i}", otherwise={"prefix_tokens": 0})["prefix_tokens"]
            require(found > 16, f"prefixes of {saved}, with {loaded}: {found}")


def other_models(folder):
    trunk, block = parts(MODEL, folder)
    given = ("-m", str(trunk), "-p", "x", "-n", "2", "--draft-model")
    bad = folder / "bad.gguf"
    file = File(block)
    last = file.number("block_count") - 1
    refused("has the blocks of a whole model", 1, *given, MODEL)
    refused("the file has no MTP block (qwen35.nextn_predict_layers is 0)", 1, *given, str(trunk))
    refused("name this one with --draft-model", 1, "-m", str(block), "-p", "x")
    for key, x, says in (("rope.freq_base", 5.0, "rope.freq_base is 5, and the model's is"), ("attention.layer_norm_rms_epsilon", 0.5, "layer_norm_rms_epsilon is 0.5"),
                         ("block_count", last + 2, "has no MTP block")):
        file.but({key: x}).write(bad)
        refused(says, 1, *given, str(bad))
    other = File(pathlib.Path(FOLDER / "fixtures/tiny-qwen35.gguf"))
    parts(FOLDER / "fixtures/tiny-qwen35.gguf", folder)
    refused("embedding_length is", 1, *given[:1], MODEL, *given[2:], str(folder / "mtp.gguf"))
    parts(FOLDER / "fixtures/tiny-qwen35moe.gguf", folder)
    refused("general.architecture is qwen35moe, and the model's is qwen35", 1, *given[:1], MODEL, *given[2:], str(folder / "mtp.gguf"))
    trunk, block = parts(MODEL, folder)
    tokens = file.strings("tokenizer.ggml.tokens")
    tokens[5], tokens[6] = tokens[6], tokens[5]
    file.having({"tokenizer.ggml.tokens": value(tokens)}).write(bad)
    refused("the tokenizer (tokenizer.ggml.*) differs from the model's", 1, *given, str(bad))
    ne, kind, data = file.tensors["token_embd.weight"]
    rows = len(data) // ne[1]
    file.having(tensors={"token_embd.weight": ([ne[0], ne[1] - 1], kind, data[:-rows])}).write(bad)
    refused("token_embd.weight: tokens is", 1, *given, str(bad))
    refused("there is no file", 1, *given, str(folder / "none.gguf"))
    refused("is for drafts of the model's MTP block", 2, *given, str(block), "--spec", "ngram")


tool.run_tests(drafts_alike, what_the_file_leaves_out, saves, other_models)
