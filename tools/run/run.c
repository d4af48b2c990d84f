/* gdn run - text from a hybrid model. See run.h. */
#include "tools/run/run.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/commands.h"
#include "system/interrupt.h"
#include "system/streams.h"
#include "tools/cli/output.h"

/* ---- Generating ---- */

typedef struct generation {
    const run_session *session;
    const run_prompt *prompts;
    run_request *requests;
    int32_t n;
    run_output *output;
    progress_bar bar;
    int64_t total, read, drawn; /* tokens: most that can come; decoded prompt tokens; generated */
    int counts_drawn;           /* 1: progress counts generated tokens, since no text is shown             */
    int trouble;                /* RUN_LOST, RUN_NO_MEMORY                                                 */
    int broken;                 /* a request failed: NaN or infinite logits                                */
} generation;

static int on_token(void *user, int32_t request, int32_t token)
{
    generation *g = user;
    g->drawn++;
    if (g->counts_drawn) progress_to(&g->bar, g->read + g->drawn, "tokens read and generated");
    else if (output_is_terminal()) progress_clear(&g->bar);
    else progress_end(&g->bar); /* stdout and stderr are one file: keep progress out of the text */
    const int end = run_output_token(g->output, request, token);
    if (end == RUN_STRING) g->requests[request].string = 1;
    else if (end) g->trouble = end;
    return end || interrupt_noted();
}

static void on_prompt(void *user, int32_t request, int32_t done, int32_t total)
{
    generation *g = user;
    (void)total;
    g->read += done - g->requests[request].n_read;
    g->requests[request].n_read = done;
    progress_to(&g->bar, g->read + (g->counts_drawn ? g->drawn : 0),
                g->counts_drawn ? "tokens read and generated" : "tokens of prompts");
}

/* Submits request i: prompt i modulo the number of prompts; repetitions have the next seed. */
static int submit(rt_scheduler *scheduler, generation *g, int32_t i, int32_t n_prompts)
{
    run_request *q = &g->requests[i];
    q->prompt = i % n_prompts;
    q->seed = run_opt.seed + (uint64_t)(i / n_prompts);
    const run_prompt *prompt = &g->prompts[q->prompt];
    const int32_t room = g->session->context - prompt->n_tokens;
    if (room < 1) {
        (void)fprintf(
            stderr,
            "gdn run: prompt %d has %d tokens; the context holds %d (--ctx), and one must be left to generate\n",
            (int)q->prompt + 1, (int)prompt->n_tokens, (int)g->session->context);
        return 1;
    }
    q->n_max = run_opt.n_predict < 0 || run_opt.n_predict > room ? room : (int32_t)run_opt.n_predict;
    rt_request r = { 0 };
    int32_t id;
    r.prompt = prompt->token;
    r.n_prompt = prompt->n_tokens;
    r.n_max = run_opt.n_predict < 0 ? INT32_MAX : (int32_t)run_opt.n_predict;
    r.sampling = run_sampling(q->seed);
    r.ignore_end = run_opt.ignore_end;
    memcpy(r.boundary, prompt->boundary, sizeof r.boundary);
    if (!run_opt.chat) r.boundary[0] = r.n_prompt; /* the next prompt may go on there, or after the text */
    r.schema = g->session->schema;
    r.thinks = prompt->thinks;
    r.on_token = on_token;
    r.on_prompt = on_prompt;
    r.user = g;
    g->total += prompt->n_tokens + (g->counts_drawn ? q->n_max : 0);
    if (!rt_scheduler_submit(scheduler, &r, &id)) return 0;
    (void)fprintf(stderr, "gdn run: prompt %d: %s\n", (int)q->prompt + 1, rt_last_error());
    return 1;
}

/* Runs steps until all requests have ended; nonzero: decoding failed. */
static int work(rt_scheduler *scheduler, generation *g)
{
    for (int busy = 1; busy;) {
        const gdn_status status = rt_scheduler_step(scheduler, &busy);
        if (status && !(status == RT_STOPPED && interrupt_noted())) { /* stopped by a signal: requests are cancelled
                                                                         below */
            progress_end(&g->bar);
            return run_fail("decoding");
        }
        for (int32_t i = 0; i < g->n; i++) {
            rt_result r;
            if (interrupt_noted() || g->trouble) (void)rt_scheduler_cancel(scheduler, i);
            if (!g->requests[i].ended && !rt_scheduler_result(scheduler, i, &r) && r.finish != RT_FINISH_NONE) {
                g->requests[i].ended = 1;
                const int lost = run_output_end(g->output, i);
                if (lost && !g->trouble) g->trouble = lost;
                if (r.finish == RT_FINISH_FAILED) {
                    progress_clear(&g->bar);
                    (void)fprintf(stderr, "gdn run: prompt %d: %s\n", (int)g->requests[i].prompt + 1, r.error);
                    g->broken = 1;
                }
            }
        }
    }
    return 0;
}

/* Reports texts that were cut, which look like complete ones. For a continued text -n states the length; for an answer
 * it does not. */
static void tell_cuts(const rt_scheduler *scheduler, const generation *g)
{
    for (int32_t i = 0; i < g->n; i++) {
        rt_result r = { 0 };
        char number[24] = "";
        if (g->n > 1) (void)snprintf(number, sizeof number, "text %d ", (int)i + 1);
        (void)rt_scheduler_result(scheduler, i, &r);
        if (r.finish == RT_FINISH_CONTEXT) run_tell_full(g->session, number, "");
        else if (r.finish == RT_FINISH_LENGTH && run_opt.chat) run_tell_cut(number);
    }
}

static int generate(run_session *s, const run_prompt *prompts, int32_t n_prompts)
{
    rt_scheduler *scheduler = NULL;
    generation g = { .session = s, .prompts = prompts, .n = n_prompts > s->n_seqs ? n_prompts : s->n_seqs };
    g.requests = calloc((size_t)g.n, sizeof *g.requests);
    g.output = g.requests ? run_output_create(s, prompts, g.requests, g.n, !run_opt.json) : NULL;
    g.counts_drawn = run_opt.json || (!output_is_terminal() && !streams_are_one());
    int code = 0;
    if (!g.output) g.trouble = RUN_NO_MEMORY;
    else code = run_open_scheduler(s, &scheduler);
    for (int32_t i = 0; scheduler && !code && i < g.n; i++) code = submit(scheduler, &g, i, n_prompts);
    if (scheduler && !code) {
        progress_begin(&g.bar, g.total);
        interrupt_catch(); /* a signal ends generation between tokens, with statistics */
        const double begin = run_now();
        code = work(scheduler, &g);
        const double seconds = run_now() - begin;
        progress_end(&g.bar);
        if (!code && !g.trouble && run_opt.json)
            code = !run_print_json(s, scheduler, prompts, g.requests, g.n, g.output, seconds);
        if (!code && !g.trouble && !run_opt.json) tell_cuts(scheduler, &g);
        if (!code && !g.trouble && run_opt.stats) run_print_stats(s, scheduler, g.n, seconds);
    }
    if (g.trouble == RUN_NO_MEMORY) (void)fprintf(stderr, "gdn run: out of memory\n");
    if (!code && g.broken) code = 1;
    if (g.trouble) /* output_end() reports lost output */
        code = 1;
    rt_scheduler_destroy(scheduler);
    run_output_destroy(g.output);
    free(g.requests);
    return code;
}

static int32_t sequences(int32_t n_prompts)
{
    if (run_opt.parallel) return (int32_t)run_opt.parallel;
    return n_prompts < 8 ? n_prompts : 8;
}

/* Stop function: the first Ctrl-C ends the current step. */
static int stop_wanted(void *user)
{
    (void)user;
    return interrupt_noted();
}

static void tell_long_context(const run_session *s)
{
    if (cli_given(&run_command, "ctx") && run_opt.context > s->model->hp.n_ctx_train)
        (void)fprintf(stderr, "gdn run: note: --ctx is %lld; the model was made for contexts of %d tokens\n",
                      (long long)run_opt.context, (int)s->model->hp.n_ctx_train);
}

int gdn_run_main(int argc, char **argv)
{
    run_set_defaults();
    const int cli = cli_parse(&run_command, argc, argv);
    if (cli != CLI_RUN) return cli_exit_code(cli);
    int code = run_check_options();
    if (code) return code;
    run_session session = { 0 };
    run_prompt *prompts = NULL;
    int32_t n_prompts = 0;
    session.talks = run_talks();
    session.rollback = run_rollback();
    code = run_read_texts(&session);
    if (!code) code = run_read_schema(&session);
    if (!code) code = run_load_model(&session);
    if (!code && run_opt.chat) code = run_load_template(&session);
    if (!code) code = run_choose_spec(&session);
    if (!code) code = run_choose_sampling(&session);
    if (!code) tell_long_context(&session);
    if (!code && run_opt.bench) {
        code = run_bench(&session);
    } else if (!code) {
        if (!session.talks || run_opt.prompt.n || run_opt.file.n)
            code = run_read_prompts(&session, &prompts, &n_prompts);
        if (!code)
            code = run_open_engine(&session, session.talks ? 1 : sequences(n_prompts), session.spec, session.rollback,
                                   &session.engine);
        if (!code) rt_engine_stop_when(session.engine, stop_wanted, NULL);
        if (!code && run_opt.n_predict == RUN_NOT_GIVEN) /* reserve room for another turn after the answer */
            run_opt.n_predict = session.context / 4 > 0 ? session.context / 4 : 1;
        if (!code)
            code = run_opt.perplexity ? run_perplexity(&session, prompts)
                   : session.talks    ? run_talk(&session, prompts, n_prompts)
                                      : generate(&session, prompts, n_prompts);
        if (!code) code = run_save_prefixes(&session, 1);
    }
    run_free_prompts(prompts, n_prompts);
    run_close(&session);
    return interrupt_noted() ? interrupt_end(output_end("gdn", code)) : code;
}
