/* Calls of tools in a model's output: their two forms, what is content, and that pieces of every length give the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"
#include "tools/serve/calls.h"

static const char tools_json[] =
    "[{'type':'function','function':{'name':'weather','parameters':{'type':'object','properties':{'city':{'type':"
    "'string'},'days':{'type':'integer'},'note':{'type':['string','null']},'where':{'type':'object'},'on':{'type':"
    "'boolean'}}}}},{'type':'function','function':{'name':'now'}}]";

static const char *member(serve_piece p, const char *name)
{
    return json_string_value(json_object_get(p.function, name));
}

/* Content as itself and calls as [NAME ARGUMENTS], with ' for \". step: bytes that come at once. */
static void read_all(const json_t *tools, const char *text, size_t step, char *out, size_t room)
{
    const size_t n = strlen(text);
    size_t done = 0, used = 0, seen = 0;
    int after = 0;
    out[0] = 0;
    for (size_t come = 0; come < n || done < n;) {
        come = come + step < n ? come + step : n;
        const int last = come == n;
        while (done < come) {
            const serve_piece p = serve_next_piece(tools, text + done, come - done, after, last, &seen);
            if (!p.used) break;
            used += (size_t)snprintf(out + used, room - used, "%.*s", (int)p.content, text + done);
            if (p.function)
                used += (size_t)snprintf(out + used, room - used, "[%s %s]", member(p, "name"), member(p, "arguments"));
            done += p.used;
            after = p.function != NULL;
            json_decref(p.function);
        }
        if (last) break;
    }
    for (char *c = out; *c; c++)
        if (*c == '"') *c = '\'';
}

/* A long call that comes byte by byte is not read from its beginning at each. */
static void test_long_call(const json_t *tools)
{
    enum { N = 100000 };
    static const char begin[] = "<tool_call><function=weather><parameter=city>",
                      end[] = "</parameter></function></tool_call>";
    char *const text = calloc(1, N + sizeof begin + sizeof end);
    size_t seen = 0, n_read = 0, n;
    if (!text) return;
    n = strlen(strcpy(text, begin));
    memset(text + n, '>', N);
    n = strlen(strcat(text, end));
    serve_piece p = { 0 };
    for (size_t come = 1; come <= n; come++) {
        p = serve_next_piece(tools, text, come, 0, 0, &seen);
        n_read += seen == come;
        REQUIRE(!p.used == (come < n), "nothing before its end: %d of %d", (int)come, (int)n);
    }
    REQUIRE(n_read > 0 && n_read < 200, "%d bytes are read %d times", (int)n, (int)n_read);
    REQUIRE(p.function && strlen(member(p, "arguments")) > N, "its end");
    json_decref(p.function);
    (void)serve_next_piece(tools, text, n - 3, 0, 0, &seen);
    p = serve_next_piece(tools, text, n, 0, 0, &seen);
    REQUIRE(p.function != NULL, "a mark that comes in two parts");
    json_decref(p.function);
    free(text);
}

/* What can be no call is content at once, not only when the text ends. */
static void test_content_at_once(const json_t *tools)
{
    static const char *const texts[] = { "<tool_call> first", "<tool_call>{\"name\": \"other\"}</tool_call>",
                                         "<tool_call><function=other></function></tool_call>" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t seen = 0;
        const serve_piece p = serve_next_piece(tools, texts[i], strlen(texts[i]), 0, 0, &seen);
        REQUIRE(p.used && p.content == p.used && !p.function, "%s", texts[i]);
    }
}

/* A text with ' for \". */
static json_t *json_of(const char *text)
{
    char copy[1024];
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    return json_loads(copy, JSON_DECODE_ANY, NULL);
}

/* Which values are strings, by the schema of the argument. */
static void test_kinds(void)
{
    static const char defs[] =
        "{'Kind': {'enum': ['1', '2']}, 'a/b~c': {'type': 'string'}, 'Row': {'type': 'array'}, 'Loop': {'$ref': "
        "'#/$defs/Loop'}, 'Many': {'anyOf': [{'$ref': '#/$defs/Many'}, {'$ref': '#/$defs/Many'}, {'$ref': "
        "'#/$defs/Many'}, {'$ref': '#/$defs/Many'}, {'$ref': '#/$defs/Many'}]}}";
    static const struct {
        const char *schema, *value, *expected;
    } cases[] = {
        { "{'type': 'string'}", "12", "'12'" },
        { "{'type': 'STRING'}", "12", "'12'" },
        { "{'type': 'str'}", "12", "'12'" },
        { "{'type': 'integer'}", "12", "12" },
        { "{'type': 'any'}", "12", "12" },
        { "{}", "12", "12" },
        { "true", "12", "12" },
        { "{'type': 'integer'}", "twelve", "'twelve'" },
        { "{'type': 'string'}", "{'a': 1}", "'{\\'a\\': 1}'" },
        { "{'type': ['string', 'null']}", "1.10", "'1.10'" },
        { "{'type': ['string', 'null']}", "None", "null" },
        { "{'type': ['string', 'array']}", "['a']", "['a']" },
        { "{'type': ['string', 'array']}", "null", "'null'" },
        { "{'type': 'string', 'nullable': true}", "null", "null" },
        { "{'type': 'string', 'nullable': true}", "true", "'true'" },
        { "{'anyOf': [{'type': 'string'}, {'type': 'null'}]}", "123", "'123'" },
        { "{'anyOf': [{'type': 'string'}, {'type': 'null'}]}", "null", "null" },
        { "{'anyOf': [{'type': 'null'}, {'type': 'string'}]}", "{'a': 1}", "'{\\'a\\': 1}'" },
        { "{'anyOf': [{'type': 'string'}, {'type': 'object'}]}", "{'a': 1}", "{'a': 1}" },
        { "{'anyOf': [{'type': 'integer'}, {'type': 'null'}]}", "5", "5" },
        { "{'oneOf': [{'type': 'string'}, {'type': 'integer'}]}", "2024", "'2024'" },
        { "{'allOf': [{'type': 'string'}, {'minLength': 1}]}", "1", "'1'" },
        { "{'allOf': [{'type': ['string', 'integer']}, {'type': 'integer'}]}", "1", "1" },
        { "{'enum': ['1', '2']}", "1", "'1'" },
        { "{'enum': [1, 2]}", "1", "1" },
        { "{'enum': ['1', null]}", "null", "null" },
        { "{'const': '7'}", "7", "'7'" },
        { "{'const': 7}", "7", "7" },
        { "{'$ref': '#/$defs/Kind'}", "1", "'1'" },
        { "{'$ref': '#/$defs/a~1b~0c'}", "1", "'1'" },
        { "{'$ref': '#/properties/q/anyOf/1'}", "1", "'1'" },
        { "{'$ref': '#/$defs/Row'}", "[1]", "[1]" },
        { "{'anyOf': [{'$ref': '#/$defs/Kind'}, {'type': 'null'}]}", "1", "'1'" },
        { "{'$ref': '#/$defs/None'}", "1", "1" },
        { "{'$ref': 'https://example.org/string'}", "1", "1" },
        { "{'$ref': '#/$defs/Loop'}", "1", "1" },
        { "{'$ref': '#/$defs/Many'}", "1", "1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        size_t seen = 0;
        json_t *const q = json_of("{'anyOf': [{'type': 'null'}, {'type': 'string'}]}");
        json_t *const value = json_of(cases[i].value), *const expected = json_of(cases[i].expected);
        char *const written = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL; /* with \", or the words as they are */
        const int length =
            snprintf(text, sizeof text, "<tool_call><function=f><parameter=p>%s</parameter></function></tool_call>",
                     json_is_array(value) || json_is_object(value) ? written : cases[i].value);
        json_t *const tools = json_pack("[{s:{s:s, s:{s:{s:o, s:o}, s:o}}}]", "function", "name", "f", "parameters",
                                        "properties", "p", json_of(cases[i].schema), "q", q, "$defs", json_of(defs));
        const serve_piece p = serve_next_piece(tools, text, (size_t)length, 0, 1, &seen);
        json_t *const arguments = json_loads(p.function ? member(p, "arguments") : "", 0, NULL);
        REQUIRE(expected && json_equal(json_object_get(arguments, "p"), expected), "%s: %s is %s", cases[i].schema,
                cases[i].value, p.function ? member(p, "arguments") : "no call");
        json_decref(p.function);
        json_decref(arguments);
        json_decref(tools);
        json_decref(value);
        json_decref(expected);
        free(written);
    }
}

int main(void)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { "", "" },
        { "No call. \n", "No call. \n" },
        { "a < b <tool_cal", "a < b <tool_cal" },
        { "<tool_call>\n{'name': 'now', 'arguments': {}}\n</tool_call>", "[now {}]" },
        { "Let me see.\n\n<tool_call>{'name': 'weather', 'arguments': {'city': 'Par\\'is }', 'days': 3, 'x': 0.1}}"
          "</tool_call>\n",
          "Let me see.[weather {'city': 'Par\\'is }', 'days': 3, 'x': 0.1}]" },
        { "<tool_call>\n{'arguments': {'city': '</tool_call>'}, 'name': 'weather'}\n</tool_call>\n<tool_call>\n"
          "{'name': 'now', 'arguments': {}}\n</tool_call> Done. ",
          "[weather {'city': '</tool_call>'}][now {}] Done. " },
        { "\n<tool_call>\n<function=weather>\n<parameter=city>\nS\303\243o\nPaulo\n</parameter>\n<parameter=days>\n2\n"
          "</parameter>\n<parameter=where>\n{'a': [1, 2.5]}\n</parameter>\n<parameter=on>\ntrue\n</parameter>\n"
          "</function>\n</tool_call>",
          "[weather {'city': 'S\303\243o\\nPaulo', 'days': 2, 'where': {'a': [1, 2.5]}, 'on': true}]" },
        { "<tool_call><function=weather><parameter=city>12</parameter><parameter=days>soon</parameter><parameter=note>"
          "null</parameter></function></tool_call>",
          "[weather {'city': '12', 'days': 'soon', 'note': null}]" },
        { "<tool_call>\n<function=now>\n</function>\n</tool_call>", "[now {}]" },
        { "<tool_call><function=weather><parameter=on>True</parameter><parameter=days>None</parameter><parameter=where>"
          "False</parameter><parameter=city>None</parameter><parameter=note>True</parameter></function></tool_call>",
          "[weather {'on': true, 'days': null, 'where': false, 'city': 'None', 'note': 'True'}]" },
        { "<tool_call><function=weather><parameter=city></tool_call></parameter></function></tool_call>",
          "[weather {'city': '</tool_call>'}]" },
        /* what is no call is content */
        { "<tool_call>\n{'name': 'other', 'arguments': {}}\n</tool_call> ",
          "<tool_call>\n{'name': 'other', 'arguments': {}}\n</tool_call> " },
        { "<tool_call>{'name': 'now', 'arguments': '{}'}</tool_call>",
          "<tool_call>{'name': 'now', 'arguments': '{}'}</tool_call>" },
        { "<tool_call>{'name': 'now', 'arguments': {}}", "<tool_call>{'name': 'now', 'arguments': {}}" },
        { "<tool_call>{'name': 'now', 'arguments': {}} and", "<tool_call>{'name': 'now', 'arguments': {}} and" },
        { "<tool_call>{'name': 'now', 'arguments': {}, 'more': 1}</tool_call>",
          "<tool_call>{'name': 'now', 'arguments': {}, 'more': 1}</tool_call>" },
        { "<tool_call>{name: now}</tool_call>", "<tool_call>{name: now}</tool_call>" },
        { "<tool_call><function=other></function></tool_call>", "<tool_call><function=other></function></tool_call>" },
        { "<tool_call><function=weather><parameter=city>a", "<tool_call><function=weather><parameter=city>a" },
        { "<tool_call><function=weather><parameter=city>a</parameter><parameter=city>b</parameter></function>"
          "</tool_call>",
          "<tool_call><function=weather><parameter=city>a</parameter><parameter=city>b</parameter></function>"
          "</tool_call>" },
        /* a mark in prose, then a call */
        { "I write <tool_call> first. <tool_call>{'name': 'now', 'arguments': {}}</tool_call>",
          "I write <tool_call> first.[now {}]" },
        { "<tool_call><tool_call>{'name': 'now', 'arguments': {}}</tool_call></tool_call>",
          "<tool_call>[now {}]</tool_call>" },
    };
    char text[1024], out[2048];
    (void)snprintf(text, sizeof text, "%s", tools_json);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    json_t *const tools = json_loads(text, 0, NULL);
    REQUIRE(json_array_size(tools) == 2, "the tools");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "%s", cases[i].text);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        for (size_t step = 1; step <= strlen(text) + 1; step++) {
            read_all(tools, text, step, out, sizeof out);
            REQUIRE(!strcmp(out, cases[i].expected), "case %d in pieces of %d: %s", (int)i, (int)step, out);
        }
    }
    test_kinds();
    test_long_call(tools);
    test_content_at_once(tools);
    json_decref(tools);
    return test_summary();
}
