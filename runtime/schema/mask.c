/* Walks the sorted vocabulary with a schema's automaton. See mask.h. */
#include "runtime/schema/mask.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/schema/schema_internal.h"

enum {
    LONGEST = 128,
    ENDS = 64,
    FRAMES = SCHEMA_FRAMES + LONGEST * SCHEMA_TOPS * 4
}; /* LONGEST: bytes of an allowed token */

/* The stacks after a number of bytes of a token. */
typedef struct level {
    int32_t n_frames, n_tops, top[SCHEMA_TOPS];
} level;

/* A token that can be allowed, in the order of the bytes. shared: bytes at its beginning that the one before has. */
typedef struct entry {
    rt_string text;
    int32_t id, shared;
} entry;

struct rt_mask {
    const rt_tokenizer *tokenizer;
    int32_t n_vocab, n_entries, n_ends, end[ENDS];
    entry *entry;     /* [n_entries] */
    int32_t *allowed; /* [n_vocab]   */
    uint8_t *is;      /* [n_vocab]   */
    level level[LONGEST + 1];
    frame frame[FRAMES];
};

static int compare(const void *left, const void *right)
{
    const entry *const a = left, *const b = right;
    const uint64_t n = a->text.bytes < b->text.bytes ? a->text.bytes : b->text.bytes;
    const int order = memcmp(a->text.text, b->text.text, (size_t)n);
    if (order) return order;
    return a->text.bytes != b->text.bytes ? (a->text.bytes > b->text.bytes) * 2 - 1 : (a->id > b->id) - (a->id < b->id);
}

/* True if the token was added to the vocabulary as a call's mark. */
static int is_mark(const rt_tokenizer *t, int32_t id)
{
    const rt_string text = rt_token_bytes(t, id);
    return json_is(text, TOOL_MARK) || json_is(text, "</tool_call>");
}

/* True for tokens that can be allowed where not any text may come. */
static int has_text(const rt_tokenizer *t, int32_t id, int calls)
{
    const uint64_t bytes = rt_token_bytes(t, id).bytes;
    return bytes && bytes <= LONGEST && (!rt_token_is_added(t, id) || (calls && is_mark(t, id)));
}

gdn_status rt_mask_create(const rt_tokenizer *tokenizer, int32_t n_vocab, rt_mask **mask)
{
    rt_mask *const m = rt_calloc(1, sizeof *m, "a mask");
    const uint64_t n = (uint64_t)n_vocab;
    *mask = NULL;
    if (!m) return GDN_OUT_OF_MEMORY;
    *m = (rt_mask){ .tokenizer = tokenizer, .n_vocab = n_vocab };
    m->entry = rt_calloc(n, sizeof *m->entry, "a mask");
    m->allowed = rt_calloc(n, sizeof *m->allowed, "a mask");
    m->is = rt_calloc(n, 1, "a mask");
    if (!m->entry || !m->allowed || !m->is) {
        rt_mask_destroy(m);
        return GDN_OUT_OF_MEMORY;
    }
    for (int32_t id = 0; id < n_vocab; id++) {
        const rt_string text = rt_token_bytes(tokenizer, id);
        if (rt_tokenizer_is_end(tokenizer, id) && m->n_ends < ENDS) m->end[m->n_ends++] = id;
        if (has_text(tokenizer, id, 1)) m->entry[m->n_entries++] = (entry){ text, id, 0 };
    }
    qsort(m->entry, (size_t)m->n_entries, sizeof *m->entry, compare);
    for (int32_t i = 1; i < m->n_entries; i++) {
        const rt_string a = m->entry[i - 1].text, b = m->entry[i].text;
        int32_t *const k = &m->entry[i].shared;
        while ((uint64_t)*k < a.bytes && (uint64_t)*k < b.bytes && a.text[*k] == b.text[*k]) ++*k;
    }
    *mask = m;
    return GDN_OK;
}

void rt_mask_destroy(rt_mask *m)
{
    if (!m) return;
    rt_free(m->entry);
    rt_free(m->allowed);
    rt_free(m->is);
    rt_free(m);
}

static void begin(rt_mask *m, const rt_schema_state *s)
{
    memcpy(m->frame, s->frame, (size_t)s->machine.n * sizeof *m->frame);
    m->level[0].n_frames = s->machine.n;
    m->level[0].n_tops = s->n_tops;
    memcpy(m->level[0].top, s->top, sizeof s->top);
}

/* Goes on from level k; returns the number of bytes that are allowed. */
static int32_t walk(rt_mask *m, const rt_schema *schema, rt_string text, int32_t k)
{
    for (; (uint64_t)k < text.bytes; k++) {
        const level *const from = &m->level[k];
        level *const to = &m->level[k + 1];
        machine of = { .schema = schema, .frame = m->frame, .n = from->n_frames, .room = FRAMES };
        to->n_tops = schema_step(&of, from->top, from->n_tops, (unsigned char)text.text[k], to->top);
        to->n_frames = of.n;
        if (!to->n_tops) break;
    }
    return k;
}

int rt_mask_allows(rt_mask *m, const rt_schema_state *s, int32_t token)
{
    const rt_string text = rt_token_bytes(m->tokenizer, token);
    if (rt_tokenizer_is_end(m->tokenizer, token)) return rt_schema_complete(s);
    if (rt_schema_thinks(s)) return text.bytes > 0;
    if (!rt_schema_is_free(s) && !has_text(m->tokenizer, token, s->machine.schema->has_calls)) return 0;
    if (text.bytes > LONGEST) return !memchr(text.text, '<', text.bytes); /* in free text */
    begin(m, s);
    return text.bytes && (uint64_t)walk(m, s->machine.schema, text, 0) == text.bytes;
}

/* Sets m->is for tokens that are not end tokens. */
static void walk_all(rt_mask *m, const rt_schema_state *s)
{
    int32_t good = 0; /* bytes of the entry before that are allowed */
    begin(m, s);
    for (int32_t i = 0; i < m->n_entries; i++) {
        const entry *const e = &m->entry[i];
        if (good >= e->shared) good = walk(m, s->machine.schema, e->text, e->shared);
        m->is[e->id] = (uint64_t)good == e->text.bytes && has_text(m->tokenizer, e->id, s->machine.schema->has_calls);
    }
}

const int32_t *rt_mask_tokens(rt_mask *m, const rt_schema_state *s, int ends, int32_t *n)
{
    const int any = s && (rt_schema_thinks(s) || rt_schema_is_free(s));
    memset(m->is, !s, (size_t)m->n_vocab);
    if (s && !any) walk_all(m, s);
    for (int32_t id = 0; any && id < m->n_vocab; id++) m->is[id] = (uint8_t)rt_mask_allows(m, s, id);
    for (int32_t i = 0; i < m->n_ends; i++) m->is[m->end[i]] = (uint8_t)(ends && (!s || rt_schema_complete(s)));
    *n = 0;
    for (int32_t id = 0; id < m->n_vocab; id++)
        if (m->is[id]) m->allowed[(*n)++] = id;
    return m->allowed;
}

void rt_mask_take(const rt_mask *m, rt_schema_state *s, int32_t token)
{
    const rt_string text = rt_token_bytes(m->tokenizer, token);
    if (!rt_tokenizer_is_end(m->tokenizer, token)) (void)rt_schema_feed(s, text.text, text.bytes);
}
