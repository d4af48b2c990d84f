/* What a call of each kernel is built of: a specification, from which build_<stem>.c makes the arguments and the memory
 * of a case. */
#ifndef GDN_CHECK_SPECS_H
#define GDN_CHECK_SPECS_H

#include "case.h"
#include "values.h"

#pragma GCC diagnostic ignored "-Woverride-init" /* DELTA(), CONV() and ROWS() replace defaults */

/* ---- gated_delta_net ----
 * The data of a token depend on the key of its sequence and on its index there, not on its address. So the same
 * sequence can be built into any batch, layout, or part of a call. */

enum { DELTA_MAX_SEQS = 12, DELTA_MAX_SNAPSHOTS = 24, DELTA_MAX_CHECKPOINTS = 12 };
enum { DELTA_Q, DELTA_K, DELTA_V, DELTA_G, DELTA_BETA, DELTA_STATE, DELTA_A, DELTA_BIAS, DELTA_READ, DELTA_OPERANDS };
/* Where states are written: state_out absent, the same tensor as state, or apart. */
enum { DELTA_IN_PLACE, DELTA_SAME, DELTA_APART };

typedef struct delta_seq {
    int length;
    int first;    /* number of the first token, for its data                         */
    int rejected; /* the last so many tokens are others: drafts that will be refused */
    int src;      /* entry, GDN_NONE or GDN_SKIP                                     */
    int dst[DELTA_MAX_SNAPSHOTS];
    int32_t position; /* of the first token, for checkpoints and the log                 */
    int checkpoint[DELTA_MAX_CHECKPOINTS];
    int log_row;        /* or GDN_NONE                                                     */
    int n_replayed;     /* log entries between the base position and the position         */
    int commit;         /* entry or GDN_NONE                                               */
    uint64_t key;       /* of the token data                                               */
    uint64_t state_key; /* of the state in src; 0 = by the entry                           */
    const int *order;   /* whose data a token has: the numbers of tokens; NULL = its own */
    const int *parent;  /* of a tree; NULL = by the key */
} delta_seq;

typedef struct delta_spec {
    delta_call call; /* head_map, scale (0: the usual one), inputs: what goes into the call as it is */
    int n_seqs, n_heads_k, n_heads_v, dim_k, dim_v;
    int gate, layout;
    int n_rows, n_slots, n_rows_out, n_slots_out, n_snapshots, where;
    int dtype[3]; /* of q, k, v                                      */
    int dtype_g, dtype_beta, dtype_a, dtype_bias, dtype_out;
    int has_bias;                    /* 1: dt_bias is given                             */
    int read_key, dtype_read;        /* 1: a read key is given                          */
    int no_a;                        /* 1: a bounded gate without ssm_a             */
    int narrow[3];                   /* round values to this type first; GDN_F32 = not  */
    int values[DELTA_OPERANDS];      /* check_values                                    */
    int lead, tail;                  /* tokens before the first and after the last sequence */
    int no_operands;                 /* 1: with n_tokens 0, token operands are absent */
    int map_start, map_src, map_dst; /* 1: the map is given; 0: absent, and seq[] holds the defaults */
    int map_position;
    int interval, n_checkpoints; /* 0: no checkpoints                               */
    int log_rows, log_slots;     /* 0: no log                                       */
    int map_log_row, map_base_position, map_commit;
    int tree, map_parent; /* 1: a tree; its map is given */
    int dtype_state, state_interval;
    int digits;    /* of the chunked form; 0: the recurrence          */
    int strided;   /* 1: random axis orders, gaps, shifts; 0: packed  */
    int same_keys; /* 1: q and k are one tensor                       */
    int permuted;  /* 1: value head h has the data of head (h % Hk) * r + h / Hk */
    uint64_t seed; /* of the data                                     */
    delta_seq seq[DELTA_MAX_SEQS];
} delta_spec;

/* DELTA(2, 3, .n_heads_v = 4, .gate = GDN_GATE_CHANNEL) is a call of 2 sequences of 3 tokens: packed, in place, without
 * maps, each sequence with a row of the pool. What is not given is as follows, or 0. */
#define DELTA(n, length, ...) delta_of((delta_spec){ DELTA_DEFAULTS, __VA_ARGS__ }, n, length)
#define DELTA_DEFAULTS                                                                                                 \
    .n_heads_k = 1, .n_heads_v = 1, .dim_k = 1, .dim_v = 1, .n_slots = 1, .n_slots_out = 1, .n_snapshots = 1,          \
    .values = { [DELTA_Q] = CHECK_SMALL,                                                                               \
                [DELTA_K] = CHECK_SMALL,                                                                               \
                [DELTA_READ] = CHECK_SMALL,                                                                            \
                [DELTA_BETA] = CHECK_UNIT,                                                                             \
                [DELTA_G] = CHECK_GATE_MODEL },                                                                        \
    .seed = 1
delta_spec delta_of(delta_spec spec, int n, int length);
/* n sequences of `length` tokens each, with keys, and default maps. */
void delta_batch(delta_spec *spec, int n, int length);
/* A ring: sequence s in row `row` with K slots, at position p before its tokens. */
void delta_ring(delta_spec *spec, int s, int row, int position);

/* A call with at most about `budget` state elements times tokens. */
void delta_random(delta_spec *spec, check_rng *rng, int64_t budget);
/* A call in the chunked form, without what its sequences do: their lengths, positions, rows of the log and maps. */
void delta_random_chunked(delta_spec *spec, check_rng *rng);
void delta_random_rest(delta_spec *spec, check_rng *rng); /* what a family does not choose itself */
void delta_random_state(delta_spec *spec); /* the states' type, from the seed: the other random choices do not change */

/* Parts of results, given an image of all memories: out, where it is F32, of token t of sequence s; a state element. */
unsigned char *delta_token(const check_case *c, const delta_spec *spec, const char *name, unsigned char *const *image,
                           int s, int t, int h);
const float *delta_out(const check_case *c, const delta_spec *spec, unsigned char *const *image, int s, int t, int h);
unsigned char *delta_state(const check_case *c, const delta_spec *spec, const char *pool, unsigned char *const *image,
                           int entry, int h, int key, int value);
/* Copy an entry of the log to that of another position. */
void delta_copy_entry(const check_case *from, unsigned char *const *image, int from_row, int position, check_case *to,
                      int to_row, int to_position);
/* Copy the entries of a row of the log for the positions first .. last - 1. */
void delta_copy_log(const check_case *from, unsigned char *const *image, int from_row, check_case *to, int to_row,
                    int first, int last);
/* The head's state in an entry as it lies in memory, of digits. */
unsigned char *delta_digits(const check_case *c, const delta_spec *spec, const char *pool, unsigned char *const *image,
                            int entry, int h);
int64_t delta_digits_bytes(const delta_spec *spec); /* 0: the states are floats */
/* Copy all of the slots of one pool into the memory of a case, as they are. */
void delta_copy_slot(const check_case *from, const delta_spec *from_spec, const char *from_pool,
                     unsigned char *const *image, int from_entry, check_case *to, const delta_spec *to_spec,
                     int to_entry);

/* ---- ssm_conv ----
 * The token at a position of a sequence has the same data whether it lies in x or in the history. */

enum { CONV_MAX_SEQS = 12, CONV_MAX_CHECKPOINTS = 12 };
/* Where the history is written; CONV_NOWHERE: there is none. */
enum { CONV_IN_PLACE, CONV_SAME, CONV_APART, CONV_NOWHERE };

typedef struct conv_seq {
    int length;
    int32_t position;
    int src, dst;
    int checkpoint[CONV_MAX_CHECKPOINTS];
    uint64_t key;
    const int *order;  /* whose data a token has: the numbers of tokens; NULL = its own */
    const int *parent; /* of a tree; NULL = by the key */
} conv_seq;

typedef struct conv_spec {
    conv_call call; /* activation: what goes into the call as it is */
    int n_seqs, n_channels, width, n_rows, n_slots, n_rows_out, where;
    int bias, tap_major;
    int values, weight_values;
    int32_t dtype_x, dtype_weight, dtype_bias, dtype_out, dtype_history;
    int lead, tail, map_start, map_position, map_src, map_dst;
    int interval, n_checkpoints; /* 0: no checkpoints */
    int tree, map_parent;        /* 1: a tree; its map is given */
    int strided;
    uint64_t seed;
    conv_seq seq[CONV_MAX_SEQS];
} conv_spec;

/* As DELTA(). Without n_slots the history has as many slots as the width needs. */
#define CONV(n, length, ...)                                                                                           \
    conv_of((conv_spec){ .n_channels = 1, .width = 1, .bias = 1, .seed = 1, __VA_ARGS__ }, n, length)
conv_spec conv_of(conv_spec spec, int n, int length);
void conv_batch(conv_spec *spec, int n, int length);
void conv_random_rest(conv_spec *spec, check_rng *rng); /* as delta_random_rest() */

/* Parts of images. pool is "history" or "history_out". */
unsigned char *conv_token(const check_case *c, const conv_spec *spec, const char *name, unsigned char *const *image,
                          int s, int t);
unsigned char *conv_slot(const check_case *c, const conv_spec *spec, const char *pool, unsigned char *const *image,
                         int row, int64_t position);

/* ---- set_rows ---- */

/* How the index is made: as a permutation, at random with duplicates and GDN_NONE, all the same row,
 * all GDN_NONE. */
enum { ROWS_PERMUTED, ROWS_RANDOM, ROWS_ONE, ROWS_NONE };

typedef struct rows_spec {
    gdn_set_rows_args args; /* the sizes */
    int32_t src_type, dst_type, index_type;
    int index_style, first_row; /* row i of the call has the data and index of first_row + i */
    int only_batch[2];          /* -1, or: batch 0 of the call has the data and index of this one */
    int of_index_batch[2];      /* with only_batch: index_batch of the call that it is a part of  */
    int values, strided;
    uint64_t seed;
} rows_spec;

/* As DELTA(): one row of one column. */
#define ROWS(...)                                                                                                      \
    ((rows_spec){ .args = { .size = sizeof(gdn_set_rows_args),                                                         \
                            .n_columns = 1,                                                                            \
                            .n_rows = 1,                                                                               \
                            .n_rows_dst = 1,                                                                           \
                            .n_batch = { 1, 1 },                                                                       \
                            .index_batch = { 1, 1 } },                                                                 \
                  .index_type = GDN_I64,                                                                               \
                  .index_style = ROWS_RANDOM,                                                                          \
                  .only_batch = { -1, -1 },                                                                            \
                  .seed = 1,                                                                                           \
                  __VA_ARGS__ })
void rows_random(rows_spec *spec, check_rng *rng);
unsigned char *rows_at(const check_case *c, unsigned char *const *image, int b0, int b1, int row);

/* ---- A call of any kernel ---- */

typedef union check_spec {
    delta_spec gated_delta_net;
    conv_spec ssm_conv;
    rows_spec set_rows;
} check_spec;

#endif
