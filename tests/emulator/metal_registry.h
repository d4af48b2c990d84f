/* A kernel of Metal in the registry, and what it is called with. */
#ifndef GDN_SIMT_METAL_REGISTRY_H
#define GDN_SIMT_METAL_REGISTRY_H

#include "tests/emulator/registry.h"

enum { SIMT_METAL_BUFFERS = 31 };

typedef struct simt_metal_arguments {
    void *buffers[SIMT_METAL_BUFFERS]; /* where each begins, its offset included */
} simt_metal_arguments;

typedef struct simt_metal_kernel {
    simt_kernel kernel; /* first */
    unsigned n_buffers;
    size_t params_bytes; /* of buffer 0 */
} simt_metal_kernel;

#endif
