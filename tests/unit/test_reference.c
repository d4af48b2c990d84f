/* The reference's two compiled versions (reference/reference.h) give the same bits: drawn problems of every kernel,
 * from numbers of all magnitudes, run by both. Left out where the processor has no fma. */
#include <stdio.h>
#include <string.h>

#include "reference/reference.h"
#include "simd/features.h"

#if defined(__x86_64__)
#include "tests/harness.h"

/* Mostly about 1; some subnormal, zero or large. */
static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = draw(), kind = draw() % 16;
        const uint32_t exponent = kind == 0 ? 0 : kind == 1 ? draw() % 254 : 120 + draw() % 12;
        const uint32_t b = (bits & 0x807fffffu) | exponent << 23;
        memcpy(&x[i], &b, 4);
    }
}

static uint64_t at(void *data) { return (uint64_t)(uintptr_t)data; }

static void compare(const char *what, const float *a, const float *b, size_t n) /* any NaN equals any NaN */
{
    for (size_t i = 0; i < n; i++)
        REQUIRE(!memcmp(&a[i], &b[i], 4) || (a[i] != a[i] && b[i] != b[i]), "%s: number %zu", what, i);
}

enum { SEQS = 2, TOKENS = 6, HEADS = 2, DIM = 48, STATE = SEQS * HEADS * DIM * DIM, OUT = TOKENS * HEADS * DIM };

static gdn_token_view tokens(float *x, int32_t inner)
{
    return (
        gdn_token_view){ .data = at(x), .stride_token = 4 * HEADS * inner, .stride_head = 4 * inner, .dtype = GDN_F32 };
}

/* A pool of SEQS rows with a slot each. */
static gdn_pool_view pool(float *x, int64_t row, int64_t head, int64_t line)
{
    return (gdn_pool_view)FIELDS(.data = at(x), .stride_row = 4 * row, .stride_slot = 4 * row, .stride_head = 4 * head,
                                 .stride_line = 4 * line, .n_entries = SEQS, .n_slots = 1);
}

static void gated_delta_net(int32_t gate, int32_t layout)
{
    static float q[OUT], k[OUT], v[OUT], g[OUT], beta[TOKENS * HEADS], out[2][OUT], state[2][STATE];
    fill(q, OUT), fill(k, OUT), fill(v, OUT), fill(g, OUT), fill(beta, TOKENS * HEADS), fill(state[0], STATE);
    memcpy(state[1], state[0], sizeof state[0]);
    for (int i = 0; i < 2; i++) {
        gdn_gated_delta_net_call p =
            FIELDS(.n_seqs = SEQS, .n_tokens = TOKENS, .even_tokens = TOKENS / SEQS, .n_heads_k = HEADS,
                   .heads_per_key = 1, .n_heads_v = HEADS, .head_dim_k = DIM, .head_dim_v = DIM, .gate = gate,
                   .state_layout = layout, .n_snapshots = 1, .scale = 0.25f, .q = tokens(q, DIM), .k = tokens(k, DIM),
                   .v = tokens(v, DIM), .g = tokens(g, gate == GDN_GATE_CHANNEL ? DIM : 1), .beta = tokens(beta, 1),
                   .result = tokens(out[i], DIM));
        p.state = p.state_out = pool(state[i], HEADS * DIM * DIM, DIM * DIM, DIM);
        for (int64_t item = 0; item < gdn_ref_gated_delta_net_items_any(&p); item++)
            (i ? gdn_ref_gated_delta_net_fma : gdn_ref_gated_delta_net_any)(&p, item, NULL);
    }
    compare("gated_delta_net: out", out[0], out[1], OUT);
    compare("gated_delta_net: state", state[0], state[1], STATE);
}

static void ssm_conv(int32_t silu)
{
    enum { CHANNELS = 100, WIDTH = 4, SLOTS = 3, N = TOKENS * CHANNELS, KEPT = SEQS * SLOTS * CHANNELS };
    static float x[N], weight[CHANNELS * WIDTH], bias[CHANNELS], out[3][N], history[3][KEPT];
    int32_t seq_start[SEQS + 1];
    for (int s = 0; s <= SEQS; s++) seq_start[s] = s * (TOKENS / SEQS);
    fill(x, N), fill(weight, CHANNELS * WIDTH), fill(bias, CHANNELS), fill(history[0], KEPT);
    memcpy(history[1], history[0], sizeof history[0]);
    memcpy(history[2], history[0], sizeof history[0]);
    for (int i = 0; i < 3; i++) { /* the last time with the map that the others have by default */
        gdn_ssm_conv_call p = FIELDS(.n_seqs = SEQS, .n_tokens = TOKENS, .even_tokens = TOKENS / SEQS,
                                     .n_channels = CHANNELS, .kernel_width = WIDTH, .silu = silu, .weight = at(weight),
                                     .weight_stride_channel = 4 * WIDTH, .weight_stride_tap = 4, .bias = at(bias));
        p.x = (gdn_token_view){ .data = at(x), .stride_token = 4 * CHANNELS, .dtype = GDN_F32 };
        p.result = (gdn_token_view){ .data = at(out[i]), .stride_token = 4 * CHANNELS, .dtype = GDN_F32 };
        p.history = p.history_out = pool(history[i], SLOTS * CHANNELS, 0, 0);
        p.history.n_slots = p.history_out.n_slots = SLOTS;
        p.history.stride_slot = p.history_out.stride_slot = 4 * CHANNELS;
        if (i == 2) p.seq_start = at(seq_start), p.has |= GDN_HAS_SEQ_START;
        for (int64_t item = 0; item < gdn_ref_ssm_conv_items_any(&p); item++)
            (i ? gdn_ref_ssm_conv_fma : gdn_ref_ssm_conv_any)(&p, item, NULL);
    }
    for (int i = 1; i < 3; i++) {
        compare("ssm_conv: out", out[0], out[i], N);
        compare("ssm_conv: history", history[0], history[i], KEPT);
    }
}

static void set_rows(int32_t dtype)
{
    enum { COLUMNS = 64, ROWS = 5, BYTES = ROWS * COLUMNS * 4 };
    static float src[ROWS * COLUMNS];
    static unsigned char dst[2][BYTES];
    static const int32_t index[ROWS] = { 3, 0, -1, 4, 1 };
    int32_t map[ROWS];
    memcpy(map, index, sizeof map);
    fill(src, ROWS * COLUMNS);
    memset(dst, 0xa5, sizeof dst);
    const int64_t row = dtype == GDN_F32 ? 4 * COLUMNS : dtype == GDN_Q8_0 ? COLUMNS / 32 * 34 : 2 * COLUMNS;
    for (int i = 0; i < 2; i++) {
        const gdn_set_rows_call p =
            FIELDS(.n_columns = COLUMNS, .n_rows = ROWS, .n_rows_dst = ROWS, .n_batch = { 1, 1 },
                   .index_batch = { 1, 1 }, .src = at(src), .dst = at(dst[i]), .index = at(map),
                   .src_stride = { 0, 0, 4 * COLUMNS }, .dst_stride = { 0, 0, row }, .index_stride = { 0, 0, 4 },
                   .src_dtype = GDN_F32, .dst_dtype = dtype, .index_dtype = GDN_I32);
        (i ? gdn_ref_set_rows_fma : gdn_ref_set_rows_any)(&p, 0, NULL);
    }
    REQUIRE(!memcmp(dst[0], dst[1], sizeof dst[0]));
}

int main(void)
{
    if (!gdn_simd_has_fma()) {
        (void)printf("this processor has no fma: there is one version\n");
        return 0;
    }
    for (int round = 0; round < 200; round++) {
        gated_delta_net(GDN_GATE_SCALAR, GDN_STATE_VK);
        gated_delta_net(GDN_GATE_CHANNEL, GDN_STATE_KV);
        ssm_conv(0);
        ssm_conv(1);
        set_rows(GDN_F32), set_rows(GDN_F16), set_rows(GDN_BF16), set_rows(GDN_Q8_0);
    }
    return test_summary();
}
#else
int main(void)
{
    (void)printf("there is one version of the reference on this architecture\n");
    return 0;
}
#endif
