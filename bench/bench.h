/* gdn bench: the parts of the benchmarks.
 *
 *   bench.c      the command: options, which rows to measure
 *   <kernel>.c   the cases of a kernel: operands, launch, rooflines (one file per kernel of core/kernels.def)
 *   harness.c    rotating buffers, alternating repetitions, statistics
 *   floors*.c    rooflines (floors) of the machine, measured (floors.h); floors_cuda.c: of a CUDA device
 *   peer_ggml.c  ggml's operators on the same data, when built with GDN_BENCH_GGML (peer.h)
 *   report.c     the table and the JSON
 *
 * A row is one case with one number of threads. Its operands exist in n_copies copies, which together are several times
 * larger than the last-level cache. Each call of a kernel, floor or peer uses the next copy. Kernels thus find their
 * state in memory and not in a cache, as in a model with dozens of layers.
 *
 * A repetition calls the kernel, every floor variant and the peer once, in random order, so that slow drifts of the
 * machine cancel in the ratios. Samples during which another program took the processor are dropped if enough others
 * remain. */
#ifndef GDN_BENCH_BENCH_H
#define GDN_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "bench/floors.h"
#include "gdn/gdn.h"

enum { BENCH_MAX_OPERANDS = 16, BENCH_MAX_FLOORS = 16 };

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
/* Allocates touched memory at a huge page boundary and requests huge pages; free() it. */
void *bench_alloc_huge(int64_t bytes);

/* The same random numbers on every machine. */
typedef struct bench_random {
    uint64_t state;
} bench_random;
uint64_t bench_random_bits(bench_random *random);
float *bench_random_floats(uint64_t seed, int64_t n, float low, float high); /* malloc */

/* ---- Floors (rooflines) ----------------------------------------------------------------------------- */

/* An operand at an offset. Floors refer to operands so, because addresses change with the copy. */
typedef struct bench_ref {
    int operand;
    int64_t offset, stride; /* bytes; stride between blocks */
} bench_ref;

typedef struct bench_stream {
    int n_in, n_out;
    int64_t n, n_blocks; /* floats per block */
    double lane_ops;     /* > 0: float operations done in the same loop; floor_stream.fmas */
    bench_ref in[FLOOR_MAX_IN], out[FLOOR_MAX_OUT];
} bench_stream;

/* A row's floor is the slowest of its parts; a part takes the time of its fastest variant. */
typedef enum bench_part {
    PART_PATTERN,    /* the kernel's reads and writes; on a device a copy of as many bytes           */
    PART_ARITHMETIC, /* the kernel's vector operations                                              */
    PART_RMW,        /* not in the floor: an in-place update of as many bytes                       */
    PART_TOGETHER,   /* not in the floor: reads, writes and operations in one loop                  */
    PART_COUNT
} bench_part;

typedef struct bench_floor {
    bench_part part;
    int variant;
    double scale;  /* factor for the measured time */
    int n_streams; /* > 0: streams */
    bench_stream stream[FLOOR_MAX_STREAMS];
    int64_t n_rows; /* > 0: scatter of operand in[0] to out[0] by index */
    int64_t row_bytes_in, row_bytes_out;
    int in, out, index;
    double lane_ops;   /* > 0: arithmetic, in float operations */
    int64_t fma_count; /* of one call and thread; set by the harness */
    int64_t copied;    /* on a device: bytes of the copy, each read and written */
} bench_floor;

/* Add one floor per variant. No-op if the device has no floors, or none of this kind. */
void bench_add_streams(bench_row *row, bench_part part, double scale, const bench_stream *streams, int n);
void bench_add_scatter(bench_row *row, int64_t n_rows, int in, int64_t row_bytes_in, int out, int64_t row_bytes_out,
                       int index);
void bench_add_arithmetic(bench_row *row, double lane_ops);
/* Adds PART_TOGETHER: the first stream with the kernel's operations in its loop, then the other streams. It shows how
 * well the machine overlaps memory and arithmetic. */
void bench_add_together(bench_row *row, double lane_ops, const bench_stream *streams, int n);

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
    const floor_ops *floors_of_device; /* NULL = none */
    floor_copier *copier;              /* for a device's floors; set by bench_measure() */
    int64_t rotate_bytes;
    int want_peer;
    int peer_reuses_output;

    /* set by setup */
    bench_operand operand[BENCH_MAX_OPERANDS];
    int n_operands;
    bench_work work;
    int rmw_is_pattern; /* 1: the pattern floor is an in-place update, and also PART_RMW */
    bench_floor floor[BENCH_MAX_FLOORS];
    int n_floors;
    bench_peer peer;
    union {
#define GDN_KERNEL(stem, number, title) gdn_##stem##_args stem;
#include "core/kernels.def"
#undef GDN_KERNEL
    } args;
    gdn_delta_inputs inputs; /* parts for the arguments */
    gdn_replay_log log;
    gdn_checkpoints checkpoints;
    gdn_capability capability;
    gdn_span workspace;
    gdn_status (*launch)(bench_row *row, int copy); /* runs the kernel once on a copy */
    gdn_status (*other)(bench_row *row, int copy);  /* an alternative computation, measured in turn; NULL = none */
    const char *wrong;                              /* error text if setup found wrong results; or NULL */
    const char *other_ratio;                        /* JSON name of other time / kernel time; NULL without one */
};

/* Chooses the number of copies, creates and fills them. Call after adding all operands. */
gdn_status bench_fill(bench_row *row);
/* Creates the workspace that the query requests. Call after args are complete and queried. */
gdn_status bench_create_workspace(bench_row *row);
void bench_row_destroy(bench_row *row);

typedef struct bench_case {
    const char *name; /* "decode" */
    int seqs;         /* 0 = not applicable, and not in the row's name */
    int quick;        /* 1: also part of --quick */
} bench_case;

/* A kernel's benchmarks. setup allocates, fills, queries, and adds floors and peer. If it does not return GDN_OK, or
 * the capability is unsupported, the row is reported as skipped. */
typedef struct bench_kernel {
    const char *stem;
    int n_cases;
    const void *cases; /* structs that begin with a bench_case */
    size_t case_bytes;
    gdn_status (*setup)(bench_row *row, int index);
} bench_kernel;

#define GDN_KERNEL(stem, number, title) extern const bench_kernel bench_##stem;
#include "core/kernels.def"
#undef GDN_KERNEL

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
    double floor_time, floor_time_min;
    const char *floor_part;    /* "pattern", "arithmetic", or "copy" on a device */
    const char *floor_variant; /* the fastest */
    int64_t floor_bytes;       /* of a copy: bytes read and written; 0 for other floors */
    double floor_share_raw, rmw_share_raw;
    double together_time, together_share_raw;
    double other_time, other_ratio; /* of `other` */
    const char *other_name;         /* name of the ratio, or NULL */
    int other_reliable;
    double peer_time, peer_copy_time, peer_ratio, peer_copy_ratio, peer_nmse;
    int floor_reliable, rmw_reliable, together_reliable, peer_reliable; /* 0: too few samples without
                                                                           interruption */
    int exact;
    char backend[GDN_NAME_MAX], implementation[GDN_NAME_MAX];
} bench_result;

void bench_measure(bench_row *row, const bench_limits *limits, bench_result *result);

/* ---- Reporting --------------------------------------------------------------------------------- */

typedef struct bench_context {
    char backend[GDN_NAME_MAX], device[GDN_NAME_MAX * 2];
    int emulated;              /* 1: the device is emulated */
    char floors[GDN_NAME_MAX]; /* instruction set of the floors, "device copy", or "none" */
    char peer[GDN_NAME_MAX];   /* "" = none                                */
    int cores;
    int64_t l3_bytes, rotate_bytes;
    int huge_pages; /* 1: requested, and the system provides them on request */
    int openmp;
} bench_context;

void bench_print_header(const bench_context *context);
void bench_print_row(const bench_context *context, const bench_result *result);
/* Writes JSON to a file, or to stdout if path is "-". Returns 0 with a text on stderr if that fails. */
int bench_write_json(const char *path, const bench_context *context, const bench_result *results, int n);

#endif
