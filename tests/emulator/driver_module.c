/* Modules, functions and launches. A module's image is only looked at to see whether it is one: the kernels are those
 * that are linked into this library, and any image has them all. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>
#include <string.h>

/* A fat binary, a cubin (ELF), PTX, or the text that stands for an image in a build without nvcc. */
static int is_image(const void *image)
{
    static const unsigned char fat[] = { 0x50, 0xed, 0x55, 0xba }, elf[] = { 0x7f, 'E', 'L', 'F' };
    static const unsigned char wrapper[] = { 0xb1, 0x43, 0x62, 0x46 };
    return memcmp(image, fat, 4) == 0 || memcmp(image, elf, 4) == 0 || memcmp(image, wrapper, 4) == 0 ||
           memcmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0 || strncmp(image, "GDN_SIMT", 8) == 0;
}

simt_result cuModuleLoadData(simt_module **out, const void *image)
{
    ENTER_CONTEXT();
    if (!out || !image) LEAVE(SIMT_INVALID_VALUE);
    if (!is_image(image)) LEAVE(SIMT_INVALID_IMAGE);
    *out = simt_new_handle(SIMT_MODULE, sizeof **out, context);
    LEAVE(*out ? SIMT_SUCCESS : SIMT_OUT_OF_MEMORY);
}

simt_result cuModuleUnload(simt_module *module)
{
    ENTER();
    if (!simt_is(module, SIMT_MODULE)) LEAVE(SIMT_INVALID_HANDLE);
    simt_context *context = module->handle.context;
    if (!simt_settings.hang) simt_drain_context(context);
    for (simt_handle *h = simt_handles(SIMT_FUNCTION), *next; h; h = next) {
        next = h->next;
        if (((simt_function *)(void *)h)->module == module) simt_drop_handle(h);
    }
    simt_drop_handle(module);
    LEAVE(context->error);
}

simt_result cuModuleGetFunction(simt_function **out, simt_module *module, const char *name)
{
    ENTER();
    if (!out || !name) LEAVE(SIMT_INVALID_VALUE);
    if (!simt_is(module, SIMT_MODULE)) LEAVE(SIMT_INVALID_HANDLE);
    if (module->handle.context->error) LEAVE(module->handle.context->error);
    const simt_kernel *kernel = simt_find_kernel(name);
    if (!kernel) LEAVE(SIMT_NOT_FOUND);
    simt_function *function = simt_new_handle(SIMT_FUNCTION, sizeof *function, module->handle.context);
    if (!function) LEAVE(SIMT_OUT_OF_MEMORY);
    function->kernel = kernel;
    function->module = module;
    GIVE(out, function);
}

simt_result cuLaunchKernel(simt_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, simt_stream *named, void **params,
                           void **extra)
{
    ENTER_CONTEXT();
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    if (function->handle.context != context) LEAVE(SIMT_INVALID_CONTEXT);
    simt_stream *stream = simt_find_stream(context, named);
    if (!stream) LEAVE(SIMT_INVALID_HANDLE);
    const simt_kernel *kernel = function->kernel;
    const uint64_t threads = (uint64_t)block_x * block_y * block_z;
    if (!grid_x || !grid_y || !grid_z || grid_x > 0x7fffffffu || grid_y > 65535 || grid_z > 65535 || !threads ||
        block_x > 1024 || block_y > 1024 || block_z > 64 || threads > kernel->max_threads)
        LEAVE(SIMT_INVALID_VALUE);
    /* No kernel has dynamic shared memory, and all have their struct in kernelParams. */
    if (shared || !params || extra) LEAVE(SIMT_INVALID_VALUE);
    simt_work *work = simt_new_work(SIMT_KERNEL, kernel->param_bytes);
    if (work) {
        work->kernel = kernel;
        work->grid = (simt_dim3){ grid_x, grid_y, grid_z };
        work->block = (simt_dim3){ block_x, block_y, block_z };
        memcpy(work->params, params[0], kernel->param_bytes);
    }
    LEAVE(simt_submit(stream, work));
}
