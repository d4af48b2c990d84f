"""Gated delta net layers of vLLM on the CPU with libgdn's kernels, so that a sequence's bits do not depend on its batch.

vLLM finds register() as the plugin "gdn" and calls it in every process. It does nothing unless VLLM_PLUGINS names gdn.
Each layer then makes two calls for a whole step, whatever the step holds: prompts, pieces of prompts, single tokens and
drafts. States stay in vLLM's pools, in their type, float32, float16 or bfloat16. docs/guide/vllm.md has what is replaced."""
from __future__ import annotations

import importlib
import os
from dataclasses import fields
from typing import Any, List, Tuple, get_type_hints

import torch
from torch import Tensor

import gdn
from ._kernels import _build_gated_delta_net, _build_ssm_conv
from .torch._operators import _where, rows

TESTED = ("0.32",)  # releases of vLLM whose layers the tests have run
_MODULE = "vllm.model_executor.layers.mamba.ops.cpu.gdn_attention"
_METADATA = {"num_prefills", "num_decodes", "num_spec_decodes", "num_actual_tokens", "has_initial_state", "spec_query_start_loc",
             "non_spec_query_start_loc", "spec_state_indices_tensor", "non_spec_state_indices_tensor", "spec_sequence_masks", "spec_token_indx",
             "non_spec_token_indx", "num_accepted_tokens", "checkpoint"}
_PADDING = 0  # the slot that vLLM gives to padding


def register() -> None:
    """The entry point. RuntimeError, which ends vLLM's start, if this vLLM is not one that the tests know."""
    if "gdn" not in os.environ.get("VLLM_PLUGINS", "").split(","):
        return
    import vllm

    if not vllm.__version__.startswith(tuple(f"{release}." for release in TESTED)):
        raise RuntimeError(f"gdn {gdn.version()} knows vLLM {', '.join(TESTED)}, and this is vLLM {vllm.__version__}; nothing was replaced. "
                           "Leave gdn out of VLLM_PLUGINS to start without it")
    module = importlib.import_module(_MODULE)
    missing = _METADATA - {field.name for field in fields(module.GDNAttentionMetadata)}
    if missing or not hasattr(module, "cpu_gdn_attention_core") or module._CPU_GDN_ATTENTION_OPS_REGISTERED:
        raise RuntimeError(f"gdn {gdn.version()} cannot replace the layers of this vLLM {vllm.__version__}: "
                           f"{'the metadata has no ' + ', '.join(sorted(missing)) if missing else 'the operator is not there, or registered already'}")
    # vLLM makes the operator's schema from the annotations.
    _core.__annotations__ = {**get_type_hints(module.cpu_gdn_attention_core), "return": None}
    module.cpu_gdn_attention_core = _core


def _map(values: List[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


class _Sequences:
    """A step's sequences, on the host: drafts first, then single tokens, then prompts."""

    def __init__(self, meta: Any):
        self.starts: List[int] = [0]
        self.slots: List[List[int]] = []  # of the state after each token, or of the last one alone
        self.source: List[int] = []  # the slot to start from; gdn.NONE: from zero
        self.offset: List[int] = []  # of the window's oldest input in the convolution's slot
        if meta.spec_sequence_masks is not None:
            n = meta.num_spec_decodes
            accepted = meta.num_accepted_tokens[:n].tolist()
            self.starts += meta.spec_query_start_loc[1:n + 1].tolist()
            self.slots += meta.spec_state_indices_tensor[:n].tolist()
            self.source += [slots[take - 1] for slots, take in zip(self.slots, accepted)]
            self.offset += [take - 1 for take in accepted]
        self.drafted = len(self.slots)
        n = meta.num_decodes + meta.num_prefills
        if n:
            behind = self.starts[-1]
            slots = meta.non_spec_state_indices_tensor[:n].tolist()
            old = [True] * n
            if meta.num_prefills:
                given = meta.has_initial_state.tolist()
                old[meta.num_decodes:] = given[-meta.num_prefills:]
            self.starts += [behind + start for start in meta.non_spec_query_start_loc[1:n + 1].tolist()]
            self.slots += [[slot] for slot in slots]
            self.source += [slot if kept else gdn.NONE for slot, kept in zip(slots, old)]
            self.offset += [0] * n

    def length(self, s: int) -> int:
        return self.starts[s + 1] - self.starts[s]

    def maps(self) -> Tuple[Tensor, Tensor]:
        """state_src, and state_dst: of each sequence the state r tokens before its newest."""
        most = max(len(slots) for slots in self.slots)
        src, dst = [], []
        for s, slots in enumerate(self.slots):
            padding = slots[0] == _PADDING or not self.length(s)
            src.append(gdn.SKIP if padding else self.source[s])
            kept = slots[:self.length(s)][::-1] if s < self.drafted else slots
            dst.append([gdn.NONE] * most if padding else kept + [gdn.NONE] * (most - len(kept)))
        return _map(src), _map(dst)


def _core(mixed_qkv: Tensor, b: Tensor, a: Tensor, core_attn_out: Tensor, layer_name: Any) -> None:
    """In place of vLLM's cpu_gdn_attention_core: the convolution and the rule of one layer for a step's tokens."""
    from vllm.forward_context import get_forward_context
    from vllm.utils.torch_utils import _resolve_layer_name

    context = get_forward_context()
    layer = context.no_compile_layers[_resolve_layer_name(layer_name)]
    if context.attn_metadata is None:  # the run that measures memory
        core_attn_out.zero_()
        return
    meta = context.attn_metadata[layer.prefix]
    if meta.num_actual_tokens == 0:
        return
    if meta.checkpoint is not None:
        raise NotImplementedError("gdn's plugin for vLLM knows no prefill checkpoints (mamba_cache_mode); start without it")
    step = _Sequences(meta)
    order = None
    if meta.spec_sequence_masks is not None and meta.num_decodes + meta.num_prefills:
        order = torch.cat((meta.spec_token_indx, meta.non_spec_token_indx))
        mixed_qkv, a, b = (x.index_select(0, order) for x in (mixed_qkv, a, b))
    tokens = step.starts[-1]
    convolved = _convolve(layer, step, rows(mixed_qkv[:tokens]))
    out = core_attn_out if order is None else torch.empty_like(core_attn_out[:tokens])
    _rule(layer, step, convolved, rows(a[:tokens]), rows(b[:tokens]), out[:tokens])
    if order is not None:
        core_attn_out.index_copy_(0, order, out)


def _convolve(layer: Any, step: _Sequences, x: Tensor) -> Tensor:
    """The convolution. A slot of its pool has a window of inputs, oldest first: the last width - 1, and with drafts one
    more for each draft."""
    from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first

    weight = getattr(layer.conv1d, "_cpu_unpacked_conv_weight", None)  # vLLM packs the other one for its own kernels
    weight = layer.conv1d.weight if weight is None else weight
    weight = weight.reshape(weight.shape[0], -1)
    pool = layer.kv_cache[0].transpose(-1, -2) if is_conv_state_dim_first() else layer.kv_cache[0]  # [slots][inputs][channels]
    reach = weight.shape[1] - 1
    n = len(step.slots)
    past = x.new_zeros((n, reach, x.shape[1]), dtype=pool.dtype)
    for s in range(n):
        if step.source[s] != gdn.NONE:
            past[s] = pool[step.slots[s][0], step.offset[s]:step.offset[s] + reach]
    out = torch.empty_like(x)
    operands = {"x": x, "weight": rows(weight), "bias": layer.conv1d.bias, "history": past, "out": out,
                "position": (reach,) * n, "history_dst": (gdn.NONE,) * n, "seq_start": _map(step.starts)}
    _where(x).run(_build_ssm_conv, operands, {"silu": layer.activation == "silu"}, {})
    for s in range(n):
        begin, length = step.starts[s], step.length(s)
        if not length or step.slots[s][0] == _PADDING:
            continue
        window = torch.cat((past[s], x[begin:begin + length].to(pool.dtype)))
        window = window[1:] if s < step.drafted else window[-reach:]
        pool[step.slots[s][0], :window.shape[0]] = window
    return out


def _rule(layer: Any, step: _Sequences, x: Tensor, a: Tensor, b: Tensor, out: Tensor) -> None:
    """The delta rule, with its gates and norms, on states [slot][head][value][key]."""
    heads_k, heads_v = layer.num_k_heads // layer.tp_size, layer.num_v_heads // layer.tp_size
    q, k, v = x.split((heads_k * layer.head_k_dim, heads_k * layer.head_k_dim, heads_v * layer.head_v_dim), -1)
    state = layer.kv_cache[1]
    src, dst = step.maps()
    operands = {"q": q.unflatten(-1, (heads_k, layer.head_k_dim)), "k": k.unflatten(-1, (heads_k, layer.head_k_dim)),
                "v": v.unflatten(-1, (heads_v, layer.head_v_dim)), "g": a, "beta": b, "state": state, "out": out,
                "ssm_a": layer.A_log, "dt_bias": layer.dt_bias, "seq_start": _map(step.starts), "state_src": src, "state_dst": dst}
    options = {"qk_norm": "add", "qk_norm_eps": 1e-6, "gate_input": "raw_a_log", "beta_input": "logit"}
    if state.dtype != torch.float32:
        options["rounding_interval"] = 1
    _where(x).run(_build_gated_delta_net, operands, options, {})
