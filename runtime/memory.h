/* What a model remembers: recurrent states, convolution history, attention and draft KV cells, and the hidden rows
 * that the draft head needs, for many sequences, as ONE transactional object (docs/design/runtime.md, "Memory").
 *
 * A sequence is a list of n tokens. Position p is the index of a token in it, 0-based; "length n" means that the
 * tokens 0 .. n-1 are in. With n_rollback = R sequences can be rolled back, in one of two ways.
 *
 * RT_ROLLBACK_SNAPSHOTS: K = R + 1 snapshots of each sequence; the newest R+1 lengths can be returned to.
 *   - State slot of length p: ring index p % K of the sequence; each ring index names a physical slot of a pool of
 *     n_seqs * K slots (and one per checkpoint of the prefix cache), with a reference count, and carries the length
 *     as its tag. seq_cp shares physical slots; a step that would write a shared slot takes a free one instead (copy
 *     on write, done by the kernel's maps).
 *   - Convolution ring of conv_kernel - 1 + R columns per row; rows are shared and replaced likewise.
 *   - KV cells: one list per sequence, position -> cell; cells have reference counts. Written with set_rows.
 *   - Hidden ring (with an MTP block that drafts): the trunk's output rows of the newest positions, R + 1 or more.
 * Rolling back is choosing a smaller length whose tag is still there; nothing is computed or copied.
 *
 * RT_ROLLBACK_LOG: one state of each sequence (K = 1), which stands at an earlier length, its tag, and a row of a
 * replay log (gated_delta_net.h) with what the tokens since then did to it. All else is as above. Rolling back is
 * choosing a smaller length, not less than the tag. After a step of at most R + 1 tokens it
 * can go back to any length behind the first of them; a longer step, which reads a prompt, leaves its end alone. See
 * rollback.h for when states move up.
 *
 * Every function either does all of what it says or changes nothing and fails with a text. One thread at a time. */
#ifndef GDN_RUNTIME_MEMORY_H
#define GDN_RUNTIME_MEMORY_H

#include "runtime/model.h"

typedef struct rt_memory rt_memory;

typedef enum rt_rollback { RT_ROLLBACK_SNAPSHOTS, RT_ROLLBACK_LOG } rt_rollback;

typedef struct rt_memory_desc {
    const rt_model *model;
    gdn_context    *device;      /* where states and convolution history live                              */
    gdn_context    *host;        /* a CPU context: KV cells live where attention is computed                */
    int32_t         n_seqs;      /* sequence ids 0 .. n_seqs - 1                                            */
    int32_t         n_cells;     /* KV cells of all sequences together                                      */
    int32_t         n_rollback;  /* R; 0 = no snapshots, and no memory for any                              */
    int32_t         kv_type;     /* GDN_F32, GDN_F16 or GDN_BF16                                            */
    int32_t         draft;       /* 1: KV cells and hidden rows for the model's MTP block, if it has one    */
    int32_t         n_hidden;    /* hidden rows kept of each sequence, where that is more than n_rollback + 1 */
    int32_t         n_prefixes;  /* checkpoints of the prefix cache (prefix_cache.h); 0 = none. There are no more
                                    than n_cells / prefix_interval                                          */
    int32_t         prefix_interval; /* tokens between them                                                  */
    rt_rollback     rollback;    /* how; with n_rollback 0 there is nothing to choose                       */
    int32_t         commit_after; /* of a log: a step that repeats so many columns moves the state up, 1 to 2^16;
                                    0 = what was measured to be best (rollback.h)                           */
} rt_memory_desc;

typedef struct rt_memory_bytes { uint64_t state, conv, snapshots, log, kv, hidden, prefixes; } rt_memory_bytes;

/* What the pools of a memory take, without creating it: state and conv are the base (R = 0), snapshots is what R adds
 * to states and convolution, log the replay log, prefixes what the prefix cache adds to states, convolution and hidden
 * rows. Lists and counts come on top: about 20 bytes per cell and 4 per token; with a prefix cache 13 per cell, 4 per
 * token and 16 per interval of cells more. */
gdn_status rt_memory_size(const rt_memory_desc *desc, rt_memory_bytes *bytes);
gdn_status rt_memory_create(const rt_memory_desc *desc, rt_memory **memory);
void       rt_memory_destroy(rt_memory *memory);

/* ---- Sequences ---- */
int32_t rt_seq_length(const rt_memory *m, int32_t seq);         /* tokens in it; 0 for an empty one           */
int32_t rt_seq_min_length(const rt_memory *m, int32_t seq);     /* the smallest length it can roll back to without
                                                                   emptying it; length + 1: none             */
/* KV cells that can be taken: those that nobody has, and those that the prefix cache alone has. */
int32_t    rt_memory_free_cells(const rt_memory *m);
/* Remove tokens [p0, p1); p1 < 0 = to the end; seq < 0 = every sequence (all or none). Only tails can be removed
 * from a recurrent state: p1 must be the end. p0 = 0 empties it always; other p0 must still have their snapshot. */
gdn_status rt_seq_rm(rt_memory *m, int32_t seq, int32_t p0, int32_t p1);
/* to becomes a copy of from (what to held is gone): shares everything, copies nothing. to == from does nothing. */
gdn_status rt_seq_cp(rt_memory *m, int32_t from, int32_t to);
gdn_status rt_seq_keep(rt_memory *m, int32_t seq);              /* empty all others                           */
/* Shift the positions that rotary embedding sees: of the whole sequence (p0 = 0; relative distances stay, so nothing
 * is recomputed), or of the tokens to come (p0 = length). Others would need cells rotated again: GDN_UNSUPPORTED. */
gdn_status rt_seq_add(rt_memory *m, int32_t seq, int32_t p0, int32_t delta);
int32_t    rt_seq_position(const rt_memory *m, int32_t seq, int32_t index); /* rotary position of a token      */
/* The same in the frame in which the sequence's keys were rotated and stored, which shifting the whole does not move:
 * what rt_step.rope has, and what a draft's rows must be rotated to. index may be beyond the length; -1 for none. */
int32_t    rt_seq_rope(const rt_memory *m, int32_t seq, int32_t index);
/* Cells by position, those reserved for drafting included. Valid until the sequence changes or a step begins. */
const int32_t *rt_seq_cells(const rt_memory *m, int32_t seq);
void       rt_memory_clear(rt_memory *m); /* empties every sequence and the prefix cache; a step under way is
                                             cancelled                                                      */

/* ---- Saving: the state at the present length only, whatever K was or will be. seq < 0 = all. ---- */
uint64_t   rt_memory_save_size(const rt_memory *m, int32_t seq);
gdn_status rt_memory_save(rt_memory *m, int32_t seq, void *bytes, uint64_t n);
/* Replace sequence `seq` (or, for a save of all, everything) by what was saved. Checked against the model and against
 * its own checksum; a malformed or foreign one is refused and changes nothing. A device that fails in the middle of
 * writing states leaves empty what was to be replaced. n_seqs, n_cells, n_rollback, n_hidden and draft may differ from
 * the saver's. Without the draft head's part, which a saver with draft 0 does not have, the head starts anew with the
 * tokens to come: see rt_draft_from(). */
gdn_status rt_memory_load(rt_memory *m, int32_t seq, const void *bytes, uint64_t n);

/* ---- A step: what the forward pass asks for. begin reserves everything; then commit or cancel. ---- */
typedef struct rt_token_run {
    int32_t seq, first_row, n_rows;
} rt_token_run; /* rows [first_row, +n_rows) of a step     */

typedef struct rt_step {
    int32_t        n_spans, n_rows;
    const rt_token_run *span;
    /* filled by rt_step_begin; host arrays, valid until commit or cancel */
    int32_t       *seq_start;   /* [n_spans + 1]                                                            */
    int32_t       *length;      /* [n_spans] before the step                                                */
    int32_t       *state_src;   /* [n_spans]                                                                */
    int32_t        n_snapshots; /* K; with a log 1, or 0 where no span writes the state at its end          */
    int32_t       *state_dst;   /* [n_spans][n_snapshots]                                                   */
    int32_t        n_log;       /* columns of the log; 0: this step has none, and not the next three maps   */
    int32_t       *log_row, *state_position, *state_commit; /* [n_spans]                                    */
    int32_t       *conv_src, *conv_dst; /* [n_spans]                                                        */
    int32_t       *rope;        /* [n_rows] rotary positions: rt_seq_rope()                                 */
    int32_t       *new_cell;    /* [n_rows] cell that each row writes                                       */
    const int32_t **cells;      /* [n_rows] the row's cells by position ...                                 */
    int32_t       *n_cells;     /* [n_rows] ... and how many it attends to, itself included                 */
    const int32_t *parent;      /* [n_rows] of a step of trees: see rt_step_begin_tree(); otherwise NULL    */
    /* filled by rt_step_tokens() (prefix_cache.h); n_checkpoints 0: there are none in this step            */
    int32_t        checkpoint_interval, n_checkpoints;
    int32_t       *state_checkpoint, *conv_checkpoint; /* [n_spans][n_checkpoints]                          */
} rt_step;

/* How many of the spans, counted from the first, one step can hold as far as slots and rows go (at least 1; cells are
 * not looked at). All of them, but for one case: sequences that share a state after rt_seq_cp() and go on in the same
 * step. Each needs a slot of its own while the shared one is read, and that can be one more than there are; run what
 * fits, and the rest in the next step, where the last sharer writes in place. */
int32_t    rt_step_fit(const rt_memory *m, const rt_token_run *spans, int32_t n_spans);

/* Reserve cells, slots and rows for these spans (each sequence at most once per step, at least one row each, spans in
 * the order of their rows and without gaps). One step at a time; while it is under way sequences cannot be changed.
 * Refused with nothing changed: GDN_OUT_OF_MEMORY when cells run out or rt_step_fit() says fewer,
 * GDN_INVALID_ARGUMENT for bad spans, and for a sequence whose state a cancelled step has lost. With a log states may
 * be moved up, or rows copied, before the step begins: where the device fails then, none has begun, and a sequence may
 * have lost its state as in rt_step_cancel(); lengths beyond those that are promised above may be gone. */
gdn_status rt_step_begin(rt_memory *m, const rt_token_run *spans, int32_t n_spans, rt_step **step);
/* The kernels have run: lengths grow, tags are set, replaced slots are released. */
void       rt_step_commit(rt_memory *m, rt_step *step);
/* They have not, or not all: lengths stay; snapshots whose slots may have been written are forgotten, all others
 * remain. started = 0: no kernel was launched, nothing is forgotten. A sequence that was given K rows or more may have
 * lost the state of its present length: rt_seq_min_length() is then beyond rt_seq_length(), and it takes no further
 * tokens until it is emptied, copied over or loaded. */
void       rt_step_cancel(rt_memory *m, rt_step *step, int started);
/* With a log: states that were moved up by themselves, before a step that does not log, since creation. Each is a call
 * of gated_delta_net per recurrent layer; so is each sequence that is saved where its state stands behind. */
uint64_t   rt_memory_folds(const rt_memory *m);

/* ---- Trees of drafts, for memories with a log (docs/design/runtime.md, "Trees") ---- */
/* As rt_step_begin(), where several rows of a span may follow the same one: parent[row] is the row of its span, counted
 * from 0, that it follows; of a span's first row GDN_NONE. Rows stand at the positions of their depths. A span has at
 * most n_rollback rows, all of them are logged, and the prefix cache takes no checkpoints. What is committed of a span
 * is its rows from the first on as far as each follows the one before; the others lie aside, in columns, cells and
 * hidden rows behind the sequence's end, until the sequence is used or changed in any way but rt_seq_branch(), or
 * shared. parent NULL: rt_step_begin(). Errors: as there; GDN_UNSUPPORTED without a log. */
gdn_status rt_step_begin_tree(rt_memory *m, const rt_token_run *spans, int32_t n_spans, const int32_t *parent,
                              rt_step **step);
/* The sequence becomes what it was before its last step, which was one of trees, and the branch that ends with row
 * `row` of its span. What lies elsewhere is forgotten and its cells are freed. A device that fails on the way leaves
 * the state lost, as in rt_step_cancel(). GDN_INVALID_ARGUMENT: there is no such row, or nothing lies aside any more.
 */
gdn_status rt_seq_branch(rt_memory *m, int32_t seq, int32_t row);
/* After the commit, and rt_hidden_put() for the others: the hidden row of one that lies aside. */
void       rt_aside_put(rt_memory *m, int32_t seq, int32_t row, int32_t token, const float *hidden);
/* How many of n rows, from the first on, follow each the one before. */
int32_t    rt_tree_chain(const int32_t *parent, int32_t n);

/* Pools, for the kernels' arguments. layer: index_in_kind. */
typedef struct rt_pool { gdn_span state, conv, log; int32_t n_slots, n_conv_rows, n_columns, n_log_rows; } rt_pool;
rt_pool        rt_memory_pool(const rt_memory *m, int32_t recurrent_layer);
unsigned char *rt_memory_k(const rt_memory *m, int32_t attention_layer); /* [n_cells][n_head_kv * head_dim]   */
unsigned char *rt_memory_v(const rt_memory *m, int32_t attention_layer);

/* ---- Draft head (models with an MTP block): it has KV in the same cells, and lags behind. ---- */
/* Its KV is there for the positions rt_draft_from() .. rt_draft_length() - 1. From 0 on where it has read all of the
 * sequence; more where it lagged so far behind that rows it needed were gone, and was started anew at a later position,
 * before which it looks at nothing. It may draft otherwise then; no text depends on that. */
int32_t      rt_draft_length(const rt_memory *m, int32_t seq);
int32_t      rt_draft_from(const rt_memory *m, int32_t seq);
void         rt_draft_restart(rt_memory *m, int32_t seq, int32_t position); /* 0 .. length; both are this then */
void         rt_draft_set_length(rt_memory *m, int32_t seq, int32_t n);
/* Ahead of its sequence: it was fed `token` for position `length`, which is drawn and not decoded yet, so that its
 * draft KV there (in a reserved cell) is exact if that token comes. -1: it was not, or the cell is gone. */
int32_t      rt_draft_ahead(const rt_memory *m, int32_t seq);
void         rt_draft_set_ahead(rt_memory *m, int32_t seq, int32_t token);
/* The trunk's output row at a position, and the token there; NULL: not kept. */
const float *rt_hidden_row(const rt_memory *m, int32_t seq, int32_t position, int32_t *token);
/* After commit. Positions that are not among the newest that are kept are left out. */
void         rt_hidden_put(rt_memory *m, int32_t seq, int32_t position, int32_t token, const float *row);
/* Cells for positions length .. length + n - 1, kept for the step that follows, so that drafting can write KV. The next
 * step of the sequence uses them first, and commit frees the others; a step that is cancelled leaves them. They are
 * freed as well by n = 0, by rt_seq_rm() of any tail (that of length .. removes nothing else), by rt_seq_add() at the
 * end, and when the sequence is replaced; rt_seq_cp() does not copy them. A larger n adds to what is reserved. */
int32_t      rt_draft_reserved(const rt_memory *m, int32_t seq);
gdn_status   rt_draft_reserve(rt_memory *m, int32_t seq, int32_t n, const int32_t **cells);

#endif
