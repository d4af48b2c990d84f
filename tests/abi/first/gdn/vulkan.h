/* As first released: see tests/abi/growth.c. */
#ifndef GDN_VULKAN_H
#define GDN_VULKAN_H
#include "gdn/gdn.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef void (*gdn_vulkan_function)(void);
typedef void (*gdn_vulkan_lock_fn)(void *user);
typedef uint64_t (*gdn_vulkan_cache_load_fn)(void *user, void *data, uint64_t capacity);
typedef void (*gdn_vulkan_cache_save_fn)(void *user, const void *data, uint64_t bytes);
enum {
    GDN_VULKAN_FLOAT64        = 1,
    GDN_VULKAN_STORAGE_16     = 2,
    GDN_VULKAN_FULL_SUBGROUPS = 4
};
typedef struct gdn_vulkan_desc {
    uint32_t            size;
    uint32_t            features;
    gdn_vulkan_function get_instance_proc_addr;
    void               *instance;
    void               *physical_device;
    void               *device;
    void               *queue;
    uint32_t            queue_family;
    uint32_t            reserved;
    gdn_vulkan_lock_fn  lock_queue;
    gdn_vulkan_lock_fn  unlock_queue;
    void               *lock_user;
    const char         *device_name;
    gdn_vulkan_cache_load_fn cache_load;
    gdn_vulkan_cache_save_fn cache_save;
    void               *cache_user;
} gdn_vulkan_desc;
GDN_API gdn_status gdn_vulkan_timeline(gdn_context *ctx, void **semaphore, uint64_t *value);
#ifdef __cplusplus
}
#endif
#endif
