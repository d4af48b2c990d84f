/* set_rows: what must not change the bits. See invariances_gated_delta_net.c. */
#include <stdio.h>
#include <string.h>

#include "trial.h"

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_set_rows, call, rng, what);
}

/* All rows of one batch against those of another. */
static int same_rows(check_trial *trial, const check_call *a, int b0, int b1, const check_call *b, int c0, int c1,
                     const char *what)
{
    for (int row = 0; row < a->rows.args.n_rows_dst; row++) {
        const unsigned char *x = rows_at(&a->c, a->result.image, b0, b1, row),
                            *y = rows_at(&b->c, b->result.image, c0, c1, row);
        const uint64_t unit = check_unit_bytes(a->rows.dst_type);
        for (uint64_t at = 0; at < check_row_bytes(a->rows.dst_type, a->rows.args.n_columns); at += unit)
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
    for (int k = 0; k < 2; k++) all->rows.args.n_batch[k] = all->rows.args.index_batch[k] = 1;
    all->rows.args.n_rows = check_between(rng, 2, 16);
    all->rows.args.n_rows_dst = check_between(rng, 1, 12);
    if (!run(trial, all, rng, "all rows")) return;
    for (int i = 0; i < all->rows.args.n_rows;) {
        next->rows = all->rows;
        next->rows.first_row = i;
        next->rows.args.n_rows = trial->number % 2 ? 1 : check_between(rng, 1, all->rows.args.n_rows - i);
        i += next->rows.args.n_rows;
        check_call_build(trial, &check_kernel_set_rows, next, rng);
        for (int row = 0; part->c.n_views && row < all->rows.args.n_rows_dst; row++) {
            unsigned char *image[CHECK_MAX_MEMORIES];
            check_initial(&next->c, image);
            memcpy(rows_at(&next->c, image, 0, 0, row), rows_at(&part->c, part->result.image, 0, 0, row),
                   check_row_bytes(all->rows.dst_type, all->rows.args.n_columns));
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
        all->rows.args.index_batch[k] = check_between(rng, 1, 2);
        all->rows.args.n_batch[k] = all->rows.args.index_batch[k] * check_between(rng, 1, 2);
    }
    if (!run(trial, all, rng, "the batch")) return;
    for (int b = 0; b < all->rows.args.n_batch[0]; b++)
        for (int c = 0; c < all->rows.args.n_batch[1]; c++) {
            one->rows = all->rows;
            one->rows.only_batch[0] = b;
            one->rows.only_batch[1] = c;
            for (int k = 0; k < 2; k++) {
                one->rows.of_index_batch[k] = all->rows.args.index_batch[k];
                one->rows.args.n_batch[k] = one->rows.args.index_batch[k] = 1;
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
    if (way == 2) {
        const int kind = check_between(rng, 0, 2);
        trial->setting.executor =
            CHECK_EXECUTOR(kind, trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    }
    if (!run(trial, b, rng, what[way])) return;
    for (int i = 0; i < a->rows.args.n_batch[0]; i++)
        for (int j = 0; j < a->rows.args.n_batch[1]; j++)
            if (!same_rows(trial, a, i, j, b, i, j, what[way])) return;
}

const check_family check_families_set_rows[] = {
    { "splits", 60, splits },     { "batches", 40, batches }, { "variants", 60, variants },
    { "far", 2, check_far_rows }, { NULL, 0, NULL },
};
