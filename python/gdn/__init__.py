"""libgdn: the kernels that hybrid (recurrent + attention) language models need, on NumPy arrays, with the same bits everywhere.

    import gdn, numpy as np
    state = np.zeros((n_seqs, n_heads_v, dim, dim), np.float32)
    out = gdn.gated_delta_net(q, k, v, g, beta, state)     # q, k [n_seqs, T, n_heads_k, dim], v [n_seqs, T, n_heads_v, dim]

gated_delta_net, ssm_conv and set_rows read arrays without copying them: strided views; float32, float16, bfloat16. They
update states in place. gdn.torch has operators for PyTorch; gdn.transformers makes HF transformers use them. See
docs/guide/python.md of libgdn.
"""
from ._contexts import Backend, Capability, Context, Device, DeviceArray, Implementation, backends, default_context
from ._kernels import NONE, SKIP, capability, gated_delta_net, set_rows, ssm_conv
from ._library import (BadMap, DeviceLost, Error, Internal, InvalidArgument, NotFound, OutOfMemory, Timeout, Unavailable,
                       Unsupported, version)

__version__ = version()
__all__ = ["Backend", "BadMap", "Capability", "Context", "Device", "DeviceArray", "DeviceLost", "Error", "Implementation",
           "Internal", "InvalidArgument", "NONE", "NotFound", "OutOfMemory", "SKIP", "Timeout", "Unavailable", "Unsupported",
           "backends", "capability", "default_context", "gated_delta_net", "set_rows", "ssm_conv", "version"]
