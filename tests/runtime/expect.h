/* Checks of the runtime's test programs: a failed one is printed and counted, and the program goes on. */
#ifndef GDN_TESTS_RUNTIME_EXPECT_H
#define GDN_TESTS_RUNTIME_EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"

static int expect_failed, expect_passed;

/* EXPECT(condition, format, arguments...): the text says what was tried. */
#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            expect_passed++;                                                                                           \
        } else {                                                                                                       \
            expect_failed++;                                                                                           \
            (void)fprintf(stderr, "%s:%d: not %s: ", __FILE__, __LINE__, #condition);                                  \
            (void)fprintf(stderr, __VA_ARGS__);                                                                        \
            (void)fprintf(stderr, " [last error: %s]\n", rt_last_error());                                             \
        }                                                                                                              \
    } while (0)

static inline int expect_summary(void)
{
    printf("%d passed, %d failed\n", expect_passed, expect_failed);
    return expect_failed != 0 || !expect_passed;
}

/* The file's bytes, in memory of exactly their size, or the end of the program. */
static inline unsigned char *expect_file(const char *folder, const char *name, size_t *bytes)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/fixtures/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes ? *bytes : 1);
    if (!data || fread(data, 1, *bytes, file) != *bytes) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    (void)fclose(file);
    return data;
}

#endif
