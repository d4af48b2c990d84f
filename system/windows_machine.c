/* See machine.h. */
#define WIN32_LEAN_AND_MEAN
#define _CRT_RAND_S /* rand_s */
#include "system/machine.h"

#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* ---- Pages ---- */

uint64_t pages_size(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

void *pages_reserve(uint64_t bytes) { return VirtualAlloc(NULL, (SIZE_T)bytes, MEM_RESERVE, PAGE_NOACCESS); }

int pages_open(void *pages, uint64_t bytes)
{
    return VirtualAlloc(pages, (SIZE_T)bytes, MEM_COMMIT, PAGE_READWRITE) != NULL;
}

/* Windows counts all memory that can be written, so sparse pages are made when they are touched. */
enum { MOST_SPARSE = 8 };
static struct {
    char *_Atomic begin;
    uint64_t bytes;
} sparse[MOST_SPARSE];

static LONG CALLBACK on_fault(EXCEPTION_POINTERS *e)
{
    const EXCEPTION_RECORD *const r = e->ExceptionRecord;
    if (r->ExceptionCode != EXCEPTION_ACCESS_VIOLATION) return EXCEPTION_CONTINUE_SEARCH;
    char *const at = (char *)(uintptr_t)r->ExceptionInformation[1];
    for (int i = 0; i < MOST_SPARSE; i++)
        if (sparse[i].begin && at >= sparse[i].begin && at < sparse[i].begin + sparse[i].bytes)
            return VirtualAlloc(at, 1, MEM_COMMIT, PAGE_READWRITE) ? EXCEPTION_CONTINUE_EXECUTION
                                                                   : EXCEPTION_CONTINUE_SEARCH;
    return EXCEPTION_CONTINUE_SEARCH;
}

/* For one thread at a time. */
void *pages_sparse(uint64_t bytes)
{
    static int watching;
    int i = 0;
    while (i < MOST_SPARSE && sparse[i].begin) i++;
    char *const at = i < MOST_SPARSE ? pages_reserve(bytes) : NULL;
    if (!at) return NULL;
    if (!watching) watching = AddVectoredExceptionHandler(1, on_fault) != NULL;
    sparse[i].bytes = bytes;
    sparse[i].begin = at;
    return at;
}

int pages_touched(const void *pages, uint64_t n, unsigned char *touched)
{
    const uint64_t page = pages_size();
    for (uint64_t i = 0; i < n;) {
        MEMORY_BASIC_INFORMATION run;
        const char *const at = (const char *)pages + i * page;
        if (!VirtualQuery(at, &run, sizeof run)) return 0;
        const uint64_t end = i + ((uint64_t)((char *)run.BaseAddress + run.RegionSize - at)) / page;
        for (; i < n && i < end; i++) touched[i] = run.State == MEM_COMMIT;
    }
    return 1;
}

void pages_free(void *pages, uint64_t bytes)
{
    (void)bytes;
    for (int i = 0; i < MOST_SPARSE; i++)
        if (sparse[i].begin == pages) sparse[i].begin = NULL;
    (void)VirtualFree(pages, 0, MEM_RELEASE);
}

int pages_huge(void) { return 0; } /* they need a right that users do not have */
void pages_ask_huge(void *begin, uint64_t bytes) { (void)begin, (void)bytes; }

/* ---- The machine ---- */

int32_t machine_processors(void) { return (int32_t)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }

int64_t machine_l3_bytes(void)
{
    DWORD bytes = 0;
    int64_t found = 0;
    (void)GetLogicalProcessorInformationEx(RelationCache, NULL, &bytes);
    char *const all = malloc(bytes);
    if (all && GetLogicalProcessorInformationEx(RelationCache, (void *)all, &bytes))
        for (DWORD at = 0; at < bytes && !found;) {
            const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *const one = (const void *)(all + at);
            if (one->Cache.Level == 3) found = one->Cache.CacheSize;
            at += one->Size;
        }
    free(all);
    return found;
}

uint64_t machine_memory_available(void)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    return GlobalMemoryStatusEx(&memory) ? memory.ullAvailPhys : 0;
}

int machine_load(double load[3])
{
    (void)load;
    return 0;
}

int machine_random(void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(unsigned)) {
        unsigned drawn;
        if (rand_s(&drawn)) return 0;
        memcpy((char *)bytes + i, &drawn, n - i < sizeof drawn ? n - i : sizeof drawn);
    }
    return 1;
}

/* ---- The process ---- */

static uint64_t units_of(FILETIME t) { return (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime; }

double process_seconds(void)
{
    FILETIME created, ended, in_system, in_program;
    if (!GetProcessTimes(GetCurrentProcess(), &created, &ended, &in_system, &in_program)) return 0;
    return 1e-7 * (double)(units_of(in_system) + units_of(in_program));
}

int64_t process_interruptions(void) { return 0; }
