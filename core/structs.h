/* Structs that grow: reading and writing them at the size the caller was built with. */
#ifndef GDN_CORE_STRUCTS_H
#define GDN_CORE_STRUCTS_H

#include <stddef.h>

#include "core/struct_sizes.h"

/* Copy a caller's struct into `copy`, which has room for `known` bytes: what the caller does not have is
 * zero; what it has beyond our knowledge must be zero, or it asks for something we cannot do. `first` is
 * GDN_FIRST_SIZE(type): never today's sizeof, which would refuse every program built before the struct grew. */
gdn_status gdn_struct_read(const char *name, const void *caller, size_t first, size_t known, void *copy);

/* The same for a part of the arguments, which may be NULL: then `copy` is zeros. */
gdn_status gdn_part_read(const char *name, const void *part, size_t first, size_t known, void *copy);

/* Fills a caller's struct of this size with `defaults`, zeros behind them, and its size. */
gdn_status gdn_struct_init(const char *name, void *caller, uint32_t size, size_t first, const void *defaults,
                           size_t known);

/* Whether a caller's struct may be filled in: before anything is computed for it. */
gdn_status gdn_struct_check(const char *name, const void *caller, size_t first);

/* Copy `full` (known bytes, its size member ignored) to a caller's struct, up to the caller's size; zeros beyond. */
void gdn_struct_write(void *caller, const void *full, size_t known);

#endif
