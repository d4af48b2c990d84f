/* ggml as a peer on a device; see peer.h. Compiled with peer_ggml.c. The ggml device is the one whose description is
 * our device's name. Operands are in ggml's own buffers, with the same contents and as many copies as ours. A call is
 * timed from the start of the graph to its end on the device, like ours. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench/peer_ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

typedef struct device_peer {
    int n_copies;
    ggml_backend_t backend;
    struct ggml_context **ctx;     /* [n_copies] */
    ggml_backend_buffer_t *memory; /* [n_copies] */
    struct ggml_cgraph **graph[2]; /* [with_copy][n_copies] */
} device_peer;

static int device_run(void *state, int with_copy, int copy)
{
    device_peer *p = state;
    return ggml_backend_graph_compute(p->backend, p->graph[with_copy][copy]) == GGML_STATUS_SUCCESS;
}

static void device_close(void *state)
{
    device_peer *p = state;
    for (int c = 0; c < p->n_copies; c++) {
        if (p->memory[c]) ggml_backend_buffer_free(p->memory[c]);
        ggml_free(p->ctx[c]);
    }
    ggml_backend_free(p->backend);
    free(p->graph[0]);
    free(p->graph[1]);
    free(p->memory);
    free(p->ctx);
    free(p);
}

/* ggml's device of the same backend and name; NULL (with a text, the first time): none. */
static ggml_backend_t open_backend(const bench_row *row)
{
    gdn_backend_info ours = { .size = sizeof ours };
    gdn_backend_describe(row->device.backend, &ours);
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        const char *kind = ggml_backend_reg_name(ggml_backend_dev_backend_reg(dev));
        if (!strcasecmp(kind, ours.name) && !strcmp(ggml_backend_dev_description(dev), row->device.name))
            return ggml_backend_dev_init(dev, NULL);
    }
    static int said;
    if (!said++)
        fprintf(stderr,
                "gdn bench: ggml has no %s device called '%s'; there is no peer (a driver that is a CPU needs "
                "GGML_VK_VISIBLE_DEVICES)\n",
                ours.name, row->device.name);
    return NULL;
}

static device_peer *device_open(bench_row *row, int has_copy)
{
    ggml_backend_t backend = open_backend(row);
    if (!backend) return NULL;
    device_peer *p = bench_alloc(sizeof *p);
    p->backend = backend;
    p->n_copies = row->work.n_copies;
    p->ctx = bench_alloc(p->n_copies * (int64_t)sizeof *p->ctx);
    p->memory = bench_alloc(p->n_copies * (int64_t)sizeof *p->memory);
    for (int g = 0; g < 2; g++) p->graph[g] = bench_alloc(p->n_copies * (int64_t)sizeof *p->graph[g]);
    for (int c = 0; c < p->n_copies; c++) {
        const struct ggml_init_params params = {
            .mem_size = PEER_TENSORS * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(PEER_GRAPH_NODES, false),
            .no_alloc = true,
        };
        p->ctx[c] = ggml_init(params);
        for (int g = 0; g < 2; g++) p->graph[g][c] = ggml_new_graph_custom(p->ctx[c], PEER_GRAPH_NODES, false);
    }
    row->peer = (bench_peer){ .state = p, .has_copy = has_copy, .run = device_run, .close = device_close, .nmse = NAN };
    return p;
}

/* Removes the peer and prints why. */
static void give_up(bench_row *row, const char *why)
{
    fprintf(stderr, "gdn bench: no peer: %s\n", why);
    row->peer.close(row->peer.state);
    row->peer.state = NULL;
}

/* Allocates all tensors of a copy. 0: failed, or the device does not support the operator. */
static int place(bench_row *row, device_peer *p, int copy, const struct ggml_tensor *op)
{
    if (!ggml_backend_supports_op(p->backend, op)) {
        give_up(row, "ggml's device does not support the operator");
        return 0;
    }
    p->memory[copy] = ggml_backend_alloc_ctx_tensors(p->ctx[copy], p->backend);
    if (!p->memory[copy]) give_up(row, "ggml has no memory for its operands");
    return p->memory[copy] != NULL;
}

/* Copies an operand to the host. */
static float *download(bench_row *row, int operand, int copy)
{
    const bench_operand *o = &row->operand[operand];
    float *x = bench_alloc(o->bytes);
    if (gdn_buffer_read(row->ctx, &o->copy[copy], 0, x, (uint64_t)o->bytes))
        memset(x, 0xff, (size_t)o->bytes); /* NaN */
    return x;
}

static void upload(bench_row *row, int operand, struct ggml_tensor *t)
{
    float *x = download(row, operand, 0); /* all copies are equal before the first call */
    ggml_backend_tensor_set(t, x, 0, ggml_nbytes(t));
    free(x);
}

static float *result_of(const struct ggml_tensor *t, int64_t first, int64_t n)
{
    float *x = bench_alloc(4 * n);
    ggml_backend_tensor_get(t, x, 4 * (size_t)first, 4 * (size_t)n);
    return x;
}

/* Runs our call on copy 0 and waits. */
static int run_ours(bench_row *row)
{
    return row->launch(row, 0) == GDN_OK && gdn_synchronize(row->ctx, NULL) == GDN_OK;
}

static void compare(bench_row *row, nmse *e, int operand, const struct ggml_tensor *t, int64_t first, int64_t n)
{
    float *ours = download(row, operand, 0), *theirs = result_of(t, first, n);
    nmse_add(e, ours, theirs, n);
    free(ours);
    free(theirs);
}

static struct ggml_tensor *tensor(struct ggml_context *g, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3)
{
    return ggml_new_tensor_4d(g, GGML_TYPE_F32, ne0, ne1, ne2, ne3);
}

/* ---- gated_delta_net --------------------------------------------------------------------------- */

void peer_device_gated_delta_net(bench_row *row, const peer_gated_delta_net *s)
{
    device_peer *p = device_open(row, 1);
    if (!p) return;
    const int64_t d = s->head_dim, hk = s->heads_k, hv = s->heads_v, t = s->tokens, b = s->seqs;
    const int64_t attention = d * hv * t * b, state = d * d * hv * b; /* floats; state: of one slot */
    struct ggml_tensor *first = NULL;
    for (int c = p->n_copies - 1; c >= 0; c--) {
        struct ggml_context *g = p->ctx[c];
        struct ggml_tensor *q = tensor(g, d, hk, t, b), *k = tensor(g, d, hk, t, b), *v = tensor(g, d, hv, t, b);
        struct ggml_tensor *gate = tensor(g, s->gate_channels, hv, t, b), *beta = tensor(g, 1, hv, t, b);
        struct ggml_tensor *cache = tensor(g, s->slots * state, 1, 1, 1);
        struct ggml_tensor *now =
            ggml_view_4d(g, cache, d, d, hv, b, 4 * (size_t)d, 4 * (size_t)(d * d), 4 * (size_t)(d * d * hv), 0);
        struct ggml_tensor *op = ggml_gated_delta_net(g, q, k, v, gate, beta, now, s->slots);
        ggml_build_forward_expand(p->graph[0][c], op);
        struct ggml_tensor *states = ggml_view_1d(g, op, s->slots * state, 4 * (size_t)attention);
        ggml_build_forward_expand(p->graph[1][c], ggml_cpy(g, states, cache));
        if (!place(row, p, c, op)) return;
        upload(row, s->q, q), upload(row, s->k, k), upload(row, s->v, v);
        upload(row, s->g, gate), upload(row, s->beta, beta), upload(row, s->state, cache);
        first = op;
    }
    if (!s->compare) return;

    nmse e = { 0, 0 };
    if (!device_run(p, 0, 0) || !run_ours(row)) e.square = e.difference = 1;
    compare(row, &e, s->out, first, 0, attention);
    compare(row, &e, s->state, first, attention, s->slots * state);
    nmse_finish(row, &e, "gated_delta_net");
}

/* ---- ssm_conv ---------------------------------------------------------------------------------- */

void peer_device_ssm_conv(bench_row *row, const peer_ssm_conv *s)
{
    device_peer *p = device_open(row, 1);
    if (!p) return;
    const int64_t d = s->channels, t = s->tokens, b = s->seqs, w = s->kernel_width, h = w - 1;
    struct ggml_tensor *result = NULL;
    nmse e = { 0, 0 };
    /* ggml's history is [sequence][channel][time]; ours is a ring of [sequence][time][channel]. */
    float *ring = download(row, s->history, 0), *history = bench_alloc(4 * b * d * h);
    for (int64_t i = 0; i < b * d * h; i++) {
        const int64_t seq = i / (d * h), channel = i / h % d, column = (s->position - h + i % h) % h;
        history[i] = ring[(seq * h + column) * d + channel];
    }
    for (int c = p->n_copies - 1; c >= 0 && row->peer.state; c--) {
        struct ggml_context *g = p->ctx[c];
        struct ggml_tensor *weight = tensor(g, w, d, 1, 1), *x = tensor(g, d, t, b, 1), *past = tensor(g, h, d, b, 1);
        struct ggml_tensor *whole = tensor(g, h + t, d, b, 1); /* input of the operator alone */
        struct ggml_tensor *alone = ggml_ssm_conv(g, whole, weight);
        ggml_build_forward_expand(p->graph[0][c], ggml_silu_inplace(g, alone));

        struct ggml_tensor *joined = ggml_concat(g, past, ggml_transpose(g, x), 0);
        struct ggml_tensor *newest = ggml_view_3d(g, joined, h, d, b, joined->nb[1], joined->nb[2], 4 * (size_t)t);
        ggml_build_forward_expand(p->graph[1][c], ggml_cpy(g, newest, past));
        struct ggml_tensor *conv = ggml_ssm_conv(g, joined, weight);
        ggml_build_forward_expand(p->graph[1][c], ggml_silu_inplace(g, conv));
        if (!place(row, p, c, conv)) break;
        upload(row, s->weight, weight), upload(row, s->x, x);
        ggml_backend_tensor_set(past, history, 0, ggml_nbytes(past));
        if (!device_run(p, 1, c)) e.square = e.difference = 1;
        ggml_backend_tensor_copy(joined, whole);
        result = conv;
    }
    free(ring);
    free(history);
    if (!row->peer.state) return;
    if (!run_ours(row)) e.square = e.difference = 1;
    compare(row, &e, s->out, result, 0, d * t * b);
    nmse_finish(row, &e, "ssm_conv");
}

/* ---- set_rows ---------------------------------------------------------------------------------- */

static void add_values(float *value, enum ggml_type type, const void *bytes, int64_t n)
{
    if (type == GGML_TYPE_F32) memcpy(value, bytes, (size_t)n * 4);
    else ggml_get_type_traits(type)->to_float(bytes, value, n);
}

void peer_device_set_rows(bench_row *row, const peer_set_rows *s)
{
    device_peer *p = device_open(row, 0);
    if (!p) return;
    const enum ggml_type type = peer_types[s->dtype];
    struct ggml_tensor *first = NULL;
    for (int c = p->n_copies - 1; c >= 0; c--) {
        struct ggml_context *g = p->ctx[c];
        struct ggml_tensor *dst = ggml_new_tensor_2d(g, type, s->columns, s->rows_dst);
        struct ggml_tensor *src = tensor(g, s->columns, s->rows, 1, 1);
        struct ggml_tensor *index = ggml_new_tensor_1d(g, GGML_TYPE_I32, s->rows);
        struct ggml_tensor *op = ggml_set_rows(g, dst, src, index);
        ggml_build_forward_expand(p->graph[0][c], op);
        if (!place(row, p, c, op)) return;
        upload(row, s->src, src), upload(row, s->index, index), upload(row, s->dst, dst);
        first = dst;
    }
    const int64_t n = (int64_t)s->columns * s->rows_dst, bytes = row->operand[s->dst].bytes;
    float *ours = bench_alloc(4 * n), *theirs = bench_alloc(4 * n);
    void *raw = bench_alloc(bytes);
    nmse e = { 0, 0 };
    if (!device_run(p, 0, 0) || !run_ours(row)) e.square = e.difference = 1;
    ggml_backend_tensor_get(first, raw, 0, ggml_nbytes(first));
    add_values(theirs, type, raw, n);
    free(raw);
    raw = download(row, s->dst, 0);
    add_values(ours, type, raw, n);
    nmse_add(&e, ours, theirs, n);
    free(raw);
    free(ours);
    free(theirs);
    nmse_finish(row, &e, "set_rows");
}
