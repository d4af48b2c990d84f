/* Parts of two calls' results that have to be the same, as families compare them. */
#include "trial.h"

int delta_same_tokens(check_trial *trial, const check_call *a, int s, int t, const check_call *b, int s2, int t2, int n,
                      const char *what)
{
    for (int i = 0; i < n; i++)
        for (int h = 0; h < a->delta.n_heads_v; h++)
            if (!check_trial_same(trial, delta_out(&a->c, &a->delta, a->result.image, s, t + i, h),
                                  delta_out(&b->c, &b->delta, b->result.image, s2, t2 + i, h), a->delta.dim_v,
                                  "%s: out of sequence %d, token %d, head %d", what, s, t + i, h))
                return 0;
    return 1;
}

static const char *pool_of(const delta_spec *spec) { return spec->where == DELTA_APART ? "state_out" : "state"; }

int delta_same_state(check_trial *trial, const check_call *a, int entry, const check_call *b, int entry2,
                     const char *what)
{
    for (int h = 0; delta_digits_bytes(&a->delta) && h < a->delta.n_heads_v; h++)
        if (!check_trial_same_of(trial, a->delta.dtype_state,
                                 delta_digits(&a->c, &a->delta, pool_of(&a->delta), a->result.image, entry, h),
                                 delta_digits(&b->c, &b->delta, pool_of(&b->delta), b->result.image, entry2, h),
                                 delta_digits_bytes(&a->delta), "%s: state in entry %d against entry %d, head %d", what,
                                 entry, entry2, h))
            return 0;
    for (int h = 0; !delta_digits_bytes(&a->delta) && h < a->delta.n_heads_v; h++)
        for (int j = 0; j < a->delta.dim_v; j++)
            for (int i = 0; i < a->delta.dim_k; i++)
                if (!check_trial_same_of(
                        trial, a->delta.dtype_state,
                        delta_state(&a->c, &a->delta, pool_of(&a->delta), a->result.image, entry, h, i, j),
                        delta_state(&b->c, &b->delta, pool_of(&b->delta), b->result.image, entry2, h, i, j), 1,
                        "%s: state in entry %d against entry %d, head %d, key %d, value %d", what, entry, entry2, h, i,
                        j))
                    return 0;
    return 1;
}

int conv_same_tokens(check_trial *trial, const check_call *a, int s, int t, const check_call *b, int s2, int t2, int n,
                     const char *what)
{
    for (int i = 0; i < n; i++)
        if (!check_trial_same_of(trial, a->conv.dtype_out,
                                 conv_token(&a->c, &a->conv, "out", a->result.image, s, t + i),
                                 conv_token(&b->c, &b->conv, "out", b->result.image, s2, t2 + i), a->conv.n_channels,
                                 "%s: out of sequence %d, token %d", what, s, t + i))
            return 0;
    return 1;
}

static const char *history_of(const conv_spec *spec) { return spec->where == CONV_APART ? "history_out" : "history"; }

int conv_same_slot(check_trial *trial, const check_call *a, int row, int64_t position, const check_call *b, int row2,
                   int64_t position2, const char *what)
{
    return check_trial_same_of(
        trial, a->conv.dtype_history, conv_slot(&a->c, &a->conv, history_of(&a->conv), a->result.image, row, position),
        conv_slot(&b->c, &b->conv, history_of(&b->conv), b->result.image, row2, position2), a->conv.n_channels,
        "%s: history in row %d, position %lld", what, row, (long long)position);
}
