/* The forward pass of the test world: the maps of a step through libgdn's kernels. See memory_world.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/memory_values.h"
#include "tests/runtime/memory_world.h"

enum { MAX_ROWS = W_CELLS + 4, MAX_SPANS = W_SEQS + 1, MAX_SNAPSHOTS = 8 };

/* A step's maps, copied so that a control can break them, with one more sequence for padding. */
typedef struct maps {
    int32_t n_seqs, n_rows, K;
    int32_t seq_start[MAX_SPANS + 1], position[MAX_SPANS], state_src[MAX_SPANS], conv_src[MAX_SPANS],
        conv_dst[MAX_SPANS];
    int32_t state_dst[MAX_SPANS * MAX_SNAPSHOTS];
    int32_t new_cell[MAX_ROWS], token[MAX_ROWS], rope[MAX_ROWS];
} maps;

/* What the kernels demand of maps: nothing is written twice, nor by one sequence and read by another. */
static void check_maps(world *w, const rt_step *step)
{
    for (int32_t a = 0; a < step->n_spans; a++)
        for (int32_t b = 0; b < step->n_spans; b++) {
            WORLD_REQUIRE(w, a == b || step->conv_dst[a] != step->conv_dst[b]);
            WORLD_REQUIRE(w, a == b || step->conv_dst[a] != step->conv_src[b]);
            for (int32_t r = 0; r < w->m->K; r++) {
                const int32_t to = step->state_dst[a * w->m->K + r];
                WORLD_REQUIRE(w, (to == GDN_NONE) == (r >= step->span[a].n_rows));
                WORLD_REQUIRE(w, to == GDN_NONE || a == b || to != step->state_src[b]);
                for (int32_t q = 0; q < w->m->K; q++)
                    WORLD_REQUIRE(w, to == GDN_NONE || (a == b && q == r) || to != step->state_dst[b * w->m->K + q]);
            }
        }
    for (int32_t i = 0; i < step->n_rows; i++)
        WORLD_REQUIRE(w, w->m->cells.count[step->new_cell[i]] == 1 &&
                             step->cells[i][step->n_cells[i] - 1] == step->new_cell[i]);
}

static int32_t other_of(int32_t now, int32_t n) { return now == GDN_NONE ? 0 : (now + 1) % n; }

static void break_maps(world *w, maps *p)
{
    const int32_t K = p->K, T = p->seq_start[1] - p->seq_start[0];
    int32_t one;
    w->broken = 1;
    switch (w->break_what) {
    case BREAK_SRC: p->state_src[0] = other_of(p->state_src[0], w->m->slots.n); break;
    case BREAK_DST:
        w->broken = K > 1;
        one = p->state_dst[0];
        p->state_dst[0] = T > 1 && K > 1 ? p->state_dst[1] : other_of(one, w->m->slots.n);
        if (T > 1 && K > 1) p->state_dst[1] = one;
        break;
    case BREAK_NO_DST:
        w->broken = K > 1 && T > 1;
        if (w->broken) p->state_dst[1] = GDN_NONE;
        break;
    case BREAK_SEQ:
        w->broken = p->n_seqs > 1;
        for (int32_t s = 0; s < p->n_seqs; s++) p->state_src[s] = p->state_src[0];
        break;
    case BREAK_CONV_SRC: p->conv_src[0] = p->conv_src[0] == GDN_NONE ? 0 : GDN_NONE; break;
    case BREAK_CONV_DST: p->conv_dst[0] = other_of(p->conv_dst[0], w->m->rows.n); break;
    case BREAK_CONV_POS: p->position[0]++; break;
    case BREAK_CELL: p->new_cell[0] = other_of(p->new_cell[0], w->m->cells.n); break;
    default: w->broken = w->break_what == BREAK_CELLS || w->break_what == BREAK_PADDING; break;
    }
}

enum { QK = W_STATE, V = W_HEADS * W_STATE };

/* What the kernels computed on the way: a wrong source shows here even where no snapshot of it is left. */
static void check_outputs(world *w, const rt_step *step, int32_t layer, const float *out, const float *y)
{
    int wrong = 0;
    for (int32_t s = 0; s < step->n_spans; s++) {
        const truth *t = &w->t[step->span[s].seq];
        for (int32_t r = 0, row = step->seq_start[s]; r < step->span[s].n_rows; r++, row++) {
            const int32_t p = t->n + r;
            float state[W_STATE];
            for (int32_t i = 0; i < V; i++) {
                if (i % W_STATE == 0) value_state(t->token, p + 1, layer, i / W_STATE, state);
                wrong += !(out[row * V + i] == 0.25f * state[p % W_STATE] * value_scale(i % W_STATE));
            }
            for (int32_t c = 0; c < W_CHANNELS; c++) {
                float sum = 0;
                for (int32_t j = 0; j < W_KERNEL; j++)
                    sum += p + j >= W_KERNEL - 1
                               ? (float)(1 << j) * value_conv(t->token[p - (W_KERNEL - 1) + j], c, layer)
                               : 0.0f;
                wrong += !(y[row * W_CHANNELS + c] == sum);
            }
        }
    }
    WORLD_REQUIRE(w, wrong == 0);
}

/* Both recurrent kernels, over all layers. */
static void run_recurrent(world *w, const rt_step *step, const maps *p)
{
    static float k[MAX_ROWS * QK], v[MAX_ROWS * V], g[MAX_ROWS * W_HEADS], beta[MAX_ROWS * W_HEADS], out[MAX_ROWS * V];
    static float x[MAX_ROWS * W_CHANNELS], y[MAX_ROWS * W_CHANNELS], taps[W_CHANNELS * W_KERNEL];
    static _Alignas(64) unsigned char workspace[1 << 20];

    for (int32_t layer = 0; layer < w->model.n_recurrent; layer++) {
        const rt_pool pool = rt_memory_pool(w->m, layer);
        for (int32_t s = 0; s < p->n_seqs; s++)
            for (int32_t row = p->seq_start[s]; row < p->seq_start[s + 1]; row++) {
                for (int32_t i = 0; i < QK; i++)
                    k[row * QK + i] = (float)(i == (p->position[s] + row - p->seq_start[s]) % W_STATE);
                for (int32_t h = 0; h < W_HEADS; h++) {
                    g[row * W_HEADS + h] = 0.0f;
                    beta[row * W_HEADS + h] = 0.5f;
                    for (int32_t j = 0; j < W_STATE; j++)
                        v[row * V + h * W_STATE + j] = value_v(p->token[row], layer, h) * value_scale(j);
                }
                for (int32_t c = 0; c < W_CHANNELS; c++) x[row * W_CHANNELS + c] = value_conv(p->token[row], c, layer);
            }
        for (int32_t i = 0; i < W_CHANNELS * W_KERNEL; i++) taps[i] = (float)(1 << i % W_KERNEL);

        gdn_gated_delta_net_args a =
            FIELDS(.size = sizeof a, .n_seqs = p->n_seqs, .n_tokens = p->n_rows, .n_heads_k = 1, .n_heads_v = W_HEADS,
                   .head_dim_k = W_STATE, .head_dim_v = W_STATE, .n_snapshots = p->K, .scale = 0.25f, .q.data = k,
                   .k.data = k, .v.data = v, .g.data = g, .beta.data = beta, .out.data = out,
                   .state = { .data = pool.state.data, .n_rows = pool.n_slots, .n_slots = 1 },
                   .seq_start.data = (void *)p->seq_start, .state_src.data = (void *)p->state_src,
                   .state_dst.data = (void *)p->state_dst,
                   .workspace = { .data = workspace, .bytes = sizeof workspace });
        WORLD_REQUIRE(w, gdn_gated_delta_net(w->desc.device, &a, NULL) == GDN_OK);

        gdn_ssm_conv_args c =
            FIELDS(.size = sizeof c, .n_seqs = p->n_seqs, .n_tokens = p->n_rows, .n_channels = W_CHANNELS,
                   .kernel_width = W_KERNEL, .x.data = x, .weight.data = taps, .out.data = y,
                   .history = { .data = pool.conv.data, .n_rows = pool.n_conv_rows, .n_slots = pool.n_columns },
                   .seq_start.data = (void *)p->seq_start, .position.data = (void *)p->position,
                   .history_src.data = (void *)p->conv_src, .history_dst.data = (void *)p->conv_dst,
                   .workspace = a.workspace);
        WORLD_REQUIRE(w, gdn_ssm_conv(w->desc.device, &c, NULL) == GDN_OK);
        check_outputs(w, step, layer, out, y);
    }
}

static void write_kv(world *w, int32_t layer, int32_t n, const int32_t *cells, const int32_t *token,
                     const int32_t *rope)
{
    static float rows[MAX_ROWS * W_KV];
    for (int is_v = 0; is_v < 2; is_v++) {
        for (int32_t i = 0; i < n * W_KV; i++)
            rows[i] = value_kv(token[i / W_KV], rope[i / W_KV], layer, is_v, i % W_KV);
        gdn_set_rows_args a = FIELDS(.size = sizeof a, .n_columns = W_KV, .n_rows = n, .n_rows_dst = w->m->n_cells,
                                     .n_batch = { 1, 1 }, .index_batch = { 1, 1 });
        a.src.data = rows;
        a.dst.data = is_v ? rt_memory_v(w->m, layer) : rt_memory_k(w->m, layer);
        a.dst.dtype = w->desc.kv_type;
        a.index.data = (void *)cells;
        a.index.dtype = GDN_I32;
        WORLD_REQUIRE(w, gdn_set_rows(w->desc.host, &a, NULL) == GDN_OK);
    }
}

/* Attention reads every position of its own sequence, through the lists of the step. */
static void check_attention(world *w, const rt_step *step)
{
    for (int32_t i = 0; i < step->n_spans; i++) {
        const truth *t = &w->t[step->span[i].seq];
        for (int32_t row = step->span[i].first_row, r = 0; r < step->span[i].n_rows; r++, row++) {
            const int32_t *cells = step->cells[row];
            if (w->broken && w->break_what == BREAK_CELLS) cells = step->cells[row == 0 ? step->n_rows - 1 : 0];
            WORLD_REQUIRE(w, step->n_cells[row] == t->n + r + 1);
            int wrong = 0;
            for (int32_t p = 0; p < step->n_cells[row]; p++)
                wrong += value_kv_read(rt_memory_k(w->m, 1) + (uint64_t)cells[p] * w->m->kv_bytes, w->desc.kv_type,
                                       0) != value_kv(t->token[p], t->rope[p], 1, 0, 0);
            WORLD_REQUIRE(w, wrong == 0);
        }
    }
}

static void forward(world *w, const rt_step *step, const int32_t *token)
{
    static maps p;
    memset(&p, 0, sizeof p);
    p.K = w->m->K;
    p.n_seqs = step->n_spans;
    p.n_rows = step->n_rows;
    for (int32_t s = 0; s < step->n_spans; s++) {
        p.seq_start[s + 1] = step->seq_start[s + 1];
        p.position[s] = step->length[s];
        p.state_src[s] = step->state_src[s];
        p.conv_src[s] = step->conv_src[s];
        p.conv_dst[s] = step->conv_dst[s];
        memcpy(&p.state_dst[s * p.K], &step->state_dst[s * p.K], 4 * (size_t)p.K);
    }
    for (int32_t row = 0; row < step->n_rows; row++) {
        p.token[row] = token[row];
        p.rope[row] = step->rope[row];
        p.new_cell[row] = step->new_cell[row];
    }
    w->broken = 0;
    if (w->n_steps++ == w->break_at && w->break_what) break_maps(w, &p);
    if (w->padding) { /* one more sequence, skipped; its maps name what belongs to the first */
        const int on = w->broken && w->break_what == BREAK_PADDING;
        p.seq_start[p.n_seqs + 1] = p.n_rows + w->padding;
        p.position[p.n_seqs] = p.position[0];
        p.state_src[p.n_seqs] = on ? GDN_NONE : GDN_SKIP;
        p.conv_src[p.n_seqs] = on ? GDN_NONE : GDN_SKIP;
        p.conv_dst[p.n_seqs] = p.conv_dst[0];
        memcpy(&p.state_dst[p.n_seqs * p.K], &p.state_dst[0], 4 * (size_t)p.K);
        p.n_seqs++;
        p.n_rows += w->padding;
    }
    run_recurrent(w, step, &p);
    for (int32_t layer = 0; layer < w->model.n_attention; layer++)
        write_kv(w, layer, step->n_rows, p.new_cell, p.token, p.rope);
}

static void append(truth *t, const rt_step *step, int32_t i, const int32_t *token)
{
    for (int32_t r = 0; r < step->span[i].n_rows; r++) {
        t->token[t->n + r] = token[step->span[i].first_row + r];
        t->rope[t->n + r] = t->next + r;
        t->put[t->n + r] = 0;
        t->gone[t->n + r + 1] = 0;
    }
}

static void commit_truth(world *w, const rt_token_run *span, int give_hidden)
{
    truth *t = &w->t[span->seq];
    t->n += span->n_rows;
    t->next += span->n_rows;
    t->reserved = 0;
    if (t->low < t->n - w->desc.n_rollback) t->low = t->n - w->desc.n_rollback;
    if (t->low < 1) t->low = 1;
    for (int32_t p = t->n - span->n_rows; p < t->n && give_hidden; p++) {
        rt_hidden_put(w->m, span->seq, p, t->token[p], value_hidden(t->token[p], p));
        t->put[p] = 1;
    }
}

/* What may have been written is forgotten, unless it was shared: the memory says what is left, within bounds. */
static void cancel_truth(world *w, const rt_token_run *span)
{
    truth *t = &w->t[span->seq];
    const int32_t safe = t->n + span->n_rows - w->desc.n_rollback; /* in place, lengths from here on are untouched */
    for (int32_t p = t->low; p <= t->n && t->n; p++) {
        const int readable = rt_seq_readable(w->m, &w->m->seq[span->seq], p);
        WORLD_REQUIRE(w, readable ? truth_readable(t, p) : p < safe || !truth_readable(t, p));
        t->gone[p] = !readable;
    }
}

static gdn_status run_step(world *w, int32_t n, const rt_token_run *spans, int commit)
{
    static int32_t token[MAX_ROWS];
    rt_step *step = NULL;
    const uint64_t before = world_digest(w);
    const gdn_status status = rt_step_begin(w->m, spans, n, &step);
    if (status) {
        WORLD_REQUIRE(w, world_digest(w) == before && !step);
        return status;
    }
    WORLD_REQUIRE(w, step->n_spans == n && rt_seq_rm(w->m, 0, 0, -1) == GDN_INVALID_ARGUMENT);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t row = step->seq_start[i]; row < step->seq_start[i + 1]; row++)
            token[row] = 1 + (int32_t)world_random(w, 60000);
        append(&w->t[spans[i].seq], step, i, token);
    }
    check_maps(w, step);
    if (commit) {
        forward(w, step, token);
        check_attention(w, step);
    }
    if (commit > 0) rt_step_commit(w->m, step);
    else rt_step_cancel(w->m, step, commit);
    for (int32_t i = 0; i < n; i++)
        if (commit > 0) commit_truth(w, &spans[i], world_random(w, 8) != 0);
        else if (commit < 0) cancel_truth(w, &spans[i]);
    if (commit <= 0) rt_step_commit(w->m, step); /* it is over: nothing happens */
    return GDN_OK;
}

gdn_status world_step(world *w, int32_t n, const int32_t *seqs, const int32_t *rows, int commit)
{
    rt_token_run spans[W_SEQS];
    gdn_status status = GDN_OK;
    for (int32_t done = 0; done < n && !status;) {
        int32_t first = 0;
        for (int32_t i = done; i < n; i++) {
            spans[i - done] = (rt_token_run){ seqs[i], first, rows[i] };
            first += rows[i];
        }
        const int32_t fit = rt_step_fit(w->m, spans, n - done);
        WORLD_REQUIRE(w, fit >= 1 && fit <= n - done);
        if (fit < n - done) { /* more than fits is refused */
            rt_step *step;
            const uint64_t before = world_digest(w);
            WORLD_REQUIRE(w, rt_step_begin(w->m, spans, n - done, &step) != GDN_OK && !step);
            WORLD_REQUIRE(w, world_digest(w) == before);
        }
        status = run_step(w, fit, spans, commit);
        done += fit;
    }
    return status;
}

gdn_status world_one(world *w, int32_t seq, int32_t rows)
{
    const gdn_status status = world_step(w, 1, &seq, &rows, 1);
    WORLD_REQUIRE(w, status == GDN_OK);
    return status;
}

void world_catch_up(world *w, int32_t seq)
{
    truth *t = &w->t[seq];
    if (t->draft < t->n)
        write_kv(w, 2, t->n - t->draft, rt_seq_cells(w->m, seq) + t->draft, t->token + t->draft, t->rope + t->draft);
    rt_draft_set_length(w->m, seq, t->n);
    t->draft = t->n;
}
