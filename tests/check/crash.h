/* A case that crashes or does not return takes the check with it, but not before it is named: reading beyond a
 * guarded memory ends here. With --json, what has been said by then is still one JSON object. */
#ifndef GDN_CHECK_CRASH_H
#define GDN_CHECK_CRASH_H

#include "target.h"

enum { CHECK_REPEAT_MAX = 600 }; /* bytes of a command line that repeats a case */

/* From here on crashes end with a report and status 1. json: an object on standard output, too. */
void check_crash_catch(int json, uint64_t seed);
/* This is what runs now, and for two minutes at most. */
void check_crash_note(const char *kernel, const char *name, const check_target_info *info, const char *repeat);
/* Nothing runs any more. */
void check_crash_end(void);

/* For tests (--crash KIND): "memory", "abort", "thread", "stack" or "hang". NULL does nothing. */
void check_crash_now(const char *kind);

#endif
