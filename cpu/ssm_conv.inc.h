/* ssm_conv on a vector unit: reference/ssm_conv.c has the steps. The sources of the instruction sets
 * (cpu/ssm_conv_<isa>.c) include this file after simd/<isa>.h.
 *
 * Items. An item is one sequence and one block of channels, so no two items write the same byte, and the history needs
 * no lock. Inside an item everything is a row of `width` elements: a token of x, a conv state entry, or a row of zeros.
 * tap_row() finds the row of a position. So the first tokens of a call are computed like all others.
 *
 * Types. The element types of the usual calls are constants of the loops (conv_dispatch()). These calls have F32
 * everywhere; or F16 or BF16 in x, out and history, with weights of F32 or that type. The general version tests types
 * at every vector.
 *
 * Visits. A block is processed TOKENS tokens at a time. A visit of a vector of channels loads kernel_width - 1 + TOKENS
 * rows and the weights once and computes TOKENS outputs. Their independent chains hide the latency of silu. A visit
 * prefetches the tokens of the visit after the next: tokens are far apart (32 KB for 8192 channels), and hardware
 * prefetchers do not follow. The first visit, which is the only one of a decode step, prefetches within its own rows,
 * across pages.
 *
 * Weights. Tap-major weights are used in place. Others are gathered into a small array, once per run of a block. The
 * usual weights have 4 packed taps per channel. For a few tokens they are transposed in registers instead, because
 * weights are half of all bytes of a decode step, and gathering would read them twice.
 *
 * History. It is written last, from x, when no token needs an overwritten entry any more. The exception is a decode
 * step in place: it overwrites one entry, channel by channel, after it has read the channel's taps. Stores to out
 * bypass the caches if out is too large for them. */
#include <string.h>

#include "cpu/cpu.h"
#include "numerics/convert.h"
#include "simd/elementary.inc.h"
#include "simd/typed.inc.h"

enum {
    MAX_WIDTH = 16,   /* of the kernel */
    TOKENS = 4,       /* outputs of one visit of a vector of channels */
    AHEAD = 2,        /* prefetch distance in visits */
    STREAM = 4 << 20, /* bytes of out from which caches do not keep it until it is read */
    LONG = 8,         /* tokens of a sequence from which gathering packed weights pays */
    SMALL = 1 << 16,  /* outputs per thread up to which every thread gets one run of items */
    WIDTH_MIN = 256,  /* channels of a block */
    WIDTH_MAX = 4096,
    GATHERED = 16384, /* weights of a block that is gathered */
    LINE_32 = 16,     /* elements of a cache line */
    LINE_16 = 32,
    NEAR_32 = 64, /* prefetch distance in channels within a row, for a visit that no visit has prefetched for */
    NEAR_16 = 256,
    SKEW = 80,  /* puts the taps of a channel into different cache sets */
    PAGE = 4096 /* bytes after which the low bits of addresses repeat */
};

static const float zeros[WIDTH_MAX];

typedef struct conv_item {
    const gdn_ssm_conv_call *p;
    gdn_conv_sequence q;
    int64_t c0, width;         /* the block of channels */
    const char *bias, *weight; /* of the block; weight is tap-major unless `packed` */
    int weight_dtype;          /* F32 if it has been gathered */
    int64_t stride_tap;        /* of a tap-major weight, in elements */
    int packed;                /* weight is [channel][4] */
    int dealt;                 /* gathered, with each 2 * GDN_VL channels split into halves */
    int stream;                /* out is too large to stay in the caches, and aligned */
    int64_t near;              /* prefetch distance in channels within the rows, or 0 */
    int n_old;                 /* the first rows of a visit, which may be of the history */
    char *keep;                /* for one token in place: the conv state entry to write, or NULL */
} conv_item;

/* The compile-time constants of the loops. ANY: tested at run time. */
enum { ANY = -1 };
typedef struct conv_form {
    int rows, weight; /* types: of x, out and history; of the weight as it is used */
    int kernel_width, silu, packed;
} conv_form;

GDN_INLINE int64_t row_bytes(int dtype, int64_t n) { return dtype == GDN_F32 ? 4 * n : 2 * n; }

/* Step 1, history: the row of x(position). */
static inline const char *tap_row(const conv_item *it, int64_t position)
{
    const gdn_ssm_conv_call *p = it->p;
    if (position >= it->q.position)
        return gdn_token_at(&p->x, it->q.s, it->q.first, (int32_t)(position - it->q.position), 0) +
               row_bytes(p->x.dtype, it->c0);
    if (position < 0 || it->q.src < 0) return (const char *)zeros;
    return gdn_history_at(&p->history, it->q.src, (int32_t)position) + row_bytes(p->history.dtype, it->c0);
}

/* Loads the 4 adjacent taps of each of n channels. */
GDN_INLINE void load_packed(const char *weight, int dtype, int64_t c, int n, vf w[4])
{
    if (n == GDN_VL) {
        v_load4_typed(weight, dtype, c, w);
        return;
    }
    float taps[4 * GDN_VL] = { 0 };
    for (int i = 0; i < 4 * n; i += GDN_VL)
        v_store(taps + i, v_load_typed(weight, dtype, 4 * c + i, 4 * n - i > GDN_VL ? GDN_VL : 4 * n - i));
    v_load4(taps, w);
}

/* Prefetches the n channels from c on of a visit's rows and of packed weights. */
GDN_INLINE void prefetch_near(const conv_item *it, conv_form form, const char *const *row, int n_out, int64_t c, int n)
{
    const int x = form.rows == ANY ? it->p->x.dtype : form.rows;
    const int w = form.weight == ANY ? it->weight_dtype : form.weight;
    if (c % (x == GDN_F32 ? LINE_32 : LINE_16) == 0) /* once per cache line */
        for (int j = 0; j < form.kernel_width - 1 + n_out; j++) v_prefetch(row[j] + row_bytes(x, c));
    for (int64_t at = 0; form.packed && at < row_bytes(w, 4 * n); at += row_bytes(GDN_F32, LINE_32))
        v_prefetch(it->weight + row_bytes(w, 4 * c) + at);
}

/* Loads the taps of the n channels from c on. */
GDN_INLINE void load_weight(const conv_item *it, conv_form form, int64_t c, int n, vf *w)
{
    const int dtype = form.weight == ANY ? it->weight_dtype : form.weight;
    if (!form.packed) {
        for (int j = 0; j < form.kernel_width; j++) w[j] = v_load_typed(it->weight, dtype, j * it->stride_tap + c, n);
    } else {
        load_packed(it->weight, dtype, c, n, w);
    }
}

/* Loads n channels of row j of a visit, from channel c of the block on. */
GDN_INLINE vf load_row(const conv_item *it, conv_form form, const char *const *row, int j, int64_t c, int n)
{
    const int dtype = form.rows != ANY ? form.rows : j < it->n_old ? it->p->history.dtype : it->p->x.dtype;
    return v_load_typed(row[j], dtype, c, n);
}

/* Stores n elements of a row to the history; equal types copy the bits. */
GDN_INLINE void keep_row(char *to, int to_dtype, const char *from, int dtype, int64_t c, int n)
{
    if (to_dtype == dtype) memcpy(to + row_bytes(dtype, c), from + row_bytes(dtype, c), (size_t)row_bytes(dtype, n));
    else v_store_typed(to, to_dtype, c, v_load_typed(from, dtype, c, n), n);
}

/* Step 2, taps, oldest first, for n lanes from channel c of the block on and n_out tokens; row[i + j] is tap
 * j of token i. */
GDN_INLINE void conv_taps(const conv_item *it, conv_form form, const char *const *row, int64_t c, int n, int n_out,
                          vf *u)
{
    vf w[MAX_WIDTH];
    load_weight(it, form, c, n, w);
    const int bias = form.rows == GDN_F32 ? GDN_F32 : it->p->bias_dtype;
    for (int i = 0; i < n_out; i++) u[i] = v_load_typed(it->bias, bias, c, n);
    for (int j = 0; j < form.kernel_width; j++)
        for (int i = 0; i < n_out; i++) u[i] = v_fma(w[j], load_row(it, form, row, i + j, c, n), u[i]);
}

/* Step 2, taps, for one half (v_load_half()) of 2 * GDN_VL channels. */
GDN_INLINE void conv_half(const conv_item *it, conv_form form, int dealt, const char *const *row, int64_t c, int half,
                          int n_out, vf *u)
{
    const int bias = it->p->bias_dtype;
    vf w[MAX_WIDTH];
    if (form.packed) v_load4_half(it->weight, form.weight, c, half, form.rows, w);
    for (int j = 0; !form.packed && j < form.kernel_width; j++) {
        const int64_t at = j * it->stride_tap + c;
        w[j] = dealt ? v_load_typed(it->weight, form.weight, at + half * GDN_VL, GDN_VL)
                     : v_load_half(it->weight, form.weight, at, half, form.rows);
    }
    for (int i = 0; i < n_out; i++) u[i] = it->p->bias ? v_load_half(it->bias, bias, c, half, form.rows) : v_zero();
    for (int j = 0; j < form.kernel_width; j++)
        for (int i = 0; i < n_out; i++)
            u[i] = v_fma(w[j], v_load_half(row[i + j], form.rows, c, half, form.rows), u[i]);
}

/* Steps 2 to 4 for 16-bit rows, for all whole pairs of vectors of the block. Returns the number of channels done. */
GDN_INLINE int64_t conv_halves(const conv_item *it, conv_form form, int dealt, const char *const *row, char *const *out,
                               const char *const *ahead, int n_ahead, int n_out)
{
    const int together = 2 * n_out < GDN_GROUP ? 2 * n_out : GDN_GROUP;
    int64_t c = 0;
    for (; c + 2 * GDN_VL <= it->width; c += 2 * GDN_VL) {
        for (int i = 0; i < n_ahead && c % LINE_16 == 0; i++) {
            if (n_out == 1) v_prefetch(ahead[i] + 2 * c);
            else v_prefetch_l2(ahead[i] + 2 * c);
        }
        if (it->near) prefetch_near(it, form, row, n_out, c + it->near, 2 * GDN_VL);
        vf u[2 * TOKENS];
        for (int half = 0; half < 2; half++) conv_half(it, form, dealt, row, c, half, n_out, u + half * n_out);
        for (int i = 0; form.silu && i < 2 * n_out; i += together) v_silu_n(u + i, together);
        if (n_out == 1 && it->keep) keep_row(it->keep, form.rows, row[form.kernel_width - 1], form.rows, c, 2 * GDN_VL);
        for (int i = 0; i < n_out; i++) v_store_halves(out[i], form.rows, c, u[i], u[n_out + i], it->stream);
    }
    return c;
}

/* Steps 2 to 4 for the last channels, from c on, that are no whole vector or pair of vectors. A visit calls it at most
 * twice, so all forms share one copy. */
static __attribute__((noinline)) void conv_rest(const conv_item *it, const char *const *row, char *const *out,
                                                int64_t c, int n_out)
{
    const gdn_ssm_conv_call *p = it->p;
    const conv_form form = { ANY, ANY, p->kernel_width, p->silu, it->packed };
    for (vf u[TOKENS]; c < it->width; c += GDN_VL) {
        const int n = (int)(it->width - c < GDN_VL ? it->width - c : GDN_VL);
        conv_taps(it, form, row, c, n, n_out, u);
        for (int i = 0; i < n_out; i++) v_store_typed(out[i], p->result.dtype, c, form.silu ? v_silu(u[i]) : u[i], n);
        if (n_out == 1 && it->keep)
            keep_row(it->keep, p->history_out.dtype, row[p->kernel_width - 1], p->x.dtype, c, n);
    }
}

/* Steps 2 to 4, taps, activation and output, for all channels of the block and n_out tokens. Prefetches the n_ahead
 * rows of `ahead`. The local copies show the compiler that no store to out changes a pointer. */
GDN_INLINE void conv_tokens(const conv_item *item, const char *const *rows, char *const *outs, const char *const *ahead,
                            int n_ahead, int n_out, conv_form form)
{
    const conv_item it = *item;
    const int x = form.rows == ANY ? it.p->x.dtype : form.rows, to = form.rows == ANY ? it.p->result.dtype : form.rows;
    const int history = form.rows == ANY ? it.p->history_out.dtype : form.rows;
    const int halves = form.packed ? form.rows == GDN_BF16 : form.rows == GDN_F16 || form.rows == GDN_BF16;
    const char *row[MAX_WIDTH + TOKENS];
    char *out[TOKENS];
    for (int j = 0; j < form.kernel_width - 1 + n_out; j++) row[j] = rows[j];
    for (int i = 0; i < n_out; i++) out[i] = outs[i];
    vf u[TOKENS];
    int64_t c = 0;
    if (halves && form.rows == GDN_BF16 && form.weight == GDN_F32 && !form.packed && it.dealt)
        c = conv_halves(&it, form, 1, row, out, ahead, n_ahead, n_out);
    else if (halves) c = conv_halves(&it, form, 0, row, out, ahead, n_ahead, n_out);
    for (; !halves && c + GDN_VL <= it.width; c += GDN_VL) {
        for (int i = 0; i < n_ahead && c % (x == GDN_F32 ? LINE_32 : LINE_16) == 0; i++) { /* once per cache line */
            if (n_out == 1) v_prefetch(ahead[i] + row_bytes(x, c));
            else v_prefetch_l2(ahead[i] + row_bytes(x, c)); /* two visits do not fit the L1 cache */
        }
        if (it.near) prefetch_near(&it, form, row, n_out, c + it.near, GDN_VL);
        conv_taps(&it, form, row, c, GDN_VL, n_out, u);
        if (form.silu) v_silu_n(u, n_out);
        if (n_out == 1 && it.keep) keep_row(it.keep, history, row[form.kernel_width - 1], x, c, GDN_VL);
        for (int i = 0; i < n_out; i++) {
            if (it.stream) v_stream_typed(out[i], to, c, u[i]);
            else v_store_typed(out[i], to, c, u[i], GDN_VL);
        }
    }
    if (c < it.width) conv_rest(item, rows, outs, c, n_out);
}

/* 1 if x, out and history have one type that the loops have as a constant, and the weight is of that type or F32. */
static int is_alike(const gdn_ssm_conv_call *p, int weight_dtype)
{
    const int rows = p->x.dtype;
    return p->result.dtype == rows && p->history.dtype == rows && (weight_dtype == GDN_F32 || weight_dtype == rows);
}

/* The same, specialised for the compiler: number of tokens, types, usual width and weights, silu. */
static void conv_dispatch(const conv_item *it, const char *const *row, char *const *out, const char *const *ahead,
                          int n_ahead, int n_out)
{
    const gdn_ssm_conv_call *p = it->p;
    const int kernel_width = p->kernel_width, weight = it->weight_dtype, rows = p->x.dtype;
    const int one = is_alike(p, weight);
    const int silu = p->silu;
#define CONV(ROWS, WEIGHT, KW, SILU, PACKED)                                                                           \
    do {                                                                                                               \
        const conv_form form = { ROWS, WEIGHT, KW, SILU, PACKED };                                                     \
        if (n_out == 1) conv_tokens(it, row, out, ahead, n_ahead, 1, form);                                            \
        else conv_tokens(it, row, out, ahead, n_ahead, TOKENS, form);                                                  \
        return;                                                                                                        \
    } while (0)
#define CONV_SILU(ROWS, WEIGHT, KW, PACKED)                                                                            \
    do {                                                                                                               \
        if (silu) CONV(ROWS, WEIGHT, KW, 1, PACKED);                                                                   \
        else CONV(ROWS, WEIGHT, KW, 0, PACKED);                                                                        \
    } while (0)
#define CONV_16(ROWS, WEIGHT)                                                                                          \
    do {                                                                                                               \
        if (it->packed) CONV(ROWS, WEIGHT, 4, silu, 1);                                                                \
        else CONV(ROWS, WEIGHT, 4, silu, 0);                                                                           \
    } while (0)
    const int plain = one && rows == GDN_F32 && (!p->bias || p->bias_dtype == GDN_F32);
    if (plain && it->packed) CONV_SILU(GDN_F32, GDN_F32, 4, 1);
    if (plain && kernel_width == 4) CONV_SILU(GDN_F32, GDN_F32, 4, 0);
    if (plain) CONV_SILU(GDN_F32, GDN_F32, kernel_width, 0);
    if (one && kernel_width == 4) {
        if (rows == GDN_BF16 && weight == GDN_F32) CONV_16(GDN_BF16, GDN_F32);
        if (rows == GDN_BF16) CONV_16(GDN_BF16, GDN_BF16);
        if (rows == GDN_F16 && weight == GDN_F32) CONV_16(GDN_F16, GDN_F32);
        if (rows == GDN_F16) CONV_16(GDN_F16, GDN_F16);
    }
    CONV(ANY, ANY, kernel_width, silu, it->packed);
#undef CONV_16
#undef CONV_SILU
#undef CONV
}

/* The conv state entry of a history row that keeps x(position). */
static inline char *kept_row(const conv_item *it, int32_t row, int64_t position)
{
    const gdn_ssm_conv_call *p = it->p;
    return gdn_history_at(&p->history_out, row, (int32_t)position) + row_bytes(p->history_out.dtype, it->c0);
}

/* Copies the input at a position to `to`, which is in a row of history_out. */
static void copy_entry(const conv_item *it, int64_t position, char *to)
{
    const gdn_ssm_conv_call *p = it->p;
    const char *from = tap_row(it, position);
    const int kept = p->history_out.dtype, given = position >= it->q.position ? p->x.dtype : p->history.dtype;
    if (to == from) return; /* a row that is written in place already has it */
    if (kept == given) memcpy(to, from, (size_t)row_bytes(kept, it->width));
    for (int64_t c = 0; kept != given && c < it->width; c += GDN_VL)
        keep_row(to, kept, from, given, c, (int)(it->width - c < GDN_VL ? it->width - c : GDN_VL));
}

/* Step 5, keep history. */
static void conv_keep(const conv_item *it)
{
    const int32_t n = gdn_conv_checkpoints(it->p, it->q);
    for (int32_t i = 0; i < n; i++) {
        const int32_t row = gdn_conv_checkpoint_of(it->p, it->q.s, i);
        const gdn_conv_kept kept = gdn_conv_kept_by_checkpoint(it->p, it->q, i);
        for (int32_t at = kept.from; row >= 0 && at < kept.end; at++) copy_entry(it, at, kept_row(it, row, at));
    }
    const gdn_conv_kept kept = gdn_conv_kept_newest(it->p, it->q);
    for (int32_t at = kept.from; !it->keep && at < kept.end; at++) copy_entry(it, at, kept_row(it, it->q.dst, at));
}

/* Step 1 in a tree: the rows of a visit. The first n are before token t: its ancestors, and before them the history,
 * from the position before the sequence's first token backwards. Returns how many may be of the history. */
static int tree_rows(const conv_item *it, int32_t t, int n, int n_out, const char **row)
{
    int32_t of = t;
    int n_old = 0;
    for (int j = n - 1; j >= 0; j--) {
        of = of < 0 ? of - 1 : gdn_conv_parent_of(it->p, it->q.first, of);
        row[j] = tap_row(it, (int64_t)it->q.position + of);
        n_old += of < 0;
    }
    for (int i = 0; i < n_out; i++) row[n + i] = tap_row(it, (int64_t)it->q.position + t + i);
    return n_old;
}

/* Runs the tokens of a tree. Tokens are processed together while each follows the token before it. */
GDN_INLINE void conv_tree(conv_item *it)
{
    const gdn_ssm_conv_call *p = it->p;
    const char *row[MAX_WIDTH + TOKENS];
    char *out[TOKENS];
    for (int32_t t = 0, n_out; t < it->q.T; t += n_out) {
        int together = 1;
        while (together < TOKENS && t + together < it->q.T &&
               gdn_conv_parent_of(p, it->q.first, t + together) == t + together - 1)
            together++;
        n_out = together == TOKENS ? TOKENS : 1;
        it->n_old = tree_rows(it, t, p->kernel_width - 1, n_out, row);
        for (int i = 0; i < n_out; i++)
            out[i] = gdn_token_at(&p->result, it->q.s, it->q.first, t + i, 0) + row_bytes(p->result.dtype, it->c0);
        conv_dispatch(it, row, out, NULL, 0, n_out);
    }
    conv_keep(it);
}

/* The prefetch distance within rows. The last channels of a block prefetch past it, into a block that another thread
 * may compute: so it is at most a quarter of the block. */
static int64_t near_of(int dtype, int64_t width)
{
    const int64_t near = dtype == GDN_F32 ? NEAR_32 : NEAR_16, part = width / 4 / LINE_16 * LINE_16;
    return near < part ? near : part;
}

GDN_INLINE void conv_sequence(conv_item *it)
{
    const gdn_ssm_conv_call *p = it->p;
    const int kernel_width = p->kernel_width;
    const int one = it->q.T == 1 && p->history.n_slots > 0; /* of a kernel of width 1 the ring may have no slots */
    it->keep = one && gdn_conv_in_place(p, it->q) ? kept_row(it, it->q.dst, it->q.position) : NULL;
    if ((p->has & GDN_HAS_TREE) && !gdn_is_chain(p->parent, it->q.first, it->q.T)) {
        conv_tree(it);
        return;
    }
    const char *row[MAX_WIDTH + TOKENS], *ahead[MAX_WIDTH + 2 * TOKENS];
    char *out[TOKENS];

    for (int32_t t = 0, n_out; t < it->q.T; t += n_out) {
        n_out = it->q.T - t >= TOKENS ? TOKENS : 1;
        for (int j = 0; j < kernel_width - 1 + n_out; j++)
            row[j] = tap_row(it, (int64_t)it->q.position + t - kernel_width + 1 + j);
        int n_ahead = 0;
        it->n_old = t < kernel_width - 1 ? kernel_width - 1 - t : 0;
        it->near = t == 0 ? near_of(p->x.dtype, it->width) : 0;
        for (int i = 0; i < n_out; i++) {
            out[i] = gdn_token_at(&p->result, it->q.s, it->q.first, t + i, 0) + row_bytes(p->result.dtype, it->c0);
            const int64_t t_ahead = t + AHEAD * n_out + i;
            if (t_ahead < it->q.T) ahead[n_ahead++] = tap_row(it, it->q.position + t_ahead);
        }
        conv_dispatch(it, row, out, ahead, n_ahead, n_out);
    }
    conv_keep(it);
}

static int is_packed(const gdn_ssm_conv_call *p)
{
    const int64_t element = row_bytes(p->weight_dtype, 1);
    return p->kernel_width == 4 && p->weight_stride_tap == element && p->weight_stride_channel == 4 * element;
}
static int is_tap_major(const gdn_ssm_conv_call *p)
{
    return p->weight_stride_channel == row_bytes(p->weight_dtype, 1);
}

/* Gathers the block's weights, tap-major. Packed ones are transposed: GDN_VL rows, of which kernel_width columns count.
 * If such a row would end beyond the tensor, they are copied one by one. */
static void gather_weight(const gdn_ssm_conv_call *p, int64_t c0, int64_t width, float *weight, int64_t stride_tap)
{
    const int kernel_width = p->kernel_width;
    const int64_t stride = p->weight_stride_channel;
    const char *base = gdn_memory(p->weight) + c0 * stride;
    const int64_t end = (p->n_channels - c0 - 1) * stride + 4 * kernel_width;
    int64_t c = 0;
    if (is_packed(p))
        for (; c + GDN_VL <= width; c += GDN_VL) {
            vf r[4];
            load_packed(base, p->weight_dtype, c, GDN_VL, r);
            for (int j = 0; j < 4; j++) v_store(weight + j * stride_tap + c, r[j]);
        }
    else if (p->weight_dtype == GDN_F32 && p->weight_stride_tap == 4 && kernel_width <= GDN_VL)
        for (; c + GDN_VL <= width && (c + GDN_VL - 1) * stride + 4 * GDN_VL <= end; c += GDN_VL) {
            vf r[GDN_VL];
            for (int i = 0; i < GDN_VL; i++) r[i] = v_load((const float *)(const void *)(base + (c + i) * stride));
            v_transpose(r);
            for (int j = 0; j < GDN_VL && j < kernel_width; j++) v_store(weight + j * stride_tap + c, r[j]);
        }
    for (; c < width; c++)
        for (int j = 0; j < kernel_width; j++)
            weight[j * stride_tap + c] =
                gdn_load_element(base + c * stride + j * p->weight_stride_tap, p->weight_dtype, 0);
}

/* Reorders gathered weights into the order that conv_halves() needs for BF16 rows. */
static void deal_weight(int64_t width, float *weight, int64_t stride_tap)
{
    for (int j = 0; j < 4; j++)
        for (int64_t c = 0; c + 2 * GDN_VL <= width; c += 2 * GDN_VL) {
            float *at = weight + j * stride_tap + c;
            const vf half0 = v_load_half(at, GDN_F32, 0, 0, GDN_BF16), half1 = v_load_half(at, GDN_F32, 0, 1, GDN_BF16);
            v_store(at, half0);
            v_store(at + GDN_VL, half1);
        }
}

/* The stride of taps in gathered weights, in floats: whole pages and SKEW. */
static int64_t gathered_stride(int64_t width) { return (width < PAGE / 4 ? PAGE / 4 : width) + SKEW; }

static void ssm_conv_plan(const void *call, int32_t n_threads, gdn_plan *plan)
{
    const gdn_ssm_conv_call *p = call;
    const int64_t n_outputs = (int64_t)p->n_tokens * p->n_channels;
    /* Wide blocks stream best; they are narrower only to give every thread two items. */
    int64_t width = WIDTH_MAX, n_blocks;
    const int in_place = is_tap_major(p) || (is_packed(p) && p->n_tokens < (int64_t)p->n_seqs * LONG);
    while (!in_place && width * p->kernel_width > GATHERED) width /= 2;
    for (;; width /= 2) {
        n_blocks = (p->n_channels + width - 1) / width;
        if (width <= WIDTH_MIN || n_blocks * p->n_seqs >= 2 * (int64_t)n_threads) break;
    }
    plan->n_items = n_blocks * p->n_seqs;
    /* Each run gathers weights and starts with cold caches. Short calls therefore have one run per thread. */
    const int64_t n_runs = n_outputs < SMALL * (int64_t)n_threads ? n_threads : 4 * (int64_t)n_threads;
    plan->cpu.grain = plan->n_items > n_runs ? (plan->n_items + n_runs - 1) / n_runs : 1;
    plan->cut = (int32_t)width;
    plan->variant = GDN_VARIANT_CHANNELS;
    /* Weights are gathered unless they are tap-major, or packed while no sequence can be LONG. */
    if (!is_tap_major(p) && !(is_packed(p) && p->n_tokens < LONG))
        plan->cpu.scratch_bytes = 4 * (uint64_t)(p->kernel_width * gathered_stride(width) + PAGE / 4);
}

static int aligned64(const gdn_token_view *view)
{
    return ((uintptr_t)view->data | (uintptr_t)view->stride_seq | (uintptr_t)view->stride_token) % 64 == 0;
}

/* Floats to skip in `gathered`, so that a weight is at least a quarter of a page after the output of its channel,
 * modulo pages. If it were just before the output, loads of weights would follow stores with the same low address bits.
 * That stalls them (4K aliasing). */
static int64_t lead_of(const gdn_ssm_conv_call *p, int64_t c0, const float *gathered)
{
    return (int64_t)(((uintptr_t)p->result.data + (uintptr_t)row_bytes(p->result.dtype, c0) + PAGE / 4 -
                      (uintptr_t)gathered) %
                     PAGE / 4);
}

static void ssm_conv_run(const void *call, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const gdn_ssm_conv_call *p = call;
    const int64_t width = plan->cut; /* of a block */
    const int stream =
        (int64_t)p->n_tokens * p->n_channels >= STREAM / row_bytes(p->result.dtype, 1) && aligned64(&p->result);
    const int packed = is_packed(p), tap_major = is_tap_major(p);
    float *const gathered = scratch;

    /* Sequences are innermost, so that they share the block's weights. */
    int64_t have = -1;
    for (int64_t item = first; item < last; item++) {
        const int64_t block = item / p->n_seqs;
        conv_item it = { .p = p, .c0 = block * width, .width = width };
        it.q = gdn_conv_sequence_of(p, (int32_t)(item % p->n_seqs));
        if (!gdn_conv_has_work(it.q)) continue;
        if (it.width > p->n_channels - it.c0) it.width = p->n_channels - it.c0;
        it.packed = packed && (it.q.T < LONG || width * 4 > GATHERED);
        it.weight = gdn_memory(p->weight) + it.c0 * p->weight_stride_channel;
        it.weight_dtype = p->weight_dtype;
        it.stride_tap = p->weight_stride_tap / row_bytes(p->weight_dtype, 1);
        if (!it.packed && !tap_major) {
            float *const taps = gathered + lead_of(p, it.c0, gathered);
            it.weight = (const char *)taps;
            it.weight_dtype = GDN_F32;
            it.stride_tap = gathered_stride(width);
            it.dealt = p->x.dtype == GDN_BF16 && p->kernel_width == 4 && is_alike(p, GDN_F32);
            if (have != block) {
                gather_weight(p, it.c0, it.width, taps, it.stride_tap);
                if (it.dealt) deal_weight(it.width, taps, it.stride_tap);
            }
            have = block;
        }
        it.stream = stream;
        it.bias = p->bias ? gdn_memory(p->bias) + row_bytes(p->bias_dtype, it.c0) : (const char *)zeros;
        conv_sequence(&it);
    }
    if (stream) v_fence();
}
