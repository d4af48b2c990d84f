/* See interrupt.h. The system calls on_event() on a thread of its own: for Ctrl-C and Ctrl-Break as SIGINT, and for a
 * console that is closed as SIGTERM. */
#define WIN32_LEAN_AND_MEAN
#include "system/interrupt.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <windows.h>

static volatile LONG noted, reads; /* the signal; 1: `reader` waits for input */
static HANDLE reader;
static void (*at_end)(void);
static const volatile sig_atomic_t *volatile is_drawn;
static int catching;

void interrupt_hooks(void (*on_end)(void), void (*on_wake)(void))
{
    at_end = on_end;
    (void)on_wake;
}

void interrupt_restore(void)
{
    if (at_end) at_end();
}

static void wipe(void)
{
    DWORD written;
    if (is_drawn && *is_drawn) (void)WriteFile(GetStdHandle(STD_ERROR_HANDLE), "\r\033[K", 4, &written, NULL);
}

/* TRUE: the program goes on. For a console that is closed it ends when this function returns. */
static BOOL WINAPI on_event(DWORD event)
{
    const int is_key = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
    if (!catching || InterlockedExchange(&noted, is_key ? SIGINT : SIGTERM)) { /* the second one ends it */
        wipe();
        interrupt_restore();
        ExitProcess(is_key ? 128 + SIGINT : 128 + SIGTERM);
    }
    while (noted && reads) { /* until the reader has seen it: it may be just before its call */
        (void)CancelSynchronousIo(reader);
        Sleep(5);
    }
    while (!is_key) Sleep(1000);
    return TRUE;
}

static void handle(void)
{
    static int handled;
    if (!handled) handled = SetConsoleCtrlHandler(on_event, TRUE) != 0;
}

void interrupt_catch(void)
{
    catching = 1;
    handle();
}

/* Bytes of standard input: of a console UTF-8, of something else as they come. 0: the end; -1: failed, or a signal. */
static int read_console(HANDLE console, char *bytes, int size)
{
    static wchar_t pending; /* the first half of a character that two calls divide */
    wchar_t wide[1024];
    DWORD n = 0;
    int first = 0;
    if (pending) wide[first++] = pending;
    pending = 0;
    if (!ReadConsoleW(console, wide + first, 1024 - 1, &n, NULL)) return -1;
    if (!n) return noted ? -1 : 0;
    if (wide[first] == 26) return 0; /* Ctrl-Z at the beginning of a line */
    n += (DWORD)first;
    if (wide[n - 1] >= 0xd800 && wide[n - 1] < 0xdc00) pending = wide[--n];
    return n ? WideCharToMultiByte(CP_UTF8, 0, wide, (int)n, bytes, size, NULL, NULL)
             : read_console(console, bytes, size);
}

static int read_input(char *bytes, int size)
{
    const HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    DWORD n = 0, mode;
    if (GetConsoleMode(input, &mode)) return read_console(input, bytes, size);
    if (ReadFile(input, bytes, (DWORD)size, &n, NULL)) return (int)n;
    return GetLastError() == ERROR_BROKEN_PIPE ? 0 : -1;
}

int interrupt_getc(void)
{
    static char bytes[4096];
    static int n, at;
    if (!reader)
        (void)DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(), &reader, 0, FALSE,
                              DUPLICATE_SAME_ACCESS);
    if (at >= n) {
        at = 0;
        (void)InterlockedExchange(&reads, 1);
        n = noted ? -1 : read_input(bytes, sizeof bytes);
        if (n < 0) /* a console says that a call was cancelled before the event comes */
            for (int i = 0; !noted && i < 20; i++) Sleep(10);
        (void)InterlockedExchange(&reads, 0);
        errno = noted ? EINTR : n < 0 ? EIO : 0;
        if (noted) n = 0;
    }
    return at < n ? (unsigned char)bytes[at++] : EOF;
}

void interrupt_forget(void) { (void)InterlockedExchange(&noted, 0); }
int interrupt_is_key(void) { return noted == SIGINT; }
int interrupt_noted(void) { return (int)noted; }
int interrupt_end(int code) { return noted ? 128 + (int)noted : code; }

void interrupt_wipes(const volatile sig_atomic_t *drawn)
{
    is_drawn = drawn;
    if (drawn) handle();
}
