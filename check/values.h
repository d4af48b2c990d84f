/* Values: what operands are filled with, and NaN. */
#ifndef GDN_CHECK_VALUES_H
#define GDN_CHECK_VALUES_H

#include "case.h"

/* Classes of values. What a kernel does with them must be the same bits everywhere, overflow included. */
typedef enum check_values {
    CHECK_NORMAL,     /* [-1, 1)                                                    */
    CHECK_UNIT,       /* [0, 1): beta                                               */
    CHECK_SMALL,      /* [-0.1, 0.1): like l2-normalised keys                       */
    CHECK_SUBNORMAL,  /* subnormals, and normals that turn into them                */
    CHECK_ZEROS,      /* +0 and -0, few others                                      */
    CHECK_HUGE,       /* 1e15 .. 3e38: products overflow                            */
    CHECK_WIDE,       /* any exponent                                               */
    CHECK_TIES,       /* halfway between neighbours of the 16-bit types, and near   */
    CHECK_SPECIAL,    /* normal, with NaN and infinities now and then               */
    CHECK_GATE_SLOW,  /* [-0.02, 0]: a long memory                                  */
    CHECK_GATE_MODEL, /* [-8, -1e-4], small ones often                              */
    CHECK_GATE_GGML,  /* [-20, -1e-4]                                               */
    CHECK_GATE_EDGE,  /* -100, -1e-30, +0.5, 0, -0, -inf, -87.5 ... mixed           */
    CHECK_GATE_ZERO,  /* 0: a decay of exactly 1                                    */
    CHECK_GATE_UNDER, /* decays into the subnormals                                 */
    CHECK_ONE_NAN,    /* normal, and each row holds a NaN                           */
    CHECK_POWERS,     /* +-1/2, +-1, +-2: products with them are exact              */
    CHECK_GATE_HIGH   /* [0, 30): raw, on both sides of softplus's threshold        */
} check_values;

/* n elements of a float type at `to`. */
void check_fill(void *to, int32_t dtype, int64_t n, check_values values, uint64_t seed);

/* NaN of a float type, by bits: works in any floating-point mode. */
int check_is_nan(const void *from, int32_t dtype);

#endif
