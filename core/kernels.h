/* Validation of each kernel (core/<stem>.c): makes a problem and its plan from the caller's arguments. */
#ifndef GDN_CORE_KERNELS_H
#define GDN_CORE_KERNELS_H

#include "core/backend.h"

/* Reads and checks the kernel's gdn_<stem>_args, and makes a problem. plan receives the backend's plan. NULL for a
 * query: data may then be absent, and maps are not read. */
typedef gdn_status gdn_resolver(const gdn_context *ctx, const void *args, gdn_plan *plan, gdn_problem *p);
gdn_resolver gdn_gated_delta_net_resolve, gdn_ssm_conv_resolve, gdn_set_rows_resolve;

#endif
