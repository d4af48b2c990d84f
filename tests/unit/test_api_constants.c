/* Device kernels do not include the public headers: call/types.h repeats their constants. They are the same. */
#include "gdn/gdn.h"

#define EACH(X)                                                                                                        \
    X(GDN_NONE)                                                                                                        \
    X(GDN_SKIP)                                                                                                        \
    X(GDN_F32)                                                                                                         \
    X(GDN_F16)                                                                                                         \
    X(GDN_BF16)                                                                                                        \
    X(GDN_Q8_0)                                                                                                        \
    X(GDN_I64)                                                                                                         \
    X(GDN_HEADS_TILED)                                                                                                 \
    X(GDN_STATE_KV)                                                                                                    \
    X(GDN_GATE_CHANNEL)                                                                                                \
    X(GDN_G_LOG)                                                                                                       \
    X(GDN_G_LINEAR)                                                                                                    \
    X(GDN_G_RAW)                                                                                                       \
    X(GDN_G_RAW_A_LOG)                                                                                                 \
    X(GDN_G_BOUNDED)                                                                                                   \
    X(GDN_BETA_LOGIT)
#define PUBLIC(name) public_##name = (int)(name),
enum { EACH(PUBLIC) };

#undef GDN_NONE /* where the public header has a macro */
#undef GDN_SKIP
#define GDN_CALL_CONSTANTS
#include "call/types.h"

#define SAME(name) _Static_assert(public_##name == (name), "call/types.h has another number");
EACH(SAME)
