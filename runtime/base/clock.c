/* A monotonic clock; see clock.h. */
#include "runtime/base/clock.h"

#include "system/system.h"

double rt_now(void) { return 1e-9 * (double)gdn_now(); }
