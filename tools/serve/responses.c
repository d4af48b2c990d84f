/* OpenAI's /v1/responses: requests become chats, and answers are made from theirs. Nothing is stored. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"
#include "tools/serve/values.h"

static void set(json_t *object, const char *name, json_t *value) { (void)json_object_set_new(object, name, value); }

/* True if a text is one of names, which are between spaces. */
static int is_name(const char *text, const char *names)
{
    char spaced[64];
    (void)snprintf(spaced, sizeof spaced, " %.60s ", text ? text : " ");
    return text && !strchr(text, ' ') && strstr(names, spaced);
}

static int is(const json_t *value, const char *names) { return is_name(json_string_value(value), names); }

/* One text of an array of them, which it takes. */
static json_t *joined(json_t *texts)
{
    char *all = NULL;
    size_t n = 0;
    FILE *const to = stream_open(&all, &n);
    for (size_t i = 0; to && i < json_array_size(texts); i++) {
        const json_t *const text = json_array_get(texts, i);
        (void)fwrite(json_string_value(text), 1, json_string_length(text), to);
    }
    json_t *const made = to && stream_close(to, &all, &n) ? json_stringn(all, n) : NULL;
    free(all);
    json_decref(texts);
    return made;
}

/* ---- Requests. These functions return 0 if they refuse, without an error if there is no memory ---- */

/* where: what is before the member's name; given: its text that is refused, or NULL. */
static int wrong(serve_error *e, const char *where, const char *name, const json_t *given, const char *allowed)
{
    const char *const text = json_string_value(given);
    char path[128];
    (void)snprintf(path, sizeof path, "%s%s", where, name);
    if (!text) return serve_wrong(e, path, allowed);
    return serve_fail(e, 400, "unsupported_parameter", path, "%s: %.60s is not supported by this server; %s", path,
                      text, allowed);
}

/* A text, or that of an array of parts; NULL: refused. */
static json_t *text_of(json_t *given, const char *where, const char *name, serve_error *e)
{
    if (json_is_string(given)) return json_incref(given);
    json_t *const texts = json_array();
    if (!json_is_array(given)) (void)wrong(e, where, name, NULL, "a text or an array of its parts is needed");
    for (size_t i = 0; !e->status && i < json_array_size(given); i++) {
        const json_t *const part = json_array_get(given, i), *const type = serve_member(part, "type");
        json_t *const text = serve_member(part, is(type, " refusal ") ? "refusal" : "text");
        char path[96];
        (void)snprintf(path, sizeof path, "%s%s[%zu].", where, name, i);
        if (!is(type, " input_text output_text text reasoning_text summary_text refusal "))
            (void)wrong(e, path, "type", type, "input_text and output_text are");
        else if (json_array_append(texts, json_is_string(text) ? text : NULL))
            (void)wrong(e, path, "text", NULL, "a text is needed");
    }
    if (!e->status) return joined(texts);
    json_decref(texts);
    return NULL;
}

enum { REASONING, MESSAGE, CALL };

/* The assistant's message that an item of an answer belongs to: all items of an answer make one. */
static json_t *assistant_of(json_t *messages, int kind)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const int said = serve_member(last, "content") != NULL, called = serve_member(last, "tool_calls") != NULL;
    const int goes_on = kind == CALL || (kind == MESSAGE ? !said || called : !said && !called);
    if (goes_on && is(serve_member(last, "role"), " assistant ")) return last;
    last = json_pack("{s:s}", "role", "assistant");
    return json_array_append_new(messages, last) ? NULL : last;
}

/* Adds a text, which it takes, to that of a message. */
static int add_text(json_t *message, const char *name, const char *between, json_t *text)
{
    json_t *const before = serve_member(message, name);
    return text &&
           !json_object_set_new(message, name, before ? joined(json_pack("[O, s, o]", before, between, text)) : text);
}

/* Adds a message. Texts of the system at the beginning become one message, since templates expect one. */
static int add_message(json_t *messages, const char *role, json_t *text)
{
    json_t *const first = json_array_get(messages, 0);
    if (is_name(role, " assistant ")) return add_text(assistant_of(messages, MESSAGE), "content", "", text);
    if (is_name(role, " system developer ") && json_array_size(messages) == 1 &&
        is(serve_member(first, "role"), " system developer "))
        return add_text(first, "content", "\n\n", text);
    return !json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", text));
}

static int add_call(json_t *message, const json_t *item, json_t *id)
{
    json_t *const function =
        json_pack("{s:O*, s:O*}", "name", serve_member(item, "name"), "arguments", serve_member(item, "arguments"));
    if (!serve_member(message, "tool_calls")) set(message, "tool_calls", json_array());
    return !json_array_append_new(serve_member(message, "tool_calls"),
                                  json_pack("{s:O*, s:s, s:o}", "id", id, "type", "function", "function", function));
}

/* Reads an item. Chats check the members of calls. */
static int read_item(serve_server *v, json_t *messages, json_t *item, const char *where, serve_error *e)
{
    json_t *const type = serve_member(item, "type"), *const role = serve_member(item, "role"),
                  *const id = serve_member(item, "call_id");
    const int result = is(type, " function_call_output "), thinks = is(type, " reasoning ");
    const int summary = thinks && !json_array_size(serve_member(item, "content"));
    const char *const name = result ? "output" : summary ? "summary" : "content";
    if (!is(type, " message reasoning function_call function_call_output ") && (type || !role))
        return wrong(e, where, "type", type, "messages, reasoning, function_call and function_call_output are");
    if (!serve_check_members(v, item, SERVE_RESPONSES_PART, where, e)) return 0;
    if (is(type, " function_call ")) return add_call(assistant_of(messages, CALL), item, id);
    if (!result && !thinks && !is(role, " system developer user assistant "))
        return wrong(e, where, "role", NULL, "system, developer, user and assistant are allowed");
    if (summary && !json_array_size(serve_member(item, name))) return 1; /* another server has encrypted it */
    json_t *const text = text_of(serve_member(item, name), where, name, e);
    if (!text) return 0;
    if (thinks) return add_text(assistant_of(messages, REASONING), "reasoning_content", "\n", text);
    if (!result) return add_message(messages, json_string_value(role), text);
    return !json_array_append_new(messages,
                                  json_pack("{s:s, s:O*, s:o}", "role", "tool", "tool_call_id", id, "content", text));
}

static int read_input(serve_server *v, const json_t *body, json_t *messages, serve_error *e)
{
    json_t *const system = serve_member(body, "instructions"), *const input = serve_member(body, "input");
    char where[40];
    if (system && !json_is_string(system)) return wrong(e, "", "instructions", NULL, "a text is allowed");
    if (!json_is_string(input) && !json_array_size(input))
        return wrong(e, "", "input", NULL, "a text or an array of items is needed");
    if (system && !add_message(messages, "system", json_incref(system))) return 0;
    if (json_is_string(input)) return add_message(messages, "user", json_incref(input));
    for (size_t i = 0; i < json_array_size(input); i++) {
        (void)snprintf(where, sizeof where, "input[%zu].", i);
        if (!read_item(v, messages, json_array_get(input, i), where, e)) return 0;
    }
    return 1;
}

static int read_tools(serve_server *v, const json_t *body, json_t *made, serve_error *e)
{
    json_t *const tools = serve_member(body, "tools");
    char where[40];
    if (tools && !json_is_array(tools)) return wrong(e, "", "tools", NULL, "an array is allowed");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *const tool = json_array_get(tools, i), *const type = serve_member(tool, "type"),
                      *const name = serve_member(tool, "name");
        (void)snprintf(where, sizeof where, "tools[%zu].", i);
        if (!is(type, " function ")) {
            if (!json_is_string(type) || serve_opt.strict) return wrong(e, where, "type", type, "function is");
            serve_say_once(v, json_string_value(type), SERVE_NO_TOOL);
            continue;
        }
        if (!serve_check_members(v, tool, SERVE_RESPONSES_PART, where, e)) return 0;
        if (!json_string_length(name)) return wrong(e, where, "name", NULL, "a text is needed");
        json_t *const function =
            json_pack("{s:O, s:O*, s:O*, s:O*}", "name", name, "description", serve_member(tool, "description"),
                      "parameters", serve_member(tool, "parameters"), "strict", serve_member(tool, "strict"));
        (void)json_array_append_new(made, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return 1;
}

static int read_more(serve_server *v, const json_t *body, json_t *chat, serve_error *e)
{
    static const char *const objects[] = { "text", "reasoning", "stream_options" };
    json_t *const format = serve_member(serve_member(body, "text"), "format"), *const choice =
                                                                                   serve_member(body, "tool_choice");
    json_t *const effort = serve_member(serve_member(body, "reasoning"), "effort"), *const name =
                                                                                        serve_member(choice, "name");
    for (int i = 0; i < 3; i++) {
        json_t *const object = serve_member(body, objects[i]);
        char where[40];
        (void)snprintf(where, sizeof where, "%s.", objects[i]);
        if (object && !json_is_object(object)) return wrong(e, "", objects[i], NULL, "an object is allowed");
        if (!serve_check_members(v, object, i < 2 ? SERVE_RESPONSES_PART : SERVE_OPTIONS, where, e)) return 0;
    }
    if (serve_member(body, "previous_response_id"))
        return wrong(e, "", "previous_response_id", NULL, "this server stores nothing; input has the conversation");
    if (is(serve_member(format, "type"), " json_schema "))
        set(chat, "response_format", json_pack("{s:s, s:O}", "type", "json_schema", "json_schema", format));
    else if (format) set(chat, "response_format", json_incref(format));
    if (name && is(serve_member(choice, "type"), " function "))
        set(chat, "tool_choice", json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    else if (choice) set(chat, "tool_choice", json_incref(choice));
    if (effort) set(chat, "reasoning_effort", json_incref(effort));
    return 1;
}

/* What an answer says of its request, unless that says otherwise. */
static const char echoed[] =
    "{\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"max_output_tokens\":null,\"metadata\":{},"
    "\"parallel_tool_calls\":true,\"previous_response_id\":null,\"reasoning\":{},\"store\":false,\"temperature\":null,"
    "\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":null,"
    "\"truncation\":\"disabled\",\"usage\":null,\"user\":null}";

static json_t *chat_of(serve_server *v, json_t *body, json_t **kept, serve_error *e)
{
    static const char same[] = " model temperature top_p top_k min_p seed presence_penalty frequency_penalty"
                               " repeat_penalty repetition_penalty repeat_last_n logit_bias stop ignore_eos stream"
                               " parallel_tool_calls chat_template_kwargs ";
    json_t *const chat = json_pack("{s:[], s:[], s:{s:b}}", "messages", "tools", "stream_options", "include_usage", 1);
    json_t *const echo = json_loads(echoed, 0, NULL), *value;
    const char *name;
    *kept = json_pack("{s:o, s:[], s:i, s:i, s:s}", "echo", echo, "output", "events", 0, "open", -1, "status",
                      "in_progress");
    const int good = serve_check_members(v, body, SERVE_RESPONSES, "", e) &&
                     read_input(v, body, serve_member(chat, "messages"), e) &&
                     read_tools(v, body, serve_member(chat, "tools"), e) && read_more(v, body, chat, e);
    json_object_foreach(body, name, value)
    {
        if (is_name(name, same)) (void)json_object_set(chat, name, value);
        if (is_name(name, " max_output_tokens ")) (void)json_object_set(chat, "max_completion_tokens", value);
        if (!json_is_null(value) && json_object_get(echo, name)) (void)json_object_set(echo, name, value);
    }
    if (good) return chat;
    json_decref(chat);
    return NULL;
}

static json_t *error_of(const serve_error *e)
{
    static const char *const names[] = {
        "messages",        "input",       "max_completion_tokens", "max_output_tokens",
        "response_format", "text.format", "reasoning_effort",      "reasoning.effort"
    };
    serve_error own = *e;
    for (int i = 0; i < 8; i += 2) {
        const size_t n = strlen(names[i]);
        if (strcmp(e->param, names[i]) != 0 || strncmp(e->message, names[i], n) != 0) continue;
        (void)snprintf(own.param, sizeof own.param, "%s", names[i + 1]);
        (void)snprintf(own.message, sizeof own.message, "%s%.600s", names[i + 1], e->message + n);
    }
    return serve_error_object(&own);
}

/* ---- Answers. A whole one is made as a stream's last event is, without writing the events ---- */

/* Items of an answer: the member of a chat, the item and its part without a text, the id's beginning, and events. */
static const struct {
    const char *of, *item, *id, *part, *event;
} kinds[] = { { "reasoning_content", "{\"type\":\"reasoning\",\"summary\":[],\"content\":[]}", "rs",
                "{\"type\":\"reasoning_text\",\"text\":\"\"}", "reasoning_text" },
              { "content", "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}", "msg",
                "{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}", "output_text" },
              { "tool_calls", "{\"type\":\"function_call\",\"arguments\":\"\"}", "fc", "null",
                "function_call_arguments" } };

static json_t *kept(const serve_call *call, const char *name) { return serve_member(call->kept, name); }

/* The kind of the item that is written; -1: none is. */
static int open_kind(const serve_call *call) { return (int)json_integer_value(kept(call, "open")); }

/* usage and error: the chat's, or NULL. */
static json_t *response_of(const serve_call *call, const json_t *usage, const json_t *error)
{
    json_t *const r = json_pack(
        "{s:o, s:s, s:I, s:O, s:s, s:O, s:I}", "id", json_sprintf("resp_%s", call->id + strlen("chatcmpl-")), "object",
        "response", "created_at", (json_int_t)call->created, "status", kept(call, "status"), "model",
        call->server->model, "output", kept(call, "output"), "seed", (json_int_t)call->sampling.seed);
    (void)json_object_update(r, kept(call, "echo"));
    if (error)
        set(r, "error", json_pack("{s:s, s:O}", "code", "server_error", "message", serve_member(error, "message")));
    if (is(kept(call, "status"), " incomplete "))
        set(r, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    if (usage)
        set(r, "usage",
            json_pack("{s:O, s:{s:O, s:i}, s:O, s:{s:i}, s:O}", "input_tokens", serve_member(usage, "prompt_tokens"),
                      "input_tokens_details", "cached_tokens",
                      serve_member(serve_member(usage, "prompt_tokens_details"), "cached_tokens"), "cache_write_tokens",
                      0, "output_tokens", serve_member(usage, "completion_tokens"), "output_tokens_details",
                      "reasoning_tokens", 0, "total_tokens", serve_member(usage, "total_tokens")));
    return r;
}

/* Writes response.BEFOREAFTER with members, which it takes. */
static void put(serve_call *call, const char *before, const char *after, json_t *with)
{
    const json_int_t n = json_integer_value(kept(call, "events"));
    set(with, "type", json_sprintf("response.%s%s", before, after));
    set(with, "sequence_number", json_integer(n));
    set(call->kept, "events", json_integer(n + 1));
    if (call->stream) (void)fprintf(call->events, "event: response.%s%s\ndata: ", before, after);
    if (call->stream && json_dumpf(with, call->events, JSON_COMPACT)) call->over = -1;
    if (call->stream) (void)fputs("\n\n", call->events);
    json_decref(with);
}

/* Writes an event of the open item: with the item itself, or else with its id. */
static void put_of_item(serve_call *call, const char *before, const char *after, const char *name, json_t *value)
{
    const int kind = open_kind(call), whole = value == kept(call, "item"), is_part = value == kept(call, "part");
    json_t *const with =
        json_pack("{s:i, s:O}", "output_index", (int)json_array_size(kept(call, "output")), name, value);
    if (!whole) (void)json_object_set(with, "item_id", serve_member(kept(call, "item"), "id"));
    if (!whole && kind != CALL) set(with, "content_index", json_integer(0));
    if (!whole && !is_part && kind == MESSAGE) set(with, "logprobs", json_array());
    if (!strcmp(name, "arguments")) (void)json_object_set(with, "name", serve_member(kept(call, "item"), "name"));
    put(call, before, after, with);
}

static void close_item(serve_call *call, const char *status)
{
    const int kind = open_kind(call);
    if (kind < 0) return;
    json_t *const item = kept(call, "item"), *const part = kept(call, "part"),
                  *const text = joined(json_incref(kept(call, "texts")));
    set(item, "status", json_string(part ? status : "completed"));
    set(part ? part : item, part ? "text" : "arguments", text);
    if (part) set(item, "content", json_pack("[O]", part));
    put_of_item(call, kinds[kind].event, ".done", part ? "text" : "arguments", text);
    if (part) put_of_item(call, "content_part", ".done", "part", part);
    put_of_item(call, "output_item", ".done", "item", item);
    (void)json_array_append(kept(call, "output"), item);
    set(call->kept, "open", json_integer(-1));
}

/* Closes the item before. tool: the call of a tool that the new one is. */
static void open_item(serve_call *call, int kind, const json_t *tool)
{
    close_item(call, "completed");
    json_t *const item = json_loads(kinds[kind].item, 0, NULL);
    set(item, "id",
        json_sprintf("%s_%s_%zu", kinds[kind].id, call->id + strlen("chatcmpl-"),
                     json_array_size(kept(call, "output"))));
    set(item, "status", json_string("in_progress"));
    if (tool) (void)json_object_set(item, "call_id", serve_member(tool, "id"));
    if (tool) (void)json_object_set(item, "name", serve_member(serve_member(tool, "function"), "name"));
    set(call->kept, "open", json_integer(kind));
    set(call->kept, "item", item);
    set(call->kept, "part", json_loads(kinds[kind].part, JSON_DECODE_ANY, NULL));
    set(call->kept, "texts", json_array());
    put_of_item(call, "output_item", ".added", "item", item);
    if (!tool) put_of_item(call, "content_part", ".added", "part", kept(call, "part"));
}

static void add_delta(serve_call *call, int kind, json_t *text)
{
    if (!json_string_length(text)) return;
    if (open_kind(call) != kind) open_item(call, kind, NULL);
    (void)json_array_append(kept(call, "texts"), text);
    put_of_item(call, kinds[kind].event, ".delta", "delta", text);
}

/* Takes what a chat's answer or event has of the message, and the reason for its end. */
static void take(serve_call *call, const json_t *chat)
{
    const json_t *const choice = json_array_get(serve_member(chat, "choices"), 0);
    const json_t *const message = serve_member(choice, call->stream ? "delta" : "message");
    const json_t *const calls = serve_member(message, "tool_calls"), *const reason =
                                                                         serve_member(choice, "finish_reason");
    for (int kind = REASONING; kind <= MESSAGE; kind++) add_delta(call, kind, serve_member(message, kinds[kind].of));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *const one = json_array_get(calls, i);
        if (serve_member(one, "id")) open_item(call, CALL, one);
        add_delta(call, CALL, serve_member(serve_member(one, "function"), "arguments"));
    }
    if (!reason) return;
    if (is(reason, " stop ") && open_kind(call) <= REASONING) open_item(call, MESSAGE, NULL); /* an empty one */
    set(call->kept, "status", json_string(is(reason, " length ") ? "incomplete" : "completed"));
    close_item(call, json_string_value(kept(call, "status")));
}

static json_t *answer_of(serve_call *call, json_t *chat)
{
    take(call, chat);
    json_t *const answer = response_of(call, serve_member(chat, "usage"), NULL);
    json_decref(chat);
    return answer;
}

static void put_event(serve_call *call, const json_t *chat)
{
    static const char *const first[] = { "created", "in_progress" };
    const json_t *const usage = serve_member(chat, "usage"), *const error = serve_member(chat, "error");
    for (int i = 0; i < 2 && chat && json_integer_value(kept(call, "events")) == i; i++)
        put(call, first[i], "", json_pack("{s:o}", "response", response_of(call, NULL, NULL)));
    take(call, chat);
    if (error) set(call->kept, "status", json_string("failed"));
    if (error || usage)
        put(call, json_string_value(kept(call, "status")), "",
            json_pack("{s:o}", "response", response_of(call, usage, error)));
}

const serve_protocol serve_responses = { chat_of, answer_of, put_event, error_of };
