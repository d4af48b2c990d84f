"""The kernels as operators of torch.library, on tensors in the CPU's memory or on one CUDA device."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

import gdn
from .. import _abi as abi
from .. import _cuda
from .._contexts import once
from .._kernels import _build_gated_delta_net, _build_ssm_conv, _Call
from .._operands import RAW, View, strided
from .._prepared import Prepared, again

_CODES = {torch.float32: abi.GDN_F32, torch.float16: abi.GDN_F16, torch.bfloat16: abi.GDN_BF16, torch.int32: abi.GDN_I32,
          torch.int64: abi.GDN_I64, torch.uint8: RAW}
_OLDEST = (7, 5)  # lowest compute capability of devices that the library lists
_contexts: Dict[Tuple[int, int], gdn.Context] = {}
_NO_LOCK = contextlib.nullcontext()
_PLAIN = (Tensor, torch.nn.Parameter)


def context() -> gdn.Context:
    """The context of these operators: the CPU with torch.get_num_threads() threads. A new one is created when that
    number changes, and in a forked child. Results do not depend on it."""
    return once(_contexts, lambda n: gdn.Context(n_threads=n), torch.get_num_threads())


class _Where(NamedTuple):
    """The device of a call's operands, and how calls run there."""

    context: gdn.Context
    lock: ContextManager
    stream: Optional[int]
    tensor: Optional[Tensor]  # on a CUDA device; None: the CPU

    def map(self, n: int, value: int) -> Any:
        """An int32 map of n equal values, which a device fills itself, also in a graph."""
        return (value,) * n if self.tensor is None else self.tensor.new_full((n,), value, dtype=torch.int32)

    def run(self, build: Callable[..., _Call], operands: Dict[str, Any], options: Dict[str, Any], labels: Dict[str, str]) -> None:
        """Run a call: tensors that the library can read, and other arguments, which are part of the prepared call's
        key. `labels` has the names of operands in errors, where they differ. On a device scratch memory comes from
        PyTorch, whose allocator tracks streams. This also raises errors that an earlier call's kernel found."""
        names, addresses, form = [], [], [build, *options.items()]
        for name, x in operands.items():
            if type(x) is tuple:
                form += name, x
            elif x is not None:
                names.append(name)
                addresses.append(x.data_ptr())
                form += name, x.shape, x.stride(), x.dtype
                if self.tensor is not None or not x.is_cpu:
                    form.append(x.device)

        def make() -> Prepared:
            given = {name: view(x, labels.get(name, name)) if isinstance(x, Tensor) else x for name, x in operands.items()}
            return Prepared(build(**given, **options, context=self.context), names)

        if self.tensor is None:
            again(self.context, tuple(form), make, addresses)
            return
        given = self.tensor
        with self.lock:
            self.context.poll()
            again(self.context, tuple(form), make, addresses, self.stream,
                  lambda n_bytes: view(given.new_empty(n_bytes, dtype=torch.uint8), "workspace"))


def _where(tensor: Tensor) -> _Where:
    if tensor.is_cpu:
        return _Where(context(), _NO_LOCK, None, None)
    found = _cuda.device(_place(tensor))
    return _Where(found.context, found.lock, _cuda.stream(torch.cuda.current_stream(tensor.device).cuda_stream), tensor)


def _place(tensor: Tensor) -> Optional[int]:
    """The library's index of a tensor's device; the library does not count devices that are too old. None: the CPU."""
    device = tensor.device
    if device.type == "cpu":
        return None
    return sum(torch.cuda.get_device_capability(number) >= _OLDEST for number in range(device.index))


def view(tensor: Tensor, name: str) -> View:
    """A tensor as an operand. The library must be able to read its layout: rows(), elements()."""
    if tensor.dtype not in _CODES:
        raise TypeError(f"{name} has dtype {tensor.dtype}; torch.float32, torch.float16 and torch.bfloat16 are allowed")
    strides = tensor.stride()
    size = tensor.element_size()
    return strided(name, tensor.data_ptr(), tuple(tensor.shape), tuple(size * stride for stride in strides), _CODES[tensor.dtype],
                   tensor, _place(tensor))


def elements(tensor: Tensor) -> Tensor:
    """The tensor, copied if it repeats elements or PyTorch negates them lazily."""
    tensor = tensor.resolve_neg() if tensor.is_neg() else tensor
    if tensor.is_contiguous() or all(extent < 2 or stride > 0 for extent, stride in zip(tensor.shape, tensor.stride())):
        return tensor
    return tensor.contiguous()


def rows(tensor: Tensor) -> Tensor:
    """elements(), with a contiguous last axis."""
    return elements(tensor if tensor.is_contiguous() or tensor.shape[-1] < 2 or tensor.stride(-1) == 1 else tensor.contiguous())


def _n_sequences(x: Tensor, cu_seqlens: Optional[Tensor]) -> int:
    return x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


_LABELS = {"ssm_a": "a_log", "state": "initial_state", "state_out": "final_state", "seq_start": "cu_seqlens"}


def _rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Optional[Tensor] = None,
          cu_seqlens: Optional[Tensor] = None, a_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
          scale: Optional[float] = None, qk_norm: bool = False, beta_logit: bool = False, beta_factor: float = 1.0,
          state_v_first: bool = False, head_map: str = "grouped", lower_bound: float = 0.0) -> Tuple[Tensor, Tensor]:
    packed = cu_seqlens is not None
    n, heads, dims = _n_sequences(q, cu_seqlens), v.shape[2], (q.shape[-1], v.shape[-1])
    shape = (n, heads, *(dims[::-1] if state_v_first else dims))
    if initial_state is not None and tuple(initial_state.shape) != shape:
        raise ValueError(f"initial_state has shape {list(initial_state.shape)}; it must be {list(shape)}")
    where = _where(q)
    states: Dict[str, Any] = {}
    initial = None if initial_state is None else rows(initial_state if initial_state.dtype is torch.float32 else initial_state.float())
    if not packed and q.shape[1] > 0:
        final = q.new_empty(shape, dtype=torch.float32)
        states = {"state": final} if initial is None else {"state": initial, "state_out": final}
    else:  # sequences without tokens write no state: copy the initial one
        final = q.new_zeros(shape, dtype=torch.float32) if initial is None else initial.clone(memory_format=torch.contiguous_format)
        states = {"state": final}
    if initial is None:
        states["state_src"] = where.map(n, gdn.NONE)
    return _compute(where, q, k, v, g, beta, states, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor,
                    state_v_first, head_map, lower_bound), final


def _compute(where: _Where, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, states: Dict[str, Any],
             cu_seqlens: Optional[Tensor], a_log: Optional[Tensor], dt_bias: Optional[Tensor], scale: Optional[float], qk_norm: bool,
             beta_logit: bool, beta_factor: float, state_v_first: bool, head_map: str, lower_bound: float) -> Tensor:
    """Run the delta rule with these states and their maps; a new tensor as v, of q's dtype."""
    if cu_seqlens is not None and q.shape[0] != 1:
        raise ValueError(f"q has {q.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    operands = {"q": rows(q), "k": rows(k), "v": rows(v), "g": rows(g) if g.dim() == 4 else elements(g), "beta": elements(beta)}
    # cu_seqlens may not cover all tokens, and sequences may be padding.
    out = operands["out"] = q.new_empty(v.shape) if cu_seqlens is None and "state_dst" not in states else q.new_zeros(v.shape)
    if cu_seqlens is not None:
        operands = {name: x[0] for name, x in operands.items()}
        operands["seq_start"] = cu_seqlens.to(torch.int32).contiguous()
    options: Dict[str, Any] = {"scale": scale, "head_map": head_map, "state_layout": "vk" if state_v_first else "kv",
                               "beta_input": "logit" if beta_logit else "plain", "beta_factor": beta_factor}
    if qk_norm:
        options.update(qk_norm="add", qk_norm_eps=1e-6)
    if lower_bound:
        options.update(gate_input="bounded", lower_bound=lower_bound)
    elif a_log is not None:
        options["gate_input"] = "raw_a_log"
    if a_log is not None:
        operands["ssm_a"] = elements(a_log.reshape(v.shape[2]))
    if dt_bias is not None and "gate_input" in options:
        operands["dt_bias"] = rows(dt_bias.reshape(g.shape[2:]))
    operands.update(states)
    where.run(_build_gated_delta_net, operands, options, _LABELS)
    return out


_rule_operator = torch.library.custom_op("gdn::gated_delta_net", _rule, mutates_args=(), device_types=("cpu", "cuda"))


@_rule_operator.register_fake
def _(q, k, v, g, beta, initial_state=None, cu_seqlens=None, a_log=None, dt_bias=None, scale=None, qk_norm=False, beta_logit=False,
      beta_factor=1.0, state_v_first=False, head_map="grouped", lower_bound=0.0):
    dims = (q.shape[-1], v.shape[-1])
    state = (_n_sequences(q, cu_seqlens), v.shape[2], *(dims[::-1] if state_v_first else dims))
    return q.new_empty(v.shape), q.new_empty(state, dtype=torch.float32)


def _slots(q: Tensor, cu_seqlens: Optional[Tensor], indices: Tensor, accepted: Optional[Tensor]) -> Dict[str, Tensor]:
    """The maps of states for rows of a pool: [N], or [N, columns] with a row for each token."""
    n = _n_sequences(q, cu_seqlens)
    if indices.dim() not in (1, 2) or indices.shape[0] != n:
        raise ValueError(f"ssm_state_indices has shape {list(indices.shape)}; it must be [{n}], or [{n}, T] with a row for each token")
    if accepted is not None and (indices.dim() != 2 or accepted.shape != (n,)):
        raise ValueError(f"num_accepted_tokens has shape {list(accepted.shape)}; it must be [{n}], with ssm_state_indices [{n}, T]")
    rows = indices.to(torch.int32)
    first = rows
    if indices.dim() == 2:
        columns = indices.shape[1]
        if not columns or cu_seqlens is None and columns < q.shape[1]:
            raise ValueError(f"ssm_state_indices has {columns} columns; a sequence has {q.shape[1]} tokens")
        first = rows[:, 0] if accepted is None else rows.gather(1, accepted.long().unsqueeze(1) - 1).squeeze(1)
        if cu_seqlens is None:
            rows = rows[:, :q.shape[1]].flip(1) if q.shape[1] else rows[:, :1]
        else:
            token = (cu_seqlens.diff() - 1).unsqueeze(1) - torch.arange(columns, device=rows.device)
            rows = rows.gather(1, token.clamp(0, columns - 1).long()).masked_fill(token.clamp(0, columns - 1) != token, gdn.NONE)
    return {"state_src": first.masked_fill(first < 0, gdn.SKIP), "state_dst": rows.clamp(min=gdn.NONE).contiguous()}


def _rule_in_place(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, cu_seqlens: Optional[Tensor] = None,
                   state_indices: Optional[Tensor] = None, accepted: Optional[Tensor] = None, a_log: Optional[Tensor] = None,
                   dt_bias: Optional[Tensor] = None, scale: Optional[float] = None, qk_norm: bool = False, beta_logit: bool = False,
                   beta_factor: float = 1.0, state_v_first: bool = False, head_map: str = "grouped", lower_bound: float = 0.0) -> Tensor:
    """As _rule, with `state` read and written in place; with state_indices its rows are a pool. Returns out."""
    if state.is_neg():
        raise ValueError("initial_state is a view that PyTorch negates lazily, which cannot be written in place")
    states: Dict[str, Any] = {"state": state}
    if state_indices is not None:
        states.update(_slots(q, cu_seqlens, state_indices, accepted))
    elif accepted is not None:
        raise ValueError("num_accepted_tokens is given; it needs ssm_state_indices")
    elif state.shape[0] != _n_sequences(q, cu_seqlens):
        raise ValueError(f"initial_state has {state.shape[0]} rows; it must be {_n_sequences(q, cu_seqlens)}, without ssm_state_indices")
    return _compute(_where(q), q, k, v, g, beta, states, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor,
                    state_v_first, head_map, lower_bound)


_rule_in_place_operator = torch.library.custom_op("gdn::gated_delta_net_in_place", _rule_in_place, mutates_args=("state",),
                                                  device_types=("cpu", "cuda"))


@_rule_in_place_operator.register_fake
def _(q, k, v, g, beta, state, cu_seqlens=None, state_indices=None, accepted=None, a_log=None, dt_bias=None, scale=None, qk_norm=False,
      beta_logit=False, beta_factor=1.0, state_v_first=False, head_map="grouped", lower_bound=0.0):
    return q.new_empty(v.shape)


def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Optional[Tensor] = None,
                    cu_seqlens: Optional[Tensor] = None, a_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
                    scale: Optional[float] = None, qk_norm: bool = False, beta_logit: bool = False, beta_factor: float = 1.0,
                    state_v_first: bool = False, head_map: str = "grouped", lower_bound: float = 0.0) -> Tuple[Tensor, Tensor]:
    """gdn.gated_delta_net on tensors: (out, final_state), both new tensors. Shapes are [B, T, ...], or [1, T, ...] with
    cu_seqlens [N + 1]; states [N, n_heads_v, head_dim_k, head_dim_v] in float32, the last two swapped with
    state_v_first; out has q's dtype; tokens outside cu_seqlens are zeros in it.
    a_log, [n_heads_v]: g is the projection, and the decay exp(-exp(a_log) * softplus(g + dt_bias)). With lower_bound below 0 the
    decay is exp(lower_bound * sigmoid(exp(a_log) * (g + dt_bias))), and a_log optional. qk_norm adds 1e-6."""
    run = _rule if unobserved(q, k, v, g, beta, initial_state, cu_seqlens, a_log, dt_bias) else _rule_operator
    return run(q, k, v, g, beta, initial_state, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor, state_v_first,
               head_map, lower_bound)


def _conv(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, initial_states: Optional[Tensor] = None,
          cu_seqlens: Optional[Tensor] = None, silu: bool = False) -> Tensor:
    packed = cu_seqlens is not None
    if packed and x.shape[0] != 1:
        raise ValueError(f"x has {x.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    n, before = _n_sequences(x, cu_seqlens), weight.shape[1] - 1
    if initial_states is not None and tuple(initial_states.shape) != (n, before, x.shape[2]):
        raise ValueError(f"initial_states has shape {list(initial_states.shape)}; it must be {[n, before, x.shape[2]]}")
    where = _where(x)
    out = x.new_zeros(x.shape) if packed else x.new_empty(x.shape)
    operands: Dict[str, Any] = {"x": rows(x), "weight": elements(weight), "bias": None if bias is None else rows(bias), "out": out}
    if packed:
        operands.update(x=operands["x"][0], out=out[0], seq_start=cu_seqlens.to(torch.int32).contiguous())
    if initial_states is not None and before:  # prepend them as tokens
        operands.update(history=rows(initial_states), position=where.map(n, before), history_dst=where.map(n, gdn.NONE))
    where.run(_build_ssm_conv, operands, {"silu": silu}, {"history": "initial_states", "seq_start": "cu_seqlens"})
    return out


_conv_operator = torch.library.custom_op("gdn::ssm_conv", _conv, mutates_args=(), device_types=("cpu", "cuda"))


@_conv_operator.register_fake
def _(x, weight, bias=None, initial_states=None, cu_seqlens=None, silu=False):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def ssm_conv(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, initial_states: Optional[Tensor] = None,
             cu_seqlens: Optional[Tensor] = None, silu: bool = False) -> Tensor:
    """gdn.ssm_conv on tensors: x [B, T, channels], or [1, T, channels] with cu_seqlens [N + 1]; weight [channels, width];
    initial_states [N, width - 1, channels], the earlier inputs, oldest first; the result is as x, with zeros for tokens
    outside cu_seqlens."""
    run = _conv if unobserved(x, weight, bias, initial_states, cu_seqlens) else _conv_operator
    return run(x, weight, bias, initial_states, cu_seqlens, silu)


def _forward_only(ctx, *gradients):
    raise NotImplementedError("gdn.torch is forward only: its operators have no gradients. Run under torch.no_grad() or "
                              "torch.inference_mode(), or train with another implementation (gdn.transformers.undo()).")


for _operator in (_rule_operator, _conv_operator):  # one that writes its arguments refuses gradients by itself
    _operator.register_autograd(_forward_only)


def transformed() -> bool:
    """True inside functorch, forward-mode differentiation, and modes that see each operation of PyTorch."""
    return bool(torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0 or
                torch._C._len_torch_dispatch_stack())


def unobserved(*tensors: Optional[Tensor]) -> bool:
    """True if nothing needs an operator of torch.library for a call on these tensors, which takes 50 us more: they are
    plain, on one device, and no compiler, tracing, mode, function transform or gradient is there."""
    if torch.compiler.is_compiling() or transformed() or torch._C._len_torch_function_stack() or torch.jit.is_tracing():
        return False
    gradients = torch.is_grad_enabled()
    given = [x for x in tensors if x is not None]
    for x in given:
        if type(x) not in _PLAIN or gradients and x.requires_grad or not x.is_cpu:
            break
    else:
        return True
    device = given[0].device
    return device.type == "cuda" and all(type(x) in _PLAIN and x.device == device and not (gradients and x.requires_grad) for x in given)


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
