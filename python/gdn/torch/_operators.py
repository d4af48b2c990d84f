"""The kernels as operators of torch.library, on tensors in the CPU's memory."""
from __future__ import annotations

import os
import threading
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

import gdn
from .. import _abi as abi
from .._operands import View, strided

_CODES = {torch.float32: abi.GDN_F32, torch.float16: abi.GDN_F16, torch.bfloat16: abi.GDN_BF16, torch.int32: abi.GDN_I32,
          torch.int64: abi.GDN_I64}
_contexts: Dict[Tuple[int, int], gdn.Context] = {}
_lock = threading.Lock()


def context() -> gdn.Context:
    """The context of these operators: the CPU with torch.get_num_threads() threads; another one where that changes, and in a
    forked child. Results never depend on it."""
    key = os.getpid(), torch.get_num_threads()
    found = _contexts.get(key)
    if found is None:
        with _lock:
            found = _contexts.get(key)
            if found is None:
                for other in [other for other in _contexts if other[0] != key[0]]:
                    del _contexts[other]  # of the process before a fork
                found = _contexts[key] = gdn.Context(n_threads=key[1])
    return found


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def view(tensor: Tensor, name: str) -> View:
    """A tensor as an operand; copied where the library cannot read it as it lies."""
    if tensor.dtype not in _CODES:
        raise TypeError(f"{name} has dtype {tensor.dtype}; torch.float32, torch.float16 and torch.bfloat16 are allowed")
    strides = tensor.stride()
    if any(extent > 1 and stride <= 0 for extent, stride in zip(tensor.shape, strides)):
        tensor = tensor.contiguous()
        strides = tensor.stride()
    size = tensor.element_size()
    return strided(name, tensor.data_ptr(), tuple(tensor.shape), tuple(size * stride for stride in strides), _CODES[tensor.dtype], tensor)


def rows(tensor: Tensor, name: str) -> View:
    """The same, with the last axis contiguous."""
    return view(tensor if tensor.shape[-1] < 2 or tensor.stride(-1) == 1 else tensor.contiguous(), name)


def _starts(cu_seqlens: Optional[Tensor]) -> Optional[List[int]]:
    return None if cu_seqlens is None else cu_seqlens.tolist()


def _n_sequences(x: Tensor, cu_seqlens: Optional[Tensor]) -> int:
    return x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


@torch.library.custom_op("gdn::gated_delta_net", mutates_args=(), device_types="cpu")
def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Optional[Tensor] = None,
                    cu_seqlens: Optional[Tensor] = None, a_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
                    scale: float = 0.0, qk_norm: bool = False, beta_logit: bool = False, beta_factor: float = 1.0,
                    state_v_first: bool = False, head_map: str = "grouped") -> Tuple[Tensor, Tensor]:
    """gdn.gated_delta_net on tensors: (out, final_state), neither an input. Shapes are [B, T, ...], or [1, T, ...] with cu_seqlens
    [N + 1]; states [N, n_heads_v, head_dim_k, head_dim_v] in float32, the last two swapped with state_v_first; out has q's dtype.
    a_log, [n_heads_v]: g is the projection, and the decay exp(-exp(a_log) * softplus(g + dt_bias)). qk_norm adds 1e-6."""
    packed = cu_seqlens is not None
    if packed and q.shape[0] != 1:
        raise ValueError(f"q has {q.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    n, heads, dims = _n_sequences(q, cu_seqlens), v.shape[2], (q.shape[-1], v.shape[-1])
    shape = (n, heads, *(dims[::-1] if state_v_first else dims))
    if initial_state is not None and tuple(initial_state.shape) != shape:
        raise ValueError(f"initial_state has shape {list(initial_state.shape)}; it must be {list(shape)}")
    out = torch.empty(v.shape, dtype=q.dtype)
    final = torch.empty(shape, dtype=torch.float32)
    one = [x[0] if packed else x for x in (q, k, v, g, beta, out)]  # one sequence after another, or an axis of them
    named: Dict[str, Any] = {} if a_log is None else {"g_form": "raw_a_log", "ssm_a": view(a_log.reshape(heads), "a_log")}
    if a_log is not None and dt_bias is not None:
        named["dt_bias"] = rows(dt_bias.reshape(g.shape[2:]), "dt_bias")
    if qk_norm:
        named.update(qk_norm="add", qk_norm_eps=1e-6)
    if initial_state is None:
        named["state_src"] = [gdn.NONE] * n
    else:
        named["state_out"] = view(final, "final_state")
    gdn.gated_delta_net(rows(one[0], "q"), rows(one[1], "k"), rows(one[2], "v"),
                        rows(one[3], "g") if g.dim() == 4 else view(one[3], "g"), view(one[4], "beta"),
                        view(final, "final_state") if initial_state is None else rows(initial_state.to(torch.float32), "initial_state"),
                        out=view(one[5], "out"), seq_start=_starts(cu_seqlens), scale=scale, head_map=head_map,
                        state_layout="vk" if state_v_first else "kv", beta_form="logit" if beta_logit else "plain",
                        beta_factor=beta_factor, context=context(), **named)
    _keep_states_of_empty(final, initial_state, cu_seqlens, q)
    return out, final


def _keep_states_of_empty(final: Tensor, initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], q: Tensor) -> None:
    """Sequences without tokens write nothing: their state is what it was."""
    if cu_seqlens is not None:
        empty = cu_seqlens[1:] == cu_seqlens[:-1]
    elif not q.shape[1]:
        empty = torch.ones(final.shape[0], dtype=torch.bool)
    else:
        return
    if bool(empty.any()):
        final[empty] = 0 if initial_state is None else initial_state[empty].to(torch.float32)


@gated_delta_net.register_fake
def _(q, k, v, g, beta, initial_state=None, cu_seqlens=None, a_log=None, dt_bias=None, scale=0.0, qk_norm=False, beta_logit=False,
      beta_factor=1.0, state_v_first=False, head_map="grouped"):
    dims = (q.shape[-1], v.shape[-1])
    state = (_n_sequences(q, cu_seqlens), v.shape[2], *(dims[::-1] if state_v_first else dims))
    return q.new_empty(v.shape), q.new_empty(state, dtype=torch.float32)


@torch.library.custom_op("gdn::ssm_conv", mutates_args=(), device_types="cpu")
def ssm_conv(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, initial_states: Optional[Tensor] = None,
             cu_seqlens: Optional[Tensor] = None, silu: bool = False) -> Tensor:
    """gdn.ssm_conv on tensors: x [B, T, channels], or [1, T, channels] with cu_seqlens [N + 1]; weight [channels, width];
    initial_states [N, width - 1, channels], the tokens before, oldest first; the result is as x."""
    packed = cu_seqlens is not None
    if packed and x.shape[0] != 1:
        raise ValueError(f"x has {x.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    n, before = _n_sequences(x, cu_seqlens), weight.shape[1] - 1
    if initial_states is not None and tuple(initial_states.shape) != (n, before, x.shape[2]):
        raise ValueError(f"initial_states has shape {list(initial_states.shape)}; it must be {[n, before, x.shape[2]]}")
    out = torch.empty(x.shape, dtype=x.dtype)
    history: Dict[str, Any] = {}
    if initial_states is not None and before:  # as if they were the first tokens of all
        history = {"history": rows(initial_states, "initial_states"), "position": [before] * n, "history_dst": [gdn.NONE] * n}
    gdn.ssm_conv(rows(x[0] if packed else x, "x"), view(weight, "weight"), None if bias is None else rows(bias, "bias"),
                 out=view(out[0] if packed else out, "out"), silu=silu, seq_start=_starts(cu_seqlens), context=context(), **history)
    return out


@ssm_conv.register_fake
def _(x, weight, bias=None, initial_states=None, cu_seqlens=None, silu=False):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _forward_only(ctx, *gradients):
    raise NotImplementedError("gdn.torch is forward only: its operators have no gradients. Run under torch.no_grad() or "
                              "torch.inference_mode(), or train with another implementation (gdn.transformers.undo()).")


for _operator in (gated_delta_net, ssm_conv):
    _operator.register_autograd(_forward_only)


def on_cpu(**tensors: Optional[Tensor]) -> None:
    """Refuse tensors that are elsewhere, before the dispatcher does so in words of its own."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.device.type != "cpu":
            raise NotImplementedError(f"{name} is on {tensor.device}; gdn.torch runs on the CPU")
