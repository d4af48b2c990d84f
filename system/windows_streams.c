/* See streams.h. */
#define WIN32_LEAN_AND_MEAN
#include "system/streams.h"

#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>
#include <shellapi.h>

/* The arguments as UTF-8, in memory that lasts as long as the program. Without it, they stay as they are. */
static char **arguments(int *n)
{
    wchar_t **const wide = CommandLineToArgvW(GetCommandLineW(), n);
    char **const all = wide ? calloc((size_t)*n + 1, sizeof *all) : NULL;
    for (int i = 0; all && i < *n; i++) {
        const int bytes = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        all[i] = malloc((size_t)bytes);
        if (!all[i]) return NULL;
        (void)WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, all[i], bytes, NULL, NULL);
    }
    return all;
}

void streams_begin(int *argc, char ***argv)
{
    int n;
    char **const all = arguments(&n);
    if (all) {
        *argc = n;
        *argv = all;
    }
    static const DWORD streams[2] = { STD_OUTPUT_HANDLE, STD_ERROR_HANDLE };
    for (int i = 0; i < 2; i++) {
        DWORD mode;
        const HANDLE console = GetStdHandle(streams[i]);
        if (GetConsoleMode(console, &mode)) (void)SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
    (void)SetConsoleOutputCP(CP_UTF8);
    for (int fd = 0; fd < 3; fd++) (void)_setmode(fd, _O_BINARY);
    _fmode = _O_BINARY;
}

/* Consoles and files alike: a handle that both have. */
int streams_are_one(void)
{
    BY_HANDLE_FILE_INFORMATION out, err;
    const HANDLE one = GetStdHandle(STD_OUTPUT_HANDLE), two = GetStdHandle(STD_ERROR_HANDLE);
    if (one == two) return 1;
    return GetFileInformationByHandle(one, &out) && GetFileInformationByHandle(two, &err) &&
           out.dwVolumeSerialNumber == err.dwVolumeSerialNumber && out.nFileIndexHigh == err.nFileIndexHigh &&
           out.nFileIndexLow == err.nFileIndexLow;
}

int streams_line_most(void) { return 1 << 30; } /* interrupt_getc() reads a console's lines whole */
