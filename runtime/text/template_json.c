/* JSON of chat templates: tools, tool calls and variables of the caller, and the filter tojson. See
 * template_internal.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/template_internal.h"

/* ---- Reading ---- */

typedef struct reader {
    tpl_run *run;
    const char *text;
    uint64_t n, at;
} reader;

static tpl_value read_value(reader *j);

static tpl_value bad(const reader *j)
{
    return tpl_refuse(j->run, "the JSON that it is given is not valid at byte %llu", (unsigned long long)j->at);
}

static void skip_space(reader *j)
{
    while (j->at < j->n && strchr(" \t\r\n", j->text[j->at]) && j->text[j->at]) j->at++;
}

static int take(reader *j, const char *what)
{
    const size_t n = strlen(what);
    if (j->n - j->at < n || memcmp(j->text + j->at, what, n) != 0) return 0;
    j->at += n;
    return 1;
}

/* The four digits of \u at `at`; -1: they are not there. */
static int32_t hex(const reader *j, uint64_t at)
{
    int32_t code = 0;
    for (uint64_t i = at; i < at + 4; i++) {
        const char c = i < j->n ? j->text[i] : 0, low = (char)(c | 32);
        const int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0) return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* Reads what follows a backslash; returns its bytes, or 0 if it is not valid. */
static uint64_t read_escape(reader *j, char to[4])
{
    static const char from[] = "\"\\/bfnrt", made[] = "\"\\/\b\f\n\r\t";
    const char c = j->at < j->n ? j->text[j->at++] : 0, *const found = c ? strchr(from, c) : NULL;
    if (found) to[0] = made[found - from];
    if (found || c != 'u') return found != NULL;
    int32_t code = hex(j, j->at);
    j->at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        const int32_t low = take(j, "\\u") ? hex(j, j->at) : -1;
        j->at += 4;
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    }
    return code < 0 || (code >= 0xdc00 && code < 0xe000) ? 0 : tpl_encode((uint32_t)code, to);
}

/* A string after its first quote. Its bytes are the caller's, so that they write no control token. */
static tpl_value read_string(reader *j)
{
    const uint64_t from = j->at;
    while (j->at < j->n && j->text[j->at] != '"') j->at += j->text[j->at] == '\\' ? 2 : 1;
    if (j->at >= j->n) return bad(j);
    const uint64_t to = j->at, most = to - from;
    char *const text = tpl_memory(j->run, 2 * most + 1);
    uint64_t n = 0;
    if (!text) return tpl_string("");
    for (j->at = from; j->at < to;) {
        char c[4] = { j->text[j->at++] };
        const uint64_t bytes = c[0] == '\\' ? read_escape(j, c) : (unsigned char)c[0] >= ' ';
        if (!bytes || j->at > to) return bad(j);
        memcpy(text + n, c, (size_t)bytes);
        n += bytes;
    }
    j->at = to + 1;
    memset(text + n, 1, (size_t)n);
    return tpl_characters((tpl_text){ text, (unsigned char *)text + n, n });
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

static tpl_value read_number(reader *j)
{
    char copy[512], *end;
    uint64_t n = 0;
    while (n < sizeof copy - 1 && j->at + n < j->n && j->text[j->at + n] &&
           strchr("+-.0123456789eE", j->text[j->at + n])) {
        copy[n] = j->text[j->at + n];
        n++;
    }
    copy[n] = 0;
    const int whole = !strpbrk(copy, ".eE");
    int64_t number = 0;
    const double x = strtod(copy, &end);
    const char *const digits = copy + (copy[0] == '-'), *const point = strchr(copy, '.');
    int good = digits[0] >= '0' && digits[0] <= '9' && !*end && isfinite(x);
    if (digits[0] == '0') good &= digits[1] < '0' || digits[1] > '9';
    if (point) good &= point[1] >= '0' && point[1] <= '9';
    for (const char *c = digits; good && whole && *c; c++)
        good = !__builtin_mul_overflow(number, 10, &number) && !__builtin_add_overflow(number, *c - '0', &number);
    if (!good) return bad(j);
    j->at += n;
    return whole ? tpl_integer(copy[0] == '-' ? -number : number) : decimal(j->run, x);
}

static tpl_value read_list(reader *j)
{
    uint64_t n = 0, room = 0;
    tpl_value all = tpl_list_of(j->run, 0);
    skip_space(j);
    all.of.list.of_json = 1;
    if (take(j, "]")) return all;
    do {
        if (n == room) {
            room = 2 * room + 8;
            const tpl_value larger = tpl_list_of(j->run, room);
            if (j->run->status) return all;
            if (n) memcpy(larger.of.list.item, all.of.list.item, (size_t)n * sizeof *all.of.list.item);
            all = larger;
        }
        all.of.list.item[n++] = read_value(j);
        skip_space(j);
    } while (!j->run->status && take(j, ","));
    all.of.list.n = n;
    all.of.list.of_json = 1;
    return j->run->status || take(j, "]") ? all : bad(j);
}

static tpl_value read_mapping(reader *j)
{
    tpl_value all = { .kind = TPL_MAPPING };
    all.of.map = tpl_memory(j->run, sizeof *all.of.map);
    if (!all.of.map) return tpl_string("");
    skip_space(j);
    if (take(j, "}")) return all;
    do {
        skip_space(j);
        if (!take(j, "\"")) return bad(j);
        const tpl_value key = read_string(j);
        skip_space(j);
        if (!j->run->status && !take(j, ":")) return bad(j);
        const tpl_value value = read_value(j);
        if (j->run->status) return all;
        tpl_put_of(j->run, all.of.map, &key, value);
        skip_space(j);
    } while (!j->run->status && take(j, ","));
    return j->run->status || take(j, "}") ? all : bad(j);
}

static tpl_value read_value(reader *j)
{
    const tpl_value none = { .kind = TPL_NONE };
    tpl_value v;
    if (j->run->status) return none;
    if (j->run->depth == TPL_CALLS_MAX) return tpl_refuse(j->run, "the JSON that it is given is nested too deeply");
    skip_space(j);
    j->run->depth++;
    if (take(j, "{")) v = read_mapping(j);
    else if (take(j, "[")) v = read_list(j);
    else if (take(j, "\"")) v = read_string(j);
    else if (take(j, "true")) v = tpl_bool(1);
    else if (take(j, "false")) v = tpl_bool(0);
    else if (take(j, "null")) v = none;
    else v = read_number(j);
    j->run->depth--;
    return v;
}

tpl_value tpl_from_json(tpl_run *r, rt_string json)
{
    reader j = { r, json.text, json.bytes, 0 };
    const tpl_value v = read_value(&j);
    skip_space(&j);
    return r->status || j.at == j.n ? v : bad(&j);
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
