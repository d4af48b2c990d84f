/* gdn run --perplexity: how well the model predicts a text, by the windows of llama.cpp's llama-perplexity. See run.h.
 *
 * A window is --ctx tokens; tokens after the last whole window are not read. Each window begins in an empty sequence,
 * with bos for its first token if the vocabulary adds that to texts. The tokens of its second half are scored. */
#include <math.h>
#include <string.h>

#include "system/interrupt.h"
#include "tools/cli/output.h"
#include "tools/run/run.h"

enum { SCORED_ROWS = 16 }; /* rows of logits at once, since a row has as many as the vocabulary */

uint64_t run_perplexity_bytes(const run_session *s) { return 4 * SCORED_ROWS * (uint64_t)s->model->hp.n_vocab; }

typedef struct score {
    int64_t n;          /* scored tokens                                    */
    double sum, square; /* of their log-probabilities, and of these squared */
} score;

static double perplexity(const score *of) { return exp(-of->sum / (double)of->n); }

/* Standard error of the perplexity: that of the mean log-probability, times the perplexity. */
static double standard_error(const score *of)
{
    const double n = (double)of->n, mean = of->sum / n, variance = of->square / n - mean * mean;
    return variance > 0 ? sqrt(variance / (n - 1)) * perplexity(of) : 0;
}

/* Decodes token[0, n), and scores token[1 .. n] if `to` is not NULL. n <= SCORED_ROWS then. */
static int read_part(const run_session *s, rt_sampler *sampler, const int32_t *token, int32_t n, score *to)
{
    static const rt_sampling greedy = { .top_p = 1, .repeat_penalty = 1 };
    const int32_t most = s->context; /* rows of `seq` and `logits` */
    int32_t *const seq = rt_calloc((uint64_t)most, sizeof *seq, "a window");
    uint8_t *const logits = rt_calloc((uint64_t)most, 1, "a window");
    const rt_batch batch = { n, token, seq, logits, 1 };
    gdn_status status = seq && logits ? GDN_OK : GDN_OUT_OF_MEMORY;
    if (!status && to) memset(logits, 1, (size_t)n);
    if (!status) status = rt_engine_decode(s->engine, &batch);
    for (int32_t i = 0; !status && to && i < n; i++) {
        const float *const row = rt_engine_logits(s->engine, i);
        rt_logprob of;
        if (rt_sample(sampler, &greedy, row, token, 0) < 0)
            status = rt_fail(GDN_INTERNAL, "the model computes no numbers: a logit is NaN or infinite");
        if (status) break;
        rt_logprobs(sampler, row, token[i + 1], 0, &of);
        to->n++;
        to->sum += (double)of.logprob;
        to->square += (double)of.logprob * (double)of.logprob;
    }
    rt_free(seq);
    rt_free(logits);
    return status ? run_fail("--perplexity") : 0;
}

/* Scores the second half of a window. Its last token is not decoded, since nothing is predicted from it. */
static int read_window(const run_session *s, rt_sampler *sampler, int32_t *token, score *to)
{
    const int32_t n = s->context - 1, half = s->context / 2, own = token[0];
    int code = rt_memory_seq_rm(rt_engine_memory(s->engine), 0, 0, -1) ? run_fail("--perplexity") : 0;
    if (rt_tokenizer_add_bos(s->tokenizer) && rt_tokenizer_bos(s->tokenizer) >= 0)
        token[0] = rt_tokenizer_bos(s->tokenizer);
    if (!code) code = read_part(s, sampler, token, half, NULL);
    for (int32_t at = half; !code && at < n; at += SCORED_ROWS)
        code = read_part(s, sampler, token + at, n - at < SCORED_ROWS ? n - at : SCORED_ROWS, to);
    token[0] = own;
    return code;
}

static int print(const run_session *s, const score *of, int32_t n_windows, double seconds)
{
    if (!run_opt.json) {
        (void)printf("PPL = %.4f +/- %.5f\n", perplexity(of), standard_error(of));
        return output_flush() ? 1 : 0;
    }
    json_writer w;
    run_begin_json(&w, s, s->engine);
    json_put_string(&w, "kv", run_opt.kv);
    json_put_int(&w, "context", s->context);
    json_put_int(&w, "windows", n_windows);
    json_put_int(&w, "scored_tokens", of->n);
    json_put_double(&w, "mean_logprob", of->sum / (double)of->n);
    json_put_double(&w, "perplexity", perplexity(of));
    json_put_double(&w, "standard_error", standard_error(of));
    json_put_double(&w, "seconds", seconds);
    json_close(&w);
    return json_finish(&w) ? 0 : 1;
}

int run_perplexity(run_session *s, const run_prompt *text)
{
    const int32_t n_windows = text->n_tokens / s->context;
    rt_sampler *sampler = NULL;
    score all = { 0 };
    if (!n_windows)
        return cli_error(&run_command, "--perplexity: %s has %d tokens; a window has %d (--ctx)", text->name,
                         (int)text->n_tokens, (int)s->context);
    if (rt_sampler_create(s->model->hp.n_vocab, rt_engine_dense(s->engine), &sampler)) return run_fail("the sampler");
    interrupt_catch();
    const double begin = run_now();
    int code = 0;
    for (int32_t i = 0; !code && i < n_windows; i++) {
        code = read_window(s, sampler, text->token + (int64_t)i * s->context, &all);
        if (!code) (void)fprintf(stderr, "%s[%d]%.4f", i ? "," : "", (int)i + 1, perplexity(&all));
    }
    if (all.n) (void)fputc('\n', stderr);
    rt_sampler_destroy(sampler);
    return code ? code : print(s, &all, n_windows, run_now() - begin);
}
