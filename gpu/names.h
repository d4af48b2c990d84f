// The texts that CUDA and Metal share (gpu/delta_*.h, gpu/conv.h, gpu/set_rows.h) take names from the kernel that
// includes them. names_delta.h, names_conv.h and names_rows.h declare these names for each text; this file has what
// they have in common. No kernel includes these files. An editor does (.clangd), to understand a text that is opened
// alone, and scripts/lint_kernels.py, which compiles each text with them and finds names that are missing or not used.
//
// Macros and types of the language are in call/dialect_cuda.h and call/dialect_metal.h:
//   FUNCTION, CALL, PASS     FUNCTION int f(CALL int x) declares a function of a call; f(PASS x) calls it
//   THREAD, CONSTANT         address spaces of references: to variables, to the block
//   STATIC                   declares a constant of a shape
//   Bytes, ConstBytes        addresses in the device's memory
//   Address                  an address of what the call does not write
//   DATA(operand)            a view's address
//   ADDRESS(operand)         the address of an operand without a view
//   HAS(operand, bit)        whether a view is present
//   REPORT(word)             reports a bad map
#ifndef GDN_GPU_NAMES_H
#define GDN_GPU_NAMES_H

#define GDN_MEMORY              char *
#define GDN_INLINE              static inline
#define GDN_ELEMENTARY_FUNCTION static inline
#include "call/types.h"
#include "call/dialect_cuda.h"
#include "numerics/prepare.h"

int read_int(uint64_t at);
int map_at(uint64_t map, int64_t i, int absent);
void report(char *bad, int word);

// ---- Memory. read_*() read what the call does not write; load_*() read what it may write.
void store_16bit(char *at, uint32_t x);
void store_element(char *at, float x, int dtype); // of any type

#endif
