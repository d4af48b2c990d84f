/* Environment variables that a program's user sets: read when a context is created, and not kept. */
#ifndef GDN_CORE_ENVIRONMENT_H
#define GDN_CORE_ENVIRONMENT_H

#include "gdn/gdn.h"

/* The variable's value; NULL where it is not set, is empty, or belongs to somebody whom the program does not trust
 * (setuid programs, as the C library tells them). */
const char *gdn_environment(const char *name);

/* Refuses values that are not allowed, and fills in what the caller left open: the log (GDN_LOG) and the implementation
 * (GDN_IMPLEMENTATION), whose names for other backends are passed over. `names` are those of all backends,
 * GDN_BACKEND_COUNT of them. */
gdn_status gdn_environment_read(gdn_context_desc *desc, const char *const *names);

/* GDN_KNOWN_ANSWERS: on, the default, or off. */
gdn_status gdn_environment_known_answers(int *on);

#endif
