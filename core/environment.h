/* Environment variables that a program's user sets. The library reads them when it creates a context. */
#ifndef GDN_CORE_ENVIRONMENT_H
#define GDN_CORE_ENVIRONMENT_H

#include "gdn/gdn.h"

/* The variable's value. NULL if it is not set or empty, or in a setuid program. Valid for
 * the calling thread's next seven calls. */
const char *gdn_environment(const char *name);

/* Fills in what the caller left open: the log (GDN_LOG) and the implementation (GDN_IMPLEMENTATION). Refuses values
 * that are not allowed; ignores an implementation for another backend. `names` has the names of all GDN_BACKEND_COUNT
 * backends. */
gdn_status gdn_environment_read(gdn_context_desc *desc, const char *const *names);

/* A variable that may be on, the default, or off; and one that may be a number. The latter leaves *number unchanged if
 * it is not set. */
gdn_status gdn_environment_switch(const char *name, int *on);
gdn_status gdn_environment_number(const char *name, int low, int high, int *number);

#endif
