/* ggml as a peer; see peer.h. Compiled instead of peer_none.c if GDN_BENCH_GGML is defined.
 *
 * Its device is ggml's CPU for operands in host memory, and otherwise the one whose description is our device's name.
 * Each copy of the row has a small graph, built once, whose tensors are in ggml's own buffers and have the contents of
 * the row's operands. With --peer-reuse-output all copies write their results to the same memory, like a graph
 * allocator that reuses scratch memory for all layers. A call is timed from the start of the graph to its end. ggml
 * with OpenMP shares its threads with ours; ggml with its own threads may disturb the following calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench/peer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { GRAPH_NODES = 16, TENSORS = 24, MAX_RESULTS = 3 };
#define NMSE_LIMIT 1e-6
static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                        GGML_TYPE_Q8_0 }; /* indexed by GDN_F32, ... */

typedef struct peer_state {
    int n_copies;
    ggml_backend_t backend;
    struct ggml_threadpool *threads;         /* of the CPU; or NULL */
    struct ggml_context **ctx;               /* [n_copies] */
    ggml_backend_buffer_t *memory;           /* [n_copies] */
    struct ggml_cgraph **graph[2];           /* [with_copy][n_copies] */
    struct ggml_tensor *result[MAX_RESULTS]; /* of the last copy, which is built first */
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
    return ggml_backend_graph_compute(p->backend, p->graph[with_copy][copy]) == GGML_STATUS_SUCCESS;
}

static void peer_close(void *state)
{
    peer_state *p = state;
    for (int c = 0; c < p->n_copies; c++) {
        if (p->memory[c]) ggml_backend_buffer_free(p->memory[c]);
        ggml_free(p->ctx[c]);
    }
    ggml_backend_free(p->backend);
    if (p->threads) ggml_threadpool_free(p->threads);
    free(p->graph[0]);
    free(p->graph[1]);
    free(p->memory);
    free(p->ctx);
    free(p);
}

static int on_host(const bench_row *row)
{
    return row->device.backend == GDN_BACKEND_CPU || row->device.backend == GDN_BACKEND_REFERENCE;
}

/* ggml's CPU, or its device of the same backend and name; NULL (with a text, the first time): none. */
static ggml_backend_t open_backend(const bench_row *row)
{
    if (on_host(row)) return ggml_backend_cpu_init();
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

static peer_state *peer_open(bench_row *row, int has_copy)
{
    ggml_backend_t backend = row->want_peer ? open_backend(row) : NULL;
    if (!backend) return NULL;
    peer_state *p = bench_alloc(sizeof *p);
    p->backend = backend;
    p->n_copies = row->work.n_copies;
    if (on_host(row)) {
        struct ggml_threadpool_params params = ggml_threadpool_params_default(row->work.threads);
        p->threads = ggml_threadpool_new(&params);
        ggml_backend_cpu_set_threadpool(backend, p->threads);
        ggml_backend_cpu_set_n_threads(backend, row->work.threads);
    }
    p->ctx = bench_alloc(p->n_copies * (int64_t)sizeof *p->ctx);
    p->memory = bench_alloc(p->n_copies * (int64_t)sizeof *p->memory);
    for (int g = 0; g < 2; g++) p->graph[g] = bench_alloc(p->n_copies * (int64_t)sizeof *p->graph[g]);
    for (int c = 0; c < p->n_copies; c++) {
        const struct ggml_init_params params = {
            .mem_size = TENSORS * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(GRAPH_NODES, false),
            .no_alloc = true,
        };
        p->ctx[c] = ggml_init(params);
        for (int g = 0; g < 2; g++) p->graph[g][c] = ggml_new_graph_custom(p->ctx[c], GRAPH_NODES, false);
    }
    row->peer = (bench_peer){ .state = p, .has_copy = has_copy, .run = peer_run, .close = peer_close, .nmse = NAN };
    return p;
}

/* Removes the peer and prints why. */
static void give_up(bench_row *row, const char *why)
{
    fprintf(stderr, "gdn bench: no peer: %s\n", why);
    row->peer.close(row->peer.state);
    row->peer.state = NULL;
}

/* Allocates all tensors of a copy. results: what the graphs write beside operands, ended by NULL. 0: failed, or the
 * device does not support the operator. */
static int place(bench_row *row, peer_state *p, int copy, struct ggml_tensor *op, struct ggml_tensor *const *results)
{
    if (!ggml_backend_supports_op(p->backend, op)) {
        give_up(row, "ggml's device does not support the operator");
        return 0;
    }
    for (int i = 0; results[i]; i++) {
        if (copy == p->n_copies - 1) p->result[i] = results[i];
        else if (row->peer_reuses_output) {
            results[i]->data = p->result[i]->data;
            results[i]->buffer = p->result[i]->buffer;
        }
    }
    p->memory[copy] = ggml_backend_alloc_ctx_tensors(p->ctx[copy], p->backend);
    if (!p->memory[copy]) {
        give_up(row, "ggml has no memory for its operands");
        return 0;
    }
    if (on_host(row)) /* as for our operands */
        bench_ask_for_huge_pages(ggml_backend_buffer_get_base(p->memory[copy]),
                                 (int64_t)ggml_backend_buffer_get_size(p->memory[copy]));
    return 1;
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

static struct ggml_tensor *tensor(struct ggml_context *g, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3)
{
    return ggml_new_tensor_4d(g, GGML_TYPE_F32, ne0, ne1, ne2, ne3);
}

/* ---- Comparison -------------------------------------------------------------------------------- */

/* Normalised mean squared error: squared difference over squared value. */
typedef struct nmse {
    double difference, square;
} nmse;

/* Runs our call on copy 0 and waits. good: ggml's graphs were computed. */
static nmse run_ours(bench_row *row, int good)
{
    good = good && row->launch(row, 0) == GDN_OK && gdn_synchronize(row->ctx, NULL) == GDN_OK;
    return good ? (nmse){ 0, 0 } : (nmse){ 1, 1 };
}

/* Adds the difference of an operand of type t->type and n elements of ggml's tensor, from `first` on. */
static void compare(bench_row *row, nmse *e, int operand, const struct ggml_tensor *t, int64_t first, int64_t n)
{
    const size_t skipped = ggml_row_size(t->type, first), bytes = ggml_row_size(t->type, n);
    void *raw[2] = { download(row, operand, 0), bench_alloc((int64_t)bytes) };
    ggml_backend_tensor_get(t, raw[1], skipped, bytes);
    float *value[2]; /* ours, theirs */
    for (int i = 0; i < 2; i++) {
        value[i] = bench_alloc(4 * n);
        if (t->type == GGML_TYPE_F32) memcpy(value[i], raw[i], bytes);
        else ggml_get_type_traits(t->type)->to_float(raw[i], value[i], n);
        free(raw[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        const double theirs = (double)value[1][i], d = (double)value[0][i] - theirs;
        e->difference += d * d;
        e->square += theirs * theirs;
    }
    free(value[0]);
    free(value[1]);
}

/* Removes the peer if its results differ: then there are no ratios. */
static void finish(bench_row *row, const nmse *e, const char *what)
{
    row->peer.nmse = e->difference / e->square;
    if (row->peer.nmse < NMSE_LIMIT) return;
    char why[96];
    snprintf(why, sizeof why, "%s: ggml's results differ from ours (NMSE %g)", what, row->peer.nmse);
    give_up(row, why);
}

/* ---- The operators ----------------------------------------------------------------------------- */

void peer_add_gated_delta_net(bench_row *row, const peer_gated_delta_net *s)
{
    peer_state *p = peer_open(row, 1);
    if (!p) return;
    const int64_t d = s->head_dim, hk = s->heads_k, hv = s->heads_v, t = s->tokens, b = s->seqs;
    const int64_t attention = d * hv * t * b, state = d * d * hv * b; /* floats; state: of one slot */
    struct ggml_tensor *first = NULL;
    for (int c = p->n_copies - 1; c >= 0; c--) {
        struct ggml_context *g = p->ctx[c];
        struct ggml_tensor *q = tensor(g, d, hk, t, b), *k = tensor(g, d, hk, t, b), *v = tensor(g, d, hv, t, b);
        struct ggml_tensor *gate = tensor(g, s->gate_channels, hv, t, b), *beta = tensor(g, 1, hv, t, b);
        /* Our cache, viewed as [slot][sequence]: its first slot is contiguous, as ggml requires. */
        struct ggml_tensor *cache = tensor(g, s->slots * state, 1, 1, 1);
        struct ggml_tensor *now =
            ggml_view_4d(g, cache, d, d, hv, b, 4 * (size_t)d, 4 * (size_t)(d * d), 4 * (size_t)(d * d * hv), 0);
        struct ggml_tensor *op = ggml_gated_delta_net(g, q, k, v, gate, beta, now, s->slots);
        ggml_build_forward_expand(p->graph[0][c], op);
        struct ggml_tensor *states = ggml_view_1d(g, op, s->slots * state, 4 * (size_t)attention);
        ggml_build_forward_expand(p->graph[1][c], ggml_cpy(g, states, cache));
        if (!place(row, p, c, op, (struct ggml_tensor *[]){ op, NULL })) return;
        upload(row, s->q, q), upload(row, s->k, k), upload(row, s->v, v);
        upload(row, s->g, gate), upload(row, s->beta, beta), upload(row, s->state, cache);
        first = op;
    }
    if (!s->compare) return;
    nmse e = run_ours(row, peer_run(p, 0, 0));
    compare(row, &e, s->out, first, 0, attention);
    compare(row, &e, s->state, first, attention, s->slots * state);
    finish(row, &e, "gated_delta_net");
}

void peer_add_ssm_conv(bench_row *row, const peer_ssm_conv *s)
{
    peer_state *p = peer_open(row, 1);
    if (!p) return;
    const int64_t d = s->channels, t = s->tokens, b = s->seqs, w = s->kernel_width, h = w - 1;
    struct ggml_tensor *result = NULL;
    int good = 1;
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
        if (!place(row, p, c, conv, (struct ggml_tensor *[]){ conv, alone, joined, NULL })) break;
        upload(row, s->weight, weight), upload(row, s->x, x);
        ggml_backend_tensor_set(past, history, 0, ggml_nbytes(past));
        good &= peer_run(p, 1, c);
        ggml_backend_tensor_copy(joined, whole);
        result = conv;
    }
    free(ring);
    free(history);
    if (!row->peer.state) return;
    nmse e = run_ours(row, good);
    compare(row, &e, s->out, result, 0, d * t * b);
    finish(row, &e, "ssm_conv");
}

void peer_add_set_rows(bench_row *row, const peer_set_rows *s)
{
    peer_state *p = peer_open(row, 0);
    if (!p) return;
    struct ggml_tensor *first = NULL;
    for (int c = p->n_copies - 1; c >= 0; c--) {
        struct ggml_context *g = p->ctx[c];
        struct ggml_tensor *dst = ggml_new_tensor_2d(g, types[s->dtype], s->columns, s->rows_dst);
        struct ggml_tensor *src = tensor(g, s->columns, s->rows, 1, 1);
        struct ggml_tensor *index = ggml_new_tensor_1d(g, GGML_TYPE_I32, s->rows);
        struct ggml_tensor *op = ggml_set_rows(g, dst, src, index);
        ggml_build_forward_expand(p->graph[0][c], op);
        if (!place(row, p, c, op, (struct ggml_tensor *[]){ NULL })) return;
        upload(row, s->src, src), upload(row, s->index, index), upload(row, s->dst, dst);
        first = dst;
    }
    nmse e = run_ours(row, peer_run(p, 0, 0));
    compare(row, &e, s->dst, first, 0, (int64_t)s->columns * s->rows_dst);
    finish(row, &e, "set_rows");
}
