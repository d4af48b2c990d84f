/* What test programs share: checks, random numbers, files.
 *
 * REQUIRE(condition) or REQUIRE(condition, format, arguments...) reports a condition that is false, with file and
 * line, the text and the last error; the program continues. NEED() ends it. main() ends with `return test_summary();`.
 */
#ifndef GDN_TESTS_HARNESS_H
#define GDN_TESTS_HARNESS_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TEST_LAST_ERROR /* the function that has the text of the last error: gdn_last_error, rt_last_error */
const char *TEST_LAST_ERROR(void);
#else
#define TEST_LAST_ERROR() ""
#endif

enum { TEST_FAILURES_PRINTED = 20 };

/* One of each in a program, which may have several files. */
#if defined(__ELF__) || defined(__MACH__)
#define TEST_SHARED __attribute__((weak))
#else /* in objects for Windows weak data may lie where something else does */
#define TEST_SHARED __attribute__((selectany))
#endif
TEST_SHARED atomic_long test_passed = 0, test_failed = 0;
TEST_SHARED int test_stops = 0; /* 1: the first failure ends the program */
TEST_SHARED uint64_t test_seed = 1;

__attribute__((format(printf, 6, 7))) static inline void
test_fail(int ends, const char *file, int line, const char *condition, const char *error, const char *format, ...)
{
    if (test_failed++ < TEST_FAILURES_PRINTED || ends) {
        va_list arguments;
        (void)printf("FAILED: %s:%d: %s ", file, line, condition);
        va_start(arguments, format);
        (void)vprintf(format, arguments);
        va_end(arguments);
        (void)printf(*error ? " [%s]\n" : "%s\n", error);
    }
    (void)fflush(stdout);
    if (test_stops) _Exit(1);
}

/* TEST_PLAIN where there are two arguments, TEST_SAID where there are more, 16 at most. */
#define TEST_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, pick, ...) pick
#define TEST_DEMAND(...)                                                                                               \
    TEST_PICK(__VA_ARGS__, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID,     \
              TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_SAID, TEST_PLAIN, )                          \
    (__VA_ARGS__)
#define TEST_PLAIN(ends, condition) TEST_SAID(ends, condition, "%s", "")
#define TEST_SAID(ends, condition, ...)                                                                                \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            test_passed++;                                                                                             \
        } else {                                                                                                       \
            test_fail(ends, __FILE__, __LINE__, #condition, TEST_LAST_ERROR(), __VA_ARGS__);                           \
            if (ends) _Exit(1);                                                                                        \
        }                                                                                                              \
    } while (0)
#define REQUIRE(...) TEST_DEMAND(0, __VA_ARGS__)
#define NEED(...)    TEST_DEMAND(1, __VA_ARGS__)

/* The call gives the status, and the last error has these texts. */
#define FAILS(call, status, ...)                                                                                       \
    do {                                                                                                               \
        REQUIRE((call) == (status));                                                                                   \
        const char *const test_texts[] = { __VA_ARGS__ };                                                              \
        for (size_t test_i = 0; test_i < sizeof test_texts / sizeof *test_texts; test_i++)                             \
            REQUIRE(strstr(TEST_LAST_ERROR(), test_texts[test_i]), "without \"%s\"", test_texts[test_i]);              \
    } while (0)

static inline int test_summary(void)
{
    (void)printf("%ld passed, %ld failed\n", test_passed, test_failed);
    return test_failed || !test_passed;
}

/* An initialiser of a struct with many fields, which clang-format fills lines with: { .a = 1, .b = 2 }. */
#define FIELDS(...)                                                                                                    \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Numbers of the program's own sequence, the same in every run. */
static inline uint32_t draw(void) { return (uint32_t)(test_random(&test_seed) >> 32); }
static inline int32_t draw_below(int32_t n) { return (int32_t)(draw() % (uint32_t)n); }
static inline double draw_unit(void) { return (double)(test_random(&test_seed) >> 11) * 0x1p-53; } /* 0 <= x < 1 */

/* The bytes of the file FOLDER/NAME, in memory of exactly their size. */
static inline unsigned char *test_file(const char *folder, const char *name, size_t *bytes)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    NEED(file && !fseek(file, 0, SEEK_END), "%s", path);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes ? *bytes : 1);
    NEED(data && fread(data, 1, *bytes, file) == *bytes, "%s", path);
    (void)fclose(file);
    return data;
}

#endif
