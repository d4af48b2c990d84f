/* What tests of the memory alone share: the smallest model there can be, and steps without kernels. */
#ifndef GDN_TEST_MEMORY_FIXTURE_H
#define GDN_TEST_MEMORY_FIXTURE_H

#include "runtime/memory/memory_internal.h"
#include "tests/harness.h"

/* One layer of each kind and an MTP block; all sizes are 1, and conv_kernel is 3. */
extern const rt_model memory_model;

/* A memory of that model; device and host are the context. Pools hold bytes that differ from pool to pool. */
rt_memory *memory_open(gdn_context *context, int32_t n_seqs, int32_t n_cells, int32_t n_rollback);

/* A step of n tokens of one sequence, which writes hidden rows and no state. */
gdn_status memory_advance(rt_memory *m, int32_t seq, int32_t n);

#endif
