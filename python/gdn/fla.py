"""flash-linear-attention's modules on CPU tensors: register() adds libgdn to fla's backends (fla 0.6). Without it fla needs a
GPU and Triton.

    import fla.layers, gdn.fla
    gdn.fla.register()
    layer = fla.layers.GatedDeltaNet(hidden_size=1024)
    layer(torch.randn(1, 100, 1024))[0].sum().backward()

It takes calls on CPU tensors; all others stay fla's. The rule and the convolution are libgdn's, the gated norm and backward
passes PyTorch's. Gradients do not change the forward pass's bits. Layers that call anything else of fla need a GPU: GatedDeltaNet(use_gate=False), Comba, DeltaNet, MesaNet,
GatedDeltaNet2, and fla's whole models. unregister() restores fla."""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .torch import chunk_gated_delta_rule, chunk_kda, fused_recurrent_gated_delta_rule, fused_recurrent_kda, ssm_conv

_REPLACED = {"fused_recurrent_gated_delta_rule": fused_recurrent_gated_delta_rule, "fused_recurrent_kda": fused_recurrent_kda}
_replaced: List[Tuple[Any, str, Any, Any]] = []  # owner, name, original, replacement; with any, fla's backends are libgdn's
_NEEDS_TRITON = ("this call of fla needs Triton and a GPU. On CPU tensors gdn.fla computes the rule, the short convolution and the gated norm of "
                 "GatedDeltaNet and KimiDeltaAttention. It has nothing for GatedDeltaNet(use_gate=False), Comba, DeltaNet, "
                 "MesaNet, GatedDeltaNet2 and fla's whole models")


def _serves(*args: Any, **kwargs: Any) -> Tuple[bool, Optional[str]]:
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    if any(x.device.type != "cpu" for x in tensors):
        return False, "a tensor is not on the CPU"
    return True, None


def _causal_conv1d_fwd(x: Tensor, weight: Tensor, bias: Optional[Tensor], residual: Optional[Tensor], initial_state: Optional[Tensor] = None,
                       output_final_state: bool = False, activation: Optional[str] = None, cu_seqlens: Optional[Tensor] = None,
                       **others: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """x [B, T, D] or [B, T, H, D / H], weight [D, W]; initial_state [N, D, W]: the last W inputs, oldest first."""
    shape, width = x.shape, weight.shape[1]
    x = x.flatten(2)
    past = None if initial_state is None else initial_state[..., 1:].transpose(1, 2).to(x.dtype).contiguous()
    out = ssm_conv(x, weight, bias, past, cu_seqlens, activation is not None)
    if residual is not None:
        out = out + residual.reshape(out.shape)
    final = _causal_conv1d_update_states(x, width, initial_state, cu_seqlens) if output_final_state else None
    return out.reshape(shape), final


def _causal_conv1d_update_states(x: Tensor, state_len: int, initial_state: Optional[Tensor] = None,
                                 cu_seqlens: Optional[Tensor] = None) -> Tensor:
    """The last `state_len` inputs of each sequence, [N, D, state_len]; zeros before the first."""
    parts = list(x) if cu_seqlens is None else x.flatten(0, 1).split(cu_seqlens.diff().tolist())
    past = [x.new_zeros(x.shape[-1], state_len)] * len(parts) if initial_state is None else list(initial_state.to(x.dtype))
    return torch.stack([torch.cat((old, new.T), 1)[:, -state_len:] for old, new in zip(past, parts)])


def _causal_conv1d_update(x: Tensor, cache: Tensor, residual: Optional[Tensor] = None, weight: Optional[Tensor] = None,
                          bias: Optional[Tensor] = None, activation: Optional[str] = None) -> Tuple[Tensor, Tensor]:
    """One token of each sequence: x [N, D], [1, N, D] or [N, 1, D]; cache [N, D, W] is moved on."""
    token = x.reshape(cache.shape[0], 1, -1)
    past = cache[..., 1:].transpose(1, 2).to(x.dtype).contiguous()
    out = ssm_conv(token, weight, bias, past, None, activation is not None)
    cache.copy_(torch.cat((cache[..., 1:], token.transpose(1, 2).to(cache.dtype)), -1))
    if residual is not None:
        out = out + residual.reshape(out.shape)
    return out.reshape(x.shape), cache


def _layer_norm_gated_fwd(x: Tensor, g: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], activation: str = "swish", eps: float = 1e-5,
                          residual: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                          residual_dtype: Optional[torch.dtype] = None, is_rms_norm: bool = False) -> Tuple[Tensor, Optional[Tensor], Tensor, Tensor]:
    y = x.float() if residual is None else x.float() + residual.float()
    kept = x if residual is None and residual_dtype in (None, x.dtype) else y.to(residual_dtype or (x if residual is None else residual).dtype)
    mean = None if is_rms_norm else y.mean(-1)
    y = y if mean is None else y - mean.unsqueeze(-1)
    rstd = torch.rsqrt(y.square().mean(-1) + eps)
    y = y * rstd.unsqueeze(-1)
    y = y if weight is None else y * weight.float()
    y = y if bias is None else y + bias.float()
    gate = torch.sigmoid(g.float())
    return (y * (gate if activation == "sigmoid" else gate * g.float())).to(out_dtype or x.dtype), mean, rstd, kept


def _gradients(function: Callable[..., Tuple[Optional[Tensor], ...]], inputs: Sequence[Optional[Tensor]],
               gradients: Sequence[Optional[Tensor]]) -> List[Optional[Tensor]]:
    """The gradients of a function's inputs from those of its results, by computing it again. None for those that are not given."""
    with torch.enable_grad():
        given = [None if x is None else x.detach().requires_grad_() for x in inputs]
        pairs = [(y, d) for y, d in zip(function(*given), gradients) if y is not None and d is not None]
    found = iter(torch.autograd.grad([y for y, _ in pairs], [x for x in given if x is not None], [d for _, d in pairs],
                                     allow_unused=True))
    return [None if x is None else next(found) for x in given]


def _causal_conv1d_bwd(x: Tensor, dy: Tensor, dht: Optional[Tensor], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
                       residual: Optional[Tensor] = None, initial_state: Optional[Tensor] = None, activation: Optional[str] = None,
                       cu_seqlens: Optional[Tensor] = None, **others: Any) -> List[Optional[Tensor]]:
    """Gradients of x, weight, bias, residual and initial_state."""
    return _gradients(lambda *given: _causal_conv1d_fwd(*given, dht is not None, activation, cu_seqlens),
                      (x, weight, bias, residual, initial_state), (dy, dht))


def _layer_norm_gated_bwd(dy: Tensor, x: Tensor, g: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], activation: str = "swish",
                          eps: float = 1e-5, mean: Optional[Tensor] = None, rstd: Optional[Tensor] = None, dresidual: Optional[Tensor] = None,
                          has_residual: bool = False, is_rms_norm: bool = False, x_dtype: Optional[torch.dtype] = None,
                          recompute_output: bool = False) -> Tuple[Optional[Tensor], ...]:
    """Gradients of x, g, weight, bias and the residual, which x contains; and the output again, if requested."""
    def norm(*given: Any) -> Tuple[Optional[Tensor], ...]:
        return _layer_norm_gated_fwd(*given, activation, eps, out_dtype=dy.dtype, is_rms_norm=is_rms_norm)[:1]

    dx, dg, dw, db = _gradients(norm, (x, g, weight, bias), (dy,))
    dx = dx if dresidual is None else dx + dresidual
    found = (dx.to(x_dtype or x.dtype), dg, dw, db, dx if has_residual else None)
    return (*found, norm(x, g, weight, bias)[0]) if recompute_output else found


def register() -> None:
    """Add libgdn to fla's backends. Again after more of fla's modules are imported. ImportError: there is no fla 0.6 or one
    with other functions."""
    import fla
    from fla.backends import BaseBackend
    from fla.backends import register as into
    from fla.modules.causal_conv1d import ops
    from fla.modules.norm import fused_norm_gate
    from fla.ops.kda import chunk_kda as theirs

    if not fla.__version__.startswith("0.6."):
        raise ImportError(f"gdn.fla knows fla 0.6, and this is {fla.__version__}")

    class Backend(BaseBackend):
        backend_type = "gdn"
        priority = 0

        @classmethod
        def is_available(cls) -> bool:
            return bool(_replaced)

        def verify(self, function_name: str, *args: Any, **kwargs: Any) -> Tuple[bool, Optional[str]]:
            return _serves(*args, **kwargs)

    class Rule(Backend):
        chunk_gated_delta_rule = staticmethod(chunk_gated_delta_rule)

    into("gated_delta_rule")(Rule)
    for function, ours in ((theirs, chunk_kda), (ops.causal_conv1d_fwd, _causal_conv1d_fwd), (ops.causal_conv1d_bwd, _causal_conv1d_bwd),
                           (ops.causal_conv1d_update, _causal_conv1d_update), (ops.causal_conv1d_update_states, _causal_conv1d_update_states),
                           (fused_norm_gate.layer_norm_gated_fwd, _layer_norm_gated_fwd),
                           (fused_norm_gate.layer_norm_gated_bwd, _layer_norm_gated_bwd)):
        into(function, backend=Backend)(ours)
    triton = sys.modules.get("triton.runtime.driver")
    _replace(triton, "_create_driver", _explained)
    # fla does not dispatch these; modules have imported them by name.
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "fla"]:
        for name, ours in _REPLACED.items():
            _replace(module, name, lambda original: _in_place_of(original, ours))


def unregister() -> None:
    """Restore what register() replaced, except where other code has replaced it since. fla's backends leave libgdn out."""
    for owner, name, original, now in _replaced:
        if getattr(owner, name) is now:
            setattr(owner, name, original)
    _replaced.clear()


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = vars(owner).get(name) if owner is not None else None
    if callable(original) and not any(original is now for _, _, _, now in _replaced):
        _replaced.append((owner, name, original, make(original)))
        setattr(owner, name, _replaced[-1][3])


def _in_place_of(original: Any, ours: Any) -> Any:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return (ours if _serves(*args, **kwargs)[0] else original)(*args, **kwargs)

    return function


def _explained(create: Any) -> Any:
    """Triton's search for a GPU, with an error that says what is missing."""
    @functools.wraps(create)
    def function() -> Any:
        try:
            return create()
        except RuntimeError as error:
            raise NotImplementedError(_NEEDS_TRITON) from error

    return function


__all__ = ["register", "unregister"]
