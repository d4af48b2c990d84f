#!/usr/bin/env python3
"""Write tests/runtime/fixtures/weights.bin: quantised rows and what PyPI's gguf makes of them.

    make_weight_fixtures.py OUT      needs numpy and gguf

Per type, little endian: int32 type, int32 elements, the row's bytes, its elements as F32. Half of the bytes are random
with scales of ordinary size, half come from quantising random numbers, where gguf can.
"""
import struct
import sys

import numpy
from gguf import GGMLQuantizationType as Type
from gguf import quants

# type, elements and bytes of a block, offsets of its F16 scales
TYPES = [(Type.F16, 1, 2, []), (Type.BF16, 1, 2, []), (Type.Q4_0, 32, 18, [0]), (Type.Q8_0, 32, 34, [0]), (Type.Q4_K, 256, 144, [0, 2]),
         (Type.Q5_K, 256, 176, [0, 2]), (Type.Q6_K, 256, 210, [208])]


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


main()
