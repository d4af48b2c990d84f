/* Calls of tools in a model's output. See calls.h. */
#define _GNU_SOURCE /* memmem */
#include "tools/serve/calls.h"

#include <stdlib.h>
#include <string.h>

static const char open_mark[] = "<tool_call>", close_mark[] = "</tool_call>";

int serve_has_tool(const json_t *tools, const char *name, const json_t **schema)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *const f = json_object_get(json_array_get(tools, i), "function");
        const char *const its = json_string_value(json_object_get(f, "name"));
        *schema = json_object_get(json_object_get(f, "parameters"), "properties");
        if (its && name && !strcmp(its, name)) return 1;
    }
    return 0;
}

/* ---- Text that may be incomplete ---- */

typedef enum cursor_state { GOOD, SHORT, BAD } cursor_state; /* SHORT: the text ends before it can be told */
typedef struct cursor {
    const char *text;
    size_t n, at;
    cursor_state state;
} cursor;

static int is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static void skip_space(cursor *c)
{
    while (c->at < c->n && is_space(c->text[c->at])) c->at++;
}

/* Skips `what`, which must be here. Returns 1 if it is. */
static int expect(cursor *c, const char *what)
{
    const size_t length = strlen(what), left = c->n - c->at, here = left < length ? left : length;
    if (c->state) return 0;
    if (memcmp(c->text + c->at, what, here) != 0) c->state = BAD;
    else if (here < length) c->state = SHORT;
    else c->at += length;
    return !c->state;
}

/* Copies the text before `what` and skips both. */
static char *until(cursor *c, const char *what)
{
    const char *const end = c->state ? NULL : memmem(c->text + c->at, c->n - c->at, what, strlen(what));
    if (!end) {
        if (!c->state) c->state = SHORT;
        return NULL;
    }
    char *const copy = strndup(c->text + c->at, (size_t)(end - c->text) - c->at);
    if (!copy || strlen(copy) != (size_t)(end - c->text) - c->at) c->state = BAD; /* or it has a NUL */
    c->at = (size_t)(end - c->text) + strlen(what);
    return copy;
}

/* Skips the object that begins here, to the brace that ends it. */
static void skip_object(cursor *c)
{
    int depth = 0, quoted = 0;
    for (; c->at < c->n; c->at++) {
        const char b = c->text[c->at];
        if (quoted && b == '\\') c->at++;
        else if (b == '"') quoted = !quoted;
        else if (!quoted && (b == '{' || b == '[')) depth++;
        else if (!quoted && (b == '}' || b == ']') && !--depth) break;
    }
    if (c->at < c->n) c->at++;
    else c->state = SHORT;
}

/* ---- The two forms ---- */

/* A call, whose arguments' numbers have the fewest digits that read back as the same. */
static json_t *function_of(const char *name, const json_t *arguments)
{
    char *text = NULL;
    for (size_t digits = 15, same = 0; !same && digits <= 17; digits++) {
        free(text);
        text = json_dumps(arguments, JSON_REAL_PRECISION(digits));
        json_t *const again = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
        same = json_equal(arguments, again) || !text;
        json_decref(again);
    }
    json_t *const made = text ? json_pack("{s:s, s:s}", "name", name, "arguments", text) : NULL;
    free(text);
    return made;
}

static void read_json(cursor *c, const json_t *tools, serve_piece *piece)
{
    const size_t from = c->at;
    const json_t *schema, *arguments;
    skip_object(c);
    if (c->state) return;
    json_t *const call = json_loadb(c->text + from, c->at - from, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const json_t *const named = json_object_get(call, "name");
    const char *const name = json_string_value(named);
    arguments = json_object_get(call, "arguments");
    if (json_object_size(call) == 2 && json_is_object(arguments) && name && strlen(name) == json_string_length(named) &&
        serve_has_tool(tools, name, &schema))
        piece->function = function_of(name, arguments);
    else c->state = BAD;
    json_decref(call);
}

/* True if the schema of a parameter allows a string. */
static int is_string(const json_t *schema)
{
    const json_t *const type = json_object_get(schema, "type");
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *const one = json_string_value(json_array_get(type, i));
        if (one && !strcmp(one, "string")) return 1;
    }
    return json_is_string(type) && !strcmp(json_string_value(type), "string");
}

static json_t *typed(const json_t *schema, const char *value)
{
    if (is_string(schema)) return json_string(value);
    if (!strcmp(value, "None")) return json_null(); /* models write Python's words too */
    if (!strcmp(value, "True") || !strcmp(value, "False")) return json_boolean(value[0] == 'T');
    json_t *const made = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    return made ? made : json_string(value);
}

static void read_parameter(cursor *c, const json_t *schema, json_t *arguments)
{
    char *const key = expect(c, "<parameter=") ? until(c, ">") : NULL;
    char *const value = key ? until(c, "</parameter>") : NULL;
    if (value) { /* the form has a line break at both ends of the value */
        const size_t n = strlen(value), from = value[0] == '\n';
        if (n > from && value[n - 1] == '\n') value[n - 1] = 0;
        if (json_object_get(arguments, key) ||
            json_object_set_new(arguments, key, typed(json_object_get(schema, key), value + from)))
            c->state = BAD;
    }
    free(key);
    free(value);
}

static void read_function(cursor *c, const json_t *tools, serve_piece *piece)
{
    json_t *const arguments = json_object();
    const json_t *schema = NULL;
    char *const name = expect(c, "<function=") ? until(c, ">") : NULL;
    if (name && !serve_has_tool(tools, name, &schema)) c->state = BAD;
    while (!c->state) {
        skip_space(c);
        if (c->n - c->at >= 2 && c->text[c->at + 1] == 'p') read_parameter(c, schema, arguments);
        else break;
    }
    (void)expect(c, "</function>");
    if (!c->state) piece->function = function_of(name, arguments);
    free(name);
    json_decref(arguments);
}

/* Reads a call after its mark. Sets the state to BAD or SHORT if there is none. */
static void read_call(cursor *c, const json_t *tools, serve_piece *piece)
{
    skip_space(c);
    if (c->at < c->n && c->text[c->at] == '{') read_json(c, tools, piece);
    else read_function(c, tools, piece);
    if (!c->state) skip_space(c);
    (void)expect(c, close_mark);
    if (!c->state && piece->function) return;
    json_decref(piece->function);
    piece->function = NULL;
    if (!c->state) c->state = BAD;
}

/* ---- Pieces ---- */

/* Length of n bytes without the whitespace at their end. */
static size_t stripped(const char *text, size_t n)
{
    while (n && is_space(text[n - 1])) n--;
    return n;
}

serve_piece serve_next_piece(const json_t *tools, const char *text, size_t n, int after, int last, size_t *seen)
{
    const size_t length = sizeof open_mark - 1, overlap = sizeof close_mark - 2;
    const size_t from = *seen > overlap ? *seen - overlap : 0;
    serve_piece piece = { 0 };
    if (!last && n < *seen + *seen / 8 && !memmem(text + from, n - from, close_mark, sizeof close_mark - 1))
        return piece;
    cursor c = { text, n, 0, SHORT };
    while (c.at < n) { /* to a mark, or to what may become one */
        const size_t left = n - c.at, here = left < length ? left : length;
        if (!memcmp(text + c.at, open_mark, here) && (here == length || !last)) break;
        c.at++;
    }
    const size_t mark = c.at;
    if (n - mark >= length) {
        c.at += length;
        c.state = GOOD;
        read_call(&c, tools, &piece);
    }
    if (piece.function) {
        piece.content = stripped(text, mark);
        piece.used = c.at;
    } else if (c.state == BAD || (last && mark < n)) {
        piece.content = piece.used = mark + length;
    } else if (last) {
        piece.used = n;
        piece.content = after && !stripped(text, n) ? 0 : n;
    } else {
        piece.content = piece.used = stripped(text, mark);
    }
    *seen = piece.used ? 0 : n;
    return piece;
}
