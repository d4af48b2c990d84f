/* ssm_conv cases: a specification from which the arguments and the memory of a call are built. The token
 * at a position of a sequence has the same data whether it lies in x or in the history. */
#ifndef GDN_CHECK_SSM_CONV_H
#define GDN_CHECK_SSM_CONV_H

#include "case.h"
#include "values.h"

enum { CONV_MAX_SEQS = 12, CONV_MAX_CHECKPOINTS = 12 };
/* Where the history is written; CONV_NOWHERE: there is none. */
enum { CONV_IN_PLACE, CONV_SAME, CONV_APART, CONV_NOWHERE };

typedef struct conv_seq {
    int      length;
    int32_t  position;
    int      src, dst;
    int      checkpoint[CONV_MAX_CHECKPOINTS];
    int      rejected; /* the last so many tokens are others: drafts that will be refused */
    uint64_t key;
    const int *order;  /* whose data a token has: the numbers of tokens; NULL = its own */
    const int *parent; /* of a tree; NULL = by the key                                  */
} conv_seq;

typedef struct conv_spec {
    int      n_seqs, n_channels, width, n_rows, n_columns, n_rows_out, where;
    int      silu, bias, tap_major;
    int      values, weight_values;
    int32_t  dtype_x, dtype_weight, dtype_bias, dtype_out, dtype_history;
    int      lead, tail, map_start, map_position, map_src, map_dst;
    int      interval, n_checkpoints; /* 0: no checkpoints            */
    int      tree, map_parent;        /* 1: a tree; its map is given  */
    int      strided;
    uint64_t seed;
    conv_seq seq[CONV_MAX_SEQS];
} conv_spec;

void conv_defaults(conv_spec *spec, int n_channels, int width);
void conv_batch(conv_spec *spec, int n, int length);
void conv_random(conv_spec *spec, check_rng *rng);
/* As delta_random_checkpoints(), where there is a history. */
void conv_random_checkpoints(conv_spec *spec, check_rng own);
/* A tree in some of the calls that have none of these: drawn from a copy, too. */
void conv_random_tree(conv_spec *spec, check_rng own);
/* Which token of sequence s token t follows. */
int conv_parent(const conv_spec *spec, int s, int t);
/* Any types; with `exact`, a history that tokens pass through unchanged. */
void conv_random_types(conv_spec *spec, int exact, check_rng *rng);

/* Parts of images. pool is "history" or "history_out". */
unsigned char *conv_token(const check_case *c, const conv_spec *spec, const char *name, unsigned char *const *image,
                          int s, int t);
unsigned char *conv_column(const check_case *c, const conv_spec *spec, const char *pool, unsigned char *const *image,
                           int row, int64_t position);

#endif
