/* ssm_conv on GPUs: a thread is a channel. Sequences of many tokens on average are split into pieces that run in
 * parallel. */
#include "gpu/self_test.h"
#include "gpu/plan.h"

enum { CHUNK = 64, SHORT = 16 }; /* tokens of a piece; sequences of up to SHORT tokens on average are not split */

void gdn_gpu_plan_ssm_conv(const gdn_gpu_device *dev, const gdn_ssm_conv_call *p, uint32_t threads, gdn_plan *plan)
{
    const uint64_t pieces = gdn_gpu_parts((uint64_t)p->n_tokens, CHUNK),
                   blocks = gdn_gpu_parts((uint64_t)p->n_channels, threads);
    const uint64_t of_pieces = pieces * blocks, of_sequences = (uint64_t)p->n_seqs * blocks;
    const int maps = (p->has & (GDN_HAS_SEQ_START | GDN_HAS_POSITION | GDN_HAS_SRC | GDN_HAS_DST)) != 0;
    const int cut = !(p->has & GDN_HAS_TREE) && p->n_tokens > SHORT * (int64_t)p->n_seqs; /* a tree has no pieces */
    plan->cut = cut;
    plan->variant = cut ? GDN_VARIANT_PIECES : GDN_VARIANT_SEQUENCES;
    plan->gpu.blocks = blocks;
    plan->n_items = (int64_t)(cut ? of_pieces : of_sequences);
    /* Pieces check only the sequences that they overlap. The second launch visits each sequence, and so finds the other
     * bad map values too. Without a history and without maps it has nothing to do. */
    if (cut) plan->gpu.n_after = p->history_out.n_entries ? (int64_t)of_sequences : maps ? p->n_seqs : 0;
    plan->workspace_bytes = dev->params_bytes;
    if (of_sequences > dev->most_blocks || of_pieces > dev->most_blocks) plan->refused = GDN_REFUSED_BLOCKS;
}

gdn_ssm_conv_call gdn_gpu_call_ssm_conv(const gdn_gpu_device *dev, const gdn_problem *problem, const gdn_plan *plan)
{
    gdn_ssm_conv_call x = problem->ssm_conv;
    const int64_t element = x.weight_dtype == GDN_F32 ? 4 : 2;
    x.bad = dev->bad;
    x.part = plan->cut ? GDN_CONV_PIECES : GDN_CONV_WHOLE;
    x.blocks = (int32_t)plan->gpu.blocks;
    x.chunk = CHUNK;
    x.wide_weight =
        x.weight_stride_tap == element && (x.weight | (uint64_t)x.weight_stride_channel) % (4 * (uint64_t)element) == 0;
    return x;
}

gdn_ssm_conv_call gdn_gpu_call_history(const gdn_ssm_conv_call *pieces)
{
    gdn_ssm_conv_call x = *pieces;
    x.part = GDN_CONV_HISTORY;
    if (!x.history_out.n_entries) x.blocks = 1; /* this launch only checks maps */
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
