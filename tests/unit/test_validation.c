/* Validation against a slow and simple version of it. Do two operands share a byte? Do the maps of a call write a slot
 * twice, or one that another sequence reads? Its cost is measured too: visits of entries are counted, because time says
 * nothing on a busy machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/maps.h"
#include "core/operands.h"
#include "tests/harness.h"
#include "tests/workspaces.h"

/* ---- Regions ------------------------------------------------------------------------------------------------ */

enum { BYTES = 4096, SHAPES = 40000 };

static const gdn_context cpu = { .backend = &gdn_backend_cpu };

/* A tensor of up to 4 axes in a memory of BYTES bytes, and the bytes that it covers. Strides are often multiples of
 * each other, as real ones are. */
static int draw_region(char *memory, gdn_region *region, unsigned char covers[BYTES])
{
    gdn_operand_spec spec = FIELDS(.name = "x", .dtypes = 1u << GDN_F32, .n_axes = 1 + draw_below(4),
                                   .inner = 1 + draw_below(6), .axes = { "a", "b", "c", "d" });
    gdn_tensor t = { .data = memory, .offset = 4 * (uint64_t)draw_below(200) };
    int64_t stride = 4 * (1 + draw_below(12)), stride_of[4];
    uint64_t at;
    for (int a = spec.n_axes - 1; a >= 0; a--) {
        spec.extent[a] = 1 + draw_below(5);
        t.stride[a] = stride;
        stride = draw_below(3) ? stride * (1 + draw_below(5)) : 4 * (1 + draw_below(100));
    }
    if (draw_below(2) && spec.n_axes > 1) {
        const int64_t other = t.stride[0];
        t.stride[0] = t.stride[1], t.stride[1] = other;
    }
    if (gdn_operand_resolve(&cpu, &spec, &t, &at, stride_of, region)) /* rows overlap */
        return 0;
    if (region->end - (uint64_t)(uintptr_t)memory > BYTES) return 0;
    memset(covers, 0, BYTES);
    int64_t i[4], n[4] = { 1, 1, 1, 1 }, s[4] = { 0 };
    for (int a = 0; a < spec.n_axes; a++) n[a] = spec.extent[a], s[a] = stride_of[a];
    for (i[0] = 0; i[0] < n[0]; i[0]++)
        for (i[1] = 0; i[1] < n[1]; i[1]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++)
                for (i[3] = 0; i[3] < n[3]; i[3]++)
                    memset(covers + t.offset + i[0] * s[0] + i[1] * s[1] + i[2] * s[2] + i[3] * s[3], 1,
                           4 * (size_t)spec.inner);
    return 1;
}

static void regions(void)
{
    static _Alignas(64) char memory[BYTES];
    static unsigned char x[BYTES], y[BYTES];
    int shared = 0, interleaved = 0;
    for (int n = 0; n < SHAPES;) {
        gdn_region a, b;
        if (!draw_region(memory, &a, x) || !draw_region(memory, &b, y)) continue;
        int share = 0;
        for (int i = 0; i < BYTES && !share; i++) share = x[i] & y[i];
        shared += share;
        interleaved += !share && a.begin < b.end && b.begin < a.end;
        REQUIRE(gdn_regions_overlap(&a, &b) == share && gdn_regions_overlap(&b, &a) == share,
                "shape %d: %s, but a byte is%s shared", n, share ? "apart" : "overlapping", share ? "" : " not");
        if (test_failed > 5) return;
        n++;
    }
    REQUIRE(shared > SHAPES / 10 && interleaved > SHAPES / 100,
            "%d pairs share bytes, %d are interleaved: too few to tell", shared, interleaved);

    /* Unusual sizes: what cannot be decided in a bounded time counts as an overlap. */
    const gdn_operand_spec wide = FIELDS(.name = "wide", .dtypes = 1u << GDN_F32, .n_axes = 2, .axes = { "a", "b" },
                                         .extent = { 1 << 20, 1 << 20 }, .inner = 1);
    const gdn_tensor one = { .data = memory, .stride = { (1 << 26) + 4, 64 } };
    const gdn_tensor two = { .data = memory, .offset = 32, .stride = { (1 << 26) + 8, 64 } };
    gdn_region a, b;
    uint64_t at;
    int64_t strides[4];
    REQUIRE(!gdn_operand_resolve(&cpu, &wide, &one, &at, strides, &a) &&
            !gdn_operand_resolve(&cpu, &wide, &two, &at, strides, &b) && gdn_regions_overlap(&a, &b));
}

/* ---- Maps --------------------------------------------------------------------------------------------------- */

/* A pair of maps with what the check needs of a call. */
typedef struct maps {
    int32_t n_seqs, n_entries, *start, *src, *dst;
    int64_t size;
    int32_t same_pool;
    int64_t visits;
} maps;

static maps make(int32_t n_seqs, int32_t n_entries, int64_t size, int32_t same_pool)
{
    maps m = FIELDS(n_seqs, n_entries, calloc((size_t)n_seqs + 1, 4), calloc((size_t)n_seqs, 4),
                    calloc((size_t)n_seqs * (size_t)n_entries, 4), size, same_pool, 0);
    if (!m.start || !m.src || !m.dst) abort();
    for (int32_t s = 0; s < n_seqs; s++) m.start[s + 1] = m.start[s] + n_entries;
    return m;
}

static void drop(maps *m) { free(m->start), free(m->src), free(m->dst); }

static gdn_status check(maps *m)
{
    m->visits = 0;
    const gdn_pool_maps p =
        FIELDS(.src_name = "src", .dst_name = "dst", .src = m->src, .dst = m->dst, .n_seqs = m->n_seqs,
               .n_entries = m->n_entries, .seq_start = m->start, .src_slots = 1, .dst_slots = m->n_entries,
               .src_size = m->size, .dst_size = m->size, .same_pool = m->same_pool, .n_visits = &m->visits);
    return gdn_check_pool_maps(&p);
}

/* The rule as the header has it: of every pair of sequences. */
static int allowed(const maps *m)
{
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const int32_t T = m->start[s + 1] - m->start[s];
        for (int32_t r = 0; r < m->n_entries && r < T && m->src[s] != GDN_SKIP; r++) {
            const int32_t slot = m->dst[s * m->n_entries + r];
            for (int32_t z = 0; slot >= 0 && z < m->n_seqs; z++) {
                const int32_t length = m->start[z + 1] - m->start[z];
                if (z != s && m->same_pool && length && m->src[z] == slot) return 0;
                for (int32_t e = 0; e < m->n_entries && e < length && m->src[z] != GDN_SKIP; e++)
                    if ((z != s || e != r) && m->dst[z * m->n_entries + e] == slot) return 0;
            }
        }
    }
    return 1;
}

static void small_maps(void)
{
    static const int64_t sizes[] = { 12, 40, 300, INT64_C(1) << 19, INT32_MAX };
    int good = 0, bad = 0;
    for (int n = 0; n < 60000; n++) {
        maps m = make(1 + draw_below(6), 1 + draw_below(3), sizes[draw_below(5)], draw_below(2));
        const int32_t few = 1 + draw_below(30); /* so that large pools have collisions, too, and those far apart */
        for (int32_t s = 0; s < m.n_seqs; s++) {
            m.start[s + 1] = m.start[s] + draw_below(4);
            const int32_t what = draw_below(6);
            m.src[s] = what == 0 ? GDN_SKIP : what == 1 ? GDN_NONE : (int32_t)(draw_below(few) * (m.size - 1) / few);
            for (int32_t r = 0; r < m.n_entries; r++) {
                const int unused = r >= m.start[s + 1] - m.start[s] || what == 0;
                m.dst[s * m.n_entries + r] = unused && draw_below(2) ? (int32_t)draw()
                                             : draw_below(4)         ? (int32_t)(draw_below(few) * (m.size - 1) / few)
                                                                     : GDN_NONE;
            }
        }
        const int want = allowed(&m);
        const gdn_status got = check(&m);
        good += want, bad += !want;
        REQUIRE(want == (got == GDN_OK), "maps %d: %s, but they are %s", n, got ? gdn_last_error() : "accepted",
                want ? "good" : "bad");
        drop(&m);
        if (test_failed > 5) return;
    }
    REQUIRE(good > 5000 && bad > 5000, "%d good maps and %d bad ones: too few to tell", good, bad);
}

/* The slot with this scrambled key, as an attacker would choose it to make the check slow. */
static uint32_t unscrambled(uint32_t x)
{
    x = (x ^ x >> 16) * 0x43021123u;
    x = (x ^ x >> 15 ^ x >> 30) * 0x1d69e2a5u;
    return x ^ x >> 16;
}

enum { SORTED, SHUFFLED, FOREIGN, SAME_PLACE };

/* n distinct slots of a pool, each read where it is written, or (FOREIGN) all others read. */
static maps large(int32_t n, int64_t size, int order)
{
    maps m = make(n, 1, size, 1);
    int32_t filled = 0;
    for (uint32_t c = 0; order == SAME_PLACE && c < 1u << 14; c++) { /* three clusters of keys */
        const uint32_t slot = unscrambled(c / 5461 << 30 | c % 5461);
        if (slot < INT32_MAX && filled < n) m.dst[filled++] = (int32_t)slot;
    }
    for (int32_t s = filled; s < n; s++)
        m.dst[s] = (int32_t)(s * (size / (order == FOREIGN ? 2 * (int64_t)n : n)) * (order == FOREIGN ? 2 : 1));
    for (int32_t s = n - 1; s > 0 && order != SORTED; s--) {
        const int32_t other = draw_below(s + 1), slot = m.dst[s];
        m.dst[s] = m.dst[other], m.dst[other] = slot;
    }
    for (int32_t s = 0; s < n; s++) m.src[s] = order == FOREIGN ? m.dst[n - 1 - s] + 1 : m.dst[s];
    return m;
}

static void large_maps(void)
{
    static const struct {
        int32_t n;
        int64_t size;
        int order, most; /* visits per sequence */
        const char *what;
    } cases[] = {
        { 10000, INT32_MAX, SORTED, 8, "ascending over a large pool" },
        { 1000000, INT32_MAX, SORTED, 8, "a million, ascending" },
        { 10000, INT32_MAX, SHUFFLED, 16, "in any order over a large pool" },
        { 10000, INT32_MAX, FOREIGN, 16, "that read what nobody writes" },
        { 10000, 20000, SHUFFLED, 16, "in any order, close together" },
        { 10000, 1000000, SHUFFLED, 32, "in any order, in a few windows" },
        { 200000, INT32_MAX, SHUFFLED, 8 * 16 + 8, "of sixteen ranges" },
        { 8000, INT32_MAX, SAME_PLACE, 512, "chosen to be slow" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        maps m = large(cases[i].n, cases[i].size, cases[i].order);
        REQUIRE(check(&m) == GDN_OK, "%d sequences %s: %s", (int)m.n_seqs, cases[i].what, gdn_last_error());
        printf("%8d sequences %-34s %5.1f visits of each\n", (int)m.n_seqs, cases[i].what, (double)m.visits / m.n_seqs);
        REQUIRE(m.visits <= (int64_t)cases[i].most * m.n_seqs, "%lld visits of %d sequences %s", (long long)m.visits,
                (int)m.n_seqs, cases[i].what);
        /* One mistake among so many is found: a slot that is written twice, and one that another sequence reads. */
        const int32_t s = draw_below(m.n_seqs - 1), z = s + 1 + draw_below(m.n_seqs - 1 - s), slot = m.dst[z],
                      source = m.src[z];
        m.dst[z] = m.src[z] = m.dst[s];
        char late[64], early[64]; /* both entries are named */
        (void)snprintf(late, sizeof late, "dst[%d][0] is ", (int)z);
        (void)snprintf(early, sizeof early, "which dst[%d][0] writes too", (int)s);
        REQUIRE(check(&m) == GDN_INVALID_ARGUMENT && strstr(gdn_last_error(), late) && strstr(gdn_last_error(), early),
                "%s: %s", cases[i].what, gdn_last_error());
        m.dst[z] = slot, m.src[z] = m.dst[s];
        REQUIRE(check(&m) == GDN_INVALID_ARGUMENT && strstr(gdn_last_error(), "another sequence"), "%s: %s",
                cases[i].what, gdn_last_error());
        m.src[z] = source;
        drop(&m);
    }
}

/* ---- Workspaces ---------------------------------------------------------------------------------------------- */

static void workspaces(void)
{
    static const uint32_t threads[] = { 1, 2, 7, 64 };
    gdn_implementation_info info = { .size = sizeof info };
    int needed = 0;
    for (uint32_t i = 0; gdn_implementation_describe(GDN_BACKEND_CPU, 0, i, &info) == GDN_OK; i++)
        for (int t = 0; t < 4; t++) {
            gdn_context_desc desc = { .size = sizeof desc, .n_threads = threads[t], .implementation = info.name };
            gdn_context *ctx;
            REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
            REQUIRE(!workspaces_that_shrink(ctx, 30000, &needed), "%s on %u threads", info.name, (unsigned)threads[t]);
            gdn_context_destroy(ctx);
        }
    printf("%d of the calls need a workspace\n", needed);
}

int main(void)
{
    regions();
    small_maps();
    large_maps();
    workspaces();
    return test_summary();
}
