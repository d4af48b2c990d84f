/* A call that check builds of a specification (check/specs.h), in the memory of a context, for tests that run it
 * themselves. */
#ifndef GDN_TEST_DEVICE_PLACED_H
#define GDN_TEST_DEVICE_PLACED_H

#include "check/case.h"
#include "check/specs.h"
#include "tests/harness.h"

typedef struct placed {
    gdn_context *ctx;
    check_case c;
    gdn_span where[CHECK_MAX_MEMORIES], workspace;
    check_args args; /* bound to `where` */
} placed;

/* The same memory whenever the specification is the same. */
void placed_case(check_case *c, const check_kernel *kernel, const check_spec *spec);
void placed_open(placed *p, gdn_context *ctx, const check_kernel *kernel, const check_spec *spec);
void placed_close(placed *p);
/* An operand's memory from the case to the context, as it is, or with other numbers, or other values of a map. */
void placed_put(const placed *p, const char *operand);
void placed_fill(placed *p, const char *operand, uint64_t seed);
void placed_map(placed *p, const char *map, const int32_t *values);
/* Where an operand begins in the context's memory, and its bytes. */
gdn_span placed_at(const placed *p, const char *operand);
gdn_status placed_run(placed *p, gdn_stream stream);
int placed_same(const placed *a, const placed *b); /* 1: all memories have the same bytes */

#endif
