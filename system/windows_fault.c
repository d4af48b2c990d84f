/* See fault.h. A local file cannot shrink while it is mapped; one on another machine may become unreadable. */
#define WIN32_LEAN_AND_MEAN
#include "system/fault.h"

#include <stdio.h>
#include <string.h>
#include <windows.h>

#include "system/interrupt.h"

static char text[600]; /* prepared in advance */

static LONG CALLBACK on_fault(EXCEPTION_POINTERS *e)
{
    DWORD written;
    if (e->ExceptionRecord->ExceptionCode != EXCEPTION_IN_PAGE_ERROR) return EXCEPTION_CONTINUE_SEARCH;
    (void)WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)strlen(text), &written, NULL);
    interrupt_restore();
    ExitProcess(1);
}

void fault_watch(const char *program, const char *path)
{
    (void)snprintf(text, sizeof text, "\n%s: %.400s shrank or cannot be read any more, while it was in use\n", program,
                   path);
    (void)AddVectoredExceptionHandler(1, on_fault);
}
