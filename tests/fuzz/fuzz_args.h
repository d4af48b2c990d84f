/* The fuzz target for kernel arguments, in parts:
 *   fuzz_args_arena.c   memory whose every stray access is seen
 *   fuzz_args_decode.c  bytes to a valid call, made by gdn check's builder
 *   fuzz_args_break.c   up to three things wrong with it
 *   fuzz_args.c         runs the call and judges it
 * Which bytes a call that succeeds may write is known to check/kernel.h, from the header's words alone. */
#ifndef GDN_FUZZ_ARGS_H
#define GDN_FUZZ_ARGS_H

#include <stddef.h>
#include <stdint.h>

#include "check/case.h"

/* Says why and aborts, which is how a fuzzer notices. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define FUZZ_REQUIRE(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) fuzz_fail(__VA_ARGS__);                                                                      \
    } while (0)

/* ---- Arena -------------------------------------------------------------------------------------------- */

enum { SLAB_BYTES = 1 << 20, MAX_SLABS = 40 };

/* Of a byte that may be written: 1 + the type of the element that begins there; MASK_INSIDE is the rest of one. */
enum { MASK_NO = 0, MASK_INSIDE = 255 };

/* Memory with a page before and behind that must not be touched. `at` has `bytes` accessible bytes at one
 * of the ends; what is left of the slab is poisoned under AddressSanitizer and a canary elsewhere. */
typedef struct slab {
    unsigned char *base, *at, *before, *result, *mask;
    size_t bytes;
} slab;

/* One mapping, so that the slabs lie to each other as they do in every build and on every machine: an operand that is
 * too long, or in the wrong place, always overlaps the same others. */
typedef struct arena {
    unsigned char *all;
    slab slabs[MAX_SLABS];
    int n;
} arena;

void arena_reset(arena *a); /* no slab is in use */
slab *arena_take(arena *a, size_t bytes, size_t alignment, int at_end);
/* The slab in which all `bytes` bytes from p lie, or NULL. */
slab *arena_find(arena *a, const void *p, size_t bytes);
void arena_remember(arena *a); /* slabs to `before`, and no byte may be written  */
void arena_restore(arena *a);  /* and back                                       */
void arena_check_canaries(arena *a);

/* ---- Calls -------------------------------------------------------------------------------------------- */

/* A struct of the call: the arguments, or a part. */
typedef struct fuzz_piece {
    size_t at, known, first, pointer; /* in check_args; sizes; where the arguments point to it */
} fuzz_piece;
enum { MAX_PIECES = 6 };

typedef struct fuzz_call {
    arena *arena;
    const check_kernel *kernel;
    int implementation;
    check_args args;
    const fuzz_piece *piece;
    int n_pieces, used[MAX_PIECES];
    int dirty[MAX_PIECES]; /* bytes beyond what we know are not zero */
    int mutations;
    /* The workspace is known only after the query, so its mistakes are kept until then. */
    enum { WORKSPACE_GOOD = 0, WORKSPACE_ABSENT, WORKSPACE_SHORT, WORKSPACE_SKEWED, WORKSPACE_SHARED } workspace;
    int capability_extra;
} fuzz_call;

/* The size that a piece says it has. */
static inline uint32_t *fuzz_size(fuzz_call *c, int i)
{
    return (uint32_t *)(void *)((char *)&c->args + c->piece[i].at);
}

void fuzz_decode(const uint8_t *data, size_t size, arena *a, fuzz_call *call);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the last input was: lines like "ssm_conv ran: width 4, silu" or "set_rows refused: ...", numbers left out.
 * "" where that depends on the machine, as it does when something is wrong with the workspace. */
const char *fuzz_outcome(void);

#endif
