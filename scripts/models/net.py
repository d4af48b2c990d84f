"""A compact qwen35 network for training on a CPU. Its parameters have the names and shapes of HF's Qwen3_5 text classes
(plus mtp.*), so that what was trained loads there unchanged; train_small_model.py compares the two."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from models.chunked_delta import CausalConv, chunked_delta

EPS = 1e-6


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        return F.rms_norm(x.float(), x.shape[-1:], 1 + self.weight, EPS)


class GatedNorm(nn.Module):  # its weight has no offset
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x, z):
        return F.rms_norm(x, x.shape[-1:], self.weight, EPS) * F.silu(z.float())


def linear(n_in, n_out, zero=False):
    layer = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(layer.weight, std=0.0 if zero else n_in ** -0.5)
    return layer


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.kd, self.vd = c.nk * c.d, c.nv * c.d
        channels = 2 * self.kd + self.vd
        self.in_proj_qkv, self.in_proj_z = linear(c.hidden, channels), linear(c.hidden, self.vd)
        self.in_proj_b, self.in_proj_a = linear(c.hidden, c.nv), linear(c.hidden, c.nv)
        self.conv1d = nn.Conv1d(channels, channels, c.kernel, groups=channels, bias=False)
        self.norm = GatedNorm(c.d)
        self.out_proj = linear(self.vd, c.hidden, zero=True)
        dt = torch.exp(torch.rand(c.nv) * math.log(100.0) + math.log(0.001))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.log(torch.rand(c.nv) * 15 + 1))

    def forward(self, x):
        c, (b, t, _) = self.c, x.shape
        parts = [self.in_proj_qkv.weight, self.in_proj_z.weight, self.in_proj_b.weight, self.in_proj_a.weight]
        qkv, z, beta, a = F.linear(x, torch.cat(parts)).split([p.shape[0] for p in parts], -1)
        u = F.silu(CausalConv.apply(qkv.float(), self.conv1d.weight[:, 0]))
        q, k, v = (y.reshape(b, t, -1, c.d).transpose(1, 2) for y in u.split([self.kd, self.kd, self.vd], -1))
        q, k = (y * torch.rsqrt((y * y).sum(-1, keepdim=True) + 1e-6) for y in (q, k))
        r = c.nv // c.nk
        q, k = (y.repeat_interleave(r, 1) for y in (q * c.d ** -0.5, k))
        g = -self.A_log.exp() * F.softplus(a.float() + self.dt_bias)
        with torch.autocast("cpu", enabled=False):
            o = chunked_delta(q, k, v, g.transpose(1, 2), beta.float().sigmoid().transpose(1, 2))
        o = self.norm(o.transpose(1, 2), z.reshape(b, t, c.nv, c.d))
        return self.out_proj(o.reshape(b, t, -1))


def rope(x, n_rot, base):
    """x: [B,H,T,hd]; the first n_rot dimensions turn, in pairs (i, i + n_rot/2)."""
    freq = base ** (-torch.arange(0, n_rot, 2, dtype=torch.float32) / n_rot)
    angle = torch.arange(x.shape[2], dtype=torch.float32)[:, None] * freq
    cos, sin = angle.cos(), angle.sin()
    x1, x2, rest = x.split([n_rot // 2, n_rot // 2, x.shape[-1] - n_rot], -1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin, rest], -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj = linear(c.hidden, 2 * c.head_dim * c.heads)
        self.k_proj, self.v_proj = (linear(c.hidden, c.head_dim * c.kv_heads) for _ in range(2))
        self.o_proj = linear(c.head_dim * c.heads, c.hidden, zero=True)
        self.q_norm, self.k_norm = Norm(c.head_dim), Norm(c.head_dim)

    def forward(self, x, cells=None):
        """cells: (k, v) of another pass over the same positions, which all but the own position are read from."""
        c, (b, t, _) = self.c, x.shape
        q, gate = self.q_proj(x).reshape(b, t, c.heads, 2 * c.head_dim).chunk(2, -1)
        k, v = (p(x).reshape(b, t, c.kv_heads, c.head_dim) for p in (self.k_proj, self.v_proj))
        q, k = (rope(y.transpose(1, 2), c.n_rot, c.rope_base) for y in (self.q_norm(q), self.k_norm(k)))
        k, v = (y.float().repeat_interleave(c.heads // c.kv_heads, 1) for y in (k, v.transpose(1, 2)))
        with torch.autocast("cpu", enabled=False):
            if cells is None:
                o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                past = (q @ cells[0].transpose(-1, -2)) * c.head_dim ** -0.5
                past = past.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(), float("-inf"))
                own = (q * k).sum(-1, keepdim=True) * c.head_dim ** -0.5
                p = torch.cat([past, own], -1).softmax(-1)
                o = p[..., :-1] @ cells[1] + p[..., -1:] * v
        o = o.transpose(1, 2) * gate.float().sigmoid()
        return self.o_proj(o.reshape(b, t, -1)), (k, v)


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = linear(c.hidden, c.ffn), linear(c.hidden, c.ffn)
        self.down_proj = linear(c.ffn, c.hidden, zero=True)

    def forward(self, x):
        gate, up = F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight])).chunk(2, -1)
        return self.down_proj(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, c, full):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(c.hidden), Norm(c.hidden)
        if full:
            self.self_attn = Attention(c)
        else:
            self.linear_attn = DeltaNet(c)
        self.full, self.mlp = full, Mlp(c)

    def forward(self, x, cells=None):
        y = self.input_layernorm(x)
        y, cells = self.self_attn(y, cells) if self.full else (self.linear_attn(y), None)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), cells


class Mtp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (Norm(c.hidden) for _ in range(3))
        self.fc = linear(2 * c.hidden, c.hidden)
        self.layers = nn.ModuleList([Layer(c, True)])

    def forward(self, embedded, hidden, cells=None):
        """hidden: row p belongs to token p; the block reads it one position later, zeros at the first."""
        before = F.pad(hidden[:, :-1], (0, 0, 1, 0))
        u = self.fc(torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(before)], -1))
        u, cells = self.layers[0](u, cells)
        return self.norm(u), cells


class Trunk(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab, c.hidden)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        self.layers = nn.ModuleList([Layer(c, (i + 1) % c.interval == 0) for i in range(c.layers)])
        self.norm = Norm(c.hidden)

    def forward(self, x):
        for layer in self.layers:
            x, _ = layer(x)
        return self.norm(x)


class Net(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config, self.model, self.mtp = c, Trunk(c), Mtp(c)

    def head(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight)

    def forward(self, tokens, depth=1):
        """[logits of the trunk, of the first draft step, of the second, ...]: row p of each predicts token p+1."""
        embedded = self.model.embed_tokens(tokens)
        hidden = self.model(embedded)
        out, cells = [self.head(hidden)], None
        for step in range(depth):
            hidden, made = self.mtp(embedded, hidden, cells)
            cells = cells or made
            out.append(self.head(hidden))
        return out
