/* The suite of a kernel: its random cases, its fixed list, and its families. One per line of core/kernels.def, in
 * <stem>.c; check.c walks them. */
#ifndef GDN_CHECK_SUITE_H
#define GDN_CHECK_SUITE_H

#include "case.h"
#include "specs.h"

struct check_trial;

/* A family of comparisons that need more than one call. Each trial draws its own sizes from rng, runs on
 * trial->target, and reports through check_trial_*(); see trial.h. */
typedef struct check_family {
    const char *name; /* "splits": its trials are called splits/0, splits/1, ... */
    int n;            /* trials in a default run; a quick one has a quarter */
    void (*run)(struct check_trial *trial, check_rng *rng);
} check_family;

/* A walk through a fixed list: stops at number `want`, where the specification and the name are filled in, and counts.
 */
typedef struct check_walk {
    int want, n;
    check_spec *spec;
    char *name;
    size_t bytes;
    check_case *c; /* executor and environment may be set here; NULL when only names are asked for */
} check_walk;

static inline int check_here(check_walk *w) { return w->n++ == w->want; }
#define CHECK_NAME(w, ...) ((void)snprintf((w)->name, (w)->bytes, __VA_ARGS__))
#define CHECK_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

typedef struct check_suite {
    const check_kernel *kernel;
    void (*random)(check_spec *spec, check_rng *rng);
    void (*walk)(check_walk *w);  /* through the fixed list */
    const check_family *families; /* ends with a name of NULL */
} check_suite;

extern const check_suite *const check_suites[CHECK_KERNEL_COUNT];
#define GDN_KERNEL(stem, number, title) extern const check_suite check_suite_##stem;
#include "core/kernels.def"
#undef GDN_KERNEL

/* Parts of fixed lists: a call from every kind of caller on 1 to 8 threads; and from pools, one in which sequences
 * without tokens name as their source what others write. */
void check_walk_threads(check_walk *w, void (*set)(check_spec *spec, int threads));
void check_walk_empty_sources(check_walk *w, void (*set)(check_spec *spec));

int check_n_fixed(const check_suite *suite);
const char *check_fixed_name(const check_suite *suite, int i, char *name, size_t bytes); /* into name, and returns it */
void check_fixed(const check_suite *suite, check_case *c, int i, check_rng *rng);
void check_random(const check_suite *suite, check_case *c, check_rng *rng);

#endif
