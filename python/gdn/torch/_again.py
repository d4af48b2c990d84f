"""Calls of the rule that run again: on the CPU, on tensors of the forms of an earlier call with the same options, whose arguments
have been checked. Only addresses change, so one token takes a third of the time around its kernel."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Dict, Hashable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

import gdn
from .._contexts import Context
from .._kernels import _build_gated_delta_net
from .._prepared import Prepared, put, take
from ._operators import _operands, _PLAIN, _slots, _WRITTEN, call, context, integers, rows, transformed, view, written

_MOST = 64  # kept maps
_TOKENS = 64  # most tokens of a call: the time around a longer one does not matter, and prompts have many lengths
_SIMPLE = frozenset((str, bool, int, float, type(None)))
_maps: OrderedDict[Hashable, Dict[str, Tensor]] = OrderedDict()


def key(tensors: Sequence[Optional[Tensor]], *options: Hashable) -> Optional[Tuple[Hashable, ...]]:
    """What a prepared call depends on. None if the call cannot be prepared: it needs an operator of torch.library
    (unobserved() is false), or a tensor is not plain."""
    if torch.compiler.is_compiling() or transformed() or torch._C._len_torch_function_stack() or torch.jit.is_tracing():
        return None
    if not _SIMPLE.issuperset(map(type, options)):
        return None
    gradients = torch.is_grad_enabled()
    form: List[Hashable] = [*options]
    for x in tensors:
        if x is None:
            form.append(None)
        elif type(x) not in _PLAIN or not x.is_cpu or gradients and x.requires_grad or x.layout is not torch.strided or x.is_nested or x.is_neg():
            return None
        else:
            form += x.shape, x.stride(), x.dtype
    q = tensors[0]
    return tuple(form) if q is not None and q.dim() == 4 and q.shape[0] * q.shape[1] <= _TOKENS else None


def _kept_maps(q: Tensor, cu_seqlens: Optional[Tensor], indices: Optional[Tensor], accepted: Optional[Tensor]) -> Dict[str, Tensor]:
    """The maps of a call. They are found by the numbers in these tensors, since NumPy and others change them without a trace."""
    given = [x for x in (cu_seqlens, indices, accepted) if x is not None]
    of = (q.shape[1], accepted is None, cu_seqlens is None, *(part for x in given for part in (x.dtype, x.shape, x.numpy().tobytes())))
    found = _maps.pop(of, None)
    if found is None:
        found = {} if cu_seqlens is None else {"seq_start": integers("cu_seqlens", cu_seqlens).clone()}
        if indices is not None:
            found.update((name, x.clone()) for name, x in _slots(q, cu_seqlens, indices, accepted).items())
    _maps[of] = found
    while len(_maps) > _MOST:
        _maps.popitem(last=False)
    return found


def _arguments(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Optional[Tensor], cu_seqlens: Optional[Tensor],
               indices: Optional[Tensor], accepted: Optional[Tensor], a_log: Optional[Tensor], dt_bias: Optional[Tensor], in_place: bool,
               state_v_first: bool) -> Tuple[Dict[str, Tensor], Tensor]:
    """The operands of a call by name, in _operands()' order, and the final state. Results are new tensors. Without in_place there
    are no maps."""
    maps = {} if cu_seqlens is None and indices is None else _kept_maps(q, cu_seqlens, indices, accepted)
    out = q.new_zeros(v.shape) if maps else q.new_empty(v.shape)
    given = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "out": out, "seq_start": maps.get("seq_start"), "ssm_a": a_log, "dt_bias": dt_bias}
    final = state
    if not in_place:
        dims = (v.shape[-1], q.shape[-1]) if state_v_first else (q.shape[-1], v.shape[-1])
        final = q.new_empty((q.shape[0], v.shape[2], *dims), dtype=torch.float32)
    given["state"] = final if state is None else state
    if not in_place and state is not None:
        given["state_out"] = final
    given.update((name, maps[name]) for name in ("state_src", "state_dst") if name in maps)
    return {name: x for name, x in given.items() if x is not None}, final  # type: ignore[return-value]


def _run(on: Context, key: Hashable, prepared: Prepared, addresses: Sequence[int]) -> None:
    prepared(on, addresses)
    put(on, key, prepared)


def rule(key: Hashable, *arguments: Any) -> Optional[Tuple[Tensor, Tensor]]:
    """Run a call like an earlier one: its output and final state. None if there was none, and if it fails: nothing is written then,
    and the checks say what is wrong. The arguments are those of _arguments()."""
    on = context()
    prepared = take(on, key)
    if prepared is None:
        return None
    given, final = _arguments(*arguments)
    if final is arguments[5]:
        written(final)
    try:
        call("gdn::gated_delta_net", _run, on, key, prepared, [x.data_ptr() for x in given.values()])
    except gdn.Error:
        return None
    return given["out"], final


def prepare(key: Hashable, *arguments: Any, options: Tuple[Any, ...]) -> None:
    """After a call, prepare those like it, unless it had to copy an operand. `options` are the last ones of _operands()."""
    q, k, v, g, beta, state, cu_seqlens, _, _, a_log, dt_bias, in_place, _ = arguments
    if not (q.numel() and v.numel()) or cu_seqlens is not None and len(cu_seqlens) < 2:
        return  # there may be no states
    if not in_place and state is not None and (state.dtype is not torch.float32 or rows(state) is not state):
        return
    given, _ = _arguments(*arguments)
    states: Dict[str, Any] = {name: x for name, x in given.items() if name.startswith("state")}
    if not in_place and state is None:
        states["state_src"] = (gdn.NONE,) * q.shape[0]
    operands, named = _operands(q, k, v, g, beta, given["out"], states, cu_seqlens, a_log, dt_bias, *options)
    if [name for name, x in operands.items() if isinstance(x, Tensor)] != list(given) or any(
            operands[name].data_ptr() != x.data_ptr() for name, x in given.items() if name != "seq_start"):
        return
    views = {name: view(x, name, name in _WRITTEN) if isinstance(x, Tensor) else x for name, x in operands.items()}
    on = context()
    put(on, key, Prepared(_build_gated_delta_net(**views, **named, context=on), list(given)))
