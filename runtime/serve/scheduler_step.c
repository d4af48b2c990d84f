/* One step of continuous batching: start requests, draft, decode one batch, draw, roll back rejected drafts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/decode/draft_ngram.h"
#include "runtime/serve/scheduler_internal.h"

static rt_memory *memory(const rt_scheduler *s) { return rt_engine_memory(s->desc.engine); }

/* ---- Starting and ending ---- */

static gdn_status finish(rt_scheduler *s, int32_t seq, int32_t why)
{
    s->running[seq]->finish = why;
    s->running[seq]->runs = 0;
    s->running[seq] = NULL;
    return rt_seq_rm(memory(s), seq, 0, -1);
}

/* Repairs a sequence after a failed step: its memory then holds a prefix of the job's tokens without the last. */
static gdn_status reconcile(rt_scheduler *s, int32_t seq)
{
    const rt_job *job = s->running[seq];
    const int32_t length = rt_seq_length(memory(s), seq), last = job->n_tokens - 1;
    if (rt_seq_min_length(memory(s), seq) > length) return rt_seq_rm(memory(s), seq, 0, -1);
    if (length > last && rt_seq_rm(memory(s), seq, last, -1)) return rt_seq_rm(memory(s), seq, 0, -1);
    return GDN_OK;
}

/* ---- Drafting ---- */

/* Drafts for all generating sequences. trees: verify second candidates too; otherwise they only count for the
 * controller. */
static gdn_status draft(rt_scheduler *s, int trees)
{
    const int32_t D = s->desc.draft_max;
    int32_t n_ask = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        if (!s->generating[seq]) continue;
        const int32_t room = rt_draft_room(s, seq);
        if (s->desc.spec == RT_SPEC_NGRAM)
            s->n_draft[seq] = rt_draft_ngram(job->tokens, job->n_tokens, room, s->draft + (int64_t)seq * D);
        else if (room > 0) s->ask[n_ask++] = (rt_draft_request){ seq, job->tokens[job->n_tokens - 1], room };
    }
    if (!n_ask) return GDN_OK;
    int32_t *const second = s->desc.draft_tree ? s->ask_second : NULL;
    const gdn_status status =
        rt_draft_mtp_two(s->desc.engine, s->ask, n_ask, D, s->desc.p_min, s->ask_draft, second, s->ask_n);
    for (int32_t i = 0; !status && i < n_ask; i++) {
        const int32_t seq = s->ask[i].seq;
        s->n_draft[seq] = s->ask_n[i];
        memcpy(s->draft + (int64_t)seq * D, s->ask_draft + (int64_t)i * D, 4 * (size_t)s->ask_n[i]);
        if (second) memcpy(s->second + (int64_t)seq * D, second + (int64_t)i * D, 4 * (size_t)s->ask_n[i]);
        s->n_second[seq] = trees ? rt_second_room(s, seq, s->n_draft[seq]) : 0;
        for (int32_t j = 0; j < s->n_second[seq]; j++) /* no second candidate exists for this draft */
            s->n_second[seq] = s->second[(int64_t)seq * D + j] < 0 ? j : s->n_second[seq];
    }
    return status;
}

/* ---- The batch ---- */

static void append(rt_scheduler *s, int32_t *n, int32_t token, int32_t seq, int logits, int32_t parent)
{
    s->batch_parent[*n] = parent;
    s->batch_token[*n] = token;
    s->batch_seq[*n] = seq;
    s->batch_logits[*n] = (uint8_t)logits;
    ++*n;
}

/* Builds the batch: for each generating sequence its last token, drafts and second candidates; then prompts up to the
 * token budget. batch_parent is valid only in steps without prompts. */
static int32_t build(rt_scheduler *s)
{
    int32_t n = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        s->n_rows[seq] = 0;
        if (!s->generating[seq]) continue;
        s->first_row[seq] = n;
        append(s, &n, job->tokens[job->n_tokens - 1], seq, 1, GDN_NONE);
        for (int32_t i = 0; i < s->n_draft[seq]; i++)
            append(s, &n, s->draft[(int64_t)seq * s->desc.draft_max + i], seq, 1, i);
        for (int32_t i = 0; i < s->n_second[seq]; i++)
            append(s, &n, s->second[(int64_t)seq * s->desc.draft_max + i], seq, 1, i);
        s->n_rows[seq] = n - s->first_row[seq];
    }
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        if (!job || s->generating[seq] || s->waits[seq]) continue;
        s->first_row[seq] = n;
        for (int32_t p = rt_seq_length(memory(s), seq); p < job->n_tokens && n < s->n_step_rows; p++)
            append(s, &n, job->tokens[p], seq, p + 1 == job->n_tokens, GDN_NONE);
        s->n_rows[seq] = n - s->first_row[seq];
    }
    return n;
}

/* ---- Drawing ---- */

static int is_end(const rt_scheduler *s, const rt_job *job, int32_t token)
{
    for (int32_t i = 0; i < job->request.n_stop; i++)
        if (job->stop[i] == token) return 1;
    return !job->request.ignore_end && s->desc.tokenizer && rt_tokenizer_is_end(s->desc.tokenizer, token);
}

/* Appends a drawn token. Nonzero: the reason why the request ends with it. */
static int32_t take(rt_scheduler *s, rt_job *job, int32_t token)
{
    s->totals.generated_tokens++;
    job->tokens[job->n_tokens++] = token;
    if (job->request.on_token && job->request.on_token(job->request.user, job->id, token)) return RT_FINISH_CANCELLED;
    if (is_end(s, job, token)) return RT_FINISH_STOP;
    if (job->n_tokens == job->n_prompt + job->n_max) return job->cut ? RT_FINISH_CONTEXT : RT_FINISH_LENGTH;
    return job->cancelled ? RT_FINISH_CANCELLED : RT_FINISH_NONE;
}

/* Draws the next token from the logits of a row. -1: a logit is NaN or infinite, and job->error says which. Only this
 * request fails. */
static int32_t sample(rt_scheduler *s, rt_job *job, int32_t row)
{
    const float *logits = rt_logits(s->desc.engine, row);
    const int32_t token = rt_sample(s->sampler, &job->request.sampling, logits, job->tokens, job->n_tokens);
    if (token < 0) {
        int32_t bad = 0;
        while (isfinite(logits[bad])) bad++;
        (void)snprintf(job->error, sizeof job->error,
                       "the model computes no numbers: after %d tokens (%d of the prompt) the logit of token %d is %g; "
                       "are its weights damaged?",
                       (int)job->n_tokens, (int)job->n_prompt, (int)bad, (double)logits[bad]);
        job->result.error = job->error;
    }
    return token;
}

/* Row of the sequence that follows row `at` and holds `token`: the draft, or its second candidate; -1: none. */
static int32_t row_behind(const rt_scheduler *s, int32_t seq, int32_t at, int32_t token)
{
    const int64_t place = (int64_t)seq * s->desc.draft_max + at;
    const int32_t n_draft = s->n_draft[seq];
    if (at < n_draft && token == s->draft[place]) return at + 1;
    return at < s->n_second[seq] && token == s->second[place] ? n_draft + 1 + at : -1;
}

/* The draft after row `at` was rejected: count whether its second candidate is right. */
static void look_at_second(rt_scheduler *s, int32_t seq, int32_t at, int32_t token, int32_t *n_second)
{
    if (at >= s->desc.draft_tree || at >= s->n_draft[seq]) return;
    const int right = token == s->second[(int64_t)seq * s->desc.draft_max + at];
    s->totals.second_places++;
    s->totals.second_right += right;
    *n_second += right;
}

/* Verifies a generating sequence: draws after each row while the drawn token matches a row. *n_second: how often the
 * match was, or would have been, a second candidate. */
static gdn_status verify(rt_scheduler *s, int32_t seq, int32_t *n_drawn, int32_t *n_second)
{
    rt_job *job = s->running[seq];
    rt_count_prefix(s, job);
    const int32_t n_rows = s->n_rows[seq], n_draft = s->n_draft[seq], before = job->n_tokens - 1; /* length before
                                                                                                     the step */
    int32_t accepted = 0, why = RT_FINISH_NONE, at = 0;
    for (int32_t next; at >= 0;) {
        const int32_t token = sample(s, job, s->first_row[seq] + at);
        if (token < 0) {
            why = RT_FINISH_FAILED;
            break;
        }
        ++*n_drawn;
        why = take(s, job, token);
        next = row_behind(s, seq, at, token);
        if (next != at + 1) look_at_second(s, seq, at, token, n_second);
        if (why || next < 0) break;
        accepted++;
        at = next;
    }
    const int aside = at > n_draft;
    job->result.n_drafted += n_rows - 1;
    job->result.n_accepted += accepted;
    job->result.n_rounds++;
    s->totals.drafted += n_rows - 1;
    s->totals.accepted += accepted;
    s->totals.tree_drafted += s->n_second[seq];
    s->totals.tree_accepted += aside;
    s->totals.rounds++;
    if (why) return finish(s, seq, why);
    if (accepted == n_rows - 1) return GDN_OK;
    s->totals.rollbacks++;
    return aside ? rt_seq_branch(memory(s), seq, at) : rt_seq_rm(memory(s), seq, before + 1 + accepted, -1);
}

/* Handles the rows of a prompt, or of tokens decoded again: draws the next token after the last one. */
static gdn_status prompt(rt_scheduler *s, int32_t seq, double seconds)
{
    rt_job *job = s->running[seq];
    rt_count_prefix(s, job);
    const int32_t done = rt_seq_length(memory(s), seq);
    const int32_t begin = done - s->n_rows[seq], again = done < job->n_held ? done : job->n_held;
    job->result.prompt_seconds += seconds;
    s->totals.reread_tokens += again > begin ? again - begin : 0;
    if (job->request.on_prompt && job->n_tokens == job->n_prompt && done > job->n_held)
        job->request.on_prompt(job->request.user, job->id, done, job->n_prompt);
    if (done < job->n_tokens) return job->cancelled ? finish(s, seq, RT_FINISH_CANCELLED) : GDN_OK;
    const int32_t token = sample(s, job, s->first_row[seq] + s->n_rows[seq] - 1);
    const int32_t why = token < 0 ? RT_FINISH_FAILED : take(s, job, token);
    return why ? finish(s, seq, why) : GDN_OK;
}

/* True if a sequence can reach a checkpoint of the prefix cache with its drafts. Tree steps write none. */
static int comes_to_prefix(const rt_scheduler *s)
{
    const int32_t interval = rt_engine_limits_of(s->desc.engine).prefix_interval;
    for (int32_t seq = 0; interval && seq < s->desc.n_parallel; seq++) {
        const int32_t length = rt_seq_length(memory(s), seq);
        if (s->generating[seq] && (length + 1 + s->desc.draft_max) / interval != length / interval) return 1;
    }
    return 0;
}

gdn_status rt_step_run(rt_scheduler *s, int *busy)
{
    *busy = 0;
    gdn_status status = rt_admit(s);
    int32_t n_running = 0, n_generating = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        const rt_job *job = s->running[seq];
        s->n_draft[seq] = 0;
        s->n_second[seq] = 0;
        s->generating[seq] = 0;
        if (!job) continue;
        status = job->cancelled ? finish(s, seq, RT_FINISH_CANCELLED) : reconcile(s, seq);
        if (status || !s->running[seq]) continue;
        s->generating[seq] = job->n_tokens > job->n_prompt && job->n_tokens - rt_seq_length(memory(s), seq) == 1;
        if (!s->generating[seq]) status = rt_begin_from_prefix(s, s->running[seq], seq);
    }
    if (!status) {
        rt_wait_for_prefixes(s);
        status = rt_make_room(s);
    }
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        n_running += s->running[seq] != NULL;
        n_generating += s->generating[seq];
    }
    if (status) return status;
    if (!n_running) {
        *busy = s->next < s->end;
        return GDN_OK;
    }
    *busy = 1;
    const double begin = rt_now();
    /* A step with a prompt does not measure drafting, so it starts no trial. */
    int want = s->desc.draft_max && n_generating;
    if (want && !s->desc.always)
        want = n_running > n_generating ? rt_payoff_pays(&s->payoff, n_generating)
                                        : rt_payoff_choose(&s->payoff, n_generating);
    /* Without drafting the draft head skips the rows. */
    const int follow = s->desc.spec == RT_SPEC_MTP && (s->desc.always || want || rt_payoff_pays(&s->payoff, n_running));
    /* Second candidates need drafts, no prompts, and no checkpoint in the step. */
    const int may = want && s->desc.draft_tree && n_running == n_generating;
    const int trees =
        may && (!s->desc.tree_pays || rt_payoff_tree_choose(&s->payoff_tree, n_generating)) && !comes_to_prefix(s);
    if (want) status = draft(s, trees);
    if (status) return status;
    const int32_t n_rows = build(s);
    int32_t n_aside = 0, n_second = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) n_aside += s->n_second[seq];
    const rt_batch batch = { n_rows,          s->batch_token, s->batch_seq,
                             s->batch_logits, !follow,        n_aside ? s->batch_parent : NULL };
    status = rt_decode(s->desc.engine, &batch);
    if (status) return status; /* nothing was drawn, and the time is not recorded */
    const double decoded = rt_now();
    int32_t n_drawn = 0, n_read = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        rt_job *job = s->running[seq];
        if (!job || !s->n_rows[seq]) continue;
        if (s->generating[seq]) {
            job->result.generation_seconds += decoded - begin;
            status = verify(s, seq, &n_drawn, &n_second);
        } else {
            n_read += s->n_rows[seq];
            status = prompt(s, seq, decoded - begin);
        }
    }
    const double seconds = rt_now() - begin;
    if (!status && !n_read && n_generating) rt_payoff_record(&s->payoff, n_generating, want, n_drawn, seconds);
    if (!status && may) rt_payoff_tree_record(&s->payoff_tree, n_generating, n_aside > 0, n_drawn, n_second, seconds);
    s->totals.prompt_tokens += n_read;
    s->totals.decoded_tokens += n_drawn;
    s->totals.prompt_seconds += seconds * n_read / n_rows;
    s->totals.generation_seconds += seconds * (n_rows - n_read) / n_rows;
    return status;
}
