/* What is seen of the server from outside: a log of requests, and metrics. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "system/files.h"
#include "tools/serve/serve.h"

/* ---- Requests ---- */

/* Counts an answer to a request. The lock is held. */
static void count(serve_server *v, const char *endpoint, int status)
{
    serve_answers *a = v->answers;
    while (a->n && (a->status != status || strcmp(a->endpoint, endpoint) != 0)) a++;
    if (a == v->answers + SERVE_ANSWERS - 1) return; /* the last one remains empty */
    *a = (serve_answers){ endpoint, status, a->n + 1 };
}

/* A line on standard error. It has nothing that the client wrote. */
static void put_line(const char *endpoint, int status, serve_call *call, double seconds, int cut)
{
    const time_t now = time(NULL);
    const serve_usage n = call ? serve_usage_of(call) : (serve_usage){ 0, 0, 0 };
    const char *const id = call && *call->id ? call->id : "-";
    char when[32] = "";
    struct tm utc;
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    (void)fprintf(stderr,
                  serve_opt.log_json
                      ? "{\"time\":\"%s\",\"endpoint\":\"%s\",\"id\":\"%s\",\"status\":%d,\"tokens_read\":%lld,"
                        "\"tokens_kept\":%lld,\"tokens_written\":%lld,\"seconds\":%.3f,\"cut\":%s}\n"
                      : "gdn serve: %s %s %s %d: %lld tokens read, %lld kept, %lld written, %.3f s%s\n",
                  when, endpoint, id, status, (long long)(n.prompt - n.kept), (long long)n.kept, (long long)n.written,
                  seconds, serve_opt.log_json ? (cut ? "true" : "false") : (cut ? ", cut" : ""));
}

void serve_note_answer(serve_server *v, const char *endpoint, int status, serve_call *call, double seconds, int cut)
{
    gdn_mutex_lock(&v->lock);
    count(v, endpoint, status);
    gdn_mutex_unlock(&v->lock);
    if (serve_opt.log_requests) put_line(endpoint, status, call, seconds, cut);
}

/* ---- Texts ---- */

/* Upper bounds of the buckets, of seconds and of tokens. */
static const double bounds[2][SERVE_BUCKETS] = {
    { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000 },
    { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6 }
};

/* vLLM's names where they mean the same. */
static const struct {
    int tokens;
    const char *name, *help;
} histograms[SERVE_HISTOGRAMS] = {
    { 0, "time_to_first_token_seconds", "Time from a request's arrival to a text's first token" },
    { 0, "request_time_per_output_token_seconds", "Time of each further token of a text, on average" },
    { 0, "e2e_request_latency_seconds", "Time from a request's arrival to a text's end" },
    { 0, "request_queue_time_seconds", "Time in which a text was neither read nor generated" },
    { 1, "request_prompt_tokens", "Tokens of a text's prompt" },
    { 1, "request_generation_tokens", "Tokens of a text" },
};

static void observe(serve_server *v, int which, double value)
{
    serve_histogram *const h = &v->histogram[which];
    int i = 0;
    while (i < SERVE_BUCKETS && value > bounds[histograms[which].tokens][i]) i++;
    h->n[i]++;
    h->sum += value;
}

void serve_note_text(serve_server *v, const serve_choice *c)
{
    const serve_call *const call = c->call;
    const rt_result *const r = &c->result;
    const double all = run_now() - call->arrived, work = r->prompt_seconds + r->generation_seconds;
    const int32_t prompt = call->n_prompt[(c - call->choice) / call->n], n = r->n_tokens;
    v->n_ended[r->finish]++;
    if (r->finish == RT_FINISH_CANCELLED || r->finish == RT_FINISH_FAILED) return;
    if (c->first > 0) observe(v, 0, c->first - call->arrived);
    if (c->first > 0 && n > 1) observe(v, 1, (call->arrived + all - c->first) / (n - 1));
    observe(v, 2, all);
    observe(v, 3, all > work ? all - work : 0);
    observe(v, 4, prompt);
    observe(v, 5, call->no_text ? 0 : n);
}

/* ---- Metrics ---- */

static void put_head(FILE *f, const char *name, const char *type, const char *help)
{
    (void)fprintf(f, "# HELP gdn_%s %s.\n# TYPE gdn_%s %s\n", name, help, name, type);
}

static void put_metric(FILE *f, const char *name, const char *help, int64_t value)
{
    put_head(f, name, strstr(name, "_total") ? "counter" : "gauge", help);
    (void)fprintf(f, "gdn_%s %lld\n", name, (long long)value);
}

static void put_answers(FILE *f, const serve_server *v)
{
    put_head(f, "http_requests_total", "counter", "Answers by endpoint and status");
    for (const serve_answers *a = v->answers; a->n; a++)
        (void)fprintf(f, "gdn_http_requests_total{endpoint=\"%s\",status=\"%d\"} %llu\n", a->endpoint, a->status,
                      (unsigned long long)a->n);
}

static void put_histogram(FILE *f, const serve_server *v, int which)
{
    const serve_histogram *const h = &v->histogram[which];
    const char *const name = histograms[which].name;
    uint64_t n = 0;
    put_head(f, name, "histogram", histograms[which].help);
    for (int i = 0; i < SERVE_BUCKETS; i++) {
        n += h->n[i];
        (void)fprintf(f, "gdn_%s_bucket{le=\"%g\"} %llu\n", name, bounds[histograms[which].tokens][i],
                      (unsigned long long)n);
    }
    n += h->n[SERVE_BUCKETS];
    (void)fprintf(f, "gdn_%s_bucket{le=\"+Inf\"} %llu\ngdn_%s_sum %.9g\ngdn_%s_count %llu\n", name,
                  (unsigned long long)n, name, h->sum, name, (unsigned long long)n);
}

char *serve_metrics(serve_server *v)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const f = stream_open(&text, &n);
    if (!f) return NULL;
    gdn_mutex_lock(&v->lock);
    put_metric(f, "requests_total", "Requests for texts that were accepted", (int64_t)v->n_calls);
    put_metric(f, "refused_total", "Requests that were refused since the queue was full", (int64_t)v->n_refused);
    put_metric(f, "texts_running", "Texts that are read or generated", v->n_running);
    put_metric(f, "texts_waiting", "Texts that wait", v->n_live - v->n_running);
    put_metric(f, "texts_stopped_total", "Texts that ended by themselves", (int64_t)v->n_ended[RT_FINISH_STOP]);
    put_metric(f, "texts_cut_total", "Texts that ended at a limit",
               (int64_t)(v->n_ended[RT_FINISH_LENGTH] + v->n_ended[RT_FINISH_CONTEXT]));
    put_metric(f, "texts_cancelled_total", "Texts whose client went away", (int64_t)v->n_ended[RT_FINISH_CANCELLED]);
    put_metric(f, "texts_failed_total", "Texts that failed", (int64_t)v->n_ended[RT_FINISH_FAILED]);
    put_metric(f, "prompt_tokens_total", "Tokens of prompts that were read", v->totals.prompt_tokens);
    put_metric(f, "prefix_tokens_total", "Tokens of prompts that the prefix cache had", v->totals.prefix_tokens);
    put_metric(f, "generated_tokens_total", "Tokens that were generated", v->totals.generated_tokens);
    put_metric(f, "drafted_tokens_total", "Tokens that were drafted", v->totals.drafted);
    put_metric(f, "accepted_tokens_total", "Drafted tokens that were accepted", v->totals.accepted);
    put_metric(f, "preemptions_total", "Texts that gave their cells to others", v->totals.preemptions);
    put_metric(f, "reread_tokens_total", "Tokens that were read again after that", v->totals.reread_tokens);
    put_answers(f, v);
    for (int i = 0; i < SERVE_HISTOGRAMS; i++) put_histogram(f, v, i);
    gdn_mutex_unlock(&v->lock);
    (void)stream_close(f, &text, &n);
    return text;
}
