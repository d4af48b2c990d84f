/* Prompt-lookup drafting. See draft_ngram.h. */
#include "runtime/decode/draft_ngram.h"

#include <string.h>

enum { LONGEST = 5, SHORTEST = 2 };

int32_t rt_draft_ngram(const int32_t *tokens, int32_t n, int32_t n_max, int32_t *draft)
{
    int32_t best = -1, best_length = SHORTEST - 1;
    /* from the newest position backwards, so that among equal lengths the latest match wins */
    for (int32_t end = n - 1; end >= SHORTEST && best_length < LONGEST; end--) {
        int32_t length = 0; /* length of the match of tokens[.., end) with the suffix */
        while (length < LONGEST && length < end && tokens[end - 1 - length] == tokens[n - 1 - length]) length++;
        if (length > best_length) {
            best_length = length;
            best = end;
        }
    }
    if (best < 0 || n_max <= 0) return 0;
    const int32_t n_draft = n - best < n_max ? n - best : n_max;
    memcpy(draft, tokens + best, 4 * (size_t)n_draft);
    return n_draft;
}
