/* The grids of the IQ types: see quant_grids.h. quant_grids.txt has the numbers of their entries, in order. */
#include "runtime/files/quant_grids.h"

#include "quant_grids.inc.h" /* runtime/tables.cmake makes it of quant_grids.txt */

/* Bytes of an entry, from the places of its values: 8 elements of the values a, b, c. */
#define OF3(v, power, i, a, b, c)                                                                                      \
    ((uint64_t)((v) / (power) % 3 == 0 ? (a) : (v) / (power) % 3 == 1 ? (b) : (c)) << 8 * (i))
#define ALL8(v, a, b, c)                                                                                               \
    (OF3(v, 1, 0, a, b, c) | OF3(v, 3, 1, a, b, c) | OF3(v, 9, 2, a, b, c) | OF3(v, 27, 3, a, b, c) |                  \
     OF3(v, 81, 4, a, b, c) | OF3(v, 243, 5, a, b, c) | OF3(v, 729, 6, a, b, c) | OF3(v, 2187, 7, a, b, c))
#define IQ1(v) ALL8(v, 0, 8, 16),
#define IQ2(v) ALL8(v, 8, 25, 43),
/* 4 elements: 4, 12, .. 52 and 62; and 1, 3, .. 15 */
#define OF8(v, i)  ((uint32_t)((v) >> 3 * (i)&7) << 8 * (i))
#define PLACES(v)  (OF8(v, 0) | OF8(v, 1) | OF8(v, 2) | OF8(v, 3))
#define LAST(v, i) (((v) >> 3 * (i)&7) == 7 ? 2u << 8 * (i) : 0u)
#define IQ3_XXS(v) (PLACES(v) * 8 + 0x04040404u + LAST(v, 0) + LAST(v, 1) + LAST(v, 2) + LAST(v, 3)),
#define IQ3_S(v)   (PLACES(v) * 2 + 0x01010101u),

const uint64_t rt_grid_iq1[2048] = { GRID_IQ1(IQ1) };
const uint64_t rt_grid_iq2_xxs[256] = { GRID_IQ2_XXS(IQ2) };
const uint64_t rt_grid_iq2_xs[512] = { GRID_IQ2_XS(IQ2) };
const uint64_t rt_grid_iq2_s[1024] = { GRID_IQ2_S(IQ2) };
const uint32_t rt_grid_iq3_xxs[256] = { GRID_IQ3_XXS(IQ3_XXS) };
const uint32_t rt_grid_iq3_s[512] = { GRID_IQ3_S(IQ3_S) };
