/* Calls that are captured in a graph and replayed, with other contents of maps and tensors each time. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { OUT = 5, STATE = 6, SRC = 7, DST = 8 }; /* step_on.span */
enum { RELAXED = 2 };

static simt_graph_exec *end_capture(simt_stream *stream)
{
    simt_graph *graph = NULL;
    simt_graph_exec *exec = NULL;
    REQUIRE(cuStreamEndCapture(stream, &graph) == SIMT_SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == SIMT_SUCCESS);
    REQUIRE(cuGraphDestroy(graph) == SIMT_SUCCESS);
    return exec;
}

/* Recorded once; replayed with the same maps, with other maps, and with bad ones. */
void test_graph(void)
{
    for (int mode = 0; mode <= RELAXED; mode++) {
        simt_context *mine = NULL;
        simt_stream *stream = NULL;
        gdn_span more = { 0 };
        step_on on;
        REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == SIMT_SUCCESS && cuStreamCreate(&stream, 1) == SIMT_SUCCESS);
        gdn_context *ctx = open_cuda(mine, 0);
        REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
        const long long launches = simt_count("launches");
        REQUIRE(cuStreamBeginCapture_v2(stream, mode) == SIMT_SUCCESS);
        REQUIRE(step_run(&on, stream) == GDN_OK);
        REQUIRE(gdn_poll(ctx) == GDN_OK); /* none of these touches the capture */
        FAILS(gdn_synchronize(ctx, stream), GDN_INVALID_ARGUMENT, "captured");
        REQUIRE(gdn_buffer_create(ctx, 100, &more) == GDN_OK && gdn_buffer_write(ctx, &more, 0, "hello", 5) == GDN_OK);
        gdn_buffer_destroy(ctx, &more);
        REQUIRE(simt_count("launches") == launches);
        simt_graph_exec *exec = end_capture(stream);
        REQUIRE(exec && step_same(&on, &start));

        for (int i = 0; i < 2; i++) {
            REQUIRE(cuGraphLaunch(exec, stream) == SIMT_SUCCESS && gdn_synchronize(ctx, stream) == GDN_OK);
            REQUIRE(step_same(&on, i ? &wanted_twice : &wanted));
        }

        /* Other maps: rows in another order, a sequence that starts from zero, one that is padding. */
        step other = start;
        const int32_t src[SEQS] = { 2, GDN_NONE, GDN_SKIP }, dst[SEQS] = { 2, 0, 1 };
        memcpy(other.src, src, sizeof src);
        memcpy(other.dst, dst, sizeof dst);
        REQUIRE(gdn_buffer_write(ctx, &on.span[SRC], 0, src, sizeof src) == GDN_OK &&
                gdn_buffer_write(ctx, &on.span[DST], 0, dst, sizeof dst) == GDN_OK);
        REQUIRE(gdn_buffer_write(ctx, &on.span[STATE], 0, start.state, sizeof start.state) == GDN_OK);
        REQUIRE(gdn_buffer_write(ctx, &on.span[OUT], 0, start.out, sizeof start.out) == GDN_OK);
        REQUIRE(cuGraphLaunch(exec, stream) == SIMT_SUCCESS && gdn_synchronize(ctx, stream) == GDN_OK);
        gdn_context *reference = NULL;
        const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
        gdn_gated_delta_net_args a = other.args;
        a.q.data = other.q, a.k.data = other.k, a.v.data = other.v, a.g.data = other.g, a.beta.data = other.beta;
        a.out.data = other.out, a.state.data = other.state, a.state_src.data = other.src, a.state_dst.data = other.dst;
        REQUIRE(gdn_context_create(&desc, &reference) == GDN_OK && gdn_gated_delta_net(reference, &a, NULL) == GDN_OK);
        gdn_context_destroy(reference);
        REQUIRE(step_same(&on, &other));

        /* A bad one: reported once, and nothing of that sequence is written. */
        const int32_t bad[SEQS] = { GDN_SKIP, SEQS, GDN_SKIP };
        REQUIRE(gdn_buffer_write(ctx, &on.span[SRC], 0, bad, sizeof bad) == GDN_OK);
        REQUIRE(cuGraphLaunch(exec, stream) == SIMT_SUCCESS && gdn_synchronize(ctx, stream) == GDN_BAD_MAP);
        REQUIRE(strstr(gdn_last_error(), "state_src") && gdn_synchronize(ctx, stream) == GDN_OK &&
                step_same(&on, &other));

        REQUIRE(cuGraphExecDestroy(exec) == SIMT_SUCCESS);
        step_drop(&on);
        gdn_context_destroy(ctx);
        REQUIRE(cuCtxDestroy_v2(mine) == SIMT_SUCCESS);
    }
}

/* Calls of several launches that depend on each other: a long convolution, and set_rows with its table. */
enum { T = 100, CHANNELS = 20, WIDTH = 4, ROWS = 90, TARGETS = 40, COLUMNS = 8 };

typedef struct everything {
    float x[T * CHANNELS], weight[CHANNELS * WIDTH], out[T * CHANNELS], history[2 * (WIDTH - 1) * CHANNELS];
    int32_t position[1];
    float src[ROWS * COLUMNS], dst[TARGETS * COLUMNS];
    int32_t index[ROWS];
} everything;

static void fill(everything *e, uint32_t seed)
{
    float *all = e->x;
    for (size_t i = 0; i < offsetof(everything, position) / 4; i++, seed = seed * 1664525u + 1013904223u)
        all[i] = (float)(int32_t)seed * 0x1p-31f;
    e->position[0] = (int32_t)(seed % 50);
    for (int i = 0; i < ROWS * COLUMNS; i++, seed = seed * 1664525u + 1013904223u)
        e->src[i] = (float)(int32_t)seed * 0x1p-31f;
    for (int i = 0; i < ROWS; i++, seed = seed * 1664525u + 1013904223u)
        e->index[i] = (int32_t)(seed >> 8) % (TARGETS + 1) - 1;
}

/* The calls, with all operands in one piece of memory that begins at `at`. */
static gdn_status run_everything(gdn_context *ctx, char *at, const gdn_span *workspace, gdn_stream stream)
{
    gdn_ssm_conv_args c =
        FIELDS(.size = sizeof c, .n_seqs = 1, .n_tokens = T, .n_channels = CHANNELS, .kernel_width = WIDTH,
               .activation = GDN_ACTIVATION_SILU, .history = { .n_rows = 2, .n_slots = WIDTH - 1 });
    c.x.data = at + offsetof(everything, x), c.weight.data = at + offsetof(everything, weight),
    c.out.data = at + offsetof(everything, out);
    c.history.data = at + offsetof(everything, history), c.position.data = at + offsetof(everything, position);
    gdn_set_rows_args r = GDN_INIT(gdn_set_rows_args);
    r.n_columns = COLUMNS, r.n_rows = ROWS, r.n_rows_dst = TARGETS;
    r.src.data = at + offsetof(everything, src), r.dst.data = at + offsetof(everything, dst),
    r.index.data = at + offsetof(everything, index);
    r.index.dtype = GDN_I32;
    r.workspace = *workspace;
    const gdn_status status = gdn_ssm_conv(ctx, &c, stream);
    return status ? status : gdn_set_rows(ctx, &r, stream);
}

/* What a graph is recorded for and compared with: a context on a stream with memory, and the reference. */
typedef struct recording {
    gdn_context *reference, *ctx;
    simt_context *mine;
    simt_stream *stream;
    gdn_span memory;
} recording;

static recording open_recording(uint64_t bytes)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    recording r = { 0 };
    REQUIRE(cuCtxCreate_v2(&r.mine, 0, 0) == SIMT_SUCCESS && cuStreamCreate(&r.stream, 0) == SIMT_SUCCESS);
    r.ctx = open_cuda(r.mine, 0);
    REQUIRE(gdn_context_create(&desc, &r.reference) == GDN_OK);
    REQUIRE(gdn_buffer_create(r.ctx, bytes, &r.memory) == GDN_OK);
    return r;
}

static void close_recording(recording *r, simt_graph_exec *exec)
{
    REQUIRE(cuGraphExecDestroy(exec) == SIMT_SUCCESS);
    gdn_buffer_destroy(r->ctx, &r->memory);
    gdn_context_destroy(r->ctx);
    gdn_context_destroy(r->reference);
    REQUIRE(cuCtxDestroy_v2(r->mine) == SIMT_SUCCESS);
}

void test_graph_of_everything(void)
{
    static everything here, there;
    gdn_span workspace = { 0 };
    const gdn_span none = { 0 };
    recording r = open_recording(sizeof here);
    REQUIRE(gdn_buffer_create(r.ctx, 4096, &workspace) == GDN_OK);
    REQUIRE(cuStreamBeginCapture_v2(r.stream, 0) == SIMT_SUCCESS);
    REQUIRE(run_everything(r.ctx, r.memory.data, &workspace, r.stream) == GDN_OK);
    simt_graph_exec *exec = end_capture(r.stream);
    for (uint32_t seed = 1; seed < 4; seed++) {
        fill(&here, seed);
        REQUIRE(gdn_buffer_write(r.ctx, &r.memory, 0, &here, sizeof here) == GDN_OK);
        REQUIRE(cuGraphLaunch(exec, r.stream) == SIMT_SUCCESS && gdn_synchronize(r.ctx, r.stream) == GDN_OK);
        REQUIRE(gdn_buffer_read(r.ctx, &r.memory, 0, &there, sizeof there) == GDN_OK);
        REQUIRE(run_everything(r.reference, (char *)&here, &none, NULL) == GDN_OK);
        REQUIRE(!memcmp(&here, &there, sizeof here));
    }
    gdn_buffer_destroy(r.ctx, &workspace);
    close_recording(&r, exec);
}

/* Several layers' verification with a replay log: each step is one launch of a graph, between which the host writes the
 * drafts and the maps and nothing else. A layer's v is what the one before gives. */
enum { LAYERS = 3, N_SEQS = 2, DRAFTS = 4, HEADS_K = 1, HEADS_V = 2, HEAD = 64, LOGGED = 2 * DRAFTS, STEPS = 6 };
enum { ENTRY = HEADS_K * HEAD + HEADS_V * (HEAD + 1), TOKENS = N_SEQS * DRAFTS };

typedef struct layer {
    float q[TOKENS * HEADS_K * HEAD], k[TOKENS * HEADS_K * HEAD], g[TOKENS * HEADS_V], beta[TOKENS * HEADS_V];
    float out[TOKENS * HEADS_V * HEAD], state[N_SEQS * HEADS_V * HEAD * HEAD], log[N_SEQS * LOGGED * ENTRY];
} layer;
typedef struct layers {
    layer of[LAYERS];
    float v[TOKENS * HEADS_V * HEAD];
    int32_t position[N_SEQS], base_position[N_SEQS], commit[N_SEQS];
} layers;

static gdn_status run_layers(gdn_context *ctx, char *at, gdn_stream stream)
{
    gdn_status status = GDN_OK;
    for (int i = 0; i < LAYERS && !status; i++) {
        char *own = at + offsetof(layers, of) + (size_t)i * sizeof(layer);
        gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
        gdn_replay_log log = GDN_INIT(gdn_replay_log);
        a.n_seqs = a.state.n_rows = log.entries.n_rows = N_SEQS, a.n_tokens = TOKENS, log.entries.n_slots = LOGGED;
        a.n_snapshots = 0, a.scale = 0.125f, a.log = &log;
        a.n_heads_k = HEADS_K, a.n_heads_v = HEADS_V, a.head_dim_k = a.head_dim_v = HEAD;
        a.q.data = own + offsetof(layer, q), a.k.data = own + offsetof(layer, k);
        a.v.data = i ? own - sizeof(layer) + offsetof(layer, out) : at + offsetof(layers, v);
        a.g.data = own + offsetof(layer, g), a.beta.data = own + offsetof(layer, beta);
        a.out.data = own + offsetof(layer, out), a.state.data = own + offsetof(layer, state);
        log.entries.data = own + offsetof(layer, log);
        a.position.data = at + offsetof(layers, position),
        log.base_position.data = at + offsetof(layers, base_position);
        log.commit.data = at + offsetof(layers, commit);
        status = gdn_gated_delta_net(ctx, &a, stream);
    }
    return status;
}

void test_graph_of_layers(void)
{
    static layers here, there;
    uint32_t seed = 7;
    recording r = open_recording(sizeof here);
    REQUIRE(cuStreamBeginCapture_v2(r.stream, 0) == SIMT_SUCCESS);
    REQUIRE(run_layers(r.ctx, r.memory.data, r.stream) == GDN_OK);
    simt_graph_exec *exec = end_capture(r.stream);

    float *all = here.of[0].q;
    for (size_t i = 0; i < offsetof(layers, position) / 4; i++, seed = seed * 1664525u + 1013904223u)
        all[i] = (float)(int32_t)seed * 0x1p-34f;
    for (int s = 0; s < N_SEQS; s++) here.position[s] = here.base_position[s] = 5 + s, here.commit[s] = s;
    REQUIRE(gdn_buffer_write(r.ctx, &r.memory, 0, &here, sizeof here) == GDN_OK);
    for (int turn = 0; turn < STEPS; turn++) {
        const size_t maps = offsetof(layers, v), bytes = sizeof here - maps;
        for (int i = 0; i < TOKENS * HEADS_V * HEAD; i++, seed = seed * 1664525u + 1013904223u)
            here.v[i] = (float)(int32_t)seed * 0x1p-34f;
        REQUIRE(gdn_buffer_write(r.ctx, &r.memory, maps, (const char *)&here + maps, bytes) == GDN_OK);
        REQUIRE(cuGraphLaunch(exec, r.stream) == SIMT_SUCCESS && gdn_synchronize(r.ctx, r.stream) == GDN_OK);
        REQUIRE(run_layers(r.reference, (char *)&here, NULL) == GDN_OK);
        REQUIRE(gdn_buffer_read(r.ctx, &r.memory, 0, &there, sizeof there) == GDN_OK);
        REQUIRE(!memcmp(&here, &there, sizeof here));
        for (int s = 0; s < N_SEQS; s++, seed = seed * 1664525u + 1013904223u) { /* one to all of them are accepted */
            here.base_position[s] = here.position[s];
            here.position[s] += 1 + (int32_t)(seed >> 16 & 0xff) % DRAFTS;
        }
    }
    close_recording(&r, exec);
}
