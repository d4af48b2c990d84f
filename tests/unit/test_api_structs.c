/* Structs of other sizes: those of older and newer callers, and what GDN_INIT puts into them. */
#include "test_api.h"

#include "core/struct_sizes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;
static gdn_ssm_conv_args *const c = &conv_args.args;
static gdn_set_rows_args *const r = &rows_args;

/* A kernel's functions, for arguments that are not in a call object: parts of other sizes, and newer structs. */
#define FUNCTIONS(stem)                                                                                                \
    static gdn_status query_##stem(const gdn_context *ctx, const void *args, gdn_capability *can)                      \
    {                                                                                                                  \
        return gdn_##stem##_query(ctx, args, can);                                                                     \
    }                                                                                                                  \
    static gdn_status run_##stem(gdn_context *ctx, const void *args, gdn_stream stream)                                \
    {                                                                                                                  \
        return gdn_##stem(ctx, args, stream);                                                                          \
    }
FUNCTIONS(gated_delta_net)
FUNCTIONS(ssm_conv)
FUNCTIONS(set_rows)
static const struct plain {
    check_kernel kernel; /* without what the text of cases needs */
    uint32_t first;
} plain[CHECK_KERNEL_COUNT] = {
    { { .name = "gated_delta_net",
        .query = query_gated_delta_net,
        .run = run_gated_delta_net,
        .args_size = sizeof(gdn_gated_delta_net_args) },
      GDN_FIRST_SIZE(gdn_gated_delta_net_args) },
    { { .name = "ssm_conv", .query = query_ssm_conv, .run = run_ssm_conv, .args_size = sizeof(gdn_ssm_conv_args) },
      GDN_FIRST_SIZE(gdn_ssm_conv_args) },
    { { .name = "set_rows", .query = query_set_rows, .run = run_set_rows, .args_size = sizeof(gdn_set_rows_args) },
      GDN_FIRST_SIZE(gdn_set_rows_args) },
};

/* A fixture's memory with plain arguments. */
static api_fixture with_plain(const api_fixture *f, const struct plain *of, void *args)
{
    api_fixture p = *f;
    p.kernel = &of->kernel;
    p.args = args;
    return p;
}

static void accept_plain(const api_fixture *f, int line)
{
    memcpy(f->before, f->memory, f->memory_bytes);
    for (int i = 0; i < api_target_count; i++) {
        gdn_capability cap = { .size = sizeof cap };
        memcpy(f->memory, f->before, f->memory_bytes);
        REQUIRE(!f->kernel->query(api_target_list[i].ctx, f->args, &cap) &&
                    !f->kernel->run(api_target_list[i].ctx, f->args, NULL),
                "line %d: %s on %s", line, f->kernel->name, api_target_list[i].name);
    }
}

/* A struct as older, newer and wrong callers have it: `copy` of `size` bytes, with room behind it, which is in *args or
 * is pointed to from there. */
static void sizes_of_struct(const api_fixture *fixture, const struct plain *of, void *args, const char *name,
                            unsigned char *copy, uint32_t size, uint32_t first)
{
    const api_fixture f = with_plain(fixture, of, args);
    const uint32_t sizes[] = { 0, 1, 3, 4, first - 8, first - 1, 65537, UINT32_MAX }, newer = size + 64;
    char text[64];
    const char *const texts[] = { text, NULL };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memcpy(copy, &sizes[i], 4);
        (void)snprintf(text, sizeof text, "%s->size is %u;", name, (unsigned)sizes[i]);
        api_refuse(&f, __LINE__, GDN_INVALID_ARGUMENT, texts);
    }
    /* A newer caller: what we do not know must be zero. */
    memcpy(copy, &newer, 4);
    memset(copy + size, 0, 65);
    for (uint32_t at = size; at < newer; at += 21) {
        copy[at] = 1;
        (void)snprintf(text, sizeof text, "%s has a member at byte %u ", name, (unsigned)at);
        api_refuse(&f, __LINE__, GDN_INVALID_ARGUMENT, texts);
        copy[at] = 0;
    }
    copy[newer] = 1; /* beyond what the caller says it has */
    accept_plain(&f, __LINE__);
    memcpy(copy, &first, 4); /* the first caller */
    memset(copy + first, 0x77, size - first + 1);
    accept_plain(&f, __LINE__);
}

static void struct_sizes(void)
{
    _Alignas(16) static unsigned char grown[2048];
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        f->reset();
        memcpy(grown, f->args, plain[k].kernel.args_size);
        sizes_of_struct(f, &plain[k], grown, "args", grown, (uint32_t)plain[k].kernel.args_size, plain[k].first);
        /* NULL for each pointer. */
        f->reset();
        memcpy(f->before, f->memory, f->memory_bytes);
        gdn_context *ctx = api_target_list[0].ctx;
        gdn_capability cap = { .size = sizeof cap };
        FAILS(plain[k].kernel.run(NULL, f->args, NULL), GDN_INVALID_ARGUMENT, "ctx is NULL");
        FAILS(plain[k].kernel.run(ctx, NULL, NULL), GDN_INVALID_ARGUMENT, "args is NULL");
        FAILS(plain[k].kernel.query(NULL, f->args, &cap), GDN_INVALID_ARGUMENT, "ctx is NULL");
        FAILS(plain[k].kernel.query(ctx, NULL, &cap), GDN_INVALID_ARGUMENT, "args is NULL");
        FAILS(plain[k].kernel.query(ctx, f->args, NULL), GDN_INVALID_ARGUMENT, "capability is NULL");
        cap.size = sizeof cap - 1;
        FAILS(plain[k].kernel.query(ctx, f->args, &cap), GDN_INVALID_ARGUMENT, "capability->size is");
        REQUIRE(!memcmp(f->memory, f->before, f->memory_bytes));
    }
}

/* Each part has a size of its own, which is judged as that of the arguments is. Its defaults are zeros, but for inputs.
 */
static void part_sizes(void)
{
    _Alignas(16) static unsigned char part[512];
    const struct plain *const delta = &plain[CHECK_KERNEL_gated_delta_net], *const conv = &plain[CHECK_KERNEL_ssm_conv];
#define PART(f, of, whole, type, name)                                                                                 \
    memcpy(part, &(whole).name, sizeof(type));                                                                         \
    a.name = (const void *)part;                                                                                       \
    sizes_of_struct(&(f), of, &a, #name, part, sizeof(type), GDN_FIRST_SIZE(type))
    { /* a chain of tokens, as a tree */
        on_delta.reset();
        with_log();
        d->n_snapshots = 0, d->state_dst.data = NULL;
        (void)inputs();
        delta_args.tree.size = sizeof(gdn_token_tree);
        gdn_gated_delta_net_args a = delta_args_of(&delta_args);
        PART(on_delta, delta, delta_args, gdn_replay_log, log);
        a = delta_args_of(&delta_args);
        PART(on_delta, delta, delta_args, gdn_delta_inputs, inputs);
        a = delta_args_of(&delta_args);
        PART(on_delta, delta, delta_args, gdn_token_tree, tree);
    }
    {
        on_delta.reset();
        d->state.dtype = GDN_BF16, d->state.bytes = 0;
        delta_args.checkpoints = (gdn_checkpoints)FIELDS(.size = sizeof(gdn_checkpoints), .interval = 9, .n = 2,
                                                         .dst = SPAN(delta_mem.checkpoint));
        delta_args.rounding = (gdn_state_rounding){ .size = sizeof(gdn_state_rounding), .interval = 1 };
        gdn_gated_delta_net_args a = delta_args_of(&delta_args);
        PART(on_delta, delta, delta_args, gdn_checkpoints, checkpoints);
        a = delta_args_of(&delta_args);
        PART(on_delta, delta, delta_args, gdn_state_rounding, rounding);
    }
    for (int tree = 0; tree < 2; tree++) {
        on_conv.reset();
        c->kernel_width = 3;
        if (tree) conv_args.tree.size = sizeof(gdn_token_tree);
        else
            conv_args.checkpoints = (gdn_checkpoints)FIELDS(.size = sizeof(gdn_checkpoints), .interval = 99, .n = 2,
                                                            .dst = SPAN(conv_mem.checkpoint));
        gdn_ssm_conv_args a = conv_args_of(&conv_args);
        if (tree) {
            PART(on_conv, conv, conv_args, gdn_token_tree, tree);
        } else {
            PART(on_conv, conv, conv_args, gdn_checkpoints, checkpoints);
        }
    }
}

/* Zeros are not what GDN_INIT makes: of the valid call one member after another that it sets. gdn_struct_init()
 * gives what it does. */
static void initialised(void)
{
    const gdn_gated_delta_net_args delta = GDN_INIT(gdn_gated_delta_net_args);
    const gdn_delta_inputs plain_inputs = GDN_INIT(gdn_delta_inputs);
    const gdn_set_rows_args rows = GDN_INIT(gdn_set_rows_args);
    gdn_gated_delta_net_args zeroed = { .size = sizeof zeroed };
    REQUIRE(delta.n_snapshots == 1 && delta.state.n_slots == 1 && delta.state_out.n_slots == 1 && delta.scale == 0);
    REQUIRE(plain_inputs.beta_factor == 1 && rows.n_batch[0] == 1 && rows.n_batch[1] == 1 && rows.index_batch[0] == 1 &&
            rows.index_batch[1] == 1);
    on_delta.reset();
    const api_fixture zeros = with_plain(&on_delta, &plain[CHECK_KERNEL_gated_delta_net], &zeroed);
    api_refuse(&zeros, __LINE__, GDN_INVALID_ARGUMENT, (const char *const[]){ " is 0; ", NULL });
    REFUSED(on_delta, (d->state.n_slots = 0, d->n_snapshots = 0, d->scale = 0), "scale is 0; set it",
            "usually 1 / sqrt(head_dim_k)", "zeros alone do not");
    REFUSED(on_delta, d->state.n_slots = 0, "state.n_slots is 0; 1 to");
    REFUSED(on_delta, inputs()->beta_factor = 0, "inputs.beta_factor is 0");
    REFUSED(on_rows, memset(r->n_batch, 0, sizeof r->n_batch + sizeof r->index_batch), "n_batch[0] is 0");
#define INIT(type, last, first_size)                                                                                   \
    do {                                                                                                               \
        const type wanted = GDN_INIT(type);                                                                            \
        type now;                                                                                                      \
        memset(&now, 0xab, sizeof now);                                                                                \
        REQUIRE(gdn_struct_init(#type, &now, sizeof now) == GDN_OK);                                                   \
        REQUIRE(!memcmp(&now, &wanted, sizeof now));                                                                   \
        REQUIRE(gdn_struct_init(#type, NULL, sizeof now) == GDN_INVALID_ARGUMENT);                                     \
        FAILS(gdn_struct_init(#type, &now, 0), GDN_INVALID_ARGUMENT, "size is 0; pass sizeof(" #type ")");             \
        REQUIRE(gdn_struct_init(#type, &now, (uint32_t)GDN_FIRST_SIZE(type) - 1) == GDN_INVALID_ARGUMENT);             \
        REQUIRE(gdn_struct_init(#type, &now, 65537) == GDN_INVALID_ARGUMENT);                                          \
        REQUIRE(!memcmp(&now, &wanted, sizeof now));                                                                   \
    } while (0);
    GDN_FIRST_STRUCTS(INIT)
#undef INIT
    gdn_delta_inputs now;
    FAILS(gdn_struct_init("gdn_delta_input", &now, sizeof now), GDN_INVALID_ARGUMENT, "name is 'gdn_delta_input'");
    FAILS(gdn_struct_init(NULL, &now, sizeof now), GDN_INVALID_ARGUMENT, "name is NULL");
}

void test_api_structs(void)
{
    struct_sizes();
    part_sizes();
    initialised();
}
