/* What loading a file may take. Everything whose size a file decides is counted before it is allocated, so that a
 * file that asks for too much is refused before it has any of it. */
#ifndef GDN_RUNTIME_BUDGET_H
#define GDN_RUNTIME_BUDGET_H

#include "gdn/gdn.h"

typedef struct rt_budget {
    uint64_t limit; /* bytes; 0: none, and all is only counted */
    uint64_t used;
} rt_budget;

/* Count `bytes` more for `what`, a plural ("the weights"): GDN_OUT_OF_MEMORY, with a text and nothing counted, where
 * that is more than is left. budget may be NULL: nothing is counted, and all is allowed. */
gdn_status rt_budget_take(rt_budget *budget, uint64_t bytes, const char *what);

#endif
