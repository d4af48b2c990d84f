/* The self-test: proves that the check can fail. */
#ifndef GDN_CHECK_SELFTEST_H
#define GDN_CHECK_SELFTEST_H

#include "target.h"

/* Corrupts results of `target` in every way listed in selftest.c and demands that each is noticed, and that
 * results which were not corrupted pass. Returns the exit code. */
int check_self_test(check_target *reference, check_target *target, uint64_t seed, int json);

#endif
