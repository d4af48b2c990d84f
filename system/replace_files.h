/* What replacing a file takes of a system. For replace.c; each system has a file of these. */
#ifndef GDN_SYSTEM_REPLACE_FILES_H
#define GDN_SYSTEM_REPLACE_FILES_H

/* The path without symbolic links, which a rename would replace. NULL: what it names is no regular file, or there is no
 * memory. */
char *replace_resolve(const char *path);

/* Opens an empty file that no other process has, for as long as it is open. -1: failed; errno is EWOULDBLOCK if another
 * one has it. */
int replace_open(const char *beside);

/* Gives the open file the permissions of the file at the path, if there is one and the system has such. */
void replace_allow(int fd, const char *path);

/* Writes the open file to the disk, and gives it the path's name. 0: failed. */
int replace_rename(int fd, const char *beside, const char *path);
/* Writes the folder of the path to the disk, so that a rename in it lasts. 0: failed. */
int replace_sync_folder(const char *path);

/* Removes the name of the open file. */
void replace_remove(int fd, const char *beside);

#endif
