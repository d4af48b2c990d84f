/* The fixed cases of a kernel. cases_<stem>.c has a function that adds them one after another, in loops:
 *
 *     for (int gate = 0; gate < 2; gate++) {
 *         delta_spec d = DELTA(2, 3, .n_heads_v = 2, .dim_k = 32, .gate = gate);   2 sequences of 3 tokens
 *         d.seq[1].src = GDN_NONE;
 *         ADD("from_zero/%s", gates[gate]);
 *     }
 *
 * The name of a case seeds everything else that is drawn for it: strides, gaps, alignment, threads. So a case gives the
 * same bytes alone and in a whole run, and a new case may be added anywhere. */
#ifndef GDN_CHECK_CASES_H
#define GDN_CHECK_CASES_H

#include "specs.h"
#include "target.h"

typedef struct check_list {
    void (*take)(void *user, const struct check_list *list); /* gets each case as it is added */
    void *user;
    char name[96];             /* the case that is added */
    check_spec spec;           /* its call               */
    int executor, environment; /* -1: drawn. A case may set them before it is added. */
} check_list;

/* All fixed cases of a kernel to take(). */
void check_list_cases(const check_kernel *kernel, void (*take)(void *user, const check_list *list), void *user);

void check_add(check_list *list, const check_spec *spec, const char *format, ...) __attribute__((format(printf, 3, 4)));

static const char *const check_type_names[] = { "f32", "f16", "bf16", "q8_0", "i32", "i64" };
static const char *const check_executor_names[] = { "library", "pool", "reverse" };
static const char *const check_place_names[] = { "in_place", "same", "apart" }; /* where results are written */

/* Shapes of trees: drawn from the key of a sequence; two branches whose tokens take turns; all tokens follow the state.
 * check_tree_parents() gives the parents of any number of tokens up to CHECK_MAX_TREE, or NULL for the drawn ones. */
enum { CHECK_TREE_RANDOM, CHECK_TREE_COMB, CHECK_TREE_STAR, CHECK_N_TREES, CHECK_MAX_TREE = 320 };
static const char *const check_tree_names[] = { "random", "comb", "star" };
const int *check_tree_parents(int shape);

/* For the two files of gated_delta_net. */
static const char *const check_gate_names[] = { "scalar", "channel" }, *const check_layout_names[] = { "vk", "kv" };
/* The sizes of models: one of the usual head counts. */
#define MODEL           .n_heads_k = 16, .n_heads_v = 32, .dim_k = 128, .dim_v = 128
#define SLOTS(n)        .n_slots = (n), .n_slots_out = (n), .n_snapshots = (n)
#define ROWS_OF_POOL(n) .n_rows = (n), .n_rows_out = (n)
#define SLOW            .values[DELTA_G] = CHECK_GATE_SLOW
/* A log with all of its maps but the row's. */
#define LOG(rows, slots)                                                                                               \
    .log_rows = (rows), .log_slots = (slots), .map_position = 1, .map_base_position = 1, .map_commit = 1
void check_cases_of_logs(check_list *list); /* cases_gated_delta_net_log.c */

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

#endif
