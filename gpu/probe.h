/* The probe of a device's arithmetic: operands on which rounding twice, flushing subnormals or another function shows,
 * and a comparison with the contract's own results. Each GPU backend runs them through its compiler and its device,
 * when one is opened; what comes out decides whether an implementation is exact. */
#ifndef GDN_GPU_PROBE_H
#define GDN_GPU_PROBE_H

#include <stdint.h>

#include "gdn/gdn.h"
#include "gpu/params.h"

enum {
    GDN_PROBE_OPERANDS = 8192,
    GDN_PROBE_IN_BYTES = GDN_PROBE_OPERANDS * 12, /* triples a, b, c */
    /* of each: fma(a, b, c), b + c, a * b, a * b + c, exp(c), silu(c), 1 / c, comparisons of a with b */
    GDN_PROBE_BYTES = GDN_PROBE_IN_BYTES + GDN_PROBE_OPERANDS * GDN_GPU_PROBE_RESULTS * 4
};

/* memory: GDN_PROBE_BYTES that the host can write, a multiple of 4: the operands, and GDN_PROBE_IN_BYTES behind them
 * the results, which start as what no kernel writes. run() has the device compute them. reason: "" where all are right
 * (any NaN equals any NaN); else what is wrong. *flushes: 1 where all are right at GDN_EXACT_FTZ; NULL for a backend
 * that does not have that level. The caller's rounding mode does not matter. The status is run()'s. */
gdn_status gdn_gpu_probe_arithmetic(void *memory, gdn_status (*run)(void *user), void *user,
                                    char reason[GDN_REASON_MAX], int *flushes);

/* The results that are right at GDN_EXACT_FTZ. */
void gdn_gpu_probe_flushed(float a, float b, float c, uint32_t want[GDN_GPU_PROBE_RESULTS]);

#endif
