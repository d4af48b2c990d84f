/* Errors of the runtime. See error.h. */
#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "system/system.h"

static _Thread_local char last_error[RT_ERROR_MAX];

gdn_status rt_fail(gdn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

gdn_status rt_fail_gdn(gdn_status status, const char *what)
{
    return rt_fail(status, "%s: %s", what, gdn_last_error());
}

const char *rt_last_error(void) { return last_error; }

void *rt_calloc(uint64_t n, uint64_t size, const char *what)
{
    const uint64_t limit = (uint64_t)1 << 46;
    void *memory = NULL;
    if (!size || n <= limit / size) {
        const uint64_t bytes = n && size ? (n * size + 63) / 64 * 64 : 64;
        memory = gdn_aligned_alloc(64, bytes);
        if (memory) memset(memory, 0, (size_t)bytes);
    }
    if (!memory)
        rt_fail(GDN_OUT_OF_MEMORY, "no memory for %s (%llu x %llu bytes)", what, (unsigned long long)n,
                (unsigned long long)size);
    return memory;
}

void rt_free(void *memory) { gdn_aligned_free(memory); }
