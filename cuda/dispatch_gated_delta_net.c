/* gated_delta_net: which kernel, and its launch. The kernels say how the work is cut. */
#include "cuda/device.h"

typedef gdn_gated_delta_net_problem problem_t;

/* Variants of either: NB = 2, 4, 8 blocks of 32 keys with 16-byte accesses, or the general one. */
enum { NB_2, NB_4, NB_8, GENERAL };

/* All bits of what decides the alignment of rows. Those of 16-bit elements are loaded 8 bytes at a time. */
static uint64_t token_bits(const gdn_gpu_device *gpu, const gdn_token_view *view)
{
    const gdn_gpu_tokens tokens = gdn_gpu_tokens_of(gpu, view);
    return (view->dtype == GDN_F32 ? 1u : 2u) * gdn_gpu_token_bits(&tokens);
}

static uint64_t pool_bits(const gdn_gpu_device *gpu, const gdn_state_view *view)
{
    const gdn_gpu_pool pool = gdn_gpu_pool_of(gpu, view);
    return (view->dtype == GDN_F32 ? 1u : 2u) * gdn_gpu_pool_bits(&pool);
}

/* Where deltas and decays lie in an entry, too. */
static uint64_t log_bits(const gdn_gpu_device *gpu, const problem_t *p)
{
    const gdn_gpu_pool log = { .base = gdn_gpu_address(gpu, &p->log.at),
                               .row = p->log.stride_row,
                               .line = p->log.stride_column };
    return p->log.n_columns ? gdn_gpu_pool_bits(&log) | 4 * (uint64_t)p->head_dim_v : 0;
}

/* States of 16 bits have kernels that know of a log. */
static int may_have_log(const problem_t *p)
{
    return p->log.n_columns || p->state_interval;
}

static int blocks_of_keys(const gdn_gpu_device *gpu, const problem_t *p, int tiles)
{
    uint64_t bits = token_bits(gpu, &p->q) | token_bits(gpu, &p->k);
    bits |= p->gate == GDN_GATE_CHANNEL ? token_bits(gpu, &p->g) | token_bits(gpu, &p->dt_bias) : 0;
    bits |= tiles ? 0 : pool_bits(gpu, &p->state_in) | pool_bits(gpu, &p->state_out) | log_bits(gpu, p);
    if (bits % 16 || gdn_has_read_key(p)) return GENERAL;
    if (p->state_interval || p->tree) return p->head_dim_k == 128 ? NB_4 : GENERAL;
    return p->head_dim_k == 64 ? NB_2 : p->head_dim_k == 128 ? NB_4 : p->head_dim_k == 256 ? NB_8 : GENERAL;
}

/* Of `tiles`: with a log those of 64 and 128 keys are a part of mixed kernels only. */
static int size_of(const gdn_gpu_device *gpu, const problem_t *p, int tiles)
{
    const int nb = blocks_of_keys(gpu, p, tiles);
    return tiles && p->log.n_columns && !p->state_interval && nb <= NB_4 ? GENERAL : nb;
}

static int has_many_tokens(const problem_t *p)
{
    return (int64_t)p->n_tokens > GDN_CUDA_FEW_TOKENS * (int64_t)p->n_seqs;
}

/* Which kernel: `tiles` for many tokens per sequence on average, `rows` for few. Sequences of a batch may differ, and
 * maps are the device's to read; either kernel takes any length and gives the same bits. Trees are rows, and so are
 * calls with a read key, of which only the general kernels of rows know. With a log and a gate per channel there are
 * only the smaller kernels of `tiles`, since the others would have more than all registers; nor are there larger ones
 * for states of 16 bits. */
static int in_tiles(const gdn_gpu_device *gpu, const problem_t *p)
{
    if (p->tree || gdn_has_read_key(p)) return 0;
    if (p->state_interval && size_of(gpu, p, 1) == GENERAL) return 0;
    if (may_have_log(p) && p->gate == GDN_GATE_CHANNEL && size_of(gpu, p, 1) > NB_4) return 0;
    return has_many_tokens(p);
}

/* A read key with a gate per channel, of which only kernels with a log know, whether the call has one or not. */
static int reads_channels(const problem_t *p)
{
    return gdn_has_read_key(p) && p->gate == GDN_GATE_CHANNEL;
}

/* What a call has that its kernel has to know: Shape::TYPED and Shape::LOG of the kernels. */
enum { PLAIN, TYPED, LOG };

static int traits_of(const problem_t *p)
{
    const int types = p->q.dtype | p->k.dtype | p->v.dtype | p->g.dtype | p->beta.dtype | p->out.dtype;
    if (reads_channels(p)) return LOG;
    return p->log.n_columns ? LOG : types != GDN_F32 || gdn_gpu_has_forms(p) ? TYPED : PLAIN;
}

/* The kernel that has both forms, for calls that may have sequences of many tokens and of few, whose lengths only the
 * device knows; NO_KERNEL for others, and where there is none. Several snapshots and no log are a verification, whose
 * sequences are all short unless there are many tokens; so are as many tokens for each, with a log. Which sequences
 * have to do with the log is the device's to read as well. */
#define NO_KERNEL GDN_CUDA_KERNEL_COUNT

static gdn_cuda_kernel mixed_kernel_of(const gdn_gpu_device *gpu, const problem_t *p)
{
    static const gdn_cuda_kernel kernels[2][3] = {
        { GDN_CUDA_delta_mixed_4, GDN_CUDA_delta_mixed_4_typed, GDN_CUDA_delta_mixed_4_log },
        { GDN_CUDA_delta_mixed_4_channel_typed, GDN_CUDA_delta_mixed_4_channel_typed,
          GDN_CUDA_delta_mixed_4_channel_log },
    };
    const int traits = traits_of(p), channel = p->gate == GDN_GATE_CHANNEL, nb = blocks_of_keys(gpu, p, 0);
    const int many = has_many_tokens(p);
    if (p->tree || p->state_interval || p->n_seqs < 1) return NO_KERNEL;
    if (!many && (traits == LOG ? p->n_tokens % p->n_seqs == 0 : p->n_snapshots > 1)) return NO_KERNEL;
    if (traits == LOG ? !many && p->n_tokens - p->n_seqs < GDN_CUDA_FEW_TOKENS
                      : p->n_seqs < 2 || p->n_tokens - p->n_seqs < GDN_CUDA_FEW_TOKENS)
        return NO_KERNEL;
    if (nb == NB_2 && traits == LOG) return channel ? GDN_CUDA_delta_mixed_2_channel_log : GDN_CUDA_delta_mixed_2_log;
    return nb == NB_4 ? kernels[channel][traits] : NO_KERNEL;
}

/* Warps of a block: where tokens are prepared, there are as many more for that. */
static uint32_t warps_of(gdn_cuda_kernel kernel)
{
    switch (kernel) {
    case GDN_CUDA_delta_tiles_2_typed:
    case GDN_CUDA_delta_tiles_2_channel_typed:
    case GDN_CUDA_delta_tiles_4_typed:
    case GDN_CUDA_delta_tiles_4_typed_narrow:
    case GDN_CUDA_delta_tiles_4_channel_typed:
    case GDN_CUDA_delta_tiles_4_channel_typed_narrow:
    case GDN_CUDA_delta_mixed_2_log:
    case GDN_CUDA_delta_mixed_2_channel_log:
    case GDN_CUDA_delta_mixed_4_typed:
    case GDN_CUDA_delta_mixed_4_channel_typed:
    case GDN_CUDA_delta_mixed_4_log:
    case GDN_CUDA_delta_mixed_4_channel_log:
        return GDN_CUDA_PREPARED_WARPS;
    default:
        return GDN_CUDA_DELTA_WARPS;
    }
}

/* Columns of a thread block: Shape::COLUMNS of the kernels. */
enum { NARROW_COLUMNS = 4 * GDN_CUDA_DELTA_WARPS };

static uint32_t columns(const problem_t *p, int tiles, int nb)
{
    const int channel_log = (p->log.n_columns && p->gate == GDN_GATE_CHANNEL) || reads_channels(p);
    const int fewest = nb == GENERAL && (channel_log || p->state_interval);
    return GDN_CUDA_DELTA_WARPS * 4 * (fewest ? 1 : !tiles && !p->tree && nb <= NB_4 ? 4 : 2);
}

/* Half the columns per block: where there are multiprocessors for twice the blocks. A kernel of one block per
 * multiprocessor waits for the chain from token to token, which is shorter with fewer columns. */
static gdn_cuda_kernel narrow_kernel_of(const problem_t *p, gdn_cuda_kernel kernel, int multiprocessors)
{
    const uint64_t parts = gdn_gpu_parts((uint64_t)p->head_dim_v, NARROW_COLUMNS);
    const int more = parts > gdn_gpu_parts((uint64_t)p->head_dim_v, 2 * NARROW_COLUMNS);
    const uint64_t blocks = gdn_gpu_product((uint64_t)p->n_seqs * (uint64_t)p->n_heads_v, parts);
    if (!more || blocks > (uint64_t)multiprocessors) return kernel;
    return kernel == GDN_CUDA_delta_tiles_4                 ? GDN_CUDA_delta_tiles_4_narrow
           : kernel == GDN_CUDA_delta_tiles_4_channel       ? GDN_CUDA_delta_tiles_4_channel_narrow
           : kernel == GDN_CUDA_delta_tiles_4_typed         ? GDN_CUDA_delta_tiles_4_typed_narrow
           : kernel == GDN_CUDA_delta_tiles_4_channel_typed ? GDN_CUDA_delta_tiles_4_channel_typed_narrow
                                                            : kernel;
}

/* Of a tree: the usual size, or any. */
static gdn_cuda_kernel tree_kernel_of(const problem_t *p, int nb)
{
    static const gdn_cuda_kernel kernels[2][2] = {
        { GDN_CUDA_delta_rows_general_tree, GDN_CUDA_delta_rows_general_channel_tree },
        { GDN_CUDA_delta_rows_4_tree, GDN_CUDA_delta_rows_4_channel_tree },
    };
    return kernels[nb == NB_4][p->gate == GDN_GATE_CHANNEL];
}

/* Of states of 16 bits: the usual size, or any; trees are of any. */
static gdn_cuda_kernel half_kernel_of(const problem_t *p, int tiles, int nb)
{
    static const gdn_cuda_kernel trees[2] = { GDN_CUDA_delta_rows_general_tree_half,
                                              GDN_CUDA_delta_rows_general_channel_tree_half };
    static const gdn_cuda_kernel kernels[2][2][2] = {
        { { GDN_CUDA_delta_rows_general_half, GDN_CUDA_delta_rows_general_channel_half },
          { GDN_CUDA_delta_rows_4_half, GDN_CUDA_delta_rows_4_channel_half } },
        { { GDN_CUDA_delta_rows_general_half, GDN_CUDA_delta_rows_general_channel_half }, /* not chosen: in_tiles() */
          { GDN_CUDA_delta_tiles_4_half, GDN_CUDA_delta_tiles_4_channel_half } },
    };
    const int channel = p->gate == GDN_GATE_CHANNEL;
    return p->tree ? trees[channel] : kernels[tiles][nb == NB_4][channel];
}

static gdn_cuda_kernel kernel_of(const problem_t *p, int tiles, int nb)
{
/* in_tiles() and size_of() choose none of these. */
#define GDN_CUDA_delta_tiles_2_log               GDN_CUDA_delta_tiles_general_log
#define GDN_CUDA_delta_tiles_4_log               GDN_CUDA_delta_tiles_general_log
#define GDN_CUDA_delta_tiles_2_channel_log       GDN_CUDA_delta_rows_2_channel_log
#define GDN_CUDA_delta_tiles_4_channel_log       GDN_CUDA_delta_rows_4_channel_log
#define GDN_CUDA_delta_tiles_8_channel_log       GDN_CUDA_delta_rows_8_channel_log
#define GDN_CUDA_delta_tiles_general_channel_log GDN_CUDA_delta_rows_general_channel_log
#define TRAITS(name, typed)                                                                                            \
    {                                                                                                                  \
        [PLAIN] = GDN_CUDA_delta_##name, [TYPED] = GDN_CUDA_delta_##name##typed, [LOG] = GDN_CUDA_delta_##name##_log   \
    }
#define SIZE(name, typed)                                                                                              \
    {                                                                                                                  \
        TRAITS(name, typed), TRAITS(name##_channel, typed)                                                             \
    }
#define FORM(form)                                                                                                     \
    {                                                                                                                  \
        [NB_2] = SIZE(form##_2, _typed), [NB_4] = SIZE(form##_4, _typed), [NB_8] = SIZE(form##_8, _typed),             \
        [GENERAL] = SIZE(form##_general, )                                                                             \
    }
    static const gdn_cuda_kernel kernels[2][4][2][3] = { FORM(rows), FORM(tiles) }; /* [tiles][size][channel][traits] */
#undef FORM
#undef SIZE
#undef TRAITS
#undef GDN_CUDA_delta_tiles_general_channel_log
#undef GDN_CUDA_delta_tiles_8_channel_log
#undef GDN_CUDA_delta_tiles_4_channel_log
#undef GDN_CUDA_delta_tiles_2_channel_log
#undef GDN_CUDA_delta_tiles_4_log
#undef GDN_CUDA_delta_tiles_2_log
    return kernels[tiles][nb][p->gate == GDN_GATE_CHANNEL][traits_of(p)];
}

/* The kernel of one form for all sequences, and the columns of a thread block of it. */
static gdn_cuda_kernel one_form(const gdn_cuda_device *dev, const gdn_gpu_device *gpu, const problem_t *p, int tiles,
                                uint32_t *of_block)
{
    const int size = size_of(gpu, p, tiles), nb = p->tree && p->state_interval ? GENERAL : size;
    const gdn_cuda_kernel kernel = p->state_interval ? half_kernel_of(p, tiles, nb)
                                   : p->tree         ? tree_kernel_of(p, nb)
                                                     : kernel_of(p, tiles, nb);
    const gdn_cuda_kernel narrow = narrow_kernel_of(p, kernel, dev->traits.multiprocessors);
    *of_block = narrow == kernel ? columns(p, tiles, nb) : NARROW_COLUMNS;
    return narrow;
}

/* What a call runs on. */
typedef struct choice_t {
    gdn_form form;
    gdn_cuda_kernel kernel;
    uint32_t of_block; /* columns of a thread block of one form */
    int mixed;
} choice_t;

static choice_t choose(const gdn_cuda_device *dev, const gdn_gpu_device *gpu, const problem_t *p)
{
    const int tiles = in_tiles(gpu, p);
    const gdn_cuda_kernel mixed = mixed_kernel_of(gpu, p);
    choice_t choice = { .form = tiles ? GDN_FORM_TILES : GDN_FORM_ROWS };
    choice.kernel = one_form(dev, gpu, p, tiles, &choice.of_block);
    if (choice.of_block == NARROW_COLUMNS || mixed == NO_KERNEL) return choice;
    choice.form = GDN_FORM_MIXED;
    /* Without a map all sequences have as many tokens, and one form is enough, unless a log tells them apart. */
    if (!p->seq_start.data && traits_of(p) != LOG) return choice;
    return (choice_t){ GDN_FORM_MIXED, mixed, choice.of_block, 1 };
}

gdn_form gdn_cuda_form_of(const gdn_cuda_device *dev, const problem_t *p)
{
    gdn_gpu_device nowhere = gdn_cuda_gpu(dev);
    nowhere.address = NULL;
    return choose(dev, &nowhere, p).form;
}

void gdn_cuda_plan_gated_delta_net(const gdn_context *ctx, const problem_t *p, gdn_plan *plan)
{
    const gdn_cuda_device *dev = ctx->state;
    gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const choice_t choice = choose(dev, &gpu, p);
    gpu.most_blocks = UINT64_MAX; /* a grid of three dimensions */
    plan->form = choice.form;
    plan->variant = (int32_t)choice.kernel;
    gdn_gpu_plan_gated_delta_net(&gpu, p, choice.of_block, plan);
    if (choice.mixed) {
        plan->blocks = gdn_gpu_parts((uint64_t)p->head_dim_v, 2 * NARROW_COLUMNS) +
                       gdn_gpu_parts((uint64_t)p->head_dim_v, GDN_CUDA_MIXED_COLUMNS);
        plan->n_items = (int64_t)gdn_gpu_product((uint64_t)p->n_seqs * (uint64_t)p->n_heads_v, plan->blocks);
    }
    if (p->n_heads_v > GDN_CUDA_MAX_BLOCKS_YZ) plan->refused = GDN_REFUSED_HEADS;
}

gdn_status gdn_cuda_run_gated_delta_net(gdn_cuda_device *dev, const problem_t *p, const gdn_plan *plan, CUstream stream)
{
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_gpu_gated_delta_net params = gdn_gpu_params_gated_delta_net(&gpu, p, plan);
    const uint32_t grid[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_v, (uint32_t)plan->blocks };
    const gdn_cuda_kernel kernel = (gdn_cuda_kernel)plan->variant;
    return gdn_cuda_launch_3d(dev, kernel, stream, grid, 32 * warps_of(kernel), &params);
}
