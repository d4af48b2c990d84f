/* Bad values in every map, which only the device sees: the sequence or the row is skipped, nothing else is written, the
 * others are computed, and GDN_BAD_MAP names the map, once. What is expected comes from the reference, which is given the
 * map that the documentation says a bad value amounts to. */
#include "tests/device/call.h"
#include "tests/device/device.h"
#include "tests/workspaces.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The call with a bad map on the device, and with the map that this amounts to on the reference. `lenient`: what was
 * not written is right too, since pieces of the token axis find their sequences by a seq_start that ascends. */
static void judge(gdn_context *ctx, const device_kernel *k, const any_args *args, const device_operand *o, int n, int bad, const void *bad_map,
                  int good, const void *good_map, int lenient, const char *name)
{
    device_operand device[MAX_OPERANDS], reference[MAX_OPERANDS];
    for (int i = 0; i < n; i++) {
        device[i] = reference[i] = o[i];
        device[i].host    = malloc(o[i].bytes);
        reference[i].host = malloc(o[i].bytes);
        memcpy(device[i].host, i == bad ? bad_map : o[i].host, o[i].bytes);
        memcpy(reference[i].host, i == good ? good_map : o[i].host, o[i].bytes);
    }
    device_reference(k, *args, reference, n);
    const int before = failures;
    CHECK(device_run(ctx, k, *args, device, n) == GDN_BAD_MAP);
    CHECK(strstr(gdn_last_error(), name));
    CHECK(gdn_poll(ctx) == GDN_OK); /* reported once */
    for (int i = 0; i < n; i++) {
        uint64_t wrong = 0;
        for (uint64_t b = 0; b < o[i].bytes; b += 2) {
            const char *got = (const char *)device[i].host + b, *want = (const char *)reference[i].host + b;
            wrong += memcmp(got, want, 2) && !(lenient && !memcmp(got, (const char *)o[i].host + b, 2));
        }
        CHECK(i == bad || i == good || !wrong);
        free(device[i].host);
        free(reference[i].host);
    }
    if (failures != before)
        (void)printf("    that was a bad value in %s\n", name);
}

/* ---- gated_delta_net ------------------------------------------------------------------------------------- */

enum { TOKENS = 9, LENGTH = 3, G_SEQS = 3, G_HEADS = 2, G_DIM = 32, G_ROWS = 4, G_SLOTS = 2 };

static void bad_gated_delta_net(gdn_context *ctx)
{
    static float q[TOKENS * G_HEADS * G_DIM], g[TOKENS * G_HEADS], out[TOKENS * G_HEADS * G_DIM],
        state[G_ROWS * G_SLOTS * G_HEADS * G_DIM * G_DIM];
    static int32_t start[] = { 0, 3, 6, 9 }, src[] = { 6, 0, 2 }, dst[] = { 6, 7, 1, -1, 3, 2 };
    device_fill(q, sizeof q / 4, 1), device_fill(out, sizeof out / 4, 2), device_fill(state, sizeof state / 4, 3);
    for (size_t i = 0; i < sizeof g / 4; i++)
        g[i] = -0.25f;
    const any_args args = { .gated_delta_net = { .size = sizeof args.gated_delta_net, .n_seqs = G_SEQS, .n_tokens = TOKENS,
        .n_heads_k = G_HEADS, .n_heads_v = G_HEADS, .head_dim_k = G_DIM, .head_dim_v = G_DIM, .n_rows = G_ROWS, .n_slots = G_SLOTS } };
#define FIELD(name) offsetof(gdn_gated_delta_net_args, name)
    enum { START = 7, SRC, DST };
    const device_operand o[] = {
        { FIELD(q), q, sizeof q }, { FIELD(k), q, sizeof q }, { FIELD(v), q, sizeof q }, { FIELD(g), g, sizeof g },
        { FIELD(beta), g, sizeof g }, { FIELD(out), out, sizeof out }, { FIELD(state), state, sizeof state },
        { FIELD(seq_start), start, sizeof start }, { FIELD(state_src), src, sizeof src }, { FIELD(state_dst), dst, sizeof dst },
    };
#undef FIELD
    const int n = sizeof o / sizeof o[0];
    static const int32_t bad_slot[] = { G_ROWS * G_SLOTS, INT32_MAX, -3, INT32_MIN };
    for (int i = 0; i < 4; i++) {
        int32_t bad_src[3], good_src[3], bad_dst[6], good_dst[6];
        memcpy(bad_src, src, sizeof src), memcpy(good_src, src, sizeof src);
        memcpy(bad_dst, dst, sizeof dst), memcpy(good_dst, dst, sizeof dst);
        bad_src[i % 3]  = bad_slot[i];
        good_src[i % 3] = GDN_SKIP;
        judge(ctx, &device_kernel_gated_delta_net, &args, o, n, SRC, bad_src, SRC, good_src, 0, "state_src");
        bad_dst[i]  = bad_slot[i] == -3 ? GDN_SKIP : bad_slot[i]; /* only a source may say skip */
        good_dst[i] = GDN_NONE;
        judge(ctx, &device_kernel_gated_delta_net, &args, o, n, DST, bad_dst, DST, good_dst, 0, "state_dst");
    }
    static const int32_t bad_start[][4] = { { 0, TOKENS + 1, 6, 9 }, { 0, -1, 6, 9 }, { 0, INT32_MAX, 6, 9 }, { 0, INT32_MIN, 6, 9 } };
    static const int32_t without[] = { GDN_SKIP, GDN_SKIP, 2 }; /* the sequences that the value delimits */
    for (int i = 0; i < 4; i++)
        judge(ctx, &device_kernel_gated_delta_net, &args, o, n, START, bad_start[i], SRC, without, 0, "seq_start");
    static const int32_t descends[] = { 0, 3, 2, 2 }, empty[] = { 0, 3, 3, 3 };
    judge(ctx, &device_kernel_gated_delta_net, &args, o, n, START, descends, START, empty, 0, "seq_start");
}

/* Entries of state_dst that are not used hold anything: of more snapshots than tokens, of padding, and of a sequence without
 * tokens. Nothing is reported, and the rest is as on the reference, which takes the same maps. */
static void unused_gated_delta_net(gdn_context *ctx)
{
    enum { USED = 4 };
    static float q[USED * G_HEADS * G_DIM], g[USED * G_HEADS], out[2][USED * G_HEADS * G_DIM],
        state[2][G_ROWS * G_SLOTS * G_HEADS * G_DIM * G_DIM];
    int32_t start[] = { 0, 1, 3, 3, 4 }, src[] = { 6, GDN_SKIP, 0, 2 }, dst[] = { 7, 99, -5, INT32_MAX, INT32_MIN, 8, 3, GDN_SKIP };
    device_fill(q, sizeof q / 4, 11), device_fill(out[0], sizeof out[0] / 4, 12), device_fill(state[0], sizeof state[0] / 4, 13);
    memcpy(out[1], out[0], sizeof out[0]), memcpy(state[1], state[0], sizeof state[0]);
    const any_args args = { .gated_delta_net = { .size = sizeof args.gated_delta_net, .n_seqs = 4, .n_tokens = USED, .n_heads_k = G_HEADS,
        .n_heads_v = G_HEADS, .head_dim_k = G_DIM, .head_dim_v = G_DIM, .n_rows = G_ROWS, .n_slots = G_SLOTS } };
    for (int device = 0; device < 2; device++) {
#define FIELD(name) offsetof(gdn_gated_delta_net_args, name)
        const device_operand o[] = {
            { FIELD(q), q, sizeof q }, { FIELD(k), q, sizeof q }, { FIELD(v), q, sizeof q }, { FIELD(g), g, sizeof g },
            { FIELD(beta), g, sizeof g }, { FIELD(out), out[device], sizeof out[0] }, { FIELD(state), state[device], sizeof state[0] },
            { FIELD(seq_start), start, sizeof start }, { FIELD(state_src), src, sizeof src }, { FIELD(state_dst), dst, sizeof dst },
        };
#undef FIELD
        const int n = sizeof o / sizeof o[0];
        if (device)
            CHECK(device_run(ctx, &device_kernel_gated_delta_net, args, o, n) == GDN_OK);
        else
            device_reference(&device_kernel_gated_delta_net, args, o, n);
    }
    CHECK(!memcmp(out[0], out[1], sizeof out[0]) && !memcmp(state[0], state[1], sizeof state[0]));
}

/* ---- ssm_conv -------------------------------------------------------------------------------------------- */

enum { C_SEQS = 3, CHANNELS = 20, WIDTH = 4, COLUMNS = 5, C_ROWS = 4, LONGEST = 40 };

/* `length` tokens for each sequence: short ones are one dispatch, long ones are cut. */
static void bad_ssm_conv(gdn_context *ctx, int32_t length)
{
    static float x[C_SEQS * LONGEST * CHANNELS], weight[CHANNELS * WIDTH], out[C_SEQS * LONGEST * CHANNELS], history[C_ROWS * COLUMNS * CHANNELS];
    const int32_t total = C_SEQS * length;
    int32_t start[] = { 0, length, 2 * length, total }, position[] = { 7, 0, 12 }, src[] = { 2, -1, 0 }, dst[] = { 2, 3, 1 };
    device_fill(x, sizeof x / 4, 4), device_fill(weight, sizeof weight / 4, 5), device_fill(out, sizeof out / 4, 6), device_fill(history, sizeof history / 4, 7);
    const any_args args = { .ssm_conv = { .size = sizeof args.ssm_conv, .flags = GDN_CONV_SILU, .n_seqs = C_SEQS, .n_tokens = total,
        .n_channels = CHANNELS, .kernel_width = WIDTH, .n_rows = C_ROWS, .n_columns = COLUMNS } };
#define FIELD(name) offsetof(gdn_ssm_conv_args, name)
    enum { START = 4, POSITION, SRC, DST };
    const device_operand o[] = {
        { FIELD(x), x, sizeof x }, { FIELD(weight), weight, sizeof weight }, { FIELD(out), out, sizeof out },
        { FIELD(history), history, sizeof history }, { FIELD(seq_start), start, sizeof start },
        { FIELD(position), position, sizeof position }, { FIELD(history_src), src, sizeof src }, { FIELD(history_dst), dst, sizeof dst },
    };
#undef FIELD
    const int n = sizeof o / sizeof o[0];
    const struct {
        const char    *name;
        int            map;
        const int32_t *good;
        int32_t        bad;
    } values[] = {
        { "position", POSITION, position, -1 }, { "position", POSITION, position, INT32_MAX }, { "position", POSITION, position, INT32_MIN },
        { "position", POSITION, position, INT32_MAX - length + 1 },
        { "history_src", SRC, src, C_ROWS }, { "history_src", SRC, src, INT32_MAX }, { "history_src", SRC, src, -3 },
        { "history_dst", DST, dst, C_ROWS }, { "history_dst", DST, dst, INT32_MAX }, { "history_dst", DST, dst, GDN_SKIP },
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        int32_t bad[C_SEQS], without[C_SEQS];
        memcpy(bad, values[i].good, sizeof bad), memcpy(without, src, sizeof without);
        bad[i % C_SEQS]     = values[i].bad;
        without[i % C_SEQS] = GDN_SKIP;
        judge(ctx, &device_kernel_ssm_conv, &args, o, n, values[i].map, bad, SRC, without, 0, values[i].name);
    }
    const int32_t between[] = { total + 1, -1, INT32_MAX, INT32_MIN }, without[] = { GDN_SKIP, GDN_SKIP, 0 };
    for (int i = 0; i < 4; i++) {
        const int32_t bad[] = { 0, between[i], 2 * length, total };
        judge(ctx, &device_kernel_ssm_conv, &args, o, n, START, bad, SRC, without, 1, "seq_start");
    }
    const int32_t descends[] = { 0, length, length - 1, length - 1 }, empty[] = { 0, length, length, length };
    judge(ctx, &device_kernel_ssm_conv, &args, o, n, START, descends, START, empty, 1, "seq_start");
}

/* ---- Calls without tokens: they have nothing to compute, and no operands, and their maps are judged all the same. -------- */

static void empty_call(gdn_context *ctx, const device_kernel *k, const any_args *args, uint64_t field, int32_t *map, int n, int32_t bad,
                       const char *name)
{
    const device_operand o = { field, map, (uint64_t)n * 4 };
    CHECK(device_run(ctx, k, *args, &o, 1) == GDN_OK);
    map[n - 1] = bad;
    CHECK(device_run(ctx, k, *args, &o, 1) == GDN_BAD_MAP);
    CHECK(strstr(gdn_last_error(), name));
}

static void bad_maps_of_empty_calls(gdn_context *ctx)
{
    const any_args delta = { .gated_delta_net = { .size = sizeof delta.gated_delta_net, .n_seqs = 2, .n_heads_k = G_HEADS, .n_heads_v = G_HEADS,
        .head_dim_k = G_DIM, .head_dim_v = G_DIM, .n_rows = G_ROWS, .n_slots = G_SLOTS } };
    const any_args conv = { .ssm_conv = { .size = sizeof conv.ssm_conv, .n_seqs = 2, .n_channels = CHANNELS, .kernel_width = WIDTH } };
#define EMPTY(kernel, args, map, n, bad) \
    empty_call(ctx, &device_kernel_##kernel, &args, offsetof(gdn_##kernel##_args, map), (int32_t[3]){ 0 }, n, bad, #map)
    EMPTY(gated_delta_net, delta, seq_start, 3, 1);
    EMPTY(gated_delta_net, delta, state_src, 2, G_ROWS * G_SLOTS);
    EMPTY(ssm_conv, conv, seq_start, 3, 1);
    EMPTY(ssm_conv, conv, position, 2, -1);
#undef EMPTY
}

/* ---- set_rows -------------------------------------------------------------------------------------------- */

enum { R_COLUMNS = 40, MOST_ROWS = 100, TARGETS = 150 };

/* n_rows rows: few are compared with each other, many go through a table. */
static void bad_set_rows(gdn_context *ctx, int n_rows, int32_t index_dtype)
{
    static float src[MOST_ROWS * R_COLUMNS];
    static uint16_t dst[TARGETS * R_COLUMNS];
    int64_t index[MOST_ROWS], bad_index[MOST_ROWS], good_index[MOST_ROWS];
    int32_t narrow[3][MOST_ROWS];
    static const int64_t bad[] = { TARGETS, -2, INT32_MAX, INT32_MIN, (INT64_C(1) << 32) + 3, INT64_MAX, INT64_MIN, -(INT64_C(1) << 32) };
    device_fill(src, sizeof src / 4, 8);
    memset(dst, 0x55, sizeof dst);
    any_args args = { .set_rows = { .size = sizeof args.set_rows, .n_columns = R_COLUMNS, .n_rows = n_rows, .n_rows_dst = TARGETS } };
    args.set_rows.dst.dtype   = GDN_F16;
    args.set_rows.index.dtype = index_dtype;
    for (int v = 0; v < (index_dtype == GDN_I32 ? 4 : 8); v++) {
        for (int i = 0; i < n_rows; i++) /* some targets twice */
            index[i] = bad_index[i] = good_index[i] = i * 7 % (TARGETS / 2);
        bad_index[3 + v]  = bad[v];
        good_index[3 + v] = GDN_NONE;
        for (int i = 0; i < n_rows; i++)
            narrow[0][i] = (int32_t)index[i], narrow[1][i] = (int32_t)bad_index[i], narrow[2][i] = (int32_t)good_index[i];
        const int      is_narrow = index_dtype == GDN_I32;
        const device_operand o[] = {
            { offsetof(gdn_set_rows_args, src), src, (uint64_t)n_rows * R_COLUMNS * 4 }, { offsetof(gdn_set_rows_args, dst), dst, sizeof dst },
            { offsetof(gdn_set_rows_args, index), is_narrow ? (void *)narrow[0] : (void *)index, (uint64_t)n_rows * (is_narrow ? 4 : 8) },
        };
        judge(ctx, &device_kernel_set_rows, &args, o, 3, 2, is_narrow ? (void *)narrow[1] : (void *)bad_index, 2,
              is_narrow ? (void *)narrow[2] : (void *)good_index, 0, "index");
    }
}

void device_bad_maps(gdn_context *ctx)
{
    int needed = 0;
    CHECK(!workspaces_that_shrink(ctx, 3000, &needed));
    unused_gated_delta_net(ctx);
    bad_gated_delta_net(ctx);
    bad_ssm_conv(ctx, LENGTH);
    bad_ssm_conv(ctx, LONGEST);
    bad_maps_of_empty_calls(ctx);
    for (int many = 0; many < 2; many++) {
        bad_set_rows(ctx, many ? MOST_ROWS : 12, GDN_I32);
        bad_set_rows(ctx, many ? MOST_ROWS : 12, GDN_I64);
    }
}
