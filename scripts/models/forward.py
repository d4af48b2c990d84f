"""The forward pass straight from a GGUF file, in numpy float64: a second opinion on the converter and on HF's classes.
Token by token, head by head, as docs/design/runtime.md and the kernels' pages write it; slow, and meant to be read."""
import gguf
import numpy as np

from models import gguf_io


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


class Model:
    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        self.arch = fields["general.architecture"].contents()
        at = self.arch + "."
        self.hp = {k[len(at):]: f.contents() for k, f in fields.items() if k.startswith(at)}
        self.t = {name: x.astype(np.float64) for name, x in gguf_io.read(path).items()}
        hp = self.hp
        self.n_mtp = hp.get("nextn_predict_layers", 0)
        self.n_main, self.eps = hp["block_count"] - self.n_mtp, hp["attention.layer_norm_rms_epsilon"]
        self.memory = {}

    def w(self, layer, name):
        return self.t[f"blk.{layer}.{name}"]

    def delta_net(self, i, x):
        hp, w = self.hp, lambda name: self.w(i, name)
        d, nk, nv, kc = (hp["ssm." + k] for k in ("state_size", "group_count", "time_step_rank", "conv_kernel"))
        m, z = w("attn_qkv.weight") @ x, (w("attn_gate.weight") @ x).reshape(nv, d)
        if self.arch == "qwen3next":
            b, a = np.split((w("ssm_ba.weight") @ x).reshape(nk, -1), 2, axis=1)
            b, a, key_of = b.ravel(), a.ravel(), lambda h: h // (nv // nk)
        else:
            b, a, key_of = w("ssm_beta.weight") @ x, w("ssm_alpha.weight") @ x, lambda h: h % nk
        past, state = self.memory.get(i, (np.zeros((kc - 1, len(m))), np.zeros((nv, d, d))))
        window = np.vstack([past, m])
        u = silu((window * w("ssm_conv1d.weight").T).sum(0))
        q, k, v = (y.reshape(-1, d) for y in np.split(u, [nk * d, 2 * nk * d]))
        q, k = unit(q) / np.sqrt(d), unit(k)
        beta, g = sigmoid(b), w("ssm_a") * np.logaddexp(0, a + w("ssm_dt.bias"))
        out, new = [], []
        for h in range(nv):
            s = state[h] * np.exp(g[h])
            s = s + np.outer(k[key_of(h)], beta[h] * (v[h] - s.T @ k[key_of(h)]))
            out.append(rms(s.T @ q[key_of(h)], w("ssm_norm.weight"), self.eps) * silu(z[h]))
            new.append(s)
        self.memory[i] = window[1:], np.array(new)
        return w("ssm_out.weight") @ np.concatenate(out)

    def attention(self, i, x, position, kept=None):
        hp, w = self.hp, lambda name: self.w(i, name)
        nh, nkv, hd, n_rot = (hp[k] for k in ("attention.head_count", "attention.head_count_kv",
                                              "attention.key_length", "rope.dimension_count"))
        q, gate = np.split((w("attn_q.weight") @ x).reshape(nh, 2 * hd), 2, axis=1)
        k, v = ((w(f"attn_{n}.weight") @ x).reshape(nkv, hd) for n in "kv")
        angle = position * hp["rope.freq_base"] ** (-np.arange(0, n_rot, 2) / n_rot)

        def turn(y):
            a, b = y[:, :n_rot // 2], y[:, n_rot // 2:n_rot]
            c, s = np.cos(angle), np.sin(angle)
            return np.concatenate([a * c - b * s, b * c + a * s, y[:, n_rot:]], axis=1)

        q, k = turn(rms(q, w("attn_q_norm.weight"), self.eps)), turn(rms(k, w("attn_k_norm.weight"), self.eps))
        cells = self.memory.setdefault(i, []) if kept is None else kept
        cells.append((k, v))
        out = []
        for h in range(nh):
            keys, values = (np.array([cell[j][h // (nh // nkv)] for cell in cells]) for j in (0, 1))
            s = keys @ q[h] / np.sqrt(hd)
            p = np.exp(s - s.max())
            out.append(p / p.sum() @ values)
        return w("attn_output.weight") @ (np.array(out) * sigmoid(gate)).ravel()

    def feed_forward(self, i, x):
        w = lambda name: self.w(i, f"ffn_{name}.weight")
        if "expert_count" not in self.hp:
            return w("down") @ (silu(w("gate") @ x) * (w("up") @ x))
        p = w("gate_inp") @ x
        p = np.exp(p - p.max())
        p /= p.sum()
        best = np.argsort(-p)[:self.hp["expert_used_count"]]
        y = sum(p[e] / p[best].sum() * (w("down_exps")[e] @ (silu(w("gate_exps")[e] @ x) * (w("up_exps")[e] @ x)))
                for e in best)
        shared = w("down_shexp") @ (silu(w("gate_shexp") @ x) * (w("up_shexp") @ x))
        return y + sigmoid(w("gate_inp_shexp") @ x) * shared

    def block(self, i, x, position, full, kept=None):
        y = rms(x, self.w(i, "attn_norm.weight"), self.eps)
        x = x + (self.attention(i, y, position, kept) if full else self.delta_net(i, y))
        return x + self.feed_forward(i, rms(x, self.w(i, "post_attention_norm.weight"), self.eps))

    def head(self, hidden):
        return self.t.get("output.weight", self.t["token_embd.weight"]) @ hidden

    def step(self, token, position):
        """(logits, hidden states after each layer, hidden state after the last norm) of the next token."""
        x, layers = self.t["token_embd.weight"][token], []
        for i in range(self.n_main):
            x = self.block(i, x, position, (i + 1) % self.hp["full_attention_interval"] == 0)
            layers.append(x)
        final = rms(x, self.t["output_norm.weight"], self.eps)
        return self.head(final), np.array(layers), final

    def draft(self, token, before, position, kept):
        """h' of the MTP block; kept: its (k, v) cells so far, which grow by one."""
        i = self.n_main
        e = rms(self.t["token_embd.weight"][token], self.w(i, "nextn.enorm.weight"), self.eps)
        u = self.w(i, "nextn.eh_proj.weight") @ np.concatenate(
            [e, rms(before, self.w(i, "nextn.hnorm.weight"), self.eps)])
        return rms(self.block(i, u, position, True, kept), self.w(i, "nextn.shared_head_norm.weight"), self.eps)


def compare(path, arrays):
    """Largest difference of each golden array from this forward pass, relative to its largest element."""
    model, tokens, worst = Model(path), arrays["tokens"], {}

    def note(key, got, want):
        gap = np.abs(got - want).max() / np.abs(arrays[key]).max()
        worst[key] = max(worst.get(key, 0.0), float(gap))

    finals = [np.zeros(model.hp["embedding_length"])]
    kept = []
    for p, token in enumerate(tokens):
        logits, layers, final = model.step(token, p)
        note("logits", logits, arrays["logits"][p])
        note("hidden", layers, arrays["hidden"][:, p])
        note("final", final, arrays["final"][p])
        if "mtp_logits" in arrays:
            h = model.draft(token, finals[-1], p, kept)
            note("mtp_hidden", h, arrays["mtp_hidden"][p])
            note("mtp_logits", model.head(h), arrays["mtp_logits"][p])
            for row in np.flatnonzero(arrays["draft_from"] == p):
                own = list(kept)
                for step, drafted in enumerate(arrays["draft_tokens"][row]):
                    note("draft_hidden", h, arrays["draft_hidden"][row, step])
                    note("draft_logits", model.head(h), arrays["draft_logits"][row, step])
                    if model.head(h).argmax() != drafted:
                        worst["draft_tokens"] = 1.0
                    h = model.draft(drafted, h, p + 1 + step, own)
        finals.append(final)
    return worst
