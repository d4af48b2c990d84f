#!/usr/bin/env python3
"""gdn run on files that are no models, or not for long: pipes, sockets, devices, folders, a file that shrinks while it is
read, weights that are no numbers, tensors on top of each other, a vocabulary without end. Each is an error with a text.

    test_files.py GDN FOLDER        GDN is the tool; FOLDER has fixtures/, and the repository's models in ../../models
"""
import fcntl
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys

import tool
from gguf_file import STRING, ARRAY, File
from tool import TOOL, require

MODEL = pathlib.Path(tool.MODEL)


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
    refused('within tensor "blk.', path)
    ne, _, data = whole.tensors["token_embd.weight"]
    path = whole.having(tensors={"token_embd.weight": (ne, 34, data)}).write(folder / "ternary.gguf")
    refused("tensor token_embd.weight has type TQ1_0 (ggml type 34); F32, F16, BF16, Q8_0", path)


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


tool.run_tests(special_files, shrinking, damaged, many_tokens)
