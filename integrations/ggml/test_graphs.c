/* Compares graphs like llama.cpp's on ggml's CPU backend and on libggml-gdn: same results, same caches.
 *
 *     test_graphs libggml-gdn.so
 *
 * test-backend-ops tests single nodes. This test covers states that are gathered and copied around the operators, which
 * the plugin skips if it can, together with ggml's allocator, which reuses memory early. It also checks the number of
 * calls and of skipped nodes. */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 4, CELLS = 6, INPUT = 64, MAX_SEQS = 4 };

typedef struct graph_case {
    const char *name;
    int64_t dim, heads_k, heads_v, tokens, seqs, slots; /* slots: snapshots kept, 1 = none */
    bool kda, no_silu;
    int head;                     /* first row that is written */
    int32_t rows[MAX_SEQS];       /* source row of each sequence's state */
    bool want_result, want_input; /* the operator's result, or the convolution's input, is an output */
    bool write_between;           /* a node overwrites a row between its gathering and the operator */
    bool read_between;            /* a node reads the cache between the operator and the copy after it */
    bool states_first;            /* states are gathered before the convolution's input, not after it */
    int calls, gone;              /* expected of the plugin: calls and skipped nodes */
} graph_case;

typedef void (*last_plan_fn)(ggml_backend_t, int *, int *);

typedef struct run {
    struct ggml_context *fixed, *ctx;
    ggml_backend_buffer_t buffer;
    ggml_gallocr_t alloc;
    struct ggml_cgraph *graph;
    struct ggml_tensor *weight, *input, *gate, *beta, *kernel, *r, *s, *rows, *out, *extra, *zeros;
} run;

static uint64_t seed;

static float number(float low, float high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (float)(seed >> 40) / (float)(1 << 24);
}

static void fill(struct ggml_tensor *t, float low, float high)
{
    for (int64_t i = 0; i < ggml_nelements(t); i++) ((float *)t->data)[i] = number(low, high);
}

static struct ggml_tensor *gather(run *w, struct ggml_tensor *cache, int64_t row)
{
    struct ggml_tensor *states = ggml_reshape_2d(w->ctx, cache, row, cache->ne[1]);
    struct ggml_tensor *got = ggml_get_rows(w->ctx, states, w->rows);
    ggml_build_forward_expand(w->graph, got);
    return got;
}

/* The convolution with its history, and copies that keep the newest columns for each snapshot. */
static struct ggml_tensor *convolve(run *w, const graph_case *c, int64_t channels)
{
    const int64_t row = (WIDTH - 1) * channels;
    struct ggml_tensor *x = ggml_mul_mat(w->ctx, w->weight, w->input);
    x = ggml_reshape_3d(w->ctx, x, channels, c->tokens, c->seqs);
    struct ggml_tensor *history = ggml_reshape_3d(w->ctx, gather(w, w->r, row), WIDTH - 1, channels, c->seqs);
    struct ggml_tensor *all = ggml_concat(w->ctx, history, ggml_transpose(w->ctx, x), 0);
    if (c->want_input) ggml_set_output(all);
    for (int64_t t = 1; t <= c->slots; t++) {
        int64_t first = all->ne[0] - (WIDTH - 1) - c->slots + t;
        if (first < 0) first = 0;
        struct ggml_tensor *last =
            ggml_view_3d(w->ctx, all, WIDTH - 1, channels, c->seqs, all->nb[1], all->nb[2], (size_t)first * 4);
        struct ggml_tensor *to = ggml_view_2d(w->ctx, w->r, row, c->seqs, w->r->nb[1],
                                              (size_t)((c->slots - t) * CELLS + c->head) * (size_t)row * 4);
        ggml_build_forward_expand(w->graph, ggml_cpy(w->ctx, last, to));
    }
    return all;
}

static void build(run *w, const graph_case *c, ggml_backend_t backend)
{
    const int64_t keys = c->dim * c->heads_k, values = c->dim * c->heads_v, channels = 2 * keys + values;
    const int64_t n = c->tokens * c->seqs, row = c->dim * values;
    struct ggml_init_params params = { .mem_size = 1 << 20, .no_alloc = true };
    memset(w, 0, sizeof *w);
    w->fixed = ggml_init(params);
    w->weight = ggml_new_tensor_2d(w->fixed, GGML_TYPE_F32, INPUT, channels);
    w->input = ggml_new_tensor_2d(w->fixed, GGML_TYPE_F32, INPUT, n);
    w->kernel = ggml_new_tensor_2d(w->fixed, GGML_TYPE_F32, WIDTH, channels);
    w->gate = ggml_new_tensor_4d(w->fixed, GGML_TYPE_F32, c->kda ? c->dim : 1, c->heads_v, c->tokens, c->seqs);
    w->beta = ggml_new_tensor_4d(w->fixed, GGML_TYPE_F32, 1, c->heads_v, c->tokens, c->seqs);
    w->rows = ggml_new_tensor_1d(w->fixed, GGML_TYPE_I32, c->seqs);
    w->r = ggml_new_tensor_2d(w->fixed, GGML_TYPE_F32, (WIDTH - 1) * channels, CELLS * c->slots);
    w->s = ggml_new_tensor_2d(w->fixed, GGML_TYPE_F32, row, CELLS * c->slots);
    w->zeros = ggml_new_tensor_1d(w->fixed, GGML_TYPE_F32, row);
    w->buffer = ggml_backend_alloc_ctx_tensors(w->fixed, backend);

    w->ctx = ggml_init(params);
    w->graph = ggml_new_graph(w->ctx);
    struct ggml_tensor *first = c->states_first ? gather(w, w->s, row) : NULL;
    struct ggml_tensor *all = convolve(w, c, channels);
    struct ggml_tensor *state = first ? first : gather(w, w->s, row);
    state = ggml_reshape_4d(w->ctx, state, c->dim, c->dim, c->heads_v, c->seqs);
    if (c->write_between) {
        struct ggml_tensor *to = ggml_view_1d(w->ctx, w->s, row, (size_t)c->rows[0] * (size_t)row * 4);
        ggml_build_forward_expand(w->graph, ggml_cpy(w->ctx, w->zeros, to));
    }
    struct ggml_tensor *mixed = ggml_ssm_conv(w->ctx, all, w->kernel);
    if (!c->no_silu) mixed = ggml_silu(w->ctx, mixed);
    const size_t token = (size_t)channels * 4;
    struct ggml_tensor *q = ggml_view_4d(w->ctx, mixed, c->dim, c->heads_k, c->tokens, c->seqs, (size_t)c->dim * 4,
                                         token, token * (size_t)c->tokens, 0);
    struct ggml_tensor *k = ggml_view_4d(w->ctx, mixed, c->dim, c->heads_k, c->tokens, c->seqs, (size_t)c->dim * 4,
                                         token, token * (size_t)c->tokens, (size_t)keys * 4);
    struct ggml_tensor *v = ggml_view_4d(w->ctx, mixed, c->dim, c->heads_v, c->tokens, c->seqs, (size_t)c->dim * 4,
                                         token, token * (size_t)c->tokens, (size_t)keys * 8);
    q = ggml_l2_norm(w->ctx, q, 1e-6f);
    k = ggml_l2_norm(w->ctx, k, 1e-6f);
    struct ggml_tensor *result = ggml_gated_delta_net(w->ctx, q, k, v, w->gate, w->beta, state, c->slots);
    if (c->want_result) ggml_set_output(result);
    ggml_build_forward_expand(w->graph, result);
    if (c->read_between) {
        w->extra = ggml_scale(w->ctx, w->s, 2.0f);
        ggml_set_output(w->extra);
        ggml_build_forward_expand(w->graph, w->extra);
    }
    const int64_t kept = c->tokens < c->slots ? c->tokens : c->slots;
    const size_t one = (size_t)row * 4;
    struct ggml_tensor *from =
        ggml_view_3d(w->ctx, result, row, c->seqs, kept, one, one * (size_t)c->seqs, (size_t)(values * n) * 4);
    struct ggml_tensor *to =
        ggml_view_3d(w->ctx, w->s, row, c->seqs, kept, w->s->nb[1], CELLS * one, (size_t)c->head * one);
    ggml_build_forward_expand(w->graph, ggml_cpy(w->ctx, from, to));
    w->out = ggml_scale(w->ctx, ggml_view_1d(w->ctx, result, values * n, 0), 0.5f);
    ggml_set_output(w->out);
    ggml_build_forward_expand(w->graph, w->out);
    w->alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    if (!ggml_gallocr_alloc_graph(w->alloc, w->graph)) exit(2);

    seed = 7;
    fill(w->weight, -0.3f, 0.3f);
    fill(w->input, -1, 1);
    fill(w->kernel, -1, 1);
    fill(w->gate, -0.5f, -0.001f);
    fill(w->beta, 0, 1);
    fill(w->r, -1, 1);
    fill(w->s, -1, 1);
    memset(w->zeros->data, 0, one);
    memcpy(w->rows->data, c->rows, (size_t)c->seqs * sizeof(int32_t));
}

static void end(run *w)
{
    ggml_gallocr_free(w->alloc);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->ctx);
    ggml_free(w->fixed);
}

/* Checks the normalised mean squared error, with the bound of test-backend-ops. */
static bool close_to(const struct ggml_tensor *a, const struct ggml_tensor *b, const char *name, const char *what)
{
    double error = 0, all = 0;
    for (int64_t i = 0; i < ggml_nelements(a); i++) {
        const double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        error += (x - y) * (x - y);
        all += x * x;
    }
    if (error <= 1e-7 * all && all > 0) return true;
    printf("%s: %s differs: %g of %g\n", name, what, error, all);
    return false;
}

static bool check(const graph_case *c, ggml_backend_t cpu, ggml_backend_t ours, last_plan_fn last_plan)
{
    run a, b;
    int calls, gone;
    bool good = true;
    build(&a, c, cpu);
    build(&b, c, ours);
    for (int step = 0; step < 2; step++) { /* the second time on the state of the first, reusing the graph */
        if (ggml_backend_graph_compute(cpu, a.graph) != GGML_STATUS_SUCCESS) return false;
        if (ggml_backend_graph_compute(ours, b.graph) != GGML_STATUS_SUCCESS) return false;
        last_plan(ours, &calls, &gone);
        good = close_to(a.out, b.out, c->name, "the result") && good;
        good = close_to(a.r, b.r, c->name, "the convolution's cache") && good;
        good = close_to(a.s, b.s, c->name, "the cache of states") && good;
        if (a.extra) good = close_to(a.extra, b.extra, c->name, "what was read in between") && good;
        const int staged = calls - c->calls; /* 1 if ggml's allocator forced the use of CONCAT's memory */
        if (staged < 0 || staged > 1 || gone != c->gone - staged) {
            printf("%s: %d calls and %d nodes left out, not %d and %d\n", c->name, calls, gone, c->calls, c->gone);
            good = false;
        }
    }
    end(&a);
    end(&b);
    return good;
}

/* Two calls each. Skipped nodes: 2 gatherings, CONCAT, SSM_CONV before SILU, a copy of states, a copy of columns per
 * slot. */
static const graph_case cases[] = {
    { "decode", 64, 2, 4, 1, 1, 1, .rows = { 2 }, .head = 2, .calls = 2, .gone = 6 },
    { "decode, another row", 64, 2, 4, 1, 1, 1, .rows = { 5 }, .head = 1, .calls = 2, .gone = 6 },
    { "decode of 3", 128, 4, 4, 1, 3, 1, .rows = { 1, 2, 3 }, .head = 1, .calls = 2, .gone = 6 },
    { "two go on from one that neither writes", 64, 2, 2, 1, 2, 1, .rows = { 0, 0 }, .head = 3, .calls = 2, .gone = 6 },
    { "rows cross", 64, 2, 2, 1, 2, 1, .rows = { 3, 2 }, .head = 2, .calls = 2, .gone = 5 },
    { "one reads what another writes", 64, 2, 2, 1, 2, 1, .rows = { 2, 2 }, .head = 2, .calls = 2, .gone = 5 },
    { "prefill", 64, 2, 4, 37, 1, 1, .rows = { 0 }, .head = 0, .calls = 2, .gone = 6 },
    { "prefill of 2", 32, 1, 3, 300, 2, 1, .rows = { 4, 1 }, .head = 2, .calls = 2, .gone = 6 },
    { "verify", 64, 2, 4, 4, 2, 4, .rows = { 7, 2 }, .head = 1, .calls = 2, .gone = 9 },
    { "fewer tokens than snapshots", 64, 2, 4, 2, 2, 4, .rows = { 1, 8 }, .head = 1, .calls = 2, .gone = 9 },
    { "one token and snapshots", 64, 2, 4, 1, 1, 3, .rows = { 13 }, .head = 1, .calls = 2, .gone = 8 },
    { "more tokens than snapshots", 32, 2, 4, 21, 1, 3, .rows = { 13 }, .head = 1, .calls = 2, .gone = 8 },
    { "channel gates", 32, 2, 2, 5, 2, 2, .kda = true, .rows = { 0, 1 }, .head = 0, .calls = 2, .gone = 7 },
    { "no SILU", 64, 2, 4, 3, 1, 1, .no_silu = true, .rows = { 0 }, .head = 0, .calls = 2, .gone = 5 },
    { "the result is wanted", 64, 2, 4, 3, 2, 1, .want_result = true, .rows = { 0, 1 }, .head = 0, .calls = 2,
      .gone = 5 },
    { "the convolution's input is wanted", 64, 2, 4, 3, 2, 1, .want_input = true, .rows = { 0, 1 }, .head = 0,
      .calls = 2, .gone = 3 },
    { "a state is overwritten in between", 64, 2, 4, 1, 2, 1, .write_between = true, .rows = { 5, 1 }, .head = 0,
      .calls = 2, .gone = 5 },
    { "the cache is read in between", 64, 2, 4, 1, 2, 1, .read_between = true, .rows = { 0, 1 }, .head = 0, .calls = 2,
      .gone = 5 },
    { "long, and the convolution's input is wanted", 32, 1, 3, 300, 2, 1, .want_input = true, .rows = { 4, 1 },
      .head = 2, .calls = 2, .gone = 3 },
    { "states first", 64, 2, 4, 3, 2, 1, .states_first = true, .rows = { 4, 1 }, .head = 2, .calls = 2, .gone = 6 },
    { "states first, long", 32, 1, 3, 300, 1, 1, .states_first = true, .rows = { 4 }, .head = 2, .calls = 2,
      .gone = 6 },
    { "dimensions that libgdn has no use for", 8, 2, 4, 3, 1, 1, .rows = { 0 }, .head = 0, .calls = 1, .gone = 4 },
};

/* ---- Threads ------------------------------------------------------------------------------------------ */

static _Thread_local bool was_here;
static _Atomic int n_strangers, n_here;

static void meet(struct ggml_tensor *node, int ith, int nth, void *user)
{
    (void)node;
    (void)user;
    if (ith == 0) n_here = nth;
    if (!was_here) n_strangers++;
    was_here = true;
}

/* Computes the graph several times with n threads; true if in the last `quiet` times all threads were seen before. */
static bool same_threads(ggml_backend_t ours, struct ggml_cgraph *graph, int n, int times, int quiet, const char *what)
{
    int wrong = 0;
    for (int i = 0; i < times; i++) {
        n_strangers = n_here = 0;
        if (ggml_backend_graph_compute(ours, graph) != GGML_STATUS_SUCCESS) return false;
        if (times - i <= quiet) wrong += n_strangers != 0 || n_here != n;
    }
    if (wrong) printf("%s, %d threads: in %d of %d graphs others, or another number of them\n", what, n, wrong, quiet);
    return !wrong;
}

/* Checks that threads persist between graphs, with and without OpenMP, also when their number changes, and that a pool
 * set by the program is respected. */
static bool threads_stay(ggml_backend_t ours, ggml_backend_set_n_threads_t set_n_threads)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    __typeof__(&ggml_threadpool_new) make = ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new");
    __typeof__(&ggml_threadpool_free) end_of = ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_free");
    __typeof__(&ggml_backend_cpu_set_threadpool) set =
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_cpu_set_threadpool");
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){ .mem_size = 1 << 20, .no_alloc = true });
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    float nothing = 0;
    struct ggml_tensor *node = ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, NULL, 0, meet, GGML_N_TASKS_MAX, NULL);
    static const int numbers[] = { 3, 2, 5, 1, 4, 5 };
    bool good = make && end_of && set;
    node->data = &nothing;
    ggml_build_forward_expand(graph, node);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && good; i++) {
        set_n_threads(ours, numbers[i]);
        good = same_threads(ours, graph, numbers[i], 8, 3, "threads of ours");
    }
    if (good) {
        struct ggml_threadpool_params params = ggml_threadpool_params_default(5);
        struct ggml_threadpool *pool = make(&params);
        set(ours, pool);
        good = same_threads(ours, graph, 5, 9, 8, "threads of the program's pool");
        set(ours, NULL);
        end_of(pool);
        good = same_threads(ours, graph, 5, 8, 3, "threads of ours again") && good;
    }
    ggml_free(ctx);
    return good;
}

int main(int argc, char **argv)
{
    const size_t n_cases = sizeof cases / sizeof *cases;
    size_t good = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s libggml-gdn.so\n", argv[0]);
        return 2;
    }
    setenv("GDN_GGML", "all", 1); /* also small graphs */
    ggml_backend_load_all();
    ggml_backend_reg_t reg = ggml_backend_load(argv[1]);
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_dev_t dev = reg ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    ggml_backend_t ours = dev ? ggml_backend_dev_init(dev, NULL) : NULL,
                   more = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    last_plan_fn last_plan = reg ? (last_plan_fn)ggml_backend_reg_get_proc_address(reg, "gdn_ggml_last_plan") : NULL;
    ggml_backend_set_n_threads_t set_n_threads =
        reg ? (ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads") : NULL;
    if (!cpu || !ours || !more || !last_plan || !set_n_threads) {
        fprintf(stderr, "%s: %s cannot be loaded\n", argv[0], argv[1]);
        return 1;
    }
    size_t n_runs = 0;
    for (int n_threads = 1; n_threads <= 5; n_threads += 2)
        for (size_t i = 0; i < n_cases; i++, n_runs++) {
            ggml_backend_t which = i % 2 ? ours : more; /* two objects, alternating */
            set_n_threads(which, n_threads);
            good += check(&cases[i], cpu, which, last_plan);
        }
    const bool stay = threads_stay(ours, set_n_threads);
    ggml_backend_free(more);
    ggml_backend_free(ours);
    ggml_backend_free(cpu);
    printf("%zu of %zu graphs as ggml computes them; threads %s\n", good, n_runs, stay ? "stay" : "do not stay");
    return good != n_runs || !stay;
}
