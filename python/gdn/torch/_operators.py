"""The kernels as operators of torch.library, on tensors in the CPU's memory or on one CUDA device."""
from __future__ import annotations

import contextlib
import math
import os
import threading
import weakref
from typing import Any, Callable, ContextManager, Dict, List, MutableMapping, NamedTuple, Optional, Sequence, Tuple, TypeVar

import torch
from torch import Tensor
from torch.autograd import profiler as _profiler

import gdn
from .. import _abi as abi
from .. import _cuda
from .._contexts import once
from .._kernels import _build_gated_delta_net, _build_ssm_conv, _Call
from .._operands import RAW, View, strided
from .._prepared import Prepared, again
from .._words import renamed

_CODES = {torch.float32: abi.GDN_F32, torch.float16: abi.GDN_F16, torch.bfloat16: abi.GDN_BF16, torch.int32: abi.GDN_I32,
          torch.int64: abi.GDN_I64, torch.uint8: RAW}
_OLDEST = (7, 5)  # lowest compute capability of devices that the library lists
_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)
_WRITTEN = ("state", "state_out")  # operands that a call writes, besides out
_REQUIRED = frozenset(("q", "k", "v", "g", "beta", "x", "weight", "conv_state"))
_NOTHING = contextlib.nullcontext()
_PLAIN = (Tensor, torch.nn.Parameter)
_CHUNK = 32  # tokens; the chunked form has states at multiples of it
_IMPORTED = os.getpid()  # the process that has imported this module
T = TypeVar("T")


class _Thread(threading.local):
    """The context that a thread used last, with its process and number of threads."""

    key: Optional[Tuple[int, int]] = None
    context: Optional[gdn.Context] = None


_contexts: MutableMapping[Tuple[int, int], gdn.Context] = weakref.WeakValueDictionary()
_thread = _Thread()
_newest: List[Any] = [None]  # kept for threads that come after one another


def context() -> gdn.Context:
    """The context of these operators: the CPU with torch.get_num_threads() threads. A new one is created when that
    number changes, and in a forked child. One that no thread used last is closed. Results do not depend on it."""
    key = os.getpid(), torch.get_num_threads()
    if _thread.key != key:
        _newest[0] = _thread.context = once(_contexts, _opened, key[1])
        _thread.key = key
    return _thread.context  # type: ignore[return-value]


def _opened(n_threads: int) -> gdn.Context:
    """On PyTorch's own threads, which else would spin on the processors that the context's threads need. OpenMP's threads
    do not outlive a fork: a child has threads of its context."""
    if os.getpid() == _IMPORTED:
        with contextlib.suppress(gdn.Unavailable):
            return gdn.Context(n_threads=n_threads, openmp=True)
    return gdn.Context(n_threads=n_threads)


def call(name: str, function: Callable[..., None], *given: Any) -> None:
    """Call the function, as an event of torch.profiler while one runs."""
    if not _profiler._is_profiler_enabled:
        function(*given)
        return
    with _profiler.record_function(name):
        function(*given)


def written(*tensors: Tensor) -> None:
    """Tell PyTorch that the next call writes these tensors. A backward pass that saved one then raises. As PyTorch's own
    operators it refuses inference tensors outside inference mode."""
    for x in tensors:
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)
        elif not torch.is_inference_mode_enabled():
            raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed. Clone it before, or run under "
                               "torch.inference_mode()")


def integers(name: str, x: Tensor) -> Tensor:
    """A map as a packed tensor of int32. On a device, values that do not fit become ones that the kernel refuses."""
    if x.dtype is not torch.int32:
        if x.dtype not in _INTEGERS:
            raise TypeError(f"{name} has dtype {x.dtype}; integers are needed")
        low, high = -1 << 31, (1 << 31) - 1
        if not x.is_cpu:
            x = x.clamp(low, high)
        elif x.numel() and (int(x.min()) < low or int(x.max()) > high):
            raise ValueError(f"{name} has values from {int(x.min())} to {int(x.max())}; int32 is what maps hold")
    return x.to(torch.int32).contiguous()


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
            given = {name: view(x, labels.get(name, name), name in _WRITTEN) if isinstance(x, Tensor) else x for name, x in operands.items()}
            return Prepared(build(**given, **options, context=self.context), names)

        try:
            if self.tensor is None:
                call(_EVENTS[build], again, self.context, tuple(form), make, addresses)
                return
            given = self.tensor
            with self.lock:
                self.context.poll()
                call(_EVENTS[build], again, self.context, tuple(form), make, addresses, self.stream,
                     lambda n_bytes: view(given.new_empty(n_bytes, dtype=torch.uint8), "workspace"))
        except gdn.Error as error:
            raise type(error)(renamed(str(error), labels)) from None


_EVENTS = {_build_gated_delta_net: "gdn::gated_delta_net", _build_ssm_conv: "gdn::ssm_conv"}


def _where(tensor: Tensor) -> _Where:
    if tensor.is_cpu:
        return _Where(context(), _NOTHING, None, None)
    found = _cuda.device(_place(tensor))
    return _Where(found.context, found.lock, _cuda.stream(torch.cuda.current_stream(tensor.device).cuda_stream), tensor)


def _place(tensor: Tensor) -> Optional[int]:
    """The library's index of a tensor's device; the library does not count devices that are too old. None: the CPU."""
    device = tensor.device
    if device.type == "cpu":
        return None
    return sum(torch.cuda.get_device_capability(number) >= _OLDEST for number in range(device.index))


def view(tensor: Tensor, name: str, written: bool = False) -> View:
    """A tensor as an operand. The library must be able to read its layout: rows(), elements()."""
    if tensor.dtype not in _CODES:
        raise TypeError(f"{name} has dtype {tensor.dtype}; torch.float32, torch.float16 and torch.bfloat16 are allowed")
    strides = tensor.stride()
    size = tensor.element_size()
    return strided(name, tensor.data_ptr(), tuple(tensor.shape), tuple(size * stride for stride in strides), _CODES[tensor.dtype],
                   tensor, _place(tensor), written)


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
    if cu_seqlens is None:
        return x.shape[0]
    if cu_seqlens.dim() != 1 or not cu_seqlens.shape[0]:
        raise ValueError(f"cu_seqlens has shape {list(cu_seqlens.shape)}; it must be [N + 1]")
    return cu_seqlens.shape[0] - 1


def axes(name: str, x: Tensor, axes: str) -> None:
    if x.dim() != axes.count(",") + 1:
        raise ValueError(f"{name} has shape {list(x.shape)}; it must be {axes}")


def _per_head(name: str, x: Tensor, shape: Sequence[int]) -> Tensor:
    if x.numel() != math.prod(shape):
        raise ValueError(f"{name} has shape {list(x.shape)}; it must be {list(shape)}")
    return x.reshape(shape)


_LABELS = {"ssm_a": "a_log", "state": "initial_state", "state_out": "final_state", "seq_start": "cu_seqlens",
           "state_src": "ssm_state_indices", "state_dst": "ssm_state_indices"}


def _rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Optional[Tensor] = None,
          cu_seqlens: Optional[Tensor] = None, a_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
          scale: Optional[float] = None, qk_norm: bool = False, beta_logit: bool = False, beta_factor: float = 1.0,
          state_v_first: bool = False, head_map: str = "grouped", lower_bound: float = 0.0, digits: int = 0) -> Tuple[Tensor, Tensor]:
    """out, and each sequence's final state. With digits, in the chunked form, only sequences of multiples of 32 tokens have one."""
    packed = cu_seqlens is not None
    axes("q", q, "[B, T, H, K]")
    axes("v", v, "[B, T, HV, V]")
    n, heads, dims = _n_sequences(q, cu_seqlens), v.shape[2], (q.shape[-1], v.shape[-1])
    shape = (n, heads, *(dims[::-1] if state_v_first else dims))
    if initial_state is not None and tuple(initial_state.shape) != shape:
        raise ValueError(f"initial_state has shape {list(initial_state.shape)}; it must be {list(shape)}")
    where = _where(q)
    states: Dict[str, Any] = {}
    initial = None if initial_state is None else rows(initial_state if initial_state.dtype is torch.float32 else initial_state.float())
    if not packed and q.shape[1] > 0 and not digits:
        final = q.new_empty(shape, dtype=torch.float32)
        states = {"state": final} if initial is None else {"state": initial, "state_out": final}
    else:  # sequences without tokens write no state, nor do chunked ones of other lengths: copy the initial one
        final = q.new_zeros(shape, dtype=torch.float32) if initial is None else initial.clone(memory_format=torch.contiguous_format)
        states = {"state": final}
    if not n:
        states = _no_states(q, final)
    elif initial is None:
        states["state_src"] = where.map(n, gdn.NONE)
    if n and digits:
        lengths = torch.full((n,), q.shape[1]) if cu_seqlens is None else cu_seqlens.diff()
        states["state_dst"] = torch.arange(n).masked_fill(lengths.cpu() % _CHUNK != 0, gdn.NONE).to(q.device, torch.int32)
    return _compute(where, q, k, v, g, beta, states, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor,
                    state_v_first, head_map, lower_bound, digits), final


def _no_states(q: Tensor, state: Tensor) -> Dict[str, Any]:
    """The state of a call without sequences: the library needs a row."""
    return {"state": q.new_empty((1, *state.shape[1:]), dtype=torch.float32)}


def _compute(where: _Where, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, states: Dict[str, Any],
             cu_seqlens: Optional[Tensor], *others: Any) -> Tensor:
    """Run the delta rule with these states and their maps, and the arguments that _operands() has last; a new tensor as v, of q's
    dtype."""
    if cu_seqlens is not None and q.shape[0] != 1:
        raise ValueError(f"q has {q.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    # cu_seqlens may not cover all tokens, and sequences may be padding.
    out = q.new_empty(v.shape) if cu_seqlens is None and "state_dst" not in states else q.new_zeros(v.shape)
    operands, options = _operands(q, k, v, g, beta, out, states, cu_seqlens, *others)
    where.run(_build_gated_delta_net, operands, options, _LABELS)
    return out


def _operands(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, out: Tensor, states: Dict[str, Any], cu_seqlens: Optional[Tensor],
              a_log: Optional[Tensor], dt_bias: Optional[Tensor], scale: Optional[float], qk_norm: bool, beta_logit: bool, beta_factor: float,
              state_v_first: bool, head_map: str, lower_bound: float, digits: int) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """The operands and the options of a call."""
    operands = {"q": rows(q), "k": rows(k), "v": rows(v), "g": rows(g) if g.dim() == 4 else elements(g), "beta": elements(beta), "out": out}
    if cu_seqlens is not None:
        operands = {name: x[0] if cu_seqlens.shape[0] > 1 else x[0, :0] for name, x in operands.items()}
        operands["seq_start"] = integers("cu_seqlens", cu_seqlens)
    options: Dict[str, Any] = {"scale": scale, "head_map": head_map, "state_layout": "vk" if state_v_first else "kv",
                               "beta_input": "logit" if beta_logit else "plain", "beta_factor": beta_factor}
    if digits:
        options["digits"] = digits
    if qk_norm:
        options.update(qk_norm="add", qk_norm_eps=1e-6)
    if lower_bound:
        options.update(gate_input="bounded", lower_bound=lower_bound)
    elif a_log is not None:
        options["gate_input"] = "raw_a_log"
    if a_log is not None:
        operands["ssm_a"] = elements(_per_head("a_log", a_log, v.shape[2:3]))
    if dt_bias is not None and "gate_input" in options:
        operands["dt_bias"] = rows(_per_head("dt_bias", dt_bias, g.shape[2:]))
    return {**operands, **states}, options


_rule_operator = torch.library.custom_op("gdn::gated_delta_net", _rule, mutates_args=(), device_types=("cpu", "cuda"))


@_rule_operator.register_fake
def _(q, k, v, g, beta, initial_state=None, cu_seqlens=None, a_log=None, dt_bias=None, scale=None, qk_norm=False, beta_logit=False,
      beta_factor=1.0, state_v_first=False, head_map="grouped", lower_bound=0.0, digits=0):
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
    rows = integers("ssm_state_indices", indices)
    first = rows
    if indices.dim() == 2:
        columns = indices.shape[1]
        if not columns or cu_seqlens is None and columns < q.shape[1]:
            raise ValueError(f"ssm_state_indices has {columns} columns; a sequence has {q.shape[1]} tokens")
        if accepted is not None and accepted.is_cpu and bool(((accepted < 1) | (accepted > columns)).any()):
            raise ValueError(f"num_accepted_tokens is {accepted.tolist()}; 1 to {columns}, the columns of ssm_state_indices, are allowed")
        first = rows[:, 0] if accepted is None else rows.gather(1, integers("num_accepted_tokens", accepted).long().unsqueeze(1) - 1).squeeze(1)
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
    axes("q", q, "[B, T, H, K]")
    axes("v", v, "[B, T, HV, V]")
    states: Dict[str, Any] = {"state": state}
    if state_indices is not None:
        states.update(_slots(q, cu_seqlens, state_indices, accepted))
    elif accepted is not None:
        raise ValueError("num_accepted_tokens is given; it needs ssm_state_indices")
    elif state.shape[0] != _n_sequences(q, cu_seqlens):
        raise ValueError(f"initial_state has {state.shape[0]} rows; it must be {_n_sequences(q, cu_seqlens)}, without ssm_state_indices")
    if not _n_sequences(q, cu_seqlens):
        states = _no_states(q, state)
    written(state)
    return _compute(_where(q), q, k, v, g, beta, states, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor,
                    state_v_first, head_map, lower_bound, 0)


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
    def checked() -> None:
        one_device(q=q, k=k, v=v, g=g, beta=beta, initial_state=initial_state, cu_seqlens=cu_seqlens, a_log=a_log, dt_bias=dt_bias)

    return run(unobserved((q, k, v, g, beta), initial_state, cu_seqlens, a_log, dt_bias), _rule, _rule_operator, checked, q, k, v, g, beta,
               initial_state, cu_seqlens, a_log, dt_bias, scale, qk_norm, beta_logit, beta_factor, state_v_first, head_map, lower_bound)


def _conv(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, initial_states: Optional[Tensor] = None,
          cu_seqlens: Optional[Tensor] = None, silu: bool = False) -> Tensor:
    packed = cu_seqlens is not None
    axes("x", x, "[B, T, channels]")
    axes("weight", weight, "[channels, width]")
    if packed and x.shape[0] != 1:
        raise ValueError(f"x has {x.shape[0]} batches; with cu_seqlens, sequences lie one after another in one")
    n, before = _n_sequences(x, cu_seqlens), weight.shape[1] - 1
    if initial_states is not None and tuple(initial_states.shape) != (n, before, x.shape[2]):
        raise ValueError(f"initial_states has shape {list(initial_states.shape)}; it must be {[n, before, x.shape[2]]}")
    where = _where(x)
    out = x.new_zeros(x.shape) if packed else x.new_empty(x.shape)
    operands: Dict[str, Any] = {"x": rows(x), "weight": elements(weight), "bias": None if bias is None else rows(bias), "out": out}
    if packed:
        tokens = slice(None if n else 0)
        operands.update(x=operands["x"][0, tokens], out=out[0, tokens], seq_start=integers("cu_seqlens", cu_seqlens))
    if initial_states is not None and before and n:  # prepend them as tokens
        operands.update(history=rows(initial_states), position=where.map(n, before), history_dst=where.map(n, gdn.NONE))
    where.run(_build_ssm_conv, operands, {"silu": silu}, {"history": "initial_states", "seq_start": "cu_seqlens"})
    return out


_conv_operator = torch.library.custom_op("gdn::ssm_conv", _conv, mutates_args=(), device_types=("cpu", "cuda"))


@_conv_operator.register_fake
def _(x, weight, bias=None, initial_states=None, cu_seqlens=None, silu=False):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def ssm_conv(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, initial_states: Optional[Tensor] = None,
             cu_seqlens: Optional[Tensor] = None, silu: bool = False) -> Tensor:
    """gdn.ssm_conv on tensors. x is [B, T, channels], or [1, T, channels] with cu_seqlens [N + 1]. weight is [channels,
    width]. initial_states [N, width - 1, channels] are the earlier inputs, oldest first. The result is as x, with
    zeros for tokens outside cu_seqlens."""
    def checked() -> None:
        one_device(x=x, weight=weight, bias=bias, initial_states=initial_states, cu_seqlens=cu_seqlens)

    return run(unobserved((x, weight), bias, initial_states, cu_seqlens), _conv, _conv_operator, checked, x, weight, bias, initial_states,
               cu_seqlens, silu)


class ForwardOnly(torch.autograd.Function):
    """For the result of an operator that writes its arguments: PyTorch has no other way to refuse its gradients."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError("inplace_final_state is True, which is forward only: it has no gradients. Call without it, or run under "
                                  "torch.no_grad() or torch.inference_mode()")


def transformed() -> bool:
    """True inside functorch, forward-mode differentiation, and modes that see each operation of PyTorch."""
    return bool(torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0 or
                torch._C._len_torch_dispatch_stack())


def unobserved(required: Sequence[Tensor], *optional: Optional[Tensor]) -> bool:
    """True if a call on these tensors needs no operator of torch.library, which takes 50 us more. The tensors are then
    plain, on one device, and no compiler, tracing, mode, function transform or gradient is active."""
    if torch.compiler.is_compiling() or transformed() or torch._C._len_torch_function_stack() or torch.jit.is_tracing():
        return False
    gradients = torch.is_grad_enabled()
    given = [*required, *(x for x in optional if x is not None)]
    for x in given:
        if type(x) not in _PLAIN or gradients and x.requires_grad or not x.is_cpu:
            break
    else:
        return True
    device = given[0].device if type(given[0]) in _PLAIN else None
    return device is not None and device.type == "cuda" and all(
        type(x) in _PLAIN and x.device == device and not (gradients and x.requires_grad) for x in given)


def run(direct: bool, function: Callable[..., T], operator: Callable[..., T], checked: Callable[[], None], *given: Any) -> T:
    """Call the function, or the operator of torch.library. `checked` refuses operands by their names. Before a direct call it
    would take too long, so PyTorch's error about a tensor that is not dense is replaced."""
    if not direct:
        checked()
        _refuse_tangents(given)
        return operator(*given)
    try:
        return function(*given)
    except RuntimeError:
        checked()
        raise


def _refuse_tangents(given: Sequence[Any]) -> None:
    """Refuse forward-mode differentiation: an operator of torch.library would drop the tangents."""
    forward_ad = torch.autograd.forward_ad
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return
    if any(isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in given):
        raise NotImplementedError("an operand has a tangent (torch.autograd.forward_ad, torch.func.jvp); gdn.torch has gradients of a backward "
                                  "pass, and none in forward mode")


def one_device(**tensors: Optional[Tensor]) -> None:
    """Refuse what are no dense tensors, and those on unsupported or different devices, with a clearer text than the
    dispatcher's."""
    first, device = "", None
    for name, tensor in tensors.items():
        if tensor is None and name not in _REQUIRED:
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} is {'None' if tensor is None else f'of type {type(tensor).__name__}'}; a torch.Tensor is needed")
        if tensor.layout is not torch.strided or tensor.is_nested:
            what = "is a nested tensor" if tensor.is_nested else f"has layout {tensor.layout}"
            raise TypeError(f"{name} {what}; a dense tensor (torch.strided) is needed")
        if tensor.device.type not in ("cpu", "cuda"):
            raise NotImplementedError(f"{name} is on {tensor.device}; gdn.torch runs on the CPU and on CUDA devices")
        if device is None:
            first, device = name, tensor.device
        elif tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, and {first} on {device}; all operands have to be on one device")
    if device is not None and device.type == "cuda" and not torch.compiler.is_compiling() and _cuda.why_not():
        raise NotImplementedError(f"{first} is on {device}, where this libgdn cannot run: {_cuda.why_not()}")
