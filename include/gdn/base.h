/* What all kernels have in common: status and errors, versions, devices, contexts, memory, operands. Sections 2 to 7 of
 * the manual that begins in gdn.h, which is what programs include. */
#ifndef GDN_BASE_H
#define GDN_BASE_H

#include <stdint.h>

/* The declaration prefix of each public function: C linkage, and export from the shared library. A Windows DLL has a
 * list of what it exports, and its import library does without a word here. */
#ifdef __cplusplus
#define GDN_LINKAGE extern "C"
#else
#define GDN_LINKAGE
#endif
#if defined(__ELF__) || defined(__MACH__)
#define GDN_API GDN_LINKAGE __attribute__((visibility("default")))
#else
#define GDN_API GDN_LINKAGE
#endif

/* Initialises a struct that begins with `size`: its size, its defaults (GDN_DEFAULTS_*), and zeros.
 *
 *     gdn_set_rows_args args = GDN_INIT(gdn_set_rows_args);
 *
 * In C it is a list of initialisers, which also serves objects with static storage. An assignment needs the type in
 * front: args = (gdn_set_rows_args)GDN_INIT(gdn_set_rows_args). In C++ it is an expression. Other languages call
 * gdn_struct_init(). */
#ifdef __cplusplus
#define GDN_INIT(type) (::gdn_initialised<type>())
extern "C++" {                                                /* also for those who include this within extern "C" */
template <class type> inline void gdn_set_defaults(type &) {} /* specialised where a struct has defaults */
template <class type> inline type gdn_initialised()
{
    type object = type();
    object.size = static_cast<uint32_t>(sizeof object);
    gdn_set_defaults(object);
    return object;
}
}
#else
#define GDN_INIT(type)                                                                                                 \
    {                                                                                                                  \
        .size = (uint32_t)sizeof(type) GDN_DEFAULTS_##type                                                             \
    }
#endif
#define GDN_DEFAULTS_gdn_backend_info
#define GDN_DEFAULTS_gdn_device_info
#define GDN_DEFAULTS_gdn_implementation_info
#define GDN_DEFAULTS_gdn_context_desc
#define GDN_DEFAULTS_gdn_capability
#define GDN_DEFAULTS_gdn_checkpoints
#define GDN_DEFAULTS_gdn_token_tree

/* ---- 2  Status and errors ---------------------------------------------------------------------- */

/* What every function that can fail returns. The values are pinned: they never change meaning. */
typedef int32_t gdn_status;
enum {
    GDN_OK = 0,
    GDN_INVALID_ARGUMENT = 1, /* an argument is outside what its documentation allows                */
    GDN_UNSUPPORTED = 2,      /* valid, but this backend or device cannot do it                      */
    GDN_OUT_OF_MEMORY = 3,    /* host or device memory ran out                                       */
    GDN_NOT_FOUND = 4,        /* no such backend, device or implementation                           */
    GDN_UNAVAILABLE = 5,      /* the driver or loader of the backend is missing on this machine      */
    GDN_DEVICE_LOST = 6,      /* the device failed; the context can only be destroyed                */
    GDN_TIMEOUT = 7,          /* a bounded wait ran out                                              */
    GDN_BAD_MAP = 8,          /* found on a device after launch: a map held a value out of range     */
    GDN_INTERNAL = 9          /* an unexpected failure of a driver call; the text has details        */
};

/* The text of the last failure on the calling thread: names the argument, what was given and what is
 * allowed. Never NULL; "" when nothing has failed. Valid until the thread's next failing call. */
GDN_API const char *gdn_last_error(void);

/* "GDN_OK", "GDN_INVALID_ARGUMENT", ... for any value; "unknown status" for others. Static storage. */
GDN_API const char *gdn_status_name(gdn_status status);

/* What GDN_INIT does, for other languages: fills *object, which has `size` bytes, with the defaults of the struct of
 * this name, such as "gdn_gated_delta_net_args". size: sizeof the struct as the caller knows it. INVALID_ARGUMENT: a
 * NULL, a name that is no struct's, or a size below that of the struct's first release. Thread-safe. */
GDN_API gdn_status gdn_struct_init(const char *name, void *object, uint32_t size);

/* ---- 3  Versions ------------------------------------------------------------------------------- */

#define GDN_VERSION_MAJOR 0
#define GDN_VERSION_MINOR 1
#define GDN_VERSION_PATCH 0
#define GDN_ABI_VERSION   0 /* the shared library's SOVERSION; grows when a built program would break */

/* Release of the library that is loaded: major << 16 | minor << 8 | patch. */
GDN_API uint32_t gdn_version(void);
/* GDN_ABI_VERSION of the library that is loaded. */
GDN_API uint32_t gdn_abi_version(void);

/* ---- 4  Backends, devices and implementations --------------------------------------------------- */

/* A backend has devices. A device has implementations, listed best first: the instruction sets of a CPU, or the
 * pipelines of a GPU with hardware fma and with software fma. The describe functions list them without a context;
 * `gdn info` prints these lists. Values are pinned. */
enum {
    GDN_BACKEND_CPU = 0,       /* SIMD on the host, with threads of its own or the caller's          */
    GDN_BACKEND_REFERENCE = 1, /* the scalar specification, one thread; slow and always right        */
    GDN_BACKEND_CUDA = 2,
    GDN_BACKEND_VULKAN = 3,
    GDN_BACKEND_METAL = 4,
    GDN_BACKEND_COUNT = 5
};

#define GDN_NAME_MAX   64  /* bytes of a name, with its terminating zero   */
#define GDN_REASON_MAX 192 /* bytes of a reason, with its terminating zero */

typedef struct gdn_backend_info {
    uint32_t size;
    uint32_t backend;
    int32_t built;     /* 1: this build of the library contains the backend            */
    int32_t available; /* 1: it has at least one device on this machine                */
    uint32_t n_devices;
    uint32_t reserved;
    char name[GDN_NAME_MAX];     /* "cpu", "reference", "cuda", "vulkan", "metal"                */
    char reason[GDN_REASON_MAX]; /* why it is not available, or ""                               */
} gdn_backend_info;

typedef struct gdn_device_info {
    uint32_t size;
    uint32_t backend;
    uint32_t device;
    uint32_t n_implementations;
    int32_t emulated;            /* 1: runs on an emulator, not on the hardware it is named for  */
    int32_t shared_memory;       /* 1: spans are host addresses that the host may read and write */
    uint64_t memory_bytes;       /* memory of the device, 0 = unknown                            */
    char name[GDN_NAME_MAX * 2]; /* the device's own name for itself                             */
} gdn_device_info;

typedef struct gdn_implementation_info {
    uint32_t size;
    uint32_t levels;             /* bits 1 << GDN_EXACT, 1 << GDN_EXACT_FTZ: at which levels all its results are the
                                    reference's bits                                             */
    char name[GDN_NAME_MAX];     /* "avx512", "avx2", "neon", "scalar", "fma", "soft-fma", ...   */
    char reason[GDN_REASON_MAX]; /* why it lacks a level, or ""                                  */
} gdn_implementation_info;

/* Levels of the contract (docs/reference/numerics.md): how arithmetic treats binary32's subnormal numbers. At each
 * level results are the reference's bits, so two devices at one level agree. Values are pinned. */
enum {
    GDN_EXACT = 0,     /* kept, as in IEEE 754                                                       */
    GDN_EXACT_FTZ = 1, /* flushed to zeros of their sign, as operands and as results; for devices that
                          cannot keep them, and for others that must agree with such a device        */
    GDN_LEVEL_COUNT = 2
};

/* Describe a backend, one of its devices, or one implementation of a device (0 is the best one).
 * GDN_NOT_FOUND beyond the end of a list. Thread-safe. */
GDN_API gdn_status gdn_backend_describe(uint32_t backend, gdn_backend_info *info);
GDN_API gdn_status gdn_device_describe(uint32_t backend, uint32_t device, gdn_device_info *info);
GDN_API gdn_status gdn_implementation_describe(uint32_t backend, uint32_t device, uint32_t index,
                                               gdn_implementation_info *info);

/* ---- 5  Contexts ------------------------------------------------------------------------------- */

typedef struct gdn_context gdn_context; /* opaque: one open device of one backend */

/* Callbacks must return to their caller. To leave one by longjmp() or by an exception is undefined: memory, locks and
 * the floating-point mode are then not restored. They may call the library, but not with the context that calls
 * them. */

/* Levels of the log callback. */
enum { GDN_LOG_ERROR = 1, GDN_LOG_WARNING = 2, GDN_LOG_INFO = 3, GDN_LOG_DEBUG = 4 };

/* Receives one line without a newline. May be called from any thread that uses the context. */
typedef void (*gdn_log_fn)(void *user, int32_t level, const char *message);

/* The caller's threads. Must call task(arg, i) exactly once for every i in [0, n), on any threads and in any order,
 * and return when all calls have returned. Tasks do not wait for each other, so running them one after another on the
 * calling thread is correct too. Results never depend on it. A task takes up to 96 KiB of the thread's stack. */
typedef void (*gdn_task_fn)(void *arg, int32_t index);
typedef void (*gdn_parallel_for_fn)(void *user, int32_t n, gdn_task_fn task, void *arg);

/* The caller's host allocator: memory aligned to `alignment` (a power of two), or NULL. Used at
 * creation, at destruction, and by gdn_buffer_create() and gdn_buffer_destroy(). */
typedef void *(*gdn_alloc_fn)(void *user, uint64_t bytes, uint64_t alignment);
typedef void (*gdn_free_fn)(void *user, void *memory);

typedef struct gdn_context_desc {
    uint32_t size;
    uint32_t backend;                 /* GDN_BACKEND_*, default the CPU                            */
    uint32_t device;                  /* index among the backend's devices                         */
    uint32_t n_threads;               /* CPU: most threads for one call; 0 = see "Threads" below   */
    const char *implementation;       /* a name from gdn_implementation_describe(); NULL = best    */
    gdn_parallel_for_fn parallel_for; /* CPU: the caller's threads; NULL = the context's own       */
    void *parallel_user;
    gdn_log_fn log; /* NULL = silent, except for GDN_LOG                         */
    void *log_user;
    gdn_alloc_fn alloc; /* NULL = the C library's; alloc and free go together        */
    gdn_free_fn free;
    void *alloc_user;
    uint64_t timeout_ns; /* GPU: longest wait in one call; 0 = 10 seconds, an hour on software devices */
    const void *native;  /* GPU: the caller's own device, see the backend's header    */
    uint32_t level;      /* GDN_EXACT, the default, or GDN_EXACT_FTZ                  */
    uint32_t reserved;   /* 0                                                         */
} gdn_context_desc;

/* Threads: a context on the CPU starts n_threads - 1 of its own when it is created and joins them when it is destroyed.
 * n_threads is at most 4096. 0 means GDN_NUM_THREADS of the environment if that is a number from 1 to 4096, otherwise
 * one per processor that the process may use. They run on the processors of the thread that creates the context, or,
 * where that has fewer than n_threads, on those of the process: of any of its threads. So a thread that OpenMP
 * (OMP_PROC_BIND) or an engine has bound to one processor may create a context. With more threads than processors, the
 * log has a warning. If the system gives fewer threads, or none, calls take longer. In a
 * forked child a context from before the fork has no threads and runs on the calling one; create a new context there
 * for more. (A library built with OpenMP: docs/guide/build.md.) */

/* Levels. GDN_EXACT: a context may also run an implementation that is not exact; gdn_context_describe() reports that.
 * GDN_EXACT_FTZ: a context runs only implementations that have this level (gdn_implementation_info.levels). Without a
 * name the best of them runs; without one of them gdn_context_create() returns UNSUPPORTED.
 *   reference   both levels
 *   CPU         x86-64: both, at the same speed. Arm: "scalar" has both, "neon" only GDN_EXACT
 *   CUDA        GDN_EXACT
 *   Metal       at most one of the two; a probe of the device decides
 *   Vulkan      none, one or both; a probe of the device decides */

/* Create a context. On failure *ctx is NULL and nothing is left behind.
 * Thread-safe. Errors: INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE, OUT_OF_MEMORY, and UNSUPPORTED for a level. A GPU
 * backend also returns UNSUPPORTED for other reasons, DEVICE_LOST and TIMEOUT.
 *
 * Environment variables set what the description leaves open. This function reads them; no other function does, and
 * setuid programs never do. An empty variable counts as not set. A value that is not allowed is an error.
 *   GDN_LOG             error, warning, info or debug: where desc->log is NULL, lines up to that go to standard error.
 *   GDN_IMPLEMENTATION  a name for desc->implementation where that is NULL, such as scalar. With a backend in front,
 *                       as in cpu:avx2, it applies to that backend only.
 *   GDN_KNOWN_ANSWERS   on (default) or off: the self-test of device kernels. A GPU backend runs each kernel once in a
 *                       process on self-test vectors, before a call uses it. Other bits mean that the driver compiled
 *                       the kernel wrongly: creating the context, or the call, returns UNSUPPORTED and names it. */
GDN_API gdn_status gdn_context_create(const gdn_context_desc *desc, gdn_context **ctx);

/* Let a context on the CPU run its tasks on the threads of the OpenMP runtime that the process has loaded: GNU's,
 * LLVM's or Intel's. Sets desc->parallel_for and desc->parallel_user; all else of desc is the caller's, n_threads too.
 * For programs whose other work runs on OpenMP's threads: those spin for some time after each parallel region, on the
 * processors that a context's own threads would need.
 *   - The runtime is the one that dlsym(RTLD_DEFAULT) finds: the program links with it, or has loaded it with
 *     RTLD_GLOBAL, as PyTorch does. It must stay loaded. libgdn itself links with none.
 *   - Of one context's n_threads the runtime may start fewer, as its own settings say. Within a parallel region that is
 *     usually the calling thread alone.
 *   - In a process that was forked after the first call of this function, tasks run on the calling thread: GNU's
 *     runtime does not work there. Leave parallel_for NULL for threads of the context's own.
 *
 * Thread-safe. Errors: INVALID_ARGUMENT; UNAVAILABLE: there is no runtime, and desc is not changed. */
GDN_API gdn_status gdn_openmp_threads(gdn_context_desc *desc);

/* Destroy a context and the buffers that gdn_buffer_create() has made with it; NULL is allowed. Nothing of it may be in
 * use. */
GDN_API void gdn_context_destroy(gdn_context *ctx);

/* Describe the device, and the implementation, that a context runs on. Either may be NULL. */
GDN_API gdn_status gdn_context_describe(const gdn_context *ctx, gdn_device_info *device,
                                        gdn_implementation_info *implementation);

/* A queue of the backend: a CUstream, a VkCommandBuffer to record into, an id<MTLCommandBuffer>.
 * NULL is the context's own queue. On the CPU and the reference it must be NULL, and calls return when the work is
 * done. On GPU backends calls return when the work is queued. */
typedef void *gdn_stream;

/* Wait until everything on `stream` is done, for the context's timeout at most. Then report the first failure that a
 * device found since the last report (GDN_BAD_MAP, GDN_DEVICE_LOST, ...). */
GDN_API gdn_status gdn_synchronize(gdn_context *ctx, gdn_stream stream);

/* Report the first such failure without waiting; GDN_OK when there is none so far. Thread-safe on every backend, also
 * while another thread submits calls. */
GDN_API gdn_status gdn_poll(gdn_context *ctx);

/* Thread-safety of a context: on the CPU and the reference, any number of threads may run kernels on
 * one context at the same time, each with its own workspace. On a GPU backend a context belongs to one
 * thread at a time; create one context per thread to submit from several. */

/* ---- 6  Memory of a backend ---------------------------------------------------------------------- */

/* Bytes that a backend's kernels can reach.
 *   CPU, reference   data = host address
 *   CUDA             data = device address (CUdeviceptr)
 *   Vulkan, Metal    data = the buffer object (VkBuffer, id<MTLBuffer>), offset = where in it */
typedef struct gdn_span {
    void *data;
    uint64_t offset; /* bytes from data to the first element                                         */
    uint64_t bytes;  /* bytes that may be accessed from data + offset; 0 = unknown, not checked      */
} gdn_span;

/* Helpers for programs without an allocator of their own for the device. Engines that have one pass their own memory.
 *   create   1 to 2^46 bytes, aligned to at least 64 bytes; contents undefined.
 *   destroy  zeroes *span and accepts a span without data. INVALID_ARGUMENT for data that gdn_buffer_create() has not
 *            made with this context. On a GPU, a buffer that is still in use after the timeout is freed with the
 *            context. Buffers that are left are freed with the context too, on every backend.
 *   read, write  synchronous, after everything on the context's own queue.
 * On the CPU read and write are memcpy, and all four functions are thread-safe. */
GDN_API gdn_status gdn_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span);
GDN_API gdn_status gdn_buffer_destroy(gdn_context *ctx, gdn_span *span);
GDN_API gdn_status gdn_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                                    uint64_t bytes);
GDN_API gdn_status gdn_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target,
                                   uint64_t bytes);

/* ---- 7  Operands --------------------------------------------------------------------------------- */

/* Element types. Values are pinned. */
typedef int32_t gdn_dtype;
enum {
    GDN_F32 = 0,
    GDN_F16 = 1,  /* IEEE binary16                                                                   */
    GDN_BF16 = 2, /* the upper half of binary32                                                      */
    GDN_Q8_0 = 3, /* blocks of 32: one binary16 scale, then 32 int8; 34 bytes                        */
    GDN_I32 = 4,
    GDN_I64 = 5,
    GDN_DIGITS2 = 6, /* states of the chunked form of gated_delta_net, 2 digits an element: section 8.8 */
    GDN_DIGITS3 = 7  /* the same, 3 digits                                                          */
};

/* A tensor operand. Each operand's documentation lists the axes that have strides. stride[] holds these in bytes,
 * outermost first; its other members must be 0. An axis that is not listed is the innermost one, and contiguous.
 *   - A stride of 0 means "packed". For the last axis listed, that is the bytes of a contiguous row, or of an element
 *     if all axes are listed. For an outer axis, it is the size of the next axis inside times that axis's stride, or
 *     times its packed stride if that is larger.
 *   - Strides are not negative, and below 2^56, as offsets are.
 *   - Strides are multiples of the element's alignment: F32, I32: 4; F16, BF16, Q8_0: 2; I64: 8; DIGITS: 16. The first
 *     element must be aligned to it too. More alignment is not required, though 64 is fastest.
 *   - Rows of an operand do not overlap each other, read or written: sorted by stride, each axis steps over all bytes
 *     of the axes before it.
 * For an absent operand, leave all members as GDN_INIT has set them. */
typedef struct gdn_tensor {
    void *data;      /* as in gdn_span; NULL = the operand is absent                                 */
    uint64_t offset; /* as in gdn_span                                                               */
    uint64_t bytes;  /* as in gdn_span                                                               */
    int64_t stride[4];
    gdn_dtype dtype;
    int32_t reserved; /* 0                                                                          */
} gdn_tensor;

/* A pool of rows with n_slots slots each: the states of sequences, the histories of a convolution, or the entries of a
 * replay log. It is a tensor [n_rows][n_slots]... with its two outermost sizes. Each kernel says what a slot is. An
 * optional pool is given if n_rows is not 0. Then a call needs its data, and a query does not. */
typedef struct gdn_pool {
    void *data; /* as in gdn_tensor, up to dtype                                                  */
    uint64_t offset;
    uint64_t bytes;
    int64_t stride[4];
    gdn_dtype dtype;
    int32_t n_rows;
    int32_t n_slots;
    int32_t reserved; /* 0                                                                           */
} gdn_pool;

/* Ragged batches. The tokens of all sequences follow each other on one token axis of n_tokens. Sequence s owns the
 * tokens seq_start[s] <= i < seq_start[s + 1], and may own none.
 *
 * Example: sequences of 3, 1 and 5 tokens have seq_start { 0, 3, 4, 9 }, n_seqs 3 and n_tokens 9. The sequence stride
 * stays 0. It also stays 0 where operands are slices of one projection (example in section 8).
 *
 * Where a token operand's sequence stride is not 0, token t of sequence s is at s * stride[sequence] + t *
 * stride[token], with t counted from 0 in each sequence. That expresses [n_seqs][...] tensors in any axis order. Tokens
 * of no sequence then have no memory. The sequence stride steps over at least as many tokens as the longest sequence
 * has. The operand ends with its last token: other operands may begin after it, but not in gaps between sequences.
 *
 * Maps on a GPU are read when the kernel runs, from the device's memory. gdn_buffer_write() is synchronous. To decode
 * step after step without waits, order the copy of the maps with the calls:
 *   CUDA    cuMemcpyHtoDAsync() from page-locked memory on the call's stream, or a kernel that computes them.
 *   Vulkan  vkCmdUpdateBuffer() in front of the call in its command buffer, or host-visible memory.
 *   Metal   the `contents` of a shared buffer, written before the command buffer is committed.
 * The host must not change a map, or the source of its copy, before the device has read it: keep one for each step in
 * flight. gdn/cuda.h, gdn/vulkan.h and gdn/metal.h say more under "Maps". */

/* Special entries of maps. The first call of a sequence has GDN_NONE in state_src and history_src, and position 0. The
 * call then does not read the row, so the caller need not clear it. */
enum {
    GDN_NONE = -1, /* state_src, history_src: start from zero.  *_dst, index: write nothing          */
    GDN_SKIP = -2  /* state_src, history_src: the sequence is padding; nothing of it is read/written */
};

/* ---- Parts that gated_delta_net and ssm_conv share -------------------------------------------------
 *
 * The arguments of a kernel hold what every call needs. Each other capability is a part: a struct of its own that the
 * arguments point to. NULL means that the call does not use it. A part is read during the call only. */

/* Prefix checkpoints: the call keeps the state after every `interval` tokens of a sequence, for example for a prefix
 * cache. It counts tokens from the sequence's beginning, which args.position says (absent: 0). A sequence with T tokens
 * from position p uses its first min((p + T) / interval - p / interval, n) entries of dst. Later checkpoints are not
 * kept. A token may have a snapshot and a checkpoint: both are written.
 *
 * Example: keep the prefixes of 256, 512, ... tokens of a prompt that is read in calls of at most 1024 tokens.
 *
 *     gdn_checkpoints keep = GDN_INIT(gdn_checkpoints);
 *     keep.interval = 256;  keep.n = 4;  keep.dst.data = slots; // [n_seqs][4]: slots or rows that no sequence uses
 *     args.position.data = position;                            // [n_seqs]: 0, in the next call 1024, ...
 *     args.checkpoints = &keep;
 *
 * Slots are counted as in the kernel's own maps. So with state.n_slots above 1 the two kernels need maps of their own.
 * Limits: interval 1 to 2^31 - 1; n 1 to 2^20; n_seqs * n below 2^31. */
typedef struct gdn_checkpoints {
    uint32_t size;
    int32_t interval; /* tokens                                                                     */
    int32_t n;        /* entries of dst per sequence                                                */
    gdn_span dst;     /* int32 [n_seqs][n]: as state_dst or history_dst has them; or GDN_NONE       */
} gdn_checkpoints;

/* A tree of drafts: several tokens may follow the same one, and one call verifies them all. `parent`
 * holds the token that each token follows: the index of an earlier token of its sequence, counted from 0. GDN_NONE
 * means the token before the sequence's first one. Each output is, bit for bit, what decoding the token's branch alone
 * gives. Each kernel's documentation lists what else a tree needs.
 *
 * Limits: a parent comes before its children. Entries of padding are not read. */
typedef struct gdn_token_tree {
    uint32_t size;
    gdn_span parent; /* int32 [n_tokens], indexed as seq_start counts; absent: each token follows the one before it */
} gdn_token_tree;

/* How a call with these arguments would run. A kernel's query function fills it without running the call. A query that
 * fails leaves supported 0, and the error's text in reason. */
typedef struct gdn_capability {
    uint32_t size;
    int32_t supported;                 /* 1: the call would run                                  */
    int32_t exact;                     /* 1: and give the reference's bits                       */
    int32_t emulated;                  /* 1: on an emulator of the device                        */
    uint64_t workspace_bytes;          /* what args.workspace must hold, 64-byte aligned; or 0. It never shrinks
                                          where n_tokens, n_seqs, rows or batches grow and all else is the same. So
                                          the workspace of the largest call serves the smaller ones */
    char implementation[GDN_NAME_MAX]; /* and the variant that is planned, e.g. "avx512/columns". Sequences whose
                                          length or alignment the query cannot see may run another variant of it */
    char reason[GDN_REASON_MAX];       /* why it is not supported or not exact, or ""            */
    uint64_t slot_bytes;               /* of a packed slot of the states or of the history       */
    uint64_t log_entry_bytes;          /* of a packed entry of a replay log, with log or without */
} gdn_capability;

#endif /* GDN_BASE_H */
