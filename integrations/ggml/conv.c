/* Runs a convolution: each thread computes its own blocks of channels, without waiting for others.
 *
 * ggml stores a channel's columns contiguously, libgdn a column's channels. A block first converts its history of all
 * sequences to libgdn's layout, since new histories may be written to rows that others are read from. It then copies
 * the columns to keep, and then libgdn convolves. */
#include "engine.h"

enum { CHUNK = 128, SCRATCH_FLOATS = 24 * 1024 };

/* A block of one thread: its channels, and its parts of the thread's scratch memory. */
typedef struct block {
    int64_t channel, n; /* the first of n channels */
    float *history;     /* [sequence][width - 1][n], with these strides in floats */
    int64_t by_sequence, by_column;
    float *input;    /* [CHUNK][n], if x cannot be read directly */
    char *workspace; /* libgdn's */
} block;

static float at(const char *p) { return *(const float *)p; }

/* Transpose three columns of n channels from ggml's layout to libgdn's and back. Models use three, so these loops are
 * specialised. */
static void turn_3(float *restrict c0, float *restrict c1, float *restrict c2, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) c0[i] = from[3 * i], c1[i] = from[3 * i + 1], c2[i] = from[3 * i + 2];
}

static void turn_back_3(float *restrict to, const float *restrict c0, const float *restrict c1,
                        const float *restrict c2, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[3 * i] = c0[i], to[3 * i + 1] = c1[i], to[3 * i + 2] = c2[i];
}

static void load_history(const conv_call *c, const block *b)
{
    const int64_t columns = c->width - 1;
    for (int64_t s = 0; s < c->n_seqs; s++) {
        const char *row = c->history + (size_t)(c->row ? c->row[s] : s) * c->history_stride[0];
        float *to = b->history + s * b->by_sequence;
        if (columns == 3 && c->history_stride[1] == 12 && c->history_stride[2] == 4) {
            turn_3(to, to + b->by_column, to + 2 * b->by_column, (const float *)row + 3 * b->channel, b->n);
            continue;
        }
        for (int64_t i = 0; i < b->n; i++)
            for (int64_t t = 0; t < columns; t++)
                to[t * b->by_column + i] =
                    at(row + (size_t)(b->channel + i) * c->history_stride[1] + (size_t)t * c->history_stride[2]);
    }
}

/* Copies columns `first` to first + width - 2 of [history, x] to the cache, channel by channel. */
static void keep_columns(const conv_call *c, const block *b, const column_copy *copy)
{
    const int64_t columns = c->width - 1;
    for (int64_t s = 0; s < c->n_seqs; s++) {
        const float *history = b->history + s * b->by_sequence;
        const char *x = c->x + (size_t)s * c->x_stride[0];
        float *to = (float *)(copy->data + (size_t)s * copy->stride) + b->channel * columns;
        if (columns == 3 && c->x_stride[1] == 4) {
            const float *from[3];
            for (int64_t j = 0; j < 3; j++) {
                const int64_t t = copy->first + j;
                from[j] = t < 3 ? history + t * b->by_column
                                : (const float *)(x + (size_t)(t - 3) * c->x_stride[2]) + b->channel;
            }
            turn_back_3(to, from[0], from[1], from[2], b->n);
            continue;
        }
        for (int64_t j = 0; j < columns; j++) {
            const int64_t t = copy->first + j;
            if (t < columns)
                for (int64_t i = 0; i < b->n; i++) to[i * columns + j] = history[t * b->by_column + i];
            else
                for (int64_t i = 0; i < b->n; i++)
                    to[i * columns + j] =
                        at(x + (size_t)(b->channel + i) * c->x_stride[1] + (size_t)(t - columns) * c->x_stride[2]);
        }
    }
}

/* Tokens t to t + n - 1 of sequence s: x itself, or transposed. */
static gdn_tensor input_of(const conv_call *c, const block *b, int64_t s, int64_t t, int64_t n)
{
    const char *x =
        c->x + (size_t)s * c->x_stride[0] + (size_t)b->channel * c->x_stride[1] + (size_t)t * c->x_stride[2];
    if (c->x_direct)
        return (gdn_tensor){ .data = (void *)x, .stride = { (int64_t)c->x_stride[0], (int64_t)c->x_stride[2] } };
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t k = 0; k < n; k++)
            b->input[k * b->n + i] = at(x + (size_t)i * c->x_stride[1] + (size_t)k * c->x_stride[2]);
    return (gdn_tensor){ .data = b->input, .stride = { 0, b->n * 4 } };
}

/* Convolves n tokens from t on of n_seqs sequences from s on. The history is that before token t. */
static gdn_status convolve(engine *e, const conv_call *c, const block *b, int64_t s, int64_t n_seqs, int64_t t,
                           int64_t n, int32_t *position, int32_t *none)
{
    const int64_t columns = c->width - 1;
    gdn_ssm_conv_args a = GDN_INIT(gdn_ssm_conv_args);
    a.activation = c->silu ? GDN_ACTIVATION_SILU : GDN_ACTIVATION_NONE;
    a.n_seqs = (int32_t)n_seqs;
    a.n_tokens = (int32_t)(n_seqs * n);
    a.n_channels = (int32_t)b->n;
    a.kernel_width = (int32_t)c->width;
    a.x = input_of(c, b, s, t, n);
    a.weight = (gdn_tensor){ .data = (void *)(c->weight + (size_t)b->channel * c->weight_stride),
                             .stride = { (int64_t)c->weight_stride } };
    a.out = (gdn_tensor){ .data = c->out + (size_t)s * c->out_stride[0] + (size_t)t * c->out_stride[1] +
                                  (size_t)b->channel * 4,
                          .stride = { (int64_t)c->out_stride[0], (int64_t)c->out_stride[1] } };
    a.history =
        (gdn_pool){ .data = b->history + s * b->by_sequence, .n_rows = (int32_t)n_seqs, .n_slots = (int32_t)columns };
    a.position.data = position;
    a.history_dst.data = none;
    a.workspace =
        (gdn_span){ .data = b->workspace, .bytes = CONV_WORKSPACE }; /* too small a workspace is reported by the call */
    return gdn_ssm_conv(e->single, &a, NULL);
}

static gdn_status run_block(engine *e, const conv_call *c, const block *b, int32_t *position, int32_t *none)
{
    load_history(c, b);
    for (int32_t k = 0; k < c->n_copies; k++) keep_columns(c, b, &c->copies[k]);
    if (c->x_direct) return convolve(e, c, b, 0, c->n_seqs, 0, c->n_tokens, position, none);
    const int64_t columns = c->width - 1;
    gdn_status status = GDN_OK;
    for (int64_t s = 0; s < c->n_seqs && !status; s++) {
        float *history = b->history + s * b->by_sequence;
        for (int64_t t = 0; t < c->n_tokens && !status; t += CHUNK) {
            const int64_t n = c->n_tokens - t < CHUNK ? c->n_tokens - t : CHUNK;
            status = convolve(e, c, b, s, 1, t, n, position, none);
            for (int64_t j = 0; j < columns; j++) { /* the history for the next chunk */
                const float *from = n + j < columns ? history + (n + j) * b->n : b->input + (n + j - columns) * b->n;
                memmove(history + j * b->n, from, (size_t)b->n * 4);
            }
        }
    }
    return status;
}

/* Writes history and x to c->out with contiguous channels, in place of CONCAT: [sequence][width -
 * 1 + n_tokens][n_channels]. */
void conv_stage(const conv_call *c, int ith, int nth)
{
    const int64_t columns = c->width - 1, all = columns + c->n_tokens,
                  share = ((c->n_channels + nth - 1) / nth + 15) / 16 * 16;
    block b = { .channel = ith * share, .n = share, .by_column = c->n_channels, .by_sequence = all * c->n_channels };
    if (b.channel >= c->n_channels) return;
    if (b.n > c->n_channels - b.channel) b.n = c->n_channels - b.channel;
    b.history = (float *)c->out + b.channel;
    load_history(c, &b);
    for (int32_t k = 0; k < c->n_copies; k++) keep_columns(c, &b, &c->copies[k]);
    for (int64_t s = 0; s < c->n_seqs; s++)
        for (int64_t t = 0; t < c->n_tokens; t++) {
            const char *x =
                c->x + (size_t)s * c->x_stride[0] + (size_t)b.channel * c->x_stride[1] + (size_t)t * c->x_stride[2];
            float *to = b.history + s * b.by_sequence + (columns + t) * b.by_column;
            if (c->x_stride[1] == 4) memcpy(to, x, (size_t)b.n * 4);
            else
                for (int64_t i = 0; i < b.n; i++) to[i] = at(x + (size_t)i * c->x_stride[1]);
        }
}

int64_t conv_block(const conv_call *c)
{
    const int64_t per_channel = c->n_seqs * (c->width - 1) + (c->x_direct           ? 0
                                                              : c->n_tokens < CHUNK ? c->n_tokens
                                                                                    : CHUNK);
    return SCRATCH_FLOATS / per_channel / 16 * 16;
}

void conv_run(engine *e, const conv_call *c, int ith, int nth)
{
    if (ith >= MAX_THREADS) return; /* the other threads have all blocks */
    if (nth > MAX_THREADS) nth = MAX_THREADS;
    const size_t maps = (size_t)c->n_seqs * 2 * sizeof(int32_t);
    if (!bytes_need(&e->scratch[ith], SCRATCH_FLOATS * sizeof(float) + CONV_WORKSPACE + maps)) {
        engine_fail(e, "ssm_conv: no memory for a thread's part");
        return;
    }
    int64_t share = ((c->n_channels + nth - 1) / nth + 15) / 16 * 16;
    if (share > c->block) share = c->block;
    block b = { .history = e->scratch[ith].data };
    int32_t *position = (int32_t *)((char *)e->scratch[ith].data + SCRATCH_FLOATS * sizeof(float) + CONV_WORKSPACE);
    int32_t *none = position + c->n_seqs;
    b.workspace = (char *)e->scratch[ith].data + SCRATCH_FLOATS * sizeof(float);
    for (int64_t s = 0; s < c->n_seqs; s++) position[s] = (int32_t)c->width - 1, none[s] = GDN_NONE;
    for (b.channel = ith * share; b.channel < c->n_channels; b.channel += nth * share) {
        b.n = c->n_channels - b.channel < share ? c->n_channels - b.channel : share;
        b.by_column = b.n;
        b.by_sequence = (c->width - 1) * b.n;
        b.input = b.history + c->n_seqs * b.by_sequence;
        if (run_block(e, c, &b, position, none)) {
            engine_fail(e, "ssm_conv");
            return;
        }
    }
}
