/* Push constants of all shaders: the address of a dispatch's block (call/types.h), and its grid. The block
 * itself is in memory, because only 128 bytes of push constants are guaranteed: vulkan/record.c. */
#ifndef GDN_VULKAN_PUSH_H
#define GDN_VULKAN_PUSH_H

#include "call/types.h"

#define GDN_VULKAN_PARAMS_BYTES 768 /* space for the block at the start of every workspace */

GDN_STRUCT(gdn_vulkan_push)
{
    uint64_t params;      /* address of the parameter block */
    GDN_U32T n_items;     /* workgroups that have work; the grid is two-dimensional and may have more */
    GDN_U32T grid_width;  /* workgroups in x */
    GDN_I32T most_tokens; /* gated_delta_net: of a sequence; gdn_vulkan_most_tokens() */
    GDN_I32T unused;
};

#endif
