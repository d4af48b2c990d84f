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
        if (how == REPORTED || (how == PERHAPS && s->got.status == GDN_BAD_MAP))
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

enum {
    SLOTS,
    UNUSED,
    UNWRITTEN,
    CHECKPOINTS_3,
    CHECKPOINTS_40,
    CHECKPOINTS_UNUSED,
    LOGS_3,
    LOGS_40,
    LOGS_PADDED,
    ROUNDED_3,
    ROUNDED_2,
    TREES_3,
    TREES_PADDED,
    NO_TOKENS,
    CONV_3,
    CONV_40,
    CONV_TREES,
    CONV_SHORT,
    CONV_ABSENT,
    CONV_NO_TOKENS,
    ROWS_12,
    ROWS_12_WIDE,
    ROWS_100,
    ROWS_100_WIDE,
};

static const int parents[][3] = { { GDN_NONE, 0, 0 }, { GDN_NONE, GDN_NONE, 0 }, { GDN_NONE, 0, 1 } };

/* Calls of gated_delta_net: 3 sequences in a pool of 4 rows with 2 slots. */
static delta_spec slots(int length)
{
    static const int src[] = { 6, 0, 2 }, dst[][2] = { { 6, 7 }, { 1, GDN_NONE }, { 3, 2 } };
    delta_spec d =
        DELTA(3, length, .n_heads_k = 2, .n_heads_v = 2, .dim_k = 32, .dim_v = 32, .n_slots = 2, .n_slots_out = 2,
              .n_snapshots = 2, .n_rows = 4, .n_rows_out = 4, .map_start = 1, .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 3; s++) {
        d.seq[s].src = src[s];
        memcpy(d.seq[s].dst, dst[s], sizeof dst[s]);
    }
    return d;
}

/* Unused entries: of more snapshots than tokens, of padding, of a sequence without tokens. */
static delta_spec unused(int n_snapshots)
{
    static const int length[] = { 1, 2, 0, 1 }, src[] = { 6, GDN_SKIP, 0, 2 },
                     dst[][2] = { { 7, 99 }, { -5, INT32_MAX }, { INT32_MIN, 8 }, { 3, GDN_SKIP } };
    delta_spec d = slots(0);
    d.n_seqs = 4;
    d.n_snapshots = n_snapshots;
    d.map_dst = n_snapshots > 0;
    for (int s = 0; s < 4; s++) {
        d.seq[s].key = 1000003u * (uint64_t)(s + 1);
        d.seq[s].length = length[s];
        d.seq[s].src = src[s];
        memcpy(d.seq[s].dst, dst[s], sizeof dst[s]);
    }
    return d;
}

static delta_spec checkpoints(int length)
{
    static const int position[] = { 0, 5, INT32_MAX - 40 };
    delta_spec d = slots(length);
    d.n_rows = d.n_rows_out = 7;
    d.interval = d.n_checkpoints = 2;
    d.map_position = 1;
    for (int s = 0; s < 3; s++) {
        d.seq[s].position = position[s];
        for (int i = 0; i < 2; i++) d.seq[s].checkpoint[i] = 8 + 2 * s + i;
    }
    return d;
}

/* A row of the log, none, and no tokens but a state to commit; entries just fit. */
static delta_spec logs(int length)
{
    static const int position[] = { 11, 5, INT32_MAX }, n_replayed[] = { 3, 0, 2 }, row[] = { 2, GDN_NONE, 0 },
                     commit[] = { 6, 4, 3 };
    delta_spec d = slots(length);
    d.seq[2].length = 0;
    d.n_snapshots = d.map_dst = 0;
    d.log_rows = 3;
    d.log_slots = length + 3;
    d.map_position = d.map_log_row = d.map_base_position = d.map_commit = 1;
    for (int s = 0; s < 3; s++) {
        d.seq[s].position = position[s];
        d.seq[s].n_replayed = n_replayed[s];
        d.seq[s].log_row = row[s];
        d.seq[s].commit = commit[s];
    }
    return d;
}

static delta_spec rounded(int length)
{
    static const int position[] = { 9, 6, 12 }, dst[] = { 5, 7, 4 };
    delta_spec d = slots(length);
    d.n_snapshots = 1;
    d.dtype_state = GDN_BF16;
    d.state_interval = d.log_rows = 3;
    d.log_slots = 8;
    d.map_position = d.map_base_position = 1;
    for (int s = 0; s < 3; s++) {
        d.seq[s].position = position[s];
        d.seq[s].n_replayed = 3;
        d.seq[s].log_row = s;
        d.seq[s].dst[0] = length % 3 ? GDN_NONE : dst[s];
    }
    return d;
}

static delta_spec trees(void)
{
    delta_spec d = slots(3);
    d.n_snapshots = d.map_dst = 0;
    d.log_rows = d.log_slots = 3;
    d.tree = d.map_parent = d.map_log_row = 1;
    for (int s = 0; s < 3; s++) {
        d.seq[s].log_row = 2 - s;
        d.seq[s].parent = parents[s];
    }
    return d;
}

#define CONVOLUTION(length, ...)                                                                                       \
    CONV(3, length, .n_channels = 20, .width = 4, .map_start = 1, .map_src = 1, __VA_ARGS__)

static conv_spec rings(int length)
{
    static const int position[] = { 7, 0, 12 }, src[] = { 2, GDN_NONE, 0 }, dst[] = { 2, 3, 1 };
    conv_spec c = CONVOLUTION(length, .call.args.activation = 1, .map_position = 1, .map_dst = 1, .n_slots = 5,
                              .n_rows = 7, .n_rows_out = 7, .interval = 3, .n_checkpoints = 1);
    for (int s = 0; s < 3; s++) {
        c.seq[s].position = position[s];
        c.seq[s].src = src[s];
        c.seq[s].dst = dst[s];
        c.seq[s].checkpoint[0] = 4 + s;
    }
    return c;
}

static conv_spec conv_trees(int n_slots)
{
    conv_spec c = CONVOLUTION(3, .n_slots = n_slots, .tree = 1, .map_parent = 1);
    for (int s = 0; s < 3; s++) c.seq[s].parent = parents[s];
    return c;
}

/* No piece has the last sequence. */
static conv_spec conv_absent(void)
{
    conv_spec c = CONVOLUTION(40, .map_dst = 1, .map_position = 1, .where = CONV_NOWHERE);
    c.seq[2].length = 0;
    for (int s = 0; s < 3; s++) c.seq[s].src = c.seq[s].dst = GDN_NONE;
    return c;
}

static const check_kernel *call_of(int name, check_spec *call)
{
    delta_spec *const d = &call->gated_delta_net;
    conv_spec *const c = &call->ssm_conv;
    switch (name) {
    case SLOTS: *d = slots(3); break;
    case UNUSED: *d = unused(2); break;
    case UNWRITTEN: *d = unused(0); break;
    case CHECKPOINTS_3: *d = checkpoints(3); break;
    case CHECKPOINTS_40: *d = checkpoints(40); break;
    case CHECKPOINTS_UNUSED:
        *d = checkpoints(3);
        d->seq[0].length = 1;
        d->seq[1].src = GDN_SKIP;
        d->seq[0].checkpoint[0] = d->seq[0].checkpoint[1] = 99;
        d->seq[1].checkpoint[0] = INT32_MIN;
        break;
    case LOGS_3: *d = logs(3); break;
    case LOGS_40: *d = logs(40); break;
    case LOGS_PADDED:
        *d = logs(3);
        d->seq[1].src = GDN_SKIP;
        d->seq[1].n_replayed = 5;
        d->seq[1].commit = INT32_MIN;
        break;
    case ROUNDED_3: *d = rounded(3); break;
    case ROUNDED_2: *d = rounded(2); break;
    case TREES_3: *d = trees(); break;
    case TREES_PADDED:
        *d = trees();
        d->seq[1].src = GDN_SKIP;
        break;
    case NO_TOKENS: *d = slots(0); break;
    case CONV_3: *c = rings(3); break;
    case CONV_40: *c = rings(40); break;
    case CONV_TREES: *c = conv_trees(6); break;
    case CONV_SHORT:
        *c = conv_trees(5);
        c->seq[0].length = c->seq[2].length = 2;
        break;
    case CONV_ABSENT: *c = conv_absent(); break;
    case CONV_NO_TOKENS: *c = CONVOLUTION(0, .map_position = 1); break;
    default:
        call->set_rows = ROWS(.args.n_columns = 40, .args.n_rows_dst = 150, .dst_type = GDN_F16,
                              .args.n_rows = name < ROWS_100 ? 12 : 100,
                              .index_type = name == ROWS_12 || name == ROWS_100 ? GDN_I32 : GDN_I64);
        return &check_kernel_set_rows;
    }
    return name < CONV_3 ? &check_kernel_gated_delta_net : &check_kernel_ssm_conv;
}

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
typedef struct shape {
    int map_start, map_src, map_dst, many, a;
} shape;

static shape shape_of(int bits) { return (shape){ bits >> 3 & 1, bits >> 2 & 1, bits >> 1 & 1, bits & 1, 0 }; }

static int length_of(const shape *x, int s)
{
    static const int few[] = { 1, 4, 0, 3 }, many[] = { 40, 0, 70, 23 };
    if (x->map_start) return (x->many ? many : few)[(s + x->a) % 4];
    return x->many ? 17 + x->a : 1 + x->a % 4;
}

static void any_conv(int number, check_spec *any)
{
    shape x = shape_of(number >> 1);
    const int where = number & 1 ? CONV_NOWHERE : CONV_IN_PLACE, positions = number >> 5 & 1;
    const int n_seqs = 2 + (x.map_src + x.many) % 3, a = x.a = n_seqs + x.map_dst, t = x.map_src && x.map_dst ? a : 0;
    conv_spec c =
        CONV(n_seqs, 0, .n_channels = 20, .width = 3 + a % 2, .map_position = positions, .map_start = x.map_start,
             .map_src = x.map_src, .map_dst = x.map_dst, .where = where, .lead = x.map_start * (a % 3),
             .tail = x.map_start, .call.args.activation = 1, .n_slots = 5, .n_rows = 12, .n_rows_out = 12);
    for (int s = 0; s < n_seqs; s++) {
        c.seq[s].length = length_of(&x, s);
        c.seq[s].position = positions * (s + a);
        c.seq[s].src = c.seq[s].dst = where == CONV_NOWHERE ? GDN_NONE : s + t;
        if (x.map_src && (s + a) % 3 == 0) c.seq[s].src = a % 2 ? GDN_SKIP : GDN_NONE;
        if (x.map_dst && (s + a) % 4 == 0) c.seq[s].dst = GDN_NONE;
    }
    any->ssm_conv = c;
}

static void any_rows(int number, check_spec *any)
{
    static const int n_rows[] = { 12, 40, 64, 65, 90 };
    const int type = number / 2 % 4, batch = 1 + type % 2;
    any->set_rows = ROWS(.args.n_rows = n_rows[number / 8], .dst_type = type, .index_type = GDN_I32 + number % 2,
                         .args.n_columns = 64, .args.n_rows_dst = 60, .args.n_batch = { 2, batch },
                         .args.index_batch = { 1, batch });
}

static void any_delta(int number, check_spec *any)
{
    static const int n[] = { 1, 3, 4 };
    shape x = shape_of(number);
    const int n_seqs = n[number >> 4], a = x.a = n_seqs + x.map_src, t = x.map_src && x.map_dst ? a : 0;
    const int dim = a % 3 ? 32 : 64;
    delta_spec d =
        DELTA(n_seqs, 0, .n_heads_k = 2, .n_heads_v = 2, .dim_k = dim, .dim_v = dim, .n_slots = 2, .n_slots_out = 2,
              .n_snapshots = 2, .n_rows = 12, .n_rows_out = 12, .map_start = x.map_start, .map_src = x.map_src,
              .map_dst = x.map_dst, .lead = x.map_start * (a % 3), .tail = x.map_start);
    for (int s = 0; s < n_seqs; s++) {
        const int sources[] = { GDN_NONE, GDN_SKIP, 2 * (s + t), 2 * (s + t) + 1 };
        d.seq[s].length = length_of(&x, s);
        d.seq[s].src = x.map_src ? sources[(s + a) % 4] : 2 * (s + t);
        for (int i = 0; i < 2; i++) d.seq[s].dst[i] = x.map_dst && (s + i + a) % 5 == 0 ? GDN_NONE : 2 * (s + t) + i;
    }
    any->gated_delta_net = d;
}

static const struct {
    const check_kernel *kernel;
    void (*make)(int number, check_spec *any);
    int n, n_bad; /* calls; bad values for each */
} shapes[] = {
    { &check_kernel_ssm_conv, any_conv, 64, 5 },
    { &check_kernel_set_rows, any_rows, 40, 2 },
    { &check_kernel_gated_delta_net, any_delta, 48, 2 }, /* most of the time */
};

/* A value in one of the maps that are there. */
static void try_any(sides *s, const check_kernel *kernel, check_spec *any, check_rng *rng)
{
    static const int64_t far[] = { 1 << 20, INT32_MAX, -3, INT32_MIN, (WIDE) + 3, INT64_MIN };
    check_case amiss, meant;
    const check_view *map[CHECK_MAX_VIEWS];
    int n = 0;
    placed_case(&amiss, kernel, any);
    if (kernel == &check_kernel_ssm_conv) any->ssm_conv.map_src = 1; /* a place for GDN_SKIP */
    if (kernel == &check_kernel_gated_delta_net) any->gated_delta_net.map_src = 1;
    placed_case(&meant, kernel, any);
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
    check_spec any;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < shapes[i].n * shapes[i].n_bad; k++) {
            shapes[i].make(k / shapes[i].n_bad, &any);
            try_any(s, shapes[i].kernel, &any, &rng);
        }
}

/* ---- All ------------------------------------------------------------------------------------------------- */

void device_bad_maps(gdn_context *ctx)
{
    int needed = 0;
    device_rules(ctx);
    REQUIRE(!workspaces_that_shrink(ctx, 3000, &needed));
    sides s = { .ctx = ctx, .device = check_target_adopt(ctx) };
    s.reference = check_target_open(GDN_BACKEND_REFERENCE, 0, 0, GDN_EXACT);
    NEED(s.device && s.reference);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int b = 0; b < FAR && (b == 0 || table[i].bad[b].at || table[i].bad[b].value); b++) {
            check_case amiss, meant;
            check_spec call;
            const check_kernel *const kernel = call_of(table[i].line, &call);
            placed_case(&amiss, kernel, &call);
            placed_case(&meant, kernel, &call);
            judge(&s, &amiss, &meant, table[i].map, table[i].bad[b].at, table[i].bad[b].value, table[i].how);
        }
    try_all(&s);
    check_result_free(&s.got);
    check_result_free(&s.expected);
    check_target_close(s.device);
    check_target_close(s.reference);
}
