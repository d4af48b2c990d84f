/* A world for tests of the memory: a small model made by hand, a forward pass that runs libgdn's real kernels on inputs
 * whose results are known in closed form, and the truth: each sequence's list of tokens, from which everything that a
 * memory may answer follows. world_compare() holds the memory against the truth.
 *
 * Keys are unit vectors (position % 16), so that the state after p tokens is one scalar recurrence per key channel;
 * convolution inputs, keys and values are small integers made from the token. All of it is exact. */
#ifndef GDN_TEST_MEMORY_WORLD_H
#define GDN_TEST_MEMORY_WORLD_H

#include "runtime/memory/memory_internal.h"
#include "tests/harness.h"

enum { W_CELLS = 96, W_SEQS = 9, W_STATE = 16, W_HEADS = 2, W_CHANNELS = 64, W_KERNEL = 4, W_KV = 8, W_EMBD = 8 };

typedef struct truth {
    int32_t n, low; /* readable lengths are low .. n, but for those that a cancelled step lost: gone */
    int32_t token[W_CELLS], rope[W_CELLS], put[W_CELLS], gone[W_CELLS + 1]; /* put: the hidden row was given */
    int32_t next, shift, draft, reserved;
} truth;
static inline int truth_readable(const truth *t, int32_t p) { return p > 0 && p >= t->low && p <= t->n && !t->gone[p]; }
static inline int truth_lost(const truth *t) { return t->n && t->gone[t->n]; }

/* What a control breaks, in the step number `break_at`: maps that the forward pass uses. */
typedef enum breakage {
    BREAK_NOTHING,
    BREAK_SRC,      /* the state is read from another slot, or from zero                        */
    BREAK_DST,      /* snapshots go to each other's slots                                       */
    BREAK_NO_DST,   /* older snapshots of a step are not written                                */
    BREAK_SEQ,      /* the first sequence's slot is used for all                                */
    BREAK_CONV_SRC, /* the history is read from another row, or from zero                       */
    BREAK_CONV_DST, /* the history goes to another row                                          */
    BREAK_CONV_POS, /* the history is not rolled back with the state                            */
    BREAK_CELL,     /* keys and values go to another cell                                       */
    BREAK_CELLS,    /* attention looks through another sequence's list                          */
    BREAK_PADDING,  /* rows of padding are computed as if they were tokens                      */
    BREAK_COUNT
} breakage;

typedef struct world {
    rt_model model;
    rt_memory_desc desc;
    rt_memory *m;
    truth *t;
    uint64_t random;
    int32_t n_steps, padding; /* padding: rows of it at the end of every step */
    breakage break_what;
    int32_t break_at, broken;
    int32_t differences, quiet;
} world;

/* Contexts of all worlds; the allocator of their device counts, and fails on request. */
typedef struct world_allocator {
    int64_t live, fail_in, calls;
    uint64_t bytes;
} world_allocator;
extern world_allocator world_alloc;
gdn_context *world_context(void);
void world_close_context(void);

void world_fake_model(rt_model *model);
int world_open(world *w, int32_t n_seqs, int32_t n_cells, int32_t n_rollback, int32_t kv_type, uint64_t seed);
void world_close(world *w);
uint32_t world_random(world *w, uint32_t below);

/* Something is not as it should be: count it, and say so unless quiet. */
void world_differ(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define WORLD_REQUIRE(w, condition)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) world_differ(w, "line %d: %s (%s)", __LINE__, #condition, rt_last_error());                  \
    } while (0)

/* Memory against truth; sums of references; then poison in everything that is free. */
void world_compare(world *w);
/* A hash of all that a refused call must leave alone. */
uint64_t world_digest(const world *w);

/* One step with new random tokens: rows[i] for sequence seqs[i], in as many steps as rt_step_fit() wants. commit 1, or
 * cancelled: 0 before, -1 after the kernels ran. Status is rt_step_begin()'s. */
gdn_status world_step(world *w, int32_t n, const int32_t *seqs, const int32_t *rows, int commit);
gdn_status world_one(world *w, int32_t seq, int32_t rows); /* for one sequence, committed */
void world_catch_up(world *w, int32_t seq);                /* the draft head */

/* Operations on both. */
gdn_status world_rm(world *w, int32_t seq, int32_t p0, int32_t p1);
gdn_status world_cp(world *w, int32_t from, int32_t to);
gdn_status world_keep(world *w, int32_t seq);
gdn_status world_add(world *w, int32_t seq, int32_t p0, int32_t delta);
gdn_status world_reserve(world *w, int32_t seq, int32_t n);
void world_clear(world *w);
void *world_save(world *w, int32_t seq, uint64_t *n); /* rt_free() it */
/* `from` holds what the save says, in its sequence `as` (or all, with seq < 0). */
gdn_status world_load(world *w, int32_t seq, const void *bytes, uint64_t n, const world *from, int32_t as);

void test_memory_cases(world *sum);
void test_memory_saves(world *sum);
void test_memory_random(world *sum, uint64_t seed, double seconds);
extern int64_t world_fail_calloc; /* rt_calloc() fails when this many calls have been made; < 0: never */

#endif
