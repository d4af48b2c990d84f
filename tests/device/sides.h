/* Two sides of a test of maps: a context of the device that is tested, and the reference, which is told what the
 * documentation says a bad value amounts to. Calls are built by check. */
#ifndef GDN_TEST_SIDES_H
#define GDN_TEST_SIDES_H

#include "tests/device/device.h"
#include "check/compare.h"
#include "check/specs.h"
#include "check/target.h"

typedef struct sides {
    gdn_context *ctx;
    check_target *device, *reference;
    check_result got, expected;
} sides;

int sides_open(sides *s, gdn_context *ctx); /* 0, and a failure is counted, where it cannot be */
void sides_close(sides *s);

/* A call, packed: the same memory whenever the specification is the same. */
void sides_build(check_case *c, const check_kernel *kernel, const check_spec *spec);
/* Run by the reference, which has to take it. */
void sides_expect(sides *s, const check_case *c, check_result *expected);
/* Run on the device: a bad value is reported, of the map `name` and once, or (NULL) none. */
void sides_run(sides *s, const check_case *c, const char *name);
/* The memory of a map, or -1. */
int sides_memory(const check_case *c, const char *map);

#endif
