/* gdn check --calls FILE: writes the smaller calls with the memory before and after them, as the reference makes it,
 * for an oracle outside of the library. docs/design/check.md has the format. */
#ifndef GDN_CHECK_WRITE_CALLS_H
#define GDN_CHECK_WRITE_CALLS_H

#include "case.h"

/* Begin a file. 1, or 0 with the reason in `message`. */
int check_calls_begin(const char *path, char *message, uint64_t message_bytes);
/* The name of the calls that follow. */
void check_calls_name(const char *name);
/* A call, if a file was begun and the call's memory is small. */
void check_calls_write(const check_case *c, unsigned char *const *after);
/* Of the numbers of a call, which is all of it but its operands; the same on every machine. */
uint64_t check_calls_hash(uint64_t hash, const check_case *c);
/* End the file; 0 if it could not be written. */
int check_calls_end(void);

#endif
