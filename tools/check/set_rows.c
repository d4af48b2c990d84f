/* set_rows: building calls, random cases, the fixed list, and the kernel's descriptor. */
#include "set_rows.h"

#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"

#define FIELD(member) offsetof(gdn_set_rows_args, member)

void rows_defaults(rows_spec *spec, int n_columns, int n_rows, int n_rows_dst)
{
    *spec = (rows_spec){ .n_columns = n_columns, .n_rows = n_rows, .n_rows_dst = n_rows_dst, .n_batch = { 1, 1 },
                         .index_batch = { 1, 1 }, .index_type = GDN_I64, .index_style = ROWS_RANDOM,
                         .only_batch = { -1, -1 }, .seed = 1 };
}

int64_t rows_index(const rows_spec *spec, int b, int c, int i)
{
    b = spec->only_batch[0] >= 0 ? spec->only_batch[0] % spec->of_index_batch[0] : b;
    c = spec->only_batch[1] >= 0 ? spec->only_batch[1] % spec->of_index_batch[1] : c;
    i += spec->first_row;
    const uint64_t random = check_mix(spec->seed, 5000u + (uint64_t)(b * 64 + c));
    const uint64_t own = check_mix(random, (uint64_t)i), n = (uint64_t)spec->n_rows_dst;
    switch (spec->index_style) {
    case ROWS_PERMUTED: return (int64_t)((random + (uint64_t)i) % n);
    case ROWS_ONE: return (int64_t)(random % n);
    case ROWS_NONE: return GDN_NONE;
    default: return own % 7 == 0 ? GDN_NONE : (int64_t)((own >> 8) % n);
    }
}

unsigned char *rows_at(const check_case *c, unsigned char *const *image, int b0, int b1, int row)
{
    const check_view *v = check_find(c, "dst");
    return check_at(c, v, image[v->memory], b0, b1, row, 0);
}

static const check_view *add_operand(check_case *c, const rows_spec *spec, const char *name, size_t field, int32_t dtype,
                                     const int *batch, int rows, int inner, int written, check_rng *rng)
{
    const int64_t extent[4] = { batch[0], batch[1], rows, inner };
    int order[3] = { 0, 1, 2 };
    check_view v = { .name = name, .field = field, .axis = { "batch0", "batch1", "row", dtype == GDN_Q8_0 ? "block" : "column" } };
    if (spec->strided && check_one_in(rng, 2))
        check_shuffle(rng, order, 3);
    const uint64_t bytes = check_lay_out(&v, dtype, 4, extent, order, spec->strided ? 9 : 0, spec->strided ? rng : NULL);
    v.memory = check_add_memory(c, bytes, check_alignment(dtype), written, spec->strided ? rng : NULL);
    v.stated = spec->strided && check_one_in(rng, 2) ? bytes : 0;
    return check_add_view(c, &v);
}

void rows_build(check_case *c, const rows_spec *spec, check_rng *rng)
{
    gdn_set_rows_args *a = &c->args.set_rows;
    const int shorten = check_one_in(rng, 2);
    *a = (gdn_set_rows_args){ .size = sizeof *a, .n_columns = spec->n_columns, .n_rows = spec->n_rows,
                              .n_rows_dst = spec->n_rows_dst };
    for (int k = 0; k < 2; k++) {
        a->n_batch[k] = shorten && spec->n_batch[k] == 1 ? 0 : spec->n_batch[k];
        a->index_batch[k] = shorten && spec->index_batch[k] == 1 ? 0 : spec->index_batch[k];
    }
    const check_view *src = add_operand(c, spec, "src", FIELD(src), spec->src_type, spec->n_batch, spec->n_rows, spec->n_columns, 0, rng);
    const int inner = spec->dst_type == GDN_Q8_0 ? spec->n_columns / 32 : spec->n_columns;
    const check_view *dst = add_operand(c, spec, "dst", FIELD(dst), spec->dst_type, spec->n_batch, spec->n_rows_dst, inner, 1, rng);
    const check_view *index = add_operand(c, spec, "index", FIELD(index), spec->index_type, spec->index_batch, spec->n_rows, 1, 0, rng);
    const uint64_t row_bytes = check_unit_bytes(spec->dst_type) * (uint64_t)inner;
    for (int b = 0; b < spec->n_batch[0]; b++)
        for (int e = 0; e < spec->n_batch[1]; e++)
            for (int i = 0; i < spec->n_rows; i++) {
                const uint64_t from = (uint64_t)((spec->only_batch[0] >= 0 ? spec->only_batch[0] : b) * 64 +
                                                 (spec->only_batch[1] >= 0 ? spec->only_batch[1] : e));
                check_fill(check_at(c, src, c->memory[src->memory].image, b, e, i, 0), spec->src_type, spec->n_columns,
                           (check_values)spec->values, check_mix(check_mix(spec->seed, from), (uint64_t)(spec->first_row + i)));
                const int64_t to = rows_index(spec, b % spec->index_batch[0], e % spec->index_batch[1], i);
                if (to >= 0)
                    check_may_write(c, dst, check_at(c, dst, c->memory[dst->memory].image, b, e, to, 0), row_bytes);
            }
    for (int b = 0; b < spec->index_batch[0]; b++)
        for (int e = 0; e < spec->index_batch[1]; e++)
            for (int i = 0; i < spec->n_rows; i++) {
                const int64_t wide = rows_index(spec, b, e, i);
                const int32_t narrow = (int32_t)wide;
                unsigned char *at = check_at(c, index, c->memory[index->memory].image, b, e, i, 0);
                if (spec->index_type == GDN_I64)
                    memcpy(at, &wide, 8);
                else
                    memcpy(at, &narrow, 4);
            }
}

/* ---- random cases ---------------------------------------------------------------------------------------- */

static const int all_values[] = { CHECK_NORMAL, CHECK_TIES, CHECK_TIES, CHECK_WIDE, CHECK_WIDE, CHECK_SUBNORMAL, CHECK_HUGE,
                                  CHECK_ZEROS, CHECK_SPECIAL, CHECK_ONE_NAN, CHECK_SMALL };
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

static void random_case(check_case *c, check_rng *rng)
{
    rows_spec spec;
    rows_random(&spec, rng);
    rows_build(c, &spec, rng);
}

/* ---- the fixed list ---------------------------------------------------------------------------------------- */

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define NAME(...) ((void)snprintf(name, bytes, __VA_ARGS__))

static int walk_list(int want, rows_spec *spec, char *name, size_t bytes, check_case *c)
{
    static const char *const types[] = { "f32", "f16", "bf16", "q8_0" };
    static const struct { const char *name; int values; } values[] = {
        { "normal", CHECK_NORMAL }, { "ties", CHECK_TIES }, { "wide", CHECK_WIDE }, { "subnormal", CHECK_SUBNORMAL },
        { "huge", CHECK_HUGE }, { "zeros", CHECK_ZEROS }, { "special", CHECK_SPECIAL }, { "nan", CHECK_ONE_NAN },
    };
    static const int columns[] = { 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 256, 1000, 1024 };
    static const struct { const char *name; int style; } indices[] = {
        { "permuted", ROWS_PERMUTED }, { "random", ROWS_RANDOM }, { "one", ROWS_ONE }, { "none", ROWS_NONE },
    };
    static const int batches[][4] = { { 2, 1, 1, 1 }, { 1, 2, 1, 1 }, { 4, 6, 2, 3 }, { 3, 2, 3, 2 }, { 2, 4, 2, 1 } };
    int n = 0;
    for (int s = 0; s < 3; s++)
        for (int d = 0; d < 4; d++)
            for (int v = 0; v < COUNT(values); v++)
                if (n++ == want) {
                    rows_defaults(spec, d == 3 ? 96 : 101, 12, 9);
                    spec->src_type = src_types[s];
                    spec->dst_type = dst_types[d];
                    spec->values = values[v].values;
                    spec->index_style = ROWS_PERMUTED;
                    spec->n_rows = 9;
                    NAME("values/%s_to_%s_%s", types[s], types[d], values[v].name);
                }
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < COUNT(columns); i++)
            if (n++ == want) {
                rows_defaults(spec, d == 3 ? (columns[i] + 31) / 32 * 32 : columns[i], 5, 7);
                spec->dst_type = dst_types[d];
                spec->values = CHECK_TIES;
                NAME("columns/%d_to_%s", columns[i], types[d]);
            }
    for (int i = 0; i < COUNT(indices); i++)
        for (int type = 0; type < 2; type++)
            for (int d = 0; d < 4; d++)
                if (n++ == want) {
                    rows_defaults(spec, 64, 40, 11);
                    spec->index_style = indices[i].style;
                    spec->index_type = type ? GDN_I64 : GDN_I32;
                    spec->dst_type = dst_types[d];
                    NAME("index/%s_%s_to_%s", indices[i].name, type ? "i64" : "i32", types[d]);
                }
    for (int i = 0; i < COUNT(batches); i++)
        for (int strided = 0; strided < 2; strided++)
            for (int d = 0; d < 4; d++)
                if (n++ == want) {
                    rows_defaults(spec, 32, 5, 6);
                    for (int k = 0; k < 2; k++) {
                        spec->n_batch[k] = batches[i][k];
                        spec->index_batch[k] = batches[i][2 + k];
                    }
                    spec->strided = strided;
                    spec->dst_type = dst_types[d];
                    NAME("batch/%dx%d_index_%dx%d_to_%s%s", batches[i][0], batches[i][1], batches[i][2], batches[i][3], types[d],
                         strided ? "_strided" : "");
                }
    for (int d = 0; d < 4; d++)
        if (n++ == want) {
            rows_defaults(spec, 32, 0, 3);
            spec->dst_type = dst_types[d];
            NAME("no_rows/to_%s", types[d]);
        }
    for (int s = 0; s < 3; s++) /* so much that backends may write past their caches; with and without duplicates */
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < 2; i++)
                if (n++ == want) {
                    rows_defaults(spec, 544, 300, 310);
                    spec->src_type = src_types[s];
                    spec->dst_type = dst_types[d];
                    spec->index_style = indices[i].style;
                    NAME("many/%s_to_%s_%s", types[s], types[d], indices[i].name);
                }
    for (int kind = 0; kind < 3; kind++)
        for (int threads = 1; threads <= 8; threads++)
            if (n++ == want) {
                static const char *const kinds[] = { "library", "pool", "reverse" };
                rows_defaults(spec, 512, 200, 50); /* many duplicates for threads to fight over */
                spec->dst_type = dst_types[threads % 4];
                if (c)
                    c->executor = CHECK_EXECUTOR(kind, threads);
                NAME("threads/%s_%d", kinds[kind], threads);
            }
    for (int environment = 0; environment < CHECK_ENV_COUNT; environment++)
        for (int d = 0; d < 4; d++)
            if (n++ == want) {
                rows_defaults(spec, 96, 8, 9);
                spec->dst_type = dst_types[d];
                spec->values = environment & 1 ? CHECK_SUBNORMAL : CHECK_TIES;
                if (c)
                    c->environment = environment;
                NAME("mode/%d_to_%s", environment, types[d]);
            }
    if (want >= n && want < n + ggml_n_rows())
        ggml_rows(want - n, spec, name, bytes);
    return n + ggml_n_rows();
}

static int n_fixed(void)
{
    char name[96];
    rows_spec spec;
    return walk_list(-1, &spec, name, sizeof name, NULL);
}

static const char *fixed_name(int i, char *name, size_t bytes)
{
    rows_spec spec;
    walk_list(i, &spec, name, bytes, NULL);
    return name;
}

static void fixed_case(check_case *c, int i, check_rng *rng)
{
    char name[96];
    rows_spec spec;
    walk_list(i, &spec, name, sizeof name, c);
    rows_build(c, &spec, rng);
}

static gdn_status query(const gdn_context *ctx, const void *args, gdn_capability *capability)
{
    return gdn_set_rows_query(ctx, args, capability);
}

static gdn_status run(gdn_context *ctx, const void *args)
{
    return gdn_set_rows(ctx, args, NULL);
}

const check_kernel check_kernel_set_rows = {
    .name = "set_rows", .args_size = sizeof(gdn_set_rows_args), .workspace = offsetof(gdn_set_rows_args, workspace),
    .query = query, .run = run, .random = random_case, .n_fixed = n_fixed, .fixed_name = fixed_name, .fixed = fixed_case,
    .random_share = 100, .families = check_families_set_rows,
};
