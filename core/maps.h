/* Checks of map contents, on backends whose maps the host can read (the CPU and the reference). */
#ifndef GDN_CORE_MAPS_H
#define GDN_CORE_MAPS_H

#include "core/problem.h"

/* The maps of a pool. For each sequence: the slot that it reads, the n_entries slots that it writes, the slots of its
 * checkpoints, and the slot of its commit. A commit is written with or without tokens. */
typedef struct gdn_pool_maps {
    const char *src_name, *dst_name;
    const gdn_place *src, *dst; /* absent: entry s * src_slots, and s * dst_slots + r; or
                                   GDN_NONE where there is no pool                        */
    int32_t n_seqs, n_tokens, n_entries;
    const gdn_place *seq_start;
    const gdn_checkpoint_view *checkpoints; /* NULL: none                                             */
    const gdn_place *position;              /* for checkpoints; already checked                       */
    const char *commit_name;
    const gdn_place *commit;      /* NULL or absent: GDN_NONE                               */
    int64_t src_slots, dst_slots; /* slots per row                                          */
    int64_t src_size, dst_size;   /* slots of the pools                                     */
    int32_t same_pool;            /* 1: source and destination are one pool                 */
    int32_t dst_is_row;           /* 1: dst has one entry for each sequence; error texts use one subscript */
    int32_t check_unused;         /* 1: entries that are not written must be in range too   */
    int64_t *n_visits;            /* counts the visits of entries, for tests; or NULL       */
} gdn_pool_maps;

/* Checks that seq_start ascends within [0, n_tokens]; if it is absent, that n_seqs divides n_tokens. *longest receives
 * the length of the longest sequence. If the map is not readable (a device's), *longest is 0: lengths are unknown, and
 * the extents that depend on them are not checked. */
gdn_status gdn_check_seq_start(const gdn_place *seq_start, int readable, int32_t n_seqs, int32_t n_tokens,
                               int32_t *longest);

/* Checks that position + length is below 2^31 for every sequence. */
gdn_status gdn_check_positions(const gdn_place *position, const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens);

/* Checks the log's maps. Lengths and positions have been checked. Of padding, ranges only.
 *   - Rows are in range.
 *   - A base position is 0 to the position. From it to the end of the sequence there are at most n_slots tokens.
 *   - Without a row the base position is the position. A sequence with tokens of a tree has a row. */
gdn_status gdn_check_log(const gdn_gated_delta_net_problem *p);

/* Checks that 16-bit states with a rounding interval are read and written only after a rounding: base positions and
 * targets of state_dst. Not of padding. Positions and ranges have been checked. */
gdn_status gdn_check_rounded(const gdn_gated_delta_net_problem *p);

/* Checks that every token's parent is an earlier token of its sequence, or none. Skips the sequences that are GDN_SKIP
 * in `padding` (absent: none). Lengths have been checked. */
gdn_status gdn_check_parents(const gdn_place *parent, const gdn_place *padding, const gdn_place *seq_start,
                             int32_t n_seqs, int32_t n_tokens);

/* Checks the interval and the number of entries. part is NULL if the call has no checkpoints. */
gdn_status gdn_check_checkpoints(const gdn_checkpoints *part, int32_t n_seqs);

/* Checks that all entries that are used are in range, that no slot is written twice, and that none is written by one
 * sequence and read by another. */
gdn_status gdn_check_pool_maps(const gdn_pool_maps *maps);

#endif
