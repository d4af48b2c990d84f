/* The prefix cache: keeps states, conv histories and KV cells of prompt prefixes after their sequences
 * end. A sequence that begins with the same tokens starts from there (docs/design/runtime.md, "Prefixes").
 *
 * A checkpoint holds the state, the conv history, the KV cells and the hidden row after the first c tokens of a
 * sequence. c is a multiple of the interval, or where rt_memory_prefix_keep() was called. The kernels write states and
 * histories during decoding, to slots and rows of the pools that no sequence uses; nothing is copied. Sequences share
 * cells with the checkpoint by reference counts.
 *
 * Lookup compares all tokens of a prefix. Prefixes belong to the owner of their sequence; other owners do not find them
 * and cannot learn by the time or by counts what was read. They compete for room alike. Nothing is kept after a load,
 * since loaded tokens are unknown.
 *
 * The cache holds up to rt_memory_desc.n_prefixes checkpoints; it evicts those that no other prompt
 * has used first, the least recently used of these. Cells that only
 * the cache references are available to sequences: rt_memory_free_cells() counts them as free, and a step evicts
 * checkpoints to get them. */
#ifndef GDN_RUNTIME_PREFIX_CACHE_H
#define GDN_RUNTIME_PREFIX_CACHE_H

#include "runtime/memory/memory.h"

enum { RT_PREFIX_INTERVAL = 256 }; /* default of rt_engine_desc.prefix_interval */

/* Sets a sequence's owner, which is 0 at creation and stays until the next call. The sequence must be empty, or have
 * this owner. GDN_INVALID_ARGUMENT: it has another one, there is no such sequence, or a step is active. */
gdn_status rt_memory_prefix_own(rt_memory *m, int32_t seq, uint32_t owner);
/* Makes sequence seq, which is empty or holds a prefix of token[0, n), hold its owner's longest cached prefix, if that
 * is longer. It replaces the sequence's contents, takes no cells, and copies only a hidden row. *length (may be NULL):
 * the resulting length. The last token of a prompt must be decoded for its logits, so pass n - 1 for a prompt of n
 * tokens. The call marks the prefix as used. Errors change nothing. GDN_INVALID_ARGUMENT: no such sequence, or a step
 * is active. GDN_OUT_OF_MEMORY: no memory for the list of cells. */
gdn_status rt_memory_prefix_start(rt_memory *m, int32_t seq, const int32_t *token, int32_t n, int32_t *length);

/* Keeps a checkpoint of all tokens of the sequence, between its steps; of the chunked form it is at the last multiple
 * of RT_CHUNK. It references the sequence's state, conv history and cells; nothing is copied, but a replay log is
 * folded. Keeps none where there is no room, where the tokens are unknown (after a load), or without a cache.
 * GDN_INVALID_ARGUMENT: no such sequence, or a step is active. A device failure loses the state, as in
 * rt_memory_step_cancel(). */
gdn_status rt_memory_prefix_keep(rt_memory *m, int32_t seq);

/* Passes the step's tokens, [n_rows]. Call after rt_memory_step_begin() and before the kernels. It chooses the
 * checkpoints that the kernels write (rt_step.n_checkpoints and its maps); rt_memory_step_commit() publishes them,
 * rt_memory_step_cancel() drops them. Without this call a step keeps no checkpoints. No-op without a cache. */
void rt_memory_step_tokens(rt_memory *m, rt_step *step, const int32_t *token);
/* Passes the trunk's output rows of the step, [n_rows][n_embd]; each checkpoint keeps one for the draft head. Call
 * before rt_memory_step_commit(). Not needed without a draft head. */
void rt_memory_step_hidden(rt_memory *m, const rt_step *step, const float *rows);

typedef struct rt_prefix_stats {
    int32_t interval, n_max;       /* tokens; most checkpoints (both 0 without a cache) */
    int32_t n_held, n_cells;       /* checkpoints; cells the cache references, including those sequences share */
    uint64_t n_written, n_evicted; /* checkpoints since creation */
} rt_prefix_stats;
rt_prefix_stats rt_memory_prefix_stats_of(const rt_memory *m);

/* ---- Saving: the cache outlives the process (prefix_save.c, prefix_load.c) ---- */

/* Writes the next n bytes of a save; a failure has a text. */
typedef gdn_status (*rt_write_fn)(void *user, const void *bytes, uint64_t n);

typedef struct rt_prefix_saved {
    int32_t n, n_left_out; /* checkpoints saved or loaded, and those without room */
    uint64_t bytes;        /* of the save */
} rt_prefix_saved;

/* Saves checkpoints with their tokens, keys and values in at most `most` bytes: first those that are shared, then those
 * used last. `bits` stands for what changes the bits of states besides model and KV type: rt_engine_bits().
 * GDN_INVALID_ARGUMENT: there is no cache, a step is active, or `most` is less than the header. */
gdn_status rt_memory_prefix_save(rt_memory *m, uint64_t bits, uint64_t most, rt_write_fn write, void *user,
                                 rt_prefix_saved *saved);
/* Saves only the longest cached prefix of token[0, n) of owner 0, if there is one. A cache with another interval can
 * load it. */
gdn_status rt_memory_prefix_save_one(rt_memory *m, uint64_t bits, const int32_t *token, int32_t n, rt_write_fn write,
                                     void *user);
/* Adds the checkpoints of a save to an empty cache, as many as fit. Everything is checked first. A save that is
 * damaged, or of another format, model, form, interval or type of KV cells, changes nothing and gives
 * GDN_INVALID_ARGUMENT. Memories with and without a draft head load each other's saves. A device failure leaves the
 * checkpoints that were loaded before it. */
gdn_status rt_memory_prefix_load(rt_memory *m, uint64_t bits, const void *bytes, uint64_t n, rt_prefix_saved *loaded);

#endif
