/* Operands. See operands.h. */
#include "core/operands.h"

#include <stdio.h>

#include "core/status.h"

/* No machine has larger offsets, and sums of smaller ones do not overflow. */
#define LARGEST_OFFSET ((uint64_t)1 << 56)

static const struct {
    const char *name;
    uint64_t block, block_bytes, alignment; /* elements per block */
} dtypes[] = {
    [GDN_F32] = { "F32", 1, 4, 4 },          [GDN_F16] = { "F16", 1, 2, 2 },          [GDN_BF16] = { "BF16", 1, 2, 2 },
    [GDN_Q8_0] = { "Q8_0", 32, 34, 2 },      [GDN_I32] = { "I32", 1, 4, 4 },          [GDN_I64] = { "I64", 1, 8, 8 },
    [GDN_DIGITS2] = { "DIGITS2", 1, 1, 16 }, [GDN_DIGITS3] = { "DIGITS3", 1, 1, 16 }, /* counted in bytes */
};
#define N_DTYPES ((int32_t)(sizeof dtypes / sizeof dtypes[0]))

uint64_t gdn_dtype_bytes(int32_t dtype, int64_t n)
{
    const uint64_t block = dtypes[dtype].block, bytes = dtypes[dtype].block_bytes;
    return block == 1 ? (uint64_t)n * bytes : (uint64_t)n / block * bytes; /* a division costs more than the test */
}

static uint64_t dtype_alignment(int32_t dtype) { return dtypes[dtype].alignment; }

const char *gdn_dtype_name(int32_t dtype) { return dtype >= 0 && dtype < N_DTYPES ? dtypes[dtype].name : "?"; }

gdn_status gdn_check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value < low || value > high)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %lld; %lld to %lld are allowed", name, (long long)value,
                        (long long)low, (long long)high);
    return GDN_OK;
}

/* a + b * c, or LARGEST_OFFSET if that is smaller. */
static uint64_t bounded(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t product, sum;
    if (__builtin_mul_overflow(b, c, &product) || __builtin_add_overflow(a, product, &sum) || sum > LARGEST_OFFSET)
        return LARGEST_OFFSET;
    return sum;
}

static gdn_status check_dtype(const gdn_operand_spec *spec, int32_t dtype)
{
    char allowed[64] = "";
    int used = 0;
    if (dtype >= 0 && dtype < N_DTYPES && (spec->dtypes >> dtype & 1)) return GDN_OK;
    for (int32_t d = 0; d < N_DTYPES; d++)
        if (spec->dtypes >> d & 1)
            used += snprintf(allowed + used, sizeof allowed - (size_t)used, "%s%s", used ? ", " : "", dtypes[d].name);
    return gdn_fail(GDN_INVALID_ARGUMENT, "%s.dtype is %d (%s); allowed: %s", spec->name, (int)dtype,
                    gdn_dtype_name(dtype), allowed);
}

/* Members that are not set here are set before they are read, or not read while n_axes is 0. */
static void clear_region(gdn_region *region, const char *name)
{
    gdn_regions_clear(region, 1);
    region->name = name;
    region->object = 0;
    region->outer_stride = region->inner_span = region->piece = 0;
    region->n_axes = 0;
}

/* Fills packed strides and checks the given ones. May lower extent[] to the part that the operand really has. */
static gdn_status resolve_strides(const gdn_operand_spec *spec, const gdn_tensor *t, int64_t extent[4],
                                  int64_t stride[4])
{
    const uint64_t alignment = dtype_alignment(t->dtype);
    uint64_t packed = gdn_dtype_bytes(t->dtype, spec->inner);
    for (int a = 3; a >= 0; a--) {
        stride[a] = t->stride[a];
        if (a >= spec->n_axes) {
            if (stride[a])
                return gdn_fail(GDN_INVALID_ARGUMENT,
                                "%s.stride[%d] is %lld; %s has strides 0..%d, the others must be 0", spec->name, a,
                                (long long)stride[a], spec->name, spec->n_axes - 1);
            continue;
        }
        if (stride[a] < 0 || (uint64_t)stride[a] >= LARGEST_OFFSET)
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s.stride[%d] is %lld; 0 (packed) to 2^56 - 1 are allowed",
                            spec->name, a, (long long)stride[a]);
        if ((uint64_t)stride[a] & (alignment - 1))
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s.stride[%d] is %lld; %s needs a multiple of %llu", spec->name, a,
                            (long long)stride[a], gdn_dtype_name(t->dtype), (unsigned long long)alignment);
        if (!stride[a] && !(a == 0 && spec->ragged)) stride[a] = (int64_t)packed;
        /* The packed stride of the next axis out is the extent of everything up to here. */
        const uint64_t rows = extent[a] > 0 ? (uint64_t)extent[a] : 1;
        packed = bounded(0, rows, (uint64_t)stride[a] > packed ? (uint64_t)stride[a] : packed);
    }
    if (spec->ragged && !stride[0]) {
        extent[0] = extent[0] > 0 ? 1 : 0;
        extent[1] = spec->ragged_tokens;
    }
    return GDN_OK;
}

/* Checks that rows do not share bytes: with the axes sorted by stride, each axis must step over everything inside it.
 * This is sufficient but not necessary: it refuses interleavings that are disjoint. It detects strides in elements, and
 * strides of a wrong axis. The text names a stride that the caller set; packed strides are always wide enough. */
static gdn_status check_rows_apart(const gdn_operand_spec *spec, const gdn_tensor *t, const int64_t extent[4],
                                   const int64_t stride[4], uint64_t inner_bytes)
{
    uint64_t inside = inner_bytes;
    int done[4] = { 0 };
    if (!(t->stride[0] | t->stride[1] | t->stride[2] | t->stride[3])) return GDN_OK;
    for (int n = 0; n < spec->n_axes; n++) {
        int least = -1;
        for (int a = spec->n_axes - 1; a >= 0; a--)
            if (!done[a] && (least < 0 || stride[a] < stride[least])) least = a;
        done[least] = 1;
        if (extent[least] <= 1) continue;
        if ((uint64_t)stride[least] >= inside) {
            inside = bounded(inside, (uint64_t)extent[least] - 1, (uint64_t)stride[least]);
            continue;
        }
        int set = least;
        uint64_t need = inside, packed = inner_bytes;
        if (!t->stride[least]) { /* packed, so wide enough for the axes inside it: an axis outside it is too narrow */
            for (set = 0; !done[set] || !t->stride[set] || extent[set] <= 1; set++)
                ;
            need = inner_bytes;
            for (int a = spec->n_axes - 1; a > set; a--)
                need = bounded(need, (uint64_t)(extent[a] > 0 ? extent[a] - 1 : 0), (uint64_t)stride[a]);
        }
        for (int a = spec->n_axes - 1; a > set; a--)
            packed = bounded(0, (uint64_t)(extent[a] > 0 ? extent[a] : 1),
                             packed > (uint64_t)stride[a] ? packed : (uint64_t)stride[a]);
        char absent[48] = "sequences follow each other"; /* what stride 0 means */
        if (set || !spec->ragged) (void)snprintf(absent, sizeof absent, "packed, %llu", (unsigned long long)packed);
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "%s.stride[%d] is %lld, of the %s axis, so that rows of %s overlap; 0 (%s) and at least %llu "
                        "bytes are allowed",
                        spec->name, set, (long long)stride[set], spec->axes[set], spec->name, absent,
                        (unsigned long long)need);
    }
    return GDN_OK;
}

/* For a ragged operand with a sequence stride: the bytes between the end of its last token and the end of n_seqs times
 * the longest sequence. */
static uint64_t unowned_end(const gdn_operand_spec *spec, const int64_t extent[4], const int64_t stride[4])
{
    const int32_t *start = spec->seq_start;
    int64_t end = 0;
    if (!spec->ragged || !start || !stride[0] || extent[0] < 1 || extent[1] < 1) return 0;
    for (int64_t s = 0; s < extent[0]; s++) {
        const int64_t last = start[s + 1] - start[s] - 1, at = s * stride[0] + last * stride[1];
        end = last >= 0 && at > end ? at : end;
    }
    return (uint64_t)((extent[0] - 1) * stride[0] + (extent[1] - 1) * stride[1] - end);
}

/* Address arithmetic and alignment, for tensors and spans. */
static gdn_status resolve_place(const gdn_context *ctx, const char *name, void *data, uint64_t offset, uint64_t bytes,
                                uint64_t covered, uint64_t alignment, uint64_t *address, gdn_region *region)
{
    const gdn_backend *backend = ctx->backend;
    if (offset >= LARGEST_OFFSET)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s.offset is %llu; below 2^56 is allowed", name,
                        (unsigned long long)offset);
    if (covered >= LARGEST_OFFSET)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s covers 2^56 bytes or more; check its sizes and strides", name);
    const uint64_t first = (backend->data_is_address ? (uint64_t)(uintptr_t)data : 0) + offset;
    if (first & (alignment - 1)) /* alignment is a power of two */
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s begins at %#llx; it must be a multiple of %llu", name,
                        (unsigned long long)first, (unsigned long long)alignment);
    if (backend->data_is_address && (first < offset || first != (uintptr_t)first || covered > UINTPTR_MAX - first))
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s begins at %#llx and covers %llu bytes, beyond the end of memory",
                        name, (unsigned long long)first, (unsigned long long)covered);
    if (bytes && covered > bytes)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s.bytes is %llu; the call reaches %llu bytes of it", name,
                        (unsigned long long)bytes, (unsigned long long)covered);
    *address = backend->data_is_address ? first : backend->address ? backend->address(ctx, data) + offset : 0;
    region->data = data;
    region->offset = offset;
    region->object = backend->data_is_address ? 0 : (uintptr_t)data;
    region->begin = first;
    region->end = first + covered;
    return GDN_OK;
}

/* Sorts and merges the axes of a region. */
static void fill_axes(gdn_region *region, int n_axes, const int64_t extent[4], const int64_t stride[4], uint64_t piece)
{
    uint64_t *e = region->extent, *s = region->stride;
    int n = 0;
    for (int a = 0; a < n_axes; a++) {
        int at = n;
        if (extent[a] <= 1) continue;
        for (; at > 0 && s[at - 1] < (uint64_t)stride[a]; at--) e[at] = e[at - 1], s[at] = s[at - 1];
        e[at] = (uint64_t)extent[a], s[at] = (uint64_t)stride[a];
        n++;
    }
    for (; n > 0 && s[n - 1] <= piece; n--) piece += (e[n - 1] - 1) * s[n - 1];
    for (int a = n - 1; a > 0; a--) {
        if (s[a - 1] % s[a] || s[a - 1] / s[a] > e[a]) continue;
        e[a - 1] = (e[a - 1] - 1) * (s[a - 1] / s[a]) + e[a];
        s[a - 1] = s[a];
        for (int b = a; b + 1 < n; b++) e[b] = e[b + 1], s[b] = s[b + 1];
        n--;
    }
    region->piece = piece;
    region->n_axes = n;
}

gdn_status gdn_operand_resolve(const gdn_context *ctx, const gdn_operand_spec *spec, const gdn_tensor *t,
                               uint64_t *address, int64_t stride[4], gdn_region *region)
{
    int64_t extent[4];
    gdn_status status;
    *address = 0;
    clear_region(region, spec->name);
    for (int a = 0; a < 4; a++) extent[a] = a < spec->n_axes ? spec->extent[a] : 1;
    if ((status = check_dtype(spec, t->dtype))) return status;
    if (t->reserved)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s.reserved is %d; it must be 0", spec->name, (int)t->reserved);
    if (t->dtype == GDN_Q8_0 && spec->inner % 32)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s has rows of %lld elements; Q8_0 needs a multiple of 32", spec->name,
                        (long long)spec->inner);
    if ((status = resolve_strides(spec, t, extent, stride))) return status;

    const uint64_t inner_bytes = gdn_dtype_bytes(t->dtype, spec->inner);
    if ((status = check_rows_apart(spec, t, extent, stride, inner_bytes))) return status;

    uint64_t covered = inner_bytes, outer = 0;
    int outermost = -1;
    for (int a = 0; a < spec->n_axes; a++) {
        if (extent[a] <= 0) covered = 0;
        if (extent[a] > 1 && (uint64_t)stride[a] > outer) {
            outer = (uint64_t)stride[a];
            outermost = a;
        }
    }
    if (covered) {
        for (int a = 0; a < spec->n_axes; a++)
            if (a != outermost) covered = bounded(covered, (uint64_t)extent[a] - 1, (uint64_t)stride[a]);
        region->inner_span = covered;
        region->outer_stride = outermost < 0 ? 0 : outer;
        if (outermost >= 0) covered = bounded(covered, (uint64_t)extent[outermost] - 1, outer);
        if (covered < LARGEST_OFFSET) covered -= unowned_end(spec, extent, stride);
        if (covered < LARGEST_OFFSET) fill_axes(region, spec->n_axes, extent, stride, inner_bytes);
    }
    if (!t->data) {
        if (spec->needed && covered)
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s.data is NULL; the call reaches %llu bytes of it", spec->name,
                            (unsigned long long)covered);
        return GDN_OK;
    }
    return resolve_place(ctx, spec->name, t->data, t->offset, t->bytes, covered, dtype_alignment(t->dtype), address,
                         region);
}

gdn_status gdn_tokens_resolve(const gdn_context *ctx, const gdn_operand_spec *spec, const gdn_tensor *t,
                              gdn_token_view *view, gdn_region *region)
{
    int64_t stride[4] = { 0 };
    gdn_status status = gdn_operand_resolve(ctx, spec, t, &view->data, stride, region);
    view->stride_seq = stride[0];
    view->stride_token = stride[1];
    view->stride_head = stride[2];
    view->dtype = t->dtype;
    return status;
}

gdn_status gdn_pool_resolve(const gdn_context *ctx, const gdn_operand_spec *spec, const gdn_pool *pool,
                            gdn_pool_view *view, gdn_region *region)
{
    const gdn_tensor t = { .data = pool->data,
                           .offset = pool->offset,
                           .bytes = pool->bytes,
                           .dtype = pool->dtype,
                           .stride = { pool->stride[0], pool->stride[1], pool->stride[2], pool->stride[3] } };
    int64_t stride[4] = { 0 };
    gdn_status status;
    if (pool->reserved)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s.reserved is %d; it must be 0", spec->name, (int)pool->reserved);
    status = gdn_operand_resolve(ctx, spec, &t, &view->data, stride, region);
    view->stride_row = stride[0];
    view->stride_slot = stride[1];
    view->stride_head = stride[2];
    view->stride_line = stride[3];
    view->dtype = t.dtype;
    return status;
}

int gdn_one_pool(int given, const gdn_pool_view *in, gdn_pool_view *out, gdn_region *region_in, gdn_region *region_out,
                 int32_t *has, int64_t *pool_offset)
{
    if (!given) {
        *out = *in;
        *region_out = *region_in;
    }
    const int one_buffer = region_in->data == region_out->data;
    const int one = one_buffer && (!region_in->data || region_in->offset == region_out->offset) &&
                    in->stride_row == out->stride_row && in->stride_slot == out->stride_slot &&
                    in->stride_head == out->stride_head && in->stride_line == out->stride_line &&
                    in->n_slots == out->n_slots;
    region_in->one_pool = region_out->one_pool = one;
    if (one_buffer && region_in->data) {
        *has |= GDN_HAS_ONE_POOL;
        *pool_offset = (int64_t)(region_in->offset - region_out->offset);
    }
    return one;
}

gdn_status gdn_span_resolve(const gdn_context *ctx, const char *name, const gdn_span *span, uint64_t bytes,
                            uint64_t alignment, int needed, uint64_t *address, gdn_region *region)
{
    *address = 0;
    clear_region(region, name);
    region->inner_span = region->piece = bytes;
    if (!span->data) {
        if (needed && bytes)
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s.data is NULL; %llu bytes are needed", name,
                            (unsigned long long)bytes);
        return GDN_OK;
    }
    return resolve_place(ctx, name, span->data, span->offset, span->bytes, bytes, alignment, address, region);
}

/* Bytes from the first to the last byte of a region, without its first `axis` axes. */
static int64_t reach(const gdn_region *r, int axis)
{
    uint64_t bytes = r->piece;
    for (int a = axis; a < r->n_axes; a++) bytes += (r->extent[a] - 1) * r->stride[a];
    return (int64_t)bytes;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* 1 if a and b share a byte, restricted to their axes from axis_a and axis_b on; b begins `behind` bytes after a. The
 * axis with the larger stride is enumerated, limited to the steps where the two can meet. Axes of equal stride are
 * enumerated together, because only the difference of their steps counts. *steps bounds the work. */
static int meet(const gdn_region *a, int axis_a, const gdn_region *b, int axis_b, int64_t behind, int *steps)
{
    const int64_t reach_a = reach(a, axis_a), reach_b = reach(b, axis_b);
    if (behind >= reach_a || -behind >= reach_b) return 0;
    if ((axis_a == a->n_axes && axis_b == b->n_axes) || --*steps < 0) return 1;
    const int64_t stride_a = axis_a < a->n_axes ? (int64_t)a->stride[axis_a] : 0;
    const int64_t stride_b = axis_b < b->n_axes ? (int64_t)b->stride[axis_b] : 0;
    const int open_a = stride_a >= stride_b, open_b = stride_b >= stride_a;
    const int64_t stride = open_a ? stride_a : stride_b;
    const int64_t inside_a = reach(a, axis_a + open_a), inside_b = reach(b, axis_b + open_b);
    /* behind + k * stride must be above -inside_b and below inside_a; k is b's steps minus a's. */
    int64_t low = floor_divide(-inside_b - behind, stride) + 1;
    int64_t high = floor_divide(inside_a - 1 - behind, stride);
    const int64_t least = open_a ? 1 - (int64_t)a->extent[axis_a] : 0,
                  most = open_b ? (int64_t)b->extent[axis_b] - 1 : 0;
    low = low < least ? least : low;
    high = high > most ? most : high;
    for (int64_t k = low; k <= high; k++)
        if (meet(a, axis_a + open_a, b, axis_b + open_b, behind + k * stride, steps)) return 1;
    return 0;
}

enum { MOST_STEPS = 4096 };

int gdn_regions_overlap(const gdn_region *a, const gdn_region *b)
{
    int steps = MOST_STEPS;
    if (a->begin == a->end || b->begin == b->end || a->object != b->object) return 0;
    if (a->end <= b->begin || b->end <= a->begin) return 0;
    /* Fast path for two views into one fused buffer, such as q and k of a projection: blocks of the same stride are
     * disjoint if b's block fits in the gap after a's. */
    if (a->outer_stride && a->outer_stride == b->outer_stride) {
        const uint64_t stride = a->outer_stride;
        const uint64_t behind =
            b->begin >= a->begin ? (b->begin - a->begin) % stride : (stride - (a->begin - b->begin) % stride) % stride;
        if (behind >= a->inner_span && behind + b->inner_span <= stride) return 0;
    }
    return meet(a, 0, b, 0, (int64_t)(b->begin - a->begin), &steps);
}

static gdn_status check_apart(const gdn_region *written, const gdn_region *const *others, int n)
{
    for (int i = 0; i < n; i++)
        if (others[i] != written && !(others[i]->one_pool && written->one_pool) &&
            gdn_regions_overlap(written, others[i]))
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "%s (bytes %#llx to %#llx) is written and overlaps %s (bytes %#llx to %#llx)",
                            written->name, (unsigned long long)written->begin, (unsigned long long)written->end,
                            others[i]->name, (unsigned long long)others[i]->begin, (unsigned long long)others[i]->end);
    return GDN_OK;
}

gdn_status gdn_workspace_resolve(const gdn_context *ctx, uint64_t bytes, const gdn_span *span, gdn_problem *p)
{
    gdn_region *const workspace = gdn_workspace_region(p);
    gdn_status status =
        gdn_span_resolve(ctx, "workspace", span, bytes, bytes ? 64 : 1, !p->empty, &p->workspace, workspace);
    const gdn_region *used[GDN_MAX_REGIONS];
    int n_used = 0;
    workspace->written = 1;
    for (int i = 0; i <= p->n_regions; i++)
        if (p->regions[i].begin != p->regions[i].end) used[n_used++] = &p->regions[i];
    for (int i = 0; i < n_used && !status; i++)
        if (used[i]->written) status = check_apart(used[i], used, n_used);
    return status;
}
