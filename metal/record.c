/* Encodes a call: into an encoder or a command buffer of the caller, or into a command buffer of our own, which it
 * commits. See device.h. */
#include "core/status.h"
#include "metal/device.h"

gdn_gpu_device gdn_metal_gpu(void)
{
    return (gdn_gpu_device){ .most_blocks = GDN_METAL_MAX_GROUPS, .most_slots = UINT64_MAX };
}

void gdn_metal_bind(gdn_metal_dispatch *dispatch, const gdn_metal_device *dev, const gdn_problem *problem,
                    int workspace)
{
    const uint32_t n = (uint32_t)(problem->n_regions + workspace);
    for (uint32_t i = 0; i < n; i++)
        dispatch->bindings[i] =
            (gdn_metal_binding){ problem->regions[i].data, problem->regions[i].data ? problem->regions[i].offset : 0 };
    dispatch->bindings[n] = (gdn_metal_binding){ dev->bad_buffer, 0 };
    dispatch->n_bindings = n + 1;
}

/* Finds out what a stream is by the messages that it responds to, and returns an encoder. */
static gdn_status encoder_of(gdn_metal_device *dev, gdn_stream stream, gdn_id *encoder, int *ends)
{
    const gdn_objc *rt = dev->rt;
    *ends = 0;
    *encoder = stream;
    if (gdn_responds(rt, stream, rt->sel.dispatch)) return GDN_OK;
    if (!gdn_responds(rt, stream, rt->sel.computeCommandEncoder))
        return gdn_fail(
            GDN_INVALID_ARGUMENT,
            "stream is %p, which is no MTLCommandBuffer and no MTLComputeCommandEncoder; these and NULL are allowed",
            stream);
    const unsigned long state = gdn_number(rt, stream, rt->sel.status);
    if (state > GDN_MTL_STATUS_ENQUEUED)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "stream is %p, a command buffer of status %lu, which is committed already", stream, state);
    *ends = 1;
    *encoder = gdn_send(rt, stream, rt->sel.computeCommandEncoder);
    return *encoder ? GDN_OK : gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "computeCommandEncoder", NULL);
}

static void encode(const gdn_metal_device *dev, gdn_id encoder, gdn_id pipeline, const gdn_metal_dispatch *d)
{
    const gdn_objc *rt = dev->rt;
    const gdn_mtl_size groups = { (unsigned long)d->groups, 1, 1 }, threads = { d->threads, 1, 1 };
    gdn_tell_i(rt, encoder, rt->sel.setPipeline, pipeline);
    gdn_tell_pnn(rt, encoder, rt->sel.setBytes, d->params, d->params_bytes, 0);
    for (uint32_t i = 0; i < d->n_bindings; i++) { /* every binding needs some buffer */
        const gdn_metal_binding *b = &d->bindings[i];
        gdn_tell_pnn(rt, encoder, rt->sel.setBuffer, b->data ? b->data : dev->bad_buffer, b->offset, i + 1);
    }
    gdn_tell_sizes(rt, encoder, rt->sel.dispatch, groups, threads);
}

enum { MAX_DISPATCHES = 3 };

gdn_status gdn_metal_run(gdn_metal_device *dev, const gdn_metal_dispatch *dispatches, int n, gdn_stream stream)
{
    const gdn_objc *rt = dev->rt;
    gdn_id pipelines[MAX_DISPATCHES], commands = NULL, encoder;
    gdn_status status;
    int ends = 1;
    if (dev->lost) return gdn_metal_lost(dev);
    if (n > MAX_DISPATCHES)
        return gdn_fail(GDN_INTERNAL, "%d dispatches in one call; there is room for %d", n, MAX_DISPATCHES);
    for (int i = 0; i < n; i++)
        if ((status = gdn_metal_pipeline_get(dev, dispatches[i].kernel, dispatches[i].threads, &pipelines[i])))
            return status;
    if (!stream) {
        if ((status = gdn_metal_begin(dev, &commands))) return status;
        if (!(encoder = gdn_send(rt, commands, rt->sel.computeCommandEncoder)))
            return gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "computeCommandEncoder", NULL);
    } else if ((status = encoder_of(dev, stream, &encoder, &ends))) {
        return status;
    }
    for (int i = 0; i < n; i++) {
        /* Encoders may run dispatches in parallel, and buffers need not be tracked. */
        if (i || !ends) gdn_tell_n(rt, encoder, rt->sel.barrier, GDN_MTL_BARRIER_BUFFERS);
        encode(dev, encoder, pipelines[i], &dispatches[i]);
    }
    if (ends) gdn_tell(rt, encoder, rt->sel.endEncoding);
    if (commands) gdn_metal_submit(dev, commands);
    return GDN_OK;
}
