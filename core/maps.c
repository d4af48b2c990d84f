/* Contents of maps. See maps.h. */
#include "core/maps.h"

#include <string.h>

#include "core/status.h"

gdn_status gdn_check_seq_start(const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens)
{
    if (!seq_start->base) {
        if (n_seqs && n_tokens % n_seqs)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "n_tokens is %d and n_seqs is %d; without seq_start every sequence has n_tokens / n_seqs tokens",
                            (int)n_tokens, (int)n_seqs);
        return GDN_OK;
    }
    const int32_t *start = (const int32_t *)(const void *)seq_start->base;
    int32_t        last  = 0;
    for (int32_t s = 0; s <= n_seqs; s++) {
        if (start[s] < last || start[s] > n_tokens)
            return gdn_fail(GDN_INVALID_ARGUMENT, "seq_start[%d] is %d; %d (the entry before) to %d (n_tokens) are allowed",
                            (int)s, (int)start[s], (int)last, (int)n_tokens);
        last = start[s];
    }
    return GDN_OK;
}

int32_t gdn_longest_sequence(const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens)
{
    int32_t longest = 0;
    for (int32_t s = 0; s < n_seqs; s++) {
        const int32_t length = gdn_seq_length(seq_start, n_seqs, n_tokens, s);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static int64_t source_of(const gdn_pool_maps *m, int32_t s)
{
    if (m->src->base)
        return ((const int32_t *)(const void *)m->src->base)[s];
    return m->src_size ? s * m->src_slots : GDN_NONE;
}

static int64_t target_of(const gdn_pool_maps *m, int32_t s, int32_t r)
{
    if (m->dst->base)
        return ((const int32_t *)(const void *)m->dst->base)[(int64_t)s * m->n_entries + r];
    return m->dst_size ? s * m->dst_slots + r : GDN_NONE;
}

/* How many entries of its row of dst the sequence writes: none as padding, at most one per token. */
static int32_t written_entries(const gdn_pool_maps *m, int32_t s)
{
    const int32_t length = gdn_seq_length(m->seq_start, m->n_seqs, m->n_tokens, s);
    if (source_of(m, s) == GDN_SKIP)
        return 0;
    return length < m->n_entries ? length : m->n_entries;
}

/* Also finds the lowest and highest slot that is written. */
static gdn_status check_ranges(const gdn_pool_maps *m, int64_t *low, int64_t *high)
{
    *low  = m->dst_size;
    *high = -1;
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const int64_t source = source_of(m, s);
        if (source < GDN_SKIP || source >= m->src_size)
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s[%d] is %lld%s; 0 to %lld, GDN_NONE and GDN_SKIP are allowed", m->src_name,
                            (int)s, (long long)source, m->src->base ? "" : " (the default)", (long long)m->src_size - 1);
        for (int32_t r = 0; r < m->n_entries; r++) {
            const int64_t target = target_of(m, s, r);
            if (target < GDN_NONE || target >= m->dst_size)
                return gdn_fail(GDN_INVALID_ARGUMENT, "%s[%d][%d] is %lld%s; 0 to %lld and GDN_NONE are allowed", m->dst_name,
                                (int)s, (int)r, (long long)target, m->dst->base ? "" : " (the default)",
                                (long long)m->dst_size - 1);
            if (target >= 0) {
                *low  = target < *low ? target : *low;
                *high = target > *high ? target : *high;
            }
        }
    }
    return GDN_OK;
}

static int writes_itself(const gdn_pool_maps *m, int32_t s, int64_t slot)
{
    const int32_t n = written_entries(m, s);
    for (int32_t r = 0; r < n; r++)
        if (target_of(m, s, r) == slot)
            return 1;
    return 0;
}

/* One window of the pool at a time, so that a bitmap on the stack is enough for pools of any size. */
enum { WINDOW = 65536 };

static gdn_status check_window(const gdn_pool_maps *m, int64_t low)
{
    uint64_t written[WINDOW / 64];
    memset(written, 0, sizeof written);
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const int32_t n = written_entries(m, s);
        for (int32_t r = 0; r < n; r++) {
            const int64_t slot = target_of(m, s, r);
            if (slot < low || slot >= low + WINDOW)
                continue;
            const uint64_t bit = UINT64_C(1) << ((slot - low) % 64);
            if (written[(slot - low) / 64] & bit)
                return gdn_fail(GDN_INVALID_ARGUMENT, "%s[%d][%d] is %lld, which another entry writes too", m->dst_name, (int)s,
                                (int)r, (long long)slot);
            written[(slot - low) / 64] |= bit;
        }
    }
    if (!m->same_pool)
        return GDN_OK;
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const int64_t slot = source_of(m, s);
        if (slot < low || slot >= low + WINDOW || !gdn_seq_length(m->seq_start, m->n_seqs, m->n_tokens, s))
            continue;
        if ((written[(slot - low) / 64] >> ((slot - low) % 64) & 1) && !writes_itself(m, s, slot))
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s[%d] is %lld, which another sequence's %s writes in the same call",
                            m->src_name, (int)s, (long long)slot, m->dst_name);
    }
    return GDN_OK;
}

gdn_status gdn_check_pool_maps(const gdn_pool_maps *m)
{
    int64_t    low, high;
    gdn_status status = check_ranges(m, &low, &high);
    if (!m->dst->base && (!m->src->base || !m->same_pool))
        return status; /* the default targets are distinct, and each sequence reads a slot of its own row */
    for (; !status && low <= high; low += WINDOW)
        status = check_window(m, low);
    return status;
}
