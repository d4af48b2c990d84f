/* Attention with NEON: attention.inc.h compiled for that instruction set. */
#include "simd/neon.h"

#include "runtime/dense/attention.inc.h"

const rt_attention_kernels rt_attention_neon = { scores, weigh };
