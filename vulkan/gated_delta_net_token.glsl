// How a token's operands come to the registers of gated_delta_net: with AHEAD while the token before it is computed, so
// that no load is waited for at the head of the chain from state to state. Included by gated_delta_net.comp; step
// numbers are as there.

#ifdef GDN_GENERAL
#define next_q q
#define next_k k
#define next_decay decay
#define next_a a
#define next_v v
#define next_beta beta
#else // what was loaded and is not yet this token's
vec4  next_q[NB], next_k[NB], next_decay[NB];
float next_a, next_v, next_beta;
#endif

void next_token()
{
    q_at += p.q.token;
    k_at += p.k.token;
    v_at += p.v.token;
    g_at += p.g.token;
    beta_at += p.beta.token;
}

// 0: what a token brings, as it comes
void load_token()
{
    EACH_BLOCK(m) {
        next_k[m] = load_row(k_at, p.k_dtype, 32 * m + at.i0);
        next_q[m] = load_row(q_at, p.q_dtype, 32 * m + at.i0);
    }
    next_v = at.mine < at.columns ? load_typed(v_at, p.v_dtype) : 0.0;
    next_beta = load_typed(beta_at, p.beta_dtype);
    if (!CHANNEL) {
        next_a = load_typed(g_at, p.g_dtype);
    } else {
        EACH_BLOCK(m)
            next_decay[m] = load_row(g_at, p.g_dtype, 32 * m + at.i0);
    }
}

// 0: and it becomes the token that is computed; decay and a have g. AHEAD: the loads of the next one are issued here.
void take_token(int t)
{
#ifdef GDN_GENERAL
    load_token();
#else
    if (!AHEAD)
        load_token();
    EACH_BLOCK(m) {
        k[m] = next_k[m];
        q[m] = next_q[m];
        if (CHANNEL)
            decay[m] = next_decay[m];
    }
    v = next_v;
    beta = next_beta;
    if (!CHANNEL)
        a = next_a;
#endif
    next_token();
    if (AHEAD && t + 1 < tokens_end())
        load_token();
}
