/* Tests of the fake driver: that it refuses what a driver refuses, and that a host that does not wait is found. */
#include "tests/emulator/test_support.h"

#include <stdlib.h>
#include <string.h>

static test_params params_of(const fixture *f, unsigned n)
{
    return (test_params){ (const float *)(uintptr_t)f->in, (float *)(uintptr_t)f->out, (unsigned *)(uintptr_t)f->words,
                          n, 0 };
}

static simt_result launch(fixture *f, simt_stream *stream, test_params *params, unsigned block)
{
    return cuLaunchKernel(function(f, "add_one"), 4, 1, 1, block, 1, 1, 0, stream, (void *[]){ params }, NULL);
}

/* What the environment sets; a test of its own, with GDN_SIMT_CONTROL, GDN_SIMT_FAIL, GDN_SIMT_HIDE, GDN_SIMT_SEED. */
void test_environment(void)
{
    int n, status;
    simt_ptr memory;
    simt_context *context;
    void *function_pointer;
    float value = 0;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    REQUIRE(n == 2, "%d devices", n);
    OK(cuDeviceGetAttribute(&n, 75, 1));
    REQUIRE(n == 7, "capability %d", n);
    OK(cuCtxCreate_v4(&context, NULL, 0, 1));
    OK(cuMemAlloc_v2(&memory, 16));
    OK(cuMemcpyDtoH_v2(&value, memory, 4));
    REQUIRE(value == value && value != 0, "%g", (double)value); /* an even seed: a number */
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_OUT_OF_MEMORY);
    OK(cuGetProcAddress_v2("cuLaunchKernel", &function_pointer, 13000, 0, &status));
    REQUIRE(!function_pointer && status == 1, "%d", status);
    OK(cuCtxDestroy_v2(context));
}

static void host_function(void *data)
{
    int *seen = data;
    seen[0]++;
    seen[1] = cuDeviceGetCount(&seen[2]); /* is refused */
}

/* Work is done when somebody waits, and not before. */
static void test_order(void)
{
    fixture f;
    simt_stream *a, *b;
    simt_event *event, *other;
    float *pinned, plain[4];
    set_up(&f, 1024);
    test_params params = params_of(&f, 1000);
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    OK(cuEventCreate(&event, 2));
    OK(cuEventCreate(&other, 0));
    OK(cuMemAllocHost_v2((void **)&pinned, 4096));
    OK(cuMemsetD32_v2(f.out, 0, 1024));
    OK(cuCtxSynchronize());

    OK(launch(&f, a, &params, 256));
    params.n = 0; /* the launch has its own copy */
    OK(cuMemcpyDtoHAsync_v2(pinned, f.out, 16, a));
    OK(cuEventRecord(event, a));
    pinned[3] = 77;
    OK(cuMemcpyDtoH_v2(plain, f.out, 16)); /* does not wait for a stream that does not block */
    REQUIRE(plain[3] == 0 && pinned[3] == 77, "%g %g", (double)plain[3], (double)pinned[3]);
    GIVES(cuEventQuery(event), SIMT_NOT_READY);
    GIVES(cuStreamQuery(a), SIMT_NOT_READY);
    OK(cuEventSynchronize(event));
    REQUIRE(pinned[3] == 5, "%g", (double)pinned[3]);
    OK(cuEventQuery(event));
    OK(cuStreamQuery(a));

    /* One stream waits for the other. */
    OK(cuMemcpyHtoDAsync_v2(f.in, plain, 16, a));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    plain[3] = 99; /* memory that is not pinned is staged */
    OK(cuMemcpyDtoHAsync_v2(plain, f.in, 16, b));
    REQUIRE(plain[3] == 0, "%g", (double)plain[3]);
    pinned[0] = 1;
    OK(cuMemcpyHtoDAsync_v2(f.in, pinned, 16, a));
    pinned[0] = 2; /* pinned memory is read later */
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(plain, f.in, 16));
    REQUIRE(plain[0] == 2, "%g", (double)plain[0]);

    int seen[3] = { 0 };
    OK(cuLaunchHostFunc(a, host_function, seen));
    REQUIRE(seen[0] == 0, "%d", seen[0]);
    OK(cuStreamSynchronize(a));
    REQUIRE(seen[0] == 1 && seen[1] == SIMT_NOT_PERMITTED, "%d %d", seen[0], seen[1]);
    OK(cuEventRecord(other, a));
    GIVES(cuEventElapsedTime_v2(plain, other, event), SIMT_INVALID_HANDLE); /* one has no timing */
    OK(cuEventDestroy_v2(event));
    GIVES(cuEventQuery(event), SIMT_INVALID_HANDLE);
    OK(cuEventDestroy_v2(other)); /* still queued */
    OK(cuStreamDestroy_v2(a));
    GIVES(cuStreamSynchronize(a), SIMT_INVALID_HANDLE);
    OK(cuStreamDestroy_v2(b));
    OK(cuMemFreeHost(pinned));
    tear_down(&f);
}

/* A copy within device memory is made when somebody waits; an address tells of which context it is. */
static void test_device_copies(void)
{
    fixture f;
    simt_stream *a;
    simt_context *context = NULL, *current;
    float have[4] = { 0 };
    const float want[4] = { 1, 2, 3, 4 };
    set_up(&f, 1024);
    OK(cuStreamCreate(&a, 1));
    OK(cuCtxGetCurrent(&current));
    OK(cuPointerGetAttribute(&context, 1, f.in + 4));
    REQUIRE(context == current, "%p", (void *)context);
    GIVES(cuPointerGetAttribute(&context, 1, 64), SIMT_INVALID_VALUE);
    GIVES(cuPointerGetAttribute(&context, 2, f.in), SIMT_NOT_SUPPORTED);
    OK(cuMemsetD32_v2(f.out, 0, 1024));
    OK(cuMemcpyHtoD_v2(f.in, want, 16));
    OK(cuMemcpyDtoDAsync_v2(f.out, f.in, 12, a));
    OK(cuMemcpyDtoH_v2(have, f.out, 16));
    REQUIRE(have[0] == 0, "%g", (double)have[0]);
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(have, f.out, 16));
    REQUIRE(have[2] == 3 && have[3] == 0, "%g %g", (double)have[2], (double)have[3]);
    REQUIRE(!simt_control("cut", 4), "%d", 0);
    OK(cuMemcpyDtoDAsync_v2(f.out + 16, f.in, 16, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(have, f.out + 16, 16));
    REQUIRE(have[2] == 3 && have[3] == 0, "%g %g", (double)have[2], (double)have[3]);
    REQUIRE(!simt_control("reset", 0), "%d", 0);
    GIVES(cuMemcpyDtoDAsync_v2(f.out + 4090, f.in, 16, a), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyDtoDAsync_v2(f.out, (simt_ptr)(uintptr_t)want, 16, a), SIMT_INVALID_VALUE);
    OK(cuStreamDestroy_v2(a));
    tear_down(&f);
}

static void test_arguments(void)
{
    fixture f;
    int value;
    void *function_pointer;
    int status;
    simt_ptr memory;
    const char *name;
    set_up(&f, 1024);
    test_params params = params_of(&f, 10);
    GIVES(cuMemAlloc_v2(&memory, 0), SIMT_INVALID_VALUE);
    GIVES(cuMemAlloc_v2(&memory, (size_t)9 << 30), SIMT_OUT_OF_MEMORY);
    GIVES(cuMemFree_v2(f.in + 4), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyHtoD_v2(f.in, &params, 4097), SIMT_INVALID_VALUE);
    GIVES(cuMemcpyDtoH_v2(&params, f.in + 4090, 16), SIMT_INVALID_VALUE);
    GIVES(cuMemsetD32_v2(f.in + 1, 0, 1), SIMT_INVALID_VALUE);
    GIVES(launch(&f, NULL, &params, 0), SIMT_INVALID_VALUE);
    GIVES(launch(&f, NULL, &params, 257), SIMT_INVALID_VALUE); /* beyond its launch bounds */
    GIVES(launch(&f, (simt_stream *)(void *)&f, &params, 32), SIMT_INVALID_HANDLE);
    GIVES(cuLaunchKernel(function(&f, "reduce_shared"), 1, 1, 1, 32, 1, 1, 49153, NULL, (void *[]){ &params }, NULL),
          SIMT_INVALID_VALUE);
    GIVES(cuFuncSetAttribute(function(&f, "reduce_shared"), 8, 232449), SIMT_INVALID_VALUE);
    OK(cuFuncSetAttribute(function(&f, "reduce_shared"), 8, 232448));
    OK(cuLaunchKernel(function(&f, "reduce_shared"), 1, 1, 1, 32, 1, 1, 232448, NULL, (void *[]){ &params }, NULL));
    GIVES(cuLaunchKernel(function(&f, "reduce"), 1, 65536, 1, 32, 1, 1, 0, NULL, (void *[]){ &params }, NULL),
          SIMT_INVALID_VALUE);
    simt_function *missing;
    GIVES(cuModuleGetFunction(&missing, f.module, "no_such_kernel"), SIMT_NOT_FOUND);
    simt_module *module;
    GIVES(cuModuleLoadData(&module, "what is this?"), SIMT_INVALID_IMAGE);
    OK(cuDeviceGetAttribute(&value, 75, 0));
    REQUIRE(value == 9, "%d", value);
    GIVES(cuDeviceGetAttribute(&value, 75, 1), SIMT_INVALID_DEVICE);
    OK(cuGetErrorName(SIMT_OUT_OF_MEMORY, &name));
    REQUIRE(strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0, "%s", name);
    OK(cuGetErrorName(0, &name));
    REQUIRE(strcmp(name, "CUDA_SUCCESS") == 0, "%s", name);
    GIVES(cuGetErrorString(12345, &name), SIMT_INVALID_VALUE);
    OK(cuGetProcAddress_v2("cuCtxCreate", &function_pointer, 11080, 0, &status));
    REQUIRE(function_pointer == (void *)(uintptr_t)cuCtxCreate_v3, "the form of 11.4");
    OK(cuGetProcAddress_v2("cuCtxCreate", &function_pointer, 13000, 0, &status));
    REQUIRE(function_pointer == (void *)(uintptr_t)cuCtxCreate_v4, "the form of 12.5");
    OK(cuGetProcAddress_v2("cuNothing", &function_pointer, 13000, 0, &status));
    REQUIRE(!function_pointer && status == 1, "%d", status);
    GIVES(cuGetProcAddress("cuNothing", &function_pointer, 13000, 0), SIMT_NOT_FOUND);

    simt_context *none;
    OK(cuCtxPopCurrent_v2(&none));
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_INVALID_CONTEXT);
    GIVES(launch(&f, NULL, &params, 32), SIMT_INVALID_CONTEXT);
    OK(cuCtxPushCurrent_v2(f.context));
    tear_down(&f);
    GIVES(cuCtxPushCurrent_v2(f.context), SIMT_INVALID_CONTEXT);
}

/* Faults that stay, and faults that are asked for. */
static void test_faults(void)
{
    fixture f;
    simt_ptr memory;
    set_up(&f, 1024);
    test_params params = params_of(&f, 10);
    simt_control("quiet", 1);
    params.mode = 3;
    simt_function *add_one = function(&f, "add_one");
    OK(cuLaunchKernel(function(&f, "barriers"), 1, 1, 1, 64, 1, 1, 0, NULL, (void *[]){ &params }, NULL));
    GIVES(cuMemcpyDtoH_v2(&memory, f.in, 8), SIMT_LAUNCH_FAILED); /* the launch itself had succeeded */
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_LAUNCH_FAILED);        /* and nothing works any more */
    GIVES(cuLaunchKernel(add_one, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){ &params }, NULL), SIMT_LAUNCH_FAILED);
    GIVES(cuCtxSynchronize(), SIMT_LAUNCH_FAILED);
    simt_control("quiet", 0);
    tear_down(&f);

    set_up(&f, 1024);
    simt_fail_call("cuMemAlloc_v2", 2, SIMT_OUT_OF_MEMORY, 1);
    OK(cuMemAlloc_v2(&memory, 16));
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_OUT_OF_MEMORY);
    const unsigned long long calls = simt_calls("cuMemAlloc_v2");
    OK(cuMemAlloc_v2(&memory, 16));
    REQUIRE(simt_calls("cuMemAlloc_v2") == calls + 1, "%llu", calls);
    simt_control("lose", SIMT_ECC_UNCORRECTABLE);
    GIVES(cuCtxSynchronize(), SIMT_ECC_UNCORRECTABLE);
    tear_down(&f);

    set_up(&f, 1024);
    simt_event *event;
    simt_stream *stream;
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, 2));
    simt_control("hang", 1);
    params = params_of(&f, 10);
    OK(launch(&f, stream, &params, 32));
    OK(cuEventRecord(event, stream));
    for (int i = 0; i < 10; i++) GIVES(cuEventQuery(event), SIMT_NOT_READY);
    GIVES(cuStreamSynchronize(stream), SIMT_LAUNCH_TIMEOUT);
    simt_control("hang", 0);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy_v2(stream));
    OK(cuEventDestroy_v2(event));
    tear_down(&f);

    simt_control("devices", 0);
    GIVES(cuInit(0), SIMT_NO_DEVICE);
    simt_control("devices", 1);
    simt_control("driver", 11000);
    int version, status;
    void *at;
    OK(cuDriverGetVersion(&version));
    REQUIRE(version == 11000, "%d", version);
    OK(cuGetProcAddress_v2("cuLaunchKernelEx", &at, 13000, 0, &status));
    REQUIRE(!at && status == 1, "%d", status);
    simt_control("reset", 0);
    REQUIRE(simt_control("no such thing", 1) == -1, "a name that there is not");
}

void test_driver(void)
{
    for (int async = 0; async < 3; async++) {
        if (async == 0) {
            test_order();
            test_device_copies();
        }
        simt_control("async", async);
        test_arguments();
        test_faults();
    }
    simt_control("async", 0);
}
