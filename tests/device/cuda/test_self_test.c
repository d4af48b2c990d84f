/* A driver whose compiler makes a mistake in one kernel, the last bit of one number: no context is opened, whichever
 * kernel it is. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device.h"

#include "cuda/chunked.h"
#include "support.h"
#include "tests/sanitized.h"

/* Where a kernel's parameters have the address of its results. 0: it has none that are a call's. */
static size_t results_of(const char *name)
{
    if (!strncmp(name, "delta_", 6)) return offsetof(gdn_gated_delta_net_call, result);
    /* Its results are in the workspace. It is as wrong to change v, which the next kernel reads. */
    if (!strncmp(name, "chunked_prepare", 15)) return offsetof(gdn_cuda_chunked_call, call.v);
    if (!strncmp(name, "chunked_", 8)) return offsetof(gdn_cuda_chunked_call, call.result);
    if (!strncmp(name, "conv_", 5)) return offsetof(gdn_ssm_conv_call, result);
    return strcmp(name, "rows_write") ? 0 : offsetof(gdn_set_rows_call, dst);
}

/* Under sanitizers a part of the kernels: each is asked behind all before it. */
#ifdef SANITIZED
enum { EACH = 3 };
#else
enum { EACH = 1 };
#endif

void test_self_test(void)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA };
    gdn_context *ctx = NULL;
    int asked = 0;
    if (!suite_asks()) return;
    for (gdn_cuda_kernel kernel = 0; kernel < GDN_CUDA_KERNEL_COUNT; kernel += EACH) {
        char symbol[96], says[96];
        const char *name = gdn_cuda_kernel_name((int32_t)kernel);
        if (!results_of(name)) continue; /* symbol stays that of the mistake */
        (void)snprintf(symbol, sizeof symbol, "gdn_cuda_%s", name);
        (void)snprintf(says, sizeof says, strcmp(name, "rows_write") ? "kernel %s)" : "in set_rows (", name);
        if (!strncmp(name, "chunked_prepare", 15)) (void)snprintf(says, sizeof says, "kernel chunked_"); /* reads it */
        simt_miscompile(symbol, results_of(name));
        if (strstr(name, "_f16")) REQUIRE(setenv("GDN_CUDA_DIGITS", "f16", 1) == 0);
        suite_refuses(&desc, GDN_UNSUPPORTED, says);
        REQUIRE(unsetenv("GDN_CUDA_DIGITS") == 0);
        REQUIRE(strstr(gdn_last_error(), "self-test"));
        asked++;
    }
    REQUIRE(EACH > 1
                ? asked > 5
                : asked == GDN_CUDA_KERNEL_COUNT - 5); /* all but the probes', and two of set_rows that fill a table */
    REQUIRE(simt_count("modules") == 0 && simt_count("device blocks") == 0 && simt_count("contexts") == 0);

    /* The self-test can be switched off. */
    REQUIRE(setenv("GDN_KNOWN_ANSWERS", "off", 1) == 0);
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    gdn_context_destroy(ctx);
    REQUIRE(setenv("GDN_KNOWN_ANSWERS", "maybe", 1) == 0);
    suite_refuses(&desc, GDN_INVALID_ARGUMENT, "GDN_KNOWN_ANSWERS in the environment is \"maybe\"");
    REQUIRE(unsetenv("GDN_KNOWN_ANSWERS") == 0);
    simt_miscompile(NULL, 0);
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    gdn_context_destroy(ctx);
}
