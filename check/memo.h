/* What the reference made of a trial's calls, kept while the trial goes from one target to the next: as long as these
 * give the same bits, a call is the same on all of them, and the reference takes longer than they do. */
#ifndef GDN_CHECK_MEMO_H
#define GDN_CHECK_MEMO_H

#include "trial.h"

enum { CHECK_MEMO_CALLS = 128 };

/* A call with copies of its memory, and what check_expect() said. */
typedef struct check_memo_call {
    check_case c;
    check_result expected;
    check_text text;
    int expectable;
} check_memo_call;

/* Empty where it is all zeros. */
typedef struct check_memo {
    check_memo_call call[CHECK_MEMO_CALLS];
    int n;
} check_memo;

/* check_expect(), or what it was for this very call: the same operands bit for bit, where they lie, the threads, the
 * floating-point mode. Valid until the next one or check_memo_clear(). */
const check_memo_call *check_memo_expect(check_memo *memo, check_target *reference, const check_case *c);
void check_memo_clear(check_memo *memo);

#endif
