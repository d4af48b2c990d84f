#!/usr/bin/env python3
"""gdn run on files that are no models: pipes, sockets, devices, folders, and a file that shrinks while it is read. Also weights
that are no numbers, tensors that overlap, and a vocabulary without end. Each is an error with a text. And a model in several
files, which is named by its first part: the error of an incomplete set says what is wrong with it.

    test_files.py GDN FOLDER ANSWERS    GDN is the tool; FOLDER has fixtures/, and the repository's models in ../../models; ANSWERS
                                        is the program made of answers.c
"""
import fcntl
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys

import tool
from gguf_file import STRING, ARRAY, File, value
from tool import FOLDER, TOOL, Answers, require

MODEL = pathlib.Path(tool.MODEL)
TOKENS = " ".join(str(37 * i % 60) for i in range(24))


def gdn(model, *arguments):
    return tool.gdn("-m", model, "-p", "In the beginning", "-n", "4", *arguments)


def refused(says, model, *arguments):
    tool.refused(says, 1, "-m", model, "-p", "In the beginning", "-n", "4", *arguments)


def special_files(folder):
    pipe = folder / "pipe.gguf"
    os.mkfifo(pipe)
    refused("is not a regular file", pipe)
    refused("is not a regular file", folder)
    refused("is not a regular file", pathlib.Path("/dev/zero"))
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(folder)  # the name of a socket must be short
        listener.bind("s.gguf")
        os.chdir(here)
        refused("is not a regular file", folder / "s.gguf")
    (folder / "empty.gguf").write_bytes(b"")
    refused("is empty", folder / "empty.gguf")
    (folder / "link.gguf").symlink_to(MODEL.resolve())
    require(gdn(folder / "link.gguf").returncode == 0, "a link to a model is one")


def shrinking(folder):
    """Truncated when the first text has come: the pipe is too small for the rest of it, so the tool must go on after that."""
    path = folder / "shrinking.gguf"
    path.write_bytes(MODEL.read_bytes())
    run = subprocess.Popen([TOOL, "run", "-m", str(path), "-p", "And", "-n", "4000", "--ignore-end", "--threads", "2", "--ctx", "4200"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    if hasattr(fcntl, "F_SETPIPE_SZ") or sys.platform == "linux":
        fcntl.fcntl(run.stdout, getattr(fcntl, "F_SETPIPE_SZ", 1031), 4096)
    first = run.stdout.read(1)
    os.truncate(path, 1000)
    text, errors = run.communicate(timeout=600)
    done = subprocess.CompletedProcess(run.args, run.returncode, first + text, errors)
    require(first and run.returncode == 1 and b"shrinking.gguf shrank or cannot be read any more" in errors, "a model that shrinks", done)


def damaged(folder):
    whole = File(MODEL)
    ne, kind, data = whole.tensors["output_norm.weight"]
    path = whole.having(tensors={"output_norm.weight": (ne, kind, struct.pack("<f", float("nan")) + data[4:])}).write(folder / "nan.gguf")
    for arguments in ([], ["--spec", "off", "--temp", "1"]):
        refused("the model computes no numbers: after", path, *arguments)
    done = gdn(path, "-p", "And", "--parallel", "2")  # nothing is written but what tells the texts apart
    text = re.sub(rb"==> \d: [A-Za-z ]+ <==\n", b"", done.stdout)
    require(done.returncode == 1 and b"the model computes no numbers" in done.stderr and not text.strip(), "several of it", done)
    done = gdn(path, "--bench", "--widths", "1", "--bench-prompt", "8")
    rows = [line for line in done.stdout.splitlines() if re.match(rb" *1 ", line)]
    require(done.returncode == 1 and b"the model computes no numbers" in done.stderr and not rows, "--bench of it", done)
    path = whole.write(folder / "overlap.gguf", {"blk.0.attn_norm.weight": "blk.1.attn_norm.weight"})
    refused('is expected, where the tensor before it ends', path)
    name = "blk.0.attn_norm.weight"  # of another type, so that what is behind it no longer follows
    ne, kind, data = whole.tensors[name]
    path = whole.having(tensors={name: (ne, 8, data)}).write(folder / "hole.gguf")
    refused("is expected, where the tensor before it ends", path)
    ne, _, data = whole.tensors["token_embd.weight"]
    path = whole.having(tensors={"token_embd.weight": (ne, 34, bytes(ne[0] // 256 * 54 * ne[1]))}).write(folder / "ternary.gguf")
    refused("tensor token_embd.weight has type TQ1_0 (ggml type 34); F32, F16, BF16, Q8_0", path)


def defaults(folder):
    """Keys that converters write: without one there is a note."""
    whole = File(MODEL)
    require(b"note: the model has no key" not in gdn(MODEL).stderr, "no note without a reason")
    for name in ("attention.key_length", "rope.dimension_count", "rope.freq_base", "full_attention_interval", "tokenizer.ggml.pre"):
        key = name if name.startswith("tokenizer") else f"{whole.arch}.{name}"
        done = gdn(whole.having({key: None}).write(folder / "default.gguf"))
        require(key not in whole.keys or f"note: the model has no key {key}: it is taken as".encode() in done.stderr, f"a note on {key}", done)


def many_tokens(folder):
    """A million empty tokens are refused before there are tables of them; and a sound model where it would take too much."""
    n = 1 << 20
    keys = {"tokens": struct.pack("<IIQ", ARRAY, STRING, n) + bytes(8 * n), "token_type": struct.pack("<IIQ", ARRAY, 0, n) + b"\1" * n}
    path = File(MODEL).having({f"tokenizer.ggml.{name}": value for name, value in keys.items()}).write(folder / "many.gguf")
    refused("the tokenizer has 1048576 tokens and the embeddings have", path)
    for limit in (1, 6, 7):
        refused("not enough memory", MODEL, "--memory", str(limit))
    refused("not enough memory", MODEL, "--memory", "200", "--ctx", "1000000")
    refused("not enough memory", MODEL, "--memory", "200", "--batch", "60000")


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


def same_in_parts(folder):
    logits = Answers(sys.argv[3])
    for name, shares in (("tiny-qwen35", (0.3, 0.3)), ("tiny-qwen35-mixed", (0, 0.5, 0.2)), ("tiny-qwen35moe", (1,))):
        whole = FOLDER / f"fixtures/{name}.gguf"
        answers = [logits.ask(f"logits {path} f16 64 24 {TOKENS}") for path in (whole, split(whole, folder, name, shares)[0])]
        require(answers[0] == answers[1] and answers[0].startswith("ok "), f"{name} in {len(shares) + 1} parts has the same logits: {answers[1][:200]}")
    logits.end()


def parts_of_a_file(folder):
    paths = split(MODEL, folder, "kjv", (0.4, 0.4))
    reports = [tool.report("-m", model, "-p", "In the beginning", "-n", "12", "--seed", "3", "--temp", "1", otherwise={"requests": []})
               for model in (MODEL, paths[0])]
    texts = [[request["tokens"] for request in report["requests"]] for report in reports]
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


tool.run_tests(special_files, shrinking, damaged, defaults, many_tokens, same_in_parts, parts_of_a_file)
