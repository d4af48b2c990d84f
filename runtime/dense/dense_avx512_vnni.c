/* The dense kernels with AVX-512 and VNNI: dense_avx512.c with other integer dot products. */
#include "simd/avx512.h"

#include "simd/elementary.inc.h"
#define RT_VNNI 1
#include "runtime/dense/rows.inc.h"

#include "runtime/dense/matmul.inc.h"
#include "runtime/dense/quant_avx512.h"

#include "runtime/dense/matmul_quant.inc.h"

#define RT_TABLE  rt_kernels_avx512_vnni
#define RT_ISA    "avx512_vnni"
#define RT_SCORES rt_attention_avx512
#include "runtime/dense/dense_table.inc.h"
