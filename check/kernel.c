/* Kernels. See kernel.h. */
#include "kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

#define KERNEL(stem, call_t, workspace_at, query_call, run_call)                                                       \
    static gdn_status query_##stem(const gdn_context *ctx, const void *call, gdn_capability *capability)               \
    {                                                                                                                  \
        return query_call(ctx, call, capability);                                                                      \
    }                                                                                                                  \
    static gdn_status run_##stem(gdn_context *ctx, const void *call, gdn_stream stream)                                \
    {                                                                                                                  \
        return run_call(ctx, call, stream);                                                                            \
    }                                                                                                                  \
    const check_kernel check_kernel_##stem = {                                                                         \
        #stem,                                                                                                         \
        sizeof(call_t),                                                                                                \
        offsetof(call_t, workspace_at),                                                                                \
        check_operands_##stem,                                                                                         \
        query_##stem,                                                                                                  \
        run_##stem,                                                                                                    \
        check_build_##stem,                                                                                            \
        check_writes_##stem,                                                                                           \
        check_random_##stem,                                                                                           \
        check_cases_##stem,                                                                                            \
        check_families_##stem,                                                                                         \
    };
KERNEL(gated_delta_net, delta_call, args.workspace, delta_query, delta_run)
KERNEL(ssm_conv, conv_call, args.workspace, conv_query, conv_run)
KERNEL(set_rows, gdn_set_rows_args, workspace, gdn_set_rows_query, gdn_set_rows)
#undef KERNEL

const check_kernel *const check_kernels[CHECK_KERNEL_COUNT] = {
    [CHECK_KERNEL_gated_delta_net] = &check_kernel_gated_delta_net,
    [CHECK_KERNEL_ssm_conv] = &check_kernel_ssm_conv,
    [CHECK_KERNEL_set_rows] = &check_kernel_set_rows,
};

void check_list_cases(const check_kernel *kernel, void (*take)(void *user, const check_list *list), void *user)
{
    check_list list = { .take = take, .user = user, .executor = -1, .environment = -1 };
    kernel->cases(&list);
}

void check_add(check_list *list, const check_spec *spec, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(list->name, sizeof list->name, format, args);
    va_end(args);
    list->spec = *spec;
    list->take(list->user, list);
    list->executor = list->environment = -1;
}

const int *check_tree_parents(int shape)
{
    static int comb[CHECK_MAX_TREE], star[CHECK_MAX_TREE];
    for (int i = 0; i < CHECK_MAX_TREE; i++) {
        comb[i] = i < 2 ? GDN_NONE : i - 2;
        star[i] = GDN_NONE;
    }
    return shape == CHECK_TREE_COMB ? comb : shape == CHECK_TREE_STAR ? star : NULL;
}

check_place check_resolve(const gdn_tensor *t, int n_axes, const int64_t *extent, int64_t inner, int by_sequence)
{
    /* NULL + 0 is undefined, and an absent operand says so by NULL. */
    check_place p = { t->data ? (unsigned char *)t->data + t->offset : NULL, { 0 } };
    int64_t inside = (int64_t)check_row_bytes(t->dtype, inner);
    for (int a = n_axes - 1; a >= 0; a--) {
        p.stride[a] = t->stride[a] || (by_sequence && a == 0) ? t->stride[a] : inside;
        inside = (extent[a] > 0 ? extent[a] : 1) * (p.stride[a] > inside ? p.stride[a] : inside);
    }
    return p;
}

int64_t check_entry(const check_writes *writes, const gdn_span *map, int64_t i, int64_t absent, int64_t low,
                    int64_t high, const char *name, const char **wrong)
{
    int32_t value = 0;
    if (!map->data) return absent;
    const char *at = (const char *)map->data + map->offset + 4 * i;
    if ((map->bytes && 4 * (uint64_t)i + 4 > map->bytes) ||
        (writes->readable && !writes->readable(writes->user, at, 4))) {
        *wrong = name;
        return absent;
    }
    memcpy(&value, at, 4);
    if (value < low || value > high) *wrong = name;
    return value;
}

check_sequence check_sequence_of(const check_writes *writes, const gdn_span *seq_start, int64_t s, int64_t n_seqs,
                                 int64_t n_tokens, const char **wrong)
{
    const int64_t share = n_tokens / n_seqs;
    const int64_t first = check_entry(writes, seq_start, s, s * share, 0, n_tokens, "seq_start", wrong);
    return (check_sequence){
        first, check_entry(writes, seq_start, s + 1, (s + 1) * share, first, n_tokens, "seq_start", wrong) - first
    };
}

int64_t check_checkpoints(int64_t interval, int64_t position, int64_t length)
{
    int64_t n = 0;
    for (int64_t t = 1; interval && t <= length; t++) n += (position + t) % interval == 0;
    return n;
}

void check_parents(const check_writes *writes, const gdn_span *parent, check_sequence q, const char **wrong)
{
    for (int64_t t = 0; parent->data && t < q.length && !*wrong; t++)
        check_entry(writes, parent, q.first + t, t - 1, GDN_NONE, t - 1, "tree.parent", wrong);
}

static int drawn_parent(uint64_t key, int t)
{
    const uint64_t drawn = check_mix(key, (uint64_t)t);
    return drawn & 1 ? t - 1 : (int)((drawn >> 1) % (uint64_t)(t + 1)) - 1;
}

void check_add_parents(struct check_case *c, size_t field, const check_tree *tree, int n_trees, int n_tokens,
                       check_rng *rng)
{
    int32_t *const parent = check_alloc(4 * (uint64_t)(n_tokens ? n_tokens : 1));
    for (int i = 0; i < n_tokens; i++) parent[i] = (int32_t)check_next(rng);
    for (const check_tree *q = tree; q < tree + n_trees; q++)
        for (int t = 0; t < q->length; t++) parent[q->first + t] = q->parent ? q->parent[t] : drawn_parent(q->key, t);
    check_add_map(c, "tree.parent", field, parent, sizeof *parent, n_tokens, 1, rng);
    free(parent);
}

void check_tokens_written(const check_writes *writes, const gdn_tensor *out, const check_place *place, check_sequence q,
                          int64_t s, int64_t heads, uint64_t bytes)
{
    const int64_t *stride = place->stride;
    for (int64_t t = 0; t < q.length; t++)
        for (int64_t h = 0; h < heads; h++)
            writes->may(writes->user, out,
                        place->at + (stride[0] ? s * stride[0] + t * stride[1] : (q.first + t) * stride[1]) +
                            h * stride[2],
                        bytes);
}

void check_pool_rows(const check_writes *writes, const check_place *pool, const int64_t extent[4], uint64_t bytes)
{
    int64_t i[4];
    for (i[0] = 0; writes->pool && pool->at && i[0] < extent[0]; i[0]++)
        for (i[1] = 0; i[1] < extent[1]; i[1]++)
            for (i[2] = 0; i[2] < extent[2]; i[2]++)
                for (i[3] = 0; i[3] < extent[3]; i[3]++)
                    writes->pool(writes->user,
                                 pool->at + i[0] * pool->stride[0] + i[1] * pool->stride[1] + i[2] * pool->stride[2] +
                                     i[3] * pool->stride[3],
                                 bytes);
}
