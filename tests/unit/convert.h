/* What test_convert.c asks of each instruction set: conversions of n numbers, n a multiple of 128; dtype is GDN_F16 or
 * GDN_BF16, and arrays are aligned to 64 bytes. */
#ifndef GDN_TESTS_CONVERT_H
#define GDN_TESTS_CONVERT_H

#include <stddef.h>
#include <stdint.h>

typedef struct convert_table {
    void (*widen)(const uint16_t *from, int dtype, float *to, size_t n);
    void (*widen_halves)(const uint16_t *from, int dtype, float *to, size_t n);
    void (*turn4)(const uint16_t *from, int dtype, float *to, size_t n); /* of groups of 4, put back in their order */
    void (*narrow)(const float *from, int dtype, uint16_t *to, size_t n);
    void (*narrow_halves)(const float *from, int dtype, uint16_t *to, size_t n);
    void (*round_to)(const float *from, int dtype, float *to, size_t n);
} convert_table;

/* Each exists only where its instruction set can be compiled for. */
extern const convert_table convert_avx2, convert_avx512, convert_neon;

#endif
