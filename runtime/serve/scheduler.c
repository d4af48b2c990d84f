/* Requests: submit, cancel, release, results. The steps are in scheduler_step.c. See scheduler.h. */
#include <string.h>

#include "runtime/serve/scheduler_internal.h"

/* Checks that the engine can speculate with drafts of up to draft_max tokens. */
static gdn_status check_spec(const rt_engine_limits *limits, rt_spec spec, int32_t draft_max)
{
    if (spec != RT_SPEC_OFF && (draft_max < 1 || draft_max > limits->n_rollback))
        return rt_fail(GDN_INVALID_ARGUMENT, "draft_max is %d; 1 to %d (the engine's n_rollback) are allowed",
                       (int)draft_max, (int)limits->n_rollback);
    if (spec == RT_SPEC_MTP && !limits->draft)
        return rt_fail(GDN_UNSUPPORTED,
                       "the model has no MTP block, or the engine was created without draft; ngram needs none");
    return GDN_OK;
}

gdn_status rt_scheduler_create(const rt_scheduler_desc *desc, rt_scheduler **scheduler)
{
    *scheduler = NULL;
    if (!desc->engine) return rt_fail(GDN_INVALID_ARGUMENT, "engine is NULL");
    const rt_engine_limits limits = rt_engine_limits_of(desc->engine);
    if (desc->n_parallel < 1 || desc->n_parallel > limits.n_seqs)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_parallel is %d; 1 to %d (the engine's n_seqs) are allowed",
                       (int)desc->n_parallel, (int)limits.n_seqs);
    gdn_status status = check_spec(&limits, desc->spec, desc->draft_max);
    if (status) return status;
    if (desc->n_step_rows < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_step_rows is %d; 0 and more are allowed", (int)desc->n_step_rows);

    rt_scheduler *s = rt_calloc(1, sizeof *s, "a scheduler");
    if (!s) return GDN_OUT_OF_MEMORY;
    s->desc = *desc;
    s->n_vocab = limits.n_vocab;
    s->n_ctx = limits.n_ctx;
    if (desc->spec == RT_SPEC_OFF) s->desc.draft_max = 0;
    s->speculation.most = s->desc.draft_max + 1;
    /* a step always has room for every running sequence and its drafts */
    const int32_t generating = desc->n_parallel * (s->desc.draft_max + 1);
    s->n_step_rows = desc->n_step_rows ? desc->n_step_rows : limits.n_batch;
    s->n_step_rows = s->n_step_rows > generating ? s->n_step_rows : generating;
    const uint64_t P = (uint64_t)desc->n_parallel, R = (uint64_t)s->n_step_rows, D = (uint64_t)s->desc.draft_max + 1;
    s->slot = rt_calloc(P, sizeof *s->slot, "a scheduler");
    s->order = rt_calloc(P, 4, "a scheduler");
    s->batch_token = rt_calloc(R, 4, "a scheduler");
    s->batch_seq = rt_calloc(R, 4, "a scheduler");
    s->batch_logits = rt_calloc(R, 1, "a scheduler");
    s->ask = rt_calloc(P, sizeof *s->ask, "a scheduler");
    s->ask_draft = rt_calloc(P * D, 4, "a scheduler");
    s->ask_n = rt_calloc(P, 4, "a scheduler");
    if (!s->slot || !s->order || !s->batch_token || !s->batch_seq || !s->batch_logits || !s->ask || !s->ask_draft ||
        !s->ask_n)
        status = GDN_OUT_OF_MEMORY;
    if (!status) status = rt_sampler_create(s->n_vocab, rt_engine_dense(desc->engine), &s->sampler);
    if (status) rt_scheduler_destroy(s);
    else *scheduler = s;
    return status;
}

static void free_job(rt_job *job)
{
    if (!job) return;
    rt_free(job->tokens);
    rt_free(job->stop);
    rt_schema_end(job->state);
    rt_free(job);
}

void rt_scheduler_destroy(rt_scheduler *s)
{
    if (!s) return;
    for (int32_t i = 0; i < s->end - s->first; i++) free_job(s->job[i]);
    void *arrays[] = { (void *)s->job,  s->slot, s->order,     s->batch_token, s->batch_seq,
                       s->batch_logits, s->ask,  s->ask_draft, s->ask_n };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) rt_free(arrays[i]);
    rt_sampler_destroy(s->sampler);
    rt_mask_destroy(s->mask);
    rt_free(s);
}

static gdn_status check_request(const rt_scheduler *s, const rt_request *r)
{
    if (r->n_prompt < 1 || !r->prompt)
        return rt_fail(GDN_INVALID_ARGUMENT, "the prompt is empty; at least one token is needed");
    if (r->n_prompt >= s->n_ctx)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "the prompt has %d tokens; the context holds %d, and one must be left to generate",
                       (int)r->n_prompt, (int)s->n_ctx);
    if (r->n_max < 1) return rt_fail(GDN_INVALID_ARGUMENT, "n_max is %d; 1 and more are allowed", (int)r->n_max);
    if (r->n_min < 0 || (r->n_min && (r->schema || !s->desc.tokenizer)))
        return rt_fail(GDN_INVALID_ARGUMENT, "n_min is %d; 0 and more are allowed, and 0 %s", (int)r->n_min,
                       r->schema ? "with a schema" : "without a tokenizer");
    for (int i = 0; i < RT_CHAT_BOUNDARIES; i++)
        if (r->boundary[i] < 0 || r->boundary[i] > r->n_prompt)
            return rt_fail(GDN_INVALID_ARGUMENT, "boundary[%d] is %d; 0 to %d (n_prompt) are allowed", i,
                           (int)r->boundary[i], (int)r->n_prompt);
    if (r->n_stop < 0 || (r->n_stop && !r->stop))
        return rt_fail(GDN_INVALID_ARGUMENT, "n_stop is %d, and stop is %s", (int)r->n_stop,
                       r->stop ? "given" : "NULL");
    const int32_t most = s->n_vocab < RT_TOP_LOGPROBS ? s->n_vocab : RT_TOP_LOGPROBS;
    if (r->n_top < 0 || r->n_top > most)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_top is %d; 0 to %d are allowed", (int)r->n_top, (int)most);
    for (int32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= s->n_vocab)
            return rt_fail(GDN_INVALID_ARGUMENT, "prompt[%d] is %d; 0 to %d are allowed", (int)i, (int)r->prompt[i],
                           (int)s->n_vocab - 1);
    return rt_sampling_check(&r->sampling);
}

/* Makes what is needed to draw among some tokens: for a schema, or for a text that must not end at once. */
static gdn_status begin_mask(rt_scheduler *s, rt_job *job)
{
    const rt_request *const r = &job->request;
    if (!r->schema && !r->n_min) return GDN_OK;
    int32_t end = s->n_vocab - 1;
    while (end >= 0 && !(s->desc.tokenizer && rt_tokenizer_is_end(s->desc.tokenizer, end))) end--;
    if (r->schema && (end < 0 || r->ignore_end))
        return rt_fail(GDN_INVALID_ARGUMENT, "a schema needs %s",
                       end < 0 ? "a tokenizer with an end token" : "ignore_end to be 0");
    const gdn_status status = s->mask ? GDN_OK : rt_mask_create(s->desc.tokenizer, s->n_vocab, &s->mask);
    if (status || !r->schema) return status;
    job->state = rt_schema_begin(r->schema, r->thinks);
    return job->state ? GDN_OK : GDN_OUT_OF_MEMORY;
}

/* Grows s->job for one more request. */
static gdn_status grow(rt_scheduler *s)
{
    const int32_t n = s->end - s->first;
    if (n < s->room) return GDN_OK;
    rt_job **larger = rt_calloc(2 * (uint64_t)s->room + 64, sizeof *larger, "requests");
    if (!larger) return GDN_OUT_OF_MEMORY;
    if (n) memcpy(larger, s->job, (size_t)n * sizeof *larger);
    rt_free(s->job);
    s->job = larger;
    s->room = 2 * s->room + 64;
    return GDN_OK;
}

gdn_status rt_scheduler_submit(rt_scheduler *s, const rt_request *request, int32_t *id)
{
    gdn_status status = check_request(s, request);
    if (!status && s->end == INT32_MAX)
        status = rt_fail(GDN_UNSUPPORTED,
                         "this scheduler has had %d requests, and has no numbers for more; a new one has", (int)s->end);
    if (status) return status;
    const int32_t room = s->n_ctx - request->n_prompt;
    const int32_t n_max = request->n_max < room ? request->n_max : room;
    rt_job *job = rt_calloc(1, sizeof *job, "a request");
    int32_t *stop = rt_calloc((uint64_t)request->n_stop, 4, "a request");
    int32_t *tokens = rt_calloc((uint64_t)(request->n_prompt + n_max), 4, "a request");
    if (!job || !stop || !tokens || grow(s)) {
        rt_free(job);
        rt_free(stop);
        rt_free(tokens);
        return GDN_OUT_OF_MEMORY;
    }
    job->request = *request;
    job->request.prompt = NULL; /* the caller's; copied */
    job->request.stop = NULL;
    if ((status = begin_mask(s, job))) {
        rt_free(stop);
        rt_free(tokens);
        rt_free(job);
        return status;
    }
    job->id = s->end;
    job->n_prompt = request->n_prompt;
    job->n_tokens = request->n_prompt;
    job->n_max = n_max;
    job->cut = n_max < request->n_max;
    job->tokens = tokens;
    job->stop = stop;
    memcpy(tokens, request->prompt, 4 * (size_t)request->n_prompt);
    if (request->n_stop) memcpy(stop, request->stop, 4 * (size_t)request->n_stop);
    s->job[s->end++ - s->first] = job;
    *id = job->id;
    return GDN_OK;
}

/* Finds a request; NULL, with a text: no such id. */
static rt_job *find(const rt_scheduler *s, int32_t id)
{
    if (id < 0 || id >= s->end) (void)rt_fail(GDN_NOT_FOUND, "request %d: %d were submitted", (int)id, (int)s->end);
    else if (id < s->first || !s->job[id - s->first]) (void)rt_fail(GDN_NOT_FOUND, "request %d was released", (int)id);
    else return s->job[id - s->first];
    return NULL;
}

gdn_status rt_scheduler_cancel(rt_scheduler *s, int32_t id)
{
    rt_job *job = find(s, id);
    if (!job) return GDN_NOT_FOUND;
    if (job->finish == RT_FINISH_NONE && !job->runs) job->finish = RT_FINISH_CANCELLED;
    if (job->finish == RT_FINISH_NONE) job->cancelled = 1; /* takes effect between tokens */
    return GDN_OK;
}

gdn_status rt_scheduler_release(rt_scheduler *s, int32_t id)
{
    rt_job *job = find(s, id);
    if (!job) return GDN_NOT_FOUND;
    if (job->finish == RT_FINISH_NONE)
        return rt_fail(GDN_INVALID_ARGUMENT, "request %d has not ended; rt_scheduler_cancel() ends it", (int)id);
    free_job(job);
    s->job[id - s->first] = NULL;
    int32_t n = 0;
    while (s->first + n < s->end && !s->job[n]) n++;
    s->first += n;
    s->next = s->next > s->first ? s->next : s->first;
    if (n) memmove(s->job, s->job + n, (size_t)(s->end - s->first) * sizeof *s->job);
    return GDN_OK;
}

gdn_status rt_scheduler_result(const rt_scheduler *s, int32_t id, rt_result *result)
{
    rt_job *job = find(s, id);
    if (!job) return GDN_NOT_FOUND;
    *result = job->result;
    result->n_tokens = job->n_tokens - job->n_prompt;
    result->finish = job->finish;
    return GDN_OK;
}

rt_totals rt_scheduler_totals(const rt_scheduler *s) { return s->totals; }

int32_t rt_scheduler_running(const rt_scheduler *s)
{
    int32_t n = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) n += s->slot[seq].job != NULL;
    return n;
}

const int32_t *rt_scheduler_tokens(const rt_scheduler *s, int32_t id, int32_t *n)
{
    const rt_job *job = find(s, id);
    *n = 0;
    if (!job) return NULL;
    *n = job->n_tokens - job->n_prompt;
    return job->tokens + job->n_prompt;
}
