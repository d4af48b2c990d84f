/* A conversation, turn after turn, in one sequence of an engine.
 *
 * What the model is given for a turn is what the chat template makes of the whole conversation so far, token for token:
 * what it answers is what it would answer if all were read anew. What of that the sequence holds already is not read
 * again. Templates that leave thinking out of earlier turns, or write an answer otherwise than it was generated, make
 * the rendering differ from the sequence somewhere within the last answer; a recurrent state cannot be cut there. So
 * the state is kept at the last place that the coming turn will have in common with this one, whatever is answered
 * (behind the opening of the assistant's turn, most often), and what comes after it is read again: the last answer, as
 * the template writes it. Where the rendering goes on from the sequence, nothing is. */
#ifndef GDN_RUNTIME_CONVERSATION_H
#define GDN_RUNTIME_CONVERSATION_H

#include "runtime/chat.h"
#include "runtime/scheduler.h"

typedef struct rt_conversation rt_conversation;

/* All must outlive it. Sequences 0 and 1 of the engine are the conversation's. */
typedef struct rt_conversation_desc {
    rt_engine *engine; /* n_seqs 2 or more; n_ctx cells are enough for both                             */
    const rt_tokenizer *tokenizer;
    const rt_chat *chat;
    int thinking; /* RT_THINK_*: see rt_chat_check_thinking()                    */
    rt_sampling sampling;
    rt_spec spec;
    int32_t draft_max; /* <= n_rollback of the engine                                                 */
    float p_min;
    int always;         /* 1: draft even where it does not pay                                         */
    const char *system; /* the first message, of n_system bytes; NULL: none                               */
    uint64_t n_system;
} rt_conversation_desc;

gdn_status rt_conversation_create(const rt_conversation_desc *desc, rt_conversation **conversation);
void rt_conversation_destroy(rt_conversation *c);

/* Each token of an answer. Return nonzero to end the answer there; the conversation goes on with what there is of it.
 */
typedef int (*rt_answer_fn)(void *user, int32_t token);
/* The prompt's tokens as they are read, at last with done == total, and whether the answer will begin within a block
 * <think>. Return nonzero to take the turn back: the conversation is as it was before, and the turn ends as cancelled,
 * without tokens. */
typedef int (*rt_reading_fn)(void *user, int32_t done, int32_t total, int thinks);

typedef struct rt_turn {
    const char *text; /* of the user; n_text bytes, which may be any */
    uint64_t n_text;
    int32_t n_max; /* tokens of the answer at most; 0: as many as there is room for */
    int ignore_end;
    rt_answer_fn on_token; /* may be NULL, as the next */
    rt_reading_fn on_reading;
    void *user;
} rt_turn;

typedef struct rt_turn_result {
    int32_t n_prompt;               /* tokens of the conversation as it was rendered                            */
    int32_t n_kept, n_read;         /* of these, those that were not read again, and those that were read       */
    int32_t n_tokens;               /* of the answer; the last may be an end token                              */
    const int32_t *prompt, *tokens; /* until the next turn                                                      */
    int32_t finish;                 /* RT_FINISH_STOP, _LENGTH, _CONTEXT, _CANCELLED                            */
    int thinks;                     /* the answer begins within a block <think>                                 */
    int64_t n_drafted, n_accepted;
} rt_turn_result;

/* The user says something, and the assistant answers. Where the engine's stop function (rt_engine_stop_when()) ends a
 * step, the turn is taken back while its prompt is read, and otherwise the answer ends as cancelled. An error leaves
 * the conversation as it was before: GDN_OUT_OF_MEMORY with a text where the context has no room for it;
 * GDN_UNSUPPORTED where the template refuses it; GDN_INTERNAL where the model computes no numbers. */
gdn_status rt_conversation_turn(rt_conversation *c, const rt_turn *turn, rt_turn_result *result);

/* As after creation: the system message alone. */
void rt_conversation_clear(rt_conversation *c);

/* All messages, the system's among them; an answer's text and reasoning are what the template is given. */
const rt_message *rt_conversation_messages(const rt_conversation *c, int32_t *n);

/* Saving: the messages, the tokens, and the memory of the engine, so that nothing is read again. */
gdn_status rt_conversation_save(const rt_conversation *c, void **bytes, uint64_t *n); /* free with rt_free() */
/* Replaces the conversation. Damaged ones, those of another model or template, and those too long for the context are
 * refused with a text, and the conversation stays as it was. GDN_INVALID_ARGUMENT also where there is a system message
 * from creation: a saved one has its own. */
gdn_status rt_conversation_load(rt_conversation *c, const void *bytes, uint64_t n);

#endif
