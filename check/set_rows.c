/* set_rows: the fixed list, and what must not change the bits. */
#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"
#include "trial.h"

static void random_case(check_spec *spec, check_rng *rng) { rows_random(&spec->set_rows, rng); }

/* ---- the fixed list ---------------------------------------------------------------------------------------- */

static const int32_t src_types[] = { GDN_F32, GDN_F16, GDN_BF16 };
static const int32_t dst_types[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };

static void set_threads(check_spec *spec, int threads)
{
    rows_defaults(&spec->set_rows, 512, 200, 50); /* many duplicates for threads to fight over */
    spec->set_rows.dst_type = dst_types[threads % 4];
}

static void walk_list(check_walk *w)
{
    rows_spec *spec = &w->spec->set_rows;
    static const char *const types[] = { "f32", "f16", "bf16", "q8_0" };
    static const struct {
        const char *name;
        int values;
    } values[] = {
        { "normal", CHECK_NORMAL },       { "ties", CHECK_TIES },   { "wide", CHECK_WIDE },
        { "subnormal", CHECK_SUBNORMAL }, { "huge", CHECK_HUGE },   { "zeros", CHECK_ZEROS },
        { "special", CHECK_SPECIAL },     { "nan", CHECK_ONE_NAN },
    };
    static const int columns[] = { 1,  2,  3,  5,  7,  8,   9,   15,  16,  17,   31,  32,
                                   33, 63, 64, 65, 96, 127, 128, 129, 256, 1000, 1024 };
    static const struct {
        const char *name;
        int style;
    } indices[] = {
        { "permuted", ROWS_PERMUTED },
        { "random", ROWS_RANDOM },
        { "one", ROWS_ONE },
        { "none", ROWS_NONE },
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
    /* So much that backends may write past their caches, in odd numbers of cache lines; with and without duplicates. */
    for (int s = 0; s < 3; s++)
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < 2; i++)
                if (check_here(w)) {
                    rows_defaults(spec, d == 0 ? 528 : 544, 300, 310);
                    spec->src_type = src_types[s];
                    spec->dst_type = dst_types[d];
                    spec->index_style = indices[i].style;
                    CHECK_NAME(w, "many/%s_to_%s_%s", types[s], types[d], indices[i].name);
                }
    check_walk_threads(w, set_threads);
    for (int environment = 0; environment < CHECK_ENV_COUNT; environment++)
        for (int d = 0; d < 4; d++)
            if (check_here(w)) {
                rows_defaults(spec, 96, 8, 9);
                spec->dst_type = dst_types[d];
                spec->values = environment & 1 ? CHECK_SUBNORMAL : CHECK_TIES;
                if (w->c) w->c->environment = environment;
                CHECK_NAME(w, "mode/%d_to_%s", environment, types[d]);
            }
    for (int i = 0; i < ggml_n_rows(); i++)
        if (check_here(w)) ggml_rows(i, spec, w->name, w->bytes);
}

/* ---- what must not change the bits: see invariances_gated_delta_net.c ------------------------------------- */

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_set_rows, call, rng, what);
}

/* All rows of one batch against those of another. */
static int same_rows(check_trial *trial, const check_call *a, int b0, int b1, const check_call *b, int c0, int c1,
                     const char *what)
{
    for (int row = 0; row < a->rows.n_rows_dst; row++) {
        const unsigned char *x = rows_at(&a->c, a->result.image, b0, b1, row),
                            *y = rows_at(&b->c, b->result.image, c0, c1, row);
        const uint64_t unit = check_unit_bytes(a->rows.dst_type);
        for (uint64_t at = 0; at < check_row_bytes(a->rows.dst_type, a->rows.n_columns); at += unit)
            if (!check_same(x + at, y + at, a->rows.dst_type)) {
                check_text text = { "", 0 };
                check_say_value(&text, x + at, a->rows.dst_type);
                check_say(&text, " against ");
                check_say_value(&text, y + at, a->rows.dst_type);
                check_trial_fail(trial, "%s: batch %d, %d, row %d, element %llu: %s", what, b0, b1, row,
                                 (unsigned long long)(at / unit), text.at);
                return 0;
            }
    }
    return 1;
}

/* All rows at once = in parts, from first to last, into the same tensor. */
static void splits(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *part = check_trial_call(trial), *next = check_trial_call(trial);
    rows_random(&all->rows, rng);
    for (int k = 0; k < 2; k++) all->rows.n_batch[k] = all->rows.index_batch[k] = 1;
    all->rows.n_rows = check_between(rng, 2, 16);
    all->rows.n_rows_dst = check_between(rng, 1, 12);
    if (!run(trial, all, rng, "all rows")) return;
    for (int i = 0; i < all->rows.n_rows;) {
        next->rows = all->rows;
        next->rows.first_row = i;
        next->rows.n_rows = trial->number % 2 ? 1 : check_between(rng, 1, all->rows.n_rows - i);
        i += next->rows.n_rows;
        check_call_build(trial, &check_kernel_set_rows, next, rng);
        for (int row = 0; part->c.n_views && row < all->rows.n_rows_dst; row++) {
            unsigned char *image[CHECK_MAX_MEMORIES];
            check_initial(&next->c, image);
            memcpy(rows_at(&next->c, image, 0, 0, row), rows_at(&part->c, part->result.image, 0, 0, row),
                   check_row_bytes(all->rows.dst_type, all->rows.n_columns));
        }
        if (!check_trial_run(trial, &next->c, &next->result, "a part")) return;
        check_call *spent = part;
        part = next, next = spent;
    }
    same_rows(trial, all, 0, 0, part, 0, 0, "in parts");
}

/* A batch = its parts alone. */
static void batches(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *one = check_trial_call(trial);
    rows_random(&all->rows, rng);
    for (int k = 0; k < 2; k++) {
        all->rows.index_batch[k] = check_between(rng, 1, 2);
        all->rows.n_batch[k] = all->rows.index_batch[k] * check_between(rng, 1, 2);
    }
    if (!run(trial, all, rng, "the batch")) return;
    for (int b = 0; b < all->rows.n_batch[0]; b++)
        for (int c = 0; c < all->rows.n_batch[1]; c++) {
            one->rows = all->rows;
            one->rows.only_batch[0] = b;
            one->rows.only_batch[1] = c;
            for (int k = 0; k < 2; k++) {
                one->rows.of_index_batch[k] = all->rows.index_batch[k];
                one->rows.n_batch[k] = one->rows.index_batch[k] = 1;
            }
            if (!run(trial, one, rng, "one of the batch") || !same_rows(trial, all, b, c, one, 0, 0, "alone")) return;
        }
}

/* I32 = I64, packed = strided, any threads. */
static void variants(check_trial *trial, check_rng *rng)
{
    static const char *const what[] = { "with the other type of index", "strided", "with other threads" };
    check_call *a = check_trial_call(trial), *b = check_trial_call(trial);
    const int way = trial->number % 3;
    rows_random(&a->rows, rng);
    b->rows = a->rows;
    if (!run(trial, a, rng, "the first way")) return;
    if (way == 0) b->rows.index_type = a->rows.index_type == GDN_I32 ? GDN_I64 : GDN_I32;
    if (way == 1) b->rows.strided = !a->rows.strided;
    if (way == 2)
        trial->setting.executor = CHECK_EXECUTOR(check_between(rng, 0, 2),
                                                 trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    if (!run(trial, b, rng, what[way])) return;
    for (int i = 0; i < a->rows.n_batch[0]; i++)
        for (int j = 0; j < a->rows.n_batch[1]; j++)
            if (!same_rows(trial, a, i, j, b, i, j, what[way])) return;
}

static const check_family families[] = {
    { "splits", 60, splits },     { "batches", 40, batches }, { "variants", 60, variants },
    { "far", 2, check_far_rows }, { NULL, 0, NULL },
};

const check_suite check_suite_set_rows = { &check_kernel_set_rows, random_case, walk_list, families };
