/* Saves and loads conversations: "GDNTALK2", a header, messages, their checksum, and a save of the prefix cache with
 * the checkpoint from which the next turn continues. A resumed conversation therefore decodes the same tokens, and
 * answers the same, as one that was not saved. */
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/serve/conversation_internal.h"

typedef struct header {
    char magic[8];
    uint64_t bytes; /* up to the end of the checksum */
    uint64_t fingerprint;
    int32_t n_messages, reserved;
} header;

typedef struct record { /* of a message, followed by its text and reasoning */
    int32_t role, has_reasoning;
    uint64_t bytes, n_reasoning;
} record;

static const char *const roles[] = { "system", "user", "assistant" };
static const char magic[] = "GDNTALK2", old_magic[] = "GDNTALK1";

/* ---- Saving ---- */

static unsigned char *put(unsigned char *at, const void *bytes, uint64_t n)
{
    if (n) memcpy(at, bytes, (size_t)n);
    return at + n;
}

static gdn_status write_messages(const rt_conversation *c, rt_write_fn write, void *user)
{
    header h = { .fingerprint = rt_chat_fingerprint(c->desc.chat), .n_messages = c->n_messages };
    memcpy(h.magic, magic, sizeof h.magic);
    h.bytes = sizeof h + 8;
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
    const uint64_t sum = gdn_checksum(made, h.bytes - 8);
    (void)put(at, &sum, 8);
    const gdn_status status = write(user, made, h.bytes);
    rt_free(made);
    return status;
}

gdn_status rt_conversation_save(const rt_conversation *c, rt_write_fn write, void *user)
{
    rt_chat_prompt next = { 0 };
    gdn_status status = rt_conversation_next(c, &next);
    if (status == GDN_UNSUPPORTED) status = GDN_OK; /* the template refuses the stand-in: no checkpoint is found */
    if (!status) status = write_messages(c, write, user);
    if (!status)
        status = rt_memory_prefix_save_one(rt_engine_memory(c->desc.engine), rt_engine_bits(c->desc.engine),
                                           next.tokens, (int32_t)next.n, write, user);
    rt_free(next.tokens);
    return status;
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

static gdn_status check(const rt_conversation *c, const void *bytes, uint64_t n, header *h)
{
    uint64_t sum;
    if (c->desc.system)
        return rt_fail(GDN_INVALID_ARGUMENT, "a saved conversation has its system message; there is another one here");
    if (c->n_messages) return rt_fail(GDN_INVALID_ARGUMENT, "a conversation that has begun is not replaced");
    if (n >= 8 && !memcmp(bytes, old_magic, 8))
        return rt_fail(GDN_INVALID_ARGUMENT, "an older release saved the conversation, and this one does not read that "
                                             "format; continue it with that release, or begin a new one");
    if (n < sizeof *h + 8 || memcmp(bytes, magic, 8) != 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "this is no saved conversation");
    memcpy(h, bytes, sizeof *h);
    if (h->bytes < sizeof *h + 8 || h->bytes > n)
        return rt_fail(GDN_INVALID_ARGUMENT, "the saved conversation is damaged: it has %llu bytes, of %llu",
                       (unsigned long long)n, (unsigned long long)h->bytes);
    memcpy(&sum, (const unsigned char *)bytes + h->bytes - 8, 8);
    if (gdn_checksum(bytes, h->bytes - 8) != sum)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "the saved conversation is damaged: the checksum of its messages is wrong");
    if (h->fingerprint != rt_chat_fingerprint(c->desc.chat))
        return rt_fail(GDN_INVALID_ARGUMENT, "the conversation was saved with another chat template");
    return GDN_OK;
}

/* GDN_INVALID_ARGUMENT: the context cannot hold the conversation and another message. */
static gdn_status check_length(const rt_conversation *c)
{
    rt_chat_prompt next = { 0 };
    const gdn_status status = rt_conversation_next(c, &next);
    rt_free(next.tokens);
    if (status == GDN_OUT_OF_MEMORY || next.n < c->limits.n_ctx) return status == GDN_UNSUPPORTED ? GDN_OK : status;
    return rt_fail(GDN_INVALID_ARGUMENT,
                   "the saved conversation has %lld tokens with another message; the context holds %d, and one must be "
                   "left to answer",
                   (long long)next.n, (int)c->limits.n_ctx);
}

gdn_status rt_conversation_load(rt_conversation *c, const void *bytes, uint64_t n)
{
    header h;
    rt_prefix_saved loaded;
    gdn_status status = check(c, bytes, n, &h);
    if (status) return status;
    reader r = { (const unsigned char *)bytes + sizeof h, h.bytes - sizeof h - 8 };
    int good = h.n_messages >= 0;
    for (int32_t i = 0; good && !status && i < h.n_messages; i++) good = read_message(&r, c, &status);
    if (!status && (!good || r.left))
        status = rt_fail(GDN_INVALID_ARGUMENT, "the saved conversation is damaged: its parts do not fit");
    if (!status) status = check_length(c);
    if (!status)
        status = rt_memory_prefix_load(rt_engine_memory(c->desc.engine), rt_engine_bits(c->desc.engine),
                                       (const unsigned char *)bytes + h.bytes, n - h.bytes, &loaded);
    if (status) rt_conversation_cut(c, 0);
    return status;
}
