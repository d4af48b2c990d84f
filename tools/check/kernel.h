/* What the check knows about a kernel. One descriptor per line of core/kernels.def; check.c walks them. */
#ifndef GDN_CHECK_KERNEL_H
#define GDN_CHECK_KERNEL_H

#include "case.h"

struct check_trial;

/* A family of comparisons that need more than one call. Each trial draws its own sizes from rng, runs on
 * trial->target, and reports through check_trial_*(); see trial.h. */
typedef struct check_family {
    const char *name; /* "splits": its trials are called splits/0, splits/1, ... */
    int         n;    /* trials in a default run; a quick one has a quarter */
    void      (*run)(struct check_trial *trial, check_rng *rng);
} check_family;

typedef struct check_kernel {
    const char *name;
    uint64_t    args_size;
    size_t      workspace; /* offset of args.workspace */
    gdn_status (*query)(const gdn_context *ctx, const void *args, gdn_capability *capability);
    gdn_status (*run)(gdn_context *ctx, const void *args);

    void        (*random)(check_case *c, check_rng *rng);     /* the body of a case: arguments and memory */
    int         (*n_fixed)(void);
    const char *(*fixed_name)(int i, char *name, size_t bytes); /* into name, and returns it */
    void        (*fixed)(check_case *c, int i, check_rng *rng);
    int         random_share; /* of 100 random cases of the default, how many this kernel runs */
    const check_family *families; /* ends with a name of NULL */
} check_kernel;

#endif
