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
import tempfile

import tool
from tool import TOOL, failures, require

MODEL = pathlib.Path(tool.MODEL)


def gdn(model, *arguments):
    return subprocess.run([TOOL, "run", "-m", str(model), "-p", "In the beginning", "-n", "4", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=600)


def refused(says, model, *arguments):
    done = gdn(model, *arguments)
    require(done.returncode == 1 and says in done.stderr.decode() and not done.stdout.strip(), f"{model.name}: {says}", done)


class Gguf:
    """A file's bytes, and where its tensors and keys lie."""
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, path):
        self.bytes = bytearray(path.read_bytes())
        self.keys, self.tensors, self.alignment = {}, {}, 32
        n_tensors, n_keys = struct.unpack_from("<QQ", self.bytes, 8)
        at = 24
        for _ in range(n_keys):
            begin = at
            name, at = self.string(at)
            kind, value = struct.unpack_from("<I", self.bytes, at)[0], at + 4
            at = self.skip(kind, value)
            self.keys[name] = (begin, value, at)
        for _ in range(n_tensors):
            name, at = self.string(at)
            n_dims, = struct.unpack_from("<I", self.bytes, at)
            at += 4 + 8 * n_dims + 4
            self.tensors[name] = (at, struct.unpack_from("<Q", self.bytes, at)[0])
            at += 8
        self.meta_end = at
        self.data = -(-at // self.alignment) * self.alignment

    def string(self, at):
        n, = struct.unpack_from("<Q", self.bytes, at)
        return self.bytes[at + 8:at + 8 + n].decode("utf-8", "replace"), at + 8 + n

    def skip(self, kind, at):
        if kind == 8:
            return self.string(at)[1]
        if kind != 9:
            return at + self.SIZES[kind]
        element, count = struct.unpack_from("<IQ", self.bytes, at)
        at += 12
        for _ in range(count if element == 8 else 0):
            at = self.string(at)[1]
        return at + (0 if element == 8 else count * self.SIZES[element])

    def with_values(self, new):
        """The file with other values of some keys; their kinds stay."""
        out, at = bytearray(), 0
        for name in sorted(new, key=lambda name: self.keys[name][0]):
            _, value, end = self.keys[name]
            out += self.bytes[at:value] + new[name]
            at = end
        out += self.bytes[at:self.meta_end]
        return out + bytes(-len(out) % self.alignment) + self.bytes[self.data:]


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
    g = Gguf(MODEL)
    struct.pack_into("<f", g.bytes, g.data + g.tensors["output_norm.weight"][1], float("nan"))
    path = folder / "nan.gguf"
    path.write_bytes(g.bytes)
    for arguments in ([], ["--spec", "off", "--temp", "1"]):
        refused("the model computes no numbers: after", path, *arguments)
    done = gdn(path, "-p", "And", "--parallel", "2")  # nothing is written but what tells the texts apart
    text = re.sub(rb"==> \d: [A-Za-z ]+ <==\n", b"", done.stdout)
    require(done.returncode == 1 and b"the model computes no numbers" in done.stderr and not text.strip(), "several of it", done)
    done = gdn(path, "--bench", "--widths", "1", "--bench-prompt", "8")
    rows = [line for line in done.stdout.splitlines() if re.match(rb" *1 ", line)]
    require(done.returncode == 1 and b"the model computes no numbers" in done.stderr and not rows, "--bench of it", done)
    g = Gguf(MODEL)
    at, _ = g.tensors["blk.0.attn_norm.weight"]
    struct.pack_into("<Q", g.bytes, at, g.tensors["blk.1.attn_norm.weight"][1])
    path = folder / "overlap.gguf"
    path.write_bytes(g.bytes)
    refused('within tensor "blk.', path)
    g = Gguf(MODEL)
    struct.pack_into("<I", g.bytes, g.tensors["token_embd.weight"][0] - 4, 34)
    path = folder / "ternary.gguf"
    path.write_bytes(g.bytes)
    refused("tensor token_embd.weight has type TQ1_0 (ggml type 34); F32, F16, BF16, Q8_0", path)


def many_tokens(folder):
    """A million empty tokens are refused before there are tables of them; and a sound model where it would take too much."""
    n = 1 << 20
    g = Gguf(MODEL)
    tokens = struct.pack("<IQ", 8, n) + bytes(8 * n)
    types = struct.pack("<IQ", 0, n) + b"\1" * n
    path = folder / "many.gguf"
    path.write_bytes(g.with_values({"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}))
    refused("the tokenizer has 1048576 tokens and the embeddings have", path)
    for limit in (1, 6, 7):
        refused("not enough memory", MODEL, "--memory", str(limit))
    refused("not enough memory", MODEL, "--memory", "200", "--ctx", "1000000")
    refused("not enough memory", MODEL, "--memory", "200", "--batch", "60000")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        special_files(folder)
        shrinking(folder)
        damaged(folder)
        many_tokens(folder)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
