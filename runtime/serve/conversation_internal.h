/* The struct that conversation.c and conversation_save.c share. */
#ifndef GDN_RUNTIME_CONVERSATION_INTERNAL_H
#define GDN_RUNTIME_CONVERSATION_INTERNAL_H

#include "runtime/serve/conversation.h"
#include "runtime/base/error.h"

struct rt_conversation {
    rt_conversation_desc desc;
    rt_engine_limits limits;
    rt_scheduler *scheduler; /* of one sequence */
    rt_message *message;     /* [n_messages], allocated for `room`; the block at `text` has the reasoning too */
    int32_t n_messages, room;
    int32_t *tokens; /* [n_ctx] the prompt of the last turn, then its answer */
};

/* Renders the messages and a stand-in for the user's next one. Free prompt->tokens with rt_free(). */
gdn_status rt_conversation_next(const rt_conversation *c, rt_chat_prompt *prompt);
/* Appends a copy of the message. */
gdn_status rt_conversation_add(rt_conversation *c, const rt_message *message);
void rt_conversation_cut(rt_conversation *c, int32_t n_messages); /* keeps the first n_messages */

#endif
