/* The input of fuzz_args as a source of choices. Two takes never stand in one expression, or list of arguments, whose
 * parts a compiler may compute in either order. */
#ifndef GDN_FUZZ_ARGS_SOURCE_H
#define GDN_FUZZ_ARGS_SOURCE_H

#include "fuzz_args.h"

typedef struct source {
    const uint8_t *data;
    size_t size;
} source;

static inline unsigned take(source *in)
{
    if (!in->size) return 0;
    in->size--;
    return *in->data++;
}

static inline int below(source *in, int n) { return (int)(take(in) % (unsigned)n); }
static inline int one_in(source *in, int n) { return (int)take(in) >= 256 - 256 / n; } /* no for byte 0 */

#define PICK(in, array) ((array)[below(in, (int)(sizeof(array) / sizeof((array)[0])))])

/* Up to three things wrong with a valid call, as many as c->mutations says; fuzz_args_break.c. */
void fuzz_break(source *in, fuzz_call *c);

#endif
