/* Push constants of all shaders: the address of a dispatch's parameter block (gpu/params.h), and its grid. The block
 * itself is in memory, because only 128 bytes of push constants are guaranteed: vulkan/record.c. */
#ifndef GDN_VULKAN_PUSH_H
#define GDN_VULKAN_PUSH_H

#include "gpu/params.h"

#define GDN_VULKAN_PARAMS_BYTES 704 /* space for the block at the start of every workspace */

GDN_GPU_STRUCT(gdn_vulkan_push)
{
    uint64_t params;         /* address of the parameter block */
    GDN_GPU_U32 n_items;     /* workgroups that have work; the grid is two-dimensional and may have more */
    GDN_GPU_U32 grid_width;  /* workgroups in x */
    GDN_GPU_I32 most_tokens; /* gated_delta_net: of a sequence (vulkan/rounds.c) */
    GDN_GPU_I32 unused;
};

#endif
