/* Decodes batches: splits them into micro-batches and runs these through the trunk. */
#include <string.h>

#include "runtime/decode/engine_internal.h"

/* ---- One micro-batch ---- */

static void tap(rt_engine *e, int32_t layer, const float *rows, int32_t n)
{
    if (e->tap) e->tap(e->tap_user, layer, rows, n, e->model->hp.n_embd, e->row_of_batch);
}

/* RT_STOPPED if the stop function returns nonzero. */
static gdn_status check_stop(rt_engine *e)
{
    return e->stop && e->stop(e->stop_user) ? rt_fail(RT_STOPPED, "decoding was stopped by the caller") : GDN_OK;
}

static gdn_status trunk(rt_engine *e, const rt_step *step)
{
    const rt_model *m = e->model;
    const rt_hparams *hp = &m->hp;
    const int32_t n = step->n_rows, E = hp->n_embd;
    const rt_rows rows = { n, step->rope, step->new_cell, step->cells, step->n_cells };
    rt_engine_embed(&m->tok_embd, e->row_token, n, E, e->x);
    tap(e, -1, e->x, n);
    gdn_status status = rt_layers_begin(e, step);
    if (status) return status;
    for (int32_t l = 0; l < hp->n_layer; l++) {
        const rt_layer *layer = &m->layer[l];
        status = check_stop(e);
        if (!status)
            status = layer->recurrent ? rt_layer_recurrent(e, layer, step) : rt_layer_attention(e, layer, &rows);
        if (!status) status = check_stop(e);
        if (status) return status;
        rt_layer_feed_forward(e, layer, n);
        tap(e, l, e->x, n);
    }
    rt_rms_norm(e->dense, e->x, E, m->output_norm, hp->rms_eps, n, E, e->hidden, E);
    tap(e, hp->n_layer, e->hidden, n);
    return GDN_OK;
}

/* Computes the requested logits. Rows are gathered, so that the head's weights are read once. */
static void head(rt_engine *e, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t E = hp->n_embd;
    int32_t first = -1, n_out = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t at = e->logits_row[e->row_of_batch[i]];
        if (at < 0) continue;
        first = n_out ? first : at; /* logits rows are numbered in the order of micro-batches */
        memcpy(e->xn + (int64_t)n_out++ * E, e->hidden + (int64_t)i * E, 4 * (size_t)E);
    }
    if (n_out)
        rt_matmul(e->dense, &e->model->output, 0, e->xn, E, n_out, e->logits + (int64_t)first * hp->n_vocab,
                  hp->n_vocab, e->scratch);
}

static gdn_status micro_batch(rt_engine *e, int32_t n_spans, int follow)
{
    rt_step *step;
    gdn_status status =
        rt_engine_reserve_workspace(e, n_spans, e->spans[n_spans - 1].first_row + e->spans[n_spans - 1].n_rows);
    if (!status) status = rt_memory_step_begin(e->memory, e->spans, n_spans, &step);
    if (status) return status;
    const int32_t n = step->n_rows;
    rt_memory_step_tokens(e->memory, step, e->row_token);
    /* the draft head's KV at a sequence's end is valid if this token comes next */
    for (int32_t i = 0; i < n_spans; i++) {
        const int32_t ahead = rt_memory_draft_ahead(e->memory, e->spans[i].seq);
        e->draft_ahead[i] = ahead >= 0 && ahead == e->row_token[e->spans[i].first_row] ? step->length[i] + 1 : 0;
    }
    status = trunk(e, step);
    if (status) {
        rt_memory_step_cancel(e->memory, step, 1);
        return status;
    }
    rt_memory_step_hidden(e->memory, step, e->hidden);
    rt_memory_step_commit(e->memory, step);
    for (int32_t i = 0; i < n_spans; i++)
        if (e->draft_ahead[i]) rt_memory_draft_set_length(e->memory, e->spans[i].seq, e->draft_ahead[i]);
    e->counters.steps++;
    e->counters.rows += (uint64_t)n;
    head(e, n);
    return e->draft ? rt_draft_follow(e, e->spans, n_spans, e->row_token, follow) : GDN_OK;
}

/* ---- A batch ---- */

static gdn_status check(const rt_engine *e, const rt_batch *batch)
{
    const rt_hparams *hp = &e->model->hp;
    if (batch->n_rows < 1)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_rows is %d; at least 1 is needed", (int)batch->n_rows);
    if (!batch->token || !batch->seq)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s is NULL", batch->token ? "seq" : "token");
    for (int32_t i = 0; i < batch->n_rows; i++) {
        if (batch->token[i] < 0 || batch->token[i] >= hp->n_vocab)
            return rt_fail(GDN_INVALID_ARGUMENT, "token[%d] is %d; 0 to %d are allowed", (int)i, (int)batch->token[i],
                           (int)hp->n_vocab - 1);
        if (batch->seq[i] < 0 || batch->seq[i] >= e->n_seqs)
            return rt_fail(GDN_INVALID_ARGUMENT, "seq[%d] is %d; 0 to %d are allowed", (int)i, (int)batch->seq[i],
                           (int)e->n_seqs - 1);
    }
    return GDN_OK;
}

/* Grows the buffers for n rows and n_logits rows of logits. On failure the old buffers stay. */
static gdn_status grow(rt_engine *e, int32_t n, int32_t n_logits)
{
    if (n > e->rows_capacity) {
        int32_t *rows = rt_calloc((uint64_t)n, 4, "a batch");
        int32_t *order = rt_calloc(2 * (uint64_t)n + (uint64_t)e->n_seqs + 1, 4, "a batch");
        if (!rows || !order) {
            rt_free(rows);
            rt_free(order);
            return GDN_OUT_OF_MEMORY;
        }
        rt_free(e->logits_row);
        rt_free(e->order);
        e->logits_row = rows;
        e->order = order;
        e->rows_capacity = n;
        e->n_rows = 0;
    }
    if (n_logits > e->logits_capacity) {
        float *logits = rt_calloc((uint64_t)n_logits * (uint64_t)e->model->hp.n_vocab, 4, "logits");
        if (!logits) return GDN_OUT_OF_MEMORY;
        rt_free(e->logits);
        e->logits = logits;
        e->logits_capacity = n_logits;
    }
    return GDN_OK;
}

/* Sorts the batch's rows by sequence, stable, into e->order. */
static void sort_rows(rt_engine *e, const rt_batch *batch)
{
    int32_t *start = e->order + batch->n_rows;
    memset(start, 0, 4 * (size_t)(e->n_seqs + 1));
    for (int32_t i = 0; i < batch->n_rows; i++) start[batch->seq[i] + 1]++;
    for (int32_t s = 0; s < e->n_seqs; s++) start[s + 1] += start[s];
    for (int32_t i = 0; i < batch->n_rows; i++) e->order[start[batch->seq[i]]++] = i;
}

static int is_last(const rt_engine *e, const rt_batch *batch, int32_t at)
{
    return at + 1 == batch->n_rows || batch->seq[e->order[at + 1]] != batch->seq[e->order[at]];
}

/* Checks everything that could make a micro-batch fail, before the first one runs. So a batch is decoded completely or
 * not at all. */
static gdn_status check_room(const rt_engine *e, const rt_batch *batch)
{
    int64_t cells = 0;
    for (int32_t at = 0, n = 1; at < batch->n_rows; at++, n++) {
        if (!is_last(e, batch, at)) continue;
        const int32_t seq = batch->seq[e->order[at]], length = rt_memory_seq_length(e->memory, seq);
        if (rt_memory_seq_min_length(e->memory, seq) > length)
            return rt_fail(GDN_INVALID_ARGUMENT,
                           "the state of sequence %d was lost in a step that failed; remove its tokens", (int)seq);
        if (n > e->n_positions - length)
            return rt_fail(GDN_INVALID_ARGUMENT,
                           "sequence %d would have %lld tokens; %d are allowed (n_ctx, and drafts)", (int)seq,
                           (long long)length + n, (int)e->n_positions);
        const int32_t reserved = rt_memory_draft_reserved(e->memory, seq);
        cells += n > reserved ? n - reserved : 0;
        n = 0;
    }
    if (cells > rt_memory_free_cells(e->memory))
        return rt_fail(GDN_OUT_OF_MEMORY, "the batch needs %lld KV cells, and %d are free", (long long)cells,
                       (int)rt_memory_free_cells(e->memory));
    return GDN_OK;
}

/* Number of rows from `at` on of the same sequence, at most `most`. */
static int32_t rows_of_sequence(const rt_engine *e, const rt_batch *batch, int32_t at, int32_t most)
{
    int32_t n = 1;
    while (n < most && !is_last(e, batch, at + n - 1)) n++;
    return n;
}

/* Builds the next micro-batch from row `at` of the sorted batch: e->spans, row_token, row_of_batch. With a log only a
 * sequence's last step can be rolled back, so up to n_rollback + 1 rows of a sequence, which may be drafts, are not
 * split. */
static int32_t next_spans(rt_engine *e, const rt_batch *batch, int32_t at)
{
    int32_t n_spans = 0;
    for (int32_t n = 0; n < e->n_batch && at < batch->n_rows; n++, at++) {
        const int32_t row = e->order[at], seq = batch->seq[row];
        if (!n_spans || e->spans[n_spans - 1].seq != seq) {
            if (n_spans && e->n_log) {
                const int32_t rows = rows_of_sequence(e, batch, at, e->n_rollback + 2);
                if (rows <= e->n_rollback + 1 && n + rows > e->n_batch) break;
            }
            e->spans[n_spans++] = (rt_token_run){ seq, n, 0 };
        }
        e->spans[n_spans - 1].n_rows++;
        e->row_token[n] = batch->token[row];
        e->row_of_batch[n] = row;
    }
    return n_spans;
}

gdn_status rt_engine_decode(rt_engine *e, const rt_batch *batch)
{
    gdn_status status = check(e, batch);
    if (!status) status = grow(e, batch->n_rows > e->n_seqs ? batch->n_rows : e->n_seqs + 1, 0);
    if (status) return status;
    sort_rows(e, batch);
    int32_t n_logits = 0;
    for (int32_t at = 0; at < batch->n_rows; at++) {
        const int32_t row = e->order[at];
        const int want = batch->logits ? batch->logits[row] : is_last(e, batch, at);
        e->logits_row[row] = want ? n_logits++ : -1;
    }
    e->n_rows = 0;
    status = grow(e, 0, n_logits);
    if (!status) status = check_room(e, batch);
    for (int32_t at = 0; !status && at < batch->n_rows;) {
        int32_t n_spans = next_spans(e, batch, at);
        n_spans = rt_memory_step_fit(e->memory, e->spans, n_spans);
        const int32_t n = e->spans[n_spans - 1].first_row + e->spans[n_spans - 1].n_rows;
        status = micro_batch(e, n_spans, !batch->no_follow);
        at += n;
    }
    if (status) return status;
    e->n_rows = batch->n_rows;
    e->n_logits = n_logits;
    return GDN_OK;
}

const float *rt_engine_logits(const rt_engine *e, int32_t row)
{
    if (row < 0 || row >= e->n_rows || e->logits_row[row] < 0) return NULL;
    return e->logits + (int64_t)e->logits_row[row] * e->model->hp.n_vocab;
}
