/* Random calls of ssm_conv. See specs.h.
 *
 * check_random_ssm_conv() draws sizes and values; the batch; maps; types. Checkpoints and trees come last, from copies
 * of the generator, so that the other choices of a seed stay as they are. */
#include <string.h>

#include "entries.h"
#include "specs.h"

/* The position of a sequence's first token: 0, around the end of the ring, up to 300, far, or the largest. */
static int32_t random_position(check_rng *rng, int n_slots, int length)
{
    switch (check_between(rng, 0, 7)) {
    case 0: return 0;
    case 1: return INT32_MAX - length;
    case 2: return check_between(rng, 1 << 20, 1 << 30);
    case 3:
    case 4: return check_between(rng, 0, n_slots + 1);
    default: return check_between(rng, 0, 300);
    }
}

/* Which maps are given; for each sequence the row that it reads (or padding, or zeros) and the row that it writes,
 * which no other sequence reads or writes. */
static void random_maps(conv_spec *spec, check_rng *rng)
{
    check_entries e;
    const int apart = spec->where == CONV_APART;
    check_entries_clear(&e, spec->n_rows_out);
    spec->map_src = spec->n_rows < spec->n_seqs || !check_one_in(rng, 3);
    spec->map_dst = spec->n_rows_out < spec->n_seqs || !check_one_in(rng, 3);
    if (spec->where == CONV_NOWHERE) { /* only a map of what to skip makes sense */
        spec->map_dst = 0;
        spec->map_src = check_one_in(rng, 2);
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        seq->src = seq->dst = s;
        if (!spec->map_dst) e.writer[s] = s;
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        if (spec->map_src) {
            const int kind = check_between(rng, 0, 9);
            seq->src = kind == 0 ? GDN_SKIP : GDN_NONE;
            for (int attempt = 0; kind > 1 && spec->where != CONV_NOWHERE && attempt < 8; attempt++) {
                const int row = check_between(rng, 0, spec->n_rows - 1);
                if (!apart && e.writer[row] != CHECK_NOBODY && e.writer[row] != s) continue;
                seq->src = row;
                break;
            }
        }
        if (seq->length && !apart) check_entries_read(&e, s, seq->src);
    }
    for (int s = 0; spec->map_dst && s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        const int written = seq->src != GDN_SKIP && seq->length;
        const int in_place = !apart && seq->src >= 0 && check_one_in(rng, 2);
        seq->dst = GDN_NONE;
        for (int attempt = check_one_in(rng, 8) ? 8 : 0; attempt < 8; attempt++) {
            const int row = in_place && !attempt ? seq->src : check_between(rng, 0, spec->n_rows_out - 1);
            if (written && !check_entries_write(&e, s, row)) continue;
            seq->dst = row;
            break;
        }
    }
}

/* The type of each operand. With `exact`, a history that tokens pass through unchanged. */
static void random_types(conv_spec *spec, int exact, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F16, GDN_BF16 };
    const int kind = check_between(rng, 0, 3); /* F32 alone; 16-bit as models have it; any */
    spec->dtype_x = kind == 0 ? GDN_F32 : CHECK_PICK(rng, types);
    spec->dtype_out = spec->dtype_history = spec->dtype_x;
    spec->dtype_weight = check_one_in(rng, 2) ? GDN_F32 : spec->dtype_x;
    spec->dtype_bias = check_one_in(rng, 2) ? GDN_F32 : spec->dtype_x;
    if (kind < 2) return;
    spec->dtype_weight = CHECK_PICK(rng, types);
    spec->dtype_bias = CHECK_PICK(rng, types);
    spec->dtype_out = CHECK_PICK(rng, types);
    if (exact) spec->dtype_history = check_one_in(rng, 2) ? GDN_F32 : spec->dtype_x;
    else spec->dtype_history = CHECK_PICK(rng, types);
    if (spec->dtype_history != spec->dtype_x && check_one_in(rng, 3)) spec->values = CHECK_TIES;
}

/* Checkpoints in a third of the calls with a history: interval, number of entries, a row for each. */
static void random_checkpoints(conv_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    if (spec->where == CONV_NOWHERE || !check_one_in(rng, 3)) return;
    const int apart = spec->where == CONV_APART, more = check_between(rng, 0, 4);
    check_entries e;
    spec->n_rows_out += more;
    if (!apart) spec->n_rows = spec->n_rows_out;
    check_entries_clear(&e, spec->n_rows_out);
    spec->interval = check_draw_interval(rng);
    spec->n_checkpoints = check_between(rng, 1, check_one_in(rng, 4) ? CONV_MAX_CHECKPOINTS : 3);
    for (int s = 0; s < spec->n_seqs; s++) {
        const conv_seq *seq = &spec->seq[s];
        if (seq->src == GDN_SKIP || !seq->length) continue;
        if (!apart) check_entries_read(&e, s, seq->src);
        if (seq->dst >= 0) e.writer[seq->dst] = s;
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        check_entries_checkpoints(
            &e, s, seq->checkpoint, spec->n_checkpoints,
            seq->src == GDN_SKIP ? 0 : check_checkpoints(spec->interval, seq->position, seq->length), rng);
    }
}

/* A tree in a third of the calls without checkpoints. The history gets as many slots as the tree needs. */
static void random_tree(conv_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    int longest = 0;
    for (int i = 0; i < 23; i++) check_next(rng);
    if (spec->interval || !check_one_in(rng, 3)) return;
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].length > longest && spec->seq[s].src != GDN_SKIP) longest = spec->seq[s].length;
    spec->tree = 1;
    spec->map_parent = !check_one_in(rng, 8);
    const int least = spec->width - 1 + longest + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 5));
    if (spec->n_slots < least) spec->n_slots = least;
}

/* A whole call. */
void check_random_ssm_conv(check_spec *any, check_rng *rng)
{
    conv_spec *const spec = &any->ssm_conv;
    static const int values[] = { CHECK_NORMAL,    CHECK_NORMAL, CHECK_NORMAL, CHECK_SMALL,   CHECK_ZEROS,
                                  CHECK_SUBNORMAL, CHECK_WIDE,   CHECK_HUGE,   CHECK_SPECIAL, CHECK_ONE_NAN };
    static const int channels[] = { 1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 128, 257 };
    static const int widths[] = { 3, 4, 4, 4, 5, 9, 15 };
    memset(spec, 0, sizeof *spec);
    spec->seed = check_next(rng);
    /* Channels, width, spare slots; where the history is written; activation, bias, order of weights, strides, values.
     */
    spec->n_channels = check_one_in(rng, 2) ? CHECK_PICK(rng, channels) : check_between(rng, 1, 300);
    spec->width = check_one_in(rng, 2) ? CHECK_PICK(rng, widths) : check_between(rng, 1, 16);
    spec->n_slots = spec->width - 1 + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 9));
    spec->where = check_one_in(rng, 8) ? CONV_NOWHERE : check_between(rng, CONV_IN_PLACE, CONV_APART);
    spec->call.args.activation = check_between(rng, 0, 1);
    spec->bias = check_between(rng, 0, 1);
    spec->tap_major = check_between(rng, 0, 1);
    spec->strided = !check_one_in(rng, 4);
    spec->values = CHECK_PICK(rng, values);
    spec->weight_values = check_one_in(rng, 2) ? CHECK_NORMAL : CHECK_PICK(rng, values);
    /* The batch: sequences, rows of both pools, lengths, positions. */
    spec->n_seqs = check_one_in(rng, 3) ? 1 : check_between(rng, 1, 8);
    spec->n_rows = check_one_in(rng, 2) ? spec->n_seqs : check_between(rng, 1, 12);
    spec->n_rows_out = spec->where == CONV_APART && check_one_in(rng, 2) ? check_between(rng, 1, 12) : spec->n_rows;
    const int equal = check_one_in(rng, 2), most = check_one_in(rng, 5) ? 60 : 6, length = check_between(rng, 0, most);
    spec->map_position = check_one_in(rng, 5) ? 0 : 1;
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        seq->key = check_next(rng);
        seq->length = equal ? length : check_between(rng, 0, most);
        seq->position = spec->map_position ? random_position(rng, spec->n_slots, seq->length) : 0;
    }
    spec->map_start =
        check_draw_starts(&spec->seq[0].length, sizeof spec->seq[0], spec->n_seqs, &spec->lead, &spec->tail, rng);
    random_maps(spec, rng);
    random_types(spec, 0, rng);
    random_checkpoints(spec, *rng);
    random_tree(spec, *rng);
}

/* What a family does not choose itself: activation, bias, order of weights, strides, values, types. */
void conv_random_rest(conv_spec *spec, check_rng *rng)
{
    static const int values[] = { CHECK_NORMAL, CHECK_NORMAL, CHECK_WIDE, CHECK_SUBNORMAL, CHECK_SPECIAL };
    spec->call.args.activation = check_between(rng, 0, 1);
    spec->bias = check_between(rng, 0, 1);
    spec->tap_major = check_between(rng, 0, 1);
    spec->strided = check_between(rng, 0, 1);
    spec->values = CHECK_PICK(rng, values);
    spec->seed = check_next(rng);
    random_types(spec, 1, rng);
}
