/* Error text, status names and versions. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[512];

gdn_status gdn_fail(gdn_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(last_error, sizeof last_error, format, list);
    va_end(list);
    return status;
}

const char *gdn_last_error(void) { return last_error; }

const char *gdn_status_name(gdn_status status)
{
    static const char *const names[] = {
        "GDN_OK",          "GDN_INVALID_ARGUMENT", "GDN_UNSUPPORTED", "GDN_OUT_OF_MEMORY", "GDN_NOT_FOUND",
        "GDN_UNAVAILABLE", "GDN_DEVICE_LOST",      "GDN_TIMEOUT",     "GDN_BAD_MAP",       "GDN_INTERNAL",
    };
    const int32_t n = (int32_t)(sizeof names / sizeof names[0]);
    return status >= 0 && status < n ? names[status] : "unknown status";
}

uint32_t gdn_version(void)
{
    return (uint32_t)GDN_VERSION_MAJOR << 16 | (uint32_t)GDN_VERSION_MINOR << 8 | (uint32_t)GDN_VERSION_PATCH;
}

uint32_t gdn_abi_version(void) { return GDN_ABI_VERSION; }
