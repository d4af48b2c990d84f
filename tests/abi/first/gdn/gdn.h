/* As first released: see tests/abi/growth.c. */
#ifndef GDN_GDN_H
#define GDN_GDN_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#if defined(_WIN32)
#  if defined(GDN_BUILD_SHARED)
#    define GDN_API __declspec(dllexport)
#  elif defined(GDN_USE_SHARED)
#    define GDN_API __declspec(dllimport)
#  else
#    define GDN_API
#  endif
#elif defined(__GNUC__)
#  define GDN_API __attribute__((visibility("default")))
#else
#  define GDN_API
#endif
#ifdef __cplusplus
#  define GDN_INIT(type) (::gdn_initialised<type>())
extern "C++" {
template <class type> inline type gdn_initialised()
{
    type object = type();
    object.size = static_cast<uint32_t>(sizeof object);
    return object;
}
}
#else
#  define GDN_INIT(type) { .size = (uint32_t)sizeof(type) }
#endif
typedef int32_t gdn_status;
enum {
    GDN_OK               = 0,
    GDN_INVALID_ARGUMENT = 1,
    GDN_UNSUPPORTED      = 2,
    GDN_OUT_OF_MEMORY    = 3,
    GDN_NOT_FOUND        = 4,
    GDN_UNAVAILABLE      = 5,
    GDN_DEVICE_LOST      = 6,
    GDN_TIMEOUT          = 7,
    GDN_BAD_MAP          = 8,
    GDN_INTERNAL         = 9
};
GDN_API const char *gdn_last_error(void);
GDN_API const char *gdn_status_name(gdn_status status);
#define GDN_VERSION_MAJOR 0
#define GDN_VERSION_MINOR 1
#define GDN_VERSION_PATCH 0
#define GDN_ABI_VERSION   0
GDN_API uint32_t gdn_version(void);
GDN_API uint32_t gdn_abi_version(void);
enum {
    GDN_BACKEND_CPU       = 0,
    GDN_BACKEND_REFERENCE = 1,
    GDN_BACKEND_CUDA      = 2,
    GDN_BACKEND_VULKAN    = 3,
    GDN_BACKEND_METAL     = 4,
    GDN_BACKEND_COUNT     = 5
};
#define GDN_NAME_MAX   64
#define GDN_REASON_MAX 192
typedef struct gdn_backend_info {
    uint32_t size;
    uint32_t backend;
    int32_t  built;
    int32_t  available;
    uint32_t n_devices;
    uint32_t reserved;
    char     name[GDN_NAME_MAX];
    char     reason[GDN_REASON_MAX];
} gdn_backend_info;
typedef struct gdn_device_info {
    uint32_t size;
    uint32_t backend;
    uint32_t device;
    uint32_t n_implementations;
    int32_t  emulated;
    int32_t  shared_memory;
    uint64_t memory_bytes;
    char     name[GDN_NAME_MAX * 2];
} gdn_device_info;
typedef struct gdn_implementation_info {
    uint32_t size;
    int32_t  exact;
    char     name[GDN_NAME_MAX];
    char     reason[GDN_REASON_MAX];
} gdn_implementation_info;
GDN_API gdn_status gdn_backend_describe(uint32_t backend, gdn_backend_info *info);
GDN_API gdn_status gdn_device_describe(uint32_t backend, uint32_t device, gdn_device_info *info);
GDN_API gdn_status gdn_implementation_describe(uint32_t backend, uint32_t device, uint32_t index,
                                               gdn_implementation_info *info);
typedef struct gdn_context gdn_context;
enum { GDN_LOG_ERROR = 1, GDN_LOG_WARNING = 2, GDN_LOG_INFO = 3, GDN_LOG_DEBUG = 4 };
typedef void (*gdn_log_fn)(void *user, int32_t level, const char *message);
typedef void (*gdn_task_fn)(void *arg, int32_t index);
typedef void (*gdn_parallel_for_fn)(void *user, int32_t n, gdn_task_fn task, void *arg);
typedef void *(*gdn_alloc_fn)(void *user, uint64_t bytes, uint64_t alignment);
typedef void (*gdn_free_fn)(void *user, void *memory);
typedef struct gdn_context_desc {
    uint32_t            size;
    uint32_t            backend;
    uint32_t            device;
    uint32_t            n_threads;
    const char         *implementation;
    gdn_parallel_for_fn parallel_for;
    void               *parallel_user;
    gdn_log_fn          log;
    void               *log_user;
    gdn_alloc_fn        alloc;
    gdn_free_fn         free;
    void               *alloc_user;
    uint64_t            timeout_ns;
    const void         *native;
} gdn_context_desc;
GDN_API gdn_status gdn_context_create(const gdn_context_desc *desc, gdn_context **ctx);
GDN_API void gdn_context_destroy(gdn_context *ctx);
GDN_API gdn_status gdn_context_describe(const gdn_context *ctx, gdn_device_info *device,
                                        gdn_implementation_info *implementation);
typedef void *gdn_stream;
GDN_API gdn_status gdn_synchronize(gdn_context *ctx, gdn_stream stream);
GDN_API gdn_status gdn_poll(gdn_context *ctx);
typedef struct gdn_span {
    void    *data;
    uint64_t offset;
    uint64_t bytes;
} gdn_span;
GDN_API gdn_status gdn_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span);
GDN_API void       gdn_buffer_destroy(gdn_context *ctx, gdn_span *span);
GDN_API gdn_status gdn_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset,
                                    const void *source, uint64_t bytes);
GDN_API gdn_status gdn_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset,
                                   void *target, uint64_t bytes);
enum {
    GDN_F32  = 0,
    GDN_F16  = 1,
    GDN_BF16 = 2,
    GDN_Q8_0 = 3,
    GDN_I32  = 4,
    GDN_I64  = 5
};
typedef struct gdn_tensor {
    void    *data;
    uint64_t offset;
    uint64_t bytes;
    int64_t  stride[4];
    int32_t  dtype;
    int32_t  reserved;
} gdn_tensor;
typedef struct gdn_capability {
    uint32_t size;
    int32_t  supported;
    int32_t  exact;
    int32_t  emulated;
    uint64_t workspace_bytes;
    char     implementation[GDN_NAME_MAX];
    char     reason[GDN_REASON_MAX];
} gdn_capability;
enum {
    GDN_HEADS_GROUPED = 0,
    GDN_HEADS_TILED   = 1
};
enum {
    GDN_GATE_SCALAR  = 0,
    GDN_GATE_CHANNEL = 1
};
enum {
    GDN_STATE_VK = 0,
    GDN_STATE_KV = 1
};
enum {
    GDN_NONE = -1,
    GDN_SKIP = -2
};
typedef struct gdn_gated_delta_net_args {
    uint32_t   size;
    uint32_t   flags;
    int32_t    n_seqs;
    int32_t    n_tokens;
    int32_t    n_heads_k;
    int32_t    n_heads_v;
    int32_t    head_dim_k;
    int32_t    head_dim_v;
    int32_t    head_map;
    int32_t    gate;
    int32_t    state_layout;
    int32_t    n_rows;
    int32_t    n_slots;
    int32_t    n_rows_out;
    int32_t    n_slots_out;
    int32_t    n_snapshots;
    float      scale;
    int32_t    reserved;
    gdn_tensor q, k, v, g, beta, out, state, state_out;
    gdn_span   seq_start, state_src, state_dst;
    gdn_span   workspace;
} gdn_gated_delta_net_args;
GDN_API gdn_status gdn_gated_delta_net_query(const gdn_context *ctx, const gdn_gated_delta_net_args *args,
                                             gdn_capability *capability);
GDN_API gdn_status gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args,
                                       gdn_stream stream);
enum { GDN_CONV_SILU = 1 };
typedef struct gdn_ssm_conv_args {
    uint32_t   size;
    uint32_t   flags;
    int32_t    n_seqs;
    int32_t    n_tokens;
    int32_t    n_channels;
    int32_t    kernel_width;
    int32_t    n_rows;
    int32_t    n_columns;
    int32_t    n_rows_out;
    int32_t    reserved;
    gdn_tensor x, weight, bias, out, history, history_out;
    gdn_span   seq_start, position, history_src, history_dst;
    gdn_span   workspace;
} gdn_ssm_conv_args;
GDN_API gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const gdn_ssm_conv_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_ssm_conv(gdn_context *ctx, const gdn_ssm_conv_args *args, gdn_stream stream);
typedef struct gdn_set_rows_args {
    uint32_t   size;
    uint32_t   flags;
    int64_t    n_columns;
    int64_t    n_rows;
    int64_t    n_rows_dst;
    int64_t    n_batch[2];
    int64_t    index_batch[2];
    gdn_tensor src, dst, index;
    gdn_span   workspace;
} gdn_set_rows_args;
GDN_API gdn_status gdn_set_rows_query(const gdn_context *ctx, const gdn_set_rows_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_set_rows(gdn_context *ctx, const gdn_set_rows_args *args, gdn_stream stream);
#ifdef __cplusplus
}
#endif
#endif
