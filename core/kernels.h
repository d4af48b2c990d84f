/* Validation of each kernel (core/<stem>.c): from the caller's arguments to a problem and its plan. */
#ifndef GDN_CORE_KERNELS_H
#define GDN_CORE_KERNELS_H

#include "core/backend.h"

/* Reads the caller's structs, checks them, and makes a problem. A query, where data may be absent and maps are not
 * read, has no plan. For a call, plan receives the backend's. */
#define GDN_KERNEL(stem, number, title)                                                                                \
    gdn_status gdn_##stem##_prepare(const gdn_context *ctx, const gdn_##stem##_args *args, gdn_plan *plan,             \
                                    gdn_##stem##_problem *p);
#include "core/kernels.def"
#undef GDN_KERNEL

#endif
