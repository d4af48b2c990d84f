"""The kernels as operators of torch.library, on tensors in the CPU's memory or on one CUDA device."""
from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, ContextManager, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

import gdn
from .. import _abi as abi
from .. import _cuda
from .._kernels import _build_gated_delta_net, _build_ssm_conv, _Call
from .._operands import RAW, View, strided

_CODES = {torch.float32: abi.GDN_F32, torch.float16: abi.GDN_F16, torch.bfloat16: abi.GDN_BF16, torch.int32: abi.GDN_I32,
          torch.int64: abi.GDN_I64, torch.uint8: RAW}
_OLDEST = (7, 5)  # lowest compute capability of devices that the library lists
_contexts: Dict[Tuple[int, int], gdn.Context] = {}
_lock = threading.Lock()


def context() -> gdn.Context:
    """The context of these operators: the CPU with torch.get_num_threads() threads. A new one is created when that
    number changes, and in a forked child. Results do not depend on it."""
    key = os.getpid(), torch.get_num_threads()
    found = _contexts.get(key)
    if found is None:
        with _lock:
            found = _contexts.get(key)
            if found is None:
                for other in [other for other in _contexts if other[0] != key[0]]:
                    del _contexts[other]  # of the parent process, before a fork
                found = _contexts[key] = gdn.Context(n_threads=key[1])
    return found


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


class _Where(NamedTuple):
    """The device of a call's operands, and how calls run there."""

    context: gdn.Context
    lock: ContextManager
    stream: Optional[int]
    tensor: Optional[Tensor]  # on a CUDA device; None: the CPU

    def map(self, n: int, value: int) -> Any:
        """An int32 map of n equal values, which a device fills itself, also in a graph."""
        return [value] * n if self.tensor is None else view(self.tensor.new_full((n,), value, dtype=torch.int32), "a map")

    def starts(self, cu_seqlens: Optional[Tensor]) -> Any:
        """The seq_start map. On a device its values are not checked, which would need a wait."""
        if cu_seqlens is None:
            return None
        return cu_seqlens.tolist() if self.tensor is None else view(cu_seqlens.to(torch.int32).contiguous(), "cu_seqlens")

    def run(self, call: _Call) -> None:
        """Run a call. On a device scratch memory comes from PyTorch, whose allocator tracks streams. This also raises
        errors that an earlier call's kernel found."""
        if self.tensor is None:
            call.run(None)
            return
        given = self.tensor
        with self.lock:
            self.context.poll()
            call.run(self.stream, lambda n_bytes: view(given.new_empty(n_bytes, dtype=torch.uint8), "workspace"))


def _where(tensor: Tensor) -> _Where:
    if tensor.device.type == "cpu":
        return _Where(context(), contextlib.nullcontext(), None, None)
    found = _cuda.device(_place(tensor))
    return _Where(found.context, found.lock, _cuda.stream(torch.cuda.current_stream(tensor.device).cuda_stream), tensor)


def _place(tensor: Tensor) -> Optional[int]:
    """The library's index of a tensor's device; the library does not count devices that are too old. None: the CPU."""
    device = tensor.device
    if device.type == "cpu":
        return None
    return sum(torch.cuda.get_device_capability(number) >= _OLDEST for number in range(device.index))


def view(tensor: Tensor, name: str) -> View:
    """A tensor as an operand; copied if the library cannot read its layout."""
    if tensor.dtype not in _CODES:
        raise TypeError(f"{name} has dtype {tensor.dtype}; torch.float32, torch.float16 and torch.bfloat16 are allowed")
    tensor = tensor.resolve_neg()
    if any(extent > 1 and stride <= 0 for extent, stride in zip(tensor.shape, tensor.stride())):
        tensor = tensor.contiguous()
    strides = tensor.stride()
    size = tensor.element_size()
    return strided(name, tensor.data_ptr(), tuple(tensor.shape), tuple(size * stride for stride in strides), _CODES[tensor.dtype],
                   tensor, _place(tensor))


def rows(tensor: Tensor, name: str) -> View:
    """view(), with a contiguous last axis."""
    return view(tensor if tensor.shape[-1] < 2 or tensor.stride(-1) == 1 else tensor.contiguous(), name)


def _n_sequences(x: Tensor, cu_seqlens: Optional[Tensor]) -> int:
    return x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


@torch.library.custom_op("gdn::gated_delta_net", mutates_args=(), device_types=("cpu", "cuda"))
def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Optional[Tensor] = None,
                    cu_seqlens: Optional[Tensor] = None, a_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
                    scale: Optional[float] = None, qk_norm: bool = False, beta_logit: bool = False, beta_factor: float = 1.0,
                    state_v_first: bool = False, head_map: str = "grouped", lower_bound: float = 0.0) -> Tuple[Tensor, Tensor]:
    """gdn.gated_delta_net on tensors: (out, final_state), both new tensors. Shapes are [B, T, ...], or [1, T, ...] with
    cu_seqlens [N + 1]; states [N, n_heads_v, head_dim_k, head_dim_v] in float32, the last two swapped with
    state_v_first; out has q's dtype; tokens outside cu_seqlens are zeros in it.
    a_log, [n_heads_v]: g is the projection, and the decay exp(-exp(a_log) * softplus(g + dt_bias)). With lower_bound below 0 the
    decay is exp(lower_bound * sigmoid(exp(a_log) * (g + dt_bias))), and a_log optional. qk_norm adds 1e-6."""
    packed = cu_seqlens is not None
    if packed and q.shape[0] != 1:
        raise ValueError(f"q has {q.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    n, heads, dims = _n_sequences(q, cu_seqlens), v.shape[2], (q.shape[-1], v.shape[-1])
    shape = (n, heads, *(dims[::-1] if state_v_first else dims))
    if initial_state is not None and tuple(initial_state.shape) != shape:
        raise ValueError(f"initial_state has shape {list(initial_state.shape)}; it must be {list(shape)}")
    where = _where(q)
    out = q.new_zeros(v.shape) if packed else q.new_empty(v.shape)  # cu_seqlens may not cover all tokens
    initial = None if initial_state is None else rows(initial_state.to(torch.float32), "initial_state").owner
    whole = not packed and q.shape[1] > 0
    if whole:
        final = q.new_empty(shape, dtype=torch.float32)
    else:  # sequences without tokens write no state: copy the initial one
        final = q.new_zeros(shape, dtype=torch.float32) if initial is None else initial.clone(memory_format=torch.contiguous_format)
    one = [x[0] if packed else x for x in (q, k, v, g, beta, out)]  # concatenated sequences, or a batch axis
    named: Dict[str, Any] = {}
    if lower_bound:
        named = {"gate_input": "bounded", "lower_bound": lower_bound}
    elif a_log is not None:
        named = {"gate_input": "raw_a_log"}
    if a_log is not None:
        named["ssm_a"] = view(a_log.reshape(heads), "a_log")
    if named and dt_bias is not None:
        named["dt_bias"] = rows(dt_bias.reshape(g.shape[2:]), "dt_bias")
    if qk_norm:
        named.update(qk_norm="add", qk_norm_eps=1e-6)
    if initial is None:
        named["state_src"] = where.map(n, gdn.NONE)
    elif whole:
        named["state_out"] = view(final, "final_state")
    state = view(initial, "initial_state") if initial is not None and whole else view(final, "final_state")
    where.run(_build_gated_delta_net(rows(one[0], "q"), rows(one[1], "k"), rows(one[2], "v"),
                                     rows(one[3], "g") if g.dim() == 4 else view(one[3], "g"), view(one[4], "beta"), state,
                                     out=view(one[5], "out"), seq_start=where.starts(cu_seqlens), scale=scale, head_map=head_map,
                                     state_layout="vk" if state_v_first else "kv", beta_input="logit" if beta_logit else "plain",
                                     beta_factor=beta_factor, context=where.context, **named))
    return out, final


@gated_delta_net.register_fake
def _(q, k, v, g, beta, initial_state=None, cu_seqlens=None, a_log=None, dt_bias=None, scale=None, qk_norm=False, beta_logit=False,
      beta_factor=1.0, state_v_first=False, head_map="grouped", lower_bound=0.0):
    dims = (q.shape[-1], v.shape[-1])
    state = (_n_sequences(q, cu_seqlens), v.shape[2], *(dims[::-1] if state_v_first else dims))
    return q.new_empty(v.shape), q.new_empty(state, dtype=torch.float32)


@torch.library.custom_op("gdn::ssm_conv", mutates_args=(), device_types=("cpu", "cuda"))
def ssm_conv(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, initial_states: Optional[Tensor] = None,
             cu_seqlens: Optional[Tensor] = None, silu: bool = False) -> Tensor:
    """gdn.ssm_conv on tensors: x [B, T, channels], or [1, T, channels] with cu_seqlens [N + 1]; weight [channels, width];
    initial_states [N, width - 1, channels], the earlier inputs, oldest first; the result is as x, with zeros for tokens
    outside cu_seqlens."""
    packed = cu_seqlens is not None
    if packed and x.shape[0] != 1:
        raise ValueError(f"x has {x.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    n, before = _n_sequences(x, cu_seqlens), weight.shape[1] - 1
    if initial_states is not None and tuple(initial_states.shape) != (n, before, x.shape[2]):
        raise ValueError(f"initial_states has shape {list(initial_states.shape)}; it must be {[n, before, x.shape[2]]}")
    where = _where(x)
    out = x.new_zeros(x.shape) if packed else x.new_empty(x.shape)
    history: Dict[str, Any] = {}
    if initial_states is not None and before:  # prepend them as tokens
        history = {"history": rows(initial_states, "initial_states"), "position": where.map(n, before),
                   "history_dst": where.map(n, gdn.NONE)}
    where.run(_build_ssm_conv(rows(x[0] if packed else x, "x"), view(weight, "weight"), None if bias is None else rows(bias, "bias"),
                              out=view(out[0] if packed else out, "out"), silu=silu, seq_start=where.starts(cu_seqlens),
                              context=where.context, **history))
    return out


@ssm_conv.register_fake
def _(x, weight, bias=None, initial_states=None, cu_seqlens=None, silu=False):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _forward_only(ctx, *gradients):
    raise NotImplementedError("gdn.torch is forward only: its operators have no gradients. Run under torch.no_grad() or "
                              "torch.inference_mode(), or train with another implementation (gdn.transformers.undo()).")


for _operator in (gated_delta_net, ssm_conv):
    _operator.register_autograd(_forward_only)


def one_device(**tensors: Optional[Tensor]) -> None:
    """Refuse tensors on unsupported or different devices, with a clearer text than the dispatcher's."""
    first, device = "", None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.device.type not in ("cpu", "cuda"):
            raise NotImplementedError(f"{name} is on {tensor.device}; gdn.torch runs on the CPU and on CUDA devices")
        if device is None:
            first, device = name, tensor.device
        elif tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, and {first} on {device}; all operands have to be on one device")
    if device is not None and device.type == "cuda" and not torch.compiler.is_compiling() and _cuda.why_not():
        raise NotImplementedError(f"{first} is on {device}, where this libgdn cannot run: {_cuda.why_not()}")
