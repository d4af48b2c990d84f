/* Random operations against lists of tokens. The seed of every round is printed where something differs. */
#include <stdio.h>
#include <time.h>

#include "tests/runtime/memory_world.h"

static double now(void)
{
    struct timespec t;
    (void)timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int any_lost(const world *w, int32_t seq)
{
    for (int32_t s = 0; s < w->desc.n_seqs; s++)
        if ((seq < 0 || s == seq) && truth_lost(&w->t[s])) return 1;
    return 0;
}

static void random_step(world *w, int commit)
{
    int32_t seqs[W_SEQS], rows[W_SEQS], n = 0, wanted = 0, lost = 0;
    const int32_t most = 1 + (int32_t)world_random(w, 4) * (int32_t)world_random(w, 4);
    const int32_t first = (int32_t)world_random(w, (uint32_t)w->desc.n_seqs), odd = 1 + (int32_t)world_random(w, 2);
    for (int32_t i = 0; i < w->desc.n_seqs; i += odd) {
        const int32_t seq = (first + i) % w->desc.n_seqs;
        if (world_random(w, 3) == 0) continue;
        lost |= truth_lost(&w->t[seq]);
        seqs[n] = seq;
        rows[n] = 1 + (int32_t)world_random(w, (uint32_t)most);
        wanted += rows[n] > w->t[seq].reserved ? rows[n] - w->t[seq].reserved : 0;
        n++;
    }
    if (!n) return;
    const int32_t n_free = rt_memory_free_cells(w->m);
    const gdn_status status = world_step(w, n, seqs, rows, commit);
    if (lost) WORLD_REQUIRE(w, status != GDN_OK);
    else if (wanted <= n_free) WORLD_REQUIRE(w, status == GDN_OK);
    else /* several steps may do with less, as each frees what drafting reserved */
        WORLD_REQUIRE(w, status == GDN_OK || status == GDN_OUT_OF_MEMORY);
}

/* Save; refuse damaged copies; load into this memory or into another of any size, and go on there. */
static void random_save(world *w)
{
    const int32_t seq = (int32_t)world_random(w, (uint32_t)w->desc.n_seqs + 1) - 1;
    if (any_lost(w, seq)) {
        WORLD_REQUIRE(w, rt_memory_save_size(w->m, seq) == 0);
        return;
    }
    uint64_t n;
    unsigned char *bytes = world_save(w, seq, &n);
    for (int i = 0; i < 3; i++) {
        const uint64_t at = world_random(w, (uint32_t)n);
        bytes[at] ^= (unsigned char)(1u << world_random(w, 8));
        WORLD_REQUIRE(w, world_load(w, seq, bytes, n, w, seq) == GDN_INVALID_ARGUMENT);
        rt_free(bytes);
        bytes = world_save(w, seq, &n);
        WORLD_REQUIRE(w, world_load(w, seq, bytes, at, w, seq) == GDN_INVALID_ARGUMENT);
    }
    WORLD_REQUIRE(w, world_load(w, seq < 0 ? 0 : -1, bytes, n, w, seq) == GDN_INVALID_ARGUMENT);
    if (world_random(w, 2)) {
        const int32_t to = seq < 0 ? seq : (int32_t)world_random(w, (uint32_t)w->desc.n_seqs);
        const gdn_status status = world_load(w, to, bytes, n, w, seq);
        WORLD_REQUIRE(w, status == GDN_OK || status == GDN_OUT_OF_MEMORY); /* what was shared takes cells of its own */
    } else {
        world other;
        const int32_t R = (int32_t)world_random(w, 6);
        if (world_open(&other, 1 + (int32_t)world_random(w, W_SEQS), 1 + (int32_t)world_random(w, W_CELLS), R,
                       w->desc.kv_type, w->random)) {
            const int32_t to = seq < 0 ? seq : (int32_t)world_random(w, (uint32_t)other.desc.n_seqs);
            random_step(&other, 1);
            world_compare(&other);
            if (world_load(&other, to, bytes, n, w, seq) == GDN_OK)
                for (int i = 0; i < 4; i++) {
                    world_compare(&other);
                    random_step(&other, 1);
                }
            world_compare(&other);
            w->differences += other.differences;
            world_close(&other);
        }
    }
    rt_free(bytes);
}

static void random_operation(world *w)
{
    const int32_t n = w->desc.n_seqs, seq = (int32_t)world_random(w, (uint32_t)n);
    const truth *t = &w->t[seq];
    switch (world_random(w, 26)) {
    default: random_step(w, 1); break;
    case 0: random_step(w, 0); break;
    case 1: random_step(w, -1); break;
    case 2:
    case 3:
    case 4:
    case 5: { /* mostly shallow rollbacks, as speculation makes them */
        const int32_t p0 = t->n - (int32_t)world_random(w, (uint32_t)w->m->K + 2);
        world_rm(w, seq, p0 < 0 ? 0 : p0, -1);
        break;
    }
    case 6:
        world_rm(w, seq, (int32_t)world_random(w, (uint32_t)t->n + 2),
                 (int32_t)world_random(w, (uint32_t)t->n + 3) - 1);
        break;
    case 7: world_rm(w, -1, (int32_t)world_random(w, (uint32_t)t->n + 1), -1); break;
    case 8:
        if (world_random(w, 3) == 0) world_rm(w, seq, 0, -1);
        break;
    case 9:
    case 10:
    case 11: WORLD_REQUIRE(w, world_cp(w, seq, (int32_t)world_random(w, (uint32_t)n)) == GDN_OK); break;
    case 12:
        if (world_random(w, 6) == 0) WORLD_REQUIRE(w, world_keep(w, seq) == GDN_OK);
        break;
    case 13: world_add(w, seq, world_random(w, 3) ? t->n : 0, (int32_t)world_random(w, 200) - 50); break;
    case 14:
        if (world_random(w, 20) == 0) world_clear(w);
        break;
    case 15:
    case 16: world_catch_up(w, seq); break;
    case 17:
    case 18: (void)world_reserve(w, seq, (int32_t)world_random(w, 6)); break;
    case 19: random_save(w); break;
    }
}

void test_memory_random(world *sum, uint64_t seed, double seconds)
{
    static const int32_t types[] = { GDN_F32, GDN_F16, GDN_BF16 };
    const double end = now() + seconds;
    long operations = 0, rounds = 0;
    for (; now() < end; rounds++) {
        world w;
        const uint64_t s = seed + (uint64_t)rounds;
        if (!world_open(&w, 1 + (int32_t)(s % 5), 12 + (int32_t)(s * 7 % (W_CELLS - 12)), (int32_t)(s * 3 % 6),
                        types[s % 3], s)) {
            sum->differences++;
            return;
        }
        for (int i = 0; i < 150 && !w.differences; i++, operations++) {
            random_operation(&w);
            world_compare(&w);
        }
        if (w.differences)
            printf("  --seed %llu: %d sequences, %d cells, %d rollbacks\n", (unsigned long long)s, w.desc.n_seqs,
                   w.desc.n_cells, w.desc.n_rollback);
        sum->differences += w.differences;
        const int failed = w.differences > 0;
        world_close(&w);
        if (failed) break;
    }
    printf("random: %ld operations in %ld rounds from seed %llu\n", operations, rounds, (unsigned long long)seed);
}
