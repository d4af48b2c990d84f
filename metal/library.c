/* The kernels: one source, which the build embeds. Metal compiles it when a context is created. Each kernel's pipeline
 * is made on first use. See device.h. */
#include <stdio.h>

#include "core/status.h"
#include "metal/device.h"

static const unsigned char source[] = {
#include "gdn_metal_source.inc"
};

/* Requests safe math: otherwise the compiler reorders, approximates and assumes that there are no NaNs. The newer of
 * the two settings exists since macOS 15. */
static gdn_status new_options(const gdn_metal_device *dev, gdn_id *options)
{
    const gdn_objc *rt = dev->rt;
    const gdn_id class_ = rt->get_class("MTLCompileOptions");
    *options = class_ ? gdn_send(rt, class_, rt->sel.newOptions) : NULL;
    if (!*options) return gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "[MTLCompileOptions new]", NULL);
    if (gdn_responds(rt, *options, rt->sel.setMathMode))
        gdn_tell_n(rt, *options, rt->sel.setMathMode, GDN_MTL_MATH_MODE_SAFE);
    else gdn_tell_bool(rt, *options, rt->sel.setFastMathEnabled, 0);
    return GDN_OK;
}

gdn_status gdn_metal_library_open(gdn_metal_device *dev)
{
    const gdn_objc *rt = dev->rt;
    const gdn_id strings = rt->get_class("NSString");
    const gdn_id text = strings ? gdn_send_p(rt, strings, rt->sel.stringWithUTF8String, source) : NULL;
    gdn_id options, error = NULL;
    if (!text) return gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "[NSString stringWithUTF8String:]", NULL);
    const gdn_status status = new_options(dev, &options);
    if (status) return status;
    dev->library = gdn_send_iie(rt, dev->device, rt->sel.newLibrary, text, options, &error);
    rt->release(options);
    return dev->library ? GDN_OK : gdn_metal_fail(dev, GDN_UNAVAILABLE, "newLibraryWithSource", error);
}

void gdn_metal_library_close(gdn_metal_device *dev)
{
    for (int i = 0; i < GDN_METAL_KERNEL_COUNT; i++) {
        if (dev->pipelines[i]) dev->rt->release(dev->pipelines[i]);
        dev->pipelines[i] = NULL;
    }
    if (dev->library) dev->rt->release(dev->library);
    dev->library = NULL;
}

static gdn_status make(gdn_metal_device *dev, gdn_metal_kernel kernel, const char *name, uint32_t threads,
                       gdn_id *pipeline)
{
    const gdn_objc *rt = dev->rt;
    const gdn_id text = gdn_send_p(rt, rt->get_class("NSString"), rt->sel.stringWithUTF8String, name);
    const gdn_id function = text ? gdn_send_i(rt, dev->library, rt->sel.newFunction, text) : NULL;
    gdn_id error = NULL;
    if (!function) return gdn_metal_fail(dev, GDN_INTERNAL, name, NULL);
    *pipeline = gdn_send_ie(rt, dev->device, rt->sel.newPipeline, function, &error);
    rt->release(function);
    if (!*pipeline) return gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, name, error);
    const unsigned long width = gdn_number(rt, *pipeline, rt->sel.threadExecutionWidth),
                        most = gdn_number(rt, *pipeline, rt->sel.maxTotalThreads);
    if (width != 32 || most < threads) {
        rt->release(*pipeline);
        return gdn_fail(GDN_UNSUPPORTED,
                        "%s runs %s in simdgroups of %lu and threadgroups of up to %lu; 32 and %u are needed",
                        dev->about.name, name, width, most, (unsigned)threads);
    }
    dev->pipelines[kernel] = *pipeline;
    return GDN_OK;
}

static const char *const names[GDN_METAL_KERNEL_COUNT] = {
#define X(name) "gdn_metal_" #name,
    GDN_METAL_KERNELS(X)
#undef X
};

const char *gdn_metal_kernel_name(int32_t device_kernel) { return names[device_kernel] + sizeof "gdn_metal_" - 1; }

gdn_status gdn_metal_pipeline_get(gdn_metal_device *dev, gdn_metal_kernel kernel, uint32_t threads, gdn_id *pipeline)
{
    *pipeline = dev->pipelines[kernel];
    return *pipeline ? GDN_OK : make(dev, kernel, names[kernel], threads, pipeline);
}
