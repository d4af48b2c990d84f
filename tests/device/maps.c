/* Calls with a bad value in a map, which only the device sees: the sequence, snapshot or row is skipped, the rest is
 * computed, and GDN_BAD_MAP names the map, once. What is expected comes from the reference, which gets the map that the
 * documentation says a bad value amounts to. */
#include <string.h>

#include "check/compare.h"
#include "check/target.h"
#include "tests/device/placed.h"
#include "tests/device/suite.h"
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
    unsigned char *const to =
        v->is_span ? memory->image + memory->before + 4 * (size_t)at : check_at(c, v, memory->image, 0, 0, at, 0);
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
    const int n_seqs = (int)check_find(meant, src)->extent[0], of_start = !strcmp(map, "seq_start");
    int s = of_start ? at - 1 : at; /* which delimits two sequences */
    if (!strcmp(map, "tree.parent"))
        for (s = 0; get(meant, "seq_start", s + 1) <= at; s++) continue;
    for (int last = of_start ? s + 1 : s; s <= last; s++)
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
    "n_snapshots=map_dst=0 log_rows=3 log_slots=t+3 length=t,t,0 "                                                     \
    "map_position=map_log_row=map_base_position=map_commit=1 position=11,5,2147483647 n_replayed=3,0,2 "               \
    "log_row=2,none,0 commit=6,4,3 "
#define ROUNDED                                                                                                        \
    "n_snapshots=1 dtype_state=bf16 state_interval=3 log_rows=3 log_slots=8 map_position=map_base_position=1 "         \
    "position=9,6,12 n_replayed=3 log_row=s dst=5,7,4 "
#define PARENTS "parent=i?i==1?pick(s,0,none,0):pick(s,0,0,1):none "
#define TREES   "n_snapshots=map_dst=0 log_rows=log_slots=3 tree=map_parent=map_log_row=1 log_row=2-s " PARENTS
#define CONV    " n_channels=20 width=4 n_seqs=3 map_start=map_src=1 "
#define RINGS                                                                                                          \
    "length=t silu=map_position=map_dst=1 n_slots=5 n_rows=n_rows_out=7 interval=3 n_checkpoints=1 "                   \
    "position=7,0,12 src=2,none,0 dst=2,3,1 checkpoint=4+s "
#define ROWS " n_columns=40 n_rows_dst=150 dst_type=f16 index_style=1 "

// clang-format off
#define LINES(X) /* name, kernel, the call */                                                                          \
    X(SLOTS, gated_delta_net, DELTA)                                                                                   \
    /* Unused entries: of more snapshots than tokens, of padding, of a sequence without tokens. */                     \
    X(UNUSED, gated_delta_net, DELTA "n_seqs=4 length=1,2,0,1 src=6,skip,0,2 "                                         \
                                     "dst=i?pick(s,99,2147483647,8,skip):pick(s,7,-5,-2147483648,3)")                  \
    X(UNWRITTEN, gated_delta_net, DELTA "n_seqs=4 length=1,2,0,1 src=6,skip,0,2 n_snapshots=map_dst=0")                \
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
    X(CONV_TREES, ssm_conv, CONV "length=3 n_slots=6 tree=map_parent=1 " PARENTS)                                    \
    X(CONV_SHORT, ssm_conv, CONV "length=2,3,2 n_slots=5 tree=map_parent=1 " PARENTS)                                \
    /* No piece has the last sequence. */                                                                              \
    X(CONV_ABSENT, ssm_conv, CONV "length=40,40,0 map_dst=map_position=1 src=dst=none where=nowhere")                  \
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
    { CONV_ABSENT, NULL, { { 0, 0 } }, QUIET },
    { CONV_ABSENT, "position", { { 2, -1 } }, REPORTED },
    { CONV_ABSENT, "history_src", { { 2, 1 }, { 2, MOST }, { 2, -3 } }, REPORTED },
    { CONV_ABSENT, "history_dst", { { 2, 1 }, { 2, MOST }, { 2, GDN_SKIP } }, REPORTED },
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

/* ---- Any values ------------------------------------------------------------------------------------------ */

/* Few tokens or many, each map there or not, with a history or without, so that every way to split a call is met. */
#define SHAPES                                                                                                         \
    "{map_start:0|1} {map_src:0|1} {map_dst:0|1} {m:0|1} "                                                             \
    "length=map_start?m?pick(s+a,40,0,70,23):pick(s+a,1,4,0,3):m?17+a:1+a%4 lead=map_start*(a%3) tail=map_start "      \
    "t=map_src&&map_dst?a:0 "
static const struct {
    const check_suite *suite;
    int n; /* bad values for each call of the text */
    const char *text;
} shapes[] = {
    { &check_suite_ssm_conv, 5,
      "any n_channels=20 n_seqs=2+(map_src+m)%3 a=n_seqs+map_dst width=3+a%2 {map_position:0|1} " SHAPES
      "{where:in_place|nowhere} silu=1 n_slots=5 n_rows=n_rows_out=12 position=map_position*(s+a) "
      "src=map_src&&(s+a)%3==0?a%2?skip:none:where==nowhere?none:s+t "
      "dst=where==nowhere||map_dst&&(s+a)%4==0?none:s+t" },
    { &check_suite_set_rows, 2,
      "any {n_rows:12|40|64|65|90} {dst_type:f32|f16|bf16|q8_0} {index_type:i32|i64} n_columns=64 n_rows_dst=60 "
      "n_batch=2,1+dst_type%2 index_batch=1,1+dst_type%2 index_style=1" },
    { &check_suite_gated_delta_net, 2,
      "any n_heads_k=n_heads_v=2 {n_seqs:1|3|4} a=n_seqs+map_src dim_k=dim_v=a%3?32:64 n_slots=n_slots_out=2 "
      "n_snapshots=2 n_rows=n_rows_out=12 " SHAPES "src=map_src?pick(s+a,none,skip,2*(s+t),2*(s+t)+1):2*(s+t) "
      "dst=map_dst&&(s+i+a)%5==0?none:2*(s+t)+i" }, /* most of the time */
};

/* A value in one of the maps that are there. */
static void try_any(sides *s, const check_suite *suite, const char *text, int number, check_rng *rng)
{
    static const int64_t far[] = { 1 << 20, INT32_MAX, -3, INT32_MIN, (WIDE) + 3, INT64_MIN };
    char with_source[1024]; /* a place for GDN_SKIP */
    check_case amiss, meant;
    const check_view *map[CHECK_MAX_VIEWS];
    int n = 0;
    (void)snprintf(with_source, sizeof with_source, "%s map_src=1", text);
    placed_case(&amiss, suite, text, number);
    placed_case(&meant, suite, suite == &check_suite_set_rows ? text : with_source, number);
    for (int i = 0; i < amiss.n_views; i++)
        if (amiss.view[i].is_span || !strcmp(amiss.view[i].name, "index")) map[n++] = &amiss.view[i];
    if (!n) {
        judge(s, &amiss, &meant, NULL, 0, 0, QUIET);
        return;
    }
    const check_view *const v = map[check_between(rng, 0, n - 1)];
    const int last = (int)v->extent[v->is_span ? 0 : 2] - 1, at = check_between(rng, 0, last);
    int64_t value = far[check_between(rng, 0, !v->is_span && v->dtype == GDN_I64 ? 5 : 3)];
    if (!strcmp(v->name, "seq_start") && check_one_in(rng, 2)) /* one that descends at either end */
        value = at == 0 ? get(&amiss, v->name, 1) + 1 : at == last ? get(&amiss, v->name, last - 1) - 1 : -1;
    if (strstr(v->name, "dst") && value == -3) value = GDN_SKIP; /* a source may be skipped, a target may not */
    if (!strcmp(v->name, "position") && value == 1 << 20) value = -1;
    judge(s, &amiss, &meant, v->name, at, value, PERHAPS);
}

static void try_all(sides *s)
{
    check_rng rng = { .state = 20 };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const char *const lines[] = { shapes[i].text, NULL };
        check_suite suite = *shapes[i].suite;
        suite.lines = lines;
        for (int k = 0; k < shapes[i].n * check_n_fixed(&suite); k++)
            try_any(s, shapes[i].suite, shapes[i].text, k / shapes[i].n, &rng);
    }
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
            placed_case(&amiss, call->suite, call->text, 0);
            placed_case(&meant, call->suite, call->text, 0);
            judge(&s, &amiss, &meant, table[i].map, table[i].bad[b].at, table[i].bad[b].value, table[i].how);
        }
    try_all(&s);
    check_result_free(&s.got);
    check_result_free(&s.expected);
    check_target_close(s.device);
    check_target_close(s.reference);
}
