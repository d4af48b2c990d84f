// Memory by address (VK_KHR_buffer_device_address): no descriptors, and 64-bit offsets into buffers of any size.
// Included first by every shader, with the arithmetic.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#ifdef GDN_STORAGE_16
#extension GL_EXT_shader_16bit_storage : require
#endif
#define GDN_GLSL
#include "vulkan/push.h"
#include "vulkan/arithmetic.glsl"
#include "numerics/prepare.h"
#include "gpu/convert16.h"

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
    if (parent == 0 || gdn_bad_parent(parent, first, T, 0, 1) == T)
        return true;
    report(bad, GDN_BAD_PARENT);
    return false;
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
