/* What others do in the CUDA context of a gdn_context: work on the default streams, green contexts, more gdn_contexts,
 * and faults. */
#include <string.h>

#include "cuda/device.h"
#include "support.h"

enum { OUT = 5, STATE = 6 }; /* step_on.span */

/* ---- The driver and the image ----------------------------------------------------------------------------- */

/* The driver has no code in the image for the device, and its compiler does not know the image's PTX. (One of another
 * major release is refused before anything is loaded: no_driver.sh.) */
void test_too_new_image(void)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA };
    REQUIRE(simt_fail_call("cuModuleLoadData", 1, SIMT_UNSUPPORTED_PTX_VERSION, 1) == 0);
    suite_refuses(&desc, GDN_UNAVAILABLE, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
    REQUIRE(strstr(gdn_last_error(), "the driver is of CUDA 13.0, the kernels were made with CUDA 13.0") &&
            strstr(gdn_last_error(), "compute capability 9.0"));
}

/* ---- Streams ---------------------------------------------------------------------------------------------- */

/* A program that works on a default stream and passes NULL: calls read inputs that it has queued there, and work that
 * it queues afterwards reads the results. There is no wait in between. */
void test_default_stream(void)
{
    simt_stream *const legacy = NULL;
    static step got, other;
    float *pinned = NULL;
    step_on on;
    gdn_context *ctx = open_cuda(NULL, 0);
    simt_context *const context = (simt_context *)(void *)((gdn_cuda_device *)ctx->state)->context;
    step_init(&other, 99);
    REQUIRE(cuCtxPushCurrent_v2(context) == SIMT_SUCCESS);
    REQUIRE(cuMemAllocHost_v2((void **)&pinned, sizeof start.state) == SIMT_SUCCESS);
    for (int per_thread = 0; per_thread < 2; per_thread++) {
        simt_stream *const theirs = per_thread ? (simt_stream *)(uintptr_t)2 : legacy;
        const gdn_stream passed = per_thread ? (gdn_stream)(uintptr_t)2 : NULL; /* which has to be named */
        REQUIRE(step_put(&on, ctx, &other) == GDN_OK && gdn_synchronize(ctx, NULL) == GDN_OK);
        const void *const parts[] = { start.q, start.k, start.v, start.g, start.beta, start.out, start.state };
        static const size_t bytes[] = { sizeof start.q,    sizeof start.k,   sizeof start.v,    sizeof start.g,
                                        sizeof start.beta, sizeof start.out, sizeof start.state };
        for (int i = 0; i <= STATE; i++) { /* from page-locked memory, so that the copies are only queued */
            void *from = NULL;
            REQUIRE(cuMemAllocHost_v2(&from, bytes[i]) == SIMT_SUCCESS);
            memcpy(from, parts[i], bytes[i]);
            REQUIRE(cuMemcpyHtoDAsync_v2((simt_ptr)(uintptr_t)on.span[i].data, from, bytes[i], theirs) == SIMT_SUCCESS);
        }
        REQUIRE(simt_count("queued") == STATE + 1);
        REQUIRE(step_run(&on, passed) == GDN_OK);
        REQUIRE(cuMemcpyDtoHAsync_v2(pinned, (simt_ptr)(uintptr_t)on.span[STATE].data, sizeof start.state, theirs) ==
                SIMT_SUCCESS);
        REQUIRE(cuStreamSynchronize(theirs) == SIMT_SUCCESS && !memcmp(pinned, wanted.state, sizeof wanted.state));
        /* And so do reading and writing. */
        REQUIRE(cuMemsetD32_v2((simt_ptr)(uintptr_t)on.span[OUT].data, 7, 1) == SIMT_SUCCESS);
        REQUIRE(gdn_buffer_read(ctx, &on.span[OUT], 0, got.out, 4) == GDN_OK);
        uint32_t word;
        memcpy(&word, got.out, 4);
        REQUIRE(word == 7);
        step_drop(&on);
    }
    simt_context *popped = NULL;
    REQUIRE(cuCtxPopCurrent_v2(&popped) == SIMT_SUCCESS);
    gdn_context_destroy(ctx);
}

/* Streams of a green context of the primary one, and a gdn_context that runs in a green context itself. */
void test_green_streams(void)
{
    simt_green *green = NULL;
    simt_stream *stream = NULL;
    simt_context *part = NULL, *other = NULL;
    step_on on;
    gdn_context *ctx = open_cuda(NULL, 0);
    REQUIRE(cuGreenCtxCreate(&green, NULL, 0, 1) == SIMT_SUCCESS &&
            cuGreenCtxStreamCreate(&stream, green, 1, 0) == SIMT_SUCCESS &&
            cuCtxFromGreenCtx(&part, green) == SIMT_SUCCESS);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, stream) == GDN_OK);
    REQUIRE(gdn_synchronize(ctx, stream) == GDN_OK && step_same(&on, &wanted));

    /* An older driver does not say of what the stream's context is a part. */
    gdn_cuda_driver old = *((gdn_cuda_device *)ctx->state)->cu;
    const gdn_cuda_driver *const real = ((gdn_cuda_device *)ctx->state)->cu;
    old.StreamGetCtx_v2 = NULL;
    ((gdn_cuda_device *)ctx->state)->cu = &old;
    FAILS(step_run(&on, stream), GDN_INVALID_ARGUMENT, "green contexts need a driver");
    ((gdn_cuda_device *)ctx->state)->cu = real;
    step_close(&on);

    /* Not that of another context, whose primary is not this one. */
    REQUIRE(cuCtxCreate_v2(&other, 0, 0) == SIMT_SUCCESS);
    ctx = step_open(&on, open_cuda(other, 0));
    FAILS(step_run(&on, stream), GDN_INVALID_ARGUMENT, "of the CUDA context");
    step_close(&on);
    REQUIRE(cuCtxDestroy_v2(other) == SIMT_SUCCESS);

    ctx = open_cuda(part, 0);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, stream) == GDN_OK && step_run(&on, NULL) == GDN_OK);
    step_close(&on);
    REQUIRE(cuStreamDestroy_v2(stream) == SIMT_SUCCESS && cuGreenCtxDestroy(green) == SIMT_SUCCESS);
}

/* ---- A program's CUDA context that is destroyed too early -------------------------------------------------- */

void test_destroyed_context(void)
{
    const long long before = simt_count("modules");
    simt_context *mine = NULL, *again = NULL;
    gdn_context *lost, *next;
    step_on on;
    REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == SIMT_SUCCESS);
    lost = open_cuda(mine, 0);
    REQUIRE(cuCtxDestroy_v2(mine) == SIMT_SUCCESS);
    REQUIRE(gdn_poll(lost) == GDN_DEVICE_LOST);
    REQUIRE(cuCtxCreate_v2(&again, 0, 0) == SIMT_SUCCESS); /* perhaps at the address of the old one */
    next = open_cuda(again, 0);
    REQUIRE(step_put(&on, next, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    step_drop(&on);
    gdn_context_destroy(lost);
    gdn_context_destroy(next);
    REQUIRE(simt_count("modules") == before);
    REQUIRE(cuCtxDestroy_v2(again) == SIMT_SUCCESS);
}

/* ---- Faults of others ------------------------------------------------------------------------------------- */

/* The program's own work fails when it runs, in a stream that the library does not know. Every call reports it by its
 * status and the driver's error, and does not wait. */
static void fault_in(simt_context *context)
{
    simt_stream *stream = NULL;
    simt_context *popped = NULL;
    simt_ptr memory = 0;
    void *from = NULL;
    REQUIRE(cuCtxPushCurrent_v2(context) == SIMT_SUCCESS && cuStreamCreate(&stream, 1) == SIMT_SUCCESS);
    REQUIRE(cuMemAlloc_v2(&memory, 4096) == SIMT_SUCCESS && cuMemAllocHost_v2(&from, 4096) == SIMT_SUCCESS);
    REQUIRE(simt_control("hang", 1) == 0); /* so that freeing does not do what is queued */
    REQUIRE(cuMemcpyHtoDAsync_v2(memory, from, 4096, stream) == SIMT_SUCCESS && cuMemFree_v2(memory) == SIMT_SUCCESS);
    REQUIRE(simt_control("hang", 0) == 0);
    REQUIRE(cuStreamSynchronize(stream) == SIMT_ILLEGAL_ADDRESS);
    REQUIRE(cuCtxPopCurrent_v2(&popped) == SIMT_SUCCESS);
}

void test_faults_of_others(void)
{
    static const simt_result sticky[] = { SIMT_ECC_UNCORRECTABLE, SIMT_NVLINK_UNCORRECTABLE,
                                          SIMT_CONTAINED,         SIMT_ILLEGAL_ADDRESS,
                                          SIMT_LAUNCH_FAILED,     SIMT_TENSOR_MEMORY_LEAK,
                                          SIMT_MPS_RPC_FAILURE,   SIMT_UNKNOWN };
    gdn_context *ctx = NULL;
    simt_context *mine = NULL;
    step_on on;
    REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == SIMT_SUCCESS);
    ctx = step_open(&on, open_cuda(mine, 0));
    fault_in(mine);
    REQUIRE(step_run(&on, NULL) == GDN_DEVICE_LOST && strstr(gdn_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") &&
            strstr(gdn_last_error(), "context is lost"));
    REQUIRE(step_run(&on, NULL) == GDN_DEVICE_LOST && strstr(gdn_last_error(), "can only be destroyed") &&
            strstr(gdn_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    suite_lost(&on);

    /* A context that is broken before the library comes to it. */
    const gdn_cuda_desc native = { .size = sizeof native, .context = mine };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA, .native = &native };
    suite_refuses(&desc, GDN_DEVICE_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS");
    REQUIRE(cuCtxDestroy_v2(mine) == SIMT_SUCCESS);

    for (int i = 0; i < (int)(sizeof sticky / sizeof sticky[0]); i++) { /* the device itself works again each time */
        ctx = step_open(&on, open_cuda(NULL, 0));
        REQUIRE(step_run(&on, NULL) == GDN_OK && (i % 2 || step_same(&on, &wanted)));
        REQUIRE(simt_control("lose", sticky[i]) == 0);
        FAILS(i % 4 < 2 ? gdn_poll(ctx) : gdn_synchronize(ctx, NULL), GDN_DEVICE_LOST, "CUDA_ERROR_");
        REQUIRE(simt_control("lose", 0) == 0); /* the library remembers */
        suite_lost(&on);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0) == SIMT_SUCCESS);
    }

    /* What only this call failed with is not for good. */
    ctx = step_open(&on, open_cuda(NULL, 0));
    REQUIRE(simt_fail_call("cuLaunchKernelEx", 1, SIMT_LAUNCH_OUT_OF_RESOURCES, 1) == 0);
    REQUIRE(step_run(&on, NULL) == GDN_INTERNAL && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    step_close(&on);
}
