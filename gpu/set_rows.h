// The hash table of set_rows: which of several rows with one target is the last. Written once, for all GPU kernels,
// with the macros of call/sequence.h. They have the names of gpu/names_rows.h. A slot holds a row number + 1, or 0 =
// empty. All rows that ever hold one slot have the same target.
#ifndef GDN_GPU_SET_ROWS_H
#define GDN_GPU_SET_ROWS_H

RULE GDN_U32T rows_hash(int64_t row)
{
    const GDN_U32T h = UINT(row) * 0x9e3779b1u ^ UINT(row >> 32) * 0x85ebca77u;
    return h ^ h >> 15;
}

FUNCTION int64_t rows_slot(CALL GDN_I32T b0, GDN_I32T b1, GDN_U32T at)
{
    return (LONG(b0) * P(index_batch[1]) + b1) * (LONG(P(table_mask)) + 1) + LONG(at & P(table_mask));
}

// Enters row n of all index batches. The slot of its target keeps the largest row number.
FUNCTION void rows_enter(CALL int64_t n)
{
    const int64_t batch = n / P(n_rows), i = n % P(n_rows);
    if (batch >= LONG(P(index_batch[0])) * P(index_batch[1])) return;
    const GDN_I32T b0 = INT(batch / P(index_batch[1])), b1 = INT(batch % P(index_batch[1]));
    const int64_t row = index_at(PASS b0, b1, i);
    if (row < 0 || row >= P(n_rows_dst)) return; // reported when rows are written
    GDN_U32T at = rows_hash(row);
    for (GDN_U32T tried = 0u; tried <= P(table_mask); tried++, at++) {
        const int64_t slot = rows_slot(PASS b0, b1, at);
        const GDN_U32T held = claim(PASS slot, UINT(i) + 1u);
        if (held == 0u) return;
        if (index_at(PASS b0, b1, LONG(held) - 1) == row) {
            raise_to(PASS slot, UINT(i) + 1u);
            return;
        }
    }
    REPORT(GDN_BAD_INDEX); // the table always has room: the driver has stopped the loop
}

// True if row i is the last with its target.
FUNCTION bool rows_last(CALL GDN_I32T b0, GDN_I32T b1, int64_t i, int64_t row)
{
    GDN_U32T at = rows_hash(row);
    for (GDN_U32T tried = 0u; tried <= P(table_mask); tried++, at++) {
        const GDN_U32T held = held_in(PASS rows_slot(PASS b0, b1, at));
        if (held == 0u) return true;
        if (index_at(PASS b0, b1, LONG(held) - 1) == row) return held == UINT(i) + 1u;
    }
    REPORT(GDN_BAD_INDEX); // as above
    return false;
}

#endif
