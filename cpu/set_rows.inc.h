/* set_rows on a vector unit: reference/set_rows.c has the steps. The sources of the instruction sets
 * (cpu/set_rows_<isa>.c) include this file after simd/<isa>.h.
 *
 * The later of two rows with one target must win on any number of threads. An item is one share of one batch's rows.
 * Every item scans the whole index first, because the kind of share depends on it:
 *   - If no target repeats, which is usual, a share is a range of source rows. An increasing index, as for appending to
 *     a cache, proves that at once. For any other index a bitmap of its range decides.
 *   - Otherwise, or if the range is too large for the bitmap, a share is a set of target rows. One thread writes them
 *     in order. A hash chooses the sets, so that neither runs nor strides of targets fall into one share. It keeps
 *     GROUP adjacent rows together, so that threads seldom write to one cache line.
 * Shares of source rows are faster: with shares of target rows, every thread's prefetchers also read the rows of
 * others. Splitting by columns would need no scan of the index, but is slower still.
 *
 * Q8_0 is processed in batches of GDN_VL blocks, of several rows if rows are short. A transpose brings the GDN_VL
 * largest magnitudes into one vector, and scales and reciprocals of all blocks are computed at once. One block at a
 * time would be a dependency chain that the processor cannot overlap enough. */
#include <string.h>

#include "cpu/cpu.h"
#include "simd/typed.inc.h"

enum {
    LIST = 128,            /* rows that are selected before they are written */
    RANGE = 1 << 18,       /* target rows that the bitmap covers: 32 KB */
    GROUP = 8,             /* adjacent target rows in one share */
    STREAM = 1 << 18,      /* bytes to be written from which stores bypass the caches */
    NEAR_ROWS = 2,         /* prefetch distance in rows */
    NEAR_BYTES = 1024,     /* of each, at most */
    SHARE_BYTES = 1 << 16, /* least bytes of source rows in a share: less does not justify waking a thread */
    BLOCK = 32,            /* values of a Q8_0 block */
    BLOCK_BYTES = 34,
    VECTORS = BLOCK / GDN_VL
};

GDN_INLINE void convert_row(const char *src, int src_dtype, char *dst, int dst_dtype, int64_t n_columns)
{
    int64_t j = 0;
    for (; j + 4 * GDN_VL <= n_columns; j += 4 * GDN_VL) {
        vf x[4];
        for (int m = 0; m < 4; m++) x[m] = v_load_typed(src, src_dtype, j + m * GDN_VL, GDN_VL);
        for (int m = 0; m < 4; m++) v_store_typed(dst, dst_dtype, j + m * GDN_VL, x[m], GDN_VL);
    }
    for (; j + GDN_VL <= n_columns; j += GDN_VL)
        v_store_typed(dst, dst_dtype, j, v_load_typed(src, src_dtype, j, GDN_VL), GDN_VL);
    const int n = (int)(n_columns - j);
    if (n) v_store_typed(dst, dst_dtype, j, v_load_typed(src, src_dtype, j, n), n);
}

/* The same, with stores that bypass the caches, into a row of whole cache lines. */
GDN_INLINE void stream_row(const char *src, int src_dtype, char *dst, int dst_dtype, int64_t n_columns)
{
    if (dst_dtype == GDN_F32) {
        int64_t j = 0;
        for (; j + 4 * GDN_VL <= n_columns; j += 4 * GDN_VL)
            for (int m = 0; m < 4; m++)
                v_stream((float *)(void *)dst + j + m * GDN_VL, v_load_typed(src, src_dtype, j + m * GDN_VL, GDN_VL));
        for (; j < n_columns; j += GDN_VL) v_stream((float *)(void *)dst + j, v_load_typed(src, src_dtype, j, GDN_VL));
    } else {
        for (int64_t j = 0; j < n_columns; j += 2 * GDN_VL) {
            uint16_t *to = (uint16_t *)(void *)dst + j;
            const vf x = v_load_typed(src, src_dtype, j, GDN_VL), y = v_load_typed(src, src_dtype, j + GDN_VL, GDN_VL);
            if (dst_dtype == GDN_F16) v_stream_f16_pair(to, x, y);
            else v_stream_bf16_pair(to, x, y);
        }
    }
}

/* Blocks of the next batch. */
typedef struct q8_batch {
    int n;
    const char *src[GDN_VL];
    char *dst[GDN_VL];
} q8_batch;

GDN_INLINE void convert_batch(q8_batch *batch, int src_dtype)
{
    const int n = batch->n;
    vf amax[GDN_VL];
    for (int b = n; b < GDN_VL; b++) batch->src[b] = batch->src[0]; /* fills the unused lanes */
    for (int b = 0; b < GDN_VL; b++) {
        amax[b] = v_zero();
        for (int m = 0; m < VECTORS; m++)
            amax[b] = v_larger(v_abs(v_load_typed(batch->src[b], src_dtype, m * GDN_VL, GDN_VL)), amax[b]);
    }
    v_transpose(amax);
    for (int h = GDN_VL / 2; h; h /= 2)
        for (int b = 0; b < h; b++) amax[b] = v_larger(amax[b], amax[b + h]);

    /* d = amax / 127, correctly rounded without a division; 0x1.020408p-7 is 1/127 rounded. */
    const vf c = v_set1(0x1.020408p-7f), inf = v_set1(__builtin_inff());
    const vf q0 = v_mul(amax[0], c);
    vf d = v_fma(v_fma(v_set1(-127.0f), q0, amax[0]), c, q0);
    d = v_sel(v_eq(amax[0], inf), inf, d);
    /* Below 2^-100 the binary16 scale is zero anyway, and the reciprocal might overflow. */
    const vf id = v_sel(vm_or(v_lt(d, v_set1(0x1p-100f)), v_eq(d, inf)), v_zero(), v_div(v_set1(1.0f), d));
    uint16_t scale[GDN_VL];
    float factor[GDN_VL];
    v_store_f16(scale, d);
    v_store(factor, id);

    for (int b = 0; b < n; b++) {
        vf y[VECTORS];
        for (int m = 0; m < VECTORS; m++)
            y[m] = v_mul(v_load_typed(batch->src[b], src_dtype, m * GDN_VL, GDN_VL), v_set1(factor[b]));
        memcpy(batch->dst[b], &scale[b], 2);
        v_store_i8((int8_t *)batch->dst[b] + 2, y);
    }
    batch->n = 0;
}

/* One item: its batch of rows, and its share of them. */
typedef struct rows_item {
    const gdn_set_rows_call *p;
    const char *src, *index;
    char *dst;
    int64_t share, n_shares;
    int64_t first, last; /* source rows to scan */
    int by_target;       /* 1: take those whose target is in the share */
    int scattered;       /* 1: targets do not increase */
    int stream;          /* 1: stores bypass the caches: much is written, in whole cache lines */
    int unique;          /* 1: no target repeats; 0: some may */
} rows_item;

static inline int64_t index_at(const rows_item *it, int64_t i)
{
    const char *at = it->index + i * it->p->index_stride[2];
    return it->p->index_dtype == GDN_I64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

/* Scans the index: are targets scattered, and is it certain that none repeats? */
static void study_index(rows_item *it)
{
    const int64_t n_rows = it->p->n_rows;
    int64_t lowest = INT64_MAX, highest = GDN_NONE;
    it->scattered = 0;
    it->unique = 0;
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t row = index_at(it, i);
        if (row < 0) continue;
        it->scattered |= row <= highest;
        if (row < lowest) lowest = row;
        if (row > highest) highest = row;
    }
    if (!it->scattered) it->unique = 1;
    if (!it->scattered || it->n_shares == 1 || highest - lowest >= RANGE) return;

    uint64_t seen[RANGE / 64], twice = 0;
    memset(seen, 0, ((size_t)(highest - lowest) / 64 + 1) * sizeof seen[0]);
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t row = index_at(it, i);
        if (row < 0) continue;
        const uint64_t bit = (uint64_t)1 << (row - lowest) % 64, word = seen[(row - lowest) / 64];
        twice |= word & bit;
        seen[(row - lowest) / 64] = word | bit;
    }
    it->unique = !twice;
}

/* Step 1, target: the rows of [first, last) that this item writes, in order. Branch-free, because the branch would be
 * unpredictable. */
static inline int select_rows(const rows_item *it, int64_t first, int64_t last, int64_t from[LIST], int64_t to[LIST])
{
    const uint64_t n_shares = it->by_target ? (uint64_t)it->n_shares : 1;
    const uint64_t share = it->by_target ? (uint64_t)it->share : 0;
    int n = 0;
    for (int64_t i = first; i < last; i++) {
        const int64_t row = index_at(it, i);
        const uint32_t hash = (uint32_t)((uint64_t)row / GROUP) * 0x9e3779b1u;
        from[n] = i * it->p->src_stride[2];
        to[n] = row * it->p->dst_stride[2];
        n += (row >= 0) & (hash * n_shares >> 32 == share);
    }
    return n;
}

GDN_INLINE void scatter(const rows_item *it, int src_dtype, int dst_dtype)
{
    const gdn_set_rows_call *p = it->p;
    const int64_t src_size = src_dtype == GDN_F32 ? 4 : 2;
    const int64_t dst_bytes = dst_dtype == GDN_Q8_0  ? p->n_columns / BLOCK * BLOCK_BYTES
                              : dst_dtype == GDN_F32 ? p->n_columns * 4
                                                     : p->n_columns * 2;
    int64_t from[LIST], to[LIST];
    q8_batch batch;
    batch.n = 0;
    for (int64_t first = it->first; first < it->last; first += LIST) {
        const int n = select_rows(it, first, it->last - first < LIST ? it->last : first + LIST, from, to);
        for (int i = 0; i < n; i++) {
            if (it->scattered && !it->stream) { /* for a run of rows the hardware prefetches better */
                const int ahead = i + NEAR_ROWS < n ? i + NEAR_ROWS : i;
                for (int64_t k = 0; k < dst_bytes && k < NEAR_BYTES; k += 64) v_prefetchw(it->dst + to[ahead] + k);
            }
            const char *src = it->src + from[i];
            char *dst = it->dst + to[i];
            if (dst_dtype != GDN_Q8_0 && it->stream) {
                stream_row(src, src_dtype, dst, dst_dtype, p->n_columns);
                continue;
            }
            if (dst_dtype != GDN_Q8_0) {
                convert_row(src, src_dtype, dst, dst_dtype, p->n_columns);
                continue;
            }
            for (int64_t j = 0; j < p->n_columns; j += BLOCK) {
                batch.src[batch.n] = src + j * src_size;
                batch.dst[batch.n] = dst + j / BLOCK * BLOCK_BYTES;
                if (++batch.n == GDN_VL) convert_batch(&batch, src_dtype);
            }
        }
    }
    if (dst_dtype == GDN_Q8_0 && batch.n) convert_batch(&batch, src_dtype);
}

/* Copies rows of the same type. */
static void copy(const rows_item *it, int64_t bytes)
{
    int64_t from[LIST], to[LIST];
    for (int64_t first = it->first; first < it->last; first += LIST) {
        const int n = select_rows(it, first, it->last - first < LIST ? it->last : first + LIST, from, to);
        for (int i = 0; i < n; i++) memcpy(it->dst + to[i], it->src + from[i], (size_t)bytes);
    }
}

static void scatter_types(const rows_item *it)
{
    const int src_dtype = it->p->src_dtype, dst_dtype = it->p->dst_dtype;
#define PAIR(S, D)                                                                                                     \
    if (src_dtype == (S) && dst_dtype == (D)) scatter(it, S, D)
    PAIR(GDN_F32, GDN_F32);
    else PAIR(GDN_F32, GDN_F16); else PAIR(GDN_F32, GDN_BF16);
    else PAIR(GDN_F32, GDN_Q8_0); else PAIR(GDN_F16, GDN_F32);
    else PAIR(GDN_F16, GDN_BF16); else PAIR(GDN_F16, GDN_Q8_0);
    else PAIR(GDN_BF16, GDN_F32); else PAIR(GDN_BF16, GDN_F16);
    else PAIR(GDN_BF16, GDN_Q8_0); else copy(it, it->p->n_columns * 2);
#undef PAIR
}

/* a * b of sizes, or INT64_MAX if that is larger. */
static int64_t product(int64_t a, int64_t b)
{
    int64_t result;
    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

static void set_rows_plan(const void *call, int32_t n_threads, gdn_plan *plan)
{
    const gdn_set_rows_call *p = call;
    const int64_t n_batches = (int64_t)p->n_batch[0] * p->n_batch[1];
    const int64_t bytes = product(product(p->n_rows, p->n_columns), p->src_dtype == GDN_F32 ? 4 : 2);
    /* Every share scans the whole index, so there are at most as many as threads. */
    int64_t n_shares = bytes / SHARE_BYTES;
    if (n_shares > n_threads) n_shares = n_threads;
    if (n_shares < 1 || n_batches >= 4 * (int64_t)n_threads) n_shares = 1;
    plan->n_items = product(n_batches, n_shares);
    const int64_t per_run = bytes > 0 ? SHARE_BYTES * n_shares / bytes : n_batches; /* batches may be small */
    plan->cpu.grain = per_run > 1 ? per_run : 1;
    plan->cut = (int32_t)n_shares;
    plan->variant = GDN_VARIANT_ROWS;
}

/* 1 if stores bypass the caches: whole cache lines that are not in a cache need not be fetched before a store. */
static int streams(const gdn_set_rows_call *p)
{
    const int64_t row = p->n_columns * (p->dst_dtype == GDN_F32 ? 4 : 2);
    return p->dst_dtype != GDN_Q8_0 &&
           product(product(row, p->n_rows), (int64_t)p->n_batch[0] * p->n_batch[1]) >= STREAM &&
           ((uintptr_t)p->dst | (uintptr_t)row | (uintptr_t)p->dst_stride[0] | (uintptr_t)p->dst_stride[1] |
            (uintptr_t)p->dst_stride[2]) %
                   64 ==
               0;
}

static void set_rows_run(const void *call, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const gdn_set_rows_call *p = call;
    const int stream = streams(p);
    (void)scratch;
    for (int64_t item = first; item < last; item++) {
        const int64_t batch = item / plan->cut, b = batch / p->n_batch[1], c = batch % p->n_batch[1];
        rows_item it = {
            .p = p,
            .src = gdn_memory(p->src) + b * p->src_stride[0] + c * p->src_stride[1],
            .dst = gdn_memory(p->dst) + b * p->dst_stride[0] + c * p->dst_stride[1],
            .index = gdn_memory(p->index) + b % p->index_batch[0] * p->index_stride[0] +
                     c % p->index_batch[1] * p->index_stride[1],
            .share = item % plan->cut,
            .n_shares = plan->cut,
            .first = 0,
            .last = p->n_rows,
            .stream = stream,
        };
        study_index(&it);
        it.by_target = it.n_shares > 1 && !it.unique;
        if (!it.by_target) {
            it.first = p->n_rows * it.share / it.n_shares;
            it.last = p->n_rows * (it.share + 1) / it.n_shares;
        }
        scatter_types(&it);
    }
    if (stream) v_fence();
}
