/* Digests of the reference's results. The reference is slower than most targets, and much slower under qemu and
 * sanitizers. Its bits are the same in every build. So it runs a call once for all targets. It does not run a call
 * whose digest a file of another build has (gdn check --record FILE, --expect FILE), which may be one for another
 * machine. A call is identified by a hash of all its contents. The reference runs calls that the file does not have. */
#ifndef GDN_CHECK_DIGESTS_H
#define GDN_CHECK_DIGESTS_H

#include "trial.h"

/* Begin to write a file; read one. 1, or 0 with the reason in `message`. */
int check_digests_record(const char *path, uint32_t level, char *message, uint64_t message_bytes);
int check_digests_expect(const char *path, uint32_t level, char *message, uint64_t message_bytes);
/* Ends writing; 0 if that failed. *n_of_file: number of calls whose digests came from the file that was read. */
int check_digests_close(int64_t *n_of_file);

/* The digest of the reference's results of c; runs the reference if it is unknown. 1 if results can be compared with
 * it; otherwise *outcome is the outcome, and text has the reason. */
int check_known(check_target *reference, const check_case *c, uint64_t *digest, check_outcome *outcome,
                check_text *text);
/* Runs c on t and compares. If the digest differs, the reference runs too, for the details in text. */
check_outcome check_judge_known(check_target *t, check_target *reference, const check_case *c, uint64_t digest,
                                check_result *result, check_text *text);

#endif
