/* Memory that both the dense kernels, on the host, and a backend's kernels access. If the backend shares host memory it
 * is one buffer and nothing is copied; otherwise it is two, and push and pull copy between them. */
#ifndef GDN_RUNTIME_STAGE_H
#define GDN_RUNTIME_STAGE_H

#include "gdn/gdn.h"

typedef struct rt_stage {
    gdn_context *ctx;
    gdn_span span; /* memory for the backend's kernels                        */
    void *host;    /* memory for the host                                     */
    uint64_t bytes;
    int shared;
    uint64_t *transfers; /* counter of copies */
} rt_stage;

gdn_status rt_stage_create(gdn_context *ctx, int shared, uint64_t bytes, const char *what, uint64_t *transfers,
                           rt_stage *stage);
void rt_stage_destroy(rt_stage *stage);
gdn_status rt_stage_push(rt_stage *stage, uint64_t bytes); /* host to device, the first `bytes` bytes     */
gdn_status rt_stage_pull(rt_stage *stage, uint64_t bytes); /* device to host, after all queued work       */

#endif
