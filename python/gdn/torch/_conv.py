"""Functions with the signatures of the package causal_conv1d, computed by libgdn."""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from ._operators import one_device, ssm_conv


def _silu(activation: Optional[str]) -> bool:
    if activation not in (None, "silu", "swish"):
        raise NotImplementedError(f"activation is {activation!r}; None, 'silu' and 'swish' are allowed")
    return activation is not None


def causal_conv1d_fn(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, seq_idx: Optional[Tensor] = None,
                     initial_states: Optional[Tensor] = None, return_final_states: bool = False,
                     final_states_out: Optional[Tensor] = None,
                     activation: Optional[str] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """x [batch, dim, seqlen], weight [dim, width], bias [dim], each of float32, float16 or bfloat16; initial_states and
    final_states_out [batch, dim, width - 1]; seq_idx [batch, seqlen]: tokens of the same number, side by side, are a sequence.
    Returns out as x, and the final states where they are asked for. x is read as it lies where its channels are contiguous, as
    after transpose(1, 2), else copied. Forward only."""
    silu = _silu(activation)
    one_device(x=x, weight=weight, bias=bias, seq_idx=seq_idx, initial_states=initial_states)
    before = weight.shape[1] - 1
    tokens = x.transpose(1, 2)
    if seq_idx is not None:
        if initial_states is not None or return_final_states:
            raise ValueError("seq_idx is given; initial_states and return_final_states cannot be, then")
        batch, seqlen = seq_idx.shape
        begins = seq_idx.new_ones((batch, seqlen), dtype=torch.bool)
        begins[:, 1:] = seq_idx[:, 1:] != seq_idx[:, :-1]
        ends = seq_idx.new_tensor([batch * seqlen], dtype=torch.int64)
        starts = torch.cat((begins.flatten().nonzero().flatten(), ends)) if batch * seqlen else ends
        out = ssm_conv(tokens.reshape(1, batch * seqlen, -1), weight, bias, None, starts, silu)
        return out.reshape(tokens.shape).transpose(1, 2)
    initial = None if initial_states is None else initial_states.transpose(1, 2)
    out = ssm_conv(tokens, weight, bias, initial, None, silu).transpose(1, 2)
    if not return_final_states:
        return out
    known = x if initial_states is None else torch.cat((initial_states.to(x.dtype), x), dim=-1)
    final = torch.nn.functional.pad(known, (max(before - known.shape[-1], 0), 0))[..., known.shape[-1] - before if
                                                                                 known.shape[-1] > before else 0:]
    if final_states_out is not None:
        final = final_states_out.copy_(final)
    return out, final


def causal_conv1d_update(x: Tensor, conv_state: Tensor, weight: Tensor, bias: Optional[Tensor] = None,
                         activation: Optional[str] = None, cache_seqlens: Optional[Tensor] = None,
                         conv_state_indices: Optional[Tensor] = None) -> Tensor:
    """x [batch, dim] or [batch, dim, seqlen]; conv_state [batch, dim, state_len], the tokens before, oldest first, which x is
    appended to, in place; state_len >= width - 1. cache_seqlens [batch]: conv_state is a ring instead, in which the token of
    position p has column p % state_len. conv_state_indices [batch]: rows of conv_state. Returns out as x. Forward only."""
    silu = _silu(activation)
    one_device(x=x, conv_state=conv_state, weight=weight, bias=bias, cache_seqlens=cache_seqlens, conv_state_indices=conv_state_indices)
    before, length = weight.shape[1] - 1, conv_state.shape[-1]
    if length < before:
        raise ValueError(f"conv_state has {length} columns; a width of {before + 1} needs {before}")
    new = x.unsqueeze(-1) if x.dim() == 2 else x
    rows = conv_state if conv_state_indices is None else conv_state[conv_state_indices.long()]
    if cache_seqlens is None:
        past = rows[..., length - before:]
        kept = torch.cat((rows, new.to(rows.dtype)), dim=-1)[..., -length:] if length else rows
    else:
        if new.shape[-1] > length:
            raise ValueError(f"x has {new.shape[-1]} tokens; a ring of {length} columns does not hold them")
        position = cache_seqlens.long().reshape(-1, 1, 1)
        back = ((position + torch.arange(-before, 0, device=position.device)) % max(length, 1)).expand(-1, rows.shape[1], -1)
        to = ((position + torch.arange(new.shape[-1], device=position.device)) % max(length, 1)).expand(-1, rows.shape[1], -1)
        past = rows.gather(2, back)
        kept = rows.scatter(2, to, new.to(rows.dtype))
    initial = past.transpose(1, 2).to(x.dtype).contiguous() if before else None
    out = ssm_conv(new.transpose(1, 2), weight, bias, initial, None, silu).transpose(1, 2)
    if conv_state_indices is None:
        conv_state.copy_(kept)
    else:
        conv_state[conv_state_indices.long()] = kept
    return out.squeeze(-1) if x.dim() == 2 else out
