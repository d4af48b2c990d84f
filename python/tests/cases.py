"""Calls for the tests: random operands, and the formulas in NumPy's float64."""
import numpy as np


def gdn_operands(rng, n_seqs, tokens, heads_k, heads_v, dim_k, dim_v, dtype=np.float32, channel=False):
    """q, k, v, g, beta of [n_seqs, tokens, ...]; q and k of length 1."""
    def normal(*shape):
        return rng.standard_normal(shape)
    q, k = normal(n_seqs, tokens, heads_k, dim_k), normal(n_seqs, tokens, heads_k, dim_k)
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    v = normal(n_seqs, tokens, heads_v, dim_v)
    g = -rng.random((n_seqs, tokens, heads_v, dim_k) if channel else (n_seqs, tokens, heads_v))
    beta = rng.random((n_seqs, tokens, heads_v))
    return [x.astype(np.float32).astype(dtype) for x in (q, k, v, g, beta)]


def gdn_formula(q, k, v, g, beta, state, head_map="grouped", scale=None):
    """gated_delta_net of [n_seqs, tokens, ...] operands in float64, state [n_seqs, heads_v, dim_k, dim_v]; (out, state)."""
    q, k, v, g, beta, state = (np.asarray(x).astype(np.float64) for x in (q, k, v, g, beta, state))
    heads_k, heads_v = q.shape[2], v.shape[2]
    kappa = np.arange(heads_v) // (heads_v // heads_k) if head_map == "grouped" else np.arange(heads_v) % heads_k
    q, k = q[:, :, kappa], k[:, :, kappa]
    decay = np.exp(g if g.ndim == 4 else g[..., None])
    out = np.empty(v.shape)
    state = state.copy()
    for t in range(v.shape[1]):
        state *= decay[:, t, :, :, None]
        d = beta[:, t, :, None] * (v[:, t] - np.einsum("bhij,bhi->bhj", state, k[:, t]))
        state += k[:, t, :, :, None] * d[:, :, None, :]
        out[:, t] = np.einsum("bhij,bhi->bhj", state, q[:, t]) * (scale or q.shape[-1] ** -0.5)
    return out, state


def conv_formula(x, weight, bias, silu):
    """ssm_conv of [n_seqs, tokens, channels] from a zero history, in float64."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    width = weight.shape[1]
    padded = np.concatenate([np.zeros((x.shape[0], width - 1, x.shape[2])), x], axis=1)
    u = sum(padded[:, j:j + x.shape[1]] * weight[:, j] for j in range(width)) + (0 if bias is None else bias.astype(np.float64))
    return u / (1 + np.exp(-u)) if silu else u


def same(a, b):
    """The same bits."""
    return a.shape == b.shape and a.dtype == b.dtype and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
