/* A stream of tokens depends on the model, the prompt, the sampler and the seed alone. Here the same requests run one
 * by one and plainly, and then in every other way: side by side, drafted by the MTP block or by n-grams, in other
 * micro-batches, with more threads, other instruction sets and other backends; cut by stop tokens, limits and callers.
 *
 *   test_streams FOLDER [STRIDE]    the folder that has fixtures/ and the repository's models in ../../models
 *
 * STRIDE is for builds under sanitizers, which take ten times as long and look at what code does with memory: every
 * STRIDE-th way, beginning with another one for each model, so that 4 models have all ways between them for a STRIDE of
 * up to 4; every STRIDE-th cut, but none of the trained model, which runs the same code on larger matrices; and
 * controls, which show that this test can fail, for the first model only. */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"

enum { N_REQUESTS = 8, MAX_TOKENS = 64, N_KV_TYPES = 3 };

typedef struct request {
    int32_t prompt[64], n_prompt, n_max, stop, interrupt_at; /* stop: -1 none; interrupt_at: 0 never */
    rt_sampling sampling;
} request;

/* How requests are run. */
typedef struct way {
    const char *name;
    int32_t parallel, n_batch, step_rows, n_threads, draft_max;
    rt_spec spec;
    float p_min;
    const char *isa;
    uint32_t backend;
    int kv_type; /* GDN_F32, GDN_F16 or GDN_BF16: its texts are those of plain requests with such cells */
    int corrupt; /* the control: 1 states, 2 convolution, 3 keys of one sequence are changed, 4 the log */
    rt_rollback rollback;
    int32_t commit_after;
    int32_t tree; /* second choices that are verified; rolls back with a log then */
} way;

typedef struct totals {
    int64_t drafted, accepted, rollbacks, seconds;
} totals;

static int at_token(void *user, int32_t id, int32_t token)
{
    int32_t *left = user; /* by request: tokens until it is interrupted */
    (void)token;
    return --left[id] == 0;
}

static void corrupt(rt_engine *e, const rt_model *model, int what)
{
    rt_memory *m = rt_engine_memory(e);
    const rt_pool pool = rt_memory_pool(m, 0);
    if (what == 1)
        for (uint64_t i = 0; i < pool.state.bytes / 4; i += 3) ((float *)pool.state.data)[i] += 0.5f;
    if (what == 2)
        for (uint64_t i = 0; i < pool.conv.bytes / 4; i++)
            ((float *)pool.conv.data)[i] = -((float *)pool.conv.data)[i] + 0.25f;
    if (what == 4)
        for (uint64_t i = 0; i < pool.log.bytes / 4; i += 3) ((float *)pool.log.data)[i] += 0.5f;
    if (what == 3) {
        const int32_t *cells = rt_seq_cells(m, 0);
        const int64_t row = (int64_t)model->hp.n_head_kv * model->hp.head_dim;
        float *v = (float *)(void *)rt_memory_v(m, 0);
        for (int32_t p = 0; p < rt_seq_length(m, 0); p++)
            for (int64_t i = 0; i < row; i++) v[cells[p] * row + i] += 4.0f;
    }
}

static totals run(const rt_model *model, const request *r, int32_t n, const way *w, fixture_stream *out)
{
    const int32_t draft_max = w->spec == RT_SPEC_OFF ? 0 : w->draft_max;
    const fixture_engine with =
        FIELDS(.isa = w->isa, .n_threads = w->n_threads, .n_seqs = w->parallel, .n_batch = w->n_batch,
               .n_rollback = draft_max + (w->tree ? w->tree + 1 : 0), .draft = w->spec == RT_SPEC_MTP,
               .kv_type = w->kv_type, .backend = w->backend, .rollback = w->rollback, .commit_after = w->commit_after);
    rt_engine *e = fixture_open(model, &with);
    rt_scheduler *s;
    const rt_scheduler_desc desc = { e, NULL, w->parallel, w->step_rows, w->spec, draft_max, w->p_min, 1, w->tree };
    NEED(!rt_scheduler_create(&desc, &s));
    int32_t left[N_REQUESTS];
    for (int32_t i = 0; i < n; i++) {
        int32_t id;
        const rt_request q =
            FIELDS(.prompt = r[i].prompt, .n_prompt = r[i].n_prompt, .n_max = r[i].n_max, .sampling = r[i].sampling,
                   .stop = &r[i].stop, .n_stop = r[i].stop >= 0, .on_token = at_token, .user = left);
        left[i] = r[i].interrupt_at;
        NEED(!rt_submit(s, &q, &id) && id == i);
    }
    int step = 0;
    for (int busy = 1; busy; step++) {
        NEED(!rt_step_run(s, &busy));
        if (w->corrupt && (step == 3 || (w->corrupt == 4 && step > 3))) /* steps without drafts use no log */
            corrupt(e, model, w->corrupt);
    }
    for (int32_t i = 0; i < n; i++) {
        fixture_result(s, i, &out[i]);
        NEED(out[i].n <= MAX_TOKENS);
    }
    REQUIRE(rt_memory_free_cells(rt_engine_memory(e)) == 128 * w->parallel); /* all sequences have ended */
    const rt_totals t = rt_scheduler_totals(s);
    const totals all = { t.drafted, t.accepted, t.rollbacks, t.tree_accepted };
    rt_scheduler_destroy(s);
    rt_engine_destroy(e);
    return all;
}

static void make_requests(const rt_model *model, uint64_t seed, request *r)
{
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        memset(&r[i], 0, sizeof r[i]);
        r[i].n_prompt = 1 + (int32_t)(test_random(&seed) % 40);
        r[i].n_max = 8 + (int32_t)(test_random(&seed) % 40);
        r[i].stop = -1;
        const int32_t period = i % 4 ? 64 : 5; /* some prompts repeat themselves, for the n-grams */
        for (int32_t p = 0; p < r[i].n_prompt; p++)
            r[i].prompt[p] =
                p < period ? (int32_t)(test_random(&seed) % (uint64_t)model->hp.n_vocab) : r[i].prompt[p - period];
        r[i].sampling = (rt_sampling){ 0, 0, 1, 0, 1, 64, seed };
        if (i % 2)
            r[i].sampling = (rt_sampling)FIELDS(0.5f + 0.1f * (float)i, i % 3 ? 20 : 0, i % 4 == 1 ? 0.9f : 1.0f,
                                                i == 3 ? 0.02f : 0.0f, i == 5 ? 1.3f : 1.0f, 16, seed);
    }
}

static int32_t stride = 1;
static int brief(void) { return stride > 1; }
static int64_t n_seconds;  /* second choices of the draft head that were what came */
static int64_t n_accepted; /* of all models: random ones agree with their drafts rarely, the trained one often */

static int model_number; /* each way rolls back by snapshots and by a log, in turn from model to model */

static const way plain = { .name = "plain", .parallel = 1, .n_batch = 64, .n_threads = 1 };

/* All ways against one by one; or every stride-th, from `first` on. */
static void ways(const rt_model *model, const char *name, size_t first)
{
    static const way all[] = {
        { .name = "8 at once", .parallel = 8, .n_batch = 64, .n_threads = 1 },
        { .name = "3 at once, 2 threads", .parallel = 3, .n_batch = 64, .n_threads = 2 },
        { .name = "micro-batches of 1", .parallel = 2, .n_batch = 1, .n_threads = 1 },
        { .name = "micro-batches of 7, steps of 5", .parallel = 4, .n_batch = 7, .step_rows = 5, .n_threads = 2 },
        { .name = "mtp", .parallel = 1, .n_batch = 64, .n_threads = 1, .spec = RT_SPEC_MTP, .draft_max = 3 },
        FIELDS(.name = "mtp of 1, 5 at once", .parallel = 5, .n_batch = 64, .n_threads = 2, .spec = RT_SPEC_MTP,
               .draft_max = 1),
        FIELDS(.name = "mtp of 6, 8 at once, micro-batches of 9", .parallel = 8, .n_batch = 9, .n_threads = 2,
               .spec = RT_SPEC_MTP, .draft_max = 6),
        FIELDS(.name = "mtp with p_min", .parallel = 2, .n_batch = 16, .n_threads = 1, .spec = RT_SPEC_MTP,
               .draft_max = 4, .p_min = 0.2f),
        { .name = "n-grams", .parallel = 1, .n_batch = 64, .n_threads = 1, .spec = RT_SPEC_NGRAM, .draft_max = 4 },
        FIELDS(.name = "n-grams of 8, 6 at once, 2 threads", .parallel = 6, .n_batch = 11, .n_threads = 2,
               .spec = RT_SPEC_NGRAM, .draft_max = 8),
        FIELDS(.name = "scalar", .parallel = 4, .n_batch = 64, .n_threads = 1, .isa = "scalar", .spec = RT_SPEC_MTP,
               .draft_max = 2),
        FIELDS(.name = "avx2", .parallel = 4, .n_batch = 64, .n_threads = 1, .isa = "avx2", .spec = RT_SPEC_NGRAM,
               .draft_max = 2),
        { .name = "avx512", .parallel = 4, .n_batch = 64, .n_threads = 1, .isa = "avx512" },
        FIELDS(.name = "mtp, 8 at once, cells in F16", .parallel = 8, .n_batch = 9, .n_threads = 1, .spec = RT_SPEC_MTP,
               .draft_max = 3, .kv_type = GDN_F16),
        FIELDS(.name = "n-grams, 3 at once, cells in BF16", .parallel = 3, .n_batch = 11, .n_threads = 1,
               .spec = RT_SPEC_NGRAM, .draft_max = 4, .kv_type = GDN_BF16),
        FIELDS(.name = "mtp, trees", .parallel = 1, .n_batch = 64, .n_threads = 1, .spec = RT_SPEC_MTP, .draft_max = 2,
               .tree = 1),
        FIELDS(.name = "mtp of 4, trees of 3, 5 at once, micro-batches of 17, F16", .parallel = 5, .n_batch = 17,
               .n_threads = 2, .spec = RT_SPEC_MTP, .draft_max = 4, .tree = 3, .kv_type = GDN_F16),
        FIELDS(.name = "mtp of 2, trees of 2, 3 at once, p_min", .parallel = 3, .n_batch = 64, .n_threads = 1,
               .spec = RT_SPEC_MTP, .draft_max = 2, .tree = 2, .p_min = 0.05f),
        FIELDS(.name = "kernels of the reference", .parallel = 3, .n_batch = 64, .n_threads = 1,
               .backend = GDN_BACKEND_REFERENCE, .spec = RT_SPEC_MTP, .draft_max = 2),
    };
    static const int kv_types[N_KV_TYPES] = { GDN_F32, GDN_F16, GDN_BF16 };
    static fixture_stream truths[N_KV_TYPES][N_REQUESTS], out[N_REQUESTS];
    request r[N_REQUESTS];
    totals sum = { 0 };
    int n_ways = 0;
    make_requests(model, 7, r);
    for (int i = 0; i < N_KV_TYPES; i++) {
        way with = plain;
        int asked = !i;
        with.kv_type = kv_types[i];
        for (size_t j = first; j < sizeof all / sizeof all[0]; j += (size_t)stride)
            asked |= all[j].kv_type == with.kv_type;
        if (asked) run(model, r, N_REQUESTS, &with, truths[i]);
    }
    for (size_t i = first; i < sizeof all / sizeof all[0]; i += (size_t)stride, n_ways++) {
        way w = all[i];
        if (w.spec == RT_SPEC_MTP && !model->hp.n_mtp) w.spec = RT_SPEC_NGRAM;
        w.tree = w.spec == RT_SPEC_MTP ? w.tree : 0;
        w.rollback = w.tree || (n_ways + model_number) % 2 ? RT_ROLLBACK_LOG : RT_ROLLBACK_SNAPSHOTS;
        w.commit_after = n_ways % 3 ? 0 : 1;
        rt_dense *dense;
        rt_threads *threads;
        NEED(!rt_threads_create(1, &threads));
        const int missing = rt_dense_create(w.isa, threads, &dense) != GDN_OK;
        if (!missing) rt_dense_destroy(dense);
        rt_threads_destroy(threads);
        if (missing) continue; /* not an instruction set of this machine */
        const fixture_stream *truth = truths[w.kv_type == GDN_F32 ? 0 : w.kv_type == GDN_F16 ? 1 : 2];
        const totals t = run(model, r, N_REQUESTS, &w, out);
        sum.drafted += t.drafted;
        sum.accepted += t.accepted;
        sum.rollbacks += t.rollbacks;
        n_seconds += t.seconds;
        for (int32_t j = 0; j < N_REQUESTS; j++)
            REQUIRE(fixture_same(&truth[j], &out[j]), "%s, %s: request %d", name, w.name, (int)j);
    }
    REQUIRE(sum.drafted > 0 && sum.rollbacks > 0); /* or drafting was not tested */
    n_accepted += sum.accepted;
    printf("%-28s %d ways, %lld drafted, %lld accepted, %lld rollbacks\n", name, n_ways, (long long)sum.drafted,
           (long long)sum.accepted, (long long)sum.rollbacks);
}

/* Controls: memory that is changed under way shows, plainly and with drafts (29: acceptance would not tell). */
static void controls(const rt_model *model, const char *name)
{
    static fixture_stream truth[N_REQUESTS], out[N_REQUESTS];
    request r[N_REQUESTS];
    make_requests(model, 7, r);
    run(model, r, N_REQUESTS, &plain, truth);
    for (int what = 1; what <= 4; what++)
        for (int spec = what == 4; spec < 2; spec++) { /* plain decoding has no log */
            const way w = FIELDS(.name = "corrupted", .parallel = 4, .n_batch = 64, .n_threads = 1, .corrupt = what,
                                 .rollback = what % 2 ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG,
                                 .spec = spec ? RT_SPEC_NGRAM : RT_SPEC_OFF, .draft_max = 3);
            int differ = 0;
            run(model, r, N_REQUESTS, &w, out);
            for (int32_t i = 0; i < N_REQUESTS; i++) differ += !fixture_same(&truth[i], &out[i]);
            REQUIRE(differ, "%s: a corrupted memory (%d) was not noticed", name, what);
        }
}

/* 27, 28: every place where a stream can end, inside accepted windows too; and going on from there. */
static void cuts(const rt_model *model, const char *name)
{
    static fixture_stream truth, out;
    request r[N_REQUESTS];
    make_requests(model, 11, r);
    int n_cuts = 0;
    for (int32_t which = 0; which < 2; which++) { /* greedy, sampled */
        request q = r[which];
        q.n_prompt = 20;
        q.n_max = 24;
        for (int32_t p = 5; p < 20; p++) q.prompt[p] = q.prompt[p - 5];
        run(model, &q, 1, &plain, &truth);
        for (int spec = 1; spec < 3; spec++) {
            if (spec == RT_SPEC_MTP && !model->hp.n_mtp) continue;
            way w = FIELDS(.name = "cut", .parallel = 1, .n_batch = 64, .n_threads = 1, .spec = (rt_spec)spec,
                           .draft_max = 5);
            for (int32_t n = 1; n < truth.n; n += stride) {
                w.rollback = (n + which) % 2 ? RT_ROLLBACK_LOG : RT_ROLLBACK_SNAPSHOTS;
                request at = q; /* by length */
                at.n_max = n;
                run(model, &at, 1, &w, &out);
                REQUIRE(out.n == n && out.finish == RT_FINISH_LENGTH && !memcmp(out.token, truth.token, 4 * (size_t)n));

                at = q; /* by a stop token: at its first place */
                at.stop = truth.token[n];
                int32_t first = 0;
                while (truth.token[first] != at.stop) first++;
                run(model, &at, 1, &w, &out);
                REQUIRE(out.n == first + 1 && out.finish == RT_FINISH_STOP &&
                        !memcmp(out.token, truth.token, 4 * (size_t)out.n));

                at = q; /* by the caller; what was drawn is kept, and the text goes on from it as if nothing had
                           happened */
                at.interrupt_at = n;
                run(model, &at, 1, &w, &out);
                REQUIRE(out.n == n && out.finish == RT_FINISH_CANCELLED &&
                        !memcmp(out.token, truth.token, 4 * (size_t)n));
                at = q;
                memcpy(at.prompt + at.n_prompt, out.token, 4 * (size_t)n);
                at.n_prompt += n;
                at.n_max = truth.n - n;
                run(model, &at, 1, &w, &out);
                REQUIRE(out.n == truth.n - n && !memcmp(out.token, truth.token + n, 4 * (size_t)out.n));
                n_cuts += 4;
            }
        }
    }
    printf("%-28s %d cuts\n", name, n_cuts);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "fixtures/tiny-qwen35.gguf", "fixtures/tiny-qwen35moe.gguf",
                                         "fixtures/tiny-qwen3next.gguf", "../../models/kjv-small-q8_0.gguf" };
    NEED(argc >= 2);
    if (argc > 2) stride = (int32_t)strtol(argv[2], NULL, 10);
    NEED(stride >= 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rt_model *model = fixture_model(argv[1], names[i]);
        const char *name = strrchr(names[i], '/') + 1;
        model_number = (int)i;
        ways(model, name, i % (size_t)stride);
        if (!i || !brief()) controls(model, name);
        if (i < 3 || !brief()) /* the fourth is the trained one */
            cuts(model, name);
        rt_model_free(model);
    }
    REQUIRE(n_accepted > 500 / stride / stride);
    REQUIRE(n_seconds > 0 || brief());
    return test_summary();
}
