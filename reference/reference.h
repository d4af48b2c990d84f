/* The reference: scalar C that defines the bits. docs/reference/numerics.md describes them.
 *
 * Each kernel is a function of one independent item; nothing in an item depends on the number of others. The reference
 * backend and the CPU backend's scalar implementation both run these functions.
 *
 * The same source is compiled once for each level of the contract (numerics/arithmetic.h, flush.c). On x86-64 each
 * level is compiled twice: for any processor, where fmaf is a function of the C library, and for processors with the
 * instruction (fma.c, flush_fma.c). The latter is several times faster. `gdn check` spends nearly all its time here.
 * Both round once, so the bits are the same (tests/unit/test_reference.c). At GDN_EXACT_FTZ the reference flushes in
 * software, in the processor's mode that keeps subnormals. */
#ifndef GDN_REFERENCE_REFERENCE_H
#define GDN_REFERENCE_REFERENCE_H

#include "core/problem.h"

#ifndef GDN_REF
#define GDN_REF(name) gdn_ref_##name##_any
#endif

/* The number of items of a problem, and item 0 <= i < n. An item is a sequence and value head of gated_delta_net, in
 * the chunked form a sequence and key head. Of ssm_conv it is a sequence and block of channels, of set_rows a batch.
 * The rows of a batch stay together, because the later of two with one target wins. Functions without a suffix choose
 * the compiled version; those with _flush are for GDN_EXACT_FTZ. */
#define GDN_REF_DECLARE(stem, version)                                                                                 \
    int64_t gdn_ref_##stem##_items##version(const gdn_##stem##_call *p);                                               \
    void gdn_ref_##stem##version(const gdn_##stem##_call *p, int64_t item, void *scratch);
#define GDN_REF_VERSIONS(stem)                                                                                         \
    GDN_REF_DECLARE(stem, )                                                                                            \
    GDN_REF_DECLARE(stem, _any)                                                                                        \
    GDN_REF_DECLARE(stem, _fma)                                                                                        \
    GDN_REF_DECLARE(stem, _flush) GDN_REF_DECLARE(stem, _flush_any) GDN_REF_DECLARE(stem, _flush_fma)
GDN_REF_VERSIONS(gated_delta_net)
GDN_REF_VERSIONS(ssm_conv)
GDN_REF_VERSIONS(set_rows)
#undef GDN_REF_VERSIONS
#undef GDN_REF_DECLARE

/* The memory that items of a call of gated_delta_net need as scratch; 0: none. Each thread has its own. */
uint64_t gdn_ref_scratch_bytes(const gdn_gated_delta_net_call *p);

#endif
