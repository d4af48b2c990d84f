/* gdn run --bench: prompt and generation speed at several widths, with and without drafts.
 *
 * The settings of a width alternate in turns of some steps, for several rounds, so that disturbances of the machine
 * affect all of them. Plain decoding of one sequence follows. The table shows the best of each setting when its width
 * is done. The gain of drafts is the median over rounds of the ratio within a round. See run.h. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/run/run.h"

enum { ROUNDS = 3, COST_ROUNDS = 16, KINDS = 5, MAX_ROWS = CLI_LIST_MAX * KINDS };
static const double TURN = 0.05; /* seconds */

/* Kinds of drafts, plain decoding first. */
static const struct {
    rt_spec spec;
    rt_rollback rollback;
} kinds[KINDS] = { { RT_SPEC_OFF, RT_ROLLBACK_SNAPSHOTS },
                   { RT_SPEC_MTP, RT_ROLLBACK_SNAPSHOTS },
                   { RT_SPEC_MTP, RT_ROLLBACK_LOG },
                   { RT_SPEC_NGRAM, RT_ROLLBACK_SNAPSHOTS },
                   { RT_SPEC_NGRAM, RT_ROLLBACK_LOG } };

typedef struct setting {
    int32_t width; /* requests at once */
    rt_spec spec;
    rt_rollback rollback;
    rt_engine *engine; /* sized for the largest width, or for one sequence */
    rt_scheduler *scheduler;
    rt_totals before, after; /* this round */
    int32_t last;            /* last request of this setting */
    int busy;
    double round[ROUNDS];      /* generation */
    double prompt, generation; /* tokens per second of all requests together: best round */
    int64_t drafted, accepted, rounds;
    double to_one, to_off; /* generation speed / plain decoding's of one sequence, of this width: median             */
    double to_first;       /* the same for the first round, in which the speculation controller learns             */
} setting;

/* Makes prompts of one length: pieces of the given text, or random tokens. */
static int make_prompts(run_session *s, int32_t width, int32_t length, int32_t **tokens)
{
    *tokens = calloc((size_t)width * (size_t)length, sizeof **tokens);
    if (!*tokens) return run_fail("out of memory");
    run_prompt *given = NULL;
    int32_t n_given = 0;
    int code = 0;
    if (run_opt.prompt.n || run_opt.file.n) code = run_read_prompts(s, &given, &n_given);
    uint64_t random = run_opt.seed;
    for (int32_t w = 0; !code && w < width; w++) {
        const run_prompt *p = n_given ? &given[w % n_given] : NULL;
        for (int32_t i = 0; i < length; i++) {
            int32_t *to = &(*tokens)[(int64_t)w * length + i];
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            /* each width reads a different part of the text */
            *to = p ? p->token[((int64_t)(w / n_given) * length + i) % p->n_tokens]
                    : (int32_t)((random >> 33) % (uint64_t)s->model->hp.n_vocab);
        }
    }
    run_free_prompts(given, n_given);
    return code;
}

/* Submits a setting's requests for a round. Each could generate twice its share; the round ends when all together have
 * enough tokens, so that the width is constant. The scheduler persists over rounds, so the speculation controller keeps
 * what it has learnt. */
static int begin_round(setting *at, const int32_t *tokens, int32_t length)
{
    const rt_scheduler_desc desc = { at->engine,
                                     NULL,
                                     at->width,
                                     0,
                                     at->spec,
                                     at->spec == RT_SPEC_OFF ? 0 : (int32_t)run_opt.draft_max,
                                     (float)run_opt.p_min,
                                     run_opt.always_draft };
    if (!at->scheduler && rt_scheduler_create(&desc, &at->scheduler)) return run_fail("the scheduler");
    at->before = rt_scheduler_totals(at->scheduler);
    at->busy = 1;
    for (int32_t i = 0; i < at->width; i++) {
        rt_request r = { 0 };
        r.prompt = tokens + (int64_t)i * length;
        r.n_prompt = length;
        r.n_max = 2 * (int32_t)run_opt.n_predict + 1; /* the prompt's step draws the first */
        r.sampling = run_sampling(run_opt.seed + (uint64_t)i);
        r.ignore_end = 1;
        if (rt_scheduler_submit(at->scheduler, &r, &at->last)) return run_fail("the benchmark");
    }
    return 0;
}

/* Cancels the remaining requests. */
static int stop(setting *at)
{
    for (int32_t i = at->last - at->width + 1; i <= at->last; i++) (void)rt_scheduler_cancel(at->scheduler, i);
    while (at->busy)
        if (rt_scheduler_step(at->scheduler, &at->busy)) return run_fail("the benchmark");
    return 0;
}

/* Runs steps for the time of a turn, or until there are enough tokens. */
static int take_turn(setting *at)
{
    const int64_t enough = at->before.decoded_tokens + at->width * run_opt.n_predict;
    const double end = run_now() + TURN;
    while (at->busy && run_now() < end) {
        if (rt_scheduler_step(at->scheduler, &at->busy)) return run_fail("the benchmark");
        at->after = rt_scheduler_totals(at->scheduler);
        if (at->after.decoded_tokens >= enough) return stop(at);
    }
    return 0;
}

static int end_round(setting *at, int round)
{
    for (int32_t i = at->last - at->width + 1; i <= at->last; i++) {
        rt_result r;
        if (rt_scheduler_result(at->scheduler, i, &r) || !r.error) continue;
        (void)fprintf(stderr, "gdn run: the benchmark: %s\n", r.error);
        return 1;
    }
    const rt_totals t = at->after, *b = &at->before;
    const double prompt = (double)(t.prompt_tokens - b->prompt_tokens) / (t.prompt_seconds - b->prompt_seconds),
                 generation =
                     (double)(t.decoded_tokens - b->decoded_tokens) / (t.generation_seconds - b->generation_seconds);
    at->prompt = prompt > at->prompt ? prompt : at->prompt;
    at->generation = generation > at->generation ? generation : at->generation;
    at->round[round] = generation;
    at->drafted = t.drafted;
    at->accepted = t.accepted;
    at->rounds = t.rounds;
    for (int32_t i = at->last - at->width + 1; i <= at->last; i++) (void)rt_scheduler_release(at->scheduler, i);
    return 0;
}

/* Measures a round of n settings, which have separate engines and alternate. */
static int measure(setting *at, int n, int round, const int32_t *tokens, int32_t length)
{
    int code = 0, busy = 1;
    for (int i = 0; !code && i < n; i++) code = begin_round(&at[i], tokens, length);
    while (!code && busy) {
        busy = 0;
        for (int i = 0; !code && i < n; i++) {
            code = take_turn(&at[i]);
            busy |= at[i].busy;
        }
    }
    for (int i = 0; !code && i < n; i++) code = end_round(&at[i], round);
    return code;
}

static void close_settings(setting *at, int n)
{
    for (int i = 0; i < n; i++) {
        rt_scheduler_destroy(at[i].scheduler);
        at[i].scheduler = NULL;
    }
}

/* Milliseconds of a step of n rows of one sequence, and of drafting n tokens (n = 0: not drafted). */
typedef struct cost {
    double step, draft;
} cost;

static int measure_costs(run_session *s, rt_engine *engine, const int32_t *tokens, int32_t length, cost *costs,
                         int32_t n_max)
{
    rt_memory *memory = rt_engine_memory(engine);
    int32_t *seq = calloc((size_t)(length > 80 ? length : 80), 4), drafts[64], n_draft;
    uint8_t all[80];
    memset(all, 1, sizeof all);
    if (!seq) return run_fail("out of memory");
    rt_batch batch = { length, tokens, seq, NULL };
    gdn_status status = rt_memory_seq_rm(memory, -1, 0, -1);
    if (!status) status = rt_engine_decode(engine, &batch);
    for (int32_t round = 0; !status && round < COST_ROUNDS; round++)
        for (int32_t n = 1; !status && n <= n_max; n++) {
            batch = (rt_batch){ n, tokens, seq, all };
            double begin = run_now();
            status = rt_engine_decode(engine, &batch);
            const double step = run_now() - begin;
            if (!status && n > 1) /* roll back to the first token */
                status = rt_memory_seq_rm(memory, 0, rt_memory_seq_length(memory, 0) - n + 1, -1);
            double draft = 0;
            if (!status && s->spec == RT_SPEC_MTP && n < n_max) {
                const rt_draft_request request = { 0, tokens[0], n };
                begin = run_now();
                status = rt_draft_mtp(engine, &request, 1, n, 0.0f, drafts, &n_draft);
                draft = run_now() - begin;
            }
            if (round == 0 || step < costs[n].step) costs[n].step = step;
            if (round == 0 || draft < costs[n].draft) costs[n].draft = draft;
        }
    free(seq);
    if (!status) status = rt_memory_seq_rm(memory, -1, 0, -1);
    return status ? run_fail("the benchmark") : 0;
}

/* ---- Output ---- */

static void print_header(const run_session *s, rt_engine *engine, int32_t length)
{
    if (run_opt.json) return;
    printf("%s, %s, backend %s, dense kernels %s; prompts of %d tokens, %lld generated; best of %d rounds\n\n",
           run_opt.model, rt_arch_name(s->model->hp.arch), run_opt.backend, rt_dense_isa(rt_engine_dense(engine)),
           (int)length, (long long)run_opt.n_predict, ROUNDS);
    printf("%8s %6s %9s %13s %13s %9s %9s %9s %12s\n", "parallel", "drafts", "rollback", "prompt tok/s", "gener. tok/s",
           "x of one", "x of off", "accepted", "tokens/round");
}

static void print_row(const setting *at)
{
    printf("%8d %6s %9s %13.1f %13.1f %9.2f %9.2f", (int)at->width, run_spec_name(at->spec),
           at->spec == RT_SPEC_OFF ? "" : run_rollback_name(at->rollback), at->prompt, at->generation, at->to_one,
           at->to_off);
    if (at->drafted)
        printf(" %8.1f%% %12.2f", 100.0 * (double)at->accepted / (double)at->drafted,
               1.0 + (double)at->accepted / (double)at->rounds);
    printf("\n");
}

static void print_end(const run_session *s, double alone_to_one, double alone, const cost *costs, int32_t n_costs)
{
    printf("\nOne sequence on an engine made for one: %.1f tok/s; on this one %.3f of that.", alone, 1 / alone_to_one);
    printf("\nA step of one sequence, in milliseconds:");
    for (int32_t i = 1; i <= n_costs; i++) printf("  %d row%s %.3f", (int)i, i > 1 ? "s" : "", 1e3 * costs[i].step);
    if (s->spec == RT_SPEC_MTP) {
        printf("\nDrafting by the MTP block:");
        for (int32_t i = 1; i < n_costs; i++)
            printf("  %d token%s %.3f", (int)i, i > 1 ? "s" : "", 1e3 * costs[i].draft);
    }
    printf("\n");
}

static int print_json(const run_session *s, const setting *rows, int n, const setting *alone, const cost *costs,
                      int32_t n_costs, int32_t length)
{
    json_writer w;
    run_begin_json(&w, s, rows->engine);
    json_put_int(&w, "prompt_tokens", length);
    json_put_int(&w, "generated_tokens", run_opt.n_predict);
    json_put_array(&w, "results");
    for (int i = 0; i < n; i++) {
        json_put_object(&w, NULL);
        json_put_int(&w, "parallel", rows[i].width);
        json_put_string(&w, "spec", run_spec_name(rows[i].spec));
        if (rows[i].spec != RT_SPEC_OFF) json_put_string(&w, "rollback", run_rollback_name(rows[i].rollback));
        json_put_double(&w, "prompt_tokens_per_second", rows[i].prompt);
        json_put_double(&w, "generated_tokens_per_second", rows[i].generation);
        json_put_double(&w, "ratio_to_one", rows[i].to_one);
        json_put_double(&w, "ratio_to_off", rows[i].to_off);
        json_put_double(&w, "ratio_to_off_first_round", rows[i].to_first);
        json_put_int(&w, "drafted", rows[i].drafted);
        json_put_int(&w, "accepted", rows[i].accepted);
        json_put_int(&w, "rounds", rows[i].rounds);
        json_close(&w);
    }
    json_close(&w);
    json_put_double(&w, "engine_for_one_tokens_per_second", alone->generation);
    json_put_array(&w, "step_seconds");
    for (int32_t i = 1; i <= n_costs; i++) json_put_double(&w, NULL, costs[i].step);
    json_close(&w);
    json_put_array(&w, "draft_seconds");
    for (int32_t i = 1; i < n_costs && s->spec == RT_SPEC_MTP; i++) json_put_double(&w, NULL, costs[i].draft);
    json_close(&w);
    json_close(&w);
    return json_finish(&w) ? 0 : 1;
}

/* Median over rounds of the ratio of two settings. */
static double middle_ratio(const setting *of, const setting *to)
{
    double r[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        int i = round;
        const double x = of->round[round] / to->round[round];
        for (; i > 0 && r[i - 1] > x; i--) r[i] = r[i - 1];
        r[i] = x;
    }
    return r[ROUNDS / 2];
}

/* Stop function of the engines: it updates the progress bar. */
static int wait_in_step(void *bar)
{
    progress_wait(bar);
    return 0;
}

/* Measures the n rows of one width, plain decoding first, and prints them. `alone` (may be NULL) is plain decoding of
 * one sequence, on the first row's engine. */
static int measure_width(setting *rows, int n, setting *alone, const int32_t *tokens, int32_t length, progress_bar *bar)
{
    setting one = { .width = 1, .engine = rows->engine };
    const int more = rows->width > 1;
    int code = 0;
    for (int round = 0; !code && round < ROUNDS; round++) {
        progress_step(bar, "rounds of a width");
        code = measure(rows, n, round, tokens, length);
        if (!code && more) code = measure(&one, 1, round, tokens, length);
        if (!code && alone) code = measure(alone, 1, round, tokens, length);
    }
    close_settings(rows, n);
    close_settings(&one, 1);
    close_settings(alone, alone != NULL);
    if (code) return code;
    const setting *plain = more ? &one : rows;
    if (alone) alone->to_one = alone->generation / plain->generation;
    progress_clear(bar);
    for (int i = 0; i < n; i++) {
        rows[i].to_one = rows[i].generation / plain->generation;
        rows[i].to_off = middle_ratio(&rows[i], rows);
        rows[i].to_first = rows[i].round[0] / rows->round[0];
        if (!run_opt.json) print_row(&rows[i]);
    }
    return output_flush();
}

/* True if the kind is measured; both methods of rollback are, unless one was given or the form has one only. */
static int wanted(const run_session *s, int kind)
{
    const rt_spec spec = kinds[kind].spec;
    if (spec == RT_SPEC_OFF) return 1;
    if ((run_opt.rollback || run_digits()) && kinds[kind].rollback != s->rollback) return 0;
    return spec == RT_SPEC_MTP ? s->spec == RT_SPEC_MTP : strcmp(run_opt.spec, "off") != 0;
}

int run_bench(run_session *s)
{
    static const int default_widths[] = { 1, 2, 5, 8 };
    cli_list widths = run_opt.widths;
    if (!widths.n)
        for (widths.n = 0; widths.n < 4; widths.n++) widths.value[widths.n] = default_widths[widths.n];
    int32_t widest = 1;
    for (int i = 0; i < widths.n; i++) widest = widths.value[i] > widest ? widths.value[i] : widest;
    if (widest > 1024) return cli_error(&run_command, "--widths goes up to %d; 1024 are allowed", (int)widest);
    /* without drafts the engine has no rollback, so steps of several rows could not be undone */
    const int ngram = strcmp(run_opt.spec, "off") != 0;
    const int32_t length = (int32_t)run_opt.bench_prompt, n_costs = ngram ? (int32_t)run_opt.draft_max + 1 : 1;
    const int64_t most = 2 * run_opt.n_predict > COST_ROUNDS * n_costs ? 2 * run_opt.n_predict : COST_ROUNDS * n_costs;
    if (!run_opt.context) run_opt.context = length + most + n_costs + 1;
    /* a separate engine per kind of drafts, so that none pays for another's snapshots, and one for a single sequence */
    rt_engine *engines[KINDS + 1] = { NULL }, *costly = NULL;
    int code = 0;
    progress_bar bar;
    progress_begin(&bar, (int64_t)widths.n * ROUNDS);
    progress_to(&bar, 0, "engines");
    for (int kind = 0; !code && kind < KINDS; kind++)
        if (wanted(s, kind)) {
            code = run_open_engine(s, widest, kinds[kind].spec, kinds[kind].rollback, &engines[kind]);
            if (kinds[kind].spec == s->spec || (s->spec == RT_SPEC_OFF && ngram))
                costly = kinds[kind].rollback == s->rollback || !costly ? engines[kind] : costly;
        }
    if (!code) code = run_open_engine(s, 1, RT_SPEC_OFF, s->rollback, &engines[KINDS]);
    for (int i = 0; !code && i <= KINDS; i++)
        if (engines[i]) rt_engine_stop_when(engines[i], wait_in_step, &bar);
    int32_t *tokens = NULL;
    cost costs[80] = { { 0, 0 } };
    setting rows[MAX_ROWS] = { { 0 } }, alone = { .width = 1, .engine = engines[KINDS] };
    int n = 0;
    if (!code) code = make_prompts(s, widest, length, &tokens);
    progress_clear(&bar);
    if (!code) print_header(s, engines[0], length);
    int n_kinds = 0;
    for (int kind = 0; kind < KINDS; kind++) n_kinds += engines[kind] != NULL;
    for (int i = 0; !code && i < widths.n; i++) {
        for (int kind = 0; kind < KINDS; kind++)
            if (engines[kind])
                rows[n++] = (setting){ .width = widths.value[i],
                                       .spec = kinds[kind].spec,
                                       .rollback = kinds[kind].rollback,
                                       .engine = engines[kind] };
        code = measure_width(&rows[n - n_kinds], n_kinds, i ? NULL : &alone, tokens, length, &bar);
    }
    if (!code) code = measure_costs(s, costly, tokens, length, costs, n_costs);
    progress_end(&bar);
    if (!code && run_opt.json) code = print_json(s, rows, n, &alone, costs, n_costs, length);
    else if (!code) print_end(s, alone.to_one, alone.generation, costs, n_costs);
    free(tokens);
    for (int i = 0; i <= KINDS; i++) rt_engine_destroy(engines[i]);
    return code;
}
