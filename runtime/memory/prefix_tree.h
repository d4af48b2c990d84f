/* The tree of the prefix cache. A node is one interval of tokens with their cells; its path from the
 * root is a prefix. A node may have a checkpoint at its end; every leaf has one. Prefixes with a common beginning share
 * nodes. A tail is a node of fewer tokens, for a checkpoint between interval ends; it has no children. prefix_tree.c
 * keeps the tree; prefix_cache.c applies it to sequences and steps. Both are parts of the memory (memory_internal.h).
 *
 * All nodes are allocated at creation, so nothing here fails for lack of memory. n_cells / interval of them use every
 * cell once; further ones are for the tail of each checkpoint and for a new tail. Sequences that diverge within an
 * interval share cells, so more nodes could be in use; leaves are evicted then. */
#ifndef GDN_RUNTIME_PREFIX_TREE_H
#define GDN_RUNTIME_PREFIX_TREE_H

#include "runtime/memory/memory_internal.h"
#include "runtime/memory/prefix_cache.h"

enum { RT_NO_NODE = -1, RT_NO_CHECKPOINT = -1 };

typedef struct rt_prefix_node {
    int32_t parent, child, next; /* first child; next child of the same parent, or next free node */
    int32_t checkpoint;          /* checkpoint index, or RT_NO_CHECKPOINT */
    int32_t n;                   /* tokens: the interval, or fewer in a tail */
    uint32_t owner;              /* the parent's */
} rt_prefix_node;

typedef struct rt_checkpoint {
    int32_t node, slot, row; /* node RT_NO_NODE: free checkpoint */
    int32_t ready;           /* 0: its step is still active */
    int32_t shared;          /* 1: a sequence started from it, or prefixes branch there */
    int32_t step_row;        /* row of its last token in the step that writes it */
    uint64_t used, step;     /* time of last use (clock); number of the step that wrote it */
} rt_checkpoint;

struct rt_prefixes {
    int32_t interval, n_nodes, n_checkpoints;
    rt_prefix_node *node;
    int32_t *token, *cell; /* [n_nodes][interval] */
    rt_checkpoint *checkpoint;
    uint8_t *drafted;             /* [n_cells] 1: the cell has the draft head's KV of its token */
    gdn_span hidden;              /* [n_checkpoints] hidden rows, in host memory */
    int32_t root, free;           /* first node of depth 1; first free node */
    int32_t n_used, pinned;       /* nodes in use; a node that eviction must keep, or RT_NO_NODE */
    int32_t n_whole, n_whole_max; /* those of n_used that are no tails; most of these */
    uint64_t clock;               /* incremented at each use */
    uint64_t n_written, n_evicted;
    int32_t *map;         /* [2][n_spans][rt_step.n_checkpoints]: states, histories */
    int64_t map_capacity; /* int32_t entries of map */
    int32_t n_planned;    /* checkpoints of the active step */
};

/* Finds the child of `parent` (RT_NO_NODE: of the root) that has this owner and exactly these n tokens; RT_NO_NODE:
 * none. */
int32_t rt_memory_prefix_child(const rt_prefixes *p, uint32_t owner, int32_t parent, const int32_t *token, int32_t n);
/* The longest tail of `parent` whose tokens begin token[0, n) and whose checkpoint is ready; RT_NO_NODE: none. */
int32_t rt_memory_prefix_tail(const rt_prefixes *p, uint32_t owner, int32_t parent, const int32_t *token, int32_t n);
/* Adds a child of n tokens to `parent` and references its cells. Evicts leaves if there are n_whole_max intervals. If
 * that fails, prunes `parent` and returns RT_NO_NODE. */
int32_t rt_memory_prefix_add(rt_memory *m, uint32_t owner, int32_t parent, const int32_t *token, const int32_t *cell,
                             int32_t n);
/* Makes the node reference `cell`, a sequence's cells of the same tokens, where no sequence uses its own. Those are
 * then free: a prompt that is read again does not take twice as many cells. */
void rt_memory_prefix_adopt(rt_memory *m, int32_t node, const int32_t *cell);
/* Marks a checkpoint as shared. At most half of all are: the least recently used one of them loses its mark. */
void rt_memory_prefix_share(rt_prefixes *p, int32_t checkpoint);
/* Takes a checkpoint with a slot and a conv row for the node: a free one, or evicts one that is not shared. It
 * prefers the least recently used one of the same path, so that a long prompt replaces its own checkpoints. Returns its
 * index.
 * RT_NO_CHECKPOINT: none is available; the node is then pruned as in rt_memory_prefix_forget(). */
int32_t rt_memory_prefix_take(rt_memory *m, int32_t node);
/* The same for a slot and a conv row that a sequence has: it references them, so that the sequence's next step writes
 * to others. */
int32_t rt_memory_prefix_hold(rt_memory *m, int32_t node, int32_t slot, int32_t row);
/* Frees a checkpoint. Removes its node if that is a leaf, then likewise its parents, and releases their cells. */
void rt_memory_prefix_forget(rt_memory *m, int32_t checkpoint);
/* Evicts leaves, least recently used first, until n cells are free or the cache has none to evict. */
void rt_memory_prefix_yield(rt_memory *m, int64_t n);

/* Cells and hidden row of a checkpoint. */
static inline int32_t *rt_memory_prefix_cells(const rt_prefixes *p, int32_t node)
{
    return p->cell + (int64_t)node * p->interval;
}
static inline float *rt_memory_prefix_hidden(const rt_memory *m, int32_t checkpoint)
{
    return (float *)(void *)((unsigned char *)m->prefixes->hidden.data + (uint64_t)checkpoint * m->hidden_bytes);
}

/* ---- The format of saves. The structs have no padding. Numbers have the machine's byte order. ---- */
enum { RT_SAVE_VERSION = 4, RT_SAVE_PREFIXES = 3 };
#define RT_SAVE_MAGIC UINT64_C(0x6574617473646e67) /* "gdnstate"; differs on machines of another byte order */

typedef struct rt_save_header {
    uint64_t magic;
    int32_t version, kind; /* kinds 1 and 2 were sequences */
    rt_fingerprint fingerprint;
    uint64_t bytes; /* size of the save */
    uint64_t state_bytes, conv_slot_bytes, kv_bytes, hidden_bytes;
    int32_t kv_type, kernel, n_recurrent, n_attention, has_draft, digits; /* digits: rt_memory_desc */
} rt_save_header;

/* A save begins with this. A record for each checkpoint follows, the most valuable first. */
typedef struct rt_save_prefixes {
    rt_save_header common;
    uint64_t bits;
    int32_t interval, n_records; /* interval 0: the records have no bases, so any interval will do */
    uint64_t checksum;           /* of the members before it */
} rt_save_prefixes;

/* A record begins with this. Then come:
 * - the tokens of positions [first, length)
 * - the state and the newest conv state entries, by layer
 * - keys and values by layer, the draft head's last
 * - with a draft head the hidden row of the last token
 * - the checksum of all that.
 * Keys and values of [0, first) are those of an earlier record, so common beginnings are saved once. */
typedef struct rt_save_prefix {
    int32_t base;                 /* number of that earlier record; -1: first is 0 */
    int32_t first, length, draft; /* draft: length, or first if the draft head has not read all of them */
    int32_t shared;               /* rt_checkpoint.shared */
    uint32_t owner;               /* that of the earlier record, if there is one */
} rt_save_prefix;

/* The model's fingerprint, which the first call makes. */
const rt_fingerprint *rt_memory_fingerprint(rt_memory *m);
/* Bytes of a hidden row in a save, even if this memory keeps none. */
static inline uint64_t rt_memory_save_hidden_bytes(const rt_memory *m) { return 4 * (uint64_t)m->model->hp.n_embd; }
/* Bytes of a record with its checksum, with or without the draft head's part. Cannot overflow: lengths are at most
 * RT_POSITION_LIMIT. */
uint64_t rt_memory_prefix_record_bytes(const rt_memory *m, const rt_save_prefix *r, int has_draft);

/* Functions of prefix_cache.c for the other files of the memory. */
gdn_status rt_memory_prefix_create(rt_memory *m, int32_t interval, int32_t n_checkpoints);
void rt_memory_prefix_destroy(rt_memory *m);
/* The checkpoint of the owner's longest cached prefix of token[0, n), or RT_NO_CHECKPOINT; *length: its tokens. */
int32_t rt_memory_prefix_find(const rt_prefixes *p, uint32_t owner, const int32_t *token, int32_t n, int32_t *length);
/* Grows the maps for a step of these spans; GDN_OUT_OF_MEMORY changes nothing. */
gdn_status rt_memory_prefix_reserve(rt_memory *m, const rt_token_run *spans, int32_t n_spans);
/* Ends a step: its checkpoints are ready if the kernels have written them, otherwise they are dropped. */
void rt_memory_prefix_end(rt_memory *m, int written);
/* Call before sequence s is rolled back to p tokens. Drops the checkpoints after p that its last step wrote, since they
 * hold rejected drafts. */
void rt_memory_prefix_roll_back(rt_memory *m, const rt_sequence *s, int32_t p);

#endif
