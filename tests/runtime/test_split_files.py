#!/usr/bin/env python3
"""A model in several files: gdn run and the runtime take it by its first part, and say what is wrong with a set that is not whole.

    test_split_files.py GDN FOLDER TEST_RT_SPLIT      TEST_RT_SPLIT compares logits, see test_split.c
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import tool
from tool import TOOL, failures, require

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def string(data, at):
    n, = struct.unpack_from("<Q", data, at)
    return data[at + 8:at + 8 + n], at + 8 + n


def skip(data, kind, at):
    if kind == 8:
        return string(data, at)[1]
    if kind != 9:
        return at + SIZES[kind]
    element, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if element != 8:
        return at + count * SIZES[element]
    for _ in range(count):
        at = string(data, at)[1]
    return at


def read(path):
    """The keys' bytes, their number, and per tensor: description up to its offset, data with what pads it."""
    data = path.read_bytes()
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(n_keys):
        at = string(data, at)[1]
        at = skip(data, struct.unpack_from("<I", data, at)[0], at + 4)
    keys, descriptions, offsets = data[24:at], [], []
    for _ in range(n_tensors):
        begin, at = at, string(data, at)[1]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        descriptions.append(data[begin:at])
        offsets.append(struct.unpack_from("<Q", data, at)[0])
        at += 8
    body = data[-(-at // 32) * 32:]
    ends = sorted(offsets + [len(body)])
    return keys, n_keys, [(text, body[o:ends[ends.index(o) + 1]]) for text, o in zip(descriptions, offsets)]


def key(name, kind, form, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I" + form, kind, value)


def write(path, keys, n_keys, tensors, no, count, total):
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), n_keys + 3) + keys
    out += key("split.no", 2, "H", no) + key("split.count", 2, "H", count) + key("split.tensors.count", 5, "i", total)
    at, data = 0, b""
    for text, body in tensors:
        body += bytes(-len(body) % 32)
        out += text + struct.pack("<Q", at)
        data += body
        at += len(body)
    path.write_bytes(out + bytes(-len(out) % 32) + data)


def split(model, folder, name, shares):
    """Parts with these shares of the tensors (the last has the rest); returns their paths."""
    keys, n_keys, tensors = read(model)
    count, at, paths = len(shares) + 1, 0, []
    for no in range(count):
        n = int(shares[no] * len(tensors)) if no < len(shares) else len(tensors) - at
        paths.append(folder / f"{name}-{no + 1:05d}-of-{count:05d}.gguf")
        write(paths[-1], b"" if no else keys, 0 if no else n_keys, tensors[at:at + n], no, count, len(tensors))
        at += n
    return paths


def gdn(model, *arguments):
    return subprocess.run([TOOL, "run", "-m", str(model), "-p", "In the beginning", "-n", "12", "--seed", "3", "--temp", "1", "--json", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=600)


def refused(says, model, *arguments):
    done = gdn(model, *arguments)
    require(done.returncode == 1 and says in done.stderr.decode() and not done.stdout.strip(), f"{model.name}: {says}", done)


def same(folder):
    fixtures = pathlib.Path(sys.argv[2]) / "fixtures"
    for model, shares in (("tiny-qwen35.gguf", (0.3, 0.3)), ("tiny-qwen35-mixed.gguf", (0, 0.5, 0.2)), ("tiny-qwen35moe.gguf", (1,))):
        first = split(fixtures / model, folder, model[:-5], shares)[0]
        done = subprocess.run([sys.argv[3], sys.argv[2], fixtures / model, first], capture_output=True, timeout=600)
        require(done.returncode == 0, f"{model} in {len(shares) + 1} parts has the same logits", done)


def of_a_file(folder):
    paths = split(pathlib.Path(tool.MODEL), folder, "kjv", (0.4, 0.4))
    texts = []
    for model in (tool.MODEL, paths[0]):
        done = gdn(model)
        require(done.returncode == 0, f"{model} runs", done)
        texts.append([request["tokens"] for request in json.loads(done.stdout)["requests"]] if done.returncode == 0 else [])
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


def main():
    with tempfile.TemporaryDirectory() as name:
        same(pathlib.Path(name))
        of_a_file(pathlib.Path(name))
    print(f"{len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
