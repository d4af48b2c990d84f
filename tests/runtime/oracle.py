"""What a model computes, in Python's own floats, and model files, written from the formats and the formulas. Nothing here is
shared with the runtime, so that an error of one does not hide in the other. Slow: for models of a few thousand weights.

A model is a Model: `keys`, {name: value} of its metadata, `<arch>.` left out where it belongs, and `tensors`,
{name: (shape, floats)}, the innermost dimension first, as GGUF has it. logits() and drafts() are computed of these alone.
"""
import array
import math
import random
import struct
import sys
from operator import mul

import gguf_file


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def f16(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def bf16(x):
    bits, = struct.unpack("<I", struct.pack("<f", x))
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def q8_0(x):
    """Each 32 elements as a step in binary16 times bytes, which are rounded by the step in binary32."""
    out = []
    for block in (x[i:i + 32] for i in range(0, len(x), 32)):
        step = f32(max(map(abs, block)) / 127)
        out += [f16(step) * round(c / step) if step else 0.0 for c in block]
    return out


# what a key or value of some heads becomes where it is kept, by --kv
KEPT = {"f32": list, "f16": lambda x: [f16(c) for c in x], "bf16": lambda x: [bf16(c) for c in x], "q8_0": q8_0}


# ---- files ----

def little(floats):
    numbers = array.array("f", floats)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def write(path, model):
    file = gguf_file.File()
    file.keys = {name if name.startswith(("general.", "tokenizer.")) else f"{model.arch}.{name}": gguf_file.value(x) for name, x in model.keys.items()}
    file.tensors = {name: (shape, 0, little(floats)) for name, (shape, floats) in model.tensors.items()}
    file.write(path)


# ---- models ----

VOCABULARY = 24
SIZES = {"block_count": 2, "embedding_length": 32, "context_length": 64, "feed_forward_length": 32, "full_attention_interval": 2,
         "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 8, "attention.value_length": 8,
         "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": 8, "rope.freq_base": 100.0, "ssm.conv_kernel": 3,
         "ssm.state_size": 16, "ssm.group_count": 1, "ssm.time_step_rank": 2, "ssm.inner_size": 32}
EXPERTS = {"expert_count": 3, "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 32}


class Model:
    """arch, and keys that differ from those above (None: the key is not there). biases: attention has them; tied: no output.weight."""

    def __init__(self, arch="qwen35", seed=1, biases=False, tied=True, **changes):
        keys = dict(SIZES)
        if arch != "qwen35":
            keys.update(EXPERTS)
        keys.update({name.replace("__", "."): x for name, x in changes.items()})
        self.arch = arch
        self.keys = {"general.architecture": arch, **{name: x for name, x in keys.items() if x is not None}}
        self.random = random.Random(seed)
        self.tensors = {}
        self.make_tensors(biases, tied)

    def get(self, name, otherwise=None):
        return self.keys.get(name, otherwise)

    # sizes
    @property
    def n_mtp(self):
        return self.get("nextn_predict_layers", 0)

    @property
    def n_layers(self):
        return self.get("block_count") - self.n_mtp

    def is_recurrent(self, layer):
        if layer >= self.n_layers:
            return False
        listed = self.get("attention.recurrent_layers")
        return bool(listed[layer]) if listed else (layer + 1) % self.get("full_attention_interval", 4) != 0

    @property
    def head_dim(self):
        return self.get("attention.key_length", self.get("embedding_length") // self.get("attention.head_count"))

    def put(self, name, shape, low=-0.5, high=0.5):
        count = math.prod(shape)
        self.tensors[name] = (shape, array.array("f", [low + (high - low) * self.random.random() for _ in range(count)]))

    def make_tensors(self, biases, tied):
        e, hd, nh, nkv = self.get("embedding_length"), self.head_dim, self.get("attention.head_count"), self.get("attention.head_count_kv")
        d, nk, nv = self.get("ssm.state_size"), self.get("ssm.group_count"), self.get("ssm.time_step_rank")
        channels = d * (2 * nk + nv)
        self.put("token_embd.weight", (e, VOCABULARY), -1, 1)
        if not tied:
            self.put("output.weight", (e, VOCABULARY))
        self.put("output_norm.weight", (e,), 0.8, 1.2)
        for layer in range(self.get("block_count")):
            at = f"blk.{layer}."
            self.put(at + "attn_norm.weight", (e,), 0.8, 1.2)
            self.put(at + "post_attention_norm.weight", (e,), 0.8, 1.2)
            if self.is_recurrent(layer):
                self.put(at + "attn_qkv.weight", (e, channels))
                self.put(at + "attn_gate.weight", (e, nv * d))
                if self.arch == "qwen3next":
                    self.put(at + "ssm_ba.weight", (e, 2 * nv))
                else:
                    self.put(at + "ssm_beta.weight", (e, nv))
                    self.put(at + "ssm_alpha.weight", (e, nv))
                self.put(at + "ssm_conv1d.weight", (self.get("ssm.conv_kernel"), channels))
                self.put(at + "ssm_dt.bias", (nv,), -1, 1)
                self.put(at + "ssm_a", (nv,), -1, -0.01)
                self.put(at + "ssm_norm.weight", (d,), 0.8, 1.2)
                self.put(at + "ssm_out.weight", (nv * d, e))
            else:
                self.put(at + "attn_q.weight", (e, 2 * hd * nh))
                self.put(at + "attn_k.weight", (e, hd * nkv))
                self.put(at + "attn_v.weight", (e, hd * nkv))
                self.put(at + "attn_output.weight", (hd * nh, e))
                self.put(at + "attn_q_norm.weight", (hd,), 1, 2.5)
                self.put(at + "attn_k_norm.weight", (hd,), 1, 2.5)
                if biases:
                    self.put(at + "attn_q.bias", (2 * hd * nh,), -1, 1)
                    self.put(at + "attn_k.bias", (hd * nkv,), -1, 1)
                    self.put(at + "attn_v.bias", (hd * nkv,), -1, 1)
                    self.put(at + "attn_output.bias", (e,), -1, 1)
            self.make_feed_forward(at, e)
            if layer >= self.n_layers:
                self.put(at + "nextn.eh_proj.weight", (2 * e, e))
                for name in ("enorm", "hnorm", "shared_head_norm"):
                    self.put(at + f"nextn.{name}.weight", (e,), 0.8, 1.2)
                self.put(at + "nextn.embed_tokens.weight", (e, VOCABULARY), -1, 1)
                self.put(at + "nextn.shared_head_head.weight", (e, VOCABULARY))

    def make_feed_forward(self, at, e):
        experts, shared = self.get("expert_count", 0), self.get("expert_shared_feed_forward_length", 0)
        if not experts:
            f = self.get("feed_forward_length")
            for name, shape in (("gate", (e, f)), ("up", (e, f)), ("down", (f, e))):
                self.put(at + f"ffn_{name}.weight", shape)
            return
        f = self.get("expert_feed_forward_length")
        self.put(at + "ffn_gate_inp.weight", (e, experts))
        for name, shape in (("gate", (e, f, experts)), ("up", (e, f, experts)), ("down", (f, e, experts))):
            self.put(at + f"ffn_{name}_exps.weight", shape)
        if shared:
            self.put(at + "ffn_gate_inp_shexp.weight", (e,))
            for name, shape in (("gate", (e, shared)), ("up", (e, shared)), ("down", (shared, e))):
                self.put(at + f"ffn_{name}_shexp.weight", shape)


# ---- the forward pass ----

def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def dot(a, b):
    return sum(map(mul, a, b))


class Pass:
    """A text going through a model, token by token. kv: the type in which keys and values are kept."""

    def __init__(self, model, kv="f32"):
        self.m, self.kept = model, KEPT[kv]
        self.eps = model.get("attention.layer_norm_rms_epsilon")
        self.rows = {name: [list(floats[i:i + shape[0]]) for i in range(0, len(floats), shape[0])]
                     for name, (shape, floats) in model.tensors.items()}
        self.conv, self.state, self.cells, self.mtp_cells = {}, {}, {}, []
        self.frequencies, self.magnitude = rotary(model)
        self.position = 0

    def matrix(self, name, x, expert=0):
        n = self.m.tensors[name][0][1]
        return [dot(row, x) for row in self.rows[name][expert * n:(expert + 1) * n]]

    def vector(self, name):
        return self.m.tensors[name][1]

    def rms(self, x, name):
        scale = 1 / math.sqrt(dot(x, x) / len(x) + self.eps)
        return [a * scale * b for a, b in zip(x, self.vector(name))]

    def delta_net(self, layer, x):
        get, at = self.m.get, f"blk.{layer}."
        d, nk, nv, width = (get("ssm." + key) for key in ("state_size", "group_count", "time_step_rank", "conv_kernel"))
        past = self.conv.setdefault(layer, [[0.0] * (d * (2 * nk + nv))] * (width - 1))
        past.append(self.matrix(at + "attn_qkv.weight", x))
        mixed = [silu(dot(taps, column)) for taps, column in zip(self.rows[at + "ssm_conv1d.weight"], zip(*past[-width:]))]
        self.conv[layer] = past[1:]
        gate = self.matrix(at + "attn_gate.weight", x)
        if self.m.arch == "qwen3next":  # by key head: b of its value heads, then a of them
            both, r = self.matrix(at + "ssm_ba.weight", x), nv // nk
            b = [both[h // r * 2 * r + h % r] for h in range(nv)]
            a = [both[h // r * 2 * r + r + h % r] for h in range(nv)]
        else:
            b, a = self.matrix(at + "ssm_beta.weight", x), self.matrix(at + "ssm_alpha.weight", x)
        states, out = self.state.setdefault(layer, [[[0.0] * d for _ in range(d)] for _ in range(nv)]), []
        for h in range(nv):
            key_head = h // (nv // nk) if self.m.arch == "qwen3next" else h % nk
            q, k = (mixed[(first + key_head) * d:(first + key_head + 1) * d] for first in (0, nk))
            v = mixed[(2 * nk + h) * d:(2 * nk + h + 1) * d]
            q, k = ([c / math.sqrt(dot(y, y) + 1e-6) for c in y] for y in (q, k))
            decay = math.exp(self.vector(at + "ssm_a")[h] * softplus(a[h] + self.vector(at + "ssm_dt.bias")[h]))
            s, beta, result = states[h], sigmoid(b[h]), []
            for j in range(d):  # a column per element of v
                column = [c * decay for c in s[j]]
                step = beta * (v[j] - dot(column, k))
                s[j] = [c + step * kk for c, kk in zip(column, k)]
                result.append(dot(s[j], q) / math.sqrt(d))
            out += [y * silu(z) for y, z in zip(self.rms(result, at + "ssm_norm.weight"), gate[h * d:(h + 1) * d])]
        return self.matrix(at + "ssm_out.weight", out)

    def turn(self, x, position):
        half, out = len(self.frequencies), list(x)
        for i, frequency in enumerate(self.frequencies):
            c, s = (self.magnitude * of(position * frequency) for of in (math.cos, math.sin))
            out[i], out[i + half] = x[i] * c - x[i + half] * s, x[i + half] * c + x[i] * s
        return out

    def attention(self, layer, x, position, cells, wanted=True):
        get, at, hd = self.m.get, f"blk.{layer}.", self.m.head_dim
        nh, nkv = get("attention.head_count"), get("attention.head_count_kv")

        def project(name):
            y = self.matrix(at + f"attn_{name}.weight", x)
            bias = self.m.tensors.get(at + f"attn_{name}.bias")
            return [a + b for a, b in zip(y, bias[1])] if bias else y

        both, k, v = project("q"), project("k"), project("v")
        scale = get("attention.scale", 0) or 1 / math.sqrt(hd)
        k = [c for h in range(nkv) for c in self.turn(self.rms(k[h * hd:(h + 1) * hd], at + "attn_k_norm.weight"), position)]
        cells.append([self.kept(k), self.kept(v)])
        if not wanted:
            return None
        out = []
        for h in range(nh):
            q = self.turn(self.rms(both[2 * h * hd:(2 * h + 1) * hd], at + "attn_q_norm.weight"), position)
            first = h // (nh // nkv) * hd
            scores = [scale * dot(q, cell[0][first:first + hd]) for cell in cells]
            top = max(scores)
            shares = [math.exp(s - top) for s in scores]
            total = sum(shares)
            mixed = [dot(shares, column) / total for column in zip(*(cell[1][first:first + hd] for cell in cells))]
            out += [y * sigmoid(g) for y, g in zip(mixed, both[(2 * h + 1) * hd:(2 * h + 2) * hd])]
        bias = self.m.tensors.get(at + "attn_output.bias")
        y = self.matrix(at + "attn_output.weight", out)
        return [a + b for a, b in zip(y, bias[1])] if bias else y

    def swiglu(self, at, suffix, x, expert=0):
        gate, up = (self.matrix(f"{at}ffn_{name}{suffix}.weight", x, expert) for name in ("gate", "up"))
        return self.matrix(f"{at}ffn_down{suffix}.weight", [silu(g) * u for g, u in zip(gate, up)], expert)

    def feed_forward(self, layer, x):
        get, at = self.m.get, f"blk.{layer}."
        if not get("expert_count", 0):
            return self.swiglu(at, "", x)
        p = self.matrix(at + "ffn_gate_inp.weight", x)
        shares = [math.exp(a - max(p)) for a in p]
        shares = [a / sum(shares) for a in shares]
        chosen = sorted(range(len(p)), key=lambda i: -p[i])[:get("expert_used_count")]
        total = sum(shares[i] for i in chosen) if get("expert_weights_norm", True) else 1
        y = [0.0] * len(x)
        for i in chosen:
            weight = shares[i] / total * (get("expert_weights_scale", 0) or 1)
            y = [a + weight * b for a, b in zip(y, self.swiglu(at, "_exps", x, i))]
        if get("expert_shared_feed_forward_length", 0):
            weight = sigmoid(dot(self.vector(at + "ffn_gate_inp_shexp.weight"), x))
            y = [a + weight * b for a, b in zip(y, self.swiglu(at, "_shexp", x))]
        return y

    def block(self, layer, x, mixer):
        at = f"blk.{layer}."
        x = [a + b for a, b in zip(x, mixer(self.rms(x, at + "attn_norm.weight")))]
        return [a + b for a, b in zip(x, self.feed_forward(layer, self.rms(x, at + "post_attention_norm.weight")))]

    def step(self, token, wanted=True):
        """The trunk's output of the next token, normed; None where it is not wanted, as nothing comes of it but cells."""
        x = self.rows["token_embd.weight"][token]
        for layer in range(self.m.n_layers):
            if not wanted and layer == self.m.n_layers - 1 and not self.m.is_recurrent(layer):
                y = self.rms(x, f"blk.{layer}.attn_norm.weight")
                self.attention(layer, y, self.position, self.cells.setdefault(layer, []), wanted=False)
                self.position += 1
                return None
            if self.m.is_recurrent(layer):
                x = self.block(layer, x, lambda y, at=layer: self.delta_net(at, y))
            else:
                cells = self.cells.setdefault(layer, [])
                x = self.block(layer, x, lambda y, at=layer, c=cells: self.attention(at, y, self.position, c))
        self.position += 1
        return self.rms(x, "output_norm.weight")

    def head(self, hidden):
        return [dot(row, hidden) for row in self.rows.get("output.weight", self.rows["token_embd.weight"])]

    def draft(self, token, before, position, cells):
        """(hidden, logits) of the MTP block, fed a token and the hidden state of the one before."""
        layer = self.m.n_layers
        at = f"blk.{layer}.nextn."
        embedding = self.rows.get(at + "embed_tokens.weight", self.rows["token_embd.weight"])[token]
        joined = self.rms(embedding, at + "enorm.weight") + self.rms(before, at + "hnorm.weight")
        x = self.block(layer, self.matrix(at + "eh_proj.weight", joined), lambda y: self.attention(layer, y, position, cells))
        norm = at + "shared_head_norm.weight"
        h = self.rms(x, norm if norm in self.m.tensors else "output_norm.weight")
        head = self.rows.get(at + "shared_head_head.weight")
        return h, [dot(row, h) for row in head] if head else self.head(h)


def rotary(model):
    """(frequencies, what cosines and sines are multiplied by). YaRN: arXiv 2309.00071."""
    get, n_rot, base = model.get, model.get("rope.dimension_count", model.head_dim), model.get("rope.freq_base", 10000.0)
    frequencies = [base ** (-2 * i / n_rot) for i in range(n_rot // 2)]
    factor, magnitude = get("rope.scaling.factor", 0) or get("rope.scale_linear", 0) or 1, get("rope.scaling.attn_factor", 1)
    kind = get("rope.scaling.type", "linear")
    if kind == "none":
        return frequencies, magnitude
    if kind == "linear":
        return [f / factor for f in frequencies], magnitude
    context = get("rope.scaling.original_context_length") or get("context_length")

    def dimension(turns):
        return n_rot * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(dimension(get("rope.scaling.yarn_beta_fast", 32))), 0)
    high = min(math.ceil(dimension(get("rope.scaling.yarn_beta_slow", 1))), n_rot - 1)
    high += 0.001 if high == low else 0
    out = []
    for i, f in enumerate(frequencies):
        keep = (1 - min(max((i - low) / (high - low), 0), 1)) * get("rope.scaling.yarn_ext_factor", 1)
        out.append(f * keep + f / factor * (1 - keep))
    return out, magnitude * (0.1 * math.log(factor) + 1 if factor > 1 else 1)


def logits(model, tokens, rows=None, kv="f32"):
    """Logits after the last `rows` tokens, all of them if it is not said, one after another."""
    text, out = Pass(model, kv), []
    for i, token in enumerate(tokens):
        wanted = rows is None or i >= len(tokens) - rows
        hidden = text.step(token, wanted)
        if wanted:
            out += text.head(hidden)
    return out


def drafts(model, tokens, n, kv="f32"):
    """n tokens that the MTP block drafts after the last token, which the trunk has not seen."""
    text, before, cells = Pass(model, kv), [0.0] * model.get("embedding_length"), []
    for position, token in enumerate(tokens[:-1]):
        text.draft(token, before, position, cells)
        before = text.step(token)
    token, out = tokens[-1], []
    for i in range(n):
        before, scores = text.draft(token, before, len(tokens) - 1 + i, cells)
        token = max(range(len(scores)), key=lambda v: scores[v])
        out.append(token)
    return out
