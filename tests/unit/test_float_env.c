/* The caller's floating-point mode: results are the same bits in all of them, and the mode is as it was
 * afterwards. gdn check runs whole suites in these modes; this is about what lies around the kernels, such
 * as factors that are checked and computed, and about callers that let exceptions trap. */
#define _POSIX_C_SOURCE 200809L /* sigsetjmp */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gdn/gdn.h"
#include "tests/unit/targets.h"
#include "check/environment.h"

/* Small enough that subnormals appear, and with dimensions whose scale is not a power of two. */
enum { T = 6, H = 2, MAX_DIM = 256, C = 40 };

typedef struct memory {
    float q[T * H * MAX_DIM], k[T * H * MAX_DIM], v[T * H * MAX_DIM], g[T * H], beta[T * H], out[T * H * MAX_DIM];
    float state[H * MAX_DIM * MAX_DIM];
    float weight[C * 4], history[3 * C], conv_out[T * C];
    uint16_t rows[T * C];
    _Alignas(64) unsigned char workspace[8 << 20];
} memory;

static memory m, first;

static void fill(float *x, size_t n, float size)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = size * ((float)(state >> 8) * 0x1p-23f - 1.0f);
    }
}

static void reset(void)
{
    memset(&m, 0, offsetof(memory, workspace));
    fill(m.q, T * H * MAX_DIM, 1.0f);
    fill(m.k, T * H * MAX_DIM, 1e-20f); /* times v: subnormal */
    fill(m.v, T * H * MAX_DIM, 1e-20f);
    fill(m.g, T * H, 0.5f);
    fill(m.beta, T * H, 1.0f);
    fill(m.state, H * MAX_DIM * MAX_DIM, 1e-38f);
    fill(m.weight, C * 4, 1e-20f);
    fill(m.history, 3 * C, 1e-19f);
}

/* eps: of a norm that clamps, or 0 for none. Its reciprocal is rounded outside of the kernels. */
static gdn_status run(gdn_context *ctx, int32_t dim, float scale, float eps)
{
    gdn_gated_delta_net_args a =
        FIELDS(.size = sizeof a, .n_seqs = 1, .n_tokens = T, .n_heads_k = H, .n_heads_v = H, .head_dim_k = dim,
               .head_dim_v = dim, .n_snapshots = 1, .scale = scale, .state = { .n_rows = 1, .n_slots = 1 });
    gdn_delta_inputs inputs = GDN_INIT(gdn_delta_inputs);
    inputs.qk_norm = GDN_NORM_CLAMP, inputs.qk_norm_eps = eps;
    if (eps > 0) a.inputs = &inputs;
    a.q.data = m.q, a.k.data = m.k, a.v.data = m.v, a.g.data = m.g, a.beta.data = m.beta, a.out.data = m.out;
    a.state.data = m.state;
    a.workspace = (gdn_span){ .data = m.workspace, .bytes = sizeof m.workspace };
    gdn_capability can = { .size = sizeof can };
    gdn_status status = gdn_gated_delta_net_query(ctx, &a, &can);
    status = status ? status : gdn_gated_delta_net(ctx, &a, NULL);
    if (status) return status;

    gdn_ssm_conv_args b = FIELDS(.size = sizeof b, .n_seqs = 1, .n_tokens = T, .n_channels = C, .kernel_width = 4,
                                 .activation = GDN_ACTIVATION_SILU, .history = { .n_rows = 1, .n_slots = 3 });
    b.x.data = m.v, b.weight.data = m.weight, b.history.data = m.history, b.out.data = m.conv_out;
    b.workspace = a.workspace;
    if ((status = gdn_ssm_conv(ctx, &b, NULL))) return status;

    static const int32_t index[T] = { 0, 1, 2, 3, 4, 5 };
    gdn_set_rows_args c = FIELDS(.size = sizeof c, .n_columns = C, .n_rows = T, .n_rows_dst = T, .n_batch = { 1, 1 },
                                 .index_batch = { 1, 1 });
    c.src.data = m.q, c.dst.data = m.rows, c.dst.dtype = GDN_F16, c.index.data = (void *)index, c.index.dtype = GDN_I32;
    c.workspace = a.workspace;
    return gdn_set_rows(ctx, &c, NULL);
}

/* One mode more than gdn check has: every exception traps, inexact included. Arm processors mostly cannot. */
#if defined(__x86_64__)
enum { N_MODES = CHECK_ENV_COUNT + 1 };
#else
enum { N_MODES = CHECK_ENV_COUNT };
#endif

static sigjmp_buf trapped;

static void on_trap(int number) { siglongjmp(trapped, number); }

enum { TRAPPED = -1 };

/* Run in a mode; and the mode afterwards. */
static gdn_status run_in(gdn_context *ctx, int32_t dim, float scale, float eps, uint64_t mode, uint64_t *after)
{
    const uint64_t old = check_environment_get();
    volatile gdn_status status = TRAPPED; /* survives the jump */
    if (!sigsetjmp(trapped, 1)) {
        check_environment_put(mode);
        status = run(ctx, dim, scale, eps);
    }
    *after = check_environment_get();
    check_environment_put(old);
    return status;
}

/* The mode's bits, as the processor keeps them, and its name. */
static uint64_t mode_bits(int mode, const char **name)
{
    const uint64_t old = check_environment_enter(mode < CHECK_ENV_COUNT ? mode : CHECK_ENV_DEFAULT);
    uint64_t bits = check_environment_get();
    check_environment_put(old);
    *name = mode < CHECK_ENV_COUNT ? check_environment_name(mode) : "exceptions that trap";
#if defined(__x86_64__)
    if (mode == CHECK_ENV_COUNT) bits = old & ~(uint64_t)0x1f80;
#endif
    return bits;
}

static void modes(gdn_context *ctx, const char *implementation, int32_t dim, float scale, float eps)
{
    reset();
    REQUIRE(run(ctx, dim, scale, eps) == GDN_OK);
    memcpy(&first, &m, offsetof(memory, workspace));
    for (int mode = 0; mode < N_MODES; mode++) {
        const char *name;
        const uint64_t before = mode_bits(mode, &name);
        uint64_t after;
        reset();
        const gdn_status status = run_in(ctx, dim, scale, eps, before, &after);
        if (status == TRAPPED) {
            REQUIRE(0, "%s, dim %d, scale %a: a trap outside of the kernels", implementation, (int)dim, (double)scale);
            continue;
        }
        REQUIRE(status == GDN_OK);
        REQUIRE(before == after, "%s changed the mode \"%s\"", implementation, name);
        const unsigned char *x = (const unsigned char *)&m, *y = (const unsigned char *)&first;
        size_t differ = 0, at = 0;
        for (size_t i = offsetof(memory, workspace); i-- > 0;)
            if (x[i] != y[i]) differ++, at = i;
        REQUIRE(!differ, "%s, dim %d: %zu bytes differ with %s, the first at %zu", implementation, (int)dim, differ,
                name, at);
    }
}

/* Scales that are refused, in every mode, with the same text. */
static void refusals(gdn_context *ctx)
{
    static const struct {
        uint32_t bits;
        const char *text;
    } scales[] = { { 0x7f800000u, "scale is inf;" }, { 0x00000000u, "scale is 0;" },
                   { 0x80000000u, "scale is 0;" },   { 0xff800000u, "scale is -inf;" },
                   { 0x7fc00000u, "scale is nan;" }, { 0x7f800001u, "scale is nan;" },
                   { 0xffa00000u, "scale is -nan;" } };
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        for (int mode = 0; mode < N_MODES; mode++) {
            const char *name;
            uint64_t after;
            float scale;
            memcpy(&scale, &scales[i].bits, 4);
            REQUIRE(run_in(ctx, 16, scale, 0, mode_bits(mode, &name), &after) == GDN_INVALID_ARGUMENT,
                    "%s is not refused with %s", scales[i].text, name);
            REQUIRE(!strncmp(gdn_last_error(), scales[i].text, strlen(scales[i].text)), "\"%s\" with %s",
                    gdn_last_error(), name);
        }
}

static void target(gdn_context_desc *desc, const char *name)
{
    const int32_t dims[] = { 16, 20, 31, 64, 128, 200, 256 };
    gdn_context *ctx = NULL;
    desc->n_threads = 2;
    REQUIRE(!gdn_context_create(desc, &ctx), "%s", name);
    for (size_t d = 0; ctx && d < sizeof dims / sizeof dims[0]; d++)
        modes(ctx, name, dims[d], (float)(1.0 / sqrt((double)dims[d])), 0);
    for (int i = 0; ctx && i < 2; i++) /* subnormal: to compare one is enough to trap, or to find it zero */
        modes(ctx, name, 64, i ? -0x1p-149f : 1e-39f, 0);
    if (ctx) modes(ctx, name, 64, 0.125f, 3e-7f);
    if (ctx) refusals(ctx);
    gdn_context_destroy(ctx);
}

int main(void)
{
    const struct sigaction action = { .sa_handler = on_trap };
    (void)sigaction(SIGFPE, &action, NULL);
    printf("%d implementations in %d floating-point modes\n", each_target(ON_HOST, target), N_MODES);
    return test_summary();
}
