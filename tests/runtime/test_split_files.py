#!/usr/bin/env python3
"""A model in several files: gdn run and the runtime take it by its first part, and say what is wrong with a set that is not whole.

    test_split_files.py GDN FOLDER LOGITS      LOGITS is the program made of logits.c
"""
import pathlib
import shutil
import sys

import tool
from gguf_file import File, value
from tool import FOLDER, Answers, require

TOKENS = " ".join(str(37 * i % 60) for i in range(24))


def split(model, folder, name, shares):
    """Parts with these shares of the tensors (the last has the rest); returns their paths."""
    whole, paths = File(model), []
    names, count, at = list(whole.tensors), len(shares) + 1, 0
    for no in range(count):
        n = int(shares[no] * len(names)) if no < len(shares) else len(names) - at
        part = whole.having(tensors=dict.fromkeys(names[:at] + names[at + n:]))
        part.keys = {**({} if no else whole.keys), "split.no": value(no), "split.count": value(count), "split.tensors.count": value(len(names))}
        paths.append(part.write(folder / f"{name}-{no + 1:05d}-of-{count:05d}.gguf"))
        at += n
    return paths


def options(model):
    return "-m", model, "-p", "In the beginning", "-n", "12", "--seed", "3", "--temp", "1"


def refused(says, model, *arguments):
    tool.refused(says, 1, *options(model), *arguments)


def same(folder):
    logits = Answers(sys.argv[3])
    for name, shares in (("tiny-qwen35", (0.3, 0.3)), ("tiny-qwen35-mixed", (0, 0.5, 0.2)), ("tiny-qwen35moe", (1,))):
        whole = FOLDER / f"fixtures/{name}.gguf"
        answers = [logits.ask(f"logits {path} f16 64 24 {TOKENS}") for path in (whole, split(whole, folder, name, shares)[0])]
        require(answers[0] == answers[1] and answers[0].startswith("ok "), f"{name} in {len(shares) + 1} parts has the same logits: {answers[1][:200]}")
    logits.end()


def of_a_file(folder):
    paths = split(pathlib.Path(tool.MODEL), folder, "kjv", (0.4, 0.4))
    texts = [[request["tokens"] for request in tool.report(*options(model), otherwise={"requests": []})["requests"]] for model in (tool.MODEL, paths[0])]
    require(texts[0] == texts[1] and texts[0] and texts[0][0], f"the whole and its parts say the same: {texts}")
    refused("kjv-00002-of-00003.gguf is part 2 of 3 of a model; open the first part, kjv-00001-of-00003.gguf", paths[1])
    refused("not enough memory", paths[0], "--memory", "6")
    other = folder / "first.gguf"
    shutil.copy(paths[0], other)
    refused("its name does not end in -00001-of-00003.gguf", other)
    other = folder / "part-of-it.gguf"
    shutil.copy(paths[2], other)
    refused("part-of-it.gguf is part 3 of 3 of a model; open the first part", other)
    kept = paths[2].read_bytes()
    shutil.copy(paths[1], paths[2])
    refused("kjv-00003-of-00003.gguf: split.no is 1 and split.count 3; 2 and 3 are expected", paths[0])
    paths[2].write_bytes(kept[:len(kept) - 100])
    refused("kjv-00003-of-00003.gguf: tensor", paths[0])
    paths[2].unlink()
    refused(f"part 3 of 3 of the model is missing: there is no file {paths[2]}", paths[0])
    paths[2].mkdir()
    refused("kjv-00003-of-00003.gguf is not a regular file", paths[0])


tool.run_tests(same, of_a_file)
