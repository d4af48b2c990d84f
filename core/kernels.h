/* Validation of each kernel (core/<stem>.c): from the caller's arguments to a problem. */
#ifndef GDN_CORE_KERNELS_H
#define GDN_CORE_KERNELS_H

#include "core/backend.h"

/* plan is NULL for a query, where data may be absent and maps are not read; for a call it receives the backend's plan. */
#define GDN_KERNEL(stem, number, title)                                                                                \
    gdn_status gdn_##stem##_resolve(const gdn_context *ctx, const gdn_##stem##_args *args, gdn_plan *plan,            \
                                    gdn_##stem##_problem *p);
#include "core/kernels.def"
#undef GDN_KERNEL

#endif
