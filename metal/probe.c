/* The probe: runs the device's arithmetic on hard operands (gpu/probe.h). Metal guarantees that fma is fused, but not
 * that subnormals are kept. `exact` and `levels` are the probe's result. It also detects a compiler that ignores the
 * math mode. */
#include "gpu/probe.h"
#include "metal/device.h"

const char gdn_metal_implementation[] = "fma"; /* which Metal guarantees to be fused */

typedef struct probe_t {
    gdn_metal_device *dev;
    gdn_id memory;
} probe_t;

static gdn_status run(void *user)
{
    const probe_t *x = user;
    const gdn_gpu_probe params = { .n = GDN_PROBE_OPERANDS };
    const gdn_metal_dispatch dispatch = {
        .kernel = GDN_METAL_probe_arithmetic,
        .params = &params,
        .params_bytes = sizeof params,
        .groups = (GDN_PROBE_OPERANDS + GDN_METAL_PROBE_THREADS - 1) / GDN_METAL_PROBE_THREADS,
        .threads = GDN_METAL_PROBE_THREADS,
        .n_bindings = 2,
        .bindings = { { x->memory, 0 }, { x->memory, GDN_PROBE_IN_BYTES } },
    };
    const gdn_status status = gdn_metal_run(x->dev, &dispatch, 1, NULL);
    return status ? status : gdn_metal_wait(x->dev);
}

gdn_status gdn_metal_probe(gdn_metal_device *dev, gdn_gpu_variants *variants)
{
    char reason[GDN_REASON_MAX] = "";
    int flushes = 0;
    probe_t x = { .dev = dev };
    gdn_status status = gdn_metal_allocate(dev, GDN_PROBE_BYTES, &x.memory);
    if (!status)
        status =
            gdn_gpu_probe_arithmetic(gdn_send(dev->rt, x.memory, dev->rt->sel.contents), run, &x, reason, &flushes);
    if (x.memory) dev->rt->release(x.memory);
    const uint32_t levels = !reason[0] ? 1u << GDN_EXACT : flushes ? 1u << GDN_EXACT_FTZ : 0;
    if (!status) gdn_gpu_add_variant(variants, gdn_metal_implementation, 0, 0, levels, reason);
    return status;
}
