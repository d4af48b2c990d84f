/* Records: a sequence kept, moved or forked. Section 11 of the manual that begins in gdn.h, which is what programs
 * include. */
#ifndef GDN_RECORD_H
#define GDN_RECORD_H

#include "gdn/base.h"

/* ---- 11  Records ---------------------------------------------------------------------------------
 *
 * A record is a piece of host memory with all that a sequence is: its state or snapshots, the history of its
 * convolutions, its replay log, its positions. It can go to the host, to a disk or to another process, and be read into
 * other slots, of another context, on another backend. The sequence then goes on with the same bits. A record that is
 * damaged, of another model, or of other shapes is refused, and nothing is written.
 *
 * The caller lists the parts of the sequence, one item each, in the same order for writing and for reading:
 *
 *     gdn_record_item items[2 * N_LAYERS];                    // with GDN_RECORD_ITEM as initialiser
 *     items[0].name = "state 0";   items[0].memory.data = states;  items[0].memory.offset = slot * slot_bytes;
 *     items[0].extent[4] = slot_bytes / 4;                    // a packed slot
 *     items[1].name = "history 0"; items[1].memory.data = history; items[1].memory.offset = row * 3 * slot_bytes_conv;
 *     items[1].extent[3] = 3; items[1].extent[4] = n_channels; ...
 *
 *     gdn_record record = GDN_INIT(gdn_record);
 *     record.items = items;  record.n_items = 2 * N_LAYERS;
 *     record.tag = hash_of_the_weights;  record.number[0] = position;
 *     if (gdn_record_bytes(ctx, &record, &bytes)) fail();
 *     void *kept = malloc(bytes);
 *     if (gdn_record_write(ctx, &record, kept, bytes)) fail();
 *     ...                                                     // later: items of other slots, the same tag
 *     if (gdn_record_read(other, &record, kept, bytes)) fail();
 *     position = record.number[0];
 *
 * A slot of a ring holds the same position after it was moved if the pools have the same n_slots: move the whole row. A
 * snapshot alone is the slot of the newest state. A log needs its whole row and base_position too, for example in
 * number[1]. Between the call that wrote the memory and gdn_record_write() the caller waits as for gdn_buffer_read().
 *
 * Limits: n_items 1 to 2^16; names of 1 to 63 bytes; extents of at least 1; a record is below 2^46 bytes.
 * Aliasing: a record's memory overlaps no item.
 * Errors: INVALID_ARGUMENT where a limit is broken, or where a record is not what the items say; UNSUPPORTED for a
 *   record of another version: nothing is written then. The errors of gdn_buffer_read() and gdn_buffer_write(): the
 *   record, or the items, may be written in part.
 * Thread-safety: as gdn_buffer_read(). */
typedef struct gdn_record_item {
    const char *name;
    gdn_tensor memory; /* of any type; elements of DIGITS2 and DIGITS3 are bytes                        */
    int64_t extent[5]; /* of the axes of memory.stride, outermost first, then elements of the contiguous one */
    int32_t layout;    /* the caller's, which must be the same for writing and reading: a gdn_state_layout; for F32
                          states of the chunked form another number, such as 16 + digits                       */
    int32_t reserved;  /* 0                                                                               */
} gdn_record_item;
#define GDN_RECORD_ITEM                                                                                                \
    {                                                                                                                  \
        .extent = { 1, 1, 1, 1, 1 }                                                                                    \
    }

typedef struct gdn_record {
    uint32_t size;
    uint32_t n_items;
    const gdn_record_item *items;
    uint64_t tag;      /* the caller's: what the memory belongs to, such as a hash of the model. Reading compares it */
    int64_t number[4]; /* the caller's, such as positions. Reading sets them                                 */
} gdn_record;
#define GDN_DEFAULTS_gdn_record

/* The bytes of a record of these items. */
GDN_API gdn_status gdn_record_bytes(const gdn_context *ctx, const gdn_record *record, uint64_t *bytes);
/* Write a record to host memory: `bytes` is what gdn_record_bytes() gives, or more. */
GDN_API gdn_status gdn_record_write(gdn_context *ctx, const gdn_record *record, void *to, uint64_t bytes);
/* Read a record of `bytes` bytes, or more, into the items' memory, and its numbers into record->number. */
GDN_API gdn_status gdn_record_read(gdn_context *ctx, gdn_record *record, const void *from, uint64_t bytes);
/* Check a record as reading does, without items: sets the tag, n_items and the numbers of *record; items is not read.
 */
GDN_API gdn_status gdn_record_describe(const void *from, uint64_t bytes, gdn_record *record);

#endif /* GDN_RECORD_H */
