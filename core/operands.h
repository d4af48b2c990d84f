/* Operands: validates tensors and spans, and fills in what callers may leave out. */
#ifndef GDN_CORE_OPERANDS_H
#define GDN_CORE_OPERANDS_H

#include "core/backend.h"

/* The bytes that an operand covers, for overlap checks: pieces of `piece` contiguous bytes at the points of n_axes
 * axes, the widest stride first. Axes are merged where one continues another or leaves no gap, so a packed operand is
 * one piece. Offsets count within one buffer object (`object`, 0 where data are addresses). */
typedef struct gdn_region {
    const char *name;
    uintptr_t object;
    uint64_t begin, end;               /* begin == end: empty or absent */
    uint64_t outer_stride, inner_span; /* the outermost axis as it was given, and what one step of it covers */
    uint64_t piece;
    int32_t n_axes;
    uint64_t extent[4], stride[4];
    int32_t written;  /* 1: the call writes it, so no other region may overlap it                            */
    int32_t one_pool; /* 1: source or destination of the call's only pool. The maps define what is read and
                         written, so these two regions may overlap                                           */
} gdn_region;

enum { GDN_MAX_REGIONS = 32 }; /* of a call */

/* Marks all regions as absent. */
static inline void gdn_regions_clear(gdn_region *r, int n)
{
    for (int i = 0; i < n; i++) {
        r[i].begin = r[i].end = 0;
        r[i].written = r[i].one_pool = 0;
    }
}

/* The required shape of an operand. Axes outermost first, without the contiguous one. */
typedef struct gdn_operand_spec {
    const char *name; /* as the caller knows it: "q", "state"                                  */
    uint32_t dtypes;  /* allowed: bits 1 << GDN_F32, ...                                       */
    int32_t n_axes;
    const char *axes[4]; /* their names: "sequence", "token"                                      */
    int64_t extent[4];
    int64_t inner;  /* elements of the contiguous axis                                       */
    int32_t ragged; /* 1: axis 0 is the sequence axis. Its stride 0 means that it is absent; axis 1 then has
                       ragged_tokens entries                                                 */
    int64_t ragged_tokens;
    const gdn_place *seq_start; /* ragged: the map, as far as the host can read it; or NULL           */
    int32_t needed;             /* 1: data must be given                                                 */
} gdn_operand_spec;

/* Checks `tensor` against `spec`; fills place and strides[4] and the region. */
gdn_status gdn_operand_resolve(const gdn_backend *backend, const gdn_operand_spec *spec, const gdn_tensor *tensor,
                               gdn_place *at, int64_t stride[4], gdn_region *region);

/* The same for an operand over tokens, and for a pool: axes row, slot, head, line, or row, line. */
gdn_status gdn_tokens_resolve(const gdn_backend *backend, const gdn_operand_spec *spec, const gdn_tensor *tensor,
                              gdn_token_view *view, gdn_region *region);
gdn_status gdn_pool_resolve(const gdn_backend *backend, const gdn_operand_spec *spec, const gdn_pool *pool,
                            gdn_state_view *view, gdn_region *region);

/* 1: the call has this pool. A query may leave out its data. n_slots of 1 alone does not count: GDN_INIT sets it. */
static inline int gdn_pool_given(const gdn_pool *pool)
{
    return pool->data || pool->n_rows || (pool->n_slots != 0 && pool->n_slots != 1);
}

/* If the written side of a pool is not `given`, makes it the side that is read. Returns 1 if both are one pool, seen in
 * the same way, and marks that in their regions. */
int gdn_one_pool(int given, const gdn_state_view *in, gdn_state_view *out, gdn_region *region_in,
                 gdn_region *region_out);

/* Checks a span of `bytes` bytes. An absent one passes unless it is needed. */
gdn_status gdn_span_resolve(const gdn_backend *backend, const char *name, const gdn_span *span, uint64_t bytes,
                            uint64_t alignment, int needed, gdn_place *at, gdn_region *region);

/* 1 if the two regions share a byte, else 0. 0 is always right. 1 may be wrong only where thousands of steps would be
 * needed to decide. */
int gdn_regions_overlap(const gdn_region *a, const gdn_region *b);

/* The last checks of a call: its workspace of `bytes` bytes, 64-byte aligned, becomes r[workspace]. None of the n
 * regions that are written, the workspace included, may overlap another. */
gdn_status gdn_workspace_resolve(const gdn_backend *backend, uint64_t bytes, const gdn_span *span, int needed,
                                 gdn_place *at, gdn_region *r, int workspace, int n);

const char *gdn_dtype_name(int32_t dtype);

/* Checks that `name` is in [low, high]. */
gdn_status gdn_check_range(const char *name, int64_t value, int64_t low, int64_t high);

#endif
