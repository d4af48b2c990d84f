/* A last word where the system takes away the pages of a mapped file. */
#ifndef GDN_TOOLS_FAULT_H
#define GDN_TOOLS_FAULT_H

/* From now on, where a page of a mapping is gone (SIGBUS: the file was truncated, or cannot be read), the process says
 * that `path`, the file it has mapped, shrank or cannot be read, and exits with status 1. A path that is too long is
 * cut. To be called once, while there is one thread. It is the program that does this: a library must leave the
 * process's signals alone. */
void fault_watch(const char *path);

#endif
