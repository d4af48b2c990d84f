/* Records: a sequence's memory as bytes. See gdn/record.h.
 *
 * A record is a header, a line for each item, and the items' elements, packed; each of these begins at a multiple of 8
 * bytes. The checksum covers all bytes behind it. */
#include "gdn/record.h"

#include <string.h>

#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"
#include "numerics/checksum.h"

#define DIGITS (1u << GDN_DIGITS2 | 1u << GDN_DIGITS3)
#define ANY_TYPE                                                                                                       \
    (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16 | 1u << GDN_Q8_0 | 1u << GDN_I32 | 1u << GDN_I64 | DIGITS)
static const char magic[8] = "gdn rec";
enum { VERSION = 1, MOST_ITEMS = 1 << 16 };
#define MOST_BYTES (UINT64_C(1) << 46)

typedef struct header {
    char magic[8];
    uint64_t checksum;
    uint64_t bytes; /* of the record */
    uint32_t version, n_items;
    uint64_t tag;
    int64_t number[4];
} header;

typedef struct line {
    char name[64];
    int64_t extent[5];
    int32_t dtype, layout;
    uint64_t bytes; /* of the elements */
} line;

/* An item in memory: n runs of bytes that are adjacent. */
typedef struct place {
    line line;
    gdn_span span;
    int64_t stride[4], extent[4]; /* of the runs */
    uint64_t run;
} place;

static uint64_t round_up(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

static gdn_status find_place(const gdn_context *ctx, const gdn_record_item *item, uint32_t i, int needed, place *at)
{
    size_t length = 0;
    while (item->name && length < sizeof at->line.name && item->name[length]) length++;
    gdn_status status;
    uint64_t address, elements = 1;
    gdn_region region = { 0 };
    if (!length || length == sizeof at->line.name)
        return gdn_fail(GDN_INVALID_ARGUMENT, "items[%u].name is %s; 1 to 63 bytes are allowed", (unsigned)i,
                        !item->name ? "NULL"
                        : length    ? "longer"
                                    : "empty");
    if (item->reserved)
        return gdn_fail(GDN_INVALID_ARGUMENT, "items[%u].reserved is %d; it must be 0", (unsigned)i,
                        (int)item->reserved);
    for (int a = 0; a < 5; a++) {
        if (item->extent[a] < 1 || (uint64_t)item->extent[a] > MOST_BYTES / elements)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "items[%u].extent[%d] is %lld; at least 1 is allowed, and 2^46 elements of an item",
                            (unsigned)i, a, (long long)item->extent[a]);
        elements *= (uint64_t)item->extent[a];
    }
    const gdn_operand_spec spec = {
        .name = item->name,
        .dtypes = ANY_TYPE,
        .n_axes = 4,
        .axes = { "0", "1", "2", "3" },
        .extent = { item->extent[0], item->extent[1], item->extent[2], item->extent[3] },
        .inner = item->extent[4],
        .needed = needed,
    };
    if ((status = gdn_operand_resolve(ctx, &spec, &item->memory, &address, at->stride, &region))) return status;
    memset(&at->line, 0, sizeof at->line);
    memcpy(at->line.name, item->name, length);
    memcpy(at->line.extent, item->extent, sizeof at->line.extent);
    memcpy(at->extent, item->extent, sizeof at->extent);
    at->line.dtype = item->memory.dtype;
    at->line.layout = item->layout;
    at->run = gdn_dtype_bytes(item->memory.dtype, item->extent[4]);
    at->line.bytes = at->run * (elements / (uint64_t)item->extent[4]);
    at->span = (gdn_span){ item->memory.data, item->memory.offset, 0 };
    for (int a = 3; a >= 0 && (at->extent[a] == 1 || (uint64_t)at->stride[a] == at->run); a--) {
        at->run *= (uint64_t)at->extent[a]; /* axes that lie within one run */
        at->extent[a] = 1;
    }
    return GDN_OK;
}

/* Copies an item from its memory to packed bytes, or back. */
static gdn_status copy(gdn_context *ctx, const place *at, unsigned char *bytes, int back)
{
    int64_t i[4];
    gdn_status status;
    for (i[0] = 0; i[0] < at->extent[0]; i[0]++)
        for (i[1] = 0; i[1] < at->extent[1]; i[1]++)
            for (i[2] = 0; i[2] < at->extent[2]; i[2]++)
                for (i[3] = 0; i[3] < at->extent[3]; i[3]++, bytes += at->run) {
                    uint64_t offset = 0;
                    for (int a = 0; a < 4; a++) offset += (uint64_t)(i[a] * at->stride[a]);
                    status = back ? gdn_buffer_write(ctx, &at->span, offset, bytes, at->run)
                                  : gdn_buffer_read(ctx, &at->span, offset, bytes, at->run);
                    if (status) return status;
                }
    return GDN_OK;
}

/* The caller's struct, and the bytes of its record. */
static gdn_status measure(const gdn_context *ctx, const gdn_record *record, int needed, gdn_record *r, uint64_t *bytes)
{
    gdn_status status;
    place at;
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    if ((status = gdn_struct_read("record", record, GDN_FIRST_SIZE(gdn_record), sizeof *r, r)) ||
        (status = gdn_check_range("record->n_items", r->n_items, 1, MOST_ITEMS)))
        return status;
    if (!r->items) return gdn_fail(GDN_INVALID_ARGUMENT, "record->items is NULL");
    *bytes = sizeof(header) + r->n_items * sizeof(line);
    for (uint32_t i = 0; i < r->n_items; i++) {
        if ((status = find_place(ctx, &r->items[i], i, needed, &at))) return status;
        if (at.line.bytes > MOST_BYTES - *bytes)
            return gdn_fail(GDN_INVALID_ARGUMENT, "the items up to items[%u] have more than 2^46 bytes", (unsigned)i);
        *bytes += round_up(at.line.bytes);
    }
    return GDN_OK;
}

gdn_status gdn_record_bytes(const gdn_context *ctx, const gdn_record *record, uint64_t *bytes)
{
    gdn_record r;
    uint64_t found;
    if (!bytes) return gdn_fail(GDN_INVALID_ARGUMENT, "bytes is NULL");
    const gdn_status status = measure(ctx, record, 0, &r, &found);
    if (!status) *bytes = found;
    return status;
}

static uint64_t checksum_of(const unsigned char *record, uint64_t bytes)
{
    return gdn_checksum(record + offsetof(header, bytes), bytes - offsetof(header, bytes));
}

gdn_status gdn_record_write(gdn_context *ctx, const gdn_record *record, void *to, uint64_t bytes)
{
    gdn_record r;
    place at;
    header h = { .version = VERSION };
    gdn_status status = measure(ctx, record, 1, &r, &h.bytes);
    if (status) return status;
    if (!to) return gdn_fail(GDN_INVALID_ARGUMENT, "to is NULL");
    if (bytes < h.bytes)
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes is %llu; the record has %llu", (unsigned long long)bytes,
                        (unsigned long long)h.bytes);
    unsigned char *lines = (unsigned char *)to + sizeof h, *elements = lines + r.n_items * sizeof(line);
    for (uint32_t i = 0; i < r.n_items; i++, lines += sizeof at.line) {
        if ((status = find_place(ctx, &r.items[i], i, 1, &at)) || (status = copy(ctx, &at, elements, 0))) return status;
        memcpy(lines, &at.line, sizeof at.line);
        memset(elements + at.line.bytes, 0, (size_t)(round_up(at.line.bytes) - at.line.bytes));
        elements += round_up(at.line.bytes);
    }
    memcpy(h.magic, magic, sizeof magic);
    h.n_items = r.n_items;
    h.tag = r.tag;
    memcpy(h.number, r.number, sizeof h.number);
    memcpy(to, &h, sizeof h);
    h.checksum = checksum_of(to, h.bytes);
    memcpy(to, &h, sizeof h);
    return GDN_OK;
}

static gdn_status check_record(const void *from, uint64_t bytes, header *h)
{
    if (!from) return gdn_fail(GDN_INVALID_ARGUMENT, "from is NULL");
    if (bytes < sizeof *h)
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes is %llu; a record has at least %zu", (unsigned long long)bytes,
                        sizeof *h);
    memcpy(h, from, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic)) return gdn_fail(GDN_INVALID_ARGUMENT, "from is no record");
    if (h->version != VERSION)
        return gdn_fail(GDN_UNSUPPORTED, "the record has version %u; this library reads version %d",
                        (unsigned)h->version, VERSION);
    if (h->bytes > bytes || h->bytes < sizeof *h + h->n_items * (uint64_t)sizeof(line))
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes is %llu; the record says that it has %llu",
                        (unsigned long long)bytes, (unsigned long long)h->bytes);
    if (checksum_of(from, h->bytes) != h->checksum)
        return gdn_fail(GDN_INVALID_ARGUMENT, "the record is damaged: its checksum is not that of its bytes");
    return GDN_OK;
}

/* That a record's line is the item's. */
static gdn_status compare(const line *has, const line *wants, uint32_t i)
{
    if (strncmp(has->name, wants->name, sizeof has->name))
        return gdn_fail(GDN_INVALID_ARGUMENT, "items[%u] is '%s'; the record has '%.63s' there", (unsigned)i,
                        wants->name, has->name);
    if (has->dtype != wants->dtype || has->layout != wants->layout)
        return gdn_fail(GDN_INVALID_ARGUMENT, "'%s' has dtype %d and layout %d; the record has %d and %d", wants->name,
                        (int)wants->dtype, (int)wants->layout, (int)has->dtype, (int)has->layout);
    for (int a = 0; a < 5; a++)
        if (has->extent[a] != wants->extent[a])
            return gdn_fail(GDN_INVALID_ARGUMENT, "'%s' has extent[%d] %lld; the record has %lld", wants->name, a,
                            (long long)wants->extent[a], (long long)has->extent[a]);
    return GDN_OK;
}

gdn_status gdn_record_read(gdn_context *ctx, gdn_record *record, const void *from, uint64_t bytes)
{
    gdn_record r;
    header h;
    place at;
    line has;
    uint64_t expected;
    gdn_status status;
    if ((status = measure(ctx, record, 1, &r, &expected)) || (status = check_record(from, bytes, &h))) return status;
    if (h.tag != r.tag)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "record->tag is %#llx; the record has %#llx: it belongs to something else",
                        (unsigned long long)r.tag, (unsigned long long)h.tag);
    if (h.n_items != r.n_items)
        return gdn_fail(GDN_INVALID_ARGUMENT, "record->n_items is %u; the record has %u", (unsigned)r.n_items,
                        (unsigned)h.n_items);
    const unsigned char *lines = (const unsigned char *)from + sizeof h;
    unsigned char *elements = (unsigned char *)(uintptr_t)lines + r.n_items * sizeof(line); /* only read */
    for (int writes = 0; writes < 2; writes++) { /* all is compared before anything is written */
        const unsigned char *at_line = lines;
        unsigned char *at_elements = elements;
        for (uint32_t i = 0; i < r.n_items; i++, at_line += sizeof has) {
            memcpy(&has, at_line, sizeof has);
            if ((status = find_place(ctx, &r.items[i], i, 1, &at)) ||
                (!writes && (status = compare(&has, &at.line, i))) ||
                (writes && (status = copy(ctx, &at, at_elements, 1))))
                return status;
            at_elements += round_up(at.line.bytes);
        }
        if (!writes && h.bytes != expected)
            return gdn_fail(GDN_INVALID_ARGUMENT, "the record has %llu bytes; its items have %llu",
                            (unsigned long long)h.bytes, (unsigned long long)expected);
    }
    memcpy(r.number, h.number, sizeof r.number);
    gdn_struct_write(record, &r, sizeof r);
    return GDN_OK;
}

gdn_status gdn_record_describe(const void *from, uint64_t bytes, gdn_record *record)
{
    header h;
    gdn_record r = { .size = sizeof r };
    gdn_status status;
    if ((status = gdn_struct_check("record", record, GDN_FIRST_SIZE(gdn_record))) ||
        (status = check_record(from, bytes, &h)))
        return status;
    r.n_items = h.n_items;
    r.tag = h.tag;
    memcpy(r.number, h.number, sizeof r.number);
    r.items = record->items;
    gdn_struct_write(record, &r, sizeof r);
    return GDN_OK;
}
