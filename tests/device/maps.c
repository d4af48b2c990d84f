/* Calls with a bad value in a map, which only the device sees: the sequence, snapshot or row is skipped, the rest is
 * computed, and GDN_BAD_MAP names the map, once. What is expected comes from the reference, which gets the map that the
 * documentation says a bad value amounts to. */
#include <string.h>

#include "check/compare.h"
#include "check/target.h"
#include "tests/device/placed.h"
#include "tests/workspaces.h"

typedef struct sides {
    gdn_context *ctx;
    check_target *device, *reference;
    check_result got, expected;
} sides;

/* ---- Values of maps -------------------------------------------------------------------------------------- */

static int64_t value_of(const check_case *c, const char *map, int at, const int64_t *put)
{
    const check_view *v = check_find(c, map);
    const check_memory *memory = &c->memory[v->memory];
    unsigned char *const to = memory->image + memory->before + (v->is_span ? 0 : v->first) +
                              (v->dtype == GDN_I64 && !v->is_span ? 8 : 4) * (size_t)at;
    if (put) check_store_index(to, v->is_span ? GDN_I32 : v->dtype, *put);
    return check_load_index(to, v->is_span ? GDN_I32 : v->dtype);
}

static int64_t get(const check_case *c, const char *map, int at) { return value_of(c, map, at, NULL); }
static void put(check_case *c, const char *map, int at, int64_t value) { (void)value_of(c, map, at, &value); }

/* What a bad value at this place of a map amounts to: GDN_NONE there, or sequences that are padding. */
static void amend(check_case *meant, const char *map, int at)
{
    static const char *const entries[] = { "state_dst", "checkpoints.dst", "log.commit", "index" };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (!strcmp(map, entries[i])) {
            put(meant, map, at, GDN_NONE);
            return;
        }
    const char *const src = meant->kernel == &check_kernel_ssm_conv ? "history_src" : "state_src";
    const int n_seqs = (int)check_find(meant, src)->extent[0], start = !strcmp(map, "seq_start");
    int s = start ? at - 1 : at; /* which delimits two sequences */
    if (!strcmp(map, "tree.parent"))
        for (s = 0; get(meant, "seq_start", s + 1) <= at; s++) continue;
    for (int last = start ? s + 1 : s; s <= last; s++)
        if (s >= 0 && s < n_seqs) put(meant, src, s, GDN_SKIP);
}

/* ---- A call on both sides -------------------------------------------------------------------------------- */

/* Elements that differ from what the reference makes of `meant`. `lenient`: what was not written is right too, since
 * pieces of the token axis find their sequences by a seq_start that ascends. */
static int64_t count_wrong(const check_case *c, unsigned char *const *got, const check_case *meant,
                           const check_result *expected, int lenient)
{
    unsigned char *want[CHECK_MAX_MEMORIES], *initial[CHECK_MAX_MEMORIES];
    check_text text = { .used = 0 };
    check_initial(c, want);
    check_initial(c, initial);
    for (int i = 0; i < c->n_views; i++) { /* but maps */
        const check_view *v = &c->view[i];
        if (!v->is_span && strcmp(v->name, "index") != 0)
            want[v->memory] = expected->image[check_find(meant, v->name)->memory];
    }
    for (int m = 0; lenient && m < c->n_memories; m++)
        for (uint64_t at = 0; c->memory[m].written && at + 2 <= c->memory[m].bytes; at += 2)
            if (!memcmp(got[m] + at, initial[m] + at, 2)) memcpy(want[m] + at, got[m] + at, 2);
    const int64_t wrong = check_compare(c, want, got, &text);
    if (wrong) (void)printf("%s\n", text.at);
    return wrong;
}

enum { REPORTED, QUIET, PERHAPS }; /* a value that is not used need not be reported */

/* Frees the cases, which are of the same call. */
static void judge(sides *s, check_case *amiss, check_case *meant, const char *map, int at, int64_t value, int how)
{
    const int before = test_failed;
    const int64_t good = map ? get(amiss, map, at) : 0;
    if (map) put(amiss, map, at, value);
    if (map && how != QUIET) amend(meant, map, at);
    check_target_run(s->device, amiss, &s->got);
    const check_view *const state = check_find(amiss, "state");
    if (s->got.outcome != CHECK_SKIPPED || !state || state->dtype == GDN_F32) { /* or no elements of 16 bits there */
        check_target_run(s->reference, meant, &s->expected);
        REQUIRE(s->expected.outcome == CHECK_RAN, "%s", s->expected.text);
        if (how == REPORTED || s->got.status == GDN_BAD_MAP)
            REQUIRE(s->got.status == GDN_BAD_MAP && map && strstr(s->got.text, map), "%s", s->got.text);
        else REQUIRE(s->got.outcome == CHECK_RAN, "%s", s->got.text);
        REQUIRE(gdn_poll(s->ctx) == GDN_OK); /* reported once */
        REQUIRE(!count_wrong(amiss, s->got.image, meant, &s->expected, map && !strcmp(map, "seq_start")));
        if (how == PERHAPS && s->got.status == GDN_OK) { /* then it makes no difference */
            put(amiss, map, at, good);
            check_target_run(s->reference, amiss, &s->got);
            REQUIRE(!count_wrong(amiss, s->got.image, meant, &s->expected, 0));
        }
    }
    if (test_failed != before && map) (void)printf("    that was %lld in %s[%d]\n", (long long)value, map, at);
    check_case_free(amiss);
    check_case_free(meant);
}

/* ---- The table ------------------------------------------------------------------------------------------- */

/* Calls of gated_delta_net: 3 sequences in a pool of 4 rows with 2 slots. */
#define DELTA                                                                                                          \
    " n_heads_k=n_heads_v=2 dim_k=dim_v=32 n_slots=n_slots_out=n_snapshots=2 n_seqs=3 n_rows=n_rows_out=4 length=3 "   \
    "map_start=map_src=map_dst=1 src=6,0,2 dst=i?pick(s,7,none,2):pick(s,6,1,3) "
#define CHECKPOINTS                                                                                                    \
    "n_rows=n_rows_out=7 interval=n_checkpoints=2 map_position=1 position=0,5,2147483607 checkpoint=8+2*s+i "
/* A row of the log, none, and no tokens but a state to commit; entries just fit. */
#define LOGS                                                                                                           \
    "n_snapshots=map_dst=0 log_rows=3 log_columns=t+3 length=t,t,0 "                                                   \
    "map_position=map_log_row=map_base_position=map_commit=1 position=11,5,2147483647 n_replayed=3,0,2 "               \
    "log_row=2,none,0 commit=6,4,3 "
#define ROUNDED                                                                                                        \
    "n_snapshots=1 dtype_state=bf16 state_interval=3 log_rows=3 log_columns=8 map_position=map_base_position=1 "       \
    "position=9,6,12 n_replayed=3 log_row=s dst=5,7,4 "
#define PARENTS "parent=i?i==1?pick(s,0,none,0):pick(s,0,0,1):none "
#define TREES   "n_snapshots=map_dst=0 log_rows=log_columns=3 tree=map_parent=map_log_row=1 log_row=2-s " PARENTS
#define CONV    " n_channels=20 width=4 n_seqs=3 map_start=map_src=1 "
#define RINGS                                                                                                          \
    "length=t silu=map_position=map_dst=1 n_columns=5 n_rows=n_rows_out=7 interval=3 n_checkpoints=1 "                 \
    "position=7,0,12 src=2,none,0 dst=2,3,1 checkpoint=4+s "
#define ROWS " n_columns=40 n_rows_dst=150 dst_type=f16 index_style=1 "

// clang-format off
#define LINES(X) /* name, kernel, the call */                                                                          \
    X(SLOTS, gated_delta_net, DELTA)                                                                                   \
    /* Unused entries: of more snapshots than tokens, of padding, of a sequence without tokens. */                     \
    X(UNUSED, gated_delta_net, DELTA "n_seqs=4 length=1,2,0,1 src=6,skip,0,2 "                                         \
                                     "dst=i?pick(s,99,2147483647,8,skip):pick(s,7,-5,-2147483648,3)")                  \
    X(UNWRITTEN, gated_delta_net, DELTA "length=1,2,0,1 src=6,skip,0,2 n_snapshots=map_dst=0")                         \
    X(CHECKPOINTS_3, gated_delta_net, DELTA CHECKPOINTS)                                                               \
    X(CHECKPOINTS_40, gated_delta_net, DELTA CHECKPOINTS "length=40")                                                  \
    X(CHECKPOINTS_UNUSED, gated_delta_net, DELTA CHECKPOINTS "length=1,3,3 src=6,skip,2 "                              \
                                           "checkpoint=s?s==1&&!i?-2147483648:8+2*s+i:99")                             \
    X(LOGS_3, gated_delta_net, DELTA "t=3 " LOGS)                                                                      \
    X(LOGS_40, gated_delta_net, DELTA "t=40 " LOGS)                                                                    \
    X(LOGS_PADDED, gated_delta_net, DELTA "t=3 " LOGS "src=6,skip,2 n_replayed=3,5,2 commit=6,-2147483648,3")          \
    X(ROUNDED_3, gated_delta_net, DELTA ROUNDED)                                                                       \
    X(ROUNDED_2, gated_delta_net, DELTA ROUNDED "length=2 dst=none")                                                   \
    X(TREES_3, gated_delta_net, DELTA TREES)                                                                           \
    X(TREES_PADDED, gated_delta_net, DELTA TREES "src=6,skip,2")                                                       \
    X(NO_TOKENS, gated_delta_net, DELTA "length=0")                                                                    \
    X(CONV_3, ssm_conv, CONV "t=3 " RINGS)                                                                             \
    X(CONV_40, ssm_conv, CONV "t=40 " RINGS)                                                                           \
    X(CONV_TREES, ssm_conv, CONV "length=3 n_columns=6 tree=map_parent=1 " PARENTS)                                    \
    X(CONV_SHORT, ssm_conv, CONV "length=2,3,2 n_columns=5 tree=map_parent=1 " PARENTS)                                \
    X(CONV_NO_TOKENS, ssm_conv, CONV "length=0 map_position=1")                                                        \
    X(ROWS_12, set_rows, ROWS "n_rows=12 index_type=i32")                                                              \
    X(ROWS_12_WIDE, set_rows, ROWS "n_rows=12 index_type=i64")                                                         \
    X(ROWS_100, set_rows, ROWS "n_rows=100 index_type=i32")                                                            \
    X(ROWS_100_WIDE, set_rows, ROWS "n_rows=100 index_type=i64")
// clang-format on

enum {
#define X(name, kernel, text) name,
    LINES(X)
#undef X
};
static const struct call {
    const check_suite *suite;
    const char *text;
} calls[] = {
#define X(name, kernel, text) { &check_suite_##kernel, #name text },
    LINES(X)
#undef X
};

/* Bad values, each in a call of its own: the place in the map, and the value. */
enum { MOST = INT32_MAX, LEAST = INT32_MIN, FAR = 8 };
#define WIDE INT64_C(1) << 32
#define OF_SLOTS                                                                                                       \
    { 0, 8 }, { 1, MOST }, { 2, -3 }, { 0, LEAST }
#define STARTS(total)                                                                                                  \
    { 1, (total) + 1 }, { 1, -1 }, { 1, MOST }, { 1, LEAST }, { 0, (total) / 3 + 1 }, { 3, (total) / 3 * 2 - 1 }
#define OF_LOGS(line, columns)                                                                                         \
    { line, "log.row", { { 0, 3 }, { 1, MOST }, { 2, GDN_SKIP }, { 0, LEAST } }, REPORTED },                           \
        { line, "log.commit", { { 0, 8 }, { 1, MOST }, { 2, GDN_SKIP }, { 2, LEAST } }, REPORTED },                    \
    {                                                                                                                  \
        line, "log.base_position",                                                                                     \
            { { 0, 12 }, { 0, 7 }, { 0, -1 }, { 1, 4 }, { 2, LEAST }, { 2, 0 }, { 2, MOST - (columns)-1 } }, REPORTED  \
    }
#define OF_CHECKPOINTS(line, length)                                                                                   \
    { line, "checkpoints.dst", { { 0, 14 }, { 2, MOST }, { 4, GDN_SKIP }, { 0, LEAST } }, REPORTED },                  \
    {                                                                                                                  \
        line, "position", { { 0, -1 }, { 1, MOST - (length) + 1 }, { 2, -3 } }, REPORTED                               \
    }
#define OF_CONV(line, length)                                                                                          \
    { line, "position", { { 0, -1 }, { 1, MOST }, { 2, LEAST }, { 0, MOST - (length) + 1 } }, REPORTED },              \
        { line, "history_src", { { 1, 7 }, { 2, MOST }, { 0, -3 } }, REPORTED },                                       \
        { line, "history_dst", { { 1, 7 }, { 2, MOST }, { 0, GDN_SKIP } }, REPORTED },                                 \
        { line, "checkpoints.dst", { { 0, 7 }, { 1, GDN_SKIP }, { 2, MOST }, { 0, LEAST } }, REPORTED },               \
    {                                                                                                                  \
        line, "seq_start", { STARTS(3 * (length)) }, REPORTED                                                          \
    }
#define BAD_PARENTS                                                                                                    \
    {                                                                                                                  \
        { 3, 0 }, { 4, 1 }, { 5, 2 }, { 5, GDN_SKIP }, { 3, LEAST }, { 4, MOST }                                       \
    }
#define BAD_ROWS                                                                                                       \
    { 3, 150 }, { 4, -2 }, { 5, MOST }, { 6, LEAST }
#define WIDE_ROWS                                                                                                      \
    { 7, (WIDE) + 3 }, { 8, INT64_MAX }, { 9, INT64_MIN }, { 10, -(WIDE) }

static const struct {
    int line;
    const char *map; /* NULL: nothing in the call is bad */
    struct {
        int at;
        int64_t value;
    } bad[FAR]; /* ends with 0 in the first element, but for the first */
    int how;
} table[] = {
    { UNUSED, NULL, { { 0, 0 } }, QUIET },
    { UNWRITTEN, NULL, { { 0, 0 } }, QUIET },
    { SLOTS, "state_src", { OF_SLOTS }, REPORTED },
    { SLOTS, "state_dst", { { 0, 8 }, { 1, MOST }, { 2, GDN_SKIP }, { 3, LEAST } }, REPORTED },
    { SLOTS, "seq_start", { STARTS(9) }, REPORTED },
    OF_CHECKPOINTS(CHECKPOINTS_3, 3),
    { CHECKPOINTS_UNUSED, NULL, { { 0, 0 } }, QUIET },
    OF_LOGS(LOGS_3, 6),
    { LOGS_PADDED, NULL, { { 0, 0 } }, QUIET }, /* its row and base position have to be in range, and that is all */
    { LOGS_PADDED, "log.base_position", { { 1, 6 } }, REPORTED },
    { LOGS_PADDED, "log.row", { { 1, 3 } }, REPORTED },
    { ROUNDED_3, "log.base_position", { { 0, 7 }, { 1, 5 }, { 2, 10 } }, REPORTED }, /* behind a rounding */
    { ROUNDED_2, "state_dst", { { 0, 5 }, { 1, 7 }, { 2, 4 } }, REPORTED },          /* of states between two */
    OF_CONV(CONV_3, 3),
    OF_CONV(CONV_40, 40),
    { TREES_3, "tree.parent", BAD_PARENTS, REPORTED },
    { TREES_3, "log.row", { { 1, GDN_NONE } }, REPORTED },
    { TREES_PADDED, "tree.parent", { { 3, 77 }, { 4, 77 } }, QUIET },
    { CONV_TREES, "tree.parent", BAD_PARENTS, REPORTED },
    { CONV_SHORT, "tree.parent", { { 2, GDN_NONE } }, REPORTED }, /* a history that is too short for it */
    { NO_TOKENS, NULL, { { 0, 0 } }, QUIET },
    { NO_TOKENS, "seq_start", { { 3, 1 } }, REPORTED },
    { NO_TOKENS, "state_src", { { 1, 8 } }, REPORTED },
    { CONV_NO_TOKENS, NULL, { { 0, 0 } }, QUIET },
    { CONV_NO_TOKENS, "seq_start", { { 3, 1 } }, REPORTED },
    { CONV_NO_TOKENS, "position", { { 2, -1 } }, REPORTED },
    { ROWS_12, "index", { BAD_ROWS }, REPORTED },
    { ROWS_12_WIDE, "index", { BAD_ROWS, WIDE_ROWS }, REPORTED },
    { ROWS_100, "index", { BAD_ROWS }, REPORTED },
    { ROWS_100_WIDE, "index", { BAD_ROWS, WIDE_ROWS }, REPORTED },
    OF_CHECKPOINTS(CHECKPOINTS_40, 40), /* most of the time */
    OF_LOGS(LOGS_40, 43),
};

/* ---- Drawn calls ----------------------------------------------------------------------------------------- */

/* Few tokens or many, each map there or not, with a history or without, so that every way to split a call is met. */
static int draw_lengths(int *lengths, size_t stride, int n, int has_start, check_rng *rng)
{
    const int many = check_one_in(rng, 2), even = many ? check_between(rng, 17, 70) : check_between(rng, 1, 4);
    int total = 0;
    for (int s = 0; s < n; s++) {
        int *const length = (int *)(void *)((char *)lengths + stride * (size_t)s);
        *length = !has_start ? even : many && s == 0 ? 17 * n : check_between(rng, 0, many ? 70 : 4);
        total += *length;
    }
    return total;
}

static void draw_delta(delta_spec *d, check_rng *rng)
{
    enum { SLOTS_OF_ROW = 2, ROWS_OF_POOL = 6 };
    const int dim = check_one_in(rng, 4) ? 64 : 32, n_seqs = check_between(rng, 1, 4);
    delta_defaults(d, 2, 2, dim, dim);
    d->n_slots = d->n_slots_out = d->n_snapshots = SLOTS_OF_ROW;
    delta_batch(d, n_seqs, 0);
    d->n_rows = d->n_rows_out = ROWS_OF_POOL;
    d->seed = check_next(rng);
    d->map_start = !check_one_in(rng, 3), d->map_src = !check_one_in(rng, 3), d->map_dst = !check_one_in(rng, 3);
    const int total = draw_lengths(&d->seq[0].length, sizeof d->seq[0], n_seqs, d->map_start, rng);
    d->lead = d->map_start * check_between(rng, 0, 2);
    d->tail = d->map_start * check_between(rng, 0, 2) + !(total + d->lead); /* a token that nobody owns */
    const int turn = d->map_src && d->map_dst ? check_between(rng, 0, ROWS_OF_POOL - 1) : 0;
    for (int s = 0; s < n_seqs; s++) { /* no row is of two sequences */
        const int entry = (s + turn) % ROWS_OF_POOL * SLOTS_OF_ROW, kind = check_between(rng, 0, 5);
        if (d->map_src) d->seq[s].src = kind == 0 ? GDN_NONE : kind == 1 ? GDN_SKIP : entry + kind % SLOTS_OF_ROW;
        for (int r = 0; r < SLOTS_OF_ROW; r++)
            d->seq[s].dst[r] = d->map_dst && check_one_in(rng, 5) ? GDN_NONE : entry + r;
    }
}

static void draw_conv(conv_spec *c, check_rng *rng)
{
    enum { ROWS_OF_POOL = 6 };
    const int history = check_one_in(rng, 2), n_seqs = check_between(rng, 1, 4);
    conv_defaults(c, 20, check_between(rng, 3, 4));
    conv_batch(c, n_seqs, 0);
    c->silu = 1, c->bias = 0, c->n_columns = 5;
    c->where = history ? CONV_IN_PLACE : CONV_NOWHERE;
    c->n_rows = c->n_rows_out = ROWS_OF_POOL;
    c->seed = check_next(rng);
    c->map_start = !check_one_in(rng, 3), c->map_src = !check_one_in(rng, 3), c->map_dst = !check_one_in(rng, 3);
    c->map_position = !check_one_in(rng, 3);
    const int total = draw_lengths(&c->seq[0].length, sizeof c->seq[0], n_seqs, c->map_start, rng);
    c->lead = c->map_start * check_between(rng, 0, 2);
    c->tail = c->map_start * check_between(rng, 0, 2) + !(total + c->lead);
    const int turn = c->map_src && c->map_dst ? check_between(rng, 0, ROWS_OF_POOL - 1) : 0;
    for (int s = 0; s < n_seqs; s++) {
        const int row = history ? (s + turn) % ROWS_OF_POOL : GDN_NONE, kind = check_between(rng, 0, 5);
        c->seq[s].position = c->map_position * check_between(rng, 0, 9);
        c->seq[s].src = c->map_src && kind < 2 ? (kind ? GDN_SKIP : GDN_NONE) : row;
        c->seq[s].dst = c->map_dst && check_one_in(rng, 5) ? GDN_NONE : row;
    }
}

/* Up to 64 rows are compared with each other, more go through a table; some targets are named twice. */
static void draw_rows(rows_spec *r, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };
    rows_defaults(r, 64, check_one_in(rng, 2) ? check_between(rng, 65, 90) : check_between(rng, 1, 64), 60);
    r->n_batch[0] = check_between(rng, 1, 2);
    r->n_batch[1] = r->index_batch[1] = check_between(rng, 1, 2);
    r->dst_type = types[check_between(rng, 0, 3)];
    r->index_type = check_one_in(rng, 2) ? GDN_I64 : GDN_I32;
    r->index_style = ROWS_RANDOM;
    r->seed = check_next(rng);
}

/* One bad value in one of the maps that are there, or none. */
static void draw_call(sides *s, const check_kernel *kernel, uint64_t seed)
{
    static const int64_t far[] = { 1 << 20, INT32_MAX, -3, INT32_MIN, (WIDE) + 3, INT64_MIN };
    check_spec spec;
    check_case amiss, meant;
    check_rng rng = { .state = seed }, same[] = { { .state = 1 }, { .state = 1 } };
    const check_view *map[CHECK_MAX_VIEWS];
    int n = 0;
    memset(&spec, 0, sizeof spec);
    if (kernel == &check_kernel_gated_delta_net) draw_delta(&spec.gated_delta_net, &rng);
    else if (kernel == &check_kernel_ssm_conv) draw_conv(&spec.ssm_conv, &rng);
    else draw_rows(&spec.set_rows, &rng);
    check_case_init(&amiss, kernel);
    kernel->build(&amiss, &spec, &same[0]);
    if (kernel == &check_kernel_gated_delta_net) spec.gated_delta_net.map_src = 1; /* a place for GDN_SKIP */
    if (kernel == &check_kernel_ssm_conv) spec.ssm_conv.map_src = 1;
    check_case_init(&meant, kernel);
    kernel->build(&meant, &spec, &same[1]);
    for (int i = 0; i < amiss.n_views; i++)
        if (amiss.view[i].is_span || !strcmp(amiss.view[i].name, "index")) map[n++] = &amiss.view[i];
    const check_view *v = n && !check_one_in(&rng, 8) ? map[check_between(&rng, 0, n - 1)] : NULL;
    if (!v) {
        judge(s, &amiss, &meant, NULL, 0, 0, QUIET);
        return;
    }
    const int last = (int)(v->is_span ? v->extent[0] : spec.set_rows.n_rows) - 1, at = check_between(&rng, 0, last);
    const int wide = !v->is_span && v->dtype == GDN_I64;
    int64_t value = far[check_between(&rng, 0, wide ? 5 : 3)];
    if (!strcmp(v->name, "seq_start") && check_one_in(&rng, 2)) /* one that descends at either end */
        value = at == 0 ? get(&amiss, v->name, 1) + 1 : at == last ? get(&amiss, v->name, last - 1) - 1 : -1;
    if (strstr(v->name, "dst") && value == -3) value = GDN_SKIP; /* a source may be skipped, a target may not */
    if (!strcmp(v->name, "position") && value == 1 << 20) value = -1;
    judge(s, &amiss, &meant, v->name, at, value, PERHAPS);
}

static void draw_all(sides *s)
{
    for (int i = 0; i < 300; i++) draw_call(s, &check_kernel_ssm_conv, 1000 + (uint64_t)i);
    for (int i = 0; i < 60; i++) draw_call(s, &check_kernel_set_rows, 2000 + (uint64_t)i);
    for (int i = 0; i < 80; i++) draw_call(s, &check_kernel_gated_delta_net, 3000 + (uint64_t)i);
}

/* ---- All ------------------------------------------------------------------------------------------------- */

void device_bad_maps(gdn_context *ctx)
{
    int needed = 0;
    REQUIRE(!workspaces_that_shrink(ctx, 3000, &needed));
    sides s = { .ctx = ctx, .device = check_target_adopt(ctx) };
    s.reference = check_target_open(GDN_BACKEND_REFERENCE, 0, 0, GDN_EXACT);
    NEED(s.device && s.reference);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int b = 0; b < FAR && (b == 0 || table[i].bad[b].at || table[i].bad[b].value); b++) {
            const struct call *const call = &calls[table[i].line];
            check_case amiss, meant;
            placed_case(&amiss, call->suite, call->text);
            placed_case(&meant, call->suite, call->text);
            judge(&s, &amiss, &meant, table[i].map, table[i].bad[b].at, table[i].bad[b].value, table[i].how);
        }
    draw_all(&s);
    check_result_free(&s.got);
    check_result_free(&s.expected);
    check_target_close(s.device);
    check_target_close(s.reference);
}
