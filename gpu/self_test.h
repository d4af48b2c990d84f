/* The self-test: small fixed calls through a device's real kernels. Their results are compared bit
 * for bit with the reference's in this process. The probe (gpu/probe.h) tests a device's arithmetic; the self-test
 * shows whether the device's compiler has compiled a kernel correctly. It runs once for each pipeline, before a call
 * uses the pipeline. */
#ifndef GDN_GPU_SELF_TEST_H
#define GDN_GPU_SELF_TEST_H

#include "core/backend.h"

/* ---- The calls, the same on every device ---- */
enum {
    GDN_SELF_TESTS = 2776, /* of all kernels */
    GDN_SELF_TEST_PARTS = 20,
    GDN_SELF_TEST_BYTES = 11 << 16 /* memory for any call's operands and workspace */
};

typedef struct gdn_gpu_part { /* an operand, or a map, in the call's memory */
    uint64_t at;
    uint32_t n; /* elements */
    int32_t dtype, values;
    const int32_t *map;
} gdn_gpu_part;

typedef struct gdn_gpu_test_call {
    gdn_kernel kernel;
    union {
        gdn_gated_delta_net_args gated_delta_net;
        gdn_ssm_conv_args ssm_conv;
        gdn_set_rows_args set_rows;
    } args;
    gdn_delta_inputs inputs; /* parts that the arguments point to: a call is not copied */
    gdn_replay_log log;
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
    gdn_state_rounding rounding;
    gdn_chunked_form chunked;
    void *data; /* of every span of the call */
    int kind;   /* of the code that a call executes in its pipeline: calls with other types or layouts differ in it */
    gdn_gpu_part part[GDN_SELF_TEST_PARTS];
    uint32_t n_parts;
    uint64_t written, bytes; /* where written operands begin; the end of all operands */
} gdn_gpu_test_call;

/* Makes call `number`, 0 to GDN_SELF_TESTS - 1, over memory of GDN_SELF_TEST_BYTES that spans name as `data`. */
void gdn_gpu_test_call_of(int number, void *data, gdn_gpu_test_call *call);
/* The calls of one kernel (gpu/<kernel>.c): makes call `which`, from 0 on, and returns their number. -1 makes none. */
int gdn_gpu_self_test_gated_delta_net(int which, gdn_gpu_test_call *call);
int gdn_gpu_self_test_ssm_conv(int which, gdn_gpu_test_call *call);
int gdn_gpu_self_test_set_rows(int which, gdn_gpu_test_call *call);
/* Writes the contents before the call to `bytes` of memory. */
void gdn_gpu_test_fill(const gdn_gpu_test_call *call, unsigned char *memory);
/* A 64-bit hash of the memory from `written` to `bytes`, after the call. */
uint64_t gdn_gpu_test_digest(const gdn_gpu_test_call *call, const unsigned char *memory);

/* ---- self_test_calls.c: builds calls. Operands follow each other in memory in the order in which they are made. ----
 */
enum { /* what an operand holds */
       GDN_SELF_TEST_OF_ONE /* n / 128 */,
       GDN_SELF_TEST_OF_SIXTEENTHS /* n / 2048, of keys */,
       GDN_SELF_TEST_GATES /* -(0 .. 63) / 64 */,
       GDN_SELF_TEST_SHARES /* (1 .. 64) / 64 */,
       GDN_SELF_TEST_LONG /* n / 2^20 of 20 bits, which 16 bits do not hold */
};
gdn_tensor gdn_gpu_test_tensor(gdn_gpu_test_call *c, int32_t dtype, int n, int values);
gdn_pool gdn_gpu_test_pool(gdn_gpu_test_call *c, int32_t dtype, int n_rows, int n_slots, int slot, int values);
gdn_span gdn_gpu_test_map(gdn_gpu_test_call *c, const int32_t *values, int n);
gdn_span gdn_gpu_test_workspace(const gdn_gpu_test_call *c);
void gdn_gpu_test_results(gdn_gpu_test_call *c); /* the operands made after this are written by the call */
/* A tree: the first token follows the state, the next two follow it, the last one the second. */
enum { GDN_SELF_TEST_TREE_TOKENS = 4 };
extern const int32_t gdn_gpu_test_parents[GDN_SELF_TEST_TREE_TOKENS];

/* ---- self_test.c ---- */
enum { GDN_SELF_TESTS_LATER = 128 };

/* The pipeline of a call: the kernel, and a hash of everything that affects the compiled code. */
typedef struct gdn_gpu_pipeline {
    gdn_kernel kernel;
    uint64_t id;
} gdn_gpu_pipeline;

/* The self-test's part of a context. */
typedef struct gdn_gpu_self_test {
    uint64_t implementation; /* a hash of the context's, and of its device and driver */
    int off;                 /* 1: no self-test, by the environment or because the implementation is not exact */
    int busy;                /* 1: a self-test is running */
    int planned;
    uint64_t
        known[GDN_SELF_TESTS]; /* the pipeline of each call, after planning; 0: the device does not support the call */
    unsigned char kind[GDN_SELF_TESTS];
    uint32_t n_later;
    gdn_gpu_pipeline later[GDN_SELF_TESTS_LATER]; /* pipelines of recording calls, not yet tested */
} gdn_gpu_self_test;

/* Reads GDN_KNOWN_ANSWERS. */
gdn_status gdn_gpu_self_test_open(const gdn_context *ctx);
/* Tests all pipelines of the context that this process has not tested on the same device before. Of a pipeline it runs
 * the first call of each kind. UNSUPPORTED, with a text that names the pipeline, if a result is wrong. */
gdn_status gdn_gpu_self_test_all(gdn_context *ctx);
/* For a backend that makes pipelines on demand: tests the plan's pipeline before a call runs there. A call that only
 * records does not wait for the device; it adds the pipeline to `later`, and gdn_gpu_self_test_later() tests it. */
gdn_status gdn_gpu_self_test_plan(gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan, int recording);
gdn_status gdn_gpu_self_test_later(gdn_context *ctx);

#endif
