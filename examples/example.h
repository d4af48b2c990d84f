/* example.h - shared by the examples, unrelated to the library: exit on a failed call, and numbers in place of a
 * model's. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <gdn/gdn.h>

#include <stdio.h>
#include <stdlib.h>

static inline void must(gdn_status status, const char *what)
{
    if (status == GDN_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, gdn_status_name(status), gdn_last_error());
    exit(1);
}

/* Next pseudo-random number in [-1, 1); the same sequence in every run. */
static inline float next_number(void)
{
    static uint32_t seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) * 0x1p-23f - 1.0f;
}

#endif
