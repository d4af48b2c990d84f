/* Contents of maps. See maps.h. */
#include "core/maps.h"

#include <stdio.h>
#include <string.h>

#include "core/operands.h"
#include "core/status.h"
#include "numerics/chunked.h"

gdn_status gdn_check_seq_start(const gdn_region *region, const int32_t *seq_start, int32_t n_seqs, int32_t n_tokens,
                               int32_t *longest)
{
    *longest = 0;
    if (!n_seqs) return GDN_OK;
    if (!region->data) {
        *longest = n_tokens / n_seqs;
        if (n_tokens % n_seqs)
            return gdn_fail(
                GDN_INVALID_ARGUMENT,
                "n_tokens is %d and n_seqs is %d; without seq_start every sequence has n_tokens / n_seqs tokens",
                (int)n_tokens, (int)n_seqs);
        return GDN_OK;
    }
    if (!seq_start) return GDN_OK;
    for (int32_t s = 0, last = 0; s <= n_seqs; last = seq_start[s++]) {
        if (!gdn_range_fits(last, seq_start[s], n_tokens))
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "seq_start[%d] is %d; %d (the entry before) to %d (n_tokens) are allowed", (int)s,
                            (int)seq_start[s], (int)last, (int)n_tokens);
        if (s && seq_start[s] - last > *longest) *longest = seq_start[s] - last;
    }
    return GDN_OK;
}

static gdn_status bad_position(int32_t s, int32_t position, int32_t T)
{
    return gdn_fail(GDN_INVALID_ARGUMENT, "position[%d] is %d; 0 to %d are allowed for its %d tokens", (int)s,
                    (int)position, (int)(INT32_MAX - T), (int)T);
}

/* Of the chunked form: a sequence without a row of the log has no entries of an open chunk. */
static gdn_status bad_chunked_position(const gdn_sequence *q, int32_t position)
{
    return gdn_fail(
        GDN_INVALID_ARGUMENT,
        "sequence %d has no row of the log and a %s of %d tokens; in the chunked form it must be a multiple of "
        "%d",
        (int)q->s, position == q->position ? "position" : "new length, at which it writes a state,", (int)position,
        GDN_CHUNK);
}

static gdn_status bad_chunked(const gdn_gated_delta_net_call *p, const gdn_sequence *q)
{
    const int s = (int)q->s, length = (int)(q->position + q->T), base = (int)q->base_position;
    const int after = (int)gdn_chunked_base(p, *q);
    if (base < 0 || base > q->kept || base % GDN_CHUNK)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "log.base_position[%d] is %d; in the chunked form multiples of %d up to %d (the sequence's "
                        "position is %d) are allowed",
                        s, base, GDN_CHUNK, (int)q->kept, (int)q->position);
    if (q->row == GDN_NONE)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "log.base_position[%d] is %d and log.row[%d] is GDN_NONE; without a row it must be %d, the "
                        "sequence's position",
                        s, base, s, (int)q->position);
    const int needed = q->position - base > p->log.n_slots ? (int)q->position - base : length - after;
    return gdn_fail(
        GDN_INVALID_ARGUMENT,
        "log.entries.n_slots is %d; sequence %d has a base position of %d, a position of %d, and %d tokens, "
        "after which it needs entries from %d on: at least %d are needed",
        (int)p->log.n_slots, s, base, (int)q->position, (int)q->T, after, needed);
}

static gdn_status bad_row(const gdn_gated_delta_net_call *p, const gdn_sequence *q)
{
    if (!gdn_target_fits(q->row, p->log.n_entries))
        return gdn_fail(GDN_INVALID_ARGUMENT, "log.row[%d] is %d%s; 0 to %d and GDN_NONE are allowed", (int)q->s,
                        (int)q->row, p->log_row ? "" : " (the default)", (int)p->log.n_entries - 1);
    return gdn_fail(GDN_INVALID_ARGUMENT,
                    "log.row[%d] is GDN_NONE and tree is given; with it the sequence's %d tokens need a row, 0 to %d",
                    (int)q->s, (int)q->T, (int)p->log.n_entries - 1);
}

static gdn_status bad_base_position(const gdn_gated_delta_net_call *p, const gdn_sequence *q)
{
    const int s = (int)q->s, base = (int)q->base_position, position = (int)q->position;
    const long long needed = (long long)position + q->T - base;
    if (base < 0 || base > position)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "log.base_position[%d] is %d; 0 to %d (the sequence's position) are allowed", s, base,
                        position);
    if (q->row == GDN_NONE && base != position)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "log.base_position[%d] is %d and log.row[%d] is GDN_NONE; without a row it must be %d, the "
                        "sequence's position",
                        s, base, s, position);
    if (q->row != GDN_NONE && needed > p->log.n_slots)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "log.entries.n_slots is %d; sequence %d has %d tokens from position %d on and the base "
                        "position of its state is %d, for which at least %lld are needed",
                        (int)p->log.n_slots, s, (int)q->T, position, base, needed);
    return gdn_fail(GDN_INVALID_ARGUMENT,
                    "log.base_position[%d] is %d%s and rounding.interval is %d; multiples of that are allowed", s, base,
                    p->base_position ? "" : " (the default, its position)", (int)p->rounding_interval);
}

/* A snapshot of a 16-bit state that is not rounded there. Its entry is in range. */
static gdn_status check_snapshots(const gdn_gated_delta_net_call *p, const gdn_sequence *q)
{
    const int32_t n = p->rounding_interval > 1 && !p->digits && gdn_has_work(*q) ? p->n_snapshots : 0;
    for (int32_t r = 0; r < n && r < q->T; r++)
        if (gdn_snapshot_of(p, *q, q->T - 1 - r) == GDN_BAD)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "state_dst[%d][%d] is %d%s, for the state behind %d tokens, and rounding.interval is %d; "
                            "of others than multiples of that GDN_NONE is allowed",
                            (int)q->s, (int)r,
                            (int)(p->state_dst ? gdn_map(p->state_dst)[(int64_t)q->s * p->n_snapshots + r]
                                               : q->s * p->state_out.n_slots + r),
                            p->state_dst ? "" : " (the default)", (int)(q->position + q->T - r),
                            (int)p->rounding_interval);
    return GDN_OK;
}

static gdn_status check_parents(uint64_t parent, int32_t s, int32_t first, int32_t T)
{
    const int32_t t = parent ? gdn_bad_parent(parent, first, T, 0, 1) : T;
    if (t == T) return GDN_OK;
    const int32_t of = gdn_map(parent)[first + t];
    if (!t)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "tree.parent[%d] is %d; it is the first token of sequence %d, for which GDN_NONE is allowed",
                        (int)first, (int)of, (int)s);
    return gdn_fail(GDN_INVALID_ARGUMENT,
                    "tree.parent[%d] is %d; it is token %d of sequence %d, for which 0 to %d and GDN_NONE are allowed",
                    (int)(first + t), (int)of, (int)t, (int)s, (int)(t - 1));
}

gdn_status gdn_check_sequences(const gdn_gated_delta_net_call *p, const gdn_pool_maps *states)
{
    gdn_status status;
    for (int32_t s = 0; p->position && s < p->n_seqs; s++) {
        const gdn_sequence q = gdn_sequence_of(p, s);
        if (q.bad == GDN_BAD_POSITION && !gdn_position_fits(q.position, q.T)) return bad_position(s, q.position, q.T);
    }
    if ((status = gdn_check_pool_maps(states))) return status;
    const int more = p->log.n_slots || p->parent || p->digits; /* without these there are no other rules */
    for (int32_t s = 0; more && s < p->n_seqs; s++) {
        const gdn_sequence q = gdn_sequence_of(p, s);
        if (q.bad == GDN_BAD_LOG_ROW) return bad_row(p, &q);
        if (q.bad == GDN_BAD_POSITION) return bad_chunked_position(&q, q.position);
        if (q.bad == GDN_BAD_STATE_DST) return bad_chunked_position(&q, q.position + q.T);
        if (q.bad == GDN_BAD_BASE_POSITION) return p->digits ? bad_chunked(p, &q) : bad_base_position(p, &q);
        if (q.bad >= 0 || q.commit == GDN_BAD)
            return gdn_fail(GDN_INTERNAL, "a map of sequence %d is bad, and no entry is", (int)s);
        if ((status = check_snapshots(p, &q)) ||
            (q.src != GDN_SKIP && (status = check_parents(p->parent, s, q.first, q.T))))
            return status;
    }
    return GDN_OK;
}

gdn_status gdn_check_conv_sequences(const gdn_ssm_conv_call *p, const gdn_pool_maps *rows)
{
    gdn_status status;
    for (int32_t s = 0; p->position && s < p->n_seqs; s++) {
        const gdn_conv_sequence q = gdn_conv_sequence_of(p, s);
        if (q.bad == GDN_BAD_POSITION) return bad_position(s, q.position, q.T);
    }
    if ((status = gdn_check_pool_maps(rows))) return status;
    const int more = (p->has & GDN_HAS_TREE) != 0;
    for (int32_t s = 0; more && s < p->n_seqs; s++) {
        const gdn_conv_sequence q = gdn_conv_sequence_of(p, s);
        if (q.bad == GDN_BAD_PARENT)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "history.n_slots is %d and tree is given; sequence %d has %d tokens, for which at least "
                            "%lld are needed",
                            (int)p->history.n_slots, (int)s, (int)q.T, (long long)p->kernel_width - 1 + q.T);
        if (q.bad >= 0) return gdn_fail(GDN_INTERNAL, "a map of sequence %d is bad, and no entry is", (int)s);
        if (q.src != GDN_SKIP && (status = check_parents(p->parent, s, q.first, q.T))) return status;
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
    if (m->src) return m->src[s];
    return m->src_size ? s * m->src_slots : GDN_NONE;
}

static int32_t length_of(const gdn_pool_maps *m, int32_t s)
{
    return m->seq_start ? m->seq_start[s + 1] - m->seq_start[s] : m->even_tokens;
}

static int32_t checkpoints_of(const gdn_pool_maps *m, int32_t s, int32_t length)
{
    if (!m->interval) return 0;
    const int32_t n = gdn_checkpoints_reached(m->interval, m->position ? m->position[s] : 0, length);
    return n < m->n_checkpoints ? n : m->n_checkpoints;
}

/* How many entries a sequence writes, in three groups: its row of dst (at most one per token; none as padding), its
 * checkpoints, and its commit, which needs no token. n_kept and n are the ends of the last two. */
typedef struct targets {
    int32_t n_dst, n_kept, n;
} targets;

static targets targets_of(const gdn_pool_maps *m, int32_t s)
{
    const int32_t length = length_of(m, s);
    if (source_of(m, s) == GDN_SKIP) return (targets){ 0 };
    const int32_t n_dst = length < m->n_entries ? length : m->n_entries;
    const int32_t n_kept = n_dst + checkpoints_of(m, s, length);
    return (targets){ n_dst, n_kept, n_kept + (m->commit != NULL) };
}

/* Entry r of the entries that a sequence writes. */
static int64_t target_of(const gdn_pool_maps *m, int32_t s, const targets *used, int32_t r)
{
    if (r >= used->n_kept) return m->commit[s];
    if (r >= used->n_dst) return m->checkpoints[(int64_t)s * m->n_checkpoints + r - used->n_dst];
    if (m->dst) return m->dst[(int64_t)s * m->n_entries + r];
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
    int64_t n_written, high; /* how many slots are written, and the last of them                */
    int ascending;           /* 1: each entry exceeds the one before, so none is written twice  */
} survey;

static gdn_status check_ranges(const gdn_pool_maps *m, survey *all)
{
    *all = (survey){ .high = -1, .ascending = 1 };
    visit(m, m->n_seqs);
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const int64_t source = source_of(m, s);
        if (!gdn_source_fits((int32_t)source, (int32_t)m->src_size))
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s[%d] is %lld%s; %sGDN_NONE and GDN_SKIP are allowed", m->src_name,
                            (int)s, (long long)source, m->src ? "" : " (the default)", up_to(m->src_size, ", ").text);
        const targets used = targets_of(m, s);
        const int32_t more = m->check_unused ? m->n_entries - used.n_dst : 0; /* entries of dst that are not written */
        const targets seen = { used.n_dst + more, used.n_kept + more, used.n + more };
        visit(m, seen.n);
        for (int32_t r = 0; r < seen.n; r++) {
            const int64_t target = target_of(m, s, &seen, r);
            const int of_dst = r < seen.n_dst;
            if (!gdn_target_fits((int32_t)target, (int32_t)m->dst_size))
                return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %lld%s; %sGDN_NONE %s allowed",
                                name_of(m, s, &seen, r).text, (long long)target,
                                !of_dst || m->dst ? "" : " (the default)", up_to(m->dst_size, " and ").text,
                                m->dst_size ? "are" : "is");
            if (target < 0 || (of_dst && r >= used.n_dst)) continue;
            all->ascending &= target > all->high;
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

static int has_work(const gdn_pool_maps *m, int32_t s) { return length_of(m, s) || (m->commit && m->commit[s] >= 0); }

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
 * of 32 bits. For one range of keys at a time, a pass over the entries collects the written slots in a hash table and
 * looks up those that are read. The table is in the order of the keys. If it is crowded, the check halves the range.
 *
 * Cost: one pass for each TABLE / 2 entries, on average. In the worst case there are 36 more passes for each
 * MOST_PROBES entries, because a range is halved at most 18 times: then each key has an entry of its own. Most calls
 * skip this check: their targets ascend, and each sequence reads the slot that it writes. */
enum {
    TABLE = 16384, /* entries for keys, a power of two                            */
    MOST_PROBES = 2048
};

typedef struct slot_set {
    int32_t slot[TABLE + MOST_PROBES]; /* -1 = free */
    uint32_t size;                     /* of TABLE, those in use: a power of two */
    uint64_t first;                    /* the range has 2^bits keys, from this one on */
    int bits;
} slot_set;

/* A bijection: odd factors and shifts can be undone. */
static uint32_t scrambled(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static int in_range(const slot_set *l, int64_t slot)
{
    return (uint64_t)scrambled((uint32_t)slot) >> l->bits == l->first >> l->bits;
}

/* The entry of a slot of the range, or a free one for it. NULL: other slots hold all that it may have. */
static int32_t *find_entry(slot_set *l, int64_t slot)
{
    int32_t *at = l->slot + ((scrambled((uint32_t)slot) - l->first) * l->size >> l->bits);
    for (const int32_t *const end = at + MOST_PROBES; at < end; at++)
        if (*at < 0 || *at == slot) return at;
    return NULL;
}

static int is_default(const gdn_pool_maps *m, const entry *e) { return e->r < e->used.n_dst && !m->dst; }

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
                            (int)reader->s, (long long)reader->slot, m->src ? "" : " (the default)",
                            name_of(m, e.s, &e.used, e.r).text, is_default(m, &e) ? " (the default)" : "");
    return gdn_fail(GDN_INTERNAL, "%s[%d] is %lld, of which no writer is found", m->src_name, (int)reader->s,
                    (long long)reader->slot);
}

/* Checks the slots of the range. *crowded: the table does not hold them. */
static gdn_status check_slots(const gdn_pool_maps *m, slot_set *l, int *crowded)
{
    memset(l->slot, 0xff, (l->size + MOST_PROBES) * sizeof l->slot[0]);
    *crowded = 0;
    for (entry e = FIRST_ENTRY; next_written(m, &e);) {
        if (!in_range(l, e.slot)) continue;
        int32_t *const at = find_entry(l, e.slot);
        if ((*crowded = !at)) return GDN_OK;
        if (*at == e.slot) return written_twice(m, &e);
        *at = (int32_t)e.slot;
    }
    for (entry e = FIRST_ENTRY; next_foreign(m, &e);) {
        const int32_t *const at = in_range(l, e.slot) ? find_entry(l, e.slot) : NULL;
        if (at && *at == e.slot) return read_and_written(m, &e);
    }
    return GDN_OK;
}

gdn_status gdn_check_pool_maps(const gdn_pool_maps *m)
{
    survey all;
    gdn_status status = check_ranges(m, &all);
    if (status || !all.n_written) return status;
    if (!m->dst && (!m->src || !m->same_pool) && !m->interval && !m->commit)
        return GDN_OK; /* the default targets are distinct, and each sequence reads a slot of its own row */
    if (all.ascending && !next_foreign(m, &(entry)FIRST_ENTRY)) return GDN_OK;

    slot_set l;
    int widest = 32, crowded;
    for (l.size = 64; l.size < TABLE && l.size < 2 * all.n_written;) l.size *= 2;
    while (all.n_written >> (32 - widest) > TABLE / 2) widest--;
    for (l.first = 0; l.first >> 32 == 0; l.first += UINT64_C(1) << l.bits) {
        for (l.bits = widest; l.first % (UINT64_C(1) << l.bits); l.bits--)
            ; /* ranges are aligned: this one is the widest that begins here */
        do {
            if ((status = check_slots(m, &l, &crowded))) return status;
            l.bits -= crowded;
        } while (crowded);
    }
    return GDN_OK;
}
