/* One step of continuous batching: start requests, draft, decode one batch, draw, roll back rejected drafts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/decode/draft_ngram.h"
#include "runtime/serve/scheduler_internal.h"

static rt_memory *memory(const rt_scheduler *s) { return rt_engine_memory(s->desc.engine); }

static int32_t number_of(const rt_scheduler *s, const rt_slot *slot) { return (int32_t)(slot - s->slot); }

/* ---- Starting and ending ---- */

static gdn_status finish(rt_scheduler *s, rt_slot *slot, int32_t why)
{
    rt_job *const job = slot->job;
    job->finish = why;
    job->runs = 0;
    slot->job = NULL;
    const gdn_status status = rt_scheduler_keeps_end(job) && why != RT_FINISH_FAILED
                                  ? rt_scheduler_keep_end(s, job, number_of(s, slot))
                                  : GDN_OK;
    const gdn_status removed = rt_memory_seq_rm(memory(s), number_of(s, slot), 0, -1);
    return status ? status : removed;
}

/* Repairs a sequence after a failed step: its memory then holds a prefix of the job's tokens without the last. */
static gdn_status reconcile(rt_scheduler *s, const rt_slot *slot)
{
    const int32_t seq = number_of(s, slot), length = rt_memory_seq_length(memory(s), seq),
                  last = slot->job->n_tokens - 1;
    if (rt_memory_seq_min_length(memory(s), seq) > length) return rt_memory_seq_rm(memory(s), seq, 0, -1);
    if (length > last && rt_memory_seq_rm(memory(s), seq, last, -1)) return rt_memory_seq_rm(memory(s), seq, 0, -1);
    return GDN_OK;
}

/* ---- Drafting ---- */

/* Number of drafts that sequence seq can use, at most those with cells, which are taken from `spare`. Drafts leave room
 * for the token that is drawn after them. */
static int32_t draft_room(rt_scheduler *s, int32_t seq)
{
    const rt_memory *m = memory(s);
    const rt_job *job = s->slot[seq].job;
    const int32_t left = job->n_prompt + job->n_max - job->n_tokens; /* tokens still to draw, at least 1 */
    const int32_t first = rt_scheduler_cells_for(m, seq, 1);
    int32_t room = left - 1 < s->desc.draft_max ? left - 1 : s->desc.draft_max;
    while (room > 0 && rt_scheduler_cells_for(m, seq, room + 1) - first > s->spare) room--;
    if (room > 0) s->spare -= rt_scheduler_cells_for(m, seq, room + 1) - first;
    return room;
}

/* Drafts for all generating sequences. */
static gdn_status draft(rt_scheduler *s)
{
    const int32_t D = s->desc.draft_max;
    int32_t n_ask = 0;
    for (int32_t at = 0; at < s->n_order; at++) {
        const int32_t seq = s->order[at];
        rt_slot *slot = &s->slot[seq];
        if (!slot->generating) continue;
        const rt_job *job = slot->job;
        const int32_t room = draft_room(s, seq);
        if (s->desc.spec == RT_SPEC_NGRAM) {
            int32_t *const drafts = s->ask_draft + (int64_t)seq * D;
            slot->draft = drafts;
            slot->n_draft = rt_draft_ngram(job->tokens, job->n_tokens, room, drafts);
        } else if (room > 0) s->ask[n_ask++] = (rt_draft_request){ seq, job->tokens[job->n_tokens - 1], room };
    }
    if (!n_ask) return GDN_OK;
    const gdn_status status = rt_draft_mtp(s->desc.engine, s->ask, n_ask, D, s->desc.p_min, s->ask_draft, s->ask_n);
    for (int32_t i = 0; !status && i < n_ask; i++) {
        rt_slot *slot = &s->slot[s->ask[i].seq];
        slot->n_draft = s->ask_n[i];
        slot->draft = s->ask_draft + (int64_t)i * D;
    }
    return status;
}

/* ---- The batch ---- */

static void append(rt_scheduler *s, int32_t *n, int32_t token, int32_t seq, int logits)
{
    s->batch_token[*n] = token;
    s->batch_seq[*n] = seq;
    s->batch_logits[*n] = (uint8_t)logits;
    ++*n;
}

/* True if the token at position p is of the prompt and its log-probability is wanted. */
static int is_scored(const rt_job *job, int32_t p)
{
    return job->request.on_prompt_logprobs && p < job->n_prompt && p > job->n_scored;
}

/* Builds the batch: for each generating sequence its last token and drafts; then prompts up to the token budget. */
static int32_t build(rt_scheduler *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->desc.n_parallel; i++) s->slot[i].n_rows = 0;
    for (int32_t at = 0; at < s->n_order; at++) {
        const int32_t seq = s->order[at];
        rt_slot *slot = &s->slot[seq];
        if (!slot->generating) continue;
        slot->first_row = n;
        append(s, &n, slot->job->tokens[slot->job->n_tokens - 1], seq, 1);
        for (int32_t i = 0; i < slot->n_draft; i++) append(s, &n, slot->draft[i], seq, 1);
        slot->n_rows = n - slot->first_row;
    }
    rt_scheduler_share(s, s->n_step_rows - n);
    for (int32_t at = 0; at < s->n_order; at++) {
        const int32_t seq = s->order[at], begin = rt_memory_seq_length(memory(s), seq);
        rt_slot *slot = &s->slot[seq];
        const rt_job *job = slot->job;
        if (!slot->share) continue;
        slot->first_row = n;
        for (int32_t p = begin; p < begin + slot->share; p++)
            append(s, &n, job->tokens[p], seq, p + 1 == job->n_tokens || is_scored(job, p + 1));
        slot->n_rows = slot->share;
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
    if (job->state) rt_mask_take(s->mask, job->state, token);
    if (job->request.on_token && job->request.on_token(job->request.user, job->id, token)) return RT_FINISH_CANCELLED;
    if (is_end(s, job, token)) return RT_FINISH_STOP;
    if (job->n_tokens == job->n_prompt + job->n_max) return job->cut ? RT_FINISH_CONTEXT : RT_FINISH_LENGTH;
    return job->cancelled ? RT_FINISH_CANCELLED : RT_FINISH_NONE;
}

/* Says which of the logits after n tokens is NaN or infinite. */
static void note_damage(rt_job *job, const float *logits, int32_t n)
{
    int32_t bad = 0;
    while (isfinite(logits[bad])) bad++;
    (void)snprintf(job->error, sizeof job->error,
                   "the model computes no numbers: after %d tokens (%d of the prompt) the logit of token %d is %g; "
                   "are its weights damaged?",
                   (int)n, (int)job->n_prompt, (int)bad, (double)logits[bad]);
    job->result.error = job->error;
    job->result.status = GDN_INTERNAL;
}

static void tell_logprobs(rt_scheduler *s, const rt_job *job, const float *logits, int32_t token, rt_logprobs_fn to)
{
    rt_logprob logprob[1 + RT_TOP_LOGPROBS];
    rt_logprobs(s->sampler, logits, token, job->request.n_top, logprob);
    to(job->request.user, job->id, logprob, job->request.n_top);
}

/* Draws again among the tokens that are allowed, if the token is not. -2: none is. */
static int32_t draw_allowed(rt_scheduler *s, rt_job *job, const float *logits, int32_t token)
{
    int32_t n;
    const int early = job->n_tokens - job->n_prompt < job->request.n_min && is_end(s, job, token);
    if (token < 0 || (!early && (!job->state || rt_mask_allows(s->mask, job->state, token)))) return token;
    const int32_t *const allowed = rt_mask_tokens(s->mask, job->state, !early, &n);
    if (n) return rt_sample_among(s->sampler, &job->request.sampling, logits, job->tokens, job->n_tokens, allowed, n);
    (void)snprintf(job->error, sizeof job->error,
                   "after %d tokens (%d of the prompt) no token of the vocabulary continues the text",
                   (int)job->n_tokens, (int)job->n_prompt);
    job->result.error = job->error;
    job->result.status = GDN_UNSUPPORTED;
    return -2;
}

/* Draws the next token from the logits of a row. -1: a logit is NaN or infinite, and job->error says which. -2: see
 * draw_allowed(). Only this request fails. */
static int32_t sample(rt_scheduler *s, rt_job *job, int32_t row)
{
    const float *logits = rt_engine_logits(s->desc.engine, row);
    int32_t token = rt_sample(s->sampler, &job->request.sampling, logits, job->tokens, job->n_tokens);
    token = draw_allowed(s, job, logits, token);
    if (token == -1) note_damage(job, logits, job->n_tokens);
    else if (token >= 0 && job->request.on_logprobs) tell_logprobs(s, job, logits, token, job->request.on_logprobs);
    return token;
}

/* Tells the log-probabilities of the prompt's tokens behind the rows from position `begin` on. 0: a logit is NaN or
 * infinite, as in sample(). */
static int score(rt_scheduler *s, const rt_slot *slot, int32_t begin)
{
    static const rt_sampling greedy = { .top_p = 1, .repeat_penalty = 1 };
    rt_job *const job = slot->job;
    for (int32_t i = 0; i < slot->n_rows; i++) {
        const int32_t p = begin + i + 1;
        if (!is_scored(job, p)) continue;
        const float *const logits = rt_engine_logits(s->desc.engine, slot->first_row + i);
        if (rt_sample(s->sampler, &greedy, logits, job->tokens, 0) < 0) {
            note_damage(job, logits, p);
            return 0;
        }
        tell_logprobs(s, job, logits, job->tokens[p], job->request.on_prompt_logprobs);
        job->n_scored = p;
    }
    return 1;
}

/* Verifies a generating sequence: draws after each row while the drawn token is the draft, and removes the rejected
 * rows. */
static gdn_status verify(rt_scheduler *s, rt_slot *slot, int32_t *n_drawn)
{
    rt_job *job = slot->job;
    rt_scheduler_count_prefix(s, job);
    const int32_t seq = number_of(s, slot), before = job->n_tokens - 1; /* length before the step */
    int32_t accepted = 0, why = RT_FINISH_NONE;
    for (;; accepted++) {
        const int32_t token = sample(s, job, slot->first_row + accepted);
        if (token < 0) {
            why = RT_FINISH_FAILED;
            break;
        }
        ++*n_drawn;
        why = take(s, job, token);
        if (why || accepted == slot->n_draft || token != slot->draft[accepted]) break;
    }
    job->result.n_drafted += slot->n_rows - 1;
    job->result.n_accepted += accepted;
    job->result.n_rounds++;
    s->totals.drafted += slot->n_rows - 1;
    s->totals.accepted += accepted;
    s->totals.rounds++;
    gdn_status status = GDN_OK;
    if (accepted < slot->n_rows - 1 && (!why || rt_scheduler_keeps_end(job))) {
        s->totals.rollbacks++;
        status = rt_memory_seq_rm(memory(s), seq, before + 1 + accepted, -1);
    }
    return !status && why ? finish(s, slot, why) : status;
}

/* Handles the rows of a prompt, or of tokens decoded again: draws the next token after the last one. */
static gdn_status prompt(rt_scheduler *s, rt_slot *slot, double seconds)
{
    rt_job *job = slot->job;
    rt_scheduler_count_prefix(s, job);
    const int32_t done = rt_memory_seq_length(memory(s), number_of(s, slot));
    const int32_t begin = done - slot->n_rows, again = done < job->n_held ? done : job->n_held;
    job->result.prompt_seconds += seconds;
    s->totals.reread_tokens += again > begin ? again - begin : 0;
    if (job->request.on_prompt && job->n_tokens == job->n_prompt && done > job->n_held)
        job->request.on_prompt(job->request.user, job->id, done, job->n_prompt);
    if (job->cancelled) return finish(s, slot, RT_FINISH_CANCELLED);
    if (!score(s, slot, begin)) return finish(s, slot, RT_FINISH_FAILED);
    const gdn_status status = rt_scheduler_keep_boundary(s, job, number_of(s, slot));
    if (status) return status;
    if (done < job->n_tokens) return GDN_OK;
    const int32_t token = sample(s, job, slot->first_row + slot->n_rows - 1);
    const int32_t why = token < 0 ? RT_FINISH_FAILED : take(s, job, token);
    return why ? finish(s, slot, why) : GDN_OK;
}

gdn_status rt_scheduler_step(rt_scheduler *s, int *busy)
{
    *busy = 0;
    gdn_status status = rt_scheduler_admit(s);
    int32_t n_running = 0, n_generating = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        rt_slot *slot = &s->slot[seq];
        const rt_job *job = slot->job;
        slot->n_draft = slot->generating = 0;
        if (!job) continue;
        status = job->cancelled ? finish(s, slot, RT_FINISH_CANCELLED) : reconcile(s, slot);
        if (status || !slot->job) continue;
        slot->generating = job->n_tokens > job->n_prompt && job->n_tokens - rt_memory_seq_length(memory(s), seq) == 1;
        if (!slot->generating) status = rt_scheduler_begin_from_prefix(s, slot->job, seq);
    }
    if (!status) {
        rt_scheduler_sort(s);
        rt_scheduler_wait_for_prefixes(s);
        status = rt_scheduler_make_room(s);
    }
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        n_running += s->slot[seq].job != NULL;
        n_generating += s->slot[seq].generating;
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
        want = n_running > n_generating ? rt_speculation_pays(&s->speculation, n_generating)
                                        : rt_speculation_choose(&s->speculation, n_generating);
    /* Without drafting the draft head skips the rows. */
    const int follow =
        s->desc.spec == RT_SPEC_MTP && (s->desc.always || want || rt_speculation_pays(&s->speculation, n_running));
    if (want) status = draft(s);
    if (status) return status;
    const int32_t n_rows = build(s);
    const rt_batch batch = { n_rows, s->batch_token, s->batch_seq, s->batch_logits, !follow };
    status = rt_engine_decode(s->desc.engine, &batch);
    if (status) return status; /* nothing was drawn, and the time is not recorded */
    const double decoded = rt_now();
    int32_t n_drawn = 0, n_read = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        rt_slot *slot = &s->slot[seq];
        if (!slot->job || !slot->n_rows) continue;
        if (slot->generating) {
            slot->job->result.generation_seconds += decoded - begin;
            status = verify(s, slot, &n_drawn);
        } else {
            n_read += slot->n_rows;
            status = prompt(s, slot, decoded - begin);
        }
    }
    const double seconds = rt_now() - begin;
    if (!status && !n_read && n_generating)
        rt_speculation_record(&s->speculation, n_generating, want, n_drawn, seconds);
    s->totals.prompt_tokens += n_read;
    s->totals.decoded_tokens += n_drawn;
    s->totals.prompt_seconds += seconds * n_read / n_rows;
    s->totals.generation_seconds += seconds * (n_rows - n_read) / n_rows;
    return status;
}
