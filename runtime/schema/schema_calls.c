/* Compiles calls of tools to rules. docs/reference/json-schema.md has the two forms, in tags and as JSON. A value in
 * tags is text as it is where the schema allows a string, and JSON elsewhere. See schema_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/schema/schema_internal.h"

enum { RULE_ANY_OBJECT = 4, MOST_ALTERNATIVES = 64 };

static rt_string text_of(const char *text) { return (rt_string){ text, strlen(text) }; }

/* Keeps three texts, one after another. */
static rt_string joined(compiler *c, const char *before, rt_string text, const char *after)
{
    char *to = c->end;
    memcpy(to, before, strlen(before));
    to += strlen(before);
    memcpy(to, text.text, (size_t)text.bytes);
    to += text.bytes;
    memcpy(to, after, strlen(after));
    return schema_add_text(c, to + strlen(after));
}

static int has(rt_string text, const char *what)
{
    const size_t n = strlen(what);
    for (uint64_t i = 0; i + n <= text.bytes; i++)
        if (!memcmp(text.text + i, what, n)) return 1;
    return 0;
}

/* A rule of cases, which has no parts yet. */
static int32_t add_cases(compiler *c, const char *end, int32_t height, int32_t node)
{
    const int32_t at = schema_add_rule(c, RULE_CASES, node);
    c->schema->rule[at].text = text_of(end);
    c->schema->rule[at].height = height + 1;
    return at;
}

/* A value between two texts. */
static int32_t add_between(compiler *c, const char *before, int32_t rule_at, const char *after, int32_t node)
{
    const int32_t at = add_cases(c, after, c->schema->rule[rule_at].height, node);
    *schema_add_parts(c, at, 1) = (rule_part){ text_of(before), rule_at, 1, 1 };
    return at;
}

static int32_t add_plain_text(compiler *c, const char *not_in, int32_t node)
{
    const int32_t at = schema_add_rule(c, RULE_TEXT, node);
    c->schema->rule[at].text = text_of(not_in);
    c->schema->rule[at].height = 1;
    return at;
}

/* ---- Arguments in tags. These return -1 if the arguments cannot be written so ---- */

/* What a rule allows. */
typedef struct kinds {
    int32_t string, literal; /* rule of strings, of literals that are strings; -1: none */
    int others, compound;    /* values that are no strings; arrays or objects           */
    int left;
} kinds;

static void find_kinds(const rt_schema *s, int32_t at, kinds *k)
{
    const rule *const r = &s->rule[at];
    const rule_part *const part = s->part + r->part;
    if (--k->left < 0) k->compound = 1;
    if (r->kind == RULE_STRING) k->string = at;
    k->compound |= r->kind == RULE_ARRAY || r->kind == RULE_OBJECT;
    k->others |= r->kind == RULE_INTEGER || r->kind == RULE_NUMBER;
    for (int32_t i = 0; r->kind == RULE_UNION && k->left >= 0 && i < r->n; i++) find_kinds(s, part[i].rule, k);
    for (int32_t i = 0; r->kind == RULE_LITERALS && i < r->n; i++) {
        const char first = part[i].text.text[0];
        if (first == '"') k->literal = k->literal >= 0 && k->literal != at ? -2 : at;
        else if (first == '[' || first == '{') k->compound = 1;
        else k->others = 1;
    }
}

/* The strings among a rule's literals, without their quotes. A rule of literals has it as `more`. */
static int32_t add_words(compiler *c, int32_t of, int32_t node)
{
    const rule from = c->schema->rule[of];
    if (from.more >= 0) return from.more;
    const int32_t at = schema_add_rule(c, RULE_LITERALS, node);
    rule_part *const part = schema_add_parts(c, at, from.n);
    rule *const r = &c->schema->rule[at];
    r->n = 0;
    r->height = 1;
    for (int32_t i = 0; i < from.n; i++) {
        const rt_string text = c->schema->part[from.part + i].text;
        if (text.text[0] != '"') continue;
        if (text.bytes == 2 || memchr(text.text, '\\', (size_t)text.bytes) || has(text, "</")) return -1;
        part[r->n++].text = (rt_string){ text.text + 1, text.bytes - 2 };
    }
    c->schema->rule[of].more = at;
    return at;
}

/* A value in a tag. Where strings are allowed a value is one, but for null, arrays and objects: those who read calls
 * cannot tell otherwise. */
static int32_t value_in_tag(compiler *c, int32_t of, int32_t node)
{
    const rt_schema *const s = c->schema;
    kinds k = { -1, -1, 0, 0, MOST_ALTERNATIVES };
    const rule *const r = schema_plain(s, of);
    const int any = r == &s->rule[RULE_ANY];
    if (!any) find_kinds(s, of, &k);
    if (!any && k.string < 0 && k.literal == -1) return of;
    if (!any && (k.compound || k.literal == -2)) return -1;
    if (!any && k.string < 0) return add_words(c, k.literal, node);
    const int32_t at = add_plain_text(c, "</parameter>", node);
    if (any) return at;
    s->rule[at].least = s->rule[k.string].least;
    s->rule[at].most = s->rule[k.string].most;
    return at;
}

/* The parameters of a function, and its end. */
static int32_t arguments_in_tags(compiler *c, int32_t of, int32_t node)
{
    const rule object = *schema_plain(c->schema, of);
    const int32_t at = add_cases(c, "\n</parameter>\n", object.height, node);
    rule_part *const part = schema_add_parts(c, at, object.n + 1);
    for (int32_t i = 0; i < object.n; i++) {
        const rule_part *const p = &c->schema->part[object.part + i];
        const int32_t value = value_in_tag(c, p->rule, node);
        if (value < 0 || !p->text.bytes || has(p->text, "\\") || has(p->text, ">")) return -1;
        part[i] = (rule_part){ joined(c, "<parameter=", p->text, ">\n"), value, p->required, i + 1 };
    }
    part[object.n] = (rule_part){ text_of("</function>"), -1, 1, object.n + 1 };
    return at;
}

/* ---- Tools ---- */

/* The rule of a tool's arguments; -1: any. */
static int32_t arguments_of(compiler *c, int32_t tool)
{
    const int32_t at = json_member(&c->json, tool, "parameters");
    if (at < 0) return -1;
    c->root = at;
    const int32_t of = schema_rule(c, at);
    if (c->status) return 0;
    const rule *const r = schema_plain(c->schema, of);
    if (r == &c->schema->rule[RULE_ANY] || (r->kind == RULE_OBJECT && !r->n && r->more == RULE_ANY)) return -1;
    return r->kind == RULE_OBJECT ? of : schema_refuse(c, GDN_UNSUPPORTED, at, "does not describe an object");
}

/* What follows a tool's mark: the text that names it, and its arguments. */
static void add_tool(compiler *c, int32_t tool, int32_t arguments, int flags, rule_part *to)
{
    const int32_t at = json_member(&c->json, tool, "name");
    char *const begin = c->end;
    const rt_string plain = c->json.node[at].text, name = schema_add_text(c, json_write_string(plain, begin));
    const int in_tags = flags & RT_CALLS_TAGS && name.bytes == plain.bytes && !has(name, ">");
    int32_t rule_at = -1;
    if (in_tags && arguments >= 0) {
        rule_at = arguments_in_tags(c, arguments, tool);
        to->text = joined(c, "\n<function=", name, ">\n");
    } else if (in_tags && !(flags & RT_CALLS_FORCED)) {
        rule_at = add_between(c, ">", add_plain_text(c, "</function>", tool), "</function>", tool);
        to->text = joined(c, "\n<function=", name, "");
    }
    if (rule_at < 0) {
        rule_at = add_between(c, ", \"arguments\": ", arguments < 0 ? RULE_ANY_OBJECT : arguments, "}", tool);
        to->text = joined(c, "\n{\"name\": \"", name, "\"");
    }
    to->rule = rule_at;
}

void schema_add_calls(compiler *c, int flags)
{
    enum { MOST = 1024 };
    const int32_t list = json_member(&c->json, 0, "tools"), format = json_member(&c->json, 0, "format");
    const int32_t n = list < 0 ? 0 : c->json.node[list].n;
    int32_t arguments[MOST], tool = n ? c->json.node[list].child : -1;
    rt_schema *const s = c->schema;
    s->has_calls = 1;
    s->is_free = !(flags & RT_CALLS_FORCED);
    s->in_tags = (flags & RT_CALLS_TAGS) != 0;
    if (!n || n > MOST || (format >= 0 && s->is_free))
        (void)schema_refuse(c, GDN_INVALID_ARGUMENT, 0, "needs 1 to 1024 tools, and no format unless they are forced");
    for (int32_t i = 0; !c->status && i < n; i++, tool = c->json.node[tool].next) {
        const int32_t name = json_member(&c->json, tool, "name");
        if (name < 0 || c->json.node[name].kind != JSON_STRING || !c->json.node[name].text.bytes)
            (void)schema_refuse(c, GDN_INVALID_ARGUMENT, tool, "has no name");
        else arguments[i] = arguments_of(c, tool);
    }
    c->root = format;
    const int32_t other = format < 0 || c->status ? -1 : schema_rule(c, format);
    if (!c->status) schema_check_values(c);
    if (c->status) return;
    const int32_t tools = add_cases(c, "\n", 0, list);
    rule_part *const part = schema_add_parts(c, tools, n);
    tool = c->json.node[list].child;
    for (int32_t i = 0; i < n; i++, tool = c->json.node[tool].next) {
        add_tool(c, tool, arguments[i], flags, &part[i]);
        part[i].next = n;
        const int32_t height = s->rule[part[i].rule].height + 1;
        if (height > s->rule[tools].height) s->rule[tools].height = height;
    }
    const int several = flags & RT_CALLS_FORCED && flags & RT_CALLS_SEVERAL;
    s->root = add_cases(c, "</tool_call>", s->rule[tools].height, list);
    rule_part *const call = schema_add_parts(c, s->root, 1 + several);
    call[0] = (rule_part){ text_of(TOOL_MARK), tools, 1, 1 };
    if (several) call[1] = (rule_part){ text_of("\n" TOOL_MARK), tools, 0, 1 };
    if (s->rule[s->root].height >= SCHEMA_DEPTH)
        (void)schema_refuse(c, GDN_UNSUPPORTED, list, "has no valid call of less than 64 levels");
    if (other < 0) return;
    const int32_t either = schema_add_rule(c, RULE_UNION, 0), of[2] = { s->root, other };
    rule_part *const alternative = schema_add_parts(c, either, 2);
    for (int i = 0; i < 2; i++) alternative[i].rule = of[i];
    s->rule[either].height = 1;
    s->root = either;
}
