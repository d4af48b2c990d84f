/* The probe of a device's arithmetic: operands that reveal double rounding, flushed subnormals or a different function,
 * and a comparison with the contract's results. Each GPU backend runs them through its compiler and device when it
 * opens one. The result decides whether an implementation is exact. */
#ifndef GDN_GPU_PROBE_H
#define GDN_GPU_PROBE_H

#include <stdint.h>

#include "gdn/gdn.h"
#include "gpu/probe_call.h"

enum {
    GDN_PROBE_OPERANDS = 8192,
    GDN_PROBE_IN_BYTES = GDN_PROBE_OPERANDS * 12, /* triples a, b, c */
    /* of each: fma(a, b, c), b + c, a * b, a * b + c, exp(c), silu(c), 1 / c, comparisons of a with b */
    GDN_PROBE_BYTES = GDN_PROBE_IN_BYTES + GDN_PROBE_OPERANDS * GDN_GPU_PROBE_RESULTS * 4
};

/* Runs the probe. memory: GDN_PROBE_BYTES that the host can write, aligned to 4. It holds the operands, then from
 * GDN_PROBE_IN_BYTES on the results, which start as a value that no kernel writes. run() makes the device compute the
 * results. reason: "" if all are right (any NaN equals any NaN); else what is wrong. *flushes: 1 if all are right at
 * GDN_EXACT_FTZ; NULL for a backend without that level. The caller's rounding mode does not matter. Returns run()'s
 * status. */
gdn_status gdn_gpu_probe_arithmetic(void *memory, gdn_status (*run)(void *user), void *user,
                                    char reason[GDN_REASON_MAX], int *flushes);

/* The right results at GDN_EXACT_FTZ. */
void gdn_gpu_probe_flushed(float a, float b, float c, uint32_t want[GDN_GPU_PROBE_RESULTS]);

/* The next of the random numbers of a state (splitmix64), also for the self-test. */
uint32_t gdn_gpu_random(uint64_t *state);

#endif
