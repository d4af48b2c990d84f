/* set_rows: the fixed list, and what must not change the bits. */
#include <stdio.h>
#include <string.h>

#include "families.h"
#include "trial.h"

static void random_case(check_spec *spec, check_rng *rng) { rows_random(&spec->set_rows, rng); }

static void begin(check_spec *spec) { rows_defaults(&spec->set_rows, 1, 1, 1); }

/* ---- the fixed list ---------------------------------------------------------------------------------------- */

#define ONE(member) CHECK_MEMBER(#member, rows_spec, member, 0)

static const check_member members[] = { { ONE(n_columns) }, { ONE(n_rows) },      { ONE(n_rows_dst) },
                                        { ONE(n_batch) },   { ONE(index_batch) }, { ONE(src_type) },
                                        { ONE(dst_type) },  { ONE(index_type) },  { ONE(index_style) },
                                        { ONE(values) },    { ONE(strided) },     { NULL, 0, 0, 0, 0 } };

#define FROM  "{src_type:f32|f16|bf16}"
#define FLOAT "{dst_type:f32|f16|bf16}"
#define TO    "{dst_type:f32|f16|bf16|q8_0}"

/* ggml's: columns, rows and a batch of b by something, or the other way. */
#define GGML(to, sizes, b, set)                                                                                        \
    "ggml/set_rows/{src_type}_to_" to "_{index_type:i32|i64}_" sizes "{strided}{b%7==0?|_b7} "                         \
    "{src_type:f32|f16} {strided:|_view} {b:" b "} index_style=0 " set

static const char *const lines[] = {
    "values/" FROM "_to_" TO "_{values:normal|ties|wide|subnormal|huge|zeros|special|nan}"
    " n_columns=dst_type==q8_0?96:101 n_rows=n_rows_dst=9 index_style=0",
    "columns/{c}_to_" TO " {c:1|2|3|5|7|8|9|15|16|17|31|32|33|63|64|65|96|127|128|129|256|1000|1024} "
    "n_columns=dst_type==q8_0?(c+31)/32*32:c n_rows=5 n_rows_dst=7 values=ties",
    "index/{k:permuted|random|one|none}_{index_type:i32|i64}_to_" TO
    " index_style=#k n_columns=64 n_rows=40 n_rows_dst=11",
    "batch/{b,c,d,e:2x1_index_1x1|1x2_index_1x1|4x6_index_2x3|3x2_index_3x2|2x4_index_2x1}_to_{dst_type}{strided:|"
    "_strided}"
    " " TO " n_columns=32 n_rows=5 n_rows_dst=6 n_batch=b,c index_batch=d,e",
    "no_rows/to_" TO " n_columns=32 n_rows=0 n_rows_dst=3",
    /* So much that backends may write past their caches, in odd numbers of cache lines; with and without duplicates. */
    "many/" FROM "_to_" FLOAT "_{k:permuted|random}"
    " index_style=#k n_columns=dst_type==f32?528:544 n_rows=300 n_rows_dst=310",
    "threads/{kind:library|pool|reverse}_{threads:1|2|3|4|5|6|7|8}" /* many duplicates for threads to fight over */
    " n_columns=512 n_rows=200 n_rows_dst=50 dst_type=threads%4",
    "mode/{environment:0|1|2|3|4|5|6}_to_" TO " n_columns=96 n_rows=8 n_rows_dst=9 values=environment%2?subnormal:ties",
    GGML(TO, "256x1_{b}x3_of_5", "1|7", "n_columns=256 n_rows=1 n_rows_dst=5 n_batch=index_batch=3,b"),
    GGML(TO, "256x7_2x{b}_of_11", "3|21", "n_columns=256 n_rows=7 n_rows_dst=11 n_batch=b,2 index_batch=b/3,1"),
    GGML(TO, "96x2_{b}x3_of_3", "2|14", "n_columns=96 n_rows=2 n_rows_dst=3 n_batch=3,b index_batch=1,b/2"),
    GGML(FLOAT, "3x2_{b}x3_of_3", "2|14", "n_columns=3 n_rows=2 n_rows_dst=3 n_batch=3,b index_batch=1,b/2"),
    GGML(FLOAT, "31x2_{b}x3_of_3", "2|14", "n_columns=31 n_rows=2 n_rows_dst=3 n_batch=3,b index_batch=1,b/2"),
    GGML(FLOAT, "33x1_2x{b}_of_5", "3|21", "n_columns=33 n_rows=1 n_rows_dst=5 n_batch=b,2 index_batch=b/3,1"),
    GGML(FLOAT, "1x2_1x3_of_8", "1|7", "n_columns=1 n_rows=2 n_rows_dst=8 n_batch=index_batch=3,1"),
    NULL,
};

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
    if (way == 2) {
        const int kind = check_between(rng, 0, 2);
        trial->setting.executor =
            CHECK_EXECUTOR(kind, trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    }
    if (!run(trial, b, rng, what[way])) return;
    for (int i = 0; i < a->rows.n_batch[0]; i++)
        for (int j = 0; j < a->rows.n_batch[1]; j++)
            if (!same_rows(trial, a, i, j, b, i, j, what[way])) return;
}

static const check_family families[] = {
    { "splits", 60, splits },     { "batches", 40, batches }, { "variants", 60, variants },
    { "far", 2, check_far_rows }, { NULL, 0, NULL },
};

const check_suite check_suite_set_rows = { &check_kernel_set_rows, random_case, begin, members, lines, families };
