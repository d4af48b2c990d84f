/* The memory alone, without kernels: what is refused and changes nothing, cells of drafts, sizes, and
 * allocations that fail. States and rollbacks are tested with kernels, in test_engine_random.c.
 *
 * Linked with --wrap=rt_calloc, so that allocations fail on request. */
#include <stddef.h>

#include "memory_audit.h"
#include "memory_fixture.h"
#include "numerics/checksum.h"
#include "runtime/memory/replay_log.h"
#include "system/system.h"

enum { NO = GDN_INVALID_ARGUMENT, FULL = GDN_OUT_OF_MEMORY, UNABLE = GDN_UNSUPPORTED, CELLS = 90 };

/* ---- Allocations ---- */

static int64_t calloc_fails_in = -1, device_fails_in = -1, live, device_bytes, device_calls; /* -1: never */

void *__real_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what)
{
    if (calloc_fails_in < 0 || calloc_fails_in--) return __real_rt_calloc(n, size, what);
    (void)rt_fail(GDN_OUT_OF_MEMORY, "no memory for %s: the test wants it so", what);
    return NULL;
}

static void *device_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    (void)user;
    device_calls++;
    if (device_fails_in >= 0 && device_fails_in-- == 0) return NULL;
    live++;
    device_bytes += (int64_t)bytes;
    return gdn_aligned_alloc(alignment, bytes);
}

static void device_free(void *user, void *memory)
{
    (void)user;
    live -= memory != NULL;
    gdn_aligned_free(memory);
}

static gdn_context *context;

/* All that a refused call must leave alone. */
static uint64_t digest(const rt_memory *m)
{
    uint64_t sum = (uint64_t)m->hidden.bytes;
#define MIX(bytes, n) (sum = sum * 31 + gdn_checksum(bytes, (uint64_t)(n)))
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const rt_sequence *at = &m->seq[s];
        const int32_t numbers[] = { at->length, at->n_listed, at->conv_row, at->conv_from, at->draft, at->ahead };
        MIX(numbers, sizeof numbers);
        MIX(at->cell, 4 * at->n_listed);
        MIX(at->snapshot, (size_t)m->K * sizeof *at->snapshot);
        MIX(at->hidden_at, (size_t)m->K * sizeof *at->hidden_at);
    }
    const rt_resource *all[] = { &m->slots, &m->rows, &m->cells };
    for (int i = 0; i < 3; i++) {
        MIX(all[i]->count, 4 * all[i]->n);
        MIX(all[i]->free, 4 * all[i]->n_free);
    }
    const gdn_span pools[] = { m->state[0], m->conv[0], m->k[0], m->k[1], m->v[0], m->v[1], m->hidden };
    for (int i = 0; i < 7; i++) MIX(pools[i].data, pools[i].bytes);
    return sum;
#undef MIX
}

/* The call is refused and changes nothing. */
#define REFUSED(m, call, status)                                                                                       \
    do {                                                                                                               \
        const uint64_t test_before = digest(m);                                                                        \
        REQUIRE((call) == (status));                                                                                   \
        REQUIRE(digest(m) == test_before);                                                                             \
    } while (0)

/* ---- Steps, lengths, positions ---- */

static void refusals(void)
{
    const rt_token_run twice[] = { { 0, 0, 1 }, { 0, 1, 1 } };
    const rt_token_run bad[] = { { 9, 0, 1 }, { -1, 0, 1 }, { 0, 0, 0 }, { 0, 1, 1 }, { 0, 0, -3 } };
    rt_memory *m = memory_open(context, 3, 64, 3);
    rt_step *step, *second;
    NEED(!memory_advance(m, 0, 9));
    REQUIRE(rt_memory_seq_min_length(m, 0) == 6);
    REFUSED(m, rt_memory_seq_rm(m, 0, 2, -1), UNABLE); /* attention is not trimmed where the state cannot be */
    REFUSED(m, rt_memory_seq_rm(m, 0, 2, 4), UNABLE);
    REFUSED(m, rt_memory_seq_rm(m, 0, 7, 8), UNABLE);
    REFUSED(m, rt_memory_seq_rm(m, 9, 0, -1), NO);
    REFUSED(m, rt_memory_seq_rm(m, 0, -1, -1), NO);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) REFUSED(m, rt_memory_step_begin(m, &bad[i], 1, &step), NO);
    REFUSED(m, rt_memory_step_begin(m, twice, 2, &step), NO);
    REFUSED(m, rt_memory_step_begin(m, twice, 0, &step), NO);
    REFUSED(m, rt_memory_step_begin(m, NULL, 1, &step), NO);
    REFUSED(m, rt_memory_step_begin(m, &(rt_token_run){ 0, 0, 64 }, 1, &step), FULL);
    REQUIRE(!step);
    for (int active = 0; active < 2; active++) { /* while a step is under way nothing can be changed, whatever it is */
        const int32_t seq = active ? 0 : 9;
        const uint64_t before = digest(m);
        if (active) NEED(!rt_memory_step_begin(m, twice, 1, &step));
        REFUSED(m, rt_memory_seq_cp(m, 0, active ? 1 : 9), NO);
        REFUSED(m, rt_memory_seq_cp(m, active ? 0 : -1, 0), NO);
        REFUSED(m, rt_memory_draft_reserve(m, seq, 1, NULL), NO);
        if (!active) continue;
        REFUSED(m, rt_memory_step_begin(m, twice, 1, &second), NO);
        REFUSED(m, rt_memory_seq_rm(m, 0, 0, -1), NO);
        REQUIRE(!second);
        rt_memory_step_cancel(m, step, 0);
        REQUIRE(digest(m) == before);
        rt_memory_step_commit(m, step); /* it is over: nothing happens */
        REQUIRE(digest(m) == before);
    }
    rt_memory_destroy(m);
}

/* Copies share all until they go on. Without snapshots a third slot would be needed to go on together. */
static void copies(void)
{
    rt_memory *m = memory_open(context, 2, 64, 0);
    const rt_token_run both[] = { { 0, 0, 1 }, { 1, 1, 1 } };
    rt_step *step;
    NEED(!memory_advance(m, 0, 5));
    REFUSED(m, rt_memory_seq_rm(m, 0, 4, -1), UNABLE);
    REQUIRE(!rt_memory_seq_rm(m, 0, 5, -1) && !rt_memory_seq_cp(m, 0, 1) && m->slots.n == 2 && m->slots.n_free == 1);
    REQUIRE(rt_memory_step_fit(m, both, 2) == 1);
    REFUSED(m, rt_memory_step_begin(m, both, 2, &step), FULL);
    NEED(!memory_advance(m, 0, 1));
    REQUIRE(rt_memory_step_fit(m, both, 2) == 2 && !m->slots.n_free && rt_memory_free_cells(m) == 64 - 6);
    memory_audit(m);
    rt_memory_destroy(m);
    m = memory_open(context, 3, 64, 2);
    for (int32_t s = 0; s < 3; s++) NEED(!memory_advance(m, s, 7 + s));
    REFUSED(m, rt_memory_seq_rm(m, -1, 6, -1), UNABLE); /* of all or of none */
    REQUIRE(!rt_memory_seq_rm(m, -1, 7, -1) && rt_memory_seq_length(m, 0) == 7 && rt_memory_seq_length(m, 2) == 7);
    REQUIRE(!rt_memory_seq_rm(m, -1, 0, -1));
    REQUIRE(rt_memory_free_cells(m) == 64 && m->slots.n_free == m->slots.n && m->rows.n_free == m->rows.n);
    rt_memory_destroy(m);
}

/* Cells that are reserved for drafts are those of the next step; a ring of hidden rows. */
static void drafts(void)
{
    rt_memory *m = memory_open(context, 2, 24, 2);
    const int32_t *cells = NULL;
    rt_step *step;
    NEED(!memory_advance(m, 0, 5));
    rt_memory_draft_set_length(m, 0, 9);
    REQUIRE(rt_memory_draft_length(m, 0) == 5 && !rt_memory_draft_reserve(m, 0, 3, &cells) &&
            cells == rt_memory_seq_cells(m, 0) + 5);
    const int32_t first = cells[0], last = cells[2];
    REQUIRE(!rt_memory_draft_reserve(m, 0, 1, NULL) && rt_memory_draft_reserved(m, 0) == 3 &&
            rt_memory_free_cells(m) == 16);
    NEED(!rt_memory_step_begin(m, &(rt_token_run){ 0, 0, 2 }, 1, &step));
    REQUIRE(step->new_cell[0] == first);
    rt_memory_step_cancel(m, step, 0); /* which keeps them */
    REQUIRE(rt_memory_draft_reserved(m, 0) == 3 && rt_memory_seq_cells(m, 0)[7] == last && !memory_advance(m, 0, 2));
    REQUIRE(rt_memory_seq_cells(m, 0)[5] == first && !rt_memory_draft_reserved(m, 0) && rt_memory_free_cells(m) == 17);
    REFUSED(m, rt_memory_draft_reserve(m, 0, 24, NULL), FULL);
    REFUSED(m, rt_memory_draft_reserve(m, 0, -1, NULL), NO);
    for (int how = 0; how < 2; how++) {
        REQUIRE(!rt_memory_draft_reserve(m, 0, 4, NULL) && rt_memory_free_cells(m) == 13);
        if (how == 0) REQUIRE(!rt_memory_draft_reserve(m, 0, 0, NULL));
        if (how == 1) REQUIRE(!rt_memory_seq_rm(m, 0, 7, -1));
        REQUIRE(!rt_memory_draft_reserved(m, 0) && rt_memory_free_cells(m) == 17);
    }
    REQUIRE(!rt_memory_draft_reserve(m, 0, 17, NULL) && !memory_advance(m, 0, 17) && !rt_memory_seq_rm(m, 0, 22, -1));
    NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !memory_advance(m, 0, 7) && !rt_memory_draft_reserve(m, 0, 4, NULL) &&
         !rt_memory_seq_cp(m, 0, 1));
    REQUIRE(!rt_memory_draft_reserved(m, 1) && rt_memory_draft_reserved(m, 0) == 4);
    int32_t token = -1;
    REQUIRE(!rt_memory_hidden_row(m, 1, 3, NULL) && *rt_memory_hidden_row(m, 1, 4, &token) == 4.0f && token == 4);
    REFUSED(m, (rt_memory_hidden_put(m, 0, 3, 0, &(float){ 99 }), rt_memory_hidden_put(m, 0, 7, 0, &(float){ 99 }), 0),
            0);
    REQUIRE(!rt_memory_seq_rm(m, 1, 6, -1) && !rt_memory_hidden_row(m, 1, 6, NULL) &&
            rt_memory_hidden_row(m, 1, 5, NULL));
    memory_audit(m);
    rt_memory_destroy(m);
}

/* A model without a draft head: nothing of one is kept. */
static void no_draft_head(void)
{
    rt_model model = memory_model;
    model.hp.n_mtp = 0;
    const rt_memory_desc desc = FIELDS(.model = &model, .device = context, .host = context, .n_seqs = 2, .n_cells = 8,
                                       .n_rollback = 1, .kv_type = GDN_F32);
    rt_memory *m;
    NEED(!rt_memory_create(&desc, &m) && !memory_advance(m, 0, 3));
    rt_memory_draft_set_length(m, 0, 3);
    REQUIRE(!rt_memory_hidden_row(m, 0, 2, NULL) && !rt_memory_draft_length(m, 0) && !rt_memory_seq_cp(m, 0, 1));
    rt_memory_destroy(m);
}

/* ---- Sizes ---- */

/* What rt_memory_size() says is what is allocated, in 64 bits. */
static void sizes(void)
{
    enum { HEADER = 64 /* of a buffer of the library */, STATE = 16, HEADS = 2, CHANNELS = 64, EMBD = 8 };
    static const struct {
        int32_t type;
        uint64_t head; /* bytes of 32 elements */
    } kv[] = { { GDN_F32, 128 }, { GDN_F16, 64 }, { GDN_BF16, 64 }, { GDN_Q8_0, 34 } };
    rt_model model = memory_model;
    rt_memory_bytes b;
    rt_memory *m;
    for (int32_t i = 0; i < 24; i++) {
        model.n_recurrent = model.n_attention = 2;
        model.hp =
            (rt_hparams)FIELDS(.n_embd = EMBD, .n_mtp = i & 1, .n_head_kv = 1, .head_dim = 32, .conv_kernel = i % 3 + 1,
                               .state_size = STATE, .n_key_heads = 1, .n_value_heads = HEADS, .n_channels = CHANNELS);
        const rt_memory_desc desc =
            FIELDS(.model = &model, .device = context, .host = context, .n_seqs = 1 + i % 4, .n_cells = 5 + i,
                   .n_rollback = i % 5, .kv_type = kv[i / 2 % 4].type, .draft = 1,
                   .rollback = i % 3 ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG, .commit_after = i % 2);
        const int log = desc.rollback == RT_ROLLBACK_LOG && desc.n_rollback;
        const uint64_t seqs = (uint64_t)desc.n_seqs, R = (uint64_t)desc.n_rollback,
                       entries = log ? 2 * R + 2 + (i % 2 ? 0 : RT_COMMIT_AFTER - 1) : 0;
        const int64_t bytes = device_bytes, calls = device_calls;
        NEED(!rt_memory_size(&desc, &b) && !rt_memory_create(&desc, &m));
        REQUIRE((uint64_t)(device_bytes - bytes - HEADER * (device_calls - calls)) ==
                b.state + b.conv + b.snapshots + b.log + b.kv + b.hidden +
                    (log ? m->fold_maps.bytes + m->fold_workspace.bytes : 0));
        REQUIRE(b.log == 2 * seqs * entries * 4 * (STATE + HEADS * STATE + HEADS));
        REQUIRE(b.kv == 2 * (2 + (uint64_t)(i & 1)) * (uint64_t)desc.n_cells * kv[i / 2 % 4].head);
        REQUIRE(!log || b.snapshots == 2 * seqs * R * CHANNELS * 4);
        REQUIRE((b.snapshots == 0) == (R == 0) && b.hidden == (i & 1 ? seqs * (R + 1) * EMBD * 4 : 0));
        rt_memory_destroy(m);
        rt_memory_desc chunked = desc; /* bytes of digits, a factor per value channel, and always a log */
        chunked.digits = 2 + i % 2;
        NEED(!rt_memory_size(&chunked, &b) && !rt_memory_create(&chunked, &m));
        REQUIRE(b.state == 2 * seqs * HEADS * STATE * (STATE * (uint64_t)chunked.digits + 4) &&
                b.state == 2 * m->state[0].bytes);
        REQUIRE(b.log == 2 * seqs * (RT_CHUNK + R) * 4 * (STATE + HEADS * STATE + HEADS) &&
                b.log == 2 * m->log[0].bytes && b.snapshots == 2 * seqs * R * CHANNELS * 4);
        rt_memory_destroy(m);
    }
    /* a row beyond 2^31 elements, and more than there can be */
    model.hp = (rt_hparams)FIELDS(.n_embd = 4096, .n_mtp = 0, .n_head_kv = 4, .head_dim = 256, .conv_kernel = 4,
                                  .state_size = 128, .n_value_heads = 48, .n_channels = 10240);
    rt_memory_desc d = { .model = &model, .n_seqs = 4096, .n_cells = 1 << 24, .n_rollback = 7, .kv_type = GDN_F32 };
    REQUIRE(!rt_memory_size(&d, &b) && b.state == UINT64_C(2) * 4096 * 48 * 128 * 128 * 4);
    REQUIRE(b.snapshots == UINT64_C(2) * 4096 * 7 * (48 * 128 * 128 * 4 + 10240 * 4) && b.kv == UINT64_C(4) * 1024 * 4
                                                                                                    << 24);
    d.n_cells = 1 << 29;
    model.n_attention = 64;
    REQUIRE(rt_memory_size(&d, &b) == NO);
    const rt_memory_desc good = { .model = &model, .n_seqs = 1, .n_cells = 1, .kv_type = GDN_F32 };
    rt_model odd = model, empty = model; /* heads are no whole blocks; no heads at all */
    odd.hp.head_dim = 48;
    empty.hp.n_value_heads = 0;
#define DESC(says, change)                                                                                             \
    do {                                                                                                               \
        rt_memory_desc bad = good;                                                                                     \
        bad change;                                                                                                    \
        FAILS(rt_memory_size(&bad, &b), NO, says);                                                                     \
        FAILS(rt_memory_create(&bad, &m), NO, says);                                                                   \
        REQUIRE(!m);                                                                                                   \
    } while (0)
    DESC("no model", .model = NULL);
    DESC("sizes are not those of a hybrid model", .model = &empty);
    DESC("n_seqs is 0; 1 to 2^16", .n_seqs = 0);
    DESC("n_seqs is 2147483647; 1 to 2^16", .n_seqs = INT32_MAX);
    DESC("n_cells is 0; 1 to 2^29", .n_cells = 0);
    DESC("n_cells is 2147483647; 1 to 2^29", .n_cells = INT32_MAX);
    DESC("n_rollback is -1; 0 to 1023", .n_rollback = -1);
    DESC("n_rollback is 2147483647; 0 to 1023", .n_rollback = INT32_MAX);
    DESC("n_hidden is -1; 0 to 2^16", .n_hidden = -1);
    DESC("kv_type is 4; ", .kv_type = GDN_I32);
    DESC("kv_type is GDN_Q8_0 and head_dim is 48", .model = &odd; bad.kv_type = GDN_Q8_0);
    DESC("n_prefixes is -1; 0 to 2^20", .n_prefixes = -1);
    DESC("prefix_interval is 0; 1 and more", .n_prefixes = 1);
    DESC("rollback is 7; ", .rollback = (rt_rollback)7);
    DESC("commit_after is 65537; 0 to 2^16", .commit_after = 65537);
    DESC("digits is 1; 0 (recurrence), 2 and 3", .digits = 1);
    DESC("prefix_interval is 48; the chunked form has states at multiples of 32", .digits = 3; bad.n_prefixes = 1;
         bad.prefix_interval = 48);
#undef DESC
    FAILS(rt_memory_create(&good, &m), NO, "it needs a context for states");
    REQUIRE(!m);
    rt_memory_destroy(NULL);
}

/* Every allocation of creation fails once, then those of operations: nothing is lost, nothing changes. */
static void no_memory(void)
{
    rt_memory *m = NULL;
    rt_step *step;
    for (int device = 0; device < 2; device++)
        for (int64_t i = 0, created = 0; !created; i++) {
            const rt_memory_desc desc =
                FIELDS(.model = &memory_model, .device = context, .host = context, .n_seqs = 2, .n_cells = 8,
                       .n_rollback = 1, .kv_type = GDN_F32, .draft = 1, .n_prefixes = 2, .prefix_interval = 2);
            const int64_t before = live;
            calloc_fails_in = device ? -1 : i;
            device_fails_in = device ? i : -1;
            const gdn_status status = rt_memory_create(&desc, &m);
            calloc_fails_in = device_fails_in = -1;
            created = !status && i > 4;
            REQUIRE(created || (status == FULL && !m && live == before), "allocation %d", (int)i);
            rt_memory_destroy(m);
            REQUIRE(live == before);
        }
    m = memory_open(context, 3, CELLS, 2);
    for (int64_t i = 0; i < 5; i++) { /* the four lists of a step, and the sequence's cells */
        calloc_fails_in = i;
        REFUSED(m, rt_memory_step_begin(m, &(rt_token_run){ 1, 0, 17 }, 1, &step), FULL);
    }
    calloc_fails_in = -1;
    NEED(!memory_advance(m, 0, 60) && !memory_advance(m, 0, 10) && !memory_advance(m, 2, 3));
    calloc_fails_in = 0;
    REFUSED(m, rt_memory_seq_cp(m, 0, 2), FULL);
    calloc_fails_in = -1;
    NEED(!rt_memory_seq_rm(m, 0, 0, -1));
    calloc_fails_in = 0;
    REFUSED(m, rt_memory_draft_reserve(m, 2, 70, NULL), FULL);
    calloc_fails_in = -1;
    memory_audit(m);
    rt_memory_destroy(m);
}

int main(void)
{
    gdn_context_desc desc = FIELDS(.size = sizeof desc, .n_threads = 1, .alloc = device_alloc, .free = device_free);
    NEED(!gdn_context_create(&desc, &context), "%s", gdn_last_error());
    refusals();
    copies();
    drafts();
    no_draft_head();
    sizes();
    no_memory();
    gdn_context_destroy(context);
    REQUIRE(!live, "%lld buffers were not freed", (long long)live);
    return test_summary();
}
