/* The operations of binary32 that scalar code which defines bits is made of, at the two levels of the contract
 * (docs/reference/numerics.md). As it stands, a file that includes this computes at GDN_EXACT, and they are C's own
 * operators and fmaf. Where GDN_FLUSH is defined, it computes at GDN_EXACT_FTZ: a subnormal operand counts as the zero
 * of its sign, and a result that is tiny is the zero of its sign, whatever the processor would do. Conversions between
 * types are not arithmetic, and keep subnormals at both. */
#ifndef GDN_NUMERICS_ARITHMETIC_H
#define GDN_NUMERICS_ARITHMETIC_H

#ifndef GDN_FLUSH

#define gdn_add(a, b)    ((a) + (b))
#define gdn_sub(a, b)    ((a) - (b))
#define gdn_mul(a, b)    ((a) * (b))
#define gdn_fma(a, b, c) fmaf(a, b, c)
/* An operand of a comparison that a subnormal would decide otherwise than zero: of one with a number that is itself
 * normal, and not zero, it does not. */
#define gdn_flush(x) (x)

#else
#include "numerics/flush.h"
#endif

#endif
