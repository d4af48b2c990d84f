/* The prefix cache: beginnings of token lists whose states, histories and KV cells are kept when their sequences are
 * gone, so that a sequence that begins alike starts from there (docs/design/runtime.md, "Prefixes").
 *
 * What is kept is a checkpoint: the state, the convolution's history, the KV cells and the hidden row after the first
 * c tokens of a sequence, where c is a multiple of the interval. The kernels write states and histories in passing, to
 * slots and rows of the pools that no sequence has; nothing is copied. Cells are shared with the sequence that wrote
 * them. A sequence that starts from a checkpoint shares all of it, by reference counts.
 *
 * Checkpoints are found by comparing tokens, every one of them. Only tokens count that stand at the rotary position of
 * their index: behind a jump (rt_seq_add()) nothing is kept, nor behind what was loaded, whose tokens nobody knows.
 *
 * The cache holds rt_memory_desc.n_prefixes checkpoints; where another is to be written, the one that was used least
 * recently goes. It has KV cells that no sequence has only until somebody wants them: rt_memory_free_cells() counts
 * them as free, and who takes cells gets them. */
#ifndef GDN_RUNTIME_PREFIX_CACHE_H
#define GDN_RUNTIME_PREFIX_CACHE_H

#include "runtime/memory.h"

enum { RT_PREFIX_INTERVAL = 256 }; /* of an engine whose description says 0 */

/* How many of the first tokens of token[0, n) are kept: a multiple of the interval, 0 to n. 0 without a cache. */
int32_t rt_prefix_find(const rt_memory *m, const int32_t *token, int32_t n);
/* Let sequence seq, which holds nothing or a beginning of token[0, n), hold as many of them as are kept, where that is
 * more; what it held is gone then. It takes no cells, and copies nothing but a hidden row. *length (may be NULL): the
 * tokens that it holds now. As the last token of a prompt has to be decoded for its logits, a prompt of n tokens passes
 * n - 1. What was found counts as used. Fails with nothing changed: GDN_INVALID_ARGUMENT for no sequence, or while a
 * step is under way; GDN_OUT_OF_MEMORY for its list of cells. */
gdn_status rt_prefix_start(rt_memory *m, int32_t seq, const int32_t *token, int32_t n, int32_t *length);
/* Forget all. Sequences that started from a checkpoint keep what they have. */
void rt_prefix_clear(rt_memory *m);

/* After rt_step_begin(), before the kernels: what the step's rows are, [n_rows]. Chooses which checkpoints the kernels
 * are to write, and where (rt_step.n_checkpoints and its maps). Without a cache it does nothing, and a step that it is
 * not called for keeps nothing. rt_step_commit() makes the checkpoints known, rt_step_cancel() forgets them. */
void rt_step_tokens(rt_memory *m, rt_step *step, const int32_t *token);
/* Before rt_step_commit(): the trunk's output rows of the step, [n_rows][n_embd], of which a checkpoint keeps one for
 * the draft head. Memories without a draft head need no call. */
void rt_step_hidden(rt_memory *m, const rt_step *step, const float *rows);

typedef struct rt_prefix_stats {
    int32_t interval, n_max;       /* tokens; checkpoints that there is room for: 0 and 0 without a cache */
    int32_t n_held, n_cells;       /* checkpoints; cells that the cache names, those that sequences have too included */
    uint64_t n_written, n_evicted; /* checkpoints, since creation */
} rt_prefix_stats;
rt_prefix_stats rt_prefix_stats_of(const rt_memory *m);

#endif
