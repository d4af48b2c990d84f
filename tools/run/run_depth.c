/* gdn run --bench --depth N: time of a step of one token, and of verifying several, after N tokens of a sequence. */
#include <string.h>

#include "tools/run/run.h"

enum { ROUNDS = 5 };

static gdn_status step(rt_engine *engine, const int32_t *tokens, int32_t n, double *seconds)
{
    static const int32_t first[RUN_DEPTH_ROWS] = { 0 }; /* sequence */
    uint8_t all[RUN_DEPTH_ROWS];
    const rt_batch batch = { n, tokens, first, all };
    memset(all, 1, sizeof all);
    const double begin = run_now();
    const gdn_status status = rt_decode(engine, &batch);
    *seconds = run_now() - begin;
    return status;
}

/* Prefills the tokens in batches, as the scheduler does. */
static gdn_status read_tokens(rt_engine *engine, const int32_t *tokens, double *seconds)
{
    static const int32_t first[65536] = { 0 };
    const double begin = run_now();
    gdn_status status = GDN_OK;
    for (int64_t at = 0; !status && at < run_opt.depth; at += run_opt.batch) {
        const int64_t left = run_opt.depth - at;
        const rt_batch batch = { (int32_t)(left < run_opt.batch ? left : run_opt.batch), tokens + at, first, NULL };
        status = rt_decode(engine, &batch);
    }
    *seconds = run_now() - begin;
    return status;
}

int run_depth_measure(run_session *s, run_roofline *f, const int32_t *tokens, progress_bar *bar, run_depth *d)
{
    static const int32_t rows[RUN_DEPTHS] = { 1, 4, RUN_DEPTH_ROWS };
    const int64_t context = run_opt.context;
    rt_engine *engine = NULL;
    *d = (run_depth){ 0 };
    run_opt.context = run_opt.depth + ROUNDS * (1 + 4 + RUN_DEPTH_ROWS);
    int code = run_open_engine(s, 1, RT_SPEC_OFF, s->rollback, &engine);
    run_opt.context = context;
    if (code) return code;
    rt_engine_stop_when(engine, run_bench_wait, bar);
    gdn_status status = read_tokens(engine, tokens, &d->prompt);
    for (int round = 0; !status && round < ROUNDS; round++)
        for (int i = 0; !status && i < RUN_DEPTHS; i++) {
            double seconds;
            status = step(engine, tokens, rows[i], &seconds);
            if (!round || seconds < d->step[i]) d->step[i] = seconds;
            d->n_rows[i] = rows[i];
        }
    rt_engine_destroy(engine);
    if (status) return run_fail("the benchmark");
    code = run_roofline_measure(s, bar, f);
    d->prompt_roofline = run_roofline_prompts(s, f, 1, (int32_t)run_opt.depth);
    for (int i = 0; i < RUN_DEPTHS; i++) d->roofline[i] = run_roofline_step(s, f, 1, rows[i], (double)run_opt.depth);
    return code;
}

void run_depth_print(const run_depth *d)
{
    printf("\nAfter %lld tokens, which were read at %.1f a second (%.1f%% of the roofline):", (long long)run_opt.depth,
           (double)run_opt.depth / d->prompt, 100 * d->prompt_roofline / d->prompt);
    for (int i = 0; i < RUN_DEPTHS; i++)
        printf("%s %d row%s %.3f ms (%.1f%% of the roofline)", i ? "," : "", (int)d->n_rows[i],
               d->n_rows[i] > 1 ? "s" : "", 1e3 * d->step[i], 100 * d->roofline[i] / d->step[i]);
}

void run_depth_json(json_writer *w, const run_depth *d)
{
    json_object(w, "depth");
    json_int(w, "tokens", run_opt.depth);
    json_double(w, "prompt_tokens_per_second", (double)run_opt.depth / d->prompt);
    json_double(w, "prompt_share", d->prompt_roofline / d->prompt);
    json_array(w, "steps");
    for (int i = 0; i < RUN_DEPTHS; i++) {
        json_object(w, NULL);
        json_int(w, "rows", d->n_rows[i]);
        json_double(w, "seconds", d->step[i]);
        json_double(w, "roofline_seconds", d->roofline[i]);
        json_double(w, "share", d->roofline[i] / d->step[i]);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}
