/* Rooflines of `gdn run --bench`: the time of a step or prompt if the machine only read its bytes, or only
 * multiplied. Both rates are measured, reading on the model's own mapped weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/roofline.h"
#include "threads/team.h"
#include "tools/run/run.h"

enum { FMAS = 4 << 20 };

/* Bytes and products of a step of n tokens. Tokens are assumed to choose experts at random. */
typedef struct work {
    double bytes, products;
} work;

static double bytes_of(const rt_weight *w) { return w->data ? (double)w->row_bytes * w->n_rows : 0; }
/* Products of a matrix, in units of float products: an instruction does four times as many of bytes. */
static double products_of(const rt_weight *w)
{
    const int floats = w->type == RT_F32 || w->type == RT_F16 || w->type == RT_BF16;
    return w->data ? (double)w->n_columns * w->n_rows / (floats ? 1 : 4) : 0;
}

static work work_of(const rt_model *m, double n)
{
    const rt_hparams *hp = &m->hp;
    const double used = hp->n_expert ? (double)hp->n_expert_used : 0, all = hp->n_expert ? (double)hp->n_expert : 1;
    const double read = all * (1 - pow(1 - used / all, n)); /* expected share of experts used by at least one token */
    work sum = { bytes_of(&m->output), 0 };
    for (int32_t l = 0; l < hp->n_layer; l++) {
        const rt_layer *y = &m->layer[l];
        const rt_weight *const each[] = { &y->qkv,      &y->gate,      &y->ba,       &y->beta,   &y->alpha,
                                          &y->ssm_out,  &y->wq,        &y->wk,       &y->wv,     &y->wo,
                                          &y->ffn_gate, &y->ffn_up,    &y->ffn_down, &y->router, &y->gate_shexp,
                                          &y->up_shexp, &y->down_shexp };
        const rt_weight *const some[] = { &y->gate_exps, &y->up_exps, &y->down_exps };
        for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
            sum.bytes += bytes_of(each[i]);
            sum.products += n * products_of(each[i]);
        }
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            sum.bytes += read * bytes_of(some[i]);
            sum.products += n * used * products_of(some[i]);
        }
    }
    return sum;
}

/* Memory traffic and products of n tokens of one sequence that attend to n_cells, without the weights. */
static work sequence_work(const rt_model *m, double n, double n_cells)
{
    const rt_hparams *hp = &m->hp;
    const double size = strcmp(run_opt.kv, "f32") ? 2 : 4;
    const double state = (double)hp->n_value_heads * hp->state_size * hp->state_size;
    const double conv = (double)hp->n_channels * (hp->conv_kernel - 1);
    const work sum = { m->n_recurrent * 2 * 4 * (state + conv) +
                           m->n_attention * n_cells * 2 * size * hp->n_head_kv * hp->head_dim,
                       n * (m->n_recurrent * 4 * state + m->n_attention * n_cells * 2 * hp->n_head * hp->head_dim) };
    return sum;
}

static double largest(double a, double b) { return a > b ? a : b; }

double run_roofline_step(const run_session *s, const run_roofline *f, int32_t n_seqs, int32_t n_rows, double n_cells)
{
    const work weights = work_of(s->model, (double)n_seqs * n_rows), one = sequence_work(s->model, n_rows, n_cells);
    const double head = (double)n_seqs * n_rows * products_of(&s->model->output);
    return largest((weights.bytes + n_seqs * one.bytes) / f->bytes_per_second,
                   (weights.products + head + n_seqs * one.products) / f->products_per_second);
}

double run_roofline_prompts(const run_session *s, const run_roofline *f, int32_t n_seqs, int32_t length)
{
    const double tokens = (double)n_seqs * length, batch = (double)run_opt.batch, steps = ceil(tokens / batch);
    const work weights = work_of(s->model, tokens < batch ? tokens : batch);
    const work one = sequence_work(s->model, length, length / 2.0);
    const double products = weights.products / (tokens < batch ? tokens : batch) * tokens + n_seqs * one.products;
    return largest((weights.bytes * steps + n_seqs * one.bytes) / f->bytes_per_second,
                   products / f->products_per_second);
}

/* Lists all matrices as pieces to read; of expert stacks only what a token uses. pieces NULL: counts only. */
static int32_t pieces_of(const rt_model *m, roofline_piece *pieces)
{
    const rt_hparams *hp = &m->hp;
    int32_t n = 0;
    for (int32_t l = -1; l < hp->n_layer; l++) {
        const rt_layer *y = &m->layer[l < 0 ? 0 : l];
        const rt_weight *const head = &m->output;
        const rt_weight *const each[] = { l < 0 ? head : &y->qkv,
                                          &y->gate,
                                          &y->ssm_out,
                                          &y->wq,
                                          &y->wk,
                                          &y->wv,
                                          &y->wo,
                                          &y->ffn_gate,
                                          &y->ffn_up,
                                          &y->ffn_down,
                                          &y->gate_shexp,
                                          &y->up_shexp,
                                          &y->down_shexp,
                                          &y->gate_exps,
                                          &y->up_exps,
                                          &y->down_exps };
        for (size_t i = 0; i < (l < 0 ? 1 : sizeof each / sizeof each[0]); i++) {
            const rt_weight *w = each[i];
            if (!w->data) continue;
            if (pieces)
                pieces[n] = (roofline_piece){ (void *)(uintptr_t)w->data,
                                              w->row_bytes * w->n_rows * (w->n_matrices > 1 ? hp->n_expert_used : 1),
                                              ROOFLINE_READ };
            n++;
        }
    }
    return n;
}

int run_roofline_measure(const run_session *s, progress_bar *wait, run_roofline *f)
{
    const int32_t n = pieces_of(s->model, NULL);
    roofline_piece *pieces = calloc((size_t)n, sizeof *pieces);
    const int n_threads = run_opt.threads ? (int)run_opt.threads : gdn_team_default_threads(getenv("GDN_NUM_THREADS"));
    double bytes = 0;
    void *user;
    if (!pieces) return run_fail("out of memory");
    (void)roofline_threads(n_threads, &user);
    (void)pieces_of(s->model, pieces);
    for (int32_t i = 0; i < n; i++) bytes += (double)pieces[i].bytes;
    for (int32_t i = 0; f->bytes_per_second <= 0 && i < n; i++) { /* the first pass may read from disk */
        roofline_move(n_threads, ROOFLINE_PLAIN, &pieces[i], 1);
        progress_wait(wait);
    }
    for (int variant = ROOFLINE_PREFETCH; variant <= ROOFLINE_FAR; variant++) {
        progress_wait(wait);
        const double begin = run_now();
        roofline_move(n_threads, variant, pieces, n);
        const double middle = run_now();
        const int64_t done = roofline_fma(n_threads, FMAS);
        f->bytes_per_second = largest(f->bytes_per_second, bytes / (middle - begin));
        f->products_per_second =
            largest(f->products_per_second, (double)n_threads * (double)done * roofline_lanes() / (run_now() - middle));
    }
    free(pieces);
    return 0;
}
