"""Arrays to ggml's element types and back. gguf-py encodes F16, BF16, Q4_0 and Q8_0, and decodes everything. The
encoders of Q4_K, Q5_K and Q6_K are here. They take scales from the smallest and largest element, without a search."""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

BLOCK = 256  # of the K types


def k_scales(x, steps):
    """x: [n, 8, 32]. (d, dmin, sc, m, q) with x about d*sc*q - dmin*m, 0 <= sc, m <= 63, 0 <= q <= steps."""
    low = np.minimum(x.min(-1), 0)
    width = (x.max(-1) - low) / steps
    d = (width.max(-1, keepdims=True) / 63).astype(np.float16)
    dmin = ((-low).max(-1, keepdims=True) / 63).astype(np.float16)
    ratio = lambda a, b: np.divide(a, b, out=np.zeros_like(a), where=b != 0)
    sc = np.clip(np.rint(ratio(width, d.astype(np.float32) + np.zeros_like(width))), 0, 63)
    m = np.clip(np.rint(ratio(-low, dmin.astype(np.float32) + np.zeros_like(low))), 0, 63)
    step = (d.astype(np.float32) * sc)[..., None]
    q = np.clip(np.rint(ratio(x + (dmin.astype(np.float32) * m)[..., None], step + np.zeros_like(x))), 0, steps)
    return d, dmin, sc.astype(np.uint8), m.astype(np.uint8), q.astype(np.uint8)


def pack_scales(sc, m):
    """Eight 6-bit scales and eight 6-bit minima in 12 bytes."""
    return np.concatenate([sc[:, :4] & 63 | (sc[:, 4:] >> 4) << 6, m[:, :4] & 63 | (m[:, 4:] >> 4) << 6,
                           sc[:, 4:] & 15 | (m[:, 4:] & 15) << 4], -1)


def nibbles(q):
    """[n, 8, 32] to 128 bytes: the low halves hold sub-block 2i, the high ones 2i + 1."""
    return (q[:, 0::2] & 15 | (q[:, 1::2] & 15) << 4).reshape(len(q), 128)


def raw(x):
    return x.view(np.uint8).reshape(len(x), -1)


def q4_k(x):
    d, dmin, sc, m, q = k_scales(x.reshape(-1, 8, 32), 15)
    return np.concatenate([raw(d), raw(dmin), pack_scales(sc, m), nibbles(q)], -1)


def q5_k(x):
    d, dmin, sc, m, q = k_scales(x.reshape(-1, 8, 32), 31)
    fifth = ((q >> 4) << np.arange(8, dtype=np.uint8)[:, None]).sum(1).astype(np.uint8)
    return np.concatenate([raw(d), raw(dmin), pack_scales(sc, m), fifth, nibbles(q)], -1)


def q6_k(x):
    x = x.reshape(-1, 16, 16)
    peak = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0]  # keeps its sign: -32 is a value, 32 none
    width = peak / -32
    d = (np.abs(width).max(-1, keepdims=True) / 127).astype(np.float16)
    sc = np.clip(np.rint(np.divide(width, d, out=np.zeros_like(width), where=d != 0)), -128, 127)
    step = (d.astype(np.float32) * sc)[..., None] + np.zeros_like(x)
    q = np.clip(np.rint(np.divide(x, step, out=np.zeros_like(x), where=step != 0)), -32, 31)
    q = (q + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # half, quarter of the half, element
    low = np.stack([q[:, :, 0] & 15 | (q[:, :, 2] & 15) << 4, q[:, :, 1] & 15 | (q[:, :, 3] & 15) << 4], 2)
    high = ((q >> 4) << (2 * np.arange(4, dtype=np.uint8))[:, None]).sum(2).astype(np.uint8)
    n = len(q)
    return np.concatenate([low.reshape(n, 128), high.reshape(n, 64), raw(sc.astype(np.int8)), raw(d)], -1)


def encode(x, kind):
    """float32 array to the bytes of a type name: an array of uint8 whose last axis is a row's bytes."""
    x = np.ascontiguousarray(x, np.float32)
    own = {"Q4_K": q4_k, "Q5_K": q5_k, "Q6_K": q6_k}.get(kind)
    if own is None:
        return quants.quantize(x, Type[kind]) if kind not in ("F32", "F16") else x.astype(kind.replace("F", "float"))
    if x.shape[-1] % BLOCK:
        raise ValueError(f"rows of {x.shape[-1]} elements cannot be {kind}")
    return own(x).reshape(*x.shape[:-1], -1)


def decode(data, kind):
    return quants.dequantize(data, Type[kind]).astype(np.float32)
