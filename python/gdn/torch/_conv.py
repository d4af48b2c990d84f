"""Functions with the signatures of the package causal_conv1d, computed by libgdn."""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from ._operators import axes, one_device, ssm_conv


def _silu(activation: Optional[str]) -> bool:
    if activation not in (None, "silu", "swish"):
        raise NotImplementedError(f"activation is {activation!r}; None, 'silu' and 'swish' are allowed")
    return activation is not None


def _refuse(bad: Tensor, values: Tensor, text: str) -> None:
    """Raise if any element of `bad` is true. A device checks asynchronously, and its error cannot name the value."""
    if bad.device.type != "cpu" or torch.compiler.is_compiling():
        torch._assert_async(~bad.any(), text)
    elif bad.any():
        raise IndexError(f"{text}; found {values[bad][0].item()}")


def _packed(x: Tensor, weight: Tensor, bias: Optional[Tensor], seq_idx: Tensor, initial_states: Optional[Tensor], silu: bool) -> Tensor:
    """The convolution of sequences that seq_idx delimits, with its padding. initial_states are inputs before the first
    sequence of each row."""
    batch, _, seqlen = x.shape
    if seq_idx.shape != (batch, seqlen):
        raise ValueError(f"seq_idx has shape {list(seq_idx.shape)}; it must be {[batch, seqlen]}, as x without its channels")
    begins = torch.ones_like(seq_idx, dtype=torch.bool)
    begins[:, 1:] = seq_idx[:, 1:] != seq_idx[:, :-1]
    run = begins.cumsum(1)
    for back in range(2, min(weight.shape[1], seqlen)):
        again = (seq_idx[:, back:] == seq_idx[:, :-back]) & (seq_idx[:, back:] >= 0) & (run[:, back:] != run[:, :-back])
        _refuse(again, seq_idx[:, back:], "seq_idx has a number again after another one; the tokens of a sequence lie side by side")
    ends = seq_idx.new_tensor([batch * seqlen], dtype=torch.int64)
    starts = torch.cat((begins.flatten().nonzero().flatten(), ends)) if batch * seqlen else ends
    initial = None
    if initial_states is not None and batch * seqlen:
        initial = initial_states.new_zeros((len(starts) - 1, weight.shape[1] - 1, x.shape[1]))
        initial[begins.flatten().cumsum(0)[::seqlen] - 1] = initial_states.transpose(1, 2)
    out = ssm_conv(x.transpose(1, 2).reshape(1, batch * seqlen, x.shape[1]), weight, bias, initial, starts, silu)
    return out.reshape(batch, seqlen, x.shape[1]).masked_fill_((seq_idx < 0).unsqueeze(-1), 0).transpose(1, 2)


def causal_conv1d_fn(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, seq_idx: Optional[Tensor] = None,
                     initial_states: Optional[Tensor] = None, return_final_states: bool = False,
                     final_states_out: Optional[Tensor] = None,
                     activation: Optional[str] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """x [batch, dim, seqlen], weight [dim, width] and bias [dim] are each float32, float16 or bfloat16. initial_states
    and final_states_out are [batch, dim, width - 1]. seq_idx is [batch, seqlen]: adjacent tokens with the same number
    are a sequence, and a negative number marks padding, whose output is 0. initial_states then belong to the first
    sequence of each row. Returns out as x, and the final states if requested, which needs seq_idx to be None. x is not copied if its
    channels are contiguous, as after transpose(1, 2)."""
    silu = _silu(activation)
    one_device(x=x, weight=weight, bias=bias, seq_idx=seq_idx, initial_states=initial_states)
    axes("x", x, "[batch, dim, seqlen]")
    axes("weight", weight, "[dim, width]")
    before = weight.shape[1] - 1
    if seq_idx is not None:
        if return_final_states:
            raise ValueError("seq_idx is given; return_final_states cannot be, then")
        return _packed(x, weight, bias, seq_idx, initial_states, silu)
    initial = None if initial_states is None else initial_states.transpose(1, 2)
    out = ssm_conv(x.transpose(1, 2), weight, bias, initial, None, silu).transpose(1, 2)
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
    """x [batch, dim] or [batch, dim, seqlen]; conv_state [batch, dim, state_len]: the earlier inputs, oldest first, to
    which x is appended in place; state_len >= width - 1. cache_seqlens [batch]: conv_state is a ring instead, in which
    position p has index p % state_len. conv_state_indices [batch]: rows of conv_state. A negative one marks padding: no
    state is written, and the output is 0. A too large one raises IndexError (on a device RuntimeError, later). Returns
    out as x. Gradients flow through out, and through conv_state as PyTorch's in-place operations let them."""
    silu = _silu(activation)
    one_device(x=x, conv_state=conv_state, weight=weight, bias=bias, cache_seqlens=cache_seqlens, conv_state_indices=conv_state_indices)
    axes("conv_state", conv_state, "[batch, dim, state_len]")
    axes("weight", weight, "[dim, width]")
    before, length = weight.shape[1] - 1, conv_state.shape[-1]
    if length < before:
        raise ValueError(f"conv_state has {length} columns; a width of {before + 1} needs {before}")
    new = x.unsqueeze(-1) if x.dim() == 2 else x
    batch = new.shape[0]
    real = at = None
    if conv_state_indices is not None and conv_state_indices.shape != (batch,):
        raise ValueError(f"conv_state_indices has shape {list(conv_state_indices.shape)}; it must be {[batch]}")
    if conv_state_indices is not None and not batch:
        conv_state = conv_state[:0]
    elif conv_state_indices is not None:
        # Padding repeats the first real entry, so that both write the same values.
        at = conv_state_indices.long()
        _refuse(at >= conv_state.shape[0], at, f"conv_state_indices has to be below {conv_state.shape[0]}, conv_state's rows")
        real = at >= 0
        source = torch.where(real, torch.arange(batch, device=at.device), real.int().argmax())
        at, new = at[source].clamp(min=0), new[source]
        cache_seqlens = None if cache_seqlens is None else cache_seqlens[source]
    rows = conv_state if at is None else conv_state[at]
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
    initial = past.transpose(1, 2).to(x.dtype, memory_format=torch.contiguous_format, copy=True) if before else None
    out = ssm_conv(new.transpose(1, 2), weight, bias, initial, None, silu).transpose(1, 2)
    if at is None:
        conv_state.copy_(kept)
    else:
        conv_state[at] = torch.where(real.any(), kept, rows)
        out = out.masked_fill(~real[:, None, None], 0)
    return out.squeeze(-1) if x.dim() == 2 else out
