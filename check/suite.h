/* The suite of a kernel: its random cases, its fixed list, and its families. One per kernel, in
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

/* A line of a fixed list is a case or a sweep of cases: a name, then assignments, with spaces between them.
 *
 *     "sizes/k{dim_k,dim_v:16_v16|33_v17}_{gate:scalar|channel} n_seqs=2 length=3,1 src=s?none:src"
 *
 * `{name:word|word}` is an axis of the sweep. The line has a case for each combination of words; the last axis varies
 * fastest. The chosen word is printed in the name. An axis among the assignments is printed where the name has
 * `{name}`. The word also sets the member `name`:
 *   - a word that begins with a number sets one number for each of several names;
 *   - a known word (suite.c has the list) sets its value;
 *   - any other word sets its index.
 * `{expression?words}` in a name prints the word with that index.
 *
 * `name=expression` sets a member of the specification, a variable of one letter, or one of `kind`, `threads` and
 * `environment`, which say how the case runs. `a=b=1` sets both. Expressions are C's, without spaces. The name of a
 * member is its value. There are also:
 *     s, i            number of the sequence; index within a member that is an array
 *     #name           index of the axis's word
 *     a,b,c           one value for each sequence, or for each element of an array
 *     pick(n,a,b,c)   the value with index n modulo their number
 *     has(text)       1 if a chosen word contains the text
 * A line is read twice: for the sizes of the batch, which `begin` makes, and then for everything. So sizes cannot
 * depend on members of sequences. */

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
extern const check_suite check_suite_gated_delta_net;
extern const check_suite check_suite_ssm_conv;
extern const check_suite check_suite_set_rows;

int check_n_fixed(const check_suite *suite);
const char *check_fixed_name(const check_suite *suite, int i, char *name, size_t bytes); /* into name, and returns it */
void check_fixed(const check_suite *suite, check_case *c, int i, check_rng *rng);
void check_random(const check_suite *suite, check_case *c, check_rng *rng);

#endif
