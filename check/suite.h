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

/* A line of a fixed list stands for one case or for many. It is a name, and behind a space what is set.
 *
 *     "sizes/k{dim_k,dim_v:16_v16|33_v17}_{gate:scalar|channel} n_seqs=2 length=3,1 src=s?none:src"
 *
 * `{name:words}` is an axis. The line has a case for each choice of words, and the last axis turns fastest. Axes may
 * also stand behind the name; `{name}` is then where the word goes. A word sets what the axis is named after: to the
 * numbers of the word, for several names in turn, where it begins with one; to the value of a known word (see suite.c);
 * or else to its index. `{expression?words}` in a name is the word at that index.
 *
 * `name=expression` sets members of the specification, variables of one letter, and `kind`, `threads` and
 * `environment`, which are how the case runs. `a=b=1` sets both. Expressions are those of C, without spaces. A member
 * stands for its own value. Besides, there are:
 *     s, i            the sequence; the number within a member that is an array
 *     #name           the index of the word that the axis has
 *     a,b,c           one for each sequence, or for each element of an array
 *     pick(n,a,b,c)   the one at n modulo their number
 *     has(text)       1 where a chosen word contains the text
 * A line is read twice: first for the sizes, which `begin` makes a batch of, and then for all. What a batch needs
 * cannot depend on members of sequences. */

/* A member that lines may set. */
typedef struct check_member {
    const char *name;
    size_t offset, bytes, stride; /* from sequence to sequence; 0: one for the call */
    char kind;                    /* 'i'nt, 'f'loat, 'k'ey or 'p'arents */
} check_member;

#define CHECK_MEMBER(name, type, member, stride)                                                                       \
    name, offsetof(type, member), sizeof((type *)0)->member, stride, CHECK_KIND(((type *)0)->member)
#define CHECK_KIND(member) _Generic((member), float : 'f', uint64_t : 'k', const int * : 'p', default : 'i')

typedef struct check_suite {
    const check_kernel *kernel;
    void (*random)(check_spec *spec, check_rng *rng);
    void (*begin)(check_spec *spec); /* the defaults of a call of these sizes; of the smallest where all are 0 */
    const check_member *members;     /* ends with a name of NULL, and the others likewise */
    const char *const *lines;
    const check_family *families;
} check_suite;

extern const check_suite *const check_suites[CHECK_KERNEL_COUNT];
#define GDN_KERNEL(stem, number, title) extern const check_suite check_suite_##stem;
#include "core/kernels.def"
#undef GDN_KERNEL

int check_n_fixed(const check_suite *suite);
const char *check_fixed_name(const check_suite *suite, int i, char *name, size_t bytes); /* into name, and returns it */
void check_fixed(const check_suite *suite, check_case *c, int i, check_rng *rng);
void check_random(const check_suite *suite, check_case *c, check_rng *rng);

#endif
