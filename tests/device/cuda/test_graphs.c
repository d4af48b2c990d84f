/* Calls that are captured in a graph and replayed, with other contents of maps and tensors each time. */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tests/device/placed.h"

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
        gdn_context *ctx = step_open(&on, open_cuda(mine, 0));
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
        step_reference(&other, 1);
        REQUIRE(step_same(&on, &other));

        /* A bad one: reported once, and nothing of that sequence is written. */
        const int32_t bad[SEQS] = { GDN_SKIP, SEQS, GDN_SKIP };
        REQUIRE(gdn_buffer_write(ctx, &on.span[SRC], 0, bad, sizeof bad) == GDN_OK);
        REQUIRE(cuGraphLaunch(exec, stream) == SIMT_SUCCESS && gdn_synchronize(ctx, stream) == GDN_BAD_MAP);
        REQUIRE(strstr(gdn_last_error(), "state_src") && gdn_synchronize(ctx, stream) == GDN_OK &&
                step_same(&on, &other));

        REQUIRE(cuGraphExecDestroy(exec) == SIMT_SUCCESS);
        step_close(&on);
        REQUIRE(cuCtxDestroy_v2(mine) == SIMT_SUCCESS);
    }
}

/* Calls that are recorded for a context on a stream of the program's, and the same on the reference. */
enum { MOST_CALLS = 3 };
typedef struct recording {
    gdn_context *reference, *ctx;
    simt_context *mine;
    simt_stream *stream;
    simt_graph_exec *exec;
    int n;
    placed here[MOST_CALLS], there[MOST_CALLS];
} recording;

/* `chained`: of calls of gated_delta_net, v of each is what the one before gives. */
static void begin(recording *r, int n, const check_kernel *const kernel[], const check_spec *spec, int chained)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    *r = (recording){ .n = n };
    REQUIRE(cuCtxCreate_v2(&r->mine, 0, 0) == SIMT_SUCCESS && cuStreamCreate(&r->stream, 0) == SIMT_SUCCESS);
    r->ctx = open_cuda(r->mine, 0);
    REQUIRE(gdn_context_create(&desc, &r->reference) == GDN_OK);
    for (int i = 0; i < n; i++)
        for (int host = 0; host < 2; host++) {
            placed *const p = host ? r->here : r->there;
            placed_open(&p[i], host ? r->reference : r->ctx, kernel[i], &spec[i]);
            if (chained && i) p[i].args.gated_delta_net.args.v.data = p[i - 1].args.gated_delta_net.args.out.data;
        }
    REQUIRE(cuStreamBeginCapture_v2(r->stream, 0) == SIMT_SUCCESS);
    for (int i = 0; i < n; i++) REQUIRE(placed_run(&r->there[i], r->stream) == GDN_OK);
    r->exec = end_capture(r->stream);
}

static void replay(recording *r)
{
    REQUIRE(cuGraphLaunch(r->exec, r->stream) == SIMT_SUCCESS && gdn_synchronize(r->ctx, r->stream) == GDN_OK);
    for (int i = 0; i < r->n; i++) REQUIRE(placed_run(&r->here[i], NULL) == GDN_OK);
    for (int i = 0; i < r->n; i++) REQUIRE(placed_same(&r->here[i], &r->there[i]));
}

static void end(recording *r)
{
    REQUIRE(cuGraphExecDestroy(r->exec) == SIMT_SUCCESS);
    for (int i = 0; i < r->n; i++) placed_close(&r->here[i]), placed_close(&r->there[i]);
    gdn_context_destroy(r->ctx);
    gdn_context_destroy(r->reference);
    REQUIRE(cuCtxDestroy_v2(r->mine) == SIMT_SUCCESS);
}

/* Calls of several launches that depend on each other: a long convolution, and set_rows with its table. */
void test_graph_of_everything(void)
{
    static recording r;
    begin(&r, 2, (const check_kernel *const[]){ &check_kernel_ssm_conv, &check_kernel_set_rows },
          (const check_spec[]){ { .ssm_conv = CONV(1, 100, .n_channels = 20, .width = 4, .n_rows = 2, .n_rows_out = 2,
                                                   .call.args.activation = 1, .map_position = 1) },
                                { .set_rows = ROWS(.args.n_columns = 8, .args.n_rows = 90, .args.n_rows_dst = 40) } },
          0);
    for (int seed = 1; seed < 4; seed++) {
        for (int host = 0; host < 2; host++) {
            placed *const p = host ? r.here : r.there;
            placed_fill(&p[0], "x", (uint64_t)seed);
            placed_map(&p[0], "position", &(int32_t){ 11 * seed });
            for (int i = 0; i < 90; i++) check_put_index(&p[1].c, 0, 0, i, i * seed * 7 % 41 - 1);
            placed_put(&p[1], "index");
            placed_fill(&p[1], "src", 5 + (uint64_t)seed);
            placed_fill(&p[1], "dst", 9);
        }
        replay(&r);
    }
    end(&r);
}

/* Several layers' verification with a replay log: each step is one launch of a graph, between which the host writes the
 * drafts and the maps and nothing else. */
void test_graph_of_layers(void)
{
    enum { STEPS = 6, LAYERS = 3 };
    static recording r;
    const check_kernel *const kernel = &check_kernel_gated_delta_net;
    check_spec layer = { .gated_delta_net =
                             DELTA(2, 4, .n_heads_v = 2, .dim_k = 64, .dim_v = 64, .n_snapshots = 0, .log_rows = 2,
                                   .log_slots = 8, .map_position = 1, .map_base_position = 1, .map_commit = 1,
                                   .values[DELTA_G] = CHECK_GATE_SLOW) };
    for (int s = 0; s < 2; s++) {
        layer.gated_delta_net.seq[s].position = 5 + s;
        layer.gated_delta_net.seq[s].commit = s;
    }
    int32_t position[] = { 5, 6 }, base_position[] = { 5, 6 };
    begin(&r, LAYERS, (const check_kernel *const[]){ kernel, kernel, kernel },
          (const check_spec[]){ layer, layer, layer }, 1);
    for (int turn = 0; turn < STEPS; turn++) {
        for (int host = 0; host < 2; host++)
            for (int i = 0; i < LAYERS; i++) {
                placed *const p = host ? &r.here[i] : &r.there[i];
                placed_fill(p, "v", 77 + (uint64_t)turn); /* only the first layer's matters */
                placed_map(p, "position", position);
                placed_map(p, "log.base_position", base_position);
            }
        replay(&r);
        for (int i = 0; i < 2; i++) { /* one to all of them are accepted */
            base_position[i] = position[i];
            position[i] += 1 + (turn + 2 * i) % 4;
        }
    }
    end(&r);
}
