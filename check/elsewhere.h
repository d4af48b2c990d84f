/* The reference in another process, of a program that the machine runs itself where this one is emulated: there each of
 * its numbers takes a hundred times as long, and the contract says that they are the same. A call goes over as a whole,
 * with the memory that it sees, so the other program need not have this one's cases, and cannot be out of step. */
#ifndef GDN_CHECK_ELSEWHERE_H
#define GDN_CHECK_ELSEWHERE_H

#include "compare.h"
#include "target.h"

/* From here on `program check --serve` is asked. 1, or 0 and why not in `message`. */
int check_elsewhere_open(const char *program, uint32_t level, char *message, uint64_t message_bytes);
int check_elsewhere_is_open(void);
void check_elsewhere_close(void);

/* check_expect() of that process, for a case in the default floating-point mode. */
int check_elsewhere_expect(const check_case *c, check_result *expected, check_text *text);

/* The other side: answer what comes on standard input until it ends; the exit status. */
int check_elsewhere_serve(check_target *reference, uint32_t level);

#endif
