/* The image: code for every architecture, and PTX for those to come, as the build embeds it; and its kernels, all
 * looked up when a context is opened, so that no call has to load anything, not even while a stream is captured. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

#ifdef GDN_CUDA_IMAGE
/* The assembler takes the file in as it is; a list of its bytes, millions, takes a compiler many seconds. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".hidden gdn_cuda_image\n"
        ".globl gdn_cuda_image\n"
        ".type gdn_cuda_image, %object\n"
        "gdn_cuda_image:\n"
        ".incbin \"" GDN_CUDA_IMAGE "\"\n"
        ".size gdn_cuda_image, . - gdn_cuda_image\n"
        ".popsection\n");
extern const unsigned char gdn_cuda_image[] __attribute__((visibility("hidden")));
#else /* the tests' */
static const unsigned char gdn_cuda_image[] __attribute__((aligned(64))) = {
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
    CUresult result = dev->cu->ModuleLoadData(&dev->module, gdn_cuda_image);
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
