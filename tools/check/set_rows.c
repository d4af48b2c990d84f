/* set_rows: random cases and the fixed list. */
#include <stdio.h>

#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"

/* ---- random cases ---------------------------------------------------------------------------------------- */

static const int all_values[] = { CHECK_NORMAL, CHECK_TIES,  CHECK_TIES,    CHECK_WIDE,    CHECK_WIDE, CHECK_SUBNORMAL,
                                  CHECK_HUGE,   CHECK_ZEROS, CHECK_SPECIAL, CHECK_ONE_NAN, CHECK_SMALL };
static const int32_t src_types[] = { GDN_F32, GDN_F16, GDN_BF16 };
static const int32_t dst_types[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };

void rows_random(rows_spec *spec, check_rng *rng)
{
    rows_defaults(spec, 1, 1, 1);
    spec->seed = check_next(rng);
    spec->src_type = CHECK_PICK(rng, src_types);
    spec->dst_type = CHECK_PICK(rng, dst_types);
    spec->index_type = check_one_in(rng, 2) ? GDN_I32 : GDN_I64;
    spec->index_style = check_one_in(rng, 8) ? ROWS_ONE : check_one_in(rng, 12) ? ROWS_NONE : check_between(rng, 0, 1);
    spec->values = CHECK_PICK(rng, all_values);
    spec->strided = !check_one_in(rng, 4);
    spec->n_columns = spec->dst_type == GDN_Q8_0 ? 32 * check_between(rng, 1, 6)
                      : check_one_in(rng, 2)     ? check_between(rng, 1, 40)
                                                 : check_between(rng, 1, 300);
    spec->n_rows = check_between(rng, 0, 20);
    spec->n_rows_dst = check_between(rng, 1, 30);
    for (int k = 0; k < 2; k++)
        if (check_one_in(rng, 2)) {
            spec->index_batch[k] = check_between(rng, 1, 3);
            spec->n_batch[k] = spec->index_batch[k] * check_between(rng, 1, 3);
        }
}

static void random_case(check_spec *spec, check_rng *rng)
{
    rows_random(&spec->set_rows, rng);
}

/* ---- the fixed list ---------------------------------------------------------------------------------------- */

static void walk_list(check_walk *w)
{
    rows_spec *spec = &w->spec->set_rows;
    static const char *const types[] = { "f32", "f16", "bf16", "q8_0" };
    static const struct { const char *name; int values; } values[] = {
        { "normal", CHECK_NORMAL }, { "ties", CHECK_TIES }, { "wide", CHECK_WIDE }, { "subnormal", CHECK_SUBNORMAL },
        { "huge", CHECK_HUGE }, { "zeros", CHECK_ZEROS }, { "special", CHECK_SPECIAL }, { "nan", CHECK_ONE_NAN },
    };
    static const int columns[] = { 1,  2,  3,  5,  7,  8,   9,   15,  16,  17,   31,  32,
                                   33, 63, 64, 65, 96, 127, 128, 129, 256, 1000, 1024 };
    static const struct { const char *name; int style; } indices[] = {
        { "permuted", ROWS_PERMUTED }, { "random", ROWS_RANDOM }, { "one", ROWS_ONE }, { "none", ROWS_NONE },
    };
    static const int batches[][4] = { { 2, 1, 1, 1 }, { 1, 2, 1, 1 }, { 4, 6, 2, 3 }, { 3, 2, 3, 2 }, { 2, 4, 2, 1 } };
    for (int s = 0; s < 3; s++)
        for (int d = 0; d < 4; d++)
            for (int v = 0; v < CHECK_COUNT(values); v++)
                if (check_here(w)) {
                    rows_defaults(spec, d == 3 ? 96 : 101, 12, 9);
                    spec->src_type = src_types[s];
                    spec->dst_type = dst_types[d];
                    spec->values = values[v].values;
                    spec->index_style = ROWS_PERMUTED;
                    spec->n_rows = 9;
                    CHECK_NAME(w, "values/%s_to_%s_%s", types[s], types[d], values[v].name);
                }
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < CHECK_COUNT(columns); i++)
            if (check_here(w)) {
                rows_defaults(spec, d == 3 ? (columns[i] + 31) / 32 * 32 : columns[i], 5, 7);
                spec->dst_type = dst_types[d];
                spec->values = CHECK_TIES;
                CHECK_NAME(w, "columns/%d_to_%s", columns[i], types[d]);
            }
    for (int i = 0; i < CHECK_COUNT(indices); i++)
        for (int type = 0; type < 2; type++)
            for (int d = 0; d < 4; d++)
                if (check_here(w)) {
                    rows_defaults(spec, 64, 40, 11);
                    spec->index_style = indices[i].style;
                    spec->index_type = type ? GDN_I64 : GDN_I32;
                    spec->dst_type = dst_types[d];
                    CHECK_NAME(w, "index/%s_%s_to_%s", indices[i].name, type ? "i64" : "i32", types[d]);
                }
    for (int i = 0; i < CHECK_COUNT(batches); i++)
        for (int strided = 0; strided < 2; strided++)
            for (int d = 0; d < 4; d++)
                if (check_here(w)) {
                    rows_defaults(spec, 32, 5, 6);
                    for (int k = 0; k < 2; k++) {
                        spec->n_batch[k] = batches[i][k];
                        spec->index_batch[k] = batches[i][2 + k];
                    }
                    spec->strided = strided;
                    spec->dst_type = dst_types[d];
                    CHECK_NAME(w, "batch/%dx%d_index_%dx%d_to_%s%s", batches[i][0], batches[i][1], batches[i][2],
                               batches[i][3], types[d], strided ? "_strided" : "");
                }
    for (int d = 0; d < 4; d++)
        if (check_here(w)) {
            rows_defaults(spec, 32, 0, 3);
            spec->dst_type = dst_types[d];
            CHECK_NAME(w, "no_rows/to_%s", types[d]);
        }
    for (int s = 0; s < 3; s++) /* so much that backends may write past their caches; with and without duplicates */
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < 2; i++)
                if (check_here(w)) {
                    rows_defaults(spec, 544, 300, 310);
                    spec->src_type = src_types[s];
                    spec->dst_type = dst_types[d];
                    spec->index_style = indices[i].style;
                    CHECK_NAME(w, "many/%s_to_%s_%s", types[s], types[d], indices[i].name);
                }
    for (int kind = 0; kind < 3; kind++)
        for (int threads = 1; threads <= 8; threads++)
            if (check_here(w)) {
                static const char *const kinds[] = { "library", "pool", "reverse" };
                rows_defaults(spec, 512, 200, 50); /* many duplicates for threads to fight over */
                spec->dst_type = dst_types[threads % 4];
                if (w->c)
                    w->c->executor = CHECK_EXECUTOR(kind, threads);
                CHECK_NAME(w, "threads/%s_%d", kinds[kind], threads);
            }
    for (int environment = 0; environment < CHECK_ENV_COUNT; environment++)
        for (int d = 0; d < 4; d++)
            if (check_here(w)) {
                rows_defaults(spec, 96, 8, 9);
                spec->dst_type = dst_types[d];
                spec->values = environment & 1 ? CHECK_SUBNORMAL : CHECK_TIES;
                if (w->c)
                    w->c->environment = environment;
                CHECK_NAME(w, "mode/%d_to_%s", environment, types[d]);
            }
    for (int i = 0; i < ggml_n_rows(); i++)
        if (check_here(w))
            ggml_rows(i, spec, w->name, w->bytes);
}

const check_suite check_suite_set_rows = { &check_kernel_set_rows, random_case, walk_list, check_families_set_rows };
