/* How the prompts of a step share its rows. The oldest prompt gets at least half of them, so that it progresses
 * whatever is submitted after it, and every prompt is the oldest eventually. The others go to the shortest prompts
 * first: a short prompt then waits for no long one, and the mean time to the first token is the least. */
#include "runtime/serve/scheduler_internal.h"

void rt_scheduler_sort(rt_scheduler *s)
{
    s->n_order = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        if (!s->slot[seq].job) continue;
        int32_t at = s->n_order++;
        for (; at && s->slot[s->order[at - 1]].job->id > s->slot[seq].job->id; at--) s->order[at] = s->order[at - 1];
        s->order[at] = seq;
    }
}

/* Gives a prompt up to n of *rows, at most those before its next stop. */
static void give(rt_scheduler *s, int32_t seq, int32_t n, int32_t *rows)
{
    rt_slot *const slot = &s->slot[seq];
    const int32_t begin = rt_memory_seq_length(rt_engine_memory(s->desc.engine), seq);
    const int32_t want = rt_scheduler_next_stop(slot->job, begin) - begin - slot->share;
    n = n < want ? n : want;
    slot->share += n;
    *rows -= n;
}

/* The shortest prompt, by its tokens that are not decoded, of those that have not been served; of equals the oldest.
 * -1: there is none. */
static int32_t shortest(rt_scheduler *s)
{
    int32_t best = -1, least = INT32_MAX;
    for (int32_t i = 0; i < s->n_order; i++) {
        const rt_slot *const slot = &s->slot[s->order[i]];
        if (slot->generating || slot->waits || slot->served) continue;
        const int32_t unread =
            slot->job->n_tokens - rt_memory_seq_length(rt_engine_memory(s->desc.engine), s->order[i]);
        if (unread < least) least = unread, best = s->order[i];
    }
    return best;
}

void rt_scheduler_share(rt_scheduler *s, int32_t rows)
{
    int32_t oldest = -1;
    for (int32_t i = 0; i < s->n_order; i++) {
        rt_slot *const slot = &s->slot[s->order[i]];
        slot->share = slot->served = 0;
        if (oldest < 0 && !slot->generating && !slot->waits) oldest = s->order[i];
    }
    if (oldest >= 0) give(s, oldest, rows - rows / 2, &rows);
    for (int32_t seq; rows > 0 && (seq = shortest(s)) >= 0;) {
        give(s, seq, rows, &rows);
        s->slot[seq].served = 1;
    }
}
