/* Requests with and without a prefix cache: the same streams, fewer tokens read, and no request waits longer. */
#include <string.h>

#include "memory_audit.h"
#include "test_scheduler.h"

enum { HEAD = 30 };

/* All begin with the same tokens and go on with some of their own; two are the same prompt; one is the head alone. */
static void make_requests(const rt_model *model, request *r)
{
    uint64_t seed = 77;
    for (int32_t i = 0; i < N; i++) {
        r[i] = (request){ .n_prompt = HEAD + i % 4 * 5, .n_max = 20 + 10 * (i % 4) };
        for (int32_t p = 0; p < r[i].n_prompt; p++)
            r[i].prompt[p] = i && (p < HEAD || i == 5) ? r[i == 5 ? 1 : 0].prompt[p]
                                                       : (int32_t)(test_random(&seed) % (uint64_t)model->hp.n_vocab);
        r[i].sampling = (rt_sampling){ i % 2 ? 0.8f : 0, i % 2 ? 30 : 0, 1, 0, 1, 64, seed + (uint64_t)i };
    }
}

/* Tokens of prompts that have to be read where every whole interval of the common head is read once. */
static int64_t least(const request *r, int32_t interval, int64_t *all)
{
    int64_t sum = *all = 0;
    for (int32_t i = 0; i < N; i++) {
        const int32_t n = i == 5 ? r[i].n_prompt - 1 : HEAD < r[i].n_prompt ? HEAD : r[i].n_prompt - 1;
        *all += r[i].n_prompt;
        sum += r[i].n_prompt - (i ? n / interval * interval : 0);
    }
    return sum;
}

/* A request waits for the prefix that an older one decodes, and the test takes all free cells. The younger one gives
 * its cells up. The older one is then alone, and its next step has no cells either. */
static void left_alone(const rt_model *model, const request *r)
{
    const fixture_engine with = { .n_seqs = 3, .n_ctx = 96, .n_cells = 200, .n_prefixes = 50, .prefix_interval = 4 };
    const rt_scheduler_desc desc = { .engine = fixture_open(model, &with), .n_parallel = 2, .n_step_rows = 4 };
    rt_memory *m = rt_engine_memory(desc.engine);
    int32_t id[3], seq[96];
    rt_scheduler *s;
    rt_result result;
    int busy;
    NEED(!rt_scheduler_create(&desc, &s));
    rt_request q = { .prompt = r[0].prompt, .n_prompt = 1, .n_max = 1, .sampling = r[0].sampling };
    NEED(!rt_scheduler_submit(s, &q, &id[0]));
    q.n_prompt = HEAD;
    q.n_max = 20;
    for (int i = 1; i < 3; i++) NEED(!rt_scheduler_submit(s, &q, &id[i]));
    for (int i = 0; i < 2; i++)
        NEED(!rt_scheduler_step(s, &busy)); /* the first ends, and the third takes its sequence */
    REQUIRE(rt_memory_seq_length(m, 0) == 0 && rt_memory_seq_length(m, 1) == 7); /* the younger one waits */
    NEED(!rt_scheduler_step(s, &busy));
    REQUIRE(rt_memory_seq_length(m, 0) == 4 && rt_memory_seq_length(m, 1) == 11); /* it has the first checkpoint */
    for (int32_t i = 0; i < 96; i++) seq[i] = 2;
    const rt_batch others = { 80, r[3].prompt + 1, seq, NULL, 0 }; /* another text */
    NEED(!rt_engine_decode(desc.engine, &others));
    const rt_token_run span = { 2, 0, rt_memory_free_cells(m) };
    rt_step *step; /* it takes them all, and computes nothing */
    NEED(!rt_memory_step_begin(m, &span, 1, &step));
    rt_memory_step_commit(m, step);
    REQUIRE(rt_memory_free_cells(m) == 0 && !rt_scheduler_step(s, &busy));
    REQUIRE(!rt_scheduler_result(s, id[2], &result) && result.n_preempted == 1 && result.finish == RT_FINISH_NONE);
    REQUIRE(!rt_scheduler_result(s, id[1], &result) && result.finish == RT_FINISH_FAILED);
    memory_audit(m);
    NEED(!rt_memory_seq_rm(m, 2, 0, -1));
    for (busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
    REQUIRE(!rt_scheduler_result(s, id[2], &result) && result.finish == RT_FINISH_LENGTH && result.n_tokens == 20);
    rt_scheduler_destroy(s);
    rt_engine_destroy(desc.engine);
}

/* A prompt that continues another one and its text begins with all that was read. A third one, which differs from the
 * first boundary on, begins there; one without boundaries keeps intervals alone. */
static void second_turn(const rt_model *model, const request *r)
{
    static const rt_spec specs[] = { RT_SPEC_OFF, RT_SPEC_NGRAM, RT_SPEC_MTP, RT_SPEC_NGRAM, RT_SPEC_MTP };
    enum { FIRST = 7, SECOND = 23 };
    for (int i = 0; i < 5; i++) {
        const rt_spec spec = specs[i] == RT_SPEC_MTP && !model->hp.n_mtp ? RT_SPEC_NGRAM : specs[i];
        const fixture_engine with =
            FIELDS(.n_seqs = 2, .n_ctx = 96, .n_batch = 9, .n_rollback = 3, .draft = spec == RT_SPEC_MTP,
                   .n_prefixes = 8, .prefix_interval = 10, .rollback = i < 3 ? RT_ROLLBACK_LOG : RT_ROLLBACK_SNAPSHOTS);
        const rt_scheduler_desc desc = { .engine = fixture_open(model, &with),
                                         .n_parallel = 2,
                                         .spec = spec,
                                         .draft_max = spec == RT_SPEC_OFF ? 0 : 3,
                                         .always = 1 };
        int32_t id, n, prompt[96], busy = 1;
        rt_scheduler *s;
        rt_result result;
        NEED(!rt_scheduler_create(&desc, &s));
        rt_request q = { .prompt = r[0].prompt, .n_prompt = HEAD, .n_max = 25, .boundary = { FIRST, SECOND } };
        q.sampling = r[0].sampling;
        NEED(!rt_scheduler_submit(s, &q, &id));
        while (busy) NEED(!rt_scheduler_step(s, &busy));
        const int32_t *const text = rt_scheduler_tokens(s, id, &n);
        NEED(n == 25);
        memcpy(prompt, r[0].prompt, 4 * HEAD);
        memcpy(prompt + HEAD, text, 4 * (size_t)n);
        prompt[HEAD + n] = prompt[HEAD + n + 1] = 1;
        q = (rt_request){ .prompt = prompt, .n_prompt = HEAD + n + 2, .n_max = 1, .sampling = r[0].sampling };
        NEED(!rt_scheduler_submit(s, &q, &id));
        for (busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
        REQUIRE(!rt_scheduler_result(s, id, &result) && result.n_prefix == HEAD + n - 1, "%d", (int)result.n_prefix);
        for (int at = 0; at < 2; at++) {
            prompt[at ? FIRST : SECOND] ^= 1;
            NEED(!rt_scheduler_submit(s, &q, &id));
            for (busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
            REQUIRE(!rt_scheduler_result(s, id, &result) && result.n_prefix == (at ? FIRST : SECOND), "%d",
                    (int)result.n_prefix);
            prompt[at ? FIRST : SECOND] ^= 1;
        }
        for (int k = 0; k < n; k++) { /* texts that end within drafts */
            const int32_t stop = prompt[HEAD + k];
            int32_t longer[96], m;
            rt_request first = { .prompt = r[0].prompt, .n_prompt = HEAD, .n_max = 25, .boundary = { FIRST, SECOND } };
            first.sampling = r[0].sampling;
            first.stop = &stop;
            first.n_stop = 1;
            NEED(!rt_scheduler_submit(s, &first, &id));
            for (busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
            NEED(rt_scheduler_tokens(s, id, &m) && m <= k + 1);
            memcpy(longer, prompt, sizeof longer);
            longer[HEAD + m] = longer[HEAD + m - 1] ^ 1;
            rt_request next = { .prompt = longer, .n_prompt = HEAD + m + 1, .n_max = 1, .sampling = r[0].sampling };
            NEED(!rt_scheduler_submit(s, &next, &id));
            for (busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
            REQUIRE(!rt_scheduler_result(s, id, &result) && result.n_prefix >= HEAD + m - 1, "%d",
                    (int)result.n_prefix);
        }
        memory_audit(rt_engine_memory(desc.engine));
        q.boundary[1] = q.n_prompt + 1;
        FAILS(rt_scheduler_submit(s, &q, &id), GDN_INVALID_ARGUMENT, "boundary[1] is 58; 0 to 57 (n_prompt)");
        rt_scheduler_destroy(s);
        rt_engine_destroy(desc.engine);
    }
}

/* Requests of other owners neither wait for a prompt nor find it. */
static void strangers(const rt_model *model, const request *r)
{
    const fixture_engine with = { .n_seqs = 3, .n_ctx = 96, .n_prefixes = 50, .prefix_interval = 4 };
    const rt_scheduler_desc desc = { .engine = fixture_open(model, &with), .n_parallel = 3, .n_step_rows = 40 };
    rt_memory *m = rt_engine_memory(desc.engine);
    int32_t id[5];
    rt_scheduler *s;
    rt_result result;
    int busy = 1;
    NEED(!rt_scheduler_create(&desc, &s));
    rt_request q = { .prompt = r[0].prompt, .n_prompt = HEAD, .n_max = 3, .sampling = r[0].sampling, .owner = 1 };
    for (int i = 0; i < 3; i++, q.owner = 1 + (uint32_t)i / 2) NEED(!rt_scheduler_submit(s, &q, &id[i]));
    NEED(!rt_scheduler_step(s, &busy)); /* owners 1, 1, 2 */
    REQUIRE(rt_memory_seq_length(m, 0) && !rt_memory_seq_length(m, 1) && rt_memory_seq_length(m, 2), "%d %d %d",
            (int)rt_memory_seq_length(m, 0), (int)rt_memory_seq_length(m, 1), (int)rt_memory_seq_length(m, 2));
    while (busy) NEED(!rt_scheduler_step(s, &busy));
    for (int i = 3; i < 5; i++) {
        q.owner = i == 3 ? 1 : 3;
        NEED(!rt_scheduler_submit(s, &q, &id[i]));
        for (busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
    }
    for (int i = 0; i < 5; i++) {
        NEED(!rt_scheduler_result(s, id[i], &result));
        REQUIRE((result.n_prefix > 0) == (i == 1 || i == 3), "request %d: %d", i, (int)result.n_prefix);
    }
    rt_scheduler_destroy(s);
    rt_engine_destroy(desc.engine);
}

void prefix_requests(const rt_model *model, const char *name)
{
    static const way ways[] = {
        { 1, 0, 0, 64, 0, 0, RT_SPEC_OFF, 0, 40, 4 },       { 7, 0, 0, 64, 0, 0, RT_SPEC_OFF, 0, 60, 4 },
        { 7, 0, 0, 64, 9, 0, RT_SPEC_OFF, 0, 60, 4 },       { 6, 0, 3, 5, 16, 0, RT_SPEC_NGRAM, 0, 600, 1 },
        { 3, 0, 3, 64, 0, 0, RT_SPEC_MTP, 0, 60, 8 },       { 7, 0, 2, 16, 0, 0, RT_SPEC_MTP, 0, 400, 3 },
        { 7, 0, 0, 64, 0, 0, RT_SPEC_OFF, 0, 60, CONTEXT }, { 4, 0, 3, 64, 0, 0, RT_SPEC_MTP, 0, 1, 4 },
        { 5, 120, 0, 64, 0, 0, RT_SPEC_OFF, 0, 60, 4 },     { 5, 100, 3, 64, 7, 0, RT_SPEC_MTP, 0, 60, 2 },
        { 5, 100, 3, 64, 0, 0, RT_SPEC_NGRAM, 0, 2, 5 },    { 4, 0, 3, 5, 0, 0, RT_SPEC_MTP, 31, 60, 4 },
        { 4, 120, 2, 3, 0, 0, RT_SPEC_NGRAM, 17, 3, 3 },    { 3, 96, 0, 64, 0, 0, RT_SPEC_OFF, 23, 60, 1 },
    };
    static request r[N];
    static fixture_stream truth[N], out[N];
    int64_t preemptions = 0, found = 0, all, evicting = 0;
    int32_t failed = 0;
    make_requests(model, r);
    left_alone(model, r);
    second_turn(model, r);
    strangers(model, r);
    for (int32_t i = 0; i < N; i++) {
        const way alone = { .parallel = 1, .n_batch = 64 };
        run(model, &r[i], 1, &alone, &truth[i]);
    }
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way w = ways[i];
        if (w.spec == RT_SPEC_MTP && !model->hp.n_mtp) w.spec = RT_SPEC_NGRAM;
        const totals sum = run(model, r, N, &w, out);
        const rt_totals t = sum.t;
        const int64_t fewest = least(r, w.interval, &all);
        for (int32_t j = 0; j < N; j++)
            REQUIRE(fixture_same(&truth[j], &out[j]), "%s: way %d: request %d", name, (int)i, (int)j);
        for (int32_t j = 0; j < N; j++) {
            r[j].boundary[0] = 1 + (int32_t)i % 5;
            r[j].boundary[1] = r[j].n_prompt - (int32_t)i % 4;
        }
        run(model, r, N, &w, out);
        for (int32_t j = 0; j < N; j++) {
            REQUIRE(fixture_same(&truth[j], &out[j]), "%s: way %d, boundaries: request %d", name, (int)i, (int)j);
            memset(r[j].boundary, 0, sizeof r[j].boundary);
        }
        failed += sum.failed;
        preemptions += t.preemptions;
        found += t.prefix_tokens;
        if (!w.fail_every && !t.preemptions) REQUIRE(t.prompt_tokens + t.prefix_tokens == all);
        /* With room for all, the head is read by one and the others wait for it, also side by side. With cells for one
         * request alone, the end of the prompt that comes again has given way by then. */
        if (!w.fail_every && !w.cells && w.n_prefixes > 1)
            REQUIRE(t.prompt_tokens <= fewest + (w.parallel == 1 ? w.interval : 0));
        if (w.interval >= CONTEXT) REQUIRE(t.prefix_tokens == 0);
        else REQUIRE(t.prefix_tokens > 0 || w.n_prefixes < 3);
        if (!w.cells || w.fail_every) continue;
        /* who has to give way does so for other requests, never for what the cache has */
        w.n_prefixes = 0;
        const rt_totals without = run(model, r, N, &w, out).t;
        REQUIRE(t.preemptions <= without.preemptions && t.prompt_tokens < without.prompt_tokens);
        evicting++;
    }
    printf("%-24s %lld tokens found, %lld preemptions, %d steps failed\n", name, (long long)found,
           (long long)preemptions, (int)failed);
    REQUIRE(failed > 20 && found > 1000 && preemptions > 0 && evicting == 3);
}
