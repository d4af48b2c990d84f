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
    const int keep = slot->job->request.keep;
    slot->job->finish = why;
    slot->job->runs = 0;
    slot->job = NULL;
    return keep ? GDN_OK : rt_seq_rm(memory(s), number_of(s, slot), 0, -1);
}

/* Repairs a sequence after a failed step: its memory then holds a prefix of the job's tokens without the last. */
static gdn_status reconcile(rt_scheduler *s, const rt_slot *slot)
{
    const int32_t seq = number_of(s, slot), length = rt_seq_length(memory(s), seq), last = slot->job->n_tokens - 1;
    if (rt_seq_min_length(memory(s), seq) > length) return rt_seq_rm(memory(s), seq, 0, -1);
    if (length > last && rt_seq_rm(memory(s), seq, last, -1)) return rt_seq_rm(memory(s), seq, 0, -1);
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
    const int32_t first = rt_cells_for(m, seq, 1);
    int32_t room = left - 1 < s->desc.draft_max ? left - 1 : s->desc.draft_max;
    while (room > 0 && rt_cells_for(m, seq, room + 1) - first > s->spare) room--;
    if (room > 0) s->spare -= rt_cells_for(m, seq, room + 1) - first;
    return room;
}

/* The same for second candidates, in addition to n_draft drafts. */
static int32_t second_room(rt_scheduler *s, int32_t seq, int32_t n_draft)
{
    const rt_memory *m = memory(s);
    const int32_t first = rt_cells_for(m, seq, n_draft + 1);
    int32_t room = s->desc.draft_tree < n_draft ? s->desc.draft_tree : n_draft;
    while (room > 0 && rt_cells_for(m, seq, n_draft + 1 + room) - first > s->spare) room--;
    s->spare -= rt_cells_for(m, seq, n_draft + 1 + room) - first;
    return room;
}

/* Drafts for all generating sequences. trees: verify second candidates too; otherwise they only count for the
 * controller. */
static gdn_status draft(rt_scheduler *s, int trees)
{
    const int32_t D = s->desc.draft_max;
    int32_t n_ask = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        rt_slot *slot = &s->slot[seq];
        if (!slot->generating) continue;
        const rt_job *job = slot->job;
        const int32_t room = draft_room(s, seq);
        if (s->desc.spec == RT_SPEC_NGRAM)
            slot->n_draft = rt_draft_ngram(job->tokens, job->n_tokens, room, slot->draft);
        else if (room > 0) s->ask[n_ask++] = (rt_draft_request){ seq, job->tokens[job->n_tokens - 1], room };
    }
    if (!n_ask) return GDN_OK;
    int32_t *const second = s->desc.draft_tree ? s->ask_second : NULL;
    const gdn_status status =
        rt_draft_mtp_two(s->desc.engine, s->ask, n_ask, D, s->desc.p_min, s->ask_draft, second, s->ask_n);
    for (int32_t i = 0; !status && i < n_ask; i++) {
        rt_slot *slot = &s->slot[s->ask[i].seq];
        slot->n_draft = s->ask_n[i];
        memcpy(slot->draft, s->ask_draft + (int64_t)i * D, 4 * (size_t)slot->n_draft);
        if (second) memcpy(slot->second, second + (int64_t)i * D, 4 * (size_t)slot->n_draft);
        slot->n_second = trees ? second_room(s, s->ask[i].seq, slot->n_draft) : 0;
        for (int32_t j = 0; j < slot->n_second; j++) /* no second candidate exists for this draft */
            slot->n_second = slot->second[j] < 0 ? j : slot->n_second;
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
        rt_slot *slot = &s->slot[seq];
        slot->n_rows = 0;
        if (!slot->generating) continue;
        slot->first_row = n;
        append(s, &n, slot->job->tokens[slot->job->n_tokens - 1], seq, 1, GDN_NONE);
        for (int32_t i = 0; i < slot->n_draft; i++) append(s, &n, slot->draft[i], seq, 1, i);
        for (int32_t i = 0; i < slot->n_second; i++) append(s, &n, slot->second[i], seq, 1, i);
        slot->n_rows = n - slot->first_row;
    }
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) {
        rt_slot *slot = &s->slot[seq];
        const rt_job *job = slot->job;
        if (!job || slot->generating || slot->waits) continue;
        const int32_t begin = rt_seq_length(memory(s), seq), pause = job->request.pause;
        const int32_t end = begin < pause && pause < job->n_tokens ? pause : job->n_tokens;
        slot->first_row = n;
        for (int32_t p = begin; p < end && n < s->n_step_rows; p++)
            append(s, &n, job->tokens[p], seq, p + 1 == job->n_tokens, GDN_NONE);
        slot->n_rows = n - slot->first_row;
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
        job->result.status = GDN_INTERNAL;
    }
    return token;
}

/* Row of the sequence that follows row `at` and holds `token`: the draft, or its second candidate; -1: none. */
static int32_t row_behind(const rt_slot *slot, int32_t at, int32_t token)
{
    if (at < slot->n_draft && token == slot->draft[at]) return at + 1;
    return at < slot->n_second && token == slot->second[at] ? slot->n_draft + 1 + at : -1;
}

/* The draft after row `at` was rejected: count whether its second candidate is right. */
static void count_second(rt_scheduler *s, const rt_slot *slot, int32_t at, int32_t token, int32_t *n_second)
{
    if (at >= s->desc.draft_tree || at >= slot->n_draft) return;
    const int right = token == slot->second[at];
    s->totals.second_places++;
    s->totals.second_right += right;
    *n_second += right;
}

/* Verifies a generating sequence: draws after each row while the drawn token matches a row, and removes the rows that
 * were not matched. *n_second: how often the match was, or would have been, a second candidate. */
static gdn_status verify(rt_scheduler *s, rt_slot *slot, int32_t *n_drawn, int32_t *n_second)
{
    rt_job *job = slot->job;
    rt_count_prefix(s, job);
    const int32_t seq = number_of(s, slot), before = job->n_tokens - 1; /* length before the step */
    int32_t accepted = 0, why = RT_FINISH_NONE, at = 0;
    for (int32_t next; at >= 0;) {
        const int32_t token = sample(s, job, slot->first_row + at);
        if (token < 0) {
            why = RT_FINISH_FAILED;
            break;
        }
        ++*n_drawn;
        why = take(s, job, token);
        next = row_behind(slot, at, token);
        if (next != at + 1) count_second(s, slot, at, token, n_second);
        if (why || next < 0) break;
        accepted++;
        at = next;
    }
    const int aside = at > slot->n_draft;
    job->result.n_drafted += slot->n_rows - 1;
    job->result.n_accepted += accepted;
    job->result.n_rounds++;
    s->totals.drafted += slot->n_rows - 1;
    s->totals.accepted += accepted;
    s->totals.tree_drafted += slot->n_second;
    s->totals.tree_accepted += aside;
    s->totals.rounds++;
    gdn_status status = GDN_OK;
    if (accepted < slot->n_rows - 1 && (!why || job->request.keep)) {
        s->totals.rollbacks++;
        status = aside ? rt_seq_branch(memory(s), seq, at) : rt_seq_rm(memory(s), seq, before + 1 + accepted, -1);
    }
    return !status && why ? finish(s, slot, why) : status;
}

/* Handles the rows of a prompt, or of tokens decoded again: draws the next token after the last one. */
static gdn_status prompt(rt_scheduler *s, rt_slot *slot, double seconds)
{
    rt_job *job = slot->job;
    rt_count_prefix(s, job);
    const int32_t done = rt_seq_length(memory(s), number_of(s, slot));
    const int32_t begin = done - slot->n_rows, again = done < job->n_held ? done : job->n_held;
    job->result.prompt_seconds += seconds;
    s->totals.reread_tokens += again > begin ? again - begin : 0;
    if (job->request.on_prompt && job->n_tokens == job->n_prompt && done > job->n_held)
        job->request.on_prompt(job->request.user, job->id, done, job->n_prompt);
    if (job->cancelled) return finish(s, slot, RT_FINISH_CANCELLED);
    if (done < job->n_tokens) return GDN_OK;
    const int32_t token = sample(s, job, slot->first_row + slot->n_rows - 1);
    const int32_t why = token < 0 ? RT_FINISH_FAILED : take(s, job, token);
    return why ? finish(s, slot, why) : GDN_OK;
}

/* True if a sequence can reach a checkpoint of the prefix cache with its drafts. Tree steps write none. */
static int comes_to_prefix(const rt_scheduler *s)
{
    const int32_t interval = rt_engine_limits_of(s->desc.engine).prefix_interval;
    for (int32_t seq = 0; interval && seq < s->desc.n_parallel; seq++) {
        const int32_t length = rt_seq_length(memory(s), seq);
        if (s->slot[seq].generating && (length + 1 + s->desc.draft_max) / interval != length / interval) return 1;
    }
    return 0;
}

gdn_status rt_step_run(rt_scheduler *s, int *busy)
{
    *busy = 0;
    gdn_status status = rt_admit(s);
    int32_t n_running = 0, n_generating = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        rt_slot *slot = &s->slot[seq];
        const rt_job *job = slot->job;
        slot->n_draft = slot->n_second = slot->generating = 0;
        if (!job) continue;
        status = job->cancelled ? finish(s, slot, RT_FINISH_CANCELLED) : reconcile(s, slot);
        if (status || !slot->job) continue;
        slot->generating = job->n_tokens > job->n_prompt && job->n_tokens - rt_seq_length(memory(s), seq) == 1;
        if (!slot->generating) status = rt_begin_from_prefix(s, slot->job, seq);
    }
    if (!status) {
        rt_wait_for_prefixes(s);
        status = rt_make_room(s);
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
    /* Second candidates need drafts, no prompts, and no checkpoint in the step. */
    const int may = want && s->desc.draft_tree && n_running == n_generating;
    const int trees = may && (!s->desc.tree_pays || rt_speculation_choose_second(&s->speculation, n_generating)) &&
                      !comes_to_prefix(s);
    if (want) status = draft(s, trees);
    if (status) return status;
    const int32_t n_rows = build(s);
    int32_t n_branch = 0, n_second = 0;
    for (int32_t seq = 0; seq < s->desc.n_parallel; seq++) n_branch += s->slot[seq].n_second;
    const rt_batch batch = { n_rows,          s->batch_token, s->batch_seq,
                             s->batch_logits, !follow,        n_branch ? s->batch_parent : NULL };
    status = rt_decode(s->desc.engine, &batch);
    if (status) return status; /* nothing was drawn, and the time is not recorded */
    const double decoded = rt_now();
    int32_t n_drawn = 0, n_read = 0;
    for (int32_t seq = 0; !status && seq < s->desc.n_parallel; seq++) {
        rt_slot *slot = &s->slot[seq];
        if (!slot->job || !slot->n_rows) continue;
        if (slot->generating) {
            slot->job->result.generation_seconds += decoded - begin;
            status = verify(s, slot, &n_drawn, &n_second);
        } else {
            n_read += slot->n_rows;
            status = prompt(s, slot, decoded - begin);
        }
    }
    const double seconds = rt_now() - begin;
    if (!status && !n_read && n_generating)
        rt_speculation_record(&s->speculation, n_generating, want, n_drawn, seconds);
    if (!status && may)
        rt_speculation_record_second(&s->speculation, n_generating, n_branch > 0, n_drawn, n_second, seconds);
    s->totals.prompt_tokens += n_read;
    s->totals.decoded_tokens += n_drawn;
    s->totals.prompt_seconds += seconds * n_read / n_rows;
    s->totals.generation_seconds += seconds * (n_rows - n_read) / n_rows;
    return status;
}
