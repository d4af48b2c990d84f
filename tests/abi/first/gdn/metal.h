/* As first released: see tests/abi/growth.c. */
#ifndef GDN_METAL_H
#define GDN_METAL_H
#include "gdn/gdn.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct gdn_metal_desc {
    uint32_t size;
    uint32_t flags;
    void    *device;
    void    *queue;
} gdn_metal_desc;
#ifdef __cplusplus
}
#endif
#endif
