/* Memory that both the dense kernels, on the host, and a backend's kernels reach. Where the backend shares the host's
 * memory it is one piece and nothing moves; elsewhere it is two, and push and pull copy between them. */
#ifndef GDN_RUNTIME_STAGE_H
#define GDN_RUNTIME_STAGE_H

#include "gdn/gdn.h"

typedef struct rt_stage {
    gdn_context *ctx;
    gdn_span span; /* what kernels are given                                  */
    void *host;    /* what the host reads and writes                          */
    uint64_t bytes;
    int shared;
    uint64_t *transfers; /* counts them */
} rt_stage;

gdn_status rt_stage_create(gdn_context *ctx, int shared, uint64_t bytes, const char *what, uint64_t *transfers,
                           rt_stage *stage);
void rt_stage_destroy(rt_stage *stage);
gdn_status rt_stage_push(rt_stage *stage, uint64_t bytes); /* host to device, the first bytes             */
gdn_status rt_stage_pull(rt_stage *stage, uint64_t bytes); /* device to host, after the queued work       */

#endif
