/* Bytes to a call. See fuzz_args.h. gdn check's builder makes a valid call of a drawn specification; then, for four
 * inputs in ten, up to three things are made wrong with it. `bytes` members never claim more memory than there is.
 * Two takes never stand in one expression, or list of arguments, whose parts a compiler may compute in either order: an
 * input is the same call with every compiler. */
#include "fuzz_args_source.h"

#include <string.h>

#include "core/struct_sizes.h"
#include "check/specs.h"

#define PIECE(call, member, type, pointer)                                                                             \
    {                                                                                                                  \
        offsetof(call, member), sizeof(type), GDN_FIRST_SIZE(type), pointer                                            \
    }
#define DELTA(member, type) PIECE(delta_call, member, type, offsetof(gdn_gated_delta_net_args, member))
#define CONV(member, type)  PIECE(conv_call, member, type, offsetof(gdn_ssm_conv_args, member))
static const fuzz_piece delta_pieces[] = {
    PIECE(delta_call, args, gdn_gated_delta_net_args, 0),
    DELTA(inputs, gdn_delta_inputs),
    DELTA(log, gdn_replay_log),
    DELTA(checkpoints, gdn_checkpoints),
    DELTA(tree, gdn_token_tree),
    DELTA(rounding, gdn_state_rounding),
};
static const fuzz_piece conv_pieces[] = {
    PIECE(conv_call, args, gdn_ssm_conv_args, 0),
    CONV(checkpoints, gdn_checkpoints),
    CONV(tree, gdn_token_tree),
};
static const fuzz_piece rows_pieces[] = { { 0, sizeof(gdn_set_rows_args), GDN_FIRST_SIZE(gdn_set_rows_args), 0 } };

static void pieces_of(fuzz_call *c)
{
    const int delta = c->kernel == &check_kernel_gated_delta_net, conv = c->kernel == &check_kernel_ssm_conv;
    c->piece = delta ? delta_pieces : conv ? conv_pieces : rows_pieces;
    c->n_pieces = delta ? 6 : conv ? 3 : 1;
    for (int i = 0; i < c->n_pieces; i++) c->used[i] = *fuzz_size(c, i) != 0;
}

/* Small pools and little arithmetic, which an instrumented reference takes most of the time for. */
static void draw(fuzz_call *c, check_case *made, check_rng *rng)
{
    check_spec spec;
    check_case_init(made, c->kernel);
    if (c->kernel == &check_kernel_gated_delta_net) delta_random(&spec.gated_delta_net, rng, 20000);
    else if (c->kernel == &check_kernel_ssm_conv) conv_random(&spec.ssm_conv, rng);
    else rows_random(&spec.set_rows, rng);
    c->kernel->build(made, &spec, rng);
}

static int fits(const check_case *made)
{
    uint64_t bytes = 0;
    for (int m = 0; m < made->n_memories; m++) bytes += made->memory[m].body;
    return bytes < SLAB_BYTES / 4;
}

/* Each memory of the case in a slab, whose end or begin is the memory's own. */
static void place_memories(source *in, fuzz_call *c, const check_case *made)
{
    gdn_span where[CHECK_MAX_MEMORIES];
    const int ends = (int)take(in), use_offset = below(in, 2);
    for (int m = 0; m < made->n_memories; m++) {
        const check_memory *memory = &made->memory[m];
        const size_t from = (size_t)memory->before | 64, alignment = from & (~from + 1);
        slab *s = arena_take(c->arena, memory->body ? (size_t)memory->body : 1, alignment, !(ends >> m % 8 & 1));
        memcpy(s->at, memory->image + memory->before, (size_t)memory->body);
        where[m] = (gdn_span){ .data = (void *)((uintptr_t)s->at - (uintptr_t)memory->before) };
    }
    check_bind(made, where, use_offset, &c->args);
}

void fuzz_decode(const uint8_t *data, size_t size, arena *a, fuzz_call *c)
{
    source in = { data, size };
    memset(c, 0, sizeof *c);
    arena_reset(a);
    c->arena = a;
    c->kernel = check_kernels[below(&in, CHECK_KERNEL_COUNT)];
    c->implementation = below(&in, 16);
    const unsigned n = take(&in);
    c->mutations = n >= 240 ? 3 : n >= 216 ? 2 : n >= 152 ? 1 : 0;
    c->capability_extra = one_in(&in, 8) ? below(&in, 100) : 0;
    uint64_t seed = take(&in);
    seed |= (uint64_t)take(&in) << 8;
    check_case made;
    for (uint64_t turn = 0;; turn++) {
        check_rng rng = { check_mix(seed, turn) };
        draw(c, &made, &rng);
        if (fits(&made)) break;
        check_case_free(&made);
    }
    c->args = made.args;
    place_memories(&in, c, &made);
    check_case_free(&made);
    pieces_of(c);
    fuzz_break(&in, c);
}
