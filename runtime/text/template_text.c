/* Texts that filters and functions of chat templates make: upper and lower case, numbers, formats, dates. See
 * template_internal.h. */
#define _POSIX_C_SOURCE 200809L /* localtime_r */
#include <string.h>
#include <time.h>

#include "character_cases.inc.h" /* runtime/tables.cmake makes it of character_cases.txt */
#include "runtime/text/template_internal.h"

typedef struct case_run {
    uint32_t first, last, step;
    int32_t by;
} case_run;

typedef struct case_special {
    uint32_t code, to[3];
} case_special;

/* Each ends with 0. */
#define ENTRY(...)         { __VA_ARGS__ },
#define SPECIAL(code, ...) { code, { __VA_ARGS__ } },
static const case_run lower_runs[] = { LOWER_RUNS(ENTRY){ 0 } }, upper_runs[] = { UPPER_RUNS(ENTRY){ 0 } };
static const case_special lower_specials[] = { LOWER_SPECIALS(SPECIAL){ 0 } },
                          upper_specials[] = { UPPER_SPECIALS(SPECIAL){ 0 } };

enum { CAPITAL_SIGMA = 0x3a3 };

/* The up to three characters that a character becomes; returns their number. */
static int cased(uint32_t code, int up, uint32_t to[3])
{
    to[0] = code;
    if (code < 0x80) {
        if (up ? code >= 'a' && code <= 'z' : code >= 'A' && code <= 'Z') to[0] = code ^ 32;
        return 1;
    }
    for (const case_run *run = up ? upper_runs : lower_runs; run->first; run++)
        if (code >= run->first && code <= run->last && (code - run->first) % run->step == 0)
            to[0] = (uint32_t)((int32_t)code + run->by);
    for (const case_special *special = up ? upper_specials : lower_specials; special->code; special++) {
        if (special->code != code) continue;
        memcpy(to, special->to, sizeof special->to);
        return to[2] ? 3 : 2;
    }
    return 1;
}

tpl_value tpl_change_case(tpl_run *r, tpl_text text, int up)
{
    tpl_buffer written, *const outside = tpl_begin(r, &written);
    for (uint64_t at = 0; at < text.n && !r->status;) {
        uint32_t code, to[3] = { 0 };
        char bytes[12];
        unsigned char mark[12];
        uint64_t n = 0;
        const int length = utf8_character(text.text + at, text.n - at, &code);
        const tpl_text old = tpl_part(text, at, at + (uint64_t)length);
        at += (uint64_t)length;
        (void)tpl_work(r, code < 0x80 ? 1 : 64);
        if (!up && code == CAPITAL_SIGMA) (void)tpl_refuse(r, "the lower case of a capital sigma is not known here");
        const int count = length == 1 && code >= 0x80 ? 1 : cased(code, up, to); /* one byte: not UTF-8 */
        if (count == 1 && (to[0] == code || (length == 1 && code >= 0x80))) {
            tpl_write(r, old);
            continue;
        }
        for (int i = 0; i < count; i++) n += utf8_encode(to[i], bytes + n);
        memset(mark, old.mark ? old.mark[0] : 0, sizeof mark);
        tpl_write(r, (tpl_text){ bytes, mark, n });
    }
    return tpl_end(r, outside);
}

tpl_value tpl_to_whole(tpl_run *r, const tpl_value *of, const tpl_value *otherwise)
{
    if (of->kind == TPL_INTEGER || of->kind == TPL_BOOL) return tpl_integer(of->of.number);
    if (of->kind == TPL_NONE || of->kind == TPL_SEQUENCE || of->kind == TPL_MAPPING) return *otherwise;
    if (of->kind != TPL_CHARACTERS) return tpl_refuse(r, "the filter int of %s is not known here", tpl_kind_name(of));
    const tpl_text all = of->of.text, t = tpl_strip(r, all, NULL, 3);
    const int sign = t.n && (t.text[0] == '-' || t.text[0] == '+');
    int64_t n = 0;
    uint64_t at = (uint64_t)sign;
    int digits = 0, good = t.n > at;
    for (uint64_t i = 0; i < t.n && tpl_work(r, 1); i++)
        digits |= (t.text[i] >= '0' && t.text[i] <= '9') || (unsigned char)t.text[i] >= 0x80;
    for (uint64_t i = 0; i < all.n; i++) /* whitespace of str.strip(), but of int() only beside non-ASCII */
        if (all.text[i] >= 0x1c && all.text[i] <= 0x1f) digits = 1, good = 0;
    for (; good && at < t.n; at++) {
        good = t.text[at] >= '0' && t.text[at] <= '9' && !__builtin_mul_overflow(n, 10, &n) &&
               !__builtin_add_overflow(n, t.text[at] - '0', &n);
    }
    if (good) return tpl_integer(t.n && t.text[0] == '-' ? -n : n);
    const char first = t.n > (uint64_t)sign ? t.text[sign] : 0; /* of "inf" and "nan", which Python reads as numbers */
    if (digits || first == 'i' || first == 'I' || first == 'n' || first == 'N')
        return tpl_refuse(r, "the filter int of the string '%.*s' is not known here", TPL_SHOWN(t.text, t.n));
    return *otherwise;
}

tpl_value tpl_format(tpl_run *r, tpl_text text, const tpl_value *value, int n)
{
    tpl_buffer written, *const outside = tpl_begin(r, &written);
    int taken = 0;
    for (uint64_t at = 0; at < text.n && !r->status;) {
        const char *const sign = memchr(text.text + at, '%', (size_t)(text.n - at));
        const uint64_t to = sign ? (uint64_t)(sign - text.text) : text.n;
        tpl_write(r, tpl_part(text, at, to));
        at = to + 2;
        if (!sign) break;
        const char kind = to + 1 < text.n ? sign[1] : 0;
        if (kind == '%') tpl_write(r, tpl_part(text, to, to + 1));
        else if ((kind != 's' && kind != 'd') || taken == n) (void)tpl_refuse(r, "this format is not known here");
        else if (kind == 'd' && value[taken].kind != TPL_INTEGER)
            (void)tpl_refuse(r, "%%d of %s", tpl_kind_name(&value[taken]));
        else tpl_write(r, tpl_to_text(r, &value[taken++]));
    }
    if (taken < n) (void)tpl_refuse(r, "a format has %d places for %d values", taken, n);
    return tpl_end(r, outside);
}

/* A string's method: "{}" is the next value, "{{" and "}}" are braces. Values that are left are ignored. */
tpl_value tpl_format_braces(tpl_run *r, tpl_text text, const tpl_value *value, int n)
{
    tpl_buffer written, *const outside = tpl_begin(r, &written);
    int taken = 0;
    for (uint64_t at = 0, to; at < text.n && !r->status; at = to + 2) {
        for (to = at; to < text.n && text.text[to] != '{' && text.text[to] != '}';) to++;
        tpl_write(r, tpl_part(text, at, to));
        if (to == text.n) break;
        const char next = to + 1 < text.n ? text.text[to + 1] : 0;
        if (next == text.text[to]) tpl_write(r, tpl_part(text, to, to + 1));
        else if (text.text[to] == '{' && next == '}' && taken < n) tpl_write(r, tpl_to_text(r, &value[taken++]));
        else (void)tpl_refuse(r, "this format is not known here, or has more places than the %d values", n);
    }
    return tpl_end(r, outside);
}

tpl_value tpl_date(tpl_run *r, const tpl_arguments *a)
{
    static const char known[] = "aAbBcdDeFgGhHIjmMnprRStTuUVwWxXyY%"; /* the same in Python; no zone, no fractions */
    char format[256], made[1024];
    const tpl_text text = a->n == 1 ? a->value[0].of.text : (tpl_text){ "", NULL, 0 };
    struct tm now;
    if (a->n != 1 || a->named.n || a->value[0].kind != TPL_CHARACTERS || text.n >= sizeof format)
        return tpl_refuse(r, "strftime_now with these arguments is not known here");
    for (uint64_t i = 0; i < text.n; i++) {
        if (!text.text[i]) return tpl_refuse(r, "strftime_now of a NUL is not known here");
        if (text.text[i] != '%') continue;
        i += i + 1 < text.n && text.text[i + 1] == '-' ? 2 : 1; /* "-": without zeros in front */
        if (i >= text.n || !text.text[i] || !strchr(known, text.text[i]))
            return tpl_refuse(r, "strftime_now with '%.*s' is not known here", TPL_SHOWN(text.text, text.n));
    }
    if (text.n) memcpy(format, text.text, (size_t)text.n);
    format[text.n] = 0;
    const time_t seconds = r->input->now ? (time_t)r->input->now : time(NULL);
    if (!localtime_r(&seconds, &now)) return tpl_refuse(r, "there is no date");
    const uint64_t n = strftime(made, sizeof made, format, &now);
    if (!n && text.n) return tpl_refuse(r, "the date of strftime_now is too long");
    char *const kept = tpl_new(&r->arena, n + 1);
    if (!kept) {
        r->status = r->status ? r->status : r->arena.status;
        return tpl_string("");
    }
    memcpy(kept, made, (size_t)n);
    return tpl_characters((tpl_text){ kept, NULL, n });
}

tpl_text tpl_escape(tpl_run *r, tpl_text text)
{
    static const char from[] = "&<>'\"", *const to[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    tpl_buffer written, *const outside = tpl_begin(r, &written);
    for (uint64_t at = 0, end; at < text.n && tpl_work(r, 1); at = end) {
        for (end = at; end < text.n && (!text.text[end] || !strchr(from, text.text[end]));) end++;
        tpl_write(r, tpl_part(text, at, end));
        if (end == text.n) break;
        tpl_write(r, tpl_string(to[strchr(from, text.text[end++]) - from]).of.text);
    }
    return tpl_end(r, outside).of.text;
}
