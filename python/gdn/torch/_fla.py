"""Functions with the signatures of flash-linear-attention (fla.ops), computed by libgdn."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from . import _again
from ._operators import _CHUNK, _rule as _new_state, _rule_in_place, _rule_in_place_operator, _rule_operator, ForwardOnly, one_device, run, unobserved

# Arguments about GPU execution or the backward pass, which do not affect the result.
_WITHOUT_MEANING = {"chunk_size", "cu_seqlens_cpu", "chunk_indices", "disable_recompute", "safe_gate", "use_graph", "max_num_seqs"}
# The digits of each form of the rule.
_FORMS = {"recurrence": 0, "chunked": 3, "chunked2": 2}
# Arguments that change the result and that libgdn does not support.
_UNSUPPORTED = {"cp_context", "gv", "return_intermediate_states"}


def _rule(kernel: str, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Optional[Tensor], scale: Optional[float],
          initial_state: Optional[Tensor], output_final_state: bool, l2norm: bool, beta_sigmoid: bool, neg_eigval: bool,
          state_v_first: bool, cu_seqlens: Optional[Tensor], gate: bool, a_log: Optional[Tensor], dt_bias: Optional[Tensor],
          others: Dict[str, Any], channel: bool = False, lower_bound: Optional[float] = None, in_place: bool = False,
          indices: Optional[Tensor] = None, accepted: Optional[Tensor] = None) -> Tuple[Tensor, Optional[Tensor]]:
    form = others.pop("form", "recurrence")
    if form not in _FORMS:
        raise ValueError(f"{kernel}: form is {form!r}; {', '.join(map(repr, _FORMS))} are allowed")
    digits = _FORMS[form]
    if "transpose_state_layout" in others:  # the older name
        if state_v_first:
            raise ValueError(f"{kernel}: state_v_first and transpose_state_layout are given; they are names of one argument")
        state_v_first = others.pop("transpose_state_layout")
    if "head_first" in others:
        raise ValueError(f"{kernel}: head_first is {others['head_first']!r}; fla has removed it: operands are [B, T, H, ...]")
    sizes = (32, 64) if kernel == "chunk_kda" else (16, 32, 64)
    if others.get("chunk_size", 64) not in sizes:
        raise ValueError(f"{kernel}: chunk_size is {others['chunk_size']!r}; {', '.join(map(str, sizes))} are allowed")
    for name, value in others.items():
        if name not in _WITHOUT_MEANING and name not in _UNSUPPORTED:
            raise TypeError(f"{kernel}: there is no argument {name!r}")
        if name in _UNSUPPORTED and value is not None and value is not False:
            raise NotImplementedError(f"{kernel}: {name} is {value!r}; libgdn has nothing like it")
    if not gate:
        a_log = dt_bias = None
    if digits:
        _expect_chunks(kernel, form, q, cu_seqlens, output_final_state, in_place)
    given = (q, k, v, g, beta, initial_state, cu_seqlens, indices, accepted, a_log, dt_bias, in_place, state_v_first)
    key = None
    if beta is not None and not digits and (in_place or cu_seqlens is None) and all(value is None or value is False for value in others.values()):
        key = _again.key(given[:11], kernel, in_place, scale, l2norm, beta_sigmoid, neg_eigval, state_v_first, lower_bound)
    if key is not None and (found := _again.rule(key, *given)) is not None:
        return found[0], found[1] if in_place or output_final_state else None

    def checked() -> None:
        one_device(q=q, k=k, v=v, g=g, beta=v if beta is None else beta, initial_state=initial_state, cu_seqlens=cu_seqlens, A_log=a_log,
                   dt_bias=dt_bias, ssm_state_indices=indices, num_accepted_tokens=accepted)

    direct = unobserved((q, k, v, g), beta, initial_state, cu_seqlens, a_log, dt_bias, indices, accepted)
    if not direct:
        checked()
    if g.dim() != (4 if channel else 3):
        raise ValueError(f"{kernel}: g has shape {list(g.shape)}; it must be {'[B, T, HV, K]' if channel else '[B, T, HV]'}")
    if neg_eigval and not beta_sigmoid:
        raise ValueError(f"{kernel}: allow_neg_eigval is True, which needs use_beta_sigmoid_in_kernel")
    if others.get("safe_gate") and gate and lower_bound is None:
        raise ValueError(f"{kernel}: safe_gate and use_gate_in_kernel are True, which needs lower_bound")
    if lower_bound is not None and not gate:
        raise ValueError(f"{kernel}: lower_bound is {lower_bound!r}, which needs use_gate_in_kernel")
    if lower_bound is not None and not -5 <= lower_bound < 0:
        raise ValueError(f"{kernel}: lower_bound is {lower_bound!r}; -5 and above, below 0, is allowed")
    if gate and a_log is None and lower_bound is None:
        raise ValueError(f"{kernel}: use_gate_in_kernel is True, which needs A_log")
    if scale is not None and not isinstance(scale, (int, float)):
        raise TypeError(f"{kernel}: scale is {scale!r}; a number is needed, or None")
    if scale == 0:
        raise ValueError(f"{kernel}: scale is 0; None is 1 / sqrt(K)")
    beta = v.new_ones(v.shape[:3], dtype=torch.float32) if beta is None else beta
    if in_place and initial_state is None:
        raise ValueError(f"{kernel}: inplace_final_state is True, which needs initial_state")
    if not in_place and (indices is not None or accepted is not None):
        raise ValueError(f"{kernel}: ssm_state_indices or num_accepted_tokens is given, which needs inplace_final_state")
    options = (a_log, dt_bias, None if scale is None else float(scale), bool(l2norm), bool(beta_sigmoid), 2.0 if neg_eigval else 1.0,
               bool(state_v_first), "grouped", float(lower_bound or 0))
    if in_place:
        out = run(direct, _rule_in_place, _rule_in_place_operator, checked, q, k, v, g, beta, initial_state, cu_seqlens, indices, accepted,
                  *options)
        final = initial_state
    else:
        out, final = run(direct, _new_state, _rule_operator, checked, q, k, v, g, beta, initial_state, cu_seqlens, *options, digits)
    if key is not None:
        _again.prepare(key, *given, options=(*options[2:], 0))
    if in_place:
        return out if direct else ForwardOnly.apply(out), initial_state
    return out, final if output_final_state else None


def _expect_chunks(kernel: str, form: str, q: Tensor, cu_seqlens: Optional[Tensor], with_state: bool, in_place: bool) -> None:
    """The chunked form has states at multiples of 32 tokens only."""
    if in_place:
        raise NotImplementedError(f"{kernel}: form is {form!r} and inplace_final_state is True; with gdn.gated_delta_net(digits=, log=) states are "
                                  "written in place")
    lengths = [] if not with_state or q.dim() != 4 else [q.shape[1]] if cu_seqlens is None else cu_seqlens.flatten().diff().tolist()
    for length in lengths:
        if length % _CHUNK:
            raise ValueError(f"{kernel}: form is {form!r}, output_final_state is True and a sequence has {length} tokens; this form has states "
                             f"after multiples of {_CHUNK} tokens")


def chunk_gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: Optional[float] = None,
                           initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                           use_qk_l2norm_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False,
                           allow_neg_eigval: bool = False, state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
                           cu_seqlens_cpu: Optional[Tensor] = None, chunk_indices: Optional[Tensor] = None, cp_context: Any = None,
                           **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """fla.ops.gated_delta_rule.chunk_gated_delta_rule. q, k [B, T, H, K], v [B, T, HV, V] and g, beta [B, T, HV] are
    each float32, float16 or bfloat16. initial_state is [N, HV, K, V], or [N, HV, V, K] with state_v_first. cu_seqlens
    is [N + 1] if B is 1. Also: use_gate_in_kernel with A_log and dt_bias. Returns (o, final_state): o in q's dtype, final_state
    float32 or None. It does not chunk: the bits are those of the token-by-token recurrence. Gradients are computed in chunks.
    form="chunked" or "chunked2" is the chunked form with 3 or 2 digits, a second contract (docs/guide/chunked.md): other bits, and
    a final state only after multiples of 32 tokens. The other functions here have it too."""
    return _rule("chunk_gated_delta_rule", q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                 use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, cu_seqlens, kwargs.pop("use_gate_in_kernel", False),
                 kwargs.pop("A_log", None), kwargs.pop("dt_bias", None), {"cp_context": cp_context, **kwargs})


def fused_recurrent_gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor] = None, gk: Optional[Tensor] = None,
                                     gv: Optional[Tensor] = None, beta: Optional[Tensor] = None, scale: Optional[float] = None,
                                     initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                                     use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
                                     A_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
                                     use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                                     state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
                                     inplace_final_state: bool = False, ssm_state_indices: Optional[Tensor] = None,
                                     num_accepted_tokens: Optional[Tensor] = None,
                                     **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule: bit-identical to chunk_gated_delta_rule. gk [B, T, HV,
    K] is a gate per key channel, instead of g or added to it; gv is refused.
    As in vLLM: inplace_final_state writes initial_state and returns it. It may be float32, float16 or bfloat16, and its
    layout is read as it is. ssm_state_indices [N] are then each sequence's row of initial_state, which has any number
    of rows. With [N, T] the state after token t goes to row [n, t]. Sequence n then begins at row [n, 0], or at
    [n, num_accepted_tokens[n] - 1]. A negative number marks padding: as the first row of a sequence that has no output
    (zeros) and writes no state, elsewhere a state that is not kept. Rows that are written are distinct. Forward only:
    a backward pass raises NotImplementedError."""
    if gk is not None or g is None:
        one_device(v=v, gk=gk)
    if gk is not None:
        if use_gate_in_kernel:
            raise NotImplementedError("fused_recurrent_gated_delta_rule: gk is given with use_gate_in_kernel; libgdn has nothing like it")
        g = gk if g is None else gk.float() + g.float().unsqueeze(-1)
    elif g is None and use_gate_in_kernel:
        raise ValueError("fused_recurrent_gated_delta_rule: use_gate_in_kernel is True, which needs g")
    elif g is None:
        g = v.new_zeros(v.shape[:3], dtype=torch.float32)
    return _rule("fused_recurrent_gated_delta_rule", q, k, v, g, beta, scale, initial_state, output_final_state,
                 use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, cu_seqlens,
                 use_gate_in_kernel, A_log, dt_bias, {"gv": gv, **kwargs}, gk is not None, None, inplace_final_state, ssm_state_indices,
                 num_accepted_tokens)


def chunk_kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: Optional[float] = None,
              initial_state: Optional[Tensor] = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
              use_gate_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
              safe_gate: bool = False, lower_bound: Optional[float] = None, disable_recompute: bool = False,
              return_intermediate_states: bool = False, state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
              cu_seqlens_cpu: Optional[Tensor] = None, cp_context: Any = None, use_graph: bool = False,
              max_num_seqs: Optional[int] = None, **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """fla.ops.kda.chunk_kda: as chunk_gated_delta_rule, with a gate per key channel, g [B, T, HV, K]. use_gate_in_kernel
    takes A_log [HV], and dt_bias [HV * K] or None. With lower_bound the gate is lower_bound * sigmoid(exp(A_log) *
    (g + dt_bias)), and A_log may be None. cp_context and return_intermediate_states are refused."""
    if isinstance(initial_state, Tensor) and initial_state.dtype != torch.float32:
        raise TypeError(f"chunk_kda: initial_state has dtype {initial_state.dtype}; torch.float32 is allowed")
    return _rule("chunk_kda", q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                 use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, cu_seqlens, use_gate_in_kernel,
                 kwargs.pop("A_log", None), kwargs.pop("dt_bias", None),
                 {"safe_gate": safe_gate, "return_intermediate_states": return_intermediate_states, "cp_context": cp_context,
                  **kwargs}, True, lower_bound)


def fused_recurrent_kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Optional[Tensor] = None,
                        dt_bias: Optional[Tensor] = None, scale: Optional[float] = None, initial_state: Optional[Tensor] = None,
                        output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
                        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                        lower_bound: Optional[float] = None, state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
                        inplace_final_state: bool = False, ssm_state_indices: Optional[Tensor] = None,
                        num_accepted_tokens: Optional[Tensor] = None, **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """fla.ops.kda.fused_recurrent_kda: bit-identical to chunk_kda. inplace_final_state, ssm_state_indices and
    num_accepted_tokens as in fused_recurrent_gated_delta_rule."""
    return _rule("fused_recurrent_kda", q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                 use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, cu_seqlens, use_gate_in_kernel, A_log, dt_bias,
                 kwargs, True, lower_bound, inplace_final_state, ssm_state_indices, num_accepted_tokens)


chunk_gdn, fused_recurrent_gdn = chunk_gated_delta_rule, fused_recurrent_gated_delta_rule  # fla's shorter names
