/* A streaming JSON writer; see json.h. */
#include "tools/cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at s, which a zero ends; 0: invalid (overlong, surrogate, beyond U+10FFFF, incomplete).
 */
static int utf8_length(const unsigned char *s)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (s[0] < 0x80) return 1;
    int n = s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc0 || s[0] >= 0xf8) return 0;
    uint32_t code = s[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0; /* also at the terminating zero */
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

size_t json_valid_utf8(const char *bytes, size_t n, char *to)
{
    size_t written = 0;
    for (size_t i = 0; i < n;) {
        unsigned char next[5] = { 0 }; /* what follows the n bytes is not read */
        memcpy(next, bytes + i, n - i < 4 ? n - i : 4);
        const int length = utf8_length(next), bytes_of = length ? length : 3;
        memcpy(to + written, length ? (const char *)next : "\xef\xbf\xbd", (size_t)bytes_of);
        written += (size_t)bytes_of;
        i += length ? (size_t)length : 1;
    }
    return written;
}

static void put_bytes(FILE *out, const char *text, uint64_t bytes)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + bytes;
    fputc('"', out);
    while (s < end) {
        int n = utf8_length(s);
        if (n == 0) {
            fputs("\\ufffd", out);
            s++;
            continue;
        }
        if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
        else if (*s == '\n') fputs("\\n", out);
        else if (*s == '\t') fputs("\\t", out);
        else if (*s < 0x20 || *s == 0x7f) fprintf(out, "\\u%04x", *s);
        else fwrite(s, 1, (size_t)n, out);
        s += n;
    }
    fputc('"', out);
}

static void put_string(FILE *out, const char *text) { put_bytes(out, text, strlen(text)); }

/* Writes what precedes a value: comma, line break, indentation, key. */
static void put_prefix(json_writer *w, const char *key)
{
    if (w->depth > 0) {
        int top = w->depth - 1;
        if ((w->closing[top] == '}') != (key != NULL)) w->failed = 1;
        fputs(w->not_empty[top] ? ",\n" : "\n", w->out);
        fprintf(w->out, "%*s", 2 * w->depth, "");
        w->not_empty[top] = 1;
    } else if (key) {
        w->failed = 1;
    }
    if (key) {
        put_string(w->out, key);
        fputs(": ", w->out);
    }
}

static void begin(json_writer *w, const char *key, char opening, char closing)
{
    put_prefix(w, key);
    fputc(opening, w->out);
    if (w->depth == JSON_DEPTH_MAX) {
        w->failed = 1;
        return;
    }
    w->closing[w->depth] = closing;
    w->not_empty[w->depth] = 0;
    w->depth++;
}

void json_open(json_writer *w, FILE *out)
{
    memset(w, 0, sizeof *w);
    w->out = out;
}

void json_put_object(json_writer *w, const char *key) { begin(w, key, '{', '}'); }

void json_put_array(json_writer *w, const char *key) { begin(w, key, '[', ']'); }

void json_close(json_writer *w)
{
    if (w->depth == 0) {
        w->failed = 1;
        return;
    }
    w->depth--;
    if (w->not_empty[w->depth]) fprintf(w->out, "\n%*s", 2 * w->depth, "");
    fputc(w->closing[w->depth], w->out);
}

void json_put_string(json_writer *w, const char *key, const char *value)
{
    put_prefix(w, key);
    if (value) put_string(w->out, value);
    else fputs("null", w->out);
}

void json_put_bytes(json_writer *w, const char *key, const char *value, uint64_t bytes)
{
    put_prefix(w, key);
    put_bytes(w->out, value, bytes);
}

void json_put_double(json_writer *w, const char *key, double value)
{
    char text[40];
    put_prefix(w, key);
    if (!isfinite(value)) {
        fputs("null", w->out);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, w->out);
}

void json_put_int(json_writer *w, const char *key, int64_t value)
{
    put_prefix(w, key);
    fprintf(w->out, "%" PRId64, value);
}

void json_put_uint(json_writer *w, const char *key, uint64_t value)
{
    put_prefix(w, key);
    fprintf(w->out, "%" PRIu64, value);
}

void json_put_bool(json_writer *w, const char *key, int value)
{
    put_prefix(w, key);
    fputs(value ? "true" : "false", w->out);
}

void json_put_null(json_writer *w, const char *key)
{
    put_prefix(w, key);
    fputs("null", w->out);
}

int json_finish(json_writer *w)
{
    fputc('\n', w->out);
    return fflush(w->out) == 0 && !ferror(w->out) && !w->failed && w->depth == 0;
}
