"""Golden files: named arrays in the container that tests/golden/README.md describes."""
import struct

import numpy as np

DTYPES = {0: np.dtype("<f4"), 1: np.dtype("<f8"), 2: np.dtype("<i4"), 3: np.dtype("u1")}
TENSOR_HEADER = struct.Struct("<32s2I4QQ")


def pack(tensors):
    """The bytes of a file; integers of 64 bits are stored as int32."""
    codes = {dtype: code for code, dtype in DTYPES.items()}
    parts = [struct.pack("<4s3I", b"GDNG", 1, len(tensors), 0)]
    for name, array in tensors.items():
        array = array.astype(np.int32) if array.dtype == np.int64 else array
        data = np.ascontiguousarray(array).tobytes()
        dims = array.shape + (1,) * (4 - array.ndim)
        parts += [TENSOR_HEADER.pack(name.encode(), codes[array.dtype], array.ndim, *dims, len(data)), data,
                  bytes(-len(data) % 8)]
    return b"".join(parts)


def unpack(blob):
    magic, version, count, _ = struct.unpack_from("<4s3I", blob)
    if (magic, version) != (b"GDNG", 1):
        raise ValueError("not a GDNG file of version 1")
    tensors, at = {}, 16
    for _ in range(count):
        name, code, ndim, *dims, size = TENSOR_HEADER.unpack_from(blob, at)
        at += TENSOR_HEADER.size
        tensors[name.rstrip(b"\0").decode()] = np.frombuffer(blob[at:at + size], DTYPES[code]).reshape(dims[:ndim])
        at += (size + 7) // 8 * 8
    return tensors
