/* The driver library, its functions, and the process's list of devices. See device.h.
 *
 * Both are kept for the life of the process: a driver cannot be unloaded. A failure is not kept. The backend's other
 * process-wide objects are the results of probes (backend.c). */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "cuda/device.h"
#include "system/system.h"

enum { OLDEST = 75 }; /* compute capability 7.5; older ones have no code in the image */

/* An object pointer can hold a function's where there are dynamic libraries; ISO C has no cast for it. */
static int find(void *library, const char *symbol, void *function)
{
    void *found = gdn_library_find(library, symbol);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static gdn_status open_driver(gdn_cuda_catalogue *c)
{
    const char *const *const names = gdn_cuda_libraries;
    void *library = NULL;
    for (int i = 0; !library && names[i]; i++) library = gdn_library_open(names[i]);
    if (!library) return gdn_fail(GDN_UNAVAILABLE, "no CUDA driver (%s) on this machine", names[0]);
#define X(name, symbol, parameters)                                                                                    \
    if (!find(library, symbol, &c->cu.name)) {                                                                         \
        gdn_library_close(library);                                                                                    \
        return gdn_fail(GDN_UNAVAILABLE, "the CUDA driver has no " symbol "; CUDA 11.4 is needed");                    \
    }
    GDN_CUDA_DRIVER_FUNCTIONS(X)
#undef X
    (void)find(library, "cuStreamGetCtx_v2", &c->cu.StreamGetCtx_v2);
    (void)find(library, "cuLaunchKernelEx", &c->cu.LaunchKernelEx);
    (void)find(library, "cuFuncGetAttribute", &c->cu.FuncGetAttribute);
    c->cu.emulated = gdn_library_find(library, GDN_EMULATED_DRIVER) != NULL;
    return GDN_OK;
}

gdn_status gdn_cuda_read_traits(const gdn_cuda_driver *cu, CUdevice device, gdn_cuda_traits *t)
{
    size_t bytes = 0;
    CUresult result;
    *t = (gdn_cuda_traits){ .device = device };
    if ((result = cu->DeviceGetName(t->about.name, (int)sizeof t->about.name, device)) != CUDA_SUCCESS)
        return gdn_cuda_fail(NULL, cu, result, "cuDeviceGetName");
    if ((result = cu->DeviceGetAttribute(&t->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)) !=
            CUDA_SUCCESS ||
        (result = cu->DeviceGetAttribute(&t->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)) !=
            CUDA_SUCCESS ||
        (result = cu->DeviceGetAttribute(&t->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device)) !=
            CUDA_SUCCESS)
        return gdn_cuda_fail(NULL, cu, result, "cuDeviceGetAttribute");
    if ((result = cu->DeviceTotalMem(&bytes, device)) != CUDA_SUCCESS)
        return gdn_cuda_fail(NULL, cu, result, "cuDeviceTotalMem");
    t->about.name[sizeof t->about.name - 1] = 0;
    t->about.memory_bytes = bytes;
    t->about.emulated = cu->emulated;
    if (10 * t->major + t->minor < OLDEST)
        return gdn_fail(GDN_UNSUPPORTED, "%s has compute capability %d.%d; 7.5 is needed", t->about.name, t->major,
                        t->minor);
    return GDN_OK;
}

/* NVIDIA guarantees that compiled kernels run with drivers of the toolkit's major release and newer ones. Older drivers
 * cannot run them. Only PTX needs the toolkit's minor release, which is checked when the image is loaded (kernels.c).
 */
static gdn_status check_version(const gdn_cuda_catalogue *c)
{
    const int need = GDN_CUDA_TOOLKIT / 1000, have = c->cu.version / 1000;
    if (have >= need) return GDN_OK;
    return gdn_fail(GDN_UNAVAILABLE,
                    "the CUDA driver is of CUDA %d.%d; this build's kernels, made with CUDA %d.%d, need one of CUDA "
                    "%d.0 or newer",
                    have, c->cu.version % 1000 / 10, need, GDN_CUDA_TOOLKIT % 1000 / 10, need);
}

static gdn_status list_devices(gdn_cuda_catalogue *c)
{
    int n = 0;
    gdn_status status;
    CUresult result = c->cu.Init(0);
    const char *call = "cuInit";
    if (result == CUDA_SUCCESS) {
        call = "cuDriverGetVersion";
        result = c->cu.DriverGetVersion(&c->cu.version);
    }
    if (result == CUDA_SUCCESS && (status = check_version(c))) return status;
    if (result == CUDA_SUCCESS) {
        call = "cuDeviceGetCount";
        result = c->cu.DeviceGetCount(&n);
    }
    if (result != CUDA_SUCCESS) return gdn_cuda_fail(NULL, &c->cu, result, call);
    c->loaded = 1;
    status = gdn_fail(GDN_UNAVAILABLE, "the CUDA driver has no devices");
    for (int i = 0; i < n && c->n < GDN_CUDA_MAX_DEVICES; i++) {
        CUdevice device;
        if ((result = c->cu.DeviceGet(&device, i)) != CUDA_SUCCESS)
            status = gdn_cuda_fail(NULL, &c->cu, result, "cuDeviceGet");
        else if (!(status = gdn_cuda_read_traits(&c->cu, device, &c->traits[c->n]))) c->n++;
    }
    return c->n ? GDN_OK : status;
}

static gdn_cuda_catalogue the_catalogue;

gdn_status gdn_cuda_count(uint32_t *n)
{
    static gdn_mutex lock = GDN_MUTEX_INIT;
    gdn_cuda_catalogue *const c = &the_catalogue;
    gdn_status status = GDN_OK;
    gdn_mutex_lock(&lock);
    if (!c->n && !(status = c->cu.Init ? GDN_OK : open_driver(c))) status = list_devices(c);
    *n = c->n;
    gdn_mutex_unlock(&lock);
    return status;
}

const gdn_cuda_catalogue *gdn_cuda_catalogue_get(void) { return &the_catalogue; }
