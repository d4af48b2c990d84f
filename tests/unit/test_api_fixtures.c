/* The fixtures of the API test. See test_api.h. */
#include "test_api.h"

#include "tests/unit/targets.h"

#include <stdio.h>
#include <string.h>

api_target api_target_list[API_MAX_TARGETS];
int api_target_count;

delta_call delta_args;
conv_call conv_args;
gdn_set_rows_args rows_args;
delta_memory delta_mem;
conv_memory conv_mem;
rows_memory rows_mem;

/* ---- Contexts ------------------------------------------------------------------------------------------ */

static void open_target(gdn_context_desc *desc, const char *name)
{
    api_target *t = &api_target_list[api_target_count++];
    NEED(api_target_count <= API_MAX_TARGETS);
    desc->n_threads = API_THREADS;
    NEED(!gdn_context_create(desc, &t->ctx), "%s", name);
    (void)snprintf(t->name, sizeof t->name, "%s", name);
}

void api_open_targets(void)
{
    (void)each_target(1 << GDN_BACKEND_REFERENCE, open_target);
    REQUIRE(each_target(1 << GDN_BACKEND_CPU, open_target) > 0);
}

void api_close_targets(void)
{
    while (api_target_count > 0) gdn_context_destroy(api_target_list[--api_target_count].ctx);
}

/* ---- The valid calls ----------------------------------------------------------------------------------- */

/* Values that are different everywhere and mean nothing. */
static void fill(float *x, size_t n, float low, float high)
{
    static uint32_t state;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = low + (high - low) * (float)(state >> 8) * 0x1p-24f;
    }
}

#define FILL(array, low, high) fill(array, sizeof(array) / sizeof((array)[0]), low, high)
#define TENSOR(array)                                                                                                  \
    {                                                                                                                  \
        .data = (array), .bytes = sizeof(array)                                                                        \
    }

static void delta_reset(void)
{
    static delta_memory m;
    static int made;
    if (!made) {
        FILL(m.q, -1, 1), FILL(m.k, -0.3f, 0.3f), FILL(m.v, -1, 1), FILL(m.g, -0.5f, 0), FILL(m.beta, 0, 1);
        FILL(m.out, -9, -8), FILL(m.state, -1, 1), FILL(m.state_out, -9, -8), FILL(m.fused, -0.3f, 0.3f);
        FILL(m.log, -0.3f, 0.3f);
        memcpy(m.seq_start, (int32_t[]){ 0, 2, 5 }, sizeof m.seq_start);
        memcpy(m.state_src, (int32_t[]){ 0, 3 }, sizeof m.state_src);
        memcpy(m.state_dst, (int32_t[]){ 1, 0, 2, GDN_NONE }, sizeof m.state_dst);
        memset(m.workspace, 0x5a, sizeof m.workspace);
        made = 1;
    }
    memcpy(&delta_mem, &m, sizeof m);
    delta_args =
        (delta_call){ .args =
                          FIELDS(.size = sizeof delta_args.args, .n_seqs = 2, .n_tokens = 5, .n_heads_k = 2,
                                 .n_heads_v = 4, .head_dim_k = 16, .head_dim_v = 32, .n_snapshots = 2, .scale = 0.25f,
                                 .q = TENSOR(delta_mem.q), .k = TENSOR(delta_mem.k), .v = TENSOR(delta_mem.v),
                                 .g = { .data = delta_mem.g, .bytes = 5 * 4 * 4 }, .beta = TENSOR(delta_mem.beta),
                                 .out = TENSOR(delta_mem.out), .state = POOL(delta_mem.state, 3, 2),
                                 .seq_start = SPAN(delta_mem.seq_start), .state_src = SPAN(delta_mem.state_src),
                                 .state_dst = SPAN(delta_mem.state_dst), .workspace = SPAN(delta_mem.workspace)) };
    inputs()->read_key = delta_args.args.k;
}

void with_log(void)
{
    delta_args.args.position = SPAN(delta_mem.position);
    delta_args.log = (gdn_replay_log)GDN_INIT(gdn_replay_log);
    delta_args.log.entries = (gdn_pool)POOL(delta_mem.log, API_LOG_ROWS, API_LOG_SLOTS);
    delta_args.log.row = SPAN(delta_mem.log_row);
    delta_args.log.base_position = SPAN(delta_mem.base_position);
    delta_args.log.commit = SPAN(delta_mem.commit);
    MAP(delta_mem.position, 7, 4);
    MAP(delta_mem.base_position, 4, 2);
    MAP(delta_mem.log_row, 2, 0);
    MAP(delta_mem.commit, 4, 3);
}

gdn_delta_inputs *inputs(void)
{
    if (!delta_args.inputs.size) delta_args.inputs = (gdn_delta_inputs)GDN_INIT(gdn_delta_inputs);
    return &delta_args.inputs;
}

static void conv_reset(void)
{
    static conv_memory m;
    static int made;
    if (!made) {
        FILL(m.x, -1, 1), FILL(m.weight, -1, 1), FILL(m.bias, -1, 1), FILL(m.out, -9, -8), FILL(m.history, -1, 1);
        FILL(m.history_out, -9, -8);
        memcpy(m.seq_start, (int32_t[]){ 0, 2, 5 }, sizeof m.seq_start);
        memcpy(m.position, (int32_t[]){ 7, 1 }, sizeof m.position);
        memcpy(m.history_src, (int32_t[]){ 0, 1 }, sizeof m.history_src);
        memcpy(m.history_dst, (int32_t[]){ 0, 2 }, sizeof m.history_dst);
        memset(m.workspace, 0x5a, sizeof m.workspace);
        made = 1;
    }
    memcpy(&conv_mem, &m, sizeof m);
    conv_args =
        (conv_call){ .args = FIELDS(.size = sizeof conv_args.args, .n_seqs = 2, .n_tokens = 5, .n_channels = 20,
                                    .kernel_width = 4, .activation = GDN_ACTIVATION_SILU, .x = TENSOR(conv_mem.x),
                                    .weight = TENSOR(conv_mem.weight), .bias = TENSOR(conv_mem.bias),
                                    .out = TENSOR(conv_mem.out), .history = POOL(conv_mem.history, 3, 5),
                                    .seq_start = SPAN(conv_mem.seq_start), .position = SPAN(conv_mem.position),
                                    .history_src = SPAN(conv_mem.history_src),
                                    .history_dst = SPAN(conv_mem.history_dst), .workspace = SPAN(conv_mem.workspace)) };
}

static void rows_reset(void)
{
    static rows_memory m;
    static int made;
    if (!made) {
        FILL(m.src, -100, 100);
        memset(m.dst, 0x77, sizeof m.dst);
        memcpy(m.index, (int64_t[]){ 4, GDN_NONE, 0 }, sizeof m.index);
        memcpy(m.index32, (int32_t[]){ 4, GDN_NONE, 0 }, sizeof m.index32);
        memset(m.workspace, 0x5a, sizeof m.workspace);
        made = 1;
    }
    memcpy(&rows_mem, &m, sizeof m);
    rows_args =
        (gdn_set_rows_args)FIELDS(.size = sizeof rows_args, .n_columns = 32, .n_rows = 3, .n_rows_dst = 5,
                                  .n_batch = { 2, 1 }, .index_batch = { 1, 1 }, .src = TENSOR(rows_mem.src),
                                  .dst = { .data = rows_mem.dst, .bytes = sizeof rows_mem.dst, .dtype = GDN_F16 },
                                  .index = { .data = rows_mem.index, .bytes = sizeof rows_mem.index, .dtype = GDN_I64 },
                                  .workspace = SPAN(rows_mem.workspace));
}

#define FIXTURE(stem, short, type)                                                                                     \
    static short##_memory short##_before, short##_first;                                                               \
    static type short##_args_copy;                                                                                     \
    const api_fixture on_##short = { &check_kernel_##stem, &short##_args,                                              \
                                     &short##_args_copy,   &short##_mem,                                               \
                                     &short##_before,      &short##_first,                                             \
                                     sizeof short##_mem,   offsetof(short##_memory, workspace),                        \
                                     short##_reset }
FIXTURE(gated_delta_net, delta, delta_call);
FIXTURE(ssm_conv, conv, conv_call);
FIXTURE(set_rows, rows, gdn_set_rows_args);
const api_fixture *const api_fixtures[CHECK_KERNEL_COUNT] = { &on_delta, &on_conv, &on_rows };

const check_operand *api_next(const api_fixture *f, const check_operand *o, int map)
{
    f->reset();
    for (o = o ? o + 1 : f->kernel->operand; o->name; o++)
        if ((o->n_axes == CHECK_MAP) == map && *check_data(f->args, o)) return o;
    return NULL;
}

/* ---- Verdicts ------------------------------------------------------------------------------------------ */

/* Where the n bytes first differ; n where they are equal. */
static size_t same_until(const void *a, const void *b, size_t n)
{
    size_t at = 0;
    if (memcmp(a, b, n))
        while (((const unsigned char *)a)[at] == ((const unsigned char *)b)[at]) at++;
    else at = n;
    return at;
}

static void require_unchanged(const api_fixture *f, const api_target *t, int line, const char *call)
{
    const size_t at = same_until(f->memory, f->before, f->memory_bytes);
    REQUIRE(at == f->memory_bytes, "line %d: %s on %s failed, but wrote byte %zu", line, call, t->name, at);
    REQUIRE(!memcmp(f->args, f->args_copy, f->kernel->args_size), "line %d: %s on %s", line, call, t->name);
}

void api_refuse(const api_fixture *f, int line, gdn_status status, const char *const *texts)
{
    memcpy(f->before, f->memory, f->memory_bytes);
    memcpy(f->args_copy, f->args, f->kernel->args_size);
    for (int i = 0; i < api_target_count; i++) {
        const api_target *t = &api_target_list[i];
        const gdn_status got = f->kernel->run(t->ctx, f->args, NULL);
        REQUIRE(got == status, "line %d: %s on %s gave %s, not %s", line, f->kernel->name, t->name,
                gdn_status_name(got), gdn_status_name(status));
        char said[512];
        (void)snprintf(said, sizeof said, "%s", gdn_last_error());
        for (const char *const *text = texts; *text; text++)
            REQUIRE(strstr(said, *text), "line %d: %s on %s says \"%s\" without \"%s\"", line, f->kernel->name, t->name,
                    said, *text);
        require_unchanged(f, t, line, f->kernel->name);

        /* A query need not see what only the run can see, such as the contents of maps. */
        gdn_capability c;
        memset(&c, 0xab, sizeof c);
        c.size = sizeof c;
        const gdn_status query = f->kernel->query(t->ctx, f->args, &c);
        REQUIRE(!query || (query == status && !strcmp(said, gdn_last_error())), "line %d: the run on %s says \"%s\"",
                line, t->name, said);
        REQUIRE(!query || (!c.supported && !c.exact && !c.workspace_bytes && !c.implementation[0] &&
                           !strncmp(c.reason, said, sizeof c.reason - 1)),
                "line %d: the query on %s: \"%s\"", line, t->name, c.reason);
        require_unchanged(f, t, line, "the query");
    }
}

static unsigned char allowed[sizeof(delta_memory) + sizeof(conv_memory) + sizeof(rows_memory)];

static void allow(void *user, const gdn_tensor *of, unsigned char *at, uint64_t bytes)
{
    const api_fixture *f = user;
    (void)of;
    memcpy(allowed + (at - (unsigned char *)f->memory), at, (size_t)bytes);
}

/* The memory is what it was, but for what the call may write. */
static void require_confined(const api_fixture *f, int line)
{
    const check_writes writes = { .user = (void *)(uintptr_t)f, .may = allow };
    memcpy(allowed, f->before, f->memory_bytes);
    const char *wrong = f->kernel->writes(f->args, &writes);
    REQUIRE(!wrong, "line %d: %s was accepted with a bad value in %s", line, f->kernel->name, wrong);
    const size_t at = same_until(f->memory, allowed, f->result_bytes);
    REQUIRE(at == f->result_bytes, "line %d: %s wrote byte %zu, which it may not", line, f->kernel->name, at);
}

static void run_and_compare(const api_fixture *f, int line, int is_first)
{
    memcpy(f->before, f->memory, f->memory_bytes);
    for (int i = 0; i < api_target_count; i++) {
        const api_target *t = &api_target_list[i];
        gdn_capability c = { .size = sizeof c };
        memcpy(f->memory, f->before, f->memory_bytes);
        REQUIRE(!f->kernel->query(t->ctx, f->args, &c) && c.supported && c.exact, "line %d, on %s: %s", line, t->name,
                c.reason);
        REQUIRE(c.workspace_bytes <= API_WORKSPACE);
        gdn_span *workspace = check_workspace(f->kernel, f->args);
        if (workspace->data) workspace->bytes = c.workspace_bytes; /* one byte more would be written unnoticed */
        REQUIRE(!f->kernel->run(t->ctx, f->args, NULL), "line %d: %s on %s", line, f->kernel->name, t->name);
        if (i == 0) require_confined(f, line);
        if (is_first && i == 0) memcpy(f->first, f->memory, f->memory_bytes);
        size_t at = same_until(f->memory, f->first, f->result_bytes);
        REQUIRE(at == f->result_bytes, "line %d: %s on %s: byte %zu", line, f->kernel->name, t->name, at);
        for (at += (size_t)c.workspace_bytes; at < f->memory_bytes && ((unsigned char *)f->memory)[at] == 0x5a;) at++;
        REQUIRE(at == f->memory_bytes, "line %d: %s on %s wrote byte %zu, behind its workspace", line, f->kernel->name,
                t->name, at);
    }
}

void api_accept(const api_fixture *f, int line) { run_and_compare(f, line, 1); }

void api_same_as_first(const api_fixture *f, int line) { run_and_compare(f, line, 0); }
