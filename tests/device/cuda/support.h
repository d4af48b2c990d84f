/* What the tests of the CUDA backend share, besides tests/device/suite.h and the fake driver's
 * tests/emulator/driver_api.h.
 */
#ifndef GDN_TEST_CUDA_SUPPORT_H
#define GDN_TEST_CUDA_SUPPORT_H

#include "gdn/cuda.h"
#include "tests/device/suite.h"
#include "tests/emulator/driver_api.h"
#include "tests/emulator/registry.h"

/* On the primary context, or on `native`. timeout_ns 0: the default. */
gdn_context *open_cuda(simt_context *native, uint64_t timeout_ns);

/* test_self_test.c */
void test_self_test(void); /* before every other: a process does not ask a device twice */

/* test_streams.c */
void test_too_new_image(void);
void test_default_stream(void);
void test_green_streams(void);
void test_destroyed_context(void);
void test_faults_of_others(void);

/* test_graphs.c */
void test_graph(void);
void test_graph_of_everything(void);
void test_graph_of_layers(void);

#endif
