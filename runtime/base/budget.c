/* The memory budget of loading; see budget.h. */
#include "runtime/base/budget.h"

#include "runtime/base/error.h"

gdn_status rt_budget_take(rt_budget *budget, uint64_t bytes, const char *what)
{
    if (!budget) return GDN_OK;
    const uint64_t limit = budget->limit ? budget->limit : UINT64_MAX;
    if (bytes > limit || budget->used > limit - bytes)
        return rt_fail(GDN_OUT_OF_MEMORY, "not enough memory: %s take %llu KiB; %llu of %llu KiB are taken already",
                       what, (unsigned long long)(bytes >> 10) + 1, (unsigned long long)(budget->used >> 10),
                       (unsigned long long)(limit >> 10));
    budget->used += bytes;
    return GDN_OK;
}
