/* Prefix reuse between requests. A request takes the tokens that the prefix cache has, both when it starts and when it
 * restarts after a preemption. While a sequence decodes a prompt, others that share its next interval wait for its
 * checkpoint, which is faster than decoding it twice. */
#include <string.h>

#include "runtime/serve/scheduler_internal.h"

gdn_status rt_scheduler_begin_from_prefix(rt_scheduler *s, rt_job *job, int32_t seq)
{
    rt_memory *m = rt_engine_memory(s->desc.engine);
    const int32_t before = rt_memory_seq_length(m, seq);
    int32_t after;
    gdn_status status = rt_memory_prefix_own(m, seq, job->request.owner);
    if (rt_scheduler_scores(job)) return status; /* a cached prefix has no logits */
    if (!status) status = rt_memory_prefix_start(m, seq, job->tokens, job->n_tokens - 1, &after);
    if (!before) job->n_found = 0; /* tokens found earlier are lost and were not used */
    if (!status) job->n_found += after - before;
    return status;
}

void rt_scheduler_count_prefix(rt_scheduler *s, rt_job *job)
{
    s->totals.prefix_tokens += job->n_found;
    job->result.n_prefix += job->n_found;
    job->n_found = 0;
}

/* True if the job of sequence `other` will write a checkpoint that the job of `seq` can start from. */
static int will_checkpoint(const rt_scheduler *s, int32_t other, int32_t seq, int32_t interval)
{
    const rt_memory *m = rt_engine_memory(s->desc.engine);
    const rt_job *a = s->slot[other].job, *b = s->slot[seq].job;
    const int32_t length = rt_memory_seq_length(m, seq), ahead = rt_memory_seq_length(m, other);
    const int32_t begin = (ahead > length ? ahead : length) / interval * interval; /* begin of the next interval */
    const int32_t most = a->n_tokens < b->n_tokens - 1 ? a->n_tokens : b->n_tokens - 1;
    return a->request.owner == b->request.owner && interval <= most - begin &&
           !memcmp(a->tokens + begin, b->tokens + begin, 4 * (size_t)interval) &&
           !memcmp(a->tokens, b->tokens, 4 * (size_t)begin) && !rt_scheduler_scores(b);
}

void rt_scheduler_wait_for_prefixes(rt_scheduler *s)
{
    const int32_t interval = rt_engine_limits_of(s->desc.engine).prefix_interval;
    for (int32_t i = 0; i < s->n_order; i++) {
        rt_slot *const slot = &s->slot[s->order[i]];
        slot->waits = 0; /* the oldest never waits, and always progresses */
        for (int32_t k = 0; interval && !slot->generating && k < i && !slot->waits; k++)
            slot->waits = !s->slot[s->order[k]].generating && will_checkpoint(s, s->order[k], s->order[i], interval);
    }
}

int rt_scheduler_scores(const rt_job *job)
{
    return job->request.on_prompt_logprobs && job->n_scored < job->n_prompt - 1;
}

int32_t rt_scheduler_next_stop(const rt_job *job, int32_t begin)
{
    enum { SCORED_ROWS = 16 }; /* of logits at once, since a row has as many as the vocabulary */
    const rt_request *const r = &job->request;
    int32_t end = job->n_tokens;
    if (rt_scheduler_scores(job) && end > begin + SCORED_ROWS) end = begin + SCORED_ROWS;
    for (int i = RT_CHAT_BOUNDARIES; i-- > 0;)
        if (begin < r->boundary[i] && r->boundary[i] < end) end = r->boundary[i];
    return end;
}

int rt_scheduler_keeps_end(const rt_job *job)
{
    int keeps = job->request.on_end != NULL;
    for (int i = 0; i < RT_CHAT_BOUNDARIES; i++) keeps |= job->request.boundary[i] > 0;
    return keeps;
}

gdn_status rt_scheduler_keep_end(rt_scheduler *s, const rt_job *job, int32_t seq)
{
    const rt_request *const r = &job->request;
    rt_memory *const m = rt_engine_memory(s->desc.engine);
    const int32_t length = rt_memory_seq_length(m, seq), wanted = r->on_end ? r->on_end(r->user, job->id) : length;
    const int32_t end = wanted < length ? wanted : length;
    if (end < 1 || end < rt_memory_seq_min_length(m, seq)) return GDN_OK;
    const gdn_status status = end < length ? rt_memory_seq_rm(m, seq, end, -1) : GDN_OK;
    if (status) return status;
    if (s->desc.spec == RT_SPEC_MTP && (s->desc.always || rt_speculation_pays(&s->speculation, 1)))
        (void)rt_draft_catch_up(s->desc.engine, seq); /* else drafts begin anew there */
    return rt_memory_prefix_keep(m, seq);
}

gdn_status rt_scheduler_keep_boundary(rt_scheduler *s, const rt_job *job, int32_t seq)
{
    rt_memory *const m = rt_engine_memory(s->desc.engine);
    for (int i = 0; i < RT_CHAT_BOUNDARIES; i++)
        if (job->request.boundary[i] && job->request.boundary[i] == rt_memory_seq_length(m, seq))
            return rt_memory_prefix_keep(m, seq);
    return GDN_OK;
}
