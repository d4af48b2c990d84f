/* Fuzz target: rt_memory_prefix_load(). The memory is as small as can be. Byte 0 of an input says what
 * the others are:
 *   bit 0  the checksums are made right      bit 1  so is the number of bytes in the header
 *   bit 3  the others are changes to a save that is right, three bytes each: offset (16 bit), value.
 * A refused input has a text and leaves an empty cache. An accepted one leaves a cache whose references add up, which
 * can be saved and loaded again to the same save, and whose memory can be used. */
#include <stddef.h>

#include "../runtime/memory_audit.h"
#include "../runtime/memory_fixture.h"
#include "numerics/checksum.h"
#include "runtime/memory/prefix_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 2048, N_CELLS = 24, INTERVAL = 2 };

typedef struct save {
    unsigned char bytes[ROOM];
    uint64_t n;
} save;

static gdn_context *context;
static save valid;

static rt_memory *open_memory(int32_t n_prefixes)
{
    const rt_memory_desc desc =
        FIELDS(.model = &memory_model, .device = context, .host = context, .n_seqs = 2, .n_cells = N_CELLS,
               .n_rollback = 1, .kv_type = GDN_F16, .draft = 1, .n_prefixes = n_prefixes, .prefix_interval = INTERVAL);
    rt_memory *m;
    NEED(!rt_memory_create(&desc, &m));
    for (int32_t layer = 0; layer < 2; layer++) {
        memset(rt_memory_k(m, layer), 3, N_CELLS * 2);
        memset(rt_memory_v(m, layer), 4, N_CELLS * 2);
    }
    memset(rt_memory_pool(m, 0).state.data, 1, rt_memory_pool(m, 0).state.bytes);
    memset(rt_memory_pool(m, 0).conv.data, 2, rt_memory_pool(m, 0).conv.bytes);
    return m;
}

/* Tokens to an empty sequence 0, which is emptied again. */
static void read_tokens(rt_memory *m, const int32_t *token, int32_t n)
{
    rt_step *step;
    const float rows[N_CELLS] = { 5 };
    REQUIRE(!rt_memory_step_begin(m, &(rt_token_run){ 0, 0, n }, 1, &step));
    rt_memory_step_tokens(m, step, token);
    rt_memory_step_hidden(m, step, rows);
    rt_memory_step_commit(m, step);
    rt_memory_draft_set_length(m, 0, n);
    REQUIRE(!rt_memory_seq_rm(m, 0, 0, -1));
}

static gdn_status append(void *user, const void *bytes, uint64_t n)
{
    save *const s = user;
    REQUIRE(s->n + n <= ROOM);
    memcpy(s->bytes + s->n, bytes, (size_t)n);
    s->n += n;
    return GDN_OK;
}

static void save_of(rt_memory *m, save *s)
{
    rt_prefix_saved saved;
    s->n = 0;
    REQUIRE(!rt_memory_prefix_save(m, 0, ROOM, append, s, &saved) && saved.bytes == s->n && !saved.n_left_out);
}

static void start(void)
{
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    REQUIRE(!gdn_context_create(&desc, &context));
    rt_memory *m = open_memory(5);
    read_tokens(m, (const int32_t[]){ 1, 2, 3, 4, 5, 6 }, 6);
    read_tokens(m, (const int32_t[]){ 1, 2, 3, 4, 7, 8 }, 6);
    read_tokens(m, (const int32_t[]){ 9, 9 }, 2);
    save_of(m, &valid);
    rt_memory_destroy(m);
}

/* Makes the checksums of header and records right, as far as lengths say where they are. */
static void sign(const rt_memory *m, unsigned char *bytes, uint64_t n)
{
    uint64_t at = sizeof(rt_save_prefixes), sum;
    if (n < at) return;
    sum = gdn_checksum(bytes, at - 8);
    memcpy(bytes + at - 8, &sum, 8);
    for (rt_save_prefix r; n - at >= sizeof r;) {
        memcpy(&r, bytes + at, sizeof r);
        if (r.first < 0 || r.length < r.first || r.length > ROOM || r.draft < r.first || r.draft > r.length) return;
        const uint64_t size = rt_memory_prefix_record_bytes(m, &r, m->has_draft);
        if (n - at < size) return;
        sum = gdn_checksum(bytes + at, size - 8);
        memcpy(bytes + at + size - 8, &sum, 8);
        at += size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static save made, saved, again;
    if (!context) start();
    if (size < 1 || size > ROOM) return 0;
    const int mode = data[0];
    made.n = size - 1;
    if (mode & 8) {
        made = valid;
        for (size_t i = 1; i + 2 < size; i += 3) made.bytes[(data[i] | data[i + 1] << 8) % made.n] = data[i + 2];
    } else {
        memcpy(made.bytes, data + 1, made.n);
    }
    if (mode & 2 && made.n >= sizeof(rt_save_header)) memcpy(made.bytes + offsetof(rt_save_header, bytes), &made.n, 8);
    rt_memory *m = open_memory(5), *other = open_memory(5);
    if (mode & 1) sign(m, made.bytes, made.n);
    unsigned char *exact = malloc(made.n ? made.n : 1); /* so that a sanitizer sees the end */
    REQUIRE(exact);
    memcpy(exact, made.bytes, made.n);
    rt_prefix_saved loaded = { 0 };
    const gdn_status status = rt_memory_prefix_load(m, 0, exact, made.n, &loaded);
    free(exact);
    memory_audit(m);
    if (status) {
        REQUIRE(status == GDN_INVALID_ARGUMENT && rt_last_error()[0]);
        REQUIRE(!m->prefixes->n_used && rt_memory_free_cells(m) == N_CELLS);
    } else {
        REQUIRE(loaded.n == rt_memory_prefix_stats_of(m).n_held);
        save_of(m, &saved);
        REQUIRE(!rt_memory_prefix_load(other, 0, saved.bytes, saved.n, &loaded) && !loaded.n_left_out);
        save_of(other, &again);
        REQUIRE(again.n == saved.n && !memcmp(again.bytes, saved.bytes, saved.n));
        memory_audit(other);
        read_tokens(m, (const int32_t[]){ 1, 2, 3, 4, 7, 1, 1, 1 }, 8);
        memory_audit(m);
    }
    rt_memory_destroy(m);
    rt_memory_destroy(other);
    if (test_failed) abort();
    return 0;
}
