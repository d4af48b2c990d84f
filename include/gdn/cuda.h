/*
 * gdn/cuda.h - a program's own CUDA context and streams with libgdn's CUDA backend.
 *
 * A program that runs on a device's primary context does not need this header. The CUDA runtime, and so PyTorch, uses
 * the primary context. gdn_context_desc.backend = GDN_BACKEND_CUDA selects it, and memory and streams of the runtime
 * can be passed as they are. With this header a program brings a context of its own. Needs no CUDA header.
 *
 *     gdn_cuda_desc native = GDN_INIT(gdn_cuda_desc);
 *     native.context = context;                              // CUcontext
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);
 *     desc.backend = GDN_BACKEND_CUDA;  desc.native = &native;
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 * The first context on a device runs each of the library's kernels on self-test vectors: a few small calls with known
 * results. gdn_context_create() fails if a kernel gives other bits (GDN_KNOWN_ANSWERS). No call runs self-tests later.
 *
 * ---- Memory ----
 * gdn_span.data and gdn_tensor.data are device addresses (CUdeviceptr, or what cudaMalloc gave) that kernels of the
 * context can reach: device memory, managed memory, or host memory that is mapped. Alignment to 16 bytes is fastest.
 *
 * ---- Streams ----
 * gdn_stream is a CUstream (cudaStream_t) of the context. A call launches kernels and returns. It never waits,
 * allocates nothing, and leaves the thread's current context as it was.
 *
 *   NULL                  the context's own stream, which is a blocking one. It waits for what the program has queued
 *                         on the legacy default stream before the call, and the legacy default stream waits for it.
 *   CU_STREAM_LEGACY      (CUstream)1, the legacy default stream itself.
 *   CU_STREAM_PER_THREAD  (CUstream)2, the calling thread's own default stream. A program that is compiled with
 *                         --default-stream per-thread passes this: its stream 0 is not the legacy one, and NULL is not
 *                         in order with it.
 *
 * A program that works on the legacy default stream may pass NULL. That is stream 0 of the CUDA runtime, and PyTorch's
 * current stream by default. gdn_buffer_read() and gdn_buffer_write() are in order with it too. NULL is not in order
 * with any other stream, and two gdn_contexts have two such streams. A program whose other streams must not wait for
 * these calls makes a stream of its own with CU_STREAM_NON_BLOCKING.
 *
 * The call refuses a stream of another context, and with a driver before CUDA 12.5 one of a green context. With newer
 * drivers it takes a stream of a green context whose primary context is the gdn_context's. The call then has the
 * multiprocessors of the green context. A gdn_context may also run in a green context itself (`context` from
 * cuCtxFromGreenCtx()). If the driver allows no blocking stream there, NULL does not wait for the legacy default
 * stream. A handle that was never a stream is refused only if the driver detects it.
 *
 * ---- Graphs ----
 * A stream may be capturing, in any mode: the call becomes kernel nodes, and nothing else. Each replay reads the maps
 * and the tensors as they are then. gdn_synchronize() refuses a stream that is capturing; gdn_poll() and gdn_buffer_*()
 * may be called at any time.
 *
 * ---- Maps ----
 * Maps are in memory that the device can read. The kernel reads them when the stream reaches it. A map needs no wait on
 * the host if it is written on the same stream, by cuMemcpyHtoDAsync() from page-locked memory or by a kernel of the
 * program. Page-locked memory that is mapped may be passed as it is.
 *
 * A kernel that reads a value out of range skips that sequence (set_rows: that row) and writes nothing out of range.
 * gdn_synchronize() or gdn_poll() reports GDN_BAD_MAP. For a bad value in state_dst,
 * log.commit or checkpoints.dst only that state is not written.
 * Where seq_start descends, the kernel may skip other sequences of the call too. A kernel cannot check that no slot is
 * written twice: which write remains is then undefined.
 *
 * ---- Faults ----
 * A fault in any kernel or copy of the CUDA context (an illegal address, ...) breaks the whole context, whether or not
 * libgdn launched it. The next call that detects it, gdn_poll() included, returns GDN_DEVICE_LOST. Every later call
 * also returns GDN_DEVICE_LOST at once, with the driver's error in its text. The gdn_context can then only be
 * destroyed. gdn_context_create() returns GDN_DEVICE_LOST for a context that is already broken.
 */
#ifndef GDN_CUDA_H
#define GDN_CUDA_H

#include "gdn/gdn.h"

typedef struct gdn_cuda_desc {
    uint32_t size;
    uint32_t flags; /* 0: no flags are defined                                                            */
    void *context;  /* CUcontext, which must outlive the gdn_context; gdn_context_desc.device is not used.
                       NULL: the primary context of that device                                           */
} gdn_cuda_desc;
#define GDN_DEFAULTS_gdn_cuda_desc

#endif /* GDN_CUDA_H */
