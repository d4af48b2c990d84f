/* cuInit, versions, devices and their attributes. The device resembles a small H100. */
#include "tests/simt/driver_api.h"
#include "tests/simt/driver_internal.h"

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

simt_result cuDeviceGetUuid_v2(simt_uuid *uuid, simt_device device)
{
    ENTER();
    const simt_result bad = check(uuid, device);
    if (bad) LEAVE(bad);
    memcpy(uuid->bytes, "gdn-simt-device", 15);
    uuid->bytes[15] = (char)('0' + device);
    LEAVE(SIMT_SUCCESS);
}

simt_result cuDeviceGetUuid(simt_uuid *uuid, simt_device device) { return cuDeviceGetUuid_v2(uuid, device); }

simt_result cuDeviceTotalMem_v2(size_t *bytes, simt_device device)
{
    ENTER();
    const simt_result bad = check(bytes, device);
    if (bad) LEAVE(bad);
    *bytes = (size_t)simt_settings.memory;
    LEAVE(SIMT_SUCCESS);
}

static const struct { int attribute, value; } attributes[] = {
    { 1, 1024 },        /* threads per block */
    { 2, 1024 }, { 3, 1024 }, { 4, 64 },                     /* block x, y, z */
    { 5, 0x7fffffff }, { 6, 65535 }, { 7, 65535 },           /* grid x, y, z */
    { 8, 49152 },       /* shared memory per block */
    { 9, 65536 },       /* constant memory */
    { 10, 32 },         /* warp */
    { 11, 0x7fffffff }, /* pitch */
    { 12, 65536 },      /* registers per block */
    { 13, 1980000 },    /* kHz */
    { 14, 512 },        /* texture alignment */
    { 15, 1 },          /* copies overlap */
    { 16, 4 },          /* multiprocessors */
    { 17, 0 },          /* no run-time limit */
    { 18, 0 },          /* not integrated */
    { 19, 1 },          /* maps host memory */
    { 20, 0 },          /* compute mode: default */
    { 31, 1 },          /* concurrent kernels */
    { 32, 1 },          /* ECC */
    { 33, 1 }, { 34, 0 }, { 50, 0 },                         /* PCI bus, device, domain */
    { 36, 2619000 },    /* memory, kHz */
    { 37, 5120 },       /* bits of its bus */
    { 38, 50 << 20 },   /* L2 */
    { 39, 2048 },       /* threads per multiprocessor */
    { 40, 3 },          /* copy engines */
    { 41, 1 },          /* unified addressing */
    { 78, 1 },          /* priorities */
    { 81, 233472 },     /* shared memory per multiprocessor */
    { 82, 65536 },      /* registers per multiprocessor */
    { 83, 1 }, { 89, 1 },                                    /* managed memory */
    { 90, 1 },          /* preemption */
    { 95, 1 },          /* cooperative launches */
    { 97, 232448 },     /* shared memory per block, opt-in */
    { 102, 1 },         /* virtual memory management */
    { 106, 32 },        /* blocks per multiprocessor */
    { 111, 1024 },      /* shared memory the driver keeps, per block */
    { 115, 1 },         /* memory pools */
    { 120, 1 },         /* clusters */
};

simt_result cuDeviceGetAttribute(int *value, int attribute, simt_device device)
{
    ENTER();
    const simt_result bad = check(value, device);
    if (bad) LEAVE(bad);
    if (attribute < 1 || attribute > 147) LEAVE(SIMT_INVALID_VALUE);
    *value = 0;
    if (attribute == 75) *value = (int)(simt_settings.compute / 10);
    if (attribute == 76) *value = (int)(simt_settings.compute % 10);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) *value = attributes[i].value;
    LEAVE(SIMT_SUCCESS);
}
