"""HF transformers with libgdn: use() puts the library's functions where an installed transformers has its slow fallbacks for
Qwen3-Next, Qwen3.5 and Qwen3.5-MoE, undo() takes them away again.

    import gdn.transformers
    gdn.transformers.use()
    model = AutoModelForCausalLM.from_pretrained(...)     # also one that was loaded before

The models' layers look these functions up in their module when they run, and there they are replaced; nothing is downloaded.
Tensors that are not on the CPU get what was there before. Forward only, see gdn.torch.
"""
from __future__ import annotations

import functools
import importlib
import threading
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

from .torch import causal_conv1d_fn, causal_conv1d_update, chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

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
_replaced: Dict[Tuple[str, str], Tuple[Any, Callable, Callable]] = {}  # (model, name): module, what was there, what is there now


def _in_place_of(original: Callable, ours: Callable) -> Callable:
    @functools.wraps(original)
    def function(tensor, *args, **kwargs):
        return (ours if tensor.device.type == "cpu" else original)(tensor, *args, **kwargs)

    return function


def use(models: Optional[Iterable[str]] = None) -> Tuple[str, ...]:
    """Let transformers' models use libgdn: those of MODELS that the installed transformers has, or the ones that are named.
    Returns their names. Models that are loaded already use it too. Once is enough. Thread-safe, but for models that run.
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
    return tuple(modules)


def undo() -> None:
    """Put back what use() replaced. What somebody else has put there since stays."""
    with _lock:
        for (_, function), (module, original, now) in _replaced.items():
            if getattr(module, function) is now:
                setattr(module, function, original)
        _replaced.clear()


__all__ = ["MODELS", "undo", "use"]
