/* The calls of clients, and the engine's loop. See serve.h. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "system/sockets.h"
#include "system/interrupt.h"
#include "tools/serve/serve.h"

/* ---- Calls ---- */

/* Joins the queue. Returns 0, with an error, if n more texts are too many or the server ends. */
static int join(serve_server *v, int32_t n, serve_error *e)
{
    const int64_t most = run_opt.parallel + serve_opt.queue;
    if (v->draining || v->failure[0]) return serve_fail(e, 503, "shutting_down", NULL, "the server is shutting down");
    v->n_refused += v->n_live + n > most;
    if (v->n_live + n > most)
        return serve_fail(e, 429, "queue_full", NULL,
                          "the server has %d texts of %lld (--parallel and --queue together); this request needs %d",
                          (int)v->n_live, (long long)most, (int)n);
    v->n_live += n;
    return 1;
}

int serve_is_up(serve_server *v, serve_error *e)
{
    gdn_mutex_lock(&v->lock);
    const int up = join(v, 0, e);
    gdn_mutex_unlock(&v->lock);
    return up;
}

int serve_add(serve_server *v, serve_call *call, serve_error *e)
{
    const int32_t n = call->n * call->n_prompts;
    gdn_mutex_lock(&v->lock);
    const int good = join(v, n, e);
    if (good) {
        serve_call **end = &v->calls; /* the oldest first: texts start in this order */
        while (*end) end = &(*end)->next;
        *end = call;
        call->server = v;
        call->n_choices = n;
        for (int32_t i = 0; i < n; i++) call->choice[i].call = call;
        (void)snprintf(call->id, sizeof call->id, "%s-%llx-%llu", call->chat ? "chatcmpl" : "cmpl",
                       (unsigned long long)v->started, (unsigned long long)++v->n_calls);
        call->created = (int64_t)time(NULL);
        call->arrived = run_now();
        gdn_condition_signal(&v->work);
    }
    gdn_mutex_unlock(&v->lock);
    return good;
}

static void free_call(serve_call *call)
{
    for (int i = 0; i < call->n_prompts; i++) rt_free(call->prompt[i]);
    for (int i = 0; i < call->n_choices; i++) {
        free(call->choice[i].text.bytes);
        free(call->choice[i].logprob);
    }
    free(call->bias);
    rt_schema_free(call->schema);
    json_decref(call->body);
    json_decref(call->kept);
    free(call->out);
    gdn_condition_destroy(&call->news);
    free(call);
}

void serve_release(serve_call *call)
{
    serve_server *const v = call->server;
    if (!v) { /* it was not added */
        free_call(call);
        return;
    }
    gdn_mutex_lock(&v->lock);
    call->gone = call->released = 1;
    gdn_condition_signal(&v->work);
    gdn_mutex_unlock(&v->lock);
}

/* ---- The engine's thread; the lock is held, except by serve_loop() and on_token() ---- */

static int on_token(void *user, int32_t request, int32_t token)
{
    serve_choice *const c = user;
    serve_call *const call = c->call;
    (void)request;
    if (call->no_text) return 0;
    gdn_mutex_lock(&call->server->lock);
    if (!(c->first > 0)) c->first = run_now();
    const int n_stop = c->n_drawn++ < call->n_min ? 0 : call->n_stop;
    const int end = run_text_add(&c->text, call->server->session->tokenizer, token, 0, call->stop, n_stop);
    if (end == RUN_STRING) c->string = 1;
    else if (end) (void)snprintf(c->error, sizeof c->error, "out of memory");
    const int stops = end || call->gone;
    if (call->stream) gdn_condition_signal(&call->news);
    gdn_mutex_unlock(&call->server->lock);
    return stops;
}

/* Keeps the log-probabilities of a token. The lock is held. */
static void keep_logprobs(serve_choice *c, const rt_logprob *logprob, int32_t n_top)
{
    const size_t each = 1 + (size_t)n_top;
    if (c->n_logprobs == c->room) {
        const size_t room = 2 * c->room + 64;
        rt_logprob *const larger = realloc(c->logprob, room * each * sizeof *larger);
        if (larger) {
            c->logprob = larger;
            c->room = room;
        }
    }
    if (c->n_logprobs < c->room) memcpy(c->logprob + each * c->n_logprobs++, logprob, each * sizeof *logprob);
    else (void)snprintf(c->error, sizeof c->error, "out of memory");
}

static void on_prompt_logprobs(void *user, int32_t request, const rt_logprob *logprob, int32_t n_top)
{
    serve_choice *const c = user;
    (void)request;
    gdn_mutex_lock(&c->call->server->lock);
    keep_logprobs(c, logprob, n_top);
    gdn_mutex_unlock(&c->call->server->lock);
}

/* Of a token that is in the text. With the prompt in the answer, clients expect an entry for each token. */
static void on_logprobs(void *user, int32_t request, const rt_logprob *logprob, int32_t n_top)
{
    const serve_call *const call = ((serve_choice *)user)->call;
    const int is_text = call->echo || !rt_token_is_special(call->server->session->tokenizer, logprob->token);
    if (is_text && !call->no_text) on_prompt_logprobs(user, request, logprob, n_top);
}

/* Begins the text with the prompt. Its first token has no log-probability. */
static void echo(serve_choice *c, const int32_t *prompt, int32_t n)
{
    const serve_call *const call = c->call;
    rt_logprob first[1 + RT_TOP_LOGPROBS] = { { prompt[0], NAN } };
    int full = 0;
    for (int32_t i = 0; i < n && !full; i++)
        full = run_text_add(&c->text, call->server->session->tokenizer, prompt[i], 1, NULL, 0) == RUN_NO_MEMORY;
    c->text.begin = c->text.n;
    if (full) (void)snprintf(c->error, sizeof c->error, "out of memory");
    if (call->logprobs) keep_logprobs(c, first, call->n_top);
}

static void end_choice(serve_server *v, serve_choice *c)
{
    c->ended = 1;
    v->n_live--;
    serve_note_text(v, c);
    gdn_condition_signal(&c->call->news);
}

static void submit(serve_server *v, rt_scheduler *scheduler, serve_choice *c)
{
    const serve_call *const call = c->call;
    const int32_t i = (int32_t)(c - call->choice);
    rt_request r = { .prompt = call->prompt[i / call->n],
                     .n_prompt = call->n_prompt[i / call->n],
                     .n_max = call->n_max,
                     .n_min = call->n_min,
                     .sampling = call->sampling,
                     .ignore_end = call->ignore_end,
                     .owner = call->owner,
                     .on_token = on_token,
                     .user = c,
                     .on_logprobs = call->logprobs ? on_logprobs : NULL,
                     .on_prompt_logprobs = call->logprobs && call->echo ? on_prompt_logprobs : NULL,
                     .n_top = call->n_top,
                     .schema = call->schema,
                     .thinks = call->thinks };
    memcpy(r.boundary, call->boundary, sizeof r.boundary);
    if (!call->chat) r.boundary[0] = r.n_prompt; /* the next prompt may go on there, or after the text */
    r.sampling.seed += (uint64_t)(i % call->n);
    if (call->echo) echo(c, r.prompt, r.n_prompt);
    if (!rt_scheduler_submit(scheduler, &r, &c->id)) {
        c->submitted = 1;
        return;
    }
    (void)snprintf(c->error, sizeof c->error, "%.250s", rt_last_error());
    c->result.finish = RT_FINISH_FAILED;
    end_choice(v, c);
}

/* Notes whether the client went away. One that closes its connection looks at first as one that closes its sending side
 * only: what is sent to it then tells. */
static void look_at_client(serve_call *call)
{
    const socket_state state = call->gone ? SOCKET_OPEN : socket_look(call->fd, call->half);
    if (state == SOCKET_OPEN) return;
    if (state == SOCKET_HALF) call->half = call->probe = 1;
    else call->gone = 1;
    gdn_condition_signal(&call->news);
}

/* Takes the result of a submitted text that has ended, or that the engine's failure ends. */
static void collect(serve_server *v, rt_scheduler *scheduler, serve_choice *c)
{
    (void)rt_scheduler_result(scheduler, c->id, &c->result);
    if (c->result.finish == RT_FINISH_NONE && !v->failure[0]) return;
    const char *const why = v->failure[0] ? v->failure : c->result.error;
    if (why) (void)snprintf(c->error, sizeof c->error, "%.250s", why);
    if (c->error[0]) c->result.finish = RT_FINISH_FAILED;
    else if (c->string) c->result.finish = RT_FINISH_STOP;
    c->result.error = NULL; /* the scheduler's */
    (void)rt_scheduler_release(scheduler, c->id);
    end_choice(v, c);
}

/* Submits, collects, cancels and frees what has changed. */
static void update(serve_server *v, rt_scheduler *scheduler)
{
    v->totals = rt_scheduler_totals(scheduler);
    v->n_running = v->failure[0] ? 0 : rt_scheduler_running(scheduler);
    for (serve_call **at = &v->calls; *at;) {
        serve_call *const call = *at;
        int32_t n_ended = 0;
        look_at_client(call);
        for (int32_t i = 0; i < call->n_choices; i++) {
            serve_choice *const c = &call->choice[i];
            if (!c->ended && c->submitted) collect(v, scheduler, c);
            if (!c->ended && call->gone && c->submitted) (void)rt_scheduler_cancel(scheduler, c->id);
            if (!c->ended && call->gone && !c->submitted) {
                c->result.finish = RT_FINISH_CANCELLED;
                end_choice(v, c);
            }
            if (!c->ended && !c->submitted) submit(v, scheduler, c);
            n_ended += c->ended;
        }
        if (call->released && n_ended == call->n_choices) {
            *at = call->next;
            free_call(call);
        } else {
            at = &call->next;
        }
    }
}

/* Replaces --prefix-file now and then. Texts wait while it is copied, so that is done when there are none, or after a
 * long time. */
static void keep_prefixes(serve_server *v)
{
    enum { IDLE_SECONDS = 30, BUSY_SECONDS = 600 };
    const double now = run_now();
    if (now - v->prefixes_at < (v->n_live ? BUSY_SECONDS : IDLE_SECONDS)) return;
    gdn_mutex_unlock(&v->lock);
    (void)run_save_prefixes(v->session, 0); /* it says what is wrong; the server goes on */
    gdn_mutex_lock(&v->lock);
    v->prefixes_at = run_now();
}

int serve_loop(serve_server *v, void (*close_port)(void *), void *user)
{
    rt_scheduler *scheduler = NULL;
    if (run_open_scheduler(v->session, &scheduler)) return 1;
    gdn_mutex_lock(&v->lock);
    v->prefixes_at = run_now();
    for (;;) {
        if (interrupt_noted() && !v->draining) {
            v->draining = 1;
            gdn_mutex_unlock(&v->lock);
            (void)fprintf(stderr, "gdn serve: finishing the requests; a second signal ends at once\n");
            close_port(user);
            gdn_mutex_lock(&v->lock);
        }
        update(v, scheduler);
        serve_close_late(v);
        if (!v->calls && (v->draining || v->failure[0])) break;
        keep_prefixes(v);
        if (!v->n_live) {
            (void)gdn_condition_wait_for(&v->work, &v->lock, 0.1); /* for work or a signal */
            continue;
        }
        gdn_mutex_unlock(&v->lock);
        int busy;
        const gdn_status status = rt_scheduler_step(scheduler, &busy);
        gdn_mutex_lock(&v->lock);
        if (status) { /* after a failure of the device nothing that runs can continue */
            (void)snprintf(v->failure, sizeof v->failure, "%s", rt_last_error());
            (void)fprintf(stderr, "gdn serve: decoding: %s\n", v->failure);
        }
    }
    gdn_mutex_unlock(&v->lock);
    rt_scheduler_destroy(scheduler);
    return v->failure[0] ? 1 : run_save_prefixes(v->session, 1);
}
