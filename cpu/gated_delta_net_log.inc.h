/* gated_delta_net on the CPU, the replay log: entries that are replayed on a state before the first token (1), and the
 * entries that tokens write (7). The loop orders share this file. */
#ifndef GDN_CPU_GATED_DELTA_NET_LOG_INC_H
#define GDN_CPU_GATED_DELTA_NET_LOG_INC_H

#include "cpu/gated_delta_net_item.inc.h"

/* The entries to replay: `count` entries from `first` on, in a ring from begin to end. Offsets and steps in floats. */
typedef struct log_walk {
    const float *first, *begin, *end;
    int64_t step, k, d, a; /* k and a of the head, d of the item's first value channel */
    int32_t count;
    int32_t length; /* of the sequence, before the first entry */
} log_walk;

/* Entries [from, to) of those that are replayed. */
static log_walk log_walk_part(const head_view *x, int32_t from, int32_t to)
{
    const gdn_gated_delta_net_call *p = x->p;
    log_walk w = { .count = to - from, .length = x->q.position - x->n_replay + from };
    if (!w.count) return w;
    const char *begin = gdn_memory(p->log.data) + x->q.row * p->log.stride_row;
    w.begin = (const float *)(const void *)begin;
    w.step = p->log.stride_slot / 4;
    w.end = w.begin + w.step * p->log.n_slots;
    w.first = (const float *)(const void *)gdn_log_at(p, x->q.row, w.length);
    w.k = gdn_log_key(p, x->key_head);
    w.d = gdn_log_delta(p, x->h) + x->j0;
    w.a = gdn_log_decay(p, x->h);
    return w;
}

static log_walk log_walk_of(const head_view *x) { return log_walk_part(x, 0, x->n_replay); }

GDN_INLINE const float *log_next(const log_walk *w, const float *entry)
{
    return entry + w->step == w->end ? w->begin : entry + w->step;
}

/* The address where token t logs the deltas of the item's value channels, or NULL. */
static float *log_deltas(const head_view *x, int32_t t)
{
    if (x->q.row < 0) return NULL;
    float *entry = (float *)(void *)gdn_log_at(x->p, x->q.row, x->q.position + t);
    return entry + gdn_log_delta(x->p, x->h) + x->j0;
}

/* 7: logs k and a of the tokens of a chunk. The first item of a head logs a. The first head that uses a key head also
 * logs k. */
static void chunk_log(const chunk *c, const head_view *x)
{
    const gdn_gated_delta_net_call *p = x->p;
    if (x->q.row < 0 || x->j0) return;
    for (int32_t t = 0; t < c->n_tokens; t++) {
        float *entry = (float *)(void *)gdn_log_at(p, x->q.row, x->q.position + c->first + t);
        const int64_t row = (int64_t)t * x->pitch;
        const size_t bytes = 4 * (size_t)x->n;
        if (gdn_logs_key(p, x->h)) memcpy(entry + gdn_log_key(p, x->key_head), c->k + row, bytes);
        if (x->channel) memcpy(entry + gdn_log_decay(p, x->h), c->a + row, bytes);
        else entry[gdn_log_decay(p, x->h)] = c->decay[t];
    }
}

/* True if stores of the committed state bypass the caches: see snapshots_of(). */
static bool commit_streams(const head_view *x)
{
    const uint64_t line = (uint64_t)x->size * (uint64_t)(x->p->state_layout == GDN_STATE_KV ? x->p->head_dim_v : x->n);
    return x->commit && x->commit != x->source &&
           (line | (uint64_t)x->p->state_out.stride_line | (uint64_t)(uintptr_t)x->commit) % 64 == 0;
}

#endif
