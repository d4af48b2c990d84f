/* The probe: runs the device's arithmetic on hard operands and compares with the contract's (core/probe.h).
 * Every CUDA device that there is computes IEEE arithmetic with a fused fma, so nothing is expected to differ; `exact` is
 * what was found all the same, and the wrong compiler option would be found here too. As vulkan/probe.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/float_env.h"
#include "core/probe.h"
#include "core/status.h"
#include "cuda/device.h"

_Static_assert(GDN_CUDA_PROBE_RESULTS == GDN_PROBE_RESULTS, "the kernel writes what core/probe.h lists");

static gdn_status run(gdn_cuda_device *dev, gdn_probe_triple *in, uint32_t *out, CUdeviceptr memory)
{
    const uint64_t in_bytes = GDN_PROBE_OPERANDS * sizeof(gdn_probe_triple), out_bytes = (uint64_t)GDN_PROBE_OPERANDS * GDN_CUDA_PROBE_RESULTS * 4;
    const gdn_cuda_probe params = { .operands = memory, .results = memory + in_bytes, .n = GDN_PROBE_OPERANDS };
    gdn_status status;
    memset(out, 0xa5, out_bytes);
    if ((status = gdn_cuda_copy_in(dev, memory, in, in_bytes)) || (status = gdn_cuda_copy_in(dev, memory + in_bytes, out, out_bytes)) ||
        (status = gdn_cuda_launch(dev, GDN_CUDA_probe_arithmetic, dev->stream, (GDN_PROBE_OPERANDS + GDN_CUDA_PROBE_THREADS - 1) / GDN_CUDA_PROBE_THREADS,
                                  GDN_CUDA_PROBE_THREADS, &params)))
        return status;
    return gdn_cuda_copy_out(dev, out, memory + in_bytes, out_bytes);
}

gdn_status gdn_cuda_probe_device(gdn_cuda_device *dev)
{
    const uint64_t in_bytes = GDN_PROBE_OPERANDS * sizeof(gdn_probe_triple), out_bytes = (uint64_t)GDN_PROBE_OPERANDS * GDN_CUDA_PROBE_RESULTS * 4;
    gdn_cuda_scope scope;
    CUdeviceptr    memory = 0;
    gdn_status     status;
    gdn_probe_triple *in = malloc(in_bytes + out_bytes);
    if (!in)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the probe of %llu bytes", (unsigned long long)(in_bytes + out_bytes));
    uint32_t *out = (uint32_t *)(void *)((char *)in + in_bytes);
    if ((status = gdn_cuda_enter(dev, &scope))) {
        free(in);
        return status;
    }
    const gdn_float_env caller = gdn_float_env_enter();
    gdn_probe_fill(in);
    const CUresult result = dev->cu->MemAlloc(&memory, in_bytes + out_bytes);
    if (result != CUDA_SUCCESS) {
        status = gdn_cuda_fail(dev, dev->cu, result, "cuMemAlloc");
    } else {
        if (!(status = run(dev, in, out, memory)))
            gdn_probe_compare(in, out, dev->reason);
        if (status != GDN_TIMEOUT) /* else it is still running */
            (void)dev->cu->MemFree(memory);
    }
    gdn_float_env_leave(caller);
    gdn_cuda_leave(dev, &scope);
    dev->exact = !status && !dev->reason[0];
    free(in);
    return status;
}

/* ---- Once per device of the process's list ----------------------------------------------------------- */

gdn_status gdn_cuda_exact_of(uint32_t index, int *exact, char reason[GDN_REASON_MAX])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        int  known, exact;
        char reason[GDN_REASON_MAX];
    } devices[GDN_CUDA_MAX_DEVICES];
    gdn_status status = GDN_OK;
    (void)pthread_mutex_lock(&lock);
    if (!devices[index].known) {
        gdn_cuda_device dev = { 0 };
        if (!(status = gdn_cuda_device_open(&dev, NULL, index, NULL)) && !(status = gdn_cuda_probe_device(&dev))) {
            devices[index].known = 1;
            devices[index].exact = dev.exact;
            memcpy(devices[index].reason, dev.reason, sizeof dev.reason);
        }
        gdn_cuda_device_close(&dev);
    }
    *exact = devices[index].exact;
    memcpy(reason, devices[index].reason, GDN_REASON_MAX);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
