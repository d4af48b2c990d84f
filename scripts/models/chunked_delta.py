"""The gated delta rule over chunks of tokens, for training: matrix products within a chunk, a loop over the chunks.

With G the running sum of g inside a chunk and S the state before it, token i of the chunk subtracts what the state
already answers to its key:  d_i = beta_i (v_i - e^(G_i) S^T k_i - sum_{j<i} e^(G_i - G_j) (k_i.k_j) d_j),
a triangular system; then o_i = e^(G_i) S^T q_i + sum_{j<=i} e^(G_i - G_j) (q_i.k_j) d_j and S' = e^(G_c) S + ...
"""
import torch
import torch.nn.functional as F

NEUMANN = 16  # largest block whose inverse is computed as a product of powers; larger ones would cancel badly


def invert_unit_lower(a):
    """Inverse of unit lower triangular matrices [..., n, n], n = NEUMANN * 2^m: diagonal blocks, then doubled."""
    n = a.shape[-1]
    size = min(NEUMANN, n)
    eye = torch.eye(size)
    blocks = torch.stack([a[..., i:i + size, i:i + size] for i in range(0, n, size)], -3)
    power = eye - blocks
    inverse = eye + power
    for _ in range(size.bit_length() - 2):
        power = power @ power
        inverse = inverse + inverse @ power
    while size < n:
        corner = torch.stack([a[..., i + size:i + 2 * size, i:i + size] for i in range(0, n, 2 * size)], -3)
        upper, lower = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        corner = -(lower @ corner @ upper)
        inverse = torch.cat([F.pad(upper, (0, size)), torch.cat([corner, lower], -1)], -2)
        size *= 2
    return inverse.squeeze(-3)


class Inverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        inverse = invert_unit_lower(a)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx, grad):
        turned = ctx.saved_tensors[0].transpose(-1, -2)
        return -(turned @ grad @ turned)


class CausalConv(torch.autograd.Function):
    """y[t, c] = sum_j w[c, j] x[t - K + 1 + j, c]; x: [B,T,C], zeros before the first token; w: [C,K]."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        k, t = w.shape[1], x.shape[1]
        y = x * w[:, k - 1]
        for back in range(1, min(k, t)):
            y[:, back:].addcmul_(x[:, :t - back], w[:, k - 1 - back])
        return y

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        k, t = w.shape[1], x.shape[1]
        dx, dw = grad * w[:, k - 1], torch.zeros_like(w)
        dw[:, k - 1] = (grad * x).sum((0, 1))
        for back in range(1, min(k, t)):
            dx[:, :t - back].addcmul_(grad[:, back:], w[:, k - 1 - back])
            dw[:, k - 1 - back] = (grad[:, back:] * x[:, :t - back]).sum((0, 1))
        return dx, dw


def chunked_delta(q, k, v, g, beta, chunk=64):
    """q, k: [B,H,T,dk], unit length, q already scaled; v: [B,H,T,dv]; g <= 0 and beta: [B,H,T]. T % chunk == 0."""
    b, h, t, dk = k.shape
    n = t // chunk
    q, k, v = (x.reshape(b, h, n, chunk, -1) for x in (q, k, v))
    beta = beta.reshape(b, h, n, chunk, 1)
    total = g.reshape(b, h, n, chunk).cumsum(-1)
    below = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    decay = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~below, float("-inf")).exp()
    k_beta = k * beta
    system = ((k_beta @ k.transpose(-1, -2)) * decay).tril(-1) + torch.eye(chunk)
    up = total.exp().unsqueeze(-1)
    inverse = Inverse.apply(system)
    own, from_state = inverse @ (v * beta), inverse @ (k_beta * up)
    scores = (q @ k.transpose(-1, -2)) * decay
    q_up = q * up
    last = total[..., -1:]
    k_down = (k * (last - total).exp().unsqueeze(-1)).transpose(-1, -2)
    keep = last.exp().unsqueeze(-1)
    state = torch.zeros(b, h, dk, v.shape[-1])
    out = []
    steps = zip(*(x.unbind(2) for x in (own, from_state, q_up, scores, keep, k_down)))
    for own_i, from_state_i, q_i, scores_i, keep_i, k_i in steps:
        d = own_i - from_state_i @ state
        out.append(q_i @ state + scores_i @ d)
        state = state * keep_i + k_i @ d
    return torch.stack(out, 2).reshape(b, h, t, -1)
