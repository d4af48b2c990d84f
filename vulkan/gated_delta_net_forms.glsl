// Normalisation, decays and the delta's factor in gated_delta_net, computed from a token's loaded q, k, g and beta; and
// the constants of a head's raw gate.
// Included by gated_delta_net.comp; step numbers are as there.

#define has_norm() (FORMS && p.qk_norm != 0)

// 0: normalise q and k. Four of the eight lanes take q's sum through the tree, the others k's. Zeros beyond the head do
// not change a sum of squares. They may become NaN (0 * inf), but no sum contains them.
void normalise()
{
    vec4 q_sum = vec4(0), k_sum = vec4(0);
    EACH_BLOCK(m) {
        q_sum = fma4(q[m], q[m], q_sum);
        k_sum = fma4(k[m], k[m], k_sum);
    }
    const bool upper = (at.l & 4) != 0;
    precise vec4 x = (upper ? k_sum : q_sum) + exchange(upper ? q_sum : k_sum, 4, 2); // h = 16
    const float factor = gdn_norm_factor(fold_rest(x, x, 0, 1), p.norm_add, p.norm_most),
                other = exchange(factor, 4, 2);
    const float q_factor = upper ? other : factor, k_factor = upper ? factor : other;
    EACH_BLOCK(m) {
        precise vec4 q_ready = q[m] * q_factor, k_ready = k[m] * k_factor;
        q[m] = q_ready;
        k[m] = k_ready;
    }
}

// 0: load the constants of a head's raw gate. Not called without FORMS: GDN_G_LOG uses neither rate nor bias.
void load_gate()
{
    const bool raw = (p.has & GDN_HAS_SSM_A) != 0 && p.gate_input >= GDN_G_RAW,
               biased = (p.has & GDN_HAS_BIAS) != 0;
    const uint64_t bias_at = p.dt_bias.data + at.h * p.dt_bias.stride_head;
    const float A = raw ? load_typed(p.ssm_a.data + at.h * p.ssm_a.stride_head, p.ssm_a.dtype) : 0.0;
    rate = gdn_gate_rate(p.gate_input, A);
    if (!CHANNEL) {
        bias = biased ? load_typed(bias_at, p.dt_bias.dtype) : 0.0;
    } else {
        EACH_BLOCK(m)
        key_bias[m] = biased ? load_elements(bias_at, NARROW ? p.dt_bias.dtype : GDN_F32, 32 * m + at.i0) : vec4(0);
    }
}

// 0: beta as a factor of the delta
float delta_factor(float x)
{
    precise float factor = p.beta_factor * (p.beta_input == GDN_BETA_LOGIT ? gdn_sigmoid(x) : x);
    return factor;
}

// 2: decay, from elements of g
float decay_of(float x, float bias)
{
    return gdn_decay(FORMS ? p.gate_input : GDN_G_LOG, x, rate, bias, p.lower_bound);
}

vec4 decays_of(vec4 g, vec4 b)
{
    return vec4(decay_of(g.x, b.x), decay_of(g.y, b.y), decay_of(g.z, b.z), decay_of(g.w, b.w));
}

void make_decays()
{
    if (!CHANNEL) {
        a = decay_of(a, bias);
    } else {
        EACH_BLOCK(m)
            decay[m] = decays_of(decay[m], key_bias[m]);
    }
}
