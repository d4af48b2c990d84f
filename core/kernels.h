/* Validation of each kernel (core/<stem>.c): makes a problem and its plan from the caller's arguments. */
#ifndef GDN_CORE_KERNELS_H
#define GDN_CORE_KERNELS_H

#include "core/backend.h"

/* Reads and checks the caller's structs, and makes a problem. plan receives the backend's plan. NULL for a query: data
 * may then be absent, and maps are not read. */
#define GDN_KERNEL(stem, number, title)                                                                                \
    gdn_status gdn_##stem##_prepare(const gdn_context *ctx, const gdn_##stem##_args *args, gdn_plan *plan,             \
                                    gdn_##stem##_problem *p);
#include "core/kernels.def"
#undef GDN_KERNEL

#endif
