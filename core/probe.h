/* The probe of a device's arithmetic: operands on which rounding twice, flushing subnormals or another function shows, and
 * a comparison with the contract's own results. Each GPU backend runs them through its compiler and its device, when one
 * is opened; what comes out decides whether an implementation is exact. */
#ifndef GDN_CORE_PROBE_H
#define GDN_CORE_PROBE_H

#include <stdint.h>

#include "gdn/gdn.h"

enum {
    GDN_PROBE_OPERANDS = 8192,
    GDN_PROBE_RESULTS  = 8 /* of each triple: fma(a, b, c), b + c, a * b, a * b + c, exp(c), silu(c), 1 / c, comparisons of a with b */
};

typedef struct gdn_probe_triple {
    float a, b, c;
} gdn_probe_triple;

/* Both within gdn_float_env_enter() and gdn_float_env_leave(), so that the caller's rounding mode does not matter. */
void gdn_probe_fill(gdn_probe_triple in[GDN_PROBE_OPERANDS]);
/* out: GDN_PROBE_RESULTS words per triple. reason: "" where all are right (any NaN equals any NaN); else what is wrong. */
void gdn_probe_compare(const gdn_probe_triple *in, const uint32_t *out, char reason[GDN_REASON_MAX]);

#endif
