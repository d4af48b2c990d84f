// The names that gpu/conv.h takes from cuda/ssm_conv.cu or metal/ssm_conv.metal: see gpu/names.h.
#ifndef GDN_GPU_NAMES_CONV_H
#define GDN_GPU_NAMES_CONV_H

#include "gpu/names.h"
#include "call/ssm_conv.h"
#include "gpu/convert16.h"

#define FUNCTION     GDN_INLINE
#define CALL         const gdn_ssm_conv_call &p,
#define PASS         p,
#define SOURCE       p.history.data // the address of the history that is read
#define HAS_BIAS     (p.bias != 0)  // whether the call has a bias
#define GOOD_TREE(q) (q.T > 0)      // false, and reported, if a parent is not an earlier token of the sequence
#define CONV_THREADS 32             // of a thread block
#define CONV_AHEAD   1              // tokens whose inputs are loaded together, while those before are computed

uint32_t read_bits(uint64_t at, int dtype); // the bits of an element
uint32_t load_bits(const char *at, int dtype);
float widen(uint32_t bits, int dtype); // the bits as F32
void store_word(char *at, uint32_t x);
// The bits of four elements, aligned to all four. It is instantiated for other KW, and not called.
template <int KW> void read_four_bits(uint64_t at, int dtype, uint32_t (&bits)[KW]);

#endif
