/* The kernels that are linked into the fake driver: a shim's macro adds each before main() runs. */
#ifndef GDN_SIMT_REGISTRY_H
#define GDN_SIMT_REGISTRY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simt_kernel {
    const char *name;
    size_t param_bytes;
    unsigned max_threads; /* of a block */
    void (*run)(const void *params);
    struct simt_kernel *next;
} simt_kernel;

void simt_register_kernel(simt_kernel *kernel);  /* it stays the caller's */
simt_kernel *simt_find_kernel(const char *name); /* NULL: there is none */

/* For tests: from now on the driver's compiler is said to make a mistake in this kernel; each launch leaves the lowest
 * bit of one word wrong. For CUDA it is the word whose address lies `where` bytes into the kernel's parameters, for
 * Metal the first of the buffer of that number. NULL: in none. */
__attribute__((visibility("default"))) void simt_miscompile(const char *kernel, size_t where);
int simt_has_mistake(const char *kernel, size_t *where);

#ifdef __cplusplus
}
#endif
#endif
