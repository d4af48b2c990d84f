/* The MTP block as a draft head. At position p it takes the token there and the trunk's output row of position p - 1,
 * and predicts the next token. Its KV uses the trunk's cells, as one more attention layer. */
#include <string.h>

#include "runtime/decode/engine_internal.h"

static const rt_layer *block(const rt_engine *e) { return &e->model->layer[e->model->hp.n_layer]; }

/* Runs n rows through the block: `token` and e->row_hidden (NULL: zeros), with e->row_rope, row_cell, row_cells and
 * row_cells_n. The normed output rows go to e->draft_hidden. */
static gdn_status block_rows(rt_engine *e, const int32_t *token, int32_t n)
{
    const rt_model *m = e->model;
    const rt_hparams *hp = &m->hp;
    const rt_layer *b = block(e);
    const int32_t E = hp->n_embd;
    for (int32_t i = 0; i < n; i++) { /* row_hidden may point into draft_hidden */
        if (e->row_hidden[i]) memmove(e->proj + (int64_t)i * E, e->row_hidden[i], 4 * (size_t)E);
        else memset(e->proj + (int64_t)i * E, 0, 4 * (size_t)E);
    }
    rt_engine_embed(&m->mtp_embd, token, n, E, e->x);
    rt_rms_norm(e->dense, e->x, E, b->enorm, hp->rms_eps, n, E, e->xn, 2 * (int64_t)E);
    rt_rms_norm(e->dense, e->proj, E, b->hnorm, hp->rms_eps, n, E, e->xn + E, 2 * (int64_t)E);
    rt_matmul(e->dense, &b->eh_proj, 0, e->xn, 2 * (int64_t)E, n, e->x, E, e->scratch);
    const rt_rows rows = { n, e->row_rope, e->row_cell, e->row_cells, e->row_cells_n };
    const gdn_status status = rt_layer_attention(e, b, &rows);
    if (status) return status;
    rt_layer_feed_forward(e, b, n);
    rt_rms_norm(e->dense, e->x, E, b->head_norm, hp->rms_eps, n, E, e->draft_hidden, E);
    e->counters.draft_rows += (uint64_t)n;
    e->counters.draft_passes++;
    return GDN_OK;
}

/* The token at a position whose hidden row is kept; -1: not kept, or a loaded token outside the vocabulary. */
static int32_t kept_token(const rt_engine *e, int32_t seq, int32_t position)
{
    int32_t token;
    if (!rt_memory_hidden_row(e->memory, seq, position, &token) || token < 0 || token >= e->model->hp.n_vocab)
        return -1;
    return token;
}

static void place_row(rt_engine *e, int32_t row, int32_t seq, int32_t position, const float *hidden)
{
    const int32_t *cells = rt_memory_seq_cells(e->memory, seq), from = rt_memory_draft_from(e->memory, seq);
    e->row_rope[row] = position;
    e->row_cell[row] = cells[position];
    e->row_cells[row] = cells + from; /* the block has keys from here on */
    e->row_cells_n[row] = position + 1 - from;
    e->row_hidden[row] = hidden;
}

/* First position from which the block can process the sequence up to `known`: its current length, or later if hidden
 * rows it needs are gone. Positions below `known` need rows that the memory keeps; later ones are available. known + 1:
 * not even the row before `known` is kept, as after loading a save of an engine without drafts. At most n_hidden rows,
 * with `known`, so that they fit in a micro-batch. */
static int32_t readable_from(const rt_engine *e, int32_t seq, int32_t known)
{
    const int32_t read = rt_memory_draft_length(e->memory, seq);
    int32_t p = known + 1;
    while (p > read && known + 1 - p < e->n_hidden && (p - 1 == known || kept_token(e, seq, p - 1) >= 0) &&
           (p == 1 || rt_memory_hidden_row(e->memory, seq, p - 2, NULL)))
        p--;
    return p;
}

/* Processes the collected rows; then spans [from, to) have the draft length in `read` (-1: unchanged). */
static gdn_status flush(rt_engine *e, const rt_token_run *spans, int32_t from, int32_t to, const int32_t *read,
                        int32_t n)
{
    const gdn_status status = n ? block_rows(e, e->draft_rows_token, n) : GDN_OK;
    for (int32_t i = from; !status && i < to; i++)
        if (read[i] >= 0) rt_memory_draft_set_length(e->memory, spans[i].seq, read[i]);
    return status;
}

/* Processes the rows of all spans that the memory will not keep, in passes of n_batch rows. */
static gdn_status read_rows(rt_engine *e, const rt_token_run *spans, int32_t n_spans, const int32_t *token)
{
    const int32_t E = e->model->hp.n_embd;
    int32_t *read = e->draft_active, n = 0, first = 0;
    gdn_status status = GDN_OK;
    for (int32_t i = 0; !status && i < n_spans; i++) {
        const rt_token_run *s = &spans[i];
        const int32_t length = rt_memory_seq_length(e->memory, s->seq), before = length - s->n_rows;
        int32_t p = rt_memory_draft_length(e->memory, s->seq);
        read[i] = -1;
        if (length - p >= e->n_hidden) {
            const int32_t from = readable_from(e, s->seq, before);
            if (from > p) rt_memory_draft_restart(e->memory, s->seq, from);
            p = from;
        }
        if (length - p < e->n_hidden) /* the next draft round catches up, with accepted tokens only */
            continue;
        for (; !status && p < length; p++) {
            const float *hidden = NULL;
            if (p > before) hidden = e->hidden + (int64_t)(s->first_row + p - 1 - before) * E;
            else if (p > 0) hidden = rt_memory_hidden_row(e->memory, s->seq, p - 1, NULL);
            e->draft_rows_token[n] = p >= before ? token[s->first_row + p - before] : kept_token(e, s->seq, p);
            place_row(e, n++, s->seq, p, hidden);
            read[i] = p + 1;
            if (n == e->n_batch) {
                status = flush(e, spans, first, i + 1, read, n);
                first = i;
                n = 0;
            }
        }
    }
    return status ? status : flush(e, spans, first, n_spans, read, n);
}

gdn_status rt_draft_follow(rt_engine *e, const rt_token_run *spans, int32_t n_spans, const int32_t *token, int follow)
{
    const int32_t E = e->model->hp.n_embd;
    const gdn_status status = follow ? read_rows(e, spans, n_spans, token) : GDN_OK;
    for (int32_t i = 0; !status && i < n_spans; i++) {
        const int32_t length = rt_memory_seq_length(e->memory, spans[i].seq);
        const int32_t keep = spans[i].n_rows < e->n_hidden ? spans[i].n_rows : e->n_hidden;
        for (int32_t j = spans[i].n_rows - keep; j < spans[i].n_rows; j++)
            rt_memory_hidden_put(e->memory, spans[i].seq, length - spans[i].n_rows + j, token[spans[i].first_row + j],
                                 e->hidden + (int64_t)(spans[i].first_row + j) * E);
    }
    return status;
}

/* True if the sequence can get drafts: the needed hidden rows are kept and positions are in range. If too many rows are
 * gone, the block restarts with those that are kept. */
static int can_catch_up(rt_engine *e, int32_t seq, int32_t n_max)
{
    const int32_t length = rt_memory_seq_length(e->memory, seq), from = readable_from(e, seq, length);
    if (from > length || n_max >= e->n_positions - length) return 0;
    if (from > rt_memory_draft_length(e->memory, seq)) rt_memory_draft_restart(e->memory, seq, from);
    return 1;
}

gdn_status rt_draft_catch_up(rt_engine *e, int32_t seq)
{
    const int32_t length = rt_memory_seq_length(e->memory, seq);
    int32_t p = rt_memory_draft_length(e->memory, seq), n = 0;
    if (p >= length || readable_from(e, seq, length) > p) return GDN_OK;
    for (; p < length; p++, n++) {
        const float *hidden = p > 0 ? rt_memory_hidden_row(e->memory, seq, p - 1, NULL) : NULL;
        e->draft_rows_token[n] = kept_token(e, seq, p);
        place_row(e, n, seq, p, hidden);
    }
    const gdn_status status = block_rows(e, e->draft_rows_token, n);
    if (!status) rt_memory_draft_set_length(e->memory, seq, length);
    return status;
}

/* The draft head's argmax of a row of e->draft_logits (ties to the lower token). Returns whether it has at least
 * probability p_min. */
static int pick(rt_engine *e, int32_t row, float p_min, int32_t *token)
{
    const int32_t V = e->draft_head.n_rows;
    float *x = e->draft_logits + (int64_t)row * V;
    rt_top_k(x, V, 1, token);
    if (p_min <= 0) return 1;
    rt_softmax(e->dense, x, V);
    return x[*token] >= p_min;
}

static gdn_status check_requests(const rt_engine *e, const rt_draft_request *request, int32_t n, int32_t n_max)
{
    if (!e->draft)
        return rt_fail(GDN_UNSUPPORTED, "%s",
                       e->model->hp.n_mtp ? "the engine was created without draft" : "the model has no MTP block");
    if (n < 0 || n > e->n_seqs)
        return rt_fail(GDN_INVALID_ARGUMENT, "n is %d; 0 to %d requests are allowed", (int)n, (int)e->n_seqs);
    for (int32_t i = 0; i < n; i++) {
        if (request[i].seq < 0 || request[i].seq >= e->n_seqs)
            return rt_fail(GDN_INVALID_ARGUMENT, "request[%d].seq is %d; 0 to %d are allowed", (int)i,
                           (int)request[i].seq, (int)e->n_seqs - 1);
        if (request[i].token < 0 || request[i].token >= e->model->hp.n_vocab)
            return rt_fail(GDN_INVALID_ARGUMENT, "request[%d].token is %d; 0 to %d are allowed", (int)i,
                           (int)request[i].token, (int)e->model->hp.n_vocab - 1);
        if (request[i].n_max < 0 || request[i].n_max > n_max || request[i].n_max > e->n_rollback)
            return rt_fail(GDN_INVALID_ARGUMENT, "request[%d].n_max is %d; 0 to %d are allowed", (int)i,
                           (int)request[i].n_max, (int)(n_max < e->n_rollback ? n_max : e->n_rollback));
        for (int32_t j = 0; j < i; j++)
            if (request[j].seq == request[i].seq)
                return rt_fail(GDN_INVALID_ARGUMENT, "request[%d].seq is %d, which request[%d] has too", (int)i,
                               (int)request[i].seq, (int)j);
    }
    return GDN_OK;
}

/* First iteration, for sequences from *from on, as many as fit in a micro-batch: all rows that the block has not seen,
 * then the drawn token. Stores each sequence's last normed output row in e->draft_feed. */
static gdn_status first_round(rt_engine *e, const rt_draft_request *request, const int32_t *active, int32_t n_active,
                              int32_t *from)
{
    const int32_t E = e->model->hp.n_embd, begin = *from;
    int32_t n = 0, *tokens = e->draft_rows_token;
    for (; *from < n_active; ++*from) {
        const rt_draft_request *r = &request[active[*from]];
        const int32_t length = rt_memory_seq_length(e->memory, r->seq);
        int32_t p = rt_memory_draft_length(e->memory, r->seq);
        if (n && n + length - p + 1 > e->n_batch) break;
        for (; p <= length; p++, n++) {
            const float *hidden = p > 0 ? rt_memory_hidden_row(e->memory, r->seq, p - 1, NULL) : NULL;
            tokens[n] = p < length ? kept_token(e, r->seq, p) : r->token;
            place_row(e, n, r->seq, p, hidden);
        }
        e->draft_last[*from] = n - 1;
    }
    const gdn_status status = block_rows(e, tokens, n);
    if (status) return status;
    for (int32_t i = begin; i < *from; i++) {
        const rt_draft_request *r = &request[active[i]];
        rt_memory_draft_set_length(e->memory, r->seq, rt_memory_seq_length(e->memory, r->seq));
        rt_memory_draft_set_ahead(e->memory, r->seq, r->token);
        memcpy(e->draft_feed + (int64_t)i * E, e->draft_hidden + (int64_t)e->draft_last[i] * E, 4 * (size_t)E);
    }
    return GDN_OK;
}

gdn_status rt_draft_mtp(rt_engine *e, const rt_draft_request *request, int32_t n, int32_t n_max, float p_min,
                        int32_t *draft, int32_t *n_draft)
{
    const int32_t E = e->model->hp.n_embd;
    gdn_status status = check_requests(e, request, n, n_max);
    if (status) return status;
    int32_t *active = e->draft_active, n_active = 0;
    for (int32_t i = 0; i < n; i++) {
        n_draft[i] = 0;
        /* no cells, or no hidden rows: no drafts, which is not an error */
        if (request[i].n_max && can_catch_up(e, request[i].seq, request[i].n_max) &&
            !rt_memory_draft_reserve(e->memory, request[i].seq, request[i].n_max, NULL))
            active[n_active++] = i;
    }
    for (int32_t from = 0; !status && from < n_active;) status = first_round(e, request, active, n_active, &from);
    for (int32_t round = 0; !status && n_active; round++) {
        rt_matmul(e->dense, &e->draft_head, 0, e->draft_feed, E, n_active, e->draft_logits, e->draft_head.n_rows,
                  e->scratch);
        int32_t kept = 0;
        for (int32_t a = 0; a < n_active; a++) {
            const int32_t i = active[a];
            int32_t token;
            if (!pick(e, a, p_min, &token)) continue;
            draft[(int64_t)i * n_max + n_draft[i]++] = token;
            if (n_draft[i] == request[i].n_max) continue;
            active[kept] = i;
            e->draft_rows_token[kept] = token;
            memmove(e->draft_feed + (int64_t)kept * E, e->draft_feed + (int64_t)a * E, 4 * (size_t)E);
            place_row(e, kept, request[i].seq, rt_memory_seq_length(e->memory, request[i].seq) + round + 1,
                      e->draft_feed + (int64_t)kept * E);
            kept++;
        }
        n_active = kept;
        if (!n_active) break;
        status = block_rows(e, e->draft_rows_token, n_active);
        if (!status) memcpy(e->draft_feed, e->draft_hidden, 4 * (size_t)n_active * (size_t)E);
    }
    return status;
}
