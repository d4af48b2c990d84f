/* A conversation (chat with turns).
 *
 * Each turn's prompt is the chat template's rendering of the whole conversation. Tokens that the engine's prefix cache
 * has are not decoded again.
 *
 * A template may omit thinking from earlier turns, or write an answer differently from how it was generated. The
 * rendering then differs from the sequence inside the last answer, and a recurrent state cannot be truncated there.
 * Each turn therefore keeps a checkpoint after the longest prefix that its prompt and the next one share whatever the
 * answer is: the anchor. That is usually the end of the opening of the assistant's turn. A checkpoint at the end of the
 * answer replaces it where the next prompt begins with all of that. One checkpoint is enough for both. */
#ifndef GDN_RUNTIME_CONVERSATION_H
#define GDN_RUNTIME_CONVERSATION_H

#include "runtime/text/chat.h"
#include "runtime/serve/scheduler.h"

typedef struct rt_conversation rt_conversation;

/* The engine, tokenizer, chat and the memory at `system` must outlive the conversation, which uses the engine's
 * sequence 0 and the prefixes of owner 0. */
typedef struct rt_conversation_desc {
    rt_engine *engine; /* n_prefixes 1 or more. With a prefix_interval above n_ctx, checkpoints at interval ends do not
                          replace those of the turns */
    const rt_tokenizer *tokenizer;
    const rt_chat *chat;
    int thinking; /* RT_THINK_*: see rt_chat_check_thinking()                    */
    rt_sampling sampling;
    rt_spec spec;
    int32_t draft_max; /* <= n_rollback of the engine                                                 */
    float p_min;
    int always;         /* 1: draft always, without the speculation controller                         */
    const char *system; /* system message of n_system bytes; NULL: none                                   */
    uint64_t n_system;
    const rt_schema *schema; /* answers are JSON that is valid under it (rt_request.schema); NULL: any text */
} rt_conversation_desc;

gdn_status rt_conversation_create(const rt_conversation_desc *desc, rt_conversation **conversation);
void rt_conversation_destroy(rt_conversation *c);

/* Called for each token of an answer. Return nonzero to end the answer after this token; the conversation keeps the
 * part generated so far. */
typedef int (*rt_answer_fn)(void *user, int32_t token);
/* Called during prefill after each batch, the last time with done == total. thinks: the answer will begin inside a
 * <think> block. Return nonzero to undo the turn: the messages are as before it, and it ends as RT_FINISH_CANCELLED,
 * without tokens. */
typedef int (*rt_reading_fn)(void *user, int32_t done, int32_t total, int thinks);

typedef struct rt_turn {
    const char *text; /* the user's message of n_text bytes, which may contain NUL bytes */
    uint64_t n_text;
    int32_t n_max; /* most tokens of the answer; 0: up to the end of the context */
    int ignore_end;
    rt_answer_fn on_token; /* may be NULL, like on_reading */
    rt_reading_fn on_reading;
    void *user;
} rt_turn;

typedef struct rt_turn_result {
    int32_t n_prompt;               /* tokens of the rendered conversation                                      */
    int32_t n_kept, n_read;         /* those of n_prompt that were reused, and decoded                          */
    int32_t n_tokens;               /* tokens of the answer; the last may be an end token                       */
    const int32_t *prompt, *tokens; /* valid until the next turn                                                */
    int32_t finish;                 /* RT_FINISH_STOP, _LENGTH, _CONTEXT, _CANCELLED                            */
    int thinks;                     /* 1: the answer begins inside a <think> block                              */
    int64_t n_drafted, n_accepted;
} rt_turn_result;

/* Adds a user message and generates the assistant's answer. If the engine's stop function (rt_engine_stop_when()) ends
 * a step during prefill, the turn is undone. If it does during the answer, the answer ends as RT_FINISH_CANCELLED. An
 * error leaves the messages as before the turn. GDN_OUT_OF_MEMORY, with a text: the context is too small.
 * GDN_UNSUPPORTED: the template refuses the conversation. GDN_INTERNAL: the model computes NaN or infinite logits. */
gdn_status rt_conversation_turn(rt_conversation *c, const rt_turn *turn, rt_turn_result *result);

/* Resets the conversation to its state after creation: the system message only. */
void rt_conversation_clear(rt_conversation *c);

/* All messages, including the system message. An answer has the text and reasoning that the template receives. */
const rt_message *rt_conversation_messages(const rt_conversation *c, int32_t *n);

/* Saves the messages and the checkpoint from which the next turn continues, so that a load needs no decoding. */
gdn_status rt_conversation_save(const rt_conversation *c, rt_write_fn write, void *user);
/* Replaces a conversation that has had no turns by a saved one. Refused with GDN_INVALID_ARGUMENT and a text, without
 * changes: damaged data, another model or template, and a conversation too long for the context. So are a conversation
 * that has had turns, and a description with a system message, since the saved conversation brings its own. */
gdn_status rt_conversation_load(rt_conversation *c, const void *bytes, uint64_t n);

#endif
