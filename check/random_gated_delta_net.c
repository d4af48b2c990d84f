/* Random calls of gated_delta_net. See specs.h.
 *
 * delta_random(), the last function, draws a call in this order: sizes, types and values; the batch; what fits the
 * budget; maps; forms of the inputs. Checkpoints, the log, trees and 16-bit states come last. Each of these four draws
 * from a copy of the generator, so that a change of one leaves the other choices of a seed as they are. */
#include <string.h>

#include "entries.h"
#include "specs.h"

/* Values of each operand. */
static void random_values(delta_spec *spec, check_rng *rng)
{
    static const int keys[] = { CHECK_SMALL,     CHECK_SMALL, CHECK_SMALL, CHECK_NORMAL,  CHECK_ZEROS,
                                CHECK_SUBNORMAL, CHECK_WIDE,  CHECK_HUGE,  CHECK_SPECIAL, CHECK_ONE_NAN };
    static const int others[] = { CHECK_NORMAL,    CHECK_NORMAL, CHECK_SMALL, CHECK_ZEROS,
                                  CHECK_SUBNORMAL, CHECK_WIDE,   CHECK_HUGE,  CHECK_SPECIAL };
    static const int gates[] = { CHECK_GATE_MODEL, CHECK_GATE_MODEL, CHECK_GATE_SLOW, CHECK_GATE_SLOW, CHECK_GATE_GGML,
                                 CHECK_GATE_EDGE,  CHECK_GATE_EDGE,  CHECK_GATE_ZERO, CHECK_GATE_UNDER };
    const int tame = check_one_in(rng, 2); /* half of the cases stay finite, so that their bits say more */
    spec->values[DELTA_Q] = tame ? CHECK_SMALL : CHECK_PICK(rng, keys);
    spec->values[DELTA_K] = tame ? CHECK_SMALL : CHECK_PICK(rng, keys);
    spec->values[DELTA_V] = tame ? CHECK_NORMAL : CHECK_PICK(rng, others);
    spec->values[DELTA_G] = CHECK_PICK(rng, gates);
    spec->values[DELTA_BETA] = tame || !check_one_in(rng, 4) ? CHECK_UNIT : CHECK_PICK(rng, others);
    spec->values[DELTA_STATE] = tame ? CHECK_NORMAL : CHECK_PICK(rng, others);
}

/* Types of g and beta; the norm of q and k; the forms of g and beta with their parameters; the read key. */
static void random_forms(delta_spec *spec, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    static const float eps[] = { 0, 1e-6f, 1e-12f, 1e-40f, 0.5f }, factors[] = { 0, 0, 1, 2, -0.75f };
    static const int raw[] = {
        CHECK_NORMAL, CHECK_NORMAL, CHECK_GATE_GGML, CHECK_WIDE, CHECK_SPECIAL, CHECK_SUBNORMAL
    };
    static const int rates[] = { CHECK_GATE_MODEL, CHECK_GATE_SLOW, CHECK_GATE_GGML, CHECK_NORMAL, CHECK_ZEROS };
    const int sorted = check_one_in(rng, 2); /* g and beta of one type, so that they can be parts of one tensor */
    spec->dtype_g = CHECK_PICK(rng, types);
    spec->dtype_beta = sorted ? spec->dtype_g : CHECK_PICK(rng, types);
    if (check_one_in(rng, 2)) {
        spec->call.inputs.qk_norm = check_between(rng, GDN_NORM_ADD, GDN_NORM_CLAMP);
        spec->call.inputs.qk_norm_eps = CHECK_PICK(rng, eps);
        if (check_one_in(rng, 2)) spec->values[DELTA_Q] = spec->values[DELTA_K] = CHECK_NORMAL;
    }
    static const float bounds[] = { -5, -5, -1, -80, -1e-40f };
    spec->call.inputs.gate_input = check_between(rng, GDN_G_LOG, GDN_G_BOUNDED);
    if (spec->call.inputs.gate_input == GDN_G_BOUNDED) {
        spec->call.inputs.lower_bound = CHECK_PICK(rng, bounds);
        spec->no_a = check_one_in(rng, 2);
    }
    if (spec->call.inputs.gate_input == GDN_G_LINEAR && !check_one_in(rng, 4)) spec->values[DELTA_G] = CHECK_UNIT;
    if (spec->call.inputs.gate_input >= GDN_G_RAW) {
        spec->values[DELTA_G] = CHECK_PICK(rng, raw);
        spec->values[DELTA_A] = spec->call.inputs.gate_input == GDN_G_RAW ? CHECK_PICK(rng, rates) : CHECK_NORMAL;
        spec->values[DELTA_BIAS] = check_one_in(rng, 4) ? CHECK_GATE_GGML : CHECK_NORMAL;
        spec->dtype_a = CHECK_PICK(rng, types);
        spec->dtype_bias = CHECK_PICK(rng, types);
        spec->has_bias = !check_one_in(rng, 4);
    }
    spec->call.inputs.beta_input = check_between(rng, GDN_BETA_PLAIN, GDN_BETA_LOGIT);
    spec->call.inputs.beta_factor = CHECK_PICK(rng, factors);
    if (spec->call.inputs.beta_input == GDN_BETA_LOGIT && check_one_in(rng, 2))
        spec->values[DELTA_BETA] = CHECK_PICK(rng, raw);
    /* Drawn from the seed, so that the other random choices are those of a call without a read key. A norm does not
     * apply to the read key. */
    spec->read_key = !(spec->seed >> 44 & 3);
    spec->dtype_read = types[spec->seed >> 46 & 3];
    spec->values[DELTA_READ] = spec->call.inputs.qk_norm ? CHECK_SMALL : spec->values[DELTA_K];
}

/* What a family does not choose itself: head map, gate, layout, strides, types of q, k and v, values, forms. */
void delta_random_rest(delta_spec *spec, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    spec->call.args.head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->strided = check_between(rng, 0, 1);
    spec->dtype[0] = spec->dtype[1] = spec->dtype[2] = CHECK_PICK(rng, types);
    spec->seed = check_next(rng);
    random_values(spec, rng);
    if (check_one_in(rng, 2)) random_forms(spec, rng);
}

void delta_random_state(delta_spec *spec)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    spec->dtype_state = types[spec->seed >> 32 & 3];
}

/* A head size: in half of all draws one that models have. */
static int random_dim(check_rng *rng)
{
    static const int usual[] = { 16, 32, 64, 128 };
    const int kind = check_between(rng, 0, 19);
    if (kind < 10) return CHECK_PICK(rng, usual);
    return kind < 17 ? check_between(rng, 16, 80) : kind < 19 ? check_between(rng, 16, 256) : 256;
}

/* The number of tokens of a sequence. style: decode; ragged with empty ones; drafts; prefill with others. */
static int random_length(check_rng *rng, int style)
{
    switch (style) {
    case 0: return 1;
    case 1: return check_between(rng, 0, 3);
    case 2: return check_between(rng, 1, 9);
    default: return check_one_in(rng, 4) ? check_between(rng, 10, 70) : check_between(rng, 0, 12);
    }
}

/* State elements times tokens and entries: what a call costs. */
static int64_t work(const delta_spec *spec)
{
    int64_t tokens = 2;
    for (int s = 0; s < spec->n_seqs; s++) tokens += spec->seq[s].length;
    const int64_t state = (int64_t)spec->n_heads_v * spec->dim_k * spec->dim_v;
    return state * (tokens + (int64_t)spec->n_rows * spec->n_slots +
                    (spec->where == DELTA_APART ? (int64_t)spec->n_rows_out * spec->n_slots_out : 0));
}

/* Where each sequence reads its state: padding, zeros, or an entry that no other sequence writes. */
static void random_sources(delta_spec *spec, const check_entries *entries, check_rng *rng)
{
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        const int kind = check_between(rng, 0, 9);
        seq->src = kind == 0 ? GDN_SKIP : GDN_NONE;
        for (int attempt = 0; kind > 1 && attempt < 8; attempt++) {
            const int e = check_between(rng, 0, spec->n_rows * spec->n_slots - 1);
            if (spec->where != DELTA_APART && entries->writer[e] != CHECK_NOBODY && entries->writer[e] != s) continue;
            seq->src = e;
            break;
        }
    }
}

/* Where each snapshot goes: nowhere, in place, or to an entry that no other sequence reads or writes. */
static void random_targets(delta_spec *spec, check_rng *rng)
{
    check_entries entries;
    check_entries_clear(&entries, spec->n_rows_out * spec->n_slots_out);
    for (int s = 0; s < spec->n_seqs; s++) {
        const delta_seq *seq = &spec->seq[s];
        if (seq->length && spec->where != DELTA_APART) check_entries_read(&entries, s, seq->src);
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        for (int r = 0; r < spec->n_snapshots; r++) {
            const int last = spec->n_rows_out * spec->n_slots_out - 1;
            const int written = seq->src != GDN_SKIP && r < seq->length;
            const int in_place = spec->where != DELTA_APART && seq->src >= 0 && check_one_in(rng, 3);
            seq->dst[r] = GDN_NONE;
            if (check_one_in(rng, 8)) continue;
            for (int attempt = 0; attempt < 8; attempt++) {
                const int e = in_place && !attempt ? seq->src : check_between(rng, 0, last);
                if (written && !check_entries_write(&entries, s, e)) continue;
                seq->dst[r] = e;
                break;
            }
        }
    }
}

/* Which maps are given, and their entries. A quarter of the calls that allow it have a ring in each row. */
static void random_maps(delta_spec *spec, check_rng *rng)
{
    check_entries entries;
    check_entries_clear(&entries, spec->n_rows_out * spec->n_slots_out);
    spec->map_src = spec->n_rows < spec->n_seqs || !check_one_in(rng, 4);
    spec->map_dst = spec->n_rows_out < spec->n_seqs || spec->n_snapshots > spec->n_slots_out || !check_one_in(rng, 4);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        seq->src = s * spec->n_slots;
        for (int r = 0; !spec->map_dst && r < spec->n_snapshots; r++) {
            seq->dst[r] = s * spec->n_slots_out + r;
            entries.writer[seq->dst[r]] = s;
        }
    }
    if (spec->map_src) random_sources(spec, &entries, rng);
    if (spec->map_dst) random_targets(spec, rng);
    if (spec->map_src && spec->map_dst && spec->where != DELTA_APART && spec->n_slots >= spec->n_snapshots &&
        spec->n_rows >= spec->n_seqs && check_one_in(rng, 4)) {
        const int shift = check_between(rng, 0, spec->n_rows - 1);
        for (int s = 0; s < spec->n_seqs; s++)
            delta_ring(spec, s, (s + shift) % spec->n_rows, check_one_in(rng, 5) ? 0 : check_between(rng, 1, 1000));
    }
}

/* The position of a sequence's first token: near 0, up to 300, or the largest. */
static int32_t draw_position(const delta_spec *spec, const delta_seq *seq, check_rng *rng)
{
    if (!spec->map_position) return 0;
    if (check_one_in(rng, 16)) return INT32_MAX - seq->length;
    const int near = check_one_in(rng, 2);
    return check_between(rng, 0, near ? 9 : 300);
}

/* Checkpoints in a third of the calls: interval, number of entries, positions, an entry for each. */
static void random_checkpoints(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    if (!check_one_in(rng, 3)) return;
    const int apart = spec->where == DELTA_APART, more = check_between(rng, 0, 3);
    check_entries e;
    spec->n_rows_out += more; /* room for them */
    if (!apart) spec->n_rows = spec->n_rows_out;
    check_entries_of_delta(&e, spec);
    spec->interval = check_draw_interval(rng);
    spec->n_checkpoints = check_between(rng, 1, check_one_in(rng, 4) ? DELTA_MAX_CHECKPOINTS : 3);
    spec->map_position = !check_one_in(rng, 4);
    for (int s = 0; s < spec->n_seqs; s++) spec->seq[s].position = draw_position(spec, &spec->seq[s], rng);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        check_entries_checkpoints(
            &e, s, seq->checkpoint, spec->n_checkpoints,
            seq->src == GDN_SKIP ? 0 : check_checkpoints(spec->interval, seq->position, seq->length), rng);
    }
}

/* Any location for padding: its commit is not read, in range or not, and its row may be another sequence's. */
static void draw_padding(delta_spec *spec, delta_seq *seq, check_rng *rng)
{
    seq->log_row = check_between(rng, GDN_NONE, spec->log_rows - 1);
    seq->n_replayed = check_between(rng, 0, seq->position < 50 ? seq->position : 50);
    seq->commit = check_between(rng, -3, check_one_in(rng, 2) ? 1 << 30 : spec->n_rows_out * spec->n_slots_out - 1);
}

/* The state at the sequence's position: in place, elsewhere, or nowhere. */
static void draw_commit(const delta_spec *spec, check_entries *e, int s, delta_seq *seq, check_rng *rng)
{
    const int apart = spec->where == DELTA_APART;
    seq->commit = GDN_NONE;
    if (check_one_in(rng, 3) || (!seq->length && !apart && seq->src >= 0 && e->writer[seq->src] != CHECK_NOBODY))
        return;
    if (!seq->length && !apart) /* it reads as well, then */
        check_entries_read(e, s, seq->src);
    if (!apart && seq->src >= 0 && check_one_in(rng, 2) && check_entries_write(e, s, seq->src)) seq->commit = seq->src;
    else seq->commit = check_entries_take(e, s, rng);
}

/* A log in a third of the calls: rows and slots, which maps are given; for each sequence its row, the tokens to replay,
 * and its commit. Half of these calls have no snapshots. */
static void random_log(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    int row[DELTA_MAX_SEQS + 3], most = 1;
    for (int i = 0; i < 9; i++) /* away from what the checkpoints were drawn from */
        check_next(rng);
    if (!check_one_in(rng, 3)) return;
    check_entries e;
    if (check_one_in(rng, 2)) spec->n_snapshots = spec->map_dst = 0;
    for (int s = 0; s < spec->n_seqs && !spec->n_snapshots; s++)
        for (int r = 0; r < DELTA_MAX_SNAPSHOTS; r++) spec->seq[s].dst[r] = GDN_NONE;
    if (spec->where == DELTA_APART && check_one_in(rng, 2)) spec->n_rows_out += check_between(rng, 1, 3);
    check_entries_of_delta(&e, spec);
    for (int s = 0; s < spec->n_seqs && spec->interval; s++) {
        const delta_seq *seq = &spec->seq[s];
        const int64_t kept = check_checkpoints(spec->interval, seq->position, seq->length);
        for (int i = 0; i < kept && i < spec->n_checkpoints && seq->src != GDN_SKIP; i++)
            if (seq->checkpoint[i] >= 0) e.writer[seq->checkpoint[i]] = s;
    }
    spec->log_rows = spec->n_seqs + check_between(rng, 0, 3);
    spec->map_log_row = !check_one_in(rng, 4);
    spec->map_base_position = !check_one_in(rng, 8);
    spec->map_commit = !check_one_in(rng, 4);
    if (!spec->interval) spec->map_position = !check_one_in(rng, 8);
    for (int i = 0; i < spec->log_rows; i++) row[i] = i;
    if (spec->map_log_row) check_shuffle(rng, row, spec->log_rows);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        if (!spec->interval) seq->position = draw_position(spec, seq, rng);
        seq->log_row = spec->map_log_row && check_one_in(rng, 5) ? GDN_NONE : row[s];
        const int furthest = seq->position < 6 ? seq->position : 6;
        seq->n_replayed = seq->log_row < 0 || !spec->map_base_position ? 0 : check_between(rng, 0, furthest);
        seq->commit = GDN_NONE;
        if (seq->src == GDN_SKIP && spec->map_log_row && spec->map_base_position) draw_padding(spec, seq, rng);
        else if (seq->src == GDN_SKIP) seq->n_replayed = 0;
        else {
            if (spec->map_commit) draw_commit(spec, &e, s, seq, rng);
            if (seq->log_row >= 0 && seq->n_replayed + seq->length > most) most = seq->n_replayed + seq->length;
        }
    }
    spec->log_slots = most + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 5));
}

/* A tree in most of the calls that have a log and neither snapshots nor checkpoints. Its parents follow from the keys.
 */
static void random_tree(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    for (int i = 0; i < 23; i++) /* away from what checkpoints and the log were drawn from */
        check_next(rng);
    if (!spec->log_slots || spec->n_snapshots || spec->interval || check_one_in(rng, 4)) return;
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].src != GDN_SKIP && spec->seq[s].length && spec->seq[s].log_row < 0) return;
    spec->tree = 1;
    spec->map_parent = !check_one_in(rng, 8);
}

/* A base position for a state that is rounded after every `interval` tokens. 0 if there is none: the position is in
 * use, and no log entry can make up the difference. */
static int draw_standing(const delta_spec *spec, delta_seq *seq, int interval, check_rng *rng)
{
    const int behind = seq->position % interval, movable = spec->map_position && !spec->interval;
    if (seq->log_row < 0 || !spec->map_base_position) {
        if (behind && !movable) return 0;
        seq->position -= behind;
        seq->n_replayed = 0;
        return 1;
    }
    const int whole = seq->position / interval;
    seq->n_replayed = behind + interval * check_between(rng, 0, whole < 2 ? whole : 2);
    return 1;
}

/* A rounding interval that divides the checkpoints' interval. */
static int draw_rounding(const delta_spec *spec, check_rng *rng)
{
    static const int intervals[] = { 2, 2, 3, 4, 4, 5, 8, 16 };
    const int interval = CHECK_PICK(rng, intervals);
    return spec->interval % interval ? 1 : interval;
}

/* States of 16 bits in a third of the calls: their type and rounding interval. Positions, replays and snapshots become
 * those that such a call may have. */
static void random_state16(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    delta_seq seq[DELTA_MAX_SEQS];
    for (int i = 0; i < 37; i++) /* away from what the others were drawn from */
        check_next(rng);
    if (!check_one_in(rng, 3)) return;
    spec->dtype_state = check_between(rng, GDN_F16, GDN_BF16);
    if (check_one_in(rng, 4)) spec->values[DELTA_STATE] = CHECK_TIES;
    spec->state_interval = check_between(rng, 0, 1);
    if (!spec->log_slots || check_one_in(rng, 3)) return;
    const int interval = draw_rounding(spec, rng);
    for (int s = 0; s < spec->n_seqs; s++) {
        seq[s] = spec->seq[s];
        if (seq[s].src != GDN_SKIP && !draw_standing(spec, &seq[s], interval, rng)) return;
    }
    spec->state_interval = interval;
    spec->map_dst |= spec->n_snapshots > 0;
    for (int s = 0; s < spec->n_seqs; s++) {
        const int length = seq[s].length, needed = seq[s].n_replayed + length;
        spec->seq[s] = seq[s];
        if (seq[s].src == GDN_SKIP) continue;
        for (int r = 0; r < length && r < spec->n_snapshots; r++)
            if ((seq[s].position + length - r) % interval) spec->seq[s].dst[r] = GDN_NONE;
        if (seq[s].log_row >= 0 && spec->log_slots < needed) spec->log_slots = needed;
    }
}

/* A whole call with at most about `budget` state elements times tokens. */
void delta_random(delta_spec *spec, check_rng *rng, int64_t budget)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    static const int heads[] = { 1, 1, 2, 2, 3, 4, 5, 8 };
    memset(spec, 0, sizeof *spec);
    spec->seed = check_next(rng); /* of the operands' values */
    spec->no_operands = (int)(spec->seed >> 48 & 1);
    /* Sizes, head map, gate, layout; where the state is written; strides; the scale. */
    spec->dim_k = random_dim(rng);
    spec->dim_v = check_one_in(rng, 2) ? spec->dim_k : random_dim(rng);
    spec->n_heads_k = CHECK_PICK(rng, heads);
    spec->n_heads_v = spec->n_heads_k * CHECK_PICK(rng, ((const int[]){ 1, 1, 2, 2, 3, 4 }));
    spec->call.args.head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    spec->strided = !check_one_in(rng, 4);
    spec->call.args.scale = check_one_in(rng, 2) ? 0 : check_one_in(rng, 8) ? -1e-40f : check_unit(rng) + 0.01f;
    /* Types: one for q, k and v, or any. q and k are rarely one tensor. */
    const int one_type = check_one_in(rng, 2);
    spec->dtype[0] = CHECK_PICK(rng, types);
    spec->dtype[1] = one_type ? spec->dtype[0] : CHECK_PICK(rng, types);
    spec->dtype[2] = one_type ? spec->dtype[0] : CHECK_PICK(rng, types);
    spec->same_keys = spec->dtype[0] == spec->dtype[1] && check_one_in(rng, 16);
    random_values(spec, rng);

    /* The batch: sequences, rows and slots of both pools, snapshots, lengths. */
    spec->n_seqs = check_one_in(rng, 3) ? 1 : check_between(rng, 1, 7);
    spec->n_slots = check_one_in(rng, 2) ? 1 : check_between(rng, 1, 6);
    spec->n_rows = check_between(rng, 1, 3) * (check_one_in(rng, 4) ? 1 : spec->n_seqs);
    spec->n_slots_out = spec->where == DELTA_APART && check_one_in(rng, 2) ? check_between(rng, 1, 6) : spec->n_slots;
    spec->n_rows_out = spec->where == DELTA_APART && check_one_in(rng, 2) ? check_between(rng, 1, 9) : spec->n_rows;
    spec->n_snapshots = check_one_in(rng, 2) ? spec->n_slots_out : check_between(rng, 1, 8);
    const int style = check_between(rng, 0, 3), equal = check_one_in(rng, 3), length = random_length(rng, style);
    for (int s = 0; s < spec->n_seqs; s++)
        spec->seq[s] = (delta_seq){ .length = equal ? length : random_length(rng, style), .key = check_next(rng) };

    while (work(spec) > budget) { /* make smaller what is largest */
        int most = 0;
        for (int s = 1; s < spec->n_seqs; s++) most = spec->seq[s].length > spec->seq[most].length ? s : most;
        const int ratio = spec->n_heads_v / spec->n_heads_k;
        if (ratio > 2) spec->n_heads_v = 2 * spec->n_heads_k;
        else if (spec->n_heads_k > 2) spec->n_heads_k = 2, spec->n_heads_v = 2 * ratio;
        else if (!equal && spec->seq[most].length > 3) spec->seq[most].length = spec->seq[most].length / 2;
        else if (equal && spec->seq[0].length > 3)
            for (int s = 0; s < spec->n_seqs; s++) spec->seq[s].length = 3;
        else if (spec->n_rows > spec->n_seqs) spec->n_rows = spec->n_seqs;
        else if (spec->n_rows_out > spec->n_seqs) spec->n_rows_out = spec->n_seqs;
        else if (spec->n_seqs > 2) spec->n_seqs = 2, spec->n_rows = spec->n_rows_out = 2;
        else if (spec->dim_v > 64) spec->dim_v = spec->dim_v / 2 + 8;
        else break;
        if (spec->where != DELTA_APART) spec->n_rows_out = spec->n_rows;
    }
    spec->map_start =
        check_draw_starts(&spec->seq[0].length, sizeof spec->seq[0], spec->n_seqs, &spec->lead, &spec->tail, rng);
    random_maps(spec, rng);
    if (check_one_in(rng, 2)) random_forms(spec, rng);
    spec->dtype_out = CHECK_PICK(rng, types);
    random_checkpoints(spec, *rng);
    random_log(spec, *rng);
    random_tree(spec, *rng);
    random_state16(spec, *rng);
}

void check_random_gated_delta_net(check_spec *spec, check_rng *rng)
{
    delta_random(&spec->gated_delta_net, rng, check_one_in(rng, 20) ? 1500000 : 200000);
}
