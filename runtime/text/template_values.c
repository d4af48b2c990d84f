/* Strings, lists and scopes of chat templates, and the arena of a rendering. See template_internal.h. */
#define _GNU_SOURCE /* memmem, which takes linear time */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/text/template_internal.h"
#include "system/libc.h"

/* ---- Memory ---- */

void *tpl_new(tpl_arena *a, uint64_t bytes)
{
    tpl_chunk *chunk = a->chunks;
    bytes = (bytes + 15) / 16 * 16;
    if (a->status) return NULL;
    if (!chunk || chunk->room - chunk->used < bytes) {
        const uint64_t room = bytes > 16000 ? bytes : 16000;
        if (a->limit && room + sizeof *chunk > a->limit - a->total) {
            a->status = rt_fail(GDN_UNSUPPORTED, "the chat template takes more than %llu MiB of memory",
                                (unsigned long long)(a->limit >> 20));
            return NULL;
        }
        chunk = rt_calloc(1, 64 + room, "a chat template");
        if (!chunk) {
            a->status = GDN_OUT_OF_MEMORY;
            return NULL;
        }
        chunk->room = room;
        chunk->next = a->chunks;
        a->chunks = chunk;
        a->total += room + sizeof *chunk;
    }
    char *memory = (char *)chunk + 64 + chunk->used;
    chunk->used += bytes;
    return memory;
}

void tpl_arena_free(tpl_arena *a)
{
    while (a->chunks) {
        tpl_chunk *next = a->chunks->next;
        rt_free(a->chunks);
        a->chunks = next;
    }
}

gdn_status tpl_fail(uint32_t line, char *text)
{
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return rt_fail(GDN_UNSUPPORTED, "the chat template, line %u: %s", (unsigned)line, text);
}

tpl_value tpl_refuse(tpl_run *r, const char *format, ...)
{
    const tpl_value nothing = { .kind = TPL_UNDEFINED };
    char text[384];
    va_list list;
    if (r->status) return nothing;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    r->status = tpl_fail(r->line, text);
    return nothing;
}

int tpl_work(tpl_run *r, uint64_t n)
{
    if (!r->status && n > (uint64_t)r->work) (void)tpl_refuse(r, "it does not come to an end");
    else if (!r->status) r->work -= (int64_t)n;
    return !r->status;
}

void *tpl_memory(tpl_run *r, uint64_t bytes)
{
    void *memory = r->status ? NULL : tpl_new(&r->arena, bytes);
    if (!memory && !r->status) r->status = r->arena.status;
    return memory;
}

/* ---- Values ---- */

tpl_value tpl_integer(int64_t n)
{
    const tpl_value v = { .kind = TPL_INTEGER, .of.number = n };
    return v;
}

tpl_value tpl_bool(int truth)
{
    const tpl_value v = { .kind = TPL_BOOL, .of.number = truth != 0 };
    return v;
}

tpl_value tpl_characters(tpl_text text)
{
    const tpl_value v = { .kind = TPL_CHARACTERS, .of.text = text };
    return v;
}

tpl_value tpl_string(const char *text)
{
    const tpl_text t = { text, NULL, strlen(text) };
    return tpl_characters(t);
}

int tpl_same_text(tpl_text a, tpl_text b) { return a.n == b.n && (!a.n || !memcmp(a.text, b.text, (size_t)a.n)); }

int tpl_is(tpl_text text, const char *string)
{
    const tpl_text other = { string, NULL, strlen(string) };
    return tpl_same_text(text, other);
}

int tpl_among(tpl_text text, const char *names)
{
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        if (tpl_same_text(text, (tpl_text){ names, NULL, n })) return 1;
    }
    return 0;
}

const char *tpl_kind_name(const tpl_value *v)
{
    static const char *const names[] = { "something undefined", "none",       "a truth value", "a number",
                                         "a decimal number",    "a string",   "a list",        "a mapping",
                                         "a namespace",         "a function", "a macro",       "a loop" };
    return names[v->kind];
}

int tpl_true(const tpl_value *v)
{
    switch (v->kind) {
    case TPL_UNDEFINED:
    case TPL_NONE: return 0;
    case TPL_BOOL:
    case TPL_INTEGER: return v->of.number != 0;
    case TPL_DECIMAL: return strpbrk(v->of.text.text, "123456789") != NULL;
    case TPL_CHARACTERS: return v->of.text.n != 0;
    case TPL_SEQUENCE: return v->of.list.n != 0;
    case TPL_MAPPING: return v->of.map->n != 0;
    default: return 1;
    }
}

static int parts_equal(tpl_run *r, const tpl_value *a, const tpl_value *b)
{
    const int lists = a->kind == TPL_SEQUENCE;
    int same = lists ? a->of.list.n == b->of.list.n : a->of.map->n == b->of.map->n;
    if (r->depth == TPL_CALLS_MAX) (void)tpl_refuse(r, "it is nested too deeply");
    r->depth++;
    for (uint64_t i = 0; lists && same && !r->status && i < a->of.list.n; i++)
        same = tpl_equal(r, &a->of.list.item[i], &b->of.list.item[i]);
    for (const tpl_entry *e = lists ? NULL : a->of.map->first; e && same && !r->status; e = e->next) {
        const tpl_value *const other = tpl_get_of(r, b->of.map, &e->key);
        same = other && tpl_equal(r, e->value, other);
    }
    r->depth--;
    return same;
}

int tpl_equal(tpl_run *r, const tpl_value *a, const tpl_value *b)
{
    const int numbers =
        (a->kind == TPL_BOOL || a->kind == TPL_INTEGER) && (b->kind == TPL_BOOL || b->kind == TPL_INTEGER);
    if (!tpl_work(r, 1)) return 0;
    if (numbers) return a->of.number == b->of.number;
    if (a->kind != b->kind && (a->kind == TPL_DECIMAL || b->kind == TPL_DECIMAL) && a->kind >= TPL_BOOL &&
        b->kind >= TPL_BOOL && a->kind <= TPL_DECIMAL && b->kind <= TPL_DECIMAL) {
        (void)tpl_refuse(r, "%s cannot be compared here", tpl_kind_name(a->kind == TPL_DECIMAL ? a : b));
        return 0;
    }
    if (a->kind != b->kind) return 0;
    switch (a->kind) {
    case TPL_UNDEFINED:
    case TPL_NONE: return 1;
    case TPL_CHARACTERS: return tpl_work(r, a->of.text.n / 16) && tpl_same_text(a->of.text, b->of.text);
    case TPL_SEQUENCE:
    case TPL_MAPPING: return parts_equal(r, a, b);
    default: (void)tpl_refuse(r, "%s cannot be compared here", tpl_kind_name(a)); return 0;
    }
}

int tpl_order(tpl_run *r, const tpl_value *a, const tpl_value *b)
{
    if (a->kind == TPL_INTEGER && b->kind == TPL_INTEGER)
        return (a->of.number > b->of.number) - (a->of.number < b->of.number);
    if (a->kind == TPL_CHARACTERS && b->kind == TPL_CHARACTERS) {
        const uint64_t n = a->of.text.n < b->of.text.n ? a->of.text.n : b->of.text.n;
        const int here = n && tpl_work(r, n / 16) ? memcmp(a->of.text.text, b->of.text.text, (size_t)n) : 0;
        return here ? (here > 0) - (here < 0) : (a->of.text.n > b->of.text.n) - (a->of.text.n < b->of.text.n);
    }
    (void)tpl_refuse(r, "%s and %s have no order", tpl_kind_name(a), tpl_kind_name(b));
    return 0;
}

int tpl_in(tpl_run *r, const tpl_value *item, const tpl_value *where)
{
    if (where->kind == TPL_UNDEFINED) return 0;
    if (where->kind == TPL_SEQUENCE) {
        for (uint64_t i = 0; !r->status && i < where->of.list.n; i++)
            if (tpl_equal(r, item, &where->of.list.item[i])) return 1;
        return 0;
    }
    if (where->kind == TPL_MAPPING && (item->kind == TPL_CHARACTERS || item->kind == TPL_INTEGER))
        return tpl_get_of(r, where->of.map, item) != NULL;
    if (where->kind == TPL_CHARACTERS && item->kind == TPL_CHARACTERS)
        return tpl_find(r, where->of.text, item->of.text, 0) <= where->of.text.n;
    (void)tpl_refuse(r, "%s cannot be looked for in %s", tpl_kind_name(item), tpl_kind_name(where));
    return 0;
}

tpl_value tpl_list_of(tpl_run *r, uint64_t n)
{
    tpl_value v = { .kind = TPL_SEQUENCE };
    v.of.list.item = tpl_memory(r, n * sizeof *v.of.list.item);
    v.of.list.n = v.of.list.item ? n : 0;
    return v;
}

/* ---- Names ---- */

tpl_value *tpl_get_of(tpl_run *r, const tpl_map *map, const tpl_value *key)
{
    const uint64_t each = key->kind == TPL_CHARACTERS ? 4 + key->of.text.n / 16 : 4;
    for (const tpl_entry *e = map->first; e && tpl_work(r, each); e = e->next)
        if (e->key.kind == key->kind && (key->kind == TPL_INTEGER ? e->key.of.number == key->of.number
                                                                  : tpl_same_text(e->key.of.text, key->of.text)))
            return e->value;
    return NULL;
}

tpl_value *tpl_get(tpl_run *r, const tpl_map *map, tpl_text key)
{
    const tpl_value of = tpl_characters(key);
    return tpl_get_of(r, map, &of);
}

void tpl_put(tpl_run *r, tpl_map *map, tpl_text key, tpl_value value)
{
    const tpl_value of = tpl_characters(key);
    tpl_put_of(r, map, &of, value);
}

void tpl_put_of(tpl_run *r, tpl_map *map, const tpl_value *key, tpl_value value)
{
    tpl_value *at = tpl_get_of(r, map, key);
    if (!at) {
        tpl_entry *e = tpl_memory(r, sizeof *e);
        at = tpl_memory(r, sizeof *at);
        if (!e || !at) return;
        *e = (tpl_entry){ *key, NULL, at };
        if (map->last) map->last->next = e;
        else map->first = e;
        map->last = e;
        map->n++;
    }
    *at = value;
}

tpl_scope *tpl_new_scope(tpl_run *r, tpl_scope *parent)
{
    tpl_scope *scope = tpl_memory(r, sizeof *scope);
    if (scope) scope->parent = parent;
    return scope;
}

/* ---- Texts ---- */

tpl_text tpl_part(tpl_text t, uint64_t from, uint64_t to)
{
    const tpl_text part = { t.text + from, t.mark ? t.mark + from : NULL, to - from };
    return part;
}

uint64_t tpl_find(tpl_run *r, tpl_text t, tpl_text part, uint64_t from)
{
    if (from > t.n || part.n > t.n - from) return t.n + 1;
    if (!part.n) return from;
    const char *const at = memmem(t.text + from, (size_t)(t.n - from), part.text, (size_t)part.n);
    const uint64_t found = at ? (uint64_t)(at - t.text) : t.n + 1;
    return tpl_work(r, (found - from) / 4 + part.n / 4) ? found : t.n + 1;
}

static void copy(char *text, unsigned char *mark, tpl_text from)
{
    if (!from.n) return;
    memcpy(text, from.text, (size_t)from.n);
    if (from.mark) memcpy(mark, from.mark, (size_t)from.n);
    else memset(mark, 0, (size_t)from.n);
}

tpl_text tpl_join(tpl_run *r, tpl_text a, tpl_text b)
{
    tpl_text joined = { "", NULL, 0 };
    if (!a.n || !b.n) return a.n ? a : b;
    char *text = tpl_memory(r, 2 * (a.n + b.n));
    if (!text) return joined;
    unsigned char *mark = (unsigned char *)text + a.n + b.n;
    copy(text, mark, a);
    copy(text + a.n, mark + a.n, b);
    joined = (tpl_text){ text, mark, a.n + b.n };
    return joined;
}

void tpl_write(tpl_run *r, tpl_text text)
{
    tpl_buffer *const b = r->out;
    if (text.n > b->room - b->n) {
        const uint64_t room = 2 * (b->n + text.n) + 512;
        char *larger = tpl_memory(r, 2 * room);
        if (!larger) return;
        const tpl_text old = { b->text, b->mark, b->n };
        b->text = larger;
        b->mark = (unsigned char *)larger + room;
        b->room = room;
        copy(b->text, b->mark, old);
    }
    if (!text.n) return; /* there may be no buffer yet */
    copy(b->text + b->n, b->mark + b->n, text);
    b->n += text.n;
}

tpl_buffer *tpl_begin(tpl_run *r, tpl_buffer *b)
{
    tpl_buffer *const before = r->out;
    *b = (tpl_buffer){ 0 };
    r->out = b;
    return before;
}

tpl_value tpl_end(tpl_run *r, tpl_buffer *before)
{
    const tpl_buffer *const b = r->out;
    r->out = before;
    return tpl_characters((tpl_text){ b->text ? b->text : "", b->mark, b->n });
}

tpl_text tpl_to_text(tpl_run *r, const tpl_value *v)
{
    char digits[24];
    switch (v->kind) {
    case TPL_UNDEFINED: return tpl_string("").of.text;
    case TPL_NONE: return tpl_string("None").of.text;
    case TPL_BOOL: return tpl_string(v->of.number ? "True" : "False").of.text;
    case TPL_DECIMAL:
    case TPL_CHARACTERS: return v->of.text;
    case TPL_INTEGER: {
        const int n = snprintf(digits, sizeof digits, "%lld", (long long)v->of.number);
        char *text = tpl_memory(r, (uint64_t)n);
        if (text) memcpy(text, digits, (size_t)n);
        return (tpl_text){ text ? text : "", NULL, text ? (uint64_t)n : 0 };
    }
    case TPL_SEQUENCE:
    case TPL_MAPPING: return tpl_to_python(r, v).of.text;
    default: (void)tpl_refuse(r, "%s cannot be printed here", tpl_kind_name(v)); return tpl_string("").of.text;
    }
}

uint64_t tpl_count_characters(tpl_run *r, tpl_text t)
{
    uint64_t n = 0;
    uint32_t code;
    if (!tpl_work(r, t.n)) return 0;
    for (uint64_t at = 0; at < t.n; at += (uint64_t)utf8_character(t.text + at, t.n - at, &code)) n++;
    return n;
}

/* True for characters that Python's str.strip() removes. */
static int is_space(uint32_t c) { return (c >= 0x1c && c <= 0x1f) || utf8_is_space(c); }

/* True if the character of n bytes at `at` is to be stripped. */
static int goes(tpl_run *r, tpl_text t, uint64_t at, int n, uint32_t code, const tpl_text *of)
{
    if (!of) return (n > 1 || code < 0x80) && is_space(code) && (!r || tpl_work(r, 8));
    const tpl_text one = tpl_part(t, at, at + (uint64_t)n);
    uint32_t other;
    for (uint64_t i = 0; i < of->n && tpl_work(r, 4);) {
        const int length = utf8_character(of->text + i, of->n - i, &other);
        if (tpl_same_text(one, tpl_part(*of, i, i + (uint64_t)length))) return 1;
        i += (uint64_t)length;
    }
    return 0;
}

tpl_text tpl_strip(tpl_run *r, tpl_text t, const tpl_text *of, int sides)
{
    uint32_t code;
    while (sides & 1 && t.n) {
        const int n = utf8_character(t.text, t.n, &code);
        if (!goes(r, t, 0, n, code, of)) break;
        t = tpl_part(t, (uint64_t)n, t.n);
    }
    while (sides & 2 && t.n) {
        uint64_t from = t.n - 1;
        int n = 1;
        for (uint64_t back = 1; back <= 4 && back <= t.n; back++) /* the last character */
            if (utf8_character(t.text + t.n - back, back, &code) == (int)back) {
                from = t.n - back;
                n = (int)back;
            }
        (void)utf8_character(t.text + from, (uint64_t)n, &code);
        if (!goes(r, t, from, n, code, of)) break;
        t = tpl_part(t, 0, from);
    }
    return t;
}
