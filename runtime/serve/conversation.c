/* Turns of a conversation: messages, their rendering, a request, its answer. See conversation.h. */
#include <string.h>

#include "runtime/serve/conversation_internal.h"

/* ---- Messages ---- */

gdn_status rt_conversation_add(rt_conversation *c, const rt_message *message)
{
    if (c->n_messages == c->room) {
        const int32_t room = c->room ? 2 * c->room : 16;
        rt_message *all = rt_calloc((uint64_t)room, sizeof *all, "messages");
        if (!all) return GDN_OUT_OF_MEMORY;
        if (c->n_messages) memcpy(all, c->message, (size_t)c->n_messages * sizeof *all);
        rt_free(c->message);
        c->message = all;
        c->room = room;
    }
    char *bytes = rt_calloc(message->bytes + message->n_reasoning + 2, 1, "a message");
    if (!bytes) return GDN_OUT_OF_MEMORY;
    if (message->bytes) memcpy(bytes, message->text, (size_t)message->bytes);
    char *reasoning = bytes + message->bytes + 1;
    if (message->n_reasoning) memcpy(reasoning, message->reasoning, (size_t)message->n_reasoning);
    rt_message *own = &c->message[c->n_messages++];
    *own = *message;
    own->text = bytes;
    own->reasoning = message->reasoning ? reasoning : NULL;
    return GDN_OK;
}

void rt_conversation_cut(rt_conversation *c, int32_t n_messages)
{
    while (c->n_messages > n_messages) rt_free((void *)(uintptr_t)c->message[--c->n_messages].text);
}

/* Renders the messages, followed by `more`. */
static gdn_status render(const rt_conversation *c, const rt_message *more, int32_t n_more, int opens,
                         rt_chat_prompt *prompt)
{
    rt_message *all = rt_calloc((uint64_t)(c->n_messages + n_more), sizeof *all, "messages");
    if (!all) return GDN_OUT_OF_MEMORY;
    if (c->n_messages) memcpy(all, c->message, (size_t)c->n_messages * sizeof *all);
    memcpy(all + c->n_messages, more, (size_t)n_more * sizeof *all);
    const gdn_status status =
        rt_chat_render(c->desc.chat, all, c->n_messages + n_more, c->desc.thinking, opens, prompt);
    rt_free(all);
    return status;
}

gdn_status rt_conversation_next(const rt_conversation *c, rt_chat_prompt *prompt)
{
    const rt_message next = { .role = "user", .text = "x", .bytes = 1 };
    return render(c, &next, 1, 1, prompt);
}

const rt_message *rt_conversation_messages(const rt_conversation *c, int32_t *n)
{
    *n = c->n_messages;
    return c->message;
}

/* ---- Creation and destruction ---- */

gdn_status rt_conversation_create(const rt_conversation_desc *desc, rt_conversation **conversation)
{
    *conversation = NULL;
    if (!desc->engine || !desc->tokenizer || !desc->chat)
        return rt_fail(GDN_INVALID_ARGUMENT, "a conversation: engine, tokenizer or chat is NULL");
    const rt_engine_limits limits = rt_engine_limits_of(desc->engine);
    if (!limits.n_prefixes)
        return rt_fail(GDN_INVALID_ARGUMENT, "a conversation: the engine's n_prefixes is 0; 1 and more are allowed");
    gdn_status status = rt_sampling_check(&desc->sampling);
    if (!status) status = rt_chat_check_thinking(desc->chat, desc->thinking);
    if (status) return status;
    rt_conversation *c = rt_calloc(1, sizeof *c, "a conversation");
    if (!c) return GDN_OUT_OF_MEMORY;
    c->desc = *desc;
    c->limits = limits;
    c->tokens = rt_calloc((uint64_t)limits.n_ctx, sizeof *c->tokens, "a conversation");
    if (!c->tokens) status = GDN_OUT_OF_MEMORY;
    const rt_scheduler_desc one = { .engine = desc->engine,
                                    .tokenizer = desc->tokenizer,
                                    .n_parallel = 1,
                                    .spec = desc->spec,
                                    .draft_max = desc->draft_max,
                                    .p_min = desc->p_min,
                                    .always = desc->always };
    if (!status) status = rt_scheduler_create(&one, &c->scheduler);
    const rt_message system = { .role = "system", .text = desc->system, .bytes = desc->n_system };
    if (!status && desc->system) status = rt_conversation_add(c, &system);
    if (status) {
        rt_conversation_destroy(c);
        return status;
    }
    *conversation = c;
    return GDN_OK;
}

void rt_conversation_destroy(rt_conversation *c)
{
    if (!c) return;
    rt_conversation_cut(c, 0);
    rt_free(c->message);
    rt_free(c->tokens);
    rt_scheduler_destroy(c->scheduler);
    rt_free(c);
}

void rt_conversation_clear(rt_conversation *c) { rt_conversation_cut(c, c->desc.system ? 1 : 0); }

/* ---- Prefill ---- */

static int32_t common(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b)
{
    int32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

/* Length of the anchor: the prefix that this turn's prompt and the next turn's share for any answer, found by rendering
 * a stand-in answer. It affects only what is decoded again. 0: the template refuses the stand-in. */
static int32_t find_anchor(const rt_conversation *c, const rt_chat_prompt *prompt)
{
    rt_chat_prompt then;
    const rt_message more[] = {
        { .role = "assistant", .text = "x", .bytes = 1, .reasoning = prompt->thinks ? "x" : NULL, .n_reasoning = 1 },
        { .role = "user", .text = "x", .bytes = 1 }
    };
    if (render(c, more, 2, 0, &then)) return 0;
    const int32_t anchor = common(prompt->tokens, prompt->n, then.tokens, then.n);
    rt_free(then.tokens);
    return anchor;
}

/* ---- The answer ---- */

/* A turn while its request runs. */
typedef struct answer {
    rt_conversation *c;
    const rt_turn *turn;
    int32_t n_prompt, n_read, n_tokens; /* n_read: so far */
    int thinks;
    gdn_status status; /* of on_end */
} answer;

static int on_token(void *user, int32_t request, int32_t token)
{
    const answer *a = user;
    (void)request;
    return a->turn->on_token && a->turn->on_token(a->turn->user, token);
}

static void on_prompt(void *user, int32_t request, int32_t done, int32_t total)
{
    answer *a = user;
    a->n_read = done;
    if (a->turn->on_reading && a->turn->on_reading(a->turn->user, done, total, a->thinks))
        (void)rt_scheduler_cancel(a->c->scheduler, request);
}

/* Appends the answer as a message, without control tokens such as the end token. */
static gdn_status add_answer(rt_conversation *c, const int32_t *tokens, int32_t n_tokens, int thinks)
{
    rt_message said;
    uint64_t n = 0, bytes = 0;
    for (int32_t i = 0; i < n_tokens; i++) bytes += rt_token_bytes(c->desc.tokenizer, tokens[i]).bytes;
    char *text = rt_calloc(bytes + 1, 1, "an answer");
    if (!text) return GDN_OUT_OF_MEMORY;
    for (int32_t i = 0; i < n_tokens; i++) {
        const rt_string part = rt_token_bytes(c->desc.tokenizer, tokens[i]);
        if (!part.bytes || rt_token_is_special(c->desc.tokenizer, tokens[i])) continue;
        memcpy(text + n, part.text, (size_t)part.bytes);
        n += part.bytes;
    }
    rt_chat_answer(text, n, thinks, &said);
    const gdn_status status = rt_conversation_add(c, &said);
    rt_free(text);
    return status;
}

/* The request has ended: adds the answer, and finds out how much of the text the next prompt begins with. Without an
 * answer the turn is undone, and nothing is kept. */
static int32_t on_end(void *user, int32_t request)
{
    answer *a = user;
    rt_conversation *const c = a->c;
    const int32_t *const tokens = rt_scheduler_tokens(c->scheduler, request, &a->n_tokens);
    rt_chat_prompt next;
    if (!a->n_tokens) return 0;
    memcpy(c->tokens + a->n_prompt, tokens, (size_t)a->n_tokens * sizeof *tokens);
    a->status = add_answer(c, tokens, a->n_tokens, a->thinks);
    if (a->status || rt_conversation_next(c, &next)) return 0;
    const int32_t end = common(c->tokens, a->n_prompt + a->n_tokens, next.tokens, next.n);
    rt_free(next.tokens);
    return end;
}

/* Decodes the rest of the prompt, which c->tokens begins with, and generates the answer, as a request. */
static gdn_status generate(rt_conversation *c, answer *a, int32_t anchor, rt_result *result)
{
    const rt_request request = { .prompt = c->tokens,
                                 .n_prompt = a->n_prompt,
                                 .n_max = a->turn->n_max ? a->turn->n_max : INT32_MAX,
                                 .sampling = c->desc.sampling,
                                 .ignore_end = a->turn->ignore_end,
                                 .boundary = { 0, anchor },
                                 .on_token = on_token,
                                 .on_prompt = on_prompt,
                                 .on_end = on_end,
                                 .schema = c->desc.schema,
                                 .thinks = a->thinks,
                                 .user = a };
    int32_t id;
    int busy = 1;
    gdn_status status = rt_scheduler_submit(c->scheduler, &request, &id);
    if (status) return status;
    while (!status && busy && !(status = rt_scheduler_result(c->scheduler, id, result)) && !result->finish)
        status = rt_scheduler_step(c->scheduler, &busy);
    if (!result->finish) { /* the step failed, or was stopped */
        (void)rt_scheduler_cancel(c->scheduler, id);
        (void)rt_scheduler_step(c->scheduler, &busy);
        (void)rt_scheduler_result(c->scheduler, id, result);
    }
    if (status == RT_STOPPED) status = GDN_OK;
    if (!status) status = a->status;
    if (!status && result->finish == RT_FINISH_FAILED) status = rt_fail(result->status, "%s", result->error);
    const gdn_status released = rt_scheduler_release(c->scheduler, id);
    return status ? status : released;
}

gdn_status rt_conversation_turn(rt_conversation *c, const rt_turn *turn, rt_turn_result *result)
{
    const int32_t before = c->n_messages;
    rt_chat_prompt prompt = { 0 };
    const rt_message said = { .role = "user", .text = turn->text, .bytes = turn->n_text };
    *result = (rt_turn_result){ 0 };
    if (!turn->text || turn->n_max < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "a turn: %s", turn->text ? "n_max is less than 0" : "text is NULL");
    gdn_status status = rt_conversation_add(c, &said);
    if (!status) status = rt_chat_render(c->desc.chat, c->message, c->n_messages, c->desc.thinking, 1, &prompt);
    if (!status && (prompt.n < 1 || prompt.n >= c->limits.n_ctx))
        status =
            rt_fail(GDN_OUT_OF_MEMORY,
                    "the conversation has %lld tokens with this message; the context holds %d, and one must be left "
                    "to answer",
                    (long long)prompt.n, (int)c->limits.n_ctx);
    rt_result of = { 0 };
    answer a = { .c = c, .turn = turn, .n_prompt = (int32_t)prompt.n, .thinks = prompt.thinks };
    if (!status) {
        memcpy(c->tokens, prompt.tokens, (size_t)prompt.n * sizeof *c->tokens);
        status = generate(c, &a, find_anchor(c, &prompt), &of);
    }
    rt_free(prompt.tokens);
    if (status || !a.n_tokens) rt_conversation_cut(c, before);
    if (status) return status;
    result->thinks = a.thinks;
    result->finish = of.finish;
    result->n_prompt = a.n_prompt;
    result->n_kept = of.n_prefix;
    result->n_read = (a.n_tokens ? a.n_prompt : a.n_read) - of.n_prefix;
    result->n_tokens = a.n_tokens;
    result->prompt = c->tokens;
    result->tokens = c->tokens + a.n_prompt;
    result->n_drafted = of.n_drafted;
    result->n_accepted = of.n_accepted;
    return GDN_OK;
}
