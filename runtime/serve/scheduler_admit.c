/* Admission and preemption. A request starts when there are cells for its tokens and a few more. When
 * cells run out, the request that started last is preempted: it releases its cells and waits. It loses no token, since
 * its tokens are decoded again later and draws depend on them alone.
 *
 * Requests start in order of submission. The running requests are therefore the first ones that have not ended, and the
 * first of them is never preempted, so each request completes. A preempted request restarts when its tokens fit beside
 * the others, that is after another has ended, so it is not decoded again and again. */
#include <stdio.h>

#include "runtime/serve/scheduler_internal.h"

enum { LITTLE = 16 }; /* tokens that each running request can draw without a preemption */

int32_t rt_scheduler_cells_for(const rt_memory *m, int32_t seq, int64_t n)
{
    const int64_t more = n - rt_memory_draft_reserved(m, seq);
    return more > 0 ? (int32_t)more : 0;
}

/* Tokens in the job's memory after LITTLE more draws, or all but its last, which is never decoded. */
static int64_t tokens_soon(const rt_job *job)
{
    const int32_t left = job->n_prompt + job->n_max - job->n_tokens;
    return (int64_t)job->n_tokens + (left - 1 < LITTLE ? left - 1 : LITTLE);
}

gdn_status rt_scheduler_admit(rt_scheduler *s)
{
    rt_memory *m = rt_engine_memory(s->desc.engine);
    int64_t wanted = 0;
    int32_t n_running = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++)
        if (s->slot[seq].job) {
            wanted += rt_scheduler_cells_for(m, seq, tokens_soon(s->slot[seq].job) - rt_memory_seq_length(m, seq));
            n_running++;
        }
    for (int32_t seq = 0; seq < s->desc.n_parallel && s->next < s->end; seq++) {
        if (s->slot[seq].job) continue;
        rt_job *job = NULL;
        for (; s->next < s->end && !job; s->next += !job) {
            job = s->job[s->next - s->first];
            if (job && job->finish != RT_FINISH_NONE)
                job = NULL; /* it was cancelled, or ended before a preempted one */
        }
        if (!job) break;
        gdn_status status = rt_memory_seq_rm(m, seq, 0, -1);
        if (!status) status = rt_scheduler_begin_from_prefix(s, job, seq);
        if (status) return status;
        wanted += tokens_soon(job) - rt_memory_seq_length(m, seq);
        if (n_running && wanted > rt_memory_free_cells(m))
            return rt_memory_seq_rm(m, seq, 0, -1); /* strict order, so that every request starts eventually */
        s->slot[seq].job = job;
        job->runs = 1;
        n_running++;
        s->next++;
    }
    return GDN_OK;
}

/* Cells that the next step needs without drafts: see build() in scheduler_step.c. */
static int64_t step_cells(rt_scheduler *s)
{
    const rt_memory *m = rt_engine_memory(s->desc.engine);
    int64_t cells = 0;
    int32_t rows = s->n_step_rows;
    for (int32_t i = 0; i < s->n_order; i++) rows -= s->slot[s->order[i]].generating;
    rt_scheduler_share(s, rows);
    for (int32_t i = 0; i < s->n_order; i++) {
        const rt_slot *const slot = &s->slot[s->order[i]];
        cells += rt_scheduler_cells_for(m, s->order[i], slot->generating ? 1 : slot->share);
    }
    return cells;
}

gdn_status rt_scheduler_make_room(rt_scheduler *s)
{
    rt_memory *m = rt_engine_memory(s->desc.engine);
    gdn_status status = GDN_OK;
    int64_t need = 0;
    while (!status && (need = step_cells(s)) > rt_memory_free_cells(m)) {
        const int32_t last = s->order[s->n_order - 1]; /* the request that started last */
        rt_job *job = s->slot[last].job;
        const int32_t length = rt_memory_seq_length(m, last);
        status = rt_memory_seq_rm(m, last, 0, -1);
        s->slot[last].job = NULL;
        s->slot[last].generating = 0;
        job->runs = 0;
        rt_scheduler_sort(s);
        if (s->n_order) {
            job->n_held = length > job->n_held ? length : job->n_held;
            job->result.n_preempted++;
            s->totals.preemptions++;
            s->next = job->id; /* all running requests are before it, so it is the next to start */
            rt_scheduler_wait_for_prefixes(s);
            continue;
        }
        /* A request that runs alone can get all cells that no other sequence of the engine holds. */
        (void)snprintf(job->error, sizeof job->error,
                       "a step of this request alone needs %lld more KV cells and %d were free: other sequences of the "
                       "engine hold them",
                       (long long)need, (int)(rt_memory_free_cells(m) - length));
        job->result.error = job->error;
        job->result.status = GDN_OUT_OF_MEMORY;
        job->finish = RT_FINISH_FAILED;
    }
    s->spare = rt_memory_free_cells(m) - need;
    return status;
}
