#!/usr/bin/env python3
"""Write runtime/files/quant_grids.c: the grids of GGUF's IQ types, from the constants of PyPI's gguf.

    make_quant_grids.py OUT      needs numpy and gguf; made with gguf 0.19.0

An entry of a grid is 8 elements (IQ1, IQ2) or 4 (IQ3), each one of 3 or 8 values; the number written is the elements' places in
that list, 2 or 4 bits each, the first lowest. That signs come with even parity is checked here, so that there is no table of them.
"""
import sys

import numpy
from gguf import quants

HEAD = """/* The grids of the IQ types: see quant_grids.h. Written by scripts/make_quant_grids.py; not edited by hand.
 *
 * They are data of the file format. Their source is ggml, as gguf-py has them:
 *     Copyright (c) 2023 Georgi Gerganov, MIT License: the terms of LICENSE hold for these tables with that line. */
#include "runtime/files/quant_grids.h"

/* Bytes of an entry, from the places of its values. */
#define OF3(v, i, a, b, c) ((uint64_t)(((v) >> 2 * (i)&3) == 0 ? (a) : ((v) >> 2 * (i)&3) == 1 ? (b) : (c)) << 8 * (i))
#define ALL8(v, a, b, c)                                                                                               \\
    (OF3(v, 0, a, b, c) | OF3(v, 1, a, b, c) | OF3(v, 2, a, b, c) | OF3(v, 3, a, b, c) | OF3(v, 4, a, b, c) |          \\
     OF3(v, 5, a, b, c) | OF3(v, 6, a, b, c) | OF3(v, 7, a, b, c))
#define A(v) ALL8(v, 0, 8, 16)
#define B(v) ALL8(v, 8, 25, 43)
/* 4, 12, .. 52 and 62; and 1, 3, .. 15 */
#define OF8(v, i)  ((uint32_t)((v) >> 4 * (i)&7) << 8 * (i))
#define PLACES(v)  (OF8(v, 0) | OF8(v, 1) | OF8(v, 2) | OF8(v, 3))
#define LAST(v, i) (((v) >> 4 * (i)&7) == 7 ? 2u << 8 * (i) : 0u)
#define C(v)       (PLACES(v) * 8 + 0x04040404u + LAST(v, 0) + LAST(v, 1) + LAST(v, 2) + LAST(v, 3))
#define D(v)       (PLACES(v) * 2 + 0x01010101u)
"""


def entries(kind):
    """The numbers of a grid, one per entry."""
    kind.init_grid()
    places = [list(kind.grid_map).index(value) for value in kind.grid.reshape(-1).tolist()]
    elements = kind.grid_shape[1]
    bits = 16 // elements
    rows = numpy.array(places).reshape(kind.grid_shape)
    return [sum(int(place) << bits * i for i, place in enumerate(row)) for row in rows]


def main():
    assert all(sign == i | bin(i).count("1") % 2 << 7 for i, sign in enumerate(quants.IQ2_XXS.ksigns))
    grids = [("uint64_t", "rt_grid_iq1", "A", quants.IQ1_S, (-1, 0, 1)), ("uint64_t", "rt_grid_iq2_xxs", "B", quants.IQ2_XXS, (8, 25, 43)),
             ("uint64_t", "rt_grid_iq2_xs", "B", quants.IQ2_XS, (8, 25, 43)), ("uint64_t", "rt_grid_iq2_s", "B", quants.IQ2_S, (8, 25, 43)),
             ("uint32_t", "rt_grid_iq3_xxs", "C", quants.IQ3_XXS, (4, 12, 20, 28, 36, 44, 52, 62)),
             ("uint32_t", "rt_grid_iq3_s", "D", quants.IQ3_S, (1, 3, 5, 7, 9, 11, 13, 15))]
    out = [HEAD]
    for kind, name, macro, source, values in grids:
        assert tuple(source.grid_map) == values, name
        numbers = entries(source)
        out.append(f"\nconst {kind} {name}[{len(numbers)}] = {{\n")
        words = [f"{macro}(0x{number:04x})," for number in numbers]
        per_line = 116 // (len(words[0]) + 1)
        out += ["    " + " ".join(words[i:i + per_line]) + "\n" for i in range(0, len(words), per_line)]
        out.append("};\n")
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("".join(out))


main()
