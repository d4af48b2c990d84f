/* As first released: see tests/abi/growth.c. */
#ifndef GDN_CUDA_H
#define GDN_CUDA_H
#include "gdn/gdn.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct gdn_cuda_desc {
    uint32_t size;
    uint32_t flags;
    void    *context;
} gdn_cuda_desc;
#ifdef __cplusplus
}
#endif
#endif
