/* See libc.h and windows_text.h. */
#define WIN32_LEAN_AND_MEAN
#include "system/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <windows.h>

#include "system/windows_text.h"

int windows_wide(const char *path, wchar_t wide[GDN_WIDE_PATH])
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, GDN_WIDE_PATH) > 0;
}

int windows_errno(const wchar_t *path)
{
    const DWORD error = GetLastError(), about = GetFileAttributesW(path);
    switch (error) {
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION: return EWOULDBLOCK;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY: return ENOMEM;
    case ERROR_ACCESS_DENIED:
        return about != INVALID_FILE_ATTRIBUTES && about & FILE_ATTRIBUTE_DIRECTORY ? EINVAL : EACCES;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_INVALID_DRIVE: return ENOENT;
    default: return EIO;
    }
}

void *memmem(const void *bytes, size_t n, const void *part, size_t n_part)
{
    const char *at = bytes, *const first = part;
    if (!n_part) return (void *)(uintptr_t)bytes;
    for (; n >= n_part; n--, at++) {
        const char *const found = memchr(at, *first, n - n_part + 1);
        if (!found) return NULL;
        n -= (size_t)(found - at);
        at = found;
        if (!memcmp(at, part, n_part)) return (void *)(uintptr_t)at;
    }
    return NULL;
}

char *strndup(const char *text, size_t n)
{
    const size_t length = strnlen(text, n);
    char *const copy = malloc(length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

int setenv(const char *name, const char *value, int replace)
{
    if (!replace && GetEnvironmentVariableA(name, NULL, 0)) return 0;
    return SetEnvironmentVariableA(name, value) ? 0 : -1;
}

int unsetenv(const char *name)
{
    (void)SetEnvironmentVariableA(name, NULL);
    return 0;
}
