/* The descriptor of a kernel, for code that serves all kernels. It has the name, the operands, the functions behind one
 * signature, how a call is built from a specification, and what a call may write. There is one for each
 * kernel. gdn check and the tests of the interface, of the devices and of arguments use them. */
#ifndef GDN_CHECK_KERNEL_H
#define GDN_CHECK_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "calls.h"
#include "gdn/gdn.h"
#include "rng.h"

struct check_case;
struct check_list;
struct check_trial;
union check_spec;

/* A call of any kernel. */
typedef union check_args {
    uint32_t size; /* each begins with it */
    delta_call gated_delta_net;
    conv_call ssm_conv;
    gdn_set_rows_args set_rows;
} check_args;

/* An operand or a map: where it lies in the call. */
typedef struct check_operand {
    const char *name;
    size_t field; /* offset of its gdn_tensor, gdn_pool or gdn_span      */
    int n_axes;   /* of a tensor: how many strides apply; or CHECK_MAP */
    int written;  /* holds results                                     */
    int optional; /* may be absent                                     */
    int is_pool;  /* a gdn_pool                                        */
} check_operand;
enum { CHECK_MAP = -1, CHECK_READ = 0, CHECK_WRITTEN = 1 };

/* True for an operand whose data alone say that it is given, also in a query. */
static inline int check_is_known_by_data(const char *name) { return !strcmp(name, "inputs.read_key"); }

/* Of a pool, which begins as a tensor does, up to reserved. */
static inline gdn_tensor *check_tensor(const void *args, const check_operand *o)
{
    return (gdn_tensor *)(void *)((char *)(uintptr_t)args + o->field);
}

/* Sets it, and leaves the sizes of a pool. */
static inline void check_set_tensor(void *args, size_t field, const gdn_tensor *t)
{
    memcpy((char *)args + field, t, offsetof(gdn_tensor, reserved));
}

static inline gdn_span *check_span(const void *args, const check_operand *o)
{
    return (gdn_span *)(void *)((char *)(uintptr_t)args + o->field);
}

/* The data of either, which is its first member. */
static inline void **check_data(const void *args, const check_operand *o)
{
    return (void **)(void *)((char *)(uintptr_t)args + o->field);
}

/* Callbacks that receive what a call may write. */
typedef struct check_writes {
    void *user;
    /* These bytes, which are elements of the tensor `of`. */
    void (*may)(void *user, const gdn_tensor *of, unsigned char *at, uint64_t bytes);
    /* Or NULL. Gets each row of the matrices of a pool, also of entries that the call does not name. Results that lie
     * by token were given to may() before, and must not overlap it. */
    void (*pool)(void *user, unsigned char *at, uint64_t bytes);
    /* Or NULL. Is this entry of a map within the memory that the call was given? */
    int (*readable)(void *user, const void *at, uint64_t bytes);
} check_writes;

/* Comparisons that need more than one call. Each trial draws its own sizes from rng, runs on trial->target, and reports
 * through check_trial_*(); see trial.h. */
typedef struct check_family {
    const char *name; /* "splits": its trials are called splits/0, splits/1, ... */
    int n;            /* trials in a default run; a quick one has an eighth */
    void (*run)(struct check_trial *trial, check_rng *rng);
} check_family;

typedef struct check_kernel {
    const char *name;
    uint64_t args_size;
    size_t workspace;             /* offset of args.workspace                        */
    const check_operand *operand; /* tensors, then maps; ends with a name of NULL    */
    gdn_status (*query)(const gdn_context *ctx, const void *args, gdn_capability *capability);
    gdn_status (*run)(gdn_context *ctx, const void *args, gdn_stream stream);
    void (*build)(struct check_case *c, const union check_spec *spec, check_rng *rng);
    /* Everything that a valid call, in memory that the host can read, may write. A kernel writes all of it, unless it
     * is there already. Follows the text of include/gdn/, not core/. Returns NULL, or the name of a map with an entry
     * that is out of range or not readable; then the list is incomplete. */
    const char *(*writes)(const void *args, const check_writes *writes);
    void (*random)(union check_spec *spec, check_rng *rng); /* random_<stem>.c      */
    void (*cases)(struct check_list *list);                 /* cases_<stem>.c       */
    const check_family *families;                           /* invariances_<stem>.c; ends with a name of NULL */
} check_kernel;

enum { CHECK_KERNEL_gated_delta_net, CHECK_KERNEL_ssm_conv, CHECK_KERNEL_set_rows, CHECK_KERNEL_COUNT };
extern const check_kernel *const check_kernels[CHECK_KERNEL_COUNT];
extern const check_kernel check_kernel_gated_delta_net;
extern const check_kernel check_kernel_ssm_conv;
extern const check_kernel check_kernel_set_rows;

static inline gdn_span *check_workspace(const check_kernel *kernel, const void *args)
{
    return (gdn_span *)(void *)((char *)(uintptr_t)args + kernel->workspace);
}

/* ---- For build_<stem>.c --------------------------------------------------------------------------------------- */

/* What it has, for the descriptor. */
#define CHECK_KERNEL_PARTS(stem)                                                                                       \
    extern const check_operand check_operands_##stem[];                                                                \
    void check_build_##stem(struct check_case *c, const union check_spec *spec, check_rng *rng);                       \
    const char *check_writes_##stem(const void *args, const check_writes *writes);                                     \
    void check_random_##stem(union check_spec *spec, check_rng *rng);                                                  \
    void check_cases_##stem(struct check_list *list);                                                                  \
    extern const check_family check_families_##stem[];
CHECK_KERNEL_PARTS(gated_delta_net)
CHECK_KERNEL_PARTS(ssm_conv)
CHECK_KERNEL_PARTS(set_rows)
#undef CHECK_KERNEL_PARTS

/* Where a tensor is, with zero strides filled in: the extent of what is inside the axis. `by_sequence`: axis 0 is that
 * of sequences, and 0 says there that tokens of all of them follow each other. */
typedef struct check_place {
    unsigned char *at;
    int64_t stride[4];
} check_place;
check_place check_resolve(const gdn_tensor *t, int n_axes, const int64_t *extent, int64_t inner, int by_sequence);

/* Entry i of a map of int32, or `absent`. *wrong becomes the map's name where the entry is not low .. high or not
 * readable. */
int64_t check_entry(const check_writes *writes, const gdn_span *map, int64_t i, int64_t absent, int64_t low,
                    int64_t high, const char *name, const char **wrong);

/* A sequence's tokens. */
typedef struct check_sequence {
    int64_t first, length;
} check_sequence;
check_sequence check_sequence_of(const check_writes *writes, const gdn_span *seq_start, int64_t s, int64_t n_seqs,
                                 int64_t n_tokens, const char **wrong);
/* How many checkpoints a sequence with `position` tokens before its own may keep: counted token by token. */
int64_t check_checkpoints(int64_t interval, int64_t position, int64_t length);
/* That every token of a sequence follows one before it, or none. */
void check_parents(const check_writes *writes, const gdn_span *parent, check_sequence q, const char **wrong);
/* A sequence's tokens as a tree: of `length` tokens from `first` on, 0 for padding. `parent` says which each follows;
 * where it is NULL that is drawn from the key, in half of all cases the one before it. */
typedef struct check_tree {
    int first, length;
    const int *parent;
    uint64_t key;
} check_tree;
/* The map `parent` of n_tokens tokens. Entries of tokens outside of trees are not read. */
void check_add_parents(struct check_case *c, size_t field, const check_tree *tree, int n_trees, int n_tokens,
                       check_rng *rng);
void check_tokens_written(const check_writes *writes, const gdn_tensor *out, const check_place *place, check_sequence q,
                          int64_t s, int64_t heads, uint64_t bytes);
/* All rows of a pool to writes->pool(), if there is one. */
void check_pool_rows(const check_writes *writes, const check_place *pool, const int64_t extent[4], uint64_t bytes);

#endif
