/* Saves and loads conversations: "GDNTALK1", a header, messages, tokens, a save of one sequence, a checksum.
 *
 * The saved sequence is the one from which the next turn continues. It is RT_LIVE if its tokens are a prefix of the
 * next rendering, otherwise RT_ANCHOR, the state before the last answer. A resumed conversation therefore decodes the
 * same tokens, and answers the same, as one that was not saved. */
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/serve/conversation_internal.h"

typedef struct header {
    char magic[8];
    uint64_t bytes; /* of the whole save with its checksum */
    uint64_t fingerprint, memory_bytes;
    int32_t n_messages, n_tokens, n_anchor, reserved;
} header;

typedef struct record { /* of a message, followed by its text and reasoning */
    int32_t role, has_reasoning;
    uint64_t bytes, n_reasoning;
} record;

static const char *const roles[] = { "system", "user", "assistant" };
static const char magic[] = "GDNTALK1";

/* True if the next turn's prompt begins with all tokens of RT_LIVE. */
static int goes_on(const rt_conversation *c)
{
    const int32_t held = rt_memory_seq_length(rt_engine_memory(c->desc.engine), RT_LIVE);
    const rt_message next = { .role = "user", .text = "x", .bytes = 1 };
    rt_chat_prompt then;
    if (!held || rt_conversation_render(c, &next, 1, 1, &then)) return 0;
    const int good = then.n > held && !memcmp(then.tokens, c->tokens, (size_t)held * sizeof *c->tokens);
    rt_free(then.tokens);
    return good;
}

static unsigned char *put(unsigned char *at, const void *bytes, uint64_t n)
{
    if (n) memcpy(at, bytes, (size_t)n);
    return at + n;
}

gdn_status rt_conversation_save(const rt_conversation *c, void **bytes, uint64_t *n)
{
    rt_memory *m = rt_engine_memory(c->desc.engine);
    const int32_t seq = goes_on(c) ? RT_LIVE : RT_ANCHOR;
    header h = { .fingerprint = rt_chat_fingerprint(c->desc.chat), .n_messages = c->n_messages };
    *bytes = NULL;
    *n = 0;
    memcpy(h.magic, magic, sizeof h.magic);
    h.n_tokens = rt_memory_seq_length(m, seq);
    h.n_anchor = h.n_tokens == c->n_anchor ? h.n_tokens : 0;
    h.memory_bytes = rt_memory_save_size(m, seq);
    h.bytes = sizeof h + 4 * (uint64_t)h.n_tokens + h.memory_bytes + 8;
    for (int32_t i = 0; i < c->n_messages; i++)
        h.bytes += sizeof(record) + c->message[i].bytes + c->message[i].n_reasoning;
    unsigned char *const made = rt_calloc(h.bytes, 1, "a saved conversation");
    if (!made) return GDN_OUT_OF_MEMORY;
    unsigned char *at = put(made, &h, sizeof h);
    for (int32_t i = 0; i < c->n_messages; i++) {
        const rt_message *said = &c->message[i];
        record r = { 0, said->reasoning != NULL, said->bytes, said->n_reasoning };
        while (strcmp(roles[r.role], said->role) != 0) r.role++;
        at = put(at, &r, sizeof r);
        at = put(at, said->text, said->bytes);
        at = put(at, said->reasoning, said->n_reasoning);
    }
    at = put(at, c->tokens, 4 * (uint64_t)h.n_tokens);
    const gdn_status status = rt_memory_save(m, seq, at, h.memory_bytes);
    if (status) {
        rt_free(made);
        return status;
    }
    const uint64_t sum = gdn_checksum(made, h.bytes - 8);
    (void)put(at + h.memory_bytes, &sum, 8);
    *bytes = made;
    *n = h.bytes;
    return GDN_OK;
}

/* ---- Loading ---- */

typedef struct reader {
    const unsigned char *at;
    uint64_t left;
} reader;

/* The next n bytes; NULL: there are fewer. */
static const unsigned char *take(reader *r, uint64_t n)
{
    const unsigned char *const at = r->at;
    if (n > r->left) return NULL;
    r->at += n;
    r->left -= n;
    return at;
}

/* Reads one message and appends it. */
static int read_message(reader *r, rt_conversation *c, gdn_status *status)
{
    record of;
    const unsigned char *const bytes = take(r, sizeof of);
    if (!bytes) return 0;
    memcpy(&of, bytes, sizeof of);
    const char *const text = (const char *)take(r, of.bytes), *const reasoning = (const char *)take(r, of.n_reasoning);
    if (!text || !reasoning || of.role < 0 || of.role > 2 || (of.n_reasoning && !of.has_reasoning)) return 0;
    const rt_message said = { roles[of.role], text, of.bytes, of.has_reasoning ? reasoning : NULL, of.n_reasoning };
    *status = rt_conversation_add(c, &said);
    return 1;
}

/* Removes the first n messages. */
static void drop(rt_conversation *c, int32_t n)
{
    for (int32_t i = 0; i < n; i++) rt_conversation_free_message(&c->message[i]);
    c->n_messages -= n;
    memmove(c->message, c->message + n, (size_t)c->n_messages * sizeof *c->message);
}

static gdn_status check(const rt_conversation *c, const void *bytes, uint64_t n, header *h)
{
    uint64_t sum;
    if (c->desc.system)
        return rt_fail(GDN_INVALID_ARGUMENT, "a saved conversation has its system message; there is another one here");
    if (n < sizeof *h + 8 || memcmp(bytes, magic, 8) != 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "this is no saved conversation");
    memcpy(h, bytes, sizeof *h);
    memcpy(&sum, (const unsigned char *)bytes + n - 8, 8);
    if (h->bytes != n || gdn_checksum(bytes, n - 8) != sum)
        return rt_fail(GDN_INVALID_ARGUMENT, "the saved conversation is damaged: it has %llu bytes, of %llu",
                       (unsigned long long)n, (unsigned long long)h->bytes);
    if (h->fingerprint != rt_chat_fingerprint(c->desc.chat))
        return rt_fail(GDN_INVALID_ARGUMENT, "the conversation was saved with another chat template");
    if (h->n_tokens >= c->limits.n_ctx)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "the saved conversation has %d tokens; the context holds %d, and one must be "
                       "left to answer",
                       (int)h->n_tokens, (int)c->limits.n_ctx);
    return GDN_OK;
}

gdn_status rt_conversation_load(rt_conversation *c, const void *bytes, uint64_t n)
{
    header h;
    const int32_t before = c->n_messages;
    rt_memory *m = rt_engine_memory(c->desc.engine);
    gdn_status status = check(c, bytes, n, &h);
    if (status) return status;
    reader r = { (const unsigned char *)bytes + sizeof h, n - sizeof h - 8 };
    int good = h.n_tokens >= 0 && h.n_messages >= 0 && (h.n_anchor == 0 || h.n_anchor == h.n_tokens);
    for (int32_t i = 0; good && !status && i < h.n_messages; i++) good = read_message(&r, c, &status);
    const unsigned char *const tokens = good ? take(&r, 4 * (uint64_t)h.n_tokens) : NULL;
    good = good && tokens && r.left == h.memory_bytes;
    for (int32_t i = 0; good && !status && i < h.n_tokens; i++) {
        int32_t token;
        memcpy(&token, tokens + 4 * (size_t)i, 4);
        good = token >= 0;
        if (token >= c->limits.n_vocab)
            status = rt_fail(GDN_INVALID_ARGUMENT,
                             "the conversation was saved with another model: it has the token %d; the vocabulary here "
                             "has %d",
                             (int)token, (int)c->limits.n_vocab);
    }
    if (!status && !good)
        status = rt_fail(GDN_INVALID_ARGUMENT, "the saved conversation is damaged: its parts do not fit");
    if (!status) status = rt_memory_load(m, RT_LIVE, r.at, r.left);
    if (status) {
        rt_conversation_cut(c, before);
        return status;
    }
    drop(c, before);
    if (h.n_tokens) memcpy(c->tokens, tokens, 4 * (size_t)h.n_tokens);
    c->n_tokens = h.n_tokens;
    c->n_anchor = h.n_anchor;
    if (rt_memory_seq_length(m, RT_LIVE) != h.n_tokens) { /* tokens and memory do not match: decode everything again */
        (void)rt_memory_seq_rm(m, RT_LIVE, 0, -1);
        c->n_tokens = c->n_anchor = 0;
    }
    return c->n_anchor ? rt_memory_seq_cp(m, RT_LIVE, RT_ANCHOR) : rt_memory_seq_rm(m, RT_ANCHOR, 0, -1);
}
