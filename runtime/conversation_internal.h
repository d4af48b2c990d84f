/* What the parts of a conversation share. */
#ifndef GDN_RUNTIME_CONVERSATION_INTERNAL_H
#define GDN_RUNTIME_CONVERSATION_INTERNAL_H

#include "runtime/conversation.h"
#include "runtime/error.h"
#include "runtime/payoff.h"

struct rt_conversation {
    rt_conversation_desc desc;
    rt_engine_limits limits;
    rt_sampler *sampler;
    rt_payoff payoff;
    rt_message *message; /* [n_messages], with room for `room` */
    char **bytes;        /* what each owns                     */
    int32_t n_messages, room;
    /* tokens[0, n_tokens): what was rendered for the last turn, and its answer. Sequence 0 holds a beginning of it, and
     * sequence 1 the first n_anchor of it, or nothing. */
    int32_t *tokens;
    int32_t n_tokens, n_anchor;
    int32_t *row_seq, *batch; /* zeros, and the tokens of a step */
    uint8_t *row_logits;      /* ones                            */
    int32_t last_row;         /* of the last batch that was read */
    int stopped;              /* on_reading has taken the turn back */
};

enum { RT_LIVE, RT_ANCHOR }; /* the sequences */

/* Adds a copy of a message. */
gdn_status rt_conversation_add(rt_conversation *c, const rt_message *message);
void rt_conversation_cut(rt_conversation *c, int32_t n_messages); /* forgets those behind the first n */

#endif
