/* Tensor cores multiply the digits of the chunked form as s8 or as f16 (cuda/chunked.cuh). This file finds out which of
 * them give exact sums on a device, and chooses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/status.h"
#include "cuda/chunked.h"
#include "cuda/device.h"

enum { SUMS = GDN_CUDA_DIGITS_PRODUCTS * 16 * 8 };

static int32_t sum_of(int32_t product, int32_t row, int32_t column)
{
    int32_t sum = 0;
    for (int32_t k = 0; k < GDN_CUDA_DIGITS_PROBED; k++)
        sum += gdn_cuda_probe_digit(product, 0, row, k) * gdn_cuda_probe_digit(product, 1, column, k);
    return sum;
}

static int is_exact(gdn_cuda_digits as, const uint32_t *sums)
{
    for (int32_t i = 0; i < SUMS; i++) {
        const int32_t want = sum_of(i / 128, i / 8 % 16, i % 8);
        const float sum = gdn_from_bits(sums[i]);
        if (as == GDN_CUDA_DIGITS_S8 ? (int32_t)sums[i] != want : !(sum == (float)want)) return 0;
    }
    return 1;
}

/* Runs the probe of both. The results start as what no kernel writes. */
static gdn_status probe(gdn_cuda_device *dev, const gdn_span *memory, uint32_t *sums)
{
    const uint32_t blocks[3] = { GDN_CUDA_DIGITS_PRODUCTS, 1, 1 };
    const uint64_t bytes = 4 * SUMS;
    gdn_status status;
    memset(sums, 0xff, 2 * bytes);
    if ((status = gdn_cuda_write(dev, memory, 0, sums, 2 * bytes))) return status;
    for (int as = 0; as < 2; as++) {
        const gdn_cuda_digits_probe params = { .results = (uint64_t)(uintptr_t)memory->data + (uint64_t)as * bytes };
        if ((status =
                 gdn_cuda_launch(dev, as ? GDN_CUDA_digits_f16 : GDN_CUDA_digits_s8, dev->stream, blocks, 32, &params)))
            return status;
    }
    return gdn_cuda_read(dev, memory, 0, sums, 2 * bytes);
}

static gdn_status probe_both(gdn_cuda_device *dev, int exact[2])
{
    gdn_gpu_buffer buffer = { 0 };
    uint32_t *sums = malloc(2 * 4 * SUMS);
    if (!sums) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the probe of digits of %d bytes", 2 * 4 * SUMS);
    gdn_status status = gdn_cuda_allocate(dev, 2 * 4 * SUMS, &buffer);
    if (!status) {
        const gdn_span memory = { .data = buffer.data, .bytes = 2 * 4 * SUMS };
        status = probe(dev, &memory, sums);
        if (!status) (void)dev->cu->MemFree((CUdeviceptr)(uintptr_t)buffer.data);
        else if (status != GDN_TIMEOUT) (void)gdn_cuda_release(dev, &buffer); /* else it is still running */
    }
    for (int as = 0; !status && as < 2; as++) exact[as] = is_exact((gdn_cuda_digits)as, sums + as * SUMS);
    free(sums);
    return status;
}

/* s8 is the default. Data-centre devices from 10.3 on (B300) have little of it: 0.15 * 10^15 operations a second, and
 * 2.25 of 16 bits, by NVIDIA's tables. */
static gdn_cuda_digits usual(const gdn_cuda_traits *t)
{
    return t->major == 10 && t->minor >= 3 ? GDN_CUDA_DIGITS_F16 : GDN_CUDA_DIGITS_S8;
}

gdn_status gdn_cuda_digits_open(gdn_cuda_device *dev)
{
    static const char *const names[] = { "s8", "f16" };
    const char *name = gdn_environment("GDN_CUDA_DIGITS");
    gdn_cuda_digits first = usual(&dev->traits),
                    second = first == GDN_CUDA_DIGITS_S8 ? GDN_CUDA_DIGITS_F16 : GDN_CUDA_DIGITS_S8;
    int exact[2] = { 0, 0 };
    if (name) {
        if (strcmp(name, "s8") && strcmp(name, "f16"))
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "GDN_CUDA_DIGITS in the environment is \"%.64s\"; s8 and f16 are allowed", name);
        first = second = strcmp(name, "s8") ? GDN_CUDA_DIGITS_F16 : GDN_CUDA_DIGITS_S8;
    }
    const gdn_status status = probe_both(dev, exact);
    if (status) return status;
    dev->digits = exact[first] ? first : exact[second] ? second : GDN_CUDA_DIGITS_NONE;
    for (int as = 0; as < 2; as++)
        if (!exact[as] && dev->gpu.ctx)
            gdn_context_log(dev->gpu.ctx, GDN_LOG_WARNING, "cuda: mma.sync of %s gives wrong sums of digits; not used",
                            names[as]);
    return GDN_OK;
}
