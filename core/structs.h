/* Structs that grow: reads and writes them at the size that the caller was compiled with. */
#ifndef GDN_CORE_STRUCTS_H
#define GDN_CORE_STRUCTS_H

#include <stddef.h>

#include "core/struct_sizes.h"

/* Copies a caller's struct into `copy`, which has room for `known` bytes. Members that the caller lacks become zero.
 * Members beyond `known` must be zero, because this library cannot honour them. `first` is GDN_FIRST_SIZE(type). It is
 * not sizeof: that would refuse programs built before the struct grew. */
gdn_status gdn_struct_read(const char *name, const void *caller, size_t first, size_t known, void *copy);

/* The same for a part of the arguments, which may be NULL: `copy` is then zeros. */
gdn_status gdn_part_read(const char *name, const void *part, size_t first, size_t known, void *copy);

/* Checks that a caller's struct may be filled in. A function calls it before it computes the contents. */
gdn_status gdn_struct_check(const char *name, const void *caller, size_t first);

/* Copy `full` (known bytes, its size member ignored) to a caller's struct, up to the caller's size; zeros beyond. */
void gdn_struct_write(void *caller, const void *full, size_t known);

#endif
