/* Tokenizes text: finds special tokens first, then invalid UTF-8, then words. See tokenizer.h. */
#include "runtime/text/tokenizer_internal.h"

#include "runtime/base/error.h"
#include "runtime/text/utf8.h"

enum { MAX_TEXT = 1 << 30 };

typedef struct pass {
    const rt_tokenizer *t;
    uint32_t flags;
    const char *text;
    const unsigned char *mark; /* per byte: nonzero forbids control tokens; or NULL */
    tok_work work;
    tok_sink sink;
} pass;

static gdn_status put_words(pass *p, const char *text, uint64_t bytes)
{
    gdn_status status = GDN_OK;
    for (uint64_t at = 0, end = 0; !status && at < bytes; at = end) {
        end = tok_cut(p->t->splitter, text, bytes, at);
        status = tok_merge_word(p->t, &p->work, text + at, end - at, &p->sink);
    }
    return status;
}

/* Tokenizes text without special tokens. An invalid byte is a word of its own. */
static gdn_status put_plain(pass *p, const char *text, uint64_t bytes)
{
    gdn_status status = GDN_OK;
    uint64_t begin = 0, at = 0;
    while (!status && at < bytes) {
        uint32_t code;
        const int n = utf8_character(text + at, bytes - at, &code);
        if (n == 1 && code >= 0x80) {
            status = put_words(p, text + begin, at - begin);
            if (!status) status = tok_merge_word(p->t, &p->work, text + at, 1, &p->sink);
            begin = at + 1;
        }
        at += (uint64_t)n;
    }
    return status ? status : put_words(p, text + begin, bytes - begin);
}

/* The longest special token at the beginning of the text; -1: none. Narrows the sorted tokens byte by byte to those
 * with the same prefix; the first of them is complete if any is. */
static int32_t special_at(const pass *p, const char *text, uint64_t bytes)
{
    const rt_tokenizer *const t = p->t;
    const unsigned char *const mark = p->mark ? p->mark + (text - p->text) : NULL;
    int parses = (p->flags & RT_PARSE_SPECIAL) != 0;
    int32_t low = 0, high = t->n_special, best = -1;
    for (uint64_t d = 0; d < bytes && low < high; d++) {
        const unsigned char wanted = (unsigned char)text[d];
        parses = parses && !(mark && mark[d]);
        for (int side = 0; side < 2; side++) { /* first token with byte d >= wanted; then > wanted */
            int32_t from = low, to = high;
            while (from < to) {
                const int32_t middle = from + (to - from) / 2;
                const unsigned char byte = (unsigned char)tok_text(t, t->special[middle]).text[d];
                if (byte < wanted || (side && byte == wanted)) from = middle + 1;
                else to = middle;
            }
            if (side) high = from;
            else low = from;
        }
        if (low < high && tok_text(t, t->special[low]).bytes == d + 1) {
            const int32_t id = t->special[low++];
            if (t->kind[id] == TOK_USER || parses) best = id;
        }
    }
    return best;
}

static gdn_status put_text(pass *p, const char *text, uint64_t bytes)
{
    gdn_status status = GDN_OK;
    uint64_t begin = 0, at = 0;
    while (!status && at < bytes) {
        const int may_be = p->t->begins_special[(unsigned char)text[at]];
        const int32_t id = may_be ? special_at(p, text + at, bytes - at) : -1;
        if (id < 0) {
            at++;
            continue;
        }
        status = put_plain(p, text + begin, at - begin);
        tok_put(&p->sink, id);
        at += tok_text(p->t, id).bytes;
        begin = at;
    }
    return status ? status : put_plain(p, text + begin, bytes - begin);
}

static gdn_status tokenize(pass *p, const char *text, uint64_t bytes, uint32_t flags, int64_t *count)
{
    const int32_t *const tokens = p->sink.tokens;
    const int64_t capacity = p->sink.capacity;
    *count = 0;
    if (bytes > MAX_TEXT)
        return rt_fail(GDN_INVALID_ARGUMENT, "the text has %llu bytes; at most 2^30 are allowed",
                       (unsigned long long)bytes);
    if (!text && bytes)
        return rt_fail(GDN_INVALID_ARGUMENT, "text is NULL, but bytes is %llu", (unsigned long long)bytes);
    if (flags & ~(uint32_t)RT_PARSE_SPECIAL)
        return rt_fail(GDN_INVALID_ARGUMENT, "flags is 0x%x; 0 and RT_PARSE_SPECIAL are allowed", (unsigned)flags);
    if (capacity < 0 || (capacity && !tokens))
        return rt_fail(GDN_INVALID_ARGUMENT, "capacity is %lld%s; 0 or more, with tokens, are allowed",
                       (long long)capacity, tokens ? "" : " and tokens is NULL");
    if (!bytes) return GDN_OK;
    const gdn_status status = put_text(p, text, bytes);
    tok_work_free(&p->work);
    if (!status) *count = p->sink.count;
    return status;
}

gdn_status rt_tokenize(const rt_tokenizer *t, const char *text, uint64_t bytes, uint32_t flags, int32_t *tokens,
                       int64_t capacity, int64_t *count)
{
    pass p = { .t = t, .flags = flags, .text = text, .sink = { tokens, capacity, 0 } };
    return tokenize(&p, text, bytes, flags, count);
}

gdn_status rt_tokenize_marked(const rt_tokenizer *t, const char *text, const unsigned char *mark, uint64_t bytes,
                              int32_t *tokens, int64_t capacity, int64_t *count)
{
    pass p = { .t = t, .flags = RT_PARSE_SPECIAL, .text = text, .mark = mark, .sink = { tokens, capacity, 0 } };
    return tokenize(&p, text, bytes, RT_PARSE_SPECIAL, count);
}
