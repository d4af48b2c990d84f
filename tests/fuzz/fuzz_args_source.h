/* The input of fuzz_args as a source of choices. Two takes never stand in one expression, or list of arguments, whose
 * parts a compiler may compute in either order. */
#ifndef GDN_FUZZ_ARGS_SOURCE_H
#define GDN_FUZZ_ARGS_SOURCE_H

#include "fuzz_args.h"

typedef struct source {
    const uint8_t *data;
    size_t         size;
    uint64_t       noise; /* contents of operands */
} source;

static inline unsigned take(source *in)
{
    if (!in->size)
        return 0;
    in->size--;
    return *in->data++;
}

static inline int below(source *in, int n) { return (int)(take(in) % (unsigned)n); }
static inline int one_in(source *in, int n) { return (int)take(in) >= 256 - 256 / n; } /* no for byte 0 */

static inline uint32_t noise(source *in)
{
    in->noise += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = in->noise;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

#define PICK(in, array) ((array)[below(in, (int)(sizeof(array) / sizeof((array)[0])))])

enum { MAX_SEQS = 5, MAX_SLOTS = 512 };

/* An operand of `n` axes outside a contiguous one. ragged: axis 0 is the sequence, which tokens (axis 1) may
 * ignore. Strides packed, with gaps, or with the axes in another order. */
void     fuzz_operand(source *in, arena *a, gdn_tensor *t, int32_t dtype, int n, const int64_t *extent, int64_t inner,
                      int ragged, int64_t n_tokens, int wild);
int32_t *fuzz_map(arena *a, gdn_span *span, int n);

/* What calls have learned since; fuzz_args_later.c. */
void fuzz_later(source *in, fuzz_call *c, int wild);

/* Up to three things wrong with a valid call, as many as c->mutations says; fuzz_args_break.c. */
void fuzz_break(source *in, fuzz_call *c);

#endif
