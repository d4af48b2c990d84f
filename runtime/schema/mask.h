/* Which tokens can come next in a text that a schema describes: those whose bytes the automaton takes, and end tokens
 * where the text is complete. Tokens without bytes are never allowed. Control tokens and tokens that were added to the
 * vocabulary are allowed where any text may come, and those that are a call's mark where it may. */
#ifndef GDN_RUNTIME_MASK_H
#define GDN_RUNTIME_MASK_H

#include "runtime/schema/schema.h"
#include "runtime/text/tokenizer.h"

typedef struct rt_mask rt_mask; /* the sorted vocabulary, and buffers: for one thread */

/* n_vocab: that of the model, which may have more tokens than the tokenizer. The tokenizer must outlive it. */
gdn_status rt_mask_create(const rt_tokenizer *tokenizer, int32_t n_vocab, rt_mask **mask);
void rt_mask_destroy(rt_mask *mask);

/* 1: the token is allowed. Costs no more than its bytes. */
int rt_mask_allows(rt_mask *mask, const rt_schema_state *state, int32_t token);
/* The allowed tokens in ascending order, valid until the next call; *n: their number. state NULL: all. ends 0: without
 * end tokens. */
const int32_t *rt_mask_tokens(rt_mask *mask, const rt_schema_state *state, int ends, int32_t *n);
/* Goes on by an allowed token. An end token changes nothing. */
void rt_mask_take(const rt_mask *mask, rt_schema_state *state, int32_t token);

#endif
