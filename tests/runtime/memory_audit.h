/* Audit of the memory's reference counts, for tests that run whole engines. A count is the number of sequences and
 * checkpoints that refer to the resource; a resource without references is free. */
#ifndef GDN_TEST_MEMORY_AUDIT_H
#define GDN_TEST_MEMORY_AUDIT_H

#include "runtime/memory/memory.h"

/* Checks the counts with REQUIRE(); no step may be under way. On a CPU device it then fills free resources and unused
 * conv state entries with NaN, so that reading them changes results. */
void memory_audit(rt_memory *m);

/* Length of the longest cached prefix of token[0, n) of owner 0; 0 without a cache. */
int32_t memory_prefix_find(const rt_memory *m, const int32_t *token, int32_t n);

#endif
