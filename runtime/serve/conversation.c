/* Turns of a conversation: render, reuse what the sequences hold, decode the rest, generate. See conversation.h. */
#include <string.h>

#include "runtime/serve/conversation_internal.h"

static rt_memory *memory(const rt_conversation *c) { return rt_engine_memory(c->desc.engine); }

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

void rt_conversation_free_message(const rt_message *message) { rt_free((void *)(uintptr_t)message->text); }

void rt_conversation_cut(rt_conversation *c, int32_t n_messages)
{
    while (c->n_messages > n_messages) rt_conversation_free_message(&c->message[--c->n_messages]);
}

gdn_status rt_conversation_render(const rt_conversation *c, const rt_message *more, int32_t n_more, int opens,
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
    if (limits.n_seqs < 2)
        return rt_fail(GDN_INVALID_ARGUMENT, "a conversation: the engine's n_seqs is %d; 2 and more are allowed",
                       (int)limits.n_seqs);
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
    rt_conversation_clear(c);
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

/* Empties both sequences, which cannot fail. */
static void forget(rt_conversation *c)
{
    (void)rt_memory_seq_rm(memory(c), RT_LIVE, 0, -1);
    (void)rt_memory_seq_rm(memory(c), RT_ANCHOR, 0, -1);
    c->n_tokens = c->n_anchor = 0;
}

void rt_conversation_clear(rt_conversation *c)
{
    rt_conversation_cut(c, c->desc.system ? 1 : 0);
    forget(c);
}

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
    if (rt_conversation_render(c, more, 2, 0, &then)) return 0;
    const int32_t anchor = common(prompt->tokens, prompt->n, then.tokens, then.n);
    rt_free(then.tokens);
    return anchor;
}

/* Leaves in RT_LIVE the longest prefix of the prompt that needs no decoding, at most n - 1 tokens; *kept: its length.
 */
static gdn_status go_back(rt_conversation *c, const rt_chat_prompt *prompt, int32_t *kept)
{
    const int32_t held = rt_memory_seq_length(memory(c), RT_LIVE), most = (int32_t)prompt->n - 1;
    int32_t same = common(c->tokens, held, prompt->tokens, prompt->n);
    gdn_status status = GDN_OK;
    same = same < most ? same : most;
    *kept = 0;
    if (c->n_anchor > same) { /* of another conversation, or the template changed older text */
        status = rt_memory_seq_rm(memory(c), RT_ANCHOR, 0, -1);
        c->n_anchor = 0;
    }
    const int32_t least = rt_memory_seq_min_length(memory(c), RT_LIVE);
    if (!status && same > 0 && same >= least && least <= held) {
        *kept = same;
        return same < held ? rt_memory_seq_rm(memory(c), RT_LIVE, same, -1) : GDN_OK;
    }
    if (!status && c->n_anchor) {
        *kept = c->n_anchor;
        return rt_memory_seq_cp(memory(c), RT_ANCHOR, RT_LIVE);
    }
    return status ? status : rt_memory_seq_rm(memory(c), RT_LIVE, 0, -1);
}

/* Repairs RT_LIVE after the stop function ended a step, which may have lost the state or decoded unverified drafts. It
 * then holds a prefix of the tokens. */
static gdn_status mend(rt_conversation *c)
{
    const int32_t length = rt_memory_seq_length(memory(c), RT_LIVE), last = c->n_tokens - 1;
    if (rt_memory_seq_min_length(memory(c), RT_LIVE) <= length &&
        (length <= last || !rt_memory_seq_rm(memory(c), RT_LIVE, last, -1)))
        return GDN_OK;
    return c->n_anchor ? rt_memory_seq_cp(memory(c), RT_ANCHOR, RT_LIVE) : rt_memory_seq_rm(memory(c), RT_LIVE, 0, -1);
}

/* ---- The answer ---- */

/* A turn while its request runs. */
typedef struct answer {
    rt_conversation *c;
    const rt_turn *turn;
    int32_t anchor; /* where the state is saved during prefill; 0: nowhere */
    int thinks;
    gdn_status status; /* of that */
} answer;

static int on_token(void *user, int32_t request, int32_t token)
{
    const answer *a = user;
    (void)request;
    return a->turn->on_token && a->turn->on_token(a->turn->user, token);
}

static gdn_status save_anchor(rt_conversation *c, int32_t length)
{
    const gdn_status status = rt_memory_seq_cp(memory(c), RT_LIVE, RT_ANCHOR);
    if (!status) c->n_anchor = length;
    return status;
}

static void on_prompt(void *user, int32_t request, int32_t done, int32_t total)
{
    answer *a = user;
    a->c->stopped = a->turn->on_reading && a->turn->on_reading(a->turn->user, done, total, a->thinks);
    if (!a->c->stopped && done == a->anchor) a->status = save_anchor(a->c, done);
    if (a->c->stopped || a->status) (void)rt_scheduler_cancel(a->c->scheduler, request);
}

/* Decodes the rest of the prompt and generates the answer, as a request. c->tokens gets its tokens. */
static gdn_status generate(rt_conversation *c, answer *a, const rt_chat_prompt *prompt, rt_result *result)
{
    const rt_request request = { .prompt = prompt->tokens,
                                 .n_prompt = (int32_t)prompt->n,
                                 .n_max = a->turn->n_max ? a->turn->n_max : INT32_MAX,
                                 .sampling = c->desc.sampling,
                                 .ignore_end = a->turn->ignore_end,
                                 .keep = 1,
                                 .pause = a->anchor,
                                 .on_token = on_token,
                                 .on_prompt = on_prompt,
                                 .user = a };
    int32_t id, n;
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
    const int32_t *tokens = rt_scheduler_tokens(c->scheduler, id, &n);
    c->n_tokens = (int32_t)prompt->n + n;
    memcpy(c->tokens, prompt->tokens, (size_t)prompt->n * sizeof *c->tokens);
    if (n) memcpy(c->tokens + prompt->n, tokens, (size_t)n * sizeof *c->tokens);
    if (status == RT_STOPPED) {
        c->stopped = !n; /* during prefill: the turn is undone */
        status = mend(c);
    }
    if (!status) status = a->status;
    if (!status && result->finish == RT_FINISH_FAILED) status = rt_fail(result->status, "%s", result->error);
    const gdn_status released = rt_scheduler_release(c->scheduler, id);
    return status ? status : released;
}

/* Appends the answer as a message, without control tokens such as the end token. */
static gdn_status add_answer(rt_conversation *c, int32_t n_prompt, int thinks)
{
    rt_message said;
    uint64_t n = 0, bytes = 0;
    for (int32_t i = n_prompt; i < c->n_tokens; i++) bytes += rt_token_bytes(c->desc.tokenizer, c->tokens[i]).bytes;
    char *text = rt_calloc(bytes + 1, 1, "an answer");
    if (!text) return GDN_OUT_OF_MEMORY;
    for (int32_t i = n_prompt; i < c->n_tokens; i++) {
        const rt_string part = rt_token_bytes(c->desc.tokenizer, c->tokens[i]);
        if (!part.bytes || rt_token_is_special(c->desc.tokenizer, c->tokens[i])) continue;
        memcpy(text + n, part.text, (size_t)part.bytes);
        n += part.bytes;
    }
    rt_chat_answer(text, n, thinks, &said);
    const gdn_status status = rt_conversation_add(c, &said);
    rt_free(text);
    return status;
}

gdn_status rt_conversation_turn(rt_conversation *c, const rt_turn *turn, rt_turn_result *result)
{
    const int32_t before = c->n_messages;
    rt_chat_prompt prompt = { 0 };
    const rt_message said = { .role = "user", .text = turn->text, .bytes = turn->n_text };
    *result = (rt_turn_result){ 0 };
    c->stopped = 0;
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
    if (status) { /* the sequences are unchanged */
        rt_free(prompt.tokens);
        rt_conversation_cut(c, before);
        return status;
    }
    rt_result of = { 0 };
    answer a = { .c = c, .turn = turn, .thinks = prompt.thinks };
    const int32_t n_prompt = (int32_t)prompt.n, anchor = find_anchor(c, &prompt);
    result->thinks = prompt.thinks;
    status = go_back(c, &prompt, &result->n_kept);
    if (!status && anchor > 0 && anchor == result->n_kept) status = save_anchor(c, anchor);
    if (anchor > result->n_kept) a.anchor = anchor;
    if (!status) status = generate(c, &a, &prompt, &of);
    if (!status && !c->stopped) status = add_answer(c, n_prompt, prompt.thinks);
    rt_free(prompt.tokens);
    if (status || c->stopped) rt_conversation_cut(c, before);
    if (status) {
        forget(c); /* a failure may have left any contents */
        return status;
    }
    result->finish = of.finish;
    result->n_prompt = n_prompt;
    result->n_read = (c->stopped ? rt_memory_seq_length(memory(c), RT_LIVE) : n_prompt) - result->n_kept;
    result->n_tokens = c->n_tokens - n_prompt;
    result->prompt = c->tokens;
    result->tokens = c->tokens + n_prompt;
    result->n_drafted = of.n_drafted;
    result->n_accepted = of.n_accepted;
    return GDN_OK;
}
