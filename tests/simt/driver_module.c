/* Modules, functions and launches. A module's image is only looked at to see whether it is one: the kernels are those
 * that are linked into this library, and any image has them all. */
#include "tests/simt/driver_api.h"
#include "tests/simt/driver_internal.h"

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

static simt_result load(simt_module **out, const void *image, int library)
{
    simt_context *context = simt_current_context();
    if (!context) return SIMT_INVALID_CONTEXT;
    if (context->error) return context->error;
    if (!out || !image) return SIMT_INVALID_VALUE;
    if (!is_image(image)) return SIMT_INVALID_IMAGE;
    simt_module *module = simt_new_handle(SIMT_MODULE, sizeof *module, context);
    if (!module) return SIMT_OUT_OF_MEMORY;
    module->library = library;
    *out = module;
    return SIMT_SUCCESS;
}

simt_result cuModuleLoadData(simt_module **out, const void *image)
{
    ENTER();
    LEAVE(load(out, image, 0));
}

simt_result cuModuleLoadDataEx(simt_module **out, const void *image, unsigned n, int *options, void **values)
{
    ENTER();
    if (n && (!options || !values)) LEAVE(SIMT_INVALID_VALUE);
    LEAVE(load(out, image, 0));
}

simt_result cuModuleLoadFatBinary(simt_module **out, const void *image)
{
    ENTER();
    LEAVE(load(out, image, 0));
}

simt_result cuLibraryLoadData(simt_module **out, const void *image, int *jit, void **jit_values, unsigned n_jit,
                              int *options, void **values, unsigned n)
{
    ENTER();
    if ((n_jit && (!jit || !jit_values)) || (n && !options)) LEAVE(SIMT_INVALID_VALUE);
    (void)values;
    LEAVE(load(out, image, 1));
}

static simt_result unload(simt_module *module, int library)
{
    if (!simt_is(module, SIMT_MODULE) || module->library != library) return SIMT_INVALID_HANDLE;
    simt_context *context = module->handle.context;
    if (!simt_settings.hang) simt_drain_context(context);
    for (simt_handle *h = simt_handles(SIMT_FUNCTION), *next; h; h = next) {
        next = h->next;
        if (((simt_function *)(void *)h)->module == module) simt_drop_handle(h);
    }
    simt_drop_handle(module);
    return context->error;
}

simt_result cuModuleUnload(simt_module *module)
{
    ENTER();
    LEAVE(unload(module, 0));
}

simt_result cuLibraryUnload(simt_module *library)
{
    ENTER();
    LEAVE(unload(library, 1));
}

static simt_result get_function(simt_function **out, simt_module *module, const char *name, int library)
{
    if (!out || !name) return SIMT_INVALID_VALUE;
    if (!simt_is(module, SIMT_MODULE) || (library && !module->library)) return SIMT_INVALID_HANDLE;
    if (module->handle.context->error) return module->handle.context->error;
    const simt_kernel *kernel = simt_find_kernel(name);
    if (!kernel) return SIMT_NOT_FOUND;
    for (simt_handle *h = simt_handles(SIMT_FUNCTION); h; h = h->next) {
        simt_function *function = (simt_function *)(void *)h;
        if (function->module == module && function->kernel == kernel) {
            *out = function;
            return SIMT_SUCCESS;
        }
    }
    simt_function *function = simt_new_handle(SIMT_FUNCTION, sizeof *function, module->handle.context);
    if (!function) return SIMT_OUT_OF_MEMORY;
    function->kernel = kernel;
    function->module = module;
    function->max_dynamic_shared = 49152;
    *out = function;
    return SIMT_SUCCESS;
}

simt_result cuModuleGetFunction(simt_function **out, simt_module *module, const char *name)
{
    ENTER();
    LEAVE(get_function(out, module, name, 0));
}

simt_result cuLibraryGetKernel(simt_function **out, simt_module *library, const char *name)
{
    ENTER();
    LEAVE(get_function(out, library, name, 1));
}

simt_result cuLibraryGetModule(simt_module **out, simt_module *library)
{
    ENTER();
    if (!out) LEAVE(SIMT_INVALID_VALUE);
    if (!simt_is(library, SIMT_MODULE) || !library->library) LEAVE(SIMT_INVALID_HANDLE);
    *out = library;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuKernelGetFunction(simt_function **out, simt_function *kernel)
{
    ENTER();
    if (!out) LEAVE(SIMT_INVALID_VALUE);
    if (!simt_is(kernel, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    *out = kernel;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuModuleGetLoadingMode(int *mode)
{
    ENTER();
    GIVE(mode, 2); /* lazy */
}

simt_result cuFuncSetAttribute(simt_function *function, int attribute, int value)
{
    ENTER_CONTEXT();
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    if (attribute == 9) LEAVE(value < -1 || value > 100 ? SIMT_INVALID_VALUE : SIMT_SUCCESS); /* preferred carve-out */
    if (attribute != 8 || value < 0 || value > 232448) LEAVE(SIMT_INVALID_VALUE);
    function->max_dynamic_shared = (size_t)value;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuFuncSetCacheConfig(simt_function *function, int config)
{
    ENTER_CONTEXT();
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    LEAVE(config < 0 || config > 3 ? SIMT_INVALID_VALUE : SIMT_SUCCESS);
}

simt_result cuFuncGetAttribute(int *value, int attribute, simt_function *function)
{
    ENTER_CONTEXT();
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    if (!value) LEAVE(SIMT_INVALID_VALUE);
    switch (attribute) {
    case 0: *value = (int)function->kernel->max_threads; break;
    case 1: case 2: case 3: case 7: *value = 0; break; /* shared, constant, local bytes: not known here */
    case 4: *value = 32; break;                        /* registers */
    case 5: case 6: *value = (int)simt_settings.compute; break;
    case 8: *value = (int)function->max_dynamic_shared; break;
    case 9: *value = -1; break;
    default: LEAVE(SIMT_INVALID_VALUE);
    }
    LEAVE(SIMT_SUCCESS);
}

simt_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, simt_function *function, int block, size_t shared)
{
    ENTER_CONTEXT();
    if (!simt_is(function, SIMT_FUNCTION)) LEAVE(SIMT_INVALID_HANDLE);
    if (!n || block < 1 || block > 1024) LEAVE(SIMT_INVALID_VALUE);
    const int by_threads = 2048 / ((block + 31) / 32 * 32), by_shared = (int)(233472 / (shared + 1024));
    *n = by_threads < by_shared ? by_threads : by_shared;
    if (*n > 32) *n = 32;
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
                 (simt_dim3){ config->block_x, config->block_y, config->block_z }, config->shared_bytes,
                 config->stream, params, extra));
}
