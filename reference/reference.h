/* The reference: scalar C that defines the bits. Read it beside docs/reference/numerics.md.
 *
 * Each kernel is written as a function of one independent item, and nothing in an item depends on how
 * many others there are. The reference backend and the CPU backend's scalar tier both run these.
 *
 * It is compiled once for each level of the contract from the same text (numerics/arithmetic.h), and each on x86-64
 * twice: for any processor, where fmaf is a call of the C library, and for those with the instruction (sources.cmake),
 * which is several times faster; nearly all the time of `gdn check` is spent here. Both round once, so the bits are the
 * same (tests/test_reference.c). At GDN_EXACT_FTZ it flushes in software, in a mode of the processor that does not. */
#ifndef GDN_REFERENCE_REFERENCE_H
#define GDN_REFERENCE_REFERENCE_H

#include "core/problem.h"

#ifndef GDN_REF
#define GDN_REF(name) gdn_ref_##name##_any
#endif

/* How many items a problem has, and item 0 <= i < n: a sequence and value head of gated_delta_net, a sequence and block
 * of channels of ssm_conv, a batch of set_rows (whose rows stay together, as the later of two with one target wins).
 * The functions without a suffix choose; those with _flush are of GDN_EXACT_FTZ. */
#define GDN_REF_DECLARE(stem, suffix)                                                                                  \
    int64_t gdn_ref_##stem##_items##suffix(const gdn_##stem##_problem *p);                                             \
    void gdn_ref_##stem##suffix(const gdn_##stem##_problem *p, int64_t item);
#define GDN_KERNEL(stem, number, title)                                                                                \
    GDN_REF_DECLARE(stem, )                                                                                            \
    GDN_REF_DECLARE(stem, _any)                                                                                        \
    GDN_REF_DECLARE(stem, _fma)                                                                                        \
    GDN_REF_DECLARE(stem, _flush) GDN_REF_DECLARE(stem, _flush_any) GDN_REF_DECLARE(stem, _flush_fma)
#include "core/kernels.def"
#undef GDN_KERNEL
#undef GDN_REF_DECLARE

#endif
