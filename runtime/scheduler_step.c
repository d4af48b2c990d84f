/* One step of continuous batching: start requests, draft, decode everything at once, draw, roll back what was not
 * accepted. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/draft_ngram.h"
#include "runtime/scheduler_internal.h"

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static rt_memory *memory(const rt_scheduler *s) { return rt_engine_memory(s->desc.engine); }

/* ---- Starting and ending ---- */

static gdn_status finish(rt_scheduler *s, int32_t seq, int32_t why)
{
    s->running[seq]->finish = why;
    s->running[seq]->runs   = 0;
    s->running[seq] = NULL;
    return rt_seq_rm(memory(s), seq, 0, -1);
}

/* Whatever a step that failed has left: the memory holds a beginning of the job's tokens, and the last is to come. */
static gdn_status reconcile(rt_scheduler *s, int32_t seq)
{
    const rt_job *job    = s->running[seq];
    const int32_t length = rt_seq_length(memory(s), seq), last = job->n_tokens - 1;
    if (rt_seq_min_length(memory(s), seq) > length)
        return rt_seq_rm(memory(s), seq, 0, -1);
    if (length > last && rt_seq_rm(memory(s), seq, last, -1))
        return rt_seq_rm(memory(s), seq, 0, -1);
    return GDN_OK;
}

/* ---- Drafting ---- */

static gdn_status draft(rt_scheduler *s)
{
    const int32_t D = s->desc.draft_max;
    int32_t       n_ask = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        if (!s->generating[seq])
            continue;
        const int32_t room = rt_draft_room(s, seq);
        if (s->desc.spec == RT_SPEC_NGRAM)
            s->n_draft[seq] = rt_draft_ngram(job->tokens, job->n_tokens, room, s->draft + (int64_t)seq * D);
        else if (room > 0)
            s->ask[n_ask++] = (rt_draft_request){ seq, job->tokens[job->n_tokens - 1], room };
    }
    if (!n_ask)
        return GDN_OK;
    const gdn_status status = rt_draft_mtp(s->desc.engine, s->ask, n_ask, D, s->desc.p_min, s->ask_draft, s->ask_n);
    for (int32_t i = 0; !status && i < n_ask; i++) {
        s->n_draft[s->ask[i].seq] = s->ask_n[i];
        memcpy(s->draft + (int64_t)s->ask[i].seq * D, s->ask_draft + (int64_t)i * D, 4 * (size_t)s->ask_n[i]);
    }
    return status;
}

/* ---- The batch ---- */

static void append(rt_scheduler *s, int32_t *n, int32_t token, int32_t seq, int logits)
{
    s->batch_token[*n]  = token;
    s->batch_seq[*n]    = seq;
    s->batch_logits[*n] = (uint8_t)logits;
    ++*n;
}

/* Those that generate first, one row and their drafts each; then prompts, as the budget allows. */
static int32_t build(rt_scheduler *s)
{
    int32_t n = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        s->n_rows[seq] = 0;
        if (!s->generating[seq])
            continue;
        s->first_row[seq] = n;
        append(s, &n, job->tokens[job->n_tokens - 1], seq, 1);
        for (int32_t i = 0; i < s->n_draft[seq]; i++)
            append(s, &n, s->draft[(int64_t)seq * s->desc.draft_max + i], seq, 1);
        s->n_rows[seq] = n - s->first_row[seq];
    }
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        if (!job || s->generating[seq] || s->waits[seq])
            continue;
        s->first_row[seq] = n;
        for (int32_t p = rt_seq_length(memory(s), seq); p < job->n_tokens && n < s->n_step_rows; p++)
            append(s, &n, job->tokens[p], seq, p + 1 == job->n_tokens);
        s->n_rows[seq] = n - s->first_row[seq];
    }
    return n;
}

/* ---- Drawing ---- */

static int is_end(const rt_scheduler *s, const rt_job *job, int32_t token)
{
    for (int32_t i = 0; i < job->request.n_stop; i++)
        if (job->stop[i] == token)
            return 1;
    return !job->request.ignore_end && s->desc.tokenizer && rt_tokenizer_is_end(s->desc.tokenizer, token);
}

/* Take a drawn token in; nonzero: why the request ends with it. */
static int32_t take(rt_scheduler *s, rt_job *job, int32_t token)
{
    s->totals.generated_tokens++;
    job->tokens[job->n_tokens++] = token;
    if (job->request.on_token && job->request.on_token(job->request.user, job->id, token))
        return RT_FINISH_CANCELLED;
    if (is_end(s, job, token))
        return RT_FINISH_STOP;
    if (job->n_tokens == job->n_prompt + job->n_max)
        return job->cut ? RT_FINISH_CONTEXT : RT_FINISH_LENGTH;
    return job->cancelled ? RT_FINISH_CANCELLED : RT_FINISH_NONE;
}

/* The next token from the logits of a row, or -1: then the job knows what is wrong with them. A model that computes NaN
 * or infinity is damaged, or its file is; this ends the request that met it, and no other. */
static int32_t sample(rt_scheduler *s, rt_job *job, int32_t row)
{
    const float  *logits = rt_logits(s->desc.engine, row);
    const int32_t token  = rt_sample(s->sampler, &job->request.sampling, logits, job->tokens, job->n_tokens);
    if (token < 0) {
        int32_t bad = 0;
        while (isfinite(logits[bad]))
            bad++;
        (void)snprintf(job->error, sizeof job->error,
                       "the model computes no numbers: after %d tokens (%d of the prompt) the logit of token %d is %g; "
                       "are its weights damaged?",
                       (int)job->n_tokens, (int)job->n_prompt, (int)bad, (double)logits[bad]);
        job->result.error = job->error;
    }
    return token;
}

/* The rows of a sequence that generates: draw after each, as long as what was drawn is what the next row was fed. */
static gdn_status verify(rt_scheduler *s, int32_t seq, int32_t *n_drawn)
{
    rt_job       *job     = s->running[seq];
    rt_count_prefix(s, job);
    const int32_t n_draft = s->n_rows[seq] - 1, before = job->n_tokens - 1; /* length before the step */
    int32_t       accepted = 0, why = RT_FINISH_NONE;
    for (int32_t i = 0; i <= n_draft; i++) {
        const int32_t token = sample(s, job, s->first_row[seq] + i);
        if (token < 0) {
            why = RT_FINISH_FAILED;
            break;
        }
        ++*n_drawn;
        why = take(s, job, token);
        if (why || i == n_draft || token != s->draft[(int64_t)seq * s->desc.draft_max + i])
            break;
        accepted++;
    }
    job->result.n_drafted  += n_draft;
    job->result.n_accepted += accepted;
    job->result.n_rounds++;
    s->totals.drafted  += n_draft;
    s->totals.accepted += accepted;
    s->totals.rounds++;
    if (why)
        return finish(s, seq, why);
    if (accepted == n_draft)
        return GDN_OK;
    s->totals.rollbacks++;
    return rt_seq_rm(memory(s), seq, before + 1 + accepted, -1);
}

/* The rows of a prompt, or of what is read again: after the last one, the next token. */
static gdn_status prompt(rt_scheduler *s, int32_t seq, double seconds)
{
    rt_job       *job  = s->running[seq];
    rt_count_prefix(s, job);
    const int32_t done = rt_seq_length(memory(s), seq);
    const int32_t begin = done - s->n_rows[seq], again = done < job->n_held ? done : job->n_held;
    job->result.prompt_seconds += seconds;
    s->totals.reread_tokens += again > begin ? again - begin : 0;
    if (job->request.on_prompt && job->n_tokens == job->n_prompt && done > job->n_held)
        job->request.on_prompt(job->request.user, job->id, done, job->n_prompt);
    if (done < job->n_tokens)
        return job->cancelled ? finish(s, seq, RT_FINISH_CANCELLED) : GDN_OK;
    const int32_t token = sample(s, job, s->first_row[seq] + s->n_rows[seq] - 1);
    const int32_t why   = token < 0 ? RT_FINISH_FAILED : take(s, job, token);
    return why ? finish(s, seq, why) : GDN_OK;
}

gdn_status rt_step_run(rt_scheduler *s, int *busy)
{
    *busy = 0;
    gdn_status status = rt_admit(s);
    int32_t    n_running = 0, n_generating = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        s->n_draft[seq]    = 0;
        s->generating[seq] = 0;
        if (!job)
            continue;
        status = job->cancelled ? finish(s, seq, RT_FINISH_CANCELLED) : reconcile(s, seq);
        if (status || !s->running[seq])
            continue;
        s->generating[seq] = job->n_tokens > job->n_prompt && job->n_tokens - rt_seq_length(memory(s), seq) == 1;
        if (!s->generating[seq])
            status = rt_begin_from_prefix(s, s->running[seq], seq);
    }
    if (!status) {
        rt_wait_for_prefixes(s);
        status = rt_make_room(s);
    }
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        n_running += s->running[seq] != NULL;
        n_generating += s->generating[seq];
    }
    if (status)
        return status;
    if (!n_running) {
        *busy = s->next < s->n_jobs;
        return GDN_OK;
    }
    const double begin = now();
    /* A step that also reads a prompt says nothing about drafting, so it begins no try. */
    int want = s->desc.draft_max && n_generating;
    if (want && !s->desc.always)
        want = n_running > n_generating ? rt_payoff_pays(&s->payoff, n_generating)
                                        : rt_payoff_choose(&s->payoff, n_generating);
    /* Where drafting does not pay, the draft head does not read along. */
    const int follow = s->desc.spec == RT_SPEC_MTP && (s->desc.always || want || rt_payoff_pays(&s->payoff, n_running));
    if (want)
        status = draft(s);
    if (status)
        return status;
    const int32_t  n_rows = build(s);
    const rt_batch batch  = { n_rows, s->batch_token, s->batch_seq, s->batch_logits, !follow };
    status = rt_decode(s->desc.engine, &batch);
    const double decoded = now();
    int32_t n_drawn = 0, n_read = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        rt_job *job = s->running[seq];
        if (!job || !s->n_rows[seq])
            continue;
        if (s->generating[seq]) {
            job->result.generation_seconds += decoded - begin;
            status = verify(s, seq, &n_drawn);
        } else {
            n_read += s->n_rows[seq];
            status  = prompt(s, seq, decoded - begin);
        }
    }
    const double seconds = now() - begin;
    if (!n_read && n_generating)
        rt_payoff_record(&s->payoff, n_generating, want, n_drawn, seconds);
    s->totals.prompt_tokens      += n_read;
    s->totals.decoded_tokens     += n_drawn;
    s->totals.prompt_seconds     += seconds * n_read / n_rows;
    s->totals.generation_seconds += seconds * (n_rows - n_read) / n_rows;
    *busy = 1;
    return status;
}
