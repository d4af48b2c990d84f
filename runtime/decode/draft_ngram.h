/* Prompt-lookup drafting: proposes the tokens that followed the latest earlier occurrence of the newest n-gram. */
#ifndef GDN_RUNTIME_DRAFT_NGRAM_H
#define GDN_RUNTIME_DRAFT_NGRAM_H

#include <stdint.h>

/* Finds the latest earlier occurrence of the longest suffix of tokens[0, n), of 5 down to 2 tokens. Writes what
 * followed it, at most n_max tokens, to draft and returns their number; 0: no suffix repeats. */
int32_t rt_draft_ngram(const int32_t *tokens, int32_t n, int32_t n_max, int32_t *draft);

#endif
