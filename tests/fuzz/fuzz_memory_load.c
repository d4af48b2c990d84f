/* Fuzz target: rt_memory_load(). The memory is as small as one can be, so that a save is a few hundred bytes, and it is
 * in use before. Byte 0 of an input says what the others are:
 *   bit 0  the checksum is made right      bit 1  so is the number of bytes in the header
 *   bit 2  a save of all, into all. Otherwise of one sequence.
 *   bit 3  the others are changes to a save that is right, three bytes each: offset (16 bit), value.
 * A refused input has a text and has changed nothing. An accepted one has the right checksum and length. It leaves a
 * memory whose references add up. This memory can be saved, loaded again to the same save, and used. */
#include <stddef.h>

#include "../runtime/memory_audit.h"
#include "../runtime/memory_fixture.h"
#include "numerics/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_SEQS = 3, ROOM = 1024 };

static gdn_context *context;
static unsigned char valid[2][ROOM]; /* saves of one and of all, for bit 3 */
static uint64_t n_valid[2];

static rt_memory *open_memory(void) { return memory_open(context, N_SEQS, 12, 1); }

/* Two sequences that share cells, one of them rolled back. */
static void use(rt_memory *m)
{
    REQUIRE(!memory_advance(m, 0, 4) && !rt_memory_seq_cp(m, 0, 1) && !rt_memory_seq_rm(m, 1, 3, -1) &&
            !memory_advance(m, 1, 1));
    REQUIRE(!rt_memory_draft_reserve(m, 1, 2, NULL));
    rt_memory_draft_set_length(m, 0, 4);
    rt_memory_draft_set_length(m, 1, 2);
}

static uint64_t save_into(rt_memory *m, int32_t seq, unsigned char *to)
{
    const uint64_t n = rt_memory_save_size(m, seq);
    REQUIRE(n && n <= ROOM && !rt_memory_save(m, seq, to, n));
    return n;
}

/* What a refused load must leave alone: all that a save shows, and what is reserved. */
static uint64_t look(rt_memory *m)
{
    static unsigned char bytes[ROOM];
    const uint64_t n = save_into(m, -1, bytes);
    return gdn_checksum(bytes, n) + (uint64_t)rt_memory_free_cells(m) * 31 +
           (uint64_t)rt_memory_seq_min_length(m, 0) * 37 + (uint64_t)rt_memory_seq_min_length(m, 1) * 41;
}

/* What was taken is as long as its sequences, and has the checksum of its bytes. */
static void check_taken(const rt_memory *m, const unsigned char *bytes, uint64_t n)
{
    rt_save_header header;
    rt_save_seq record;
    uint64_t at = sizeof header, sum;
    memcpy(&header, bytes, sizeof header);
    for (int32_t i = 0; i < header.n_seqs; i++) {
        REQUIRE(at + sizeof record + 8 <= n);
        memcpy(&record, bytes + at, sizeof record);
        REQUIRE(record.draft <= record.length && record.n_hidden <= record.length);
        at += rt_memory_save_seq_bytes(m, &record);
    }
    REQUIRE(at + 8 == n);
    memcpy(&sum, bytes + at, 8);
    REQUIRE(sum == gdn_checksum(bytes, at));
}

static void start(void)
{
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    REQUIRE(!gdn_context_create(&desc, &context));
    rt_memory *m = open_memory();
    use(m);
    n_valid[0] = save_into(m, 1, valid[0]);
    n_valid[1] = save_into(m, -1, valid[1]);
    rt_memory_destroy(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char bytes[ROOM], again[ROOM];
    if (!context) start();
    if (size < 1 || size > ROOM) return 0;
    const int mode = data[0], all = mode >> 2 & 1;
    uint64_t n = size - 1;
    if (mode & 8) {
        n = n_valid[all];
        memcpy(bytes, valid[all], n);
        for (size_t i = 1; i + 2 < size; i += 3) bytes[(data[i] | data[i + 1] << 8) % n] = data[i + 2];
    } else {
        memcpy(bytes, data + 1, n);
    }
    if (mode & 2 && n >= sizeof(rt_save_header)) memcpy(bytes + offsetof(rt_save_header, bytes), &n, 8);
    if (mode & 1 && n >= 8) memory_sign(bytes, n);

    rt_memory *m = open_memory();
    use(m);
    const uint64_t before = look(m);
    unsigned char *exact = malloc(n ? n : 1); /* so that a sanitizer sees the end */
    REQUIRE(exact);
    memcpy(exact, bytes, n);
    const gdn_status status = rt_memory_load(m, all ? -1 : 2, exact, n);
    free(exact);
    memory_audit(m);
    if (status) {
        REQUIRE((status == GDN_INVALID_ARGUMENT || status == GDN_OUT_OF_MEMORY) && rt_last_error()[0]);
        REQUIRE(look(m) == before);
    } else {
        check_taken(m, bytes, n);
        const uint64_t saved = save_into(m, -1, bytes);
        REQUIRE(!rt_memory_load(m, -1, bytes, saved) && save_into(m, -1, again) == saved &&
                !memcmp(bytes, again, saved));
        memory_audit(m);
        for (int32_t s = 0; s < N_SEQS; s++) {
            REQUIRE(rt_memory_seq_length(m, s) == 0 || rt_memory_seq_min_length(m, s) == rt_memory_seq_length(m, s));
            if (rt_memory_free_cells(m)) REQUIRE(!memory_advance(m, s, 1));
        }
        memory_audit(m);
    }
    rt_memory_destroy(m);
    if (test_failed) abort();
    return 0;
}
