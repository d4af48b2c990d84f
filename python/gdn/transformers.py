"""HF transformers with libgdn: use() replaces the slow fallbacks of an installed transformers by the library's
functions. It serves models with gated-delta layers (Qwen3-Next, Qwen3.5, OLMo-Hybrid, ...), Kimi delta attention, or
the convolution alone (Mamba, LFM2, ...). undo() restores the fallbacks.

    import gdn.transformers
    gdn.transformers.use()
    model = AutoModelForCausalLM.from_pretrained(...)     # also one that was loaded before

Layers look up these functions in their module when they run, so use() replaces them there; nothing is downloaded. For
layers whose code is known it also replaces forward() by one that passes the projections without copies and updates
states in place. Gradients flow through these functions and layers: the forward pass has the bits that it has without
gradients, and the backward pass is gdn.torch's. Transformers' own code still runs for tensors that are not on the CPU,
for forward-mode derivatives and torch.func, and for layers outside the library's limits.
"""
from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import pathlib
import re
import textwrap
import threading
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch

from .torch import _layer, causal_conv1d_fn, causal_conv1d_update, chunk_gated_delta_rule, chunk_kda, fused_recurrent_gated_delta_rule
from .torch import fused_recurrent_kda, gated_delta_net, ssm_conv
from .torch._operators import transformed

# Keyword arguments that transformers' models pass to these functions and that do not affect the result.
_WITHOUT_MEANING = {"num_items_in_batch", "output_hidden_states", "output_attentions", "output_router_logits", "cu_seq_lens_q",
                    "cu_seq_lens_k", "max_length_q", "max_length_k", "position_embeddings", "position_ids", "is_causal", "seq_idx", "use_cache"}
# Arguments that have a meaning in the original packages, and none here.
_MEANINGS = {"transpose_state_layout", "head_first", "use_gate_in_kernel", "A_log", "dt_bias", "lower_bound"}.union(
    *(inspect.signature(function).parameters for function in (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule,
                                                              causal_conv1d_fn, causal_conv1d_update))) - _WITHOUT_MEANING - {"kwargs"}
_ACTIVATIONS = (None, "silu", "swish")


# Functions with the signatures of transformers. They return NotImplemented for a call that transformers' own has to run.
def _chunk(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
           cu_seqlens=None, **kwargs):
    if not _serves_rule(query, key, value, output_final_state, cu_seqlens):
        return NotImplemented
    return chunk_gated_delta_rule(query, key, value, g, beta, initial_state=initial_state, output_final_state=output_final_state,
                                  use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _recurrent(query, key, value, g, beta, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
               cu_seqlens=None, **kwargs):
    if not _serves_rule(query, key, value, output_final_state, cu_seqlens):
        return NotImplemented
    return fused_recurrent_gated_delta_rule(query, key, value, g, beta=beta, initial_state=initial_state,
                                            output_final_state=output_final_state,
                                            use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _chunk_kda(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
               cu_seqlens=None, **kwargs):
    if not _serves_rule(query, key, value, output_final_state, cu_seqlens):
        return NotImplemented
    return chunk_kda(query, key, value, g, beta, initial_state=initial_state, output_final_state=output_final_state,
                     use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _recurrent_kda(query, key, value, g, beta, initial_state, output_final_state, use_qk_l2norm_in_kernel=False, cu_seqlens=None,
                   **kwargs):
    if not _serves_rule(query, key, value, output_final_state, cu_seqlens):
        return NotImplemented
    return fused_recurrent_kda(query, key, value, g, beta, initial_state=initial_state, output_final_state=output_final_state,
                               use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _conv(hidden_states, weight, bias=None, activation=None, seq_idx=None, cu_seq_lens_q=None, **kwargs):
    if not _serves_conv(hidden_states, weight, activation):
        return NotImplemented
    # The library reads a token's channels side by side. Of the models only Zamba has a channel's tokens so, and PyTorch is
    # faster then than a copy.
    if hidden_states.stride(1) != 1 and hidden_states.shape[-1] >= 128:
        return NotImplemented
    # Alone, seq_idx would separate the sequences of the convolution and not those of the rule. With a cache it does not
    # count the columns of the cache.
    if seq_idx is not None and (cu_seq_lens_q is None or seq_idx.shape[-1] != hidden_states.shape[-1]):
        return NotImplemented
    if seq_idx is None and cu_seq_lens_q is not None:
        return ssm_conv(hidden_states.transpose(1, 2), weight, bias, None, cu_seq_lens_q, activation is not None).transpose(1, 2)
    return causal_conv1d_fn(hidden_states, weight, bias, seq_idx=seq_idx, activation=activation)


def _update(hidden_states, conv_state, weight, bias=None, activation=None, **kwargs):
    if not _serves_conv(hidden_states, weight, activation) or conv_state.shape[-1] < weight.shape[-1] - 1:
        return NotImplemented
    return causal_conv1d_update(hidden_states, conv_state, weight, bias, activation)


def _dims(key_heads: int, value_heads: int, *dims: int) -> bool:
    """True if the library supports a delta rule with these heads."""
    return key_heads > 0 and value_heads % key_heads == 0 and all(16 <= dim <= 256 for dim in dims)


def _serves_rule(query, key, value, final: bool, cu_seqlens) -> bool:
    """A layer asks for the final state where it has a cache. The cache holds a state per row, not per packed sequence, and
    the convolution's input then begins with the cache's columns: most models of transformers refuse that."""
    return (cu_seqlens is None or not final) and all(x.dim() == 4 and x.numel() for x in (query, key, value)) and _dims(
        key.shape[2], value.shape[2], key.shape[3], value.shape[3])


def _serves_conv(hidden_states, weight, activation) -> bool:
    return hidden_states.dim() == 3 and hidden_states.numel() > 0 and 1 <= weight.shape[-1] <= 16 and activation in _ACTIVATIONS


class _Function(NamedTuple):
    """A function of transformers' models: its signature, and our replacement."""

    signature: str
    ours: Callable


_FUNCTIONS: Dict[str, _Function] = {
    "torch_chunk_gated_delta_rule": _Function(
        "(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, **kwargs)",
        _chunk),
    "torch_recurrent_gated_delta_rule": _Function(
        "(query, key, value, g, beta, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, **kwargs)",
        _recurrent),
    "chunk_kimi_delta_attention": _Function(
        "(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, **kwargs)",
        _chunk_kda),
    "recurrent_kimi_delta_attention": _Function(
        "(query, key, value, g, beta, initial_state, output_final_state, use_qk_l2norm_in_kernel=False, **kwargs)", _recurrent_kda),
    "causal_conv1d_fn": _Function("(hidden_states, weight, bias=None, activation=None, **kwargs)", _conv),
    "causal_conv1d_update": _Function("(hidden_states, conv_state, weight, bias=None, activation=None)", _update),
}
# Signatures of a layer's forward, each with the name of its cache parameter.
_FORWARDS = {"(self, hidden_states, cache_params=None, attention_mask=None, **kwargs)": "cache_params",
             "(self, hidden_states, cache=None, attention_mask=None, **kwargs)": "cache"}
# Digests of the forwards that _forward() computes; see _digest().
_BODIES = {"93a2334a4ef341f5": "Qwen3-Next", "e30ff59e701bd7ce": "OLMo-Hybrid",
           "d63fe4b235075b95": "Qwen3.5, Qwen3.5-MoE, Qwen4-Exp, Lara-Mini"}
_lock = threading.Lock()
_replaced: Dict[Tuple[str, str], Tuple[Any, Callable, Callable]] = {}  # by (model, name): owner, original, replacement



def _tensors(values: Iterable[Any]) -> List[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _readable(tensors: Iterable[torch.Tensor]) -> bool:
    """True if the library can read these tensors. Integer tensors are maps, which are checked at their use."""
    for x in tensors:
        if x.device.type != "cpu" or x.layout is not torch.strided or x.is_neg():
            return False
        if x.dtype not in _layer.FLOATS and (x.dtype.is_floating_point or x.dtype.is_complex):
            return False
    return True


def _in_place_of(original: Callable, of: _Function) -> Callable:
    known = _WITHOUT_MEANING | set(inspect.signature(of.ours).parameters)
    ignores_packing = "cu_seqlens" not in inspect.signature(original).parameters

    @functools.wraps(original)
    def function(*args, **kwargs):
        tensors = _tensors((*args, *kwargs.values()))
        if not _readable(tensors):
            return original(*args, **kwargs)
        strangers = set(kwargs) - known
        for name in strangers & _MEANINGS:
            raise TypeError(f"{original.__name__}: {name} is {kwargs[name]!r}; there is no argument {name!r}")
        own = not strangers and (torch.compiler.is_compiling() or not (torch.jit.is_tracing() or transformed()))
        result = of.ours(*args, **kwargs) if own else NotImplemented
        if result is not NotImplemented:
            return result
        if kwargs.get("cu_seqlens") is not None and ignores_packing:
            raise NotImplementedError(f"{original.__name__}: cu_seqlens is given; gdn takes packed sequences without a cache, forward-mode "
                                      "derivatives and torch.func, and with head dimensions from 16 to 256. Transformers would compute them as one sequence")
        return original(*args, **kwargs)

    return function


_NORM_ROWS = 1024  # rows of the norm per block, so that its passes stay in the CPU's cache


def _hooked(module) -> bool:
    """True if other code sees the calls of a module, or has replaced its forward."""
    of = torch.nn.modules.module
    return "forward" in vars(module) or any((module._forward_hooks, module._forward_pre_hooks, of._global_forward_hooks,
                                             of._global_forward_pre_hooks))


def _wants_gradients(*tensors) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _plain(layer, hidden, kwargs: Dict[str, Any], past, state) -> bool:
    """True if _forward() can run this call of a layer. Otherwise the layer's own forward calls the functions above;
    same values."""
    if type(hidden) is not torch.Tensor or hidden.dim() != 3 or not hidden.numel() or not _readable((hidden,)):
        return False
    if torch.jit.is_tracing() or torch.is_autocast_enabled("cpu") or transformed():
        return False
    if kwargs.get("cu_seq_lens_q") is not None or kwargs.get("seq_idx") is not None or set(kwargs) - _WITHOUT_MEANING:
        return False
    if not _known(layer):
        return False
    if past is None or state is None:
        return past is state
    shape = (hidden.shape[0], layer.num_v_heads, layer.head_k_dim, layer.head_v_dim)
    if state.dtype is not torch.float32 or state.shape != shape or not state.is_contiguous():
        return False
    return past.dtype is hidden.dtype and past.shape[-1] >= max(layer.conv_kernel_size - 1, 1)


def _known(layer) -> bool:
    """True if the library supports the layer, and its tensors are plain ones that need no call of their module."""
    conv = layer.conv1d
    own = [conv.weight, layer.A_log, layer.dt_bias] + ([] if conv.bias is None else [conv.bias])
    return (layer.activation in ("silu", "swish") and "_hf_hook" not in vars(conv) and 1 <= layer.conv_kernel_size <= 16 and
            _dims(layer.num_k_heads, layer.num_v_heads, layer.head_k_dim, layer.head_v_dim) and
            all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in own) and _readable(own))


def _projections(layer, hidden):
    """The projections of a layer's tokens: (q, k, v concatenated; z; b; a)."""
    if hasattr(layer, "q_proj"):  # OLMo-Hybrid
        qkv = torch.cat([projection(hidden) for projection in (layer.q_proj, layer.k_proj, layer.v_proj)], dim=-1)
        b, a = layer.b_proj(hidden), layer.a_proj(hidden)  # hooks see transformers' order
        return qkv, layer.g_proj(hidden), b, a
    if hasattr(layer, "in_proj_qkv"):
        return layer.in_proj_qkv(hidden), layer.in_proj_z(hidden), layer.in_proj_b(hidden), layer.in_proj_a(hidden)
    *parts, z, b, a = layer.fix_query_key_value_ordering(layer.in_proj_qkvz(hidden), layer.in_proj_ba(hidden))
    return torch.cat([part.flatten(2) for part in parts], dim=-1), z, b, a


def _convolved(layer, qkv, cache, past, gradients: bool):
    """Run the convolution and update the cache's conv state, [batch, channels, columns]. The first prompt stores it
    with a token's channels contiguous, as the library reads it. gdn.torch's operator has gradients, and the same bits."""
    weight, bias, at = layer.conv1d.weight.squeeze(1), layer.conv1d.bias, layer.layer_idx
    columns = None if past is None else past.transpose(1, 2)
    if gradients:
        first = None if columns is None else columns[:, columns.shape[1] - weight.shape[1] + 1:]
        out = ssm_conv(qkv, weight, bias, None if first is None else first.clone(memory_format=torch.contiguous_format), None, True)
    else:
        out = _layer.conv(qkv, weight, bias, columns if columns is None or columns.stride(-1) == 1 else columns.contiguous())
    if columns is not None and gradients:
        past.copy_(torch.cat((columns, qkv), 1)[:, qkv.shape[1]:].transpose(1, 2))
    elif columns is not None:
        _layer.push(columns, qkv)
    elif cache is not None:
        cache.update_conv_state(qkv.transpose(1, 2), at, conv_kernel_size=layer.conv_kernel_size)
        kept = cache.layers[at].conv_states
        n, channels, length = kept[0].shape  # no view: PyTorch would refuse to write one that was made under no_grad()
        kept[0] = kept[0].new_empty_strided((n, channels, length), (channels * length, 1, channels)).copy_(kept[0])
    return out


def _ruled(layer, mixed, b, a, cache, state, gradients: bool):
    """Run the delta rule on the convolution's output and update the cache's recurrent state, which without gradients the
    library writes in place."""
    factor = 2.0 if getattr(layer, "allow_neg_eigval", False) else 1.0
    heads_k, heads, dim_k, dim_v = layer.num_k_heads, layer.num_v_heads, layer.head_k_dim, layer.head_v_dim
    begins = state is None
    if gradients:
        q, k, v = mixed.split((heads_k * dim_k, heads_k * dim_k, heads * dim_v), -1)
        q, k = (x.unflatten(-1, (heads_k, dim_k)) for x in (q, k))
        out, state = gated_delta_net(q, k, v.unflatten(-1, (heads, dim_v)), a, b, state, None, layer.A_log, layer.dt_bias, qk_norm=True,
                                     beta_logit=True, beta_factor=factor)
    else:
        state = mixed.new_empty((mixed.shape[0], heads, dim_k, dim_v), dtype=torch.float32) if begins else state
        out = _layer.rule(mixed, b, a, layer.A_log, layer.dt_bias, state, begins, heads_k, factor)
    if cache is not None and (begins or gradients):
        cache.update_recurrent_state(state, layer.layer_idx)
    return out


def _forward(layer, hidden, cache, past, state):
    """A layer's forward: its own projections and norm, with the library's calls in between. Returns None, with nothing
    written, if the library cannot read the projections."""
    batch, tokens, _ = hidden.shape
    projected = _projections(layer, hidden)
    qkv, z, b, a = projected
    if any(type(x) is not torch.Tensor for x in projected) or not _readable(projected):
        return None
    if qkv.stride(-1) != 1 or qkv.dtype != (hidden if past is None else past).dtype:
        return None
    gradients = _wants_gradients(qkv, b, a, layer.conv1d.weight, layer.conv1d.bias, layer.A_log, layer.dt_bias, past, state)
    mixed = _convolved(layer, qkv, cache, past, gradients)
    out = _ruled(layer, mixed, b, a, cache, state, gradients).view(-1, layer.head_v_dim)
    z = z.reshape(-1, layer.head_v_dim)
    norm, project = (layer.o_norm, layer.o_proj) if hasattr(layer, "o_norm") else (layer.norm, layer.out_proj)
    if len(out) <= _NORM_ROWS or _hooked(norm) or _wants_gradients(out, z, *norm.parameters()):
        out = norm(out, z)
    else:
        for some, gate in zip(out.split(_NORM_ROWS), z.split(_NORM_ROWS)):
            some.copy_(norm(some, gate))
    return project(out.reshape(batch, tokens, -1))


def _layers_forward(module, original: Callable, cache_name: str) -> Callable:
    names = ("hidden_states", cache_name, "attention_mask")

    @functools.wraps(original)
    def forward(self, *args, **kwargs):
        if torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        given = dict(zip(names, args))
        others = {name: value for name, value in kwargs.items() if name not in names}
        hidden, cache, mask = (given.get(name, kwargs.get(name)) for name in names)
        if len(args) > len(names) or given.keys() & kwargs.keys() or not isinstance(hidden, torch.Tensor):
            return original(self, *args, **kwargs)
        past = state = None
        if cache is not None:
            past = cache.get_conv_state(self.layer_idx, state_idx=0)
            state = cache.get_recurrent_state(self.layer_idx, state_idx=0)
        if not (cache is not None and cache.is_recording_past(self.layer_idx)) and _plain(self, hidden, others, past, state):
            out = _forward(self, module.apply_mask_to_padding_states(hidden, mask), cache, past, state)
            if out is not None:
                return out
        return original(self, *args, **kwargs)

    return forward


def _signature(function: Callable) -> str:
    """Names, kinds and defaults of a function's parameters."""
    found = inspect.signature(function)
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _digest(function: Callable, cache_name: str) -> str:
    """Digest of a function's code, without annotations, comments, layout, and the name of its cache."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    code = re.sub(r"^( *)\(([\w, ]+)\) = ", r"\1\2 = ", "\n".join(map(ast.unparse, tree.body)), flags=re.M)  # Python before 3.11
    return hashlib.sha256(re.sub(rf"\b{cache_name}\b", "cache", code).encode()).hexdigest()[:16]


def _layer_of(module) -> Tuple[Optional[type], str, str]:
    """(class, name of its forward's cache, "") of a module's gated-delta layers; or None and why _forward() cannot
    replace it."""
    kinds = [kind for name, kind in vars(module).items() if name.endswith("GatedDeltaNet") and isinstance(kind, type)]
    if len(kinds) != 1:
        return None, "", f"it has {len(kinds)} classes of gated-delta layers" if kinds else "it has no gated-delta layers"
    found = _signature(kinds[0].forward)
    if found not in _FORWARDS:
        return None, "", f"{kinds[0].__name__}.forward has the signature {found}; known are {' and '.join(_FORWARDS)}"
    try:
        digest = _digest(kinds[0].forward, _FORWARDS[found])
    except (OSError, SyntaxError) as error:
        return None, "", f"the code of {kinds[0].__name__}.forward cannot be read: {error}"
    if digest not in _BODIES or _signature(getattr(module, "apply_mask_to_padding_states", len)) != "(hidden_states, attention_mask)":
        return None, "", f"the code of {kinds[0].__name__}.forward is not one that is known"
    return kinds[0], _FORWARDS[found], ""


def _candidates() -> Tuple[str, ...]:
    """The models of the installed transformers that define one of the functions, from their files alone."""
    folder = pathlib.Path(importlib.import_module("transformers.models").__path__[0])
    defines = re.compile(rf"^def ({'|'.join(_FUNCTIONS)})\(", re.M)
    return tuple(path.parent.name for path in sorted(folder.glob("*/modeling_*.py"))
                 if path.stem == f"modeling_{path.parent.name}" and defines.search(path.read_text(encoding="utf-8")))


def _module(name: str):
    """(the module of a model's layers, "") or (None, why its functions cannot be replaced)."""
    try:
        module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    except ImportError as error:
        return None, f"modeling_{name} cannot be imported: {error}"
    for function, known in _FUNCTIONS.items():
        found = _signature(getattr(module, function)) if hasattr(module, function) else known.signature
        if found != known.signature:
            return None, f"modeling_{name}.{function} has the signature {found}; known is {known.signature}"
    return module, ""


def supported() -> Dict[str, str]:
    """What use() replaces in each model of the installed transformers that has one of the functions. The values are
    "layers" (with functions), "functions: ..." or "not covered: ...", with the reason. A model that is not in the
    dictionary has nothing to replace. Imports the modules."""
    told = {}
    for name in _candidates():
        module, why = _module(name)
        if module is None:
            told[name] = f"not covered: {why}"
            continue
        kind, _, why = _layer_of(module)
        told[name] = "layers" if kind is not None else f"functions: {why}"
    return told


def use(models: Optional[Iterable[str]] = None, layers: bool = True) -> Tuple[str, ...]:
    """Make transformers' models use libgdn: those that supported() returns, or the named ones. Returns their names.
    Models that are already loaded use it too. Call it once. Thread-safe, except while models run.
    layers=False keeps the layers' forward and replaces only the functions that it calls, which is slower by copies of
    states, the gates and some small operations. Packed sequences, recorded pasts, autocast and torch.compile always use
    these functions. Gradients have the library's forward bits.
    Errors: ImportError: transformers is not installed, or a named model (without names: every model) has functions with
    unknown signatures; nothing is replaced then. ValueError: no such model."""
    candidates = _candidates()
    wanted = candidates if models is None else tuple(models)
    modules, reasons = {}, []
    for name in wanted:
        if name not in candidates:
            raise ValueError(f"{name!r} is not a model with these functions in this transformers; there are {', '.join(candidates)}")
        module, why = _module(name)
        if module is not None:
            modules[name] = module
        else:
            reasons.append(f"{name}: {why}")
    if reasons and (models is not None or not modules):
        raise ImportError("; ".join(reasons))
    if models is None and not modules:
        raise ImportError("this transformers has no model with these functions")
    with _lock:
        for name, module in modules.items():
            for function, known in _FUNCTIONS.items():
                if hasattr(module, function):
                    _replace(name, module, function, lambda original: _in_place_of(original, known))
            kind, cache_name, _ = _layer_of(module) if layers else (None, "", "")
            if kind is not None:
                _replace(name, kind, "forward", lambda original: _layers_forward(module, original, cache_name))
    return tuple(modules)


def _replace(model: str, where: Any, name: str, make: Callable[[Callable], Callable]) -> None:
    if (model, name) not in _replaced:
        original = getattr(where, name)
        now = make(original)
        _replaced[model, name] = where, original, now
        setattr(where, name, now)


def undo() -> None:
    """Restore what use() replaced, except where other code has replaced it since."""
    with _lock:
        for (_, function), (module, original, now) in _replaced.items():
            if getattr(module, function) is now:
                setattr(module, function, original)
        _replaced.clear()


__all__ = ["supported", "undo", "use"]
