// Runs the device's arithmetic (fma, +, * and a few others) on hard operands. The host compares the results with its
// own bits (vulkan/probe.c). Built twice, as all shaders: with the device's fma, and with the software fma.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "gpu/probe_call.h"

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Params { gdn_gpu_probe p; };

void main()
{
    Params params = Params(push.params);
    const uint i = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (i >= params.p.n)
        return;
    const uint64_t in_at = params.p.operands + 12 * uint64_t(i);
    const uint64_t out_at = params.p.results + 4 * GDN_GPU_PROBE_RESULTS * uint64_t(i);
    const float a = Float(in_at).x, b = Float(in_at + 4).x, c = Float(in_at + 8).x;
    precise float sum = b + c;
    precise float product = a * b;
    precise float twice = product + c; // must not become an fma
    Float(out_at).x = fma1(a, b, c);
    Float(out_at + 4).x = sum;
    Float(out_at + 8).x = product;
    Float(out_at + 12).x = twice;
    Float(out_at + 16).x = gdn_expf(c);
    Float(out_at + 20).x = gdn_silu(c);
    Float(out_at + 24).x = gdn_reciprocal(c);
    Word(out_at + 28).x = uint((a < b ? 1 : 0) | (a == b ? 2 : 0) | (gdn_is_nan(a) ? 4 : 0));
}
