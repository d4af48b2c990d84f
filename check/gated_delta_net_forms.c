/* gated_delta_net: cases of what the call does to q, k, g and beta before the recurrence, and of the types of g, beta
 * and out. */
#include "specs.h"

#include <stdio.h>

#include "families.h"
#include "kernel.h"

void delta_random_forms(delta_spec *spec, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    static const float eps[] = { 0, 1e-6f, 1e-12f, 1e-40f, 0.5f }, factors[] = { 0, 0, 1, 2, -0.75f };
    static const int raw[] = {
        CHECK_NORMAL, CHECK_NORMAL, CHECK_GATE_GGML, CHECK_WIDE, CHECK_SPECIAL, CHECK_SUBNORMAL
    };
    static const int rates[] = { CHECK_GATE_MODEL, CHECK_GATE_SLOW, CHECK_GATE_GGML, CHECK_NORMAL, CHECK_ZEROS };
    const int sorted = check_one_in(rng, 2); /* g and beta of one type, so that they can be parts of one tensor */
    spec->dtype_g = CHECK_PICK(rng, types);
    spec->dtype_beta = sorted ? spec->dtype_g : CHECK_PICK(rng, types);
    if (check_one_in(rng, 2)) {
        spec->qk_norm = check_between(rng, GDN_NORM_ADD, GDN_NORM_CLAMP);
        spec->eps = CHECK_PICK(rng, eps);
        if (check_one_in(rng, 2)) spec->values[DELTA_Q] = spec->values[DELTA_K] = CHECK_NORMAL;
    }
    static const float bounds[] = { -5, -5, -1, -80, -1e-40f };
    spec->g_form = check_between(rng, GDN_G_LOG, GDN_G_BOUNDED);
    if (spec->g_form == GDN_G_BOUNDED) {
        spec->lower_bound = CHECK_PICK(rng, bounds);
        spec->no_a = check_one_in(rng, 3);
    }
    if (spec->g_form == GDN_G_LINEAR && !check_one_in(rng, 4)) spec->values[DELTA_G] = CHECK_UNIT;
    if (spec->g_form >= GDN_G_RAW) {
        spec->values[DELTA_G] = CHECK_PICK(rng, raw);
        spec->values[DELTA_A] = spec->g_form == GDN_G_RAW ? CHECK_PICK(rng, rates) : CHECK_NORMAL;
        spec->values[DELTA_BIAS] = check_one_in(rng, 4) ? CHECK_GATE_GGML : CHECK_NORMAL;
        spec->dtype_a = CHECK_PICK(rng, types);
        spec->dtype_bias = CHECK_PICK(rng, types);
        spec->has_bias = !check_one_in(rng, 4);
    }
    spec->beta_form = check_between(rng, GDN_BETA_PLAIN, GDN_BETA_LOGIT);
    spec->beta_factor = CHECK_PICK(rng, factors);
    if (spec->beta_form == GDN_BETA_LOGIT && check_one_in(rng, 2)) spec->values[DELTA_BETA] = CHECK_PICK(rng, raw);
    /* By the seed, so that what else is drawn stays as without. A norm is not for the read key. */
    spec->read_key = !(spec->seed >> 44 & 3);
    spec->dtype_read = types[spec->seed >> 46 & 3];
    spec->values[DELTA_READ] = spec->qk_norm ? CHECK_SMALL : spec->values[DELTA_K];
}

/* Every form of each of the three, for one token of the usual head, a few tokens, and more than a chunk. */
static void forms(check_walk *w)
{
    delta_spec *const spec = &w->spec->gated_delta_net;
    static const char *const norms[] = { "plain", "add", "clamp" }, *const gates[] = { "log", "linear", "raw", "a_log",
                                                                                       "bounded" };
    static const int shapes[][3] = {
        { 1, 128, 64 }, { 5, 33, 40 }, { 40, 128, 48 }, { 20, 33, 40 } /* tokens, dimensions */
    };
    for (int shape = 0; shape < 4; shape++)
        for (int norm = 0; norm < 3; norm++)
            for (int g = 0; g < 5; g++)
                for (int logit = 0; logit < 2; logit++)
                    for (int gate = 0; gate < 2; gate++)
                        for (int layout = 0; layout < 2; layout++) {
                            if (!check_here(w)) continue;
                            delta_defaults(spec, 2, 4, shapes[shape][1], shapes[shape][2]);
                            delta_batch(spec, 2, shapes[shape][0]);
                            spec->gate = gate;
                            spec->layout = layout;
                            spec->qk_norm = norm;
                            spec->eps = norm ? 1e-6f : 0;
                            spec->g_form = g;
                            spec->lower_bound = g == GDN_G_BOUNDED ? -5 : 0;
                            spec->no_a = g == GDN_G_BOUNDED && norm;
                            spec->beta_form = logit;
                            spec->beta_factor = logit ? 2 : 0;
                            spec->has_bias = g >= GDN_G_RAW;
                            spec->values[DELTA_Q] = spec->values[DELTA_K] = norm ? CHECK_NORMAL : CHECK_SMALL;
                            spec->values[DELTA_G] = g == GDN_G_LOG      ? CHECK_GATE_MODEL
                                                    : g == GDN_G_LINEAR ? CHECK_UNIT
                                                                        : CHECK_NORMAL;
                            spec->values[DELTA_A] = g == GDN_G_RAW ? CHECK_GATE_MODEL : CHECK_NORMAL;
                            spec->values[DELTA_BETA] = logit ? CHECK_NORMAL : CHECK_UNIT;
                            CHECK_NAME(w, "forms/T%d_%s_%s_%s_%s_%s", shapes[shape][0], norms[norm], gates[g],
                                       logit ? "logit" : "beta", gate ? "channel" : "scalar", layout ? "kv" : "vk");
                        }
}

/* A norm of what has none, or too much of it. */
static void norms(check_walk *w)
{
    delta_spec *const spec = &w->spec->gated_delta_net;
    static const char *const words[] = { "zeros", "subnormal", "huge", "wide", "special" };
    static const int classes[] = { CHECK_ZEROS, CHECK_SUBNORMAL, CHECK_HUGE, CHECK_WIDE, CHECK_SPECIAL };
    static const float eps[] = { 0, 1e-40f, 1e-6f };
    for (int norm = GDN_NORM_ADD; norm <= GDN_NORM_CLAMP; norm++)
        for (int values = 0; values < 5; values++)
            for (int e = 0; e < 3; e++)
                for (int length = 1; length <= 4; length += 3) {
                    if (!check_here(w)) continue;
                    delta_defaults(spec, 1, 2, 128, 32);
                    delta_batch(spec, 2, length);
                    spec->qk_norm = norm;
                    spec->eps = eps[e];
                    spec->values[DELTA_Q] = spec->values[DELTA_K] = classes[values];
                    CHECK_NAME(w, "norms/%s_%s_eps%d_T%d", norm == GDN_NORM_ADD ? "add" : "clamp", words[values], e,
                               length);
                }
}

/* g, beta, ssm_a, dt_bias and out in each type. */
static void types(check_walk *w)
{
    delta_spec *const spec = &w->spec->gated_delta_net;
    static const char *const words[] = { "f32", "f16", "bf16" };
    static const int lengths[] = { 1, 3, 40 };
    for (int g = 0; g < 3; g++)
        for (int out = 0; out < 3; out++)
            for (int length = 0; length < 3; length++)
                for (int gate = 0; gate < 2; gate++)
                    for (int layout = 0; layout < 2; layout++) {
                        if (!check_here(w)) continue;
                        delta_defaults(spec, 1, 2, length ? 48 : 128, 72);
                        delta_batch(spec, 2, lengths[length]);
                        spec->gate = gate;
                        spec->layout = layout;
                        spec->g_form = GDN_G_RAW;
                        spec->has_bias = 1;
                        spec->dtype_g = spec->dtype_beta = spec->dtype_a = spec->dtype_bias = g;
                        spec->dtype_out = out;
                        spec->values[DELTA_A] = CHECK_GATE_MODEL;
                        spec->values[DELTA_G] = CHECK_NORMAL;
                        CHECK_NAME(w, "types/gates_%s_out_%s_T%d_%s_%s", words[g], words[out], lengths[length],
                                   gate ? "channel" : "scalar", layout ? "kv" : "vk");
                    }
}

/* One thing that is not as by default, and nothing else: a backend may choose a kernel by it. */
static void alone(check_walk *w)
{
    delta_spec *const spec = &w->spec->gated_delta_net;
    static const char *const words[] = { "norm", "linear", "logit", "factor", "g_f16", "beta_f16", "out_f16" };
    enum { NORM, LINEAR, LOGIT, FACTOR, G, BETA, OUT, N };
    for (int what = 0; what < N; what++)
        for (int gate = 0; gate < 2; gate++)
            for (int length = 1; length <= 40; length += 39) {
                if (!check_here(w)) continue;
                delta_defaults(spec, 1, 2, 128, 32);
                delta_batch(spec, 2, length);
                spec->gate = gate;
                spec->qk_norm = what == NORM ? GDN_NORM_ADD : GDN_NORM_NONE;
                spec->g_form = what == LINEAR ? GDN_G_LINEAR : GDN_G_LOG;
                if (what == LINEAR) spec->values[DELTA_G] = CHECK_UNIT;
                spec->beta_form = what == LOGIT ? GDN_BETA_LOGIT : GDN_BETA_PLAIN;
                spec->beta_factor = what == FACTOR ? 2.0f : 0;
                spec->dtype_g = what == G ? GDN_F16 : GDN_F32;
                spec->dtype_beta = what == BETA ? GDN_F16 : GDN_F32;
                spec->dtype_out = what == OUT ? GDN_F16 : GDN_F32;
                CHECK_NAME(w, "forms/alone_%s_%s_T%d", words[what], gate ? "channel" : "scalar", length);
            }
}

/* A log behind which each sequence has a token or more to repeat, and for trees no snapshots. */
static void read_key_log(delta_spec *spec, int length, int tree)
{
    spec->log_rows = 2;
    spec->log_columns = length + 4;
    spec->map_position = spec->map_stands = spec->map_commit = spec->map_dst = 1;
    for (int s = 0; s < 2; s++) {
        delta_seq *const seq = &spec->seq[s];
        seq->log_row = s;
        seq->repeated = 2 * (s + 1);
        seq->position = 3 * spec->log_columns + 2 + s % 2;
        seq->position -= (seq->position - seq->repeated) % 2; /* states of 16 bits stand at even positions */
        seq->commit = tree ? seq->src : GDN_NONE;
        for (int r = 0; r < spec->n_snapshots; r++)
            if (spec->state_interval > 1 && (seq->position + length - r) % spec->state_interval) seq->dst[r] = GDN_NONE;
    }
    if (tree) {
        spec->tree = spec->map_parent = 1;
        spec->n_snapshots = spec->map_dst = 0;
    }
}

/* A key of its own for the reads: every order of loops, with all that a call may have besides. */
static void read_keys(check_walk *w)
{
    delta_spec *const spec = &w->spec->gated_delta_net;
    static const int lengths[] = { 1, 5, 20, 40 }, dims[][2] = { { 128, 64 }, { 33, 40 }, { 64, 48 } };
    static const char *const words[] = { "plain", "log", "tree", "half", "half_log", "half_tree" };
    enum { PLAIN, OF_LOG, OF_TREE, HALF, HALF_LOG, HALF_TREE, N };
    for (int what = 0; what < N; what++)
        for (int i = 0; i < 4; i++)
            for (int d = 0; d < 3; d++)
                for (int gate = 0; gate < 2; gate++)
                    for (int layout = 0; layout < 2; layout++) {
                        if (!check_here(w)) continue;
                        const int turn = what + i + d + gate + layout;
                        delta_defaults(spec, 2, 4, dims[d][0], dims[d][1]);
                        delta_batch(spec, 2, lengths[i]);
                        spec->gate = gate;
                        spec->layout = layout;
                        spec->read_key = 1;
                        spec->dtype_read = turn % 3;
                        if (what >= HALF) {
                            spec->dtype_state = GDN_F16 + turn % 2;
                            spec->state_interval = what > HALF ? 2 : 1;
                        }
                        if (what != PLAIN && what != HALF)
                            read_key_log(spec, lengths[i], what == OF_TREE || what == HALF_TREE);
                        if (turn % 2) { /* which leaves the read key as it is */
                            spec->qk_norm = GDN_NORM_ADD;
                            spec->eps = 1e-6f;
                            spec->values[DELTA_Q] = spec->values[DELTA_K] = CHECK_NORMAL;
                        }
                        spec->values[DELTA_V] = CHECK_NORMAL;
                        spec->values[DELTA_STATE] = CHECK_NORMAL;
                        CHECK_NAME(w, "read_key/%s_T%d_k%d_%s_%s", words[what], lengths[i], dims[d][0],
                                   gate ? "channel" : "scalar", layout ? "kv" : "vk");
                    }
}

void delta_fixed_forms(check_walk *w)
{
    forms(w);
    norms(w);
    types(w);
    alone(w);
    read_keys(w);
}
