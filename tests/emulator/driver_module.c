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
    for (simt_handle *h = simt_handles(SIMT_FUNCTION); h; h = h->next) {
        simt_function *function = (simt_function *)(void *)h;
        if (function->module == module && function->kernel == kernel) GIVE(out, function);
    }
    simt_function *function = simt_new_handle(SIMT_FUNCTION, sizeof *function, module->handle.context);
    if (!function) LEAVE(SIMT_OUT_OF_MEMORY);
    function->kernel = kernel;
    function->module = module;
    function->max_dynamic_shared = 49152;
    GIVE(out, function);
}

simt_result cuFuncSetAttribute(simt_function *function, int attribute, int value)
{
    ENTER_CONTEXT();
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    if (attribute != 8 || value < 0 || value > 232448) LEAVE(SIMT_INVALID_VALUE);
    function->max_dynamic_shared = (size_t)value;
    LEAVE(SIMT_SUCCESS);
}

/* The struct behind kernelParams or CU_LAUNCH_PARAM_BUFFER. */
static const void *find_params(const simt_kernel *kernel, void **params, void **extra)
{
    if (params) return extra ? NULL : params[0];
    const void *buffer = NULL;
    size_t bytes = 0;
    for (int i = 0; extra && extra[i]; i += 2) {
        if ((uintptr_t)extra[i] == 1) buffer = extra[i + 1];
        else if ((uintptr_t)extra[i] == 2) bytes = *(const size_t *)extra[i + 1];
        else return NULL;
    }
    return bytes == kernel->param_bytes ? buffer : NULL;
}

static simt_result launch(simt_context *context, simt_function *function, simt_dim3 grid, simt_dim3 block,
                          unsigned shared, simt_stream *named, void **params, void **extra)
{
    if (!simt_is(function, SIMT_FUNCTION)) return SIMT_INVALID_HANDLE;
    if (function->handle.context != context) return SIMT_INVALID_CONTEXT;
    simt_stream *stream = simt_find_stream(context, named);
    if (!stream) return SIMT_INVALID_HANDLE;
    const simt_kernel *kernel = function->kernel;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        return SIMT_INVALID_VALUE;
    if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) return SIMT_INVALID_VALUE;
    if (threads > kernel->max_threads || shared > function->max_dynamic_shared) return SIMT_INVALID_VALUE;
    const void *from = find_params(kernel, params, extra);
    if (!from) return SIMT_INVALID_VALUE;
    simt_work *work = simt_new_work(SIMT_KERNEL, kernel->param_bytes);
    if (work) {
        work->kernel = kernel;
        work->grid = grid;
        work->block = block;
        work->shared_bytes = shared;
        memcpy(work->params, from, kernel->param_bytes);
    }
    return simt_submit(stream, work);
}

simt_result cuLaunchKernel(simt_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, simt_stream *stream, void **params,
                           void **extra)
{
    ENTER_CONTEXT();
    LEAVE(launch(context, function, (simt_dim3){ grid_x, grid_y, grid_z }, (simt_dim3){ block_x, block_y, block_z },
                 shared, stream, params, extra));
}

simt_result cuLaunchKernelEx(const simt_launch_config *config, simt_function *function, void **params, void **extra)
{
    ENTER_CONTEXT();
    if (!config || (config->n_attributes && !config->attributes)) LEAVE(SIMT_INVALID_VALUE);
    LEAVE(launch(context, function, (simt_dim3){ config->grid_x, config->grid_y, config->grid_z },
                 (simt_dim3){ config->block_x, config->block_y, config->block_z }, config->shared_bytes, config->stream,
                 params, extra));
}
