#!/usr/bin/env python3
"""Write runtime/files/quant_grids.txt: the grids of GGUF's IQ types, from the constants of PyPI's gguf.

    make_quant_grids.py OUT      needs numpy and gguf; made with gguf 0.19.0

That grids are in order is checked here, so that a set is enough; and that signs come with even parity, so that there is no
table of them.
"""
import sys

import numpy
from gguf import quants

HEAD = """# The grids of the IQ types of GGUF, for runtime/tables.cmake. Written by scripts/make_quant_grids.py; not edited by hand.
#
# They are data of the file format. Their source is ggml, as gguf-py has them:
#     Copyright (c) 2023 Georgi Gerganov, MIT License: the terms of LICENSE hold for these tables with that line.
#
# A grid is a set of entries of 8 elements of 3 values (IQ1, IQ2), or of 4 elements of 8 values (IQ3). The number of an
# entry has the places of its elements' values as digits, to the base 3 or 8, the first element the lowest.
"""
COLUMNS = 119


def entries(kind):
    """The numbers of a grid, one per entry."""
    kind.init_grid()
    places = [list(kind.grid_map).index(value) for value in kind.grid.reshape(-1).tolist()]
    base = len(kind.grid_map)
    rows = numpy.array(places).reshape(kind.grid_shape)
    return [sum(int(place) * base**i for i, place in enumerate(row)) for row in rows]


def main():
    assert all(sign == i | bin(i).count("1") % 2 << 7 for i, sign in enumerate(quants.IQ2_XXS.ksigns))
    grids = [("GRID_IQ1", quants.IQ1_S, (-1, 0, 1)), ("GRID_IQ2_XXS", quants.IQ2_XXS, (8, 25, 43)),
             ("GRID_IQ2_XS", quants.IQ2_XS, (8, 25, 43)), ("GRID_IQ2_S", quants.IQ2_S, (8, 25, 43)),
             ("GRID_IQ3_XXS", quants.IQ3_XXS, (4, 12, 20, 28, 36, 44, 52, 62)),
             ("GRID_IQ3_S", quants.IQ3_S, (1, 3, 5, 7, 9, 11, 13, 15))]
    out = [HEAD]
    for name, source, values in grids:
        assert tuple(source.grid_map) == values, name
        numbers = entries(source)
        assert numbers == sorted(set(numbers)), name
        digits = [0] * (numbers[-1] // 4 + 1)
        for number in numbers:
            digits[number // 4] |= 1 << number % 4
        text = "".join(f"{digit:x}" for digit in digits)
        out += [name + " set\n"] + [text[i:i + COLUMNS] + "\n" for i in range(0, len(text), COLUMNS)]
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("".join(out))


main()
