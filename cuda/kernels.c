/* The image: code for every architecture, and PTX for those to come, as the build embeds it; and its kernels, all looked up
 * when a context is opened, so that no call has to load anything, not even while a stream is captured. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

#ifdef GDN_CUDA_EMULATED
/* No nvcc: for the tests' fake driver, which has the kernels itself, and knows this image by its text. */
static const char image[] = "GDN_SIMT: an image for the emulator, without code";
#else
static const unsigned char image[] __attribute__((aligned(64))) = {
#include "gdn_cuda_image.inc"
};
#endif

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
#ifdef GDN_CUDA_EMULATED
        if (result == CUDA_ERROR_INVALID_IMAGE)
            return gdn_fail(GDN_UNAVAILABLE, "this build of libgdn has CUDA kernels for the emulator only, and %s is none", dev->traits.name);
#endif
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
