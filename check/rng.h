/* Random numbers of the check: splitmix64. A case draws from a generator that is seeded by what the case
 * is called, so every case can be run alone, on any machine, with the same numbers. Two are never drawn in one
 * expression, or list of arguments, whose parts a compiler may compute in either order. */
#ifndef GDN_CHECK_RNG_H
#define GDN_CHECK_RNG_H

#include <stdint.h>

typedef struct check_rng {
    uint64_t state;
    const unsigned char *at, *end; /* a fuzzer's bytes: each decides a number, until none is left */
} check_rng;

static inline uint64_t check_next(check_rng *r)
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
    if (r->at != r->end) {
        r->state ^= *r->at;
        return 0x0101010101010101u * *r->at++; /* its low bits and its high ones are as good */
    }
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* A seed from two: for the streams of a case's operands, rows and sequences. */
static inline uint64_t check_mix(uint64_t a, uint64_t b)
{
    check_rng r = { a ^ (b + 0x632BE59BD9B4E019u) * 0xD6E8FEB86659FD93u };
    return check_next(&r);
}

static inline uint64_t check_mix_text(uint64_t a, const char *text)
{
    for (; *text; text++) a = check_mix(a, (unsigned char)*text);
    return a;
}

/* low .. high, both included. */
static inline int check_between(check_rng *r, int low, int high)
{
    return low + (int)(check_next(r) % (uint64_t)(high - low + 1));
}

static inline int check_one_in(check_rng *r, int n) { return check_next(r) % (uint64_t)n == 0; }

/* [0, 1) */
static inline float check_unit(check_rng *r) { return (float)(check_next(r) >> 40) * 0x1p-24f; }

static inline void check_shuffle(check_rng *r, int *items, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = check_between(r, 0, i), item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

#define CHECK_PICK(r, array) ((array)[check_between((r), 0, (int)(sizeof(array) / sizeof((array)[0])) - 1)])

#endif
