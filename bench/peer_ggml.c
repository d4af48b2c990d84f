/* ggml as a peer on the CPU; see peer.h. Compiled instead of peer_none.c if GDN_BENCH_GGML is defined.
 *
 * Each copy of the row has a small graph, built once, whose tensors point to the copy's operands. ggml's outputs are in
 * separate memory: as many copies as the row has, or one for all with --peer-reuse-output, like a graph allocator that
 * reuses scratch memory for all layers. ggml with OpenMP shares its threads with ours; ggml with its own threads may
 * disturb the following calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peer_ggml.h"
#include "ggml-cpu.h"

enum { MAX_BUFFERS = 4 };
#define NMSE_LIMIT 1e-6

typedef struct peer_buffer {
    char *memory;
    int64_t stride;
    int n_copies;
} peer_buffer;

typedef struct peer_state {
    int n_copies, n_buffers;
    peer_buffer buffer[MAX_BUFFERS];
    struct ggml_context **ctx;     /* [n_copies] */
    struct ggml_cgraph **graph[2]; /* [with_copy][n_copies] */
    struct ggml_cplan plan[2];
    void *work[2];
    struct ggml_threadpool *threads;
} peer_state;

const char *peer_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "ggml %s", ggml_version());
    return name;
}

static int peer_run(void *state, int with_copy, int copy)
{
    peer_state *p = state;
    return ggml_graph_compute(p->graph[with_copy][copy], &p->plan[with_copy]) == GGML_STATUS_SUCCESS;
}

static void peer_close(void *state)
{
    peer_state *p = state;
    for (int c = 0; c < p->n_copies; c++) ggml_free(p->ctx[c]);
    for (int i = 0; i < p->n_buffers; i++) free(p->buffer[i].memory);
    if (p->threads) ggml_threadpool_free(p->threads);
    free(p->work[0]);
    free(p->work[1]);
    free(p->graph[0]);
    free(p->graph[1]);
    free(p->ctx);
    free(p);
}

static peer_state *peer_open(bench_row *row)
{
    peer_state *p = bench_alloc(sizeof *p);
    p->n_copies = row->work.n_copies;
    p->ctx = bench_alloc(p->n_copies * (int64_t)sizeof *p->ctx);
    ggml_cpu_init();
    for (int with_copy = 0; with_copy < 2; with_copy++)
        p->graph[with_copy] = bench_alloc(p->n_copies * (int64_t)sizeof *p->graph[with_copy]);
    for (int c = 0; c < p->n_copies; c++) {
        const struct ggml_init_params params = {
            .mem_size = PEER_TENSORS * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(PEER_GRAPH_NODES, false),
            .no_alloc = true,
        };
        p->ctx[c] = ggml_init(params);
        for (int with_copy = 0; with_copy < 2; with_copy++)
            p->graph[with_copy][c] = ggml_new_graph_custom(p->ctx[c], PEER_GRAPH_NODES, false);
    }
    return p;
}

/* Plans the graphs after all are built. */
static void peer_plan(bench_row *row, peer_state *p, int has_copy)
{
    struct ggml_threadpool_params params = ggml_threadpool_params_default(row->work.threads);
    p->threads = ggml_threadpool_new(&params);
    for (int with_copy = 0; with_copy <= has_copy; with_copy++) {
        p->plan[with_copy] = ggml_graph_plan(p->graph[with_copy][0], row->work.threads, p->threads);
        p->work[with_copy] = bench_alloc((int64_t)p->plan[with_copy].work_size + 64);
        p->plan[with_copy].work_data = p->work[with_copy];
    }
    row->peer = (bench_peer){ .state = p, .has_copy = has_copy, .run = peer_run, .close = peer_close, .nmse = NAN };
}

/* Adds memory that ggml writes. scratch: a graph allocator would reuse it for the next layer. */
static int add_buffer(bench_row *row, peer_state *p, int64_t bytes, int scratch)
{
    peer_buffer *b = &p->buffer[p->n_buffers];
    b->n_copies = scratch && row->peer_reuses_output ? 1 : p->n_copies;
    b->stride = (bytes + 63) / 64 * 64;
    b->memory = bench_alloc_huge(b->stride * b->n_copies);
    return p->n_buffers++;
}

static char *buffer_at(const peer_state *p, int buffer, int copy)
{
    const peer_buffer *b = &p->buffer[buffer];
    return b->memory + copy % b->n_copies * b->stride;
}

/* A tensor on an operand of the row, or on any memory. */
static struct ggml_tensor *tensor_at(struct ggml_context *ctx, enum ggml_type type, void *data, int64_t ne0,
                                     int64_t ne1, int64_t ne2, int64_t ne3)
{
    struct ggml_tensor *t = ggml_new_tensor_4d(ctx, type, ne0, ne1, ne2, ne3);
    t->data = data;
    return t;
}

static char *operand_at(const bench_row *row, int operand, int copy)
{
    return (char *)row->operand[operand].copy[copy].data + row->operand[operand].copy[copy].offset;
}

void nmse_add(nmse *e, const float *ours, const float *theirs, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)ours[i] - (double)theirs[i];
        e->difference += d * d;
        e->square += (double)theirs[i] * (double)theirs[i];
    }
}

void nmse_finish(bench_row *row, const nmse *e, const char *what)
{
    row->peer.nmse = e->difference / e->square;
    if (row->peer.nmse < NMSE_LIMIT) return;
    fprintf(stderr, "gdn bench: %s: ggml's results differ from ours (NMSE %g), it is left out\n", what, row->peer.nmse);
    row->peer.close(row->peer.state);
    row->peer.state = NULL;
}

/* ---- gated_delta_net --------------------------------------------------------------------------- */

void peer_add_gated_delta_net(bench_row *row, const peer_gated_delta_net *s)
{
    if (!row->want_peer) return;
    if (!row->device.shared_memory) {
        peer_device_gated_delta_net(row, s);
        return;
    }
    peer_state *p = peer_open(row);
    const int64_t d = s->head_dim, hk = s->heads_k, hv = s->heads_v, t = s->tokens, b = s->seqs;
    const int64_t attention = d * hv * t * b, state = d * d * hv * b; /* floats; state: of one slot */
    const int result = add_buffer(row, p, 4 * (attention + s->slots * state), 1);
    for (int c = 0; c < p->n_copies; c++) {
        struct ggml_context *g = p->ctx[c];
        /* Our cache, viewed as [slot][sequence]: its first slot is contiguous, as ggml requires. */
        char *cache = operand_at(row, s->state, c);
        struct ggml_tensor *op =
            ggml_gated_delta_net(g, tensor_at(g, GGML_TYPE_F32, operand_at(row, s->q, c), d, hk, t, b),
                                 tensor_at(g, GGML_TYPE_F32, operand_at(row, s->k, c), d, hk, t, b),
                                 tensor_at(g, GGML_TYPE_F32, operand_at(row, s->v, c), d, hv, t, b),
                                 tensor_at(g, GGML_TYPE_F32, operand_at(row, s->g, c), s->gate_channels, hv, t, b),
                                 tensor_at(g, GGML_TYPE_F32, operand_at(row, s->beta, c), 1, hv, t, b),
                                 tensor_at(g, GGML_TYPE_F32, cache, d, d, hv, b), s->slots);
        op->data = buffer_at(p, result, c);
        ggml_build_forward_expand(p->graph[0][c], op);
        struct ggml_tensor *states = ggml_view_1d(g, op, s->slots * state, 4 * (size_t)attention);
        struct ggml_tensor *kept = tensor_at(g, GGML_TYPE_F32, cache, s->slots * state, 1, 1, 1);
        ggml_build_forward_expand(p->graph[1][c], ggml_cpy(g, states, kept));
    }
    peer_plan(row, p, 1);
    if (!s->compare) return;

    nmse e = { 0, 0 };
    if (!peer_run(p, 0, 0) || row->launch(row, 0)) e.square = e.difference = 1;
    const float *theirs = (const float *)(const void *)buffer_at(p, result, 0);
    nmse_add(&e, (const float *)(const void *)operand_at(row, s->out, 0), theirs, attention);
    nmse_add(&e, (const float *)(const void *)operand_at(row, s->state, 0), theirs + attention, s->slots * state);
    nmse_finish(row, &e, "gated_delta_net");
}

/* ---- ssm_conv ---------------------------------------------------------------------------------- */

void peer_add_ssm_conv(bench_row *row, const peer_ssm_conv *s)
{
    if (!row->want_peer) return;
    if (!row->device.shared_memory) {
        peer_device_ssm_conv(row, s);
        return;
    }
    peer_state *p = peer_open(row);
    const int64_t d = s->channels, t = s->tokens, b = s->seqs, w = s->kernel_width, h = w - 1;
    const int window = add_buffer(row, p, 4 * (h + t) * d * b, 1);
    const int result = add_buffer(row, p, 4 * d * t * b, 1);
    const int cache = add_buffer(row, p, 4 * h * d * b, 0);
    for (int c = 0; c < p->n_copies; c++) {
        struct ggml_context *g = p->ctx[c];
        /* ggml's history is [sequence][channel][time]; ours is a ring of [sequence][time][channel]. */
        const float *ring = (const float *)(const void *)operand_at(row, s->history, c);
        float *history = (float *)(void *)buffer_at(p, cache, c);
        for (int64_t i = 0; i < b * d * h; i++) {
            const int64_t seq = i / (d * h), channel = i / h % d, column = (s->position - h + i % h) % h;
            history[i] = ring[(seq * h + column) * d + channel];
        }
        struct ggml_tensor *weight = tensor_at(g, GGML_TYPE_F32, operand_at(row, s->weight, c), w, d, 1, 1);
        struct ggml_tensor *x = tensor_at(g, GGML_TYPE_F32, operand_at(row, s->x, c), d, t, b, 1);
        struct ggml_tensor *past = tensor_at(g, GGML_TYPE_F32, history, h, d, b, 1);

        struct ggml_tensor *whole = tensor_at(g, GGML_TYPE_F32, buffer_at(p, window, c), h + t, d, b, 1);
        struct ggml_tensor *alone = ggml_ssm_conv(g, whole, weight);
        alone->data = buffer_at(p, result, c);
        ggml_build_forward_expand(p->graph[0][c], ggml_silu_inplace(g, alone));

        struct ggml_tensor *joined = ggml_concat(g, past, ggml_transpose(g, x), 0);
        joined->data = whole->data;
        struct ggml_tensor *newest = ggml_view_3d(g, joined, h, d, b, joined->nb[1], joined->nb[2], 4 * (size_t)t);
        ggml_build_forward_expand(p->graph[1][c], ggml_cpy(g, newest, past));
        struct ggml_tensor *conv = ggml_ssm_conv(g, joined, weight);
        conv->data = buffer_at(p, result, c);
        ggml_build_forward_expand(p->graph[1][c], ggml_silu_inplace(g, conv));
    }
    peer_plan(row, p, 1);

    nmse e = { 0, 0 };
    for (int c = p->n_copies - 1; c >= 0; c--) /* fills the inputs of the operator alone; copy 0 is last */
        if (!peer_run(p, 1, c)) e.square = e.difference = 1;
    if (row->launch(row, 0)) e.square = e.difference = 1;
    nmse_add(&e, (const float *)(const void *)operand_at(row, s->out, 0),
             (const float *)(const void *)buffer_at(p, result, 0), d * t * b);
    nmse_finish(row, &e, "ssm_conv");
}

/* ---- set_rows ---------------------------------------------------------------------------------- */

void peer_add_set_rows(bench_row *row, const peer_set_rows *s)
{
    if (!row->want_peer) return;
    if (!row->device.shared_memory) {
        peer_device_set_rows(row, s);
        return;
    }
    peer_state *p = peer_open(row);
    const enum ggml_type type = peer_types[s->dtype];
    for (int c = 0; c < p->n_copies; c++) {
        struct ggml_context *g = p->ctx[c];
        struct ggml_tensor *dst = tensor_at(g, type, operand_at(row, s->dst, c), s->columns, s->rows_dst, 1, 1);
        struct ggml_tensor *src = tensor_at(g, GGML_TYPE_F32, operand_at(row, s->src, c), s->columns, s->rows, 1, 1);
        struct ggml_tensor *index = tensor_at(g, GGML_TYPE_I32, operand_at(row, s->index, c), s->rows, 1, 1, 1);
        ggml_build_forward_expand(p->graph[0][c], ggml_set_rows(g, dst, src, index));
    }
    peer_plan(row, p, 0);

    const int64_t n = (int64_t)s->columns * s->rows_dst;
    float *value[2]; /* ours, theirs */
    nmse e = { 0, 0 };
    for (int i = 0; i < 2; i++) {
        const char *dst = operand_at(row, s->dst, 0);
        if (i ? !peer_run(p, 0, 0) : row->launch(row, 0)) e.square = e.difference = 1;
        value[i] = bench_alloc(n * 4);
        if (type == GGML_TYPE_F32) memcpy(value[i], dst, (size_t)n * 4);
        else ggml_get_type_traits(type)->to_float(dst, value[i], n);
        memset(operand_at(row, s->dst, 0), 0, (size_t)row->operand[s->dst].bytes);
    }
    nmse_add(&e, value[0], value[1], n);
    free(value[0]);
    free(value[1]);
    nmse_finish(row, &e, "set_rows");
}
