/* Memory budget for loading a model file. The loader counts each allocation whose size the file decides before it makes
 * it, so that a file that needs too much memory is refused early. */
#ifndef GDN_RUNTIME_BUDGET_H
#define GDN_RUNTIME_BUDGET_H

#include "gdn/gdn.h"

typedef struct rt_budget {
    uint64_t limit; /* bytes; 0: no limit, bytes are only counted */
    uint64_t used;
} rt_budget;

/* Adds `bytes` to budget->used. `what` names their purpose in the error text, in the plural ("the weights").
 * GDN_OUT_OF_MEMORY: the limit would be exceeded, and `used` is unchanged. budget may be NULL: always GDN_OK. */
gdn_status rt_budget_take(rt_budget *budget, uint64_t bytes, const char *what);

#endif
