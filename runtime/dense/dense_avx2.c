/* The dense kernels with AVX2: the *.inc.h files compiled for that instruction set. */
#include "simd/avx2.h"

#include "simd/elementary.inc.h"
#include "runtime/dense/rows.inc.h"

#include "runtime/dense/matmul.inc.h"
#include "runtime/dense/quant_avx2.h"

#include "runtime/dense/matmul_quant.inc.h"

#define RT_TABLE  rt_kernels_avx2
#define RT_ISA    "avx2"
#define RT_SCORES rt_attention_avx2
#include "runtime/dense/dense_table.inc.h"
