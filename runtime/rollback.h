/* Rolling back with a replay log (docs/design/runtime.md, "Rolling back"): one state for each sequence, which stands at
 * some earlier length, and a row of columns that say what each token since then did to it. This file has the policy,
 * when the columns are folded into the state, and the calls that fold them. With snapshots nothing here is used. Parts
 * of the memory (memory_internal.h).
 *
 * Of a sequence, snapshot[0] is the state: `tag` is the length at which it stands. slot GDN_NONE with tag 0 is the
 * state before the first token, zero. What holds between steps: the columns of the positions [tag, length) are in its
 * row.
 *
 * A step of 2 to n_rollback + 1 tokens logs them and writes no state, but for a commit: the state at the step's begin,
 * which the kernels have at hand, replaces the one that was read. So all but its first token can be taken back. A step
 * of one token writes the state at its end, as plain decoding does; one of more, which reads a prompt, does so too, and
 * logs nothing. */
#ifndef GDN_RUNTIME_ROLLBACK_H
#define GDN_RUNTIME_ROLLBACK_H

#include "runtime/memory_internal.h"

/* A step that begins with this many columns to repeat, or more, commits. Measured: docs/benchmarks/runtime-cpu.md. */
enum { RT_COMMIT_AFTER = 2 };

/* Columns of a row: each step finds room for n_rollback + 1 tokens, whatever the one before has left. */
int32_t rt_log_columns(int32_t n_rollback, int32_t commit_after);
/* Bytes of a column: keys, deltas and decays of all heads. 0 and *bad where that is too much. */
uint64_t rt_log_column_bytes(const rt_hparams *hp, int *bad);

/* The length at which the state of a sequence stands: 0 for an empty one. */
static inline int32_t rt_state_at(const rt_sequence *s)
{
    return s->snapshot[0].tag > 0 ? s->snapshot[0].tag : 0;
}

/* What a step of n_rows tokens does with a sequence's state and row; trees: of a step of trees, which writes no state
 * at its end, whatever a sequence's rows. */
typedef struct rt_log_plan {
    int32_t fold;   /* before the step the columns are folded into the state: a step that does not log needs that */
    int32_t logs;   /* it has a row of the log: columns to repeat, or tokens that may be taken back              */
    int32_t writes; /* GDN_NONE: no state; or the length whose state it writes: that at its begin, or at its end */
} rt_log_plan;
rt_log_plan rt_log_plan_of(const rt_memory *m, const rt_sequence *s, int32_t n_rows, int trees);

/* Before a step of n_rows tokens: fold what has to be, and have a row that no other sequence names. A slot for what is
 * folded is free: see rt_step_fit(). Where the device fails in the middle the state is lost, as in rt_step_cancel(). */
gdn_status rt_log_ready(rt_memory *m, int32_t seq, int32_t n_rows, int trees);

/* What rt_log_repeat() needs to be created with, and freed. */
gdn_status rt_log_create(rt_memory *m);
void rt_log_destroy(rt_memory *m);

/* The state of the sequence's present length: what it has stays as it is. First its maps, for all layers, then of a
 * layer the state to slot `to` of `out`, which is one state, or of the layer's pool where it is NULL. */
gdn_status rt_log_maps(rt_memory *m, const rt_sequence *s, int32_t to);
gdn_status rt_log_repeat(rt_memory *m, int32_t layer, const gdn_span *out);

#endif
