/* The block of set_rows (types.h). Members have the names of gdn/set_rows.h, which explains them. */
#ifndef GDN_CALL_SET_ROWS_H
#define GDN_CALL_SET_ROWS_H

#include "call/types.h"

#define GDN_ROWS_COMPARED 64 /* a device compares so many rows with each other directly; more go through a table */

GDN_STRUCT(gdn_set_rows_call)
{
    uint64_t src, index;
    GDN_MEMORY dst;
    GDN_MEMORY bad;   /* GDN_BAD_WORDS words; a device's */
    GDN_MEMORY table; /* a device's: the last rows by hash, 0 where rows are compared directly */
    int64_t n_columns, n_rows, n_rows_dst;
    int64_t src_stride[3], dst_stride[3], index_stride[3]; /* batch 0, batch 1, row */
    int64_t blocks;                                        /* a device's: thread blocks per row */
    int64_t table_words;                                   /* of all index batches */
    GDN_U32T table_mask;                                   /* entries of one index batch - 1 */
    GDN_I32T n_batch[2], index_batch[2];
    GDN_I32T src_dtype, dst_dtype, index_dtype;
    GDN_I32T wide; /* 1: every row of src and dst begins at a multiple of 16 bytes */
    GDN_I32T has;
};

#endif
