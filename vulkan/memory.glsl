// Memory by address (VK_KHR_buffer_device_address): no descriptors, and 64-bit offsets into buffers of any size.
// Included first by every shader.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#ifdef GDN_STORAGE_16
#extension GL_EXT_shader_16bit_storage : require
#endif
#define GDN_GLSL
#include "vulkan/push.h"

layout(push_constant) uniform Push { gdn_vulkan_push push; };

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word { uint x; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Int { int x; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Float { float x; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Long { int64_t x; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Pair { uint64_t x; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quad { vec4 x; };
#ifdef GDN_STORAGE_16
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Bits16 { uint16_t x; };
#endif

// The workgroup's number, for any shape of the grid.
uint item()
{
    return gl_WorkGroupID.y * push.grid_width + gl_WorkGroupID.x;
}

int map_at(uint64_t map, int64_t index, int absent)
{
    return map != 0 ? Int(map + 4 * index).x : absent;
}

// Reports a bad map value to the host. The caller skips the sequence or row.
void report(uint64_t bad, int word)
{
    Word(bad + 4 * word).x = 1;
}

#include "call/dialect_glsl.h"
#include "call/maps.h"

// False, and reported, if a parent is not an earlier token of the sequence.
bool is_tree(uint64_t parent, int first, int T, uint64_t bad)
{
    for (int t = 0; parent != 0 && t < T; t++)
        if (!gdn_parent_fits(map_at(parent, int64_t(first) + t, GDN_NONE), t)) {
            report(bad, GDN_BAD_PARENT);
            return false;
        }
    return true;
}

float from_f16(uint h)
{
    uint sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    precise float magnitude = float(fraction) * uintBitsToFloat(0x33800000u); // 2^-24; exact
    uint bits = exponent == 31u ? 0x7f800000u | fraction << 13
                : exponent != 0u ? (exponent + 112u) << 23 | fraction << 13
                                 : floatBitsToUint(magnitude);
    return uintBitsToFloat(sign | bits);
}

float from_bf16(uint b)
{
    return uintBitsToFloat(b << 16);
}

int element_bytes(int dtype)
{
    return dtype == GDN_F32 ? 4 : 2;
}

// One element of type F32, F16 or BF16.
float load_element(uint64_t at, int dtype)
{
#ifdef GDN_STORAGE_16
    if (dtype != GDN_F32) {
        uint h = uint(Bits16(at).x);
        return dtype == GDN_F16 ? from_f16(h) : from_bf16(h);
    }
#endif
    return Float(at).x;
}

#ifdef GDN_STORAGE_16
uint to_f16(float x)
{
    const uint b = floatBitsToUint(x), magnitude = b & 0x7fffffffu, sign = b >> 16 & 0x8000u;
    precise float lifted = uintBitsToFloat(magnitude) + 0.5; // where F16 is subnormal, this addition rounds
    const uint normal = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u) >> 13;
    const uint small = floatBitsToUint(lifted) - 0x3f000000u;
    return sign | (magnitude > 0x7f800000u    ? 0x7e00u
                   : magnitude >= 0x477ff000u ? 0x7c00u
                   : magnitude >= 0x38800000u ? normal
                                              : small);
}

uint to_bf16(float x)
{
    const uint b = floatBitsToUint(x);
    const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
    return nan ? b >> 16 | 0x40u : b + 0x7fffu + (b >> 16 & 1u) >> 16;
}
#endif

void store_element(uint64_t at, int dtype, float x)
{
#ifdef GDN_STORAGE_16
    if (dtype != GDN_F32) {
        Bits16(at).x = uint16_t(dtype == GDN_F16 ? to_f16(x) : to_bf16(x));
        return;
    }
#endif
    Float(at).x = x;
}
