/* Every implementation of backends, for tests that run on all of them. */
#ifndef GDN_TESTS_TARGETS_H
#define GDN_TESTS_TARGETS_H

#include "gdn/gdn.h"
#include "tests/harness.h"

enum { ON_HOST = 1 << GDN_BACKEND_REFERENCE | 1 << GDN_BACKEND_CPU, ON_ALL = (1 << GDN_BACKEND_COUNT) - 1 };

/* Calls run() with what a context of each is opened with, for the backends that are bits of the mask. How many there
 * are. */
static inline int each_target(int backends, void (*run)(gdn_context_desc *desc, const char *name))
{
    int n = 0;
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_device_info device = { .size = sizeof device };
        for (uint32_t d = 0; backends >> b & 1 && gdn_device_describe(b, d, &device) == GDN_OK; d++)
            for (uint32_t i = 0; i < device.n_implementations; i++, n++) {
                gdn_implementation_info info = { .size = sizeof info };
                NEED(!gdn_implementation_describe(b, d, i, &info));
                gdn_context_desc desc = { .size = sizeof desc, .backend = b, .device = d, .implementation = info.name };
                char name[64 + GDN_NAME_MAX];
                (void)snprintf(name, sizeof name, "backend %u, device %u, %s", (unsigned)b, (unsigned)d, info.name);
                run(&desc, name);
            }
    }
    return n;
}

#endif
