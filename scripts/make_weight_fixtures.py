#!/usr/bin/env python3
"""Write tests/runtime/fixtures/weights.bin: quantised rows and what PyPI's gguf makes of them.

    make_weight_fixtures.py OUT      needs numpy and gguf

Rows, little endian: int32 type, int32 elements, the row's bytes, its elements as F32. First a row of each of TYPES: half of its
bytes are random with scales of ordinary size, half come from quantising random numbers, where gguf can. Then of all quantised types
rows of random bytes, with ordinary scales and with those of EXTREME. Made with gguf 0.19.0.
"""
import struct
import sys

import numpy
from gguf import GGMLQuantizationType as Type
from gguf import quants

# type, elements and bytes of a block, offsets of its F16 scales
TYPES = [(Type.F16, 1, 2, []), (Type.BF16, 1, 2, []), (Type.Q4_0, 32, 18, [0]), (Type.Q8_0, 32, 34, [0]), (Type.Q4_K, 256, 144, [0, 2]),
         (Type.Q5_K, 256, 176, [0, 2]), (Type.Q6_K, 256, 210, [208])]

# of the types that came later; MXFP4's scale is a byte, IQ1_M's is in the high nibbles of four numbers of 16 bits
MORE = [(Type.Q4_1, 32, 20, [0, 2]), (Type.Q5_0, 32, 22, [0]), (Type.Q5_1, 32, 24, [0, 2]), (Type.Q2_K, 256, 84, [80, 82]),
        (Type.Q3_K, 256, 110, [108]), (Type.IQ1_S, 256, 50, [0]), (Type.IQ1_M, 256, 56, []), (Type.IQ2_XXS, 256, 66, [0]),
        (Type.IQ2_XS, 256, 74, [0]), (Type.IQ2_S, 256, 82, [0]), (Type.IQ3_XXS, 256, 98, [0]), (Type.IQ3_S, 256, 110, [0]),
        (Type.IQ4_NL, 32, 18, [0]), (Type.IQ4_XS, 256, 136, [0]), (Type.MXFP4, 32, 17, [])]
# of scales: the smallest, subnormal, the largest, zeros, infinities, NaN
EXTREME = [0x0001, 0x83ff, 0x7bff, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x0000]


def set_scale(block, kind, at, bits, n):
    """One block's scale; n counts the scales that were set, so that minima have other extremes than d."""
    if kind == Type.MXFP4:
        block[0] = (0, 1, 2, 254, 255, 128, 127, 64)[n % 8] if bits is not None else 120 + n % 8
        return
    bits = int(numpy.float16(0.01 * (n % 7 - 3)).view(numpy.uint16)) if bits is None else bits
    if kind == Type.IQ1_M:
        for i in range(4):
            block[49 + 2 * i] = block[49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
    else:
        block[at:at + 2] = bits & 255, bits >> 8


def random_rows(out):
    rng = numpy.random.default_rng(20261122)
    for extreme in (False, True):
        for kind, block, size, scales in [known for known in TYPES if known[1] > 1] + MORE:
            blocks = 8 if block == 32 else 4 if extreme else 2
            data = rng.integers(0, 256, (blocks, size), dtype=numpy.uint8)
            for b in range(blocks):
                for i, at in enumerate(scales or [0]):
                    n = b * (8 // blocks) + 3 * i
                    set_scale(data[b], kind, at, EXTREME[n % 8] if extreme else None, n)
            with numpy.errstate(all="ignore"):
                values = quants.dequantize(data.reshape(-1), kind)
            assert values.dtype == numpy.float32 and values.size == blocks * block
            out.write(struct.pack("<ii", int(kind), values.size) + data.tobytes() + values.astype("<f4").tobytes())


def main():
    rng = numpy.random.default_rng(20240229)
    with open(sys.argv[1], "wb") as out:
        for kind, block, size, scales in TYPES:
            blocks = 768 // block
            data = rng.integers(0, 256, (blocks, size), dtype=numpy.uint8)
            for at in scales:
                data[:, at:at + 2] = rng.normal(0, 0.05, blocks).astype(numpy.float16).view(numpy.uint8).reshape(blocks, 2)
            if block < 256:
                half = rng.normal(0, 1, 384).astype(numpy.float32)
                data[:blocks // 2] = quants.quantize(half, kind).view(numpy.uint8).reshape(blocks // 2, size)
            if block == 1:  # ordinary numbers only: NaN have no one value
                data = quants.quantize(rng.normal(0, 1, 768).astype(numpy.float32), kind).view(numpy.uint8).reshape(768, 2)
            values = quants.dequantize(data.reshape(-1) if block > 1 else data.reshape(-1).view(numpy.float16 if kind == Type.F16 else numpy.uint8), kind)
            assert values.dtype == numpy.float32 and values.size == 768
            out.write(struct.pack("<ii", int(kind), 768) + data.tobytes() + values.astype("<f4").tobytes())
        random_rows(out)


main()
