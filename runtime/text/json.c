#include "runtime/text/json.h"

#include <string.h>

#include "runtime/text/utf8.h"

enum { NESTED = 128 };

typedef struct reader {
    json_text *json;
    const char *text;
    uint64_t n, at, used; /* used: bytes of strings */
    int depth, too_deep;
} reader;

static int32_t read_value(reader *r, int32_t parent);

static void skip_space(reader *r)
{
    while (r->at < r->n && r->text[r->at] && strchr(" \t\r\n", r->text[r->at])) r->at++;
}

static int take(reader *r, const char *what)
{
    const size_t n = strlen(what);
    if (r->n - r->at < n || memcmp(r->text + r->at, what, n) != 0) return 0;
    r->at += n;
    return 1;
}

static int put(reader *r, uint32_t code)
{
    r->used += utf8_encode(code, r->json->string + r->used);
    return 1;
}

/* The four digits of \u. */
static int hex(reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->n ? r->text[r->at] : 0, low = (char)(c | 32);
        if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'f')) return 0;
        *code = *code * 16 + (uint32_t)(c <= '9' ? c - '0' : low - 'a' + 10);
    }
    return 1;
}

/* What follows a backslash. */
static int read_escape(reader *r)
{
    static const char from[] = "\"\\/bfnrt", made[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->n ? r->text[r->at++] : 0, *const found = c ? strchr(from, c) : NULL;
    uint32_t code, low;
    if (found) return put(r, (unsigned char)made[found - from]);
    if (c != 'u' || !hex(r, &code) || (code >= 0xdc00 && code < 0xe000)) return 0;
    if (code < 0xd800 || code >= 0xe000) return put(r, code);
    if (!take(r, "\\u") || !hex(r, &low) || low < 0xdc00 || low >= 0xe000) return 0;
    return put(r, 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
}

static int read_string(reader *r, rt_string *to)
{
    const uint64_t from = r->used;
    if (!take(r, "\"")) return 0;
    while (!take(r, "\"")) {
        uint32_t code = 0;
        if (r->at >= r->n || (unsigned char)r->text[r->at] < ' ') return 0;
        const int n = utf8_character(r->text + r->at, r->n - r->at, &code);
        if (n == 1 && code == 0xfffd) return 0;
        r->at += (uint64_t)n;
        if (!(code == '\\' ? read_escape(r) : put(r, code))) return 0;
    }
    *to = (rt_string){ r->json->string + from, r->used - from };
    return 1;
}

static int digits(reader *r)
{
    const uint64_t from = r->at;
    while (r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9') r->at++;
    return r->at > from;
}

static int read_number(reader *r, rt_string *to)
{
    const uint64_t from = r->at;
    (void)take(r, "-");
    if (!take(r, "0") && !digits(r)) return 0;
    if (take(r, ".") && !digits(r)) return 0;
    if (take(r, "e") || take(r, "E")) {
        if (!take(r, "+")) (void)take(r, "-");
        if (!digits(r)) return 0;
    }
    const uint64_t n = r->at - from;
    *to = (rt_string){ memcpy(r->json->string + r->used, r->text + from, (size_t)n), n };
    r->used += n;
    return 1;
}

/* Elements or members up to `end`. */
static int read_children(reader *r, int32_t node, const char *end)
{
    json_node *const nodes = r->json->node;
    int32_t last = -1;
    skip_space(r);
    if (take(r, end)) return 1;
    do {
        rt_string key = { NULL, 0 };
        skip_space(r);
        if (nodes[node].kind == JSON_OBJECT) {
            if (!read_string(r, &key)) return 0;
            skip_space(r);
            if (!take(r, ":")) return 0;
        }
        const int32_t child = read_value(r, node);
        if (child < 0) return 0;
        nodes[child].key = key;
        if (last < 0) nodes[node].child = child;
        else nodes[last].next = child;
        last = child;
        nodes[node].n++;
        skip_space(r);
    } while (take(r, ","));
    return take(r, end);
}

/* The index of the value; -1: it is not JSON. */
static int32_t read_value(reader *r, int32_t parent)
{
    const int32_t at = r->json->n++;
    json_node *const node = &r->json->node[at];
    *node = (json_node){ .parent = parent, .child = -1, .next = -1, .rule = -1 };
    skip_space(r);
    int good = 1;
    if (r->depth == NESTED) {
        r->too_deep = 1;
        return -1;
    }
    r->depth++;
    if (take(r, "null")) node->kind = JSON_NULL;
    else if (take(r, "true")) node->kind = JSON_TRUE;
    else if (take(r, "false")) node->kind = JSON_FALSE;
    else if (r->at < r->n && r->text[r->at] == '"') {
        node->kind = JSON_STRING;
        good = read_string(r, &node->text);
    } else if (take(r, "[")) {
        node->kind = JSON_LIST;
        good = read_children(r, at, "]");
    } else if (take(r, "{")) {
        node->kind = JSON_OBJECT;
        good = read_children(r, at, "}");
    } else {
        node->kind = JSON_NUMBER;
        good = read_number(r, &node->text);
    }
    r->depth--;
    return good ? at : -1;
}

uint64_t json_values(const char *text, uint64_t bytes)
{
    uint64_t n = 2;
    for (uint64_t i = 0; i < bytes; i++) n += text[i] == ',' || text[i] == '[' || text[i] == ':';
    return n;
}

gdn_status json_read(const char *text, uint64_t bytes, json_text *json, uint64_t *at)
{
    reader r = { .json = json, .text = text, .n = bytes };
    json->n = 0;
    const int32_t whole = read_value(&r, -1);
    if (whole >= 0) skip_space(&r);
    *at = r.at;
    if (r.too_deep) return GDN_UNSUPPORTED;
    return whole >= 0 && r.at == bytes ? GDN_OK : GDN_INVALID_ARGUMENT;
}

int json_is(rt_string a, const char *b) { return a.bytes == strlen(b) && !memcmp(a.text, b, (size_t)a.bytes); }

int32_t json_member(const json_text *json, int32_t of, const char *key)
{
    int32_t at = json->node[of].kind == JSON_OBJECT ? json->node[of].child : -1;
    while (at >= 0 && !json_is(json->node[at].key, key)) at = json->node[at].next;
    return at;
}

char *json_write_string(rt_string text, char *to)
{
    for (uint64_t i = 0; i < text.bytes; i++) {
        const unsigned char c = (unsigned char)text.text[i];
        static const char hexadecimal[] = "0123456789abcdef", from[] = "\"\\\b\f\n\r\t", made[] = "\"\\bfnrt";
        const char *const short_form = c ? strchr(from, c) : NULL;
        if (short_form) {
            *to++ = '\\';
            *to++ = made[short_form - from];
        } else if (c < ' ') {
            memcpy(to, "\\u00", 4);
            to[4] = hexadecimal[c >> 4];
            to[5] = hexadecimal[c & 15];
            to += 6;
        } else *to++ = (char)c;
    }
    return to;
}

char *json_write(const json_text *json, int32_t at, char *to)
{
    const json_node *const node = &json->node[at];
    static const char *const words[] = { "null", "false", "true" };
    if (node->kind < JSON_NUMBER) return (char *)memcpy(to, words[node->kind], 5) + strlen(words[node->kind]);
    if (node->kind == JSON_NUMBER)
        return (char *)memcpy(to, node->text.text, (size_t)node->text.bytes) + node->text.bytes;
    const int string = node->kind == JSON_STRING, list = node->kind == JSON_LIST;
    *to++ = string ? '"' : list ? '[' : '{';
    if (string) to = json_write_string(node->text, to);
    for (int32_t child = node->child; child >= 0; child = json->node[child].next) {
        if (!list) {
            *to++ = '"';
            to = json_write_string(json->node[child].key, to);
            *to++ = '"';
            *to++ = ':';
        }
        to = json_write(json, child, to);
        if (json->node[child].next >= 0) *to++ = ',';
    }
    *to++ = string ? '"' : list ? ']' : '}';
    return to;
}
