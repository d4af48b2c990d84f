/* See files.h. */
#define WIN32_LEAN_AND_MEAN
#include "system/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "system/windows_text.h"

FILE *file_open(const char *path, const char *mode)
{
    wchar_t wide[GDN_WIDE_PATH], wide_mode[3] = { (wchar_t)mode[0], L'b', 0 };
    if (windows_wide(path, wide)) return _wfopen(wide, wide_mode);
    errno = ENOENT;
    return NULL;
}

const char *file_name(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (strchr("/\\:", *at)) name = at + 1;
    return name;
}

static int map(HANDLE file, const void **bytes, uint64_t *n)
{
    LARGE_INTEGER size;
    if (GetFileType(file) != FILE_TYPE_DISK) return EINVAL;
    if (!GetFileSizeEx(file, &size)) return EIO;
    *n = (uint64_t)size.QuadPart;
    if (!*n) return 0;
    const HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping) return ENOMEM;
    *bytes = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    (void)CloseHandle(mapping); /* the view remains valid */
    return *bytes ? 0 : ENOMEM;
}

int file_map(const char *path, const void **bytes, uint64_t *n)
{
    wchar_t wide[GDN_WIDE_PATH];
    *bytes = NULL;
    *n = 0;
    if (!windows_wide(path, wide)) return ENOENT;
    const HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                    OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return windows_errno(wide);
    const int why = map(file, bytes, n);
    (void)CloseHandle(file); /* the view remains valid */
    return why;
}

void file_unmap(const void *bytes, uint64_t n)
{
    if (n) (void)UnmapViewOfFile(bytes);
}

/* A file that the system keeps in memory while there is room, and removes when it is closed. */
FILE *stream_open(char **text, size_t *n)
{
    wchar_t folder[MAX_PATH + 1], name[MAX_PATH + 1];
    *text = NULL;
    *n = 0;
    if (!GetTempPathW(MAX_PATH + 1, folder) || !GetTempFileNameW(folder, L"gdn", 0, name)) return NULL;
    return _wfopen(name, L"w+bTD");
}

int stream_close(FILE *stream, char **text, size_t *n)
{
    const long length = ftell(stream);
    char *const bytes = length >= 0 ? malloc((size_t)length + 1) : NULL;
    rewind(stream);
    const int good = bytes && fread(bytes, 1, (size_t)length, stream) == (size_t)length;
    (void)fclose(stream);
    *text = bytes;
    if (!good) return 0;
    bytes[length] = 0;
    *n = (size_t)length;
    return 1;
}
