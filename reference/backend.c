/* The reference as a backend of its own, so that everything can be compared with it through one interface. */
#include <stdio.h>

#include "core/backend.h"
#include "core/float_env.h"
#include "core/status.h"
#include "reference/reference.h"

static uint32_t device_count(char reason[GDN_REASON_MAX])
{
    reason[0] = 0;
    return 1;
}

static gdn_status describe_device(uint32_t device, gdn_device_info *info)
{
    (void)device;
    (void)snprintf(info->name, sizeof info->name, "scalar reference");
    info->n_implementations = 1;
    info->shared_memory     = 1;
    return GDN_OK;
}

static gdn_status describe_implementation(uint32_t device, uint32_t index, gdn_implementation_info *info)
{
    (void)device, (void)index;
    (void)snprintf(info->name, sizeof info->name, "scalar");
    info->exact = 1;
    return GDN_OK;
}

static gdn_status open_reference(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    (void)ctx, (void)implementation;
    if (desc->native)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->native is %p; on the reference backend it must be NULL", desc->native);
    return GDN_OK;
}

static void close_reference(gdn_context *ctx)
{
    (void)ctx;
}

static gdn_status query(const gdn_context *ctx, int kernel, const void *problem, gdn_capability *c)
{
    (void)ctx, (void)kernel, (void)problem;
    c->supported = c->exact = 1;
    (void)snprintf(c->implementation, sizeof c->implementation, "scalar");
    return GDN_OK;
}

static gdn_status run(gdn_context *ctx, int kernel, const void *problem, gdn_stream stream)
{
    gdn_status status = gdn_host_synchronize(ctx, stream); /* refuses a stream */
    if (status)
        return status;
    const gdn_float_env caller = gdn_float_env_enter();
    if (kernel == GDN_KERNEL_gated_delta_net) {
        const gdn_gated_delta_net_problem *p = problem;
        for (int32_t s = 0; s < p->n_seqs; s++)
            for (int32_t h = 0; h < p->n_heads_v; h++)
                gdn_ref_gated_delta_net(p, s, h);
    } else if (kernel == GDN_KERNEL_ssm_conv) {
        const gdn_ssm_conv_problem *p = problem;
        for (int32_t s = 0; s < p->n_seqs; s++)
            gdn_ref_ssm_conv(p, s, 0, p->n_channels);
    } else {
        const gdn_set_rows_problem *p = problem;
        for (int64_t b = 0; b < p->n_batch[0]; b++)
            for (int64_t c = 0; c < p->n_batch[1]; c++)
                gdn_ref_set_rows(p, b, c);
    }
    gdn_float_env_leave(caller);
    return GDN_OK;
}

const gdn_backend gdn_backend_reference = {
    .id = GDN_BACKEND_REFERENCE, .name = "reference",
    .device_count = device_count, .describe_device = describe_device, .describe_implementation = describe_implementation,
    .open = open_reference, .close = close_reference, .host_memory = 1, .data_is_address = 1, .query = query, .run = run,
    .synchronize = gdn_host_synchronize, .poll = gdn_host_poll,
    .buffer_create = gdn_host_buffer_create, .buffer_destroy = gdn_host_buffer_destroy,
    .buffer_write = gdn_host_buffer_write, .buffer_read = gdn_host_buffer_read,
};
