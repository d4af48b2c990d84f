#include "simd/avx2.h"

#include "runtime/attention.inc.h"

const rt_attention_kernels rt_attention_avx2 = { scores, weigh };
