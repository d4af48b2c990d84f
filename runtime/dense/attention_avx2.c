/* Attention with AVX2: attention.inc.h compiled for that instruction set. */
#include "simd/avx2.h"

#include "runtime/dense/attention.inc.h"

const rt_attention_kernels rt_attention_avx2 = { scores, weigh };
