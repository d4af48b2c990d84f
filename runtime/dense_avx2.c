/* The dense kernels with AVX2: the *.inc.h files compiled for that instruction set. */
#include "simd/avx2.h"

#include "simd/elementary.inc.h"
#include "runtime/rows.inc.h"

#include "runtime/matmul.inc.h"
#include "runtime/quant_avx2.h"

#include "runtime/matmul_quant.inc.h"

#define RT_TABLE  rt_kernels_avx2
#define RT_ISA    "avx2"
#define RT_SCORES rt_attention_avx2
#include "runtime/dense_table.inc.h"
