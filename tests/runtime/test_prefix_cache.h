/* What the parts of test_prefix_cache share. */
#ifndef GDN_TEST_PREFIX_CACHE_H
#define GDN_TEST_PREFIX_CACHE_H

#include "engine_fixture.h"

/* Launches of gated_delta_net so far, and the one that fails; -1: none. */
extern int64_t prefix_launches, prefix_fail_at;

/* test_prefix_requests.c */
void prefix_requests(const rt_model *model, const char *name);

#endif
