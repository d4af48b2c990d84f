#!/usr/bin/env python3
"""Files of other converters: a fixture that is written in another way gives the same logits, to the bit, and the same drafts. What
is close to such a file but cannot be run is refused by name, and so is a file that is cut.

    test_variants.py LOGITS FOLDER        LOGITS is the program made of answers.c; FOLDER has fixtures/
"""
import math
import random
import struct

import tool
from gguf_file import File
from tool import FOLDER, Answers, require

TOKENS = "3 17 5 20 11 3 40 7 8 9 1 2 30"


class Runtime(Answers):
    def of(self, file, what="logits"):
        """The answer for a file, or for its bytes."""
        if isinstance(file, bytes):
            self.path.write_bytes(file)
        else:
            file.write(self.path)
        count = 5 if what == "drafts" else TOKENS.count(" ") + 1
        return self.ask(f"{what} {self.path} f16 64 {count} {TOKENS}")


def same(runtime, what, file, plain, ways=("logits", "trunk")):
    for way in ways:
        have = runtime.of(file, way)
        require(have == runtime.of(plain, way) and have.startswith("ok "), f"{what} ({file.arch}, {way}): {have[:200]}")


def refused(runtime, what, file, *says, ways=("logits", "trunk")):
    for way in ways:
        have = runtime.of(file, way)
        require(have.startswith("refused ") and all(x in have for x in says), f"{what} ({way}) is not refused with {says}: {have[:300]}")


def layers(file):
    """The number of trunk layers, and which of them are attention."""
    mtp = file.number("nextn_predict_layers") if f"{file.arch}.nextn_predict_layers" in file.keys else 0
    n = file.number("block_count") - mtp
    return n, mtp, [f"blk.{i}.attn_q.weight" in file.tensors for i in range(n)]


def head_counts(runtime, plain):
    n, mtp, attention = layers(plain)
    for name in ("attention.head_count", "attention.head_count_kv"):
        heads = plain.number(name)
        zeros = [heads if x else 0 for x in attention]
        for array in ([heads] * n, zeros, zeros + [heads] * mtp):
            same(runtime, f"{name} as {array}", plain.but({name: array}), plain)
        some = attention.index(True)
        refused(runtime, f"{name}: 0 for attention", plain.but({name: [heads if i != some else 0 for i in range(n)]}),
                f"{name}[{some}] is 0", f"layer {some} is one of attention")
        refused(runtime, f"{name}: layers that differ", plain.but({name: [heads] * (n - 1) + [2 * heads]}),
                f"{name}[0] is {heads} and", f"{name}[{n - 1}] is {2 * heads}")
        refused(runtime, f"{name}: too few", plain.but({name: [heads] * (n - 1)}), f"{name} has {n - 1} elements; {n}")
        refused(runtime, f"{name}: too many", plain.but({name: [heads] * (n + 2)}), f"{name} has {n + 2} elements; {n}")
        refused(runtime, f"{name}: none", plain.but({name: [0] * n}), f"all elements of {plain.arch}.{name} are 0")
        refused(runtime, f"{name}: below 0", plain.but({name: [-1] * n}), f"{name}[0] is -1; 1 to 4096")
        if mtp:
            refused(runtime, f"{name}: no heads of the MTP block", plain.but({name: zeros + [0]}), f"{name}[{n}] is 0")
    name = "feed_forward_length"
    if f"{plain.arch}.{name}" in plain.keys:
        same(runtime, f"{name} as an array", plain.but({name: [plain.number(name)] * n}), plain)
        refused(runtime, f"{name}: layers that differ", plain.but({name: [plain.number(name)] * (n - 1) + [64]}), f"{name}[0] is")
        refused(runtime, f"{name}: 0", plain.but({name: [0] + [plain.number(name)] * (n - 1)}), f"{name}[0] is 0")


def of_ollama(runtime, plain):
    n, mtp, attention = layers(plain)
    dt = plain.but(rename=[("ssm_dt.bias", "ssm_dt")])
    same(runtime, "ssm_dt without .bias", dt, plain)
    refused(runtime, "ssm_dt twice", dt.but(tensors={"blk.0.ssm_dt.bias": plain.tensors["blk.0.ssm_dt.bias"]}), "blk.0.ssm_dt")
    refused(runtime, "no ssm_dt", plain.but(tensors={"blk.0.ssm_dt.bias": None}), "tensor blk.0.ssm_dt.bias is missing")
    bundled = {"mtp.fc.weight": ([64, 2], 40, bytes(72)), "mtp.layers.0.self_attn.q_proj.weight": ([4], 0, bytes(16)), "v.blk.0.attn_q.weight": ([4], 0, bytes(16))}
    blob = dt.but({"attention.head_count_kv": [plain.number("attention.head_count_kv") if x else 0 for x in attention], "mrope_sections": [2, 1, 1],
                   "rope.mrope_section": [2, 1, 1], "rope.dimension_sections": [2, 1, 1]}, bundled)
    same(runtime, "a blob of Ollama's", blob, plain)
    if mtp:
        same(runtime, "its drafts", blob, plain, ["drafts"])


def join_qkvz(plain, layer):
    """attn_qkv and attn_gate as ssm_in: q, k, v and z of each key head together."""
    nk, nv, dk = (plain.number(f"ssm.{name}") for name in ("group_count", "time_step_rank", "state_size"))
    at = f"blk.{layer}."
    (width, n_qkv), kind, qkv = plain.tensors[at + "attn_qkv.weight"]
    (_, n_z), kind_z, z = plain.tensors[at + "attn_gate.weight"]
    assert kind == kind_z
    rows = [qkv[i * len(qkv) // n_qkv:(i + 1) * len(qkv) // n_qkv] for i in range(n_qkv)]
    z_rows = [z[i * len(z) // n_z:(i + 1) * len(z) // n_z] for i in range(n_z)]
    v, of_head, joined = 2 * nk * dk, nv // nk * dk, []
    for h in range(nk):
        joined += rows[h * dk:(h + 1) * dk] + rows[(nk + h) * dk:(nk + h + 1) * dk]
        joined += rows[v + h * of_head:v + (h + 1) * of_head] + z_rows[h * of_head:(h + 1) * of_head]
    return at + "ssm_in.weight", ([width, n_qkv + n_z], kind, b"".join(joined))


def early(runtime, plain):
    n, _, attention = layers(plain)
    nk, nv = plain.number("ssm.group_count"), plain.number("ssm.time_step_rank")
    assert nk > 1 and nv > nk
    changes = {}
    for layer in range(n):
        if not attention[layer]:
            name, tensor = join_qkvz(plain, layer)
            changes |= {name: tensor, f"blk.{layer}.attn_qkv.weight": None, f"blk.{layer}.attn_gate.weight": None}
    file = plain.but(tensors=changes)
    same(runtime, "ssm_in", file, plain)
    name, (ne, kind, data) = join_qkvz(plain, 0)
    refused(runtime, "ssm_in beside attn_qkv", plain.but(tensors={name: (ne, kind, data)}), f"tensor {name} is not used")
    refused(runtime, "ssm_in beside attn_gate", file.but(tensors={"blk.0.attn_gate.weight": plain.tensors["blk.0.attn_gate.weight"]}),
            "tensor blk.0.attn_gate.weight is not used")
    refused(runtime, "a short ssm_in", file.but(tensors={name: ([ne[0], ne[1] - 1], kind, data[:-len(data) // ne[1]])}), name, f"{ne[1]}, 1, 1}} is expected")
    refused(runtime, "neither", file.but(tensors={name: None}), "tensor blk.0.attn_qkv.weight is missing")


def rows(tensor, first, n):
    """Rows [first, first + n) of each matrix of a tensor."""
    ne, _, data = tensor
    one, count = len(data) // math.prod(ne[1:]), math.prod(ne[2:])
    return [data[one * (m * ne[1] + first):one * (m * ne[1] + first + n)] for m in range(count)]


def join_rows(tensors):
    """The tensors as one: of each matrix the rows of the first, then of the second, and so on."""
    (width, _, *count), kind, _ = tensors[0]
    parts = zip(*(rows(t, 0, t[0][1]) for t in tensors))
    return [width, sum(t[0][1] for t in tensors), *count], kind, b"".join(b"".join(part) for part in parts)


def fused(runtime, plain):
    """As llama.cpp's converter writes it with --fuse-qkv and --fuse-gate-up-exps."""
    n, mtp, attention = layers(plain)
    qkv, experts = {}, {}
    for layer in range(n + mtp):
        at = f"blk.{layer}."
        for many, one, out in ((("attn_q", "attn_k", "attn_v"), "attn_qkv", qkv), (("ffn_gate_exps", "ffn_up_exps"), "ffn_gate_up_exps", experts)):
            parts = [plain.tensors.get(f"{at}{name}.weight") for name in many]
            if all(parts) and len({part[1] for part in parts}) == 1:
                out |= {f"{at}{name}.weight": None for name in many} | {f"{at}{one}.weight": join_rows(parts)}
    for changes in (qkv, experts, qkv | experts):
        if changes:
            same(runtime, f"fused {list(changes)[-1]}", plain.but(tensors=changes), plain)
            if mtp:
                same(runtime, "its drafts", plain.but(tensors=changes), plain, ["drafts"])
    for changes in (qkv, experts):
        for name in [name for name, x in changes.items() if x is None][:3]:
            refused(runtime, f"{name} beside the fused one", plain.but(tensors={**changes, name: plain.tensors[name]}), "tensor blk.")
        for name in [name for name, x in changes.items() if x][:1]:
            ne, kind, data = changes[name]
            short = [ne[0], ne[1] - 1, *ne[2:]], kind, data[:-len(data) // ne[1]]
            refused(runtime, f"a short {name}", plain.but(tensors={**changes, name: short}), name, f"{{{ne[0]}, {ne[1]}, ")
    if qkv:
        fused_biases(runtime, plain, qkv)
    return bool(qkv), bool(experts)


def fused_biases(runtime, plain, qkv):
    """Biases of attention: each of its own, and together as attn_qkv.bias."""
    draw, apart, together = random.Random(3), {}, {}
    for at in {name.rsplit("attn_", 1)[0] for name in qkv}:
        numbers = []
        for name in ("attn_q", "attn_k", "attn_v"):
            n = plain.tensors[f"{at}{name}.weight"][0][1]
            one = struct.pack(f"<{n}f", *(draw.uniform(-1, 1) for _ in range(n)))
            numbers.append(one)
            apart[f"{at}{name}.bias"] = [n], 0, one
        together[f"{at}attn_qkv.bias"] = [sum(map(len, numbers)) // 4], 0, b"".join(numbers)
    with_biases = plain.but(tensors=apart)
    require(runtime.of(plain) != runtime.of(with_biases), "biases count")
    same(runtime, "fused biases", plain.but(tensors={**qkv, **together}), with_biases)
    same(runtime, "fused weights only", plain.but(tensors={**qkv, **apart}), with_biases)
    refused(runtime, "fused biases of weights that are not", plain.but(tensors=together), "attn_qkv.bias is not used")
    refused(runtime, "both kinds of biases", plain.but(tensors={**qkv, **together, **apart}), "bias is not used")


def shapes(runtime, plain):
    """The same elements in another shape."""
    for name, (ne, kind, data) in plain.tensors.items():
        layer = name.removeprefix("blk.0.")
        if kind != 0 or layer == name and name != "output_norm.weight" or layer == "ssm_a":
            continue
        wrong = [[ne[0] // 2, 2]] if len(ne) == 1 else [ne[::-1], [ne[0] * ne[1]], [ne[0] * 2, ne[1] // 2]]
        for other in wrong:
            if other != ne and math.prod(other) == math.prod(ne):
                refused(runtime, f"{name} as {other}", plain.but(tensors={name: (other, kind, data)}), f"tensor {name} has ne = {{{other[0]}, ", "is expected")
    name = "blk.0.ssm_a"
    ne, kind, data = plain.tensors[name]
    for head, x in ((0, 0.5), (1, math.nan), (1, -math.inf)):
        changed = data[:4 * head] + struct.pack("<f", x) + data[4 * head + 4:]
        refused(runtime, f"{name} of {x}", plain.but(tensors={name: (ne, kind, changed)}),
                f"tensor {name} has {x:g} for head {head}; finite numbers up to 0 are allowed")
    same(runtime, "ones in a shape", plain.but(tensors={name: ([1, *ne, 1], kind, data)}), plain)


def hidden_mtp(runtime, plain):
    """An MTP block that no key counts, and one alone."""
    n, mtp, _ = layers(plain)
    key = f"{plain.arch}.nextn_predict_layers"
    assert mtp
    refused(runtime, "a block without the key", plain.but({"nextn_predict_layers": None}), f"{key} is missing, but block {n} is an MTP block", "has to be 1")
    refused(runtime, "... of 0", plain.but({"nextn_predict_layers": 0}), f"{key} is 0, but block {n} is an MTP block")
    refused(runtime, "... that is not counted", plain.but({"nextn_predict_layers": None, "block_count": n}), key, f"block_count {n + 1}")
    alone = plain.but(tensors={name: None for name in plain.tensors if name.startswith("blk.") and not name.startswith(f"blk.{n}.")})
    refused(runtime, "an MTP block alone", alone, f"the MTP block of a model only, block {n}", "--mtp")


def absent_mtp(runtime, plain):
    n, mtp, _ = layers(plain)
    assert mtp
    file = plain.but(tensors={name: None for name in plain.tensors if name.startswith(f"blk.{n}.")})
    same(runtime, "an MTP block that is counted only", file, plain, ["trunk"])
    same(runtime, "no MTP block", file.but({"nextn_predict_layers": None, "block_count": n}), file, ["trunk"])
    refused(runtime, "an MTP block that is counted only", file, "MTP", f"block {n}", "--spec off", ways=["logits"])
    refused(runtime, "... without nextn_predict_layers", file.but({"nextn_predict_layers": None}), "MTP", f"no tensor of block {n}", "nextn_predict_layers")
    refused(runtime, "a part of one", plain.but(tensors={f"blk.{n}.nextn.enorm.weight": None}), f"blk.{n}.nextn.enorm.weight is missing")


def types(runtime, plain):
    ne, _, data = plain.tensors["token_embd.weight"]
    for number, name in ((34, "TQ1_0"), (35, "TQ2_0"), (40, "NVFP4"), (41, "Q1_0"), (42, "Q2_0"), (9, "Q8_1"), (15, "Q8_K"), (31, "Q4_0_4_4"), (24, "I8"),
                         (28, "F64"), (43, "unknown"), (999, "unknown")):
        bytes_of = {34: 54 / 256, 35: 66 / 256, 40: 36 / 64, 24: 1, 28: 8}.get(number, 0)
        if ne[0] % {34: 256, 35: 256, 40: 64}.get(number, 1) == 0:
            rest = bytes(int(ne[0] * ne[1] * bytes_of) or 32)
            refused(runtime, f"type {number}", plain.but(tensors={"token_embd.weight": (ne, number, rest)}),
                    f"token_embd.weight has type {name} (ggml type {number}); F32", "MXFP4")
    for number, name in ((24, "I8"), (28, "F64"), (41, "Q1_0")):
        ne = plain.tensors["blk.0.ssm_a"][0]
        refused(runtime, f"a vector of type {number}", plain.but(tensors={"blk.0.ssm_a": (ne, number, bytes(ne[0] * {24: 1, 28: 8, 41: 8}[number]))}), f"blk.0.ssm_a has type {name} (ggml type {number})")


def cut(runtime, plain):
    """At every length: within keys, within tensors' descriptions, within the data."""
    plain.write(runtime.path)
    whole = runtime.path.read_bytes()
    last = [data for _, _, data in plain.tensors.values()][-1]
    padding = -len(last) % 32
    for n in list(range(24, len(whole), len(whole) // 150)) + [len(whole) - padding - 1, len(whole) // 32 * 32 - 32]:
        refused(runtime, f"{n} of {len(whole)} bytes", whole[:n], "incomplete", ways=["logits"])
    n = len(whole) - padding - 4
    refused(runtime, "4 bytes are missing", whole[:n], f"the file ends at byte {n}, where the tensor needs {len(last)} bytes from byte {n + 4 - len(last)} on: "
            "the file is incomplete", list(plain.tensors)[-1], ways=["logits"])


def relations(runtime, plain):
    """Numbers that contradict each other."""
    n = layers(plain)[0]
    heads, values, size = plain.number("attention.head_count"), plain.number("ssm.time_step_rank"), plain.number("ssm.state_size")
    width = plain.number("attention.key_length")
    for changes, *says in (
            ({"block_count": 1, "nextn_predict_layers": 1}, "block_count leaves no layers before the MTP block"),
            ({"ssm.inner_size": 2 * values * size}, f"ssm.inner_size is {2 * values * size}; ", f"{size} x {values} is expected"),
            ({"ssm.time_step_rank": values + 1, "ssm.inner_size": (values + 1) * size}, f"time_step_rank is {values + 1}, which is no multiple"),
            ({"attention.head_count": heads + 1, "attention.head_count_kv": heads}, f"head_count is {heads + 1}, which is no multiple of head_count_kv"),
            ({"attention.head_count": 4096, "attention.key_length": None, "attention.value_length": None}, "a head has 2 to 4096 elements"),
            ({"attention.value_length": 2 * width}, f"value_length is {2 * width}; only key_length, {width}"),
            ({"rope.dimension_count": width + 2}, f"dimension_count is {width + 2}; even numbers to {width}"),
            ({"full_attention_interval": 1}, "the model has no recurrent layers"),
            ({"attention.recurrent_layers": [1] * (n - 1)}, f"has {n - 1} entries; {n} layers are expected")):
        refused(runtime, f"{changes}", plain.but(changes), *says)


def variants(folder):
    runtime = Runtime()
    runtime.path = folder / "model.gguf"
    fixture = {name: File(FOLDER / f"fixtures/tiny-{name}.gguf") for name in ("qwen35", "qwen35-mixed", "qwen35moe", "qwen3next")}
    for plain in fixture.values():
        head_counts(runtime, plain)
        relations(runtime, plain)
        of_ollama(runtime, plain)
        shapes(runtime, plain)
    count = [sum(x) for x in zip(*(fused(runtime, plain) for plain in fixture.values()))]
    require(count[0] > 1 and count[1] > 1, f"so many files have something to fuse: {count}")
    early(runtime, fixture["qwen3next"])
    hidden_mtp(runtime, fixture["qwen35"])
    hidden_mtp(runtime, fixture["qwen35moe"])
    refused(runtime, "ssm_in of qwen35", fixture["qwen35"].but(tensors=dict([join_qkvz(fixture["qwen35"], 0)])), "blk.0.ssm_in.weight is not used")
    absent_mtp(runtime, fixture["qwen35"])
    absent_mtp(runtime, fixture["qwen35moe"])
    types(runtime, fixture["qwen35-mixed"])
    cut(runtime, fixture["qwen35"])
    runtime.end()


tool.run_tests(variants)
