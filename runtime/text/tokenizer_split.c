/* Splits text into words by the regular expressions of tokenizer.json: those of Qwen2, Qwen3.5 and GPT-2. The first
 * alternative that matches wins. \s is Unicode's property White_Space; L, N and M are the categories of
 * character_classes.txt. See tokenizer.h.
 *
 *   qwen2     (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} | ?[^\s\p{L}\p{N}]+[\r\n]*
 *             | \s*[\r\n]+ | \s+(?!\S) | \s+
 *   qwen35    the same, with [\p{L}\p{M}]+ for \p{L}+ and [^\s\p{L}\p{M}\p{N}]+ for [^\s\p{L}\p{N}]+
 *   default   's|'t|'re|'ve|'m|'ll|'d | ?\p{L}+ | ?\p{N}+ | ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+ */
#include "runtime/text/tokenizer_internal.h"
#include "runtime/text/utf8.h"

#include <string.h>

#include "character_classes.inc.h" /* runtime/tables.cmake makes it of character_classes.txt */
#include "runtime/base/error.h"

/* Character classes; character_classes.txt has the first four. */
typedef enum char_class {
    OTHER,
    LETTER,
    NUMBER,
    MARK,
    SPACE,
    LINE
} char_class; /* LINE: \r or \n, which are also white space */

/* Runs of one class: the first character, shifted by 2, and the class. */
enum { CLASS_O = OTHER, CLASS_L = LETTER, CLASS_N = NUMBER, CLASS_M = MARK };
#define RUN(first, class) (first) << 2 | CLASS_##class,
static const uint32_t character_runs[] = { CHARACTER_RUNS(RUN) };

typedef struct place { /* a character of the text; bytes 0: the end */
    uint32_t c;
    char_class kind;
    uint64_t at, bytes;
} place;

struct tok_splitter {
    const char *pre;
    int32_t gpt2, marks; /* gpt2: GPT-2's rule; marks: marks count as letters */
};

/* llama.cpp's converter writes several names for the rule of qwen2. */
static const struct tok_splitter forms[] = { { "qwen2", 0, 0 },   { "deepseek-r1-qwen", 0, 0 }, { "kormo", 0, 0 },
                                             { "f2llmv2", 0, 0 }, { "qwen35", 0, 1 },           { "default", 1, 0 } };

enum { N_FORMS = sizeof forms / sizeof *forms, N_RUNS = sizeof character_runs / sizeof *character_runs, SHOWN = 64 };

gdn_status tok_splitter_find(rt_string pre, const tok_splitter **splitter)
{
    *splitter = NULL;
    for (int i = 0; i < N_FORMS; i++)
        if (pre.bytes == strlen(forms[i].pre) && !memcmp(pre.text, forms[i].pre, (size_t)pre.bytes))
            *splitter = &forms[i];
    return *splitter ? GDN_OK
                     : rt_fail(GDN_UNSUPPORTED,
                               "tokenizer.ggml.pre is \"%.*s\"; qwen2, deepseek-r1-qwen, kormo, f2llmv2, qwen35 and "
                               "default can be used",
                               pre.bytes > SHOWN ? SHOWN : (int)pre.bytes, pre.text);
}

static char_class class_of(uint32_t c)
{
    if (c == '\r' || c == '\n') return LINE;
    if (utf8_is_space(c)) return SPACE;
    int low = 0, high = N_RUNS; /* invariant: the run of c begins in [low, high) */
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (character_runs[middle] >> 2 <= c) low = middle;
        else high = middle;
    }
    return (char_class)(character_runs[low] & 3);
}

/* The character at `at`, in valid UTF-8 text. */
static place look(const char *text, uint64_t bytes, uint64_t at)
{
    place p = { 0, OTHER, at, 0 };
    if (at >= bytes) return p;
    p.bytes = (uint64_t)utf8_character(text + at, bytes - at, &p.c);
    p.kind = class_of(p.c);
    return p;
}

static place after(const char *text, uint64_t bytes, place p) { return look(text, bytes, p.at + p.bytes); }

static int is_letter(const tok_splitter *s, place p)
{
    return p.bytes && (p.kind == LETTER || (s->marks && p.kind == MARK));
}

/* True if neither white space, letter nor number. */
static int is_other(const tok_splitter *s, place p)
{
    return p.bytes && (p.kind == OTHER || (!s->marks && p.kind == MARK));
}

static int is_white(place p) { return p.bytes && (p.kind == SPACE || p.kind == LINE); }

/* End of the run of characters from p on for which `kind` is true. */
static uint64_t run(const tok_splitter *s, int (*kind)(const tok_splitter *s, place p), const char *text,
                    uint64_t bytes, place p)
{
    while (kind(s, p)) p = after(text, bytes, p);
    return p.at;
}

static int is_number(const tok_splitter *s, place p)
{
    (void)s;
    return p.bytes && p.kind == NUMBER;
}

/* Lower case of an ASCII letter, also of U+017F, which folds to s if case is ignored; else 0. */
static char letter(const tok_splitter *s, place p)
{
    if (!p.bytes || p.c > 'z') return (char)(p.bytes && p.c == 0x17F && !s->gpt2 ? 's' : 0);
    return (char)(p.c >= 'A' && p.c <= 'Z' && !s->gpt2 ? p.c + 'a' - 'A' : p.c);
}

/* End of a contraction 's, 't, 'm, 'd, 're, 've or 'll; 0: none. */
static uint64_t contraction(const tok_splitter *s, const char *text, uint64_t bytes, place p)
{
    if (p.c != '\'') return 0;
    const place next = after(text, bytes, p);
    const char a = letter(s, next);
    if (a && strchr("stmd", a)) return next.at + next.bytes;
    const place last = next.bytes ? after(text, bytes, next) : next;
    const char b = letter(s, last);
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? last.at + last.bytes : 0;
}

/* End of the white space from p on. If the rule has [\r\n]+ and there is one, up to the last end of line. Otherwise
 * without the last character, which belongs to the next word, unless the text ends there or it is the only one. */
static uint64_t white(const tok_splitter *s, const char *text, uint64_t bytes, place p)
{
    uint64_t line = 0, last = p.at;
    const uint64_t begin = p.at;
    for (; is_white(p); p = after(text, bytes, p)) {
        if (p.kind == LINE) line = p.at + p.bytes;
        last = p.at;
    }
    if (line && !s->gpt2) return line;
    return p.bytes && last > begin ? last : p.at;
}

uint64_t tok_cut(const tok_splitter *s, const char *text, uint64_t bytes, uint64_t at)
{
    const place p = look(text, bytes, at), next = after(text, bytes, p);
    const uint64_t short_form = contraction(s, text, bytes, p);
    if (short_form) return short_form;
    if (s->gpt2) {
        const place q = p.c == ' ' ? next : p; /* a space belongs to the next word */
        if (is_letter(s, q)) return run(s, is_letter, text, bytes, q);
        if (is_number(s, q)) return run(s, is_number, text, bytes, q);
        return is_other(s, q) ? run(s, is_other, text, bytes, q) : white(s, text, bytes, p);
    }
    if (p.kind != LINE && p.kind != LETTER && p.kind != NUMBER && is_letter(s, next))
        return run(s, is_letter, text, bytes, next);
    if (is_letter(s, p)) return run(s, is_letter, text, bytes, p);
    if (p.kind == NUMBER) return p.at + p.bytes;
    const place q = p.c == ' ' && is_other(s, next) ? next : p;
    if (!is_other(s, q)) return white(s, text, bytes, p);
    uint64_t end = run(s, is_other, text, bytes, q);
    while (end < bytes && (text[end] == '\r' || text[end] == '\n')) end++;
    return end;
}
