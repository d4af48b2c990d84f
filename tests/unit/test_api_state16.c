/* Calls with states of 16 bits: their arguments, what is refused, and what comes out by the words of the header, with a
 * rounding that goes by values and knows nothing of bits. */
#include "test_api.h"

#include <math.h>
#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;

/* The valid call has sequences of 2 and 3 tokens, 2 key heads of 16, 4 value heads of 32; states are read in slots 0
 * and 3 and written to 1, 0 and 2. */
enum {
    HEADS = 4,
    DIM_K = 16,
    DIM_V = 32,
    SLOT = HEADS * DIM_V * DIM_K,
    SLOTS = 6,
    ENTRY = API_LOG_ENTRY,
    COLUMNS = API_LOG_SLOTS,
    DELTAS = 2 * DIM_K,
    DECAYS = DELTAS + HEADS * DIM_V
};

/* ---- The types, by their values ------------------------------------------------------------------------ */

typedef struct format {
    int32_t dtype;
    int bits, least, most; /* of a significand; the exponents of the smallest number and of what is too large */
} format;

static const format formats[] = { { GDN_F16, 11, -24, 16 }, { GDN_BF16, 8, -133, 128 } };

/* To nearest, ties to even: x in units of its last place, as a whole number. */
static double rounded(const format *f, double x)
{
    int exponent;
    if (x == 0 || isnan(x) || isinf(x)) return x;
    (void)frexp(x, &exponent);
    const int unit = exponent - f->bits > f->least ? exponent - f->bits : f->least;
    const double whole = ldexp(rint(ldexp(x, -unit)), unit);
    return fabs(whole) >= ldexp(1, f->most) ? copysign(INFINITY, x) : whole;
}

/* A number of the format. */
static uint16_t encoded(const format *f, double x)
{
    const int fraction = f->bits - 1;
    const unsigned sign = signbit(x) ? 0x8000u : 0;
    int exponent;
    if (isinf(x)) return (uint16_t)(sign | (0x7fffu >> fraction << fraction));
    (void)frexp(x, &exponent);
    const int lowest = f->least + f->bits; /* exponents of numbers that have all bits */
    if (x == 0 || exponent < lowest) return (uint16_t)(sign + (unsigned)ldexp(fabs(x), -f->least));
    return (uint16_t)(sign + ((unsigned)(exponent - lowest) << fraction) +
                      (unsigned)ldexp(fabs(x), f->bits - exponent));
}

static float decoded(const format *f, uint16_t code)
{
    const int fraction = f->bits - 1, exponent = (code & 0x7fff) >> fraction;
    const double part = code & ((1 << fraction) - 1);
    const double size = exponent ? ldexp(part + (1 << fraction), exponent - 1 + f->least) : ldexp(part, f->least);
    return (float)(code & 0x8000 ? -size : size);
}

/* ---- The call ------------------------------------------------------------------------------------------ */

static uint16_t *codes(const delta_memory *m) { return (uint16_t *)(void *)(uintptr_t)m->state; }

/* The states of the valid call, in the type. */
static void narrow(const format *f)
{
    static uint16_t code[SLOTS * SLOT];
    for (int i = 0; i < SLOTS * SLOT; i++) code[i] = encoded(f, rounded(f, delta_mem.state[i]));
    memcpy(delta_mem.state, code, sizeof code);
    d->state.dtype = f->dtype;
    d->state.bytes = sizeof code;
    inputs()->gate_input = GDN_G_LINEAR;
}

static void every(int32_t interval)
{
    delta_args.rounding = (gdn_state_rounding){ .size = sizeof(gdn_state_rounding), .interval = interval };
}

static void logged(const format *f)
{
    narrow(f);
    with_log();
    every(3);
    MAP(delta_mem.base_position, 3, 3);
    MAP(delta_mem.state_dst, 1, GDN_NONE, GDN_NONE, 2);
}

static void arguments(void)
{
    const format *f = &formats[1];
    REFUSED(on_delta, every(1), "rounding is given and state.dtype is 0 (F32)", "must be NULL");
    REFUSED(on_delta, narrow(f); every(-1), "rounding.interval is -1; 1 to 2147483647 are allowed");
    REFUSED(on_delta, narrow(f); every(0), "rounding.interval is 0; 1 to 2147483647 are allowed");
    REFUSED(on_delta, narrow(f); every(2), "rounding.interval is 2 and log is NULL", "needs a log");
    REFUSED(on_delta, logged(f);
            delta_args.checkpoints = ((gdn_checkpoints){
                .size = sizeof(gdn_checkpoints), .interval = 4, .n = 1, .dst = SPAN(delta_mem.checkpoint) }),
            "checkpoints.interval is 4 and rounding.interval is 3; the first must be a multiple");
    REFUSED(on_delta, d->state.dtype = GDN_Q8_0, "state.dtype is 3 (Q8_0)", "allowed: F32, F16, BF16");
    REFUSED(on_delta, narrow(f); d->state_out = d->state;
            d->state_out.dtype = GDN_F16,
            "state_out.dtype is 1 (F16) and state.dtype is 2 (BF16); they must be the same");
    REFUSED(on_delta, narrow(f); d->state.bytes -= 1, "state.bytes is 24575", "24576 bytes");
    REFUSED(on_delta, narrow(f); d->state.offset = 1, "state begins at", "multiple of 2");
    REFUSED(on_delta, narrow(f); d->state.stride[3] = 2 * DIM_K - 2, "state.stride[3] is 30", "at least 32 bytes");
    ACCEPTED(on_delta, narrow(f); d->state.offset = 2; d->state.bytes = 0);
    ACCEPTED(on_delta, narrow(f); every(1));
    SAME(on_delta, narrow(f));
}

static void entries(void)
{
    const format *f = &formats[0];
    delta_memory *const m = &delta_mem;
    ACCEPTED(on_delta, logged(f));
    REFUSED(on_delta, logged(f); m->base_position[0] = 4,
                                 "log.base_position[0] is 4 and rounding.interval is 3; multiples of that are allowed");
    REFUSED(on_delta, logged(f); delta_args.log.base_position.data = NULL,
                                 "log.base_position[0] is 7 (the default, its position) and rounding.interval is 3");
    REFUSED(on_delta, logged(f);
            m->state_dst[1] = 0, "state_dst[0][1] is 0, for the state behind 8 tokens, and rounding.interval is 3");
    REFUSED(on_delta, logged(f); m->state_dst[2] = 5, "state_dst[1][0] is 5, for the state behind 7 tokens");
    REFUSED(on_delta, logged(f); d->state_dst.data = NULL; m->commit[0] = GDN_NONE;
            m->commit[1] = GDN_NONE, "state_dst[0][1] is 1 (the default), for the state behind 8 tokens");
    /* Of padding nothing is looked at, nor what is not used. */
    ACCEPTED(on_delta, logged(f); m->state_src[0] = GDN_SKIP; m->base_position[0] = 4; m->state_dst[1] = 0);
    ACCEPTED(on_delta, logged(f); MAP(m->seq_start, 0, 0, 3); MAP(m->state_dst, 0, 0, GDN_NONE, 2));
}

/* ---- What comes out ------------------------------------------------------------------------------------ */

/* A value row, and how many tokens it has seen. */
typedef struct value_row {
    const format *f;
    int interval, length, h, j;
    float S[DIM_K];
} value_row;

static value_row row_of(const format *f, int interval, int length, const delta_memory *m, int slot, int h, int j)
{
    value_row row = { .f = f, .interval = interval, .length = length, .h = h, .j = j };
    for (int i = 0; i < DIM_K; i++) row.S[i] = decoded(f, codes(m)[slot * SLOT + (h * DIM_V + j) * DIM_K + i]);
    return row;
}

static void updated(value_row *row, const float *k, float a, float delta)
{
    for (int i = 0; i < DIM_K; i++) {
        volatile float decayed = a * row->S[i]; /* rounded by itself */
        row->S[i] = fmaf(k[i], delta, decayed);
    }
    row->length++;
}

/* Behind the output. */
static void narrowed(value_row *row)
{
    for (int i = 0; row->length % row->interval == 0 && i < DIM_K; i++) row->S[i] = (float)rounded(row->f, row->S[i]);
}

/* A token, and what it gives. */
static float stepped(value_row *row, const delta_memory *m, int token)
{
    const float *k = m->k + (token * 2 + row->h / 2) * DIM_K, *q = m->q + (token * 2 + row->h / 2) * DIM_K;
    const volatile float a = m->g[token * HEADS + row->h], kv = a * api_dot(row->S, k);
    const volatile float less = m->v[(token * HEADS + row->h) * DIM_V + row->j] - kv;
    updated(row, k, a, m->beta[token * HEADS + row->h] * less);
    const float out = 0.25f * api_dot(row->S, q);
    narrowed(row);
    return out;
}

static void n_replayed(value_row *row, const delta_memory *m, int log_row, int last)
{
    while (row->length < last) {
        const float *entry = m->log + (log_row * COLUMNS + row->length % COLUMNS) * ENTRY;
        updated(row, entry + row->h / 2 * DIM_K, entry[DECAYS + row->h], entry[DELTAS + row->h * DIM_V + row->j]);
        narrowed(row);
    }
}

static void is_out(const delta_memory *now, const value_row *row, int token, float out)
{
    REQUIRE(!memcmp(&now->out[(token * HEADS + row->h) * DIM_V + row->j], &out, 4));
}

static void is_state(const delta_memory *now, const value_row *row, int slot)
{
    uint16_t code[DIM_K];
    for (int i = 0; i < DIM_K; i++) code[i] = encoded(row->f, row->S[i]);
    REQUIRE(!memcmp(codes(now) + slot * SLOT + (row->h * DIM_V + row->j) * DIM_K, code, sizeof code));
}

/* One row of values after another, after a call with that type. */
typedef void look_at(const format *f, const delta_memory *before, const delta_memory *now, int h, int j, int fork);
static void each_row(const format *f, look_at *look, int fork)
{
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < DIM_V; j++) look(f, on_delta.before, on_delta.first, h, j, fork);
}

/* Rounded behind every token: outputs before that, and snapshots of each. */
static void look_at_every(const format *f, const delta_memory *before, const delta_memory *now, int h, int j, int fork)
{
    (void)fork;
    value_row row = row_of(f, 1, 0, before, 0, h, j);
    for (int t = 0; t < 2; t++) {
        is_out(now, &row, t, stepped(&row, before, t));
        is_state(now, &row, t); /* slots 0 and 1: behind the first token, and the newest */
    }
    row = row_of(f, 1, 0, before, 3, h, j);
    for (int t = 2; t < 5; t++) is_out(now, &row, t, stepped(&row, before, t));
    is_state(now, &row, 2);
}

static void every_token(void)
{
    for (int type = 0; type < 2; type++) {
        ACCEPTED(on_delta, narrow(&formats[type]));
        each_row(&formats[type], look_at_every, 0);
    }
}

/* Behind every third: the columns 3 to 6 repeated, of which that of position 5 makes a sixth token, tokens 7 and 8; and
 * 3, then tokens 4 to 6. */
static void look_at_thirds(const format *f, const delta_memory *before, const delta_memory *now, int h, int j, int fork)
{
    (void)fork;
    value_row row = row_of(f, 3, 3, before, 0, h, j);
    n_replayed(&row, before, 2, 6);
    is_state(now, &row, 4); /* committed: as it was last rounded */
    n_replayed(&row, before, 2, 7);
    for (int t = 0; t < 2; t++) is_out(now, &row, t, stepped(&row, before, t));
    is_state(now, &row, 1);
    row = row_of(f, 3, 3, before, 3, h, j);
    is_state(now, &row, 3);
    n_replayed(&row, before, 0, 4);
    for (int t = 2; t < 5; t++) {
        is_out(now, &row, t, stepped(&row, before, t));
        if (t == 3) is_state(now, &row, 2);
    }
}

static void every_third(void)
{
    for (int type = 0; type < 2; type++) {
        ACCEPTED(on_delta, logged(&formats[type]));
        each_row(&formats[type], look_at_thirds, 0);
    }
}

/* Counted along a branch: behind the second token of the second sequence, which follows its state as the first does, it
 * has 6 tokens, and the third token reads what was rounded. Where two tokens follow the first one, both do. */
static void look_at_branches(const format *f, const delta_memory *before, const delta_memory *now, int h, int j,
                             int fork)
{
    value_row first = row_of(f, 2, 8, before, 0, h, j), second = first;
    is_out(now, &first, 0, stepped(&first, before, 0));
    is_out(now, &second, 1, stepped(&second, before, 1));
    first = row_of(f, 2, 4, before, 3, h, j);
    is_state(now, &first, 3);
    n_replayed(&first, before, 0, 5);
    second = first;
    is_out(now, &first, 2, stepped(&first, before, 2));
    if (fork) second = first; /* of 6 tokens */
    is_out(now, &second, 3, stepped(&second, before, 3));
    is_out(now, fork ? &first : &second, 4, stepped(fork ? &first : &second, before, 4));
}

static void branches(void)
{
    for (int type = 0, fork = 0; type < 2; type += fork, fork = !fork) {
        ACCEPTED(on_delta, logged(&formats[type]); every(2); d->n_snapshots = 0; d->state_dst.data = NULL;
                 delta_args.tree =
                     ((gdn_token_tree){ .size = sizeof(gdn_token_tree), .parent = SPAN(delta_mem.parent) });
                 MAP(delta_mem.position, 8, 5); MAP(delta_mem.base_position, 8, 4);
                 MAP(delta_mem.parent, -1, -1, -1, fork ? 0 : -1, fork ? 0 : 1));
        each_row(&formats[type], look_at_branches, fork);
    }
}

/* A pool is converted by set_rows, with the same rounding, and rows of states go from place to place as they are. */
static void pools(void)
{
    static float wide[2 * SLOT];
    static uint16_t to[2 * SLOT], moved[2 * SLOT];
    int64_t index[2] = { 1, 0 };
    for (int i = 0; i < 2 * SLOT; i++) wide[i] = ldexpf((float)(i * 2654435761u % 8191) - 4095, i % 41 - 36);
    for (int type = 0; type < 2; type++)
        for (int target = 0; target < api_target_count; target++) {
            unsigned char workspace[4096];
            gdn_set_rows_args rows = GDN_INIT(gdn_set_rows_args);
            rows.n_columns = SLOT, rows.n_rows = rows.n_rows_dst = 2;
            rows.src = (gdn_tensor){ .data = wide, .bytes = sizeof wide };
            rows.dst = (gdn_tensor){ .data = to, .bytes = sizeof to, .dtype = formats[type].dtype };
            rows.index = (gdn_tensor){ .data = index, .bytes = sizeof index, .dtype = GDN_I64 };
            rows.workspace = SPAN(workspace);
            REQUIRE(!gdn_set_rows(api_target_list[target].ctx, &rows, NULL));
            for (int i = 0; i < 2 * SLOT; i++)
                REQUIRE(to[(i + SLOT) % (2 * SLOT)] == encoded(&formats[type], rounded(&formats[type], wide[i])));
            to[5] = 0x7fa5; /* a NaN with something in it */
            rows.src = rows.dst;
            rows.dst.data = moved;
            REQUIRE(!gdn_set_rows(api_target_list[target].ctx, &rows, NULL));
            REQUIRE(!memcmp(moved, to + SLOT, sizeof to / 2) && !memcmp(moved + SLOT, to, sizeof to / 2));
        }
}

void test_api_state16(void)
{
    arguments();
    entries();
    every_token();
    every_third();
    branches();
    pools();
}
