/* What an answer must be: response_format, tools and tool_choice. See serve.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/values.h"

/* The choice of tools. name: of the only one that may be called. */
typedef struct tool_choice {
    int none, forced;
    const char *name;
} tool_choice;

static int read_choice(const json_t *o, tool_choice *to, serve_error *e)
{
    const json_t *const choice = serve_member(o, "tool_choice"), *const f = serve_member(choice, "function");
    const char *const way = json_string_value(choice), *const type = json_string_value(serve_member(choice, "type"));
    to->name = type && !strcmp(type, "function") ? json_string_value(serve_member(f, "name")) : NULL;
    to->none = way && !strcmp(way, "none");
    to->forced = to->name || (way && !strcmp(way, "required"));
    return !choice || to->none || to->forced || (way && !strcmp(way, "auto")) ||
           serve_wrong(e, "tool_choice",
                       "none, auto, required and {\"type\": \"function\", \"function\": {\"name\": ...}} are allowed");
}

/* True if the runtime can hold arguments to the schema. */
static int is_supported(const json_t *schema)
{
    char *const text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT);
    rt_schema *made = NULL;
    const gdn_status status = text ? rt_schema_compile(text, strlen(text), &made) : GDN_OUT_OF_MEMORY;
    rt_schema_free(made);
    free(text);
    return !status;
}

/* A tool for rt_schema_compile_calls(). Its arguments are held to its schema if it is strict, or where calls are forced
 * and the runtime can do that. */
static json_t *rule_of(serve_server *v, const json_t *function, int strict, int forced)
{
    json_t *schema = serve_member(function, "parameters");
    if (!strict && !forced) schema = NULL;
    if (schema && !strict && !is_supported(schema)) {
        serve_say_once(v, "tools",
                       "a schema of a tool is not supported, and any arguments may come (strict refuses it)");
        schema = NULL;
    }
    return json_pack("{s:O, s:O*}", "name", json_object_get(function, "name"), "parameters", schema);
}

/* Reads the tools. *rules: those that may be called, for rt_schema_compile_calls(); NULL: any text is good. */
static int read_tools(serve_server *v, json_t *tools, const tool_choice *choice, int is_json, json_t **rules,
                      serve_error *e)
{
    int any_strict = 0;
    json_t *const list = json_array();
    if (tools && !json_is_array(tools)) (void)serve_wrong(e, "tools", "an array is allowed");
    for (size_t i = 0; !e->status && i < json_array_size(tools); i++) {
        json_t *const tool = json_array_get(tools, i), *const f = serve_member(tool, "function");
        const char *const type = json_string_value(serve_member(tool, "type"));
        const char *const name = json_string_value(serve_member(f, "name"));
        char where[64];
        int strict = 0;
        (void)snprintf(where, sizeof where, "tools[%zu].function.", i);
        if (!type || strcmp(type, "function") != 0 || !name || !*name)
            (void)serve_wrong(e, "tools",
                              "objects {\"type\": \"function\", \"function\": {\"name\": ...}} are allowed");
        else (void)serve_get_flag(f, "strict", &strict, e);
        (void)json_object_del(f, "strict"); /* the template does not see it */
        if (!e->status && serve_check_members(v, tool, SERVE_TOOL, where, e) &&
            serve_check_members(v, f, SERVE_TOOL, where, e) && (!choice->name || !strcmp(choice->name, name)))
            (void)json_array_append_new(list, rule_of(v, f, strict, choice->forced || is_json));
        any_strict |= strict;
    }
    if (!e->status && choice->forced && !json_array_size(list))
        (void)serve_wrong(e, "tool_choice", choice->name ? "tools has no tool of this name" : "required needs tools");
    const int needed = json_array_size(list) && !choice->none && (choice->forced || is_json || any_strict);
    *rules = needed && !e->status ? json_incref(list) : NULL;
    json_decref(list);
    return !e->status;
}

/* A schema, or its text, as a new reference; NULL: it is neither. */
static json_t *schema_in(json_t *value)
{
    return json_is_string(value)
               ? json_loadb(json_string_value(value), json_string_length(value), JSON_DECODE_ANY, NULL)
               : json_incref(value);
}

/* The schema of response_format, or of the members that llama.cpp and vLLM have for it. *schema is NULL for any text.
 * It is to be released. *name: the member's. */
static int read_format(const json_t *o, json_t **schema, const char **name, serve_error *e)
{
    const json_t *const format = serve_member(o, "response_format");
    const char *const type = json_string_value(serve_member(format, "type"));
    json_t *const of_vllm = serve_member(serve_member(o, "structured_outputs"), "json");
    json_t *const others[] = { serve_member(o, "json_schema"), serve_member(o, "guided_json"), of_vllm };
    static const char *const names[] = { "json_schema", "guided_json", "structured_outputs" };
    *schema = NULL;
    *name = "response_format";
    for (int i = 0; i < 3; i++) {
        if (!serve_member(o, names[i])) continue;
        if (!others[i] || format || *schema || (i == 2 && json_object_size(serve_member(o, names[i])) != 1))
            return serve_wrong(e, names[i],
                               i == 2 ? "{\"json\": {...}} is allowed, without response_format"
                                      : "a schema is allowed, without response_format");
        *name = names[i];
        *schema = schema_in(others[i]);
        if (!*schema) return serve_wrong(e, names[i], "it is not JSON");
    }
    if (!format || (type && !strcmp(type, "text"))) return 1;
    if (type && !strcmp(type, "json_object")) {
        json_t *const given = serve_member(format, "schema"); /* of llama.cpp */
        *schema = given ? json_incref(given) : json_pack("{s:s}", "type", "object");
    }
    if (type && !strcmp(type, "json_schema"))
        *schema = json_incref(serve_member(serve_member(format, "json_schema"), "schema"));
    return *schema || serve_wrong(e, "response_format",
                                  "{\"type\": \"text\"}, {\"type\": \"json_object\"} and {\"type\": \"json_schema\", "
                                  "\"json_schema\": {\"schema\": {...}}} are allowed");
}

/* Compiles what the answer is held to. name: of the member with the format; flags: of rt_schema_compile_calls(). */
static int compile(serve_call *call, const json_t *rules, const json_t *format, const char *name, int flags,
                   serve_error *e)
{
    if (!rules && !format) return 1;
    json_t *const calls = rules ? json_pack("{s:O, s:O*}", "tools", rules, "format", format) : NULL;
    char *const text = json_dumps(calls ? calls : format, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(calls);
    if (!text) return serve_fail(e, 500, NULL, NULL, "out of memory");
    const gdn_status status = rules ? rt_schema_compile_calls(text, strlen(text), flags, &call->schema)
                                    : rt_schema_compile(text, strlen(text), &call->schema);
    free(text);
    if (!format) name = "tools";
    return !status || serve_fail(e, status == GDN_OUT_OF_MEMORY ? 500 : 400, "unsupported_value", name, "%s: %s", name,
                                 rt_last_error());
}

int serve_read_constraint(serve_server *v, serve_call *call, json_t *o, serve_error *e)
{
    tool_choice choice;
    json_t *const tools = call->chat ? serve_member(o, "tools") : NULL, *rules = NULL, *format = NULL;
    const char *name;
    int several = 1;
    int good = serve_get_flag(o, "parallel_tool_calls", &several, e) && read_choice(o, &choice, e) &&
               read_format(o, &format, &name, e) && read_tools(v, tools, &choice, format != NULL, &rules, e);
    if (good && !call->chat) {
        call->is_json = format != NULL;
        good = compile(call, NULL, format, name, 0, e);
    } else if (good) {
        const int flags = (choice.forced || format ? RT_CALLS_FORCED : 0) |
                          (several && !choice.name ? RT_CALLS_SEVERAL : 0) |
                          (rt_chat_has_tags(v->session->chat) ? RT_CALLS_TAGS : 0);
        call->one_call = !several;
        call->is_json = format != NULL;
        if (json_array_size(tools) && !choice.none) call->tools = tools;
        good = compile(call, rules, choice.forced ? NULL : format, name, flags, e);
    }
    json_decref(rules);
    json_decref(format);
    return good;
}
