/* What the reference made of calls, as digests. The reference takes longer than most targets, and much longer in some
 * builds; its bits are the same in all. So it runs a call once for all targets, and not at all where a file says what
 * another build made of it. A call is known by what it consists of. One that is not in the file costs time and nothing
 * else. */
#ifndef GDN_CHECK_DIGESTS_H
#define GDN_CHECK_DIGESTS_H

#include "trial.h"

/* Write a file, or know what one says. 1, or 0 and why not in `message`. */
int check_digests_record(const char *path, uint32_t level, char *message, uint64_t message_bytes);
int check_digests_expect(const char *path, uint32_t level, char *message, uint64_t message_bytes);
/* The end of the file that is written; 0 where that failed. *n_of_file: calls that were in the one that is known. */
int check_digests_close(int64_t *n_of_file);

/* The digest of what the reference makes of c, which is run where that is not known. 1 if it is fit to compare with;
 * otherwise *outcome is what came of it, and text says why. */
int check_known(check_target *reference, const check_case *c, uint64_t *digest, check_outcome *outcome,
                check_text *text);
/* Run c on t and compare. Where it differs, the reference runs for the words in text. */
check_outcome check_judge_known(check_target *t, check_target *reference, const check_case *c, uint64_t digest,
                                check_result *result, check_text *text);

#endif
