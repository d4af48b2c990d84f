/* The dense kernels with AVX-512: the *.inc.h files compiled for that instruction set. */
#include "simd/avx512.h"

#include "simd/elementary.inc.h"
#include "runtime/dense/rows.inc.h"

#include "runtime/dense/matmul.inc.h"
#include "runtime/dense/quant_avx512.h"

#include "runtime/dense/matmul_quant.inc.h"

#define RT_TABLE  rt_kernels_avx512
#define RT_ISA    "avx512"
#define RT_SCORES rt_attention_avx512
#include "runtime/dense/dense_table.inc.h"
