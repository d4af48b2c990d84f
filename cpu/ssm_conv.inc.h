/* ssm_conv on a vector unit: see reference/ssm_conv.c for the steps. Included by ssm_conv_<isa>.c after that
 * instruction set's vocabulary and v_load4(p, r), which loads VL groups of 4 floats and puts float j of
 * group i into lane i of r[j].
 *
 * An item is one sequence and one block of channels, so that no two items share a written byte and the
 * ring of the history needs no lock. Inside an item everything is a row of `width` floats: a token of x, a
 * column of the history, or a row of zeros. tap_row() says which of them holds a position, and after that
 * the first tokens of a call are computed like all others.
 *
 * The block goes down its tokens TOKENS at a time. Each visit of a vector of channels loads
 * kernel_width - 1 + TOKENS rows and the weights once and computes TOKENS outputs, whose independent
 * chains hide the latency of silu. A visit prefetches the tokens of the visit after the next, because
 * tokens lie far apart (32 KB for 8192 channels) and no hardware prefetcher follows; the first visit, which
 * is the only one of a decode step, prefetches within its own rows, across the pages.
 *
 * Tap-major weights are used where they are; others are gathered into a small array, once per run of a
 * block. For a few tokens of the usual weights, 4 packed taps to a channel, that would be a second pass over
 * what is half of all bytes of a decode step, so that these are then turned in registers.
 *
 * The history is written last, from x: by then no token needs an overwritten column any more. Only the one
 * column that a decode step in place overwrites is written on the way, channel by channel, after its taps have
 * been read. out goes past the caches when it is too large for them (measured: a third less time on two cores). */
#include "cpu/cpu.h"
#include "simd/elementary.inc.h"
#include "simd/typed.inc.h"

enum {
    MAX_WIDTH = 16,   /* of the kernel */
    TOKENS = 4,       /* outputs of one visit of a vector of channels */
    AHEAD = 2,        /* visits from the prefetch of a token to its use */
    NEAR = 64,        /* channels from a prefetch within a row to its use, where no visit has prefetched */
    STREAM = 4 << 20, /* bytes of out from which it is more than caches keep for whoever reads it next */
    LONG = 8,         /* tokens of a sequence for which packed weights are worth gathering */
    SMALL = 1 << 16,  /* outputs per thread up to which every thread gets one run of items */
    WIDTH_MIN = 256,  /* channels of a block */
    WIDTH_MAX = 4096,
    GATHERED = 16384, /* weights of a block that is gathered */
    SKEW = 80,        /* keeps its taps off each other's cache sets */
    PAGE = 4096       /* bytes after which the low bits of addresses repeat */
};

static const float zeros[WIDTH_MAX];

typedef struct conv_item {
    const gdn_ssm_conv_problem *p;
    int32_t      s, first, length, position; /* the sequence, its first token, its tokens, its first position */
    int32_t      src, dst;                   /* rows of the history, or GDN_NONE */
    int64_t      c0, width;                  /* the block of channels */
    const float *bias, *weight;              /* of the block; weight is tap-major unless `packed` */
    int64_t      stride_tap;                 /* of a tap-major weight, in floats */
    int          packed;                     /* weight is [channel][4] */
    int          stream;                     /* out is too large to stay in the caches, and aligned */
    float       *keep;                       /* one token in place: the column of the history that takes it, or NULL */
} conv_item;

/* Step 1, history: where x(position) lies. */
static inline const float *tap_row(const conv_item *it, int64_t position)
{
    const gdn_ssm_conv_problem *p = it->p;
    const char *row;
    if (position >= it->position)
        row = gdn_token_at(&p->x, it->s, it->first, (int32_t)(position - it->position), 0);
    else if (position < 0 || it->src < 0)
        return zeros;
    else
        row = p->history_in.at.base + it->src * p->history_in.stride_row +
              position % p->n_columns * p->history_in.stride_line;
    return (const float *)(const void *)row + it->c0;
}

/* The taps of the n channels from c on. */
GDN_INLINE void load_weight(const conv_item *it, int64_t c, int n,
                                                              int kernel_width, int packed, vf *w)
{
    if (!packed) {
        for (int j = 0; j < kernel_width; j++) {
            const float *tap = it->weight + j * it->stride_tap + c;
            w[j] = v_load_some(tap, n);
        }
    } else if (n == GDN_VL) {
        for (int j = 0; j < 4; j++) v_prefetch(it->weight + 4 * (c + NEAR) + j * GDN_VL);
        v_load4(it->weight + 4 * c, w);
    } else {
        float tail[4 * GDN_VL] = { 0 };
        for (int i = 0; i < 4 * n; i++) tail[i] = it->weight[4 * c + i];
        v_load4(tail, w);
    }
}

/* Step 2, taps, oldest first, for n lanes from channel c of the block on and n_out tokens; row[i + j] is tap
 * j of token i. */
GDN_INLINE void conv_taps(const conv_item *it, const float *const *row,
                                                            int64_t c, int n, int n_out, int kernel_width,
                                                            int packed, vf *u)
{
    vf w[MAX_WIDTH];
    load_weight(it, c, n, kernel_width, packed, w);
    for (int i = 0; i < n_out; i++) u[i] = v_load_some(it->bias + c, n);
    for (int j = 0; j < kernel_width; j++)
        for (int i = 0; i < n_out; i++) {
            const float *x = row[i + j] + c;
            u[i] = v_fma(w[j], v_load_some(x, n), u[i]);
        }
}

/* Steps 2 to 4, taps, activation and output, for all channels of the block and n_out tokens, while the
 * n_ahead rows of `ahead` are fetched. The copies tell the compiler that no store to out changes a pointer. */
GDN_INLINE void conv_tokens(const conv_item *item, const float *const *rows,
                                                              float *const *outs, const float *const *ahead,
                                                              int n_ahead, int n_out, int kernel_width,
                                                              int silu, int packed)
{
    const conv_item it = *item;
    const float *row[MAX_WIDTH + TOKENS];
    float *out[TOKENS];
    for (int j = 0; j < kernel_width - 1 + n_out; j++) row[j] = rows[j];
    for (int i = 0; i < n_out; i++) out[i] = outs[i];
    vf u[TOKENS];
    int64_t c = 0;
    for (; c + GDN_VL <= it.width; c += GDN_VL) {
        for (int i = 0; i < n_ahead && c % 16 == 0; i++) {
            if (n_out == 1) v_prefetch(ahead[i] + c);
            else v_prefetch_l2(ahead[i] + c); /* two visits are more than the L1 cache holds */
        }
        conv_taps(&it, row, c, GDN_VL, n_out, kernel_width, packed, u);
        if (silu) v_silu_n(u, n_out);
        if (n_out == 1 && it.keep) v_store(it.keep + c, v_load(row[kernel_width - 1] + c));
        for (int i = 0; i < n_out; i++) {
            if (it.stream) v_stream(out[i] + c, u[i]);
            else v_store(out[i] + c, u[i]);
        }
    }
    const int n = (int)(it.width - c);
    if (n == 0) return;
    conv_taps(&it, row, c, n, n_out, kernel_width, packed, u);
    for (int i = 0; i < n_out; i++) v_store_n(out[i] + c, silu ? v_silu(u[i]) : u[i], n);
    if (n_out == 1 && it.keep) v_store_n(it.keep + c, v_load_n(row[kernel_width - 1] + c, n), n);
}

/* The same with what the compiler should know: how many tokens, the usual width and weights, whether silu. */
static void conv_dispatch(const conv_item *it, const float *const *row, float *const *out,
                          const float *const *ahead, int n_ahead, int n_out)
{
    const int kernel_width = it->p->kernel_width;
    const int silu = (it->p->flags & GDN_CONV_SILU) != 0;
#define CONV(N, KW, PACKED)                                                  \
    do {                                                                     \
        if (silu) conv_tokens(it, row, out, ahead, n_ahead, N, KW, 1, PACKED); \
        else conv_tokens(it, row, out, ahead, n_ahead, N, KW, 0, PACKED);    \
    } while (0)
    if (it->packed && n_out == 1) CONV(1, 4, 1);
    else if (it->packed) CONV(TOKENS, 4, 1);
    else if (kernel_width == 4 && n_out == 1) CONV(1, 4, 0);
    else if (kernel_width == 4) CONV(TOKENS, 4, 0);
    else if (n_out == 1) CONV(1, kernel_width, 0);
    else CONV(TOKENS, kernel_width, 0);
#undef CONV
}

/* Where the history keeps x(position). */
static inline float *kept_row(const conv_item *it, int64_t position)
{
    const gdn_ssm_conv_problem *p = it->p;
    return (float *)(void *)(p->history_out.at.base + it->dst * p->history_out.stride_row +
                             position % p->n_columns * p->history_out.stride_line) + it->c0;
}

static void conv_sequence(conv_item *it)
{
    const gdn_ssm_conv_problem *p = it->p;
    const int kernel_width = p->kernel_width;
    const int in_place = it->dst >= 0 && it->src == it->dst && p->history_in.at.base == p->history_out.at.base;
    it->keep = in_place && it->length == 1 ? kept_row(it, it->position) : NULL;
    const float *row[MAX_WIDTH + TOKENS], *ahead[MAX_WIDTH + 2 * TOKENS];
    float *out[TOKENS];

    for (int32_t t = 0, n_out; t < it->length; t += n_out) {
        n_out = it->length - t >= TOKENS ? TOKENS : 1;
        for (int j = 0; j < kernel_width - 1 + n_out; j++)
            row[j] = tap_row(it, (int64_t)it->position + t - kernel_width + 1 + j);
        int n_ahead = 0;
        if (t == 0)
            for (int j = 0; j < kernel_width - 1 + n_out; j++) ahead[n_ahead++] = row[j] + NEAR;
        for (int i = 0; i < n_out; i++) {
            out[i] = (float *)(void *)gdn_token_at(&p->out, it->s, it->first, t + i, 0) + it->c0;
            const int64_t t_ahead = t + AHEAD * n_out + i;
            if (t_ahead < it->length) ahead[n_ahead++] = tap_row(it, it->position + t_ahead);
        }
        conv_dispatch(it, row, out, ahead, n_ahead, n_out);
    }
    if (it->dst < 0 || it->keep) return;

    /* Step 5, keep history: the newest n_columns positions; those from before this call are already there
     * when the row is the one that was read. */
    const int64_t end = (int64_t)it->position + it->length;
    int64_t position = end > p->n_columns ? end - p->n_columns : 0;
    if (in_place && position < it->position) position = it->position;
    for (; position < end; position++) {
        const float *from = tap_row(it, position);
        float *to = kept_row(it, position);
        int64_t c = 0;
        for (; c + GDN_VL <= it->width; c += GDN_VL) v_store(to + c, v_load(from + c));
        if (c < it->width) v_store_n(to + c, v_load_n(from + c, (int)(it->width - c)), (int)(it->width - c));
    }
}

static int is_packed(const gdn_ssm_conv_problem *p)
{
    return p->kernel_width == 4 && p->weight_stride_tap == 4 && p->weight_stride_channel == 16;
}
static int is_tap_major(const gdn_ssm_conv_problem *p) { return p->weight_stride_channel == 4; }

/* The block's weights, tap-major. Packed ones come in by transposing VL rows of which kernel_width columns
 * count; where such a row would end beyond the tensor, one by one. */
static void gather_weight(const gdn_ssm_conv_problem *p, int64_t c0, int64_t width, float *weight, int64_t stride_tap)
{
    const int kernel_width = p->kernel_width;
    const int64_t stride = p->weight_stride_channel;
    const char *base = p->weight.base + c0 * stride;
    const int64_t end = (p->n_channels - c0 - 1) * stride + 4 * kernel_width;
    int64_t c = 0;
    if (is_packed(p))
        for (; c + GDN_VL <= width; c += GDN_VL) {
            vf r[4];
            v_load4((const float *)(const void *)(base + c * stride), r);
            for (int j = 0; j < 4; j++) v_store(weight + j * stride_tap + c, r[j]);
        }
    else if (p->weight_stride_tap == 4 && kernel_width <= GDN_VL)
        for (; c + GDN_VL <= width && (c + GDN_VL - 1) * stride + 4 * GDN_VL <= end; c += GDN_VL) {
            vf r[GDN_VL];
            for (int i = 0; i < GDN_VL; i++) r[i] = v_load((const float *)(const void *)(base + (c + i) * stride));
            v_transpose(r);
            for (int j = 0; j < GDN_VL && j < kernel_width; j++) v_store(weight + j * stride_tap + c, r[j]);
        }
    for (; c < width; c++)
        for (int j = 0; j < kernel_width; j++)
            weight[j * stride_tap + c] = *(const float *)(const void *)(base + c * stride + j * p->weight_stride_tap);
}

/* Floats from a tap to the next in gathered weights: whole pages and SKEW. */
static int64_t gathered_stride(int64_t width) { return (width < PAGE / 4 ? PAGE / 4 : width) + SKEW; }

static void conv_plan(const gdn_ssm_conv_problem *p, int32_t n_threads, gdn_plan *plan)
{
    const int64_t n_outputs = (int64_t)p->n_tokens * p->n_channels;
    /* Wide blocks stream best; narrower ones only so that every thread has two items. */
    int64_t width = WIDTH_MAX, n_blocks;
    const int in_place = is_tap_major(p) || (is_packed(p) && p->n_tokens < (int64_t)p->n_seqs * LONG);
    while (!in_place && width * p->kernel_width > GATHERED) width /= 2;
    for (;; width /= 2) {
        n_blocks = (p->n_channels + width - 1) / width;
        if (width <= WIDTH_MIN || n_blocks * p->n_seqs >= 2 * (int64_t)n_threads) break;
    }
    plan->n_items = n_blocks * p->n_seqs;
    /* Starting a run costs its weights and a cold start: one run per thread if all is over in microseconds. */
    const int64_t n_runs = n_outputs < SMALL * (int64_t)n_threads ? n_threads : 4 * (int64_t)n_threads;
    plan->grain = plan->n_items > n_runs ? (plan->n_items + n_runs - 1) / n_runs : 1;
    plan->cut = (int32_t)width;
    plan->form = "channels";
    /* Weights are gathered unless they are tap-major, or packed while no sequence can be LONG. */
    if (!is_tap_major(p) && !(is_packed(p) && p->n_tokens < LONG))
        plan->scratch_bytes = 4 * (uint64_t)(p->kernel_width * gathered_stride(width) + PAGE / 4);
}

static int aligned64(const gdn_token_view *view)
{
    return ((uintptr_t)view->at.base | (uintptr_t)view->stride_seq | (uintptr_t)view->stride_token) % 64 == 0;
}

/* Floats to leave out of `gathered`, so that a weight lies a quarter of a page or more behind the output of its
 * channel, modulo pages. Just before it, a load of weights would follow stores to the same low bits of the address
 * and be held up by them: a quarter of the speed, in those calls whose workspace happens to lie so. */
static int64_t lead_of(const gdn_ssm_conv_problem *p, int64_t c0, const float *gathered)
{
    return (int64_t)(((uintptr_t)p->out.at.base + 4 * (uintptr_t)c0 + PAGE / 4 - (uintptr_t)gathered) % PAGE / 4);
}

static void conv_run(const gdn_ssm_conv_problem *p, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const int64_t width = plan->cut; /* of a block */
    const int stream = (int64_t)p->n_tokens * p->n_channels >= STREAM / 4 && aligned64(&p->out);
    const int packed = is_packed(p), tap_major = is_tap_major(p);
    float *const gathered = scratch;

    /* Sequences are innermost, so that they share the block's weights. */
    int64_t have = -1;
    for (int64_t item = first; item < last; item++) {
        const int64_t block = item / p->n_seqs;
        conv_item it = { .p = p, .s = (int32_t)(item % p->n_seqs), .c0 = block * width, .width = width };
        it.first = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, it.s);
        it.length = gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, it.s);
        it.position = gdn_map_at(&p->position, it.s, 0);
        it.src = gdn_map_at(&p->history_src, it.s, it.s);
        it.dst = gdn_map_at(&p->history_dst, it.s, it.s);
        if (it.length == 0 || it.src == GDN_SKIP) continue;
        if (!p->n_columns || !p->history_in.at.base) it.src = GDN_NONE;
        if (!p->n_columns || !p->history_out.at.base) it.dst = GDN_NONE;
        if (it.width > p->n_channels - it.c0) it.width = p->n_channels - it.c0;
        it.packed = packed && (it.length < LONG || width * 4 > GATHERED);
        it.weight = (const float *)(const void *)(p->weight.base + it.c0 * p->weight_stride_channel);
        it.stride_tap = p->weight_stride_tap / 4;
        if (!it.packed && !tap_major) {
            float *const taps = gathered + lead_of(p, it.c0, gathered);
            it.weight = taps;
            it.stride_tap = gathered_stride(width);
            if (have != block) gather_weight(p, it.c0, it.width, taps, it.stride_tap);
            have = block;
        }
        it.stream = stream;
        it.bias = p->bias.base ? (const float *)(const void *)p->bias.base + it.c0 : zeros;
        conv_sequence(&it);
    }
    if (stream) v_fence();
}
