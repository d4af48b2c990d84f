/* The fuzz target of arguments: fuzz_args.c makes a valid call, runs and judges it; fuzz_args_break.c makes things
 * wrong with it. */
#ifndef GDN_FUZZ_ARGS_H
#define GDN_FUZZ_ARGS_H

#include "check/case.h"

/* Says why and aborts, which is how a fuzzer notices. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define FUZZ_REQUIRE(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) fuzz_fail(__VA_ARGS__);                                                                      \
    } while (0)

enum { SLAB_BYTES = 4 << 20, MAX_PARTS = 7 };

/* Memory with pages around that must not be touched. The call has `begin` .. `end` of it, at one of its ends; what is
 * left is poisoned under AddressSanitizer, and elsewhere filled. low .. high is what is compared. */
typedef struct slab {
    unsigned char *base;
    size_t begin, end, low, high;
    unsigned char before[SLAB_BYTES], result[SLAB_BYTES], mask[SLAB_BYTES]; /* mask: 1 = may be written */
} slab;
extern slab fuzz_slabs[];
extern int fuzz_n_slabs;
/* The slab in which all `bytes` bytes from p lie, or NULL. */
slab *fuzz_find(const void *p, uint64_t bytes);

/* A struct of the call: the arguments, or what they point to. */
typedef struct fuzz_part {
    size_t at, known, first, pointer; /* in check_args; sizes; where the arguments point to it */
} fuzz_part;

typedef struct fuzz_call {
    int number; /* of the kernel */
    const check_kernel *kernel;
    check_args args;
    const fuzz_part *part;
    int n_parts, used[MAX_PARTS];
    int dirty[MAX_PARTS]; /* bytes beyond what we know are not zero */
    int mutations;        /* how many things are to be wrong        */
    /* The workspace is known only after the query, so its mistakes are applied then. */
    enum { WORKSPACE_GOOD, WORKSPACE_ABSENT, WORKSPACE_SHORT, WORKSPACE_SKEWED, WORKSPACE_SHARED } workspace;
    int capability_extra;
} fuzz_call;
extern fuzz_call call;

/* The size that a part says it has. */
static inline uint32_t *fuzz_size(int i) { return (uint32_t *)(void *)((char *)&call.args + call.part[i].at); }

/* Where the numbers of a part end: at its first operand. */
static inline size_t fuzz_numbers(int i)
{
    size_t end = call.part[i].known;
    for (const check_operand *o = call.kernel->operand; o->name; o++)
        if (o->field > call.part[i].at && o->field < call.part[i].at + end) end = o->field - call.part[i].at;
    return end;
}

void fuzz_break(check_rng *in);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the last input was, a kind in each line. "" where something is wrong with the workspace, which depends on the
 * machine. */
const char *fuzz_outcome(void);

#endif
