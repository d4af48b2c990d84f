/* verify.h - what the three programs that verify drafts share, and what has nothing to do with it: the end of the
 * program where a call fails, and numbers in place of a model's. */
#ifndef VERIFY_H
#define VERIFY_H

#include <gdn/gdn.h>

#include <stdio.h>
#include <stdlib.h>

static void must(gdn_status status, const char *what)
{
    if (status == GDN_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, gdn_status_name(status), gdn_last_error());
    exit(1);
}

/* A number in [-1, 1) that depends on its arguments only. */
static float number(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = (a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du) + 1u;
    h = (h ^ h >> 15) * 0x2c1b3ce3u;
    h = (h ^ h >> 13) * 0x297a2d39u;
    return (float)(h >> 8) * 0x1p-23f - 1.0f;
}

#endif
