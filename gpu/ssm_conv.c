/* ssm_conv on GPUs: a thread is a channel. Sequences of many tokens on average are split into pieces that run in
 * parallel. */
#include "gpu/self_test.h"
#include "gpu/plan.h"

typedef gdn_ssm_conv_problem problem_t;

enum { CHUNK = 64, SHORT = 16 }; /* tokens of a piece; sequences of up to SHORT tokens on average are not split */

/* The number of rows; 0 without a history. A kernel of width 1 has rows without slots. */
static int32_t rows(const gdn_state_view *history) { return history->at.data ? history->n_rows : 0; }

void gdn_gpu_plan_ssm_conv(const gdn_gpu_device *dev, const problem_t *p, uint32_t threads, gdn_plan *plan)
{
    const uint64_t pieces = gdn_gpu_parts((uint64_t)p->n_tokens, CHUNK),
                   blocks = gdn_gpu_parts((uint64_t)p->n_channels, threads);
    const uint64_t of_pieces = pieces * blocks, of_sequences = (uint64_t)p->n_seqs * blocks;
    const int maps = p->seq_start.data || p->position.data || p->history_src.data || p->history_dst.data;
    const int any = !dev->most_rounds || (uint64_t)p->n_tokens <= dev->most_rounds; /* one sequence may have all */
    const int cut = !p->tree && ((int64_t)p->n_tokens > SHORT * (int64_t)p->n_seqs || !any); /* a tree has no pieces */
    plan->cut = cut;
    plan->form = cut ? GDN_FORM_PIECES : GDN_FORM_SEQUENCES;
    plan->blocks = blocks;
    plan->n_items = (int64_t)(cut ? of_pieces : of_sequences);
    /* Pieces check only the sequences that they overlap. The second launch visits each sequence, and so finds the other
     * bad map values too. Without a history and without maps it has nothing to do. */
    if (cut) plan->n_after = rows(&p->history_out) ? (int64_t)of_sequences : maps ? p->n_seqs : 0;
    plan->workspace_bytes = dev->params_bytes;
    if (of_sequences > dev->most_blocks || of_pieces > dev->most_blocks) plan->refused = GDN_REFUSED_BLOCKS;
}

gdn_gpu_ssm_conv gdn_gpu_params_ssm_conv(const gdn_gpu_device *dev, const problem_t *p, const gdn_plan *plan)
{
    gdn_gpu_ssm_conv x = {
        .x = gdn_gpu_tokens_of(dev, &p->x),
        .result = gdn_gpu_tokens_of(dev, &p->out),
        .history_in = gdn_gpu_pool_of(dev, &p->history_in),
        .history_out = gdn_gpu_pool_of(dev, &p->history_out),
        .weight = gdn_gpu_address(dev, &p->weight),
        .bias = gdn_gpu_address(dev, &p->bias),
        .weight_channel = p->weight_stride_channel,
        .weight_tap = p->weight_stride_tap,
        .seq_start = gdn_gpu_address(dev, &p->seq_start),
        .position = gdn_gpu_address(dev, &p->position),
        .history_src = gdn_gpu_address(dev, &p->history_src),
        .history_dst = gdn_gpu_address(dev, &p->history_dst),
        .history_checkpoint = gdn_gpu_address(dev, &p->checkpoints.map),
        .parent = gdn_gpu_address(dev, &p->parent),
        .checkpoint_interval = p->checkpoints.interval,
        .n_checkpoints = p->checkpoints.n,
        .bad = dev->bad,
        .n_seqs = p->n_seqs,
        .n_tokens = p->n_tokens,
        .n_channels = p->n_channels,
        .n_entries = p->n_slots,
        .rows_in = rows(&p->history_in),
        .rows_out = rows(&p->history_out),
        .kernel_width = p->kernel_width,
        .silu = p->silu,
        .part = plan->cut ? GDN_GPU_CONV_PIECES : GDN_GPU_CONV_WHOLE,
        .x_dtype = p->x.dtype,
        .weight_dtype = p->weight_dtype,
        .bias_dtype = p->bias_dtype,
        .result_dtype = p->out.dtype,
        .history_dtype = p->history_out.dtype,
        .blocks = (int32_t)plan->blocks,
        .chunk = CHUNK,
        .even_tokens = p->n_tokens / p->n_seqs,
        .has = (p->seq_start.data ? GDN_GPU_HAS_SEQ_START : 0) | (p->history_src.data ? GDN_GPU_HAS_SRC : 0) |
               (p->history_dst.data ? GDN_GPU_HAS_DST : 0) | (p->position.data ? GDN_GPU_HAS_POSITION : 0) |
               (p->bias.data ? GDN_GPU_HAS_BIAS : 0) | (p->tree ? GDN_GPU_TREE : 0) |
               (p->parent.data ? GDN_GPU_HAS_PARENT : 0),
    };
    x.has |= gdn_gpu_one_pool(&p->history_in.at, &p->history_out.at, &x.pool_offset);
    x.same_pool = dev->address ? x.history_in.base == x.history_out.base : (x.has & GDN_GPU_ONE_POOL) && !x.pool_offset;
    const int64_t element = p->weight_dtype == GDN_F32 ? 4 : 2;
    x.wide_weight = x.weight_tap == element && (x.weight | (uint64_t)x.weight_channel) % (4 * (uint64_t)element) == 0;
    return x;
}

gdn_gpu_ssm_conv gdn_gpu_history_ssm_conv(const gdn_gpu_ssm_conv *pieces)
{
    gdn_gpu_ssm_conv x = *pieces;
    x.part = GDN_GPU_CONV_HISTORY;
    if (!x.rows_out) x.blocks = 1; /* this launch only checks maps */
    return x;
}

/* ---- Self-test calls ---- */

enum { WHOLE, PIECES, CONV_TREE, N_CONV_FORMS, WIDTHS = 16, CHANNELS = 40 };
enum { N_SELF_TESTS = N_CONV_FORMS * WIDTHS * 4 };

int gdn_gpu_self_test_ssm_conv(int number, gdn_gpu_test_call *c)
{
    if (number < 0) return N_SELF_TESTS;
    static const int32_t position[] = { 2 };
    const int silu = number & 1, typed = number >> 1 & 1, width = 1 + number / 4 % WIDTHS;
    const int form = number / 4 / WIDTHS, tokens = form == CONV_TREE ? GDN_SELF_TEST_TREE_TOKENS
                                                   : form == PIECES  ? 70
                                                                     : 5;
    const int entries = width - 1 + GDN_SELF_TEST_TREE_TOKENS, dtype = typed ? GDN_BF16 : GDN_F32;
    gdn_ssm_conv_args *a = &c->args.ssm_conv;
    c->kind = number & 3;
    *a = (gdn_ssm_conv_args){ .size = sizeof *a,
                              .n_seqs = 1,
                              .n_tokens = tokens,
                              .n_channels = CHANNELS,
                              .kernel_width = width,
                              .activation = silu ? GDN_ACTIVATION_SILU : GDN_ACTIVATION_NONE };
    a->x = gdn_gpu_test_tensor(c, dtype, tokens * CHANNELS, GDN_SELF_TEST_OF_ONE);
    a->weight = gdn_gpu_test_tensor(c, typed ? GDN_F16 : GDN_F32, CHANNELS * width, GDN_SELF_TEST_OF_ONE);
    a->bias = gdn_gpu_test_tensor(c, GDN_F32, CHANNELS, GDN_SELF_TEST_OF_ONE);
    a->position = gdn_gpu_test_map(c, position, 1);
    if (form == CONV_TREE) {
        c->tree = (gdn_token_tree)GDN_INIT(gdn_token_tree);
        c->tree.parent = gdn_gpu_test_map(c, gdn_gpu_test_parents, GDN_SELF_TEST_TREE_TOKENS);
        a->tree = &c->tree;
    }
    gdn_gpu_test_results(c);
    a->out = gdn_gpu_test_tensor(c, dtype, tokens * CHANNELS, GDN_SELF_TEST_OF_ONE);
    a->history = gdn_gpu_test_pool(c, dtype, 1, entries, CHANNELS, GDN_SELF_TEST_OF_ONE);
    a->workspace = gdn_gpu_test_workspace(c);
    return N_SELF_TESTS;
}
