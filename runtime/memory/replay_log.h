/* Rollback with a replay log (docs/design/runtime.md, "Rolling back"). Each sequence has one state, at an earlier
 * length (its base position), and a row of log entries for the tokens since then. This file decides when
 * entries are folded into the state, and has the calls that fold them. Unused with snapshots. Part of the memory
 * (memory_internal.h).
 *
 * snapshot[0] of a sequence is its state; `tag` is the state's length. slot GDN_NONE with tag 0 is the zero state
 * before the first token. Between steps the row has the entries of the positions [tag, length).
 *
 * - A step of 2 to n_rollback + 1 tokens logs them. It writes no state, unless it commits: the kernel then writes the
 *   state before the step's tokens, which replaces the one it read. So all tokens but the first can be rolled back.
 * - A step of one token writes the state at its end, as plain decoding does.
 * - A longer step (prefill) also writes the state at its end, and logs nothing.
 *
 * The chunked form logs each step. Its states are at multiples of RT_CHUNK. Where the recurrence has a state of a
 * length, it has one at the last multiple up to there. It writes no state if that is the one it has. */
#ifndef GDN_RUNTIME_REPLAY_LOG_H
#define GDN_RUNTIME_REPLAY_LOG_H

#include "runtime/memory/memory_internal.h"

/* A step that begins with this many entries to replay, or more, commits. Measured: docs/benchmarks/runtime-cpu.md. */
enum { RT_COMMIT_AFTER = 2 };

/* Bytes of a log entry: keys, deltas and decays of all heads. Too large: returns 0 and sets *bad. */
uint64_t rt_memory_log_entry_bytes(const rt_hparams *hp, int *bad);

/* Base position: the length of a sequence's state; 0 for an empty sequence. */
static inline int32_t rt_memory_state_at(const rt_sequence *s)
{
    return s->snapshot[0].tag > 0 ? s->snapshot[0].tag : 0;
}

/* What a step of n_rows tokens does with a sequence's state and log row. */
typedef struct rt_log_plan {
    int32_t fold;   /* 1: fold the entries into the state before the step, which does not log */
    int32_t logs;   /* 1: the step has a log row, with entries to replay or tokens that may be rolled back       */
    int32_t writes; /* length of the state that the step writes, at its begin or end; GDN_NONE: none */
} rt_log_plan;
rt_log_plan rt_memory_log_plan_of(const rt_memory *m, const rt_sequence *s, int32_t n_rows);

/* Prepares a sequence for a step of n_rows tokens: folds if the plan says so, and gives it a log row that no other
 * sequence references. rt_memory_step_fit() ensures a free slot for folding. A device failure during the call loses the
 * state, as in rt_memory_step_cancel(). */
gdn_status rt_memory_log_ready(rt_memory *m, int32_t seq, int32_t n_rows);

/* Brings the state of a sequence with tokens to rt_memory_newest_state() of its length. A device failure loses it. */
gdn_status rt_memory_log_fold(rt_memory *m, int32_t seq);

/* Create and free the buffers of these calls. */
gdn_status rt_memory_log_create(rt_memory *m);
void rt_memory_log_destroy(rt_memory *m);

#endif
