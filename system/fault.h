/* Error message for a mapped file that becomes unreadable (SIGBUS). */
#ifndef GDN_SYSTEM_FAULT_H
#define GDN_SYSTEM_FAULT_H

/* Installs a SIGBUS handler for pages of a mapping that are gone, as after the file was truncated or became unreadable.
 * The handler reports, as `program`, that `path` shrank or cannot be read, and exits with status 1. A too long path is
 * shortened in the message. Call once, while there is one thread. This belongs to the program: a library must not
 * change the process's signal handling. */
void fault_watch(const char *program, const char *path);

#endif
