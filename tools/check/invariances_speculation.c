/* Speculative decoding: a layer of convolution and gated delta rule verifies drafts of several tokens,
 * accepts some of them, and rolls back by choosing another position; nothing is ever copied or restored.
 * Whatever was accepted must be what a decode that never saw a draft computes, and so must be the state and
 * the history that are left. */
#include <string.h>

#include "families.h"
#include "gated_delta_net.h"
#include "ssm_conv.h"
#include "trial.h"

enum { MAX_POSITION = 40, MAX_CHANNELS = 400 };

/* One layer with its state: the results of the last step hold the pools. */
typedef struct layer {
    delta_spec   delta;
    conv_spec    conv;
    check_case   delta_case, conv_case;
    check_result delta_result, conv_result;
    int          position[DELTA_MAX_SEQS];
    int          begun;
} layer;

static void end(layer *l)
{
    check_case_free(&l->delta_case);
    check_case_free(&l->conv_case);
    check_result_free(&l->delta_result);
    check_result_free(&l->conv_result);
}

/* The convolution's pools as they were left, and the same for the states. */
static void carry_history(const layer *before, check_case *c, const conv_spec *spec)
{
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_initial(c, image);
    for (int row = 0; row < spec->n_rows; row++)
        for (int column = 0; column < spec->n_columns; column++)
            memcpy(conv_column(c, spec, "history", image, row, column),
                   conv_column(&before->conv_case, &before->conv, "history", before->conv_result.image, row, column),
                   4 * (size_t)spec->n_channels);
}

/* q, k and v of each token: three parts of its row in the convolution's result. */
static void feed(const layer *l, check_case *c, const delta_spec *spec)
{
    static const char *const names[] = { "q", "k", "v" };
    const int heads[] = { spec->n_heads_k, spec->n_heads_k, spec->n_heads_v }, dims[] = { spec->dim_k, spec->dim_k, spec->dim_v };
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_initial(c, image);
    for (int s = 0; s < spec->n_seqs; s++)
        for (int t = 0; t < spec->seq[s].length; t++) {
            const unsigned char *from = conv_token(&l->conv_case, &l->conv, "out", l->conv_result.image, s, t);
            for (int i = 0; i < 3; i++)
                for (int h = 0; h < heads[i]; h++, from += 4 * dims[i])
                    memcpy(delta_token(c, spec, names[i], image, s, t, h), from, 4 * (size_t)dims[i]);
        }
}

/* One step: length[s] tokens of each sequence, of which the last rejected[s] are drafts that are wrong. */
static int step(check_trial *trial, layer *l, const int *length, const int *rejected, check_rng *rng, const char *what)
{
    check_case c;
    conv_spec conv = l->conv;
    delta_spec delta = l->delta;
    for (int s = 0; s < delta.n_seqs; s++) {
        conv.seq[s].length = delta.seq[s].length = length[s];
        conv.seq[s].rejected = delta.seq[s].rejected = rejected[s];
        conv.seq[s].position = delta.seq[s].first = l->position[s];
        delta_ring(&delta, s, s, l->position[s]);
    }
    check_case_begin(&c, &check_kernel_ssm_conv, &trial->setting);
    conv_build(&c, &conv, rng);
    if (l->begun)
        carry_history(l, &c, &conv);
    check_case_free(&l->conv_case);
    l->conv_case = c;
    l->conv = conv;
    if (!check_trial_run(trial, &l->conv_case, &l->conv_result, what))
        return 0;

    check_case_begin(&c, &check_kernel_gated_delta_net, &trial->setting);
    delta_build(&c, &delta, rng);
    for (int e = 0; l->begun && e < delta.n_rows * delta.n_slots; e++)
        delta_copy_slot(&l->delta_case, &l->delta, "state", l->delta_result.image, e, &c, &delta, e);
    feed(l, &c, &delta);
    check_case_free(&l->delta_case);
    l->delta_case = c;
    l->delta = delta;
    l->begun = 1;
    return check_trial_run(trial, &l->delta_case, &l->delta_result, what);
}

/* What is left of sequence s: the state and the columns of the history that the next token needs. */
static int same_rest(check_trial *trial, const layer *plain, const layer *draft, int s)
{
    const int p = plain->position[0], slots = draft->delta.n_slots;
    for (int h = 0; h < plain->delta.n_heads_v; h++)
        for (int j = 0; j < plain->delta.dim_v; j++)
            for (int i = 0; i < plain->delta.dim_k; i++)
                if (!check_trial_same(trial, delta_state(&plain->delta_case, &plain->delta, "state", plain->delta_result.image, 0, h, i, j),
                                      delta_state(&draft->delta_case, &draft->delta, "state", draft->delta_result.image,
                                                  s * slots + p % slots, h, i, j),
                                      1, "state of sequence %d at position %d, head %d, key %d, value %d", s, p, h, i, j))
                    return 0;
    for (int64_t q = p - 1; q >= 0 && q > p - plain->conv.width; q--)
        if (!check_trial_same(trial, conv_column(&plain->conv_case, &plain->conv, "history", plain->conv_result.image, 0, q),
                              conv_column(&draft->conv_case, &draft->conv, "history", draft->conv_result.image, s, q),
                              plain->conv.n_channels, "history of sequence %d, position %lld", s, (long long)q))
            return 0;
    return 1;
}

void check_speculation(check_trial *trial, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33 };
    layer draft = { 0 }, plain = { 0 };
    static float accepted[DELTA_MAX_SEQS][MAX_POSITION][MAX_CHANNELS]; /* outputs of the accepted tokens */
    const int n = check_between(rng, 1, 3), k = check_between(rng, 1, 5), dim_k = CHECK_PICK(rng, dims), dim_v = CHECK_PICK(rng, dims);
    const int heads_k = check_between(rng, 1, 2), heads_v = heads_k * check_between(rng, 1, 2), width = check_between(rng, 2, 5);
    int length[DELTA_MAX_SEQS], rejected[DELTA_MAX_SEQS];

    delta_defaults(&draft.delta, heads_k, heads_v, dim_k, dim_v);
    draft.delta.n_slots = draft.delta.n_slots_out = draft.delta.n_snapshots = k;
    draft.delta.gate = check_between(rng, 0, 1);
    draft.delta.layout = check_between(rng, 0, 1);
    draft.delta.map_start = draft.delta.map_src = draft.delta.map_dst = 1;
    draft.delta.seed = check_next(rng);
    draft.delta.values[DELTA_G] = CHECK_GATE_SLOW;
    conv_defaults(&draft.conv, 2 * heads_k * dim_k + heads_v * dim_v, width);
    draft.conv.silu = 1;
    draft.conv.n_columns = width - 1 + k - 1;
    draft.conv.map_start = draft.conv.map_position = 1;
    draft.conv.seed = draft.delta.seed;
    delta_batch(&draft.delta, n, 0);
    conv_batch(&draft.conv, n, 0);
    draft.delta.strided = draft.conv.strided = check_between(rng, 0, 1);

    for (int round = check_between(rng, 2, 7); round > 0; round--) {
        for (int s = 0; s < n; s++) {
            length[s] = check_one_in(rng, 8) ? 0 : check_between(rng, 1, k);
            rejected[s] = length[s] ? check_between(rng, 0, length[s] - 1) : 0;
        }
        if (!step(trial, &draft, length, rejected, rng, "a verification"))
            goto done;
        for (int s = 0; s < n; s++)
            for (int t = 0; t < length[s] - rejected[s]; t++, draft.position[s]++)
                for (int h = 0; h < heads_v; h++)
                    memcpy(&accepted[s][draft.position[s]][h * dim_v], delta_out(&draft.delta_case, &draft.delta, draft.delta_result.image, s, t, h),
                           4 * (size_t)dim_v);
    }
    for (int s = 0; s < n; s++) {
        memset(&plain, 0, sizeof plain);
        plain.delta = draft.delta;
        plain.conv = draft.conv;
        plain.delta.n_slots = plain.delta.n_slots_out = plain.delta.n_snapshots = 1;
        plain.delta.n_seqs = plain.conv.n_seqs = plain.delta.n_rows = plain.delta.n_rows_out = plain.conv.n_rows = plain.conv.n_rows_out = 1;
        plain.conv.n_columns = width - 1;
        plain.delta.seq[0].key = draft.delta.seq[s].key;
        plain.conv.seq[0].key = draft.conv.seq[s].key;
        while (plain.position[0] < draft.position[s]) {
            static const int one[] = { 1 }, none[] = { 0 };
            if (!step(trial, &plain, one, none, rng, "a plain decode"))
                goto done;
            for (int h = 0; h < heads_v; h++)
                if (!check_trial_same(trial, delta_out(&plain.delta_case, &plain.delta, plain.delta_result.image, 0, 0, h),
                                      &accepted[s][plain.position[0]][h * dim_v], dim_v,
                                      "out of sequence %d at position %d, head %d", s, plain.position[0], h))
                    goto done;
            plain.position[0]++;
        }
        if (draft.position[s] && !same_rest(trial, &plain, &draft, s))
            goto done;
        end(&plain);
        memset(&plain, 0, sizeof plain);
    }
done:
    end(&draft);
    end(&plain);
}
