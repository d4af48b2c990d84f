// The names that gpu/set_rows.h takes from the kernels of set_rows: see gpu/names.h.
#ifndef GDN_GPU_NAMES_ROWS_H
#define GDN_GPU_NAMES_ROWS_H

#include "gpu/names.h"
#include "call/set_rows.h"

#define FUNCTION GDN_INLINE
#define CALL     const gdn_set_rows_call &p,
#define PASS     p,

int64_t index_at(CALL int64_t b0, int64_t b1, int64_t i); // the target of row i in an index batch
uint32_t claim(CALL int64_t slot, uint32_t word);         // writes the word to an empty slot; returns what it held
void raise_to(CALL int64_t slot, uint32_t word);          // writes it if the slot holds a smaller one
uint32_t held_in(CALL int64_t slot);                      // what a slot holds

#endif
