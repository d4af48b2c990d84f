/* ChatML prompts of conversations. See chat.h. */
#include "runtime/text/chat.h"

#include <string.h>

#include "runtime/base/error.h"

typedef struct prompt {
    const rt_tokenizer *t;
    int32_t *tokens;
    int64_t capacity, count;
} prompt;

static void put_token(prompt *p, int32_t token)
{
    if (p->count < p->capacity) p->tokens[p->count] = token;
    p->count++;
}

static gdn_status put_text(prompt *p, const char *text, uint64_t bytes)
{
    const int64_t room = p->count < p->capacity ? p->capacity - p->count : 0;
    int64_t count = 0;
    const gdn_status status = rt_tokenize(p->t, text, bytes, 0, room ? p->tokens + p->count : NULL, room, &count);
    p->count += count;
    return status;
}

/* Role and text are tokenized as one text, as in training: newlines at the text's beginning merge with the one after
 * the role. */
static gdn_status put_message(prompt *p, const rt_message *message)
{
    const uint64_t n_role = strlen(message->role), n_text = message->bytes ? message->bytes : strlen(message->text);
    if (n_text > UINT64_C(1) << 29)
        return rt_fail(GDN_INVALID_ARGUMENT, "a message has %llu bytes; 2^29 are allowed", (unsigned long long)n_text);
    char *joined = rt_calloc(n_role + 1 + n_text, 1, "a message");
    if (!joined) return GDN_OUT_OF_MEMORY;
    memcpy(joined, message->role, (size_t)n_role);
    joined[n_role] = '\n';
    memcpy(joined + n_role + 1, message->text, (size_t)n_text);
    const gdn_status status = put_text(p, joined, n_role + 1 + n_text);
    rt_free(joined);
    return status;
}

static gdn_status check_message(const rt_message *message, int32_t number)
{
    static const char *const roles[] = { "system", "user", "assistant" };
    if (!message->role || !message->text)
        return rt_fail(GDN_INVALID_ARGUMENT, "message %d has no %s", (int)number, message->role ? "text" : "role");
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(message->role, roles[i])) return GDN_OK;
    return rt_fail(GDN_INVALID_ARGUMENT, "message %d has the role \"%.32s\"; system, user and assistant are allowed",
                   (int)number, message->role);
}

gdn_status rt_chat_tokenize(const rt_tokenizer *t, const rt_message *messages, int32_t n_messages, int32_t *tokens,
                            int64_t capacity, int64_t *count)
{
    const int32_t open = rt_tokenizer_find(t, "<|im_start|>"), close = rt_tokenizer_find(t, "<|im_end|>");
    gdn_status status = GDN_OK;
    prompt p = { t, tokens, capacity, 0 };
    *count = 0;
    if (capacity < 0 || (capacity && !tokens))
        return rt_fail(GDN_INVALID_ARGUMENT, "capacity is %lld%s; 0 or more, with tokens, are allowed",
                       (long long)capacity, tokens ? "" : " and tokens is NULL");
    if (n_messages < 0 || (n_messages && !messages))
        return rt_fail(GDN_INVALID_ARGUMENT, "n_messages is %d%s; 0 or more, with messages, are allowed",
                       (int)n_messages, messages ? "" : " and messages is NULL");
    if (!rt_token_is_special(t, open) || !rt_token_is_special(t, close))
        return rt_fail(GDN_UNSUPPORTED, "the vocabulary has no %s: the model was not trained for ChatML",
                       rt_token_is_special(t, open) ? "<|im_end|>" : "<|im_start|>");
    for (int32_t i = 0; !status && i < n_messages; i++) status = check_message(&messages[i], i);
    for (int32_t i = 0; !status && i < n_messages; i++) {
        put_token(&p, open);
        status = put_message(&p, &messages[i]);
        put_token(&p, close);
        if (!status) status = put_text(&p, "\n", 1);
    }
    put_token(&p, open);
    if (!status) status = put_text(&p, "assistant\n", 10);
    if (!status) *count = p.count;
    return status;
}
