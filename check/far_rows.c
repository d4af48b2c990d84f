/* Rows beyond 2^31 elements: offsets that do not fit in 32 bits. The pools are mapped without memory behind
 * them, so only devices that share the host's address space can have them; others say that they skip. The
 * pages that exist afterwards tell what was touched. */
#include <string.h>

#include "system/machine.h"
#include "trial.h"
#include "values.h"

/* A sparse tensor of F32, on the reference and on the target. */
typedef struct sparse {
    uint64_t bytes;
    char *at[2];
} sparse;

enum { ON_REFERENCE = 0, ON_TARGET = 1 };

static int map_sparse(check_trial *trial, sparse *m, uint64_t bytes)
{
    memset(m, 0, sizeof *m);
    if (!check_target_describe(trial->target)->device.shared_memory) {
        check_trial_skip(trial, "rows beyond 2^31 elements need a device that shares the host's memory");
        return 0;
    }
    if (sizeof(size_t) < 8) {
        check_trial_skip(trial, "rows beyond 2^31 elements need 64-bit addresses");
        return 0;
    }
    m->bytes = bytes;
    for (int i = 0; i < 2; i++) {
        m->at[i] = pages_sparse(bytes);
        if (!m->at[i]) {
            check_trial_skip(trial, "the system gives no %llu GiB of addresses", (unsigned long long)(bytes >> 30));
            return 0;
        }
    }
    return 1;
}

static void unmap_sparse(sparse *m)
{
    for (int i = 0; i < 2; i++)
        if (m->at[i]) pages_free(m->at[i], m->bytes);
}

static void fill_both(const sparse *m, uint64_t offset, int64_t n, uint64_t seed)
{
    for (int i = 0; i < 2; i++) check_fill(m->at[i] + offset, GDN_F32, n, CHECK_NORMAL, seed);
}

/* The same pages exist in both, and hold the same. Only asks where it can be known which pages exist. */
static void compare_sparse(check_trial *trial, const sparse *m)
{
    const uint64_t page = pages_size(), chunk = 1 << 16;
    static unsigned char there[2][1 << 16];
    for (uint64_t first = 0; first < m->bytes / page && trial->outcome == CHECK_RAN; first += chunk) {
        const uint64_t n = m->bytes / page - first < chunk ? m->bytes / page - first : chunk;
        for (int i = 0; i < 2; i++)
            if (!pages_touched(m->at[i] + first * page, n, there[i])) return;
        for (uint64_t p = 0; p < n; p++) {
            const uint64_t at = (first + p) * page;
            if (there[0][p] || there[1][p])
                if (memcmp(m->at[0] + at, m->at[1] + at, (size_t)page)) {
                    check_trial_fail(trial, "bytes %llu to %llu of a sparse tensor differ", (unsigned long long)at,
                                     (unsigned long long)(at + page));
                    return;
                }
        }
    }
}

/* Run on one side, with workspace. */
static int call(check_trial *trial, int side, const check_kernel *kernel, void *args)
{
    check_target *t = side == ON_TARGET ? trial->target : trial->reference;
    gdn_context *ctx = check_target_context(t, side == ON_TARGET ? trial->setting.executor : 0);
    gdn_capability capability = { .size = sizeof capability };
    gdn_span workspace;
    gdn_status status = ctx ? kernel->query(ctx, args, &capability) : GDN_INTERNAL;
    if (!status && !capability.supported) {
        check_trial_fail(trial, "not supported far away: %s", capability.reason);
        return 0;
    }
    if (status || (status = check_target_workspace(t, ctx, capability.workspace_bytes, &workspace))) {
        check_trial_error(trial, status, "a call far away");
        return 0;
    }
    *check_workspace(kernel, args) = workspace;
    if ((status = kernel->run(ctx, args, NULL)) || (status = gdn_synchronize(ctx, NULL))) {
        check_trial_error(trial, status, "a call far away");
        return 0;
    }
    return 1;
}

/* The reference finds a state with the same few lines of code as the CPU does. So where the state lies is worked out
 * here, and what must be there is what the reference makes of a pool with nothing but that state. Of four trials one
 * has millions of packed rows; in the others rows, slots or heads are more than 2^31 elements apart. */
void check_far_states(check_trial *trial, check_rng *rng)
{
    enum { DIM = 16, HEADS = 2, MATRIX = DIM * DIM, STATE = HEADS * MATRIX, TOKENS = 3, NEAR = 2 };
    const int axis = trial->number % 4 - 1, wide = axis >= 0, n_slots = axis == 1 ? 2 : 1;
    const int64_t n_rows = wide ? 2 : ((int64_t)1 << 31) / STATE + 9;
    int64_t stride[3] = { 4 * STATE * n_slots, 4 * STATE, 4 * MATRIX }; /* of rows, slots and heads */
    if (wide) stride[axis] = 4 * (((int64_t)1 << 31) + 32);
    const int64_t last = (n_rows - 1) * stride[0] + (n_slots - 1) * stride[1], head = stride[2];
    float q[TOKENS * DIM], k[TOKENS * DIM], v[TOKENS * HEADS * DIM], g[TOKENS * HEADS], beta[TOKENS * HEADS],
        out[3][TOKENS * HEADS * DIM], near[STATE];
    const int32_t src = (int32_t)n_rows * n_slots - 1, dst = wide ? src : src - 1;
    const int64_t written = wide ? last : last - stride[0];
    sparse pool;
    if (map_sparse(trial, &pool, (uint64_t)(last + head + 4 * MATRIX + 4096) / 4096 * 4096)) {
        check_fill(q, GDN_F32, TOKENS * DIM, CHECK_SMALL, check_next(rng));
        check_fill(k, GDN_F32, TOKENS * DIM, CHECK_SMALL, check_next(rng));
        check_fill(v, GDN_F32, TOKENS * HEADS * DIM, CHECK_NORMAL, check_next(rng));
        check_fill(g, GDN_F32, TOKENS * HEADS, CHECK_GATE_SLOW, check_next(rng));
        check_fill(beta, GDN_F32, TOKENS * HEADS, CHECK_UNIT, check_next(rng));
        for (int h = 0; h < HEADS; h++) {
            fill_both(&pool, (uint64_t)(last + h * head), MATRIX, check_next(rng));
            memcpy(near + h * MATRIX, pool.at[0] + last + h * head, 4 * MATRIX);
        }
        for (int side = 0; side < 3; side++) {
            gdn_gated_delta_net_args a = {
                .size = sizeof a,
                .n_seqs = 1,
                .n_tokens = TOKENS,
                .n_heads_k = 1,
                .n_heads_v = HEADS,
                .head_dim_k = DIM,
                .head_dim_v = DIM,
                .n_snapshots = 1,
                .scale = 0.125f,
                .q.data = q,
                .k.data = k,
                .v.data = v,
                .g.data = g,
                .beta.data = beta,
                .out.data = out[side],
                .state = { .data = near, .n_rows = 1, .n_slots = 1 },
            };
            if (side != NEAR) {
                a.state = (gdn_pool){ .data = pool.at[side], .n_rows = (int32_t)n_rows, .n_slots = n_slots };
                if (wide) memcpy(a.state.stride, stride, sizeof stride);
                a.state_src.data = (void *)(uintptr_t)&src;
                a.state_dst.data = (void *)(uintptr_t)&dst;
            }
            if (!call(trial, side % NEAR, &check_kernel_gated_delta_net, &(delta_call){ .args = a })) break;
        }
        check_trial_same(trial, out[NEAR], out[ON_TARGET], TOKENS * HEADS * DIM, "out from a far state");
        for (int h = 0; h < HEADS; h++)
            check_trial_same(trial, near + h * MATRIX, pool.at[ON_TARGET] + written + h * head, MATRIX,
                             "a far state, head %d", h);
        if (trial->outcome == CHECK_RAN) compare_sparse(trial, &pool);
    }
    unmap_sparse(&pool);
}

/* Even trials: millions of packed rows. Odd ones: a few rows with a stride of more than 2^31 elements. */
void check_far_histories(check_trial *trial, check_rng *rng)
{
    enum { CHANNELS = 70, WIDTH = 4, COLUMNS = 4, TOKENS = 3 };
    const int wide = trial->number & 1;
    const int64_t stride = wide ? 4 * (((int64_t)1 << 31) + 32) : 4 * CHANNELS * COLUMNS;
    const int64_t n_rows = wide ? 2 : ((int64_t)1 << 31) / (CHANNELS * COLUMNS) + 9;
    float x[TOKENS * CHANNELS], weight[WIDTH * CHANNELS], out[2][TOKENS * CHANNELS];
    const int32_t src = (int32_t)n_rows - 1, dst = wide ? (int32_t)n_rows - 1 : (int32_t)n_rows - 3, position = 6;
    sparse pool;
    if (map_sparse(trial, &pool, (uint64_t)(n_rows * stride + 4096) / 4096 * 4096)) {
        check_fill(x, GDN_F32, TOKENS * CHANNELS, CHECK_NORMAL, check_next(rng));
        check_fill(weight, GDN_F32, WIDTH * CHANNELS, CHECK_NORMAL, check_next(rng));
        fill_both(&pool, (uint64_t)(src * stride), CHANNELS * COLUMNS, check_next(rng));
        for (int side = 0; side < 2; side++) {
            gdn_ssm_conv_args a = {
                .size = sizeof a,
                .n_seqs = 1,
                .n_tokens = TOKENS,
                .n_channels = CHANNELS,
                .kernel_width = WIDTH,
                .x.data = x,
                .weight.data = weight,
                .out.data = out[side],
                .history = { .data = pool.at[side],
                             .stride = { wide ? stride : 0 },
                             .n_rows = (int32_t)n_rows,
                             .n_slots = COLUMNS },
                .position.data = (void *)(uintptr_t)&position,
                .history_src.data = (void *)(uintptr_t)&src,
                .history_dst.data = (void *)(uintptr_t)&dst,
            };
            if (!call(trial, side, &check_kernel_ssm_conv, &(conv_call){ .args = a })) break;
        }
        check_trial_same(trial, out[0], out[1], TOKENS * CHANNELS, "out from a far history");
        if (trial->outcome == CHECK_RAN) compare_sparse(trial, &pool);
    }
    unmap_sparse(&pool);
}

void check_far_rows(check_trial *trial, check_rng *rng)
{
    enum { COLUMNS = 64, ROWS = 5 };
    const int wide = trial->number & 1;
    const int64_t stride = wide ? 4 * (((int64_t)1 << 29) + 16) : 4 * COLUMNS,
                  n_rows = wide ? 5 : ((int64_t)1 << 31) / COLUMNS + 9;
    float src[ROWS * COLUMNS];
    const int64_t index[ROWS] = { n_rows - 1, 0, n_rows - 2, GDN_NONE, n_rows - 1 };
    sparse dst;
    if (map_sparse(trial, &dst, (uint64_t)(n_rows * stride + 4096) / 4096 * 4096)) {
        check_fill(src, GDN_F32, ROWS * COLUMNS, CHECK_NORMAL, check_next(rng));
        for (int side = 0; side < 2; side++) {
            gdn_set_rows_args a = {
                .size = sizeof a,
                .n_columns = COLUMNS,
                .n_rows = ROWS,
                .n_rows_dst = n_rows,
                .n_batch = { 1, 1 },
                .index_batch = { 1, 1 },
                .src.data = src,
                .dst = { .data = dst.at[side], .stride = { 0, 0, wide ? stride : 0 } },
                .index = { .data = (void *)(uintptr_t)index, .dtype = GDN_I64 },
            };
            if (!call(trial, side, &check_kernel_set_rows, &a)) break;
        }
        if (trial->outcome == CHECK_RAN) compare_sparse(trial, &dst);
    }
    unmap_sparse(&dst);
}
