/* set_rows: what must not change the bits. See invariances_gated_delta_net.c. */
#include <string.h>

#include "families.h"
#include "set_rows.h"
#include "trial.h"

typedef struct rows_call {
    rows_spec    spec;
    check_case   c;
    check_result result;
} rows_call;

static void build(check_trial *trial, rows_call *call, check_rng *rng)
{
    check_case_begin(&call->c, &check_kernel_set_rows, &trial->setting);
    rows_build(&call->c, &call->spec, rng);
}

static void end(rows_call *call)
{
    check_case_free(&call->c);
    check_result_free(&call->result);
    memset(call, 0, sizeof *call);
}

static uint64_t row_bytes(const rows_spec *spec)
{
    return spec->dst_type == GDN_Q8_0 ? (uint64_t)spec->n_columns / 32 * 34 : (uint64_t)spec->n_columns * check_unit_bytes(spec->dst_type);
}

/* All rows of one batch against those of another. */
static int same_rows(check_trial *trial, const rows_call *a, int b0, int b1, const rows_call *b, int c0, int c1, const char *what)
{
    for (int row = 0; row < a->spec.n_rows_dst; row++) {
        const unsigned char *x = rows_at(&a->c, a->result.image, b0, b1, row), *y = rows_at(&b->c, b->result.image, c0, c1, row);
        const uint64_t unit = check_unit_bytes(a->spec.dst_type);
        for (uint64_t at = 0; at < row_bytes(&a->spec); at += unit)
            if (!check_same(x + at, y + at, a->spec.dst_type)) {
                check_text text = { "", 0 };
                check_say_value(&text, x + at, a->spec.dst_type);
                check_say(&text, " against ");
                check_say_value(&text, y + at, a->spec.dst_type);
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
    rows_call all = { 0 }, part = { 0 }, next = { 0 };
    rows_random(&all.spec, rng);
    for (int k = 0; k < 2; k++)
        all.spec.n_batch[k] = all.spec.index_batch[k] = 1;
    all.spec.n_rows = check_between(rng, 2, 16);
    all.spec.n_rows_dst = check_between(rng, 1, 12);
    build(trial, &all, rng);
    if (!check_trial_run(trial, &all.c, &all.result, "all rows"))
        goto done;
    for (int i = 0; i < all.spec.n_rows;) {
        next.spec = all.spec;
        next.spec.first_row = i;
        next.spec.n_rows = trial->number % 2 ? 1 : check_between(rng, 1, all.spec.n_rows - i);
        i += next.spec.n_rows;
        build(trial, &next, rng);
        for (int row = 0; part.c.n_views && row < all.spec.n_rows_dst; row++) {
            unsigned char *image[CHECK_MAX_MEMORIES];
            for (int m = 0; m < CHECK_MAX_MEMORIES; m++)
                image[m] = m < next.c.n_memories ? next.c.memory[m].image : NULL;
            memcpy(rows_at(&next.c, image, 0, 0, row), rows_at(&part.c, part.result.image, 0, 0, row), row_bytes(&all.spec));
        }
        if (!check_trial_run(trial, &next.c, &next.result, "a part"))
            goto done;
        end(&part);
        part = next;
        memset(&next, 0, sizeof next);
    }
    same_rows(trial, &all, 0, 0, &part, 0, 0, "in parts");
done:
    end(&all);
    end(&part);
    end(&next);
}

/* A batch = its parts alone. */
static void batches(check_trial *trial, check_rng *rng)
{
    rows_call all = { 0 }, one = { 0 };
    rows_random(&all.spec, rng);
    for (int k = 0; k < 2; k++) {
        all.spec.index_batch[k] = check_between(rng, 1, 2);
        all.spec.n_batch[k] = all.spec.index_batch[k] * check_between(rng, 1, 2);
    }
    build(trial, &all, rng);
    if (!check_trial_run(trial, &all.c, &all.result, "the batch"))
        goto done;
    for (int b = 0; b < all.spec.n_batch[0]; b++)
        for (int c = 0; c < all.spec.n_batch[1]; c++) {
            end(&one);
            one.spec = all.spec;
            one.spec.only_batch[0] = b;
            one.spec.only_batch[1] = c;
            for (int k = 0; k < 2; k++) {
                one.spec.of_index_batch[k] = all.spec.index_batch[k];
                one.spec.n_batch[k] = one.spec.index_batch[k] = 1;
            }
            build(trial, &one, rng);
            if (!check_trial_run(trial, &one.c, &one.result, "one of the batch") ||
                !same_rows(trial, &all, b, c, &one, 0, 0, "alone"))
                goto done;
        }
done:
    end(&all);
    end(&one);
}

/* I32 = I64, packed = strided, any threads. */
static void variants(check_trial *trial, check_rng *rng)
{
    static const char *const what[] = { "with the other type of index", "strided", "with other threads" };
    rows_call a = { 0 }, b = { 0 };
    const int way = trial->number % 3;
    rows_random(&a.spec, rng);
    b.spec = a.spec;
    build(trial, &a, rng);
    if (!check_trial_run(trial, &a.c, &a.result, "the first way"))
        goto done;
    if (way == 0)
        b.spec.index_type = a.spec.index_type == GDN_I32 ? GDN_I64 : GDN_I32;
    if (way == 1)
        b.spec.strided = !a.spec.strided;
    if (way == 2)
        trial->setting.executor = CHECK_EXECUTOR(check_between(rng, 0, 2), trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    build(trial, &b, rng);
    if (!check_trial_run(trial, &b.c, &b.result, what[way]))
        goto done;
    for (int i = 0; i < a.spec.n_batch[0]; i++)
        for (int j = 0; j < a.spec.n_batch[1]; j++)
            if (!same_rows(trial, &a, i, j, &b, i, j, what[way]))
                goto done;
done:
    end(&a);
    end(&b);
}

const check_family check_families_set_rows[] = {
    { "splits", 60, splits }, { "batches", 40, batches }, { "variants", 60, variants }, { "far", 2, check_far_rows }, { NULL, 0, NULL },
};
