/* The list of kernels. */
#include "tests/emulator/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static simt_kernel *kernels;
static struct {
    const char *kernel;
    size_t where;
} mistake;

void simt_register_kernel(simt_kernel *kernel)
{
    if (simt_find_kernel(kernel->name)) { /* nvcc's linker would refuse two of one name */
        fprintf(stderr, "simt: there are two kernels of the name %s\n", kernel->name);
        abort();
    }
    kernel->next = kernels;
    kernels = kernel;
}

simt_kernel *simt_find_kernel(const char *name)
{
    for (simt_kernel *kernel = kernels; kernel; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0) return kernel;
    return NULL;
}

void simt_miscompile(const char *kernel, size_t where)
{
    mistake.kernel = kernel;
    mistake.where = where;
}

int simt_has_mistake(const char *kernel, size_t *where)
{
    *where = mistake.where;
    return mistake.kernel && !strcmp(mistake.kernel, kernel);
}
