/* Comparing memory images byte for byte, with one exception: where both elements of a result are NaN and
 * neither is poison, their bits do not matter. */
#ifndef GDN_CHECK_COMPARE_H
#define GDN_CHECK_COMPARE_H

#include "case.h"

/* Text that grows; kept short enough to print. */
typedef struct check_text {
    char at[4000];
    size_t used;
} check_text;

void check_say(check_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How many elements (and stray bytes) of all memories differ. text, if given, gets one paragraph per memory:
 * the first difference by operand and axes, both values, and the count. */
int64_t check_compare(const check_case *c, unsigned char *const *expected, unsigned char *const *actual,
                      check_text *text);

/* The same for a result alone. Nothing outside the ranges that the case lists has changed, and no F32 result inside
 * them is poison. */
int64_t check_confined(const check_case *c, unsigned char *const *actual, check_text *text);

/* Of the values that a call made, the same on every machine. Two results have the same where check_compare() finds no
 * difference, or all but certainly others. */
uint64_t check_digest(const check_case *c, unsigned char *const *image);
/* Of n numbers of 64 bits, and of an operand's values before the call; both the same on every machine. */
uint64_t check_hash(uint64_t hash, const void *numbers, int n);
uint64_t check_hash_view(uint64_t hash, const check_case *c, const check_view *v);

/* 1 if two elements are the same by that rule. */
int check_same(const void *a, const void *b, int32_t dtype);

/* "0x3f800000 (1)" of one element, into text. */
void check_say_value(check_text *text, const void *element, int32_t dtype);

#endif
