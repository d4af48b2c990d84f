"""The copies of recurrent states that vLLM makes between blocks where drafts and its prefix cache run together, on a CPU.

vLLM has two Triton kernels for them, and no others where Triton is missing. register() gives it these two by vLLM's dispatcher,
register_kernels(), under the names of the kernels.

A request's block table has a column for each B tokens (`block_size`). An entry is a slot in the pools of the layers of a group; slot
0 is no slot. Once cached, column p has the state after exactly (p + 1) B tokens and the inputs before them.

A step that reads tokens [c, c + s) uses columns R to R + drafts, R = ceil((c + s) / B) - 1. The state after its token t goes to
column R + t, each in a slot of its own. The convolution's inputs go to column R alone. So "the state t tokens behind column p" is
  a recurrent state        in column p + t; in the chunked form in column p, with the log of the tokens since (gdn._vllm_chunked)
  the convolution's inputs in column p, a ring by position (gdn.vllm), which is copied whole: it has the inputs before each of the
                           step's tokens. vLLM's own kernels move a window by t inputs here

before_step() copies the last state of a request, which is accepted - 1 tokens behind its column, to column R if that is another
one. Its column is that of its last step; after a hit in the cache, the hit's. vLLM then counts one accepted token.
after_step() copies the state at the end of a block, if the accepted tokens reach one, to the column of this block. If that is
R, the next step starts from the copy, so one token counts as accepted."""
from __future__ import annotations

import ctypes
import importlib
import inspect
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

_MODULE = "vllm.v1.worker.mamba_utils"
_NO_SLOT = 0
_moving = True  # False: the chunked form


class _Pool(NamedTuple):
    """A pool of states or of inputs as vLLM describes it, in bytes."""

    table: int  # address of the group's block tables, int32
    table_stride: int  # entries from one request's table to the next
    address: int
    slot: int  # from one slot to the next
    size: int  # of what a slot has
    width: int  # inputs in a slot; 0: recurrent states


def register(moving: bool = True) -> Optional[str]:
    """Give vLLM the functions; `moving` is false for the chunked form. What is wrong with this vLLM if it cannot take them: on a
    device, and with Triton's CPU backend, vLLM's own kernels run, which move windows."""
    from vllm.platforms import current_platform
    from vllm.triton_utils import HAS_TRITON

    global _moving
    _moving = moving

    if HAS_TRITON or not current_platform.is_cpu():
        return "Triton's kernels move windows of the convolution, and gdn keeps rings"
    try:
        dispatcher = importlib.import_module("vllm.triton_utils.dispatcher")
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        return f"it needs {error.name}, which is not there"
    functions: Dict[str, Callable[..., None]] = {}
    for name, function in _KERNELS.items():
        kernel = getattr(module, name, None)
        if kernel is None:
            return f"it needs {_MODULE}.{name}, which is not there"
        given = list(getattr(kernel, "arg_names", None) or inspect.signature(kernel).parameters)
        wanted = list(inspect.signature(function).parameters)
        if given != wanted:
            return (f"it needs {_MODULE}.{name} without the arguments {sorted(set(given) - set(wanted))}, "
                    f"with {sorted(set(wanted) - set(given))}, in the order {wanted}")
        if getattr(kernel, "func", None) is not function:  # registered already
            functions[f"{_MODULE}.{name}"] = function
    try:
        if functions:
            dispatcher.register_kernels(functions)
    except Exception as error:  # it looks at everything in all modules and fails at some, such as numba's
        return f"vLLM's register_kernels() failed: {error!r}"
    return None


# The names of the arguments and their order are those of vLLM's kernels.
def before_step(mamba_state_idx_ptr: Tensor, src_col_ptr: Tensor, token_bias_ptr: Tensor, block_table_ptrs_ptr: Tensor,
                block_table_stride_req: int, state_base_addrs_ptr: Tensor, state_block_strides_ptr: Tensor, state_elem_sizes_ptr: Tensor,
                state_inner_sizes_ptr: Tensor, state_conv_widths_ptr: Tensor, state_group_indices_ptr: Tensor,
                state_dim_row_count_ptr: Tensor, state_dim_row_stride_ptr: Tensor, idx_mapping_ptr: Optional[Tensor], num_reqs: int,
                COPY_BLOCK_SIZE: int, CONV_STATE_DIM_FIRST: bool, HAS_IDX_MAPPING: bool = True, TEMPORAL_TILES: int = 1) -> None:
    """For each request: the column of this step, that of the last one (-1: none), and the tokens behind that one."""
    layout = (block_table_ptrs_ptr, block_table_stride_req, state_base_addrs_ptr, state_block_strides_ptr, state_elem_sizes_ptr,
              state_inner_sizes_ptr, state_conv_widths_ptr, state_group_indices_ptr, state_dim_row_count_ptr, state_dim_row_stride_ptr,
              CONV_STATE_DIM_FIRST)
    for request in _requests(num_reqs, idx_mapping_ptr, HAS_IDX_MAPPING):
        source, target = int(src_col_ptr[request]), int(mamba_state_idx_ptr[request])
        if source >= 0 and source != target:
            _copy(layout, request, source, target, int(token_bias_ptr[request]))


def after_step(num_accepted_tokens_ptr: Tensor, mamba_state_idx_ptr: Tensor, num_scheduled_tokens_ptr: Tensor,
               num_computed_tokens_ptr: Tensor, num_draft_tokens_ptr: Tensor, block_table_ptrs_ptr: Tensor, block_table_stride_req: int,
               state_base_addrs_ptr: Tensor, state_block_strides_ptr: Tensor, state_elem_sizes_ptr: Tensor, state_inner_sizes_ptr: Tensor,
               state_conv_widths_ptr: Tensor, state_group_indices_ptr: Tensor, state_dim_row_count_ptr: Tensor,
               state_dim_row_stride_ptr: Tensor, num_accepted_tokens_out_ptr: Tensor, idx_mapping_ptr: Optional[Tensor], num_reqs: int,
               block_size: int, COPY_BLOCK_SIZE: int, CONV_STATE_DIM_FIRST: bool, HAS_IDX_MAPPING: bool = False,
               PRECOMPUTED_NEW_COMPUTED: bool = False, TEMPORAL_TILES: int = 1) -> None:
    """For each request: the accepted tokens, the column of this step, its tokens, those before it, and the drafts among its tokens.
    PRECOMPUTED_NEW_COMPUTED: num_computed_tokens has the tokens before the next step instead."""
    layout = (block_table_ptrs_ptr, block_table_stride_req, state_base_addrs_ptr, state_block_strides_ptr, state_elem_sizes_ptr,
              state_inner_sizes_ptr, state_conv_widths_ptr, state_group_indices_ptr, state_dim_row_count_ptr, state_dim_row_stride_ptr,
              CONV_STATE_DIM_FIRST)
    for request in _requests(num_reqs, idx_mapping_ptr, HAS_IDX_MAPPING):
        accepted, column, computed = (int(x[request]) for x in (num_accepted_tokens_ptr, mamba_state_idx_ptr, num_computed_tokens_ptr))
        if PRECOMPUTED_NEW_COMPUTED:
            first = computed - accepted + 1  # tokens in the state of this step's column
        else:
            first = computed + int(num_scheduled_tokens_ptr[request]) - int(num_draft_tokens_ptr[request])
        end = (first + accepted - 1) // block_size * block_size
        if end < first:
            continue
        target = end // block_size - 1
        if target == column:
            num_accepted_tokens_out_ptr[request] = 1
        if target != column or end != first:
            _copy(layout, request, column, target, end - first)


_KERNELS: Dict[str, Callable[..., None]] = {"precopy_mamba_align_fused_kernel": before_step, "postprocess_mamba_fused_kernel": after_step}


def _requests(n: int, mapping: Optional[Tensor], mapped: bool) -> Iterable[int]:
    """The rows of the arrays; a mapping has -1 where there is none."""
    return [row for row in mapping[:n].tolist() if row >= 0] if mapped and mapping is not None else range(n)


def _pools(tables: Tensor, table_stride: int, *others: Any) -> List[_Pool]:
    *arrays, dim_first = others
    addresses = tables.tolist()
    return [_Pool(addresses[group], table_stride, address, slot, element * inner * max(width, 1) * (parts if dim_first and width else 1), width)
            for address, slot, element, inner, width, group, parts, part in zip(*(x.tolist() for x in arrays))]


def _copy(layout: Tuple[Any, ...], request: int, source: int, target: int, tokens: int) -> None:
    """Copy the state `tokens` behind column `source` to column `target`, in all pools."""
    for pool in _pools(*layout):
        table = (ctypes.c_int32 * pool.table_stride).from_address(pool.table + 4 * request * pool.table_stride)
        columns = source if pool.width or not _moving else source + tokens, target
        what = f"gdn cannot copy the state {tokens} tokens behind column {source} to column {target} of request {request}"
        if tokens < 0 or (pool.width and tokens >= pool.width) or min(columns) < 0 or max(columns) >= len(table):
            raise RuntimeError(f"{what}: its table has {len(table)} columns, and a slot {pool.width or 'no'} inputs")
        slots = [table[column] for column in columns]
        if _NO_SLOT in slots:
            raise RuntimeError(f"{what}: the slots in columns {columns} are {slots}, and {_NO_SLOT} is none")
        old, new = (pool.address + slot * pool.slot for slot in slots)
        ctypes.memmove(new, old, pool.size)
