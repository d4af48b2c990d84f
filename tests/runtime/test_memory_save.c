/* Saving, loading, sizes, and what happens when memory runs out. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/memory/replay_log.h"
#include "tests/runtime/memory_world.h"

/* 11, 12: save while rolled back; load into a memory of other sizes that was used for something else. */
static void rolled_back_to_used(world *sum)
{
    int32_t differences = 0;
    for (int32_t R = 0; R <= 4; R++) {
        world a, b;
        if (!world_open(&a, 2, 48, 3, GDN_BF16, 3) || !world_open(&b, 3, 40, R, GDN_BF16, 4)) return;
        uint64_t n;
        world_one(&a, 1, 11);
        world_catch_up(&a, 1);
        world_rm(&a, 1, 9, -1);
        world_add(&a, 1, 9, 7);
        unsigned char *bytes = world_save(&a, 1, &n);
        const int32_t all[] = { 0, 1, 2 }, rows[] = { 12, 13, 14 };
        world_step(&b, 3, all, rows, 1);
        world_compare(&b);
        WORLD_REQUIRE(&b, world_load(&b, 2, bytes, n, &a, 1) == GDN_OK);
        WORLD_REQUIRE(&b,
                      rt_seq_min_length(b.m, 2) == 9 && rt_draft_length(b.m, 2) == 9 && rt_hidden_row(b.m, 2, 8, NULL));
        world_compare(&b);
        world_one(&b, 2, 2);
        world_compare(&b);
        rt_free(bytes);
        bytes = world_save(&b, -1, &n);
        WORLD_REQUIRE(&a, world_load(&a, -1, bytes, n, &b, -1) == GDN_INVALID_ARGUMENT); /* three sequences into two */
        world_rm(&b, 2, 0, -1);
        rt_free(bytes);
        bytes = world_save(&b, -1, &n);
        WORLD_REQUIRE(&a, world_load(&a, -1, bytes, n, &b, -1) == GDN_OK);
        world_compare(&a);
        world_one(&a, 0, 1);
        world_compare(&a);
        rt_free(bytes);
        differences += a.differences + b.differences;
        world_close(&a);
        world_close(&b);
    }
    sum->differences += differences;
    printf("%-50s %s\n", "saved while rolled back, loaded elsewhere (11, 12)", differences ? "FAILED" : "ok");
}

/* A control of the comparison itself: a loaded state that differs by one bit anywhere is noticed. */
static void one_bit(world *sum)
{
    world w;
    uint64_t n;
    int noticed = 0, tried = 0;
    if (!world_open(&w, 1, 20, 1, GDN_F32, 5)) return;
    world_one(&w, 0, 9);
    world_catch_up(&w, 0);
    unsigned char *bytes = world_save(&w, 0, &n);
    w.quiet = 1;
    for (uint64_t at = sizeof(rt_save_header) + sizeof(rt_save_seq); at + 8 < n; at += 41, tried++) {
        unsigned char *copy = rt_calloc(n, 1, "a copy");
        memcpy(copy, bytes, n);
        copy[at] ^= 0x10;
        const uint64_t checksum = rt_save_checksum(copy, n - 8);
        memcpy(copy + n - 8, &checksum, 8);
        w.differences = 0;
        const gdn_status status = rt_memory_load(w.m, 0, copy, n);
        w.t[0].low = w.t[0].n;
        world_compare(&w);
        noticed += status != GDN_OK || w.differences > 0;
        rt_free(copy);
    }
    if (noticed != tried) world_differ(sum, "one bit of a loaded state: %d of %d noticed", noticed, tried);
    printf("%-50s %s, %d of %d\n", "a changed bit in a save is noticed", noticed == tried ? "ok" : "FAILED", noticed,
           tried);
    rt_free(bytes);
    world_close(&w);
}

/* 24: every changed byte is refused; with the checksum made right, so is every field that contradicts the rest. */
static void malformed(world *sum)
{
    world w;
    uint64_t n;
    if (!world_open(&w, 3, 40, 2, GDN_F16, 6)) return;
    const int32_t both[] = { 0, 1 }, rows[] = { 5, 6 };
    world_step(&w, 2, both, rows, 1);
    world_catch_up(&w, 0);
    unsigned char *bytes = world_save(&w, -1, &n);
    for (uint64_t at = 0; at < n; at += at < 200 ? 1 : 37) {
        bytes[at] ^= 1;
        WORLD_REQUIRE(&w, world_load(&w, -1, bytes, n, &w, -1) == GDN_INVALID_ARGUMENT);
        bytes[at] ^= 1;
        WORLD_REQUIRE(&w, world_load(&w, -1, bytes, at, &w, -1) == GDN_INVALID_ARGUMENT);
    }
    WORLD_REQUIRE(&w, rt_memory_load(w.m, -1, NULL, 0) == GDN_INVALID_ARGUMENT);
    /* Fields of which only one value is right, and those of which a range is. */
    enum { HEAD = sizeof(rt_save_header) };
    const uint64_t second = HEAD + rt_save_seq_bytes(w.m, &(rt_save_seq){ 0, 5, 5, 0, 0, w.t[0].put[4] });
#define AT(member) offsetof(rt_save_header, member)
#define OF(member) offsetof(rt_save_seq, member)
    const uint64_t exact[] =
        FIELDS(AT(magic), AT(version), AT(kind), AT(fingerprint), AT(bytes), AT(state_bytes), AT(column_bytes),
               AT(kv_bytes), AT(hidden_bytes), AT(kv_type), AT(kernel), AT(n_recurrent), AT(n_attention), AT(has_draft),
               AT(n_seqs), HEAD + OF(seq), HEAD + OF(length), HEAD + OF(draft), HEAD + OF(n_hidden), second + OF(seq),
               second + OF(length), second + OF(draft), second + OF(n_hidden));
    const uint64_t ranged[] = { HEAD + OF(next_rope),   HEAD + OF(shift),   HEAD + sizeof(rt_save_seq),
                                second + OF(next_rope), second + OF(shift), second + sizeof(rt_save_seq) + 20 };
    const int32_t values[] = { 1 << 30, INT32_MIN, INT32_MAX, -1, 40, 41, 3 };
    enum { N_EXACT = sizeof exact / sizeof *exact, N_RANGED = sizeof ranged / sizeof *ranged };
    for (int f = 0; f < N_EXACT + N_RANGED; f++)
        for (int v = 0; v < (f < N_EXACT ? 7 : 3); v++) {
            const uint64_t at = f < N_EXACT ? exact[f] : ranged[f - N_EXACT];
            unsigned char *copy = rt_calloc(n, 1, "a copy");
            memcpy(copy, bytes, n);
            memcpy(copy + at, &values[v], 4);
            const uint64_t checksum = rt_save_checksum(copy, n - 8);
            memcpy(copy + n - 8, &checksum, 8);
            if (memcmp(copy, bytes, n - 8) != 0) {
                const gdn_status status = world_load(&w, -1, copy, n, &w, -1);
                if (status != GDN_INVALID_ARGUMENT && status != GDN_OUT_OF_MEMORY)
                    world_differ(&w, "value %d at byte %llu of a save was taken", values[v], (unsigned long long)at);
            }
            rt_free(copy);
        }
    for (uint64_t cut = HEAD + 8; cut < n; cut += cut < HEAD + 80 ? 1 : 29) { /* cut short, otherwise right */
        unsigned char *copy = malloc(cut);
        if (!copy) break;
        memcpy(copy, bytes, cut);
        memcpy(copy + AT(bytes), &cut, 8);
        const uint64_t checksum = rt_save_checksum(copy, cut - 8);
        memcpy(copy + cut - 8, &checksum, 8);
        WORLD_REQUIRE(&w, world_load(&w, -1, copy, cut, &w, -1) == GDN_INVALID_ARGUMENT);
        WORLD_REQUIRE(&w, strstr(rt_last_error(), "ends within"));
        free(copy);
    }
    /* More draft or hidden rows than tokens, and bytes for them: only the numbers tell. */
    for (int which = 0; which < 2; which++) {
        uint64_t n_one;
        world_catch_up(&w, 0);
        unsigned char *one = world_save(&w, 0, &n_one), *longer = rt_calloc(n_one + 6 * W_EMBD * 4, 1, "a copy");
        memcpy(longer, one, n_one - 8);
        rt_save_seq record;
        memcpy(&record, one + HEAD, sizeof record);
        *(which ? &record.n_hidden : &record.draft) = w.t[0].n + 1;
        memcpy(longer + HEAD, &record, sizeof record);
        const uint64_t size = HEAD + rt_save_seq_bytes(w.m, &record) + 8;
        memcpy(longer + AT(bytes), &size, 8);
        const uint64_t checksum = rt_save_checksum(longer, size - 8);
        memcpy(longer + size - 8, &checksum, 8);
        WORLD_REQUIRE(&w, world_load(&w, 0, longer, size, &w, 0) == GDN_INVALID_ARGUMENT &&
                              strstr(rt_last_error(), "contradicts"));
        rt_free(one);
        rt_free(longer);
    }
    world_compare(&w);
    WORLD_REQUIRE(&w, world_load(&w, -1, bytes, n, &w, -1) == GDN_OK);
    world_compare(&w);

    world foreign;
    if (world_open(&foreign, 3, 10, 2, GDN_F16, 6)) { /* 11 cells are needed */
        world_one(&foreign, 0, 4);
        WORLD_REQUIRE(&foreign, world_load(&foreign, -1, bytes, n, &w, -1) == GDN_OUT_OF_MEMORY);
        foreign.model.fingerprint++;
        WORLD_REQUIRE(&foreign, world_load(&foreign, -1, bytes, n, &w, -1) == GDN_INVALID_ARGUMENT);
        world_compare(&foreign);
        w.differences += foreign.differences;
        world_close(&foreign);
    }
    rt_free(bytes);
    printf("%-50s %s\n", "malformed saves (24)", w.differences ? "FAILED" : "ok");
    sum->differences += w.differences;
    world_close(&w);
}

/* A model without a draft head: nothing of one is kept, reserved, or taken from a save. */
static void no_draft_head(world *sum)
{
    rt_model model;
    world_fake_model(&model);
    model.hp.n_mtp = 0;
    const int32_t before = sum->differences;
    const rt_memory_desc desc = FIELDS(.model = &model, .device = world_context(), .host = world_context(), .n_seqs = 2,
                                       .n_cells = 8, .n_rollback = 1, .kv_type = GDN_F32);
    rt_memory *m;
    rt_step *step;
    if (rt_memory_create(&desc, &m) || rt_step_begin(m, &(rt_token_run){ 0, 0, 3 }, 1, &step)) {
        world_differ(sum, "no memory without a draft head: %s", rt_last_error());
        return;
    }
    rt_step_commit(m, step);
    rt_hidden_put(m, 0, 2, 0, (float[W_EMBD]){ 1 });
    rt_draft_set_length(m, 0, 3);
    WORLD_REQUIRE(sum, !rt_hidden_row(m, 0, 2, NULL) && rt_draft_length(m, 0) == 0 && rt_seq_cp(m, 0, 1) == GDN_OK);
    const uint64_t n = rt_memory_save_size(m, 0);
    unsigned char *bytes = rt_calloc(n, 1, "a save");
    WORLD_REQUIRE(sum, rt_memory_save(m, 0, bytes, n) == GDN_OK && rt_memory_load(m, 1, bytes, n) == GDN_OK);
    for (int which = 0; which < 2; which++) { /* neither adds a byte */
        const uint64_t at =
            sizeof(rt_save_header) + (which ? offsetof(rt_save_seq, draft) : offsetof(rt_save_seq, n_hidden));
        bytes[at] = 1;
        const uint64_t checksum = rt_save_checksum(bytes, n - 8);
        memcpy(bytes + n - 8, &checksum, 8);
        WORLD_REQUIRE(sum, rt_memory_load(m, 1, bytes, n) == GDN_INVALID_ARGUMENT);
        bytes[at] = 0;
    }
    rt_free(bytes);
    rt_memory_destroy(m);
    printf("%-50s %s\n", "no draft head", sum->differences > before ? "FAILED" : "ok");
}

/* What rt_memory_size() says is what is allocated; 25: in 64 bits. */
static void sizes(world *sum)
{
    rt_model model;
    rt_memory_bytes b;
    const int32_t before_all = sum->differences;
    for (int32_t i = 0; i < 24; i++) {
        world_fake_model(&model);
        model.hp.n_mtp = i & 1;
        model.hp.conv_kernel = i % 3 + 1;
        const rt_memory_desc desc =
            FIELDS(.model = &model, .device = world_context(), .host = world_context(), .n_seqs = 1 + i % 4,
                   .n_cells = 5 + i, .n_rollback = i % 5, .kv_type = i % 2 ? GDN_F16 : GDN_F32, .draft = 1,
                   .rollback = i % 3 ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG, .commit_after = i % 2);
        const int32_t log = desc.rollback == RT_ROLLBACK_LOG && desc.n_rollback;
        const uint64_t columns = log ? 2 * (uint64_t)desc.n_rollback + 2 + (i % 2 ? 0 : RT_COMMIT_AFTER - 1) : 0;
        rt_memory *m = NULL;
        const uint64_t before = world_alloc.bytes;
        const int64_t calls = world_alloc.calls;
        WORLD_REQUIRE(sum, rt_memory_size(&desc, &b) == GDN_OK && rt_memory_create(&desc, &m) == GDN_OK);
        /* A buffer of the library has a header of 64 bytes. */
        WORLD_REQUIRE(sum, world_alloc.bytes - before - 64 * (uint64_t)(world_alloc.calls - calls) ==
                               b.state + b.conv + b.snapshots + b.log + b.kv + b.hidden +
                                   (log ? m->fold_maps.bytes + m->fold_workspace.bytes + m->branch_map.bytes : 0));
        WORLD_REQUIRE(sum, b.log == 2 * (uint64_t)desc.n_seqs * columns * 4 * (W_STATE + W_HEADS * W_STATE + W_HEADS));
        WORLD_REQUIRE(sum,
                      !log || b.snapshots == 2 * (uint64_t)desc.n_seqs * (uint64_t)desc.n_rollback * W_CHANNELS * 4);
        WORLD_REQUIRE(sum, (b.snapshots == 0) == (desc.n_rollback == 0));
        WORLD_REQUIRE(sum,
                      b.hidden ==
                          (model.hp.n_mtp ? (uint64_t)desc.n_seqs * (uint64_t)(desc.n_rollback + 1) * W_EMBD * 4 : 0));
        rt_memory_destroy(m);
    }
    /* A row beyond 2^31 elements, and more than there can be. */
    model.hp = (rt_hparams)FIELDS(.n_embd = 4096, .n_mtp = 0, .n_head_kv = 4, .head_dim = 256, .conv_kernel = 4,
                                  .state_size = 128, .n_value_heads = 48, .n_channels = 10240);
    rt_memory_desc big = { .model = &model, .n_seqs = 4096, .n_cells = 1 << 24, .n_rollback = 7, .kv_type = GDN_F32 };
    WORLD_REQUIRE(sum, rt_memory_size(&big, &b) == GDN_OK && b.state == UINT64_C(2) * 4096 * 48 * 128 * 128 * 4);
    WORLD_REQUIRE(sum, b.snapshots == UINT64_C(2) * 4096 * 7 * (48 * 128 * 128 * 4 + 10240 * 4) &&
                           b.kv == UINT64_C(4) * 1024 * 4 << 24);
    big.n_cells = 1 << 29;
    model.n_attention = 64;
    WORLD_REQUIRE(sum, rt_memory_size(&big, &b) == GDN_INVALID_ARGUMENT);
    const rt_memory_desc good = { .model = &model, .n_seqs = 1, .n_cells = 1, .kv_type = GDN_F32 };
    rt_memory *none;
    for (int i = 0; i < 8; i++) {
        rt_memory_desc bad = good;
        switch (i) {
        case 0: bad.model = NULL; break;
        case 1: bad.n_seqs = 0; break;
        case 2: bad.n_seqs = INT32_MAX; break;
        case 3: bad.n_cells = 0; break;
        case 4: bad.n_rollback = -1; break;
        case 5: bad.n_rollback = INT32_MAX; break;
        case 6: bad.kv_type = GDN_Q8_0; break;
        default: bad.n_cells = INT32_MAX; break;
        }
        WORLD_REQUIRE(sum, rt_memory_size(&bad, &b) == GDN_INVALID_ARGUMENT &&
                               rt_memory_create(&bad, &none) == GDN_INVALID_ARGUMENT && !none);
    }
    WORLD_REQUIRE(sum, rt_memory_create(&good, &none) == GDN_INVALID_ARGUMENT && !none); /* no contexts */
    rt_memory_destroy(NULL);
    printf("%-50s %s\n", "sizes (25)", sum->differences > before_all ? "FAILED" : "ok");
}

/* Every allocation of creation fails once, then every allocation of operations: nothing is lost, nothing changes. */
static void no_memory(world *sum)
{
    world w;
    int created = 0, refused = 0;
    for (int which = 0; which < 2; which++)
        for (int64_t i = 0; created <= which; i++) {
            const int64_t live = world_alloc.live;
            world_fail_calloc = which ? -1 : i;
            world_alloc.fail_in = which ? i : -1;
            w = (world){ .random = 1 };
            world_fake_model(&w.model);
            rt_memory_desc desc = FIELDS(.model = &w.model, .device = world_context(), .host = world_context(),
                                         .n_seqs = 2, .n_cells = 8, .n_rollback = 1, .kv_type = GDN_F32, .draft = 1);
            const gdn_status status = rt_memory_create(&desc, &w.m);
            world_fail_calloc = world_alloc.fail_in = -1;
            if (status == GDN_OK) created = which + 1;
            else WORLD_REQUIRE(sum, status == GDN_OUT_OF_MEMORY && !w.m && world_alloc.live == live && ++refused);
            rt_memory_destroy(w.m);
            WORLD_REQUIRE(sum, world_alloc.live == live);
        }
    if (!world_open(&w, 3, 90, 2, GDN_F32, 9)) return;
    world_one(&w, 0, 60);
    world_one(&w, 0, 10); /* longer than a list is at first */
    world_compare(&w);
    uint64_t n;
    void *bytes = world_save(&w, 0, &n);
    const int32_t one = 1, zero = 0, rows[] = { 3, 10 };
    for (int64_t i = 0; i < 3; i++) {
        world_fail_calloc = i;
        if (w.t[1].n == 0 && world_step(&w, 1, &one, &rows[0], 1) != GDN_OK) refused++;
        world_fail_calloc = i;
        if (w.t[0].n == 70 && i == 0) WORLD_REQUIRE(&w, world_step(&w, 1, &zero, &rows[1], 0) == GDN_OK || ++refused);
        world_compare(&w);
    }
    world_one(&w, 2, 3);
    world_fail_calloc = 0;
    WORLD_REQUIRE(&w, world_cp(&w, 0, 2) == GDN_OUT_OF_MEMORY);
    world_compare(&w);
    world_rm(&w, 0, 0, -1);
    world_fail_calloc = 0;
    WORLD_REQUIRE(&w, world_load(&w, 2, bytes, n, &w, 0) == GDN_OUT_OF_MEMORY);
    world_compare(&w);
    world_fail_calloc = 0;
    WORLD_REQUIRE(&w, rt_draft_reserve(w.m, 2, 70, NULL) == GDN_OUT_OF_MEMORY);
    world_fail_calloc = -1;
    world_compare(&w);
    WORLD_REQUIRE(&w, rt_memory_load(w.m, 2, bytes, n) == GDN_OK && rt_seq_length(w.m, 2) == 70);
    rt_free(bytes);
    sum->differences += w.differences;
    printf("%-50s %s, %d refusals\n", "no memory", w.differences ? "FAILED" : "ok", refused);
    world_close(&w);
}

void test_memory_saves(world *sum)
{
    rolled_back_to_used(sum);
    one_bit(sum);
    malformed(sum);
    no_draft_head(sum);
    sizes(sum);
    no_memory(sum);
}
