/* gdn bench: the parts of the benchmarks.
 *
 *   bench.c      the command: options, which rows to measure
 *   <kernel>.c   the cases of a kernel: operands, launch, rooflines (one file per kernel)
 *   harness.c    rotating buffers, alternating repetitions, statistics
 *   roofline*.c  rooflines of the machine, measured (roofline.h); roofline_cuda.c: of a CUDA device
 *   peer_ggml.c  ggml's operators on the same data, when built with GDN_BENCH_GGML (peer.h)
 *   report.c     the table and the JSON
 *
 * A row is one case with one number of threads. Its operands exist in n_copies copies, which together are several times
 * larger than the last-level cache. Each call of a kernel, roofline or peer uses the next copy. Kernels thus find their
 * state in memory and not in a cache, as in a model with dozens of layers.
 *
 * A repetition calls the kernel, every variant of the roofline and the peer once, in random order, so that slow drifts
 * of the machine cancel in the ratios. Samples during which another program took the processor are dropped if enough
 * others remain. */
#ifndef GDN_BENCH_BENCH_H
#define GDN_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "bench/roofline.h"
#include "gdn/gdn.h"

enum { BENCH_MAX_OPERANDS = 16, BENCH_MAX_TRAFFIC = 80 };

typedef struct bench_row bench_row;

/* ---- Operands ---------------------------------------------------------------------------------- */

typedef struct bench_operand {
    int64_t bytes;
    void *content;  /* initial content of each copy; freed after filling */
    gdn_span whole; /* all copies in one buffer, if spans are host addresses     */
    gdn_span *copy; /* [n_copies] */
} bench_operand;

/* Adds an operand and returns its number. `content` comes from malloc, and the row takes ownership; NULL = zeros. */
int bench_add_operand(bench_row *row, int64_t bytes, void *content);

gdn_tensor bench_tensor(const bench_row *row, int operand, int copy);                              /* packed F32 */
gdn_pool bench_pool(const bench_row *row, int operand, int copy, int32_t n_rows, int32_t n_slots); /* packed F32 */

/* malloc() that ends the program if memory runs out. */
void *bench_alloc(int64_t bytes);
/* Of memory that is not touched yet. */
void bench_ask_for_huge_pages(void *begin, int64_t bytes);

/* The same random numbers on every machine. */
typedef struct bench_random {
    uint64_t state;
} bench_random;
uint64_t bench_random_bits(bench_random *random);
float *bench_random_floats(uint64_t seed, int64_t n, float low, float high); /* malloc */

/* ---- Rooflines ---------------------------------------------------------------------------------- */

/* A part of an operand that a call must read or write. */
typedef struct bench_traffic {
    int operand;
    int64_t offset, bytes;
    roofline_access access;
} bench_traffic;

void bench_add_traffic(bench_row *row, int operand, int64_t offset, int64_t bytes, roofline_access access);
/* The same for all of an operand. */
void bench_add_operand_traffic(bench_row *row, int operand, roofline_access access);

/* ---- Peers ------------------------------------------------------------------------------------- */

/* Another library's operator on the same copies. run returns 0 if it failed. */
typedef struct bench_peer {
    void *state; /* NULL = no peer */
    int has_copy;
    int (*run)(void *state, int with_copy, int copy);
    void (*close)(void *state);
    double nmse; /* normalised error of its results against ours, before timing; NAN = not compared */
} bench_peer;

/* ---- Rows -------------------------------------------------------------------------------------- */

/* A description of a row's call, for the results. */
typedef struct bench_work {
    int threads;       /* set before setup */
    int n_copies;      /* set by bench_fill() */
    double bytes, ops; /* of one call, for rates: least bytes of traffic, float operations */
    int seqs;
    int tokens; /* per sequence; set_rows: rows */
} bench_work;

struct bench_row {
    /* set before setup */
    gdn_context *ctx;
    gdn_device_info device;
    gdn_implementation_info implementation;
    enum { ROOFLINE_NONE, ROOFLINE_HOST, ROOFLINE_COPY } roofline;
    roofline_copier *copier; /* with ROOFLINE_COPY; set by bench_measure() */
    int64_t rotate_bytes;
    int want_peer;
    int peer_reuses_output;

    /* set by setup */
    bench_operand operand[BENCH_MAX_OPERANDS];
    int n_operands;
    bench_work work;
    bench_traffic traffic[BENCH_MAX_TRAFFIC]; /* none: bound by arithmetic only */
    int n_traffic;
    double lane_ops; /* > 0: float operations, for the roofline of arithmetic */
    bench_peer peer;
    union {
        gdn_gated_delta_net_args gated_delta_net;
        gdn_ssm_conv_args ssm_conv;
        gdn_set_rows_args set_rows;
    } args;
    gdn_delta_inputs inputs; /* parts for the arguments */
    gdn_replay_log log;
    gdn_checkpoints checkpoints;
    gdn_chunked_form chunked;
    gdn_capability capability;
    gdn_span workspace;
    gdn_status (*launch)(bench_row *row, int copy); /* runs the kernel once on a copy */
    gdn_status (*other)(bench_row *row, int copy);  /* an alternative computation, measured in turn; NULL = none */
    const char *wrong;                              /* error text if setup found wrong results; or NULL */
    const char *other_ratio;                        /* JSON name of other time / kernel time; NULL without one */
};

/* Chooses the number of copies, creates and fills them. Call after adding all operands. */
gdn_status bench_fill(bench_row *row);
/* After the query, which gave the status: where the call is supported, fills what is not filled, and creates the
 * workspace. */
gdn_status bench_prepare(bench_row *row, gdn_status status);
void bench_row_destroy(bench_row *row);

typedef struct bench_case {
    const char *name; /* "decode" */
    int seqs;         /* 0 = not applicable, and not in the row's name */
    int quick;        /* 1: also part of --quick */
} bench_case;

/* A kernel's benchmarks. setup allocates, fills, queries, and adds traffic, operations and peer. If it does not return
 * GDN_OK, or the capability is unsupported, the row is reported as skipped. */
typedef struct bench_kernel {
    const char *stem;
    int n_cases;
    const void *cases; /* structs that begin with a bench_case */
    size_t case_bytes;
    gdn_status (*setup)(bench_row *row, int index);
} bench_kernel;

extern const bench_kernel bench_gated_delta_net;
extern const bench_kernel bench_ssm_conv;
extern const bench_kernel bench_set_rows;

/* ---- Measuring --------------------------------------------------------------------------------- */

typedef struct bench_limits {
    double min_seconds; /* least time spent in the kernel                        */
    double max_seconds; /* most for the whole row, with 5 repetitions or more */
    int min_reps;
} bench_limits;

/* Times in seconds; NAN = not measured. Ratios are medians over the repetitions. */
typedef struct bench_result {
    char name[160];
    const char *skipped; /* reason why the row has no times, or NULL */
    int failed;          /* 1: this is an error, not a missing capability */
    bench_work work;
    int reps, interrupted; /* interrupted: repetitions in which the kernel lost a processor */
    double time, time_min, cpu_time;
    double roofline_time, roofline_time_min; /* the slower of memory and arithmetic */
    const char *roofline_by;                 /* "memory", "arithmetic", or "copy" on a device */
    const char *roofline_variant;            /* the fastest */
    int64_t roofline_bytes;                  /* of a copy: bytes read and written; 0 otherwise */
    double roofline_share_raw;
    double roofline_spread;         /* of the middle half of its samples, as a share of their median */
    double other_time, other_ratio; /* of `other` */
    const char *other_name;         /* name of the ratio, or NULL */
    int other_reliable;
    double peer_time, peer_copy_time, peer_ratio, peer_copy_ratio, peer_nmse;
    int roofline_reliable, peer_reliable; /* 0: too few samples without interruption */
    int exact;
    char backend[GDN_NAME_MAX], implementation[GDN_NAME_MAX];
} bench_result;

void bench_measure(bench_row *row, const bench_limits *limits, bench_result *result);

/* ---- Reporting --------------------------------------------------------------------------------- */

typedef struct bench_context {
    char backend[GDN_NAME_MAX], device[GDN_NAME_MAX * 2];
    int emulated;                /* 1: the device is emulated */
    char roofline[GDN_NAME_MAX]; /* its instruction set, "device copy", or "none" */
    char peer[GDN_NAME_MAX];     /* "" = none                                */
    int cores;
    int64_t l3_bytes, rotate_bytes;
    int huge_pages; /* 1: requested, and the system provides them on request */
    int openmp;
} bench_context;

void bench_print_header(const bench_context *context);
void bench_print_row(const bench_context *context, const bench_result *result);
/* Writes JSON to a file, or to stdout if path is "-". Returns 0 with a text on stderr if that fails. */
int bench_can_write(const char *path); /* 0: it cannot, and stderr says why */
int bench_write_json(const char *path, const bench_context *context, const bench_result *results, int n);

#endif
