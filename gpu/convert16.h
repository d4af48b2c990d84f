// Conversions of element types on the bits, for the GPU kernels, which define GDN_INLINE. They are exact, or round to
// nearest, ties to even, and keep subnormals. Devices may flush subnormals of binary32, so binary16's do not pass
// through them. CUDA's do not flush, so cuda/kernel.cuh has a shorter from_f16(). GDN_CONVERT16_BY_DEVICE: the device
// has instructions that round this way.
#ifndef GDN_GPU_CONVERT16_H
#define GDN_GPU_CONVERT16_H

GDN_INLINE float from_bf16(uint32_t b) { return gdn_from_bits(b << 16); }

#ifndef GDN_OWN_FROM_F16
GDN_INLINE float from_f16(uint32_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    const uint32_t small = gdn_bits(gdn_mul(float(fraction), 5.9604645e-08f)); // 2^-24; exact
    const uint32_t normal = (exponent + 112u) << 23 | fraction << 13, special = 0x7f800000u | fraction << 13;
    return gdn_from_bits(sign | (exponent == 31u ? special : exponent != 0u ? normal : small));
}
#endif

#ifndef GDN_CONVERT16_BY_DEVICE
GDN_INLINE uint32_t to_bf16(float x)
{
    const uint32_t b = gdn_bits(x);
    return (b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 0x40u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
}

GDN_INLINE uint32_t to_f16(float x)
{
    const uint32_t b = gdn_bits(x), magnitude = b & 0x7fffffffu, sign = b >> 16 & 0x8000u;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const uint32_t small = gdn_bits(gdn_add(gdn_from_bits(magnitude), 0.5f)) - 0x3f000000u; // the addition rounds
    return sign | (magnitude > 0x7f800000u    ? 0x7e00u
                   : magnitude >= 0x477ff000u ? 0x7c00u
                   : magnitude >= 0x38800000u ? normal
                                              : small);
}

// from_f16(to_f16(x)) and from_bf16(to_bf16(x)), in fewer steps: the nearest number in 16 bits.
GDN_INLINE float nearest_f16(float x)
{
    const uint32_t b = gdn_bits(x), magnitude = b & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & 0xffffe000u;
    const uint32_t small = gdn_bits(gdn_sub(gdn_add(gdn_from_bits(magnitude), 0.5f), 0.5f)); // the addition rounds
    return gdn_from_bits((b & 0x80000000u) | (magnitude > 0x7f800000u    ? 0x7fc00000u
                                              : magnitude >= 0x477ff000u ? 0x7f800000u
                                              : magnitude >= 0x38800000u ? normal
                                                                         : small));
}

GDN_INLINE float nearest_bf16(float x) { return from_bf16(to_bf16(x)); }
GDN_INLINE uint32_t to_f16_pair(float low, float high) { return to_f16(low) | to_f16(high) << 16; }
GDN_INLINE uint32_t to_bf16_pair(float low, float high) { return to_bf16(low) | to_bf16(high) << 16; }
#endif

GDN_INLINE int element_bytes(int dtype) { return dtype == GDN_F32 ? 4 : 2; }

#endif
