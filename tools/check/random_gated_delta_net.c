/* Drawing specifications of gated_delta_net at random. See specs.h. */
#include <string.h>

#include "entries.h"
#include "specs.h"

void delta_random_values(delta_spec *spec, check_rng *rng)
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

void delta_random_forms(delta_spec *spec, check_rng *rng)
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
        spec->qk_norm = check_between(rng, GDN_NORM_ADD, GDN_NORM_CLAMP);
        spec->eps = CHECK_PICK(rng, eps);
        if (check_one_in(rng, 2)) spec->values[DELTA_Q] = spec->values[DELTA_K] = CHECK_NORMAL;
    }
    static const float bounds[] = { -5, -5, -1, -80, -1e-40f };
    spec->g_form = check_between(rng, GDN_G_LOG, GDN_G_BOUNDED);
    if (spec->g_form == GDN_G_BOUNDED) {
        spec->lower_bound = CHECK_PICK(rng, bounds);
        spec->no_a = check_one_in(rng, 3);
    }
    if (spec->g_form == GDN_G_LINEAR && !check_one_in(rng, 4)) spec->values[DELTA_G] = CHECK_UNIT;
    if (spec->g_form >= GDN_G_RAW) {
        spec->values[DELTA_G] = CHECK_PICK(rng, raw);
        spec->values[DELTA_A] = spec->g_form == GDN_G_RAW ? CHECK_PICK(rng, rates) : CHECK_NORMAL;
        spec->values[DELTA_BIAS] = check_one_in(rng, 4) ? CHECK_GATE_GGML : CHECK_NORMAL;
        spec->dtype_a = CHECK_PICK(rng, types);
        spec->dtype_bias = CHECK_PICK(rng, types);
        spec->has_bias = !check_one_in(rng, 4);
    }
    spec->beta_form = check_between(rng, GDN_BETA_PLAIN, GDN_BETA_LOGIT);
    spec->beta_factor = CHECK_PICK(rng, factors);
    if (spec->beta_form == GDN_BETA_LOGIT && check_one_in(rng, 2)) spec->values[DELTA_BETA] = CHECK_PICK(rng, raw);
    /* By the seed, so that what else is drawn stays as without. A norm is not for the read key. */
    spec->read_key = !(spec->seed >> 44 & 3);
    spec->dtype_read = types[spec->seed >> 46 & 3];
    spec->values[DELTA_READ] = spec->qk_norm ? CHECK_SMALL : spec->values[DELTA_K];
}

void delta_random_ways(delta_spec *spec, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    spec->head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->strided = check_between(rng, 0, 1);
    spec->dtype[0] = spec->dtype[1] = spec->dtype[2] = CHECK_PICK(rng, types);
    spec->seed = check_next(rng);
    delta_random_values(spec, rng);
    if (check_one_in(rng, 2)) delta_random_forms(spec, rng);
}

void delta_random_state(delta_spec *spec)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    spec->dtype_state = types[spec->seed >> 32 & 3];
}

/* ---- random cases -------------------------------------------------------------------------------------- */

static int random_dim(check_rng *rng)
{
    static const int usual[] = { 16, 32, 64, 128 };
    const int kind = check_between(rng, 0, 19);
    if (kind < 10) return CHECK_PICK(rng, usual);
    return kind < 17 ? check_between(rng, 16, 80) : kind < 19 ? check_between(rng, 16, 256) : 256;
}

static int random_length(check_rng *rng, int style)
{
    switch (style) {
    case 0: return 1;
    case 1: return check_between(rng, 0, 3);
    case 2: return check_between(rng, 1, 9);
    default: return check_one_in(rng, 4) ? check_between(rng, 10, 70) : check_between(rng, 0, 12);
    }
}

static int64_t work(const delta_spec *spec)
{
    int64_t tokens = 2;
    for (int s = 0; s < spec->n_seqs; s++) tokens += spec->seq[s].length;
    const int64_t state = (int64_t)spec->n_heads_v * spec->dim_k * spec->dim_v;
    return state * (tokens + (int64_t)spec->n_rows * spec->n_slots +
                    (spec->where == DELTA_APART ? (int64_t)spec->n_rows_out * spec->n_slots_out : 0));
}

/* Which sequences have to do with an entry of the pools, for the rule that no slot is written twice nor
 * written by one sequence and read by another. */
enum { NOBODY = -1, SEVERAL = -2, MAX_ENTRIES = 256 };

static void random_sources(delta_spec *spec, const int *writer, check_rng *rng)
{
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        const int kind = check_between(rng, 0, 9);
        seq->src = kind == 0 ? GDN_SKIP : GDN_NONE;
        for (int attempt = 0; kind > 1 && attempt < 8; attempt++) {
            const int e = check_between(rng, 0, spec->n_rows * spec->n_slots - 1);
            if (spec->where != DELTA_APART && writer[e] != NOBODY && writer[e] != s) continue;
            seq->src = e;
            break;
        }
    }
}

static void random_targets(delta_spec *spec, check_rng *rng)
{
    int reader[MAX_ENTRIES], writer[MAX_ENTRIES];
    for (int e = 0; e < MAX_ENTRIES; e++) reader[e] = writer[e] = NOBODY;
    for (int s = 0; s < spec->n_seqs; s++) {
        const delta_seq *seq = &spec->seq[s];
        if (seq->src >= 0 && seq->length && spec->where != DELTA_APART)
            reader[seq->src] = reader[seq->src] == NOBODY ? s : SEVERAL;
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
                if (written && (writer[e] != NOBODY || (reader[e] != NOBODY && reader[e] != s))) continue;
                if (written) writer[e] = s;
                seq->dst[r] = e;
                break;
            }
        }
    }
}

static void random_maps(delta_spec *spec, check_rng *rng)
{
    int writer[MAX_ENTRIES];
    for (int e = 0; e < MAX_ENTRIES; e++) writer[e] = NOBODY;
    spec->map_src = spec->n_rows < spec->n_seqs || !check_one_in(rng, 4);
    spec->map_dst = spec->n_rows_out < spec->n_seqs || spec->n_snapshots > spec->n_slots_out || !check_one_in(rng, 4);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        seq->src = s * spec->n_slots;
        for (int r = 0; !spec->map_dst && r < spec->n_snapshots; r++) {
            seq->dst[r] = s * spec->n_slots_out + r;
            writer[seq->dst[r]] = s;
        }
    }
    if (spec->map_src) random_sources(spec, writer, rng);
    if (spec->map_dst) random_targets(spec, rng);
    if (spec->map_src && spec->map_dst && spec->where != DELTA_APART && spec->n_slots >= spec->n_snapshots &&
        spec->n_rows >= spec->n_seqs && check_one_in(rng, 4)) {
        const int shift = check_between(rng, 0, spec->n_rows - 1);
        for (int s = 0; s < spec->n_seqs; s++)
            delta_ring(spec, s, (s + shift) % spec->n_rows, check_one_in(rng, 5) ? 0 : check_between(rng, 1, 1000));
    }
}

void delta_random(delta_spec *spec, check_rng *rng, int64_t budget)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    static const int heads[] = { 1, 1, 2, 2, 3, 4, 5, 8 };
    memset(spec, 0, sizeof *spec);
    spec->seed = check_next(rng);
    spec->dim_k = random_dim(rng);
    spec->dim_v = check_one_in(rng, 2) ? spec->dim_k : random_dim(rng);
    spec->n_heads_k = CHECK_PICK(rng, heads);
    spec->n_heads_v = spec->n_heads_k * CHECK_PICK(rng, ((const int[]){ 1, 1, 2, 2, 3, 4 }));
    spec->head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    spec->strided = !check_one_in(rng, 4);
    spec->scale = check_one_in(rng, 2) ? 0 : check_one_in(rng, 8) ? -1e-40f : check_unit(rng) + 0.01f;
    const int one_type = check_one_in(rng, 2);
    spec->dtype[0] = CHECK_PICK(rng, types);
    spec->dtype[1] = one_type ? spec->dtype[0] : CHECK_PICK(rng, types);
    spec->dtype[2] = one_type ? spec->dtype[0] : CHECK_PICK(rng, types);
    spec->same_keys = spec->dtype[0] == spec->dtype[1] && check_one_in(rng, 16);
    delta_random_values(spec, rng);

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
    if (check_one_in(rng, 2)) delta_random_forms(spec, rng);
    spec->dtype_out = CHECK_PICK(rng, types);
    delta_random_checkpoints(spec, *rng);
    delta_random_log(spec, *rng);
    delta_random_tree(spec, *rng);
    delta_random_state16(spec, *rng);
}
