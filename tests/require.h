/* For programs that go on after a failure and count: `return failures != 0`. */
#ifndef GDN_TEST_REQUIRE_H
#define GDN_TEST_REQUIRE_H

#include <stdio.h>

static int failures;

#define REQUIRE(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            failures++;                                                                                                \
            printf("FAILED: " __VA_ARGS__);                                                                            \
            printf(" (line %d)\n", __LINE__);                                                                          \
        }                                                                                                              \
    } while (0)

#endif
