/* The scheduler with too few cells, full contexts, devices that fail and callers that cancel. The tokens of a request
 * depend on model, prompt, sampling and seed alone. So they are those of the request alone without drafts, whatever
 * the preemptions, drafts, batches, threads, instruction sets and backends. Every request ends, and no prompt is read
 * again more often than other requests end. Requests with a prefix cache are in test_prefix_requests.c.
 *
 *   test_scheduler FOLDER [MODELS]    FOLDER has fixtures/ and ../../models; MODELS: how many of these to run
 *
 * --wrap makes launches fail and answers for the speculation controller, which reads clocks otherwise. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "memory_audit.h"
#include "runtime/serve/scheduler_internal.h"
#include "runtime/serve/speculation.h"
#include "test_scheduler.h"

static int64_t launches, fail_at = -1; /* the launch that fails; -1: none */
static int failed_in_step;
gdn_status __real_gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, void *queue);
gdn_status __wrap_gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, void *queue);
gdn_status __wrap_gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, void *queue)
{
    if (launches++ == fail_at) {
        failed_in_step = 1;
        return GDN_DEVICE_LOST;
    }
    return __real_gdn_gated_delta_net(ctx, args, queue);
}

/* What the controller is made to say. */
static int answers;
static int64_t asked;
static int answer(void) { return answers == TURNS && asked++ / 40 % 2 == 0; }
int __wrap_rt_speculation_choose(rt_speculation *p, int32_t width);
int __wrap_rt_speculation_pays(const rt_speculation *p, int32_t width);
int __wrap_rt_speculation_choose(rt_speculation *p, int32_t width)
{
    (void)p;
    (void)width;
    return answer();
}
int __wrap_rt_speculation_pays(const rt_speculation *p, int32_t width)
{
    (void)p;
    (void)width;
    return answer();
}

/* A step that failed is no measurement. */
static int64_t n_records;
static double longest, shortest; /* seconds of a record */
void __real_rt_speculation_record(rt_speculation *p, int32_t width, int drafted, int32_t n_tokens, double seconds);
void __wrap_rt_speculation_record(rt_speculation *p, int32_t width, int drafted, int32_t n_tokens, double seconds);
void __wrap_rt_speculation_record(rt_speculation *p, int32_t width, int drafted, int32_t n_tokens, double seconds)
{
    REQUIRE(!failed_in_step && n_tokens > 0);
    longest = !n_records || seconds > longest ? seconds : longest;
    shortest = !n_records || seconds < shortest ? seconds : shortest;
    n_records++;
    __real_rt_speculation_record(p, width, drafted, n_tokens, seconds);
}

/* The system's time; with set_back 1 every query sets it back by a minute. */
static int set_back;
static int64_t n_asked;
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    const int result = __real_clock_gettime(clock, t);
    if (set_back && clock == CLOCK_REALTIME) t->tv_sec -= 60 * ++n_asked;
    return result;
}
int __wrap_timespec_get(struct timespec *t, int base);
int __wrap_timespec_get(struct timespec *t, int base) { return __wrap_clock_gettime(CLOCK_REALTIME, t) ? 0 : base; }

static int64_t n_blocks; /* allocated and not freed */
void *__real_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what)
{
    void *block = __real_rt_calloc(n, size, what);
    n_blocks += block != NULL;
    return block;
}
void __real_rt_free(void *block);
void __wrap_rt_free(void *block);
void __wrap_rt_free(void *block)
{
    n_blocks -= block != NULL;
    __real_rt_free(block);
}

/* Prompts of which some repeat themselves; every other request is sampled. */
static void make_requests(const rt_model *model, uint64_t seed, request *r)
{
    for (int32_t i = 0; i < N; i++) {
        memset(&r[i], 0, sizeof r[i]);
        r[i].n_prompt = 1 + (int32_t)(test_random(&seed) % 20);
        r[i].n_max = i % 3 ? 20 + (int32_t)(test_random(&seed) % 50) : 2 * CONTEXT;
        for (int32_t p = 0; p < r[i].n_prompt; p++)
            r[i].prompt[p] =
                p < 4 || i % 2 ? (int32_t)(test_random(&seed) % (uint64_t)model->hp.n_vocab) : r[i].prompt[p - 4];
        r[i].sampling = (rt_sampling){ 0, 0, 1, 0, 1, 64, seed };
        if (i % 2)
            r[i].sampling = (rt_sampling)FIELDS(0.5f + 0.1f * (float)i, i % 3 ? 20 : 0, i % 4 == 1 ? 0.9f : 1.0f,
                                                i == 3 ? 0.02f : 0.0f, i == 5 ? 1.3f : 1.0f, 16, seed);
    }
}

static int64_t stop_in; /* calls of the engine's stop function until one ends the step; 0: none does */
static int stops(void *user)
{
    (void)user;
    return stop_in > 0 && --stop_in == 0;
}

static int at_token(void *user, int32_t id, int32_t token)
{
    int32_t *left = user; /* by request: tokens until it is interrupted */
    (void)token;
    return --left[id] == 0;
}

static int32_t tokens_of(const rt_scheduler *s, int32_t id)
{
    int32_t n;
    (void)rt_scheduler_tokens(s, id, &n);
    return n;
}

totals run(const rt_model *model, const request *r, int32_t n, const way *w, fixture_stream *out)
{
    static int n_opened; /* engines roll back by a log and by snapshots, in turn */
    n_opened++;
    const fixture_engine with =
        FIELDS(.n_seqs = w->parallel, .rollback = n_opened % 2 ? RT_ROLLBACK_LOG : RT_ROLLBACK_SNAPSHOTS,
               .n_ctx = CONTEXT, .n_cells = w->cells, .n_batch = w->n_batch, .n_rollback = w->draft_max,
               .draft = w->spec == RT_SPEC_MTP, .kv_type = w->kv_type, .n_prefixes = w->n_prefixes,
               .prefix_interval = w->interval, .isa = w->isa, .n_threads = w->n_threads, .backend = w->backend,
               .commit_after = n_opened % 3 ? 0 : 1);
    const rt_scheduler_desc like = FIELDS(.n_step_rows = w->step_rows, .spec = w->spec, .draft_max = w->draft_max,
                                          .p_min = w->p_min, .always = w->answers == ALWAYS);
    rt_engine *engine;
    rt_scheduler *s = fixture_schedule(model, &with, &like, &engine);
    rt_memory *m = rt_engine_memory(engine);
    totals all = { 0 };
    int64_t found = 0;
    int32_t left[N];
    rt_result result;
    rt_engine_stop_when(engine, stops, NULL);
    for (int32_t i = 0; i < n; i++) {
        int32_t id;
        const rt_request q =
            FIELDS(.prompt = r[i].prompt, .n_prompt = r[i].n_prompt, .n_max = r[i].n_max, .sampling = r[i].sampling,
                   .stop = &r[i].stop, .n_stop = r[i].n_stop, .boundary = { r[i].boundary[0], r[i].boundary[1] },
                   .on_token = at_token, .user = left);
        left[i] = r[i].interrupt_at;
        NEED(!rt_scheduler_submit(s, &q, &id) && id == i);
    }
    launches = asked = 0;
    answers = w->answers;
    fail_at = w->fail_every ? w->fail_every - 1 : -1;
    stop_in = w->stop_every;
    for (int busy = 1; busy && all.steps < MAX_STEPS; all.steps++) {
        failed_in_step = 0;
        const gdn_status status = rt_scheduler_step(s, &busy);
        if (status) { /* the next fails later and later: a step must pass some time */
            NEED(w->stop_every ? status == RT_STOPPED && busy && strstr(rt_last_error(), "stopped") : w->fail_every);
            all.failed++;
            if (w->fail_every) fail_at = launches + w->fail_every + all.failed;
            if (w->stop_every) stop_in = w->stop_every + 13 * all.failed;
            busy = 1;
        }
        int32_t running = 0;
        for (int32_t i = 0; i < n; i++) {
            NEED(!rt_scheduler_result(s, i, &result));
            running += result.n_tokens > 0 && result.finish == RT_FINISH_NONE;
        }
        all.most_running = running > all.most_running ? running : all.most_running;
        if (all.steps % 8 == 0 && (w->n_prefixes || w->stop_every)) memory_audit(m);
    }
    fail_at = -1;
    stop_in = failed_in_step = 0;
    NEED(all.steps < MAX_STEPS); /* otherwise a request waits forever */
    for (int32_t i = 0; i < n; i++) {
        fixture_result(s, i, &out[i]);
        NEED(!rt_scheduler_result(s, i, &result) && r[i].n_prompt + out[i].n <= CONTEXT);
        found += result.n_prefix;
        /* counted once each time that it was read, however often it was looked for */
        REQUIRE(all.failed || result.n_prefix < (result.n_preempted + 1) * (r[i].n_prompt + out[i].n));
    }
    memory_audit(m);
    REQUIRE(rt_memory_free_cells(m) == (w->cells ? w->cells : w->parallel * CONTEXT));
    all.t = rt_scheduler_totals(s);
    all.counters = rt_engine_counters(engine);
    REQUIRE(all.t.prefix_tokens == found && (found == 0 || w->n_prefixes));
    if (!all.failed) /* every row of the trunk is a token of a prompt, a drawn one or a draft of one */
        REQUIRE(all.counters.rows == (uint64_t)(all.t.prompt_tokens + all.t.rounds + all.t.drafted));
    rt_scheduler_destroy(s);
    rt_engine_destroy(engine);
    return all;
}

/* Pools from "one at a time" to "nearly enough", every kind of drafts and of cells, against each request alone. */
static void small_pools(const rt_model *model, const char *name, size_t first_kind, size_t end_kind)
{
    static const int32_t kv[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };
    static const way ways[] = {
        { 5, 96, 0, 64, 0, 0, RT_SPEC_OFF, 0 },   { 7, 200, 0, 64, 0, 0, RT_SPEC_OFF, 0 },
        { 4, 110, 3, 64, 0, 0, RT_SPEC_MTP, 0 },  { 7, 200, 2, 9, 6, 0, RT_SPEC_MTP, 0 },
        { 7, 350, 5, 64, 0, 0, RT_SPEC_MTP, 0 },  { 3, 100, 8, 1, 0, 0, RT_SPEC_NGRAM, 0 },
        { 7, 220, 3, 7, 5, 0, RT_SPEC_NGRAM, 0 },
    };
    request r[N];
    static fixture_stream truth[N], out[N];
    int64_t preemptions = 0, reread = 0, accepted[3] = { 0 };
    const int tiny = model->hp.n_vocab < 1000;
    make_requests(model, 3, r);
    for (size_t k = first_kind; k < end_kind; k++) {
        for (int32_t i = 0; i < N; i++) {
            const way alone = { .parallel = 1, .n_batch = 64, .kv_type = kv[k] };
            run(model, &r[i], 1, &alone, &truth[i]);
            REQUIRE(truth[i].finish == (r[i].n_max > CONTEXT ? RT_FINISH_CONTEXT : RT_FINISH_LENGTH));
            REQUIRE(truth[i].finish != RT_FINISH_CONTEXT || r[i].n_prompt + truth[i].n == CONTEXT);
        }
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            way w = ways[i];
            w.kv_type = kv[k];
            if (w.spec == RT_SPEC_MTP && !model->hp.n_mtp) w.spec = RT_SPEC_NGRAM;
            w.isa = tiny && !k && i == 5 ? "scalar" : NULL;
            w.n_threads = tiny && i == 3 ? 2 : 1;
            w.backend = tiny && i % 4 == 2 ? GDN_BACKEND_REFERENCE : GDN_BACKEND_CPU;
            w.p_min = i % 5 == 3 ? 0.05f : 0;
            const totals all = run(model, r, N, &w, out);
            preemptions += all.t.preemptions;
            reread += all.t.reread_tokens;
            accepted[w.spec] += all.t.accepted;
            REQUIRE(w.cells > 250 || all.t.preemptions > 0);
            REQUIRE(w.cells < 200 || all.most_running > 3); /* as many as fit, not as many as can come to be */
            REQUIRE(out[0].preempted == 0);                 /* the first never gives way */
            int64_t sum = 0;
            for (int32_t j = 0; j < N; j++) {
                REQUIRE(fixture_same(&truth[j], &out[j]), "%s: way %d, cells of type %d: request %d", name, (int)i,
                        (int)kv[k], (int)j);
                REQUIRE(out[j].preempted < N); /* only when another has ended there is room again */
                sum += out[j].preempted;
            }
            REQUIRE(sum == all.t.preemptions && (all.t.reread_tokens > 0) == (sum > 0));
        }
    }
    printf(
        "%-24s %lld preemptions, %lld tokens read again, %lld drafts of the MTP block and %lld of n-grams accepted\n",
        name, (long long)preemptions, (long long)reread, (long long)accepted[RT_SPEC_MTP],
        (long long)accepted[RT_SPEC_NGRAM]);
    REQUIRE(preemptions > 15 && reread > preemptions);
}

/* Where drafting does not pay the draft head reads nothing, not even prompts; where it begins to pay later, it goes on
 * from what is kept, and drafts. Neither changes a text. */
static void declined(const rt_model *model)
{
    static const way ways[] = {
        { 1, 0, 2, 64, 0, 0, RT_SPEC_MTP, 0, 0, 0, NEVER },  { 5, 150, 3, 64, 0, 0, RT_SPEC_MTP, 0, 0, 0, NEVER },
        { 1, 0, 2, 64, 0, 0, RT_SPEC_MTP, 0, 0, 0, TURNS },  { 5, 0, 3, 16, 0, 0, RT_SPEC_MTP, 0, 0, 0, TURNS },
        { 7, 200, 3, 9, 0, 0, RT_SPEC_MTP, 0, 0, 0, TURNS }, { 4, 0, 3, 64, 0, 0, RT_SPEC_MTP, 0, 0, 0, ALWAYS }
    };
    request r[N];
    static fixture_stream truth[N], out[N];
    const way plain = { .parallel = 1, .n_batch = 64 };
    make_requests(model, 9, r);
    run(model, r, N, &plain, truth);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const totals all = run(model, r, N, &ways[i], out);
        for (int32_t j = 0; j < N; j++) REQUIRE(fixture_same(&truth[j], &out[j]));
        if (ways[i].answers == NEVER)
            REQUIRE(all.counters.draft_rows == 0 && all.counters.draft_passes == 0 && all.t.drafted == 0);
        else REQUIRE(all.t.accepted > 20 && all.counters.draft_passes < all.counters.draft_rows);
    }
}

/* The device fails at any launch, and the caller stops steps between layers. The scheduler repairs what such a step
 * leaves: no token is lost, drawn twice or decoded differently. */
static void failures(const rt_model *model, const char *name)
{
    static const way ways[] = {
        { 4, 0, 0, 64, 0, 0, RT_SPEC_OFF },  { 4, 0, 3, 3, 0, 0, RT_SPEC_NGRAM },  { 4, 0, 3, 3, 0, 0, RT_SPEC_MTP },
        { 4, 120, 2, 5, 0, 0, RT_SPEC_MTP }, { 3, 0, 5, 64, 4, 0, RT_SPEC_NGRAM }, { 4, 0, 3, 8, 0, 0, RT_SPEC_NGRAM },
    };
    request r[N];
    static fixture_stream truth[N], out[N];
    int32_t failed = 0, stopped = 0;
    const way plain = { .parallel = 1, .n_batch = 64 };
    make_requests(model, 5, r);
    run(model, r, N, &plain, truth);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int64_t every = 5; every < 40; every += 17) {
            way w = ways[i];
            if (w.spec == RT_SPEC_MTP && !model->hp.n_mtp) continue;
            if (every > 30) w.stop_every = 5;
            else w.fail_every = every * model->n_recurrent / 2 + 1;
            *(w.stop_every ? &stopped : &failed) += run(model, r, N, &w, out).failed;
            for (int32_t j = 0; j < N; j++) {
                REQUIRE(fixture_same(&truth[j], &out[j]), "%s: way %d, launch %lld of each fails: request %d", name,
                        (int)i, (long long)w.fail_every, (int)j);
            }
        }
    printf("%-24s %d steps failed, %d were stopped\n", name, (int)failed, (int)stopped);
    REQUIRE(failed > 50 && stopped > 20);
}

/* Prompts that can never be, cells that the test holds, and requests that are cancelled while they wait. */
static void ends(const rt_model *model)
{
    const fixture_engine with = { .n_seqs = 3, .n_ctx = CONTEXT, .n_cells = CONTEXT + 8, .n_batch = 64 };
    rt_engine *e = fixture_open(model, &with);
    rt_memory *m = rt_engine_memory(e);
    const rt_scheduler_desc desc = { .engine = e, .n_parallel = 2 };
    int32_t text[CONTEXT] = { 0 }, seq[CONTEXT], id[4];
    rt_scheduler *s;
    rt_result result;
    int busy = 1;
    NEED(!rt_scheduler_create(&desc, &s));
    rt_request q = { .prompt = text, .n_prompt = CONTEXT, .n_max = 1, .sampling = { 0, 0, 1, 0, 1, 64, 1 } };
    FAILS(rt_scheduler_submit(s, &q, id), GDN_INVALID_ARGUMENT, "the prompt has 96 tokens; the context holds 96");
    q.n_prompt = 8;

    for (int32_t i = 0; i < CONTEXT; i++) seq[i] = 2;
    const rt_batch others = { CONTEXT - 8, text, seq, NULL }; /* 16 cells are left */
    NEED(!rt_engine_decode(e, &others));
    q.n_max = 20;
    for (int i = 0; i < 4; i++) NEED(!rt_scheduler_submit(s, &q, &id[i]));
    NEED(!rt_scheduler_step(s, &busy) && busy);
    REQUIRE(tokens_of(s, id[0]) == 1 && tokens_of(s, id[1]) == 0); /* the second does not fit beside the first */
    REQUIRE(!rt_scheduler_cancel(s, id[2]) && !rt_scheduler_result(s, id[2], &result) &&
            result.finish == RT_FINISH_CANCELLED);
    for (int i = 0; i < 30 && !rt_scheduler_result(s, id[0], &result) && result.finish == RT_FINISH_NONE; i++)
        NEED(!rt_scheduler_step(s, &busy));
    REQUIRE(result.finish == RT_FINISH_FAILED && result.n_tokens == 9 && result.error &&
            strstr(result.error, "needs 1 more KV cells and 0 were free: other sequences of the engine hold them"));
    NEED(!rt_memory_seq_rm(m, 2, 0, -1)); /* they give them back */
    while (busy) NEED(!rt_scheduler_step(s, &busy));
    REQUIRE(!rt_scheduler_result(s, id[1], &result) && result.finish == RT_FINISH_LENGTH && result.n_tokens == 20);
    REQUIRE(!rt_scheduler_result(s, id[2], &result) && result.finish == RT_FINISH_CANCELLED && result.n_tokens == 0);
    REQUIRE(!rt_scheduler_result(s, id[3], &result) && result.finish == RT_FINISH_LENGTH && result.n_tokens == 20);
    rt_scheduler_destroy(s);
    rt_engine_destroy(e);

    rt_engine_desc d = { .model = model, .n_threads = 1, .n_seqs = 2, .n_ctx = 100, .n_cells = 99 };
    REQUIRE(rt_engine_create(&d, &e) == GDN_INVALID_ARGUMENT && strstr(rt_last_error(), "n_cells is 99; 100 (n_ctx"));
    d = (rt_engine_desc){ .model = model, .n_threads = 1, .n_seqs = 4096, .n_ctx = 1 << 15 };
    FAILS(rt_engine_create(&d, &e), GDN_INVALID_ARGUMENT, "for each of 4096 sequences");
}

/* A clock that is set back changes no measurement. */
static void clocks(const rt_model *model)
{
    request r[N];
    static fixture_stream out[N];
    const way w = { 4, 0, 3, 64, 0, 0, RT_SPEC_NGRAM, 0, 0, 0, TURNS };
    make_requests(model, 5, r);
    set_back = 1;
    n_records = 0;
    const totals all = run(model, r, N, &w, out);
    set_back = 0;
    REQUIRE(n_records > 10 && shortest >= 0 && longest < 50);
    REQUIRE(all.t.generation_seconds > 0 && all.t.generation_seconds < 50 && all.t.prompt_seconds < 50);
}

/* Serving without end: requests that are released leave nothing behind, also where cells run out and requests give way,
 * and their streams are what they are alone. */
static void released(const rt_model *model)
{
    enum { MANY = 10000, LITTLE_TOKENS = 3, HELD = 8 };
    const fixture_engine with = { .n_seqs = 4, .n_ctx = CONTEXT, .n_cells = CONTEXT, .n_batch = 64 };
    const rt_scheduler_desc like = { .spec = RT_SPEC_OFF };
    rt_engine *engine;
    rt_scheduler *s = fixture_schedule(model, &with, &like, &engine);
    request r[N];
    static fixture_stream truth[N];
    fixture_stream got;
    int64_t blocks = 0;
    int32_t n_submitted = 0, n_released = 0, id;
    rt_result result;
    make_requests(model, 11, r);
    for (int32_t i = 0; i < N; i++) {
        const way alone = { .parallel = 1, .n_batch = 64 };
        r[i].n_max = i == 3 ? 60 : LITTLE_TOKENS; /* one in seven is long, and gives way now and then */
        run(model, &r[i], 1, &alone, &truth[i]);
    }
    for (int busy = 1; n_released < MANY;) {
        for (; n_submitted < MANY && n_submitted < n_released + HELD; n_submitted++) {
            const request *q = &r[n_submitted % N];
            const rt_request ask =
                FIELDS(.prompt = q->prompt, .n_prompt = q->n_prompt, .n_max = q->n_max, .sampling = q->sampling);
            NEED(!rt_scheduler_submit(s, &ask, &id) && id == n_submitted);
        }
        NEED(!rt_scheduler_step(s, &busy) && busy);
        for (int32_t i = s->first; i < s->end; i++) {
            if (i < s->first || !s->job[i - s->first]) continue;
            NEED(!rt_scheduler_result(s, i, &result));
            if (result.finish == RT_FINISH_NONE) {
                FAILS(rt_scheduler_release(s, i), GDN_INVALID_ARGUMENT, "has not ended");
                continue;
            }
            fixture_result(s, i, &got);
            REQUIRE(fixture_same(&truth[i % N], &got));
            REQUIRE(!rt_scheduler_release(s, i));
            FAILS(rt_scheduler_release(s, i), GDN_NOT_FOUND, "was released");
            REQUIRE(rt_scheduler_result(s, i, &result) == GDN_NOT_FOUND && rt_scheduler_cancel(s, i) == GDN_NOT_FOUND);
            n_released++;
        }
        REQUIRE(s->room == 64);
        if (n_released == n_submitted) REQUIRE(!blocks || blocks == n_blocks);
        if (n_released == n_submitted) blocks = n_blocks;
    }
    REQUIRE(s->first == MANY && s->end == MANY && rt_scheduler_totals(s).preemptions > 10);
    const int64_t idle = n_blocks;
    const rt_request one = { .prompt = r[0].prompt, .n_prompt = 1, .n_max = 1, .sampling = r[0].sampling };
    NEED(!rt_scheduler_submit(s, &one, &id));
    REQUIRE(n_blocks > idle && !rt_scheduler_cancel(s, id) && !rt_scheduler_release(s, id) && n_blocks == idle);
    /* a request that is not released costs its own block and a pointer for each of the others */
    NEED(!rt_scheduler_submit(s, &one, &id));
    REQUIRE(!rt_scheduler_cancel(s, id));
    for (int32_t i = 0; i < 100; i++) {
        int32_t other;
        NEED(!rt_scheduler_submit(s, &one, &other));
        REQUIRE(!rt_scheduler_cancel(s, other) && !rt_scheduler_release(s, other));
    }
    REQUIRE(!rt_scheduler_release(s, id) && s->first == s->end && n_blocks == idle);
    printf("%d requests served, %lld gave way\n", (int)MANY, (long long)rt_scheduler_totals(s).preemptions);
    rt_scheduler_destroy(s);
    rt_engine_destroy(engine);
}

/* Prompts share a step's rows. The oldest gets half of them or more, in whichever sequence it runs. A prompt of one
 * token is answered at the second step beside any number of long ones. */
enum { ROWS = 16, LONG = 90 };
static int32_t read_of[64]; /* by request: its prompt's tokens that are decoded */
static void note_prompt(void *user, int32_t id, int32_t done, int32_t total)
{
    (void)user, (void)total;
    read_of[id] = done;
}

static int32_t ask_for(rt_scheduler *s, const rt_model *model, int32_t n_prompt, int32_t n_max)
{
    static int32_t number;
    const rt_sampling sampling = { .top_p = 1, .repeat_penalty = 1 };
    int32_t prompt[LONG], id;
    for (int32_t i = 0; i < n_prompt; i++) prompt[i] = (7 * ++number + i) % model->hp.n_vocab;
    const rt_request ask = FIELDS(.prompt = prompt, .n_prompt = n_prompt, .n_max = n_max, .ignore_end = 1,
                                  .sampling = sampling, .on_prompt = note_prompt);
    NEED(!rt_scheduler_submit(s, &ask, &id) && id < 64);
    return id;
}

static int has_ended(const rt_scheduler *s, int32_t id)
{
    rt_result result;
    NEED(!rt_scheduler_result(s, id, &result));
    return result.finish != RT_FINISH_NONE;
}

static void fair(const rt_model *model)
{
    const fixture_engine with = { .n_seqs = 3, .n_ctx = CONTEXT, .n_batch = ROWS };
    const rt_scheduler_desc like = { .n_step_rows = ROWS };
    rt_engine *engine;
    rt_scheduler *s = fixture_schedule(model, &with, &like, &engine);
    int busy;
    memset(read_of, 0, sizeof read_of);
    /* the oldest is in the last sequence, since the two before it end at once, and others take their places */
    for (int i = 0; i < 2; i++) (void)ask_for(s, model, 1, 1);
    const int32_t oldest = ask_for(s, model, LONG, 1);
    for (int32_t step = 0; !has_ended(s, oldest); step++) {
        const int32_t before = read_of[oldest], left = LONG - before;
        for (int i = 0; i < 2; i++) (void)ask_for(s, model, i ? 40 : LONG / 2, 1);
        NEED(!rt_scheduler_step(s, &busy) && step < LONG / (ROWS / 2) + 1);
        REQUIRE(read_of[oldest] - before >= (left < ROWS / 2 ? left : ROWS / 2), "step %d: %d rows", (int)step,
                (int)(read_of[oldest] - before));
    }
    do NEED(!rt_scheduler_step(s, &busy));
    while (busy);
    const int32_t long_one = ask_for(s, model, LONG, 1), other = ask_for(s, model, LONG, 1);
    NEED(!rt_scheduler_step(s, &busy));
    const int32_t little = ask_for(s, model, 1, 1);
    for (int i = 0; i < 2; i++) NEED(!rt_scheduler_step(s, &busy));
    REQUIRE(has_ended(s, little) && !has_ended(s, long_one) && !has_ended(s, other));
    rt_scheduler_destroy(s);
    rt_engine_destroy(engine);
}

/* Every stride-th place where a stream can end, inside accepted windows too; and going on from there. */
static void cuts(const rt_model *model, int32_t stride)
{
    static fixture_stream truth, out;
    request r[N];
    const way plain = { .parallel = 1, .n_batch = 64 };
    make_requests(model, 11, r);
    for (int32_t which = 0; which < 2; which++) { /* greedy, sampled */
        request q = r[which];
        q.n_prompt = 20;
        q.n_max = 24;
        for (int32_t p = 5; p < 20; p++) q.prompt[p] = q.prompt[p - 5];
        run(model, &q, 1, &plain, &truth);
        for (int spec = 1; spec < 3; spec++) {
            if (spec == RT_SPEC_MTP && !model->hp.n_mtp) continue;
            const way w = { .parallel = 1, .n_batch = 64, .spec = (rt_spec)spec, .draft_max = 5 };
            for (int32_t n = 1; n < truth.n; n += stride) {
                int32_t first = 0;
                while (truth.token[first] != truth.token[n]) first++;
                request at[] = { q, q, q }; /* by length; by a stop token, at its first place; by the caller */
                const int32_t lengths[] = { n, first + 1, n },
                              ends[] = { RT_FINISH_LENGTH, RT_FINISH_STOP, RT_FINISH_CANCELLED };
                at[0].n_max = n;
                at[1].stop = truth.token[n];
                at[1].n_stop = 1;
                at[2].interrupt_at = n;
                for (int how = 0; how < 3; how++) {
                    run(model, &at[how], 1, &w, &out);
                    REQUIRE(out.n == lengths[how] && out.finish == ends[how] &&
                            !memcmp(out.token, truth.token, 4 * (size_t)out.n));
                }
                memcpy(q.prompt + 20, truth.token, 4 * (size_t)n); /* the text goes on as if nothing had happened */
                request more = q;
                more.n_prompt += n;
                more.n_max = truth.n - n;
                run(model, &more, 1, &w, &out);
                REQUIRE(out.n == more.n_max && !memcmp(out.token, truth.token + n, 4 * (size_t)out.n));
            }
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "fixtures/tiny-qwen35.gguf", "fixtures/tiny-qwen3next.gguf",
                                         "fixtures/tiny-qwen35moe.gguf", "../../models/kjv-small-q8_0.gguf" };
    NEED(argc >= 2);
    const size_t all = sizeof names / sizeof names[0], n = argc > 2 ? strtoul(argv[2], NULL, 10) : all;
    NEED(n >= 1 && n <= all);
    for (size_t i = 0; i < n; i++) {
        rt_model *model = fixture_model(argv[1], names[i]);
        const char *name = strrchr(names[i], '/') + 1;
        /* one with every type of cells, others in F16, as gdn run */
        small_pools(model, name, i || n < all ? 1 : 0, i || n < all ? 2 : 4);
        cuts(model, i == 3 ? 5 : n < all ? 4 : 1); /* the fourth is trained, and large */
        if (i < 2) failures(model, name);
        if (i < 2) prefix_requests(model, name);
        if (i == 0) {
            ends(model);
            clocks(model);
            released(model);
            fair(model);
        }
        if (i == 3) declined(model);
        rt_model_free(model);
    }
    return test_summary();
}
