/* cuInit, versions, devices and their attributes. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdio.h>
#include <string.h>

simt_result cuInit(unsigned flags)
{
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    simt_settings_from_environment();
    if (flags) LEAVE(SIMT_INVALID_VALUE);
    if (simt_settings.devices < 1) LEAVE(SIMT_NO_DEVICE);
    simt_set_initialized();
    LEAVE(SIMT_SUCCESS);
}

simt_result cuDriverGetVersion(int *version)
{
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    GIVE(version, (int)simt_settings.driver);
}

simt_result cuDeviceGetCount(int *count)
{
    ENTER();
    GIVE(count, (int)simt_settings.devices);
}

simt_result cuDeviceGet(simt_device *device, int ordinal)
{
    ENTER();
    if (!device) LEAVE(SIMT_INVALID_VALUE);
    if (ordinal < 0 || ordinal >= simt_settings.devices) LEAVE(SIMT_INVALID_DEVICE);
    *device = ordinal;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuGetErrorName(simt_result result, const char **name)
{
    static const struct {
        simt_result result;
        const char *name;
    } results[] = {
#define X(name, value) { value, "CUDA_ERROR_" #name },
        SIMT_RESULTS(X)
#undef X
    };
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) GIVE(name, results[i].name);
    LEAVE(SIMT_INVALID_VALUE);
}

const int gdn_emulated_driver = 1;

static simt_result check(const void *out, simt_device device)
{
    if (!out) return SIMT_INVALID_VALUE;
    return device < 0 || device >= simt_settings.devices ? SIMT_INVALID_DEVICE : SIMT_SUCCESS;
}

simt_result cuDeviceGetName(char *name, int size, simt_device device)
{
    ENTER();
    const simt_result bad = check(name, device);
    if (bad) LEAVE(bad);
    if (size < 1) LEAVE(SIMT_INVALID_VALUE);
    snprintf(name, (size_t)size, "SIMT emulator");
    LEAVE(SIMT_SUCCESS);
}

simt_result cuDeviceTotalMem_v2(size_t *bytes, simt_device device)
{
    ENTER();
    const simt_result bad = check(bytes, device);
    if (bad) LEAVE(bad);
    *bytes = (size_t)simt_settings.memory;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuDeviceGetAttribute(int *value, int attribute, simt_device device)
{
    ENTER();
    const simt_result bad = check(value, device);
    if (bad) LEAVE(bad);
    switch (attribute) {
    case 16: *value = 4; break; /* multiprocessors; blocks run one after another all the same */
    case 75: *value = (int)(simt_settings.compute / 10); break;
    case 76: *value = (int)(simt_settings.compute % 10); break;
    default: LEAVE(SIMT_INVALID_VALUE);
    }
    LEAVE(SIMT_SUCCESS);
}
