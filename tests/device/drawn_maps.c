/* Drawn calls with one bad value in one of their maps, or none: with every map there or absent, with a history or without,
 * few tokens per sequence or many, so that every way of cutting a call is met. What is expected is made of calls of the
 * reference, one for each sequence that the maps leave. */
#include <stdlib.h>
#include <string.h>

#include "tests/device/call.h"
#include "tests/device/device.h"

static int between(uint32_t *seed, int low, int high)
{
    *seed = *seed * 1664525u + 1013904223u;
    return low + (int)((*seed >> 8) % (uint32_t)(high - low + 1));
}

/* ---- Batches of sequences ---------------------------------------------------------------------------------- */

enum { MAX_SEQS = 4, SLOTS = 2, START, POSITION, SRC, DST, N_MAPS };
static const char *const map_names[N_MAPS] = { [START] = "seq_start", [POSITION] = "position", [SRC] = "src", [DST] = "dst" };

/* A call of gated_delta_net or ssm_conv, and what its maps say. Of absent maps, the entries are what absence means. */
typedef struct batch {
    const device_kernel *kernel;
    any_args       args;
    int            n_seqs, n_tokens;
    int            per_seq;              /* entries of dst for a sequence */
    int            entries;              /* that src and dst may name     */
    int            has[N_MAPS];
    int32_t        map[N_MAPS][2 * MAX_SEQS + 1];
    size_t         field[N_MAPS];
    device_operand o[MAX_OPERANDS];      /* all but the maps */
    int            n;
    int            written[MAX_OPERANDS]; /* 1: a result */
} batch;

typedef struct bad_values {
    int must, may; /* are reported: where the value is used, or not */
} bad_values;

static int length_of(const batch *b, int s)
{
    const int64_t first = b->map[START][s], after = b->map[START][s + 1];
    return first < 0 || after < first || after > b->n_tokens ? -1 : (int)(after - first);
}

/* 1: the maps leave this sequence. Counts what is bad about it; bad entries of gated_delta_net's state_dst become GDN_NONE in
 * *alone, the arguments of the sequence by itself. */
static int is_left(const batch *b, int s, bad_values *bad, int32_t alone[SLOTS])
{
    const int T = length_of(b, s), delta = b->kernel == &device_kernel_gated_delta_net;
    const int32_t src = b->map[SRC][s], position = b->map[POSITION][s];
    int left = T > 0 && src != GDN_SKIP;
    bad->must += T < 0;
    if (src < GDN_SKIP || src >= b->entries) {
        T > 0 ? bad->must++ : bad->may++;
        left = 0;
    }
    if (position < 0 || (T > 0 && position > INT32_MAX - T)) {
        left ? bad->must++ : bad->may++;
        left = 0;
    }
    int whole = left;
    for (int r = 0; r < b->per_seq; r++) {
        alone[r] = b->map[DST][s * b->per_seq + r];
        if (alone[r] >= GDN_NONE && alone[r] < b->entries)
            continue;
        left && r < T ? bad->must++ : bad->may++;
        alone[r] = GDN_NONE;
        whole &= delta; /* whose other snapshots are written */
    }
    return whole;
}

/* Sequence s by itself on the reference, with the operands in o. */
static void run_alone(const batch *b, int s, const int32_t *dst, device_operand *o)
{
    any_args args = b->args;
    int n = b->n;
    int32_t start[2] = { b->map[START][s], b->map[START][s + 1] }, src = b->map[SRC][s], position = b->map[POSITION][s], targets[SLOTS];
    memcpy(targets, dst, sizeof targets);
    o[n++] = (device_operand){ b->field[START], start, sizeof start };
    o[n++] = (device_operand){ b->field[SRC], &src, sizeof src };
    o[n++] = (device_operand){ b->field[DST], targets, 4 * (uint64_t)b->per_seq };
    if (b->kernel == &device_kernel_ssm_conv) {
        args.ssm_conv.n_seqs = 1;
        o[n++] = (device_operand){ b->field[POSITION], &position, sizeof position };
    } else {
        args.gated_delta_net.n_seqs = 1;
    }
    device_reference(b->kernel, args, o, n);
}

static void copy_operands(const batch *b, device_operand *to)
{
    for (int i = 0; i < b->n; i++) {
        to[i] = b->o[i];
        to[i].host = malloc(b->o[i].bytes);
        memcpy(to[i].host, b->o[i].host, b->o[i].bytes);
    }
}

static void free_operands(device_operand *o, int n)
{
    for (int i = 0; i < n; i++)
        free(o[i].host);
}

/* Pieces of the token axis find their sequences by a seq_start that ascends; where it does not, others may be left out too, and
 * tokens that two sequences claim are of either. So then every element is what it was, or what some sequence that is left
 * makes of it by itself. */
static void judge(gdn_context *ctx, const batch *b, int bad_map, int number)
{
    device_operand device[MAX_OPERANDS], together[MAX_OPERANDS], alone[MAX_SEQS][MAX_OPERANDS];
    int32_t maps[N_MAPS][2 * MAX_SEQS + 1], dst[SLOTS];
    bad_values bad = { 0, 0 };
    int left[MAX_SEQS] = { 0 }, n = b->n;
    const int before = failures;
    copy_operands(b, together);
    for (int s = 0; s < b->n_seqs; s++)
        if ((left[s] = is_left(b, s, &bad, dst)) != 0) {
            copy_operands(b, alone[s]);
            run_alone(b, s, dst, alone[s]);
            run_alone(b, s, dst, together);
        }
    copy_operands(b, device);
    memcpy(maps, b->map, sizeof maps);
    for (int m = START; m < N_MAPS; m++)
        if (b->has[m])
            device[n++] = (device_operand){ b->field[m], maps[m],
                                            4 * (uint64_t)(m == START ? b->n_seqs + 1 : m == DST ? b->per_seq * b->n_seqs : b->n_seqs) };
    const gdn_status status = device_run(ctx, b->kernel, b->args, device, n);
    CHECK(status == GDN_BAD_MAP ? bad.must + bad.may : status == GDN_OK && !bad.must);
    CHECK(status == GDN_OK || strstr(gdn_last_error(), map_names[bad_map]));
    CHECK(gdn_poll(ctx) == GDN_OK); /* reported once */
    CHECK(!memcmp(maps, b->map, sizeof maps));
    for (int i = 0; i < b->n; i++) {
        uint64_t wrong = 0;
        for (uint64_t at = 0; at < b->o[i].bytes; at += 4) {
            const char *got = (const char *)device[i].host + at, *was = (const char *)b->o[i].host + at;
            int good = !memcmp(got, (const char *)together[i].host + at, 4);
            if (bad_map == START && b->written[i]) {
                good |= !memcmp(got, was, 4);
                for (int s = 0; s < b->n_seqs; s++)
                    good |= left[s] && !memcmp(got, (const char *)alone[s][i].host + at, 4);
            }
            wrong += !good;
        }
        CHECK(!wrong);
    }
    if (failures != before)
        (void)printf("    that was drawn call %d: %s, %d sequences, %d tokens, maps%s%s%s%s, a bad value in %s, pool of %d\n", number,
                     b->kernel == &device_kernel_ssm_conv ? "ssm_conv" : "gated_delta_net", b->n_seqs, b->n_tokens,
                     b->has[START] ? " seq_start" : "", b->has[POSITION] ? " position" : "", b->has[SRC] ? " src" : "",
                     b->has[DST] ? " dst" : "", bad_map ? map_names[bad_map] : "none", b->entries);
    free_operands(device, b->n);
    free_operands(together, b->n);
    for (int s = 0; s < b->n_seqs; s++)
        if (left[s])
            free_operands(alone[s], b->n);
}

/* Lengths, and which maps there are. Few: up to 4 tokens for each sequence, or more than 16 on average. */
static void draw_sequences(batch *b, int many, uint32_t *seed)
{
    int32_t *start = b->map[START];
    b->n_seqs = between(seed, 1, MAX_SEQS);
    for (int m = START; m < N_MAPS; m++)
        b->has[m] = between(seed, 0, 2) > 0;
    const int even = many ? between(seed, 17, 70) : between(seed, 1, 4);
    start[0] = b->has[START] ? between(seed, 0, 2) : 0;
    for (int s = 0; s < b->n_seqs; s++)
        start[s + 1] = start[s] + (!b->has[START] ? even : many && s == 0 ? 17 * b->n_seqs : between(seed, 0, many ? 70 : 4));
    b->n_tokens = start[b->n_seqs] + (b->has[START] ? between(seed, 0, 2) : 0);
    b->n_tokens += !b->n_tokens; /* one that nobody owns */
}

/* A value out of range in one of the maps that are there; which, or 0. */
static int spoil(batch *b, uint32_t *seed)
{
    int there[N_MAPS], n = 0;
    for (int m = START; m < N_MAPS; m++)
        if (b->has[m])
            there[n++] = m;
    if (!n || between(seed, 0, 7) == 0)
        return 0;
    const int m = there[between(seed, 0, n - 1)], kind = between(seed, 0, 5);
    int32_t *map = b->map[m];
    if (m == START) {
        const int i = between(seed, 0, b->n_seqs);
        const int32_t values[] = { -1, INT32_MIN, b->n_tokens + 1, INT32_MAX, i ? map[i - 1] - 1 : -2, i < b->n_seqs ? map[i + 1] + 1 : -3 };
        map[i] = values[kind];
    } else if (m == POSITION) {
        const int s = between(seed, 0, b->n_seqs - 1), T = length_of(b, s);
        const int32_t values[] = { -1, INT32_MIN, INT32_MAX, INT32_MAX - T + (T > 0), -2, -INT32_MAX };
        map[s] = values[kind];
    } else {
        const int i = between(seed, 0, b->n_seqs * (m == DST ? b->per_seq : 1) - 1);
        const int32_t values[] = { b->entries, INT32_MAX, m == DST ? GDN_SKIP : -3, INT32_MIN, b->entries + 1, -3 };
        map[i] = values[kind];
    }
    return m;
}

static void add(batch *b, size_t field, void *host, uint64_t bytes, int written)
{
    b->written[b->n] = written;
    b->o[b->n++] = (device_operand){ field, host, bytes };
}

enum { MOST_TOKENS = 2 + 17 * MAX_SEQS + 70 * MAX_SEQS + 2, ROWS = MAX_SEQS + 2, HEADS_OF = 2, MOST_DIM = 64, CHANNELS = 20, COLUMNS = 5 };

static void draw_gated_delta_net(gdn_context *ctx, int number, uint32_t *seed)
{
    static float q[MOST_TOKENS * HEADS_OF * MOST_DIM], g[MOST_TOKENS * HEADS_OF], out[MOST_TOKENS * HEADS_OF * MOST_DIM],
        state[ROWS * SLOTS * HEADS_OF * MOST_DIM * MOST_DIM];
    batch b = { .kernel = &device_kernel_gated_delta_net, .per_seq = SLOTS, .entries = ROWS * SLOTS };
    const int dim = number % 4 ? 32 : MOST_DIM;
    draw_sequences(&b, between(seed, 0, 1), seed);
    b.has[POSITION] = 0;
    const int turn = b.has[SRC] && b.has[DST] ? between(seed, 0, ROWS - 1) : 0; /* no row is of two sequences */
    for (int s = 0; s < b.n_seqs; s++) {
        const int row = (s + turn) % ROWS, kind = between(seed, 0, 5);
        b.map[SRC][s] = !b.has[SRC] ? s * SLOTS : kind == 0 ? GDN_NONE : kind == 1 ? GDN_SKIP : row * SLOTS + kind % SLOTS;
        for (int r = 0; r < SLOTS; r++)
            b.map[DST][s * SLOTS + r] = b.has[DST] && between(seed, 0, 4) == 0 ? GDN_NONE : row * SLOTS + r;
    }
    const int bad = spoil(&b, seed);
    const uint64_t tokens = (uint64_t)b.n_tokens * HEADS_OF * 4;
    device_fill(q, sizeof q / 4, (uint32_t)number), device_fill(out, sizeof out / 4, 2), device_fill(state, sizeof state / 4, 3);
    for (size_t i = 0; i < sizeof g / 4; i++)
        g[i] = -0.25f;
    b.args.gated_delta_net = (gdn_gated_delta_net_args){ .size = sizeof b.args.gated_delta_net, .n_seqs = b.n_seqs, .n_tokens = b.n_tokens,
        .n_heads_k = HEADS_OF, .n_heads_v = HEADS_OF, .head_dim_k = dim, .head_dim_v = dim, .n_rows = ROWS, .n_slots = SLOTS };
#define FIELD(name) offsetof(gdn_gated_delta_net_args, name)
    add(&b, FIELD(q), q, tokens * (uint64_t)dim, 0), add(&b, FIELD(k), q, tokens * (uint64_t)dim, 0), add(&b, FIELD(v), q, tokens * (uint64_t)dim, 0);
    add(&b, FIELD(g), g, tokens, 0), add(&b, FIELD(beta), g, tokens, 0);
    add(&b, FIELD(out), out, tokens * (uint64_t)dim, 1);
    add(&b, FIELD(state), state, (uint64_t)ROWS * SLOTS * HEADS_OF * 4 * (uint64_t)(dim * dim), 1);
    b.field[START] = FIELD(seq_start), b.field[SRC] = FIELD(state_src), b.field[DST] = FIELD(state_dst);
#undef FIELD
    judge(ctx, &b, bad, number);
}

static void draw_ssm_conv(gdn_context *ctx, int number, uint32_t *seed)
{
    static float x[MOST_TOKENS * CHANNELS], weight[CHANNELS * 4], out[MOST_TOKENS * CHANNELS], history[ROWS * COLUMNS * CHANNELS];
    batch b = { .kernel = &device_kernel_ssm_conv, .per_seq = 1 };
    const int with_history = between(seed, 0, 1), width = between(seed, 3, 4);
    draw_sequences(&b, between(seed, 0, 1), seed);
    b.entries = with_history ? ROWS : 0;
    const int turn = b.has[SRC] && b.has[DST] ? between(seed, 0, ROWS - 1) : 0;
    for (int s = 0; s < b.n_seqs; s++) {
        const int row = with_history ? (s + turn) % ROWS : GDN_NONE, kind = between(seed, 0, 5);
        b.map[POSITION][s] = b.has[POSITION] ? between(seed, 0, 9) : 0;
        b.map[SRC][s] = b.has[SRC] && kind < 2 ? (kind ? GDN_SKIP : GDN_NONE) : row;
        b.map[DST][s] = b.has[DST] && between(seed, 0, 4) == 0 ? GDN_NONE : row;
    }
    const int bad = spoil(&b, seed);
    const uint64_t tokens = (uint64_t)b.n_tokens * CHANNELS * 4;
    device_fill(x, sizeof x / 4, (uint32_t)number), device_fill(weight, sizeof weight / 4, 5), device_fill(out, sizeof out / 4, 6);
    device_fill(history, sizeof history / 4, 7);
    b.args.ssm_conv = (gdn_ssm_conv_args){ .size = sizeof b.args.ssm_conv, .flags = GDN_CONV_SILU, .n_seqs = b.n_seqs, .n_tokens = b.n_tokens,
        .n_channels = CHANNELS, .kernel_width = width, .n_rows = with_history ? ROWS : 0, .n_columns = with_history ? COLUMNS : 0 };
#define FIELD(name) offsetof(gdn_ssm_conv_args, name)
    add(&b, FIELD(x), x, tokens, 0), add(&b, FIELD(weight), weight, (uint64_t)CHANNELS * 4 * (uint64_t)width, 0), add(&b, FIELD(out), out, tokens, 1);
    if (with_history)
        add(&b, FIELD(history), history, sizeof history, 1);
    b.field[START] = FIELD(seq_start), b.field[POSITION] = FIELD(position), b.field[SRC] = FIELD(history_src), b.field[DST] = FIELD(history_dst);
#undef FIELD
    judge(ctx, &b, bad, number);
}

/* ---- set_rows -------------------------------------------------------------------------------------------- */

enum { WIDTH_OF = 64, MOST_ROWS = 90, TARGETS = 60 };

/* Up to 64 rows are compared with each other, more go through a table; some targets are named twice. */
static void draw_set_rows(gdn_context *ctx, int number, uint32_t *seed)
{
    static float src[4 * MOST_ROWS * WIDTH_OF], dst[4 * TARGETS * WIDTH_OF], got[4 * TARGETS * WIDTH_OF], want[4 * TARGETS * WIDTH_OF];
    static const int32_t types[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };
    static const uint64_t row_bytes[] = { [GDN_F32] = WIDTH_OF * 4, [GDN_F16] = WIDTH_OF * 2, [GDN_BF16] = WIDTH_OF * 2, [GDN_Q8_0] = WIDTH_OF / 32 * 34 };
    const int64_t far[] = { TARGETS, -2, INT32_MAX, INT32_MIN, (INT64_C(1) << 32) + 3, INT64_MAX, INT64_MIN, -(INT64_C(1) << 32) };
    const int n_rows = between(seed, 0, 1) ? between(seed, 65, MOST_ROWS) : between(seed, 1, 64), batches = between(seed, 1, 2);
    const int wide = between(seed, 0, 1), n = n_rows * batches;
    const int n_bad = between(seed, 0, 4) ? between(seed, 1, 3) : 0;
    int64_t index[2 * MOST_ROWS], good[2 * MOST_ROWS];
    int32_t narrow[2 * MOST_ROWS], narrow_good[2 * MOST_ROWS];
    for (int i = 0; i < n; i++)
        index[i] = good[i] = between(seed, 0, 9) ? between(seed, 0, TARGETS - 1) : GDN_NONE;
    for (int i = 0; i < n_bad; i++) {
        const int at = between(seed, 0, n - 1);
        index[at] = far[between(seed, 0, wide ? 7 : 3)];
        good[at]  = GDN_NONE;
    }
    for (int i = 0; i < n; i++)
        narrow[i] = (int32_t)index[i], narrow_good[i] = (int32_t)good[i];
    any_args args = { .set_rows = { .size = sizeof args.set_rows, .n_columns = WIDTH_OF, .n_rows = n_rows, .n_rows_dst = TARGETS,
                                    .n_batch = { between(seed, 1, 2), batches }, .index_batch = { 1, batches } } };
    args.set_rows.dst.dtype   = types[between(seed, 0, 3)];
    args.set_rows.index.dtype = wide ? GDN_I64 : GDN_I32;
    const uint64_t both = (uint64_t)(args.set_rows.n_batch[0] * batches), dst_bytes = both * TARGETS * row_bytes[args.set_rows.dst.dtype];
    device_fill(src, sizeof src / 4, (uint32_t)number), device_fill(dst, sizeof dst / 4, 8);
    memcpy(got, dst, sizeof dst), memcpy(want, dst, sizeof dst);
    device_operand o[] = {
        { offsetof(gdn_set_rows_args, src), src, both * (uint64_t)n_rows * WIDTH_OF * 4 }, { offsetof(gdn_set_rows_args, dst), want, dst_bytes },
        { offsetof(gdn_set_rows_args, index), wide ? (void *)good : (void *)narrow_good, (uint64_t)n * (wide ? 8 : 4) },
    };
    const int before = failures;
    device_reference(&device_kernel_set_rows, args, o, 3);
    o[1].host = got;
    o[2].host = wide ? (void *)index : (void *)narrow;
    const gdn_status status = device_run(ctx, &device_kernel_set_rows, args, o, 3);
    CHECK(status == (n_bad ? GDN_BAD_MAP : GDN_OK) && (!n_bad || strstr(gdn_last_error(), "index")));
    CHECK(gdn_poll(ctx) == GDN_OK);
    CHECK(!memcmp(got, want, sizeof dst));
    if (failures != before)
        (void)printf("    that was drawn call %d: set_rows, %d rows, %d bad values\n", number, n_rows, n_bad);
}

void device_drawn_maps(gdn_context *ctx)
{
    uint32_t seed = 20;
    for (int i = 0; i < 80; i++)
        draw_gated_delta_net(ctx, i, &seed);
    for (int i = 0; i < 300; i++)
        draw_ssm_conv(ctx, i, &seed);
    for (int i = 0; i < 60; i++)
        draw_set_rows(ctx, i, &seed);
}
