/* Records: what is written and read back is the memory, in any layout; what is not a record of the items is refused,
 * and nothing is written. */
#include <stdlib.h>
#include <string.h>

#define TEST_LAST_ERROR gdn_last_error
#include "gdn/gdn.h"
#include "tests/harness.h"

enum { HEADS = 3, ROWS = 5, KEYS = 8, SLOTS = 4, CHANNELS = 6 };

/* A sequence in pools of other sequences: a state with gaps between its rows, and a row of a ring of 16 bits. */
typedef struct memory {
    float state[2][HEADS][ROWS][KEYS + 3];
    uint16_t history[3][SLOTS][CHANNELS];
    gdn_record_item item[2];
    gdn_record record;
} memory;

static void describe(memory *m, int slot, int row)
{
    m->item[0] = (gdn_record_item){ .name = "state 0",
                                    .memory = { .data = m->state[slot],
                                                .stride = { 0, 0, sizeof m->state[0][0], sizeof m->state[0][0][0] },
                                                .dtype = GDN_F32 },
                                    .extent = { 1, 1, HEADS, ROWS, KEYS },
                                    .layout = GDN_STATE_VK };
    m->item[1] = (gdn_record_item)GDN_RECORD_ITEM;
    m->item[1].name = "history 0";
    m->item[1].memory =
        (gdn_tensor){ .data = m->history, .offset = (uint64_t)row * sizeof m->history[0], .dtype = GDN_BF16 };
    m->item[1].extent[3] = SLOTS;
    m->item[1].extent[4] = CHANNELS;
    m->record = (gdn_record)GDN_INIT(gdn_record);
    m->record.items = m->item;
    m->record.n_items = 2;
    m->record.tag = 77;
}

static void fill(memory *m, unsigned char with)
{
    memset(m->state, with, sizeof m->state);
    memset(m->history, with, sizeof m->history);
}

static int is_filled(const memory *m, unsigned char with)
{
    const unsigned char *at = (const unsigned char *)m->state;
    for (size_t i = 0; i < sizeof m->state; i++)
        if (at[i] != with) return 0;
    at = (const unsigned char *)m->history;
    for (size_t i = 0; i < sizeof m->history; i++)
        if (at[i] != with) return 0;
    return 1;
}

static gdn_context *ctx;
static memory from, to;
static unsigned char bytes[4096], damaged[4096];
static uint64_t n;

#define REFUSED(call, says)                                                                                            \
    do {                                                                                                               \
        REQUIRE((call) == GDN_INVALID_ARGUMENT && strstr(gdn_last_error(), says), "not '%s'", says);                   \
    } while (0)

static void moves(void)
{
    float number = 0;
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < ROWS; j++)
            for (int i = 0; i < KEYS; i++) from.state[1][h][j][i] = ++number;
    for (int i = 0; i < SLOTS; i++)
        for (int c = 0; c < CHANNELS; c++) from.history[2][i][c] = (uint16_t)++number;
    describe(&from, 1, 2);
    describe(&to, 0, 1);
    from.record.number[0] = 1234;
    from.record.number[3] = -5;
    REQUIRE(gdn_record_bytes(ctx, &from.record, &n) == GDN_OK && n < sizeof bytes);
    REQUIRE(gdn_record_write(ctx, &from.record, bytes, n) == GDN_OK);
    fill(&to, 0xee);
    REQUIRE(gdn_record_read(ctx, &to.record, bytes, n) == GDN_OK);
    REQUIRE(to.record.number[0] == 1234 && to.record.number[3] == -5);
    REQUIRE(!memcmp(to.history[1], from.history[2], sizeof to.history[1]));
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < ROWS; j++)
            REQUIRE(!memcmp(to.state[0][h][j], from.state[1][h][j], KEYS * sizeof(float)) &&
                    ((unsigned char *)to.state[0][h][j])[KEYS * sizeof(float)] == 0xee); /* gaps are not written */
    memset(to.history[1], 0xee, sizeof to.history[1]);
    memset(to.state[0], 0xee, sizeof to.state[0]);
    REQUIRE(is_filled(&to, 0xee)); /* nor anything else */
    gdn_record found = GDN_INIT(gdn_record);
    REQUIRE(gdn_record_describe(bytes, n, &found) == GDN_OK && found.tag == 77 && found.n_items == 2 &&
            found.number[0] == 1234);
}

/* A flipped bit of any byte, and every shorter length. */
static void damage(void)
{
    int accepted = 0;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(damaged, bytes, n);
        damaged[i] ^= 1;
        accepted += gdn_record_read(ctx, &to.record, damaged, n) == GDN_OK;
        accepted += gdn_record_read(ctx, &to.record, bytes, i) == GDN_OK;
    }
    REQUIRE(!accepted && is_filled(&to, 0xee));
}

static void foreign(void)
{
    const memory good = to;
#define WRONG(change, says)                                                                                            \
    do {                                                                                                               \
        to = good;                                                                                                     \
        change;                                                                                                        \
        to.record.items = to.item;                                                                                     \
        REFUSED(gdn_record_read(ctx, &to.record, bytes, n), says);                                                     \
        REQUIRE(is_filled(&to, 0xee));                                                                                 \
    } while (0)
    WRONG(to.record.tag = 78, "record->tag is 0x4e; the record has 0x4d");
    WRONG(to.record.n_items = 1, "record->n_items is 1; the record has 2");
    WRONG(to.item[1].name = "history 1", "items[1] is 'history 1'; the record has 'history 0' there");
    WRONG(to.item[0].layout = GDN_STATE_KV, "'state 0' has dtype 0 and layout 1; the record has 0 and 0");
    WRONG(to.item[1].memory.dtype = GDN_F16, "'history 0' has dtype 1");
    WRONG(to.item[0].extent[3] = ROWS - 1, "'state 0' has extent[3] 4; the record has 5");
    WRONG(to.item[0].extent[2] = 0, "items[0].extent[2] is 0; at least 1");
    WRONG(to.item[0].extent[2] = INT64_MAX, "items[0].extent[2] is");
    WRONG(to.item[0].name = "", "items[0].name is empty");
    WRONG(to.item[0].name = NULL, "items[0].name is NULL");
    WRONG(to.item[0].name = "0123456789012345678901234567890123456789012345678901234567890123",
          "items[0].name is longer");
    WRONG(to.item[0].reserved = 3, "items[0].reserved is 3");
    WRONG(to.item[0].memory.dtype = 99, "state 0.dtype is 99");
    WRONG(to.item[0].memory.stride[3] = 4, "state 0");
    WRONG(to.item[0].memory.data = NULL, "state 0.data is NULL");
    WRONG(to.record.size = 3, "record->size is 3");
    WRONG(to.record.n_items = 0, "record->n_items is 0");
    to = good;
    to.record.items = NULL;
    REFUSED(gdn_record_read(ctx, &to.record, bytes, n), "record->items is NULL");
    to.record.items = to.item;
    REFUSED(gdn_record_read(NULL, &to.record, bytes, n), "ctx is NULL");
    REFUSED(gdn_record_read(ctx, NULL, bytes, n), "record is NULL");
    REFUSED(gdn_record_read(ctx, &to.record, NULL, n), "from is NULL");
    REFUSED(gdn_record_write(ctx, &to.record, damaged, n - 1), "bytes is ");
    REFUSED(gdn_record_write(ctx, &to.record, NULL, n), "to is NULL");
    REFUSED(gdn_record_bytes(ctx, &to.record, NULL), "bytes is NULL");
    REFUSED(gdn_record_describe(damaged, 8, &to.record), "bytes is 8; a record has at least");
    memset(damaged, 0, n);
    REFUSED(gdn_record_describe(damaged, n, &to.record), "from is no record");
    memcpy(damaged, bytes, n);
    damaged[24]++; /* behind the magic number, the checksum and the size */
    REQUIRE(gdn_record_describe(damaged, n, &to.record) == GDN_UNSUPPORTED &&
            strstr(gdn_last_error(), "the record has version 2; this library reads version 1"));
    uint64_t size = 0;
    for (int i = 0; i < 2; i++) {
        to.item[i].memory = (gdn_tensor){ .dtype = GDN_F32 };
        for (int a = 0; a < 5; a++) to.item[i].extent[a] = a < 4 ? 1 : INT64_C(1) << 45;
    }
    REFUSED(gdn_record_bytes(ctx, &to.record, &size), "more than 2^46 bytes");
}

/* A slot of states of the chunked form, by its type. */
static void digits(void)
{
    enum { SLOT = 2 * (2 * 256 + 64) }; /* slot_bytes of two heads of 16, 2 digits */
    static _Alignas(16) unsigned char pool[2][SLOT];
    uint64_t size = 0;
    fill(&from, 1);
    describe(&from, 0, 0);
    from.item[0] = (gdn_record_item)GDN_RECORD_ITEM;
    from.item[0].name = "state 0";
    from.item[0].memory = (gdn_tensor){ .data = pool, .dtype = GDN_DIGITS2 };
    from.item[0].extent[4] = SLOT;
    for (int i = 0; i < SLOT; i++) pool[0][i] = (unsigned char)(i % 251);
    REQUIRE(gdn_record_bytes(ctx, &from.record, &size) == GDN_OK && size <= sizeof bytes);
    REQUIRE(gdn_record_write(ctx, &from.record, bytes, size) == GDN_OK);
    from.item[0].memory.dtype = GDN_DIGITS3;
    REFUSED(gdn_record_read(ctx, &from.record, bytes, size), "'state 0' has dtype 7");
    from.item[0].memory.dtype = GDN_DIGITS2;
    from.item[0].memory.offset = SLOT;
    REQUIRE(gdn_record_read(ctx, &from.record, bytes, size) == GDN_OK && !memcmp(pool[0], pool[1], SLOT));
}

int main(void)
{
    const gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    NEED(gdn_context_create(&desc, &ctx) == GDN_OK);
    moves();
    damage();
    foreign();
    digits();
    gdn_context_destroy(ctx);
    return test_summary();
}
