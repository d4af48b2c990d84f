/* What the tests of the emulator share. */
#include "tests/emulator/test_support.h"

#include <stdlib.h>

void set_up(fixture *f, unsigned n)
{
    const size_t bytes = n * sizeof(float);
    f->n = n;
    f->host_out = malloc(bytes);
    f->host_words = malloc(bytes);
    float *in = malloc(bytes);
    if (!in || !f->host_out || !f->host_words) exit(3);
    for (unsigned i = 0; i < n; i++) in[i] = (float)(i + 1);
    OK(cuInit(0));
    OK(cuCtxCreate_v4(&f->context, NULL, 0, 0));
    OK(cuModuleLoadData(&f->module, "GDN_SIMT"));
    OK(cuMemAlloc_v2(&f->in, bytes));
    OK(cuMemAlloc_v2(&f->out, bytes));
    OK(cuMemAlloc_v2(&f->words, bytes));
    OK(cuMemcpyHtoD_v2(f->in, in, bytes));
    OK(cuMemsetD32_v2(f->words, 0, n));
    free(in);
}

void tear_down(fixture *f)
{
    OK(cuCtxDestroy_v2(f->context));
    free(f->host_out);
    free(f->host_words);
}

simt_function *function(fixture *f, const char *name)
{
    simt_function *found = NULL;
    OK(cuModuleGetFunction(&found, f->module, name));
    return found;
}

simt_result run(fixture *f, const char *kernel, unsigned grid, unsigned block, unsigned shared, int mode, unsigned n)
{
    test_params params = { (const float *)(uintptr_t)f->in, (float *)(uintptr_t)f->out, (unsigned *)(uintptr_t)f->words,
                           n, mode };
    OK(cuLaunchKernel(function(f, kernel), grid, 1, 1, block, 1, 1, shared, NULL, (void *[]){ &params }, NULL));
    const simt_result result = cuCtxSynchronize();
    if (result) {
        const unsigned words = f->n;
        tear_down(f);
        set_up(f, words);
        return result;
    }
    OK(cuMemcpyDtoH_v2(f->host_out, f->out, f->n * sizeof(float)));
    OK(cuMemcpyDtoH_v2(f->host_words, f->words, f->n * sizeof(unsigned)));
    return result;
}
