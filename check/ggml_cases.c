/* The cases of ggml's own operator tests (version 0.21, tests/test-backend-ops.cpp), as calls of ours.
 *
 * ggml passes the initial states apart from the K snapshots that it returns, newest first, and maps heads
 * as h % n_heads_k; its convolution gets the history in front of the tokens. Its tests allow an error;
 * these compare bits. Each gated_delta_net case is there
 * twice: "_slow" has gates near 0, with which the state is not forgotten and errors would add up. */
#include "ggml_cases.h"

#include <stdio.h>

enum { PLAIN = 0, PERMUTED = 1, KDA = 2 }; /* flags */

static const struct {
    int heads, size, tokens, batch, repeat, flags, slots;
} delta_cases[] = {
    { 32, 128, 1, 1, 1, PLAIN, 1 },
    { 32, 16, 1, 1, 1, PLAIN, 1 },
    { 32, 16, 1, 1, 1, KDA, 1 },
    { 32, 16, 1, 1, 1, PERMUTED | KDA, 1 },
    { 16, 64, 1, 2, 1, PLAIN, 1 },
    { 4, 64, 4, 1, 1, PLAIN, 1 },
    { 4, 64, 4, 2, 1, PLAIN, 1 },
    { 8, 32, 4, 2, 2, PLAIN, 1 },
    { 4, 64, 4, 1, 1, PERMUTED, 1 },
    { 4, 64, 4, 2, 1, PERMUTED, 1 },
    { 4, 64, 1, 1, 1, KDA, 1 },
    { 4, 64, 1, 2, 1, KDA, 1 },
    { 4, 16, 1, 2, 1, KDA, 1 },
    { 4, 32, 4, 1, 1, KDA, 1 },
    { 4, 64, 4, 2, 1, KDA, 1 },
    { 8, 32, 4, 2, 2, KDA, 1 },
    { 4, 64, 4, 2, 1, PERMUTED | KDA, 1 },
    { 4, 16, 4, 2, 1, PERMUTED | KDA, 1 },
    { 4, 64, 64, 1, 1, PLAIN, 1 },
    { 4, 64, 65, 1, 1, PLAIN, 1 },
    { 4, 64, 100, 1, 1, PLAIN, 1 },
    { 4, 64, 127, 1, 1, PLAIN, 1 },
    { 4, 64, 200, 1, 1, PLAIN, 1 },
    { 4, 64, 256, 1, 1, PLAIN, 1 },
    { 4, 64, 127, 2, 1, PLAIN, 1 },
    { 4, 64, 33, 1, 1, KDA, 1 },
    { 4, 64, 64, 1, 1, KDA, 1 },
    { 4, 64, 100, 1, 1, KDA, 1 },
    { 4, 16, 2, 1, 1, PLAIN, 2 },
    { 4, 32, 4, 1, 1, PLAIN, 4 },
    { 4, 64, 4, 2, 1, PLAIN, 4 },
    { 8, 128, 4, 1, 1, PLAIN, 4 },
    { 4, 64, 4, 2, 1, KDA, 4 },
    { 8, 32, 4, 2, 2, KDA, 4 },
    { 4, 32, 8, 1, 1, PLAIN, 3 },
    { 4, 64, 16, 2, 1, PLAIN, 4 },
};
enum { N_DELTA = sizeof delta_cases / sizeof delta_cases[0] };

int ggml_n_delta(void) { return 2 * N_DELTA; }

void ggml_delta(int i, delta_spec *spec, char *name, size_t bytes)
{
    const int n = i % N_DELTA, slow = i >= N_DELTA, size = delta_cases[n].size, heads = delta_cases[n].heads;
    const int batch = delta_cases[n].batch, slots = delta_cases[n].slots, flags = delta_cases[n].flags;
    delta_defaults(spec, heads, heads * delta_cases[n].repeat, size, size);
    spec->head_map = GDN_HEADS_TILED;
    spec->gate = flags & KDA ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR;
    spec->where = DELTA_APART;
    spec->n_slots_out = spec->n_snapshots = slots;
    delta_batch(spec, batch, delta_cases[n].tokens);
    spec->values[DELTA_G] = slow ? CHECK_GATE_SLOW : CHECK_GATE_GGML;
    spec->strided = flags & PERMUTED;
    char repeat[16] = "", snapshots[16] = "";
    if (delta_cases[n].repeat > 1) snprintf(repeat, sizeof repeat, "_rep%d", delta_cases[n].repeat);
    if (slots > 1) snprintf(snapshots, sizeof snapshots, "_K%d", slots);
    snprintf(name, bytes, "ggml/gdn/S%d_H%d_T%d_B%d%s%s%s%s%s", size, heads, delta_cases[n].tokens, batch, repeat,
             flags & PERMUTED ? "_perm" : "", flags & KDA ? "_kda" : "", snapshots, slow ? "_slow" : "");
}

enum { N_WIDTHS = 3, N_CHANNELS = 3, N_LENGTHS = 5, N_VARIANTS = 4 };

int ggml_n_conv(void) { return N_WIDTHS * N_CHANNELS * N_LENGTHS * N_VARIANTS; }

void ggml_conv(int i, conv_spec *spec, char *name, size_t bytes)
{
    static const int widths[] = { 3, 4, 9 }, channels[] = { 1024, 1536, 2048 };
    static const int lengths[][2] = { { 1, 1 }, { 0, 1 }, { 1, 4 }, { 64, 1 }, { 64, 4 } }; /* 0: width + 1 */
    static const char *const variants[] = { "", "_silu", "_bias", "_bias_silu" };
    const int variant = i % N_VARIANTS, length = i / N_VARIANTS % N_LENGTHS;
    const int channel = i / (N_VARIANTS * N_LENGTHS) % N_CHANNELS,
              width = widths[i / (N_VARIANTS * N_LENGTHS * N_CHANNELS)];
    const int tokens = lengths[length][0] ? lengths[length][0] : width + 1;
    conv_defaults(spec, channels[channel], width);
    conv_batch(spec, lengths[length][1], tokens);
    spec->silu = variant & 1;
    spec->bias = variant >> 1;
    spec->map_position = 1;
    for (int s = 0; s < spec->n_seqs; s++) spec->seq[s].position = width - 1;
    snprintf(name, bytes, "ggml/ssm_conv/nc%d_d%d_T%d_B%d%s", width, channels[channel], tokens, spec->n_seqs,
             variants[variant]);
}

/* { n_columns, rows of dst, batch ne2, ne3 } x { repeats nr2, nr3 }, rows of src; b stands for 1 and 7. */
enum { B = -1 };
static const struct {
    int columns, rows_dst, ne2, ne3, nr2, nr3, rows, unblocked;
} rows_cases[] = {
    { 256, 5, B, 3, 1, 1, 1, 0 }, { 256, 11, 1, B, 2, 3, 7, 0 }, { 96, 3, B, 1, 2, 3, 2, 0 },
    { 3, 3, B, 1, 2, 3, 2, 1 },   { 31, 3, B, 1, 2, 3, 2, 1 },   { 33, 5, 1, B, 2, 3, 1, 1 },
    { 1, 8, 1, 3, 1, 1, 2, 1 },
};
enum { N_ROWS = sizeof rows_cases / sizeof rows_cases[0], N_ROWS_UNBLOCKED = 4 };

/* Per case: src F32 and F16, dst of four types (three where columns are not blocks), b 1 and 7, packed and
 * views, I32 and I64. */
int ggml_n_rows(void) { return (3 * 4 + N_ROWS_UNBLOCKED * 3) * 16; }

void ggml_rows(int i, rows_spec *spec, char *name, size_t bytes)
{
    static const char *const types[] = { "f32", "f16", "bf16", "q8_0" };
    const int variant = i % 16, pair = i / 16;
    const int n = pair < 12 ? pair / 4 : 3 + (pair - 12) / 3, type = pair < 12 ? pair % 4 : (pair - 12) % 3;
    const int b = variant & 1 ? 7 : 1, view = variant >> 1 & 1, half = variant >> 2 & 1, wide = variant >> 3;
    const int ne2 = rows_cases[n].ne2 == B ? b : rows_cases[n].ne2,
              ne3 = rows_cases[n].ne3 == B ? b : rows_cases[n].ne3;
    rows_defaults(spec, rows_cases[n].columns, rows_cases[n].rows, rows_cases[n].rows_dst);
    spec->n_batch[0] = ne3 * rows_cases[n].nr3;
    spec->n_batch[1] = ne2 * rows_cases[n].nr2;
    spec->index_batch[0] = ne3;
    spec->index_batch[1] = ne2;
    spec->src_type = half ? GDN_F16 : GDN_F32;
    spec->dst_type = type;
    spec->index_type = wide ? GDN_I64 : GDN_I32;
    spec->index_style = ROWS_PERMUTED;
    spec->strided = view;
    snprintf(name, bytes, "ggml/set_rows/%s_to_%s_%s_%dx%d_%dx%d_of_%d%s%s", half ? "f16" : "f32", types[type],
             wide ? "i64" : "i32", rows_cases[n].columns, rows_cases[n].rows, spec->n_batch[1], spec->n_batch[0],
             rows_cases[n].rows_dst, view ? "_view" : "", b > 1 ? "_b7" : "");
}
