"""HF transformers with libgdn: use() puts the library's functions where an installed transformers has its slow fallbacks for
Qwen3-Next, Qwen3.5 and Qwen3.5-MoE, undo() takes them away again.

    import gdn.transformers
    gdn.transformers.use()
    model = AutoModelForCausalLM.from_pretrained(...)     # also one that was loaded before

The models' layers look these functions up in their module when they run, and there they are replaced; nothing is downloaded.
So is the layers' own forward, by one that hands the library the projections as they are and keeps states in place.
Tensors that are not on the CPU get what was there before. Forward only, see gdn.torch.
"""
from __future__ import annotations

import functools
import importlib
import threading
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import torch

from .torch import _layer, causal_conv1d_fn, causal_conv1d_update, chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

MODELS = ("qwen3_next", "qwen3_5", "qwen3_5_moe")


# These have transformers' signatures.
def _chunk(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
           cu_seqlens=None, **kwargs):
    return chunk_gated_delta_rule(query, key, value, g, beta, initial_state=initial_state, output_final_state=output_final_state,
                                  use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _recurrent(query, key, value, g, beta, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
               cu_seqlens=None, **kwargs):
    return fused_recurrent_gated_delta_rule(query, key, value, g, beta=beta, initial_state=initial_state,
                                            output_final_state=output_final_state,
                                            use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _conv(hidden_states, weight, bias=None, activation=None, seq_idx=None, **kwargs):
    return causal_conv1d_fn(hidden_states, weight, bias, seq_idx=seq_idx, activation=activation)


def _update(hidden_states, conv_state, weight, bias=None, activation=None):
    return causal_conv1d_update(hidden_states, conv_state, weight, bias, activation)


_OURS: Dict[str, Callable] = {"torch_chunk_gated_delta_rule": _chunk, "torch_recurrent_gated_delta_rule": _recurrent,
                              "causal_conv1d_fn": _conv, "causal_conv1d_update": _update}
_lock = threading.Lock()
_replaced: Dict[Tuple[str, str], Tuple[Any, Callable, Callable]] = {}  # (model, name): module or class, what was there, what is there now


def _in_place_of(original: Callable, ours: Callable) -> Callable:
    @functools.wraps(original)
    def function(tensor, *args, **kwargs):
        return (ours if tensor.device.type == "cpu" else original)(tensor, *args, **kwargs)

    return function


_NORM_ROWS = 1024  # of the norm behind the rule at a time: its many passes then find them in the processor's cache


def _plain(layer, hidden, kwargs: Dict[str, Any], past, state) -> bool:
    """Can a layer's forward be _forward() here? Where not, its own calls the functions above, with the same values."""
    if type(hidden) is not torch.Tensor or hidden.device.type != "cpu" or hidden.dtype not in _layer.FLOATS or not hidden.numel():
        return False
    if torch.is_grad_enabled() and (hidden.requires_grad or layer.out_proj.weight.requires_grad or layer.A_log.requires_grad):
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_autocast_enabled("cpu"):
        return False
    if kwargs.get("cu_seq_lens_q") is not None or kwargs.get("seq_idx") is not None:
        return False
    if past is None or state is None:
        return past is state and _known(layer)
    shape = (hidden.shape[0], layer.num_v_heads, layer.head_k_dim, layer.head_v_dim)
    if state.dtype is not torch.float32 or state.shape != shape or not state.is_contiguous():
        return False
    return past.dtype is hidden.dtype and past.shape[-1] >= max(layer.conv_kernel_size - 1, 1) and _known(layer)


def _known(layer) -> bool:
    return layer.activation in ("silu", "swish") and "_hf_hook" not in vars(layer.conv1d)


def _projections(layer, hidden):
    """(q, k and v side by side, z, b, a) of a layer's tokens."""
    if hasattr(layer, "in_proj_qkv"):
        return layer.in_proj_qkv(hidden), layer.in_proj_z(hidden), layer.in_proj_b(hidden), layer.in_proj_a(hidden)
    *parts, z, b, a = layer.fix_query_key_value_ordering(layer.in_proj_qkvz(hidden), layer.in_proj_ba(hidden))
    return torch.cat([part.flatten(2) for part in parts], dim=-1), z, b, a


def _convolved(layer, qkv, cache, past):
    """The convolution, and the cache's newest columns after it. Those are [batch, channels, columns] to everybody; the first prompt
    leaves them with a token's channels side by side in memory, as the library reads them."""
    weight, at = layer.conv1d.weight.squeeze(1), layer.layer_idx
    if past is None:
        out = _layer.conv(qkv, weight, layer.conv1d.bias, None)
        if cache is not None:
            cache.update_conv_state(qkv.transpose(1, 2), at, conv_kernel_size=layer.conv_kernel_size)
            kept = cache.layers[at].conv_states
            kept[0] = kept[0].transpose(1, 2).contiguous().transpose(1, 2)
        return out
    columns = past.transpose(1, 2)
    out = _layer.conv(qkv, weight, layer.conv1d.bias, columns if columns.stride(-1) == 1 else columns.contiguous())
    _layer.push(columns, qkv)
    return out


def _forward(layer, hidden, cache, past, state):
    """A layer's forward: its own projections and norm, and the library's calls between them."""
    batch, tokens, _ = hidden.shape
    qkv, z, b, a = _projections(layer, hidden)
    mixed = _convolved(layer, qkv, cache, past)
    begins = state is None
    if begins:
        state = hidden.new_empty((batch, layer.num_v_heads, layer.head_k_dim, layer.head_v_dim), dtype=torch.float32)
    out = _layer.rule(mixed, b, a, layer.A_log, layer.dt_bias, state, begins, layer.num_k_heads).view(-1, layer.head_v_dim)
    if begins and cache is not None:
        cache.update_recurrent_state(state, layer.layer_idx)
    z = z.reshape(-1, layer.head_v_dim)
    if len(out) <= _NORM_ROWS:
        out = layer.norm(out, z)
    else:
        for some, gate in zip(out.split(_NORM_ROWS), z.split(_NORM_ROWS)):
            some.copy_(layer.norm(some, gate))
    return layer.out_proj(out.reshape(batch, tokens, -1))


def _layers_forward(module, original: Callable) -> Callable:
    @functools.wraps(original)
    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        past = state = None
        if cache_params is not None:
            past = cache_params.get_conv_state(self.layer_idx, state_idx=0)
            state = cache_params.get_recurrent_state(self.layer_idx, state_idx=0)
        recorded = cache_params is not None and cache_params.is_recording_past(self.layer_idx)
        if recorded or not _plain(self, hidden_states, kwargs, past, state):
            return original(self, hidden_states, cache_params=cache_params, attention_mask=attention_mask, **kwargs)
        return _forward(self, module.apply_mask_to_padding_states(hidden_states, attention_mask), cache_params, past, state)

    return forward


def _layer_of(module) -> Optional[type]:
    """The class of a module's gated-delta layers, where it is arranged as _forward() knows it."""
    for name, kind in vars(module).items():
        if name.endswith("GatedDeltaNet") and isinstance(kind, type) and callable(getattr(module, "apply_mask_to_padding_states", None)):
            return kind
    return None


def use(models: Optional[Iterable[str]] = None, layers: bool = True) -> Tuple[str, ...]:
    """Let transformers' models use libgdn: those of MODELS that the installed transformers has, or the ones that are named.
    Returns their names. Models that are loaded already use it too. Once is enough. Thread-safe, but for models that run.
    layers=False leaves the layers' forward as it is and replaces only the functions that it calls: what is left then is slower
    by the copies of states, the gates and some small operations. Packed sequences, recorded pasts, gradients and torch.compile
    have these functions in any case.
    Errors: ImportError where transformers is not installed, has none of them, or has their functions under other names."""
    wanted = MODELS if models is None else tuple(models)
    modules = {}
    for name in wanted:
        if name not in MODELS:
            raise ValueError(f"{name!r} is not among the models that gdn.transformers knows: {', '.join(MODELS)}")
        try:
            modules[name] = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        except ModuleNotFoundError:
            if models is not None:
                raise
    if not modules:
        importlib.import_module("transformers")  # its own error where it is missing
        raise ImportError(f"this transformers has none of {', '.join(wanted)}")
    for name, module in modules.items():
        missing = [function for function in _OURS if not callable(getattr(module, function, None))]
        if missing:
            raise ImportError(f"{module.__name__} has no {', '.join(missing)}; this transformers is arranged in another way")
    with _lock:
        for name, module in modules.items():
            for function, ours in _OURS.items():
                if (name, function) not in _replaced:
                    original = getattr(module, function)
                    now = _in_place_of(original, ours)
                    _replaced[name, function] = module, original, now
                    setattr(module, function, now)
            kind = _layer_of(module) if layers else None
            if kind is not None and (name, "forward") not in _replaced:
                original = kind.forward
                kind.forward = now = _layers_forward(module, original)
                _replaced[name, "forward"] = kind, original, now
    return tuple(modules)


def undo() -> None:
    """Put back what use() replaced. What somebody else has put there since stays."""
    with _lock:
        for (_, function), (module, original, now) in _replaced.items():
            if getattr(module, function) is now:
                setattr(module, function, original)
        _replaced.clear()


__all__ = ["MODELS", "undo", "use"]
