/* See replace.h. A file that is open here and shared with nobody is the lock. */
#define WIN32_LEAN_AND_MEAN
#include "system/replace.h"

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

/* The path without symbolic links. NULL: what it names is no regular file, or there is no memory. */
static char *resolve(const char *path)
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

/* Opens the file beside. errno is EWOULDBLOCK if another process has it. */
static HANDLE open_beside(const char *beside)
{
    wchar_t wide[GDN_WIDE_PATH];
    errno = ENOENT;
    if (!windows_wide(beside, wide)) return INVALID_HANDLE_VALUE;
    const HANDLE file = CreateFileW(wide, GENERIC_WRITE | DELETE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) errno = windows_errno(wide);
    return file;
}

/* Opens PATH and the ending. Waits at most some seconds while another process has it. *beside is NULL if it failed. */
static HANDLE lock_beside(const char *path, const char *ending, int seconds, char **beside)
{
    const size_t n = strlen(path), n_ending = strlen(ending) + 1;
    *beside = malloc(n + n_ending);
    if (!*beside) return INVALID_HANDLE_VALUE;
    memcpy(*beside, path, n);
    memcpy(*beside + n, ending, n_ending);
    HANDLE file = open_beside(*beside);
    for (int i = 0; file == INVALID_HANDLE_VALUE && errno == EWOULDBLOCK && i < 20 * seconds; i++) {
        Sleep(50);
        file = open_beside(*beside);
    }
    if (file != INVALID_HANDLE_VALUE) return file;
    const int why = errno;
    free(*beside);
    *beside = NULL;
    errno = why;
    return file;
}

int replace_begin(replacement *r, const char *path, int seconds)
{
    *r = (replacement){ .path = resolve(path) };
    const HANDLE file = r->path ? lock_beside(r->path, ".part", seconds, &r->beside) : INVALID_HANDLE_VALUE;
    const int descriptor = r->beside ? _open_osfhandle((intptr_t)file, _O_BINARY) : -1;
    r->file = descriptor >= 0 ? _fdopen(descriptor, "wb") : NULL;
    if (r->file) return 1;
    const int why = errno;
    if (descriptor >= 0) (void)_close(descriptor);
    else if (r->beside) (void)CloseHandle(file);
    free(r->beside);
    free(r->path);
    errno = why;
    return 0;
}

int file_lock_take(file_lock *lock, const char *path, int seconds)
{
    char *const resolved = resolve(path);
    const HANDLE file = resolved ? lock_beside(resolved, ".lock", seconds, &lock->beside) : INVALID_HANDLE_VALUE;
    const int why = errno;
    free(resolved);
    if (lock->beside) lock->fd = _open_osfhandle((intptr_t)file, _O_BINARY);
    errno = why;
    return lock->beside != NULL;
}

static int remove_open(HANDLE file)
{
    FILE_DISPOSITION_INFO end = { TRUE };
    return SetFileInformationByHandle(file, FileDispositionInfo, &end, sizeof end) != 0;
}

void file_lock_free(file_lock *lock)
{
    if (!lock->beside) return;
    (void)remove_open((HANDLE)_get_osfhandle(lock->fd));
    (void)_close(lock->fd);
    free(lock->beside);
    lock->beside = NULL;
}

const char *replace_error(void)
{
    if (errno == EINVAL) return "it is no regular file";
    return errno == EWOULDBLOCK ? "another gdn is using this file" : strerror(errno);
}

/* Gives the open file the path's name, whether the path has a file or not. */
static int rename_open(HANDLE file, const char *path)
{
    wchar_t wide[GDN_WIDE_PATH];
    if (!windows_wide(path, wide)) return 0;
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

int replace_end(replacement *r, int good)
{
    int why = good ? 0 : errno;
    const HANDLE file = (HANDLE)_get_osfhandle(_fileno(r->file));
    if (good && (fflush(r->file) || !FlushFileBuffers(file) || !rename_open(file, r->path))) why = errno ? errno : EIO;
    if (!good || why) (void)remove_open(file);
    (void)fclose(r->file);
    free(r->beside);
    free(r->path);
    errno = why;
    return good && !why;
}
