/* See golden.h. */
#include "golden.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

void golden_read(const char *folder, const char *name, golden *g)
{
    size_t n;
    memset(g, 0, sizeof *g);
    g->bytes = test_file(folder, name, &n);
    NEED(n > 12);
    NEED(!memcmp(g->bytes, "GDNGOLD1", 8));
    memcpy(&g->n, g->bytes + 8, 4);
    NEED(g->n > 0 && g->n <= GOLDEN_ARRAYS);
    size_t at = 12;
    for (int32_t i = 0; i < g->n; i++) {
        golden_array *a = &g->a[i];
        NEED(at + 56 <= n);
        memcpy(a->name, g->bytes + at, 32);
        memcpy(&a->kind, g->bytes + at + 32, 24);
        a->data = g->bytes + at + 56;
        at += 56 + (size_t)4 * (size_t)a->dim[0] * (size_t)a->dim[1] * (size_t)a->dim[2] * (size_t)a->dim[3];
    }
    NEED(at == n);
}

void golden_free(golden *g) { free(g->bytes); }

const golden_array *golden_find(const golden *g, const char *name)
{
    for (int32_t i = 0; i < g->n; i++)
        if (!strcmp(g->a[i].name, name)) return &g->a[i];
    return NULL;
}

double golden_range(const float *x, int64_t n)
{
    double low = x[0], high = x[0];
    for (int64_t i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    return high - low;
}

int32_t golden_largest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) best = x[i] > x[best] ? i : best;
    return best;
}
