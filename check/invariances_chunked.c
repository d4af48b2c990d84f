/* The chunked form: any division of sequences into calls, and of calls into batches, gives the outputs and states of
 * one call for each sequence. Calls decode, read prompts, or verify drafts of which some are rejected; states are
 * written in place or elsewhere, or committed by a later call. States after multiples of 32 tokens are compared with
 * checkpoints of that one call. */
#include "trial.h"

#include "numerics/chunked.h"

enum {
    SEQS = 3,
    SLOTS = 2 /* of a sequence in the pool of states */
};

void delta_random_chunked(delta_spec *spec, check_rng *rng)
{
    static const int dims[] = { 16, 16, 16, 16, 32, 48, 64, 128 };
    static const float bounds[] = { -5, -1, -80 };
    const int heads = check_one_in(rng, 3) ? 2 : 1, values = check_one_in(rng, 2) ? 1 : check_between(rng, 2, 6);
    *spec = DELTA(1, 1, .n_heads_k = heads, .n_heads_v = heads * values, .dim_k = CHECK_PICK(rng, dims),
                  .dim_v = check_one_in(rng, 2) ? CHECK_PICK(rng, dims) : 64 * check_between(rng, 1, 2));
    delta_random_rest(spec, rng);
    gdn_delta_inputs *const inputs = &spec->call.inputs;
    if (inputs->gate_input == GDN_G_LINEAR) {
        inputs->gate_input = GDN_G_LOG;
        spec->values[DELTA_G] = check_one_in(rng, 2) ? CHECK_GATE_MODEL : CHECK_GATE_SLOW;
    }
    if (inputs->gate_input == GDN_G_BOUNDED) inputs->lower_bound = CHECK_PICK(rng, bounds);
    spec->digits = check_between(rng, 2, 3);
    spec->dtype_state = GDN_F32;
    if (check_one_in(rng, 2)) {
        spec->dtype_state = spec->digits == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
        spec->layout = GDN_STATE_VK;
    }
    delta_batch(spec, check_between(rng, 1, SEQS), 1);
    spec->n_snapshots = 1;
    spec->n_rows = spec->n_rows_out = spec->n_seqs;
    spec->n_slots = spec->n_slots_out = SLOTS;
    spec->map_start = spec->map_src = spec->map_dst = 1;
    spec->map_position = spec->map_base_position = spec->map_log_row = spec->map_commit = 1;
    spec->log_rows = spec->n_seqs + 1;
    for (int s = 0; s < spec->n_seqs; s++) {
        spec->seq[s].state_key = 3;
        spec->seq[s].commit = GDN_NONE;
    }
}

/* How far a sequence has come. Positions are counted from its beginning. */
typedef struct progress {
    int end, at, base, slot; /* slot holds the state at `base` */
    int row;                 /* of the log, with the entries of base to `at` */
    int begun, stored;       /* 1: a call has had work for it, has written its state */
} progress;

static int multiple(int n) { return n - n % GDN_CHUNK; }

/* A call that keeps its tokens: a prompt, or a token that is decoded. */
static void draw_kept(delta_seq *seq, const progress *now, int one, check_rng *rng)
{
    const int left = now->end - now->at;
    int length = one ? 1 : check_between(rng, 0, check_one_in(rng, 2) ? 90 : 12);
    length = length < left ? length : left;
    if (now->at == now->base && length >= GDN_CHUNK && check_one_in(rng, 3)) { /* needs no row of the log */
        length = multiple(length);
        seq->log_row = GDN_NONE;
    }
    seq->length = length;
    seq->dst[0] = check_one_in(rng, 2) ? now->slot : now->slot ^ 1;
}

/* A call that verifies up to `most` drafts: nothing of them is kept but entries of the log. */
static void draw_verified(delta_seq *seq, const progress *now, int most, int slots, check_rng *rng)
{
    const int left = now->end - now->at;
    seq->length = left ? check_between(rng, 0, most < left ? most : left) : 0;
    seq->rejected = seq->length ? check_between(rng, 0, seq->length - 1) : 0;
    if (!check_one_in(rng, 3) || !seq->length || now->at + seq->length - now->base > slots)
        seq->commit = check_one_in(rng, 2) ? now->slot : now->slot ^ 1;
}

/* What the call leaves of a sequence. */
static void advance(const delta_seq *seq, int kept, progress *now)
{
    const int before = now->at;
    now->begun |= seq->length || seq->commit >= 0;
    now->at += seq->length - seq->rejected;
    if (seq->log_row >= 0) now->row = seq->log_row;
    if (kept && seq->length) {
        now->base = multiple(now->at);
        now->slot = seq->dst[0];
        now->stored = 1;
    } else if (seq->commit >= 0) {
        now->base = multiple(before);
        now->slot = seq->commit;
        now->stored = 1;
    }
}

/* Builds the call with the states and entries that `before` left, and runs it. */
static int run_part(check_trial *trial, const check_call *before, const progress *now, check_call *next, check_rng *rng)
{
    check_call_build(trial, &check_kernel_gated_delta_net, next, rng);
    for (int s = 0; before && s < next->delta.n_seqs; s++) {
        const delta_seq *seq = &next->delta.seq[s];
        if (now[s].begun && seq->src >= 0)
            delta_copy_slot(&before->c, &before->delta, "state", before->result.image, seq->src, &next->c, &next->delta,
                            seq->src);
        if (now[s].at > now[s].base)
            delta_copy_log(&before->c, before->result.image, now[s].row, &next->c, now[s].row, now[s].base, now[s].at);
    }
    return check_trial_run(trial, &next->c, &next->result, "a part");
}

/* All of sequence s in one call. */
static int run_whole(check_trial *trial, const delta_spec *drawn, int s, int length, check_call *whole, check_rng *rng)
{
    whole->delta = *drawn;
    whole->delta.n_seqs = 1;
    whole->delta.seq[0] = drawn->seq[s];
    delta_seq *const seq = &whole->delta.seq[0];
    seq->length = length;
    seq->dst[0] = s * SLOTS;
    seq->log_row = 0;
    whole->delta.interval = GDN_CHUNK;
    whole->delta.n_checkpoints = multiple(seq->position + length) > seq->position
                                     ? (multiple(seq->position + length) - seq->position) / GDN_CHUNK
                                     : 1;
    for (int i = 0; i < whole->delta.n_checkpoints; i++)
        seq->checkpoint[i] = check_one_in(rng, 4) ? GDN_NONE : drawn->n_rows * SLOTS + i;
    whole->delta.n_rows = whole->delta.n_rows_out = drawn->n_rows + whole->delta.n_checkpoints;
    whole->delta.map_base_position = check_one_in(rng, 2);
    whole->delta.log_slots = GDN_CHUNK + check_between(rng, 0, 3);
    return check_call_run(trial, &check_kernel_gated_delta_net, whole, rng, "one call");
}

/* A call like this one with what the others do not have: padding, another pool for what is written, outputs of 16
 * bits, sequences that keep no state at all. It is compared with the reference only. */
static int run_odd(check_trial *trial, const check_call *like, check_call *odd, check_rng *rng)
{
    odd->delta = like->delta;
    odd->delta.dtype_out = check_between(rng, GDN_F32, GDN_BF16);
    odd->delta.where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    if (check_one_in(rng, 3)) odd->delta.seq[check_between(rng, 0, odd->delta.n_seqs - 1)].src = GDN_SKIP;
    if (check_one_in(rng, 3)) odd->delta.lead = check_between(rng, 1, 3);
    for (int s = 0; s < odd->delta.n_seqs; s++)
        if (check_one_in(rng, 3)) odd->delta.seq[s].dst[0] = odd->delta.seq[s].commit = GDN_NONE; /* keeps no state */
    odd->delta.log_slots += 120; /* then it needs all entries from its base on */
    return check_call_run(trial, &check_kernel_gated_delta_net, odd, rng, "a call alone");
}

/* The state of a sequence against the checkpoint of the whole one. */
static int same_as_checkpoint(check_trial *trial, const check_call *whole, const progress *now, const check_call *part)
{
    const delta_seq *of = &whole->delta.seq[0];
    if (!now->stored || now->base <= of->position) return 1;
    const int checkpoint = of->checkpoint[(now->base - of->position) / GDN_CHUNK - 1];
    return checkpoint == GDN_NONE || delta_same_state(trial, whole, checkpoint, part, now->slot, "a state");
}

static int all_done(const progress *now, int n_seqs)
{
    for (int s = 0; s < n_seqs; s++)
        if (now[s].at < now[s].end || now[s].base < multiple(now[s].at)) return 0;
    return 1;
}

void check_chunked(check_trial *trial, check_rng *rng)
{
    check_call *whole[SEQS] = { NULL }, *next = check_trial_call(trial), *before = NULL,
               *spare = check_trial_call(trial), *odd = check_trial_call(trial);
    delta_spec drawn;
    progress now[SEQS];
    delta_random_chunked(&drawn, rng);
    if (check_one_in(rng, 2)) /* more threads than sequences and heads: items of a part of the channels */
        trial->setting.executor = CHECK_EXECUTOR(check_one_in(rng, 2) ? CHECK_THREADS_POOL : CHECK_THREADS_REVERSE,
                                                 trial->threads->value[trial->threads->n - 1]);
    const int most = check_between(rng, 1, 40), more = check_between(rng, 0, 5);
    const int slots = GDN_CHUNK - 1 + most + more;
    for (int s = 0; s < drawn.n_seqs; s++) {
        delta_seq *const seq = &drawn.seq[s];
        const int begin = check_one_in(rng, 2) ? 0 : GDN_CHUNK * check_between(rng, 1, 1 << 20);
        seq->position = begin;
        seq->src = begin ? s * SLOTS : GDN_NONE;
        now[s] = (progress){ .end = begin + check_between(rng, 1, check_one_in(rng, 3) ? 150 : 70),
                             .at = begin,
                             .base = begin,
                             .slot = s * SLOTS,
                             .row = s };
        whole[s] = check_trial_call(trial);
        if (!run_whole(trial, &drawn, s, now[s].end - begin, whole[s], rng)) return;
    }
    while (!all_done(now, drawn.n_seqs)) {
        const int kept = check_one_in(rng, 2), one = kept && check_one_in(rng, 2);
        int finished = 1;
        next->delta = drawn;
        next->delta.log_slots = slots;
        next->delta.n_snapshots = next->delta.map_dst = kept;
        for (int s = 0; s < drawn.n_seqs; s++) {
            delta_seq *const seq = &next->delta.seq[s];
            seq->first = now[s].at - drawn.seq[s].position;
            seq->position = now[s].at;
            seq->n_replayed = now[s].at - now[s].base;
            if (now[s].stored) seq->src = now[s].slot;
            seq->log_row = now[s].row;
            seq->dst[0] = GDN_NONE;
            if (kept) draw_kept(seq, &now[s], one, rng);
            else draw_verified(seq, &now[s], most, slots, rng);
            finished &= !seq->length && seq->commit < 0;
        }
        if (finished) continue;
        if (!run_part(trial, before, now, next, rng)) return;
        if (check_one_in(rng, 4) && !run_odd(trial, next, odd, rng)) return;
        before = next;
        next = spare;
        spare = before;
        for (int s = 0; s < drawn.n_seqs; s++) advance(&before->delta.seq[s], kept, &now[s]);
        for (int s = 0; s < drawn.n_seqs; s++) {
            const delta_seq *const seq = &before->delta.seq[s];
            if (!delta_same_tokens(trial, whole[s], 0, seq->first, before, s, 0, seq->length - seq->rejected,
                                   "a part") ||
                !same_as_checkpoint(trial, whole[s], &now[s], before))
                return;
        }
    }
    for (int s = 0; s < drawn.n_seqs; s++)
        if (now[s].stored && !delta_same_state(trial, whole[s], s * SLOTS, before, now[s].slot, "the last state"))
            return;
}
