/* A case: the arguments of one call and an image of all memory that it can see.
 *
 * Every operand lies in a memory. This is a range of bytes that starts as poison: a NaN in every float type, an invalid
 * entry as an integer. The builder fills the elements that the call may read. The rest stays poison: canaries before
 * and after, gaps between strided rows, tokens of skipped sequences, slots that no map names. A run copies the images
 * to the device, calls the kernel, and reads them back whole. Comparing bytes then finds every other change. */
#ifndef GDN_CHECK_CASE_H
#define GDN_CHECK_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "rng.h"

enum { CHECK_POISON = 0xFFAD, CHECK_MAX_MEMORIES = 20, CHECK_MAX_VIEWS = 22, CHECK_MAX_AXES = 5 };

/* Where a memory is placed on devices that share the host's memory. Either it has canaries on both sides in a buffer of
 * the library, or one of its ends is at a guard page. Other devices always use canaries. */
enum { CHECK_CANARIES = 0, CHECK_GUARD_AFTER = 1, CHECK_GUARD_BEFORE = 2 };

typedef struct check_memory {
    unsigned char *image; /* `bytes` bytes: `before` of canary, the body, canary */
    uint64_t bytes, before, body;
    int written;          /* holds results; 0 = must come back as it was           */
    uint64_t (*range)[2]; /* what the call may write: begin and end in the body    */
    int n_ranges, room;
} check_memory;

/* An operand: elements within a memory. */
typedef struct check_view {
    const char *name;
    int memory;
    int64_t first; /* bytes from the body's begin to the first element */
    int32_t dtype, rank;
    int64_t extent[CHECK_MAX_AXES], stride[CHECK_MAX_AXES]; /* all axes, the contiguous one last; in
                                                               blocks of 34 bytes for Q8_0        */
    const char *axis[CHECK_MAX_AXES];
    size_t field; /* offset of the gdn_tensor, gdn_pool or gdn_span in the call */
    int is_span;
    int64_t given[4]; /* gdn_tensor.stride */
    uint64_t stated;  /* .bytes            */
} check_view;

typedef struct check_case {
    const check_kernel *kernel;
    check_args args;
    int n_memories, n_views;
    check_memory memory[CHECK_MAX_MEMORIES];
    check_view view[CHECK_MAX_VIEWS];
    int placement;   /* CHECK_CANARIES, ...                                     */
    int use_offset;  /* 1: addresses go into data and offset, 0: all into data  */
    int executor;    /* which threads run it, see target.h                      */
    int environment; /* floating-point mode of the caller, see environment.h    */
} check_case;

/* Zeroed memory. Without memory the program says so and ends with status 2. */
void *check_alloc(uint64_t bytes);
/* Byte i of memory that is poison, from an even address on. */
unsigned char check_poison_byte(uint64_t i);
/* Fill with poison of 16 bits; `odd` begins with its second byte. */
void check_poison(unsigned char *at, uint64_t bytes, int odd);

void check_case_init(check_case *c, const check_kernel *kernel);
void check_case_free(check_case *c);

/* A new memory of poison. rng chooses how far from a 64-byte boundary, in steps of `alignment`; NULL = 0. */
int check_add_memory(check_case *c, uint64_t body, uint64_t alignment, int written, check_rng *rng);

check_view *check_add_view(check_case *c, const check_view *v);
/* A view in a memory of its own. Its axes lie in `order` (outermost first, indices into extent), with random gaps of up
 * to `gaps` elements. rng NULL: packed. Otherwise packed strides may be given as 0, and the bytes may be stated. */
check_view *check_add_operand(check_case *c, check_view *v, int32_t dtype, int rank, const int64_t *extent,
                              const int *order, int gaps, int written, check_rng *rng);
/* The view once more, as another operand: the same tensor. */
void check_add_same(check_case *c, const char *of, const char *name, size_t field);

/* One int32 map, packed, as a span operand: n times n_each entries, which lie `stride` bytes apart from `first` on. */
void check_add_map(check_case *c, const char *name, size_t field, const void *first, size_t stride, int n, int n_each,
                   check_rng *rng);
/* For builders: that map of the call, `where` it has it, of a member of each sequence of `spec`. */
#define CHECK_MAP_OF(where, map, member, n_each)                                                                       \
    check_add_map(c, #map, where(map), &spec->seq[0].member, sizeof spec->seq[0], spec->n_seqs, n_each, rng)

void check_put_map(check_case *c, const char *name, const int32_t *values);  /* other values in a map that it has */
void check_put_index(check_case *c, int b0, int b1, int row, int64_t value); /* likewise, of set_rows' index    */

const check_view *check_find(const check_case *c, const char *name); /* NULL if absent */
/* Address in `image` (an image of the view's memory) of an element; axes that are not given are 0. */
unsigned char *check_at(const check_case *c, const check_view *v, unsigned char *image, int64_t i0, int64_t i1,
                        int64_t i2, int64_t i3);
/* The images of a case before it ran, in the form that results have. */
void check_initial(const check_case *c, unsigned char *image[CHECK_MAX_MEMORIES]);
/* Complete the arguments: operands and maps lie in memories that begin at where[m]. Addresses go into data and offset
 * (use_offset), or all into data. */
void check_bind(const check_case *c, const gdn_span *where, int use_offset, check_args *args);
/* Note what the call may write, once it is built. */
void check_note_writes(check_case *c);

uint64_t check_unit_bytes(int32_t dtype); /* of an element, or of a Q8_0 block */
uint64_t check_row_bytes(int32_t dtype, int64_t n);
uint64_t check_alignment(int32_t dtype);
int64_t check_load_index(const void *at, int32_t dtype); /* I32 or I64 */
void check_store_index(void *at, int32_t dtype, int64_t value);

#endif
