/* Bad values in every map, which only the device sees: the sequence or the row is skipped, nothing else is written, the
 * others are computed, and GDN_BAD_MAP names the map, once. What is expected comes from the reference, which is given
 * the map that the documentation says a bad value amounts to. */
#include <string.h>

#include "tests/device/sides.h"
#include "tests/workspaces.h"

/* Bytes of results that are not as expected. `lenient`: what was not written is right too, since pieces of the token
 * axis find their sequences by a seq_start that ascends. The maps `bad` and `good` are not looked at. */
static uint64_t count_wrong(const sides *s, const check_case *c, int lenient, int bad, int good)
{
    uint64_t wrong = 0;
    for (int m = 0; m < c->n_memories; m++)
        for (uint64_t at = 0; m != bad && m != good && at < c->memory[m].bytes; at += 2) {
            const unsigned char *got = s->got.image[m] + at;
            wrong +=
                memcmp(got, s->expected.image[m] + at, 2) && !(lenient && !memcmp(got, c->memory[m].image + at, 2));
        }
    return wrong;
}

/* The call with a bad map on the device, and with the map that this amounts to on the reference. */
static void judge(sides *s, const check_kernel *kernel, const check_spec *spec, const char *bad, const int32_t *bad_map,
                  const char *good, const int32_t *good_map, int lenient)
{
    check_case amiss, meant;
    const int before = test_failed;
    sides_build(&amiss, kernel, spec);
    sides_build(&meant, kernel, spec);
    check_put_map(&amiss, bad, bad_map);
    check_put_map(&meant, good, good_map);
    sides_expect(s, &meant, &s->expected);
    sides_run(s, &amiss, bad);
    REQUIRE(!count_wrong(s, &amiss, lenient, sides_memory(&amiss, bad), sides_memory(&amiss, good)));
    if (test_failed != before) (void)printf("    that was a bad value in %s\n", bad);
    check_case_free(&amiss);
    check_case_free(&meant);
}

/* ---- gated_delta_net ------------------------------------------------------------------------------------- */

enum { LENGTH = 3, LONGEST = 40, G_SEQS = 3, G_ROWS = 4, G_SLOTS = 2, G_LAST = G_ROWS * G_SLOTS };

/* n sequences of 3 tokens, from these slots and to those. */
static void make_delta(delta_spec *spec, int n, const int32_t *src, const int32_t *dst)
{
    delta_defaults(spec, 2, 2, 32, 32);
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = G_SLOTS;
    delta_batch(spec, n, LENGTH);
    spec->n_rows = spec->n_rows_out = G_ROWS;
    spec->map_start = spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < n; s++) {
        spec->seq[s].src = src[s];
        for (int r = 0; r < G_SLOTS; r++) spec->seq[s].dst[r] = dst[G_SLOTS * s + r];
    }
}

/* A bad slot for a checkpoint amounts to none, and a bad position to padding; what is not used holds anything. */
static void bad_state_checkpoints(sides *s, int length)
{
    static const int32_t src[] = { 6, 0, 2 }, dst[] = { 6, 7, 1, -1, 3, 2 }, position[] = { 0, 5, INT32_MAX - 40 },
                         bad[] = { G_LAST + 6, INT32_MAX, GDN_SKIP, INT32_MIN };
    check_spec spec;
    delta_spec *d = &spec.gated_delta_net;
    make_delta(d, G_SEQS, src, dst);
    d->n_rows = d->n_rows_out = G_ROWS + 3;
    d->interval = 2;
    d->n_checkpoints = 2;
    d->map_position = 1;
    int32_t used[6], at[3];
    for (int i = 0; i < G_SEQS; i++) {
        d->seq[i].length = length;
        d->seq[i].position = at[i] = position[i];
        for (int c = 0; c < 2; c++) d->seq[i].checkpoint[c] = used[2 * i + c] = G_LAST + 2 * i + c;
    }
    for (int i = 0; i < 4; i++) {
        int32_t bad_map[6], good_map[6], bad_at[3], good_src[3];
        memcpy(bad_map, used, sizeof used), memcpy(good_map, used, sizeof used);
        memcpy(bad_at, at, sizeof at), memcpy(good_src, src, sizeof src);
        bad_map[2 * (i % 3)] = bad[i]; /* the first of a sequence: 3 tokens come to one at least */
        good_map[2 * (i % 3)] = GDN_NONE;
        judge(s, &check_kernel_gated_delta_net, &spec, "checkpoints.dst", bad_map, "checkpoints.dst", good_map, 0);
        bad_at[i % 3] = i % 2 ? INT32_MAX - length + 1 : -1 - i;
        good_src[i % 3] = GDN_SKIP;
        judge(s, &check_kernel_gated_delta_net, &spec, "position", bad_at, "state_src", good_src, 0);
    }
    check_case c;
    d->seq[0].length = 1; /* from 0: none */
    d->seq[0].checkpoint[0] = d->seq[0].checkpoint[1] = 99;
    d->seq[1].src = GDN_SKIP;
    d->seq[1].checkpoint[0] = INT32_MIN;
    sides_build(&c, &check_kernel_gated_delta_net, &spec);
    sides_expect(s, &c, &s->expected);
    sides_run(s, &c, NULL);
    REQUIRE(!count_wrong(s, &c, 0, -1, -1));
    check_case_free(&c);
}

/* States of 16 bits that are rounded behind every third token: one that stands elsewhere amounts to padding, and a
 * snapshot of another to none. */
static void bad_roundings(sides *s)
{
    static const int32_t src[] = { 6, 0, 2 }, dst[] = { 5, 7, 4 }, base_position[] = { 6, 3, 9 };
    static const int32_t slots[] = { 5, GDN_NONE, 7, GDN_NONE, 4, GDN_NONE };
    check_spec spec;
    delta_spec *d = &spec.gated_delta_net;
    make_delta(d, G_SEQS, src, slots);
    d->n_snapshots = 1;
    d->dtype_state = GDN_BF16;
    d->state_interval = 3;
    d->log_rows = 3;
    d->log_slots = 2 * LENGTH + 2;
    d->map_position = d->map_base_position = 1;
    for (int i = 0; i < G_SEQS; i++) {
        d->seq[i].position = base_position[i] + 3;
        d->seq[i].n_replayed = 3;
        d->seq[i].log_row = i;
    }
    check_case c;
    sides_build(&c, &check_kernel_gated_delta_net, &spec);
    check_target_run(s->device, &c, &s->got);
    check_case_free(&c);
    if (s->got.outcome == CHECK_SKIPPED) /* not every device has elements of 16 bits */
        return;
    for (int i = 0; i < G_SEQS; i++) {
        int32_t bad[3], good[3];
        memcpy(bad, base_position, sizeof bad), memcpy(good, src, sizeof good);
        bad[i] += 1 + i % 2;
        good[i] = GDN_SKIP;
        judge(s, &check_kernel_gated_delta_net, &spec, "log.base_position", bad, "state_src", good, 0);
        memcpy(bad, dst, sizeof bad), memcpy(good, dst, sizeof good);
        d->seq[i].length = 2; /* its state is behind one that was rounded */
        good[i] = GDN_NONE;
        d->seq[i].dst[0] = GDN_NONE;
        judge(s, &check_kernel_gated_delta_net, &spec, "state_dst", bad, "state_dst", good, 0);
        d->seq[i].length = 3;
        d->seq[i].dst[0] = dst[i];
    }
}

static void bad_gated_delta_net(sides *s)
{
    static const int32_t src[] = { 6, 0, 2 }, dst[] = { 6, 7, 1, -1, 3, 2 },
                         bad_slot[] = { G_LAST, INT32_MAX, -3, INT32_MIN };
    const check_kernel *k = &check_kernel_gated_delta_net;
    check_spec spec;
    make_delta(&spec.gated_delta_net, G_SEQS, src, dst);
    for (int i = 0; i < 4; i++) {
        int32_t bad_src[3], good_src[3], bad_dst[6], good_dst[6];
        memcpy(bad_src, src, sizeof src), memcpy(good_src, src, sizeof src);
        memcpy(bad_dst, dst, sizeof dst), memcpy(good_dst, dst, sizeof dst);
        bad_src[i % 3] = bad_slot[i];
        good_src[i % 3] = GDN_SKIP;
        judge(s, k, &spec, "state_src", bad_src, "state_src", good_src, 0);
        bad_dst[i] = bad_slot[i] == -3 ? GDN_SKIP : bad_slot[i]; /* only a source may say skip */
        good_dst[i] = GDN_NONE;
        judge(s, k, &spec, "state_dst", bad_dst, "state_dst", good_dst, 0);
    }
    static const int32_t bad_start[][4] = {
        { 0, 10, 6, 9 }, { 0, -1, 6, 9 }, { 0, INT32_MAX, 6, 9 }, { 0, INT32_MIN, 6, 9 }
    };
    static const int32_t without[] = { GDN_SKIP, GDN_SKIP, 2 }; /* the sequences that the value delimits */
    for (int i = 0; i < 4; i++) judge(s, k, &spec, "seq_start", bad_start[i], "state_src", without, 0);
    static const int32_t descends[] = { 0, 3, 2, 2 }, empty[] = { 0, 3, 3, 3 };
    judge(s, k, &spec, "seq_start", descends, "seq_start", empty, 0);
}

/* With a log: a bad row and a bad place of the state amount to padding, a bad slot for a commit to none. The first
 * sequence has a row, the second none, and the third has no tokens, but a state to commit. Columns just fit. */
static void bad_logs(sides *s, int length)
{
    static const int32_t src[] = { 6, 0, 2 }, dst[6] = { 0 }, position[] = { 11, 5, INT32_MAX },
                         row[] = { 2, GDN_NONE, 0 }, base_position[] = { 8, 5, INT32_MAX - 2 }, commit[] = { 6, 4, 3 };
    const int32_t columns = length + 3;
    const struct {
        const char *map;
        int seq;
        int32_t bad;
    } values[] = {
        { "log.row", 0, 3 },
        { "log.row", 1, INT32_MAX },
        { "log.row", 2, GDN_SKIP },
        { "log.row", 0, INT32_MIN },
        { "log.base_position", 0, 12 },
        { "log.base_position", 0, 7 },
        { "log.base_position", 0, -1 },
        { "log.base_position", 1, 4 },
        { "log.base_position", 2, INT32_MIN },
        { "log.base_position", 2, 0 },
        { "log.base_position", 2, INT32_MAX - columns - 1 },
        { "log.commit", 0, G_LAST },
        { "log.commit", 1, INT32_MAX },
        { "log.commit", 2, GDN_SKIP },
        { "log.commit", 2, INT32_MIN },
    };
    check_spec spec;
    check_case c;
    delta_spec *d = &spec.gated_delta_net;
    make_delta(d, G_SEQS, src, dst);
    d->n_snapshots = d->map_dst = 0;
    d->log_rows = 3;
    d->log_slots = columns;
    d->map_position = d->map_log_row = d->map_base_position = d->map_commit = 1;
    for (int i = 0; i < G_SEQS; i++) {
        d->seq[i].length = i < 2 ? length : 0;
        d->seq[i].position = position[i];
        d->seq[i].n_replayed = position[i] - base_position[i];
        d->seq[i].log_row = row[i];
        d->seq[i].commit = commit[i];
    }
    sides_build(&c, &check_kernel_gated_delta_net, &spec);
    check_target_run(s->device, &c, &s->got);
    check_case_free(&c);
    if (s->got.outcome == CHECK_SKIPPED) /* not every backend knows the log yet */
        return;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const int at_commit = !strcmp(values[i].map, "log.commit"), at_row = !strcmp(values[i].map, "log.row");
        int32_t bad[3], good[3];
        memcpy(bad, at_commit ? commit : at_row ? row : base_position, sizeof bad);
        memcpy(good, at_commit ? commit : src, sizeof good);
        bad[values[i].seq] = values[i].bad;
        good[values[i].seq] = at_commit ? GDN_NONE : GDN_SKIP;
        judge(s, &check_kernel_gated_delta_net, &spec, values[i].map, bad, at_commit ? "log.commit" : "state_src", good,
              0);
    }
    d->seq[1].src = GDN_SKIP; /* padding: its row and where it stands have to be in range, and that is all */
    d->seq[1].n_replayed = 5;
    d->seq[1].commit = INT32_MIN;
    sides_build(&c, &check_kernel_gated_delta_net, &spec);
    sides_expect(s, &c, &s->expected);
    sides_run(s, &c, NULL);
    REQUIRE(!count_wrong(s, &c, 0, -1, -1));
    check_case_free(&c);
    static const int32_t skipped[] = { 6, GDN_SKIP, 2 };
    const int32_t behind[] = { 8, 6, INT32_MAX - 2 }, beyond[] = { 2, 3, 0 };
    judge(s, &check_kernel_gated_delta_net, &spec, "log.base_position", behind, "state_src", skipped, 0);
    judge(s, &check_kernel_gated_delta_net, &spec, "log.row", beyond, "state_src", skipped, 0);
}

/* Entries of state_dst that are not used hold anything: of more snapshots than tokens, of padding, and of a sequence
 * without tokens. Nothing is reported, and the rest is as on the reference, which takes the same maps. */
static void unused_gated_delta_net(sides *s)
{
    static const int32_t src[] = { 6, GDN_SKIP, 0, 2 }, dst[] = { 7, 99, -5, INT32_MAX, INT32_MIN, 8, 3, GDN_SKIP },
                         lengths[] = { 1, 2, 0, 1 };
    check_spec spec;
    check_case c;
    make_delta(&spec.gated_delta_net, 4, src, dst);
    for (int i = 0; i < 4; i++) spec.gated_delta_net.seq[i].length = lengths[i];
    for (int none = 0; none < 2; none++) { /* snapshots: then no state is written at all */
        if (none) spec.gated_delta_net.n_snapshots = spec.gated_delta_net.map_dst = 0;
        sides_build(&c, &check_kernel_gated_delta_net, &spec);
        sides_expect(s, &c, &s->expected);
        sides_run(s, &c, NULL);
        REQUIRE(!count_wrong(s, &c, 0, -1, -1));
        check_case_free(&c);
    }
}

/* ---- ssm_conv -------------------------------------------------------------------------------------------- */

enum { C_SEQS = 3, C_ROWS = 4 };

/* `length` tokens for each sequence: short ones are one dispatch, long ones are cut. */
static void bad_ssm_conv(sides *s, int32_t length)
{
    static const int32_t position[] = { 7, 0, 12 }, src[] = { 2, -1, 0 }, dst[] = { 2, 3, 1 };
    const check_kernel *k = &check_kernel_ssm_conv;
    check_spec any;
    conv_spec *spec = &any.ssm_conv;
    conv_defaults(spec, 20, 4);
    conv_batch(spec, C_SEQS, length);
    spec->silu = spec->map_start = spec->map_position = spec->map_src = spec->map_dst = 1;
    spec->bias = 0;
    spec->n_columns = 5;
    spec->n_rows = spec->n_rows_out = C_ROWS;
    spec->interval = 3;
    spec->n_checkpoints = 1;
    int32_t checkpoint[C_SEQS] = { C_ROWS, C_ROWS + 1, C_ROWS + 2 };
    spec->n_rows = spec->n_rows_out = C_ROWS + C_SEQS;
    for (int i = 0; i < C_SEQS; i++) {
        spec->seq[i].position = position[i], spec->seq[i].src = src[i], spec->seq[i].dst = dst[i];
        spec->seq[i].checkpoint[0] = checkpoint[i];
    }
    const struct {
        const char *map;
        const int32_t *good;
        int32_t bad;
    } values[] = {
        { "position", position, -1 },
        { "position", position, INT32_MAX },
        { "position", position, INT32_MIN },
        { "position", position, INT32_MAX - length + 1 },
        { "history_src", src, C_ROWS + C_SEQS },
        { "history_src", src, INT32_MAX },
        { "history_src", src, -3 },
        { "history_dst", dst, C_ROWS + C_SEQS },
        { "history_dst", dst, INT32_MAX },
        { "history_dst", dst, GDN_SKIP },
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        int32_t bad[C_SEQS], without[C_SEQS];
        memcpy(bad, values[i].good, sizeof bad), memcpy(without, src, sizeof without);
        bad[i % C_SEQS] = values[i].bad;
        without[i % C_SEQS] = GDN_SKIP;
        judge(s, k, &any, values[i].map, bad, "history_src", without, 0);
    }
    const int32_t rows[] = { C_ROWS + C_SEQS, GDN_SKIP, INT32_MAX, INT32_MIN };
    for (int i = 0; i < 4; i++) {
        int32_t bad[C_SEQS], none[C_SEQS];
        memcpy(bad, checkpoint, sizeof bad), memcpy(none, checkpoint, sizeof none);
        bad[i % C_SEQS] = rows[i];
        none[i % C_SEQS] = GDN_NONE;
        judge(s, k, &any, "checkpoints.dst", bad, "checkpoints.dst", none, 0);
    }
    const int32_t total = C_SEQS * length, between[] = { total + 1, -1, INT32_MAX, INT32_MIN },
                  without[] = { GDN_SKIP, GDN_SKIP, 0 };
    for (int i = 0; i < 4; i++) {
        const int32_t bad[] = { 0, between[i], 2 * length, total };
        judge(s, k, &any, "seq_start", bad, "history_src", without, 1);
    }
    const int32_t descends[] = { 0, length, length - 1, length - 1 }, empty[] = { 0, length, length, length };
    judge(s, k, &any, "seq_start", descends, "seq_start", empty, 1);
}

/* ---- Trees: a parent that is none, a sequence without a row of the log and one that leaves too little of a history
 * amount to padding. */

static void bad_trees(sides *s)
{
    static const int32_t src[] = { 6, 0, 2 }, dst[6] = { 0 }, row[] = { 2, GDN_NONE, 0 },
                         skipped[] = { 6, GDN_SKIP, 2 }, without[] = { 0, GDN_SKIP, 2 },
                         parent[] = { -1, 0, 0, -1, -1, 0, -1, 0, 1 };
    static const struct {
        int token;
        int32_t bad;
    } values[] = { { 3, 0 }, { 4, 1 }, { 5, 2 }, { 5, GDN_SKIP }, { 3, INT32_MIN }, { 4, INT32_MAX } };
    check_spec delta, conv;
    delta_spec *d = &delta.gated_delta_net;
    conv_spec *c = &conv.ssm_conv;
    static const int parents[3][3] = { { -1, 0, 0 }, { -1, -1, 0 }, { -1, 0, 1 } };
    make_delta(d, G_SEQS, src, dst);
    d->n_snapshots = d->map_dst = 0;
    d->log_rows = 3;
    d->log_slots = LENGTH;
    d->tree = d->map_parent = d->map_log_row = 1;
    conv_defaults(c, 20, 4);
    conv_batch(c, 3, LENGTH);
    c->n_columns = 3 + LENGTH;
    c->tree = c->map_parent = c->map_src = c->map_start = 1;
    for (int i = 0; i < G_SEQS; i++) {
        d->seq[i].parent = c->seq[i].parent = parents[i];
        d->seq[i].log_row = 2 - i;
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        int32_t bad[9];
        memcpy(bad, parent, sizeof bad);
        bad[values[i].token] = values[i].bad;
        judge(s, &check_kernel_gated_delta_net, &delta, "tree.parent", bad, "state_src", skipped, 0);
        judge(s, &check_kernel_ssm_conv, &conv, "tree.parent", bad, "history_src", without, 0);
    }
    judge(s, &check_kernel_gated_delta_net, &delta, "log.row", row, "state_src", skipped, 0);
    c->n_columns--;
    c->seq[0].length = c->seq[2].length = 2;
    static const int32_t fewer[] = { -1, 0, -1, -1, 0, -1, 0 };
    judge(s, &check_kernel_ssm_conv, &conv, "tree.parent", fewer, "history_src", without, 0);
    /* Of padding nothing is looked at. */
    check_case quiet;
    d->seq[1].src = GDN_SKIP;
    sides_build(&quiet, &check_kernel_gated_delta_net, &delta);
    int32_t any[9];
    memcpy(any, parent, sizeof any);
    any[3] = any[4] = 77;
    check_put_map(&quiet, "tree.parent", any);
    sides_expect(s, &quiet, &s->expected);
    sides_run(s, &quiet, NULL);
    REQUIRE(!count_wrong(s, &quiet, 0, -1, -1));
    check_case_free(&quiet);
}

/* ---- Calls without tokens: they have nothing to compute, and no operands, and their maps are judged all the same.
 * -------- */

static void empty_call(sides *s, const check_kernel *kernel, const check_spec *spec, const char *map, int n,
                       int32_t bad)
{
    int32_t values[3] = { 0 };
    check_case c;
    sides_build(&c, kernel, spec);
    check_put_map(&c, map, values);
    sides_run(s, &c, NULL);
    values[n - 1] = bad;
    check_put_map(&c, map, values);
    sides_run(s, &c, map);
    check_case_free(&c);
}

static void bad_maps_of_empty_calls(sides *s)
{
    static const int32_t src[] = { 6, 2 }, dst[] = { 6, 7, 3, 2 };
    check_spec delta, conv;
    make_delta(&delta.gated_delta_net, 2, src, dst);
    conv_defaults(&conv.ssm_conv, 20, 4);
    conv_batch(&conv.ssm_conv, 2, 0);
    conv.ssm_conv.map_start = conv.ssm_conv.map_position = 1;
    for (int i = 0; i < 2; i++) delta.gated_delta_net.seq[i].length = 0;
    empty_call(s, &check_kernel_gated_delta_net, &delta, "seq_start", 3, 1);
    empty_call(s, &check_kernel_gated_delta_net, &delta, "state_src", 2, G_LAST);
    empty_call(s, &check_kernel_ssm_conv, &conv, "seq_start", 3, 1);
    empty_call(s, &check_kernel_ssm_conv, &conv, "position", 2, -1);
}

/* ---- set_rows -------------------------------------------------------------------------------------------- */

enum { MOST_ROWS = 100, TARGETS = 150 };

/* n_rows rows: few are compared with each other, many go through a table. */
static void bad_set_rows(sides *s, int n_rows, int32_t index_dtype)
{
    static const int64_t bad[] = { TARGETS,   -2,        INT32_MAX,          INT32_MIN, (INT64_C(1) << 32) + 3,
                                   INT64_MAX, INT64_MIN, -(INT64_C(1) << 32) };
    check_spec spec;
    rows_defaults(&spec.set_rows, 40, n_rows, TARGETS);
    spec.set_rows.dst_type = GDN_F16;
    spec.set_rows.index_type = index_dtype;
    for (int v = 0; v < (index_dtype == GDN_I32 ? 4 : 8); v++) {
        check_case amiss, meant;
        const int before = test_failed;
        sides_build(&amiss, &check_kernel_set_rows, &spec);
        sides_build(&meant, &check_kernel_set_rows, &spec);
        for (int i = 0; i < n_rows; i++) { /* some targets twice */
            check_put_index(&amiss, 0, 0, i, i == 3 + v ? bad[v] : i * 7 % (TARGETS / 2));
            check_put_index(&meant, 0, 0, i, i == 3 + v ? GDN_NONE : i * 7 % (TARGETS / 2));
        }
        sides_expect(s, &meant, &s->expected);
        sides_run(s, &amiss, "index");
        REQUIRE(!count_wrong(s, &amiss, 0, sides_memory(&amiss, "index"), -1));
        if (test_failed != before) (void)printf("    that was a bad value in index\n");
        check_case_free(&amiss);
        check_case_free(&meant);
    }
}

void device_bad_maps(gdn_context *ctx)
{
    int needed = 0;
    sides s;
    REQUIRE(!workspaces_that_shrink(ctx, 3000, &needed));
    if (!sides_open(&s, ctx)) return;
    unused_gated_delta_net(&s);
    bad_gated_delta_net(&s);
    bad_state_checkpoints(&s, LENGTH);
    bad_logs(&s, LENGTH);
    bad_roundings(&s);
    bad_ssm_conv(&s, LENGTH);
    bad_ssm_conv(&s, LONGEST);
    bad_trees(&s);
    bad_maps_of_empty_calls(&s);
    for (int many = 0; many < 2; many++) {
        bad_set_rows(&s, many ? MOST_ROWS : 12, GDN_I32);
        bad_set_rows(&s, many ? MOST_ROWS : 12, GDN_I64);
    }
    bad_state_checkpoints(&s, LONGEST); /* most of the time; what leaves at the first failure seldom comes here */
    bad_logs(&s, LONGEST);
    sides_close(&s);
}
