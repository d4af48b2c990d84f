/* What the plugin's files share: the backend object, the calls of libgdn that it makes in a graph, and how nodes become
 * such calls. plugin.c has the overview. */
#ifndef GDN_GGML_ENGINE_H
#define GDN_GGML_ENGINE_H

#include "team.h"

#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <stdbool.h>

enum { MAX_CONTEXTS = 4, MAX_THREADS = 512, MAX_COPIES = 64, CONV_WORKSPACE = 256 * 1024 };

/* Bytes that grow and are never shrunk, aligned to 64. */
typedef struct bytes {
    void *data;
    size_t size;
} bytes;

bool bytes_need(bytes *b, size_t size); /* false: out of memory. The contents are lost where it grows */
void bytes_free(bytes *b);

typedef struct engine engine;

/* Memory from `low` up to `high`. */
typedef struct range {
    const char *low, *high;
} range;

/* A copy behind SSM_CONV's input that is made by the convolution itself: of kernel_width - 1 columns from `first` on.
 */
typedef struct column_copy {
    int64_t first;
    char *data;
    size_t stride; /* bytes from one sequence to the next */
} column_copy;

/* ssm_conv. Its input is [history, x] along time; both are read where they lie. */
typedef struct conv_call {
    int64_t width, n_tokens, n_channels, n_seqs;
    const char *history;      /* of sequence s: history + row[s] * history_stride[0] */
    size_t history_stride[3]; /* bytes: sequence or row, channel, time */
    const int32_t *row;       /* NULL: row s */
    const char *x;
    size_t x_stride[3]; /* bytes: sequence, channel, time */
    bool x_direct;      /* libgdn may read x itself: channels are contiguous, and apart from out */
    const char *weight;
    size_t weight_stride;
    char *out;
    size_t out_stride[2]; /* bytes: sequence, time; channels are contiguous */
    bool silu;
    int32_t n_copies;
    column_copy copies[MAX_COPIES];
    int64_t block; /* channels that a thread takes at a time */
} conv_call;

enum { CALL_GDN = 1, CALL_STAGE, CALL_CONV, CALL_ROWS };

/* A call of libgdn in the place of nodes. ggml's CPU backend is given `node`, a copy of the last of them made custom.
 */
typedef struct call {
    struct ggml_tensor node;
    engine *owner;
    int kind;
    range apart[2]; /* memory that it reads or writes at another time than ggml's order has it; may be empty */
    team threads;
    union {
        gdn_gated_delta_net_args gdn; /* with the states gathered in front of it and the copies behind it */
        conv_call conv;
        gdn_set_rows_args rows;
    } as;
} call;

/* Threads that stay where ggml's do not, and the node that finds out whether they do: pool.c. */
typedef struct pool {
    bool watching; /* false: this ggml's threads stay, or it has no pools; then there is nothing more of this */
    struct ggml_tensor node; /* to stand in front of a graph */
    float nothing;
    void *make, *end, *set; /* functions of ggml's CPU backend */
    struct ggml_threadpool *threads;
    int size, n_new;                        /* threads of it; graphs in a row whose second thread was new */
    const void *next_home;                  /* of a second thread that is new */
    _Atomic int n_threads, is_new, is_ours; /* of the graph: how many threads, and its second one */
} pool;

/* A backend object. `base` comes first, so that ggml's pointer to it is one to all of it. */
struct engine {
    struct ggml_backend base;
    ggml_backend_t cpu;  /* ggml's own, which computes everything else */
    bool off, all;       /* GDN_GGML: off, and all */
    gdn_context *single; /* one thread; for calls that a thread makes for itself */
    struct {
        int n_threads;
        gdn_context *ctx;
    } contexts[MAX_CONTEXTS]; /* those that share out their work, by number of threads */
    team_seat seat;
    pool pool;
    bytes workspace;
    bytes scratch[MAX_THREADS];
    _Atomic int failed;

    /* the plan of the graph that is being computed */
    call *calls;
    int n_calls, cap_calls, n_gone;
    struct ggml_tensor **nodes;
    struct ggml_tensor **instead; /* by index in the graph: another node, GONE, or NULL */
    int cap_nodes;
    int32_t *maps;
    int64_t n_maps, cap_maps;
};

extern struct ggml_tensor gdn_ggml_gone; /* its address marks nodes that are not computed any more */
#define GONE (&gdn_ggml_gone)

/* engine.c: run what the plan has. The context for calls by n_threads threads, NULL on failure. */
gdn_context *engine_context(engine *e, int n_threads);
void engine_fail(engine *e, const char *what);
/* pool.c: around each graph; `cpu` is the object that gets the pool, and may be gone when it is freed. */
void pool_init(pool *p, ggml_backend_dev_t cpu);
void pool_before(pool *p);
void pool_after(pool *p, ggml_backend_t cpu);
void pool_free(pool *p);
/* The custom node's function, by ggml's threads ith of nth. */
void engine_call(struct ggml_tensor *node, int ith, int nth, void *call);
/* conv.c: a thread's part of a convolution, and how many channels it can take at a time: none where that is below 16.
 */
void conv_run(engine *e, const conv_call *c, int ith, int nth);
void conv_stage(const conv_call *c, int ith, int nth); /* what CONCAT does, in libgdn's form */
int64_t conv_block(const conv_call *c);

/* plan.c: which nodes of the graph become which calls. True where the n_nodes of e->nodes from the second on are to be
 * computed instead of the graph's; the first one is left free. */
bool plan_graph(engine *e, const struct ggml_cgraph *graph, int *n_nodes);
bool plan_reserve(engine *e,
                  const struct ggml_cgraph *graph); /* so that e->nodes has room for all of the graph's, and one more */

/* One of the planners: node i of the graph, a candidate. They take what they can, or leave all as it was. */
void plan_gdn(engine *e, const struct ggml_cgraph *graph, int i);
void plan_conv(engine *e, const struct ggml_cgraph *graph, int i);
void plan_rows(engine *e, const struct ggml_cgraph *graph, int i);

range range_of(const struct ggml_tensor *t);
bool ranges_meet(range a, range b);
/* How many operands of nodes t is, in the whole graph, also outside of this part of it. */
int uses_of(const struct ggml_cgraph *graph, const struct ggml_tensor *t);
/* The index of t among the nodes in front of node i, or -1. */
int index_before(const struct ggml_cgraph *graph, int i, const struct ggml_tensor *t);
/* The next node from `from` on that has t as an operand, or -1. */
int user_after(const struct ggml_cgraph *graph, int from, const struct ggml_tensor *t);
/* Does a node strictly between two that is still computed write to r, or with `reads` read from it? */
bool touched_between(const engine *e, const struct ggml_cgraph *graph, int from, int to, range r, bool reads);
/* Does a call that is planned already work in r at another time than ggml's order has it? */
bool planned_in(const engine *e, range r);
/* Is the node one that only renames memory? */
bool renames(const struct ggml_tensor *node);
/* Where t is rows that are gathered, and that may be left out: GET_ROWS of whole rows of `row_bytes` bytes in front
 * of node i, whose result goes through renamings to t and nowhere else. Its index, or -1. The numbers of the rows are
 * known when the graph starts. */
int gathered(const engine *e, const struct ggml_cgraph *graph, int i, const struct ggml_tensor *t, int64_t n_rows,
             size_t row_bytes);
/* Put the call into the place of node i; `call` is e->calls[e->n_calls], which then counts. */
void plan_place(engine *e, call *c, const struct ggml_tensor *node, int i);

#endif
