/* Anthropic's interface, /v1/messages: requests become those of chats, whose answers become its. See serve.h. */
#include <jansson.h>
#include <string.h>

#include "tools/serve/serve.h"
#include "tools/serve/values.h"

static int is(const char *a, const char *b) { return !strcmp(a, b); }
static json_t *member(const json_t *object, const char *name) { return serve_member(object, name); }
static const char *text_in(const json_t *object, const char *name) { return serve_text_in(object, name); }
static void set(json_t *object, const char *name, json_t *value) { (void)json_object_set_new(object, name, value); }
static void add(json_t *array, json_t *value) { (void)json_array_append_new(array, value); }

/* ---- Requests. These functions return 0 if they refuse ---- */

/* where: a path of members that ends with a dot. */
static int wrong(serve_error *e, const char *where, const char *what)
{
    return serve_fail(e, 400, "invalid_value", NULL, "%s%s", where, what);
}

/* A message while it becomes one of the chat, or several. */
typedef struct turn {
    serve_server *v;
    serve_error *e;
    const char *role;
    json_t *messages, *parts, *calls, *thoughts; /* of the chat; what the next message of it has */
} turn;

static int read_blocks(turn *t, json_t *content, const char *allowed, const char *where);

/* Ends a message of the chat. id: of the call whose result it is, or NULL. */
static void end_message(turn *t, const char *role, json_t *id)
{
    add(t->messages, json_pack("{s:s, s:o, s:o*, s:o*, s:O*}", "role", role, "content", t->parts, "tool_calls",
                               t->calls, "reasoning_content", t->thoughts, "tool_call_id", id));
    t->parts = json_array();
    t->calls = t->thoughts = NULL;
}

/* By public reports Claude Code begins the system's text with a line for Anthropic's billing, which differs in each
 * request. Without it the prompt begins as the one before, and the prefix cache has that. */
static int read_text(turn *t, const json_t *text, const char *where)
{
    const char *const bytes = json_string_value(text), *const billing = "x-anthropic-billing-header:";
    size_t used = 0;
    if (!bytes) return wrong(t->e, where, "text: a text is needed");
    if (is(t->role, "system") && !strncmp(bytes, billing, strlen(billing))) used = strcspn(bytes, "\n");
    used += used && bytes[used];
    const size_t n = json_string_length(text) - used;
    if (n) add(t->parts, json_pack("{s:s, s:s%}", "type", "text", "text", bytes + used, n));
    return 1;
}

/* The model sees that a tool failed by the first word of its result. */
static int read_result(turn *t, const json_t *block, const char *where)
{
    json_t *const id = member(block, "tool_use_id");
    char at[96];
    (void)snprintf(at, sizeof at, "%scontent", where);
    if (json_array_size(t->parts)) end_message(t, t->role, NULL);
    if (json_is_true(member(block, "is_error")))
        add(t->parts, json_pack("{s:s, s:s}", "type", "text", "text", "Error: "));
    const int good = (json_is_string(id) || wrong(t->e, where, "tool_use_id: a text is needed")) &&
                     read_blocks(t, member(block, "content"), " text ", at);
    end_message(t, "tool", id);
    return good;
}

static int read_call(turn *t, const json_t *block, const char *where)
{
    json_t *const input = member(block, "input"), *const id = member(block, "id"), *const name = member(block, "name");
    if (!json_is_string(name) || !json_is_string(id) || (input && !json_is_object(input)))
        return wrong(t->e, where, "id, name and input: two texts and an object are needed");
    if (!t->calls) t->calls = json_array();
    return !json_array_append_new(t->calls, json_pack("{s:O, s:s, s:{s:O, s:O*}}", "id", id, "type", "function",
                                                      "function", "name", name, "arguments", input));
}

static int read_thinking(turn *t, const json_t *block, const char *where)
{
    json_t *const before = t->thoughts ? t->thoughts : json_string(""), *const text = member(block, "thinking");
    if (json_is_string(text))
        t->thoughts = json_pack("s%+%", json_string_value(before), json_string_length(before), json_string_value(text),
                                json_string_length(text));
    if (before != t->thoughts) json_decref(before);
    return json_is_string(text) || wrong(t->e, where, "thinking: a text is needed");
}

/* Reads a text or blocks. allowed: their types, between spaces. */
static int read_blocks(turn *t, json_t *content, const char *allowed, const char *where)
{
    int good = 1;
    if (json_is_string(content)) return read_text(t, content, where);
    if (content && !json_is_array(content)) return wrong(t->e, where, ": a text or an array is needed");
    for (size_t i = 0; good && i < json_array_size(content); i++) {
        json_t *const block = json_array_get(content, i);
        const char *const type = text_in(block, "type");
        char at[80], spaced[48];
        (void)snprintf(at, sizeof at, "%.50s[%zu].", where, i);
        (void)snprintf(spaced, sizeof spaced, " %.40s ", type);
        if (!*type || strchr(type, ' ') || !strstr(allowed, spaced))
            return serve_fail(t->e, 400, NULL, NULL, "%stype: %.40s is not supported; these are:%s", at, type, allowed);
        good = serve_check_members(t->v, block, SERVE_MESSAGES_PART, at, t->e);
        if (good && is(type, "text")) good = read_text(t, member(block, "text"), at);
        else if (good && is(type, "tool_result")) good = read_result(t, block, at);
        else if (good && is(type, "tool_use")) good = read_call(t, block, at);
        else if (good && is(type, "thinking")) good = read_thinking(t, block, at);
    }
    return good;
}

/* The system's text is the first message of a chat. */
static int read_messages(serve_server *v, json_t *body, serve_error *e)
{
    json_t *const given = member(body, "messages");
    turn t = { .v = v, .e = e, .role = "system", .messages = json_array(), .parts = json_array() };
    int good = (json_array_size(given) || wrong(e, "", "messages: an array with at least one message is needed")) &&
               read_blocks(&t, member(body, "system"), " text ", "system");
    if (json_array_size(t.parts)) end_message(&t, "system", NULL);
    for (size_t i = 0; good && i < json_array_size(given); i++) {
        const json_t *const m = json_array_get(given, i);
        const size_t before = json_array_size(t.messages);
        const char *allowed = " text ";
        char at[40];
        (void)snprintf(at, sizeof at, "messages[%zu].content", i);
        t.role = text_in(m, "role");
        if (is(t.role, "user")) allowed = " text tool_result ";
        else if (is(t.role, "assistant")) allowed = " text tool_use thinking redacted_thinking ";
        else if (!is(t.role, "system")) good = wrong(e, at, ": the roles user, assistant and system are allowed");
        good = good && read_blocks(&t, member(m, "content"), allowed, at);
        if (json_array_size(t.parts) || json_array_size(t.messages) == before) end_message(&t, t.role, NULL);
    }
    json_decref(t.parts);
    set(body, "messages", t.messages);
    return good;
}

static int read_tools(serve_server *v, const json_t *body, serve_error *e)
{
    json_t *const tools = member(body, "tools"), *tool;
    int good = !tools || json_is_array(tools) || wrong(e, "", "tools: an array is allowed");
    for (size_t i = 0; good && (tool = json_array_get(tools, i)) != NULL; i++) {
        json_t *const name = member(tool, "name"), *const schema = member(tool, "input_schema");
        const char *const type = text_in(tool, "type");
        char at[40];
        (void)snprintf(at, sizeof at, "tools[%zu].", i);
        if (*type && !is(type, "custom")) {
            if (serve_opt.strict)
                return serve_fail(e, 400, NULL, NULL, "%stype: %.60s is not supported, only custom", at, type);
            serve_say_once(v, type, SERVE_NO_TOOL);
            (void)json_array_remove(tools, i--);
            continue;
        }
        if (!json_is_string(name) || !json_is_object(schema))
            return wrong(e, at, "name and input_schema: a text and an object are needed");
        json_t *const made =
            json_pack("{s:s, s:{s:O, s:O*, s:O, s:O*}}", "type", "function", "function", "name", name, "description",
                      member(tool, "description"), "parameters", schema, "strict", member(tool, "strict"));
        good = serve_check_members(v, tool, SERVE_MESSAGES_PART, at, e);
        (void)json_array_set_new(tools, i, made);
    }
    return good;
}

/* Claude Code is reported to ask for thinking whatever the model is. A template that cannot do it must not end the
 * conversation. */
static int choose_thinking(serve_server *v, json_t *body, serve_error *e)
{
    const char *const type = text_in(member(body, "thinking"), "type");
    const int on = is(type, "enabled");
    if (!member(body, "thinking") || is(type, "adaptive")) return 1;
    if (!on && !is(type, "disabled")) return wrong(e, "", "thinking.type: enabled, disabled, adaptive are allowed");
    if (v->session->chat && rt_chat_check_thinking(v->session->chat, on)) {
        serve_say_once(v, "thinking", "the chat template's answers always begin the other way (--strict refuses it)");
        return !serve_opt.strict || serve_fail(e, 400, NULL, "thinking", "thinking: %s", rt_last_error());
    }
    if (!member(body, "chat_template_kwargs")) set(body, "chat_template_kwargs", json_object());
    json_t *const all = member(body, "chat_template_kwargs");
    if (!json_object_get(all, "enable_thinking")) set(all, "enable_thinking", json_boolean(on));
    return 1;
}

/* Gives members their names in chats, which check their values. */
static void rename_members(json_t *body)
{
    static const char *const own[] = { "system", "stop_sequences", "thinking", "output_config", "output_format" };
    const json_t *const config = member(body, "output_config"), *const choice = member(body, "tool_choice");
    const json_t *const new = member(config, "format"), *const format = new ? new : member(body, "output_format");
    const char *const type = text_in(choice, "type");
    json_t *const schema = member(format, "schema"), *const name = member(choice, "name");
    if (json_is_true(member(choice, "disable_parallel_tool_use"))) set(body, "parallel_tool_calls", json_false());
    if (choice)
        set(body, "tool_choice",
            is(type, "tool") ? json_pack("{s:s, s:{s:O*}}", "type", "function", "function", "name", name)
                             : json_string(is(type, "any") ? "required" : type));
    if (format)
        set(body, "response_format",
            json_pack("{s:s, s:{s:O*}}", "type", text_in(format, "type"), "json_schema", "schema", schema));
    (void)json_object_set(body, "reasoning_effort", member(config, "effort"));
    (void)json_object_set(body, "stop", member(body, "stop_sequences"));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) (void)json_object_del(body, own[i]);
}

static json_t *count_of(serve_server *v, json_t *body, json_t **kept, serve_error *e)
{
    if (!serve_check_members(v, body, SERVE_MESSAGES | SERVE_CHAT, "", e) || !read_messages(v, body, e) ||
        !read_tools(v, body, e) || !choose_thinking(v, body, e))
        return NULL;
    rename_members(body);
    *kept = json_pack("{s:i}", "index", -1); /* of the stream's block; also its type, and why the text ends */
    return json_incref(body);
}

static json_t *chat_of(serve_server *v, json_t *body, json_t **kept, serve_error *e)
{
    const json_t *const all = member(body, "messages"), *const last = json_array_get(all, json_array_size(all) - 1);
    if (!member(body, "max_tokens")) (void)wrong(e, "", "max_tokens: it is missing");
    const int goes_on = is(text_in(last, "role"), "assistant"); /* the answer continues it */
    json_t *const chat = e->status ? NULL : count_of(v, body, kept, e);
    if (goes_on) set(chat, "continue_final_message", json_true());
    set(chat, "stream_options", json_pack("{s:b}", "include_usage", 1));
    return chat;
}

/* ---- Answers and streams ---- */

/* A block of text or thinking. Takes the text. */
static json_t *block_of(const char *type, json_t *text)
{
    return json_pack("{s:s, s:o, s:s*}", "type", type, type, text, "signature", is(type, "thinking") ? "" : NULL);
}

/* A block of a call of a tool with an input, which it takes. */
static json_t *use_of(const json_t *call, json_t *input)
{
    return json_pack("{s:s, s:o, s:s, s:o}", "type", "tool_use", "id",
                     json_sprintf("toolu_%s", text_in(call, "id") + strlen("call_")), "name",
                     text_in(json_object_get(call, "function"), "name"), "input", input);
}

/* A message. What a chat does not have yet is null, empty or 0. */
static json_t *answer_of(serve_call *call, json_t *chat)
{
    const json_t *const choice = json_array_get(json_object_get(chat, "choices"), 0), *one;
    const json_t *const m = json_object_get(choice, "message"), *const usage = json_object_get(chat, "usage");
    json_t *const thoughts = member(m, "reasoning_content"), *const text = member(m, "content");
    const json_t *const of = json_object_get(usage, "prompt_tokens_details");
    const json_int_t kept = json_integer_value(json_object_get(of, "cached_tokens"));
    const char *const finish = text_in(choice, "finish_reason"), *reason = *finish ? "end_turn" : NULL;
    const int at = is(finish, "stop") ? call->choice[0].text.stop : 0; /* 1 + the stop string's number */
    json_t *const content = json_array(), *string = json_null();
    if (at) string = json_stringn(call->stop[at - 1].bytes, call->stop[at - 1].n);
    if (at) reason = "stop_sequence";
    if (is(finish, "length")) reason = "max_tokens";
    if (is(finish, "tool_calls")) reason = "tool_use";
    if (json_string_length(thoughts)) add(content, block_of("thinking", json_incref(thoughts)));
    if (json_string_length(text)) add(content, block_of("text", json_incref(text)));
    for (size_t i = 0; (one = json_array_get(json_object_get(m, "tool_calls"), i)) != NULL; i++) {
        const char *const arguments = text_in(json_object_get(one, "function"), "arguments");
        add(content, use_of(one, json_loads(arguments, JSON_ALLOW_NUL, NULL)));
    }
    json_t *const made = json_pack("{s:o, s:s, s:s, s:s, s:o, s:s?, s:o, s:{s:I, s:i, s:I, s:I}}", "id",
                                   json_sprintf("msg_%s", call->id + strlen("chatcmpl-")), "type", "message", "role",
                                   "assistant", "model", call->server->model, "content", content, "stop_reason", reason,
                                   "stop_sequence", string, "usage", "input_tokens", call->n_prompt[0] - kept,
                                   "cache_creation_input_tokens", 0, "cache_read_input_tokens", kept, "output_tokens",
                                   json_integer_value(json_object_get(usage, "completion_tokens")));
    json_decref(chat);
    return made;
}

static json_t *error_of(const serve_error *e)
{
    const char *type = e->status >= 500 ? "api_error" : "invalid_request_error", *name = NULL;
    char message[sizeof e->message + 32];
    if (e->status == 401) type = "authentication_error";
    if (e->status == 403) type = "permission_error";
    if (e->status == 404) type = "not_found_error";
    if (e->status == 413) type = "request_too_large";
    if (e->status == 429) type = "rate_limit_error";
    if (e->status == 503) type = "overloaded_error";
    if (!strncmp(e->message, "stop:", strlen("stop:"))) name = "stop_sequences";
    if (!strncmp(e->message, "response_format:", strlen("response_format:"))) name = "output_config.format";
    const char *const rest = e->message + (name ? strcspn(e->message, ":") : 0);
    (void)snprintf(message, sizeof message, "%.24s%.639s", name ? name : "", rest);
    json_t *const text = serve_text(message, strlen(message));
    return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type", type, "message", text);
}

/* Writes an event with these members, which it takes. */
static void put(serve_call *call, const char *type, json_t *event)
{
    set(event, "type", json_string(type));
    if (!strncmp(type, "content", 7)) (void)json_object_set(event, "index", json_object_get(call->kept, "index"));
    (void)fprintf(call->events, "event: %s\ndata: ", type);
    if (!event || json_dumpf(event, call->events, JSON_COMPACT)) call->over = -1;
    (void)fputs("\n\n", call->events);
    json_decref(event);
}

/* Takes the text. */
static void put_delta(serve_call *call, const char *type, const char *name, json_t *text)
{
    put(call, "content_block_delta", json_pack("{s:{s:s, s:o}}", "delta", "type", type, name, text));
}

/* Ends the open block and begins another one, which it takes, or none. */
static void begin(serve_call *call, json_t *block)
{
    const char *const open = text_in(call->kept, "open");
    if (is(open, "thinking")) put_delta(call, "signature_delta", "signature", json_string(""));
    if (*open) put(call, "content_block_stop", json_object());
    set(call->kept, "open", json_string(text_in(block, "type")));
    set(call->kept, "index", json_integer(json_integer_value(json_object_get(call->kept, "index")) + 1));
    if (block) put(call, "content_block_start", json_pack("{s:o}", "content_block", block));
}

static void put_piece(serve_call *call, const char *type, const char *delta, json_t *text)
{
    if (!json_string_length(text)) return;
    if (!is(text_in(call->kept, "open"), type)) begin(call, block_of(type, json_string("")));
    put_delta(call, delta, type, json_incref(text));
}

/* The chat has an event for a call's name and one for its arguments. Usage is known at the end. */
static void put_event(serve_call *call, const json_t *chat)
{
    const json_t *const choice = json_array_get(json_object_get(chat, "choices"), 0);
    const json_t *const delta = json_object_get(choice, "delta"), *const usage = member(chat, "usage");
    const json_t *const one = json_array_get(json_object_get(delta, "tool_calls"), 0);
    json_t *const arguments = json_object_get(json_object_get(one, "function"), "arguments");
    if (*text_in(delta, "role")) put(call, "message_start", json_pack("{s:o}", "message", answer_of(call, NULL)));
    put_piece(call, "thinking", "thinking_delta", member(delta, "reasoning_content"));
    put_piece(call, "text", "text_delta", member(delta, "content"));
    if (*text_in(one, "id")) begin(call, use_of(one, json_object()));
    else if (one) put_delta(call, "input_json_delta", "partial_json", json_incref(arguments));
    if (member(choice, "finish_reason")) {
        begin(call, NULL);
        (void)json_object_set(call->kept, "choices", json_object_get(chat, "choices"));
    } else if (usage) {
        const json_t *const choices = json_object_get(call->kept, "choices");
        json_t *const all = answer_of(call, json_pack("{s:O, s:O}", "usage", usage, "choices", choices));
        json_t *const end = json_pack("{s:O, s:O}", "stop_reason", json_object_get(all, "stop_reason"), "stop_sequence",
                                      json_object_get(all, "stop_sequence"));
        put(call, "message_delta", json_pack("{s:o, s:O}", "delta", end, "usage", json_object_get(all, "usage")));
        put(call, "message_stop", json_object());
        json_decref(all);
    } else if (member(chat, "error")) {
        const char *const message = text_in(member(chat, "error"), "message");
        put(call, "error", json_pack("{s:{s:s, s:s}}", "error", "type", "api_error", "message", message));
    }
}

const serve_protocol serve_messages = { chat_of, answer_of, put_event, error_of, 0 };
const serve_protocol serve_counting = { count_of, NULL, NULL, error_of, 1 };
