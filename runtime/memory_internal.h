/* What the files of the memory share: memory.c creates it, memory_seq.c changes sequences, memory_step.c runs
 * steps, memory_save.c and memory_load.c move sequences in and out, rollback.c has the replay log, tree.c trees of
 * drafts. Semantics are in memory.h.
 *
 * Everything that sequences share (state slots, convolution rows, KV cells) is a resource: a number below n with a
 * reference count. The invariant that tests audit: a count is the number of places that name the resource, and a
 * resource is on the free stack exactly when its count is 0. */
#ifndef GDN_RUNTIME_MEMORY_INTERNAL_H
#define GDN_RUNTIME_MEMORY_INTERNAL_H

#include "runtime/error.h"
#include "runtime/memory.h"

enum { RT_POSITION_LIMIT = 1 << 29 }; /* of cells and of rotary jumps: sums of two of them stay below 2^31 */

typedef struct rt_resource {
    int32_t *count; /* [n] references         */
    int32_t *free;  /* [n] stack; n_free used */
    int32_t  n, n_free;
    int32_t *kept;  /* [n] how many of the references are the prefix cache's; NULL: none can be */
    int32_t  n_idle; /* those with references that are all the prefix cache's                    */
} rt_resource;

typedef struct rt_prefixes rt_prefixes; /* prefix_tree.h */

/* One ring index of a sequence: where the state of length `tag` lies. slot GDN_NONE: no snapshot, tag -1. */
typedef struct rt_snapshot { int32_t slot, tag; } rt_snapshot;

/* What lies at one index of the ring of hidden rows, by position % n_hidden; -1 = nothing. */
typedef struct rt_hidden_tag { int32_t position, token; } rt_hidden_tag;

typedef struct rt_sequence {
    int32_t      length;
    int32_t      n_listed;  /* cells in the list: length of them, then those reserved for drafting            */
    int32_t      capacity;  /* of the list, which grows with the sequence                                     */
    int32_t     *cell;      /* position -> cell                                                               */
    int32_t     *token;     /* with a prefix cache: the tokens [0, keyed), as large as the list of cells      */
    int32_t      keyed;     /* ... which are known, and stand at the rotary positions of their indices        */
    uint64_t     last_step; /* the number of the sequence's last step                                         */
    rt_snapshot *snapshot;  /* [K] by length % K; with a log, one: see rollback.h                             */
    int32_t      log_row;   /* GDN_NONE: there is nothing to repeat                                           */
    int32_t      conv_row;  /* GDN_NONE: no tokens                                                            */
    int32_t      conv_from; /* the columns of the positions [conv_from, length) are in the row                */
    int32_t      next_rope; /* of the token at position `length`                                              */
    int32_t      shift;     /* rt_seq_position() = rope + shift                                               */
    int32_t      draft;     /* rt_draft_length()                                                              */
    int32_t      draft_from; /* rt_draft_from(), <= draft                                                     */
    int32_t      ahead;     /* rt_draft_ahead()                                                               */
    int32_t      n_tree;    /* rows of its last step, of which some lie aside; 0: none do                     */
    int32_t      tree_at;   /* ... and its length before                                                      */
    int32_t     *parent;    /* ... [n_rollback] and which follows which; NULL without a log                   */
    rt_hidden_tag *hidden_at; /* [n_hidden]                                                                   */
} rt_sequence;

/* What a step took for one span, so that commit and cancel need not work it out again. */
typedef struct rt_taken {
    int32_t n_listed, conv_row; /* listed before; new row or GDN_NONE         */
    int32_t state_to, state_at; /* with a log: slot that is written or GDN_NONE, and the length of its state */
    int32_t keyed;              /* the sequence's tokens are known afterwards */
} rt_taken;

struct rt_memory {
    const rt_model *model;
    gdn_context    *device, *host;
    int32_t         n_seqs, n_cells, n_prefixes, K, kernel, n_columns, kv_type;
    int32_t         n_rollback, n_log, commit_after; /* n_log: columns of the log; 0: there are snapshots     */
    int32_t         n_recurrent, n_attention; /* the latter with the draft head's layer, which comes last     */
    int32_t         has_draft, n_hidden;
    uint64_t        state_bytes, column_bytes, kv_bytes, hidden_bytes; /* of one slot, column, row, row       */
    uint64_t        log_bytes;            /* of a column of the log                                           */
    gdn_span       *state, *conv, *log, *k, *v; /* by layer */
    gdn_span        fold_maps, fold_workspace;  /* of calls without tokens (rollback.c)                       */
    gdn_span        branch_map;                 /* which columns go where when a branch is taken (tree.c)     */
    uint64_t        n_folds;
    gdn_span        hidden;               /* [n_seqs][n_hidden][n_embd], in the host's memory                 */
    rt_resource     slots, rows, cells, log_rows;
    rt_sequence    *seq;
    int32_t        *cell_rope; /* rotary position that a cell's key was rotated to */
    rt_prefixes    *prefixes;  /* NULL: there is no prefix cache                   */

    rt_step  step;
    uint64_t n_steps;        /* begun so far */
    int32_t  step_active, step_keyed; /* keyed: rt_step_tokens() has been called for it */
    int32_t  step_capacity;  /* rows that the arrays of the step can hold */
    int32_t *step_parent, *step_depth; /* [step_capacity] of a step of trees                  */
    int32_t *aside_cells;    /* lists of cells of rows that lie aside: see tree.c             */
    int64_t  aside_capacity;
    rt_token_run *step_span;      /* [n_seqs] */
    rt_taken *taken;         /* [n_seqs] */
    uint8_t *seen;           /* [n_seqs] scratch of checks */
};

/* Sizes of the pools for a description. */
typedef struct rt_memory_shape {
    uint64_t state_bytes, column_bytes, log_bytes, kv_bytes, hidden_bytes;
    int32_t  K, n_columns, n_log, commit_after, n_attention, n_hidden, has_draft, n_prefixes, prefix_interval;
} rt_memory_shape;

/* ---- Resources ---- */
static inline int32_t rt_take(rt_resource *r)
{
    const int32_t i = r->free[--r->n_free];
    r->count[i] = 1;
    return i;
}
static inline void rt_hold(rt_resource *r, int32_t i)
{
    if (r->kept)
        r->n_idle -= r->count[i] == r->kept[i];
    r->count[i]++;
}
static inline void rt_drop(rt_resource *r, int32_t i)
{
    if (--r->count[i] == 0)
        r->free[r->n_free++] = i;
    else if (r->kept)
        r->n_idle += r->count[i] == r->kept[i];
}
/* The prefix cache takes a reference to what somebody has, and gives it back. */
static inline void rt_keep(rt_resource *r, int32_t i)
{
    r->count[i]++;
    r->kept[i]++;
}
static inline void rt_unkeep(rt_resource *r, int32_t i)
{
    r->kept[i]--;
    if (--r->count[i] == 0) {
        r->free[r->n_free++] = i;
        r->n_idle--;
    }
}

/* ---- Sequences (memory_seq.c) ---- */
/* GDN_INVALID_ARGUMENT where `seq` is none, or a step is under way: sequences do not change then. */
gdn_status rt_check_seq(const rt_memory *m, int32_t seq, const char *what);
/* Room for `n` cells in the list; GDN_OUT_OF_MEMORY with nothing changed. */
gdn_status rt_seq_grow(rt_memory *m, int32_t seq, int32_t n);
/* Drop what is named beyond: cells of the list, snapshots, the convolution row. None can fail. */
void rt_seq_truncate_cells(rt_memory *m, rt_sequence *s, int32_t n);
void rt_seq_drop_snapshot(rt_memory *m, rt_snapshot *at);
void rt_seq_empty(rt_memory *m, rt_sequence *s);
/* Are the state and the columns that the token at position p would need there (0 < p <= length)? */
int rt_seq_readable(const rt_memory *m, const rt_sequence *s, int32_t p);

static inline float *rt_hidden_at(const rt_memory *m, int32_t seq, int32_t position)
{
    const uint64_t row = (uint64_t)seq * (uint64_t)m->n_hidden + (uint64_t)(position % m->n_hidden);
    return (float *)(void *)((unsigned char *)m->hidden.data + row * m->hidden_bytes);
}

/* ---- Trees (tree.c) ---- */
/* GDN_INVALID_ARGUMENT or GDN_UNSUPPORTED where parent is none for these spans; otherwise there is memory for the lists
 * of their rows, and m->step has parent and depths. */
gdn_status rt_tree_begin(rt_memory *m, const rt_token_run *spans, int32_t n_spans, const int32_t *parent);
/* What moving columns takes: a map, and of a workspace, which is m->fold_workspace, as nothing is folded then. */
uint64_t rt_tree_map_bytes(void);
gdn_status rt_tree_workspace(const rt_memory *m, uint64_t *bytes);
/* Once the cells of span i are taken: its rows. *lists goes from span to span, 0 at first. */
void rt_tree_rows(rt_memory *m, int32_t i, int64_t *lists);

/* ---- Cells (memory.c) ---- */
/* A free one, which there must be; nothing is in it. */
int32_t rt_take_cell(rt_memory *m);

/* ---- Saves (memory_save.c) ---- */
enum { RT_SAVE_VERSION = 1, RT_SAVE_ONE = 1, RT_SAVE_ALL = 2 };
#define RT_SAVE_MAGIC UINT64_C(0x6574617473646e67) /* "gdnstate"; other byte orders read something else */

/* No member needs padding, so that the struct is the format. All numbers have the byte order of the machine. */
typedef struct rt_save_header {
    uint64_t magic;
    int32_t  version, kind;
    uint64_t fingerprint, bytes; /* bytes of the whole save, the checksum at its end included */
    uint64_t state_bytes, column_bytes, kv_bytes, hidden_bytes;
    int32_t  kv_type, kernel, n_recurrent, n_attention, has_draft, n_seqs;
} rt_save_header;

/* Then, for each sequence: this, rope [length], and where there are tokens: state and newest columns by layer, keys
 * and values by layer (the draft head's only as far as it read, and last), tokens and hidden rows of the newest
 * positions, oldest first. */
typedef struct rt_save_seq { int32_t seq, length, draft, next_rope, shift, n_hidden; } rt_save_seq;

/* Of a hidden row in a save, whether this memory keeps any or not. */
static inline uint64_t rt_save_hidden_bytes(const rt_memory *m) { return 4 * (uint64_t)m->model->hp.n_embd; }
/* Bytes of one sequence in a save. No overflow: see shape_of() in memory.c for what bounds each factor. */
uint64_t rt_save_seq_bytes(const rt_memory *m, const rt_save_seq *s);
/* Of all bytes but the checksum itself; every single changed byte changes it. */
uint64_t rt_save_checksum(const void *bytes, uint64_t n);

#endif
