/* Speculative decoding with a layer of convolution and gated delta rule. It verifies drafts of several tokens, accepts
 * some, and rolls back by passing a smaller position. Nothing is copied or restored. Accepted outputs, the last state
 * and the history must be those of decoding without drafts. */
#include <string.h>

#include "trial.h"

enum { MAX_POSITION = 40, MAX_CHANNELS = 400 };

/* One layer with its state: the results of the last step hold the pools. */
typedef struct layer {
    check_call conv, net;
    int position[DELTA_MAX_SEQS];
    int begun;
} layer;

static void end(layer *l)
{
    check_call_end(&l->net);
    check_call_end(&l->conv);
}

/* The convolution's pools as they were left, and the same for the states. */
static void carry_history(const layer *before, check_case *c, const conv_spec *spec)
{
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_initial(c, image);
    for (int row = 0; row < spec->n_rows; row++)
        for (int slot = 0; slot < spec->n_slots; slot++)
            memcpy(conv_slot(c, spec, "history", image, row, slot),
                   conv_slot(&before->conv.c, &before->conv.conv, "history", before->conv.result.image, row, slot),
                   4 * (size_t)spec->n_channels);
}

/* q, k and v of each token: three parts of its row in the convolution's result. */
static void feed(const layer *l, check_case *c, const delta_spec *spec)
{
    static const char *const names[] = { "q", "k", "v" };
    const int heads[] = { spec->n_heads_k, spec->n_heads_k, spec->n_heads_v },
              dims[] = { spec->dim_k, spec->dim_k, spec->dim_v };
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_initial(c, image);
    for (int s = 0; s < spec->n_seqs; s++)
        for (int t = 0; t < spec->seq[s].length; t++) {
            const unsigned char *from = conv_token(&l->conv.c, &l->conv.conv, "out", l->conv.result.image, s, t);
            for (int i = 0; i < 3; i++)
                for (int h = 0; h < heads[i]; h++, from += 4 * dims[i])
                    memcpy(delta_token(c, spec, names[i], image, s, t, h), from, 4 * (size_t)dims[i]);
        }
}

/* One step: length[s] tokens of each sequence, of which the last rejected[s] are drafts that are wrong. */
static int step(check_trial *trial, layer *l, const int *length, const int *rejected, check_rng *rng, const char *what)
{
    check_call conv = { .conv = l->conv.conv }, net = { .delta = l->net.delta };
    for (int s = 0; s < net.delta.n_seqs; s++) {
        conv.conv.seq[s].length = net.delta.seq[s].length = length[s];
        conv.conv.seq[s].rejected = net.delta.seq[s].rejected = rejected[s];
        conv.conv.seq[s].position = net.delta.seq[s].first = l->position[s];
        delta_ring(&net.delta, s, s, l->position[s]);
    }
    check_call_build(trial, &check_kernel_ssm_conv, &conv, rng);
    if (l->begun) carry_history(l, &conv.c, &conv.conv);
    check_call_end(&l->conv);
    l->conv = conv;
    if (!check_trial_run(trial, &l->conv.c, &l->conv.result, what)) return 0;

    check_call_build(trial, &check_kernel_gated_delta_net, &net, rng);
    for (int e = 0; l->begun && e < net.delta.n_rows * net.delta.n_slots; e++)
        delta_copy_slot(&l->net.c, &l->net.delta, "state", l->net.result.image, e, &net.c, &net.delta, e);
    feed(l, &net.c, &net.delta);
    check_call_end(&l->net);
    l->net = net;
    l->begun = 1;
    return check_trial_run(trial, &l->net.c, &l->net.result, what);
}

/* What is left of sequence s: the state and the entries of the history that the next token needs. */
static int same_rest(check_trial *trial, const layer *plain, const layer *draft, int s)
{
    const int p = plain->position[0], slots = draft->net.delta.n_slots;
    if (!delta_same_state(trial, &plain->net, 0, &draft->net, s * slots + p % slots, "what is left")) return 0;
    for (int64_t q = p - 1; q >= 0 && q > p - plain->conv.conv.width; q--)
        if (!conv_same_slot(trial, &plain->conv, 0, q, &draft->conv, s, q, "what is left")) return 0;
    return 1;
}

void check_speculation(check_trial *trial, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33 };
    layer draft = { 0 }, plain = { 0 };
    static float accepted[DELTA_MAX_SEQS][MAX_POSITION][MAX_CHANNELS]; /* outputs of the accepted tokens */
    const int n = check_between(rng, 1, 3), k = check_between(rng, 1, 5), dim_k = CHECK_PICK(rng, dims),
              dim_v = CHECK_PICK(rng, dims);
    const int heads_k = check_between(rng, 1, 2), heads_v = heads_k * check_between(rng, 1, 2),
              width = check_between(rng, 2, 5);
    int length[DELTA_MAX_SEQS], rejected[DELTA_MAX_SEQS];

    delta_spec *delta = &draft.net.delta;
    conv_spec *conv = &draft.conv.conv;
    *delta = DELTA(1, 1, .n_heads_k = heads_k, .n_heads_v = heads_v, .dim_k = dim_k, .dim_v = dim_v);
    delta->n_slots = delta->n_slots_out = delta->n_snapshots = k;
    delta->gate = check_between(rng, 0, 1);
    delta->layout = check_between(rng, 0, 1);
    delta->map_start = delta->map_src = delta->map_dst = 1;
    delta->seed = check_next(rng);
    delta->values[DELTA_G] = CHECK_GATE_SLOW;
    *conv = CONV(1, 1, .n_channels = 2 * heads_k * dim_k + heads_v * dim_v, .width = width);
    conv->call.args.activation = 1;
    conv->n_slots = width - 1 + k - 1;
    conv->map_start = conv->map_position = 1;
    conv->seed = delta->seed;
    delta_batch(delta, n, 0);
    conv_batch(conv, n, 0);
    delta->strided = conv->strided = check_between(rng, 0, 1);

    for (int round = check_between(rng, 2, 7); round > 0; round--) {
        for (int s = 0; s < n; s++) {
            length[s] = check_one_in(rng, 8) ? 0 : check_between(rng, 1, k);
            rejected[s] = length[s] ? check_between(rng, 0, length[s] - 1) : 0;
        }
        if (!step(trial, &draft, length, rejected, rng, "a verification")) goto done;
        for (int s = 0; s < n; s++)
            for (int t = 0; t < length[s] - rejected[s]; t++, draft.position[s]++)
                for (int h = 0; h < heads_v; h++)
                    memcpy(&accepted[s][draft.position[s]][h * dim_v],
                           delta_out(&draft.net.c, &draft.net.delta, draft.net.result.image, s, t, h),
                           4 * (size_t)dim_v);
    }
    for (int s = 0; s < n; s++) {
        memset(&plain, 0, sizeof plain);
        plain.net.delta = *delta;
        plain.conv.conv = *conv;
        plain.net.delta.n_slots = plain.net.delta.n_slots_out = plain.net.delta.n_snapshots = 1;
        plain.net.delta.n_seqs = plain.net.delta.n_rows = plain.net.delta.n_rows_out = 1;
        plain.conv.conv.n_seqs = plain.conv.conv.n_rows = plain.conv.conv.n_rows_out = 1;
        plain.conv.conv.n_slots = width - 1;
        plain.net.delta.seq[0].key = delta->seq[s].key;
        plain.conv.conv.seq[0].key = conv->seq[s].key;
        while (plain.position[0] < draft.position[s]) {
            static const int one[] = { 1 }, none[] = { 0 };
            if (!step(trial, &plain, one, none, rng, "a plain decode")) goto done;
            for (int h = 0; h < heads_v; h++)
                if (!check_trial_same(trial, delta_out(&plain.net.c, &plain.net.delta, plain.net.result.image, 0, 0, h),
                                      &accepted[s][plain.position[0]][h * dim_v], dim_v,
                                      "out of sequence %d at position %d, head %d", s, plain.position[0], h))
                    goto done;
            plain.position[0]++;
        }
        if (draft.position[s] && !same_rest(trial, &plain, &draft, s)) goto done;
        end(&plain);
        memset(&plain, 0, sizeof plain);
    }
done:
    end(&draft);
    end(&plain);
}
