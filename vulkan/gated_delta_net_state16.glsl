// 16-bit states in gated_delta_net: load, convert to F32 in registers, round, store. gated_delta_net.comp includes it;
// step numbers are as there.
//
// Drivers take long to make a pipeline. So one pipeline serves all calls, and tests at run time what other variants
// have as constants. GENERAL moves elements one by one. Otherwise value channels come in aligned fours of 8 bytes.

bool rounds; // the state is rounded after this token
int  depth;  // of trees: the tokens on this token's branch, with itself

// 7: round to nearest even in the 16-bit type. `kept` masks the bits that stay. The types differ in their subnormals,
// their largest number, and how much of a NaN stays.
vec4 rounded(vec4 x)
{
    if (!STATE16 || !rounds)
        return x;
    const bool f16 = p.state.dtype == GDN_F16;
    const uint last = f16 ? 13u : 16u, kept = f16 ? 0xffffe000u : 0xffff0000u, least = f16 ? 0x38800000u : 0u,
               beyond = f16 ? 0x477ff000u : 0x7f800000u, payload = f16 ? 0u : 0x7fff0000u;
    const uvec4 b = floatBitsToUint(x), magnitude = b & 0x7fffffffu;
    precise vec4 lifted = uintBitsToFloat(magnitude) + 0.5; // where F16 is subnormal, this addition rounds
    precise vec4 small = lifted - 0.5;
    uvec4 nearest = magnitude + ~kept / 2 + (magnitude >> last & 1u) & kept;
    nearest = mix(nearest, floatBitsToUint(small), lessThan(magnitude, uvec4(least)));
    nearest = mix(nearest, uvec4(0x7f800000u), greaterThanEqual(magnitude, uvec4(beyond)));
    nearest = mix(nearest, magnitude & payload | 0x7fc00000u, greaterThan(magnitude, uvec4(0x7f800000u)));
    return uintBitsToFloat(b & 0x80000000u | nearest);
}

// Convert four elements from and to their bits. Stored values have been rounded before.
vec4 widened(uvec4 x)
{
    return p.state.dtype == GDN_F16 ? vec4(from_f16(x.x), from_f16(x.y), from_f16(x.z), from_f16(x.w))
                                        : uintBitsToFloat(x << 16);
}
uvec4 narrowed(vec4 x)
{
#ifdef GDN_STORAGE_16
    if (p.state.dtype == GDN_F16)
        return uvec4(to_f16(x.x), to_f16(x.y), to_f16(x.z), to_f16(x.w));
#endif
    return floatBitsToUint(x) >> 16;
}
uvec4 load_eight_bytes(uint64_t at)
{
    const uvec2 x = unpackUint2x32(Pair(at).x);
    return uvec4(x.x & 0xffffu, x.x >> 16, x.y & 0xffffu, x.y >> 16);
}
void store_eight_bytes(uint64_t at, uvec4 x)
{
    Pair(at).x = packUint2x32(uvec2(x.x | x.y << 16, x.z | x.w << 16));
}

// Byte strides of a key and of a value channel.
int64_t key_stride(gdn_pool_view pool)
{
    return p.state_layout == GDN_STATE_KV ? pool.stride_line : 2;
}
int64_t value_stride(gdn_pool_view pool)
{
    return p.state_layout == GDN_STATE_KV ? 2 : pool.stride_line;
}

// 1: load state, of an entry of a pool, or zeros
void load_state16(gdn_pool_view pool, int from, int n_slots)
{
    const int values = from < 0 ? 0 : at.values;
    const uint64_t entry = state_at(pool, from, n_slots) + at.j * value_stride(pool);
    EACH_BLOCK(m) {
        const int i = 32 * m + at.i0;
        const uint64_t keys = entry + i * key_stride(pool);
        uvec4 bits[4] = { uvec4(0), uvec4(0), uvec4(0), uvec4(0) };
#ifdef GDN_GENERAL
#ifdef GDN_STORAGE_16
        bvec4 there = present(i);
        [[unroll]] for (int c = 0; c < 4; c++)
            [[unroll]] for (int e = 0; e < 4; e++)
                if (c < values && there[e])
                    bits[c][e] = uint(Bits16(keys + e * key_stride(pool) + c * value_stride(pool)).x);
#endif
#else
        if (values != 0 && p.state_layout != GDN_STATE_KV) {
            [[unroll]] for (int c = 0; c < 4; c++)
                bits[c] = load_eight_bytes(keys + c * pool.stride_line);
        } else if (values != 0) {
            [[unroll]] for (int e = 0; e < 4; e++) {
                const uvec4 x = load_eight_bytes(keys + e * pool.stride_line);
                [[unroll]] for (int c = 0; c < 4; c++)
                    bits[c][e] = x[c];
            }
        }
#endif
        [[unroll]] for (int c = 0; c < 4; c++)
            S[m][c] = widened(bits[c]);
    }
}

// 7, and 1: commit
void store_state16(gdn_pool_view pool, uint64_t entry)
{
    EACH_BLOCK(m) {
        const int i = 32 * m + at.i0;
        const uint64_t keys = entry + at.j * value_stride(pool) + i * key_stride(pool);
        uvec4 bits[4];
        [[unroll]] for (int c = 0; c < 4; c++)
            bits[c] = narrowed(S[m][c]);
#ifdef GDN_GENERAL
#ifdef GDN_STORAGE_16
        bvec4 there = present(i);
        [[unroll]] for (int c = 0; c < 4; c++)
            [[unroll]] for (int e = 0; e < 4; e++)
                if (c < at.values && there[e])
                    Bits16(keys + e * key_stride(pool) + c * value_stride(pool)).x = uint16_t(bits[c][e]);
#endif
#else
        if (at.values != 0 && p.state_layout != GDN_STATE_KV) {
            [[unroll]] for (int c = 0; c < 4; c++)
                store_eight_bytes(keys + c * pool.stride_line, bits[c]);
        } else if (at.values != 0) {
            [[unroll]] for (int e = 0; e < 4; e++)
                store_eight_bytes(keys + e * pool.stride_line, uvec4(bits[0][e], bits[1][e], bits[2][e], bits[3][e]));
        }
#endif
    }
}
