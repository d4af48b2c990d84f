/* Push constants of all shaders: the address of a dispatch's parameter block (gpu/params.h), and its grid. The block
 * itself is in memory, because only 128 bytes of push constants are guaranteed: vulkan/record.c. */
#ifndef GDN_VULKAN_PUSH_H
#define GDN_VULKAN_PUSH_H

#include "gpu/params.h"

#define GDN_VULKAN_PARAMS_BYTES 704 /* space for the block at the start of every workspace */

GDN_GPU_STRUCT(gdn_vulkan_push)
{
    uint64_t params;        /* address of the parameter block */
    uint64_t scratch;       /* address in the workspace after the block's space */
    GDN_GPU_U32 n_items;    /* workgroups that have work; the grid is two-dimensional and may have more */
    GDN_GPU_U32 grid_width; /* workgroups in x */
    /* If a call is several dispatches (vulkan/rounds.c): the tokens of each sequence that this dispatch processes, the
     * number that the first dispatch processes, and the most tokens of a tree. */
    GDN_GPU_I32 begin, end, first_end, most;
};

#endif
