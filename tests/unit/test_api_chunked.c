/* Calls in the chunked form: their arguments and what is refused. gdn check has the results: its family chunked. */
#include "test_api.h"

#include <math.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;
static delta_memory *const m = &delta_mem;

/* The valid call has sequences of 2 and 3 tokens. The first reads the state after 32 tokens in slot 0 and 2 entries of
 * the log, the second the state after 64 tokens. Both reach no further multiple of 32. */
static void chunked(int32_t digits)
{
    with_log();
    delta_args.chunked = (gdn_chunked_form){ .size = sizeof(gdn_chunked_form), .digits = digits };
    d->n_snapshots = 1;
    d->state_dst.bytes = 0;
    MAP(m->position, 34, 64);
    MAP(m->base_position, 32, 64);
    MAP(m->commit, GDN_NONE, GDN_NONE);
    MAP(m->state_dst, 0, 3);
    for (size_t i = 0; i < sizeof m->log / sizeof m->log[0]; i++) m->log[i] = -fabsf(m->log[i]); /* gates are <= 0 */
}

/* The same with states of digits. */
static void digits(int32_t n)
{
    chunked(n);
    d->state.dtype = n == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
    for (size_t i = 0; i < sizeof m->state / sizeof m->state[0]; i++) m->state[i] = 0x1p-20f; /* factors among them */
}

static void arguments(void)
{
    const gdn_token_tree tree = { .size = sizeof tree };
    ACCEPTED(on_delta, chunked(2));
    ACCEPTED(on_delta, chunked(3));
    ACCEPTED(on_delta, digits(2));
    ACCEPTED(on_delta, digits(3));
    REFUSED(on_delta, chunked(1), "chunked.digits is 1; 2 to 3 are allowed");
    REFUSED(on_delta, chunked(4), "chunked.digits is 4; 2 to 3 are allowed");
    REFUSED(on_delta, chunked(3); d->n_snapshots = 2, "n_snapshots (in the chunked form) is 2; 0 to 1 are allowed");
    REFUSED(on_delta, chunked(3); delta_args.tree = tree, "tree and chunked are given", "has no trees");
    REFUSED(on_delta, chunked(3); delta_args.rounding = ((gdn_state_rounding){ .size = 8, .interval = 32 }),
                                  "rounding and chunked are given", "no states of 16 bits");
    REFUSED(on_delta, chunked(3); inputs()->gate_input = GDN_G_LINEAR,
                                  "inputs.gate_input is GDN_G_LINEAR (1) and chunked is given", "logarithm");
    REFUSED(on_delta, chunked(3); d->head_dim_k = 24, "head_dim_k is 24; in the chunked form multiples of 16");
    REFUSED(on_delta, chunked(3); d->head_dim_v = 40, "head_dim_v is 40; in the chunked form multiples of 16");
    REFUSED(on_delta, chunked(3);
            delta_args.checkpoints = ((gdn_checkpoints){
                .size = sizeof(gdn_checkpoints), .interval = 48, .n = 1, .dst = SPAN(m->checkpoint) }),
            "checkpoints.interval is 48; in the chunked form multiples of 32");
    REFUSED(on_delta, chunked(3); d->state.dtype = GDN_BF16, "state.dtype is 2 (BF16); allowed: F32, DIGITS3");
    REFUSED(on_delta, digits(2); delta_args.chunked.digits = 3, "state.dtype is 6 (DIGITS2); allowed: F32, DIGITS3");
    REFUSED(on_delta, d->state.dtype = GDN_DIGITS3, "state.dtype is 7 (DIGITS3); allowed: F32, F16, BF16");
    REFUSED(on_delta, digits(3); d->state_layout = GDN_STATE_KV, "state_layout is 1 and state.dtype is 7 (DIGITS3)");
    REFUSED(on_delta, digits(3); d->state.stride[3] = 64, "state.stride[3] is 64", "the others must be 0");
    REFUSED(on_delta, digits(3); d->state.offset = 8, "state begins at", "multiple of 16");
}

static void entries(void)
{
    REFUSED(on_delta, chunked(3); m->base_position[0] = 33,
                                  "log.base_position[0] is 33; in the chunked form multiples of 32",
                                  "up to 32 (the sequence's position is 34)");
    REFUSED(on_delta, chunked(3); m->base_position[0] = 30, "log.base_position[0] is 30");
    REFUSED(on_delta, chunked(3); m->base_position[0] = -32, "log.base_position[0] is -32");
    REFUSED(on_delta, chunked(3); m->base_position[1] = 96, "log.base_position[1] is 96");
    REFUSED(on_delta, chunked(3);
            m->log_row[0] = GDN_NONE, "sequence 0 has no row of the log and a position of 34 tokens", "multiple of 32");
    REFUSED(on_delta, chunked(3);
            m->log_row[1] = GDN_NONE,
            "sequence 1 has no row of the log and a new length, at which it writes a state, of 67");
    ACCEPTED(on_delta, chunked(3); m->log_row[1] = m->state_dst[1] = GDN_NONE);
    REFUSED(on_delta, chunked(3); m->log_row[1] = GDN_NONE;
            m->base_position[1] = 32,
            "log.base_position[1] is 32 and log.row[1] is GDN_NONE; without a row it must be 64");
    /* 6 slots: entries from the base to the position, and from the next base to the new length. */
    REFUSED(on_delta, chunked(3); m->position[0] = 37; m->state_dst[0] = GDN_NONE,
                                                       "log.entries.n_slots is 6; sequence 0",
                                                       "needs entries from 32 on: at least 7 are needed");
    REFUSED(on_delta, chunked(3); m->position[0] = 64 + 31, "log.entries.n_slots is 6", "at least 63 are needed");
    ACCEPTED(on_delta, chunked(3); m->position[0] = 32 + 4; m->state_dst[0] = GDN_NONE);
    ACCEPTED(on_delta, chunked(3); m->position[0] = 32; delta_args.log.base_position.data = NULL); /* rounded down */
    REFUSED(on_delta, chunked(3); delta_args.log = ((gdn_replay_log){ 0 }), "sequence 0 has no row of the log");
    ACCEPTED(on_delta, chunked(3); delta_args.log = ((gdn_replay_log){ 0 }); d->n_snapshots = 0;
             d->state_dst.data = NULL; MAP(m->position, 32, 0));
    REFUSED(on_delta, chunked(3); MAP(m->position, -1, 0), "position[0] is -1");
    /* Of padding nothing is looked at, nor what is not used. */
    ACCEPTED(on_delta, chunked(3); m->state_src[0] = GDN_SKIP; m->base_position[0] = 4; m->position[0] = 5);
}

/* The same with states that differ, which are read from slots 1 and 4. */
static void other_slots(int32_t n, int of_digits)
{
    (of_digits ? digits : chunked)(n);
    for (size_t i = 0; of_digits && i < sizeof m->state / sizeof m->state[0]; i++)
        m->state[i] = ldexpf(1, -20 - (int)(i / 1024));
    MAP(m->state_src, 1, 4);
}

/* A call that keeps no state: without a map of targets and without a commit, or where both are GDN_NONE. Its outputs
 * are those of the call that keeps them, and all states stay as they are. */
static void nothing_kept(void)
{
    static float out[sizeof m->out / sizeof m->out[0]];
    const delta_memory *const first = on_delta.first, *const before = on_delta.before;
    for (int32_t n = 2; n <= 3; n++)
        for (int of_digits = 0; of_digits < 2; of_digits++) {
            ACCEPTED(on_delta, other_slots(n, of_digits));
            memcpy(out, first->out, sizeof out);
            REQUIRE(memcmp(first->state, before->state, sizeof first->state) != 0);
            ACCEPTED(on_delta, other_slots(n, of_digits); d->n_snapshots = 0; d->state_dst.data = NULL);
            REQUIRE(!memcmp(out, first->out, sizeof out));
            REQUIRE(!memcmp(first->state, before->state, sizeof first->state));
            ACCEPTED(on_delta, other_slots(n, of_digits); MAP(m->state_dst, GDN_NONE, GDN_NONE));
            REQUIRE(!memcmp(out, first->out, sizeof out));
            REQUIRE(!memcmp(first->state, before->state, sizeof first->state));
        }
}

/* What a query says of memory. */
static void sizes(void)
{
    for (int target = 0; target < api_target_count; target++)
        for (int32_t n = 2; n <= 3; n++) {
            gdn_capability can = { .size = sizeof can };
            on_delta.reset();
            digits(n);
            REQUIRE(!delta_query(api_target_list[target].ctx, &delta_args, &can) && can.supported && can.exact);
            REQUIRE(can.slot_bytes == 4 * 32 * (16 * (uint64_t)n + 4) && can.log_entry_bytes == 4 * API_LOG_ENTRY);
        }
}

void test_api_chunked(void)
{
    arguments();
    entries();
    nothing_kept();
    sizes();
}
