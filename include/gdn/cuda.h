/*
 * gdn/cuda.h - a program's own CUDA context and streams with libgdn's CUDA backend.
 *
 * Not needed for running on a device's primary context, which is the one that the CUDA runtime (and so PyTorch) uses:
 * gdn_context_desc.backend = GDN_BACKEND_CUDA does that, and memory and streams of the runtime can be passed as they
 * are. With this header a program brings a context of its own. Needs no CUDA header.
 *
 *     gdn_cuda_desc native = GDN_INIT(gdn_cuda_desc);
 *     native.context = context;                              // CUcontext
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);
 *     desc.backend = GDN_BACKEND_CUDA;  desc.native = &native;
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 * The first context on a device runs each of the library's kernels on a few small calls whose results are known, and is
 * refused where one gives other bits (GDN_KNOWN_ANSWERS, see gdn_context_create()); no call does so later.
 *
 * ---- Memory ----
 * gdn_span.data and gdn_tensor.data are device addresses (CUdeviceptr, or what cudaMalloc gave) that kernels of the
 * context can reach: device memory, managed memory, or host memory that is mapped. Alignment to 16 bytes is fastest.
 *
 * ---- Streams ----
 * gdn_stream is a CUstream (cudaStream_t) of the context. A call launches kernels and returns; it never waits,
 * allocates nothing, and leaves the thread's current context as it was. What NULL and the default streams mean:
 *
 * NULL is a stream of the context's own, and a blocking one: it waits for what the program has queued on the legacy
 * default stream before the call, and the legacy default stream waits for it. So a program that works on that stream
 * (stream 0 of the CUDA runtime, PyTorch's current stream unless it says otherwise) may pass NULL, and
 * gdn_buffer_read() and gdn_buffer_write() are in order with it too. Of no other stream does it know, and two
 * gdn_contexts have two such streams.
 *
 * CU_STREAM_LEGACY, (CUstream)1, is the legacy default stream itself.
 *
 * CU_STREAM_PER_THREAD, (CUstream)2, is the calling thread's own default stream. A program that is compiled with
 * --default-stream per-thread passes this: its stream 0 is not the legacy one, and NULL is not in order with it.
 *
 * A program whose other streams are not to wait for these calls makes a stream of its own with CU_STREAM_NON_BLOCKING.
 *
 * A stream of another context is refused; so is, of a driver before CUDA 12.5, one of a green context. With newer ones
 * a stream of a green context of this device's primary context is taken, where the gdn_context runs in that primary
 * context: the call then has the multiprocessors of the green one. A gdn_context may also run in a green context itself
 * (`context` from cuCtxFromGreenCtx()); where the driver allows no blocking stream there, NULL does not wait for the
 * legacy default stream. A handle that was never a stream is refused where the driver notices; drivers may not.
 *
 * ---- Graphs ----
 * A stream may be capturing, in any mode: the call becomes kernel nodes, and nothing else. Each replay reads the maps
 * and the tensors as they are then. gdn_synchronize() refuses a stream that is capturing; gdn_poll() and gdn_buffer_*()
 * may be called at any time.
 *
 * ---- Maps ----
 * Maps lie in memory that the device can read, so a call does not read them: a kernel does, when the stream comes to
 * it. Written on the same stream, by cuMemcpyHtoDAsync() from page-locked memory or by a kernel of the program, they
 * need no wait on the host; page-locked memory that is mapped may be passed as it is.
 *
 * A value out of range makes its sequence (set_rows: its row) one that is skipped, nothing is written out of range, and
 * GDN_BAD_MAP is reported by gdn_synchronize() or gdn_poll(). A bad value in state_dst is one that is not written.
 * Where seq_start does not ascend, other sequences of the call may be left out too. That no slot is written twice
 * cannot be checked there: which write stays is then not defined.
 *
 * ---- Faults ----
 * What kernels and copies of anybody in the CUDA context run into (an illegal address, ...) breaks the whole context.
 * It is reported by the next call that hears of it, gdn_poll() included, as GDN_DEVICE_LOST, whoever's fault it is;
 * from then on every call returns GDN_DEVICE_LOST at once, with the driver's error in its text, and the libgdn context
 * can only be destroyed. A context that is broken already is not opened: gdn_context_create() returns GDN_DEVICE_LOST.
 */
#ifndef GDN_CUDA_H
#define GDN_CUDA_H

#include "gdn/gdn.h"

typedef struct gdn_cuda_desc {
    uint32_t size;
    uint32_t flags; /* none yet, 0                                                                        */
    void *context;  /* CUcontext, which must outlive the gdn_context; gdn_context_desc.device is not used.
                       NULL: the primary context of that device                                           */
} gdn_cuda_desc;
#define GDN_DEFAULTS_gdn_cuda_desc

#endif /* GDN_CUDA_H */
