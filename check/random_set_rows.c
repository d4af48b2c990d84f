/* Random calls of set_rows: types, index, values, strides, sizes, batches. See specs.h. */
#include "specs.h"

static const int all_values[] = { CHECK_NORMAL, CHECK_TIES,  CHECK_TIES,    CHECK_WIDE,    CHECK_WIDE, CHECK_SUBNORMAL,
                                  CHECK_HUGE,   CHECK_ZEROS, CHECK_SPECIAL, CHECK_ONE_NAN, CHECK_SMALL };

void rows_random(rows_spec *spec, check_rng *rng)
{
    static const int32_t src_types[] = { GDN_F32, GDN_F16, GDN_BF16 };
    static const int32_t dst_types[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };
    *spec = ROWS(.seed = check_next(rng));
    /* Types, the style of the index, values, strides. */
    spec->src_type = CHECK_PICK(rng, src_types);
    spec->dst_type = CHECK_PICK(rng, dst_types);
    spec->index_type = check_one_in(rng, 2) ? GDN_I32 : GDN_I64;
    spec->index_style = check_one_in(rng, 8) ? ROWS_ONE : check_one_in(rng, 12) ? ROWS_NONE : check_between(rng, 0, 1);
    spec->values = CHECK_PICK(rng, all_values);
    spec->strided = !check_one_in(rng, 4);
    /* Sizes; each axis of the batch in half of the calls, with an index for each part or for several. */
    spec->args.n_columns = spec->dst_type == GDN_Q8_0 ? 32 * check_between(rng, 1, 6)
                           : check_one_in(rng, 2)     ? check_between(rng, 1, 40)
                                                      : check_between(rng, 1, 300);
    spec->args.n_rows = check_between(rng, 0, 20);
    spec->args.n_rows_dst = check_between(rng, 1, 30);
    for (int k = 0; k < 2; k++)
        if (check_one_in(rng, 2)) {
            spec->args.index_batch[k] = check_between(rng, 1, 3);
            spec->args.n_batch[k] = spec->args.index_batch[k] * check_between(rng, 1, 3);
        }
}

void check_random_set_rows(check_spec *spec, check_rng *rng) { rows_random(&spec->set_rows, rng); }
