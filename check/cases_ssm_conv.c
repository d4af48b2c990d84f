/* The fixed cases of ssm_conv. See cases.h. */
#include "cases.h"

#define ADD(...) check_add(list, &(check_spec){ .ssm_conv = c }, __VA_ARGS__)

enum { N_TYPES = 3 };

static const char *const *const types = check_type_names;
static const char *const silus[] = { "", "_silu" }, *const biases[] = { "", "_bias" };
static const char *const *const places = check_place_names;

static void sizes(check_list *list)
{
    static const int channels[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 200, 1024 },
                     lengths[] = { 1, 2, 3, 4, 5, 8, 17, 64 };
    for (int width = 1; width <= 16; width++)
        for (int silu = 0; silu < 2; silu++)
            for (int bias = 0; bias < 2; bias++)
                for (int tap = 0; tap < 2; tap++) {
                    conv_spec c = CONV(3, 5, .n_channels = 37, .width = width, .call.args.activation = silu,
                                       .bias = bias, .tap_major = tap, .map_position = 1);
                    for (int s = 0; s < 3; s++) c.seq[s].position = s * width;
                    ADD("widths/%d%s%s%s", width, silus[silu], biases[bias], tap ? "_tapmajor" : "");
                }
    for (int n = 0; n < COUNT(channels); n++)
        for (int t = 0; t < COUNT(lengths); t++) {
            conv_spec c = CONV(2, lengths[t], .n_channels = channels[n], .width = 4, .map_position = 1,
                               .call.args.activation = t % 2);
            c.seq[0].position = 2;
            c.seq[1].position = 33;
            ADD("channels/%d_T%d", channels[n], lengths[t]);
        }
    for (int slots = 3; slots <= 8; slots++)
        for (int at = 0; at < 12; at++)
            for (int where = CONV_IN_PLACE; where <= CONV_APART; where++) {
                conv_spec c = CONV(2, slots - 2, .n_channels = 24, .width = 4, .n_slots = slots, .where = where,
                                   .map_position = 1);
                for (int s = 0; s < 2; s++) c.seq[s].position = at + 100 * s;
                ADD("ring/slots%d_at%d_%s", slots, at, places[where]);
            }
}

/* A call at three widths, with `spare` slots more than the width needs, with SiLU and without. */
static void edge(check_list *list, const char *name, int spare, conv_spec c)
{
    static const int widths[] = { 1, 4, 9 };
    for (int silu = 0; silu < 2; silu++)
        for (int w = 0; w < COUNT(widths); w++) {
            c.call.args.activation = silu;
            c.width = widths[w];
            c.n_slots = widths[w] - 1 + spare;
            ADD("%s/width%d%s", name, widths[w], silus[silu]);
        }
}
#define EDGE(n, length, ...) CONV(n, length, .n_channels = 37, __VA_ARGS__)

static void edges(check_list *list)
{
    static const int ragged[] = { 0, 5, 0, 1, 12, 2, 0 };
    conv_spec c;
    edge(list, "no_sequences", 0, EDGE(0, 1, .where = CONV_IN_PLACE));
    edge(list, "no_tokens", 0, EDGE(3, 0, .where = CONV_IN_PLACE));
    edge(list, "no_history", 0, EDGE(3, 5, .where = CONV_NOWHERE));

    c = EDGE(5, 3, .map_src = 1);
    for (int s = 0; s < 5; s += 2) c.seq[s].src = GDN_SKIP;
    edge(list, "some_skipped", 0, c);

    c = EDGE(3, 2, .map_src = 1, .map_position = 1); /* the entries before are zeros and are written as such */
    for (int s = 0; s < 3; s++) c.seq[s].src = GDN_NONE, c.seq[s].position = 3 * s;
    edge(list, "from_zero", 0, c);

    c = EDGE(3, 2, .map_dst = 1, .map_position = 1);
    for (int s = 0; s < 3; s++) c.seq[s].dst = GDN_NONE, c.seq[s].position = 20 + s;
    edge(list, "nothing_kept", 0, c);

    c = EDGE(3, 2, .n_rows = 6, .n_rows_out = 6, .map_dst = 1, .map_position = 1); /* at 0, partly filled, full */
    for (int s = 0; s < 3; s++) c.seq[s].dst = 5 - s, c.seq[s].position = 4 * s;
    edge(list, "other_row", 4, c);

    c = EDGE(3, 4, .n_rows = 4, .n_rows_out = 4, .map_src = 1, .map_dst = 1, .map_position = 1);
    for (int s = 0; s < 3; s++) c.seq[s].src = 3, c.seq[s].key = 5, c.seq[s].position = 11 - s; /* back by 0, 1, 2 */
    edge(list, "shared_row", 2, c);

    c = EDGE(7, 0, .map_start = 1, .map_position = 1, .lead = 2, .tail = 1);
    for (int s = 0; s < 7; s++) c.seq[s].length = ragged[s], c.seq[s].position = 2 * s;
    edge(list, "ragged", 0, c);
    c.strided = 1;
    edge(list, "strided", 0, c);

    c = EDGE(2, 7, .map_position = 1);
    c.seq[0].position = INT32_MAX - 7;
    c.seq[1].position = (1 << 24) + 1;
    edge(list, "far_position", 0, c);

    edge(list, "subnormal", 0, EDGE(2, 3, .values = CHECK_SUBNORMAL));
    edge(list, "huge", 0, EDGE(2, 3, .values = CHECK_HUGE));
    edge(list, "wide", 0, EDGE(2, 9, .values = CHECK_WIDE));
    edge(list, "special", 0, EDGE(2, 9, .values = CHECK_SPECIAL));
    edge(list, "zeros", 0, EDGE(2, 3, .values = CHECK_ZEROS, .weight_values = CHECK_ZEROS));
}

static void threads_and_modes(check_list *list)
{
    for (int kind = 0; kind < COUNT(check_executor_names); kind++)
        for (int n = 1; n <= 8; n++) {
            const conv_spec c = CONV(3, 5, .n_channels = 700, .width = 4);
            list->executor = CHECK_EXECUTOR(kind, n);
            ADD("threads/%s_%d", check_executor_names[kind], n);
        }
    /* Every other sequence is empty and names as its source the row that the next one writes: allowed, since it reads
     * nothing. Reading it all the same races with that writer, which ThreadSanitizer sees. */
    for (int n = 2; n <= 8; n++) {
        conv_spec c =
            CONV(12, 0, .n_channels = 700, .width = 4, .map_start = 1, .map_position = 1, .map_src = 1, .map_dst = 1);
        for (int s = 0; s < 12; s++) {
            const int full = s % 2;
            c.seq[s].length = full ? 5 : 0;
            c.seq[s].position = full ? 0 : 7;
            c.seq[s].src = full ? GDN_NONE : s + 1;
            if (!full) c.seq[s].dst = GDN_NONE;
        }
        list->executor = CHECK_EXECUTOR(CHECK_THREADS_POOL, n);
        ADD("threads/empty_source_%d", n);
    }
    for (int mode = 0; mode < 7; mode++)
        for (int silu = 0; silu < 2; silu++) {
            const conv_spec c =
                CONV(2, 5, .n_channels = 50, .width = 4, .values = CHECK_SUBNORMAL, .call.args.activation = silu);
            list->environment = mode;
            ADD("mode/%d%s", mode, silus[silu]);
        }
}

/* The cases of ggml's own operator tests, as in cases_gated_delta_net.c. Its convolution gets the history in front of
 * the tokens. */
static void ggml(check_list *list)
{
    static const int widths[] = { 3, 4, 9 }, channels[] = { 1024, 1536, 2048 };
    for (int w = 0; w < COUNT(widths); w++)
        for (int n = 0; n < COUNT(channels); n++) {
            const int width = widths[w];
            const int batches[][2] = { { 1, 1 }, { width + 1, 1 }, { 1, 4 }, { 64, 1 }, { 64, 4 } };
            for (int b = 0; b < COUNT(batches); b++)
                for (int bias = 0; bias < 2; bias++)
                    for (int silu = 0; silu < 2; silu++) {
                        const int length = batches[b][0], n_seqs = batches[b][1];
                        conv_spec c = CONV(n_seqs, length, .n_channels = channels[n], .width = width, .bias = bias,
                                           .call.args.activation = silu, .map_position = 1);
                        for (int s = 0; s < n_seqs; s++) c.seq[s].position = width - 1;
                        ADD("ggml/ssm_conv/nc%d_d%d_T%d_B%d%s%s", width, channels[n], length, n_seqs, biases[bias],
                            silus[silu]);
                    }
        }
}

/* Every type of each operand: a token, several, and more than a piece of what is split; a width with versions of its
 * own and one without. The older entries come along. */
static void all_types(check_list *list)
{
    static const int values[] = { CHECK_NORMAL, CHECK_TIES, CHECK_SPECIAL, CHECK_SUBNORMAL };
    static const int shapes[][2] = { { 1, 4 }, { 6, 4 }, { 70, 4 }, { 5, 3 } };
    for (int x = 0; x < N_TYPES; x++)
        for (int weight = 0; weight < N_TYPES; weight++)
            for (int out = 0; out < N_TYPES; out++)
                for (int history = 0; history < N_TYPES; history++)
                    for (int i = 0; i < COUNT(shapes); i++) {
                        const int length = shapes[i][0], width = shapes[i][1], bias = (x + weight) % 3;
                        conv_spec c = CONV(2, length, .n_channels = 70, .width = width, .n_slots = width + 1,
                                           .n_rows = 3, .n_rows_out = 3, .map_position = 1, .map_dst = 1, .dtype_x = x,
                                           .dtype_weight = weight, .dtype_bias = bias, .dtype_out = out,
                                           .dtype_history = history, .call.args.activation = out != history,
                                           .tap_major = i == 1, .values = values[(x + weight + out + history) % 4]);
                        c.seq[0].position = 2;
                        c.seq[1].position = 33;
                        c.seq[1].dst = 2;
                        ADD("types/%s_%s_%s_%s_%s_T%d_width%d", types[x], types[weight], types[bias], types[out],
                            types[history], length, width);
                    }
}

/* As in cases_gated_delta_net.c. */
static void checkpoints(check_list *list)
{
    static const int lengths[] = { 1, 3, 6, 16, 17, 33, 70 }, intervals[] = { 1, 2, 3, 16, 32, 64 },
                     widths[] = { 1, 2, 4, 16 };
    for (int a = 0; a < COUNT(lengths); a++)
        for (int b = 0; b < COUNT(intervals); b++)
            for (int w = 0; w < COUNT(widths); w++) {
                const int type = (a + w) % 3;
                conv_spec c =
                    CONV(2, lengths[a], .n_channels = 37, .width = widths[w], .n_slots = widths[w] - 1 + (a + b) % 3,
                         .n_rows = 6, .n_rows_out = 6, .where = (a + b + w) % 3, .call.args.activation = a % 2,
                         .interval = intervals[b], .n_checkpoints = 2, .map_position = 1, .map_src = 1, .dtype_x = type,
                         .dtype_out = type, .dtype_history = b % 2 ? GDN_F32 : type);
                if ((a + b) % 4 == 0) c.seq[1].src = GDN_NONE;
                for (int s = 0; s < 2; s++) {
                    c.seq[s].position = b * s + a;
                    for (int i = 0; i < 2; i++) c.seq[s].checkpoint[i] = i == 1 && a == 2 ? GDN_NONE : 4 - 2 * s + i;
                }
                ADD("checkpoints/T%d_N%d_width%d", lengths[a], intervals[b], widths[w]);
            }
}

/* Shapes as in cases_gated_delta_net.c, and F32, F16 or BF16. */
static void trees(check_list *list)
{
    static const int lengths[] = { 2, 5, 9, 33 }, widths[] = { 1, 2, 4, 16 };
    for (int a = 0; a < COUNT(lengths); a++)
        for (int w = 0; w < COUNT(widths); w++)
            for (int shape = 0; shape < CHECK_N_TREES; shape++)
                for (int type = 0; type < N_TYPES; type++) {
                    const int where = (a + w + shape + type) % 4, length = lengths[a];
                    conv_spec c = CONV(2, length, .n_channels = 37, .width = widths[w],
                                       .n_slots = widths[w] - 1 + length + (a + shape) % 3, .n_rows = 4,
                                       .n_rows_out = 4, .where = where, .call.args.activation = a % 2, .tree = 1,
                                       .map_parent = 1, .map_position = 1, .map_src = 1, .dtype_x = type,
                                       .dtype_out = type, .dtype_history = shape % 2 ? GDN_F32 : type);
                    for (int s = 0; s < 2; s++) {
                        c.seq[s].position = (shape + a) * s + w;
                        c.seq[s].parent = check_tree_parents(shape);
                        if (where == CONV_NOWHERE || (s && (a + type) % 4 == 3)) c.seq[s].src = GDN_NONE;
                        if (where == CONV_NOWHERE) c.seq[s].dst = GDN_NONE;
                    }
                    ADD("tree/%s_T%d_width%d_%d", check_tree_names[shape], length, widths[w], type);
                }
}

void check_cases_ssm_conv(check_list *list)
{
    sizes(list);
    edges(list);
    threads_and_modes(list);
    ggml(list);
    all_types(list);
    checkpoints(list);
    trees(list);
}
