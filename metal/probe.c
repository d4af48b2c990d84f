/* The probe: runs the device's arithmetic on hard operands (gpu/probe.h). Metal says that fma is fused, and leaves it to
 * devices whether subnormals are kept; `exact` is what was found. A compiler that did not heed the math mode would be found
 * here too. */
#include <pthread.h>
#include <string.h>

#include "core/status.h"
#include "gpu/probe.h"
#include "metal/device.h"

typedef struct probe_t {
    gdn_metal_device *dev;
    gdn_id            memory;
} probe_t;

static gdn_status run(void *user)
{
    const probe_t *x = user;
    const gdn_gpu_probe params = { .n = GDN_PROBE_OPERANDS };
    const gdn_metal_dispatch dispatch = {
        .kernel = GDN_METAL_probe_arithmetic, .params = &params, .params_bytes = sizeof params,
        .groups = (GDN_PROBE_OPERANDS + GDN_METAL_PROBE_THREADS - 1) / GDN_METAL_PROBE_THREADS, .threads = GDN_METAL_PROBE_THREADS,
        .n_bindings = 2, .bindings = { { x->memory, 0 }, { x->memory, GDN_PROBE_IN_BYTES } },
    };
    const gdn_status status = gdn_metal_run(x->dev, &dispatch, 1, NULL);
    return status ? status : gdn_metal_wait(x->dev);
}

gdn_status gdn_metal_probe_device(gdn_metal_device *dev)
{
    probe_t x = { .dev = dev };
    gdn_status status = gdn_metal_allocate(dev, GDN_PROBE_BYTES, &x.memory);
    if (!status)
        status = gdn_gpu_probe_arithmetic(gdn_send(dev->rt, x.memory, dev->rt->sel.contents), run, &x, dev->reason);
    if (x.memory)
        dev->rt->release(x.memory);
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
