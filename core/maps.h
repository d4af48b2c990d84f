/* Checks of map contents, on backends whose maps the host can read (the CPU and the reference), and on devices where
 * there are no maps. What the maps say, and
 * which entry is bad, is call/sequence.h and call/history.h, for all backends. Here are the texts, and that no slot is
 * written twice. */
#ifndef GDN_CORE_MAPS_H
#define GDN_CORE_MAPS_H

#include "core/problem.h"

/* The maps of a pool. For each sequence: the slot that it reads, the n_entries slots that it writes, the slots of its
 * checkpoints, and the slot of its commit. A commit is written with or without tokens. */
typedef struct gdn_pool_maps {
    const char *src_name, *dst_name, *commit_name;
    /* NULL: absent. src and dst are then entry s * src_slots, and s * dst_slots + r; or GDN_NONE without a pool. */
    const int32_t *src, *dst;
    const int32_t *seq_start, *commit, *checkpoints;
    const int32_t *position; /* for checkpoints; already checked */
    int32_t n_seqs, even_tokens, n_entries;
    int32_t interval, n_checkpoints; /* 0: no checkpoints */
    int64_t src_slots, dst_slots;    /* slots per row                                          */
    int64_t src_size, dst_size;      /* slots of the pools                                     */
    int32_t same_pool;               /* 1: source and destination are one pool                 */
    int32_t dst_is_row;              /* 1: dst has one entry for each sequence; error texts use one subscript */
    int32_t check_unused;            /* 1: entries that are not written must be in range too   */
    int64_t *n_visits;               /* counts the visits of entries, for tests; or NULL       */
} gdn_pool_maps;

/* A map that the host can read, or NULL. */
static inline const int32_t *gdn_map(uint64_t address) { return (const int32_t *)(const void *)gdn_memory(address); }

/* Bits of `has` of all maps. Where none is set, every sequence is like the first, and the host of a device can check
 * that one. */
#define GDN_HAS_MAPS                                                                                                   \
    (GDN_HAS_SEQ_START | GDN_HAS_SRC | GDN_HAS_DST | GDN_HAS_POSITION | GDN_HAS_BASE_POSITION | GDN_HAS_LOG_ROW |      \
     GDN_HAS_COMMIT | GDN_HAS_PARENT | GDN_HAS_CHECKPOINTS)

/* Checks that seq_start ascends within [0, n_tokens]; if it is absent, that n_seqs divides n_tokens. *longest receives
 * the length of the longest sequence. If the map is not readable (a device's), *longest is 0: lengths are unknown, and
 * the extents that depend on them are not checked. */
gdn_status gdn_check_seq_start(const gdn_region *region, const int32_t *seq_start, int32_t n_seqs, int32_t n_tokens,
                               int32_t *longest);

/* Checks everything that the maps of gated_delta_net say. `states` are those of its pools. */
gdn_status gdn_check_sequences(const gdn_gated_delta_net_call *p, const gdn_pool_maps *states);

/* The same of ssm_conv. */
gdn_status gdn_check_conv_sequences(const gdn_ssm_conv_call *p, const gdn_pool_maps *rows);

/* Checks the interval and the number of entries. part is NULL if the call has no checkpoints. */
gdn_status gdn_check_checkpoints(const gdn_checkpoints *part, int32_t n_seqs);

/* Checks that all entries that are used are in range, that no slot is written twice, and that none is written by one
 * sequence and read by another. */
gdn_status gdn_check_pool_maps(const gdn_pool_maps *maps);

#endif
