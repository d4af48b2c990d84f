/* The memory of a model for many sequences, as one transactional object. It has recurrent states, conv histories, KV
 * cells of attention and draft head, and hidden rows for the draft head (docs/design/runtime.md,
 * "Memory").
 *
 * A sequence is a list of n tokens. Position p is the 0-based index of a token in it; length n means that it contains
 * the tokens 0 .. n-1. With n_rollback = R > 0 sequences can be rolled back, with one of two methods.
 *
 * RT_ROLLBACK_SNAPSHOTS: K = R + 1 snapshots per sequence; a sequence can return to its newest R+1 lengths.
 * - States: the state of length p has ring index p % K of its sequence. Each ring index refers to a physical slot of a
 *   pool and stores the length as its tag. Slots have reference counts. The pool has n_seqs * K slots, and one per
 *   checkpoint of the prefix cache. seq_cp shares slots; a step that would write a shared slot writes a free one
 *   instead (copy on write, by the kernels' index maps).
 * - Conv history: a ring of conv_kernel - 1 + R conv state entries per row. Rows are shared in the same way.
 * - KV cells: one list per sequence, from position to cell. Cells have reference counts; set_rows writes them.
 * - Hidden rows (with a drafting MTP block): a ring of the trunk's output rows for the newest R + 1 positions or more.
 *
 * Rollback selects a smaller length whose tag still exists; it computes and copies nothing.
 *
 * RT_ROLLBACK_LOG: one state per sequence (K = 1) at an earlier length, its tag (the base position). A row of a replay
 * log (gated_delta_net.h) has an entry for each token since then. The rest is as above. Rollback selects a
 * smaller length, not below the tag. After a step of at most R + 1 tokens a sequence can return to any length after the
 * step's first token; after a longer step (prefill) only to its end. replay_log.h says when a commit advances the
 * state.
 *
 * The chunked form (gated_delta_net.h, section 8.8) always has a log, whatever n_rollback is. Its states are at
 * multiples of RT_CHUNK tokens, and so are the checkpoints of its prefix cache. With one, conv histories reach back to
 * the last multiple.
 *
 * A function either succeeds completely, or changes nothing and fails with a text; exceptions are noted. Not thread
 * safe: one thread at a time. */
#ifndef GDN_RUNTIME_MEMORY_H
#define GDN_RUNTIME_MEMORY_H

#include "runtime/model/model.h"

typedef struct rt_memory rt_memory;

typedef enum rt_rollback { RT_ROLLBACK_SNAPSHOTS, RT_ROLLBACK_LOG } rt_rollback;

typedef struct rt_memory_desc {
    const rt_model *model;
    gdn_context *device;     /* holds states and conv histories                                        */
    gdn_context *host;       /* a CPU context: holds KV cells, where attention runs                     */
    int32_t n_seqs;          /* sequence ids are 0 .. n_seqs - 1                                        */
    int32_t n_cells;         /* KV cells of all sequences together                     */
    int32_t n_rollback;      /* R; 0 = no rollback, and no memory for it                                */
    int32_t kv_type;         /* GDN_F32, GDN_F16, GDN_BF16; GDN_Q8_0 with a head_dim of whole blocks of 32 */
    int32_t draft;           /* 1: KV cells and hidden rows for the MTP block, if any                   */
    int32_t n_hidden;        /* hidden rows per sequence, at least n_rollback + 1 */
    int32_t n_prefixes;      /* checkpoints of the prefix cache (prefix_cache.h); 0 = none; at most n_cells */
    int32_t prefix_interval; /* tokens between checkpoints                                           */
    rt_rollback rollback;    /* method; ignored with n_rollback 0                                       */
    int32_t commit_after;    /* log: a step that replays this many entries or more commits, 1 to 2^16;
                                0 = RT_COMMIT_AFTER (replay_log.h) */
    int32_t digits;          /* 0: the recurrence; 2 or 3: the chunked form with so many digits        */
} rt_memory_desc;

enum { RT_CHUNK = 32 }; /* the chunked form has states at multiples of it */
/* The form that has this number of digits, as --form names it. */
static inline const char *rt_form_name(int32_t digits)
{
    return digits == 0 ? "recurrence" : digits == 2 ? "chunked2" : "chunked";
}
static inline gdn_dtype rt_state_type(int32_t digits)
{
    return digits == 0 ? GDN_F32 : digits == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
}

typedef struct rt_memory_bytes {
    uint64_t state, conv, snapshots, log, kv, hidden, prefixes;
} rt_memory_bytes;

/* Computes the bytes of a memory's pools without creating it. state and conv are for R = 0, and snapshots is what R
 * adds to them. log is the replay log. prefixes is what the prefix cache adds to states, conv histories and hidden
 * rows. Lists and counts are not included: about 16 bytes per cell and 4 per token. With a prefix cache they are 13
 * more per cell, 4 per token, 20 per interval of cells, and 8 per token of an interval for each checkpoint. */
gdn_status rt_memory_size(const rt_memory_desc *desc, rt_memory_bytes *bytes);
/* Entries of a row of the replay log, enough for n_rollback + 1 more tokens in every step; 0: no log. */
int32_t rt_memory_log_slots(const rt_memory_desc *desc);
gdn_status rt_memory_create(const rt_memory_desc *desc, rt_memory **memory);
void rt_memory_destroy(rt_memory *memory);

/* ---- Sequences ---- */
int32_t rt_memory_seq_length(const rt_memory *m, int32_t seq);     /* tokens in it; 0: empty                     */
int32_t rt_memory_seq_min_length(const rt_memory *m, int32_t seq); /* smallest length to roll back to, except 0;
                                                               length + 1: none */
/* Available KV cells: unreferenced ones, and those that only the prefix cache references. */
int32_t rt_memory_free_cells(const rt_memory *m);
/* Removes tokens [p0, p1); p1 < 0 = to the end; seq < 0 = of every sequence (all or none). A recurrent state allows
 * removal at the end only: p1 must be the end. p0 = 0 always succeeds and empties the sequence; for another p0 its
 * state must still be available (rt_memory_seq_min_length()). */
gdn_status rt_memory_seq_rm(rt_memory *m, int32_t seq, int32_t p0, int32_t p1);
/* Makes `to` a copy of `from`, replacing its contents. They share all memory but the hidden rows, which are copied. to
 * == from: no-op. */
gdn_status rt_memory_seq_cp(rt_memory *m, int32_t from, int32_t to);
/* Cells by position, including those reserved for drafting. Valid until the sequence changes or a step begins. */
const int32_t *rt_memory_seq_cells(const rt_memory *m, int32_t seq);

/* ---- A step of the forward pass: begin reserves everything; then commit or cancel. ---- */
typedef struct rt_token_run {
    int32_t seq, first_row, n_rows;
} rt_token_run; /* rows [first_row, first_row + n_rows) of a step */

typedef struct rt_step {
    int32_t n_spans, n_rows;
    const rt_token_run *span;
    /* filled by rt_memory_step_begin; host arrays, valid until commit or cancel */
    int32_t *seq_start;  /* [n_spans + 1]                                                            */
    int32_t *length;     /* [n_spans] before the step                                                */
    int32_t *state_src;  /* [n_spans]                                                                */
    int32_t n_snapshots; /* K; with a log 1, or 0 if no span writes its end state                    */
    int32_t *state_dst;  /* [n_spans][n_snapshots]                                                   */
    int32_t n_log;       /* entries per log row; 0: no log, ignore the next 3 maps                   */
    int32_t *log_row, *base_position, *commit; /* [n_spans]                                    */
    int32_t *conv_src, *conv_dst;              /* [n_spans]                                                        */
    int32_t *rope;         /* [n_rows] positions                                                          */
    int32_t *new_cell;     /* [n_rows] cell that each row writes                                       */
    const int32_t **cells; /* [n_rows] the row's cells by position ...                                 */
    int32_t *n_cells;      /* [n_rows] ... and the number it attends to, with itself                   */
    /* filled by rt_memory_step_tokens() (prefix_cache.h); n_checkpoints 0: no checkpoints in this step */
    int32_t checkpoint_interval, n_checkpoints;
    int32_t *state_checkpoint, *conv_checkpoint; /* [n_spans][n_checkpoints]                          */
} rt_step;

/* Returns how many of the spans, from the first on, one step can hold, at least 1. It considers slots and rows, not
 * cells. It is fewer than all in one case only: sequences that share a state after rt_memory_seq_cp() continue in the
 * same step. Each needs its own slot while the shared one is read, and that can be one more than the pool has. Run the
 * rest in the next step, where the last sharer writes in place. */
int32_t rt_memory_step_fit(const rt_memory *m, const rt_token_run *spans, int32_t n_spans);

/* Begins a step: reserves cells, slots and rows for the spans. Each sequence has at most one span, of at least one row;
 * spans are in row order without gaps. One step at a time; sequences cannot be changed during it. Errors change
 * nothing:
 * - GDN_OUT_OF_MEMORY: too few cells, or rt_memory_step_fit() returns fewer spans.
 * - GDN_INVALID_ARGUMENT: bad spans, or a sequence that lost its state in a cancelled step.
 *
 * With a log the call may first advance states or copy log rows. If the device fails there, no step has begun, and a
 * sequence may have lost its state as in rt_memory_step_cancel(). Advancing a state can also remove lengths that
 * rollback could reach beyond those promised above. */
gdn_status rt_memory_step_begin(rt_memory *m, const rt_token_run *spans, int32_t n_spans, rt_step **step);
/* Ends a step whose kernels have run: lengths grow, tags are set, replaced slots are released. */
void rt_memory_step_commit(rt_memory *m, rt_step *step);
/* Ends a step whose kernels did not all run; lengths do not change. Snapshots whose slots may have been written become
 * invalid, all others remain. started = 0: no kernel was launched, nothing becomes invalid. A sequence with K rows or
 * more in the step may have lost the state of its length. rt_memory_seq_min_length() is then above
 * rt_memory_seq_length(), and steps refuse the sequence until it is emptied or copied over. */
void rt_memory_step_cancel(rt_memory *m, rt_step *step, int started);
/* With a log: number of states advanced by a separate call before a step that does not log, since creation. Each is one
 * gated_delta_net call per recurrent layer. */
uint64_t rt_memory_folds(const rt_memory *m);

/* Pools, for the kernels' arguments. recurrent_layer and attention_layer: index_in_kind of the layer. */
typedef struct rt_pool {
    gdn_span state, conv, log;
    int32_t n_slots, n_conv_rows, n_conv_slots, n_log_rows;
} rt_pool;
rt_pool rt_memory_pool(const rt_memory *m, int32_t recurrent_layer);
unsigned char *rt_memory_k(const rt_memory *m, int32_t attention_layer); /* [n_cells][n_head_kv * head_dim]   */
unsigned char *rt_memory_v(const rt_memory *m, int32_t attention_layer);

/* ---- Draft head (models with an MTP block). Its KV uses the same cells; it may lag behind the sequence. ---- */
/* The draft head has KV for the positions rt_memory_draft_from() .. rt_memory_draft_length() - 1.
 * rt_memory_draft_from() is 0 if the head has processed the whole sequence. It is larger if hidden rows that the head
 * needed were gone, and it restarted at a later position; it does not attend to earlier ones. Its drafts may differ
 * then, results do not. */
int32_t rt_memory_draft_length(const rt_memory *m, int32_t seq);
int32_t rt_memory_draft_from(const rt_memory *m, int32_t seq);
void rt_memory_draft_restart(rt_memory *m, int32_t seq, int32_t position); /* sets both to position, 0 .. length */
void rt_memory_draft_set_length(rt_memory *m, int32_t seq, int32_t n);
/* The token that the draft head has processed for position `length`, which is drawn but not decoded; -1: none, or its
 * cell is gone. If that token is decoded next, the head's KV for it, in a reserved cell, is exact. */
int32_t rt_memory_draft_ahead(const rt_memory *m, int32_t seq);
void rt_memory_draft_set_ahead(rt_memory *m, int32_t seq, int32_t token);
/* The trunk's output row at a position, and the token there; NULL: not kept. */
const float *rt_memory_hidden_row(const rt_memory *m, int32_t seq, int32_t position, int32_t *token);
/* Stores a hidden row. Call after the commit. Positions older than the ring are ignored. */
void rt_memory_hidden_put(rt_memory *m, int32_t seq, int32_t position, int32_t token, const float *row);
/* Reserves cells for positions length .. length + n - 1, so that drafting can write KV. A larger n adds to the reserved
 * ones. The sequence's next step uses them first, and its commit frees the rest; a cancelled step keeps them. They are
 * also freed by n = 0, rt_memory_seq_rm() of any tail (even an empty one), and replacing the sequence.
 * rt_memory_seq_cp() does not copy them. */
int32_t rt_memory_draft_reserved(const rt_memory *m, int32_t seq);
gdn_status rt_memory_draft_reserve(rt_memory *m, int32_t seq, int32_t n, const int32_t **cells);

#endif
