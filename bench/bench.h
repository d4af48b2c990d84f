/* gdn bench: how the benchmarks are put together.
 *
 *   bench.c      the command: options, which rows to measure
 *   <kernel>.c   the cases of a kernel: operands, launch, floors (one file per kernel of core/kernels.def)
 *   harness.c    buffers in rotation, the alternating repetitions, statistics
 *   floors*.c    what the machine can do (floors.h); floors_cuda.c: what a device can
 *   peer_ggml.c  ggml's operators on the same data, when built with GDN_BENCH_GGML (peer.h)
 *   report.c     the table and the JSON
 *
 * A row is one case on one number of threads. Its operands exist in n_copies copies, enough that together
 * they are several times larger than the last-level cache, and every single call of anything (kernel,
 * floor, peer) takes the next copy: what is measured is a kernel that finds its state in memory, as it
 * does in a model with dozens of layers. One repetition calls the kernel, every floor variant and
 * the peer once, in random order, so that slow drifts of the machine cancel in the ratios. Samples during which another
 * program took the processor are left out, as long as enough others remain. */
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
    int64_t   bytes;
    void     *content; /* of every copy at first; freed once the copies are filled */
    gdn_span  whole;   /* all copies in one buffer, where spans are host addresses  */
    gdn_span *copy;    /* [n_copies] */
} bench_operand;

/* Add an operand and return its number. `content` comes from malloc and becomes the row's; NULL = zeros. */
int bench_add_operand(bench_row *row, int64_t bytes, void *content);

gdn_tensor bench_tensor(const bench_row *row, int operand, int copy); /* packed F32 */
gdn_pool   bench_pool(const bench_row *row, int operand, int copy, int32_t n_rows, int32_t n_slots); /* likewise */

/* malloc that ends the program when memory runs out: a benchmark cannot go on without. */
void *bench_alloc(int64_t bytes);
/* Touched memory that begins at a huge page and asks for huge pages; free() it. */
void *bench_alloc_huge(int64_t bytes);

/* The same random numbers on every machine. */
typedef struct bench_random {
    uint64_t state;
} bench_random;
uint64_t bench_random_bits(bench_random *random);
float   *bench_random_floats(uint64_t seed, int64_t n, float low, float high); /* malloc */

/* ---- Floors ------------------------------------------------------------------------------------ */

/* An operand at an offset; what a floor is written in, because addresses change with the copy. */
typedef struct bench_ref {
    int     operand;
    int64_t offset, stride; /* bytes; stride between blocks */
} bench_ref;

typedef struct bench_stream {
    int       n_in, n_out;
    int64_t   n, n_blocks; /* floats per block */
    double    lane_ops; /* > 0: arithmetic beside it, counted in operations on single floats; floor_stream.fmas */
    bench_ref in[FLOOR_MAX_IN], out[FLOOR_MAX_OUT];
} bench_stream;

/* A row's floor is the slowest of its parts, and a part is as fast as the fastest of its variants. */
typedef enum bench_part {
    PART_PATTERN,    /* the kernel's own reads and writes; on a device a copy of as many bytes       */
    PART_ARITHMETIC, /* the kernel's own vector operations                                          */
    PART_RMW,        /* not part of the floor: the same number of bytes as an update in place       */
    PART_TOGETHER,   /* nor this: reads and writes with the operations beside them, in one loop     */
    PART_COUNT
} bench_part;

typedef struct bench_floor {
    bench_part   part;
    int          variant;
    double       scale;     /* what the measured time is multiplied with */
    int          n_streams; /* > 0: streams */
    bench_stream stream[FLOOR_MAX_STREAMS];
    int64_t      n_rows;    /* > 0: scatter of operand in[0] to out[0] by index */
    int64_t      row_bytes_in, row_bytes_out;
    int          in, out, index;
    double       lane_ops;  /* > 0: arithmetic, counted in operations on single floats */
    int64_t      fma_count; /* of one call and thread; set by the harness */
    int64_t      copied;    /* on a device: bytes of the copy, each of which is read and written */
} bench_floor;

/* Add one floor per variant. Nothing happens where the device has no floors, or none of this kind. */
void bench_add_streams(bench_row *row, bench_part part, double scale, const bench_stream *streams, int n);
void bench_add_scatter(bench_row *row, int64_t n_rows, int in, int64_t row_bytes_in, int out, int64_t row_bytes_out,
                       int index);
void bench_add_arithmetic(bench_row *row, double lane_ops);
/* The first stream with the kernel's operations beside it, then the others: how well the machine does at once what a
 * kernel needs that memory and arithmetic bind alike. */
void bench_add_together(bench_row *row, double lane_ops, const bench_stream *streams, int n);

/* ---- Peers ------------------------------------------------------------------------------------- */

/* Another library's operator on the same copies. run returns 0 when it failed. */
typedef struct bench_peer {
    void *state; /* NULL = no peer */
    int   has_copy;
    int (*run)(void *state, int with_copy, int copy);
    void (*close)(void *state);
    double nmse; /* its results against ours, once, before anything is timed; NAN = not compared */
} bench_peer;

/* ---- Rows -------------------------------------------------------------------------------------- */

/* What a row's call is, as results repeat it. */
typedef struct bench_work {
    int    threads;    /* set before setup */
    int    n_copies;   /* set by bench_fill() */
    double bytes, ops; /* of one call, for the rates: least traffic, operations on floats */
    int    seqs;
    int    tokens;     /* per sequence; set_rows: rows */
} bench_work;

struct bench_row {
    /* set before setup */
    gdn_context            *ctx;
    gdn_device_info         device;
    gdn_implementation_info implementation;
    const floor_ops        *floors_of_device; /* NULL = none */
    floor_copier           *copier;           /* of a device's floors; set by bench_measure() */
    int64_t                 rotate_bytes;
    int                     want_peer;
    int                     peer_reuses_output;

    /* set by setup */
    bench_operand operand[BENCH_MAX_OPERANDS];
    int           n_operands;
    bench_work    work;
    int           rmw_is_pattern; /* the pattern floor is an update in place, and serves as PART_RMW */
    bench_floor   floor[BENCH_MAX_FLOORS];
    int           n_floors;
    bench_peer    peer;
    union {
#define GDN_KERNEL(stem, number, title) gdn_##stem##_args stem;
#include "core/kernels.def"
#undef GDN_KERNEL
    } args;
    gdn_delta_inputs inputs; /* parts that the arguments may point to */
    gdn_replay_log   log;
    gdn_checkpoints  checkpoints;
    gdn_capability capability;
    gdn_span       workspace;
    gdn_status (*launch)(bench_row *row, int copy); /* run the kernel once on a copy */
    gdn_status (*other)(bench_row *row,
                        int copy); /* another way to have what it gives, measured in turn; NULL = none */
    const char *wrong;       /* what is, with the results of calls that setup has made; or NULL */
    const char *other_ratio; /* what the JSON calls its time divided by the kernel's; NULL without one */
};

/* Once all operands are added: decide how many copies there are, create and fill them. */
gdn_status bench_fill(bench_row *row);
/* Once args are complete and the query is done: create the workspace that it asks for. */
gdn_status bench_create_workspace(bench_row *row);
void       bench_row_destroy(bench_row *row);

typedef struct bench_case {
    const char *name; /* "decode" */
    int         seqs; /* 0 = of no meaning here, and no part of the row's name */
    int         quick; /* 1: also part of --quick */
} bench_case;

/* A kernel's benchmarks. Setup allocates, fills, queries and adds floors and peer; when it returns anything
 * but GDN_OK, or a capability that is not supported, the row is reported as skipped. */
typedef struct bench_kernel {
    const char *stem;
    int         n_cases;
    const void *cases; /* structs that begin with a bench_case */
    size_t      case_bytes;
    gdn_status (*setup)(bench_row *row, int index);
} bench_kernel;

#define GDN_KERNEL(stem, number, title) extern const bench_kernel bench_##stem;
#include "core/kernels.def"
#undef GDN_KERNEL

/* ---- Measuring --------------------------------------------------------------------------------- */

typedef struct bench_limits {
    double min_seconds; /* time spent in the kernel itself                       */
    double max_seconds; /* of the whole row; ends it once there are 5 repetitions */
    int    min_reps;
} bench_limits;

/* Times in seconds; NAN = not measured. Ratios are medians over the repetitions. */
typedef struct bench_result {
    char        name[160];
    const char *skipped; /* why the row has no times, or NULL */
    int         failed;  /* 1: and that is an error, not a thing that the device cannot do */
    bench_work  work;
    int         reps, interrupted; /* interrupted: of reps, those in which the kernel lost a processor */
    double      time, time_min, cpu_time;
    double      floor_time, floor_time_min;
    const char *floor_part;    /* "pattern", "arithmetic", or "copy" on a device */
    const char *floor_variant; /* the fastest */
    int64_t     floor_bytes;   /* of a copy: read and written together; 0 of other floors */
    double      floor_share_raw, rmw_share_raw;
    double      together_time, together_share_raw;
    double      other_time, other_ratio; /* of the other way */
    const char *other_name;              /* of the ratio, or NULL */
    int         other_reliable;
    double      peer_time, peer_copy_time, peer_ratio, peer_copy_ratio, peer_nmse;
    int         floor_reliable, rmw_reliable, together_reliable, peer_reliable; /* 0: too few samples were left alone */
    int         exact;
    char        backend[GDN_NAME_MAX], implementation[GDN_NAME_MAX];
} bench_result;

void bench_measure(bench_row *row, const bench_limits *limits, bench_result *result);

/* ---- Reporting --------------------------------------------------------------------------------- */

typedef struct bench_context {
    char    backend[GDN_NAME_MAX], device[GDN_NAME_MAX * 2];
    int     emulated;             /* the device is */
    char    floors[GDN_NAME_MAX]; /* instruction set of the floors, "device copy", or "none" */
    char    peer[GDN_NAME_MAX];   /* "" = none                                */
    int     cores;
    int64_t l3_bytes, rotate_bytes;
    int     huge_pages; /* 1: asked for, and the system gives them to those who ask */
    int     openmp;
} bench_context;

void bench_print_header(const bench_context *context);
void bench_print_row(const bench_context *context, const bench_result *result);
/* To a file, or to stdout where path is "-"; 0 and a text on stderr when that fails. */
int bench_write_json(const char *path, const bench_context *context, const bench_result *results, int n);

#endif
