/* The reference for x86-64 processors with fma instructions. See reference.h. */
#define GDN_REF(name) gdn_ref_##name##_fma
#include "reference/chunked.c"
#include "reference/gated_delta_net.c"
#include "reference/ssm_conv.c"
#include "reference/set_rows.c"
