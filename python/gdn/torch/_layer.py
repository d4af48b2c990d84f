"""A gated-delta layer between its projections, on the CPU: convolution and delta rule, without copying projections,
with states in place. It bypasses torch.library: the caller ensures that no tracing, compilation or gradient is active.

The bits are those of gdn.torch's operators, which layers use in all other cases.
"""
from __future__ import annotations

from ctypes import memmove
from typing import Optional

import torch
from torch import Tensor

import gdn
from .._kernels import _build_gated_delta_net, _build_ssm_conv
from .._prepared import again, Prepared
from ._operators import call, context, view, written

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _form(tensor: Optional[Tensor]):
    """What a prepared call depends on: of all operands, since only their addresses may change."""
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype)


def _readable(*tensors: Optional[Tensor]):
    """The tensors, copied where an axis repeats its elements, which the library does not read."""
    return (x.contiguous() if x is not None and 0 in x.stride() else x for x in tensors)


def conv(x: Tensor, weight: Tensor, bias: Optional[Tensor], past: Optional[Tensor]) -> Tensor:
    """silu of the convolution: x [B, T, channels], weight [channels, width], bias [channels]; past [B, columns,
    channels]: the earlier inputs, oldest first, columns >= width - 1, of x's type; None: zeros. The last axes of x,
    bias and past are contiguous. Returns a new tensor as x; writes nothing else."""
    on = context()
    x, weight, bias, past = _readable(x, weight, bias, past)
    out = x.new_empty(x.shape)

    def make() -> Prepared:
        operands = {"x": x, "weight": weight, "out": out, "bias": bias, "history": past}
        given = {name: view(operand, name) for name, operand in operands.items() if operand is not None}
        n, columns = (0, 0) if past is None else past.shape[:2]
        maps = {} if past is None else {"position": [columns] * n, "history_dst": [gdn.NONE] * n}
        return Prepared(_build_ssm_conv(**given, **maps, silu=True, context=on), tuple(given))

    addresses = [x.data_ptr(), weight.data_ptr(), out.data_ptr()]
    if bias is not None:
        addresses.append(bias.data_ptr())
    if past is not None:
        addresses.append(past.data_ptr())
    call("gdn::ssm_conv", again, on, ("conv", _form(x), _form(weight), _form(bias), _form(past)), make, addresses)
    return out


def push(columns: Tensor, x: Tensor) -> None:
    """Append the newest tokens of x [B, T, channels] to columns [B, length, channels], in place. A decode step moves
    only three columns, so the overhead of PyTorch calls matters."""
    length, tokens = columns.shape[1], x.shape[1]
    if tokens >= length:
        columns.copy_(x[:, tokens - length:])
    elif not (columns.is_contiguous() and x.is_contiguous() and columns.dtype == x.dtype):
        columns.copy_(torch.cat((columns[:, tokens:], x), 1))
    else:
        written(columns)
        row, new = length * columns.shape[2] * columns.element_size(), tokens * columns.shape[2] * columns.element_size()
        to, source = columns.data_ptr(), x.data_ptr()
        for one in range(columns.shape[0]):
            memmove(to + one * row, to + one * row + new, row - new)
            memmove(to + (one + 1) * row - new, source + one * new, new)


def rule(qkv: Tensor, b: Tensor, a: Tensor, a_log: Tensor, dt_bias: Tensor, state: Tensor, begins: bool, heads_k: int,
         beta_factor: float = 1.0) -> Tensor:
    """The delta rule on the convolution's output, qkv [B, T, channels]: q and k of heads_k heads, then v, packed. b and
    a [B, T, heads] are the projections for beta and the gate. a_log and dt_bias are [heads]. The state [B, heads,
    dim_k, dim_v], float32 and packed, is read and written. `begins`: start from zero instead. beta is
    beta_factor * sigmoid(b). Returns
    [B, T, heads, dim_v], of qkv's type."""
    on = context()
    qkv, b, a, a_log, dt_bias = _readable(qkv, b, a, a_log, dt_bias)
    n, tokens, _ = qkv.shape
    _, heads, dim_k, dim_v = state.shape
    out = qkv.new_empty((n, tokens, heads, dim_v))
    width = heads_k * dim_k

    def make() -> Prepared:
        q, k, v = qkv.split((width, width, heads * dim_v), -1)
        built = _build_gated_delta_net(view(q.unflatten(-1, (heads_k, dim_k)), "q"), view(k.unflatten(-1, (heads_k, dim_k)), "k"),
                                       view(v.unflatten(-1, (heads, dim_v)), "v"), view(a, "a"), view(b, "b"), view(state, "state", True),
                                       out=view(out, "out"), state_layout="kv", qk_norm="add", qk_norm_eps=1e-6,
                                       gate_input="raw_a_log", beta_input="logit", beta_factor=beta_factor,
                                       ssm_a=view(a_log, "a_log"), dt_bias=view(dt_bias, "dt_bias"),
                                       state_src=[gdn.NONE] * n if begins else None, context=on)
        return Prepared(built, ("q", "k", "v", "g", "beta", "ssm_a", "dt_bias", "state", "out"))

    at, step = qkv.data_ptr(), width * qkv.element_size()
    written(state)
    call("gdn::gated_delta_net", again, on, ("rule", *map(_form, (qkv, b, a, a_log, dt_bias, state)), begins, heads_k, beta_factor), make,
         (at, at + step, at + 2 * step, a.data_ptr(), b.data_ptr(), a_log.data_ptr(), dt_bias.data_ptr(), state.data_ptr(), out.data_ptr()))
    return out
