/* Drawn calls with one bad value in one of their maps, or none: with every map there or absent, with a history or
 * without, few tokens per sequence or many, so that every way of cutting a call is met. What is expected is made of
 * calls of the reference, one for each sequence that the maps leave. */
#include <string.h>

#include "tests/device/sides.h"

static int between(uint32_t *seed, int low, int high)
{
    *seed = *seed * 1664525u + 1013904223u;
    return low + (int)((*seed >> 8) % (uint32_t)(high - low + 1));
}

/* ---- Batches of sequences ---------------------------------------------------------------------------------- */

enum { MAX_SEQS = 4, SLOTS = 2, START, POSITION, SRC, DST, N_MAPS };

/* A call of gated_delta_net or ssm_conv, and what its maps say. Of absent maps, the entries are what absence means. */
typedef struct batch {
    const check_kernel *kernel;
    check_spec spec; /* before one of the maps is spoiled */
    int n_seqs, n_tokens;
    int per_seq; /* entries of dst for a sequence */
    int entries; /* that src and dst may name     */
    int has[N_MAPS];
    int32_t map[N_MAPS][2 * MAX_SEQS + 1];
} batch;

/* What a map is called; the kernels have different words for two of them. */
static const char *map_name(const batch *b, int map)
{
    static const char *const names[2][N_MAPS] = {
        { [START] = "seq_start", [SRC] = "state_src", [DST] = "state_dst" },
        { [START] = "seq_start", [POSITION] = "position", [SRC] = "history_src", [DST] = "history_dst" },
    };
    return names[b->kernel == &check_kernel_ssm_conv][map];
}

typedef struct bad_values {
    int must, may; /* are reported: where the value is used, or not */
} bad_values;

static int length_of(const batch *b, int s)
{
    const int64_t first = b->map[START][s], after = b->map[START][s + 1];
    return first < 0 || after < first || after > b->n_tokens ? -1 : (int)(after - first);
}

/* 1: the maps leave this sequence. Counts what is bad about it; bad entries of gated_delta_net's state_dst become
 * GDN_NONE in *alone, the arguments of the sequence by itself. */
static int is_left(const batch *b, int s, bad_values *bad, int32_t alone[SLOTS])
{
    const int T = length_of(b, s), delta = b->kernel == &check_kernel_gated_delta_net;
    const int32_t src = b->map[SRC][s], position = b->map[POSITION][s];
    int left = T > 0 && src != GDN_SKIP;
    bad->must += T < 0;
    if (src < GDN_SKIP || src >= b->entries) {
        T > 0 ? bad->must++ : bad->may++;
        left = 0;
    }
    if (position < 0 || (T > 0 && position > INT32_MAX - T)) {
        left ? bad->must++ : bad->may++;
        left = 0;
    }
    int whole = left;
    for (int r = 0; r < b->per_seq; r++) {
        alone[r] = b->map[DST][s * b->per_seq + r];
        if (alone[r] >= GDN_NONE && alone[r] < b->entries) continue;
        left &&r < T ? bad->must++ : bad->may++;
        alone[r] = GDN_NONE;
        whole &= delta; /* whose other snapshots are written */
    }
    return whole;
}

/* Sequence s by itself on the reference, on memory as the specification has it, or (`after`) as an earlier call left
 * it. */
static void run_alone(sides *on, const batch *b, int s, const int32_t *dst, unsigned char *const *after,
                      check_result *result)
{
    check_spec whole = b->spec;
    check_case c;
    int *const given[] = { &whole.gated_delta_net.map_start, &whole.gated_delta_net.map_src,
                           &whole.gated_delta_net.map_dst,   &whole.ssm_conv.map_start,
                           &whole.ssm_conv.map_position,     &whole.ssm_conv.map_src,
                           &whole.ssm_conv.map_dst };
    const int delta = b->kernel == &check_kernel_gated_delta_net;
    for (int i = delta ? 0 : 3; i < (delta ? 3 : 7); i++) *given[i] = 1;
    sides_build(&c, b->kernel, &whole);
    for (int m = 0; after && m < sides_memory(&c, "seq_start"); m++) /* maps come after all operands */
        memcpy(c.memory[m].image, after[m], c.memory[m].bytes);
    *(delta ? &c.args.gated_delta_net.args.n_seqs : &c.args.ssm_conv.args.n_seqs) = 1;
    for (int m = START; m < N_MAPS; m++)
        if (map_name(b, m)) { /* of which one sequence's entries are looked at, the first ones */
            int32_t values[2 * MAX_SEQS + 1] = { 0 };
            memcpy(values, m == DST ? dst : &b->map[m][s], 4 * (size_t)(m == DST ? b->per_seq : m == START ? 2 : 1));
            check_put_map(&c, map_name(b, m), values);
        }
    sides_expect(on, &c, result);
    check_case_free(&c);
}

/* Pieces of the token axis find their sequences by a seq_start that ascends; where it does not, others may be left out
 * too, and tokens that two sequences claim are of either. So then every element is what it was, or what some sequence
 * that is left makes of it by itself. */
static void judge(sides *on, const batch *b, int bad_map, int number)
{
    check_result together = { 0 }, alone[MAX_SEQS] = { { 0 } };
    bad_values bad = { 0, 0 };
    int left[MAX_SEQS] = { 0 }, n_left = 0;
    int32_t dst[SLOTS];
    const int before = test_failed;
    check_case c;
    for (int s = 0; s < b->n_seqs; s++)
        if ((left[s] = is_left(b, s, &bad, dst)) != 0) {
            run_alone(on, b, s, dst, NULL, &alone[s]);
            run_alone(on, b, s, dst, n_left++ ? together.image : NULL, &together);
        }
    sides_build(&c, b->kernel, &b->spec);
    if (bad_map) check_put_map(&c, map_name(b, bad_map), b->map[bad_map]);
    check_target_run(on->device, &c, &on->got);
    REQUIRE(on->got.status == GDN_BAD_MAP ? bad.must + bad.may : on->got.outcome == CHECK_RAN && !bad.must);
    REQUIRE(on->got.status == GDN_OK || strstr(on->got.text, map_name(b, bad_map)));
    REQUIRE(gdn_poll(on->ctx) == GDN_OK); /* reported once */
    for (int m = 0; m < c.n_memories; m++) {
        const check_memory *memory = &c.memory[m];
        uint64_t wrong = 0;
        for (uint64_t at = 0; at < memory->bytes; at += 4) {
            const unsigned char *got = on->got.image[m] + at, *was = memory->image + at;
            int good = check_same(got, n_left && memory->written ? together.image[m] + at : was,
                                  memory->written ? GDN_F32 : GDN_I32);
            if (bad_map == START && memory->written) {
                good |= !memcmp(got, was, 4);
                for (int s = 0; s < b->n_seqs; s++) good |= left[s] && check_same(got, alone[s].image[m] + at, GDN_F32);
            }
            wrong += !good;
        }
        REQUIRE(!wrong);
    }
    if (test_failed != before)
        (void)printf(
            "    that was drawn call %d: %s, %d sequences, %d tokens, maps%s%s%s%s, a bad value in %s, pool of %d\n",
            number, b->kernel->name, b->n_seqs, b->n_tokens, b->has[START] ? " seq_start" : "",
            b->has[POSITION] ? " position" : "", b->has[SRC] ? " src" : "", b->has[DST] ? " dst" : "",
            bad_map ? map_name(b, bad_map) : "none", b->entries);
    check_case_free(&c);
    check_result_free(&together);
    for (int s = 0; s < b->n_seqs; s++) check_result_free(&alone[s]);
}

/* Lengths, and which maps there are. Few: up to 4 tokens for each sequence, or more than 16 on average. */
static void draw_sequences(batch *b, int many, uint32_t *seed)
{
    int32_t *start = b->map[START];
    b->n_seqs = between(seed, 1, MAX_SEQS);
    for (int m = START; m < N_MAPS; m++) b->has[m] = between(seed, 0, 2) > 0;
    const int even = many ? between(seed, 17, 70) : between(seed, 1, 4);
    start[0] = b->has[START] ? between(seed, 0, 2) : 0;
    for (int s = 0; s < b->n_seqs; s++)
        start[s + 1] = start[s] + (!b->has[START]   ? even
                                   : many && s == 0 ? 17 * b->n_seqs
                                                    : between(seed, 0, many ? 70 : 4));
    b->n_tokens = start[b->n_seqs] + (b->has[START] ? between(seed, 0, 2) : 0);
    b->n_tokens += !b->n_tokens; /* one that nobody owns */
}

/* A value out of range in one of the maps that are there; which, or 0. */
static int spoil(batch *b, uint32_t *seed)
{
    int there[N_MAPS], n = 0;
    for (int m = START; m < N_MAPS; m++)
        if (b->has[m]) there[n++] = m;
    if (!n || between(seed, 0, 7) == 0) return 0;
    const int m = there[between(seed, 0, n - 1)], kind = between(seed, 0, 5);
    int32_t *map = b->map[m];
    if (m == START) {
        const int i = between(seed, 0, b->n_seqs);
        const int32_t values[] = {
            -1, INT32_MIN, b->n_tokens + 1, INT32_MAX, i ? map[i - 1] - 1 : -2, i < b->n_seqs ? map[i + 1] + 1 : -3
        };
        map[i] = values[kind];
    } else if (m == POSITION) {
        const int s = between(seed, 0, b->n_seqs - 1), T = length_of(b, s);
        const int32_t values[] = { -1, INT32_MIN, INT32_MAX, INT32_MAX - T + (T > 0), -2, -INT32_MAX };
        map[s] = values[kind];
    } else {
        const int i = between(seed, 0, b->n_seqs * (m == DST ? b->per_seq : 1) - 1);
        const int32_t values[] = { b->entries, INT32_MAX, m == DST ? GDN_SKIP : -3, INT32_MIN, b->entries + 1, -3 };
        map[i] = values[kind];
    }
    return m;
}

enum { ROWS = MAX_SEQS + 2, MOST_DIM = 64 };

static void draw_gated_delta_net(sides *on, int number, uint32_t *seed)
{
    batch b = { .kernel = &check_kernel_gated_delta_net, .per_seq = SLOTS, .entries = ROWS * SLOTS };
    delta_spec *spec = &b.spec.gated_delta_net;
    const int dim = number % 4 ? 32 : MOST_DIM;
    draw_sequences(&b, between(seed, 0, 1), seed);
    b.has[POSITION] = 0;
    delta_defaults(spec, 2, 2, dim, dim);
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = SLOTS;
    delta_batch(spec, b.n_seqs, 0);
    spec->n_rows = spec->n_rows_out = ROWS;
    spec->seed = (uint64_t)number;
    spec->map_start = b.has[START], spec->map_src = b.has[SRC], spec->map_dst = b.has[DST];
    spec->lead = b.map[START][0], spec->tail = b.n_tokens - b.map[START][b.n_seqs];
    const int turn = b.has[SRC] && b.has[DST] ? between(seed, 0, ROWS - 1) : 0; /* no row is of two sequences */
    for (int s = 0; s < b.n_seqs; s++) {
        const int row = (s + turn) % ROWS, kind = between(seed, 0, 5);
        spec->seq[s].length = length_of(&b, s);
        spec->seq[s].src = b.map[SRC][s] = !b.has[SRC] ? s * SLOTS
                                           : kind == 0 ? GDN_NONE
                                           : kind == 1 ? GDN_SKIP
                                                       : row * SLOTS + kind % SLOTS;
        for (int r = 0; r < SLOTS; r++)
            spec->seq[s].dst[r] = b.map[DST][s * SLOTS + r] =
                b.has[DST] && between(seed, 0, 4) == 0 ? GDN_NONE : row * SLOTS + r;
    }
    judge(on, &b, spoil(&b, seed), number);
}

static void draw_ssm_conv(sides *on, int number, uint32_t *seed)
{
    batch b = { .kernel = &check_kernel_ssm_conv, .per_seq = 1 };
    conv_spec *spec = &b.spec.ssm_conv;
    const int with_history = between(seed, 0, 1), width = between(seed, 3, 4);
    draw_sequences(&b, between(seed, 0, 1), seed);
    b.entries = with_history ? ROWS : 0;
    conv_defaults(spec, 20, width);
    conv_batch(spec, b.n_seqs, 0);
    spec->silu = 1, spec->bias = 0, spec->n_columns = 5;
    spec->where = with_history ? CONV_IN_PLACE : CONV_NOWHERE;
    spec->n_rows = spec->n_rows_out = ROWS;
    spec->seed = (uint64_t)number;
    spec->map_start = b.has[START], spec->map_position = b.has[POSITION], spec->map_src = b.has[SRC],
    spec->map_dst = b.has[DST];
    spec->lead = b.map[START][0], spec->tail = b.n_tokens - b.map[START][b.n_seqs];
    const int turn = b.has[SRC] && b.has[DST] ? between(seed, 0, ROWS - 1) : 0;
    for (int s = 0; s < b.n_seqs; s++) {
        const int row = with_history ? (s + turn) % ROWS : GDN_NONE, kind = between(seed, 0, 5);
        spec->seq[s].length = length_of(&b, s);
        spec->seq[s].position = b.map[POSITION][s] = b.has[POSITION] ? between(seed, 0, 9) : 0;
        spec->seq[s].src = b.map[SRC][s] = b.has[SRC] && kind < 2 ? (kind ? GDN_SKIP : GDN_NONE) : row;
        spec->seq[s].dst = b.map[DST][s] = b.has[DST] && between(seed, 0, 4) == 0 ? GDN_NONE : row;
    }
    judge(on, &b, spoil(&b, seed), number);
}

/* ---- set_rows -------------------------------------------------------------------------------------------- */

enum { MOST_ROWS = 90, TARGETS = 60 };

/* Up to 64 rows are compared with each other, more go through a table; some targets are named twice. */
static void draw_set_rows(sides *on, int number, uint32_t *seed)
{
    static const int32_t types[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };
    const int64_t far[] = { TARGETS,   -2,        INT32_MAX,          INT32_MIN, (INT64_C(1) << 32) + 3,
                            INT64_MAX, INT64_MIN, -(INT64_C(1) << 32) };
    const int n_rows = between(seed, 0, 1) ? between(seed, 65, MOST_ROWS) : between(seed, 1, 64),
              batches = between(seed, 1, 2);
    const int wide = between(seed, 0, 1), n = n_rows * batches;
    const int n_bad = between(seed, 0, 4) ? between(seed, 1, 3) : 0;
    int64_t index[2 * MOST_ROWS], good[2 * MOST_ROWS];
    for (int i = 0; i < n; i++) index[i] = good[i] = between(seed, 0, 9) ? between(seed, 0, TARGETS - 1) : GDN_NONE;
    for (int i = 0; i < n_bad; i++) {
        const int at = between(seed, 0, n - 1);
        index[at] = far[between(seed, 0, wide ? 7 : 3)];
        good[at] = GDN_NONE;
    }
    check_spec any;
    check_case amiss, meant;
    rows_spec *spec = &any.set_rows;
    rows_defaults(spec, 64, n_rows, TARGETS);
    spec->n_batch[0] = between(seed, 1, 2);
    spec->n_batch[1] = spec->index_batch[1] = batches;
    spec->dst_type = types[between(seed, 0, 3)];
    spec->index_type = wide ? GDN_I64 : GDN_I32;
    spec->seed = (uint64_t)number;
    sides_build(&amiss, &check_kernel_set_rows, &any);
    sides_build(&meant, &check_kernel_set_rows, &any);
    for (int i = 0; i < n; i++) {
        check_put_index(&amiss, 0, i / n_rows, i % n_rows, index[i]);
        check_put_index(&meant, 0, i / n_rows, i % n_rows, good[i]);
    }
    const int before = test_failed, map = sides_memory(&meant, "index");
    sides_expect(on, &meant, &on->expected);
    sides_run(on, &amiss, n_bad ? "index" : NULL);
    for (int m = 0; m < meant.n_memories; m++)
        REQUIRE(m == map || !memcmp(on->got.image[m], on->expected.image[m], meant.memory[m].bytes));
    if (test_failed != before)
        (void)printf("    that was drawn call %d: set_rows, %d rows, %d bad values\n", number, n_rows, n_bad);
    check_case_free(&amiss);
    check_case_free(&meant);
}

void device_drawn_maps(gdn_context *ctx)
{
    uint32_t seed[] = { 20, 21, 22 }; /* a kernel's calls do not depend on the others' */
    sides s;
    if (!sides_open(&s, ctx)) return;
    for (int i = 0; i < 300; i++) draw_ssm_conv(&s, i, &seed[1]);
    for (int i = 0; i < 60; i++) draw_set_rows(&s, i, &seed[2]);
    for (int i = 0; i < 80; i++) /* most of the time */
        draw_gated_delta_net(&s, i, &seed[0]);
    sides_close(&s);
}
