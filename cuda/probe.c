/* The probe: runs the device's arithmetic on hard operands (gpu/probe.h). Every CUDA device computes IEEE arithmetic
 * with a fused fma, so no difference is expected. `exact` is the probe's result all the same. It also detects a wrong
 * compiler option. */
#include <stdlib.h>

#include "core/status.h"
#include "cuda/device.h"
#include "gpu/probe.h"

const char gdn_cuda_implementation[] = "fma"; /* fused on every CUDA device */

typedef struct probe_t {
    gdn_cuda_device *dev;
    char *host;
    CUdeviceptr memory;
} probe_t;

static gdn_status run(void *user)
{
    const probe_t *x = user;
    const CUdeviceptr results = x->memory + GDN_PROBE_IN_BYTES;
    const gdn_gpu_probe params = { .operands = x->memory, .results = results, .n = GDN_PROBE_OPERANDS };
    const uint64_t blocks = (GDN_PROBE_OPERANDS + GDN_CUDA_PROBE_THREADS - 1) / GDN_CUDA_PROBE_THREADS;
    gdn_status status;
    if ((status = gdn_cuda_copy_in(x->dev, x->memory, x->host, GDN_PROBE_BYTES)) ||
        (status = gdn_cuda_launch(x->dev, GDN_CUDA_probe_arithmetic, x->dev->stream, blocks, GDN_CUDA_PROBE_THREADS,
                                  &params)))
        return status;
    return gdn_cuda_copy_out(x->dev, x->host + GDN_PROBE_IN_BYTES, results, GDN_PROBE_BYTES - GDN_PROBE_IN_BYTES);
}

gdn_status gdn_cuda_probe(void *device, gdn_gpu_variants *variants)
{
    gdn_cuda_device *dev = device;
    char reason[GDN_REASON_MAX];
    gdn_cuda_scope scope;
    gdn_status status;
    probe_t x = { .dev = dev, .host = malloc(GDN_PROBE_BYTES) };
    if (!x.host) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the probe of %d bytes", GDN_PROBE_BYTES);
    if ((status = gdn_cuda_enter(dev, &scope))) {
        free(x.host);
        return status;
    }
    const CUresult result = dev->cu->MemAlloc(&x.memory, GDN_PROBE_BYTES);
    if (result != CUDA_SUCCESS) {
        status = gdn_cuda_fail(dev, dev->cu, result, "cuMemAlloc");
    } else {
        status = gdn_gpu_probe_arithmetic(x.host, run, &x, reason, NULL);
        if (status != GDN_TIMEOUT) /* else it is still running */
            (void)dev->cu->MemFree(x.memory);
    }
    gdn_cuda_leave(dev, &scope);
    if (!status) gdn_gpu_add_variant(variants, gdn_cuda_implementation, 0, 0, reason[0] ? 0 : 1u << GDN_EXACT, reason);
    free(x.host);
    return status;
}
