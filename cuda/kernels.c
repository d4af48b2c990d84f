/* The embedded image: code for every architecture of the build, and PTX for later ones. Opening a context loads it and
 * looks up all its kernels, so that no call has to load anything, not even while a stream is captured. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

#ifdef GDN_CUDA_IMAGE
/* The assembler includes the file. As a list of millions of bytes it would take a compiler many seconds. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".hidden gdn_cuda_image_bytes\n"
        ".globl gdn_cuda_image_bytes\n"
        ".type gdn_cuda_image_bytes, %object\n"
        "gdn_cuda_image_bytes:\n"
        ".incbin \"" GDN_CUDA_IMAGE "\"\n"
        ".size gdn_cuda_image_bytes, . - gdn_cuda_image_bytes\n"
        ".popsection\n");
extern const unsigned char gdn_cuda_image_bytes[] __attribute__((visibility("hidden")));
#else /* the tests' */
static const unsigned char gdn_cuda_image_bytes[] __attribute__((aligned(64))) = {
#include "gdn_cuda_image.inc"
};
#endif

static const char *const names[GDN_CUDA_KERNEL_COUNT] = {
#define X(name) "gdn_cuda_" #name,
    GDN_CUDA_KERNELS(X)
#undef X
};

const char *gdn_cuda_kernel_name(int32_t device_kernel) { return names[device_kernel] + sizeof "gdn_cuda_" - 1; }

/* The failure, with the versions that decide whether a driver can use the image. */
static gdn_status fail_to_load(gdn_cuda_device *dev, CUresult result)
{
    char text[384];
    const gdn_status status = gdn_cuda_fail(dev, dev->cu, result, "cuModuleLoadData");
    if (status != GDN_UNAVAILABLE) return status;
    (void)snprintf(text, sizeof text, "%s", gdn_last_error());
    return gdn_fail(
        status,
        "%s: the driver is of CUDA %d.%d, the kernels were made with CUDA %d.%d, and the device has compute "
        "capability %d.%d; one that they have no code for takes their PTX, which needs a driver of CUDA "
        "%d.%d or newer",
        text, dev->cu->version / 1000, dev->cu->version % 1000 / 10, GDN_CUDA_TOOLKIT / 1000,
        GDN_CUDA_TOOLKIT % 1000 / 10, dev->traits.major, dev->traits.minor, GDN_CUDA_TOOLKIT / 1000,
        GDN_CUDA_TOOLKIT % 1000 / 10);
}

/* 1 for devices with dependent launch, drivers that can also capture it, and code that waits (cuda/kernel.cuh). If an
 * image has no code for the device, the driver makes some from older PTX, which may have no wait. */
static int can_wait(const gdn_cuda_device *dev)
{
    int ptx = 0;
    if (dev->traits.major < 9 || dev->cu->version < 12030 || !dev->cu->LaunchKernelEx || !dev->cu->FuncGetAttribute)
        return 0;
    return dev->cu->FuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, dev->kernels[0]) == CUDA_SUCCESS && ptx >= 90;
}

gdn_status gdn_cuda_kernels_open(gdn_cuda_device *dev)
{
    CUresult result = dev->cu->ModuleLoadData(&dev->module, gdn_cuda_image_bytes);
    if (result != CUDA_SUCCESS) {
        dev->module = NULL;
        return fail_to_load(dev, result);
    }
    for (int i = 0; i < GDN_CUDA_KERNEL_COUNT; i++)
        if ((result = dev->cu->ModuleGetFunction(&dev->kernels[i], dev->module, names[i])) != CUDA_SUCCESS) {
            char call[96];
            (void)snprintf(call, sizeof call, "cuModuleGetFunction(%s)", names[i]);
            return gdn_cuda_fail(dev, dev->cu, result, call);
        }
    dev->dependent_launch = dev->dependent_launch && can_wait(dev);
    return GDN_OK;
}

void gdn_cuda_kernels_close(gdn_cuda_device *dev)
{
    if (dev->module) (void)dev->cu->ModuleUnload(dev->module);
    dev->module = NULL;
}
