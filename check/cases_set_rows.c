/* The fixed cases of set_rows. See cases.h. */
#include "cases.h"

#define ADD(...) check_add(list, &(check_spec){ .set_rows = r }, __VA_ARGS__)

enum { N_FLOATS = 3, N_TYPES = 4 }; /* F32, F16 and BF16; and Q8_0, which is a target only */

static const char *const *const types = check_type_names;
static const char *const styles[] = { "permuted", "random", "one", "none" };

static void values(check_list *list)
{
    static const char *const names[] = { "normal", "ties", "wide", "subnormal", "huge", "zeros", "special", "nan" };
    static const int classes[] = { CHECK_NORMAL, CHECK_TIES,  CHECK_WIDE,    CHECK_SUBNORMAL,
                                   CHECK_HUGE,   CHECK_ZEROS, CHECK_SPECIAL, CHECK_ONE_NAN };
    for (int src = 0; src < N_FLOATS; src++)
        for (int dst = 0; dst < N_TYPES; dst++)
            for (int v = 0; v < COUNT(classes); v++) {
                const rows_spec r =
                    ROWS(.src_type = src, .dst_type = dst, .args.n_columns = dst == GDN_Q8_0 ? 96 : 101,
                         .args.n_rows = 9, .args.n_rows_dst = 9, .index_style = ROWS_PERMUTED, .values = classes[v]);
                ADD("values/%s_to_%s_%s", types[src], types[dst], names[v]);
            }
}

static void columns(check_list *list)
{
    static const int n[] = {
        1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 256, 1000, 1024
    };
    for (int dst = 0; dst < N_TYPES; dst++)
        for (int c = 0; c < COUNT(n); c++) {
            const rows_spec r = ROWS(.dst_type = dst, .args.n_columns = dst == GDN_Q8_0 ? (n[c] + 31) / 32 * 32 : n[c],
                                     .args.n_rows = 5, .args.n_rows_dst = 7, .values = CHECK_TIES);
            ADD("columns/%d_to_%s", n[c], types[dst]);
        }
}

static void indices(check_list *list)
{
    for (int style = 0; style < COUNT(styles); style++)
        for (int index = GDN_I32; index <= GDN_I64; index++)
            for (int dst = 0; dst < N_TYPES; dst++) {
                const rows_spec r = ROWS(.dst_type = dst, .index_type = index, .index_style = style,
                                         .args.n_columns = 64, .args.n_rows = 40, .args.n_rows_dst = 11);
                ADD("index/%s_%s_to_%s", styles[style], types[index], types[dst]);
            }
}

static void batches(check_list *list)
{
    static const int sizes[][4] = { { 2, 1, 1, 1 }, { 1, 2, 1, 1 }, { 4, 6, 2, 3 }, { 3, 2, 3, 2 }, { 2, 4, 2, 1 } };
    for (int i = 0; i < COUNT(sizes); i++)
        for (int strided = 0; strided < 2; strided++)
            for (int dst = 0; dst < N_TYPES; dst++) {
                const int *const n = sizes[i];
                const rows_spec r =
                    ROWS(.dst_type = dst, .args.n_columns = 32, .args.n_rows = 5, .args.n_rows_dst = 6,
                         .args.n_batch = { n[0], n[1] }, .args.index_batch = { n[2], n[3] }, .strided = strided);
                ADD("batch/%dx%d_index_%dx%d_to_%s%s", n[0], n[1], n[2], n[3], types[dst], strided ? "_strided" : "");
            }
    for (int dst = 0; dst < N_TYPES; dst++) {
        const rows_spec r = ROWS(.dst_type = dst, .args.n_columns = 32, .args.n_rows = 0, .args.n_rows_dst = 3);
        ADD("no_rows/to_%s", types[dst]);
    }
}

/* So much that backends may write past their caches, in odd numbers of cache lines; with and without duplicates. */
static void many(check_list *list)
{
    for (int src = 0; src < N_FLOATS; src++)
        for (int dst = 0; dst < N_FLOATS; dst++)
            for (int style = ROWS_PERMUTED; style <= ROWS_RANDOM; style++) {
                const rows_spec r =
                    ROWS(.src_type = src, .dst_type = dst, .index_style = style,
                         .args.n_columns = dst == GDN_F32 ? 528 : 544, .args.n_rows = 300, .args.n_rows_dst = 310);
                ADD("many/%s_to_%s_%s", types[src], types[dst], styles[style]);
            }
}

static void threads_and_modes(check_list *list)
{
    for (int kind = 0; kind < COUNT(check_executor_names); kind++)
        for (int n = 1; n <= 8; n++) { /* threads write the same rows: many duplicates */
            const rows_spec r =
                ROWS(.dst_type = n % 4, .args.n_columns = 512, .args.n_rows = 200, .args.n_rows_dst = 50);
            list->executor = CHECK_EXECUTOR(kind, n);
            ADD("threads/%s_%d", check_executor_names[kind], n);
        }
    for (int mode = 0; mode < 7; mode++)
        for (int dst = 0; dst < N_TYPES; dst++) {
            const rows_spec r = ROWS(.dst_type = dst, .args.n_columns = 96, .args.n_rows = 8, .args.n_rows_dst = 9,
                                     .values = mode % 2 ? CHECK_SUBNORMAL : CHECK_TIES);
            list->environment = mode;
            ADD("mode/%d_to_%s", mode, types[dst]);
        }
}

/* The cases of ggml's own operator tests (version 0.21, tests/test-backend-ops.cpp). Those called _b7 have 7 times as
 * many of one axis of the batch. */
static void ggml(check_list *list)
{
    static const struct {
        int n_types, n_columns, n_rows, n_rows_dst, batch[2], index_batch[2], axis;
    } calls[] = {
        { N_TYPES, 256, 1, 5, { 3, 1 }, { 3, 1 }, 1 }, { N_TYPES, 256, 7, 11, { 3, 2 }, { 1, 1 }, 0 },
        { N_TYPES, 96, 2, 3, { 3, 2 }, { 1, 1 }, 1 },  { N_FLOATS, 3, 2, 3, { 3, 2 }, { 1, 1 }, 1 },
        { N_FLOATS, 31, 2, 3, { 3, 2 }, { 1, 1 }, 1 }, { N_FLOATS, 33, 1, 5, { 3, 2 }, { 1, 1 }, 0 },
        { N_FLOATS, 1, 2, 8, { 3, 1 }, { 3, 1 }, -1 },
    };
    for (int i = 0; i < COUNT(calls); i++)
        for (int dst = 0; dst < calls[i].n_types; dst++)
            for (int index = GDN_I32; index <= GDN_I64; index++)
                for (int src = GDN_F32; src <= GDN_F16; src++)
                    for (int view = 0; view < 2; view++)
                        for (int b7 = 0; b7 < 2; b7++) {
                            rows_spec r = ROWS(.src_type = src, .dst_type = dst, .index_type = index, .strided = view,
                                               .args.n_columns = calls[i].n_columns, .args.n_rows = calls[i].n_rows,
                                               .args.n_rows_dst = calls[i].n_rows_dst, .index_style = ROWS_PERMUTED);
                            for (int axis = 0; axis < 2; axis++) {
                                const int times = b7 && axis == calls[i].axis ? 7 : 1;
                                r.args.n_batch[axis] = times * calls[i].batch[axis];
                                r.args.index_batch[axis] = times * calls[i].index_batch[axis];
                            }
                            ADD("ggml/set_rows/%s_to_%s_%s_%dx%d_%dx%d_of_%d%s%s", types[src], types[dst], types[index],
                                calls[i].n_columns, calls[i].n_rows, (int)r.args.n_batch[1], (int)r.args.n_batch[0],
                                calls[i].n_rows_dst, view ? "_view" : "", b7 ? "_b7" : "");
                        }
}

void check_cases_set_rows(check_list *list)
{
    values(list);
    columns(list);
    indices(list);
    batches(list);
    many(list);
    threads_and_modes(list);
    ggml(list);
}
