/* See golden.h. */
#include "golden.h"

#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"

void golden_read(const char *path, golden *g)
{
    FILE *f = fopen(path, "rb");
    memset(g, 0, sizeof *g);
    NEED(f && !fseek(f, 0, SEEK_END));
    const long n = ftell(f);
    NEED(n > 12 && !fseek(f, 0, SEEK_SET) && (g->bytes = malloc((size_t)n)) &&
         fread(g->bytes, 1, (size_t)n, f) == (size_t)n);
    (void)fclose(f);
    NEED(!memcmp(g->bytes, "GDNGOLD1", 8));
    memcpy(&g->n, g->bytes + 8, 4);
    NEED(g->n > 0 && g->n <= GOLDEN_ARRAYS);
    long at = 12;
    for (int32_t i = 0; i < g->n; i++) {
        golden_array *a = &g->a[i];
        NEED(at + 56 <= n);
        memcpy(a->name, g->bytes + at, 32);
        memcpy(&a->kind, g->bytes + at + 32, 24);
        a->data = g->bytes + at + 56;
        at += 56 + 4L * a->dim[0] * a->dim[1] * a->dim[2] * a->dim[3];
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
