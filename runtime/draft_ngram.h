/* Drafts without a draft head: what followed the last time the text read like this (prompt lookup). */
#ifndef GDN_RUNTIME_DRAFT_NGRAM_H
#define GDN_RUNTIME_DRAFT_NGRAM_H

#include <stdint.h>

/* The longest suffix of tokens[0, n), of 5 down to 2 tokens, that occurs earlier; of several places the latest. Copies
 * what followed there, at most n_max tokens, and returns how many; 0 where nothing repeats. */
int32_t rt_draft_ngram(const int32_t *tokens, int32_t n, int32_t n_max, int32_t *draft);

#endif
