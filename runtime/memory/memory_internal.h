/* What the files of the memory share. memory.c creates it, memory_seq.c changes sequences, memory_step.c runs steps,
 * replay_log.c has the replay log, prefix_*.c the prefix cache and its saves. memory.h describes the behaviour.
 *
 * Whatever sequences share (state slots, conv rows, log rows, KV cells) is a resource: a number below n with a
 * reference count. Tests check this invariant: a count is the number of references to the resource, and a resource is
 * on the free stack exactly if its count is 0. */
#ifndef GDN_RUNTIME_MEMORY_INTERNAL_H
#define GDN_RUNTIME_MEMORY_INTERNAL_H

#include "runtime/base/error.h"
#include "runtime/memory/memory.h"

enum { RT_POSITION_LIMIT = 1 << 29 }; /* limit of cells: a sum of two stays below 2^31 */

typedef struct rt_resource {
    int32_t *count; /* [n] references         */
    int32_t *free;  /* [n] stack; n_free used */
    int32_t n, n_free;
    int32_t *kept;  /* [n] references by the prefix cache; NULL: no prefix cache */
    int32_t n_idle; /* resources that only the prefix cache references                          */
} rt_resource;

typedef struct rt_prefixes rt_prefixes; /* prefix_tree.h */

/* One ring index of a sequence: the slot with the state of length `tag`. No snapshot: slot GDN_NONE and tag -1. */
typedef struct rt_snapshot {
    int32_t slot, tag;
} rt_snapshot;

/* The position and token of one index of the hidden row ring (position % n_hidden); -1 = empty. */
typedef struct rt_hidden_tag {
    int32_t position, token;
} rt_hidden_tag;

typedef struct rt_sequence {
    int32_t length;
    int32_t n_listed;      /* cells in the list: `length`, then those reserved for drafting                  */
    int32_t capacity;      /* of the list, which grows with the sequence                                     */
    int32_t *cell;         /* KV cell of each position                                                       */
    int32_t *token;        /* with a prefix cache: tokens [0, keyed), same capacity as `cell`                */
    int32_t keyed;         /* tokens that are known                                                          */
    uint32_t owner;        /* rt_memory_prefix_own()                                                         */
    uint64_t last_step;    /* number of the sequence's last step                                             */
    rt_snapshot *snapshot; /* [K] by length % K; with a log one: see replay_log.h                              */
    int32_t log_row;       /* GDN_NONE: nothing to replay                                                    */
    int32_t conv_row;      /* GDN_NONE: no tokens                                                            */
    int32_t conv_from;     /* conv state entries of positions [conv_from, length) are in the row             */
    int32_t draft;         /* rt_memory_draft_length()                                                              */
    int32_t draft_from;    /* rt_memory_draft_from(), <= draft                                                     */
    int32_t ahead;         /* rt_memory_draft_ahead()                                                               */
    rt_hidden_tag *hidden_at; /* [n_hidden]                                                                   */
} rt_sequence;

/* What a step reserved for one span, for commit and cancel. */
typedef struct rt_taken {
    int32_t n_listed, conv_row; /* n_listed before the step; new conv row or GDN_NONE */
    int32_t state_to, state_at; /* with a log: slot written or GDN_NONE, length of that state */
    int32_t keyed;              /* 1: the sequence's tokens are known after the step */
} rt_taken;

struct rt_memory {
    const rt_model *model;
    rt_fingerprint fingerprint; /* the model's, once fingerprinted is 1                                */
    int32_t fingerprinted;
    gdn_context *device, *host;
    int32_t n_seqs, n_cells, n_prefixes, K, kernel, n_conv_slots, kv_type;
    int32_t n_rollback, n_log, commit_after; /* n_log: entries per log row; 0: snapshots instead      */
    int32_t digits;                          /* of rt_memory_desc */
    int32_t n_recurrent, n_attention;        /* n_attention includes the draft head's layer, as the last     */
    int32_t has_draft, n_hidden;
    uint64_t state_bytes, conv_slot_bytes, kv_bytes, hidden_bytes; /* of a state slot, conv state entry, KV row,
                                                                   hidden row */
    uint64_t log_bytes;                   /* of a log entry                                                   */
    gdn_span *state, *conv, *log, *k, *v; /* by layer */
    gdn_span fold_maps, fold_workspace;   /* for calls without tokens (replay_log.c)                      */
    uint64_t n_folds;
    gdn_span hidden; /* [n_seqs][n_hidden][n_embd], in host memory                       */
    rt_resource slots, rows, cells, log_rows;
    rt_sequence *seq;
    rt_prefixes *prefixes; /* NULL: no prefix cache                            */

    rt_step step;
    uint64_t n_steps;                /* steps begun since creation */
    int32_t step_active, step_keyed; /* step_keyed: rt_memory_step_tokens() was called for it */
    int32_t step_capacity;           /* rows that the arrays of the step can hold */
    rt_token_run *step_span;         /* [n_seqs] */
    rt_taken *taken;                 /* [n_seqs] */
    uint8_t *seen;                   /* [n_seqs] scratch for checks */
};

/* ---- Resources ---- */
static inline int32_t rt_memory_take(rt_resource *r)
{
    const int32_t i = r->free[--r->n_free];
    r->count[i] = 1;
    return i;
}
static inline void rt_memory_hold(rt_resource *r, int32_t i)
{
    if (r->kept) r->n_idle -= r->count[i] == r->kept[i];
    r->count[i]++;
}
static inline void rt_memory_drop(rt_resource *r, int32_t i)
{
    if (--r->count[i] == 0) r->free[r->n_free++] = i;
    else if (r->kept) r->n_idle += r->count[i] == r->kept[i];
}
/* Add and remove a reference of the prefix cache; rt_memory_keep() needs one of a sequence. */
static inline void rt_memory_keep(rt_resource *r, int32_t i)
{
    r->count[i]++;
    r->kept[i]++;
}
static inline void rt_memory_unkeep(rt_resource *r, int32_t i)
{
    r->kept[i]--;
    if (--r->count[i] == 0) {
        r->free[r->n_free++] = i;
        r->n_idle--;
    }
}

/* The length of the newest state that a sequence of p tokens can have. */
static inline int32_t rt_memory_newest_state(const rt_memory *m, int32_t p)
{
    return m->digits ? p / RT_CHUNK * RT_CHUNK : p;
}

/* ---- Sequences (memory_seq.c) ---- */
/* GDN_INVALID_ARGUMENT: `seq` is out of range, or a step is active, during which sequences cannot change. */
gdn_status rt_memory_check_seq(const rt_memory *m, int32_t seq, const char *what);
/* Room for `n` cells in the list; GDN_OUT_OF_MEMORY with nothing changed. */
gdn_status rt_memory_seq_grow(rt_memory *m, int32_t seq, int32_t n);
/* Release the cells of the list beyond n, a snapshot, or everything of a sequence. They cannot fail. */
void rt_memory_seq_truncate_cells(rt_memory *m, rt_sequence *s, int32_t n);
void rt_memory_seq_drop_snapshot(rt_memory *m, rt_snapshot *at);
void rt_memory_seq_empty(rt_memory *m, rt_sequence *s);
/* True if the memory still has the state and conv state entries to decode the token at position p (0 < p <= length). */
int rt_memory_seq_readable(const rt_memory *m, const rt_sequence *s, int32_t p);

static inline float *rt_memory_hidden_at(const rt_memory *m, int32_t seq, int32_t position)
{
    const uint64_t row = (uint64_t)seq * (uint64_t)m->n_hidden + (uint64_t)(position % m->n_hidden);
    return (float *)(void *)((unsigned char *)m->hidden.data + row * m->hidden_bytes);
}

/* ---- Cells (memory.c) ---- */
/* Takes a free cell; there must be one. The cell has no contents. */
int32_t rt_memory_take_cell(rt_memory *m);

#endif
