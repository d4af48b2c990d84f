/* The scalar tier: the reference, cut into items for threads. It runs on every processor. */
#include "cpu/cpu.h"
#include "reference/reference.h"

static void fill(gdn_cpu_plan *plan, int64_t n_items)
{
    *plan = (gdn_cpu_plan){ .n_items = n_items, .grain = 1, .path_name = "reference" };
}

/* Items: sequence and value head. */
static void gated_delta_net_plan(const void *problem, int32_t n_threads, gdn_cpu_plan *plan)
{
    const gdn_gated_delta_net_problem *p = problem;
    (void)n_threads;
    fill(plan, (int64_t)p->n_seqs * p->n_heads_v);
}

static void gated_delta_net_run(const void *problem, const gdn_cpu_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const gdn_gated_delta_net_problem *p = problem;
    (void)plan, (void)scratch;
    for (int64_t i = first; i < last; i++)
        gdn_ref_gated_delta_net(p, (int32_t)(i / p->n_heads_v), (int32_t)(i % p->n_heads_v));
}

/* Items: sequence and block of channels. */
enum { BLOCK = 64 };

static int32_t blocks(const gdn_ssm_conv_problem *p)
{
    return p->n_channels / BLOCK + (p->n_channels % BLOCK != 0);
}

static void ssm_conv_plan(const void *problem, int32_t n_threads, gdn_cpu_plan *plan)
{
    const gdn_ssm_conv_problem *p = problem;
    (void)n_threads;
    fill(plan, (int64_t)p->n_seqs * blocks(p));
}

static void ssm_conv_run(const void *problem, const gdn_cpu_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const gdn_ssm_conv_problem *p = problem;
    (void)plan, (void)scratch;
    for (int64_t i = first; i < last; i++) {
        const int32_t c = (int32_t)(i % blocks(p)) * BLOCK;
        gdn_ref_ssm_conv(p, (int32_t)(i / blocks(p)), c, p->n_channels - c < BLOCK ? p->n_channels : c + BLOCK);
    }
}

/* Items: batches. Rows of one batch stay together, in order, because the later of two equal targets wins. */
static void set_rows_plan(const void *problem, int32_t n_threads, gdn_cpu_plan *plan)
{
    const gdn_set_rows_problem *p = problem;
    (void)n_threads;
    fill(plan, p->n_batch[0] * p->n_batch[1]);
}

static void set_rows_run(const void *problem, const gdn_cpu_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const gdn_set_rows_problem *p = problem;
    (void)plan, (void)scratch;
    for (int64_t i = first; i < last; i++)
        gdn_ref_set_rows(p, i / p->n_batch[1], i % p->n_batch[1]);
}

const gdn_cpu_kernel gdn_cpu_gated_delta_net_scalar = { gated_delta_net_plan, gated_delta_net_run };
const gdn_cpu_kernel gdn_cpu_ssm_conv_scalar        = { ssm_conv_plan, ssm_conv_run };
const gdn_cpu_kernel gdn_cpu_set_rows_scalar        = { set_rows_plan, set_rows_run };
