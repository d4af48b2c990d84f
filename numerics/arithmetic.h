/* The binary32 operations of scalar code that defines bits, at both levels of the contract
 * (docs/reference/numerics.md). By default a file that includes this computes at GDN_EXACT: the operations are C's own
 * operators and fmaf. With GDN_FLUSH defined it computes at GDN_EXACT_FTZ. A subnormal operand then counts as the zero
 * of its sign, and a tiny result is the zero of its sign, in any mode of the processor. Conversions between types are
 * not arithmetic, and keep subnormals at both levels. */
#ifndef GDN_NUMERICS_ARITHMETIC_H
#define GDN_NUMERICS_ARITHMETIC_H

#ifdef GDN_FLUSH
#include "numerics/flush.h"
#elif !defined(gdn_fma) /* vulkan/arithmetic.glsl defines its own */

#define gdn_add(a, b)    ((a) + (b))
#define gdn_sub(a, b)    ((a) - (b))
#define gdn_mul(a, b)    ((a) * (b))
#define gdn_fma(a, b, c) fmaf(a, b, c)
/* Flushes an operand of a comparison. Needed only where a subnormal could compare differently from zero; a comparison
 * with a normal, nonzero number does not need it. */
#define gdn_flush(x)     (x)

#endif

/* The same where the product a * b is exact, which a software fma need not compute exactly again. */
#ifndef gdn_fma_exact_product
#define gdn_fma_exact_product(a, b, c) gdn_fma(a, b, c)
#endif

#endif
