/* Fuzz target: what gdn serve reads. The first byte of an input selects the reader.
 *
 *   0 to 2  body of a completion, a chat, a tokenization: a call within all limits, or an error with a message.
 *   3       a model's output with calls of tools: pieces of every length give the same.
 *   4, 5    JSON of a chat template's tools or variables: what it accepts, jansson accepts.
 *   6 to 8  body of /v1/responses, /v1/messages, /v1/messages/count_tokens: as 1. */
#include "../runtime/gguf_build.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/decode/sampling_defaults.h"
#include "tools/cli/json.h"
#include "tools/serve/calls.h"
#include "tools/serve/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static run_session session;
static serve_server server = { .session = &session, .model = "m", .lock = PTHREAD_MUTEX_INITIALIZER };
static json_t *tools;

void serve_close_late(serve_server *v) { (void)v; } /* there are no connections */

static void stop(const char *problem)
{
    (void)fprintf(stderr, "fuzz_serve: %s\n", problem);
    abort();
}

static void create(void)
{
    static const char form[] =
        "{% if tools %}{{ tools|tojson }}{% endif %}{{ note }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ "
        "m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor "
        "%}<|im_end|>\n{% endfor %}";
    static gguf_build built;
    rt_gguf *file;
    build_vocabulary(&built, "qwen2");
    if (rt_gguf_open_memory(built.bytes, built.n, NULL, &file) || rt_tokenizer_create(file, NULL, &session.tokenizer) ||
        rt_chat_create_of(form, sizeof form - 1, session.tokenizer, &session.chat))
        stop("no chat");
    rt_gguf_close(file);
    run_set_defaults();
    run_opt.parallel = 4;
    session.context = 4096;
    session.thinking = RT_THINK_AUTO;
    server.defaults[0] = run_sampling(1);
    server.defaults[1] = rt_sampling_usual(1);
    tools =
        json_loads("[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
                   "\"string\"}, \"b\": {\"type\": [\"integer\", \"null\"]}}}}}, {\"function\": {\"name\": \"g\"}}]",
                   0, NULL);
}

static void check_error(const serve_error *e, int good, const serve_protocol *p)
{
    if (good ? e->status : e->status < 400 || e->status > 500 || !e->message[0]) stop("neither an answer nor an error");
    if (!good) json_decref(p ? p->error_of(e) : serve_error_object(e));
}

static void check_request(const char *body, size_t n, int chat, const serve_protocol *p)
{
    serve_error e = { 0 };
    serve_call *const call = serve_read(&server, body, n, chat, p, &e);
    check_error(&e, call != NULL, p);
    if (!call) return;
    if (call->n < 1 || call->n_prompts < 1 || call->n * call->n_prompts > SERVE_TEXTS) stop("a number of texts");
    for (int32_t i = 0; i < call->n_prompts; i++) {
        if (call->n_prompt[i] < 1 || (call->n_prompt[i] >= session.context && !(p && p->counts)))
            stop("a prompt's length");
        for (int32_t k = 0; k < call->n_prompt[i]; k++)
            if (call->prompt[i][k] < 0 || call->prompt[i][k] >= rt_tokenizer_n_tokens(session.tokenizer))
                stop("a prompt's token");
    }
    if (call->n_max < 1 || call->n_top < 0 || call->n_top > RT_TOP_LOGPROBS || rt_sampling_check(&call->sampling))
        stop("a parameter");
    serve_release(call);
}

static void check_tokenize(const char *body, size_t n)
{
    serve_error e = { 0 };
    json_t *const answer = serve_read_tokenize(&server, body, n, &e);
    check_error(&e, answer != NULL, NULL);
    json_decref(answer);
}

/* All pieces of a text of which `step` bytes come at once: content, and functions between zeros. */
static size_t read_pieces(const char *text, size_t n, size_t step, char *to)
{
    size_t done = 0, seen = 0, written = 0;
    int after = 0;
    for (size_t come = 0; come < n;) {
        come = n - come > step ? come + step : n;
        for (int more = 1; more && done < come;) {
            const serve_piece p = serve_next_piece(tools, text + done, come - done, after, come == n, &seen);
            if (p.content > p.used || p.used > come - done) stop("a piece's length");
            memcpy(to + written, text + done, p.content);
            written += p.content;
            done += p.used;
            more = p.used > 0;
            if (!more) break;
            after = p.function != NULL;
            if (!p.function) continue;
            char *const dump = json_dumps(p.function, JSON_COMPACT);
            json_t *const arguments =
                json_loads(json_string_value(json_object_get(p.function, "arguments")), JSON_ALLOW_NUL, NULL);
            if (!dump || !json_is_object(arguments)) stop("a function");
            written += (size_t)sprintf(to + written, "\1%s\1", dump);
            json_decref(arguments);
            json_decref(p.function);
            free(dump);
        }
    }
    return written;
}

static void check_calls(const char *text, size_t n)
{
    const size_t room = 64 * n + 4096; /* escapes of JSON in JSON */
    char *const whole = malloc(room), *const parts = malloc(room);
    if (!whole || !parts) stop("no memory");
    const size_t n_whole = read_pieces(text, n, n, whole);
    for (size_t step = 1; step < 20; step += 1 + step / 2)
        if (read_pieces(text, n, step, parts) != n_whole || memcmp(whole, parts, n_whole) != 0) stop("other pieces");
    free(whole);
    free(parts);
}

static int is_utf8(const char *text, size_t n)
{
    char *const made = malloc(3 * n + 1);
    const int same = made && json_valid_utf8(text, n, made) == n && !memcmp(made, text, n);
    free(made);
    return same;
}

static void check_json(const char *text, size_t n, int variables)
{
    const rt_message message = { "user", "a", 1, NULL, 0, { NULL, 0 } };
    const rt_string none = { NULL, 0 }, json = { text, n };
    rt_chat_prompt prompt = { 0 };
    const gdn_status status = rt_chat_render_tools(session.chat, &message, 1, RT_THINK_AUTO, 0, variables ? none : json,
                                                   variables ? json : none, &prompt);
    rt_free(prompt.tokens);
    if (status || !is_utf8(text, n)) return;
    json_t *const same = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    if (!same) stop("JSON that jansson refuses");
    json_decref(same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!tools) create();
    if (size < 2) return 0;
    const size_t n = size - 1;
    char *const text = malloc(n); /* of its size, for AddressSanitizer */
    if (!text) return 0;
    memcpy(text, data + 1, n);
    static const serve_protocol *const protocols[] = { &serve_responses, &serve_messages, &serve_counting };
    const int which = data[0] % 9;
    switch (which) {
    case 0:
    case 1: check_request(text, n, which, NULL); break;
    case 2: check_tokenize(text, n); break;
    case 3: check_calls(text, n); break;
    case 4:
    case 5: check_json(text, n, which == 5); break;
    default: check_request(text, n, 1, protocols[which - 6]); break;
    }
    free(text);
    return 0;
}
