/* Answers: texts to JSON, whole or as a stream of events. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/serve/serve.h"

json_t *serve_error_object(const serve_error *e)
{
    const int s = e->status;
    const char *const type = s == 401   ? "authentication_error"
                             : s == 403 ? "permission_error"
                             : s == 429 ? "rate_limit_error"
                             : s >= 500 ? "server_error"
                                        : "invalid_request_error";
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", e->message, "type", type, "param",
                     e->param[0] ? e->param : NULL, "code", e->code);
}

/* ---- Texts ---- */

/* Text as JSON; what is not UTF-8 becomes U+FFFD, byte for byte, so that pieces give the same as the whole. */
static json_t *json_of(const char *bytes, size_t n)
{
    char *const to = malloc(3 * n + 1), *end = to;
    for (size_t i = 0; to && i < n;) {
        const int length = json_utf8_length((const unsigned char *)bytes + i);
        memcpy(end, length ? bytes + i : "\xef\xbf\xbd", length ? (size_t)length : 3);
        end += length ? length : 3;
        i += length ? (size_t)length : 1;
    }
    json_t *const made = to ? json_stringn(to, (size_t)(end - to)) : NULL;
    free(to);
    return made;
}

/* Takes what is new of a text: its reasoning and the rest; NULL: nothing. Completions have no reasoning. */
static void take_news(serve_choice *c, json_t *pieces[2])
{
    const char *const text = c->text.bytes ? c->text.bytes : "";
    const size_t n = c->ended ? c->text.n : run_text_ready(&c->text);
    rt_string reasoning = { NULL, 0 }, rest = { text + c->split.at, n - c->split.at };
    if (c->call->chat) rt_chat_split_next(&c->split, c->call->thinks, text, n, c->ended, &reasoning, &rest);
    else c->split.at = n;
    pieces[0] = reasoning.bytes ? json_of(reasoning.text, reasoning.bytes) : NULL;
    pieces[1] = rest.bytes ? json_of(rest.text, rest.bytes) : NULL;
}

static const char *reason_of(const serve_choice *c) { return c->result.finish == RT_FINISH_STOP ? "stop" : "length"; }

static json_t *usage_of(const serve_call *call)
{
    json_int_t prompt = 0, cached = 0, drawn = 0;
    for (int32_t i = 0; i < call->n_choices; i++) {
        const serve_choice *const c = &call->choice[i];
        const int32_t n = call->n_prompt[c->prompt];
        drawn += c->result.n_tokens;
        if (i % call->n) continue;
        prompt += n;
        cached += c->result.n_prefix < n ? c->result.n_prefix : n;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", drawn, "total_tokens",
                     prompt + drawn, "prompt_tokens_details", "cached_tokens", cached);
}

/* A choice with a value, which it takes: a text, a message or its beginning. */
static json_t *choice_of(const serve_call *call, int32_t index, json_t *value, const char *finish)
{
    const char *const name = call->stream ? "delta" : "message";
    return json_pack("{s:i, s:o, s:n, s:s?}", "index", (int)index, call->chat ? name : "text", value, "logprobs",
                     "finish_reason", finish);
}

/* An answer or event with these choices, which it takes. */
static json_t *answer_of(const serve_call *call, json_t *choices)
{
    const char *const object = call->stream ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", call->id, "object", call->chat ? object : "text_completion",
                     "created", (json_int_t)call->created, "model", call->server->model, "choices", choices);
}

static int failed(const serve_choice *c, serve_error *e)
{
    if (!c->ended || c->result.finish != RT_FINISH_FAILED) return 0;
    (void)serve_fail(e, 500, "generation_failed", NULL, "%s", c->error);
    return 1;
}

json_t *serve_wait(serve_call *call, serve_error *e)
{
    json_t *const choices = json_array();
    (void)pthread_mutex_lock(&call->server->lock);
    for (int32_t i = 0; i < call->n_choices; i++) {
        serve_choice *const c = &call->choice[i];
        while (!c->ended) (void)pthread_cond_wait(&call->news, &call->server->lock);
        json_t *pieces[2];
        if (failed(c, e)) break;
        take_news(c, pieces);
        json_t *value = pieces[1] ? pieces[1] : json_string("");
        if (call->chat) value = json_pack("{s:s, s:o}", "role", "assistant", "content", value);
        if (pieces[0]) (void)json_object_set_new(value, "reasoning_content", pieces[0]);
        (void)json_array_append_new(choices, choice_of(call, i, value, reason_of(c)));
    }
    json_t *const usage = usage_of(call);
    (void)pthread_mutex_unlock(&call->server->lock);
    json_t *const answer = answer_of(call, choices);
    (void)json_object_set_new(answer, "usage", usage);
    if (!e->status) return answer;
    json_decref(answer);
    return NULL;
}

/* ---- Streams ---- */

/* Appends an event, which it takes; NULL: the stream's end. Without memory the stream ends early. */
static void add_event(serve_call *call, json_t *event)
{
    char *const text = event ? json_dumps(event, JSON_COMPACT) : strdup("[DONE]");
    const size_t n = text ? strlen(text) + 8 : 0;
    char *const larger = text ? realloc(call->out, call->n_out + n + 1) : NULL;
    if (larger) {
        call->out = larger;
        call->n_out += (size_t)snprintf(larger + call->n_out, n + 1, "data: %s\n\n", text);
    }
    if (!larger || !event) call->over = 1;
    free(text);
    json_decref(event);
}

static void add_chunk(serve_call *call, int32_t index, json_t *delta, const char *finish)
{
    json_t *const event = answer_of(call, json_pack("[o]", choice_of(call, index, delta, finish)));
    if (call->usage) (void)json_object_set_new(event, "usage", json_null());
    add_event(call, event);
}

static void add_news(serve_call *call, int32_t i)
{
    serve_choice *const c = &call->choice[i];
    serve_error e = { 0 };
    json_t *pieces[2];
    if (c->told == 2) return;
    if (failed(c, &e)) {
        add_event(call, serve_error_object(&e));
        add_event(call, NULL);
        return;
    }
    if (call->chat && !c->told) add_chunk(call, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    c->told = c->ended ? 2 : 1;
    take_news(c, pieces);
    if (pieces[0]) add_chunk(call, i, json_pack("{s:o}", "reasoning_content", pieces[0]), NULL);
    if (pieces[1]) add_chunk(call, i, call->chat ? json_pack("{s:o}", "content", pieces[1]) : pieces[1], NULL);
    if (c->ended) add_chunk(call, i, call->chat ? json_object() : json_string(""), reason_of(c));
}

size_t serve_next(serve_call *call, char *to, size_t room)
{
    (void)pthread_mutex_lock(&call->server->lock);
    while (call->sent == call->n_out && !call->over && !call->gone) {
        int32_t n_told = 0;
        call->sent = call->n_out = 0;
        for (int32_t i = 0; !call->over && i < call->n_choices; i++) {
            add_news(call, i);
            n_told += call->choice[i].told == 2;
        }
        if (n_told == call->n_choices && !call->over) {
            if (call->usage) {
                json_t *const event = answer_of(call, json_array());
                (void)json_object_set_new(event, "usage", usage_of(call));
                add_event(call, event);
            }
            add_event(call, NULL);
        }
        if (!call->n_out && !call->over) (void)pthread_cond_wait(&call->news, &call->server->lock);
    }
    const size_t left = call->n_out - call->sent, n = left < room ? left : room;
    if (n) memcpy(to, call->out + call->sent, n);
    call->sent += n;
    (void)pthread_mutex_unlock(&call->server->lock);
    return n;
}

/* ---- Metrics ---- */

char *serve_metrics(serve_server *v)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const f = open_memstream(&text, &n);
    if (!f) return NULL;
    (void)pthread_mutex_lock(&v->lock);
    const rt_totals t = v->totals;
    const int64_t running = v->n_live < run_opt.parallel ? v->n_live : run_opt.parallel;
    const uint64_t *const ended = v->n_ended;
    const struct {
        const char *name;
        int64_t value;
    } list[] = { { "requests_total", (int64_t)v->n_calls },
                 { "refused_total", (int64_t)v->n_refused },
                 { "texts_running", running },
                 { "texts_waiting", v->n_live - running },
                 { "texts_stopped_total", (int64_t)ended[RT_FINISH_STOP] },
                 { "texts_cut_total", (int64_t)(ended[RT_FINISH_LENGTH] + ended[RT_FINISH_CONTEXT]) },
                 { "texts_cancelled_total", (int64_t)ended[RT_FINISH_CANCELLED] },
                 { "texts_failed_total", (int64_t)ended[RT_FINISH_FAILED] },
                 { "prompt_tokens_total", t.prompt_tokens },
                 { "prefix_tokens_total", t.prefix_tokens },
                 { "generated_tokens_total", t.generated_tokens },
                 { "drafted_tokens_total", t.drafted },
                 { "accepted_tokens_total", t.accepted },
                 { "preemptions_total", t.preemptions },
                 { "reread_tokens_total", t.reread_tokens } };
    (void)pthread_mutex_unlock(&v->lock);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        (void)fprintf(f, "# TYPE gdn_%s %s\ngdn_%s %lld\n", list[i].name,
                      strstr(list[i].name, "_total") ? "counter" : "gauge", list[i].name, (long long)list[i].value);
    (void)fclose(f);
    return text;
}
