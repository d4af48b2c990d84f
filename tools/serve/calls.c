/* Calls of tools in a model's output. See calls.h. */
#define _GNU_SOURCE /* memmem */
#include "system/libc.h"
#include "tools/serve/calls.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char open_mark[] = "<tool_call>", close_mark[] = "</tool_call>";

/* True if the array has a tool of this name; *schema: of its arguments, or NULL. */
static int has_tool(const json_t *tools, const char *name, const json_t **schema)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *const f = json_object_get(json_array_get(tools, i), "function");
        const char *const its = json_string_value(json_object_get(f, "name"));
        *schema = json_object_get(f, "parameters");
        if (its && name && !strcmp(its, name)) return 1;
    }
    return 0;
}

/* ---- Schemas ---- */

/* Kinds of values. CONTAINER: arrays and objects; SCALAR: numbers and booleans. */
enum { STRING = 1, NOTHING = 2, CONTAINER = 4, SCALAR = 8, ANY = 15 };

static int kind_of(const json_t *value)
{
    if (json_is_array(value) || json_is_object(value)) return CONTAINER;
    return json_is_string(value) ? STRING : json_is_null(value) ? NOTHING : SCALAR;
}

/* The kind that a name of a type means; ANY: it is unknown. Some tools write names as Google's and Python's. */
static int kind_named(const json_t *name)
{
    static const struct {
        const char *name;
        int kind;
    } types[] = { { "string", STRING },    { "str", STRING },     { "null", NOTHING },  { "array", CONTAINER },
                  { "object", CONTAINER }, { "integer", SCALAR }, { "number", SCALAR }, { "boolean", SCALAR } };
    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof *types; i++)
        if (!strcasecmp(json_string_value(name), types[i].name)) return types[i].kind;
    return ANY;
}

/* The part of `root` that a reference as #/$defs/NAME names; NULL: there is none. */
static const json_t *referred(const json_t *root, const char *path)
{
    if (*path++ != '#') return NULL;
    while (root && *path == '/') {
        char name[256];
        size_t n = 0;
        for (path++; *path && *path != '/' && n < sizeof name - 1; path++) {
            const int escaped = *path == '~' && (path[1] == '0' || path[1] == '1');
            path += escaped;
            name[n++] = (char)(!escaped ? *path : *path == '0' ? '~' : '/');
        }
        name[n] = 0;
        root = json_is_array(root) ? json_array_get(root, strtoul(name, NULL, 10)) : json_object_get(root, name);
    }
    return *path ? NULL : root;
}

/* The kinds that a schema, a part of `root`, allows. A schema may contain itself: beyond MOST_DEPTH, or after *left
 * parts and values, it allows any. */
static int kinds_of(const json_t *schema, const json_t *root, int depth, int *left)
{
    enum { MOST_DEPTH = 32 };
    static const char *const unions[] = { "anyOf", "oneOf", "enum", "type" };
    const json_t *const all = json_object_get(schema, "allOf"), *const constant = json_object_get(schema, "const");
    const char *const reference = json_string_value(json_object_get(schema, "$ref"));
    int kinds = constant ? kind_of(constant) : ANY;
    if (depth == MOST_DEPTH) return ANY;
    if (json_is_string(json_object_get(schema, "type"))) kinds &= kind_named(json_object_get(schema, "type"));
    for (int k = 0; k < 4; k++) {
        const json_t *const list = json_object_get(schema, unions[k]);
        int some = 0;
        for (size_t i = 0; i < json_array_size(list) && --*left >= 0; i++) {
            const json_t *const one = json_array_get(list, i);
            some |= k < 2 ? kinds_of(one, root, depth + 1, left) : k == 2 ? kind_of(one) : kind_named(one);
        }
        if (json_array_size(list)) kinds &= some;
    }
    for (size_t i = 0; i < json_array_size(all) && --*left >= 0; i++)
        kinds &= kinds_of(json_array_get(all, i), root, depth + 1, left);
    if (reference) kinds &= kinds_of(referred(root, reference), root, depth + 1, left);
    if (json_is_true(json_object_get(schema, "nullable"))) kinds |= NOTHING;
    return *left < 0 ? ANY : kinds;
}

/* The kinds that the schema of a tool's arguments allows for one of them. */
static int kinds_of_argument(const json_t *schema, const char *name)
{
    int left = 10000;
    return kinds_of(json_object_get(json_object_get(schema, "properties"), name), schema, 0, &left);
}

/* ---- The two forms ---- */

static int is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && is_space(*at)) at++;
    return at;
}

/* Copies the text between `before`, which must be at *at, and the next `after`. *at is then behind both. NULL: there is
 * no such text, or it has a NUL. *cut: the text has no end. */
static char *between(const char **at, const char *end, const char *before, const char *after, int *cut)
{
    const size_t length = strlen(before);
    if ((size_t)(end - *at) < length || memcmp(*at, before, length) != 0) return NULL;
    const char *const from = *at + length, *const to = memmem(from, (size_t)(end - from), after, strlen(after));
    char *const copy = to && !memchr(from, 0, (size_t)(to - from)) ? strndup(from, (size_t)(to - from)) : NULL;
    if (copy) *at = to + strlen(after);
    *cut |= !to;
    return copy;
}

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

/* The two forms of a call; NULL: it is none. *cut: it ends within a text of its own. */
static json_t *read_json(const char *text, size_t n, const json_t *tools, int *cut)
{
    json_error_t why;
    json_t *const call = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why), *function = NULL;
    *cut = !call && why.position >= (int)n;
    const json_t *const named = json_object_get(call, "name"), *const arguments = json_object_get(call, "arguments");
    const char *const name = json_string_value(named);
    const json_t *schema;
    if (json_object_size(call) == 2 && json_is_object(arguments) && name && strlen(name) == json_string_length(named) &&
        has_tool(tools, name, &schema))
        function = function_of(name, arguments);
    json_decref(call);
    return function;
}

/* The JSON that a text is; NULL: it is none. Models write Python's words too. */
static json_t *json_in(const char *value)
{
    if (!strcmp(value, "None")) return json_null();
    if (!strcmp(value, "True") || !strcmp(value, "False")) return json_boolean(value[0] == 'T');
    return json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

/* A value where these kinds are allowed. The form does not tell the string "12" from the number: where strings are
 * allowed it is one, unless it is null, an array or an object that is allowed too. */
static json_t *typed(int kinds, const char *value)
{
    json_t *const made = json_in(value);
    const int others = kinds == ANY || !(kinds & STRING) ? ANY : kinds & (NOTHING | CONTAINER);
    if (made && (kind_of(made) & others)) return made;
    json_decref(made);
    return json_string(value);
}

/* Reads a parameter. Returns 1 if it is one, of a new name. */
static int read_parameter(const char **at, const char *end, const json_t *schema, json_t *arguments, int *cut)
{
    char *const key = between(at, end, "<parameter=", ">", cut);
    char *const value = key ? between(at, end, "", "</parameter>", cut) : NULL;
    int good = value && !json_object_get(arguments, key);
    if (good) { /* the form has a line break at both ends of the value */
        const size_t n = strlen(value), from = value[0] == '\n';
        if (n > from && value[n - 1] == '\n') value[n - 1] = 0;
        good = !json_object_set_new(arguments, key, typed(kinds_of_argument(schema, key), value + from));
    }
    free(key);
    free(value);
    return good;
}

static json_t *read_function(const char *at, const char *end, const json_t *tools, int *cut)
{
    json_t *const arguments = json_object(), *function = NULL;
    const json_t *schema = NULL;
    char *const name = between(&at, end, "<function=", ">", cut);
    int good = name && has_tool(tools, name, &schema);
    while (good && (at = skip_space(at, end)) + 1 < end && at[1] == 'p')
        good = read_parameter(&at, end, schema, arguments, cut);
    if (good && (size_t)(end - at) == strlen("</function>") && !memcmp(at, "</function>", strlen("</function>")))
        function = function_of(name, arguments);
    free(name);
    json_decref(arguments);
    return function;
}

/* ---- Pieces ---- */

/* Length of n bytes without the whitespace at their end. */
static size_t stripped(const char *text, size_t n)
{
    while (n && is_space(text[n - 1])) n--;
    return n;
}

/* True if the text after a mark may be the beginning of a call. */
static int may_be_call(const char *at, size_t n)
{
    const size_t length = strlen("<function=");
    return !n || *at == '{' || !memcmp(at, "<function=", n < length ? n : length);
}

serve_piece serve_next_piece(const json_t *tools, const char *text, size_t n, int after, int last, size_t *seen)
{
    const size_t length = sizeof open_mark - 1, overlap = sizeof close_mark - 2;
    const size_t from = *seen > overlap ? *seen - overlap : 0;
    const char *const end = text + n;
    serve_piece piece = { 0 };
    if (!last && n < *seen + *seen / 8 && !memmem(text + from, n - from, close_mark, sizeof close_mark - 1))
        return piece;
    size_t mark = 0;
    for (; mark < n; mark++) { /* to a mark, or to what may become one */
        const size_t left = n - mark, here = left < length ? left : length;
        if (!memcmp(text + mark, open_mark, here) && (here == length || !last)) break;
    }
    const char *const begin = skip_space(text + (n - mark < length ? n : mark + length), end);
    int open = may_be_call(begin, (size_t)(end - begin)); /* it is, or may become, a call */
    for (const char *close = begin; open; close += sizeof close_mark - 1) {
        close = memmem(close, (size_t)(end - close), close_mark, sizeof close_mark - 1);
        if (!close) break;
        const size_t n_call = stripped(begin, (size_t)(close - begin));
        open = 0; /* unless the mark is within a text of the call */
        piece.function =
            *begin == '{' ? read_json(begin, n_call, tools, &open) : read_function(begin, begin + n_call, tools, &open);
        piece.used = (size_t)(close - text) + sizeof close_mark - 1;
    }
    if (piece.function) {
        piece.content = stripped(text, mark);
    } else if (n - mark >= length && (last || !open)) {
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
