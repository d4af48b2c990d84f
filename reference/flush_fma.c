/* The reference for the level that flushes, for x86-64 processors with fma instructions. See reference.h. */
#define GDN_FLUSH
#define GDN_REF(name) gdn_ref_##name##_flush_fma
#include "reference/chunked.c"
#include "reference/gated_delta_net.c"
#include "reference/ssm_conv.c"
#include "reference/set_rows.c"
