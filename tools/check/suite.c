/* Suites. See suite.h. */
#include "suite.h"

const check_suite *const check_suites[CHECK_KERNEL_COUNT] = {
#define GDN_KERNEL(stem, number, title) [number] = &check_suite_##stem,
#include "core/kernels.def"
#undef GDN_KERNEL
};

int check_draw_starts(const int *length, size_t stride, int n, int *lead, int *tail, check_rng *rng)
{
    int same = 1;
    for (int s = 1; s < n; s++)
        same &= *(const int *)(const void *)((const char *)length + (size_t)s * stride) == *length;
    if (same && !check_one_in(rng, 2)) return 0;
    *lead = check_one_in(rng, 3) ? check_between(rng, 0, 3) : 0;
    *tail = check_one_in(rng, 3) ? check_between(rng, 0, 3) : 0;
    return 1;
}

int check_n_fixed(const check_suite *suite)
{
    check_spec spec; /* of no case: nothing of it is filled in */
    check_walk w = { .want = -1, .spec = &spec };
    suite->walk(&w);
    return w.n;
}

const char *check_fixed_name(const check_suite *suite, int i, char *name, size_t bytes)
{
    check_spec spec;
    check_walk w = { .want = i, .spec = &spec, .name = name, .bytes = bytes };
    suite->walk(&w);
    return name;
}

void check_fixed(const check_suite *suite, check_case *c, int i, check_rng *rng)
{
    char name[96];
    check_spec spec;
    check_walk w = { i, 0, &spec, name, sizeof name, c };
    suite->walk(&w);
    suite->kernel->build(c, &spec, rng);
}

void check_random(const check_suite *suite, check_case *c, check_rng *rng)
{
    check_spec spec;
    suite->random(&spec, rng);
    suite->kernel->build(c, &spec, rng);
}
