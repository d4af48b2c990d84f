/* Splits the text of a chat template into tokens. See template_internal.h. */
#include <string.h>

#include "runtime/text/template_internal.h"

typedef struct lexer {
    tpl_arena *arena;
    const char *text, *end, *at;
    uint32_t line;
    int starts_line; /* 1: the next text begins a line */
    tpl_token *token;
    uint64_t n, room;
    gdn_status status;
} lexer;

static gdn_status refuse(lexer *x, const char *what)
{
    if (!x->status) x->status = rt_fail(GDN_UNSUPPORTED, "the chat template, line %u: %s", (unsigned)x->line, what);
    return x->status;
}

static tpl_token *put(lexer *x, tpl_token_kind kind, const char *text, uint64_t n)
{
    if (x->n == x->room) {
        const uint64_t room = x->room ? 2 * x->room : 256;
        tpl_token *larger = tpl_new(x->arena, room * sizeof *larger);
        if (!larger) {
            x->status = GDN_OUT_OF_MEMORY;
            return NULL;
        }
        if (x->n) memcpy(larger, x->token, (size_t)x->n * sizeof *larger);
        x->token = larger;
        x->room = room;
    }
    x->token[x->n] = (tpl_token){ kind, x->line, text, n, 0 };
    return &x->token[x->n++];
}

static int starts(const lexer *x, const char *what)
{
    const size_t n = strlen(what);
    return (size_t)(x->end - x->at) >= n && !memcmp(x->at, what, n);
}

static void skip(lexer *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x->line += x->at[i] == '\n';
    x->at += n;
}

static void skip_space(lexer *x)
{
    const tpl_text rest = { x->at, NULL, (uint64_t)(x->end - x->at) };
    skip(x, rest.n - tpl_strip(NULL, rest, NULL, 1).n);
}

/* ---- Text between tags ---- */

/* Emits the text before a tag. "-" strips all white space at its end. A tag alone on its line strips the line's
 * indentation, unless it has "+". */
static void put_data(lexer *x, const char *begin, char sign, int prints)
{
    tpl_text data = { begin, NULL, (uint64_t)(x->at - begin) };
    if (sign == '-') {
        data = tpl_strip(NULL, data, NULL, 2);
    } else if (sign != '+' && !prints) {
        uint64_t from = data.n;
        while (from && data.text[from - 1] != '\n') from--;
        const tpl_text last = tpl_part(data, from, data.n);
        if ((from || x->starts_line) && !tpl_strip(NULL, last, NULL, 1).n) data.n = from;
    }
    if (data.n) (void)put(x, TPL_DATA, data.text, data.n);
}

/* Skips after a tag or comment: "-" all white space; a tag that prints nothing, the newline after it. */
static void after_tag(lexer *x, char sign, int prints)
{
    const char *const begin = x->at;
    if (sign == '-') skip_space(x);
    else if (sign != '+' && !prints && x->at < x->end && *x->at == '\n') skip(x, 1);
    x->starts_line = x->at > begin && x->at[-1] == '\n';
}

/* ---- Within tags ---- */

static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads `least` to `most` digits of base 8 or 16. */
static int code_of(const char *at, const char *end, unsigned base, int least, int most, uint32_t *code)
{
    static const char digits[] = "0123456789abcdef";
    int n = 0;
    *code = 0;
    for (; n < most && at + n < end; n++) {
        const char c = at[n] >= 'A' && at[n] <= 'F' ? (char)(at[n] + 32) : at[n];
        const char *const digit = c ? memchr(digits, c, base) : NULL;
        if (!digit) break;
        *code = *code * base + (uint32_t)(digit - digits);
    }
    return n < least ? 0 : n;
}

/* Decodes one escape sequence with Python's rules; `at` is after the backslash. Returns its length, 0 for an
 * unsupported one. Unknown escapes stay as they are, as in Python. */
static uint64_t escape(const char *at, const char *end, char *to, uint64_t *n)
{
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    const char *const name = memchr(names, *at, sizeof names - 1);
    uint32_t code = 0;
    if (name) {
        to[(*n)++] = values[name - names];
        return 1;
    }
    if (*at == '\n') return 1;
    const int octal = *at >= '0' && *at <= '7';
    const int wanted = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (*at == 'N') return 0;
    if (!octal && !wanted) {
        to[(*n)++] = '\\';
        return UINT64_MAX; /* keep the backslash; the character follows */
    }
    const int digits = octal ? code_of(at, end, 8, 1, 3, &code) : code_of(at + 1, end, 16, wanted, wanted, &code);
    if (!digits || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    *n += utf8_encode(code, to + *n);
    return (uint64_t)digits + !octal;
}

static void string(lexer *x)
{
    const char quote = *x->at;
    const char *close = x->at + 1;
    while (close < x->end && *close != quote) close += *close == '\\' && close + 1 < x->end ? 2 : 1;
    if (close >= x->end) {
        (void)refuse(x, "a string has no end");
        return;
    }
    /* an escape is never shorter than its value */
    char *to = tpl_new(x->arena, (uint64_t)(close - x->at));
    uint64_t n = 0;
    if (!to) {
        x->status = GDN_OUT_OF_MEMORY;
        return;
    }
    for (const char *at = x->at + 1; at < close; at++) {
        if (*at != '\\') {
            to[n++] = *at;
            continue;
        }
        const uint64_t length = escape(at + 1, close, to, &n);
        if (!length) {
            (void)refuse(x, "an escape in a string is not known here");
            return;
        }
        at += length == UINT64_MAX ? 0 : length;
    }
    if (put(x, TPL_STRING, to, n)) skip(x, (uint64_t)(close + 1 - x->at));
}

static void number(lexer *x)
{
    const char *at = x->at;
    int64_t value = 0;
    for (; at < x->end && is_digit(*at); at++) {
        if (value > (INT64_MAX - 9) / 10) {
            (void)refuse(x, "a number is too large");
            return;
        }
        value = 10 * value + (*at - '0');
    }
    if (at < x->end && (is_letter(*at) || (*at == '.' && at + 1 < x->end && is_digit(at[1])))) {
        (void)refuse(x, "a number is not a whole one in decimal digits");
        return;
    }
    tpl_token *t = put(x, TPL_NUMBER, x->at, (uint64_t)(at - x->at));
    if (t) t->number = value;
    x->at = at;
}

static void sign(lexer *x, int *open)
{
    static const char *const signs[] = { "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                         ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|" };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (starts(x, signs[i])) {
            *open += strchr("([{", *signs[i]) != NULL;
            *open -= strchr(")]}", *signs[i]) != NULL;
            if (*open < 0) break;
            (void)put(x, TPL_SIGN, signs[i], strlen(signs[i]));
            x->at += strlen(signs[i]);
            return;
        }
    (void)refuse(x, *open < 0 ? "a bracket closes that none opened" : "a character that belongs to no expression");
}

/* Reads the tokens inside a tag, up to and including its end. */
static void inside(lexer *x, int prints)
{
    int open = 0;
    while (!x->status) {
        skip_space(x);
        if (x->at >= x->end) {
            (void)refuse(x, "a tag has no end");
            return;
        }
        const char *const close = prints ? "}}" : "%}";
        const int signs = *x->at == '-' || (*x->at == '+' && !prints);
        const char mark = signs ? *x->at : 0;
        if (!open && (size_t)(x->end - x->at) >= 2 + (size_t)signs && !memcmp(x->at + signs, close, 2)) {
            (void)put(x, TPL_END, x->at, 2);
            x->at += 2 + signs;
            after_tag(x, mark, prints);
            return;
        }
        if (is_letter(*x->at)) {
            const char *at = x->at;
            while (at < x->end && (is_letter(*at) || is_digit(*at))) at++;
            (void)put(x, TPL_NAME, x->at, (uint64_t)(at - x->at));
            x->at = at;
        } else if (is_digit(*x->at)) {
            number(x);
        } else if (*x->at == '"' || *x->at == '\'') {
            string(x);
        } else {
            sign(x, &open);
        }
    }
}

static void comment(lexer *x)
{
    const char *const begin = x->at;
    while (x->at < x->end && !starts(x, "#}")) skip(x, 1);
    if (x->at >= x->end) {
        (void)refuse(x, "a comment has no end");
        return;
    }
    const char mark = x->at > begin ? x->at[-1] : 0;
    x->at += 2;
    after_tag(x, mark == '-' || mark == '+' ? mark : 0, 0);
}

gdn_status tpl_lex(tpl_arena *a, const char *text, uint64_t bytes, tpl_token **tokens, uint64_t *count)
{
    lexer x = { .arena = a, .text = text, .end = text + bytes, .at = text, .line = 1, .starts_line = 1 };
    const char *begin = text;
    if (bytes && memchr(text, 0, (size_t)bytes)) return refuse(&x, "it holds a NUL byte");
    while (!x.status && x.at < x.end) {
        const int prints = starts(&x, "{{"), remark = starts(&x, "{#");
        if (!prints && !remark && !starts(&x, "{%")) {
            skip(&x, 1);
            continue;
        }
        const char next = x.at + 2 < x.end ? x.at[2] : 0, mark = next == '-' || next == '+' ? next : 0;
        put_data(&x, begin, mark, prints);
        x.at += 2 + (mark != 0);
        if (remark) comment(&x);
        else if (!x.status && put(&x, prints ? TPL_BEGIN_PRINT : TPL_BEGIN_TAG, x.at, 0)) inside(&x, prints);
        begin = x.at;
    }
    if (!x.status && x.at > begin) (void)put(&x, TPL_DATA, begin, (uint64_t)(x.at - begin));
    if (!x.status) (void)put(&x, TPL_EOF, x.at, 0);
    *tokens = x.token;
    *count = x.n;
    return x.status;
}
