/* Operands: validates tensors and spans, and fills in what callers may leave out. */
#ifndef GDN_CORE_OPERANDS_H
#define GDN_CORE_OPERANDS_H

#include "core/backend.h"

/* Marks all regions as absent. */
static inline void gdn_regions_clear(gdn_region *r, int n)
{
    for (int i = 0; i < n; i++) {
        r[i].data = NULL;
        r[i].begin = r[i].end = 0;
        r[i].written = r[i].one_pool = 0;
    }
}

/* For the column `access` of a list of operands: gdn_region.written. */
#define GDN_WRITES_READ    0
#define GDN_WRITES_WRITTEN 1

/* `has`, a GDN_HAS_* bit, if the region is there. */
static inline int32_t gdn_presence_of(const gdn_region *r, int region, int32_t has) { return r[region].data ? has : 0; }

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
    const int32_t *seq_start; /* ragged: the map, if the host can read it; or NULL                     */
    int32_t needed;           /* 1: data must be given                                                 */
} gdn_operand_spec;

/* Checks `tensor` against `spec`; fills the address, the strides and the region. */
gdn_status gdn_operand_resolve(const gdn_context *ctx, const gdn_operand_spec *spec, const gdn_tensor *tensor,
                               uint64_t *address, int64_t stride[4], gdn_region *region);

/* The same for an operand over tokens, and for a pool: axes row, slot, head, line, or row, slot. n_entries and n_slots
 * are the caller's to fill. */
gdn_status gdn_tokens_resolve(const gdn_context *ctx, const gdn_operand_spec *spec, const gdn_tensor *tensor,
                              gdn_token_view *view, gdn_region *region);
gdn_status gdn_pool_resolve(const gdn_context *ctx, const gdn_operand_spec *spec, const gdn_pool *pool,
                            gdn_pool_view *view, gdn_region *region);

/* 1: the call has this pool. A query may leave out its data. n_slots of 1 alone does not count: GDN_INIT sets it. */
static inline int gdn_pool_given(const gdn_pool *pool)
{
    return pool->data || pool->n_rows || (pool->n_slots != 0 && pool->n_slots != 1);
}

/* If the written side of a pool is not `given`, makes it the side that is read. Returns 1 if both are one pool, seen in
 * the same way, and marks that in their regions. If the pool that is read is in the buffer that is written, adds
 * GDN_HAS_ONE_POOL to *has and sets *pool_offset. */
int gdn_one_pool(int given, const gdn_pool_view *in, gdn_pool_view *out, gdn_region *region_in, gdn_region *region_out,
                 int32_t *has, int64_t *pool_offset);

/* Checks a span of `bytes` bytes. An absent one passes unless it is needed. */
gdn_status gdn_span_resolve(const gdn_context *ctx, const char *name, const gdn_span *span, uint64_t bytes,
                            uint64_t alignment, int needed, uint64_t *address, gdn_region *region);

/* 1 if the two regions share a byte, else 0. 0 is always right. 1 may be wrong only where thousands of steps would be
 * needed to decide. */
int gdn_regions_overlap(const gdn_region *a, const gdn_region *b);

/* The last checks of a call: its workspace of `bytes` bytes, 64-byte aligned, becomes its last region. No region that
 * is written, the workspace included, may overlap another. */
gdn_status gdn_workspace_resolve(const gdn_context *ctx, uint64_t bytes, const gdn_span *span, gdn_problem *p);

const char *gdn_dtype_name(int32_t dtype);
/* Bytes of n adjacent elements; a dtype that the operand may have. */
uint64_t gdn_dtype_bytes(int32_t dtype, int64_t n);

/* Checks that `name` is in [low, high]. */
gdn_status gdn_check_range(const char *name, int64_t value, int64_t low, int64_t high);

#endif
