/* gated_delta_net on GPUs: a thread block has some value channels of one head of one sequence, and all its tokens. */
#include "gpu/self_test.h"
#include "gpu/plan.h"
#include "numerics/float_env.h"

#include <math.h>
#include <string.h>

/* Compares floats as bits, because the caller's floating-point mode may trap. */
int gdn_gpu_has_forms(const gdn_gated_delta_net_call *p)
{
    static const float one = 1;
    return p->qk_norm || p->gate_input != GDN_G_LOG || p->beta_input != GDN_BETA_PLAIN ||
           memcmp(&p->beta_factor, &one, sizeof one) || (p->has & GDN_HAS_READ_KEY);
}

void gdn_gpu_plan_gated_delta_net(const gdn_gpu_device *dev, const gdn_gated_delta_net_call *p, uint32_t values,
                                  gdn_plan *plan)
{
    plan->workspace_bytes = dev->params_bytes;
    plan->gpu.blocks = gdn_gpu_parts((uint64_t)p->head_dim_v, values);
    plan->n_items = (int64_t)gdn_gpu_product((uint64_t)p->n_seqs * (uint64_t)p->n_heads_v, plan->gpu.blocks);
    if ((uint64_t)plan->n_items > dev->most_blocks) plan->refused = GDN_REFUSED_BLOCKS;
    if (p->digits && !dev->chunked) plan->refused = GDN_REFUSED_FORM;
}

gdn_gated_delta_net_call gdn_gpu_call_gated_delta_net(const gdn_gpu_device *dev, const gdn_problem *problem,
                                                      const gdn_plan *plan)
{
    gdn_gated_delta_net_call x = problem->gated_delta_net;
    x.bad = dev->bad;
    x.blocks = (int32_t)plan->gpu.blocks;
    return x;
}

/* ---- Self-test calls: two value heads on one key head, 16 or 32 value channels, a few tokens ---- */

/* Which kernels a call exercises.
 *   STATE16_*      16-bit states, with a log whose entries are replayed from a state rounded two tokens before the
 *               committed one. The tree comes first: the first call of a pipeline is the one that runs, and some
 *               pipelines have both trees and chains.
 *   WIDE        more value channels, which some devices give to more thread blocks, with other kernels.
 *   DECODE_*    one token; of heads of 128 keys with more value channels, which devices divide in other ways.
 *   MIXED       one sequence of many tokens and one of few. MIXED_LOG also has a log row for the latter. It comes
 *               before LONG_LOG, because some devices run both alike. */
enum {
    ROWS,
    TILES,
    CHECKPOINTS,
    LOG,
    MIXED_LOG,
    LONG_LOG,
    TREE,
    STATE16_TREE,
    STATE16_ROWS,
    STATE16_TILES,
    WIDE,
    DECODE_FEW,
    DECODE_MORE,
    DECODE_MANY,
    DECODE_STATE16,
    MIXED
};
static const int32_t head_sizes[] = { 32, 64, 96, 128, 160, 192, 224, 256, 48, 200 };
enum { N_HEAD_SIZES = sizeof head_sizes / sizeof head_sizes[0], HEADS = 2, VALUES = 16, SLOTS = 3 };
enum { N_RECURRENCE_TESTS = (MIXED + 1) * N_HEAD_SIZES * 16, N_CHUNKED_TESTS = 16, WIDE_VALUES = 32 };
enum { N_SELF_TESTS = N_RECURRENCE_TESTS + N_CHUNKED_TESTS };

/* 1 / sqrt(head_dim_k), rounded to nearest in any rounding mode of the caller. */
static float scale_of(int32_t head_dim_k)
{
    const gdn_float_env caller = gdn_float_env_enter();
    volatile double dim = head_dim_k; /* the division must not move out of here */
    volatile float scale = (float)(1.0 / sqrt(dim));
    gdn_float_env_leave(caller);
    return scale;
}

static void use_forms(gdn_gpu_test_call *c, int gates)
{
    c->inputs = (gdn_delta_inputs)GDN_INIT(gdn_delta_inputs);
    c->inputs.qk_norm = GDN_NORM_ADD;
    c->inputs.qk_norm_eps = 0x1p-20f;
    c->inputs.gate_input = GDN_G_RAW;
    c->inputs.beta_input = GDN_BETA_LOGIT;
    c->args.gated_delta_net.inputs = &c->inputs;
    c->inputs.ssm_a = gdn_gpu_test_tensor(c, GDN_F32, HEADS, GDN_SELF_TEST_GATES);
    c->inputs.dt_bias = gdn_gpu_test_tensor(c, GDN_F32, gates, GDN_SELF_TEST_OF_ONE);
}

/* The chunked form: three tokens, of which the second completes the first chunk. `forms` also has 16-bit types, read
 * keys and F32 states [key][value]. */
static void chunked_call(int number, gdn_gpu_test_call *c)
{
    enum { TOKENS = 3, ENTRIES = 32 };
    static const int32_t position[] = { 30 };
    const int digits = 2 + (number & 1), forms = number >> 3, size = number & 4 ? 144 : 16;
    const int of_digits = number >> 1 & 1, narrow = forms ? GDN_BF16 : GDN_F32;
    const int entry = size + HEADS * (VALUES + 1), slot = HEADS * VALUES * size;
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    c->kind = forms;
    *a = (gdn_gated_delta_net_args)GDN_INIT(gdn_gated_delta_net_args);
    a->n_seqs = a->n_heads_k = a->n_snapshots = 1;
    a->n_tokens = TOKENS;
    a->n_heads_v = HEADS;
    a->head_dim_k = size;
    a->head_dim_v = VALUES;
    a->scale = scale_of(size);
    a->state_layout = forms && !of_digits ? GDN_STATE_KV : GDN_STATE_VK;
    c->chunked = (gdn_chunked_form){ .size = sizeof c->chunked, .digits = digits };
    a->chunked = &c->chunked;
    a->q = gdn_gpu_test_tensor(c, narrow, TOKENS * size, GDN_SELF_TEST_OF_ONE);
    a->k = gdn_gpu_test_tensor(c, narrow, TOKENS * size, GDN_SELF_TEST_OF_SIXTEENTHS);
    a->v = gdn_gpu_test_tensor(c, narrow, TOKENS * HEADS * VALUES, GDN_SELF_TEST_OF_ONE);
    a->g = gdn_gpu_test_tensor(c, GDN_F32, TOKENS * HEADS, forms ? GDN_SELF_TEST_OF_ONE : GDN_SELF_TEST_GATES);
    a->beta = gdn_gpu_test_tensor(c, narrow, TOKENS * HEADS, GDN_SELF_TEST_SHARES);
    if (forms) {
        use_forms(c, HEADS);
        c->inputs.read_key = gdn_gpu_test_tensor(c, GDN_F32, TOKENS * size, GDN_SELF_TEST_OF_SIXTEENTHS);
    }
    a->position = gdn_gpu_test_map(c, position, 1);
    c->log = (gdn_replay_log)GDN_INIT(gdn_replay_log);
    a->log = &c->log;
    gdn_gpu_test_results(c);
    a->out = gdn_gpu_test_tensor(c, narrow, TOKENS * HEADS * VALUES, GDN_SELF_TEST_OF_ONE);
    if (of_digits) { /* any bytes are digits, and halves of small factors */
        a->state = gdn_gpu_test_pool(c, GDN_F16, 1, 1, (slot * digits + 4 * HEADS * VALUES) / 2, GDN_SELF_TEST_OF_ONE);
        a->state.dtype = digits == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
    } else {
        a->state = gdn_gpu_test_pool(c, GDN_F32, 1, 1, slot, GDN_SELF_TEST_OF_ONE);
    }
    /* Keys and deltas of the entries are gates too: these must not be above 0. */
    c->log.entries = gdn_gpu_test_pool(c, GDN_F32, 1, ENTRIES, entry, GDN_SELF_TEST_GATES);
    a->workspace = gdn_gpu_test_workspace(c);
}

int gdn_gpu_self_test_gated_delta_net(int number, gdn_gpu_test_call *c)
{
    if (number < 0) return N_SELF_TESTS;
    if (number >= N_RECURRENCE_TESTS) {
        chunked_call(number - N_RECURRENCE_TESTS, c);
        return N_SELF_TESTS;
    }
    static const int32_t position[] = { 3 }, zero[] = { 0 }, base_position[] = { 1 }, second[] = { 1 }, third[] = { 2 },
                         starts[] = { 0, 9, 11 }, positions[] = { 3, 3 }, both_stand[] = { 3, 1 },
                         one_row[] = { GDN_NONE, 0 }, one_commit[] = { GDN_NONE, 2 };
    const int forms = number & 1, typed = number >> 1 & 1, key_major = number >> 2 & 1, channel = number >> 3 & 1;
    const int form = number / 16 / N_HEAD_SIZES, size = head_sizes[number / 16 % N_HEAD_SIZES];
    const int decode = form >= DECODE_FEW && form <= DECODE_STATE16;
    const int state16 = (form >= STATE16_TREE && form <= STATE16_TILES) || form == DECODE_STATE16,
              tree = form == TREE || form == STATE16_TREE;
    const int dim_v = form == WIDE                         ? WIDE_VALUES
                      : form == DECODE_MORE && size == 128 ? 128
                      : form == DECODE_MANY && size == 128 ? 192
                                                           : VALUES;
    const int many = form == TILES || form == LONG_LOG || form == WIDE;
    const int mixed = form == MIXED || form == MIXED_LOG;
    const int tokens = tree                    ? GDN_SELF_TEST_TREE_TOKENS
                       : form == STATE16_TILES ? 9
                       : mixed                 ? 11
                       : many                  ? 10
                       : decode                ? 1
                                               : 3;
    const int rows = mixed ? 2 : 1, slots = dim_v > WIDE_VALUES ? 1 : SLOTS;
    const int gates = HEADS * (channel ? size : 1);
    const int log = form == LOG || form == DECODE_FEW || form == MIXED_LOG || form == LONG_LOG || tree || state16;
    const int entries = !log ? 0 : form == LONG_LOG || form == STATE16_TILES ? 16 : 8;
    /* Alternates types that a device may distinguish only at run time. */
    const int32_t narrow = key_major ? GDN_F16 : GDN_BF16, other = key_major ? GDN_BF16 : GDN_F16;
    c->kind = number & 7;
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    *a = (gdn_gated_delta_net_args){ .size = sizeof *a,
                                     .n_seqs = rows,
                                     .n_tokens = tokens,
                                     .n_heads_k = 1,
                                     .n_heads_v = HEADS,
                                     .head_dim_k = size,
                                     .head_dim_v = dim_v,
                                     .n_snapshots = rows > 1 || decode ? 1
                                                    : !log             ? 2
                                                                       : state16 && !tree,
                                     .scale = scale_of(size) };
    a->gate = channel ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR;
    a->state_layout = key_major ? GDN_STATE_KV : GDN_STATE_VK;
    a->q = gdn_gpu_test_tensor(c, typed ? narrow : GDN_F32, tokens * size, GDN_SELF_TEST_OF_ONE);
    a->k = gdn_gpu_test_tensor(c, typed ? narrow : GDN_F32, tokens * size, GDN_SELF_TEST_OF_SIXTEENTHS);
    a->v = gdn_gpu_test_tensor(c, typed ? other : GDN_F32, tokens * HEADS * dim_v, GDN_SELF_TEST_OF_ONE);
    a->g = gdn_gpu_test_tensor(c, GDN_F32, tokens * gates, forms ? GDN_SELF_TEST_OF_ONE : GDN_SELF_TEST_GATES);
    a->beta = gdn_gpu_test_tensor(c, typed ? narrow : GDN_F32, tokens * HEADS,
                                  forms ? GDN_SELF_TEST_OF_ONE : GDN_SELF_TEST_SHARES);
    if (forms) use_forms(c, gates);
    if (mixed) a->seq_start = gdn_gpu_test_map(c, starts, 3);
    if (form == CHECKPOINTS) {
        c->checkpoints = (gdn_checkpoints){ .size = sizeof c->checkpoints, .interval = 2, .n = 1 };
        a->position = gdn_gpu_test_map(c, zero, 1);
        c->checkpoints.dst = gdn_gpu_test_map(c, third, 1);
        a->checkpoints = &c->checkpoints;
    }
    if (log) {
        c->log = (gdn_replay_log)GDN_INIT(gdn_replay_log);
        a->position = gdn_gpu_test_map(c, mixed ? positions : position, rows);
        c->log.base_position = gdn_gpu_test_map(c, mixed ? both_stand : state16 ? zero : base_position, rows);
        c->log.commit = gdn_gpu_test_map(c, mixed ? one_commit : second, rows);
        if (mixed) c->log.row = gdn_gpu_test_map(c, one_row, rows);
        a->log = &c->log;
    }
    if (state16) {
        c->rounding = (gdn_state_rounding){ .size = sizeof c->rounding, .interval = 2 };
        a->rounding = &c->rounding;
    }
    if (tree) {
        c->tree = (gdn_token_tree)GDN_INIT(gdn_token_tree);
        c->tree.parent = gdn_gpu_test_map(c, gdn_gpu_test_parents, GDN_SELF_TEST_TREE_TOKENS);
        a->tree = &c->tree;
    }
    gdn_gpu_test_results(c);
    a->out = gdn_gpu_test_tensor(c, typed ? narrow : GDN_F32, tokens * HEADS * dim_v, GDN_SELF_TEST_OF_ONE);
    a->state = gdn_gpu_test_pool(c, state16 ? narrow : GDN_F32, 1, slots, HEADS * dim_v * size, GDN_SELF_TEST_OF_ONE);
    a->state.n_rows = rows > 1 ? form == MIXED_LOG ? SLOTS : rows : 1;
    a->state.n_slots = rows > 1 ? 1 : slots;
    if (log) { /* entries aligned as kernels for whole blocks of keys need them */
        const int entry = (size + HEADS * dim_v + gates + 15) / 16 * 16;
        c->log.entries = gdn_gpu_test_pool(c, GDN_F32, 1, entries, entry, GDN_SELF_TEST_OF_SIXTEENTHS);
        c->log.entries.stride[0] = 4 * (int64_t)entries * entry;
        c->log.entries.stride[1] = 4 * (int64_t)entry;
    }
    a->workspace = gdn_gpu_test_workspace(c);
    return N_SELF_TESTS;
}
