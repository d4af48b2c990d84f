/* JSON schemas: texts that are accepted byte by byte, the byte at which others are refused, refused schemas, and the
 * tokens of a mask. */
#include "tests/harness.h"
#include "gguf_build.h"
#include "runtime/base/error.h"
#include "runtime/schema/mask.h"

static rt_schema *compiled(const char *schema)
{
    rt_schema *s;
    NEED(!rt_schema_compile(schema, strlen(schema), &s), "%s", schema);
    return s;
}

/* Feeds a text in one piece and by single bytes. Returns the first byte that is refused; its length: none is. */
static uint64_t feed(const char *schema, const char *text, int *complete)
{
    rt_schema *const s = compiled(schema);
    rt_schema_state *const whole = rt_schema_begin(s, 0), *const bytes = rt_schema_begin(s, 0);
    uint64_t n = 0;
    NEED(whole && bytes);
    const uint64_t at = rt_schema_feed(whole, text, strlen(text));
    while (n < strlen(text) && rt_schema_feed(bytes, text + n, 1)) n++;
    REQUIRE(n == at, "%s: %d and %d", text, (int)n, (int)at);
    *complete = rt_schema_complete(bytes);
    REQUIRE(rt_schema_complete(whole) == *complete);
    rt_schema_end(whole);
    rt_schema_end(bytes);
    rt_schema_free(s);
    return at;
}

/* The text is accepted, and is complete at its end only, but for numbers. */
static void accepts(const char *schema, const char *text)
{
    int complete;
    const uint64_t at = feed(schema, text, &complete);
    REQUIRE(at == strlen(text) && complete, "%s: %s at %d", schema, text, (int)at);
}

/* The text is refused at this byte. at == its length: it is not complete. */
static void refuses(const char *schema, const char *text, uint64_t at)
{
    int complete;
    const uint64_t found = feed(schema, text, &complete);
    REQUIRE(found == at && (at < strlen(text) || !complete), "%s: %s at %d", schema, text, (int)found);
}

static void objects(void)
{
    static const char s[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":\"boolean\"},"
        "\"b\":{\"type\":\"null\"}},\"required\":[\"ab\"]}";
    accepts(s, "{\"a\":1,\"ab\":true,\"b\":null}");
    accepts(s, "{\"ab\": false}");
    accepts(s, "{\"a\": -20, \"ab\": true}");
    accepts(s, "{\"ab\":true,\"b\":null}");
    refuses(s, "{}", 1);
    refuses(s, "{\"b\":null}", 2);
    refuses(s, "{\"a\":1}", 6);
    refuses(s, "{\"ab\":true,\"a\":1}", 12);
    refuses(s, "{\"ab\":true,}", 11);
    refuses(s, "{\"ab\":true,  \"b\":null}", 12);
    refuses(s, "{\"ab\":true, }", 12);
    refuses(s, "{\"ab\" :true}", 5);
    refuses(s, " {\"ab\":true}", 0);
    refuses(s, "{\"ab\":true} ", 11);
    refuses(s, "{\"ab\":true", 10);
    refuses(s, "{\"ab\":1}", 6);
    refuses(s, "{\"abc\":1}", 4);
    static const char open[] = "{\"properties\":{\"x\":{\"type\":\"integer\"},\"xy\":{\"type\":\"integer\"}},"
                               "\"additionalProperties\":{\"type\":\"string\"}}";
    accepts(open, "{}");
    accepts(open, "{\"x\":1,\"xyz\":\"s\"}");
    accepts(open, "{\"xy\":1,\"\":\"\",\"z\":\"\"}");
    accepts(open, "{\"\xc3\xa9\":\"\"}");
    refuses(open, "{\"x\":\"s\"}", 5);
    refuses(open, "{\"xy\":1,\"x\":1}", 10); /* the name is another property's */
    refuses(open, "{\"z\":\"\",\"x\":\"\"}", 10);
    refuses(open, "{\"z\":1}", 5);
    refuses(open, "{\"\\u0078\":\"s\"}", 2);
    refuses(open, "{\"\xc3\":\"\"}", 3);
    accepts("{\"type\":\"object\"}", "{\"a\":[1,{\"b\":null}],\"c\":\"\"}");
    refuses("{\"type\":\"object\"}", "[]", 0);
    accepts("{\"properties\":{\"q\\\"\\n\":{}}}", "{\"q\\\"\\n\":1}");
    accepts("{\"properties\":{\"\\u00e9\":{}}}", "{\"\xc3\xa9\":1}");
    refuses("{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"b\"", 2);
    accepts("{\"properties\":{}}", "{}");
    refuses("{\"properties\":{}}", "{\"", 1);
}

static void arrays(void)
{
    static const char s[] = "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}";
    accepts(s, "[1]");
    accepts(s, "[1, 22,3]");
    refuses(s, "[]", 1);
    refuses(s, "[1,2,3,4]", 6);
    refuses(s, "[1,]", 3);
    refuses(s, "[ 1]", 1);
    refuses(s, "[1,\"a\"]", 3);
    static const char pair[] =
        "{\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"items\":false,\"minItems\":2}";
    accepts(pair, "[\"a\",1]");
    refuses(pair, "[\"a\"]", 4);
    refuses(pair, "[1]", 1);
    refuses(pair, "[\"a\",1,2]", 6);
    accepts("{\"prefixItems\":[{\"const\":1}]}", "[1,[],{}]");
    accepts("{\"type\":\"array\",\"maxItems\":0}", "[]");
    refuses("{\"type\":\"array\",\"maxItems\":0}", "[1]", 1);
}

static void scalars(void)
{
    static const char s[] = "{\"type\":\"string\"}", two[] = "{\"minLength\":2,\"maxLength\":3}";
    accepts(s, "\"\"");
    accepts(s, "\"a\\n\\u00e9\\\"\xf0\x9f\x98\x80\xe2\x82\xac\"");
    refuses(s, "\"\n\"", 1);
    refuses(s, "\"\\x\"", 2);
    refuses(s, "\"\\ud800\"", 4);
    accepts(s, "\"\\uD7ff\\u1d8f\"");
    refuses(s, "\"\xff", 1);
    refuses(s, "\"\xc3\"", 2);
    refuses(s, "\"\xe0\x80", 2);
    refuses(s, "\"\xed\xa0", 2);
    refuses(s, "\"\xf4\x90", 2);
    accepts(two, "\"ab\"");
    accepts(two, "\"\xc3\xa9\\n\xe2\x82\xac\"");
    refuses(two, "\"a\"", 2);
    refuses(two, "\"abcd", 4);
    refuses(two, "\"abc\\", 4);
    static const char number[] = "{\"type\":\"number\"}";
    static const char *const good[] = { "0", "-0", "12", "-3.25", "1e5", "0E-3", "6.02e+23" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) accepts(number, good[i]);
    refuses(number, "01", 1);
    refuses(number, "-", 1);
    refuses(number, "1.", 2);
    refuses(number, "1e", 2);
    refuses(number, "+1", 0);
    refuses(number, ".5", 0);
    refuses(number, "1234567890123456789", 18);
    refuses(number, "1e999", 4);
    static const char range[] = "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}";
    accepts(range, "-12");
    accepts(range, "105");
    accepts(range, "0");
    refuses(range, "106", 2);
    refuses(range, "11000", 2);
    refuses(range, "-13", 2);
    refuses(range, "-2.5", 2);
    static const char high[] = "{\"type\":\"integer\",\"exclusiveMinimum\":49,\"exclusiveMaximum\":61}";
    accepts(high, "50");
    accepts(high, "60");
    refuses(high, "4", 0);
    refuses(high, "5", 1);
    refuses(high, "61", 1);
    refuses(high, "0", 0);
    refuses(high, "-", 0);
    accepts("{\"type\":[\"string\",\"null\"]}", "null");
    accepts("{\"type\":[\"string\",\"null\"]}", "\"\"");
    refuses("{\"type\":[\"string\",\"null\"]}", "true", 0);
    accepts("{\"type\":\"boolean\"}", "true");
    refuses("{\"type\":\"boolean\"}", "null", 0);
    static const char some[] = "{\"enum\":[\"a\",\"ab\",1,12,{\"x\":[1,null]},\"\\u00e9\\n\"]}";
    static const char *const of[] = { "\"a\"", "\"ab\"", "1", "12", "{\"x\":[1,null]}", "\"\xc3\xa9\\n\"" };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) accepts(some, of[i]);
    refuses(some, "\"abc", 3);
    refuses(some, "13", 1);
    accepts("{\"type\":\"array\",\"items\":{\"enum\":[1,12]}}", "[1,12]");
    refuses("{\"type\":\"integer\",\"enum\":[\"a\",2]}", "\"", 0);
}

static void alternatives(void)
{
    static const char s[] =
        "{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
        "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{}},\"required\":[\"a\"]},{\"type\":\"null\"}]}";
    accepts(s, "{\"a\":1}");
    accepts(s, "{\"a\":\"x\",\"b\":[1]}");
    accepts(s, "null");
    refuses(s, "{\"a\":1,\"b\"", 6);
    refuses(s, "{\"a\":true", 5);
    static const char tree[] =
        "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
        "\"c\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},\"required\":[\"v\"]}}}";
    accepts(tree, "{\"v\":1,\"c\":[{\"v\":2},{\"v\":3,\"c\":[]}]}");
    refuses(tree, "{\"v\":1,\"c\":[{\"c\"", 14);
    static const char one[] =
        "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"x\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"k\",\"n\"]}"
        ","
        "{\"properties\":{\"k\":{\"const\":\"y\"}},\"required\":[\"k\"]},{\"type\":\"string\"},{\"enum\":[1,2]}]}";
    accepts(one, "{\"k\":\"x\",\"n\":4}");
    accepts(one, "{\"k\":\"y\"}");
    accepts(one, "2");
    refuses(one, "{\"k\":\"x\"}", 8);
    /* nesting ends at 64 levels, where a text can still be completed */
    char deep[80];
    memset(deep, '[', sizeof deep);
    deep[79] = 0;
    refuses("{}", deep, 64);
}

static void refused_schemas(void)
{
    static const struct {
        const char *schema, *text;
        gdn_status status;
    } list[] = {
        { "{\"type\":\"string\",\"pattern\":\"a\"}", "#/pattern is not supported", GDN_UNSUPPORTED },
        { "{\"properties\":{\"a\":{\"items\":{\"not\":{}}}}}", "#/properties/a/items/not", GDN_UNSUPPORTED },
        { "{\"anyOf\":[{},{\"multipleOf\":2}]}", "#/anyOf/1/multipleOf", GDN_UNSUPPORTED },
        { "{\"type\":\"number\",\"minimum\":1}", "#/minimum is not supported for numbers", GDN_UNSUPPORTED },
        { "{\"type\":\"integer\",\"minimum\":1.5}", "#/minimum", GDN_UNSUPPORTED },
        { "{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "minimum is above maximum", GDN_UNSUPPORTED },
        { "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "#/oneOf", GDN_UNSUPPORTED },
        { "{\"oneOf\":[{\"type\":\"object\"},{\"properties\":{\"a\":{}}}]}", "#/oneOf", GDN_UNSUPPORTED },
        { "{\"oneOf\":[{\"enum\":[1,\"a\"]},{\"enum\":[\"b\",\"a\"]}]}", "#/oneOf", GDN_UNSUPPORTED },
        { "{\"$ref\":\"#/x\"}", "#/$ref", GDN_UNSUPPORTED },
        { "{\"$ref\":\"#\"}", "alternative of itself", GDN_UNSUPPORTED },
        { "{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no valid value", GDN_UNSUPPORTED },
        { "{\"type\":\"object\",\"required\":[\"a\"]}", "#/required", GDN_UNSUPPORTED },
        { "{\"enum\":[]}", "no valid value", GDN_UNSUPPORTED },
        { "{\"minItems\":2,\"maxItems\":1}", "minItems", GDN_UNSUPPORTED },
        { "{\"minLength\":2,\"maxLength\":1}", "minLength", GDN_UNSUPPORTED },
        { "{\"type\":\"thing\"}", "#/type", GDN_INVALID_ARGUMENT },
        { "{\"anyOf\":[],\"title\":1}", "#/anyOf", GDN_INVALID_ARGUMENT },
        { "{\"const\":1,\"maximum\":1}", "#/maximum", GDN_UNSUPPORTED },
        { "{\"const\":1,\"enum\":[1]}", "#/enum", GDN_UNSUPPORTED },
        { "false", "# has no valid value", GDN_UNSUPPORTED },
        { "[1]", "# is not a schema", GDN_INVALID_ARGUMENT },
        { "{\"a\"", "not valid JSON at byte 4", GDN_INVALID_ARGUMENT },
        { "{} x", "not valid JSON at byte 3", GDN_INVALID_ARGUMENT },
        { "", "not valid JSON", GDN_INVALID_ARGUMENT },
        { "{\"properties\":[]}", "#/properties is not an object", GDN_INVALID_ARGUMENT },
        { "{\"properties\":{\"a\":{},\"a\":{}}}", "#/properties has a name twice", GDN_INVALID_ARGUMENT },
        { "{\"required\":1}", "#/required is not a list", GDN_INVALID_ARGUMENT },
        { "{\"prefixItems\":1}", "#/prefixItems is not a list", GDN_INVALID_ARGUMENT },
        { "{\"enum\":1}", "#/enum is not a list", GDN_INVALID_ARGUMENT },
        { "{\"type\":1}", "#/type is not a type", GDN_INVALID_ARGUMENT },
        { "{\"anyOf\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "more than 16 alternatives", GDN_UNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        rt_schema *s;
        FAILS(rt_schema_compile(list[i].schema, strlen(list[i].schema), &s), list[i].status, list[i].text);
        REQUIRE(!s);
    }
}

/* A schema that is too long or nests too deeply, and references that are too many one after another. */
static void limits(void)
{
    enum { N = 600 };
    static char text[RT_SCHEMA_MAX + 2];
    rt_schema *s;
    memset(text, ' ', sizeof text);
    memcpy(text, "{}", 2);
    REQUIRE(!rt_schema_compile(text, RT_SCHEMA_MAX, &s));
    rt_schema_free(s);
    FAILS(rt_schema_compile(text, RT_SCHEMA_MAX + 1, &s), GDN_INVALID_ARGUMENT, "1048577 bytes; 1048576 are allowed");
    memset(text, '[', 129);
    FAILS(rt_schema_compile(text, 129, &s), GDN_UNSUPPORTED, "nested too deeply at byte 128");
    FAILS(rt_schema_compile(text, 127, &s), GDN_INVALID_ARGUMENT, "not valid JSON at byte 127");
    for (int n = 400; n <= N; n += 200) {
        char *to = text + sprintf(text, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
        for (int i = 0; i < n; i++) to += sprintf(to, "\"%d\":{\"$ref\":\"#/$defs/%d\"},", i, i + 1);
        to += sprintf(to, "\"%d\":{}}}", n);
        if (n == N) FAILS(rt_schema_compile(text, (uint64_t)(to - text), &s), GDN_UNSUPPORTED, "nested too deeply");
        else REQUIRE(!rt_schema_compile(text, (uint64_t)(to - text), &s));
        rt_schema_free(s);
    }
}

/* ---- Calls of tools ---- */

static const char tools[] =
    "{\"tools\":[{\"name\":\"get\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
    "\"maxLength\":12},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"unit\":{\"enum\":[\"C\",\"F\"]}},"
    "\"required\":[\"city\",\"unit\"]}},{\"name\":\"get_all\",\"parameters\":{\"properties\":{}}},{\"name\":\"any\"},"
    "{\"name\":\"say\",\"parameters\":{\"properties\":{\"t\":{\"type\":\"string\"}}}},"
    "{\"name\":\"odd\",\"parameters\":{\"properties\":{\"x\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\"}]}}}"
    "}]}";

/* A text of calls is accepted; or one byte more is not, and this text is not complete. more 0: the end. */
static void calls_of(const char *schema, int flags, const char *text, char more)
{
    rt_schema *s;
    NEED(!rt_schema_compile_calls(schema, strlen(schema), flags, &s));
    rt_schema_state *const state = rt_schema_begin(s, 0);
    uint64_t n = 0;
    while (n < strlen(text) && rt_schema_feed(state, text + n, 1)) n++;
    REQUIRE(n == strlen(text), "flags %d: %s at %d of %d", flags, text, (int)n, (int)strlen(text));
    REQUIRE(rt_schema_complete(state) == !more && (!more || !rt_schema_feed(state, &more, 1)), "flags %d: %s", flags,
            text);
    rt_schema_end(state);
    rt_schema_free(s);
}

#define GET     "<tool_call>\n<function=get>\n"
#define CITY    GET "<parameter=city>\n"
#define GET_ALL "<tool_call>\n<function=get_all>\n</function>\n</tool_call>"

static void calls_in_tags(void)
{
    enum { TAGS = RT_CALLS_TAGS, FORCED = TAGS | RT_CALLS_FORCED, MANY = FORCED | RT_CALLS_SEVERAL };
    calls_of(tools, FORCED,
             CITY "K\xc3\xb6ln\n</parameter>\n<parameter=unit>\nC\n</parameter>\n</function>\n</tool_call>", 0);
    calls_of(tools, FORCED, GET_ALL, 0);
    calls_of(tools, MANY, GET_ALL "\n" GET_ALL, 0);
    calls_of(tools, FORCED, "", 'I');
    calls_of(tools, FORCED, "<tool_call>\n<function=", 'o' + 1);
    calls_of(tools, FORCED, GET "<", '/');
    calls_of(tools, FORCED, GET "<parameter=", 'u');
    calls_of(tools, FORCED, CITY "\n</parameter>\n<", '/');
    calls_of(tools, FORCED, CITY "0123456789<x", 'y');
    calls_of(tools, FORCED, CITY "a</parameter", '>');
    calls_of(tools, FORCED, "<tool_call>\n<function=say>\n<parameter=t>\na</paramet</parameter", '>');
    calls_of(tools, FORCED, "<tool_call>\n<function=say>\n<parameter=t>\na\n</parameter>\n", 'b');
    calls_of(tools, FORCED, CITY "\n</parameter>\n<parameter=days>\n1", '0');
    calls_of(tools, FORCED, CITY "\n</parameter>\n<parameter=unit>\n", 'K');
    calls_of(tools, FORCED, "<tool_call>\n{\"name\": \"any\", \"arguments\": {\"a\": [1]}}\n</tool_call>", 0);
    calls_of(tools, FORCED, "<tool_call>\n{\"name\": \"odd\", \"arguments\": {\"x\":[\"<\\/\"]}}\n</tool_call>", 0);
    calls_of(tools, FORCED, "<tool_call>\n{\"name\": \"odd\", \"arguments\": {\"x\":[\"<", '/');
    /* free text with calls */
    calls_of(tools, TAGS, "", 0);
    calls_of(tools, TAGS, "a <tool_cal<tool_x> \xff", 0);
    calls_of(tools, TAGS, "It is\n<tool_call>", 'x');
    calls_of(tools, TAGS, "It is\n<tool_call>\n<function=g", 'o');
    calls_of(tools, TAGS, "<tool_call>\n<function=any>x</function>\n</tool_call> and " GET_ALL "." GET_ALL "<tool_call",
             0);
}

static void calls_as_json(void)
{
    enum { FORCED = RT_CALLS_FORCED };
    static const char get[] = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"</parameter>\", "
                              "\"unit\": \"F\"}}\n</tool_call>";
    calls_of(tools, FORCED, get, 0);
    calls_of(tools, 0, get, 0);
    calls_of(tools, FORCED, "<tool_call>\n{\"name\": \"get\", \"arguments\": {", '}');
    calls_of(tools, FORCED, "<tool_call>\n{\"name\": \"get_all\", \"arguments\": {}}\n</tool_call>", 0);
    calls_of(tools, FORCED, "", '{');
    static const char either[] = "{\"tools\":[{\"name\":\"a\"}],\"format\":{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":"
                                 "{\"type\":\"integer\"}}}}";
    calls_of(either, FORCED, "12", 0);
    calls_of(either, FORCED, "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"b\":1}}\n</tool_call>", 0);
    calls_of(either, FORCED, "", '"');
}

static void refused_calls(void)
{
    static const struct {
        const char *schema, *text;
        gdn_status status;
    } list[] = {
        { "{\"tools\":[]}", "needs 1 to 1024 tools", GDN_INVALID_ARGUMENT },
        { "{\"tools\":[{\"parameters\":{}}]}", "#/tools/0 has no name", GDN_INVALID_ARGUMENT },
        { "{\"tools\":[{\"name\":\"a\",\"parameters\":{\"properties\":{\"b\":{\"pattern\":\"x\"}}}}]}",
          "#/tools/0/parameters/properties/b/pattern is not supported", GDN_UNSUPPORTED },
        { "{\"tools\":[{\"name\":\"a\",\"parameters\":{\"type\":\"array\"}}]}", "does not describe an object",
          GDN_UNSUPPORTED },
        { "{\"tools\":[{\"name\":\"a\"}],\"format\":{}}", "no format unless", GDN_INVALID_ARGUMENT },
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        rt_schema *s;
        FAILS(rt_schema_compile_calls(list[i].schema, strlen(list[i].schema), 0, &s), list[i].status, list[i].text);
        REQUIRE(!s);
    }
}

/* The mask has the tokens that rt_mask_allows() allows, and no other. A random walk does not get stuck. */
static void walk(const rt_tokenizer *t, rt_mask *mask, int32_t n_vocab, const rt_schema *s, int thinks)
{
    rt_schema_state *const state = rt_schema_begin(s, thinks);
    for (int step = 0; step < 40; step++) {
        int32_t n, at = 0, end = -1;
        if (thinks && step == 3) REQUIRE(rt_schema_feed(state, "</thi</think>\n", 14) == 14);
        REQUIRE(rt_schema_thinks(state) == (thinks && step < 3));
        const int32_t *const allowed = rt_mask_tokens(mask, state, 1, &n);
        NEED(n > 0, "a text can always go on or end");
        for (int32_t id = 0; id < n_vocab; id++) {
            const int is = at < n && allowed[at] == id;
            at += is;
            REQUIRE(is == rt_mask_allows(mask, state, id), "token %d", (int)id);
            if (rt_tokenizer_is_end(t, id)) {
                end = id;
                REQUIRE(is == rt_schema_complete(state));
            } else if (rt_schema_thinks(state)) REQUIRE(is == (rt_token_bytes(t, id).bytes > 0));
            else if (is) REQUIRE(!rt_token_is_added(t, id) && rt_token_bytes(t, id).bytes);
        }
        REQUIRE(at == n && end >= 0);
        const int32_t token = allowed[draw_below(n)];
        if (rt_tokenizer_is_end(t, token)) break;
        rt_mask_take(mask, state, token);
    }
    rt_schema_end(state);
}

static void masks(const char *folder)
{
    static const char schema[] =
        "{\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":\"array\",\"items\":{\"type\":"
        "\"number\"}}},\"required\":[\"name\"]}";
    char path[1024];
    rt_gguf *file;
    rt_tokenizer *t;
    rt_mask *mask;
    (void)snprintf(path, sizeof path, "%s/../../models/kjv-small-q8_0.gguf", folder);
    NEED(!rt_gguf_open(path, NULL, &file) && !rt_tokenizer_create(file, NULL, &t));
    const int32_t n_vocab = rt_tokenizer_n_tokens(t) + 3;
    NEED(!rt_mask_create(t, n_vocab, &mask));
    rt_schema *const s = compiled(schema);
    for (int round = 0; round < 20; round++) walk(t, mask, n_vocab, s, round & 1);
    rt_schema_free(s);
    rt_mask_destroy(mask);
    rt_tokenizer_destroy(t);
    rt_gguf_close(file);
}

/* The token of a call's mark is allowed where a call may begin, and not in strings. */
static void marks(void)
{
    enum { MARK = BUILD_IM_END_X };
    static gguf_build built;
    rt_gguf *file;
    rt_tokenizer *t;
    rt_mask *mask;
    int32_t n;
    build_vocabulary(&built, "qwen2");
    for (size_t i = 0; i + 11 <= built.n; i++)
        if (!memcmp(built.bytes + i, "<|im_end|>x", 11)) memcpy(built.bytes + i, "<tool_call>", 11);
    NEED(!rt_gguf_open_memory(built.bytes, built.n, NULL, &file) && !rt_tokenizer_create(file, NULL, &t));
    NEED(!rt_mask_create(t, BUILD_N_TOKENS, &mask));
    for (int forced = 0; forced < 2; forced++) {
        rt_schema *s;
        NEED(!rt_schema_compile_calls(tools, strlen(tools), forced ? RT_CALLS_FORCED : 0, &s));
        rt_schema_state *const state = rt_schema_begin(s, 0);
        const int32_t *const allowed = rt_mask_tokens(mask, state, 1, &n);
        if (forced) REQUIRE(n == 2 && allowed[0] == '<' && allowed[1] == MARK, "%d tokens", (int)n);
        else REQUIRE(n == BUILD_N_TOKENS, "any token: %d", (int)n);
        REQUIRE(rt_mask_allows(mask, state, MARK) && rt_schema_complete(state) == !forced);
        rt_mask_take(mask, state, MARK);
        REQUIRE(*rt_mask_tokens(mask, state, 1, &n) == '\n' && n == 1 && !rt_mask_allows(mask, state, MARK));
        rt_schema_end(state);
        rt_schema_free(s);
    }
    rt_schema *const s = compiled("{\"type\":\"string\"}");
    rt_schema_state *const state = rt_schema_begin(s, 0);
    REQUIRE(rt_schema_feed(state, "\"", 1) == 1 && !rt_mask_allows(mask, state, MARK));
    (void)rt_mask_tokens(mask, state, 1, &n);
    REQUIRE(n < MARK, "a string: %d tokens", (int)n);
    REQUIRE(rt_mask_tokens(mask, NULL, 1, &n)[MARK] == MARK && n == BUILD_N_TOKENS);
    (void)rt_mask_tokens(mask, NULL, 0, &n);
    REQUIRE(n == BUILD_N_TOKENS - 2, "without end tokens: %d", (int)n);
    rt_schema_end(state);
    rt_schema_free(s);
    rt_mask_destroy(mask);
    rt_tokenizer_destroy(t);
    rt_gguf_close(file);
}

/* Goes on by a random byte that is allowed, rather one that ends a value after many. 0: none is. */
static int random_byte(rt_schema_state *state, int step)
{
    for (int i = 0; i < 100 + 256; i++) {
        const int printable = draw_below(3) > 0, random = printable ? 32 + draw_below(95) : draw_below(256);
        const char c = (char)(i >= 100 ? i - 100 : step > 100 && i < 40 ? "\"]}0,:"[draw_below(6)] : random);
        if (!rt_schema_feed(state, &c, 1)) continue;
        (void)putchar(c);
        return 1;
    }
    return 0;
}

/* For programs that validate by other means: random texts of a schema, one a line. A text that cannot be completed, or
 * is not after 4000 bytes, ends with what it is. */
static int write_random(const char *path, int n)
{
    size_t bytes;
    unsigned char *const text = test_file("/", path, &bytes);
    rt_schema *s;
    const gdn_status status = rt_schema_compile((const char *)text, bytes, &s);
    free(text);
    if (status) {
        (void)fprintf(stderr, "%s\n", rt_last_error());
        return 3;
    }
    for (int i = 0; i < n; i++) {
        rt_schema_state *const state = rt_schema_begin(s, 0);
        int goes_on = 1;
        for (int step = 0; goes_on && step < 4000 && !(rt_schema_complete(state) && draw_below(4) == 0); step++)
            goes_on = random_byte(state, step);
        (void)puts(rt_schema_complete(state) ? "" : goes_on ? " LONG" : " STUCK");
        rt_schema_end(state);
    }
    rt_schema_free(s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        test_seed = (uint64_t)atoll(argv[3]);
        return write_random(argv[1], atoi(argv[2]));
    }
    objects();
    arrays();
    scalars();
    alternatives();
    refused_schemas();
    limits();
    calls_in_tags();
    calls_as_json();
    refused_calls();
    marks();
    masks(argc > 1 ? argv[1] : "tests/runtime");
    return test_summary();
}
