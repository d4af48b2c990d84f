/* OpenAI's /v1/responses: requests become chats, and answers are made from theirs. Nothing is stored. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/serve.h"

/* A member; NULL: it is absent or null. */
static json_t *member(const json_t *object, const char *name)
{
    json_t *const value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

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
    FILE *const to = open_memstream(&all, &n);
    for (size_t i = 0; to && i < json_array_size(texts); i++) {
        const json_t *const text = json_array_get(texts, i);
        (void)fwrite(json_string_value(text), 1, json_string_length(text), to);
    }
    json_t *const made = to && !fclose(to) ? json_stringn(all, n) : NULL;
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
    return serve_fail(e, 400, text ? "unsupported_parameter" : "invalid_value", path, "%s: %.60s%s%s", path,
                      text ? text : "", text ? " is not supported by this server; " : "", allowed);
}

/* A text, or that of an array of parts; NULL: refused. */
static json_t *text_of(json_t *given, const char *where, const char *name, serve_error *e)
{
    static const char types[] = " input_text output_text text reasoning_text summary_text refusal ";
    if (json_is_string(given)) return json_incref(given);
    if (!json_is_array(given)) (void)wrong(e, where, name, NULL, "a text or an array of its parts is needed");
    json_t *const texts = json_array();
    for (size_t i = 0; !e->status && i < json_array_size(given); i++) {
        const json_t *const part = json_array_get(given, i), *const type = member(part, "type");
        json_t *const text = member(part, is(type, " refusal ") ? "refusal" : "text");
        char path[96];
        (void)snprintf(path, sizeof path, "%s%s[%zu].", where, name, i);
        if (!is(type, types)) (void)wrong(e, path, "type", type, "input_text and output_text are allowed");
        else if (!json_is_string(text)) (void)wrong(e, path, "text", NULL, "a text is needed");
        else (void)json_array_append(texts, text);
    }
    json_t *const made = joined(texts);
    if (!e->status) return made;
    json_decref(made);
    return NULL;
}

enum { REASONING, MESSAGE, CALL };

/* The assistant's message that an item of an answer belongs to: all items of an answer make one. */
static json_t *assistant_of(json_t *messages, int kind)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const int said = member(last, "content") != NULL, called = member(last, "tool_calls") != NULL;
    const int goes_on = kind == CALL || (kind == MESSAGE ? !said || called : !said && !called);
    if (goes_on && is(member(last, "role"), " assistant ")) return last;
    last = json_pack("{s:s}", "role", "assistant");
    return json_array_append_new(messages, last) ? NULL : last;
}

/* Adds a text, which it takes, to that of a message. */
static int add_text(json_t *message, const char *name, const char *between, json_t *text)
{
    json_t *const before = member(message, name);
    return text &&
           !json_object_set_new(message, name, before ? joined(json_pack("[O, s, o]", before, between, text)) : text);
}

/* Adds a message. Texts of the system at the beginning become one message, since templates expect one. */
static int add_message(json_t *messages, const char *role, json_t *text)
{
    json_t *const first = json_array_get(messages, 0);
    if (is_name(role, " assistant ")) return add_text(assistant_of(messages, MESSAGE), "content", "", text);
    if (is_name(role, " system developer ") && json_array_size(messages) == 1 && !is(member(first, "role"), " user "))
        return add_text(first, "content", "\n\n", text);
    return !json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", text));
}

/* Adds a call of a tool; chats check what it has. */
static int add_call(json_t *messages, const json_t *item)
{
    json_t *const message = assistant_of(messages, CALL);
    json_t *const function =
        json_pack("{s:O*, s:O*}", "name", member(item, "name"), "arguments", member(item, "arguments"));
    if (!member(message, "tool_calls")) set(message, "tool_calls", json_array());
    return !json_array_append_new(
        member(message, "tool_calls"),
        json_pack("{s:O*, s:s, s:o}", "id", member(item, "call_id"), "type", "function", "function", function));
}

static int read_item(serve_server *v, json_t *messages, json_t *item, size_t i, serve_error *e)
{
    json_t *const type = member(item, "type"), *const role = member(item, "role"), *const id = member(item, "call_id");
    const int call = is(type, " function_call "), result = is(type, " function_call_output "),
              thinks = is(type, " reasoning ");
    const int summary = thinks && !json_array_size(member(item, "content"));
    const char *const name = result ? "output" : summary ? "summary" : "content";
    char where[40];
    (void)snprintf(where, sizeof where, "input[%zu].", i);
    if (!call && !result && !thinks && !is(type, " message ") && (type || !role))
        return wrong(e, where, "type", type, "message, reasoning, function_call and function_call_output are");
    if (!serve_check_members(v, item, SERVE_RESPONSES_PART, where, e)) return 0;
    if (call) return add_call(messages, item);
    if (!result && !thinks && !is(role, " system developer user assistant "))
        return wrong(e, where, "role", NULL, "system, developer, user and assistant are allowed");
    if (summary && !json_array_size(member(item, name))) return 1; /* another server has encrypted it */
    json_t *const text = text_of(member(item, name), where, name, e);
    if (!text) return 0;
    if (thinks) return add_text(assistant_of(messages, REASONING), "reasoning_content", "\n", text);
    if (!result) return add_message(messages, json_string_value(role), text);
    return !json_array_append_new(messages,
                                  json_pack("{s:s, s:O*, s:o}", "role", "tool", "tool_call_id", id, "content", text));
}

static int read_input(serve_server *v, const json_t *body, json_t *chat, serve_error *e)
{
    json_t *const instructions = member(body, "instructions"), *const input = member(body, "input"),
                  *const messages = json_array();
    int good = !json_object_set_new(chat, "messages", messages);
    if (instructions && !json_is_string(instructions)) return wrong(e, "", "instructions", NULL, "a text is allowed");
    if (!json_is_string(input) && !json_array_size(input))
        return wrong(e, "", "input", NULL, "a text or an array of items is needed");
    if (instructions) good = good && add_message(messages, "system", json_incref(instructions));
    if (json_is_string(input)) return good && add_message(messages, "user", json_incref(input));
    for (size_t i = 0; good && i < json_array_size(input); i++)
        good = read_item(v, messages, json_array_get(input, i), i, e);
    return good;
}

static int read_tools(serve_server *v, const json_t *body, json_t *chat, serve_error *e)
{
    json_t *const tools = member(body, "tools"), *const made = json_array();
    json_t *const choice = member(body, "tool_choice"), *const chosen = member(choice, "name");
    int good = !json_object_set_new(chat, "tools", made);
    if (tools && !json_is_array(tools)) return wrong(e, "", "tools", NULL, "an array is allowed");
    for (size_t i = 0; good && i < json_array_size(tools); i++) {
        json_t *const tool = json_array_get(tools, i), *const name = member(tool, "name");
        char where[40];
        (void)snprintf(where, sizeof where, "tools[%zu].", i);
        if (!is(member(tool, "type"), " function "))
            return wrong(e, where, "type", member(tool, "type"), "function is");
        if (!serve_check_members(v, tool, SERVE_RESPONSES_PART, where, e)) return 0;
        if (!json_string_length(name)) return wrong(e, where, "name", NULL, "a text is needed");
        json_t *const function =
            json_pack("{s:O, s:O*, s:O*, s:O*}", "name", name, "description", member(tool, "description"), "parameters",
                      member(tool, "parameters"), "strict", member(tool, "strict"));
        good = !json_array_append_new(made, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    if (chosen && is(member(choice, "type"), " function "))
        set(chat, "tool_choice", json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", chosen));
    else if (choice) set(chat, "tool_choice", json_incref(choice));
    return good;
}

static int read_more(serve_server *v, const json_t *body, json_t *chat, serve_error *e)
{
    static const char *const objects[] = { "text", "reasoning", "stream_options" };
    json_t *const format = member(member(body, "text"), "format"),
                  *const effort = member(member(body, "reasoning"), "effort"),
                  *const most = member(body, "max_output_tokens");
    for (int i = 0; i < 3; i++) {
        json_t *const object = member(body, objects[i]);
        char where[40];
        (void)snprintf(where, sizeof where, "%s.", objects[i]);
        if (object && !json_is_object(object)) return wrong(e, "", objects[i], NULL, "an object is allowed");
        if (!serve_check_members(v, object, i < 2 ? SERVE_RESPONSES_PART : SERVE_OPTIONS, where, e)) return 0;
    }
    if (member(body, "previous_response_id"))
        return wrong(e, "", "previous_response_id", NULL, "this server stores nothing; input has the conversation");
    if (is(member(format, "type"), " json_schema "))
        set(chat, "response_format", json_pack("{s:s, s:O}", "type", "json_schema", "json_schema", format));
    else if (format) set(chat, "response_format", json_incref(format));
    if (effort) set(chat, "reasoning_effort", json_incref(effort));
    if (most) set(chat, "max_completion_tokens", json_incref(most));
    if (json_is_true(member(body, "stream"))) set(chat, "stream_options", json_pack("{s:b}", "include_usage", 1));
    return 1;
}

/* What an answer says of its request, unless that says otherwise. */
static const char echoed[] =
    "{\"background\":false,\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"max_output_tokens\":null,"
    "\"metadata\":{},\"parallel_tool_calls\":true,\"previous_response_id\":null,\"reasoning\":{\"effort\":null},"
    "\"store\":false,\"temperature\":null,\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\",\"tools\":"
    "[],"
    "\"top_logprobs\":0,\"top_p\":null,\"truncation\":\"disabled\",\"usage\":null,\"user\":null}";

static json_t *chat_of(serve_server *v, json_t *body, json_t **kept, serve_error *e)
{
    static const char same[] =
        " model temperature top_p top_k min_p seed presence_penalty frequency_penalty stream stop"
        " repeat_penalty repetition_penalty repeat_last_n logit_bias ignore_eos"
        " parallel_tool_calls chat_template_kwargs ";
    json_t *const chat = json_object(), *const echo = json_loads(echoed, 0, NULL), *value;
    const char *name;
    *kept = json_pack("{s:o, s:[], s:i, s:i, s:s}", "echo", echo, "output", "events", 0, "open", -1, "status",
                      "in_progress");
    const int good = *kept && serve_check_members(v, body, SERVE_RESPONSES, "", e) && read_input(v, body, chat, e) &&
                     read_tools(v, body, chat, e) && read_more(v, body, chat, e);
    json_object_foreach(body, name, value)
    {
        if (is_name(name, same)) (void)json_object_set(chat, name, value);
        if (!json_is_null(value) && json_object_get(echo, name)) (void)json_object_set(echo, name, value);
    }
    if (good) return chat;
    json_decref(chat);
    return NULL;
}

static json_t *error_of(const serve_error *e)
{
    static const char *const names[] = { "messages",          "input",           "max_completion_tokens",
                                         "max_output_tokens", "response_format", "text.format" };
    serve_error own = *e;
    for (int i = 0; i < 6; i += 2) {
        const size_t n = strlen(names[i]);
        if (strcmp(e->param, names[i]) != 0 || strncmp(e->message, names[i], n) != 0) continue;
        (void)snprintf(own.param, sizeof own.param, "%s", names[i + 1]);
        (void)snprintf(own.message, sizeof own.message, "%s%.600s", names[i + 1], e->message + n);
    }
    return serve_error_object(&own);
}

/* ---- Answers. A whole one is made as a stream's last event is, without writing the events ---- */

/* The items of an answer: the beginning of their ids, and their names in a chat, here, of their part, and in events. */
static const struct {
    const char *id, *of, *type, *part, *event;
} kinds[] = { { "rs", "reasoning_content", "reasoning", "reasoning_text", "reasoning_text" },
              { "msg", "content", "message", "output_text", "output_text" },
              { "fc", "tool_calls", "function_call", NULL, "function_call_arguments" } };

static json_t *kept(const serve_call *call, const char *name) { return json_object_get(call->kept, name); }

/* The kind of the item that is written; -1: none is. */
static int open_kind(const serve_call *call) { return (int)json_integer_value(kept(call, "open")); }

static const char *id_of(const serve_call *call) { return call->id + strlen("chatcmpl-"); }

/* usage and error: the chat's, or NULL. */
static json_t *response_of(const serve_call *call, const json_t *usage, const json_t *error)
{
    json_t *const r =
        json_pack("{s:o, s:s, s:I, s:O, s:s, s:O, s:I}", "id", json_sprintf("resp_%s", id_of(call)), "object",
                  "response", "created_at", (json_int_t)call->created, "status", kept(call, "status"), "model",
                  call->server->model, "output", kept(call, "output"), "seed", (json_int_t)call->sampling.seed);
    (void)json_object_update(r, kept(call, "echo"));
    if (error) set(r, "error", json_pack("{s:s, s:O}", "code", "server_error", "message", member(error, "message")));
    if (is(kept(call, "status"), " incomplete "))
        set(r, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    if (usage)
        set(r, "usage",
            json_pack("{s:O, s:{s:O, s:i}, s:O, s:{s:i}, s:O}", "input_tokens", member(usage, "prompt_tokens"),
                      "input_tokens_details", "cached_tokens",
                      member(member(usage, "prompt_tokens_details"), "cached_tokens"), "cache_write_tokens", 0,
                      "output_tokens", member(usage, "completion_tokens"), "output_tokens_details", "reasoning_tokens",
                      0, "total_tokens", member(usage, "total_tokens")));
    return r;
}

/* Writes response.BEFOREAFTER with members, which it takes. Those of the open item have its place; all but whole items
 * have its id. */
static void put(serve_call *call, const char *before, const char *after, json_t *with)
{
    const int kind = open_kind(call), within = kind >= 0 && !member(with, "item") && !member(with, "response");
    const json_int_t n = json_integer_value(kept(call, "events")),
                     index = (json_int_t)json_array_size(kept(call, "output"));
    json_t *const event =
        json_pack("{s:o, s:I}", "type", json_sprintf("response.%s%s", before, after), "sequence_number", n);
    if (!member(with, "response")) set(event, "output_index", json_integer(index));
    if (within) set(event, "item_id", json_incref(member(kept(call, "item"), "id")));
    if (within && kind != CALL) set(event, "content_index", json_integer(0));
    if (within && kind == MESSAGE && !member(with, "part")) set(event, "logprobs", json_array());
    (void)json_object_update(event, with);
    json_decref(with);
    set(call->kept, "events", json_integer(n + 1));
    if (call->stream) (void)fprintf(call->events, "event: response.%s%s\ndata: ", before, after);
    if (call->stream && json_dumpf(event, call->events, JSON_COMPACT)) call->over = -1;
    if (call->stream) (void)fputs("\n\n", call->events);
    json_decref(event);
}

static void put_response(serve_call *call, const char *name, const json_t *usage, const json_t *error)
{
    put(call, name, "", json_pack("{s:o}", "response", response_of(call, usage, error)));
}

static json_t *part_of(int kind, json_t *text)
{
    json_t *const part = json_pack("{s:s, s:o}", "type", kinds[kind].part, "text", text);
    for (int i = 0; kind == MESSAGE && i < 2; i++) set(part, i ? "logprobs" : "annotations", json_array());
    return part;
}

static void close_item(serve_call *call, const char *status)
{
    const int kind = open_kind(call);
    if (kind < 0) return;
    json_t *const item = kept(call, "item"), *const text = joined(json_incref(kept(call, "texts")));
    json_t *const part = kind == CALL ? NULL : part_of(kind, json_incref(text));
    set(item, "status", json_string(part ? status : "completed"));
    set(item, part ? "content" : "arguments", part ? json_pack("[O]", part) : json_incref(text));
    put(call, kinds[kind].event, ".done",
        json_pack("{s:o, s:O*}", part ? "text" : "arguments", text, "name", member(item, "name")));
    if (part) put(call, "content_part", ".done", json_pack("{s:o}", "part", part));
    put(call, "output_item", ".done", json_pack("{s:O}", "item", item));
    (void)json_array_append(kept(call, "output"), item);
    set(call->kept, "open", json_integer(-1));
}

/* Closes the item before. tool: the call of a tool that the new one is. */
static void open_item(serve_call *call, int kind, const json_t *tool)
{
    close_item(call, "completed");
    json_t *const item =
        json_pack("{s:o, s:s, s:s, s:o*, s:O*, s:O*}", "id",
                  json_sprintf("%s_%s_%zu", kinds[kind].id, id_of(call), json_array_size(kept(call, "output"))), "type",
                  kinds[kind].type, "status", "in_progress", "content", tool ? NULL : json_array(), "call_id",
                  member(tool, "id"), "name", member(member(tool, "function"), "name"));
    if (kind == REASONING) set(item, "summary", json_array());
    else set(item, tool ? "arguments" : "role", json_string(tool ? "" : "assistant"));
    set(call->kept, "open", json_integer(kind));
    set(call->kept, "item", item);
    set(call->kept, "texts", json_array());
    put(call, "output_item", ".added", json_pack("{s:O}", "item", item));
    if (!tool) put(call, "content_part", ".added", json_pack("{s:o}", "part", part_of(kind, json_string(""))));
}

static void add_delta(serve_call *call, int kind, json_t *text)
{
    if (!json_string_length(text)) return;
    if (open_kind(call) != kind) open_item(call, kind, NULL);
    (void)json_array_append(kept(call, "texts"), text);
    put(call, kinds[kind].event, ".delta", json_pack("{s:O}", "delta", text));
}

/* Takes what a chat's answer or event has of the message, and the reason for its end. */
static void take(serve_call *call, const json_t *chat)
{
    const json_t *const choice = json_array_get(member(chat, "choices"), 0), *const reason =
                                                                                 member(choice, "finish_reason");
    const json_t *const message = member(choice, call->stream ? "delta" : "message"), *const calls =
                                                                                          member(message, "tool_calls");
    for (int kind = REASONING; kind <= MESSAGE; kind++) add_delta(call, kind, member(message, kinds[kind].of));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *const one = json_array_get(calls, i);
        if (member(one, "id")) open_item(call, CALL, one);
        add_delta(call, CALL, member(member(one, "function"), "arguments"));
    }
    if (!reason) return;
    if (is(reason, " stop ") && open_kind(call) <= REASONING) open_item(call, MESSAGE, NULL); /* an empty one */
    set(call->kept, "status", json_string(is(reason, " length ") ? "incomplete" : "completed"));
    close_item(call, json_string_value(kept(call, "status")));
}

static json_t *answer_of(serve_call *call, json_t *chat)
{
    take(call, chat);
    json_t *const answer = response_of(call, member(chat, "usage"), NULL);
    json_decref(chat);
    return answer;
}

static void put_event(serve_call *call, const json_t *chat)
{
    const json_t *const usage = member(chat, "usage"), *const error = member(chat, "error");
    for (int i = 0; i < 2 && chat && json_integer_value(kept(call, "events")) == i; i++)
        put_response(call, i ? "in_progress" : "created", NULL, NULL);
    take(call, chat);
    if (error) set(call->kept, "status", json_string("failed"));
    if (error || usage) put_response(call, json_string_value(kept(call, "status")), usage, error);
}

const serve_protocol serve_responses = { chat_of, answer_of, put_event, error_of };
