/* Truth and operations of the test world. See memory_world.h; the forward pass is in memory_forward.c. */
#include "tests/runtime/memory_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/memory_values.h"

/* ---- Contexts and allocations ------------------------------------------------------------------------------- */

world_allocator world_alloc = { .fail_in = -1 };
int64_t world_fail_calloc = -1;
static gdn_context *context;

void *__real_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what)
{
    if (world_fail_calloc >= 0 && world_fail_calloc-- == 0) {
        rt_fail(GDN_OUT_OF_MEMORY, "no memory for %s: the test wants it so", what);
        return NULL;
    }
    return __real_rt_calloc(n, size, what);
}

static void *counted_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    world_allocator *a = user;
    a->calls++;
    if (a->fail_in >= 0 && a->fail_in-- == 0) return NULL;
    a->live++;
    a->bytes += bytes;
    void *at = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (at) memset(at, 0xFF, bytes); /* NaN: what was never written must not be read */
    return at;
}

static void counted_free(void *user, void *memory)
{
    ((world_allocator *)user)->live -= memory != NULL;
    free(memory);
}

gdn_context *world_context(void)
{
    gdn_context_desc desc = FIELDS(.size = sizeof desc, .n_threads = 1, .alloc = counted_alloc, .free = counted_free,
                                   .alloc_user = &world_alloc);
    NEED(context || !gdn_context_create(&desc, &context), "%s", gdn_last_error());
    return context;
}

void world_close_context(void)
{
    gdn_context_destroy(context);
    context = NULL;
}

/* ---- Worlds --------------------------------------------------------------------------------------------------- */

void world_fake_model(rt_model *model)
{
    *model = (rt_model)FIELDS(.n_recurrent = 2, .n_attention = 2, .fingerprint = UINT64_C(0xFEEDFACE12345678),
                              .hp = FIELDS(.n_embd = W_EMBD, .n_layer = 4, .n_mtp = 1, .n_head_kv = 1, .head_dim = W_KV,
                                           .conv_kernel = W_KERNEL, .state_size = W_STATE, .n_key_heads = 1,
                                           .n_value_heads = W_HEADS, .n_channels = W_CHANNELS));
}

int world_open(world *w, int32_t n_seqs, int32_t n_cells, int32_t n_rollback, int32_t kv_type, uint64_t seed)
{
    *w = (world){ .random = seed };
    world_fake_model(&w->model);
    w->desc = (rt_memory_desc)FIELDS(.device = world_context(), .host = world_context(), .n_seqs = n_seqs,
                                     .n_cells = n_cells, .n_rollback = n_rollback, .kv_type = kv_type, .draft = 1);
    w->desc.model = &w->model;
    w->t = calloc((size_t)n_seqs, sizeof *w->t);
    if (!w->t || n_cells > W_CELLS || n_seqs > W_SEQS || rt_memory_create(&w->desc, &w->m)) {
        world_differ(w, "no world: %s", rt_last_error());
        return 0;
    }
    return 1;
}

void world_close(world *w)
{
    rt_memory_destroy(w->m);
    free(w->t);
    w->m = NULL;
    w->t = NULL;
}

uint32_t world_random(world *w, uint32_t below) { return (uint32_t)(test_random(&w->random) >> 32) % below; }

void world_differ(world *w, const char *format, ...)
{
    va_list args;
    if (w->differences++ < 10 && !w->quiet) {
        va_start(args, format);
        printf("  ");
        vprintf(format, args);
        printf("\n");
        va_end(args);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------------------------ */

static void compare_state(world *w, int32_t seq, int32_t p)
{
    const truth *t = &w->t[seq];
    const int32_t slot = w->m->seq[seq].snapshot[p % w->m->K].slot;
    float expected[W_STATE];
    for (int32_t layer = 0; layer < w->model.n_recurrent; layer++)
        for (int32_t h = 0; h < W_HEADS; h++) {
            const float *state = (const float *)rt_memory_pool(w->m, layer).state.data +
                                 ((int64_t)slot * W_HEADS + h) * W_STATE * W_STATE;
            value_state(t->token, p, layer, h, expected);
            for (int32_t j = 0; j < W_STATE; j++)
                for (int32_t i = 0; i < W_STATE; i++)
                    if (!(state[j * W_STATE + i] == expected[i] * value_scale(j))) {
                        world_differ(w, "sequence %d, length %d of %d, layer %d: state [%d][%d][%d] is %g, not %g", seq,
                                     p, t->n, layer, h, j, i, (double)state[j * W_STATE + i],
                                     (double)(expected[i] * value_scale(j)));
                        return;
                    }
        }
}

/* The columns of the positions [first, p). */
static void compare_columns(world *w, int32_t seq, int32_t first, int32_t p)
{
    const truth *t = &w->t[seq];
    const rt_pool pool = rt_memory_pool(w->m, 0);
    for (int32_t layer = 0; layer < w->model.n_recurrent; layer++)
        for (int32_t at = first; at < p; at++) {
            const float *column =
                (const float *)rt_memory_pool(w->m, layer).conv.data +
                ((int64_t)w->m->seq[seq].conv_row * pool.n_columns + at % pool.n_columns) * W_CHANNELS;
            for (int32_t c = 0; c < W_CHANNELS; c++)
                if (!(column[c] == value_conv(t->token[at], c, layer))) {
                    world_differ(w, "sequence %d, length %d of %d: the column of position %d is %g", seq, p, t->n, at,
                                 (double)column[c]);
                    return;
                }
        }
}

static void compare_kv(world *w, int32_t seq)
{
    const truth *t = &w->t[seq];
    for (int32_t layer = 0; layer < 3; layer++)
        for (int32_t p = 0; p < (layer < 2 ? t->n : t->draft); p++) {
            const int32_t cell = w->m->seq[seq].cell[p];
            const uint64_t at = (uint64_t)cell * w->m->kv_bytes;
            for (int32_t e = 0; e < W_KV; e++)
                if (value_kv_read(rt_memory_k(w->m, layer) + at, w->desc.kv_type, e) !=
                        value_kv(t->token[p], t->rope[p], layer, 0, e) ||
                    value_kv_read(rt_memory_v(w->m, layer) + at, w->desc.kv_type, e) !=
                        value_kv(t->token[p], t->rope[p], layer, 1, e)) {
                    world_differ(w, "sequence %d, position %d of %d, layer %d: wrong key or value in cell %d", seq, p,
                                 t->n, layer, cell);
                    return;
                }
        }
}

static void compare_seq(world *w, int32_t seq)
{
    const truth *t = &w->t[seq];
    WORLD_REQUIRE(w, rt_seq_length(w->m, seq) == t->n);
    WORLD_REQUIRE(w, rt_draft_length(w->m, seq) == t->draft);
    int32_t least = t->n ? t->low : 0;
    while (t->n && least <= t->n && !truth_readable(t, least)) least++;
    WORLD_REQUIRE(w, rt_seq_min_length(w->m, seq) == least);
    WORLD_REQUIRE(w, w->m->seq[seq].n_listed == t->n + t->reserved);
    for (int32_t p = 0; p <= t->n; p++) {
        const int32_t rope = p < t->n ? t->rope[p] : t->next;
        WORLD_REQUIRE(w, rt_seq_rope(w->m, seq, p) == rope && rt_seq_position(w->m, seq, p) == rope + t->shift);
    }
    if (rt_seq_length(w->m, seq) != t->n) return;
    for (int32_t p = 1; p <= t->n + w->m->K; p++) { /* beyond the length: nothing stale may be readable */
        const int readable = truth_readable(t, p);
        if (rt_seq_readable(w->m, &w->m->seq[seq], p) != readable) {
            world_differ(w, "sequence %d of length %d: is length %d readable?", seq, t->n, p);
        } else if (readable) {
            compare_state(w, seq, p);
            compare_columns(w, seq, p < W_KERNEL - 1 ? 0 : p - (W_KERNEL - 1), p);
        }
        int32_t token = -1;
        const float *hidden = rt_hidden_row(w->m, seq, p - 1, &token);
        if (hidden ? p > t->n || token != t->token[p - 1] ||
                         memcmp(hidden, value_hidden(p <= t->n ? t->token[p - 1] : 0, p - 1), 4 * W_EMBD) != 0
                   : readable && t->put[p - 1])
            world_differ(w, "sequence %d of length %d: hidden row of position %d", seq, t->n, p - 1);
    }
    compare_columns(w, seq, w->m->seq[seq].conv_from,
                    t->n); /* more than is readable may be there: as it is said to be */
    compare_kv(w, seq);
}

static void audit(world *w, const rt_resource *r, const int32_t *sums, const char *what)
{
    int32_t n_free = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (r->count[i] != sums[i])
            world_differ(w, "%s %d: %d references are counted and %d are there", what, i, r->count[i], sums[i]);
        n_free += sums[i] == 0;
    }
    WORLD_REQUIRE(w, n_free == r->n_free);
    for (int32_t i = 0; i < r->n_free; i++)
        if (r->count[r->free[i]] != 0) world_differ(w, "%s %d is in use and on the free stack", what, r->free[i]);
}

/* NaN in all that nobody may read: free resources, and columns that no readable length needs. */
static void poison(world *w)
{
    rt_memory *m = w->m;
    uint8_t used[W_SEQS][64] = { { 0 } };
    for (int32_t s = 0; s < m->n_seqs; s++)
        for (int32_t p = m->seq[s].conv_from; m->seq[s].conv_row != GDN_NONE && p < m->seq[s].length; p++)
            used[m->seq[s].conv_row][p % m->n_columns] = 1;
    for (int32_t layer = 0; layer < m->n_recurrent; layer++) {
        for (int32_t i = 0; i < m->slots.n; i++)
            if (!m->slots.count[i])
                memset((char *)m->state[layer].data + (uint64_t)i * m->state_bytes, 0xFF, m->state_bytes);
        for (int32_t i = 0; i < m->rows.n * m->n_columns; i++)
            if (!used[i / m->n_columns][i % m->n_columns])
                memset((char *)m->conv[layer].data + (uint64_t)i * m->column_bytes, 0xFF, m->column_bytes);
    }
    for (int32_t i = 0; i < m->cells.n; i++)
        for (int32_t layer = 0; layer < m->n_attention && !m->cells.count[i]; layer++) {
            memset(rt_memory_k(m, layer) + (uint64_t)i * m->kv_bytes, 0xFF, m->kv_bytes);
            memset(rt_memory_v(m, layer) + (uint64_t)i * m->kv_bytes, 0xFF, m->kv_bytes);
        }
}

void world_compare(world *w)
{
    int32_t slots[W_SEQS * 64] = { 0 }, rows[W_SEQS] = { 0 }, cells[W_CELLS] = { 0 };
    for (int32_t s = 0; s < w->m->n_seqs; s++) {
        const rt_sequence *at = &w->m->seq[s];
        for (int32_t r = 0; r < w->m->K; r++)
            if (at->snapshot[r].slot != GDN_NONE) slots[at->snapshot[r].slot]++;
        if (at->conv_row != GDN_NONE) rows[at->conv_row]++;
        for (int32_t p = 0; p < at->n_listed; p++) cells[at->cell[p]]++;
    }
    audit(w, &w->m->slots, slots, "slot");
    audit(w, &w->m->rows, rows, "row");
    audit(w, &w->m->cells, cells, "cell");
    for (int32_t s = 0; s < w->m->n_seqs; s++) compare_seq(w, s);
    poison(w);
}

uint64_t world_digest(const world *w)
{
    const rt_memory *m = w->m;
    uint64_t sum = 0;
#define MIX(bytes, n) (sum = sum * 31 + rt_save_checksum(bytes, (uint64_t)(n)))
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const rt_sequence *at = &m->seq[s];
        const int32_t numbers[] = { at->length,    at->n_listed, at->conv_row, at->conv_from,
                                    at->next_rope, at->shift,    at->draft,    at->ahead };
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
    for (int32_t layer = 0; layer < m->n_recurrent; layer++) {
        MIX(m->state[layer].data, m->state[layer].bytes);
        MIX(m->conv[layer].data, m->conv[layer].bytes);
    }
    for (int32_t layer = 0; layer < m->n_attention; layer++) {
        MIX(m->k[layer].data, m->k[layer].bytes);
        MIX(m->v[layer].data, m->v[layer].bytes);
    }
    MIX(m->hidden.data, m->hidden.bytes);
    return sum;
#undef MIX
}

/* ---- Operations ------------------------------------------------------------------------------------------------- */

static void roll_back(truth *t, int32_t p)
{
    if (p == 0) {
        memset(t, 0, sizeof *t);
    } else if (p < t->n) {
        t->next = t->rope[p];
        t->n = p;
        t->draft = t->draft < p ? t->draft : p;
    }
    t->reserved = 0;
}

gdn_status world_rm(world *w, int32_t seq, int32_t p0, int32_t p1)
{
    gdn_status expected = GDN_OK;
    for (int32_t s = 0; s < w->desc.n_seqs; s++) {
        const truth *t = &w->t[s];
        if ((seq >= 0 && s != seq) || p0 >= t->n || (p1 >= 0 && p1 <= p0)) continue;
        if ((p1 >= 0 && p1 < t->n) || (p0 > 0 && !truth_readable(t, p0))) expected = GDN_UNSUPPORTED;
    }
    const uint64_t before = world_digest(w);
    const gdn_status status = rt_seq_rm(w->m, seq, p0, p1);
    WORLD_REQUIRE(w, status == expected);
    if (status) WORLD_REQUIRE(w, world_digest(w) == before);
    for (int32_t s = 0; s < w->desc.n_seqs && !status; s++)
        if ((seq < 0 || s == seq) && !(p1 >= 0 && (p1 < w->t[s].n || p1 <= p0))) roll_back(&w->t[s], p0);
    return status;
}

gdn_status world_cp(world *w, int32_t from, int32_t to)
{
    const gdn_status status = rt_seq_cp(w->m, from, to);
    if (!status && from != to) {
        w->t[to] = w->t[from];
        w->t[to].reserved = 0;
    }
    return status;
}

gdn_status world_keep(world *w, int32_t seq)
{
    const gdn_status status = rt_seq_keep(w->m, seq);
    for (int32_t s = 0; s < w->desc.n_seqs && !status; s++)
        if (s != seq) roll_back(&w->t[s], 0);
    return status;
}

gdn_status world_add(world *w, int32_t seq, int32_t p0, int32_t delta)
{
    truth *t = &w->t[seq];
    const gdn_status status = rt_seq_add(w->m, seq, p0, delta);
    WORLD_REQUIRE(w, status == (p0 != 0 && p0 != t->n               ? GDN_UNSUPPORTED
                                : p0 == t->n && t->next + delta < 0 ? GDN_INVALID_ARGUMENT
                                                                    : GDN_OK));
    if (status) return status;
    if (p0 == t->n) {
        t->next += delta;
        t->reserved = 0;
    } else {
        t->shift += delta;
    }
    return status;
}

gdn_status world_reserve(world *w, int32_t seq, int32_t n)
{
    truth *t = &w->t[seq];
    const int32_t *cells = NULL;
    const int fits = n - t->reserved <= rt_memory_free_cells(w->m);
    const gdn_status status = rt_draft_reserve(w->m, seq, n, &cells);
    WORLD_REQUIRE(w, status == (fits ? GDN_OK : GDN_OUT_OF_MEMORY));
    if (!status) t->reserved = n == 0 ? 0 : n > t->reserved ? n : t->reserved;
    for (int32_t i = 0; i < n && !status; i++) /* a draft writes what is never right */
        memset(rt_memory_k(w->m, 2) + (uint64_t)cells[i] * w->m->kv_bytes, 0xFF, w->m->kv_bytes);
    return status;
}

void world_clear(world *w)
{
    rt_memory_clear(w->m);
    for (int32_t s = 0; s < w->desc.n_seqs; s++) roll_back(&w->t[s], 0);
}

void *world_save(world *w, int32_t seq, uint64_t *n)
{
    *n = rt_memory_save_size(w->m, seq);
    unsigned char *bytes = rt_calloc(*n + 8, 1, "a save");
    memset(bytes + *n, 0x5A, 8);
    WORLD_REQUIRE(w, rt_memory_save(w->m, seq, bytes, *n - 1) == GDN_INVALID_ARGUMENT);
    WORLD_REQUIRE(w, rt_memory_save(w->m, seq, bytes, *n) == GDN_OK);
    for (int i = 0; i < 8; i++) WORLD_REQUIRE(w, bytes[*n + (uint64_t)i] == 0x5A);
    return bytes;
}

gdn_status world_load(world *w, int32_t seq, const void *bytes, uint64_t n, const world *from, int32_t as)
{
    const uint64_t before = world_digest(w);
    const gdn_status status = rt_memory_load(w->m, seq, bytes, n);
    if (status) {
        WORLD_REQUIRE(w, world_digest(w) == before);
        return status;
    }
    for (int32_t s = 0; s < w->desc.n_seqs; s++) {
        if (seq >= 0 && s != seq) continue;
        truth empty = { 0 };
        truth t = seq >= 0 ? from->t[as] : s < from->desc.n_seqs ? from->t[s] : empty;
        t.low = t.n;
        t.reserved = 0;
        w->t[s] = t;
    }
    return GDN_OK;
}
