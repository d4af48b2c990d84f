/* Operands: checking tensors and spans once, and filling in what callers may leave out. */
#ifndef GDN_CORE_OPERANDS_H
#define GDN_CORE_OPERANDS_H

#include "core/backend.h"

/* The bytes an operand covers, for overlap checks, within one buffer object (`object`, 0 where data are addresses):
 * pieces of `piece` contiguous bytes on the points of n_axes axes, the widest stride first. Axes that lie on another
 * one's points, or leave no gap, have been merged, so that what is packed is one piece. */
typedef struct gdn_region {
    const char *name;
    uintptr_t   object;
    uint64_t    begin, end; /* begin == end: empty or absent */
    uint64_t    outer_stride, inner_span; /* the outermost axis as it was given, and what one step of it covers */
    uint64_t    piece;
    int32_t     n_axes;
    uint64_t    extent[4], stride[4];
    int32_t     written;    /* 1: the call writes it, so that nothing else may lie there                           */
    int32_t     one_pool;   /* 1: a side of the call's only pool: the maps say what of it is read and written, so
                               that the two sides are not held against each other                                  */
} gdn_region;

enum { GDN_MAX_REGIONS = 32 }; /* of a call */

/* No operand is there yet. */
static inline void gdn_regions_clear(gdn_region *r, int n)
{
    for (int i = 0; i < n; i++) {
        r[i].begin = r[i].end = 0;
        r[i].written = r[i].one_pool = 0;
    }
}

/* What an operand has to look like. Axes outermost first; the contiguous one is not among them. */
typedef struct gdn_operand_spec {
    const char *name;        /* as the caller knows it: "q", "state"                                  */
    uint32_t    dtypes;      /* allowed: bits 1 << GDN_F32, ...                                       */
    int32_t     n_axes;
    const char *axes[4];     /* their names: "sequence", "token"                                      */
    int64_t     extent[4];
    int64_t     inner;       /* elements of the contiguous axis                                       */
    int32_t     ragged;      /* 1: axis 0 is the sequence axis, whose stride 0 means "not there", and
                                then axis 1 has ragged_tokens entries                                 */
    int64_t     ragged_tokens;
    const gdn_place *seq_start; /* ragged: the map, as far as the host can read it; or NULL           */
    int32_t     needed;      /* 1: data must be given                                                 */
} gdn_operand_spec;

/* Checks `tensor` against `spec`; fills place and strides[4] and the region. */
gdn_status gdn_operand_resolve(const gdn_backend *backend, const gdn_operand_spec *spec, const gdn_tensor *tensor,
                               gdn_place *at, int64_t stride[4], gdn_region *region);

/* The same for an operand over tokens, and for a pool: axes row, slot, head, line, or row, line. */
gdn_status gdn_tokens_resolve(const gdn_backend *backend, const gdn_operand_spec *spec, const gdn_tensor *tensor,
                              gdn_token_view *view, gdn_region *region);
gdn_status gdn_pool_resolve(const gdn_backend *backend, const gdn_operand_spec *spec, const gdn_pool *pool,
                            gdn_state_view *view, gdn_region *region);

/* 1: the call has this pool. A query may leave out its data. 1 slot is what GDN_INIT gives some pools. */
static inline int gdn_pool_given(const gdn_pool *pool)
{
    return pool->data || pool->n_rows || (pool->n_slots != 0 && pool->n_slots != 1);
}

/* The side of a pool that is written becomes the one that is read where it was not `given`. Says whether they are one
 * pool, seen in the same way, and tells their regions. */
int gdn_one_pool(int given, const gdn_state_view *in, gdn_state_view *out, gdn_region *region_in,
                 gdn_region *region_out);

/* Checks a span of `bytes` bytes (an absent one is fine unless needed). */
gdn_status gdn_span_resolve(const gdn_backend *backend, const char *name, const gdn_span *span, uint64_t bytes,
                            uint64_t alignment, int needed, gdn_place *at, gdn_region *region);

/* 1 when the two may share a byte: 0 is certain, and so is 1 but where that would take thousands of steps to find. */
int gdn_regions_overlap(const gdn_region *a, const gdn_region *b);

/* The last checks of a call: its workspace of `bytes` bytes, 64-byte aligned, whose region is r[workspace]; and none of
 * its n regions that are written, the workspace among them, overlaps another. */
gdn_status gdn_workspace_resolve(const gdn_backend *backend, uint64_t bytes, const gdn_span *span, int needed,
                                 gdn_place *at, gdn_region *r, int workspace, int n);

const char *gdn_dtype_name(int32_t dtype);

/* `name` must lie in [low, high]. */
gdn_status gdn_check_range(const char *name, int64_t value, int64_t low, int64_t high);

#endif
