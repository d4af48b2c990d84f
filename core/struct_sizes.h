/* The size that each struct beginning with `size` had in its first release: the smallest size that a caller may give.
 * Each new struct adds a line. A line never changes after its release. */
#ifndef GDN_CORE_STRUCT_SIZES_H
#define GDN_CORE_STRUCT_SIZES_H

#include <stddef.h>

#include "gdn/cuda.h"
#include "gdn/gdn.h"
#include "gdn/metal.h"
#include "gdn/vulkan.h"

/* The struct, its last member in its first release, and where that ended on 64-bit targets. */
#define GDN_FIRST_STRUCTS(STRUCT)                                                                                      \
    STRUCT(gdn_backend_info, reason, 280)                                                                              \
    STRUCT(gdn_device_info, name, 160)                                                                                 \
    STRUCT(gdn_implementation_info, reason, 264)                                                                       \
    STRUCT(gdn_context_desc, level, 100)                                                                               \
    STRUCT(gdn_gated_delta_net_args, rounding, 736)                                                                    \
    STRUCT(gdn_ssm_conv_args, tree, 560)                                                                               \
    STRUCT(gdn_set_rows_args, workspace, 280)                                                                          \
    STRUCT(gdn_capability, log_entry_bytes, 296)                                                                       \
    STRUCT(gdn_checkpoints, dst, 40)                                                                                   \
    STRUCT(gdn_token_tree, parent, 32)                                                                                 \
    STRUCT(gdn_delta_inputs, read_key, 224)                                                                            \
    STRUCT(gdn_replay_log, commit, 152)                                                                                \
    STRUCT(gdn_state_rounding, interval, 8)                                                                            \
    STRUCT(gdn_chunked_form, digits, 8)                                                                                \
    STRUCT(gdn_record, number, 56)                                                                                     \
    STRUCT(gdn_cuda_desc, context, 16)                                                                                 \
    STRUCT(gdn_vulkan_desc, cache_user, 112)                                                                           \
    STRUCT(gdn_metal_desc, queue, 24)

#define GDN_FIRST_SIZE(type) ((size_t)GDN_FIRST_SIZE_##type)

/* Computed from the member, so that it holds for every pointer size. */
#define GDN_FIRST_ENUM(type, last, size) GDN_FIRST_SIZE_##type = offsetof(type, last) + sizeof(((type *)0)->last),
enum { GDN_FIRST_STRUCTS(GDN_FIRST_ENUM) };
#undef GDN_FIRST_ENUM

#define GDN_FIRST_ASSERT(type, last, size)                                                                             \
    _Static_assert(sizeof(void *) != 8 || GDN_FIRST_SIZE_##type == (size), "structs grow at their end only: " #type);
GDN_FIRST_STRUCTS(GDN_FIRST_ASSERT)
#undef GDN_FIRST_ASSERT

/* These have no size member: they are members of other structs and of callers' arrays, so they cannot grow. */
_Static_assert(sizeof(void *) != 8 || (sizeof(gdn_span) == 24 && sizeof(gdn_tensor) == 64 && sizeof(gdn_pool) == 72),
               "gdn_span, gdn_tensor, gdn_pool");

#endif
