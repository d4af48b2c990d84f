"""The chunked form (docs/guide/chunked.md) in vLLM's layers: what a slot of their pools of states has, and the maps of a step.

GDN_VLLM_FORM chooses the form, in every process of an engine. register() tells vLLM the size of a slot:

    state     digits, after a multiple of 32 tokens
    log       entries of the tokens since; 32, and one for each draft
    base      int32, the last element: how many tokens the state has seen

A slot has all that the sequence's next token depends on. So a copy of it continues anywhere that its log reaches, and a sequence has one
slot, with drafts too. A step with drafts writes only log entries: its commit brings the state to the step's first token. Other steps
bring it to their last."""
from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Dict, List, Tuple

import numpy
import torch
from torch import Tensor

import gdn

CHUNK = 32  # tokens
_DIGITS = {"recurrence": 0, "chunked2": 2, "chunked": 3}


def digits() -> int:
    """The number of digits that GDN_VLLM_FORM chooses; 0: the recurrence."""
    form = os.environ.get("GDN_VLLM_FORM") or "recurrence"
    if form not in _DIGITS:
        raise ValueError(f"GDN_VLLM_FORM is {form!r}; allowed: {', '.join(_DIGITS)}")
    return _DIGITS[form]


def register(n_digits: int) -> None:
    """Let vLLM's calculators, which its layers and models call, give the shapes and types of pools with such slots."""
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateDtypeCalculator, MambaStateShapeCalculator

    for name, channels in (("gated_delta_net", False), ("kda", True)):
        shape, dtype = f"{name}_state_shape", f"{name}_state_dtype"
        setattr(MambaStateShapeCalculator, shape, staticmethod(_shapes(getattr(MambaStateShapeCalculator, shape), channels, n_digits)))
        setattr(MambaStateDtypeCalculator, dtype, staticmethod(_dtypes(getattr(MambaStateDtypeCalculator, dtype))))


def _shapes(calculate: Callable[..., Any], channels: bool, n_digits: int) -> Callable[..., Any]:
    """A calculator of a layer's shapes; `channels`: its gates are per key channel."""
    signature = inspect.signature(calculate)

    def shapes(*args: Any, **given: Any) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        inputs, (heads, dim_v, dim_k) = calculate(*args, **given)
        of = signature.bind(*args, **given).arguments
        if dim_k % 16 or dim_v % 16:
            raise ValueError(f"GDN_VLLM_FORM: heads have {dim_k} keys and {dim_v} values; the chunked form needs multiples of 16")
        heads_k = (of.get("num_k_heads") or of["num_heads"]) // of["tp_world_size"]
        state, entry = _sizes(heads_k, heads, dim_k, dim_v, channels, n_digits)
        size = state + (CHUNK + of.get("num_spec", 0)) * entry + 1
        return inputs, (-size // 4 * -4,)  # slots are multiples of 16 bytes, as digits are

    return shapes


def _dtypes(calculate: Callable[..., Any]) -> Callable[..., Any]:
    def dtypes(*args: Any, **given: Any) -> Tuple[torch.dtype, torch.dtype]:
        return calculate(*args, **given)[0], torch.float32

    return dtypes


def _sizes(heads_k: int, heads: int, dim_k: int, dim_v: int, channels: bool, n_digits: int) -> Tuple[int, int]:
    """The elements, of 4 bytes, of a state and of a log entry."""
    return heads * dim_v * (n_digits * dim_k + 4) // 4, heads_k * dim_k + heads * (dim_v + (dim_k if channels else 1))


def refuse_types(cache: Any) -> None:
    """ValueError if the engine's CacheConfig wants states of another type."""
    if cache.mamba_ssm_cache_dtype not in ("auto", "float32"):
        raise ValueError(f"GDN_VLLM_FORM: states are digits, and mamba_ssm_cache_dtype is {cache.mamba_ssm_cache_dtype!r}; leave it out")


def refuse_blocks(cache: Any) -> None:
    """ValueError if the prefix cache would need states at other tokens than multiples of 32. vLLM sets the sizes after it has made layers."""
    for name in ("mamba_block_size", "prefix_match_unit"):
        size = getattr(cache, name, None)
        if cache.enable_prefix_caching and size and size % CHUNK:
            raise ValueError(f"GDN_VLLM_FORM: {name} is {size}; the chunked form has states at multiples of {CHUNK} tokens. Choose one of them, "
                             "or start with --no-enable-prefix-caching")


def bases(pool: Tensor) -> numpy.ndarray:
    """For each slot the tokens that its state has seen."""
    return pool[:, -1].view(torch.int32).numpy()


def maps(drafted: int, slot: Any, padding: Any, at: Any, length: Any, base: Any) -> Tuple[Dict[str, Any], Any]:
    """A step's maps, and the bases after it. The first `drafted` rows have drafts; `base` has the slots' bases."""
    verified, begins = numpy.arange(len(slot)) < drafted, padding | (at == 0)
    named = numpy.where(padding, gdn.NONE, slot)
    made = {"log_row": named, "base_position": numpy.where(begins, 0, base),
            "state_src": numpy.where(padding, gdn.SKIP, numpy.where(begins, gdn.NONE, slot)),
            "state_dst": numpy.where(verified, gdn.NONE, named), "commit": numpy.where(verified, named, gdn.NONE)}
    return made, numpy.where(verified, at, at + length) // CHUNK * CHUNK


def operands(pool: Tensor, heads_k: int, heads: int, dim_k: int, dim_v: int, channels: bool, n_digits: int) -> Dict[str, Tensor]:
    """The states and the log of a pool."""
    state, entry = _sizes(heads_k, heads, dim_k, dim_v, channels, n_digits)
    slots, entries, first = pool.shape[0], (pool.shape[1] - 1 - state) // entry, pool.storage_offset()
    return {"state": pool[:, :state].view(torch.uint8).unflatten(1, (heads, -1)),
            "log": pool.as_strided((slots, entries, entry), (pool.stride(0), entry, 1), first + state)}
