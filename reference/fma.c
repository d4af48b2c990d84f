/* The reference once more, for x86-64 processors that have fma as an instruction: compiled with -mfma, see reference.h.
 */
#define GDN_REF(name) gdn_ref_##name##_fma
#include "reference/gated_delta_net.c"
#include "reference/set_rows.c"
#include "reference/ssm_conv.c"
