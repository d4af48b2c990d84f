/* Attention with AVX-512: attention.inc.h compiled for that instruction set. */
#include "simd/avx512.h"

#include "runtime/dense/attention.inc.h"

const rt_attention_kernels rt_attention_avx512 = { scores, weigh };
