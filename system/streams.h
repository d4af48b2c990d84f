/* The standard streams and the command line of the tool. */
#ifndef GDN_SYSTEM_STREAMS_H
#define GDN_SYSTEM_STREAMS_H

/* Begins the program, before files are opened. Writing beyond `ulimit -f` fails from now on, as on a full disk. The
 * standard streams that the caller closed are open, so that no other file gets their numbers. The arguments are UTF-8,
 * and the streams have bytes. */
void streams_begin(int *argc, char ***argv);

/* True if stdout is the same file as stderr. */
int streams_are_one(void);

/* The longest line that a terminal gives which edits lines itself, in bytes; it drops what comes after. */
int streams_line_most(void);

#endif
