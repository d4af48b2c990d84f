"""The backward passes of gdn.torch's operators. The forward pass is the library's; the backward pass computes its intermediate
values again in float32, with PyTorch's operations, in chunks of 64 tokens.

Each backward pass is an operator of its own, so that torch.compile takes it whole. It has no gradients itself.
"""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ._operators import _conv_operator, _rule_operator

_CHUNK = 64
_ELEMENTS = 1 << 20  # of q's chunks: heads that exceed it are computed one block after another
_EPSILON = 1e-6  # of qk_norm


class _Chunks(NamedTuple):
    """Sequences as chunks of `size` tokens. Step i has the i-th chunk of each sequence that is as long; longer sequences come
    first, so that the steps of a sequence are rows of the same number."""

    size: int
    steps: List[slice]  # chunks of each step
    order: Tensor  # sequences, longest first
    token: Tensor  # of each chunk's places
    padding: Optional[Tensor]  # [chunks, size]: places without a token; None: there are none
    place: Tensor  # of each token
    outside: Optional[Tensor]  # tokens of no sequence; None: there are none

    def cut(self, x: Tensor, heads: Tensor) -> Tensor:
        """[tokens, heads, ...] as [chunks, heads, size, ...] in float32, with zeros for padding."""
        x = x.index_select(1, heads).index_select(0, self.token).unflatten(0, (-1, self.size)).transpose(1, 2)
        x = x.to(torch.float32, memory_format=torch.contiguous_format, copy=True)
        return x if self.padding is None else self.without_padding(x)

    def without_padding(self, x: Tensor) -> Tensor:
        if self.padding is None:
            return x
        return x.masked_fill(self.padding[:, None].reshape(-1, 1, self.size, *(1,) * (x.dim() - 3)), 0)

    def joined(self, x: Tensor) -> Tensor:
        """The inverse of cut(), with zeros for tokens of no sequence."""
        if not self.steps:
            return x.new_zeros(len(self.place), x.shape[1], *x.shape[3:])
        x = x.transpose(1, 2).flatten(0, 1).index_select(0, self.place)
        return x if self.outside is None else x.masked_fill(self.outside.reshape(-1, *(1,) * (x.dim() - 1)), 0)


def _chunks(batch: int, tokens: int, cu_seqlens: Optional[Tensor], device: torch.device) -> _Chunks:
    bounds = [tokens * i for i in range(batch + 1)] if cu_seqlens is None else cu_seqlens.tolist()
    lengths = [end - begin for begin, end in zip(bounds, bounds[1:])]
    size = min(_CHUNK, 1 << (max(lengths, default=1) - 1).bit_length()) if any(lengths) else 1
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    steps: List[slice] = []
    begins: List[int] = []
    ends: List[int] = []
    for at in range(0, max(lengths, default=0), size):
        some = [i for i in order if lengths[i] > at]
        steps.append(slice(len(begins), len(begins) + len(some)))
        begins += [bounds[i] + at for i in some]
        ends += [bounds[i + 1] for i in some]
    token = torch.tensor(begins, dtype=torch.int64).reshape(-1, 1) + torch.arange(size)
    real = token < torch.tensor(ends, dtype=torch.int64).reshape(-1, 1)
    place = torch.full((batch * tokens,), -1, dtype=torch.int64)
    place[token[real]] = real.flatten().nonzero().flatten()
    outside = place < 0
    return _Chunks(size, steps, torch.tensor(order, dtype=torch.int64, device=device), token.where(real, token[:, :1]).flatten().to(device),
                   None if real.all() else (~real).to(device), place.clamp(min=0).to(device), outside.to(device) if outside.any() else None)


class _Scalar:
    """The products of a chunk's tokens with a gate per head: [n, size, size], x_i * k_j * decay from j to i, for j < i. Decays
    are exponentials of sums over the tokens between, not of differences of sums, so that none overflows or cancels."""

    def __init__(self, q: Tensor, k: Tensor, g: Tensor):
        size = g.shape[1]
        self.q, self.k = q, k
        self.decay = g.unsqueeze(2).expand(-1, -1, size).tril(-1).cumsum(1).exp_().tril_(-1)
        self.qk = torch.bmm(q, k.mT).mul_(self.decay)
        self.kk = torch.bmm(k, k.mT).mul_(self.decay)
        self.before = g.cumsum(1).unsqueeze(2)  # from a chunk's begin, with the token
        self.after = F.pad(g[:, 1:], (0, 1)).flip(1).cumsum(1).flip(1).unsqueeze(2)  # to its end, without the token

    def backward(self, d_qk: Tensor, d_kk: Tensor, d_q: Tensor, d_k: Tensor, d_before: Tensor, d_after: Tensor) -> Tensor:
        """Add to d_q and d_k; return g's gradient. d_before and d_after are for each element of a key, and are overwritten."""
        both = (d_qk * self.qk).add_(d_kk * self.kk)
        d_g = both.flip(1).cumsum(1).flip(1).tril_(-1).sum(2)
        d_qk, d_kk = d_qk * self.decay, d_kk * self.decay
        d_q.baddbmm_(d_qk, self.k)
        d_k.baddbmm_(d_qk.mT, self.q).baddbmm_(d_kk.add_(d_kk.mT.clone()), self.k)
        after = d_after.sum(2).cumsum(1)
        d_g += d_before.sum(2).flip(1).cumsum(1).flip(1)
        d_g[:, 1:] += after[:, :-1]
        return d_g


class _Channels:
    """As _Scalar, with a gate per key channel. Blocks of 1, 2, 4, ... tokens are paired: a product is of a token of the second
    block, decayed from the block's begin, and of one of the first, decayed to the block's end."""

    def __init__(self, q: Tensor, k: Tensor, g: Tensor):
        n, size, _ = k.shape
        self.q, self.k = q, k
        self.qk, self.kk = k.new_zeros(n, size, size), k.new_zeros(n, size, size)
        self.before, self.after = g.clone(), torch.zeros_like(g)  # of the blocks
        self.levels = []
        half = 1
        while half < size:
            before, after = self._pairs(self.before, half), self._pairs(self.after, half)
            second, first = before[:, :, 1].exp(), after[:, :, 0].exp()
            of_q, of_k = (self._pairs(x, half)[:, :, 1] * second for x in (q, k))
            others = self._pairs(k, half)[:, :, 0] * first
            self._corners(self.qk, half).copy_(of_q @ others.mT)
            self._corners(self.kk, half).copy_(of_k @ others.mT)
            self.levels.append((half, second, first, of_q, of_k, others))
            sums = before[:, :, :, -1:].clone()
            before[:, :, 1] += sums[:, :, 0]
            after[:, :, 0] += sums[:, :, 1]
            half *= 2

    @staticmethod
    def _pairs(x: Tensor, half: int) -> Tensor:
        """[n, size, ...] as [n, pairs, 2, half, ...]."""
        return x.unflatten(1, (-1, 2, half))

    @staticmethod
    def _corners(x: Tensor, half: int) -> Tensor:
        """Of [n, size, size] the products of each pair: [n, pairs, half, half], a view."""
        return x.unflatten(2, (-1, 2, half)).unflatten(1, (-1, 2, half)).diagonal(0, 1, 4)[:, 1, :, 0].permute(0, 3, 1, 2)

    def backward(self, d_qk: Tensor, d_kk: Tensor, d_q: Tensor, d_k: Tensor, d_before: Tensor, d_after: Tensor) -> Tensor:
        for half, second, first, of_q, of_k, others in reversed(self.levels):
            before, after, of_d_q, of_d_k = (self._pairs(x, half) for x in (d_before, d_after, d_q, d_k))
            sums = torch.stack((before[:, :, 1].sum(2), after[:, :, 0].sum(2)), 2)
            before[:, :, :, -1] += sums
            pairs_qk, pairs_kk = self._corners(d_qk, half).contiguous(), self._corners(d_kk, half).contiguous()
            d_of_q, d_of_k = pairs_qk @ others, pairs_kk @ others
            d_others = (pairs_qk.mT @ of_q).add_(pairs_kk.mT @ of_k)
            of_d_q[:, :, 1].addcmul_(d_of_q, second)
            of_d_k[:, :, 1].addcmul_(d_of_k, second)
            of_d_k[:, :, 0].addcmul_(d_others, first)
            before[:, :, 1].addcmul_(d_of_q, of_q).addcmul_(d_of_k, of_k)
            after[:, :, 0].addcmul_(d_others, others)
        return d_before


def _chunked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, d_out: Tensor, d_state: Tensor,
             steps: Sequence[slice], rest: bool) -> Tuple[Tensor, ...]:
    """Gradients of the delta rule in chunks, [chunks, heads, size, ...]: of v, and with `rest` of q, k, g and beta. `state` [N,
    heads, K, V] is overwritten, and d_state, of the final state, becomes the initial state's."""
    shape, heads = k.shape, k.shape[1]
    q, k, v, g, beta, d_out = (x.flatten(0, 1) for x in (q, k, v, g, beta, d_out))
    state, d_state = state.flatten(0, 1), d_state.flatten(0, 1)
    beta = beta.unsqueeze(2)
    products = (_Scalar if g.dim() == 2 else _Channels)(q, k, g)
    before, after, whole = products.before.exp(), products.after.exp(), products.before[:, -1].exp().unsqueeze(2)
    read_q, read_k, kept = q * before, k * before, k * after
    within = products.qk + torch.diag_embed((q * k).sum(2))
    mix = products.kk * beta
    by_k = read_k * beta
    width = v.shape[2]

    # Forward: the delta of each token, and the state before each chunk.
    solved = torch.linalg.solve_triangular(mix, torch.cat((v * beta, by_k), 2), upper=False, unitriangular=True)
    delta = solved[:, :, :width].contiguous()
    of_state = solved[:, :, width:]
    states = k.new_empty(len(k), *state.shape[1:])
    rows = [slice(step.start * heads, step.stop * heads) for step in steps]
    for at in rows:
        now = state[:at.stop - at.start]
        states[at] = now
        delta[at].baddbmm_(of_state[at], now, alpha=-1)
        now.mul_(whole[at]).baddbmm_(kept[at].mT, delta[at])

    # Backward: the gradient of beta * (v - what the state has for k), and of the state after each chunk.
    solved = torch.linalg.solve_triangular(mix.mT, torch.cat((within.mT @ d_out, kept), 2), upper=True, unitriangular=True)
    d_delta = solved[:, :, :width].contiguous()
    of_state = solved[:, :, width:]
    d_states = torch.empty_like(states)
    for at in reversed(rows):
        now = d_state[:at.stop - at.start]
        d_states[at] = now
        d_delta[at].baddbmm_(of_state[at], now)
        now.mul_(whole[at]).baddbmm_(read_q[at].mT, d_out[at]).baddbmm_(by_k[at].mT, d_delta[at], alpha=-1)

    d_v = d_delta * beta
    if not rest:
        return d_v.unflatten(0, shape[:2]),
    d_read_q = torch.bmm(d_out, states.mT)
    d_by_k = torch.bmm(d_delta, states.mT).neg_()
    d_kept = torch.bmm(delta, d_states.mT)
    d_within = torch.bmm(d_out, delta.mT)
    d_mix = torch.bmm(d_delta, delta.mT).neg_()
    d_beta = (d_delta * v).sum(2) + (d_by_k * read_k).sum(2) + (d_mix * products.kk).sum(2)
    d_read_k = d_by_k.mul_(beta)
    d_q, d_k = d_read_q * before, (d_read_k * before).addcmul_(d_kept, after)
    diagonal = d_within.diagonal(0, 1, 2).unsqueeze(2)
    d_q.addcmul_(diagonal, k)
    d_k.addcmul_(diagonal, q)
    d_before = (d_read_q * read_q).addcmul_(d_read_k, read_k)
    d_before[:, -1].addcmul_((d_states * states).sum(2), whole.squeeze(2))
    d_g = products.backward(d_within, d_mix.mul_(beta), d_q, d_k, d_before, d_kept * kept)
    return tuple(x.unflatten(0, shape[:2]) for x in (d_v, d_q, d_k, d_g, d_beta))


def _norms(x: Tensor) -> Tuple[Tensor, Tensor]:
    """x / sqrt(sum x^2 + 1e-6), and the factor."""
    factor = (x.square().sum(-1, keepdim=True) + _EPSILON).rsqrt()
    return x * factor, factor


def _norms_backward(d: Tensor, normed: Tensor, factor: Tensor) -> Tensor:
    return (d - normed * (d * normed).sum(-1, keepdim=True)) * factor


class _Gate:
    """The logarithm of the decay from a projection, [chunks, heads, size] or with the key's channels."""

    def __init__(self, x: Tensor, a_log: Optional[Tensor], dt_bias: Optional[Tensor], lower_bound: float):
        self.bound = lower_bound
        self.raw = bool(lower_bound) or a_log is not None
        self.value = x
        if self.raw:
            self.factor = x.new_ones(()) if a_log is None else a_log.exp().reshape(-1, *(1,) * (x.dim() - 2))
            self.shifted = x if dt_bias is None else x + dt_bias.unsqueeze(1)
            if lower_bound:
                self.sigmoid = (self.shifted * self.factor).sigmoid()
                self.value = self.sigmoid * lower_bound
            else:
                self.value = F.softplus(self.shifted) * -self.factor

    def backward(self, d: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Gradients of the projection; of a_log, [heads]; of dt_bias, [heads] or [heads, K]."""
        if not self.raw:
            return d, d.new_zeros(d.shape[1]), d.new_zeros(d.shape[1], *d.shape[3:])
        others = [axis for axis in range(d.dim()) if axis != 1]
        if self.bound:
            d = d * self.sigmoid * (1 - self.sigmoid) * self.bound * self.factor
            return d, (d * self.shifted).sum(others), d.sum((0, 2))
        d_a_log = (d * self.value).sum(others)
        d = d * self.shifted.sigmoid() * -self.factor
        return d, d_a_log, d.sum((0, 2))


def _rule_backward(d_out: Optional[Tensor], d_final: Optional[Tensor], q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
                   initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], a_log: Optional[Tensor], dt_bias: Optional[Tensor],
                   scale: Optional[float], qk_norm: bool, beta_logit: bool, beta_factor: float, state_v_first: bool, head_map: str,
                   lower_bound: float, wanted: List[bool]) -> List[Tensor]:
    """The gradients of those of q, k, v, g, beta, initial_state, a_log and dt_bias that are wanted."""
    given = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial_state, "a_log": a_log, "dt_bias": dt_bias}
    inputs = {name: x for (name, x), want in zip(given.items(), wanted) if want and x is not None}
    with torch.autocast(q.device.type, enabled=False):
        found = _rule_gradients(d_out, d_final, **given, cu_seqlens=cu_seqlens, scale=k.shape[-1] ** -0.5 if scale is None else scale,
                                qk_norm=qk_norm, beta_logit=beta_logit, beta_factor=beta_factor, state_v_first=state_v_first,
                                head_map=head_map, lower_bound=lower_bound, rest=not {"v", "initial_state"}.issuperset(inputs))
        return [found[name].reshape(x.shape).to(x.dtype, memory_format=torch.contiguous_format) for name, x in inputs.items()]


def _rule_gradients(d_out: Optional[Tensor], d_final: Optional[Tensor], q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
                    initial_state: Optional[Tensor], a_log: Optional[Tensor], dt_bias: Optional[Tensor], cu_seqlens: Optional[Tensor],
                    scale: float, qk_norm: bool, beta_logit: bool, beta_factor: float, state_v_first: bool, head_map: str,
                    lower_bound: float, rest: bool) -> Dict[str, Tensor]:
    """Gradients by name, in float32: of v and initial_state, and with `rest` of the others. Blocks of heads, one after another."""
    batch, tokens, heads_k, dim = k.shape
    heads, dim_v = v.shape[2:]
    chunks = _chunks(batch, tokens, cu_seqlens, q.device)
    d_out = v.new_zeros(v.shape) if d_out is None else d_out
    a_log = None if a_log is None else a_log.flatten().float()
    dt_bias = None if dt_bias is None else dt_bias.reshape(g.shape[2:]).float()
    q, k, v, g, beta, d_out = (x.flatten(0, 1) for x in (q, k, v, g, beta, d_out))
    all_heads = torch.arange(heads, device=q.device)
    of_key = all_heads // (heads // heads_k) if head_map == "grouped" else all_heads % heads_k
    found = {name: k.new_zeros(k.shape, dtype=torch.float32) for name in ("q", "k")}
    parts: Dict[str, List[Tensor]] = {}
    for some in all_heads.split(max(1, _ELEMENTS // max(1, chunks.token.numel() * dim))):
        keys = of_key[some]
        x_q, x_k = chunks.cut(q, keys), chunks.cut(k, keys)
        if qk_norm:
            (x_q, factor_q), (x_k, factor_k) = _norms(x_q), _norms(x_k)
        gate = _Gate(chunks.cut(g, some), None if a_log is None else a_log[some], None if dt_bias is None else dt_bias[some], lower_bound)
        raw = chunks.cut(beta, some)
        raw = raw.sigmoid() if beta_logit else raw
        state, d_state = (k.new_zeros(len(chunks.order), len(some), dim, dim_v, dtype=torch.float32) if x is None else
                          (x.mT if state_v_first else x)[chunks.order][:, some].to(torch.float32, memory_format=torch.contiguous_format)
                          for x in (initial_state, d_final))
        d_v, *others = _chunked(x_q * scale, x_k, chunks.cut(v, some), chunks.without_padding(gate.value),
                                chunks.without_padding(raw * beta_factor), state, chunks.cut(d_out, some), d_state, chunks.steps, rest)
        d_initial = torch.empty_like(d_state)
        d_initial[chunks.order] = d_state
        new = {"v": chunks.joined(d_v), "initial_state": d_initial.mT if state_v_first else d_initial}
        if rest:
            d_q, d_k, d_g, d_beta = others
            d_q = d_q * scale
            if qk_norm:
                d_q, d_k = _norms_backward(d_q, x_q, factor_q), _norms_backward(d_k, x_k, factor_k)
            found["q"].index_add_(1, keys, chunks.joined(d_q))
            found["k"].index_add_(1, keys, chunks.joined(d_k))
            d_g, new["a_log"], new["dt_bias"] = gate.backward(chunks.without_padding(d_g))
            new["g"] = chunks.joined(d_g)
            new["beta"] = chunks.joined(d_beta * (raw * (1 - raw) if beta_logit else 1) * beta_factor)
        for name, x in new.items():
            parts.setdefault(name, []).append(x)
    return {**found, **{name: torch.cat(x, 0 if name in ("a_log", "dt_bias") else 1) for name, x in parts.items()}}


def _conv_backward(d_out: Tensor, x: Tensor, weight: Tensor, bias: Optional[Tensor], initial_states: Optional[Tensor],
                   cu_seqlens: Optional[Tensor], silu: bool, wanted: List[bool]) -> List[Tensor]:
    """The gradients of those of x, weight, bias and initial_states that are wanted. Sequences lie one after another, each behind
    its initial state, so that all are one convolution."""
    channels, width = weight.shape
    before = width - 1
    n = x.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    bounds = torch.arange(n + 1) * x.shape[1] if cu_seqlens is None else cu_seqlens.cpu().long()
    sequence = torch.repeat_interleave(torch.arange(n), bounds.diff())
    place = (torch.arange(len(sequence)) + before * (sequence + 1)).to(x.device)
    own = slice(int(bounds[0]), int(bounds[-1]))
    states = ((bounds[:-1] + before * torch.arange(n)).unsqueeze(1) + torch.arange(before)).flatten().to(x.device)

    def inputs(tokens: Tensor, first: Optional[Tensor]) -> Tensor:
        y = tokens.new_zeros(len(place) + before * n, channels, dtype=torch.float32)
        y[place] = tokens.flatten(0, 1)[own].float()
        if first is not None:
            y[states] = first.flatten(0, 1).float()
        return y

    taps, known, d = weight.float(), inputs(x, initial_states), inputs(d_out, None)
    n_outputs = max(len(known) - before, 0)
    d = d[len(d) - n_outputs:]
    if silu:
        y = known.new_zeros(n_outputs, channels) if bias is None else bias.float().expand(n_outputs, channels).clone()
        for at in range(width):
            y.addcmul_(known[at:at + n_outputs], taps[:, at])
        sigmoid = y.sigmoid()
        d = d * sigmoid * (1 + y * (1 - sigmoid))
    found: List[Tensor] = []
    if wanted[0] or wanted[3]:
        d_known = torch.zeros_like(known)
        for at in range(width):
            d_known[at:at + n_outputs].addcmul_(d, taps[:, at])
    if wanted[0]:
        d_x = torch.zeros_like(x, memory_format=torch.contiguous_format)
        d_x.view(-1, channels)[own] = d_known[place].to(x.dtype)
        found.append(d_x)
    if wanted[1]:
        found.append(torch.stack([(d * known[at:at + n_outputs]).sum(0) for at in range(width)], 1).to(weight.dtype))
    if wanted[2] and bias is not None:
        found.append(d.sum(0).to(bias.dtype))
    if wanted[3] and initial_states is not None:
        found.append(d_known[states].unflatten(0, (n, before)).to(initial_states.dtype))
    return found


_rule_backward_operator = torch.library.custom_op("gdn::gated_delta_net_backward", _rule_backward, mutates_args=(),
                                                  device_types=("cpu", "cuda"))
_conv_backward_operator = torch.library.custom_op("gdn::ssm_conv_backward", _conv_backward, mutates_args=(), device_types=("cpu", "cuda"))


def _like(inputs: Sequence[Optional[Tensor]], wanted: Sequence[bool]) -> List[Tensor]:
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x, want in zip(inputs, wanted) if want and x is not None]


@_rule_backward_operator.register_fake
def _(d_out, d_final, q, k, v, g, beta, initial_state, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor, state_v_first,
      head_map, lower_bound, wanted):
    return _like((q, k, v, g, beta, initial_state, a_log, dt_bias), wanted)


@_conv_backward_operator.register_fake
def _(d_out, x, weight, bias, initial_states, cu_seqlens, silu, wanted):
    return _like((x, weight, bias, initial_states), wanted)


def _refuse_second(ctx: Any, *gradients: Any) -> None:
    raise NotImplementedError("gdn.torch has first derivatives only: this is the gradient of a gradient (create_graph=True). Use another "
                              "implementation for it (gdn.transformers.undo())")


_rule_backward_operator.register_autograd(_refuse_second)
_conv_backward_operator.register_autograd(_refuse_second)


def _rule_save(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:9])
    ctx.options = inputs[9:16]  # both forms have the recurrence's gradients


def _conv_save(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.silu = inputs[5]


def _needs(ctx: Any, n: int) -> List[bool]:
    """For the first n inputs, whether a gradient is needed. The dispatcher leaves out last inputs that have their defaults."""
    return [at < len(ctx.needs_input_grad) and ctx.needs_input_grad[at] for at in range(n)]


def _each(ctx: Any, needs: Sequence[bool], found: Sequence[Tensor]) -> Tuple[Optional[Tensor], ...]:
    """For every input its gradient, or None."""
    left = iter(found)
    every = [next(left) if need else None for need in needs]
    return tuple((every + [None] * len(ctx.needs_input_grad))[:len(ctx.needs_input_grad)])


def _rule_connected(ctx: Any, d_out: Optional[Tensor], d_final: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
    needs = _needs(ctx, 9)
    return _each(ctx, needs, _rule_backward_operator(d_out, d_final, *ctx.saved_tensors, *ctx.options, needs[:6] + needs[7:]))


def _conv_connected(ctx: Any, d_out: Tensor) -> Tuple[Optional[Tensor], ...]:
    needs = _needs(ctx, 4)
    return _each(ctx, needs, _conv_backward_operator(d_out, *ctx.saved_tensors, ctx.silu, needs))


_rule_operator.register_autograd(_rule_connected, setup_context=_rule_save)
_conv_operator.register_autograd(_conv_connected, setup_context=_conv_save)
