/* Suites. See suite.h. */
#include "suite.h"

#include <stdio.h>

#include "target.h"

const check_suite *const check_suites[CHECK_KERNEL_COUNT] = {
#define GDN_KERNEL(stem, number, title) [number] = &check_suite_##stem,
#include "core/kernels.def"
#undef GDN_KERNEL
};

void check_walk_threads(check_walk *w, void (*set)(check_spec *spec, int threads))
{
    static const char *const kinds[] = { "library", "pool", "reverse" };
    for (int kind = 0; kind < 3; kind++)
        for (int threads = 1; threads <= 8; threads++)
            if (check_here(w)) {
                set(w->spec, threads);
                if (w->c) w->c->executor = CHECK_EXECUTOR(kind, threads);
                CHECK_NAME(w, "threads/%s_%d", kinds[kind], threads);
            }
}

void check_walk_empty_sources(check_walk *w, void (*set)(check_spec *spec))
{
    for (int threads = 2; threads <= 8; threads++)
        if (check_here(w)) {
            set(w->spec);
            if (w->c) w->c->executor = CHECK_EXECUTOR(CHECK_THREADS_POOL, threads);
            CHECK_NAME(w, "threads/empty_source_%d", threads);
        }
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
