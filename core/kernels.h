/* Validation of each kernel (core/<stem>.c): from the caller's arguments to a problem. */
#ifndef GDN_CORE_KERNELS_H
#define GDN_CORE_KERNELS_H

#include "core/backend.h"

/* args are the library's own copy. check fills in its defaults and looks at its sizes; resolve goes on from there. A
 * query, where data may be absent and maps are not read, is no launch and has no plan; for a call, plan receives the
 * backend's. */
#define GDN_KERNEL(stem, number, title, last, end)                                                                     \
    gdn_status gdn_##stem##_check(gdn_##stem##_args *args, int launch);                                                \
    gdn_status gdn_##stem##_resolve(const gdn_context *ctx, const gdn_##stem##_args *args, gdn_plan *plan,             \
                                    gdn_##stem##_problem *p);
#include "core/kernels.def"
#undef GDN_KERNEL

#endif
