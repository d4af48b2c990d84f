/* See placed.h. */
#include "tests/device/placed.h"

void placed_case(check_case *c, const check_kernel *kernel, const check_spec *spec)
{
    check_rng rng = { .state = 1 };
    check_case_init(c, kernel);
    kernel->build(c, spec, &rng);
}

static void put(const placed *p, int m)
{
    REQUIRE(gdn_buffer_write(p->ctx, &p->where[m], 0, p->c.memory[m].image, p->c.memory[m].bytes) == GDN_OK);
}

void placed_open(placed *p, gdn_context *ctx, const check_kernel *kernel, const check_spec *spec)
{
    gdn_capability can = { .size = sizeof can };
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    placed_case(&p->c, kernel, spec);
    p->args = p->c.args;
    for (int m = 0; m < p->c.n_memories; m++) {
        NEED(gdn_buffer_create(ctx, p->c.memory[m].bytes, &p->where[m]) == GDN_OK);
        put(p, m);
    }
    check_bind(&p->c, p->where, 0, &p->args);
    NEED(kernel->query(ctx, &p->args, &can) == GDN_OK);
    if (can.workspace_bytes) NEED(gdn_buffer_create(ctx, can.workspace_bytes, &p->workspace) == GDN_OK);
    memcpy((char *)&p->args + kernel->workspace, &p->workspace, sizeof p->workspace);
}

void placed_close(placed *p)
{
    for (int m = 0; m < p->c.n_memories; m++) gdn_buffer_destroy(p->ctx, &p->where[m]);
    gdn_buffer_destroy(p->ctx, &p->workspace);
    check_case_free(&p->c);
}

gdn_span placed_at(const placed *p, const char *operand)
{
    const int m = check_find(&p->c, operand)->memory;
    const check_memory *const memory = &p->c.memory[m];
    return (gdn_span){ (char *)p->where[m].data + memory->before, p->where[m].offset, memory->body };
}

void placed_put(const placed *p, const char *operand) { put(p, check_find(&p->c, operand)->memory); }

void placed_fill(placed *p, const char *operand, uint64_t seed)
{
    const check_memory *const memory = &p->c.memory[check_find(&p->c, operand)->memory];
    for (uint64_t at = 0; at < memory->body; at += 4) {
        const float x = (float)(int32_t)(test_random(&seed) >> 32) * 0x1p-34f;
        memcpy(memory->image + memory->before + at, &x, 4);
    }
    placed_put(p, operand);
}

void placed_map(placed *p, const char *map, const int32_t *values)
{
    check_put_map(&p->c, map, values);
    placed_put(p, map);
}

gdn_status placed_run(placed *p, gdn_stream stream) { return p->c.kernel->run(p->ctx, &p->args, stream); }

int placed_same(const placed *a, const placed *b)
{
    int same = 1;
    for (int m = 0; m < a->c.n_memories; m++) {
        const uint64_t bytes = a->c.memory[m].bytes;
        unsigned char *const x = malloc(bytes), *const y = malloc(bytes);
        REQUIRE(x && y && gdn_buffer_read(a->ctx, &a->where[m], 0, x, bytes) == GDN_OK &&
                gdn_buffer_read(b->ctx, &b->where[m], 0, y, bytes) == GDN_OK);
        same &= !memcmp(x, y, bytes);
        free(x), free(y);
    }
    return same;
}
