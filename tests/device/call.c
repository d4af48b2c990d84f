/* See call.h. */
#include "tests/device/call.h"

#include <stdlib.h>
#include <string.h>

#include "tests/device/device.h"

enum { GUARD = 256 }; /* bytes before and after every operand */

#define KERNEL(stem)                                                                                     \
    static gdn_status query_##stem(const gdn_context *ctx, const void *args, gdn_capability *c)          \
    {                                                                                                    \
        return gdn_##stem##_query(ctx, args, c);                                                         \
    }                                                                                                    \
    static gdn_status run_##stem(gdn_context *ctx, const void *args)                                     \
    {                                                                                                    \
        return gdn_##stem(ctx, args, NULL);                                                              \
    }                                                                                                    \
    const device_kernel device_kernel_##stem = { sizeof(gdn_##stem##_args), offsetof(gdn_##stem##_args, workspace), \
                                                 query_##stem, run_##stem };
KERNEL(gated_delta_net)
KERNEL(ssm_conv)
KERNEL(set_rows)

/* data and offset are the first members of tensors and of spans. */
_Static_assert(offsetof(gdn_span, offset) == offsetof(gdn_tensor, offset), "one of the two is set for both");
static void set_data(any_args *args, size_t field, void *data, uint64_t offset)
{
    memcpy((char *)args + field, &data, sizeof data);
    memcpy((char *)args + field + offsetof(gdn_span, offset), &offset, sizeof offset);
}

void device_reference(const device_kernel *k, any_args args, const device_operand *o, int n)
{
    gdn_context *ctx = NULL;
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    for (int i = 0; i < n; i++)
        set_data(&args, o[i].field, o[i].host, 0);
    CHECK(gdn_context_create(&desc, &ctx) == GDN_OK && k->run(ctx, &args) == GDN_OK);
    gdn_context_destroy(ctx);
}

gdn_status device_run(gdn_context *ctx, const device_kernel *k, any_args args, const device_operand *o, int n)
{
    gdn_span span[MAX_OPERANDS + 1] = { { 0 } };
    gdn_capability c = { .size = sizeof c };
    for (int i = 0; i < n; i++) {
        const uint64_t bytes = o[i].bytes + 2 * GUARD;
        unsigned char *image = malloc(bytes);
        memset(image, 0xA5, bytes);
        memcpy(image + GUARD, o[i].host, o[i].bytes);
        CHECK(gdn_buffer_create(ctx, bytes, &span[i]) == GDN_OK && gdn_buffer_write(ctx, &span[i], 0, image, bytes) == GDN_OK);
        set_data(&args, o[i].field, span[i].data, span[i].offset + GUARD);
        free(image);
    }
    CHECK(k->query(ctx, &args, &c) == GDN_OK && c.supported);
    CHECK(!c.workspace_bytes || gdn_buffer_create(ctx, c.workspace_bytes, &span[n]) == GDN_OK);
    memcpy((char *)&args + k->workspace, &span[n], sizeof span[n]);
    CHECK(k->run(ctx, &args) == GDN_OK);
    const gdn_status status = gdn_synchronize(ctx, NULL);
    for (int i = 0; i < n; i++) {
        const uint64_t bytes = o[i].bytes + 2 * GUARD;
        unsigned char *image = malloc(bytes);
        uint64_t touched = 0;
        CHECK(gdn_buffer_read(ctx, &span[i], 0, image, bytes) == GDN_OK);
        for (uint64_t b = 0; b < GUARD; b++)
            touched += (image[b] != 0xA5) + (image[GUARD + o[i].bytes + b] != 0xA5);
        CHECK(!touched); /* nothing is written out of range */
        memcpy(o[i].host, image + GUARD, o[i].bytes);
        free(image);
    }
    for (int i = 0; i <= n; i++)
        gdn_buffer_destroy(ctx, &span[i]);
    return status;
}

void device_fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}
