/* The probe: runs the device's arithmetic on hard operands and compares with the contract's (core/probe.h). Metal
 * says that fma is fused, and leaves it to devices whether subnormals are kept; `exact` is what was found. A compiler that did
 * not heed the math mode would be found here too. As vulkan/probe.c. */
#include <pthread.h>
#include <string.h>

#include "core/float_env.h"
#include "core/probe.h"
#include "core/status.h"
#include "metal/device.h"

_Static_assert(GDN_METAL_PROBE_RESULTS == GDN_PROBE_RESULTS, "the kernel writes what core/probe.h lists");

static gdn_status run(gdn_metal_device *dev, const gdn_metal_probe *params, gdn_id in, gdn_id out)
{
    const gdn_metal_dispatch dispatch = {
        .kernel = GDN_METAL_probe_arithmetic, .params = params, .params_bytes = sizeof *params,
        .groups = (GDN_PROBE_OPERANDS + GDN_METAL_PROBE_THREADS - 1) / GDN_METAL_PROBE_THREADS, .threads = GDN_METAL_PROBE_THREADS, .n_bindings = 2,
        .bindings = { { in, 0 }, { out, 0 } },
    };
    const gdn_status status = gdn_metal_run(dev, &dispatch, 1, NULL);
    return status ? status : gdn_metal_wait(dev);
}

gdn_status gdn_metal_probe_device(gdn_metal_device *dev)
{
    const uint64_t out_bytes = (uint64_t)GDN_PROBE_OPERANDS * GDN_METAL_PROBE_RESULTS * 4;
    const gdn_metal_probe params = { .n = GDN_PROBE_OPERANDS };
    const gdn_objc *rt = dev->rt;
    gdn_id in = NULL, out = NULL;
    gdn_status status;
    const gdn_float_env caller = gdn_float_env_enter();
    if (!(status = gdn_metal_allocate(dev, GDN_PROBE_OPERANDS * sizeof(gdn_probe_triple), &in)) && !(status = gdn_metal_allocate(dev, out_bytes, &out))) {
        gdn_probe_triple *list = gdn_send(rt, in, rt->sel.contents);
        uint32_t *results = gdn_send(rt, out, rt->sel.contents);
        gdn_probe_fill(list);
        memset(results, 0xa5, out_bytes);
        if (!(status = run(dev, &params, in, out)))
            gdn_probe_compare(list, results, dev->reason);
    }
    gdn_float_env_leave(caller);
    if (in)
        rt->release(in);
    if (out)
        rt->release(out);
    dev->exact = !status && !dev->reason[0];
    return status;
}

gdn_status gdn_metal_exact_of_default(int *exact, char reason[GDN_REASON_MAX])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int  known, known_exact;
    static char known_reason[GDN_REASON_MAX];
    gdn_status status = GDN_OK;
    (void)pthread_mutex_lock(&lock);
    if (!known) {
        gdn_metal_device dev = { 0 };
        if (!(status = gdn_metal_device_open(&dev, NULL, 0, NULL)) && !(status = gdn_metal_probe_device(&dev))) {
            known       = 1;
            known_exact = dev.exact;
            memcpy(known_reason, dev.reason, sizeof known_reason);
        }
        gdn_metal_device_close(&dev);
    }
    *exact = known_exact;
    memcpy(reason, known_reason, GDN_REASON_MAX);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
