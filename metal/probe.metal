// Runs the device's arithmetic (fma, +, * and a few others) on hard operands. The host compares the results with its
// own bits (gpu/probe.c).
#include "metal/kernel.h"
#include "gpu/probe_call.h"

GDN_KERNEL(gdn_metal_probe_arithmetic, constant gdn_gpu_probe &p [[buffer(0)]],
           device const uchar *operands [[buffer(1)]], device uchar *results [[buffer(2)]], GDN_THREAD)
{
    const uint i = group.x * GDN_METAL_PROBE_THREADS + me;
    if (i >= p.n) return;
    device const uchar *in = operands + 12 * i;
    device uchar *out = results + 4 * GDN_GPU_PROBE_RESULTS * i;
    const float a = load_float(in), b = load_float(in + 4), c = load_float(in + 8);
    const float product = a * b;
    store_float(out, fma(a, b, c));
    store_float(out + 4, b + c);
    store_float(out + 8, product);
    store_float(out + 12, product + c); // must not become an fma
    store_float(out + 16, gdn_expf(c));
    store_float(out + 20, gdn_silu(c));
    store_float(out + 24, gdn_reciprocal(c));
    *(device uint *)(out + 28) = (a < b ? 1u : 0u) | (a == b ? 2u : 0u) | (a != a ? 4u : 0u);
}
