/* Validation of each kernel (core/<stem>.c): makes a problem and its plan from the caller's arguments. */
#ifndef GDN_CORE_KERNELS_H
#define GDN_CORE_KERNELS_H

#include "core/backend.h"

/* Reads and checks the caller's structs, and makes a problem. plan receives the backend's plan. NULL for a query: data
 * may then be absent, and maps are not read. */
gdn_status gdn_gated_delta_net_resolve(const gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_plan *plan,
                                       gdn_problem *p);
gdn_status gdn_ssm_conv_resolve(const gdn_context *ctx, const gdn_ssm_conv_args *args, gdn_plan *plan, gdn_problem *p);
gdn_status gdn_set_rows_resolve(const gdn_context *ctx, const gdn_set_rows_args *args, gdn_plan *plan, gdn_problem *p);

#endif
