/* Grids of the IQ types of GGUF. An entry holds the values of 8 elements, or 4, one per byte, the first in the lowest
 * byte. */
#ifndef GDN_RUNTIME_QUANT_GRIDS_H
#define GDN_RUNTIME_QUANT_GRIDS_H

#include <stdint.h>

extern const uint64_t rt_grid_iq1[2048];    /* IQ1_S, IQ1_M: 0, 8, 16 for -1, 0, 1           */
extern const uint64_t rt_grid_iq2_xxs[256]; /* 8, 25, 43; also in the next two               */
extern const uint64_t rt_grid_iq2_xs[512];
extern const uint64_t rt_grid_iq2_s[1024];
extern const uint32_t rt_grid_iq3_xxs[256]; /* 4, 12, 20, 28, 36, 44, 52, 62                 */
extern const uint32_t rt_grid_iq3_s[512];   /* 1, 3, 5, .. 15                                */

#endif
