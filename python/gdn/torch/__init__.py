"""libgdn's kernels for PyTorch, on the CPU and on CUDA devices: operators of torch.library, for torch.compile, and
functions with the signatures of flash-linear-attention and causal_conv1d. On CUDA they run on PyTorch's current stream.

    from gdn.torch import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule, chunk_kda, fused_recurrent_kda
    from gdn.torch import causal_conv1d_fn, causal_conv1d_update

The bits are the same for prefill and decoding, for batches and single sequences, for any number of threads, and with and
without gradients. Backward passes are PyTorch's operations, in float32; there are no second derivatives and none in forward
mode. Functions that write states in place are forward only. float32, float16 and bfloat16; states are float32.
"""
from ._conv import causal_conv1d_fn, causal_conv1d_update
from ._fla import chunk_gated_delta_rule, chunk_gdn, chunk_kda, fused_recurrent_gated_delta_rule, fused_recurrent_gdn, fused_recurrent_kda
from ._operators import gated_delta_net, ssm_conv
from . import _gradients  # noqa: F401  connects the operators' backward passes

__all__ = ["causal_conv1d_fn", "causal_conv1d_update", "chunk_gated_delta_rule", "chunk_gdn", "chunk_kda",
           "fused_recurrent_gated_delta_rule", "fused_recurrent_gdn", "fused_recurrent_kda", "gated_delta_net", "ssm_conv"]
