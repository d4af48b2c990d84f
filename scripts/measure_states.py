#!/usr/bin/env python3
"""What a state kept in 16 bits does to a trained model: docs/reference/numerics-states.md has the table and says what the forms are.

    measure_states.py MEASURE LOGITS MODEL TEXT [--tokens N] [--window N] [--forms NAME,...]

MEASURE is build-test/bin/measure_states, which runs the recurrence; LOGITS is build-test/bin/test_rt_logits, which makes tokens of
the text. TEXT holds documents, one after another, with <|endoftext|> between them. Needs gguf and numpy. Everything but the
recurrence is computed here, in binary32, the whole text at once and in the same way for each form; WINDOW tokens share a
memory (0: all). For each form: nats per token, how much they differ from those of the F32 state, the Kullback-Leibler divergence
from that model's distributions (mean, and the largest of 99.9% of the tokens), and how often the likeliest token is the same.
"""
import argparse
import pathlib
import subprocess

import numpy as np

from models import forward


def tokens_of(logits, model, text):
    """One list of tokens: the documents', with the model's first end token behind each."""
    documents = pathlib.Path(text).read_text().split("<|endoftext|>")
    asked = "".join(f"text {model if i == 0 else '-'} {d.encode().hex()}\n" for i, d in enumerate(documents))
    answers = subprocess.run([logits], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    out = []
    for answer in answers:
        own, ends, _ = answer.removeprefix("ok").split(";")
        out += [int(t) for t in own.split()] + [int(ends.split()[0])]
    return np.array(out)


class Whole(forward.Model):
    """The forward pass over all tokens at once."""

    def __init__(self, path, measure, form, window):
        super().__init__(path)
        self.t = {name: x.astype(np.float32) for name, x in self.t.items()}
        self.measure, self.form, self.window, self.decays = measure, form, window, []

    def recurrence(self, q, k, v, g, beta):
        """out [T][H][d] of operands [T][H][d] and [T][H]"""
        operands = b"".join(np.ascontiguousarray(x, np.float32).tobytes() for x in (q, k, v, g, beta))
        size = np.array([*q.shape, v.shape[2]], np.int32).tobytes()
        name, _, where = self.form.partition("/")
        out = subprocess.run([self.measure, "--run", name, where or "before", str(self.window)], input=size + operands,
                             capture_output=True, check=True).stdout
        return np.frombuffer(out, np.float32).reshape(v.shape)

    def delta_net(self, i, x):
        hp, w = self.hp, lambda name: self.w(i, name)
        d, nk, nv, kc = (hp["ssm." + k] for k in ("state_size", "group_count", "time_step_rank", "conv_kernel"))
        n = len(x)
        m, z = x @ w("attn_qkv.weight").T, (x @ w("attn_gate.weight").T).reshape(n, nv, d)
        if self.arch == "qwen3next":
            b, a = (y.reshape(n, nv) for y in np.split((x @ w("ssm_ba.weight").T).reshape(n, nk, -1), 2, axis=2))
            key_of = np.arange(nv) // (nv // nk)
        else:
            b, a, key_of = x @ w("ssm_beta.weight").T, x @ w("ssm_alpha.weight").T, np.arange(nv) % nk
        at, u = np.arange(n) % (self.window or n), np.zeros_like(m)
        for back in range(kc):
            moved = np.zeros_like(m)
            moved[back:] = m[:n - back]
            u += np.where((at >= back)[:, None], moved, 0) * w("ssm_conv1d.weight")[:, kc - 1 - back]
        q, k, v = (y.reshape(n, -1, d) for y in np.split(forward.silu(u), [nk * d, 2 * nk * d], axis=1))
        g = w("ssm_a") * np.logaddexp(np.float32(0), a + w("ssm_dt.bias"))
        self.decays.append(g)
        o = self.recurrence(forward.unit(q)[:, key_of], forward.unit(k)[:, key_of], v, g, forward.sigmoid(b))
        o = forward.rms(o, w("ssm_norm.weight"), self.eps) * forward.silu(z)
        return o.reshape(n, -1) @ w("ssm_out.weight").T

    def attention(self, i, x, position, kept=None):
        hp, w, n = self.hp, lambda name: self.w(i, name), len(x)
        nh, nkv, hd, n_rot = (hp[k] for k in ("attention.head_count", "attention.head_count_kv", "attention.key_length",
                                              "rope.dimension_count"))
        q, gate = np.split((x @ w("attn_q.weight").T).reshape(n, nh, 2 * hd), 2, axis=2)
        k, v = ((x @ w(f"attn_{name}.weight").T).reshape(n, nkv, hd) for name in "kv")
        angle = position[:, None] * hp["rope.freq_base"] ** (-np.arange(0, n_rot, 2) / n_rot)
        c, s = (y.astype(np.float32)[:, None] for y in (np.cos(angle), np.sin(angle)))

        def turn(y):
            a, b = y[..., :n_rot // 2], y[..., n_rot // 2:n_rot]
            return np.concatenate([a * c - b * s, b * c + a * s, y[..., n_rot:]], axis=2)

        q = turn(forward.rms(q, w("attn_q_norm.weight"), self.eps)) / np.float32(hd ** 0.5)
        k, out = turn(forward.rms(k, w("attn_k_norm.weight"), self.eps)), np.zeros((n, nh, hd), np.float32)
        window = self.window or n
        for first in range(0, n, window):
            for row in range(first, min(first + window, n), 512):
                end = min(row + 512, first + window, n)
                hidden = np.triu(np.full((end - row, end - first), -np.inf, np.float32), row - first + 1)
                for h in range(nh):
                    p = q[row:end, h] @ k[first:end, h // (nh // nkv)].T + hidden
                    p = np.exp(p - p.max(1, keepdims=True))
                    out[row:end, h] = p / p.sum(1, keepdims=True) @ v[first:end, h // (nh // nkv)]
        return (out * forward.sigmoid(gate)).reshape(n, -1) @ w("attn_output.weight").T

    def feed_forward(self, i, x):
        if "expert_count" in self.hp:
            return np.array([super(Whole, self).feed_forward(i, row) for row in x])
        w = lambda name: self.w(i, f"ffn_{name}.weight").T
        return (forward.silu(x @ w("gate")) * (x @ w("up"))) @ w("down")

    def log_probabilities(self, tokens):
        x, position = self.t["token_embd.weight"][tokens], np.arange(len(tokens)) % (self.window or len(tokens))
        for i in range(self.n_main):
            x = self.block(i, x, position, (i + 1) % self.hp["full_attention_interval"] == 0)
        logits = self.head(forward.rms(x, self.t["output_norm.weight"], self.eps).T).T.astype(np.float64)
        logits = logits - logits.max(1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("measure", "logits", "model", "text"):
        parser.add_argument(name)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--forms", help="/after behind a name: outputs are read after the state was rounded; else before")
    args = parser.parse_args()
    names = subprocess.run([args.measure, "--forms"], capture_output=True, text=True, check=True).stdout.split()
    tokens = tokens_of(args.logits, args.model, args.text)[:args.tokens + 1]
    base, rows = None, np.arange(len(tokens) - 1)
    for form in ["f32"] + (args.forms.split(",") if args.forms else [name for name in names if name != "f32"]):
        model = Whole(args.model, args.measure, form, args.window)
        log_p = model.log_probabilities(tokens[:-1])
        nats = -log_p[rows, tokens[1:]]
        if base is None:
            base, base_nats, g = log_p, nats, np.array(model.decays)
            share = [f"{np.quantile(g, q):.2g}" for q in (0, 0.1, 0.5, 0.9, 1)]
            heads = np.sort(np.median(g, axis=1).ravel())
            print(f"{len(rows)} tokens, windows of {args.window or len(rows)}; g: least, 10%, half, 90%, most: {', '.join(share)}; "
                  f"medians of heads: {', '.join(f'{m:.2g}' for m in heads)}")
            print(f"{'':26} {'nats/token':>10} {'more':>10} {'KL':>10} {'99.9%':>10} {'same best':>10}")
        apart = (np.exp(base) * (base - log_p)).sum(1)
        same = (base.argmax(1) == log_p.argmax(1)).mean()
        error = (nats - base_nats).std() / len(rows) ** 0.5
        print(f"{form:26} {nats.mean():10.5f} {(nats - base_nats).mean():10.2e} {apart.mean():10.2e} "
              f"{np.quantile(apart, 0.999):10.2e} {same:10.5f}   +- {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
