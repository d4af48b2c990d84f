/* What the tests of the emulator share. */
#ifndef GDN_SIMT_TEST_SUPPORT_H
#define GDN_SIMT_TEST_SUPPORT_H

#include "tests/emulator/driver_api.h"
#include "tests/emulator/test_kernels.h"
#include "tests/harness.h"

#define GIVES(call, result)                                                                                            \
    do {                                                                                                               \
        const simt_result given_ = (call);                                                                             \
        REQUIRE(given_ == (result), "%s gave %d, not %d", #call, given_, result);                                      \
    } while (0)
#define OK(call) GIVES(call, SIMT_SUCCESS)

/* A fresh context with in, out and words of `n` elements each; in[i] = i + 1, words are 0, out is not written. */
typedef struct fixture {
    simt_context *context;
    simt_module *module;
    simt_ptr in, out, words;
    unsigned n;
    float *host_out; /* after run() */
    unsigned *host_words;
} fixture;
void set_up(fixture *f, unsigned n);
void tear_down(fixture *f);
simt_function *function(fixture *f, const char *name);
/* Launch, wait and fetch out and words; the result of the wait, and where it is an error a new context is made. */
simt_result run(fixture *f, const char *kernel, unsigned grid, unsigned block, unsigned shared, int mode, unsigned n);

void test_driver(void);
void test_environment(void);
void test_graphs(void);

#endif
