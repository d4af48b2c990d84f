"""Gated delta net and Kimi delta attention layers of vLLM with libgdn's kernels, so that a sequence's bits do not depend on
its batch.

vLLM finds register() as the plugin "gdn" and calls it in every process. It does nothing unless VLLM_PLUGINS names gdn.
Each layer then makes two calls for a whole step, whatever the step holds: prompts, pieces of prompts, single tokens and
drafts. States stay in vLLM's pools, in their type, float32, float16 or bfloat16, or as digits (GDN_VLLM_FORM).
docs/guide/vllm.md has what is replaced."""
from __future__ import annotations

import copy
import functools
import importlib
import inspect
import os
import sys
import threading
from dataclasses import fields, replace
from typing import Any, Callable, Dict, Optional, Tuple, get_type_hints

import numpy
import torch
from torch import Tensor

import gdn
from . import _vllm_align, _vllm_chunked
from ._kernels import _build_gated_delta_net, _build_ssm_conv
from .torch._operators import _where, elements, rows, written

TESTED = ("0.33", "0.32", "0.31")  # releases of vLLM whose layers the tests have run
_OLD = "0.31."  # neither drafts nor the chunked form: after a step without drafts it starts from the state of a token that was not accepted
_CPU_OPERATOR = "vllm.model_executor.layers.mamba.ops.cpu.gdn_attention"
_METADATA = {"num_prefills", "num_decodes", "num_spec_decodes", "num_actual_tokens", "spec_query_start_loc", "non_spec_query_start_loc",
             "spec_state_indices_tensor", "non_spec_state_indices_tensor", "spec_sequence_masks", "spec_token_indx", "non_spec_token_indx",
             "num_accepted_tokens"}
_PADDING = 0  # the slot that vLLM gives to padding
_digits = 0  # of the chunked form; 0: the recurrence; set by register()
_memory = threading.local()  # of _like(): engines in several threads have their own
_without_copies: Optional[str] = None  # why drafts cannot run with prefix caching; set by register()


def register() -> None:
    """The entry point. RuntimeError, which ends vLLM's start, if this vLLM is not one that the tests know."""
    if "gdn" not in os.environ.get("VLLM_PLUGINS", "").split(","):
        return
    import vllm
    from vllm import _custom_ops
    from vllm.model_executor.layers.mamba.abstract import MambaBase
    from vllm.v1.attention.backends.gdn_attn import GDNAttentionBackend, GDNAttentionMetadataBuilder

    if not vllm.__version__.startswith(tuple(f"{release}." for release in TESTED)):
        raise _unknown(f"knows vLLM {', '.join(TESTED)}; nothing was replaced")
    module = importlib.import_module(_CPU_OPERATOR)
    missing = _METADATA - {field.name for field in fields(module.GDNAttentionMetadata)}
    if missing or not hasattr(module, "cpu_gdn_attention_core") or module._CPU_GDN_ATTENTION_OPS_REGISTERED:
        raise _unknown("cannot replace its layers: " + (f"the metadata has no {', '.join(sorted(missing))}" if missing else
                                                        "the operator is not there, or registered already"))
    # vLLM makes the operator's schema from the annotations.
    _qwen_operator.__annotations__ = {**get_type_hints(module.cpu_gdn_attention_core), "return": None}
    module.cpu_gdn_attention_core = _qwen_operator
    GDNAttentionBackend.supports_batch_invariance = classmethod(lambda cls: True)
    GDNAttentionMetadataBuilder.build = _marked(GDNAttentionMetadataBuilder.build)
    if hasattr(GDNAttentionMetadataBuilder, "update_block_table"):
        GDNAttentionMetadataBuilder.update_block_table = _marked_again(GDNAttentionMetadataBuilder.update_block_table)
    pack = getattr(_custom_ops, "causal_conv1d_weight_pack", None)  # vLLM 0.31 calls it for every type; it takes bfloat16
    if pack:
        _custom_ops.causal_conv1d_weight_pack = lambda weight: pack(weight) if weight.dtype is torch.bfloat16 else weight
    importlib.import_module("vllm.model_executor.layers.mamba.gdn.olmo_gdn_linear_attn")
    for known in _subclasses(MambaBase):
        _adopt(known)
    global _digits, _without_copies
    _digits = _vllm_chunked.digits()
    _without_copies = _vllm_align.register(moving=not _digits)
    if _digits:
        _choose_chunked(vllm.__version__)
    # A model's layers are defined when vLLM imports the model.
    MambaBase.__init_subclass__ = classmethod(lambda cls, **given: _adopt(cls))


def _unknown(what: str) -> RuntimeError:
    import vllm

    return RuntimeError(f"gdn {gdn.version()} {what}. This is vLLM {vllm.__version__}. Leave gdn out of VLLM_PLUGINS to start without it")


def _choose_chunked(version: str) -> None:
    from vllm.platforms import current_platform

    if not current_platform.is_cpu() or version.startswith(_OLD):
        raise _unknown("computes the chunked form (GDN_VLLM_FORM) on a CPU and with vLLM 0.32 and later only")
    _vllm_chunked.register(_digits)


def _subclasses(base: type) -> set:
    return {deeper for one in base.__subclasses__() for deeper in {one} | _subclasses(one)}


def _adopt(layer: type) -> None:
    """Replace the method of a layer that computes the convolution and the rule. Other classes stay as they are, but those
    with this metadata refuse to be made, since vLLM's kernels would run beside libgdn's."""
    if layer.__name__ in _LAYERS:
        name, ours = _LAYERS[layer.__name__]
        theirs = vars(layer).get(name)
        wanted, given = (None if f is None else list(inspect.signature(f).parameters)[1:] for f in (ours, theirs))
        if wanted != given:
            raise _unknown(f"cannot replace {layer.__name__}.{name}, whose arguments are {given}, not {wanted}")
        setattr(layer, name, ours)
        layer.__init__ = _checked(layer.__init__)  # type: ignore[misc]
        layer.get_kv_cache_spec = _checkpointed(layer.get_kv_cache_spec)  # type: ignore[attr-defined]
        _more(layer)
    elif any(base.__name__ == "GatedDeltaNetAttention" for base in layer.__mro__[1:]):
        def refuse(self: Any, *args: Any, **given: Any) -> None:
            raise _unknown(f"has no kernels for layers of the class {layer.__name__}")
        layer.__init__ = refuse  # type: ignore[misc]


def _checked(init: Callable[..., None]) -> Callable[..., None]:
    """A layer's __init__() that refuses what does not work, before vLLM loads weights."""
    @functools.wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        import vllm
        from vllm.config import get_current_vllm_config

        config = get_current_vllm_config()
        if config.speculative_config is not None and vllm.__version__.startswith(_OLD):
            raise _unknown("refuses drafts (speculative_config) with a release that loses the place of accepted tokens")
        if config.speculative_config is not None and config.cache_config.enable_prefix_caching and _without_copies:
            raise _unknown(f"refuses drafts (speculative_config) with prefix caching, since {_without_copies}. Start with "
                           "--no-enable-prefix-caching (enable_prefix_caching=False), or without drafts")
        if _digits:
            _vllm_chunked.refuse_types(config.cache_config)
        init(self, *args, **given)

    return checked


def _checkpointed(specify: Callable[..., Any]) -> Callable[..., Any]:
    """A layer's get_kv_cache_spec() that tells vLLM of checkpoints: a step can keep the state after any one token of a prompt. With a
    prefix cache vLLM then reads a prompt in one step, and not up to the last block's end first. 0.31 has none. On a CPU only.
    The chunked form keeps states at multiples of 32, and a sequence has one slot, with drafts too. On a device no state is kept within a
    step, also where vLLM 0.33 would by FlashInfer."""
    @functools.wraps(specify)
    def specified(self: Any, vllm_config: Any) -> Any:
        from vllm.platforms import current_platform
        from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadata, GDNAttentionMetadataBuilder

        spec = specify(self, vllm_config)
        if _digits:
            _vllm_chunked.refuse_blocks(vllm_config.cache_config)
            spec = replace(spec, num_speculative_blocks=0)
        alignment = _vllm_chunked.CHUNK if _digits else 1
        if not current_platform.is_cpu() or self.get_attn_backend().get_builder_cls() is not GDNAttentionMetadataBuilder:
            alignment = None
        checkpoints = {"num_prefill_checkpoint_blocks": int(alignment is not None), "prefill_checkpoint_alignment": alignment}
        known = {field.name for of in (type(spec), GDNAttentionMetadata) for field in fields(of)}
        return replace(spec, **checkpoints) if known >= {*checkpoints, "checkpoint"} else spec

    return specified


def _marked(build: Callable[..., Any]) -> Callable[..., Any]:
    """The build() of a step's metadata, which then says also at which token each row begins: (those with drafts, the others).
    0 is a row that starts from zero. vLLM says so only of rows that it calls prompts. A prompt of one token that it fills up
    with drafts of no meaning is none, and its slot has the state of an earlier request."""
    @functools.wraps(build)
    def marked(self: Any, common_prefix_len: int, common_attn_metadata: Any, *args: Any, **given: Any) -> Any:
        meta = build(self, common_prefix_len, common_attn_metadata, *args, **given)
        at = (common_attn_metadata.seq_lens - common_attn_metadata.query_start_loc.diff()).clamp(min=0)  # rows of padding have no length
        drafted = getattr(meta, "spec_sequence_masks_cpu", None)
        meta.gdn_position = (at[:0], at) if drafted is None else (at[drafted], at[~drafted])
        if at.is_cuda and len(at) <= self.decode_cudagraph_max_bs:  # a graph reads the same memory in each step
            kept = self.__dict__.setdefault("gdn_position", at.new_zeros(2, self.decode_cudagraph_max_bs))
            meta.gdn_position = tuple(memory[:len(part)].copy_(part) for memory, part in zip(kept, meta.gdn_position))
        return meta

    return marked


def _marked_again(update: Callable[..., Any]) -> Callable[..., Any]:
    """The update_block_table() of a step's metadata, for rows that begin where those do that it is given."""
    @functools.wraps(update)
    def marked(self: Any, metadata: Any, *args: Any, **given: Any) -> Any:
        meta = update(self, metadata, *args, **given)
        meta.gdn_position = metadata.gdn_position
        return meta

    return marked


def _more(layer: type) -> None:
    """What else some classes need: Qwen's to leave out its fused kernels, Ling's a gate that is not computed before the
    method, OLMo's to do without Triton and to load."""
    module: Any = sys.modules[layer.__module__]
    if layer.__name__ == "QwenGatedDeltaNetAttention":
        layer._fused_gdn_decode_unsupported_reason = lambda self, config: "gdn computes these layers"  # type: ignore[attr-defined]
    elif layer.__name__ == "BailingMoeV3KimiDeltaAttention":
        module.fused_kda_gate = lambda g, a_log, head_dim, **others: g.unflatten(-1, (-1, head_dim))
    elif layer.__name__ == "OlmoHybridGatedDeltaNetAttention":
        module.set_triton_allocator = lambda device: None
        loader = module._make_fused_conv1d_weight_loader  # in vLLM 0.32 it does not ask a weight for its place
        module._make_fused_conv1d_weight_loader = lambda *dims: lambda weight, loaded, shard=None: loader(*dims)(
            weight, loaded, loaded.shard_id if shard is None else shard)


class _Step:
    """A step's sequences, drafts first, then single tokens, then prompts, as maps of the kernels. `n` sequences, of which the
    first `drafted` have drafts, and `tokens` tokens.

    vLLM's metadata has members for one kind of row only:
      drafts     spec_query_start_loc, spec_state_indices_tensor, num_accepted_tokens, spec_sequence_masks. Their number is
                 num_spec_decodes, the masks are None without any. num_accepted_tokens is of the row's last step; a row that
                 starts from zero has none. A prompt of one token can be such a row
      others     non_spec_query_start_loc, non_spec_state_indices_tensor. Rows of padding are behind num_decodes + num_prefills
      both       spec_token_indx and non_spec_token_indx, where a step has both. Otherwise the tokens are in order
      prompts    has_initial_state, of all others where there is a prompt. `gdn_position` replaces it: _marked() sets it for
                 every row. prefill_*, chunk_* and nums_dict are for vLLM's kernels
      others     checkpoint, None or of all others: the tokens of the row after which a state is kept, and its slot, or 0
      padding    slot 0, or no tokens"""

    def __init__(self, meta: Any, pool: Optional[Tensor] = None):
        """`pool`, of a layer's states, is read in the chunked form."""
        self.drafted = meta.num_spec_decodes if meta.spec_sequence_masks is not None else 0
        others = meta.num_decodes + meta.num_prefills
        self.n, self.tokens = self.drafted + others, meta.num_actual_tokens
        self.order: Optional[Tensor] = None  # tokens by sequences, where drafts and others are mixed
        positions = getattr(meta, "gdn_position", None)
        if positions is None:
            raise _unknown("cannot tell where a step's rows begin, since this metadata is not of GDNAttentionMetadataBuilder.build()")
        # NumPy does small operations in a tenth of PyTorch's time. The two agree in all that is used here.
        device = positions[0].device
        xp: Any
        xp, on = (numpy, {}) if device.type == "cpu" else (torch, {"device": device})

        def integers(x: Tensor) -> Any:
            return x.int() if on else x.numpy().astype("int32", copy=False)

        starts, slots, source, position = [], [], [], []
        if self.drafted:
            columns, row = integers(meta.spec_state_indices_tensor[:self.drafted]), xp.arange(self.drafted, **on)
            starts.append(integers(meta.spec_query_start_loc[:self.drafted + 1]))
            slots.append(columns[:, 0])
            source.append(slots[-1] if _digits else columns[row, integers(meta.num_accepted_tokens[:self.drafted]).clip(min=1) - 1])
            position.append(integers(positions[0][:self.drafted]))
        if others:
            given = integers(meta.non_spec_query_start_loc[:others + 1])
            starts.append(given if not starts else given[1:] + starts[0][-1])
            slots.append(integers(meta.non_spec_state_indices_tensor[:others]))
            source.append(slots[-1])
            position.append(integers(positions[1][:others]))
            if self.drafted:
                self.order = torch.cat((meta.spec_token_indx, meta.non_spec_token_indx)).long()
        start, slot, first, at = (xp.concatenate(x) for x in (starts, slots, source, position))
        length = start[1:] - start[:-1]
        padding = (slot == _PADDING) | (length == 0)
        kept = xp.full((self.n, columns.shape[1] if self.drafted else 1), gdn.NONE, dtype=xp.int32, **on)
        kept[:, 0] = slot
        if self.drafted and not _digits:  # the states after a sequence's last tokens, newest first
            back = length[:self.drafted, None] - 1 - xp.arange(columns.shape[1], **on)
            kept[:self.drafted] = xp.where(back < 0, gdn.NONE, columns[row[:, None], back.clip(min=0)])
        maps = {"seq_start": start, "position": xp.where(padding, 0, at), "history_src": xp.where(padding, gdn.SKIP, slot),
                "history_dst": xp.where(padding, gdn.NONE, slot), "state_dst": xp.where(padding[:, None], gdn.NONE, kept),
                "state_src": xp.where(padding, gdn.SKIP, xp.where(at == 0, gdn.NONE, first))}
        self.bases: Optional[Tuple[Any, Any]] = None  # in the chunked form: slots, and the tokens that their states have seen after the step
        # What the next step may take over, if it has the same rows and all of them go on.
        self.same = None if self.drafted or _digits or on or padding.any() or not at.all() else (start, slot)
        if _digits:
            chunked, base = _vllm_chunked.maps(self.drafted, slot, padding, at, length, _vllm_chunked.bases(pool)[slot])
            maps.update(chunked)
            self.bases = slot[~padding], base[~padding]
        self.maps = {name: x.int() if on else torch.from_numpy(x.astype("int32", copy=False)) for name, x in maps.items()}

        self.interval: Optional[int] = None  # of checkpoints, a divisor of all the lengths that they are wanted at
        checkpoint = getattr(meta, "checkpoint", None)  # 0.31 has no such member
        if checkpoint is not None and on:
            raise NotImplementedError("gdn's plugin for vLLM keeps no prefill checkpoints on a device (mamba_cache_mode); start without it")
        if checkpoint is not None:
            self._keep(at[self.drafted:], length[self.drafted:], ~padding[self.drafted:], integers(checkpoint.checkpoint_offsets[:others]),
                       integers(checkpoint.state_indices[:others]))

    def next(self, meta: Any) -> Optional["_Step"]:
        """The step after this one, if it has the same slots and lengths, and no row starts. Only the positions are others then, and making
        all maps takes longer than a small layer's kernels. None: it has to be made."""
        others = meta.num_decodes + meta.num_prefills
        if self.same is None or self.interval is not None or getattr(meta, "checkpoint", None) is not None or meta.spec_sequence_masks is not None or (
                others, meta.num_actual_tokens) != (self.n, self.tokens):
            return None
        at = meta.gdn_position[1][:others].numpy()
        given = meta.non_spec_query_start_loc[:others + 1].numpy(), meta.non_spec_state_indices_tensor[:others].numpy()
        if not at.all() or not all((old == new).all() for old, new in zip(self.same, given)):
            return None
        step = copy.copy(self)
        step.maps = {**self.maps, "position": torch.from_numpy(at.astype("int32"))}
        return step

    def _keep(self, at: Any, length: Any, real: Any, tokens: Any, slot: Any) -> None:
        """The map of checkpoints, of which each row without drafts has at most one."""
        wanted = numpy.flatnonzero(real & (slot != _PADDING))
        if len(wanted):
            self.interval = interval = int(numpy.gcd.reduce((at + tokens)[wanted]))
            before, behind = at // interval, (at + length) // interval
            kept = numpy.full((self.n, int((behind - before).max())), gdn.NONE, dtype="int32")
            kept[self.drafted + wanted, ((at + tokens) // interval - before - 1)[wanted]] = slot[wanted]
            if self.bases is not None:
                self.bases = numpy.append(self.bases[0], slot[wanted]), numpy.append(self.bases[1], (at + tokens)[wanted])
            self.maps["checkpoints"] = torch.from_numpy(kept)

    def of(self, *names: str) -> Dict[str, Tensor]:
        """The maps with these names, and those of checkpoints if there are any."""
        return {name: self.maps[name] for name in (names if self.interval is None else {*names, "position", "checkpoints"})}

    def options(self) -> Dict[str, Any]:
        return {} if self.interval is None else {"checkpoint_interval": self.interval}


def _step(meta: Any, layer: Any) -> _Step:
    """The maps of a step, made by its first layer. In a CUDA graph's capture they are made in the graph."""
    graph = meta.non_spec_query_start_loc if meta.spec_query_start_loc is None else meta.spec_query_start_loc
    capturing = graph.is_cuda and torch.cuda.is_current_stream_capturing()
    kept = meta.__dict__.get("gdn_step")
    if kept is None or kept[0] != capturing:
        last = layer.__dict__.get("gdn_last")
        kept = meta.gdn_step = capturing, last and last.next(meta) or _Step(meta, layer.kv_cache[1])
        layer.gdn_last = kept[1]
    return kept[1]


def _attend(layer: Any, qkv: Tensor, g: Tensor, beta: Tensor, out: Tensor, heads_k: int, weight: Tensor, bias: Optional[Tensor],
            **gates: Any) -> None:
    """The convolution and the rule of one layer for a step. qkv [tokens][channels] has q and k of heads_k heads, then v.
    g is [tokens][heads], or [tokens][heads][keys]; beta is [tokens][heads], out [tokens][heads][values]. weight is
    [channels][width]. `gates` says how the rule reads g and beta."""
    from vllm.forward_context import get_forward_context

    given = get_forward_context().attn_metadata
    meta = given.get(layer.prefix) if isinstance(given, dict) else None
    if meta is None:  # the run that measures memory
        out.zero_()
        return
    if not meta.num_actual_tokens:
        return
    step = _step(meta, layer)
    tokens = [x[:step.tokens] if step.order is None else x.index_select(0, step.order) for x in (qkv, g, beta)]
    mixed = out[:step.tokens] if step.order is None else torch.empty_like(out[:step.tokens])
    convolved = _convolve(layer, step, rows(tokens[0]), weight, bias)
    _rule(layer, step, convolved, *tokens[1:], mixed, heads_k, gates)
    if step.order is not None:
        out.index_copy_(0, step.order, mixed)


def _convolve(layer: Any, step: _Step, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """The convolution. A slot of its pool is a ring of inputs: position p is in row p % rows. So rejected drafts need no copy, and a
    copy of a slot continues at any position that the ring still has. vLLM keeps moving windows there, which only its own
    layers read. All inputs are rounded to the pool's type, so that the bits do not depend on which are
    in the pool."""
    pool = layer.kv_cache[0]
    channels = x.shape[1]
    if pool.stride()[1:] != (pool.shape[2], 1):
        raise _unknown(f"cannot use a pool of the convolution with strides {pool.stride()}; a slot has to be contiguous")
    ring = pool.as_strided((pool.shape[0], pool.shape[1] * pool.shape[2] // channels, channels), (pool.stride(0), channels, 1))
    out, x = _like(x), x.to(pool.dtype)
    operands = {"x": x, "weight": rows(weight), "bias": bias, "history": ring, "out": out,
                **step.of("seq_start", "position", "history_src", "history_dst")}
    _where(x).run(_build_ssm_conv, operands, {"silu": True, **step.options()}, {})
    return out


def _like(x: Tensor) -> Tensor:
    """Memory for a convolution's outputs, which the rule of the same layer reads. On a CPU all layers of a thread use the same: the system clears
    large memory that is new, which takes as long as the convolution."""
    if not x.is_cpu:
        return torch.empty_like(x)
    kept = getattr(_memory, "kept", None)
    if kept is None or kept.dtype is not x.dtype or kept.numel() < x.numel():
        kept = _memory.kept = torch.empty(x.numel(), dtype=x.dtype)
    return kept[:x.numel()].view(x.shape)


def _rule(layer: Any, step: _Step, x: Tensor, g: Tensor, beta: Tensor, out: Tensor, heads_k: int, gates: Dict[str, Any]) -> None:
    """The delta rule, with its gates and norms, on states [slot][head][value][key], or on slots of the chunked form."""
    state = layer.kv_cache[1]
    heads, dim_v = out.shape[1:]
    dim_k = (x.shape[1] - heads * dim_v) // (2 * heads_k)

    def part(first: int, heads: int, dim: int) -> Tensor:  # as split() and unflatten(), in a third of their time
        return x.as_strided((x.shape[0], heads, dim), (x.stride(0), dim, 1), x.storage_offset() + first)

    options = {"qk_norm": "add", "qk_norm_eps": 1e-6, "beta_input": "logit", **gates, **step.options()}
    operands = {"q": part(0, heads_k, dim_k), "k": part(heads_k * dim_k, heads_k, dim_k), "v": part(2 * heads_k * dim_k, heads, dim_v),
                "g": elements(g), "beta": elements(beta), "state": state, "out": out, "ssm_a": layer.A_log.flatten(),
                "dt_bias": layer.dt_bias.view(g.shape[1:]), **step.of("seq_start", "state_src", "state_dst")}
    if step.bases is not None:
        options["digits"] = _digits
        operands.update(_vllm_chunked.operands(state, heads_k, heads, dim_k, dim_v, g.dim() == 3, _digits))
        operands.update(step.of("log_row", "base_position", "commit", "position"))
    elif state.dtype != torch.float32:
        options["rounding_interval"] = 1
    written(state, out)
    _where(x).run(_build_gated_delta_net, operands, options, {})
    if step.bases is not None:
        slots, tokens = step.bases
        _vllm_chunked.bases(state)[slots] = tokens


def _taps(convolution: Any) -> Tensor:
    """A convolution's weight [channels][width]. On a CPU vLLM packs the other one for its own kernels."""
    weight = getattr(convolution, "_cpu_unpacked_conv_weight", convolution.weight)
    return weight.reshape(weight.shape[0], -1)


def _qwen_operator(mixed_qkv: Tensor, b: Tensor, a: Tensor, core_attn_out: Tensor, layer_name: Any) -> None:
    """In place of vLLM's cpu_gdn_attention_core."""
    from vllm.forward_context import get_forward_context
    from vllm.utils.torch_utils import _resolve_layer_name

    _qwen(get_forward_context().no_compile_layers[_resolve_layer_name(layer_name)], mixed_qkv, b, a, core_attn_out)


def _qwen(self: Any, mixed_qkv: Tensor, b: Tensor, a: Tensor, core_attn_out: Tensor) -> None:
    _attend(self, mixed_qkv, a, b, core_attn_out, self.num_k_heads // self.tp_size, _taps(self.conv1d), self.conv1d.bias,
            gate_input="raw_a_log")


def _olmo(self: Any, mixed_qkv: Tensor, b: Tensor, a: Tensor, core_attn_out: Tensor) -> None:
    _attend(self, mixed_qkv, a, b, core_attn_out, self.num_k_heads // self.tp_size, _taps(self.conv1d), self.conv1d.bias,
            gate_input="raw_a_log", beta_factor=2.0 if self.allow_neg_eigval else 1.0)


def _kda(self: Any, qkv: Tensor, g1: Tensor, beta: Tensor, core_attn_out: Tensor, lower_bound: Optional[float], **options: Any) -> None:
    convolutions = [self.conv1d] if hasattr(self, "conv1d") else [self.q_conv1d, self.k_conv1d, self.v_conv1d]
    bias = [one.bias for one in convolutions if one.bias is not None]
    gate = {"gate_input": "raw_a_log"} if lower_bound is None else {"gate_input": "bounded", "lower_bound": lower_bound}
    _attend(self, qkv, g1[0], beta[0], core_attn_out[0], self.local_num_heads, torch.cat([_taps(one) for one in convolutions]),
            torch.cat(bias) if bias else None, **gate, **options)


def _kimi(self: Any, mixed_qkv: Tensor, g1: Tensor, g2: Tensor, beta: Tensor, core_attn_out: Tensor) -> None:
    _kda(self, mixed_qkv, g1, beta, core_attn_out, self.gate_lower_bound)
    core_attn_out.copy_(self.o_norm(core_attn_out, g2))


def _glm(self: Any, qkv_proj_states: Tensor, g1: Tensor, beta: Tensor, core_attn_out: Tensor) -> None:
    _kda(self, qkv_proj_states, g1, beta, core_attn_out, self.kda_lower_bound if self.kda_safe_gate else None)


def _ling(self: Any, q_proj_states: Tensor, k_proj_states: Tensor, v_proj_states: Tensor, g1: Tensor, beta: Tensor,
          core_attn_out: Tensor) -> None:
    """Its beta is the factor itself."""
    _kda(self, torch.cat((q_proj_states, k_proj_states, v_proj_states), -1), g1, beta, core_attn_out,
         self.lower_bound if self.safe_gate else None, beta_input="plain")


_LAYERS: Dict[str, Tuple[str, Callable[..., None]]] = {
    "QwenGatedDeltaNetAttention": ("_forward_core", _qwen),
    "OlmoHybridGatedDeltaNetAttention": ("_forward_core", _olmo),
    "KimiGatedDeltaNetAttention": ("_forward", _kimi),
    "Glm5NextLinearAttention": ("_forward", _glm),
    "BailingMoeV3KimiDeltaAttention": ("_forward", _ling),
}
