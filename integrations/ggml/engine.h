/* What the plugin's files share: the backend object, its calls of libgdn in a graph, and how nodes become such calls.
 * plugin.c has the overview. */
#ifndef GDN_GGML_ENGINE_H
#define GDN_GGML_ENGINE_H

#include "team.h"

#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <stdbool.h>

enum { MAX_CONTEXTS = 4, MAX_THREADS = 512, MAX_COPIES = 64, CONV_WORKSPACE = 256 * 1024 };

/* A buffer that grows, aligned to 64. */
typedef struct bytes {
    void *data;
    size_t size;
} bytes;

bool bytes_need(bytes *b, size_t size); /* false: out of memory. Growing discards the contents */
void bytes_free(bytes *b);

typedef struct engine engine;

/* Memory in [low, high). */
typedef struct range {
    const char *low, *high;
} range;

/* A copy of SSM_CONV's input that the convolution performs itself: kernel_width - 1 columns from `first` on. */
typedef struct column_copy {
    int64_t first;
    char *data;
    size_t stride; /* bytes from one sequence to the next */
} column_copy;

/* A call of ssm_conv. Its input is [history, x] along time; both are read without copying. */
typedef struct conv_call {
    int64_t width, n_tokens, n_channels, n_seqs;
    const char *history;      /* of sequence s: history + row[s] * history_stride[0] */
    size_t history_stride[3]; /* bytes: sequence or row, channel, time */
    const int32_t *row;       /* NULL: row s */
    const char *x;
    size_t x_stride[3]; /* bytes: sequence, channel, time */
    bool x_direct;      /* libgdn reads x directly: channels are contiguous, and x does not overlap out */
    const char *weight;
    size_t weight_stride;
    char *out;
    size_t out_stride[2]; /* bytes: sequence, time; channels are contiguous */
    bool silu;
    int32_t n_copies;
    column_copy copies[MAX_COPIES];
    int64_t block; /* channels per block of a thread */
} conv_call;

enum { CALL_GDN = 1, CALL_STAGE, CALL_CONV, CALL_ROWS };

/* A call of libgdn that replaces nodes. ggml's CPU backend gets `node`, a copy of the last of them made custom. */
typedef struct call {
    struct ggml_tensor node;
    engine *owner;
    int kind;
    range apart[2]; /* memory that it reads or writes at another time than in ggml's order; may be empty */
    team threads;
    union {
        gdn_gated_delta_net_args gdn; /* includes the gathering of states before it and the copies after it */
        conv_call conv;
        gdn_set_rows_args rows;
    } as;
} call;

/* A thread pool for a ggml whose threads end after each graph, and the node that detects this: pool.c. */
typedef struct pool {
    bool watching;           /* false: ggml's threads persist, or it has no pools; then the pool is unused */
    struct ggml_tensor node; /* placed before the graph */
    float nothing;
    void *make, *end, *set; /* functions of ggml's CPU backend */
    struct ggml_threadpool *threads;
    int size, n_new;                        /* threads of the pool; consecutive graphs with a new second thread */
    const void *next_home;                  /* the home that a new second thread gets */
    _Atomic int n_threads, is_new, is_ours; /* of the graph: number of threads; state of its second one */
} pool;

/* A backend object. `base` is first, so that ggml's pointer to it is also one to the engine. */
struct engine {
    struct ggml_backend base;
    ggml_backend_t cpu;  /* ggml's CPU backend, which computes all other nodes */
    bool off, all;       /* GDN_GGML is "off"; is "all" */
    gdn_context *single; /* one thread, for calls that a thread makes alone */
    struct {
        int n_threads;
        gdn_context *ctx;
    } contexts[MAX_CONTEXTS]; /* for calls split over threads, by number of threads */
    team_seat seat;
    pool pool;
    bytes workspace;
    bytes scratch[MAX_THREADS];
    _Atomic int failed;

    /* the plan of the current graph */
    call *calls;
    int n_calls, cap_calls, n_gone;
    struct ggml_tensor **nodes;
    struct ggml_tensor **instead; /* by index in the graph: replacement node, GONE, or NULL */
    int cap_nodes;
    int32_t *maps;
    int64_t n_maps, cap_maps;
};

extern struct ggml_tensor gdn_ggml_gone; /* its address marks nodes that are skipped */
#define GONE (&gdn_ggml_gone)

/* engine.c: runs the plan's calls. engine_context: the context for calls with n_threads threads, NULL on failure. */
gdn_context *engine_context(engine *e, int n_threads);
void engine_fail(engine *e, const char *what);
/* pool.c: called around each graph. `cpu` is the object that gets the pool; it may be gone when the pool is freed. */
void pool_init(pool *p, ggml_backend_dev_t cpu);
void pool_before(pool *p);
void pool_after(pool *p, ggml_backend_t cpu);
void pool_free(pool *p);
/* The custom node's function, called by ggml's threads ith of nth. */
void engine_call(struct ggml_tensor *node, int ith, int nth, void *call);
/* conv.c: runs a thread's part of a convolution. conv_block: channels per block; below 16 it cannot run. */
void conv_run(engine *e, const conv_call *c, int ith, int nth);
void conv_stage(const conv_call *c, int ith, int nth); /* does what CONCAT does, in libgdn's layout */
int64_t conv_block(const conv_call *c);

/* plan.c: decides which nodes become which calls. true: compute the n_nodes of e->nodes from the second on instead of
 * the graph's; the first is reserved. */
bool plan_graph(engine *e, const struct ggml_cgraph *graph, int *n_nodes);
bool plan_reserve(engine *e,
                  const struct ggml_cgraph *graph); /* grows e->nodes for all nodes of the graph and one more */

/* The planners, for candidate node i of the graph. They replace what they can, or change nothing. */
void plan_gdn(engine *e, const struct ggml_cgraph *graph, int i);
void plan_conv(engine *e, const struct ggml_cgraph *graph, int i);
void plan_rows(engine *e, const struct ggml_cgraph *graph, int i);

range range_of(const struct ggml_tensor *t);
bool ranges_meet(range a, range b);
/* How often t is an operand of nodes, in the whole graph, also outside this part of it. */
int uses_of(const struct ggml_cgraph *graph, const struct ggml_tensor *t);
/* Index of t among the nodes before node i; -1: none. */
int index_before(const struct ggml_cgraph *graph, int i, const struct ggml_tensor *t);
/* Next node from `from` on that has t as an operand; -1: none. */
int user_after(const struct ggml_cgraph *graph, int from, const struct ggml_tensor *t);
/* True if a node strictly between the two, which is still computed, writes to r, or with `reads` reads from it. */
bool touched_between(const engine *e, const struct ggml_cgraph *graph, int from, int to, range r, bool reads);
/* True if a planned call uses r at another time than in ggml's order. */
bool planned_in(const engine *e, range r);
/* True if the node only renames memory (view, reshape, ...). */
bool renames(const struct ggml_tensor *node);
/* Finds a GET_ROWS that can be skipped: before node i, of whole rows of `row_bytes` bytes, whose result reaches only t,
 * through renamings. Returns its index, or -1. The row numbers are known when the graph starts. */
int gathered(const engine *e, const struct ggml_cgraph *graph, int i, const struct ggml_tensor *t, int64_t n_rows,
             size_t row_bytes);
/* Places the call at node i; `call` is e->calls[e->n_calls], and n_calls is incremented. */
void plan_place(engine *e, call *c, const struct ggml_tensor *node, int i);

#endif
