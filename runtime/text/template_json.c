/* JSON of chat templates: tools, tool calls and variables of the caller, and the filter tojson. See
 * template_internal.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/json.h"
#include "runtime/text/template_internal.h"

/* ---- Reading ---- */

/* Strings are the caller's, so they write no control token. `mark` says so, for any of them. */
typedef struct reader {
    tpl_run *run;
    json_text json;
    const unsigned char *mark;
} reader;

static tpl_value string_of(const reader *j, rt_string s)
{
    return tpl_characters((tpl_text){ s.text, j->mark, s.bytes });
}

/* A number with a fraction or an exponent, in the shortest form that Python prints. */
static tpl_value decimal(tpl_run *r, double x)
{
    char digits[40], made[48];
    int precision = 0, exponent;
    do (void)snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && ++precision < 17);
    exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) (void)snprintf(made, sizeof made, "%s", digits);
    else (void)snprintf(made, sizeof made, "%.*f", precision > exponent + 1 ? precision - exponent : 1, x);
    const size_t n = strlen(made);
    char *const text = tpl_memory(r, n + 1); /* tpl_true() reads to its end */
    if (text) memcpy(text, made, n);
    tpl_value v = tpl_characters((tpl_text){ text ? text : "", NULL, text ? n : 0 });
    v.kind = TPL_DECIMAL;
    return v;
}

static tpl_value number_of(const reader *j, rt_string text)
{
    char copy[512] = "";
    if (text.bytes < sizeof copy) memcpy(copy, text.text, (size_t)text.bytes);
    const double x = strtod(copy, NULL);
    if (strpbrk(copy, ".eE") && isfinite(x)) return decimal(j->run, x);
    int64_t number = 0;
    int good = copy[0] && !strpbrk(copy, ".eE");
    for (const char *c = copy + (copy[0] == '-'); good && *c; c++)
        good = !__builtin_mul_overflow(number, 10, &number) && !__builtin_add_overflow(number, *c - '0', &number);
    if (!good) return tpl_refuse(j->run, "the number %.*s is too large", TPL_SHOWN(text.text, text.bytes));
    return tpl_integer(copy[0] == '-' ? -number : number);
}

static tpl_value value_of(const reader *j, int32_t at)
{
    const json_node *const node = &j->json.node[at];
    tpl_value all = { .kind = TPL_NONE };
    switch (node->kind) {
    case JSON_NULL: break;
    case JSON_FALSE:
    case JSON_TRUE: return tpl_bool(node->kind == JSON_TRUE);
    case JSON_NUMBER: return number_of(j, node->text);
    case JSON_STRING: return string_of(j, node->text);
    case JSON_LIST:
        all = tpl_list_of(j->run, (uint64_t)node->n);
        all.of.list.of_json = 1;
        at = node->child;
        for (uint64_t i = 0; i < all.of.list.n; i++, at = j->json.node[at].next) all.of.list.item[i] = value_of(j, at);
        break;
    case JSON_OBJECT:
        all.kind = TPL_MAPPING;
        all.of.map = tpl_memory(j->run, sizeof *all.of.map);
        for (at = node->child; at >= 0 && !j->run->status; at = j->json.node[at].next) {
            const tpl_value key = string_of(j, j->json.node[at].key);
            tpl_put_of(j->run, all.of.map, &key, value_of(j, at));
        }
        break;
    }
    return all;
}

tpl_value tpl_from_json(tpl_run *r, rt_string json)
{
    const tpl_value none = { .kind = TPL_UNDEFINED };
    uint64_t at;
    unsigned char *const mark = tpl_memory(r, json.bytes + 1);
    reader j = { r, { .node = tpl_memory(r, json_values(json.text, json.bytes) * sizeof(json_node)) }, mark };
    j.json.string = tpl_memory(r, json.bytes + 4);
    if (r->status) return none;
    memset(mark, 1, (size_t)json.bytes + 1);
    const gdn_status status = json_read(json.text, json.bytes, &j.json, &at);
    if (!status) return value_of(&j, 0);
    return tpl_refuse(r,
                      status == GDN_UNSUPPORTED ? "the JSON that it is given is nested too deeply at byte %llu"
                                                : "the JSON that it is given is not valid at byte %llu",
                      (unsigned long long)at);
}

/* ---- Writing ---- */

static void write_text(tpl_run *r, const char *text) { tpl_write(r, tpl_string(text).of.text); }

static void write_string(tpl_run *r, tpl_text t)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    write_text(r, "\"");
    for (uint64_t at = 0, end; at < t.n && tpl_work(r, 1); at = end) {
        for (end = at; end < t.n && (unsigned char)t.text[end] >= ' ' && t.text[end] != '"' && t.text[end] != '\\';)
            end++;
        tpl_write(r, tpl_part(t, at, end));
        if (end == t.n) break;
        const char c = t.text[end++], *const found = c ? strchr(from, c) : NULL;
        char escape[8] = { '\\', found ? to[found - from] : 0 };
        if (!found) (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        write_text(r, escape);
    }
    write_text(r, "\"");
}

/* A string as Python prints it within a list. Those that need escapes or other quotes are refused. */
static void write_quoted(tpl_run *r, tpl_text t)
{
    for (uint64_t i = 0; i < t.n && tpl_work(r, 1); i++)
        if (t.text[i] < ' ' || t.text[i] > '~' || t.text[i] == '\'' || t.text[i] == '\\')
            (void)tpl_refuse(r, "a list with the string '%.*s' cannot be printed here", TPL_SHOWN(t.text, t.n));
    write_text(r, "'");
    tpl_write(r, t);
    write_text(r, "'");
}

typedef struct form {
    int python;     /* 1: as Python prints lists and mappings; 0: JSON */
    int64_t indent; /* of a level, on lines of their own; below 0: one line */
} form;

/* Before an item, or with `ends` behind the last. */
static void write_between(tpl_run *r, const form *f, int first, int ends, int64_t level)
{
    if (!first && !ends) write_text(r, f->indent < 0 ? ", " : ",");
    if (f->indent < 0 || (first && ends)) return;
    write_text(r, "\n");
    for (int64_t i = 0; i < f->indent * (level - ends) && tpl_work(r, 1); i++) write_text(r, " ");
}

static void write_value(tpl_run *r, const tpl_value *v, const form *f, int64_t level)
{
    void (*const string)(tpl_run *, tpl_text) = f->python ? write_quoted : write_string;
    int first = 1;
    if (r->status) return;
    if (r->depth == TPL_CALLS_MAX) (void)tpl_refuse(r, "it is nested too deeply");
    r->depth++;
    switch (v->kind) {
    case TPL_NONE:
    case TPL_BOOL:
        if (f->python) tpl_write(r, tpl_to_text(r, v));
        else write_text(r, v->kind == TPL_NONE ? "null" : v->of.number ? "true" : "false");
        break;
    case TPL_INTEGER:
    case TPL_DECIMAL: tpl_write(r, tpl_to_text(r, v)); break;
    case TPL_CHARACTERS:
        if (f->python && v->safe) (void)tpl_refuse(r, "a string behind the filter safe cannot be printed in a list");
        string(r, v->of.text);
        break;
    case TPL_SEQUENCE:
        if (f->python && !v->of.list.of_json) (void)tpl_refuse(r, "%s cannot be printed here", tpl_kind_name(v));
        write_text(r, "[");
        for (uint64_t i = 0; i < v->of.list.n && tpl_work(r, 4); i++, first = 0) {
            write_between(r, f, first, 0, level + 1);
            write_value(r, &v->of.list.item[i], f, level + 1);
        }
        write_between(r, f, first, 1, level + 1);
        write_text(r, "]");
        break;
    case TPL_MAPPING:
        write_text(r, "{");
        for (const tpl_entry *e = v->of.map->first; e && tpl_work(r, 4); e = e->next, first = 0) {
            write_between(r, f, first, 0, level + 1);
            if (f->python) write_value(r, &e->key, f, level);
            else write_string(r, tpl_to_text(r, &e->key));
            write_text(r, ": ");
            write_value(r, e->value, f, level + 1);
        }
        write_between(r, f, first, 1, level + 1);
        write_text(r, "}");
        break;
    default: (void)tpl_refuse(r, "the filter tojson of %s is not known here", tpl_kind_name(v)); break;
    }
    r->depth--;
}

static tpl_value written_value(tpl_run *r, const tpl_value *v, form f)
{
    tpl_buffer written, *const outside = tpl_begin(r, &written);
    write_value(r, v, &f, 0);
    return tpl_end(r, outside);
}

tpl_value tpl_to_json(tpl_run *r, const tpl_value *v, int64_t indent)
{
    return written_value(r, v, (form){ 0, indent });
}

tpl_value tpl_to_python(tpl_run *r, const tpl_value *v) { return written_value(r, v, (form){ 1, -1 }); }
