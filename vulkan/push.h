/* Push constants of all shaders: where a dispatch's parameter block lies (gpu/params.h), and its grid. The block itself
 * is in memory, because push constants are only sure to have 128 bytes: vulkan/record.c. */
#ifndef GDN_VULKAN_PUSH_H
#define GDN_VULKAN_PUSH_H

#include "gpu/params.h"

#define GDN_VULKAN_PARAMS_BYTES 704 /* of the block, for which there is room at the start of every workspace */

GDN_GPU_STRUCT(gdn_vulkan_push)
{
    uint64_t params;        /* address of the parameter block */
    uint64_t scratch;       /* of the workspace, behind the room for a block */
    GDN_GPU_U32 n_items;    /* workgroups that have work; the grid is two-dimensional and may have more */
    GDN_GPU_U32 grid_width; /* workgroups in x */
    /* Where a call is several dispatches (vulkan/rounds.c): the tokens of each sequence that this one has, how many the
     * first of them has, and how many the tokens of a tree may be. */
    GDN_GPU_I32 begin, end, first_end, most;
};

#endif
