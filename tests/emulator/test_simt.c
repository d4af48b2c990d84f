/* Tests of the SIMT emulator: that it finds what kernels do wrong, and that its driver refuses what a driver refuses.
 * What kernels and programs do right is tested by the CUDA backend's tests. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/test_kernels.h"
#include "tests/harness.h"
#include "tests/sanitized.h"

#define GIVES(call, result)                                                                                            \
    do {                                                                                                               \
        const simt_result given_ = (call);                                                                             \
        REQUIRE(given_ == (result), "%s gave %d, not %d", #call, given_, result);                                      \
    } while (0)
#define OK(call) GIVES(call, SIMT_SUCCESS)

enum { N = 512, BYTES = N * sizeof(float) };

/* A fresh context; in[i] = i + 1, words are 0, out is not written. */
static simt_context *context;
static simt_function *kernel;
static simt_ptr in, out, words;
static float host[N]; /* out, after run() */

static void set_up(void)
{
    simt_module *module;
    float numbers[N];
    for (int i = 0; i < N; i++) numbers[i] = (float)(i + 1);
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    GIVES(cuModuleLoadData(&module, "what is this?"), SIMT_INVALID_IMAGE);
    OK(cuModuleLoadData(&module, "GDN_SIMT"));
    GIVES(cuModuleGetFunction(&kernel, module, "no_such_kernel"), SIMT_NOT_FOUND);
    OK(cuModuleGetFunction(&kernel, module, "try_mode"));
    OK(cuMemAlloc_v2(&in, BYTES));
    OK(cuMemAlloc_v2(&out, BYTES));
    OK(cuMemAlloc_v2(&words, BYTES));
    OK(cuMemcpyHtoDAsync_v2(in, numbers, BYTES, NULL));
    OK(cuMemsetD32_v2(words, 0, N));
    OK(cuCtxSynchronize());
}

static simt_result launch(unsigned grid, unsigned block, int mode, simt_stream *stream)
{
    test_params p = { (const float *)(uintptr_t)in, (float *)(uintptr_t)out, (unsigned *)(uintptr_t)words, N, mode };
    return cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, stream, (void *[]){ &p }, NULL);
}

/* What the wait gives; behind an error there is a new context. */
static simt_result run(unsigned grid, unsigned block, int mode)
{
    OK(launch(grid, block, mode, NULL));
    const simt_result result = cuCtxSynchronize();
    if (!result) OK(cuMemcpyDtoHAsync_v2(host, out, BYTES, NULL));
    if (!result) return result;
    GIVES(cuMemAlloc_v2(&words, 16), result); /* the launch itself had succeeded, and nothing works any more */
    OK(cuCtxDestroy_v2(context));
    set_up();
    return result;
}

/* ---- Kernels ---- */

enum { PLAIN = 1, CHECKED = 2, BOTH = 3 };
static const struct {
    int mode, found_by;
    unsigned grid, block;
    const char *words; /* of the fault; NULL: there is none */
} trials[] = {
    { ADD_ONE, BOTH, 2, 256, NULL },
    { WARP_ORDERED, BOTH, 1, 32, NULL },
    { WARP_ORDERED_BY_64, BOTH, 1, 64, NULL },
    { ATOMICS, BOTH, 3, 96, NULL },
    { LEFT_EARLY, BOTH, 1, 96, NULL },
    { MATRICES, BOTH, 1, 64, NULL },
    { HALF_MULTIPLIES, BOTH, 1, 32, "multiply matrices, and all 32 have to" },
    { SUM_ROUNDS, BOTH, 1, 32, "a sum of products of binary16, 1.67772e+07, is not exact" },
    { HALF_COMES, BOTH, 2, 128, "never come" },
    { TWO_BARRIERS, BOTH, 2, 128, "not all threads are at the same barrier" },
    { RETURNS_EARLY, BOTH, 2, 128, "returned" },
    { SHUFFLE_AND_BARRIER, BOTH, 2, 64, "never come" },
    { LANE_TAKES_NO_PART, BOTH, 2, 64, "reads from lane 20, which does not take part" },
    { MASK_WITHOUT_ITSELF, BOTH, 2, 64, "in which it is not itself" },
    { LANE_THAT_RETURNED, BOTH, 2, 64, "reads from lane 25" },
    { TWO_MASKS, BOTH, 2, 64, "never come" },
    { BAD_WIDTH, BOTH, 2, 64, "a width of 12" },
    { ONE_OTHER_MASK, BOTH, 2, 32, "never come" },
    { VOTE_AND_BARRIER, BOTH, 2, 32, "never come" },
    { UNALIGNED, BOTH, 2, 64, "not aligned" },
#ifndef ADDRESS_SANITIZED /* which ends the program there: simt.overflow */
    { BEHIND_ALLOCATION, PLAIN, 2, 64, "wrote behind an allocation" },
#endif
    { BEHIND_ALLOCATION, CHECKED, 2, 64, "a write outside of any memory" },
    { UNWRITTEN, CHECKED, 2, 64, "shared memory that nobody has written" },
    { NO_BARRIER, CHECKED, 2, 64, "shared memory" },
    { BLOCKS_WRITE, CHECKED, 2, 64, "a race: block" },
    { READ_BEHIND, CHECKED, 2, 64, "a read outside of any memory" },
    { SAME_WRITE, CHECKED, 2, 64, "a race: thread" },
    { WARP_ORDERED_BY_64, CHECKED, 2, 128, "a race" },
    { WRITTEN_EARLY, CHECKED, 2, 64, "a race" },
    { BLOCK_READS, CHECKED, 2, 64, "a race" },
    { WARP_BARRIER_TOO_EARLY, CHECKED, 2, 32, "a race" },
    { WRITES_PARAMETER, CHECKED, 2, 64, "a write to a parameter" },
};

static void test_kernels(int kind)
{
    for (int seed = 0; seed < 4; seed++)
        for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
            if (!(trials[i].found_by & kind)) continue;
            simt_control("seed", seed);
            simt_control("quiet", trials[i].words != NULL);
            const simt_result result = run(trials[i].grid, trials[i].block, trials[i].mode);
            simt_control("quiet", 0);
            REQUIRE(!result == !trials[i].words, "mode %d, seed %d: %d", trials[i].mode, seed, result);
            REQUIRE(!trials[i].words || strstr(simt_last_fault(), trials[i].words), "mode %d: \"%s\" has no \"%s\"",
                    trials[i].mode, simt_last_fault(), trials[i].words);
            for (int t = 0; trials[i].mode == MATRICES && t < 64; t++) REQUIRE(host[t] == 8, "%d: %g", t, host[t]);
        }
    /* Where accesses are not watched: 0 has NaN in unwritten memory, 2 numbers, and 1 and more another order. */
    int numbers = 0, differ = 0;
    for (int seed = 0; kind == PLAIN && seed < 8; seed++) {
        simt_control("seed", seed);
        OK(run(1, 32, UNWRITTEN));
        REQUIRE((host[7] == host[7]) == (seed && seed % 2 == 0));
        numbers += host[7] == host[7];
        OK(run(1, 64, NO_BARRIER));
        differ += host[7] != 8;
    }
    REQUIRE(kind != PLAIN || (numbers > 2 && differ > 2), "%d, %d", numbers, differ);
    simt_control("seed", 0);
}

/* ---- The driver ---- */

/* Work runs at a wait, and not before. */
static void test_waiting(void)
{
    simt_stream *stream;
    float *pinned, plain[4] = { 1, 2, 3, 4 };
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAllocHost_v2((void **)&pinned, BYTES));
    OK(launch(2, 256, ADD_ONE, stream));
    pinned[3] = 77;
    OK(cuMemcpyDtoHAsync_v2(pinned, out, 16, stream));
    REQUIRE(pinned[3] == 77 && simt_count("queued") >= 2);
    GIVES(cuStreamQuery(stream), SIMT_NOT_READY);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamQuery(stream));
    REQUIRE(pinned[3] == 5, "%g", (double)pinned[3]);
    OK(cuMemcpyHtoDAsync_v2(in, plain, 16, stream)); /* staged, since it is not pinned */
    plain[3] = 99;
    OK(cuMemcpyDtoHAsync_v2(plain, in, 16, stream));
    REQUIRE(plain[3] == 4, "%g", (double)plain[3]);
    pinned[0] = 1;
    OK(cuMemcpyHtoDAsync_v2(in, pinned, 16, stream));
    pinned[0] = 2; /* pinned memory is read later */
    OK(cuMemcpyDtoHAsync_v2(plain, in, 16, stream));
    REQUIRE(plain[0] == 2, "%g", (double)plain[0]);
    OK(cuStreamDestroy_v2(stream));
    GIVES(cuStreamSynchronize(stream), SIMT_INVALID_HANDLE);
    OK(cuMemFreeHost(pinned));
}

static void test_refusals(void)
{
    float here[8];
    int value;
    simt_ptr memory;
    simt_context *none;
    simt_stream *stream;
    simt_graph *graph;
    OK(cuStreamCreate(&stream, 1));
    GIVES(cuMemAlloc_v2(&memory, 0), SIMT_INVALID_VALUE);
    GIVES(cuMemAlloc_v2(&memory, (size_t)9 << 30), SIMT_OUT_OF_MEMORY);
    GIVES(cuMemFree_v2(in + 4), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyHtoDAsync_v2(in + BYTES - 12, here, 16, stream), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyDtoHAsync_v2(here, in + BYTES - 12, 16, stream), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyDtoDAsync_v2(out + BYTES - 12, in, 16, stream), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyDtoDAsync_v2(out, (simt_ptr)(uintptr_t)here, 16, stream), SIMT_INVALID_VALUE);
    GIVES(cuMemsetD32_v2(in + 1, 0, 1), SIMT_INVALID_VALUE);
    GIVES(launch(1, 0, ADD_ONE, NULL), SIMT_INVALID_VALUE);
    GIVES(launch(1, 257, ADD_ONE, NULL), SIMT_INVALID_VALUE); /* beyond its launch bounds */
    GIVES(launch(0, 32, ADD_ONE, NULL), SIMT_INVALID_VALUE);
    GIVES(launch(1, 32, ADD_ONE, (simt_stream *)(void *)here), SIMT_INVALID_HANDLE);
    GIVES(cuLaunchKernel(kernel, 1, 65536, 1, 32, 1, 1, 0, NULL, (void *[]){ here }, NULL), SIMT_INVALID_VALUE);
    GIVES(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 64, NULL, (void *[]){ here }, NULL), SIMT_INVALID_VALUE);
    GIVES(cuDeviceGetAttribute(&value, 75, 1), SIMT_INVALID_DEVICE);
    GIVES(cuPointerGetAttribute(&none, 1, 64), SIMT_INVALID_VALUE);

    /* What a capture does not allow. */
    GIVES(cuStreamBeginCapture_v2(NULL, 0), SIMT_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture_v2(stream, 0));
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_STREAM_CAPTURE_UNSUPPORTED);
    GIVES(cuStreamEndCapture(stream, &graph), SIMT_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture_v2(stream, 2));
    OK(cuMemAlloc_v2(&memory, 16));
    GIVES(cuStreamSynchronize(stream), SIMT_STREAM_CAPTURE_UNSUPPORTED);
    GIVES(launch(1, 32, ADD_ONE, stream), SIMT_STREAM_CAPTURE_INVALIDATED);
    GIVES(cuStreamEndCapture(stream, &graph), SIMT_STREAM_CAPTURE_INVALIDATED);
    GIVES(cuStreamEndCapture(stream, &graph), SIMT_ILLEGAL_STATE);

    OK(cuCtxPopCurrent_v2(&none));
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_INVALID_CONTEXT);
    GIVES(launch(1, 32, ADD_ONE, NULL), SIMT_INVALID_CONTEXT);
    OK(cuCtxPushCurrent_v2(context));
}

int main(int argc, char **argv)
{
    int n;
    GIVES(cuDeviceGetCount(&n), SIMT_NOT_INITIALIZED);
    set_up();
    if (argc > 1 && !strcmp(argv[1], "overflow"))
        return (int)run(1, 64, BEHIND_ALLOCATION); /* AddressSanitizer ends it */
    test_kernels(argc > 1 && !strcmp(argv[1], "CHECKED") ? CHECKED : PLAIN);
    test_waiting();
    test_refusals();
    OK(cuCtxDestroy_v2(context));
    GIVES(cuCtxPushCurrent_v2(context), SIMT_INVALID_CONTEXT);
    for (int i = 0; i < 6; i++) {
        static const char *const kinds[] = {
            "contexts", "streams", "modules", "graphs", "graph execs", "device blocks"
        };
        REQUIRE(simt_count(kinds[i]) == 0, "%s left: %lld", kinds[i], simt_count(kinds[i]));
    }
    return test_summary();
}
