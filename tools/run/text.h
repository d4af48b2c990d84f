/* Generated text: the bytes of tokens up to the first stop string. */
#ifndef GDN_TOOL_RUN_TEXT_H
#define GDN_TOOL_RUN_TEXT_H

#include <stddef.h>

#include "runtime/text/tokenizer.h"

typedef struct run_bytes {
    char *bytes; /* NUL-terminated; may contain NULs */
    uint64_t n;
} run_bytes;

/* Begins as zeros; free `bytes`. */
typedef struct run_text {
    char *bytes;          /* terminated; NULL before the first token                 */
    size_t n, room, held; /* held: bytes at the end that may begin a stop string */
    size_t begin;         /* no stop string begins before it */
    int stop;             /* 1 + the number of the stop string that ended it */
} run_text;

enum { RUN_MORE, RUN_STRING, RUN_LOST, RUN_NO_MEMORY }; /* continue; the text ends at a stop string; writing failed */

/* Appends a token's bytes; special tokens only if raw. RUN_STRING: a stop string was found, and the text ends before
 * it. */
int run_text_add(run_text *t, const rt_tokenizer *tokenizer, int32_t token, int raw, const run_bytes *stop, int n_stop);

/* Length of the text that no later token changes: complete characters, without what may begin a stop string. */
size_t run_text_ready(const run_text *t);

/* Length of the complete characters in n bytes. */
size_t run_whole(const char *bytes, size_t n);

#endif
