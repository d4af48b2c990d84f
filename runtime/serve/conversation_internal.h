/* The struct that conversation.c and conversation_save.c share. */
#ifndef GDN_RUNTIME_CONVERSATION_INTERNAL_H
#define GDN_RUNTIME_CONVERSATION_INTERNAL_H

#include "runtime/serve/conversation.h"
#include "runtime/base/error.h"

struct rt_conversation {
    rt_conversation_desc desc;
    rt_engine_limits limits;
    rt_scheduler *scheduler; /* of one sequence, RT_LIVE */
    rt_message *message;     /* [n_messages], allocated for `room`; the block at `text` has the reasoning too */
    int32_t n_messages, room;
    /* tokens[0, n_tokens): the prompt of the last turn, then its answer. Sequence 0 (RT_LIVE) holds a prefix of it,
     * sequence 1 (RT_ANCHOR) its first n_anchor tokens, or nothing. */
    int32_t *tokens;
    int32_t n_tokens, n_anchor;
    int stopped; /* 1: on_reading or the stop function has undone the turn */
};

enum { RT_LIVE, RT_ANCHOR }; /* sequence numbers */

/* Renders the messages, followed by `more`. Free prompt->tokens with rt_free(). */
gdn_status rt_conversation_render(const rt_conversation *c, const rt_message *more, int32_t n_more, int opens,
                                  rt_chat_prompt *prompt);
void rt_conversation_free_message(const rt_message *message);
/* Appends a copy of the message. */
gdn_status rt_conversation_add(rt_conversation *c, const rt_message *message);
void rt_conversation_cut(rt_conversation *c, int32_t n_messages); /* keeps the first n_messages */

#endif
