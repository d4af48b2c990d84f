/* Turns of a conversation: render, reuse what the sequences hold, decode the rest, generate. See conversation.h. */
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/serve/conversation_internal.h"
#include "runtime/decode/draft_ngram.h"

static rt_memory *memory(const rt_conversation *c) { return rt_engine_memory(c->desc.engine); }

/* ---- Messages ---- */

gdn_status rt_conversation_add(rt_conversation *c, const rt_message *message)
{
    if (c->n_messages == c->room) {
        const int32_t room = c->room ? 2 * c->room : 16;
        rt_message *all = rt_calloc((uint64_t)room, sizeof *all, "messages");
        char **bytes = rt_calloc((uint64_t)room, sizeof *bytes, "messages");
        if (!all || !bytes) {
            rt_free(all);
            rt_free((void *)bytes);
            return GDN_OUT_OF_MEMORY;
        }
        if (c->n_messages) {
            memcpy(all, c->message, (size_t)c->n_messages * sizeof *all);
            memcpy((void *)bytes, (void *)c->bytes, (size_t)c->n_messages * sizeof *bytes);
        }
        rt_free(c->message);
        rt_free((void *)c->bytes);
        c->message = all;
        c->bytes = bytes;
        c->room = room;
    }
    char *bytes = rt_calloc(message->bytes + message->n_reasoning + 2, 1, "a message");
    if (!bytes) return GDN_OUT_OF_MEMORY;
    if (message->bytes) memcpy(bytes, message->text, (size_t)message->bytes);
    char *reasoning = bytes + message->bytes + 1;
    if (message->n_reasoning) memcpy(reasoning, message->reasoning, (size_t)message->n_reasoning);
    rt_message *own = &c->message[c->n_messages];
    *own = *message;
    own->text = bytes;
    own->reasoning = message->reasoning ? reasoning : NULL;
    c->bytes[c->n_messages++] = bytes;
    return GDN_OK;
}

void rt_conversation_cut(rt_conversation *c, int32_t n_messages)
{
    while (c->n_messages > n_messages) rt_free(c->bytes[--c->n_messages]);
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
    gdn_status status = rt_spec_check(&limits, desc->spec, desc->draft_max);
    if (!status) status = rt_sampling_check(&desc->sampling);
    if (!status) status = rt_chat_check_thinking(desc->chat, desc->thinking);
    if (status) return status;
    rt_conversation *c = rt_calloc(1, sizeof *c, "a conversation");
    if (!c) return GDN_OUT_OF_MEMORY;
    c->desc = *desc;
    c->limits = limits;
    if (desc->spec == RT_SPEC_OFF) c->desc.draft_max = 0;
    const uint64_t rows = (uint64_t)(limits.n_batch > c->desc.draft_max + 1 ? limits.n_batch : c->desc.draft_max + 1);
    c->tokens = rt_calloc((uint64_t)limits.n_ctx, sizeof *c->tokens, "a conversation");
    c->row_seq = rt_calloc(rows, sizeof *c->row_seq, "a conversation");
    c->row_logits = rt_calloc(rows, 1, "a conversation");
    c->batch = rt_calloc((uint64_t)c->desc.draft_max + 1, sizeof *c->batch, "a conversation");
    if (!c->tokens || !c->row_seq || !c->row_logits || !c->batch) status = GDN_OUT_OF_MEMORY;
    if (!status) memset(c->row_logits, 1, (size_t)rows);
    if (!status) status = rt_sampler_create(limits.n_vocab, rt_engine_dense(desc->engine), &c->sampler);
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
    rt_free((void *)c->bytes);
    rt_free(c->tokens);
    rt_free(c->row_seq);
    rt_free(c->row_logits);
    rt_free(c->batch);
    rt_sampler_destroy(c->sampler);
    rt_free(c);
}

/* Empties both sequences, which cannot fail. */
static void forget(rt_conversation *c)
{
    (void)rt_seq_rm(memory(c), RT_LIVE, 0, -1);
    (void)rt_seq_rm(memory(c), RT_ANCHOR, 0, -1);
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
    int32_t anchor = 0;
    rt_message *talk = rt_calloc((uint64_t)c->n_messages + 2, sizeof *talk, "messages");
    if (!talk) return 0;
    memcpy(talk, c->message, (size_t)c->n_messages * sizeof *talk);
    talk[c->n_messages] =
        (rt_message){ .role = "assistant", .text = "x", .bytes = 1, .reasoning = "x", .n_reasoning = 1 };
    talk[c->n_messages + 1] = (rt_message){ .role = "user", .text = "x", .bytes = 1 };
    if (!prompt->thinks) talk[c->n_messages].reasoning = NULL;
    if (!rt_chat_render(c->desc.chat, talk, c->n_messages + 2, c->desc.thinking, 0, &then)) {
        anchor = common(prompt->tokens, prompt->n, then.tokens, then.n);
        rt_free(then.tokens);
    }
    rt_free(talk);
    return anchor;
}

/* Leaves in RT_LIVE the longest prefix of the prompt that needs no decoding, at most n - 1 tokens; *kept: its length.
 */
static gdn_status go_back(rt_conversation *c, const rt_chat_prompt *prompt, int32_t *kept)
{
    const int32_t held = rt_seq_length(memory(c), RT_LIVE), most = (int32_t)prompt->n - 1;
    int32_t same = common(c->tokens, held, prompt->tokens, prompt->n);
    gdn_status status = GDN_OK;
    same = same < most ? same : most;
    *kept = 0;
    if (c->n_anchor > same) { /* of another conversation, or the template changed older text */
        status = rt_seq_rm(memory(c), RT_ANCHOR, 0, -1);
        c->n_anchor = 0;
    }
    const int32_t least = rt_seq_min_length(memory(c), RT_LIVE);
    if (!status && same > 0 && same >= least && least <= held) {
        *kept = same;
        return same < held ? rt_seq_rm(memory(c), RT_LIVE, same, -1) : GDN_OK;
    }
    if (!status && c->n_anchor) {
        *kept = c->n_anchor;
        return rt_seq_cp(memory(c), RT_ANCHOR, RT_LIVE);
    }
    return status ? status : rt_seq_rm(memory(c), RT_LIVE, 0, -1);
}

/* Repairs RT_LIVE after the stop function ended a step, which may have lost the state or decoded unverified drafts. It
 * then holds a prefix of the tokens. */
static gdn_status mend(rt_conversation *c)
{
    const int32_t length = rt_seq_length(memory(c), RT_LIVE), last = c->n_tokens - 1;
    if (rt_seq_min_length(memory(c), RT_LIVE) <= length && (length <= last || !rt_seq_rm(memory(c), RT_LIVE, last, -1)))
        return GDN_OK;
    return c->n_anchor ? rt_seq_cp(memory(c), RT_ANCHOR, RT_LIVE) : rt_seq_rm(memory(c), RT_LIVE, 0, -1);
}

static gdn_status read_to(rt_conversation *c, int32_t to, const rt_turn *turn, int thinks)
{
    const int follow = c->desc.spec == RT_SPEC_MTP && (c->desc.always || rt_payoff_pays(&c->payoff, 1));
    gdn_status status = GDN_OK;
    for (int32_t at = rt_seq_length(memory(c), RT_LIVE); !status && !c->stopped && at < to;) {
        const int32_t n = to - at < c->limits.n_batch ? to - at : c->limits.n_batch;
        const rt_batch batch = { n, c->tokens + at, c->row_seq, NULL, !follow };
        status = rt_decode(c->desc.engine, &batch);
        if (status == RT_STOPPED) {
            c->stopped = 1;
            return mend(c);
        }
        c->last_row = n - 1;
        at += n;
        c->stopped = !status && turn->on_reading && turn->on_reading(turn->user, at, c->n_tokens, thinks);
    }
    return status;
}

/* ---- The answer ---- */

typedef struct answer {
    const rt_turn *turn;
    int32_t n_prompt, n_max;
    int cut; /* n_max is limited by the context */
    int32_t finish;
    int64_t n_drafted, n_accepted;
} answer;

/* Draws a token from the logits of row `row` of the last batch. */
static gdn_status draw(rt_conversation *c, answer *a, int32_t row)
{
    const float *logits = rt_logits(c->desc.engine, row);
    const int32_t token = rt_sample(c->sampler, &c->desc.sampling, logits, c->tokens, c->n_tokens);
    if (token < 0)
        return rt_fail(GDN_INTERNAL,
                       "the model computes no numbers: a logit after %d tokens is none; are its weights "
                       "damaged?",
                       (int)c->n_tokens);
    c->tokens[c->n_tokens++] = token;
    if (a->turn->on_token && a->turn->on_token(a->turn->user, token)) a->finish = RT_FINISH_CANCELLED;
    else if (!a->turn->ignore_end && rt_tokenizer_is_end(c->desc.tokenizer, token)) a->finish = RT_FINISH_STOP;
    else if (c->n_tokens == a->n_prompt + a->n_max) a->finish = a->cut ? RT_FINISH_CONTEXT : RT_FINISH_LENGTH;
    return GDN_OK;
}

/* Drafts tokens after the last one, into batch[1 ..]; *n of them. Unlike the scheduler's draft(), which handles many
 * sequences with shared cells and second candidates, this needs only one call per kind of draft. */
static gdn_status draft(rt_conversation *c, const answer *a, int32_t *batch, int32_t *n)
{
    const int32_t left = a->n_prompt + a->n_max - c->n_tokens; /* tokens still to draw, at least 1 */
    const int32_t most = left - 1 < c->desc.draft_max ? left - 1 : c->desc.draft_max;
    *n = 0;
    if (most < 1) return GDN_OK;
    if (c->desc.spec == RT_SPEC_NGRAM) {
        *n = rt_draft_ngram(c->tokens, c->n_tokens, most, batch + 1);
        return GDN_OK;
    }
    const rt_draft_request ask = { RT_LIVE, batch[0], most };
    return rt_draft_mtp(c->desc.engine, &ask, 1, c->desc.draft_max, c->desc.p_min, batch + 1, n);
}

/* One step: decodes the last token and its drafts, and draws as long as the drafts match. */
static gdn_status step(rt_conversation *c, answer *a)
{
    int32_t *const batch = c->batch;
    const double begin = rt_now();
    const int want = c->desc.draft_max && (c->desc.always || rt_payoff_choose(&c->payoff, 1));
    const int follow = c->desc.spec == RT_SPEC_MTP && (want || rt_payoff_pays(&c->payoff, 1));
    const int32_t length = c->n_tokens - 1, before = c->n_tokens;
    int32_t n = 0, accepted = 0;
    batch[0] = c->tokens[length];
    gdn_status status = want ? draft(c, a, batch, &n) : GDN_OK;
    if (status) return status;
    const rt_batch rows = { n + 1, batch, c->row_seq, c->row_logits, !follow };
    status = rt_decode(c->desc.engine, &rows);
    if (status == RT_STOPPED) {
        a->finish = RT_FINISH_CANCELLED;
        return mend(c);
    }
    for (int32_t i = 0; !status && i <= n; i++) {
        status = draw(c, a, i);
        if (status || a->finish || i == n || c->tokens[c->n_tokens - 1] != batch[i + 1]) break;
        accepted++;
    }
    a->n_drafted += n;
    a->n_accepted += accepted;
    if (!status && accepted < n) status = rt_seq_rm(memory(c), RT_LIVE, length + 1 + accepted, -1);
    if (!status) rt_payoff_record(&c->payoff, 1, want, c->n_tokens - before, rt_now() - begin);
    return status;
}

static gdn_status generate(rt_conversation *c, answer *a)
{
    gdn_status status = draw(c, a, c->last_row);
    while (!status && !a->finish) status = step(c, a);
    return status;
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

/* Decodes the part of the prompt that is not held, and saves the state at the anchor. */
static gdn_status read_prompt(rt_conversation *c, const rt_turn *turn, const rt_chat_prompt *prompt, int32_t *kept)
{
    const int32_t anchor = find_anchor(c, prompt);
    gdn_status status = go_back(c, prompt, kept);
    if (status) return status;
    memcpy(c->tokens, prompt->tokens, (size_t)prompt->n * sizeof *c->tokens);
    c->n_tokens = (int32_t)prompt->n;
    if (anchor >= *kept && anchor > 0) {
        status = read_to(c, anchor, turn, prompt->thinks);
        if (!status && !c->stopped) status = rt_seq_cp(memory(c), RT_LIVE, RT_ANCHOR);
        if (!status && !c->stopped) c->n_anchor = anchor;
    }
    return status ? status : read_to(c, c->n_tokens, turn, prompt->thinks);
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
    const int32_t room = c->limits.n_ctx - (int32_t)prompt.n;
    answer a = { .turn = turn, .n_prompt = (int32_t)prompt.n };
    a.n_max = turn->n_max && turn->n_max < room ? turn->n_max : room;
    a.cut = a.n_max != turn->n_max;
    result->thinks = prompt.thinks;
    status = read_prompt(c, turn, &prompt, &result->n_kept);
    if (!status && !c->stopped) status = generate(c, &a);
    if (!status && !c->stopped) status = add_answer(c, a.n_prompt, prompt.thinks);
    rt_free(prompt.tokens);
    if (status || c->stopped) rt_conversation_cut(c, before);
    if (status) {
        forget(c); /* a failure may have left any contents */
        return status;
    }
    result->finish = c->stopped ? RT_FINISH_CANCELLED : a.finish;
    result->n_prompt = a.n_prompt;
    result->n_read = (c->stopped ? rt_seq_length(memory(c), RT_LIVE) : a.n_prompt) - result->n_kept;
    result->n_tokens = c->n_tokens - a.n_prompt;
    result->prompt = c->tokens;
    result->tokens = c->tokens + a.n_prompt;
    result->n_drafted = a.n_drafted;
    result->n_accepted = a.n_accepted;
    return GDN_OK;
}
