/* Tests of the SIMT emulator and its fake driver. */
#include "tests/simt/driver_api.h"
#include "tests/simt/test_kernels.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    simt_context *context;
    simt_module *module;
    simt_function *add_one;
    simt_ptr in, out;
    float values[1000];
    int bad = 0;
    for (int i = 0; i < 1000; i++) values[i] = (float)i;
    bad |= cuInit(0);
    bad |= cuDevicePrimaryCtxRetain(&context, 0);
    bad |= cuCtxSetCurrent(context);
    bad |= cuModuleLoadData(&module, "GDN_SIMT");
    bad |= cuModuleGetFunction(&add_one, module, "add_one");
    bad |= cuMemAlloc_v2(&in, sizeof values);
    bad |= cuMemAlloc_v2(&out, sizeof values);
    bad |= cuMemcpyHtoD_v2(in, values, sizeof values);
    test_params params = { (float *)(uintptr_t)in, (float *)(uintptr_t)out, NULL, 1000, 0 };
    bad |= cuLaunchKernel(add_one, 8, 1, 1, 128, 1, 1, 0, NULL, (void *[]){ &params }, NULL);
    bad |= cuMemcpyDtoH_v2(values, out, sizeof values);
    for (int i = 0; i < 1000; i++) bad |= values[i] != (float)i + 1;
    printf("%d\n", bad);
    return bad;
}
