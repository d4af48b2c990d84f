/* The chunked form: sums of products of digits as floats give the bits of sums as integers. Both are as near to the
 * recurrence in binary64 as docs/guide/chunked.md says. */
#define GDN_REF(name) gdn_float_##name
#define GDN_DIGIT_SUM float
#include "reference/chunked.c"

#include <stdlib.h>

#include "tests/harness.h"

enum { TOKENS = 1000, KEY_HEADS = 1, HEADS = 2, KEYS = 48, VALUES = 32 };

uint64_t gdn_ref_chunked_bytes_any(const gdn_gated_delta_net_call *p);
void gdn_ref_chunked_any(const gdn_gated_delta_net_call *p, int64_t item, void *scratch);

static float q[TOKENS * KEY_HEADS * KEYS], k[TOKENS * KEY_HEADS * KEYS], v[TOKENS * HEADS * VALUES],
    g[TOKENS * HEADS * KEYS], beta[TOKENS * HEADS], out[2][TOKENS * HEADS * VALUES], state[2][HEADS * VALUES * KEYS];

static float uniform(float low, float high) { return low + (high - low) * (float)(draw() >> 8) * 0x1p-24f; }

static void fill(float slowest)
{
    for (int t = 0; t < TOKENS * KEY_HEADS; t++) {
        double norm_k = 0, norm_q = 0;
        for (int i = 0; i < KEYS; i++) {
            k[t * KEYS + i] = uniform(-1, 1), q[t * KEYS + i] = uniform(-1, 1);
            norm_k += (double)k[t * KEYS + i] * (double)k[t * KEYS + i];
            norm_q += (double)q[t * KEYS + i] * (double)q[t * KEYS + i];
        }
        for (int i = 0; i < KEYS; i++) {
            k[t * KEYS + i] /= (float)sqrt(norm_k);
            q[t * KEYS + i] /= (float)sqrt(norm_q);
        }
    }
    for (int i = 0; i < TOKENS * HEADS * VALUES; i++) v[i] = uniform(-1, 1);
    for (int i = 0; i < TOKENS * HEADS * KEYS; i++) g[i] = uniform(slowest, 0);
    for (int i = 0; i < TOKENS * HEADS; i++) beta[i] = uniform(0, 1);
}

static uint64_t at(void *data) { return (uint64_t)(uintptr_t)data; }

static gdn_token_view tokens(float *x, int32_t heads, int32_t inner)
{
    return (
        gdn_token_view){ .data = at(x), .stride_token = 4 * heads * inner, .stride_head = 4 * inner, .dtype = GDN_F32 };
}

static gdn_gated_delta_net_call call_of(int32_t gate, int32_t digits, int which)
{
    gdn_gated_delta_net_call p =
        FIELDS(.n_seqs = 1, .n_tokens = TOKENS, .even_tokens = TOKENS, .n_heads_k = KEY_HEADS,
               .heads_per_key = HEADS / KEY_HEADS, .n_heads_v = HEADS, .head_dim_k = KEYS, .head_dim_v = VALUES,
               .gate = gate, .scale = 1, .beta_factor = 1, .digits = digits, .rounding_interval = GDN_CHUNK,
               .q = tokens(q, KEY_HEADS, KEYS), .k = tokens(k, KEY_HEADS, KEYS), .v = tokens(v, HEADS, VALUES),
               .g = tokens(g, HEADS, gate == GDN_GATE_CHANNEL ? KEYS : 1), .beta = tokens(beta, HEADS, 1),
               .result = tokens(out[which], HEADS, VALUES));
    memset(state[which], 0, sizeof state[which]);
    p.state =
        (gdn_pool_view)FIELDS(.data = at(state[which]), .stride_row = sizeof state[0], .stride_slot = sizeof state[0],
                              .stride_head = 4 * VALUES * KEYS, .stride_line = 4 * KEYS, .n_entries = 1, .n_slots = 1);
    p.state_out = p.state;
    return p;
}

/* The recurrence in binary64: the rms difference of `out` relative to its rms. */
static double error_of(int32_t gate)
{
    static double S[KEYS][VALUES];
    double difference = 0, whole = 0;
    for (int h = 0; h < HEADS; h++) {
        memset(S, 0, sizeof S);
        for (int t = 0; t < TOKENS; t++)
            for (int j = 0; j < VALUES; j++) {
                double kv = 0, o = 0;
                for (int i = 0; i < KEYS; i++) {
                    const float log = gate == GDN_GATE_CHANNEL ? g[(t * HEADS + h) * KEYS + i] : g[t * HEADS + h];
                    S[i][j] *= exp((double)log);
                    kv += S[i][j] * (double)k[t * KEYS + i];
                }
                const double d = (double)beta[t * HEADS + h] * ((double)v[(t * HEADS + h) * VALUES + j] - kv);
                for (int i = 0; i < KEYS; i++) {
                    S[i][j] += (double)k[t * KEYS + i] * d;
                    o += S[i][j] * (double)q[t * KEYS + i];
                }
                const double is = (double)out[0][(t * HEADS + h) * VALUES + j];
                difference += (is - o) * (is - o);
                whole += o * o;
            }
    }
    return sqrt(difference / whole);
}

int main(void)
{
    const float slowest[] = { -1, -0.1f, -1e-3f };
    for (int turn = 0; turn < 3; turn++)
        for (int32_t gate = 0; gate < 2; gate++)
            for (int32_t digits = 2; digits <= 3; digits++) {
                fill(slowest[turn]);
                gdn_gated_delta_net_call p = call_of(gate, digits, 0);
                void *scratch = malloc(gdn_ref_chunked_bytes_any(&p));
                gdn_ref_chunked_any(&p, 0, scratch);
                p = call_of(gate, digits, 1);
                gdn_float_chunked(&p, 0, scratch);
                free(scratch);
                REQUIRE(!memcmp(out[0], out[1], sizeof out[0]), "%d digits, gate %d", (int)digits, (int)gate);
                const double error = error_of(gate);
                REQUIRE(error < (digits == 2 ? 3e-4 : 3e-6) && error > 1e-9, "%d digits, gate %d: an error of %g",
                        (int)digits, (int)gate, error);
                printf("%d digits, gate %d, gates from %g: rms error %.2g\n", (int)digits, (int)gate,
                       (double)slowest[turn], error);
            }
    return test_summary();
}
