/* Opening and closing: the default device with a queue of our own, or the caller's; errors of Metal. See device.h. */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "core/structs.h"
#include "metal/device.h"

gdn_status gdn_metal_fail(const gdn_metal_device *dev, gdn_status status, const char *call, gdn_id error)
{
    const gdn_objc *rt = dev->rt;
    const gdn_id about = error ? gdn_send(rt, error, rt->sel.localizedDescription) : NULL;
    const char *text = about ? (const char *)gdn_send(rt, about, rt->sel.UTF8String) : NULL;
    return gdn_fail(status, "%s failed on %s: %.400s", call, dev->about.name, text ? text : "it returned nil");
}

gdn_status gdn_metal_lost(const gdn_metal_device *dev)
{
    return gdn_fail(GDN_DEVICE_LOST, "the context on %s was lost; it can only be destroyed", dev->about.name);
}

static gdn_status open_default(gdn_metal_device *dev, const gdn_metal_catalogue *c, uint32_t index)
{
    if (index)
        return gdn_fail(GDN_NOT_FOUND,
                        "device is %u; the metal backend has device 0, and takes others as native->device",
                        (unsigned)index);
    dev->about = c->about;
    dev->device = dev->rt->retain(c->device);
    return GDN_OK;
}

static gdn_status open_callers(gdn_metal_device *dev, const gdn_metal_desc *native)
{
    const gdn_objc *rt = dev->rt;
    if (native->queue && !gdn_responds(rt, native->queue, rt->sel.commandBuffer))
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->queue is %p, which is no MTLCommandQueue", native->queue);
    const gdn_id of_queue = native->queue ? gdn_send(rt, native->queue, rt->sel.device) : NULL;
    const gdn_id device = native->device ? native->device : of_queue;
    if (!gdn_responds(rt, device, rt->sel.newLibrary))
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->device is %p, which is no MTLDevice", native->device);
    if (of_queue && of_queue != device)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->queue is %p, of the device %p; native->device is %p",
                        native->queue, of_queue, native->device);
    dev->device = rt->retain(device);
    dev->queue = native->queue ? rt->retain(native->queue) : NULL;
    return gdn_metal_describe(rt, device, &dev->about);
}

gdn_status gdn_metal_device_open(gdn_metal_device *dev, const gdn_context *ctx, uint32_t index,
                                 const gdn_metal_desc *callers)
{
    const gdn_metal_catalogue *c = gdn_metal_catalogue_get();
    gdn_metal_desc native = { 0 };
    gdn_status status;
    uint32_t n;
    dev->rt = &c->rt;
    dev->gpu.ctx = ctx;
    gdn_mutex_init(&dev->ring_lock);
    if (callers &&
        (status = gdn_struct_read("native", callers, GDN_FIRST_SIZE(gdn_metal_desc), sizeof native, &native)))
        return status;
    if (native.flags)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->flags is %#x; it must be 0", (unsigned)native.flags);
    if ((status = gdn_metal_count(&n)) && !((native.device || native.queue) && c->loaded)) return status;
    if ((status = native.device || native.queue ? open_callers(dev, &native) : open_default(dev, c, index)))
        return status;
    dev->gpu.about = &dev->about;
    dev->gpu.timeout_ns = gdn_timeout_ns(ctx, dev->about.emulated);
    if (!dev->queue && !(dev->queue = gdn_send(dev->rt, dev->device, dev->rt->sel.newCommandQueue)))
        return gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "newCommandQueue", NULL);
    return (status = gdn_metal_memory_open(dev)) ? status : gdn_metal_library_open(dev);
}

/* Metal retains what a command buffer uses until it is done, so closing need not wait for the device. */
void gdn_metal_device_close(gdn_metal_device *dev)
{
    if (!dev->rt) return;
    gdn_metal_queue_close(dev);
    gdn_metal_memory_close(dev);
    gdn_metal_library_close(dev);
    if (dev->queue) dev->rt->release(dev->queue);
    if (dev->device) dev->rt->release(dev->device);
    dev->queue = dev->device = NULL;
    gdn_mutex_destroy(&dev->ring_lock);
}
