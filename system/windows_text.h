/* UTF-8 and errors, for the files of this folder that are for Windows. */
#ifndef GDN_SYSTEM_WINDOWS_TEXT_H
#define GDN_SYSTEM_WINDOWS_TEXT_H

#include <wchar.h>

enum { GDN_WIDE_PATH = 4096 }; /* characters of a path, with the 0 at its end */

/* 0: the path is no UTF-8, or too long. */
int windows_wide(const char *path, wchar_t wide[GDN_WIDE_PATH]);

/* What the last error of a call about this path is as an errno; EINVAL where it is a folder. */
int windows_errno(const wchar_t *path);

#endif
