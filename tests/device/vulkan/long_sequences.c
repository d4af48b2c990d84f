/* Calls that go round loops more often than Mesa's driver for CPUs lets an invocation do, which then says nothing
 * (vulkan/rounds.c): sequences at the bound, beyond it and far beyond have the CPU backend's bits, and what cannot be
 * cut is refused there. On GPUs nothing is cut or refused, and the bits are the same. */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "check/calls.h"

enum { VALUES = 16, PLACE = 256, MOST = 6, KERNEL = 4, LEAVES = 30 };

/* All operands lie in one buffer. They are laid out twice in the same order: first to fill the host's copy, then, with
 * the span of a backend's buffer, for the call. */
typedef struct room {
    gdn_span all;
    char *host; /* filled once */
    uint64_t at, bytes;
    int filling;
    uint32_t random;
} room;

static gdn_tensor place(room *r, uint64_t words)
{
    const gdn_tensor t = { .data = r->all.data, .offset = r->all.offset + r->at, .bytes = 4 * words };
    r->at += (4 * words + PLACE - 1) / PLACE * PLACE;
    if (r->filling && r->at > r->bytes) {
        r->host = realloc(r->host, (size_t)r->at);
        REQUIRE(r->host != NULL);
        memset(r->host + r->bytes, 0, (size_t)(r->at - r->bytes));
        r->bytes = r->at;
    }
    return t;
}

/* Values of least .. least + wide. */
static gdn_tensor values(room *r, uint64_t words, float least, float wide)
{
    const gdn_tensor t = place(r, words);
    for (uint64_t i = 0; r->filling && i < words; i++) {
        r->random = r->random * 1664525u + 1013904223u;
        const float x = least + wide * ((float)(r->random >> 8) / 16777216.0f);
        memcpy(r->host + t.offset + 4 * i, &x, 4);
    }
    return t;
}

/* Numbers of 16 bits, of either sign and between 1/16 and 1/2. */
static gdn_tensor halves(room *r, uint64_t n, int32_t dtype)
{
    gdn_tensor t = place(r, (n + 1) / 2);
    t.dtype = dtype;
    for (uint64_t i = 0; r->filling && i < n; i++) {
        r->random = r->random * 1664525u + 1013904223u;
        const uint32_t x = r->random >> 8, magnitude = dtype == GDN_F16 ? 0x2c00u + x % 0xc00u : 0x3d80u + x % 0x180u;
        const uint16_t half = (uint16_t)(magnitude | (x >> 8 & 0x8000u));
        memcpy(r->host + t.offset + 2 * i, &half, 2);
    }
    return t;
}

/* The memory of a pool. */
static void in_pool(gdn_pool *pool, gdn_tensor t)
{
    pool->data = t.data, pool->offset = t.offset, pool->bytes = t.bytes, pool->dtype = t.dtype;
}

/* A map. Its words are returned where they can still be written, else NULL. */
static int32_t *map(room *r, uint64_t words, gdn_span *span)
{
    const gdn_tensor t = place(r, words);
    *span = (gdn_span){ t.data, t.offset, t.bytes };
    return r->filling ? (int32_t *)(void *)(r->host + t.offset) : NULL;
}

/* seq_start of sequences with these lengths. */
static int32_t starts(room *r, int n, const int32_t *lengths, gdn_span *span)
{
    int32_t first = 0, *const begins = map(r, (uint64_t)n + 1, span);
    for (int s = 0; s <= n; s++) {
        if (begins) begins[s] = first;
        if (s < n) first += lengths[s];
    }
    return first;
}

/* ---- A call on both backends ---- */

typedef struct call call;
struct call {
    const char *what;
    int n_seqs;
    int32_t lengths[MOST];
    int32_t keys;
    int checkpoints;      /* with an interval of 1 */
    int full;             /* gates per channel, raw, norms; a snapshot and a checkpoint of each token */
    int tree;             /* a branch, and at its end LEAVES tokens that all follow the same one */
    int columns;          /* of the log or the history, besides the usual */
    int32_t state, every; /* type of states, and after how many tokens they are rounded */
    int refused;          /* on a device that ends loops */
    int reported;         /* there, as a bad map */
};

/* Lays the operands out; asks, with the workspace and `can`, or runs. */
typedef gdn_status call_fn(gdn_context *ctx, const call *c, room *r, const gdn_span *workspace, gdn_capability *can);

static int ends(const gdn_context *ctx)
{
    return ctx->backend->id == GDN_BACKEND_VULKAN && gdn_vulkan_ends_loops(ctx->state);
}

/* What a backend leaves in the buffer; NULL where it says that it cannot. */
static char *result_of(gdn_context *ctx, const call *c, const room *filled, call_fn *fn, gdn_capability *can)
{
    room r = *filled;
    gdn_span workspace = { 0 };
    char *const result = malloc((size_t)r.bytes);
    *can = (gdn_capability){ .size = sizeof *can };
    REQUIRE(result && gdn_buffer_create(ctx, r.bytes, &r.all) == GDN_OK &&
            gdn_buffer_write(ctx, &r.all, 0, r.host, r.bytes) == GDN_OK);
    REQUIRE(fn(ctx, c, &r, &workspace, can) == GDN_OK);
    if (can->supported) {
        if (can->workspace_bytes) REQUIRE(gdn_buffer_create(ctx, can->workspace_bytes, &workspace) == GDN_OK);
        REQUIRE(fn(ctx, c, &r, &workspace, NULL) == GDN_OK);
        const gdn_status status = gdn_synchronize(ctx, NULL);
        REQUIRE(status == (c->reported && ends(ctx) ? GDN_BAD_MAP : GDN_OK));
        REQUIRE(!status || strstr(gdn_last_error(), "parent"));
        REQUIRE(gdn_buffer_read(ctx, &r.all, 0, result, r.bytes) == GDN_OK);
        if (can->workspace_bytes) gdn_buffer_destroy(ctx, &workspace);
    } else {
        REQUIRE(fn(ctx, c, &r, &workspace, NULL) == GDN_UNSUPPORTED);
    }
    gdn_buffer_destroy(ctx, &r.all);
    return result;
}

static void compare(gdn_context *ctx, gdn_context *host, const call *c, call_fn *fn)
{
    const int before = test_failed;
    gdn_capability can;
    room r = { .filling = 1, .random = 1 };
    (void)fn(NULL, c, &r, NULL, NULL);
    r.filling = 0;
    char *const got = result_of(ctx, c, &r, fn, &can);
    REQUIRE(can.supported == !(ends(ctx) && c->refused));
    if (can.supported && !(ends(ctx) && c->reported)) {
        char *const want = result_of(host, c, &r, fn, &can);
        REQUIRE(!memcmp(got, want, (size_t)r.bytes));
        free(want);
    } else if (!can.supported) {
        REQUIRE(strstr(can.reason, "n_tokens is"));
    }
    (void)printf("%-55s %s\n", c->what, test_failed == before ? "ok" : "FAILED");
    free(got);
    free(r.host);
}

/* ---- gated_delta_net ---- */

static delta_call delta(const call *c, room *r)
{
    delta_call a = { .args = GDN_INIT(gdn_gated_delta_net_args) };
    a.args.n_seqs = c->n_seqs;
    a.args.n_heads_k = a.args.n_heads_v = 1;
    a.args.scale = 0.125f;
    const int32_t T = starts(r, c->n_seqs, c->lengths, &a.args.seq_start);
    const uint64_t t = (uint64_t)T, keys = (uint64_t)c->keys, state = keys * VALUES;
    int32_t longest = 0;
    for (int s = 0; s < c->n_seqs; s++) longest = c->lengths[s] > longest ? c->lengths[s] : longest;
    a.args.n_tokens = T;
    a.args.head_dim_k = c->keys;
    a.args.head_dim_v = VALUES;
    a.args.state.n_rows = c->n_seqs;
    a.args.state.n_slots = c->full ? 2 * T + 1 : 3;
    a.args.gate = c->full ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR;
    a.args.q = values(r, t * keys, -0.5f, 1);
    a.args.k = values(r, t * keys, -0.5f, 1);
    a.args.v = values(r, t * VALUES, -0.5f, 1);
    a.args.g = values(r, c->full ? t * keys : t, -0.1f, 0.1f);
    a.args.beta = values(r, t, 0, 1);
    const uint64_t numbers = (uint64_t)a.args.state.n_rows * (uint64_t)a.args.state.n_slots * state;
    in_pool(&a.args.state, c->state ? halves(r, numbers, c->state) : values(r, numbers, -0.5f, 1));
    if (c->every) a.rounding = (gdn_state_rounding){ .size = sizeof a.rounding, .interval = c->every };
    a.args.out = place(r, t * VALUES);
    if (c->every > 1 && !c->tree) { /* which takes a log; nobody has a row */
        a.log = (gdn_replay_log){ .size = sizeof a.log, .entries = { .n_rows = 1, .n_slots = 1 } };
        in_pool(&a.log.entries, values(r, keys + VALUES + 1, 0.25f, 0.25f));
        int32_t *const row = map(r, (uint64_t)c->n_seqs, &a.log.row);
        for (int s = 0; row && s < c->n_seqs; s++) row[s] = GDN_NONE;
    }
    if (c->full || c->checkpoints || c->tree || c->every > 1) {
        int32_t *const position = map(r, (uint64_t)c->n_seqs, &a.args.position);
        for (int s = 0; position && s < c->n_seqs; s++) position[s] = c->tree ? 3 : 0;
    }
    if (c->full || c->checkpoints) { /* the plain form keeps the first token's state, and those around its bound */
        a.checkpoints = (gdn_checkpoints){ .size = sizeof a.checkpoints, .interval = 1, .n = longest };
        int32_t *const entry = map(r, (uint64_t)c->n_seqs * (uint64_t)longest, &a.checkpoints.dst);
        for (int64_t i = 0; entry && i < (int64_t)c->n_seqs * longest; i++)
            entry[i] = c->full ? 1 + (int32_t)i
                       : i % longest == 16358 || i % longest == 20000
                           ? 3 * (int32_t)(i / longest) + (i % longest == 20000 ? 2 : 1)
                           : GDN_NONE;
    }
    if (c->full || c->tree) {
        a.inputs = (gdn_delta_inputs)GDN_INIT(gdn_delta_inputs);
        a.inputs.qk_norm = GDN_NORM_ADD;
        a.inputs.qk_norm_eps = 1e-6f;
    }
    if (c->full) { /* of one sequence */
        a.args.n_snapshots = T;
        int32_t *const entry = map(r, t, &a.args.state_dst);
        for (int32_t i = 0; entry && i < T; i++) entry[i] = 1 + T + i;
        a.inputs.gate_input = GDN_G_RAW;
        a.inputs.ssm_a = values(r, 1, -0.5f, 0);
    }
    if (c->tree) {
        const int32_t slots = longest + c->columns;
        a.args.n_snapshots = 0;
        a.tree.size = sizeof a.tree;
        a.log = (gdn_replay_log){ .size = sizeof a.log, .entries = { .n_rows = c->n_seqs, .n_slots = slots } };
        in_pool(&a.log.entries, values(r, (uint64_t)c->n_seqs * (uint64_t)slots * (keys + VALUES + 1), 0.25f, 0.25f));
        int32_t *const base_position = map(r, (uint64_t)c->n_seqs, &a.log.base_position);
        for (int s = 0; base_position && s < c->n_seqs; s++) base_position[s] = c->columns ? 0 : 3;
        int32_t *const commit = map(r, (uint64_t)c->n_seqs, &a.log.commit);
        for (int s = 0; commit && s < c->n_seqs; s++) commit[s] = s % 2 ? GDN_NONE : 3 * s + 1;
        int32_t *const parent = map(r, t, &a.tree.parent);
        for (int32_t s = 0, first = 0; parent && s < c->n_seqs; first += c->lengths[s++])
            for (int32_t i = 0; i < c->lengths[s]; i++)
                parent[first + i] = i < c->lengths[s] - LEAVES ? i - 1 : c->lengths[s] - LEAVES - 1;
    }
    return a;
}

/* ---- ssm_conv ---- */

enum { CHANNELS = 2 };

static conv_call conv(const call *c, room *r)
{
    conv_call a = FIELDS(.args = FIELDS(.size = sizeof a.args, .n_seqs = c->n_seqs, .n_channels = CHANNELS,
                                        .kernel_width = KERNEL, .activation = GDN_ACTIVATION_SILU));
    int32_t *const begins = map(r, (uint64_t)c->n_seqs + 1, &a.args.seq_start);
    int32_t first = 0; /* sequences of 40 tokens, of lengths[1] tokens as many as there are, and of lengths[0] */
    for (int32_t s = 0; s <= c->n_seqs; s++) {
        if (begins) begins[s] = first;
        first += s == 0 ? 40 : s == c->n_seqs - 1 ? c->lengths[0] : s < c->n_seqs ? c->lengths[1] : 0;
    }
    a.args.n_tokens = first;
    a.args.history.n_rows = c->n_seqs;
    a.args.history.n_slots = KERNEL - 1 + c->columns;
    a.args.x = values(r, (uint64_t)first * CHANNELS, -1, 2);
    a.args.weight = values(r, CHANNELS * KERNEL, -1, 2);
    in_pool(&a.args.history,
            values(r, (uint64_t)a.args.history.n_rows * (uint64_t)a.args.history.n_slots * CHANNELS, -1, 2));
    a.args.out = place(r, (uint64_t)first * CHANNELS);
    int32_t *const position = map(r, (uint64_t)c->n_seqs, &a.args.position);
    for (int32_t s = 0; position && s < c->n_seqs; s++) position[s] = s % 3 * 2;
    if (c->checkpoints) {
        a.checkpoints = (gdn_checkpoints){ .size = sizeof a.checkpoints, .interval = 1, .n = c->lengths[0] };
        int32_t *const row = map(r, (uint64_t)c->n_seqs * (uint64_t)a.checkpoints.n, &a.checkpoints.dst);
        for (int64_t i = 0; row && i < (int64_t)c->n_seqs * a.checkpoints.n; i++) row[i] = GDN_NONE;
    }
    return a;
}

/* ---- set_rows ---- */

static gdn_set_rows_args rows(const call *c, room *r)
{
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    a.n_columns = 2, a.n_rows = c->lengths[0], a.n_rows_dst = c->lengths[1];
    a.src = values(r, 2 * (uint64_t)c->lengths[0], -1, 2);
    a.dst = values(r, 2 * (uint64_t)c->lengths[1], -1, 2);
    gdn_span span;
    int32_t *const index = map(r, (uint64_t)c->lengths[0], &span);
    for (int32_t i = 0; index && i < c->lengths[0]; i++) {
        r->random = r->random * 1664525u + 1013904223u;
        index[i] = (int32_t)(r->random >> 8) % (c->lengths[1] + 1) - 1;
    }
    a.index = (gdn_tensor){ .data = span.data, .offset = span.offset, .bytes = span.bytes, .dtype = GDN_I32 };
    return a;
}

/* ---- Calling ---- */

#define CALL(name, type, workspace_of, query, run)                                                                     \
    static gdn_status call_##name(gdn_context *ctx, const call *c, room *r, const gdn_span *workspace,                 \
                                  gdn_capability *can)                                                                 \
    {                                                                                                                  \
        r->at = 0;                                                                                                     \
        type a = name(c, r);                                                                                           \
        if (!ctx) return GDN_OK;                                                                                       \
        a.workspace_of = *workspace;                                                                                   \
        return can ? query(ctx, &a, can) : run(ctx, &a, NULL);                                                         \
    }
CALL(delta, delta_call, args.workspace, delta_query, delta_run)
CALL(conv, conv_call, args.workspace, conv_query, conv_run)
CALL(rows, gdn_set_rows_args, workspace, gdn_set_rows_query, gdn_set_rows)

int long_sequences(void)
{
    static const call deltas[] = {
        { "as many tokens as one dispatch has", 1, { 65439 }, 32, .checkpoints = 0 },
        { "one token more, beside sequences that end before", 4, { 3, 65440, 0, 66000 }, 32, .checkpoints = 0 },
        { "as many with checkpoints", 1, { 16359 }, 32, .checkpoints = 1 },
        { "one token more with checkpoints", 4, { 16360, 0, 2, 40000 }, 32, .checkpoints = 1 },
        { "everything but a log, in blocks of keys", 1, { 2100 }, 33, .full = 1 },
        { "trees of a long branch that ends in many", 2, { 400, 1000 }, 33, .tree = 1, .columns = 3 },
        { "states of 16 bits, one token more than a dispatch has", 3, { 13087, 5, 14000 }, 128, .state = GDN_F16 },
        { "states of 16 bits, cut where they are not rounded",
          4,
          { 7, 4102, 0, 2002 },
          33,
          .state = GDN_BF16,
          .every = 7 },
        { "trees with states of 16 bits", 2, { 200, 600 }, 33, .tree = 1, .columns = 3, .state = GDN_F16, .every = 2 },
        { "a log that takes too long to repeat", 1, { 16 }, 33, .tree = 1, .columns = 20000, .refused = 1 },
        { "a tree that is too deep", 2, { 4000, 5 }, 33, .tree = 1, .reported = 1 },
    };
    static const call convs[] = {
        { "a long convolution", 3, { 70000, 5 }, .columns = 0 },
        { "a long convolution beside many short ones", 5000, { 70000, 1 }, .columns = 2 },
        { "more sequences without tokens than loops have rounds", 70000, { 1200000, 0 }, .columns = 0 },
        { "a history of too many columns", 2, { 100, 0 }, .columns = 70000, .refused = 1 },
        { "too many checkpoints on the way", 2, { 20000, 0 }, .checkpoints = 1, .refused = 1 },
    };
    static const call many = { "many rows, half of them written again", 1, { 600000, 300000 }, 0 };
    gdn_context *ctx = NULL, *host = NULL;
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_VULKAN };
    const gdn_context_desc with = { .size = sizeof with, .backend = GDN_BACKEND_CPU };
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK && gdn_context_create(&with, &host) == GDN_OK);
    for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) compare(ctx, host, &deltas[i], call_delta);
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) compare(ctx, host, &convs[i], call_conv);
    compare(ctx, host, &many, call_rows);
    gdn_context_destroy(ctx);
    gdn_context_destroy(host);
    return test_summary();
}
