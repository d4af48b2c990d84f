/* Cuts text into words with the regular expression that a vocabulary was trained with. See tokenizer.h.
 *
 * The expressions are data of the models (tokenizer.json of Qwen2 and of Qwen3.5, and GPT-2's). Two things are
 * written out so that they mean in PCRE2 what they mean there: white space is Unicode's property White_Space
 * (PCRE2's \s has U+180E as well), and \S is what is not that. */
#ifdef GDN_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#include "runtime/tokenizer_internal.h"

#include <string.h>

#include "runtime/error.h"

#define SPACE "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define SPACES_AT_END "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

static const struct { const char *pre, *regex; } forms[] = {
    { "qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*"
               "|[" SPACE "]*[\\r\\n]+|" SPACES_AT_END },
    { "qwen35", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                "| ?[^" SPACE "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|" SPACES_AT_END },
    { "default", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACES_AT_END },
};

enum { N_FORMS = sizeof forms / sizeof *forms, SHOWN = 64 };

static const char *regex_of(rt_string pre)
{
    for (int i = 0; i < N_FORMS; i++)
        if (pre.bytes == strlen(forms[i].pre) && !memcmp(pre.text, forms[i].pre, (size_t)pre.bytes))
            return forms[i].regex;
    return NULL;
}

static gdn_status unknown_form(rt_string pre)
{
    return rt_fail(GDN_UNSUPPORTED, "tokenizer.ggml.pre is \"%.*s\"; qwen2, qwen35 and default can be used",
                   pre.bytes > SHOWN ? SHOWN : (int)pre.bytes, pre.text);
}

#ifdef GDN_HAVE_PCRE2

struct tok_splitter {
    pcre2_general_context *memory;
    pcre2_match_context   *limits;
    pcre2_code            *code;
};

struct tok_cutter {
    const tok_splitter *splitter;
    pcre2_match_data   *match;
};

static void *allocate(size_t bytes, void *unused)
{
    (void)unused;
    return rt_calloc(bytes, 1, "the regular expression");
}

static void release(void *memory, void *unused)
{
    (void)unused;
    rt_free(memory);
}

void tok_splitter_destroy(tok_splitter *s)
{
    if (!s)
        return;
    pcre2_code_free(s->code);
    pcre2_match_context_free(s->limits);
    pcre2_general_context_free(s->memory);
    rt_free(s);
}

gdn_status tok_splitter_create(rt_string pre, tok_splitter **splitter)
{
    const char *regex = regex_of(pre);
    *splitter = NULL;
    if (!regex)
        return unknown_form(pre);
    int           error = 0;
    PCRE2_SIZE    at    = 0;
    tok_splitter *s     = rt_calloc(1, sizeof *s, "the regular expression");
    if (!s)
        return GDN_OUT_OF_MEMORY;
    s->memory = pcre2_general_context_create(allocate, release, NULL);
    s->limits = s->memory ? pcre2_match_context_create(s->memory) : NULL;
    pcre2_compile_context *options = s->limits ? pcre2_compile_context_create(s->memory) : NULL;
    if (options)
        s->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, options);
    pcre2_compile_context_free(options);
    if (!s->code) {
        tok_splitter_destroy(s);
        return options && error != PCRE2_ERROR_HEAP_FAILED
                   ? rt_fail(GDN_INTERNAL, "PCRE2 refuses the regular expression at %llu, error %d",
                             (unsigned long long)at, error)
                   : GDN_OUT_OF_MEMORY;
    }
    /* A text of 2^30 spaces is no reason to give up: the expressions step back over a run once at most. */
    (void)pcre2_set_match_limit(s->limits, UINT32_MAX);
    (void)pcre2_set_depth_limit(s->limits, UINT32_MAX);
    (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* where it cannot be had, PCRE2 interprets */
    *splitter = s;
    return GDN_OK;
}

gdn_status tok_cutter_create(const tok_splitter *splitter, tok_cutter **cutter)
{
    pcre2_match_data *match = pcre2_match_data_create(1, splitter->memory);
    *cutter = match ? rt_calloc(1, sizeof **cutter, "a match") : NULL;
    if (*cutter)
        **cutter = (tok_cutter){ splitter, match };
    else
        pcre2_match_data_free(match);
    return *cutter ? GDN_OK : GDN_OUT_OF_MEMORY;
}

void tok_cutter_destroy(tok_cutter *c)
{
    if (!c)
        return;
    pcre2_match_data_free(c->match);
    rt_free(c);
}

gdn_status tok_cut(tok_cutter *c, const char *text, uint64_t bytes, uint64_t at, uint64_t *end)
{
    uint32_t flags = PCRE2_NO_UTF_CHECK; /* the caller has checked */
    int      found = pcre2_match(c->splitter->code, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)at, flags,
                                 c->match, c->splitter->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        flags |= PCRE2_NO_JIT;
        found = pcre2_match(c->splitter->code, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)at, flags, c->match,
                            c->splitter->limits);
    }
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        return rt_fail(found == PCRE2_ERROR_NOMEMORY ? GDN_OUT_OF_MEMORY : GDN_INTERNAL,
                       "PCRE2 cannot cut a text of %llu bytes into words, error %d", (unsigned long long)bytes, found);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(c->match);
    if (found < 0)
        *end = bytes;
    else if (span[0] > at) /* what no alternative takes is a word of its own */
        *end = span[0];
    else
        *end = span[1];
    if (*end <= at || *end > bytes)
        return rt_fail(GDN_INTERNAL, "the regular expression finds a word of no bytes");
    return GDN_OK;
}

#else /* a build without PCRE2 */

gdn_status tok_splitter_create(rt_string pre, tok_splitter **splitter)
{
    *splitter = NULL;
    return regex_of(pre) ? rt_fail(GDN_UNAVAILABLE, "this build has no PCRE2, which the tokenizer needs")
                         : unknown_form(pre);
}

void tok_splitter_destroy(tok_splitter *s) { (void)s; }

gdn_status tok_cutter_create(const tok_splitter *splitter, tok_cutter **cutter)
{
    (void)splitter;
    *cutter = NULL;
    return GDN_UNAVAILABLE;
}

void tok_cutter_destroy(tok_cutter *c) { (void)c; }

gdn_status tok_cut(tok_cutter *c, const char *text, uint64_t bytes, uint64_t at, uint64_t *end)
{
    (void)c, (void)text, (void)bytes, (void)at, (void)end;
    return GDN_UNAVAILABLE;
}

#endif
