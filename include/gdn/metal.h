/*
 * gdn/metal.h - a program's own Metal objects with libgdn's Metal backend.
 *
 * A program that runs on the system's default device does not need this header: gdn_context_desc.backend =
 * GDN_BACKEND_METAL does that. With this header a program brings its device and queue. Needs no Metal header, and no
 * Objective-C: objects are passed as pointers, (__bridge void *)device from a file with ARC.
 *
 *     gdn_metal_desc native = GDN_INIT(gdn_metal_desc);
 *     native.queue = (__bridge void *)queue;                 // id<MTLCommandQueue>
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);
 *     desc.backend = GDN_BACKEND_METAL;  desc.native = &native;
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 * The library retains the objects until the context is destroyed. Each of its functions has an autorelease pool.
 *
 * ---- Buffers ----
 * gdn_span.data and gdn_tensor.data are id<MTLBuffer> of the context's device. gdn_span.offset is in bytes from the
 * buffer's start. Calls accept any storage mode. gdn_buffer_read() and gdn_buffer_write() accept shared buffers.
 * Buffers of gdn_buffer_create() are shared: the program may use their `contents` before a call is made or after it
 * is done. Two buffers of a call must not alias the same memory (of a heap).
 *
 * ---- Queue ----
 * With stream = NULL a call encodes a command buffer of the queue, commits it and returns. gdn_synchronize() waits for
 * these. Where 16 of them are not done, a call waits for the oldest.
 *
 * ---- Command buffers and encoders ----
 * gdn_stream is one of two objects:
 *   id<MTLCommandBuffer>          not committed, no open encoder. A call opens and ends a compute encoder in it.
 *   id<MTLComputeCommandEncoder>  open. A call only encodes into it.
 * A call never commits, waits for or ends an object of the program. It leaves another pipeline and other buffers set.
 * An encoder may be serial or concurrent. A call begins with a barrier for buffers, so calls are ordered among
 * themselves. What the program encodes into a concurrent encoder after a call needs a barrier of its own.
 *
 * gdn_synchronize() waits for the context's own command buffers only. For one of the program, call its
 * waitUntilCompleted; gdn_poll() then reports what the device found.
 *
 * ---- Maps ----
 * Maps are in memory that the device can read; a kernel reads them. The program writes the `contents` of shared buffers
 * before it commits, and does not change them until the command buffer is done.
 *
 * A kernel that reads a value out of range skips that sequence (set_rows: that row) and writes nothing out of range.
 * gdn_synchronize() or gdn_poll() reports GDN_BAD_MAP. For a bad value in state_dst,
 * log.commit or checkpoints.dst only that state is not written.
 * Where seq_start descends, the kernel may skip other sequences of the call too. A kernel cannot check that no slot is
 * written twice: which write remains is then undefined.
 *
 * ---- Kernels ----
 * gdn_context_create() compiles their source. The first call that needs a pipeline (a head size, a gate) creates it,
 * and the context keeps it. To avoid that delay in later calls, run every shape once beforehand, on any data.
 *
 * On an exact device each new pipeline first runs its self-test vectors, once in a process (GDN_KNOWN_ANSWERS, see
 * gdn_context_create()). The self-test is a small command buffer on the queue, and the call waits for it. A call with a
 * stream neither commits nor waits; gdn_synchronize(ctx, NULL) then runs the self-test. It returns UNSUPPORTED where
 * the result is wrong.
 *
 * ---- Faults ----
 * If a command buffer of the context ends in an error, the next call that detects it, gdn_poll() included, returns
 * GDN_DEVICE_LOST. The context can then only be destroyed.
 */
#ifndef GDN_METAL_H
#define GDN_METAL_H

#include "gdn/gdn.h"

typedef struct gdn_metal_desc {
    uint32_t size;
    uint32_t flags; /* 0: no flags are defined                                                            */
    void *device;   /* id<MTLDevice>; NULL: the queue's. gdn_context_desc.device is then not used         */
    void *queue;    /* id<MTLCommandQueue> of that device; NULL: one of the library's own. Both NULL: the
                       system's default device                                                            */
} gdn_metal_desc;
#define GDN_DEFAULTS_gdn_metal_desc

#endif /* GDN_METAL_H */
