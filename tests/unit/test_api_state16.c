/* Calls with states of 16 bits: their arguments and what is refused. And set_rows, which converts pools, with a
 * rounding that goes by values and knows nothing of bits. gdn check has the results: its cases and family state16. */
#include "test_api.h"

#include <math.h>
#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;

/* The valid call has sequences of 2 and 3 tokens; states are read in slots 0 and 3 and written to 1, 0 and 2. */
enum { DIM_K = 16, SLOT = 4 * 32 * DIM_K, SLOTS = 6 };

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

/* ---- The call ------------------------------------------------------------------------------------------ */

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
    /* Maps of padding, and entries that are not used, are not checked. */
    ACCEPTED(on_delta, logged(f); m->state_src[0] = GDN_SKIP; m->base_position[0] = 4; m->state_dst[1] = 0);
    ACCEPTED(on_delta, logged(f); MAP(m->seq_start, 0, 0, 3); MAP(m->state_dst, 0, 0, GDN_NONE, 2));
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
    pools();
}
