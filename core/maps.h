/* Contents of maps, checked where the host can read them (the CPU and the reference). */
#ifndef GDN_CORE_MAPS_H
#define GDN_CORE_MAPS_H

#include "core/problem.h"

/* The maps over a pool: which slot each sequence reads, which n_entries slots it writes, where its checkpoints go, and
 * one slot more that it writes with or without tokens. */
typedef struct gdn_pool_maps {
    const char      *src_name, *dst_name;
    const gdn_place *src, *dst;             /* absent: entry s * src_slots, and s * dst_slots + r; or
                                               GDN_NONE where there is no pool                        */
    int32_t          n_seqs, n_tokens, n_entries;
    const gdn_place *seq_start;
    const gdn_checkpoint_view *checkpoints;    /* NULL: none                                             */
    const gdn_place *position;              /* checked already; of checkpoints                        */
    const char      *commit_name;
    const gdn_place *commit;                /* NULL or absent: GDN_NONE                               */
    int64_t          src_slots, dst_slots;  /* slots per row                                          */
    int64_t          src_size, dst_size;    /* slots of the pools                                     */
    int32_t          same_pool;             /* 1: source and destination are one pool                 */
    int32_t          dst_is_row;            /* 1: dst has one entry for each sequence, without a second subscript */
    int32_t          check_unused;          /* 1: entries that are not written must be in range too   */
    int64_t         *n_visits;              /* grows by the visits of entries: a test's; or NULL      */
} gdn_pool_maps;

/* seq_start ascends within [0, n_tokens]; absent: n_seqs divides n_tokens. *longest: most tokens that a sequence has; 0
 * where the map is not readable, a device's: nothing is then known about lengths, and how far they reach is not judged.
 */
gdn_status gdn_check_seq_start(const gdn_place *seq_start, int readable, int32_t n_seqs, int32_t n_tokens,
                               int32_t *longest);

/* Every position leaves room for the sequence's tokens below 2^31. */
gdn_status gdn_check_positions(const gdn_place *position, const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens);

/* Rows of the log are in range; every state stands at 0 to its sequence's position, no further behind the sequence's
 * end than the log has columns, and at the position itself where the sequence has no row, which one with tokens that
 * are a tree has. Of padding, ranges only. Lengths and positions have been checked. */
gdn_status gdn_check_log(const gdn_gated_delta_net_problem *p);

/* States of 16 bits that are rounded after every so many tokens are read and written only where they are: where they
 * stand, and those of state_dst. Not of padding. Positions and ranges have been checked. */
gdn_status gdn_check_rounded(const gdn_gated_delta_net_problem *p);

/* Every token follows one before it in its sequence, or none. Sequences that `padding` (absent: none) says to skip are
 * not looked at. Lengths have been checked. */
gdn_status gdn_check_parents(const gdn_place *parent, const gdn_place *padding, const gdn_place *seq_start,
                             int32_t n_seqs, int32_t n_tokens);

/* The interval and the number of entries; NULL: the call has no checkpoints. */
gdn_status gdn_check_checkpoints(const gdn_checkpoints *part, int32_t n_seqs);

/* All entries that are used are in range, no slot is written twice, none is written by one sequence and read by
 * another. */
gdn_status gdn_check_pool_maps(const gdn_pool_maps *maps);

#endif
