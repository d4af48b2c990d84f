"""Golden files: named arrays, little endian, read by the C tests in one pass.

  8 bytes  "GDNGOLD1"
  i32      number of arrays
  per array:
    32 bytes  name, padded with zeros
    i32       element type: 0 float32, 1 int32
    i32       number of dimensions, 1 to 4
    4 x i32   dimensions, outermost first; 1 beyond the number of dimensions
    data      the elements, 4 bytes each, the last dimension contiguous; the next array follows at once
"""
import struct

import numpy as np

MAGIC = b"GDNGOLD1"
KINDS = {0: "<f4", 1: "<i4"}


def write(path, arrays):
    with open(path, "wb") as f:
        f.write(MAGIC + struct.pack("<i", len(arrays)))
        for name, x in arrays.items():
            x = np.asarray(x)
            kind = 1 if x.dtype.kind == "i" else 0
            dims = [*x.shape, 1, 1, 1, 1][:4]
            f.write(struct.pack("<32sii4i", name.encode(), kind, x.ndim, *dims))
            f.write(np.ascontiguousarray(x, KINDS[kind]).tobytes())


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != MAGIC:
        raise ValueError(f"{path} is no golden file")
    at, out = 12, {}
    for _ in range(struct.unpack_from("<i", data, 8)[0]):
        name, kind, n_dims, *dims = struct.unpack_from("<32sii4i", data, at)
        at += struct.calcsize("<32sii4i")
        n = int(np.prod(dims))
        out[name.rstrip(b"\0").decode()] = np.frombuffer(data, KINDS[kind], n, at).reshape(dims[:n_dims])
        at += 4 * n
    if at != len(data):
        raise ValueError(f"{path} has {len(data) - at} bytes too many")
    return out
