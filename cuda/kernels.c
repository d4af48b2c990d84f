/* The embedded image: code for every architecture of the build, and PTX for later ones. Opening a context looks up all
 * its kernels, so that no call has to load anything, not even while a stream is captured.
 *
 * The image is loaded once into a CUDA context, for all gdn_contexts that run there. They are counted, and the last of
 * them unloads it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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
#define X(name) [GDN_CUDA_##name] = "gdn_cuda_" #name,
    GDN_CUDA_KERNELS(X)
#undef X
};

const char *gdn_cuda_kernel_name(int32_t variant) { return names[variant] + sizeof "gdn_cuda_" - 1; }

/* The images that are loaded, and their lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gdn_cuda_image *images;

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

static gdn_status load(gdn_cuda_device *dev, gdn_cuda_image *image)
{
    CUresult result = dev->cu->ModuleLoadData(&image->module, gdn_cuda_image_bytes);
    if (result != CUDA_SUCCESS) return fail_to_load(dev, result);
    for (int i = 0; i < GDN_CUDA_KERNEL_COUNT; i++)
        if ((result = dev->cu->ModuleGetFunction(&image->kernels[i], image->module, names[i])) != CUDA_SUCCESS) {
            char call[96];
            (void)snprintf(call, sizeof call, "cuModuleGetFunction(%s)", names[i]);
            const gdn_status status = gdn_cuda_fail(dev, dev->cu, result, call);
            (void)dev->cu->ModuleUnload(image->module);
            return status;
        }
    return GDN_OK;
}

/* The image of this CUDA context, or NULL. A context is identified by its id too, since a new context may have the
 * address of a destroyed one. Drivers before CUDA 12 have no ids. There only primary contexts share an image: they are
 * not destroyed while they are retained. */
static gdn_cuda_image *find(const gdn_cuda_device *dev, unsigned long long id)
{
    for (gdn_cuda_image *image = images; image; image = image->next)
        if (image->context == dev->context && image->id == id && !image->lost && (id || dev->own_context)) return image;
    return NULL;
}

static gdn_status open_locked(gdn_cuda_device *dev)
{
    unsigned long long id = 0;
    if (dev->cu->CtxGetId && dev->cu->CtxGetId(dev->context, &id) != CUDA_SUCCESS) id = 0;
    gdn_cuda_image *image = find(dev, id);
    if (!image) {
        if (!(image = calloc(1, sizeof *image)))
            return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the record of an image of %zu bytes", sizeof *image);
        const gdn_status status = load(dev, image);
        if (status) {
            free(image);
            return status;
        }
        image->context = dev->context;
        image->id = id;
        image->next = images;
        images = image;
    }
    image->users++;
    dev->image = image;
    return GDN_OK;
}

gdn_status gdn_cuda_kernels_open(gdn_cuda_device *dev)
{
    (void)pthread_mutex_lock(&lock);
    const gdn_status status = open_locked(dev);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

void gdn_cuda_kernels_close(gdn_cuda_device *dev, int unload)
{
    gdn_cuda_image *image = dev->image;
    dev->image = NULL;
    if (!image) return;
    (void)pthread_mutex_lock(&lock);
    image->lost |= dev->lost;
    if (--image->users == 0) {
        gdn_cuda_image **at = &images;
        while (*at != image) at = &(*at)->next;
        *at = image->next;
        if (unload && !image->lost) (void)dev->cu->ModuleUnload(image->module);
        free(image);
    }
    (void)pthread_mutex_unlock(&lock);
}
