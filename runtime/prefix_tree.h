/* What the prefix cache knows, as a tree: a node is an interval of tokens with the cells that hold them, and its path
 * from the root is a prefix. A node may have a checkpoint at its end; every leaf has one. Prefixes that begin alike
 * share nodes. prefix_tree.c keeps the tree, prefix_cache.c uses it for sequences and steps; both are parts of the
 * memory (memory_internal.h).
 *
 * There are n_cells / interval nodes, all allocated at the beginning, so nothing here can fail. That is as many as
 * cells can fill; where sequences that part within an interval share cells, more nodes could be filled, and leaves give
 * way. */
#ifndef GDN_RUNTIME_PREFIX_TREE_H
#define GDN_RUNTIME_PREFIX_TREE_H

#include "runtime/memory_internal.h"
#include "runtime/prefix_cache.h"

enum { RT_NO_NODE = -1, RT_NO_CHECKPOINT = -1 };

typedef struct rt_prefix_node {
    int32_t parent, child, next; /* the first child; the parent's next child, or the next free node */
    int32_t checkpoint;          /* its number, or RT_NO_CHECKPOINT */
} rt_prefix_node;

typedef struct rt_checkpoint {
    int32_t node, slot, row; /* node RT_NO_NODE: the checkpoint is free */
    int32_t ready;           /* 0: the step that writes it is under way */
    int32_t step_row;        /* of the token before it, in the step that writes it */
    uint64_t used, step;     /* when it was used last; which step wrote it */
} rt_checkpoint;

struct rt_prefixes {
    int32_t interval, n_nodes, n_checkpoints;
    rt_prefix_node *node;
    int32_t *token, *cell; /* [n_nodes][interval] */
    rt_checkpoint *checkpoint;
    uint8_t *drafted;       /* [n_cells] the cell has the draft head's key and value of its token */
    gdn_span hidden;        /* [n_checkpoints] hidden rows, in the host's memory */
    int32_t root, free;     /* the first node of depth 1; the first free one */
    int32_t n_used, pinned; /* nodes; the one that stays, whatever gives way, or RT_NO_NODE */
    uint64_t clock;         /* counts uses */
    uint64_t n_written, n_evicted;
    int32_t *map;         /* [2][n_spans][rt_step.n_checkpoints]: states, histories */
    int64_t map_capacity; /* numbers */
    int32_t n_planned;    /* checkpoints of the step under way */
};

/* The child of `parent` (RT_NO_NODE: of the root) with this interval of tokens, or RT_NO_NODE. */
int32_t rt_prefix_child(const rt_prefixes *p, int32_t parent, const int32_t *token);
/* A new one, whose cells are held; a leaf gives way where there is no free node. RT_NO_NODE, and the parent pruned,
 * where none can. */
int32_t rt_prefix_add(rt_memory *m, int32_t parent, const int32_t *token, const int32_t *cell);
/* A checkpoint for the node, with a slot and a row: a free one, or the one that was used least recently. Its number, or
 * RT_NO_CHECKPOINT where none can be had; then the node goes as it does in rt_prefix_forget(). */
int32_t rt_prefix_take(rt_memory *m, int32_t node);
/* Give back a checkpoint. Its node goes if it is a leaf, and then its parents likewise; their cells are given back. */
void rt_prefix_forget(rt_memory *m, int32_t checkpoint);
/* Free cells until n are, or the cache has none. Who used a prefix least recently loses its end first. */
void rt_prefix_yield(rt_memory *m, int64_t n);

/* What memory.c, memory_seq.c and memory_step.c need of prefix_cache.c. */
gdn_status rt_prefix_create(rt_memory *m, int32_t interval, int32_t n_checkpoints);
void rt_prefix_destroy(rt_memory *m);
/* Room in the maps for a step of these spans; GDN_OUT_OF_MEMORY with nothing changed. */
gdn_status rt_prefix_reserve(rt_memory *m, const rt_token_run *spans, int32_t n_spans);
void rt_prefix_commit(rt_memory *m);
void rt_prefix_cancel(rt_memory *m);
/* Sequence s is about to be rolled back to p tokens: checkpoints behind that which its last step wrote are of tokens
 * that were only tried, as drafts are. They are forgotten. */
void rt_prefix_roll_back(rt_memory *m, const rt_sequence *s, int32_t p);

#endif
