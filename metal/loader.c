/* The functions of the frameworks, and the process's default device. See device.h.
 *
 * Both are kept for the life of the process, and so is the probe's result (backend.c); a failure is not. To use Metal's
 * other devices (a Mac may have several GPUs), pass them as native->device. */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "metal/device.h"

/* An object pointer can hold a function's where there are dynamic libraries; ISO C has no cast for it. */
static int find(void *const libraries[GDN_METAL_MAX_FRAMEWORKS], const char *symbol, void *function)
{
    void *found = NULL;
    for (int i = 0; !found && i < GDN_METAL_MAX_FRAMEWORKS; i++)
        if (libraries[i]) found = gdn_library_find(libraries[i], symbol);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static gdn_status open_frameworks(gdn_metal_catalogue *c)
{
    void *libraries[GDN_METAL_MAX_FRAMEWORKS] = { NULL }, *ignored;
    for (int i = 0; i < GDN_METAL_MAX_FRAMEWORKS && gdn_metal_frameworks[i]; i++)
        libraries[i] = gdn_library_open(gdn_metal_frameworks[i]);
    if (!libraries[0]) return gdn_fail(GDN_UNAVAILABLE, "no Metal (%s) on this machine", gdn_metal_frameworks[0]);
#define X(name, symbol, type, parameters)                                                                              \
    if (!find(libraries, symbol, &c->rt.name))                                                                         \
        return gdn_fail(GDN_UNAVAILABLE, "the system's Metal has no function " symbol);
    GDN_OBJC_FUNCTIONS(X)
#undef X
#define X(name, text) c->rt.sel.name = c->rt.selector(text);
    GDN_OBJC_SELECTORS(X)
#undef X
    c->rt.emulated = find(libraries, GDN_EMULATED_DRIVER, &ignored);
    c->loaded = 1;
    return GDN_OK;
}

gdn_status gdn_metal_describe(const gdn_objc *rt, gdn_id device, gdn_gpu_about *about)
{
    const gdn_id name = gdn_send(rt, device, rt->sel.name);
    const char *text = name ? (const char *)gdn_send(rt, name, rt->sel.UTF8String) : NULL;
    *about = (gdn_gpu_about){ 0 };
    (void)snprintf(about->name, sizeof about->name, "%s", text ? text : "a Metal device");
    about->memory_bytes = gdn_number(rt, device, rt->sel.recommendedMaxWorkingSetSize);
    about->emulated = rt->emulated;
    if (!gdn_responds(rt, device, rt->sel.supportsFamily) ||
        (!gdn_bool_n(rt, device, rt->sel.supportsFamily, GDN_MTL_FAMILY_APPLE6) &&
         !gdn_bool_n(rt, device, rt->sel.supportsFamily, GDN_MTL_FAMILY_MAC2)))
        return gdn_fail(GDN_UNSUPPORTED,
                        "%s has no shuffles between the lanes of a simdgroup; GPU family Apple6 or Mac2 is needed",
                        about->name);
    return GDN_OK;
}

static gdn_metal_catalogue the_catalogue;

static gdn_status find_device(gdn_metal_catalogue *c)
{
    void *pool = c->rt.pool_push();
    gdn_status status = GDN_OK;
    const gdn_id device = c->rt.default_device();
    if (!device) status = gdn_fail(GDN_UNAVAILABLE, "Metal has no device (MTLCreateSystemDefaultDevice returned nil)");
    else if ((status = gdn_metal_describe(&c->rt, device, &c->about))) c->rt.release(device);
    else c->device = device;
    c->rt.pool_pop(pool);
    return status;
}

gdn_status gdn_metal_count(uint32_t *n)
{
    static gdn_mutex lock = GDN_MUTEX_INIT;
    gdn_metal_catalogue *const c = &the_catalogue;
    gdn_status status = GDN_OK;
    gdn_mutex_lock(&lock);
    if (!c->device && !(status = c->loaded ? GDN_OK : open_frameworks(c))) status = find_device(c);
    *n = c->device != NULL;
    gdn_mutex_unlock(&lock);
    return status;
}

const gdn_metal_catalogue *gdn_metal_catalogue_get(void) { return &the_catalogue; }
