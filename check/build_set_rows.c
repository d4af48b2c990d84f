/* Building calls of set_rows from specifications. See specs.h. */
#include <string.h>

#include "case.h"
#include "specs.h"

#define FIELD(member) offsetof(gdn_set_rows_args, member)

const check_operand check_operands_set_rows[] = {
    { "src", FIELD(src), 3, 0, 0, 0 },
    { "dst", FIELD(dst), 3, 1, 0, 0 },
    { "index", FIELD(index), 3, 0, 0, 0 },
    { NULL, 0, 0, 0, 0, 0 },
};

static int64_t index_of(const rows_spec *spec, int b, int c, int i)
{
    b = spec->only_batch[0] >= 0 ? spec->only_batch[0] % spec->of_index_batch[0] : b;
    c = spec->only_batch[1] >= 0 ? spec->only_batch[1] % spec->of_index_batch[1] : c;
    i += spec->first_row;
    const uint64_t random = check_mix(spec->seed, 5000u + (uint64_t)(b * 64 + c));
    const uint64_t own = check_mix(random, (uint64_t)i), n = (uint64_t)spec->args.n_rows_dst;
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

static const check_view *add_operand(check_case *c, const rows_spec *spec, const char *name, size_t field,
                                     int32_t dtype, const int64_t *batch, int64_t rows, int64_t inner, int written,
                                     check_rng *rng)
{
    const int64_t extent[4] = { batch[0], batch[1], rows, inner };
    int order[3] = { 0, 1, 2 };
    check_view v = { .name = name,
                     .field = field,
                     .axis = { "batch0", "batch1", "row", dtype == GDN_Q8_0 ? "block" : "column" } };
    if (spec->strided && check_one_in(rng, 2)) check_shuffle(rng, order, 3);
    return check_add_operand(c, &v, dtype, 4, extent, order, 9, written, spec->strided ? rng : NULL);
}

void check_build_set_rows(check_case *c, const check_spec *any, check_rng *rng)
{
    const rows_spec *spec = &any->set_rows;
    gdn_set_rows_args *a = &c->args.set_rows;
    *a = spec->args;
    const check_view *src = add_operand(c, spec, "src", FIELD(src), spec->src_type, spec->args.n_batch,
                                        spec->args.n_rows, spec->args.n_columns, 0, rng);
    const int64_t inner = spec->dst_type == GDN_Q8_0 ? spec->args.n_columns / 32 : spec->args.n_columns;
    add_operand(c, spec, "dst", FIELD(dst), spec->dst_type, spec->args.n_batch, spec->args.n_rows_dst, inner, 1, rng);
    add_operand(c, spec, "index", FIELD(index), spec->index_type, spec->args.index_batch, spec->args.n_rows, 1, 0, rng);
    for (int b = 0; b < spec->args.n_batch[0]; b++)
        for (int e = 0; e < spec->args.n_batch[1]; e++)
            for (int i = 0; i < spec->args.n_rows; i++) {
                const uint64_t from = (uint64_t)((spec->only_batch[0] >= 0 ? spec->only_batch[0] : b) * 64 +
                                                 (spec->only_batch[1] >= 0 ? spec->only_batch[1] : e));
                check_fill(check_at(c, src, c->memory[src->memory].image, b, e, i, 0), spec->src_type,
                           spec->args.n_columns, (check_values)spec->values,
                           check_mix(check_mix(spec->seed, from), (uint64_t)(spec->first_row + i)));
            }
    for (int b = 0; b < spec->args.index_batch[0]; b++)
        for (int e = 0; e < spec->args.index_batch[1]; e++)
            for (int i = 0; i < spec->args.n_rows; i++) check_put_index(c, b, e, i, index_of(spec, b, e, i));
    check_note_writes(c);
}

/* ---- What a call may write -------------------------------------------------------------------------------------- */

const char *check_writes_set_rows(const void *args, const check_writes *writes)
{
    const gdn_set_rows_args *a = args;
    const int64_t n[2] = { a->n_batch[0], a->n_batch[1] };
    const int64_t m[2] = { a->index_batch[0], a->index_batch[1] };
    const check_place dst = check_resolve(&a->dst, 3, (int64_t[]){ n[0], n[1], a->n_rows_dst }, a->n_columns, 0);
    const check_place index = check_resolve(&a->index, 3, (int64_t[]){ m[0], m[1], a->n_rows }, 1, 0);
    const size_t width = check_unit_bytes(a->index.dtype);
    for (int64_t b = 0; b < n[0] && a->n_rows; b++)
        for (int64_t c = 0; c < n[1]; c++)
            for (int64_t i = 0; i < a->n_rows; i++) {
                const int64_t offset = b % m[0] * index.stride[0] + c % m[1] * index.stride[1] + i * index.stride[2];
                const unsigned char *at = index.at + offset;
                if ((a->index.bytes && (uint64_t)offset + width > a->index.bytes) ||
                    (writes->readable && !writes->readable(writes->user, at, width)))
                    return "index";
                const int64_t row = check_load_index(at, a->index.dtype);
                if (row < GDN_NONE || row >= a->n_rows_dst) return "index";
                if (row >= 0)
                    writes->may(writes->user, &a->dst,
                                dst.at + b * dst.stride[0] + c * dst.stride[1] + row * dst.stride[2],
                                check_row_bytes(a->dst.dtype, a->n_columns));
            }
    return NULL;
}
