/* The backend's use of a queue: a ring of command buffers, bounded waits, and what the device reports. See device.h.
 *
 * Metal's own wait has no bound, so a wait polls. Command buffers of a queue finish in the order in which they were
 * committed. */
#include "core/status.h"
#include "metal/device.h"

/* The caller has the ring's lock. */
static int is_done_locked(gdn_metal_device *dev, uint32_t i, gdn_status *status)
{
    const gdn_objc *rt = dev->rt;
    const gdn_id commands = dev->ring[i];
    if (!commands) return 1;
    const unsigned long state = gdn_number(rt, commands, rt->sel.status);
    if (state < GDN_MTL_STATUS_COMPLETED) return 0;
    if (state == GDN_MTL_STATUS_ERROR) {
        dev->lost = 1;
        *status = gdn_metal_fail(dev, GDN_DEVICE_LOST, "a command buffer", gdn_send(rt, commands, rt->sel.error));
        return 0;
    }
    rt->release(commands);
    dev->ring[i] = NULL;
    return 1;
}

/* 1: the command buffer in slot i of the ring is done, and released. 0: it is not done, or it failed and *status is
 * set. */
static int is_done(gdn_metal_device *dev, uint32_t i, gdn_status *status)
{
    gdn_mutex_lock(&dev->ring_lock);
    const int done = is_done_locked(dev, i, status);
    gdn_mutex_unlock(&dev->ring_lock);
    return done;
}

typedef struct wait_t {
    gdn_metal_device *dev;
    uint32_t i;
} wait_t;

static int is_slot_done(void *user, gdn_status *status)
{
    const wait_t *x = user;
    return is_done(x->dev, x->i, status);
}

static gdn_status wait_for(gdn_metal_device *dev, uint32_t i)
{
    wait_t x = { dev, i };
    return dev->lost ? gdn_metal_lost(dev) : gdn_gpu_wait_for(&dev->gpu, is_slot_done, &x);
}

gdn_status gdn_metal_wait(gdn_metal_device *dev)
{
    for (uint32_t n = 0; n < GDN_METAL_RING; n++) { /* the oldest first */
        const gdn_status status = wait_for(dev, (dev->ring_next + n) % GDN_METAL_RING);
        if (status) return status;
    }
    return GDN_OK;
}

gdn_status gdn_metal_begin(gdn_metal_device *dev, gdn_id *commands)
{
    const gdn_status status = wait_for(dev, dev->ring_next);
    if (status) return status;
    *commands = gdn_send(dev->rt, dev->queue, dev->rt->sel.commandBuffer);
    return *commands ? GDN_OK : gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "commandBuffer", NULL);
}

void gdn_metal_submit(gdn_metal_device *dev, gdn_id commands)
{
    gdn_mutex_lock(&dev->ring_lock);
    dev->ring[dev->ring_next] = dev->rt->retain(commands);
    gdn_mutex_unlock(&dev->ring_lock);
    dev->ring_next = (dev->ring_next + 1) % GDN_METAL_RING;
    gdn_tell(dev->rt, commands, dev->rt->sel.commit);
}

gdn_status gdn_metal_take_report(void *device)
{
    gdn_metal_device *dev = device;
    gdn_status status = GDN_OK;
    if (dev->lost) return gdn_metal_lost(dev);
    for (uint32_t i = 0; i < GDN_METAL_RING && !status; i++) (void)is_done(dev, i, &status);
    return gdn_gpu_take_bad_maps(dev->bad, status);
}

void gdn_metal_queue_close(gdn_metal_device *dev)
{
    for (uint32_t i = 0; i < GDN_METAL_RING; i++) {
        if (dev->ring[i]) dev->rt->release(dev->ring[i]);
        dev->ring[i] = NULL;
    }
}
