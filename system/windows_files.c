/* See files.h. */
#define WIN32_LEAN_AND_MEAN
#include "system/files.h"

#include <errno.h>
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
