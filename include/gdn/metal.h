/*
 * gdn/metal.h - a program's own Metal objects with libgdn's Metal backend.
 *
 * Not needed for running on the system's default device: gdn_context_desc.backend = GDN_BACKEND_METAL does that. With
 * this header a program brings its device and queue. Needs no Metal header, and no Objective-C: objects are passed as
 * pointers,
 * (__bridge void *)device from a file with ARC.
 *
 *     gdn_metal_desc native = GDN_INIT(gdn_metal_desc);
 *     native.queue = (__bridge void *)queue;                 // id<MTLCommandQueue>
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);
 *     desc.backend = GDN_BACKEND_METAL;  desc.native = &native;
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 * The library retains what it is given until the context is destroyed, and every entry has an autorelease pool of its
 * own.
 *
 * ---- Buffers ----
 * gdn_span.data and gdn_tensor.data are id<MTLBuffer> of the context's device, gdn_span.offset is in bytes from the
 * buffer's start. Any storage mode will do for a call; gdn_buffer_read() and gdn_buffer_write() take shared ones, and
 * private ones in multiples of 4 bytes. Buffers of gdn_buffer_create() are shared, so that their `contents` may be used
 * as well, before a call is made or after it is done. One memory must not be passed as two buffers of a call (of a heap
 * that aliases).
 *
 * ---- Queue ----
 * With stream = NULL a call becomes a command buffer of the queue, which is committed; it returns then.
 * gdn_synchronize() waits for these. Where 16 of them are not done, a call waits for the oldest.
 *
 * ---- Command buffers and encoders ----
 * gdn_stream is an id<MTLCommandBuffer> that is not committed and has no open encoder, in which a call opens and ends a
 * compute encoder; or an open id<MTLComputeCommandEncoder>, into which it only encodes. It never commits, waits or ends
 * what is the program's, and leaves another pipeline and other buffers set. An encoder may be serial or concurrent: a
 * call begins with a barrier for buffers, so that calls are ordered among themselves; what the program encodes into a
 * concurrent encoder after a call needs a barrier of its own.
 *
 * gdn_synchronize() waits for the context's own command buffers only: one of the program is waited for with its
 * waitUntilCompleted, and gdn_poll() then reports what the device found.
 *
 * ---- Maps ----
 * Maps lie in memory that the device can read, so a call does not read them: a kernel does. The program writes the
 * `contents` of shared buffers before it commits, and leaves them alone until the command buffer is done.
 *
 * A value out of range makes its sequence (set_rows: its row) one that is skipped, nothing is written out of range, and
 * GDN_BAD_MAP is reported by gdn_synchronize() or gdn_poll(). A bad value in state_dst is one that is not written.
 * Where seq_start does not ascend, other sequences of the call may be left out too. That no slot is written twice
 * cannot be checked there: which write stays is then not defined.
 *
 * ---- Kernels ----
 * Their source is compiled when a context is created, and a pipeline is made at the first call that needs it (a head
 * size, a gate) and kept. A caller that wants no such call runs every shape once beforehand, on any data.
 *
 * A pipeline of a device that is exact is asked for a known answer first (GDN_KNOWN_ANSWERS, see gdn_context_create()),
 * once in a process: a small command buffer on the queue, for which the call waits. A call with a stream neither
 * commits nor waits; there gdn_synchronize(ctx, NULL) asks, and returns UNSUPPORTED where the answer is wrong.
 *
 * ---- Faults ----
 * A command buffer of the context's that ends in an error is reported by the next call that hears of it, gdn_poll()
 * included, as GDN_DEVICE_LOST; then the context can only be destroyed.
 */
#ifndef GDN_METAL_H
#define GDN_METAL_H

#include "gdn/gdn.h"

typedef struct gdn_metal_desc {
    uint32_t size;
    uint32_t flags; /* none yet, 0                                                                        */
    void *device;   /* id<MTLDevice>; NULL: the queue's. gdn_context_desc.device is then not used         */
    void *queue;    /* id<MTLCommandQueue> of that device; NULL: one of the library's own. Both NULL: the
                       system's default device                                                            */
} gdn_metal_desc;
#define GDN_DEFAULTS_gdn_metal_desc

#endif /* GDN_METAL_H */
