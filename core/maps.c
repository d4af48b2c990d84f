/* Contents of maps. See maps.h. */
#include "core/maps.h"

#include <stdio.h>
#include <string.h>

#include "core/operands.h"
#include "core/status.h"

gdn_status gdn_check_seq_start(const gdn_place *seq_start, int readable, int32_t n_seqs, int32_t n_tokens,
                               int32_t *longest)
{
    *longest = 0;
    if (!n_seqs) return GDN_OK;
    if (!seq_start->data) {
        *longest = n_tokens / n_seqs;
        if (n_tokens % n_seqs)
            return gdn_fail(
                GDN_INVALID_ARGUMENT,
                "n_tokens is %d and n_seqs is %d; without seq_start every sequence has n_tokens / n_seqs tokens",
                (int)n_tokens, (int)n_seqs);
        return GDN_OK;
    }
    if (!readable) return GDN_OK;
    const int32_t *start = (const int32_t *)(const void *)seq_start->base;
    int32_t last = 0;
    for (int32_t s = 0; s <= n_seqs; s++) {
        if (start[s] < last || start[s] > n_tokens)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "seq_start[%d] is %d; %d (the entry before) to %d (n_tokens) are allowed", (int)s,
                            (int)start[s], (int)last, (int)n_tokens);
        if (s && start[s] - last > *longest) *longest = start[s] - last;
        last = start[s];
    }
    return GDN_OK;
}

gdn_status gdn_check_positions(const gdn_place *position, const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens)
{
    for (int32_t s = 0; position->base && s < n_seqs; s++) {
        const int32_t at = gdn_map_at(position, s, 0), length = gdn_seq_length(seq_start, n_seqs, n_tokens, s);
        if (at < 0 || at > INT32_MAX - length)
            return gdn_fail(GDN_INVALID_ARGUMENT, "position[%d] is %d; 0 to %d are allowed for its %d tokens", (int)s,
                            (int)at, (int)(INT32_MAX - length), (int)length);
    }
    return GDN_OK;
}

gdn_status gdn_check_log(const gdn_gated_delta_net_problem *p)
{
    for (int32_t s = 0; p->log.n_slots && s < p->n_seqs; s++) {
        const int32_t row = gdn_log_row_at(&p->log, s), position = gdn_map_at(&p->position, s, 0);
        const int32_t base_position = gdn_map_at(&p->log.base_position, s, position);
        const int32_t length = gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s);
        if (row < GDN_NONE || row >= p->log.n_rows)
            return gdn_fail(GDN_INVALID_ARGUMENT, "log.row[%d] is %d%s; 0 to %d and GDN_NONE are allowed", (int)s,
                            (int)row, p->log.row.base ? "" : " (the default)", (int)p->log.n_rows - 1);
        if (base_position < 0 || base_position > position)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "log.base_position[%d] is %d; 0 to %d (the sequence's position) are allowed", (int)s,
                            (int)base_position, (int)position);
        if (gdn_state_src_at(p, s) == GDN_SKIP) continue;
        if (row == GDN_NONE && base_position != position)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "log.base_position[%d] is %d and log.row[%d] is GDN_NONE; without a row it must be %d, the "
                            "sequence's position",
                            (int)s, (int)base_position, (int)s, (int)position);
        if (row == GDN_NONE && p->tree && length)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "log.row[%d] is GDN_NONE and tree is given; with it the sequence's %d tokens "
                            "need a row, 0 to %d",
                            (int)s, (int)length, (int)p->log.n_rows - 1);
        if (row != GDN_NONE && (int64_t)position + length - base_position > p->log.n_slots)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "log.entries.n_slots is %d; sequence %d has %d tokens from position %d on and the base "
                            "position of its state is %d, for which at least %lld are needed",
                            (int)p->log.n_slots, (int)s, (int)length, (int)position, (int)base_position,
                            (long long)position + length - base_position);
    }
    return GDN_OK;
}

gdn_status gdn_check_rounded(const gdn_gated_delta_net_problem *p)
{
    for (int32_t s = 0; p->state_interval > 1 && s < p->n_seqs; s++) {
        const int32_t position = gdn_map_at(&p->position, s, 0), n = p->state_interval;
        const int32_t base_position = gdn_map_at(&p->log.base_position, s, position);
        const int32_t length = gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s);
        if (gdn_state_src_at(p, s) == GDN_SKIP) continue;
        if (base_position % n)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "log.base_position[%d] is %d%s and rounding.interval is %d; multiples of that are allowed",
                            (int)s, (int)base_position, p->log.base_position.base ? "" : " (the default, its position)",
                            (int)n);
        for (int32_t r = 0; r < length && r < p->n_snapshots; r++)
            if (gdn_state_dst_at(p, s, r) >= 0 && (position + length - r) % n)
                return gdn_fail(
                    GDN_INVALID_ARGUMENT,
                    "state_dst[%d][%d] is %d%s, for the state behind %d tokens, and rounding.interval is %d; of "
                    "others than multiples of that GDN_NONE is allowed",
                    (int)s, (int)r, (int)gdn_state_dst_at(p, s, r), p->state_dst.base ? "" : " (the default)",
                    (int)(position + length - r), (int)n);
    }
    return GDN_OK;
}

gdn_status gdn_check_parents(const gdn_place *parent, const gdn_place *padding, const gdn_place *seq_start,
                             int32_t n_seqs, int32_t n_tokens)
{
    for (int32_t s = 0; parent->base && s < n_seqs; s++) {
        const int32_t first = gdn_seq_first(seq_start, n_seqs, n_tokens, s);
        const int32_t length = gdn_seq_length(seq_start, n_seqs, n_tokens, s);
        for (int32_t t = 0; gdn_map_at(padding, s, 0) != GDN_SKIP && t < length; t++) {
            const int32_t of = gdn_parent_at(parent, first, t);
            if (of >= GDN_NONE && of < t) continue; /* GDN_NONE is -1, which is t - 1 for the first token */
            if (!t)
                return gdn_fail(
                    GDN_INVALID_ARGUMENT,
                    "tree.parent[%d] is %d; it is the first token of sequence %d, for which GDN_NONE is allowed",
                    (int)first, (int)of, (int)s);
            return gdn_fail(
                GDN_INVALID_ARGUMENT,
                "tree.parent[%d] is %d; it is token %d of sequence %d, for which 0 to %d and GDN_NONE are allowed",
                (int)(first + t), (int)of, (int)t, (int)s, (int)(t - 1));
        }
    }
    return GDN_OK;
}

gdn_status gdn_check_checkpoints(const gdn_checkpoints *part, int32_t n_seqs)
{
    gdn_status status;
    if (!part) return GDN_OK;
    if ((status = gdn_check_range("checkpoints.interval", part->interval, 1, INT32_MAX)) ||
        (status = gdn_check_range("checkpoints.n", part->n, 1, 1 << 20)))
        return status;
    return gdn_check_range("n_seqs * checkpoints.n", (int64_t)n_seqs * part->n, 0, INT32_MAX);
}

static int64_t source_of(const gdn_pool_maps *m, int32_t s)
{
    if (m->src->base) return ((const int32_t *)(const void *)m->src->base)[s];
    return m->src_size ? s * m->src_slots : GDN_NONE;
}

/* How many entries a sequence writes, in three groups: its row of dst (at most one per token; none as padding), its
 * checkpoints, and its commit, which needs no token. n_kept and n are the ends of the last two. */
typedef struct targets {
    int32_t n_dst, n_kept, n;
} targets;

static targets targets_of(const gdn_pool_maps *m, int32_t s)
{
    const int32_t length = gdn_seq_length(m->seq_start, m->n_seqs, m->n_tokens, s);
    if (source_of(m, s) == GDN_SKIP) return (targets){ 0 };
    const int32_t n_dst = length < m->n_entries ? length : m->n_entries;
    const int32_t n_kept =
        n_dst + (m->checkpoints ? gdn_checkpoints_used(m->checkpoints, gdn_map_at(m->position, s, 0), length) : 0);
    return (targets){ n_dst, n_kept, n_kept + (m->commit && m->commit->base) };
}

/* Entry r of the entries that a sequence writes. */
static int64_t target_of(const gdn_pool_maps *m, int32_t s, const targets *used, int32_t r)
{
    if (r >= used->n_kept) return gdn_map_at(m->commit, s, GDN_NONE);
    if (r >= used->n_dst)
        return gdn_map_at(&m->checkpoints->map, (int64_t)s * m->checkpoints->n + r - used->n_dst, GDN_NONE);
    if (m->dst->base) return ((const int32_t *)(const void *)m->dst->base)[(int64_t)s * m->n_entries + r];
    return m->dst_size ? s * m->dst_slots + r : GDN_NONE;
}

/* The entry's name for error texts, such as "state_dst[3][1]". */
typedef struct entry_name {
    char text[64];
} entry_name;

static entry_name name_of(const gdn_pool_maps *m, int32_t s, const targets *used, int32_t r)
{
    entry_name name;
    if (r >= used->n_kept) (void)snprintf(name.text, sizeof name.text, "%s[%d]", m->commit_name, (int)s);
    else if (r < used->n_dst && m->dst_is_row)
        (void)snprintf(name.text, sizeof name.text, "%s[%d]", m->dst_name, (int)s);
    else
        (void)snprintf(name.text, sizeof name.text, "%s[%d][%d]", r < used->n_dst ? m->dst_name : "checkpoints.dst",
                       (int)s, (int)(r < used->n_dst ? r : r - used->n_dst));
    return name;
}

/* The range of the entries that name a slot, for error texts: "0 to 7" and `then`, or that there is no pool. */
static entry_name up_to(int64_t size, const char *then)
{
    entry_name name = { "without a pool only " };
    if (size) (void)snprintf(name.text, sizeof name.text, "0 to %lld%s", (long long)size - 1, then);
    return name;
}

static void visit(const gdn_pool_maps *m, int64_t entries)
{
    if (m->n_visits) *m->n_visits += entries;
}

/* The result of one pass over all entries. */
typedef struct survey {
    int64_t n_written, low, high; /* how many slots are written, and in which range                  */
    int ascending;                /* 1: each entry exceeds the one before, so none is written twice  */
} survey;

static gdn_status check_ranges(const gdn_pool_maps *m, survey *all)
{
    *all = (survey){ .low = m->dst_size, .high = -1, .ascending = 1 };
    visit(m, m->n_seqs);
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const int64_t source = source_of(m, s);
        if (source < GDN_SKIP || source >= m->src_size)
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s[%d] is %lld%s; %sGDN_NONE and GDN_SKIP are allowed", m->src_name,
                            (int)s, (long long)source, m->src->base ? "" : " (the default)",
                            up_to(m->src_size, ", ").text);
        const targets used = targets_of(m, s);
        const int32_t more = m->check_unused ? m->n_entries - used.n_dst : 0; /* entries of dst that are not written */
        const targets seen = { used.n_dst + more, used.n_kept + more, used.n + more };
        visit(m, seen.n);
        for (int32_t r = 0; r < seen.n; r++) {
            const int64_t target = target_of(m, s, &seen, r);
            const int of_dst = r < seen.n_dst;
            if (target < GDN_NONE || target >= m->dst_size)
                return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %lld%s; %sGDN_NONE %s allowed",
                                name_of(m, s, &seen, r).text, (long long)target,
                                !of_dst || m->dst->base ? "" : " (the default)", up_to(m->dst_size, " and ").text,
                                m->dst_size ? "are" : "is");
            if (target < 0 || (of_dst && r >= used.n_dst)) continue;
            all->ascending &= target > all->high;
            all->low = target < all->low ? target : all->low;
            all->high = target > all->high ? target : all->high;
            all->n_written++;
        }
    }
    return GDN_OK;
}

/* ---- Iterators over the entries: all slots that are written, and all slots that are read by sequences that do not
 * write them. */
typedef struct entry {
    int32_t s, r; /* sequence, which of the entries that it writes */
    targets used;
    int64_t slot;
} entry;

#define FIRST_ENTRY                                                                                                    \
    {                                                                                                                  \
        .s = -1                                                                                                        \
    }

static int next_written(const gdn_pool_maps *m, entry *e)
{
    for (;;) {
        while (++e->r < e->used.n)
            if ((e->slot = target_of(m, e->s, &e->used, e->r)) >= 0) return 1;
        if (++e->s >= m->n_seqs) return 0;
        e->used = targets_of(m, e->s);
        e->r = -1;
        visit(m, 1 + e->used.n);
    }
}

static int writes_itself(const gdn_pool_maps *m, int32_t s, int64_t slot)
{
    const targets used = targets_of(m, s);
    visit(m, used.n);
    for (int32_t r = 0; r < used.n; r++)
        if (target_of(m, s, &used, r) == slot) return 1;
    return 0;
}

static int has_work(const gdn_pool_maps *m, int32_t s)
{
    return gdn_seq_length(m->seq_start, m->n_seqs, m->n_tokens, s) ||
           (m->commit && gdn_map_at(m->commit, s, GDN_NONE) >= 0);
}

static int next_foreign(const gdn_pool_maps *m, entry *e)
{
    while (m->same_pool && ++e->s < m->n_seqs) {
        visit(m, 1);
        e->slot = source_of(m, e->s);
        if (e->slot >= 0 && has_work(m, e->s) && !writes_itself(m, e->s, e->slot)) return 1;
    }
    return 0;
}

/* ---- No slot is written twice, none is written by one sequence and read by another -------------------------------
 *
 * The check uses a fixed amount of stack, for pools of any size and any number of entries. Each slot has a distinct key
 * of 32 bits. The upper bits are the key's class, the lower bits its number in a bitmap. The check processes one range
 * of classes at a time, in two passes over the entries:
 *   1. Set the bit of each written slot. A slot whose bit is set already is a candidate: either the slots are the same,
 *      or their numbers collide.
 *   2. Look the candidates up in a small hash table, which distinguishes the two cases.
 * In a range of one class numbers are distinct, so the first pass decides alone. If a range has more candidates than
 * the table holds, the check halves the range.
 *
 * Cost: if the written slots lie within 2^18 of each other, keys are the slots themselves and one pass is enough.
 * Otherwise keys are scrambled slots. For each 2^14 entries there is then about one range with 500 candidates and two
 * passes. In the worst case there are 42 more passes for each 1024 entries, because a range is halved at most 14 times.
 * Most calls skip this check: their targets ascend, and each sequence reads the slot that it writes. */
enum {
    NUMBER_BITS = 18,
    CLASS_BITS = 14,       /* NUMBER_BITS and CLASS_BITS: 32 */
    RANGE_ENTRIES = 16384, /* of a range of classes, on average */
    TABLE = 2048,          /* a power of two, half of it in use at most */
};

typedef struct slot_marks {
    uint64_t marked[1 << NUMBER_BITS >> 6];
    int32_t slot[TABLE];   /* candidates, by hash; -1 = free */
    int32_t writer[TABLE]; /* the sequence that writes the slot; -1 = none yet */
    int32_t n;
    uint32_t words; /* of marked that have numbers                               */
    int64_t base;   /* keys are slot - base, or scrambled where base is negative */
    uint32_t first, n_classes;
} slot_marks;

/* A bijection: odd factors and shifts can be undone. */
static uint32_t scrambled(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* 1 if the slot's class is in the range; *number is then its number in the bitmap. */
static int in_range(const slot_marks *l, int64_t slot, uint32_t *number)
{
    const uint32_t key = l->base < 0 ? scrambled((uint32_t)slot) : (uint32_t)(slot - l->base);
    *number = key & ((1u << NUMBER_BITS) - 1);
    return (key >> NUMBER_BITS) - l->first < l->n_classes && *number / 64 < l->words;
}

/* Index of the candidate in the table, or of the free entry for it. */
static int32_t find_candidate(const slot_marks *l, int64_t slot)
{
    uint32_t at = scrambled((uint32_t)slot) * 0x9e3779b1u >> 21;
    while (l->slot[at] >= 0 && l->slot[at] != slot) at = (at + 1) % TABLE;
    return (int32_t)at;
}

/* 0 when the table is full. */
static int add_candidate(slot_marks *l, int64_t slot)
{
    const int32_t at = find_candidate(l, slot);
    if (l->slot[at] >= 0) return 1;
    if (l->n == TABLE / 2) return 0;
    l->slot[at] = (int32_t)slot;
    l->n++;
    return 1;
}

static int is_default(const gdn_pool_maps *m, const entry *e) { return e->r < e->used.n_dst && !m->dst->base; }

/* The error for an entry whose slot an earlier one writes too; finds that one. */
static gdn_status written_twice(const gdn_pool_maps *m, const entry *e)
{
    const char *const late = is_default(m, e) ? " (the default)" : "";
    for (entry o = FIRST_ENTRY; next_written(m, &o) && (o.s != e->s || o.r != e->r);)
        if (o.slot == e->slot)
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %lld%s, which %s%s writes too",
                            name_of(m, e->s, &e->used, e->r).text, (long long)e->slot, late,
                            name_of(m, o.s, &o.used, o.r).text, is_default(m, &o) ? " (the default)" : "");
    return gdn_fail(GDN_INTERNAL, "%s is %lld%s, which no other entry writes", name_of(m, e->s, &e->used, e->r).text,
                    (long long)e->slot, late);
}

/* The error for a slot that sequence reader->s reads and another entry writes; finds that entry. */
static gdn_status read_and_written(const gdn_pool_maps *m, const entry *reader)
{
    for (entry e = FIRST_ENTRY; next_written(m, &e);)
        if (e.slot == reader->slot)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "%s[%d] is %lld%s, which another sequence's %s%s writes in the same call", m->src_name,
                            (int)reader->s, (long long)reader->slot, m->src->base ? "" : " (the default)",
                            name_of(m, e.s, &e.used, e.r).text, is_default(m, &e) ? " (the default)" : "");
    return gdn_fail(GDN_INTERNAL, "%s[%d] is %lld, of which no writer is found", m->src_name, (int)reader->s,
                    (long long)reader->slot);
}

/* First pass: mark the slots of the range and collect candidates. *full: the table is too small. */
static gdn_status mark(const gdn_pool_maps *m, slot_marks *l, int *full)
{
    uint32_t number;
    *full = 0;
    l->n = 0;
    memset(l->marked, 0, l->words * sizeof l->marked[0]);
    if (l->n_classes > 1) {
        memset(l->slot, 0xff, sizeof l->slot);
        memset(l->writer, 0xff, sizeof l->writer);
    }
    for (entry e = FIRST_ENTRY; !*full && next_written(m, &e);) {
        if (!in_range(l, e.slot, &number)) continue;
        const uint64_t bit = UINT64_C(1) << number % 64, word = l->marked[number / 64];
        if (word & bit && l->n_classes == 1) return written_twice(m, &e);
        *full = word & bit && !add_candidate(l, e.slot);
        l->marked[number / 64] = word | bit;
    }
    for (entry e = FIRST_ENTRY; !*full && next_foreign(m, &e);) {
        if (!in_range(l, e.slot, &number) || !(l->marked[number / 64] >> number % 64 & 1)) continue;
        if (l->n_classes == 1) return read_and_written(m, &e);
        *full = !add_candidate(l, e.slot);
    }
    return GDN_OK;
}

/* Second pass: decide which candidates are the same slot. */
static gdn_status decide_candidates(const gdn_pool_maps *m, slot_marks *l)
{
    for (entry e = FIRST_ENTRY; next_written(m, &e);) {
        const int32_t at = find_candidate(l, e.slot);
        if (l->slot[at] < 0) continue;
        if (l->writer[at] >= 0) return written_twice(m, &e);
        l->writer[at] = e.s;
    }
    for (entry e = FIRST_ENTRY; next_foreign(m, &e);) {
        const int32_t at = find_candidate(l, e.slot);
        if (l->slot[at] >= 0 && l->writer[at] >= 0) return read_and_written(m, &e);
    }
    return GDN_OK;
}

gdn_status gdn_check_pool_maps(const gdn_pool_maps *m)
{
    survey all;
    gdn_status status = check_ranges(m, &all);
    if (status || !all.n_written) return status;
    if (!m->dst->base && (!m->src->base || !m->same_pool) && !(m->checkpoints && m->checkpoints->interval) &&
        !(m->commit && m->commit->base))
        return GDN_OK; /* the default targets are distinct, and each sequence reads a slot of its own row */
    if (all.ascending && !next_foreign(m, &(entry)FIRST_ENTRY)) return GDN_OK;

    slot_marks l;
    const uint32_t windows = (uint32_t)((all.high - all.low) >> NUMBER_BITS) + 1;
    uint32_t ranges = 1, widest;
    while (ranges < 1u << CLASS_BITS && (int64_t)ranges * RANGE_ENTRIES < all.n_written) ranges *= 2;
    /* Each bitmap window of the pool needs one pass; each range of scrambled slots needs two. */
    l.base = windows <= 2 * ranges ? all.low : -1;
    widest = l.base < 0 ? (1u << CLASS_BITS) / ranges : 1;
    const uint32_t end = l.base < 0 ? 1u << CLASS_BITS : windows;
    l.words = l.base < 0 || windows > 1 ? 1u << NUMBER_BITS >> 6 : (uint32_t)(all.high - all.low) / 64 + 1;
    l.n_classes = widest;
    for (l.first = 0; l.first < end;) {
        int full;
        if ((status = mark(m, &l, &full)) || (!full && l.n && (status = decide_candidates(m, &l)))) return status;
        if (full) {
            l.n_classes /= 2;
            continue;
        }
        l.first += l.n_classes;
        /* Halves of a range are aligned: continue with the widest range that begins here. */
        for (l.n_classes = widest; l.first % l.n_classes; l.n_classes /= 2)
            ;
    }
    return GDN_OK;
}
