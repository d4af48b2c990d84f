/* The image: code for every architecture, and PTX for those to come, as the build embeds it; and its kernels, all
 * looked up when a context is opened, so that no call has to load anything, not even while a stream is captured. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

static const unsigned char image[] __attribute__((aligned(64))) = {
#include "gdn_cuda_image.inc"
};

gdn_status gdn_cuda_kernels_open(gdn_cuda_device *dev)
{
    static const char *const names[GDN_CUDA_KERNEL_COUNT] = {
#define X(name) [GDN_CUDA_##name] = "gdn_cuda_" #name,
        GDN_CUDA_KERNELS(X)
#undef X
    };
    CUresult result = dev->cu->ModuleLoadData(&dev->module, image);
    if (result != CUDA_SUCCESS) {
        dev->module = NULL;
        return gdn_cuda_fail(dev, dev->cu, result, "cuModuleLoadData");
    }
    for (int i = 0; i < GDN_CUDA_KERNEL_COUNT; i++)
        if ((result = dev->cu->ModuleGetFunction(&dev->kernels[i], dev->module, names[i])) != CUDA_SUCCESS) {
            char call[96];
            (void)snprintf(call, sizeof call, "cuModuleGetFunction(%s)", names[i]);
            return gdn_cuda_fail(dev, dev->cu, result, call);
        }
    return GDN_OK;
}
