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

static simt_result launch(simt_context *context, simt_function *function, const simt_launch_config *at, void **params,
                          void **extra)
{
    if (!simt_is(function, SIMT_FUNCTION)) return SIMT_INVALID_HANDLE;
    if (function->handle.context != context) return SIMT_INVALID_CONTEXT;
    simt_stream *stream = simt_find_stream(context, at->stream);
    if (!stream) return SIMT_INVALID_HANDLE;
    const simt_kernel *kernel = function->kernel;
    const uint64_t threads = (uint64_t)at->block[0] * at->block[1] * at->block[2];
    if (!at->grid[0] || !at->grid[1] || !at->grid[2] || at->grid[0] > 0x7fffffffu || at->grid[1] > 65535 ||
        at->grid[2] > 65535 || !threads || at->block[0] > 1024 || at->block[1] > 1024 || at->block[2] > 64 ||
        threads > kernel->max_threads)
        return SIMT_INVALID_VALUE;
    /* No kernel has dynamic shared memory, and all have their struct in kernelParams. */
    if (at->shared || !params || extra) return SIMT_INVALID_VALUE;
    simt_work *work = simt_new_work(SIMT_KERNEL, kernel->param_bytes);
    if (work) {
        work->kernel = kernel;
        work->grid = (simt_dim3){ at->grid[0], at->grid[1], at->grid[2] };
        work->block = (simt_dim3){ at->block[0], at->block[1], at->block[2] };
        memcpy(work->params, params[0], kernel->param_bytes);
    }
    return simt_submit(stream, work);
}

simt_result cuLaunchKernel(simt_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, simt_stream *stream, void **params,
                           void **extra)
{
    ENTER_CONTEXT();
    const simt_launch_config at = {
        { grid_x, grid_y, grid_z }, { block_x, block_y, block_z }, shared, stream, NULL, 0
    };
    LEAVE(launch(context, function, &at, params, extra));
}

/* A dependent launch only. Kernels run one after another all the same. */
simt_result cuLaunchKernelEx(const simt_launch_config *config, simt_function *function, void **params, void **extra)
{
    ENTER_CONTEXT();
    if (!config || config->n_attributes != 1 || config->attributes[0].id != 6 || simt_settings.compute < 90)
        LEAVE(SIMT_INVALID_VALUE);
    LEAVE(launch(context, function, config, params, extra));
}

simt_result cuFuncGetAttribute(int *value, int attribute, simt_function *function)
{
    ENTER_CONTEXT();
    if (!value || attribute != 5) LEAVE(SIMT_INVALID_VALUE); /* the architecture of its PTX */
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    GIVE(value, (int)simt_settings.ptx);
}
