/* See replace_files.h. A file that is open here and shared with nobody is locked. */
#define WIN32_LEAN_AND_MEAN
#include "system/replace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "system/windows_text.h"

static char *narrow(const wchar_t *wide)
{
    const int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *const text = bytes ? malloc((size_t)bytes) : NULL;
    if (text) (void)WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, bytes, NULL, NULL);
    return text;
}

char *replace_resolve(const char *path)
{
    wchar_t wide[GDN_WIDE_PATH], final[GDN_WIDE_PATH];
    errno = ENOENT;
    if (!*path || !windows_wide(path, wide)) return NULL;
    const HANDLE old = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                   FILE_ATTRIBUTE_NORMAL, NULL);
    if (old == INVALID_HANDLE_VALUE) {
        errno = windows_errno(wide);
        return errno == ENOENT ? strdup(path) : NULL;
    }
    const int good = GetFileType(old) == FILE_TYPE_DISK;
    const DWORD n = good ? GetFinalPathNameByHandleW(old, final, GDN_WIDE_PATH, FILE_NAME_NORMALIZED) : 0;
    (void)CloseHandle(old);
    errno = EINVAL;
    return n && n < GDN_WIDE_PATH ? narrow(final) : NULL;
}

int replace_open(const char *beside)
{
    wchar_t wide[GDN_WIDE_PATH];
    errno = ENOENT;
    if (!windows_wide(beside, wide)) return -1;
    const HANDLE file = CreateFileW(wide, GENERIC_WRITE | DELETE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) errno = windows_errno(wide);
    const int fd = file == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle((intptr_t)file, _O_BINARY);
    if (file != INVALID_HANDLE_VALUE && fd < 0) (void)CloseHandle(file);
    return fd;
}

void replace_allow(int fd, const char *path) { (void)fd, (void)path; } /* it has those of its folder */

/* A name that another file has is taken from it. */
int replace_rename(int fd, const char *beside, const char *path)
{
    const HANDLE file = (HANDLE)_get_osfhandle(fd);
    (void)beside;
    wchar_t wide[GDN_WIDE_PATH];
    if (!windows_wide(path, wide) || !FlushFileBuffers(file)) return 0;
    const size_t bytes = wcslen(wide) * sizeof *wide;
    FILE_RENAME_INFO *const to = calloc(1, sizeof *to + bytes);
    if (!to) return 0;
    to->ReplaceIfExists = TRUE;
    to->FileNameLength = (DWORD)bytes;
    memcpy(to->FileName, wide, bytes);
    const int good = SetFileInformationByHandle(file, FileRenameInfo, to, (DWORD)(sizeof *to + bytes)) != 0;
    if (!good) errno = windows_errno(wide);
    free(to);
    return good;
}

int replace_sync_folder(const char *path)
{
    (void)path;
    return 1;
}

void replace_remove(int fd, const char *beside)
{
    FILE_DISPOSITION_INFO end = { TRUE };
    (void)beside;
    (void)SetFileInformationByHandle((HANDLE)_get_osfhandle(fd), FileDispositionInfo, &end, sizeof end);
}
