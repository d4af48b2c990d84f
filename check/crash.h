/* Names the case that crashes, or that the user stops, before the check ends. A read beyond a guard page crashes. With
 * --json the output up to there is still one JSON object. */
#ifndef GDN_CHECK_CRASH_H
#define GDN_CHECK_CRASH_H

#include "target.h"

enum { CHECK_REPEAT_MAX = 600 }; /* bytes of a command line that repeats a case */

/* From here on crashes end with a report and status 1; a report comes before SIGINT and SIGTERM end it, too. json: an
 * object on standard output, too. */
void check_crash_catch(int json, uint64_t seed);
/* This is what runs now. */
void check_crash_note(const char *kernel, const char *name, const check_target_info *info, const char *repeat);
/* Nothing runs any more. */
void check_crash_end(void);

/* For tests (--crash KIND): "memory", "abort", "thread", "stack", "interrupt" or "stop". NULL and "timeout" do nothing.
 */
void check_crash_now(const char *kind);
/* For tests: the kernel, but every call that is not the reference's returns GDN_TIMEOUT. One at a time. */
const check_kernel *check_crash_timeout(const check_kernel *kernel);

#endif
