/* The dense kernels with NEON: the *.inc.h files compiled for that instruction set. Quantised products use the scalar
 * functions. */
#include "simd/neon.h"

#include "simd/elementary.inc.h"
#include "runtime/dense/rows.inc.h"

#include "runtime/dense/matmul.inc.h"

#define quantize rt_scalar_quantize

static void product(const rt_product_args *a, int32_t first, int32_t last, void *panel)
{
    if (a->xq) rt_scalar_product(a, first, last, panel);
    else product_of_floats(a, first, last);
}

#define RT_TABLE  rt_kernels_neon
#define RT_ISA    "neon"
#define RT_SCORES rt_attention_neon
#include "runtime/dense/dense_table.inc.h"
