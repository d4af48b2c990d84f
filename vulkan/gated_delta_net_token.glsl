// Loads a token's operands in gated_delta_net. With AHEAD they are prefetched while the token before is computed, so
// that the dependency chain from state to state does not wait for loads. gated_delta_net.comp includes it; step numbers
// are as there.

void next_token()
{
    q_at += p.q.token;
    k_at += p.k.token;
    v_at += p.v.token;
    g_at += p.g.token;
    beta_at += p.beta.token;
}

// 0: load a token's operands; decay and a receive g
void load_token()
{
    EACH_BLOCK(m) {
        k[m] = load_row(k_at, p.k_dtype, 32 * m + at.i0);
        q[m] = load_row(q_at, p.q_dtype, 32 * m + at.i0);
    }
    v = at.mine < at.values ? load_typed(v_at, p.v_dtype) : 0.0;
    beta = load_typed(beta_at, p.beta_dtype);
    if (!CHANNEL) {
        a = load_typed(g_at, p.g_dtype);
    } else {
        EACH_BLOCK(m)
            decay[m] = load_row(g_at, p.g_dtype, 32 * m + at.i0);
    }
}

#ifndef GDN_GENERAL
// AHEAD: the bits of the next token's operands, converted where they are used. With NARROW, q and k have two elements
// in a word, so they need half of the registers. An F32 operand has no room there, and is loaded when its token is
// computed.
uvec2 next_q[NB], next_k[NB];
uvec2 more_q[NB], more_k[NB]; // the other two elements of four, unless NARROW
uvec4 next_decay[NB];
uint  next_a, next_v, next_beta;

bool comes_ahead(int dtype)
{
    return !NARROW || dtype != GDN_GPU_F32;
}

uint load_bits(uint64_t at, int dtype)
{
#ifdef GDN_STORAGE_16
    if (NARROW && dtype != GDN_GPU_F32)
        return uint(Bits16(at).x);
#endif
    return Word(at).x;
}
float number_of(uint bits, int dtype)
{
    return !NARROW || dtype == GDN_GPU_F32 ? uintBitsToFloat(bits)
           : dtype == GDN_GPU_F16          ? from_f16(bits)
                                           : from_bf16(bits);
}

// Elements i .. i + 3 of a row.
uvec4 load_row_bits(uint64_t row, int dtype, int i)
{
    if (!NARROW || dtype == GDN_GPU_F32)
        return floatBitsToUint(load_quad(row + 4 * i));
    row += 2 * i;
    return uvec4(load_bits(row, dtype), load_bits(row + 2, dtype), load_bits(row + 4, dtype),
                 load_bits(row + 6, dtype));
}
vec4 numbers_of(uvec4 x, int dtype)
{
    return vec4(number_of(x.x, dtype), number_of(x.y, dtype), number_of(x.z, dtype), number_of(x.w, dtype));
}

uvec2 first_words(uvec4 x)
{
    return NARROW ? x.xz | x.yw << 16 : x.xy;
}
uvec4 from_words(uvec2 first, uvec2 more)
{
    return NARROW ? uvec4(first & 0xffffu, first >> 16).xzyw : uvec4(first, more);
}

void load_ahead()
{
    EACH_BLOCK(m) {
        const int i = 32 * m + at.i0;
        if (comes_ahead(p.k_dtype)) {
            const uvec4 x = load_row_bits(k_at, p.k_dtype, i);
            next_k[m] = first_words(x);
            more_k[m] = x.zw;
        }
        if (comes_ahead(p.q_dtype)) {
            const uvec4 x = load_row_bits(q_at, p.q_dtype, i);
            next_q[m] = first_words(x);
            more_q[m] = x.zw;
        }
        if (CHANNEL)
            next_decay[m] = load_row_bits(g_at, p.g_dtype, i);
    }
    next_v = at.mine < at.values ? load_bits(v_at, p.v_dtype) : 0u;
    next_beta = load_bits(beta_at, p.beta_dtype);
    if (!CHANNEL)
        next_a = load_bits(g_at, p.g_dtype);
}

void take_ahead()
{
    EACH_BLOCK(m) {
        const int i = 32 * m + at.i0;
        if (comes_ahead(p.k_dtype))
            k[m] = numbers_of(from_words(next_k[m], more_k[m]), p.k_dtype);
        else
            k[m] = load_quad(k_at + 4 * i);
        if (comes_ahead(p.q_dtype))
            q[m] = numbers_of(from_words(next_q[m], more_q[m]), p.q_dtype);
        else
            q[m] = load_quad(q_at + 4 * i);
        if (CHANNEL)
            decay[m] = numbers_of(next_decay[m], p.g_dtype);
    }
    v = number_of(next_v, p.v_dtype);
    beta = number_of(next_beta, p.beta_dtype);
    if (!CHANNEL)
        a = number_of(next_a, p.g_dtype);
}
#endif

// 0: make token t current. AHEAD: issues the loads of the next token.
void take_token(int t)
{
#ifndef GDN_GENERAL
    if (AHEAD) {
        take_ahead();
        next_token();
        if (t + 1 < at.T)
            load_ahead();
        return;
    }
#endif
    load_token();
    next_token();
}
