/*
 * gdn.h - the whole of libgdn's C interface.
 *
 * libgdn computes the kernels that hybrid (recurrent + attention) language models need and general
 * tensor libraries do badly: gated_delta_net, ssm_conv and set_rows, over a recurrent state that keeps
 * K snapshots per row and is addressed through maps, so that one call serves many sequences and a
 * rejected draft is rolled back by choosing another snapshot instead of computing anything again.
 *
 * Every backend gives the bits of the scalar reference (docs/numerics.md), and the bits do not depend
 * on how the work is cut: into calls, into batches, over threads, or in place against out of place.
 *
 *   1  Five minutes            5  Contexts
 *   2  Status and errors       6  Memory of a backend
 *   3  Versions                7  Operands: tensors and spans
 *   4  Backends and devices    8  gated_delta_net   9  ssm_conv   10  set_rows
 *
 * ---- 1  Five minutes -------------------------------------------------------------------------------
 *
 *     gdn_context *ctx;
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);      // zero = default: the CPU, all its cores
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 *     gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args); // one token for each of 8 sequences
 *     a.n_seqs = a.n_tokens = a.n_rows = 8;  a.n_slots = 1;
 *     a.n_heads_k = 16; a.n_heads_v = 32;  a.head_dim_k = a.head_dim_v = 128;
 *     a.q.data = q; a.k.data = k; a.v.data = v; a.g.data = g; a.beta.data = beta; a.out.data = out;
 *     a.state.data = state;                                    // [8][1][32][128][128], updated in place
 *
 *     gdn_capability can = GDN_INIT(gdn_capability);           // how much scratch memory, once per shape
 *     if (gdn_gated_delta_net_query(ctx, &a, &can)) fail(gdn_last_error());
 *     if (can.workspace_bytes && gdn_buffer_create(ctx, can.workspace_bytes, &a.workspace)) fail(gdn_last_error());
 *
 *     if (gdn_gated_delta_net(ctx, &a, NULL)) fail(gdn_last_error());
 *
 *     gdn_buffer_destroy(ctx, &a.workspace);
 *     gdn_context_destroy(ctx);
 *
 * Conventions
 *   - Structs that are passed by pointer begin with `uint32_t size`: set it to sizeof the struct, as
 *     GDN_INIT does. Reserved members and unknown flag bits must be zero.
 *   - They only ever grow at the end, and zero always means "the default". So a program that was built against an
 *     older header keeps working: every size from that of the first release on is accepted, and nothing behind it is
 *     read or written. A program whose header is newer than the library works too, as long as the members that the
 *     library does not have are zero; where one is not, the call is refused and the text says that the library is
 *     older. In structs that the library fills in, such members become zero.
 *   - gdn_span and gdn_tensor have no size, because they lie inside other structs and in arrays. They
 *     cannot grow, and stay as they are for as long as GDN_ABI_VERSION does.
 *   - Shapes are written outermost first: [a][b][c] has c contiguous. Strides are in bytes.
 *   - Nothing allocates after gdn_context_create() except gdn_buffer_create(). Where a kernel needs
 *     scratch memory, its query function says how much and the caller passes it in.
 *   - A call that returns anything but GDN_OK has written nothing. The library never aborts.
 */
#ifndef GDN_GDN_H
#define GDN_GDN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(GDN_BUILD_SHARED)
#  define GDN_API __declspec(dllexport)
#elif defined(_WIN32) && defined(GDN_USE_SHARED)
#  define GDN_API __declspec(dllimport)
#elif !defined(_WIN32) && defined(__GNUC__)
#  define GDN_API __attribute__((visibility("default")))
#else
#  define GDN_API
#endif

/* What a struct that begins with `size` is declared with: its size, and zeros. In C a list of initialisers, so
 * that it does for objects with static storage too; in C++ an expression. */
#ifdef __cplusplus
#  define GDN_INIT(type) (::gdn_initialised<type>())
extern "C++" { /* templates have no C linkage */
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

/* ---- 2  Status and errors ---------------------------------------------------------------------- */

/* What every function that can fail returns. The values are pinned: they never change meaning. */
typedef int32_t gdn_status;
enum {
    GDN_OK               = 0,
    GDN_INVALID_ARGUMENT = 1, /* an argument is outside what its documentation allows                */
    GDN_UNSUPPORTED      = 2, /* valid, but this backend or device cannot do it                      */
    GDN_OUT_OF_MEMORY    = 3, /* host or device memory ran out                                       */
    GDN_NOT_FOUND        = 4, /* no such backend, device or implementation                           */
    GDN_UNAVAILABLE      = 5, /* the driver or loader of the backend is missing on this machine      */
    GDN_DEVICE_LOST      = 6, /* the device failed; the context can only be destroyed                */
    GDN_TIMEOUT          = 7, /* a bounded wait ran out                                              */
    GDN_BAD_MAP          = 8, /* found on a device after launch: a map held a value out of range     */
    GDN_INTERNAL         = 9  /* a driver call failed in a way it should not; the text has details   */
};

/* The text of the last failure on the calling thread: names the argument, what was given and what is
 * allowed. Never NULL; "" when nothing has failed. Valid until the thread's next failing call. */
GDN_API const char *gdn_last_error(void);

/* "GDN_OK", "GDN_INVALID_ARGUMENT", ... for any value; "unknown status" for others. Static storage. */
GDN_API const char *gdn_status_name(gdn_status status);

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

/* A backend has devices, and a device has implementations, listed best first: the instruction sets of
 * a CPU, or the pipelines of a GPU with hardware fma and with software fma. The lists can be walked
 * without a context; that is what `gdn info` prints. Values are pinned. */
enum {
    GDN_BACKEND_CPU       = 0, /* SIMD on the host, with threads of its own or the caller's          */
    GDN_BACKEND_REFERENCE = 1, /* the scalar specification, one thread; slow and always right        */
    GDN_BACKEND_CUDA      = 2,
    GDN_BACKEND_VULKAN    = 3,
    GDN_BACKEND_METAL     = 4,
    GDN_BACKEND_COUNT     = 5
};

#define GDN_NAME_MAX   64  /* bytes of a name, with its terminating zero   */
#define GDN_REASON_MAX 192 /* bytes of a reason, with its terminating zero */

typedef struct gdn_backend_info {
    uint32_t size;
    uint32_t backend;
    int32_t  built;                  /* 1: this build of the library contains the backend            */
    int32_t  available;              /* 1: it has at least one device on this machine                */
    uint32_t n_devices;
    uint32_t reserved;
    char     name[GDN_NAME_MAX];     /* "cpu", "reference", "cuda", "vulkan", "metal"                */
    char     reason[GDN_REASON_MAX]; /* why it is not available, or ""                               */
} gdn_backend_info;

typedef struct gdn_device_info {
    uint32_t size;
    uint32_t backend;
    uint32_t device;
    uint32_t n_implementations;
    int32_t  emulated;               /* 1: runs on an emulator, not on the hardware it is named for  */
    int32_t  shared_memory;          /* 1: spans are host addresses that the host may read and write */
    uint64_t memory_bytes;           /* memory of the device, 0 = unknown                            */
    char     name[GDN_NAME_MAX * 2]; /* the device's own name for itself                             */
} gdn_device_info;

typedef struct gdn_implementation_info {
    uint32_t size;
    int32_t  exact;                  /* 1: all results are the reference's bits, subnormals included */
    char     name[GDN_NAME_MAX];     /* "avx512", "avx2", "neon", "scalar", "fma", "soft-fma", ...   */
    char     reason[GDN_REASON_MAX]; /* why it is not exact, or ""                                   */
} gdn_implementation_info;

/* Describe a backend, one of its devices, or one implementation of a device (0 is the best one).
 * GDN_NOT_FOUND beyond the end of a list. Thread-safe. */
GDN_API gdn_status gdn_backend_describe(uint32_t backend, gdn_backend_info *info);
GDN_API gdn_status gdn_device_describe(uint32_t backend, uint32_t device, gdn_device_info *info);
GDN_API gdn_status gdn_implementation_describe(uint32_t backend, uint32_t device, uint32_t index,
                                               gdn_implementation_info *info);

/* ---- 5  Contexts ------------------------------------------------------------------------------- */

typedef struct gdn_context gdn_context; /* opaque: one device of one backend, ready to run */

/* Callbacks return to their caller: to leave one by longjmp() or by an exception is undefined, because memory,
 * locks and the floating-point mode are then not what they were. They may call the library, but not with the
 * context that calls them. */

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
    uint32_t            size;
    uint32_t            backend;        /* GDN_BACKEND_*, default the CPU                            */
    uint32_t            device;         /* index among the backend's devices                         */
    uint32_t            n_threads;      /* CPU: most threads for one call; 0 = see "Threads" below   */
    const char         *implementation; /* a name from gdn_implementation_describe(); NULL = best    */
    gdn_parallel_for_fn parallel_for;   /* CPU: the caller's threads; NULL = the context's own       */
    void               *parallel_user;
    gdn_log_fn          log;            /* NULL = silent, but for GDN_LOG                            */
    void               *log_user;
    gdn_alloc_fn        alloc;          /* NULL = the C library's; alloc and free go together        */
    gdn_free_fn         free;
    void               *alloc_user;
    uint64_t            timeout_ns;     /* GPU: longest wait in one call; 0 = 10 seconds, an hour on software devices */
    const void         *native;         /* GPU: the caller's own device, see the backend's header    */
} gdn_context_desc;

/* Threads: a context on the CPU starts n_threads - 1 of its own when it is created and joins them when it
 * is destroyed. n_threads 0 means the environment's GDN_NUM_THREADS if that is a number from 1 to 4096,
 * otherwise one per processor that the process may use. Where the system gives fewer threads, or none,
 * calls take longer. In a forked child a context from before the fork has no threads and runs on the
 * calling one; create a new context there for more. (A library built with OpenMP: docs/building.md.) */

/* Create a context. On failure *ctx is NULL and nothing is left behind.
 * Thread-safe. Errors: INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE, OUT_OF_MEMORY.
 *
 * What the description leaves open, the program's user may say in the environment, which is read here and at
 * no other time, and not at all in setuid programs. Empty is not set; a value that is not allowed is an error.
 *   GDN_LOG             error, warning, info or debug: where desc->log is NULL, lines up to that go to standard error.
 *   GDN_IMPLEMENTATION  a name for desc->implementation where that is NULL, such as scalar; or with a backend
 *                       in front, as in cpu:avx2, which leaves contexts of the other backends alone. */
GDN_API gdn_status gdn_context_create(const gdn_context_desc *desc, gdn_context **ctx);

/* Destroy a context; NULL is allowed. Nothing of it may be in use. */
GDN_API void gdn_context_destroy(gdn_context *ctx);

/* Describe the device, and the implementation, that a context runs on. Either may be NULL. */
GDN_API gdn_status gdn_context_describe(const gdn_context *ctx, gdn_device_info *device,
                                        gdn_implementation_info *implementation);

/* A queue of the backend: a CUstream, a VkCommandBuffer to record into, an id<MTLCommandBuffer>.
 * NULL is the context's own queue. On the CPU and the reference it must be NULL: calls there return
 * when the work is done. Elsewhere they return when it is queued. */
typedef void *gdn_stream;

/* Wait, for the context's timeout at most, until everything on `stream` is done, and report the first
 * failure that a device found since the last report (GDN_BAD_MAP, GDN_DEVICE_LOST, ...). */
GDN_API gdn_status gdn_synchronize(gdn_context *ctx, gdn_stream stream);

/* Report the first such failure without waiting; GDN_OK when there is none so far. Thread-safe. */
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
    void    *data;
    uint64_t offset; /* bytes from data to the first element                                         */
    uint64_t bytes;  /* bytes that may be accessed from there; 0 = not stated, the caller vouches    */
} gdn_span;

/* Helpers for programs that have no allocator of their own for the device; engines that have one pass
 * their own memory. Alignment at least 64 bytes; contents undefined. read and write are synchronous and
 * are ordered after everything on the context's own queue. On the CPU they are memcpy. */
GDN_API gdn_status gdn_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span);
GDN_API void       gdn_buffer_destroy(gdn_context *ctx, gdn_span *span); /* and zeroes *span */
GDN_API gdn_status gdn_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset,
                                    const void *source, uint64_t bytes);
GDN_API gdn_status gdn_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset,
                                   void *target, uint64_t bytes);

/* ---- 7  Operands --------------------------------------------------------------------------------- */

/* Element types. Values are pinned. */
enum {
    GDN_F32  = 0,
    GDN_F16  = 1, /* IEEE binary16                                                                   */
    GDN_BF16 = 2, /* the upper half of binary32                                                      */
    GDN_Q8_0 = 3, /* blocks of 32: one binary16 scale, then 32 int8; 34 bytes                        */
    GDN_I32  = 4,
    GDN_I64  = 5
};

/* A tensor operand. The innermost axis is always contiguous; stride[] holds the byte strides of the
 * axes outside it, outermost first, as each operand's documentation lists them; those it does not list
 * must be 0. A stride of 0 means "packed": the extent of everything inside that axis. Strides are not
 * negative and are multiples of the element's alignment (F32, I32: 4; F16, BF16, Q8_0: 2; I64: 8), to
 * which the first element must be aligned; more alignment is not required, though 64 is fastest. */
typedef struct gdn_tensor {
    void    *data;   /* as in gdn_span; NULL = the operand is absent                                 */
    uint64_t offset; /* as in gdn_span                                                               */
    uint64_t bytes;  /* as in gdn_span                                                               */
    int64_t  stride[4];
    int32_t  dtype;  /* GDN_F32, ...                                                                 */
    int32_t  reserved;
} gdn_tensor;

/* Ragged batches. Tokens of all sequences lie one after another on one token axis of n_tokens:
 * sequence s owns the tokens seq_start[s] <= i < seq_start[s + 1], and may own none. Where a token
 * operand's sequence stride is not 0, token t of sequence s is instead found at
 * s * stride[sequence] + t * stride[token]; that expresses [n_seqs][...] tensors in any axis order.
 *
 * For example: sequences of 3, 1 and 5 tokens have seq_start { 0, 3, 4, 9 }, n_seqs 3 and n_tokens 9. The sequence
 * stride stays 0, since the tokens of all sequences follow each other, also where operands are slices of one
 * projection, of which section 8 has an example.
 *
 * Maps on a GPU are read when the kernel runs, from the device's memory. gdn_buffer_write() is synchronous; a
 * program that decodes step after step orders the copy of its maps with the calls instead, and nothing waits:
 *   CUDA    cuMemcpyHtoDAsync() from page-locked memory on the call's stream, or a kernel that computes them.
 *   Vulkan  vkCmdUpdateBuffer() in front of the call in its command buffer, or host-visible memory.
 *   Metal   the `contents` of a shared buffer, written before the command buffer is committed.
 * gdn/cuda.h, gdn/vulkan.h and gdn/metal.h say more under "Maps". Whatever the host writes to, a map or what it
 * is copied from, must not change before it has been read: keep as many as there are steps in flight. */

/* What a kernel's query function tells about a call with these arguments, without running it. */
typedef struct gdn_capability {
    uint32_t size;
    int32_t  supported;                    /* 1: the call would run                                  */
    int32_t  exact;                        /* 1: and give the reference's bits                       */
    int32_t  emulated;                     /* 1: on an emulator of the device                        */
    uint64_t workspace_bytes;              /* what args.workspace must hold, 64-byte aligned; or 0. With all else the
                                              same it never shrinks where n_tokens, n_seqs, rows or batches grow, so
                                              that the workspace of the largest call serves the smaller ones */
    char     implementation[GDN_NAME_MAX]; /* which one would run, e.g. "avx512/columns"             */
    char     reason[GDN_REASON_MAX];       /* why it is not supported or not exact, or ""            */
} gdn_capability;

/* ---- 8  gated_delta_net -------------------------------------------------------------------------- */

/* Which key head kappa(h) value head h uses, with r = n_heads_v / n_heads_k. */
enum {
    GDN_HEADS_GROUPED = 0, /* h / r          HF transformers, Qwen3-Next GGUF                        */
    GDN_HEADS_TILED   = 1  /* h % n_heads_k  ggml, Qwen3.5 GGUF                                      */
};
/* Shape of the gate. */
enum {
    GDN_GATE_SCALAR  = 0, /* one per token and head: gated delta net                                 */
    GDN_GATE_CHANNEL = 1  /* one per token, head and key channel: Kimi delta attention (KDA)         */
};
/* Order of a head's state matrix. The bits of every element are the same in both. */
enum {
    GDN_STATE_VK = 0, /* [head_dim_v][head_dim_k], keys contiguous: ggml, vLLM, SGLang, FlashInfer   */
    GDN_STATE_KV = 1  /* [head_dim_k][head_dim_v], values contiguous: HF transformers, FLA           */
};
/* How each head's q and k are normalised inside the call (l2 norm). */
enum {
    GDN_NORM_NONE  = 0, /* they come as the recurrence wants them                                    */
    GDN_NORM_ADD   = 1, /* x / sqrt(sum x^2 + eps): FLA, HF transformers, vLLM (1e-6)                */
    GDN_NORM_CLAMP = 2  /* x / max(sqrt(sum x^2), eps): ggml's l2_norm                               */
};
/* What g holds, x being an element of it. */
enum {
    GDN_G_LOG       = 0, /* the logarithm of the decay: a = exp(x)                                   */
    GDN_G_LINEAR    = 1, /* the decay: a = x                                                         */
    GDN_G_RAW       = 2, /* the projection: a = exp(ssm_a * softplus(x + dt_bias)), ssm_a -exp(A_log): GGUF files */
    GDN_G_RAW_A_LOG = 3  /* the same, with A_log in ssm_a, as HF transformers and FLA have it        */
};
/* What beta holds, x being an element of it. */
enum {
    GDN_BETA_PLAIN = 0, /* beta_factor * x                                                           */
    GDN_BETA_LOGIT = 1  /* the projection: beta_factor * sigmoid(x)                                  */
};
/* Special entries of maps. The first call of a sequence has GDN_NONE in state_src and history_src, and position
 * 0: what was left in its row is then not read, and nobody needs to clear it. */
enum {
    GDN_NONE = -1, /* state_src, history_src: start from zero.  *_dst, index: write nothing          */
    GDN_SKIP = -2  /* state_src, history_src: the sequence is padding; nothing of it is read/written */
};

/*
 * The gated delta rule, token by token, for every value head h of every sequence, in place of attention.
 * With S the head's state (key x value), a = exp(g) unless g_form says otherwise, in the order docs/numerics.md fixes:
 *
 *     kv[j]   = a * sum_i S[i][j] k[i]              (GATE_CHANNEL: sum_i S[i][j] (a[i] k[i]))
 *     d[j]    = beta * (v[j] - kv[j])
 *     S[i][j] = k[i] * d[j] + a * S[i][j]           (GATE_CHANNEL: a[i])
 *     out[j]  = scale * sum_i S[i][j] q[i]
 *
 * Operands, with their axes outermost first and the strides that apply to them:
 *   q, k     [n_tokens][n_heads_k][head_dim_k]   F32 F16 BF16   stride: sequence, token, head
 *            Models divide each head's q and k by its length (l2 norm): with a k much longer than 1 the states
 *            grow without bound. qk_norm says how the call does it; GDN_NORM_NONE takes them as they are.
 *   v        [n_tokens][n_heads_v][head_dim_v]   F32 F16 BF16   stride: sequence, token, head
 *   g        [n_tokens][n_heads_v], or [..][head_dim_k] for GATE_CHANNEL; F32 F16 BF16; what g_form says, by
 *            default the natural logarithm of the decay (usually <= 0)    stride: sequence, token, head
 *   beta     [n_tokens][n_heads_v]               F32 F16 BF16; what beta_form says, by default the factor of
 *            the delta itself                                    stride: sequence, token, head
 *   ssm_a    [n_heads_v]                         F32 F16 BF16   stride: head.  GDN_G_RAW, GDN_G_RAW_A_LOG only
 *   dt_bias  [n_heads_v], or [..][head_dim_k] for GATE_CHANNEL; F32 F16 BF16; stride: head. Optional; as ssm_a
 *   out      [n_tokens][n_heads_v][head_dim_v]   F32 F16 BF16, rounded once; stride: sequence, token, head
 *   state    [n_rows][n_slots][n_heads_v][line][contiguous]  F32   stride: row, slot, head, line
 *            a pool of rows, each with n_slots snapshots; `line` is head_dim_v lines of head_dim_k for
 *            STATE_VK and head_dim_k lines of head_dim_v for STATE_KV. Read and written.
 *   state_out  as state, n_rows_out x n_slots_out: where states are written. Absent = state itself.
 *
 * Slices of one projection need no copies: with x = [n_tokens][2 * K + V] what ssm_conv gave for a layer with K =
 * n_heads_k * head_dim_k key channels and V = n_heads_v * head_dim_v value channels,
 *
 *     const int64_t token = 4 * (2 * K + V);
 *     args.q = (gdn_tensor){ .data = x, .stride = { 0, token } };
 *     args.k = (gdn_tensor){ .data = x, .offset = 4 * K, .stride = { 0, token } };
 *     args.v = (gdn_tensor){ .data = x, .offset = 8 * K, .stride = { 0, token } };
 *
 * and so with a projection [n_tokens][2 * n_heads_v] whose halves are beta and g. With qk_norm, g_form and beta_form
 * a layer between its two projections is two calls, ssm_conv and this one.
 *
 * Maps, int32, in memory that the device can read (host memory on the CPU and the reference); each may be absent:
 *   seq_start [n_seqs + 1]  not descending, from >= 0 to <= n_tokens. Absent: n_tokens / n_seqs each.
 *   state_src [n_seqs]      where sequence s starts from: row * n_slots + slot, or GDN_NONE for a zero state, or
 *                           GDN_SKIP. Absent: slot 0 of row s.
 *   state_dst [n_seqs][n_snapshots]  where the state r tokens before the sequence's newest goes, for
 *                           r < n_snapshots: row * n_slots_out + slot, or GDN_NONE. Absent: slot r of row s.
 *   position  [n_seqs]      position of the sequence's first token = number of tokens before it, >= 0. Absent: 0.
 *   state_checkpoint [n_seqs][n_checkpoints]  where the sequence's checkpoints go, in the order of its tokens:
 *                           row * n_slots_out + slot, or GDN_NONE. These two with checkpoint_interval only.
 * Every entry has to be in range, also of padding and of sequences without tokens, even where no sequence has any;
 * but of state_dst and state_checkpoint only those that are used: no backend looks at entries of state_dst with r not
 * less than the sequence's number of tokens, at checkpoints that it does not come to, nor at either of padding. With
 * n_seqs 0 no map is read.
 * No slot may be written twice in one call, nor be written by one sequence and read by another. A sequence may write
 * the slot it reads: that is the in-place update. Memory that no map entry names is never touched, and a sequence
 * without tokens reads and writes nothing.
 *
 * A ring of snapshots tagged by position needs no copies ever: the state after p tokens lives in slot p % n_slots, so
 * state_src = row * K + p % K and state_dst[r] = row * K + (p + T - r) % K; rolling back is choosing a smaller p. To
 * verify N drafts, a call has N + 1 tokens, the last accepted one and the drafts, any number of which may be
 * rejected: K = N + 1 slots, for the state behind the accepted token and N behind drafts.
 *
 * Checkpoints are kept on the way: with checkpoint_interval N, the state after each token with which the number of the
 * sequence's tokens becomes a multiple of N goes to the sequence's next entry of state_checkpoint. With T tokens from
 * position p on it uses its first min((p + T) / N - p / N, n_checkpoints) entries; later ones are not kept. A token may
 * have a snapshot too: both are written, to two slots. For example, to keep a prompt's prefixes of 256, 512, ... tokens
 * in slots from which other calls may start, by naming one in state_src, while at most 1024 tokens go through a call:
 *
 *     args.checkpoint_interval = 256;   args.position.data = position;       // [n_seqs]: 0, in the next call 1024, ...
 *     args.n_checkpoints = 4;           args.state_checkpoint.data = slots;  // [n_seqs][4]: of rows that nobody has
 *
 * Limits: head_dim_k, head_dim_v 16..256; n_heads_v a multiple of n_heads_k.
 * Aliasing: inputs may overlap each other. out and the written states overlap nothing else; state_out
 *   is either absent, the same tensor as state, or apart from it.
 * Workspace: args.workspace, of the size the query tells; it may be absent when that is 0. Contents are
 *   of no meaning before and after; two calls that run at the same time need two.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED; on devices, bad map values surface later as BAD_MAP.
 * Thread-safety: see "Thread-safety of a context".
 * Source: Yang, Kautz, Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule" (2024),
 *   equation 10; the channel gate is from "Kimi Linear" (2025).
 */
typedef struct gdn_gated_delta_net_args {
    uint32_t   size;
    uint32_t   flags;        /* none yet, 0                                                          */
    int32_t    n_seqs;
    int32_t    n_tokens;     /* of all sequences together                                            */
    int32_t    n_heads_k, n_heads_v, head_dim_k, head_dim_v;
    int32_t    head_map;     /* GDN_HEADS_*                                                          */
    int32_t    gate;         /* GDN_GATE_*                                                           */
    int32_t    state_layout; /* GDN_STATE_*                                                          */
    int32_t    n_rows;
    int32_t    n_slots;      /* K; 0 = 1                                                             */
    int32_t    n_rows_out;   /* of state_out; 0 = n_rows                                             */
    int32_t    n_slots_out;  /* of state_out; 0 = n_slots                                            */
    int32_t    n_snapshots;  /* entries of state_dst per sequence; 0 = n_slots_out                   */
    float      scale;        /* of out; 0 = 1 / sqrt(head_dim_k)                                     */
    int32_t    reserved;
    gdn_tensor q, k, v, g, beta, out, state, state_out;
    gdn_span   seq_start, state_src, state_dst;
    gdn_span   workspace;
    int32_t    qk_norm;      /* GDN_NORM_*                                                           */
    int32_t    g_form;       /* GDN_G_*                                                              */
    int32_t    beta_form;    /* GDN_BETA_*                                                           */
    float      qk_norm_eps;  /* eps of qk_norm, >= 0; 0 is 0                                         */
    float      beta_factor;  /* 0 = 1; 2 for models with negative eigenvalues                        */
    int32_t    reserved2;
    gdn_tensor ssm_a, dt_bias;
    int32_t    checkpoint_interval; /* N tokens; 0 = no checkpoints                                  */
    int32_t    n_checkpoints; /* entries of state_checkpoint per sequence; 0 without an interval     */
    gdn_span   position, state_checkpoint;
} gdn_gated_delta_net_args;

/* Would it run, would it be exact, which implementation, how much workspace. Maps are not read, and
 * data, maps and workspace may be absent. */
GDN_API gdn_status gdn_gated_delta_net_query(const gdn_context *ctx, const gdn_gated_delta_net_args *args,
                                             gdn_capability *capability);
/* Run it. */
GDN_API gdn_status gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_stream stream);

/* ---- 9  ssm_conv ---------------------------------------------------------------------------------- */

enum { GDN_CONV_SILU = 1 }; /* flag: out = silu(sum) */

/*
 * Causal depthwise convolution along the tokens of each sequence, with its history kept as a ring that
 * rolls back by position. For channel c of the token at position p, taps oldest first:
 *
 *     u = bias[c];  for j = 0 .. kernel_width - 1:  u = weight[c][j] * x(p - kernel_width + 1 + j)[c] + u
 *     out[c] = u, or u / (1 + exp(-u)) with GDN_CONV_SILU
 *
 * where x(p') is a token of this call, a column of the history, or zero for p' < 0.
 *
 * Operands:
 *   x        [n_tokens][n_channels]              F32 F16 BF16   stride: sequence, token
 *   weight   [n_channels][kernel_width]          F32 F16 BF16   stride: channel, tap; tap-major: { 4, 4 * n_channels }
 *   bias     [n_channels]                        F32 F16 BF16   optional
 *   out      [n_tokens][n_channels]              F32 F16 BF16, rounded once   stride: sequence, token
 *   history  [n_rows][n_columns][n_channels]     F32 F16 BF16   stride: row, column. Optional: absent means that every
 *            sequence starts from zero and none is kept. The column of position p is p % n_columns, n_columns >=
 *            kernel_width - 1; each column more allows a rollback one token deeper: to verify N drafts, kernel_width
 *            - 1 + N. Read and written.
 *   history_out  as history, of its type, n_rows_out rows: where columns are written. Absent = history itself.
 * 16-bit elements are widened exactly; sums are F32. The history takes x's bits where it has x's type, else its values,
 * rounded once. A history of x's type, or of F32, is exact; any other is not, and then results depend on where tokens
 * are cut into calls.
 *
 * Maps, int32, as in gated_delta_net; each may be absent:
 *   seq_start   [n_seqs + 1]
 *   position    [n_seqs]   position of the sequence's first token in this call = number of tokens before it, >= 0.
 *                          Absent: 0. Rolling back is passing a smaller position.
 *   history_src [n_seqs]   row to read, GDN_NONE for a zero history, GDN_SKIP. Absent: row s.
 *   history_dst [n_seqs]   row to write, or GDN_NONE. Absent: row s.
 *   history_checkpoint [n_seqs][n_checkpoints]  rows for checkpoints, or GDN_NONE. With checkpoint_interval only.
 * Every entry has to be in range, also those of padding and of sequences without tokens, as in gated_delta_net, but of
 * history_checkpoint only those that are used. After the call the written row holds the columns of the newest
 * min(position + T, n_columns) positions; where it is another than the row that was read, the older of them are copied
 * over (or are zero), so that it rolls back as deep. No row may be written twice, nor be written by one sequence and
 * read by another. Sequences without tokens read and write nothing.
 *
 * Checkpoints come after the same tokens, and use as many entries, as in gated_delta_net; they need a history. Of the
 * row, the columns of the newest min(p, kernel_width - 1) positions are written, where p is the number of tokens by
 * then, and no others: a sequence goes on from it at position p, and cannot be rolled back behind that.
 *
 * Limits: kernel_width 1..16; position + number of tokens below 2^31. Workspace, errors, threads: as gated_delta_net.
 * Aliasing: inputs may overlap each other; out and written history overlap nothing else.
 * Source: the causal-conv1d of Mamba (Gu, Dao 2023); ggml's SSM_CONV fused with its concat, bias, SiLU.
 */
typedef struct gdn_ssm_conv_args {
    uint32_t   size;
    uint32_t   flags;        /* GDN_CONV_*                                                           */
    int32_t    n_seqs, n_tokens, n_channels, kernel_width, n_rows;
    int32_t    n_columns;    /* 0 = kernel_width - 1                                                 */
    int32_t    n_rows_out;   /* of history_out; 0 = n_rows                                           */
    int32_t    reserved;
    gdn_tensor x, weight, bias, out, history, history_out;
    gdn_span   seq_start, position, history_src, history_dst;
    gdn_span   workspace;
    int32_t    checkpoint_interval; /* N tokens; 0 = no checkpoints                                  */
    int32_t    n_checkpoints; /* entries of history_checkpoint per sequence; 0 without an interval   */
    gdn_span   history_checkpoint;
} gdn_ssm_conv_args;

GDN_API gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const gdn_ssm_conv_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_ssm_conv(gdn_context *ctx, const gdn_ssm_conv_args *args, gdn_stream stream);

/* ---- 10  set_rows --------------------------------------------------------------------------------- */

/*
 * Scatter rows into a tensor, converting them: dst[b][c][index[b % ..][c % ..][i]] = convert(src[b][c][i]).
 *
 * Operands (b < n_batch[0], c < n_batch[1]):
 *   src    [n_batch[0]][n_batch[1]][n_rows][n_columns]       F32 F16 BF16       stride: batch 0, batch 1, row
 *   dst    [n_batch[0]][n_batch[1]][n_rows_dst][n_columns]   F32 F16 BF16 Q8_0  stride: batch 0, batch 1, row
 *   index  [index_batch[0]][index_batch[1]][n_rows]          I32 I64            stride: batch 0, batch 1, row
 *          0 <= index < n_rows_dst, or GDN_NONE: that row is not written. Where two rows name the same
 *          target the later one wins, on every backend.
 * Conversions round to nearest, ties to even; F16 overflow gives infinity. Q8_0 as docs/numerics.md says.
 *
 * Limits: n_columns a multiple of 32 for Q8_0; index_batch[k] divides n_batch[k].
 * Aliasing: dst overlaps neither src nor index.
 * Errors: as gated_delta_net. An index out of range is an error before anything is written on the CPU and
 *   the reference; on a device that row is skipped and BAD_MAP is reported.
 * Workspace, thread-safety: as gated_delta_net.
 * Source: ggml's SET_ROWS.
 */
typedef struct gdn_set_rows_args {
    uint32_t   size;
    uint32_t   flags;          /* none yet, 0                                                        */
    int64_t    n_columns, n_rows, n_rows_dst;
    int64_t    n_batch[2];     /* 0 = 1                                                              */
    int64_t    index_batch[2]; /* 0 = 1                                                              */
    gdn_tensor src, dst, index;
    gdn_span   workspace;
} gdn_set_rows_args;

GDN_API gdn_status gdn_set_rows_query(const gdn_context *ctx, const gdn_set_rows_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_set_rows(gdn_context *ctx, const gdn_set_rows_args *args, gdn_stream stream);

#ifdef __cplusplus
}
#endif
#endif /* GDN_GDN_H */
