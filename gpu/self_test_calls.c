/* The self-test calls (GDN_KNOWN_ANSWERS). See self_test.h. gpu/<kernel>.c makes the calls of each kernel: as small as
 * a call can be that executes all steps of the kernel. Every number is a small integer times a power of two, so that no
 * compiler's arithmetic affects it. Numbers are exact in 16 bits, except for set_rows, which rounds them. */
#include <string.h>

#include "gpu/probe.h"
#include "gpu/self_test.h"

enum { ALIGNMENT = 64, WORKSPACE_BYTES = 7 << 16 };

static uint64_t bytes_of(int32_t dtype, uint64_t n)
{
    return dtype == GDN_Q8_0 ? n / 32 * 34 : n * (dtype == GDN_F32 || dtype == GDN_I32 ? 4 : 2);
}

static uint64_t add(gdn_gpu_test_call *c, gdn_gpu_part part)
{
    part.at = (c->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    c->bytes = part.at + bytes_of(part.dtype, part.n);
    c->part[c->n_parts++] = part;
    return part.at;
}

gdn_tensor gdn_gpu_test_tensor(gdn_gpu_test_call *c, int32_t dtype, int n, int values)
{
    const uint64_t at = add(c, (gdn_gpu_part){ .n = (uint32_t)n, .dtype = dtype, .values = values });
    return (gdn_tensor){ .data = c->data, .offset = at, .bytes = c->bytes - at, .dtype = dtype };
}

gdn_pool gdn_gpu_test_pool(gdn_gpu_test_call *c, int32_t dtype, int n_rows, int n_slots, int slot, int values)
{
    const gdn_tensor t = gdn_gpu_test_tensor(c, dtype, n_rows * n_slots * slot, values);
    return (gdn_pool){
        .data = t.data, .offset = t.offset, .bytes = t.bytes, .dtype = dtype, .n_rows = n_rows, .n_slots = n_slots
    };
}

gdn_span gdn_gpu_test_map(gdn_gpu_test_call *c, const int32_t *values, int n)
{
    const uint64_t at = add(c, (gdn_gpu_part){ .n = (uint32_t)n, .dtype = GDN_I32, .map = values });
    return (gdn_span){ .data = c->data, .offset = at, .bytes = c->bytes - at };
}

gdn_span gdn_gpu_test_workspace(const gdn_gpu_test_call *c)
{
    return (gdn_span){ .data = c->data, .offset = GDN_SELF_TEST_BYTES - WORKSPACE_BYTES, .bytes = WORKSPACE_BYTES };
}

void gdn_gpu_test_results(gdn_gpu_test_call *c)
{
    c->bytes = c->written = (c->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

const int32_t gdn_gpu_test_parents[GDN_SELF_TEST_TREE_TOKENS] = { GDN_NONE, 0, 0, 1 };

/* The calls of all kernels are numbered in the order of the kernels. */
void gdn_gpu_test_call_of(int number, void *data, gdn_gpu_test_call *c)
{
    static int (*const calls_of[GDN_KERNEL_COUNT])(int which, gdn_gpu_test_call *call) = {
        [GDN_KERNEL_gated_delta_net] = gdn_gpu_self_test_gated_delta_net,
        [GDN_KERNEL_ssm_conv] = gdn_gpu_self_test_ssm_conv,
        [GDN_KERNEL_set_rows] = gdn_gpu_self_test_set_rows,
    };
    memset(c, 0, sizeof *c);
    c->data = data;
    int kernel = 0;
    for (; kernel < GDN_KERNEL_COUNT - 1 && number >= calls_of[kernel](-1, c); kernel++)
        number -= calls_of[kernel](-1, c);
    c->kernel = (gdn_kernel)kernel;
    (void)calls_of[kernel](number, c);
}

/* ---- Contents ---- */

/* n / 2^shift as an element of the type. */
static uint32_t element(int32_t dtype, int n, int shift)
{
    uint32_t magnitude = (uint32_t)(n < 0 ? -n : n);
    const uint32_t sign = n < 0 ? 1 : 0;
    const int top = dtype == GDN_F16 ? 10 : dtype == GDN_BF16 ? 7 : 23, bias = dtype == GDN_F16 ? 15 : 127;
    const int sign_at = dtype == GDN_F32 ? 31 : 15;
    if (!magnitude) return 0;
    int exponent = bias + top - shift;
    for (; magnitude < 1u << top; magnitude <<= 1) exponent--;
    return sign << sign_at | (uint32_t)exponent << top | (magnitude & ((1u << top) - 1));
}

static uint32_t value(const gdn_gpu_part *part, uint64_t *random)
{
    const uint32_t x = gdn_gpu_random(random);
    switch (part->values) {
    case GDN_SELF_TEST_GATES: return element(part->dtype, -(int)(x & 63), 6);
    case GDN_SELF_TEST_SHARES: return element(part->dtype, 1 + (int)(x & 63), 6);
    case GDN_SELF_TEST_OF_SIXTEENTHS: return element(part->dtype, (int)(x & 255) - 128, 11);
    case GDN_SELF_TEST_LONG: return element(part->dtype, (int)(x & 0xfffff) - 0x80000, 20);
    default: return element(part->dtype, (int)(x & 255) - 128, 7);
    }
}

void gdn_gpu_test_fill(const gdn_gpu_test_call *c, unsigned char *memory)
{
    uint64_t random = 1;
    memset(memory, 0, c->bytes);
    for (uint32_t i = 0; i < c->n_parts; i++) {
        const gdn_gpu_part *part = &c->part[i];
        unsigned char *at = memory + part->at;
        if (part->map) {
            memcpy(at, part->map, 4 * (size_t)part->n);
            continue;
        }
        const size_t bytes = part->dtype == GDN_F32 ? 4 : 2;
        for (uint64_t e = 0; part->dtype != GDN_Q8_0 && e < part->n; e++) { /* Q8_0 rows are only written */
            const uint32_t whole = value(part, &random);
            const uint16_t low = (uint16_t)whole;
            if (bytes == 4) memcpy(at + 4 * e, &whole, 4);
            else memcpy(at + 2 * e, &low, 2);
        }
    }
}

uint64_t gdn_gpu_test_digest(const gdn_gpu_test_call *c, const unsigned char *memory)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (uint64_t i = c->written; i < c->bytes; i++) h = (h ^ memory[i]) * UINT64_C(0x100000001b3);
    return h;
}
