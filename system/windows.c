/* Windows 10 and later; see system.h. windows.h defines macros such as NEAR and OPTIONAL, so no header includes it. */
#define WIN32_LEAN_AND_MEAN
#include "system/system.h"

#include <malloc.h>
#include <process.h>
#include <stdlib.h>
#include <windows.h>
#include <psapi.h>

const char *const gdn_cuda_libraries[] = { "nvcuda.dll", NULL };
const char *const gdn_vulkan_libraries[] = { "vulkan-1.dll", NULL };

/* ---- Threads ---- */

_Static_assert(sizeof(SRWLOCK) == sizeof(gdn_mutex) && sizeof(CONDITION_VARIABLE) == sizeof(gdn_condition), "sizes");

static SRWLOCK *lock_of(gdn_mutex *mutex) { return (SRWLOCK *)(void *)mutex; }
static CONDITION_VARIABLE *variable_of(gdn_condition *condition) { return (CONDITION_VARIABLE *)(void *)condition; }

void gdn_mutex_init(gdn_mutex *mutex) { InitializeSRWLock(lock_of(mutex)); }
void gdn_mutex_destroy(gdn_mutex *mutex) { (void)mutex; }
void gdn_mutex_lock(gdn_mutex *mutex) { AcquireSRWLockExclusive(lock_of(mutex)); }
void gdn_mutex_unlock(gdn_mutex *mutex) { ReleaseSRWLockExclusive(lock_of(mutex)); }

void gdn_condition_init(gdn_condition *condition) { InitializeConditionVariable(variable_of(condition)); }
void gdn_condition_destroy(gdn_condition *condition) { (void)condition; }
void gdn_condition_signal(gdn_condition *condition) { WakeConditionVariable(variable_of(condition)); }
void gdn_condition_broadcast(gdn_condition *condition) { WakeAllConditionVariable(variable_of(condition)); }

void gdn_condition_wait(gdn_condition *condition, gdn_mutex *mutex)
{
    (void)SleepConditionVariableSRW(variable_of(condition), lock_of(mutex), INFINITE, 0);
}

int gdn_condition_wait_for(gdn_condition *condition, gdn_mutex *mutex, double seconds)
{
    return SleepConditionVariableSRW(variable_of(condition), lock_of(mutex), (DWORD)(seconds * 1e3), 0) != 0;
}

typedef struct start {
    void *(*run)(void *arg);
    void *arg;
} start;

static unsigned __stdcall run_thread(void *memory)
{
    const start s = *(start *)memory;
    free(memory);
    (void)s.run(s.arg);
    return 0;
}

int gdn_thread_start(gdn_thread *thread, size_t stack_bytes, void *(*run)(void *arg), void *arg)
{
    start *s = malloc(sizeof *s);
    if (!s) return 0;
    *s = (start){ run, arg };
    *thread =
        (void *)_beginthreadex(NULL, (unsigned)stack_bytes, run_thread, s, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    if (!*thread) free(s);
    return *thread != NULL;
}

void gdn_thread_join(gdn_thread thread)
{
    (void)WaitForSingleObject(thread, INFINITE);
    (void)CloseHandle(thread);
}

void gdn_thread_name(const char *name) { (void)name; } /* MinGW has no declaration of SetThreadDescription() */
void gdn_thread_yield(void) { (void)SwitchToThread(); }
void gdn_sleep(int64_t ns) { Sleep((DWORD)((ns + 999999) / 1000000)); }

void gdn_sleepers_init(gdn_sleepers *sleepers) { (void)sleepers; }
void gdn_sleepers_destroy(gdn_sleepers *sleepers) { (void)sleepers; }

void gdn_sleep_on(gdn_sleepers *sleepers, _Atomic uint32_t *word, uint32_t seen)
{
    (void)sleepers;
    (void)WaitOnAddress((volatile void *)word, &seen, sizeof seen, INFINITE);
}

void gdn_wake(gdn_sleepers *sleepers, _Atomic uint32_t *word, int32_t n)
{
    enum { SINGLE = 8 }; /* above, one call for all costs less */
    (void)sleepers;
    if (n > SINGLE) WakeByAddressAll((void *)word);
    else
        for (; n > 0; n--) WakeByAddressSingle((void *)word);
}

/* ---- Processors and processes ---- */

/* Threads start on all of the process' processors, whatever the thread has that starts them. */
gdn_processors gdn_processors_of_process(void)
{
    DWORD_PTR own, all;
    int32_t n = (int32_t)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    if (GetActiveProcessorGroupCount() == 1 && GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own)
        n = (int32_t)__builtin_popcountll(own);
    return (gdn_processors){ .n = n < 1 ? 1 : n };
}

gdn_processors gdn_processors_of_thread(void) { return gdn_processors_of_process(); }
void gdn_processors_use(const gdn_processors *processors) { (void)processors; }
int gdn_processor_tiles(void) { return 0; }

int64_t gdn_process_id(void) { return (int64_t)GetCurrentProcessId(); }

/* The process' variables, and not those of a C library: a program may have several. */
const char *gdn_process_variable(const char *name)
{
    enum { KEPT = 8, BYTES = 256 };
    static _Thread_local char values[KEPT][BYTES];
    static _Thread_local int next;
    char *const value = values[next = (next + 1) % KEPT];
    const DWORD n = GetEnvironmentVariableA(name, value, BYTES);
    return n && n < BYTES ? value : NULL;
}

int *gdn_fork_mark(void) { return NULL; }
void gdn_fork_mark_free(int *mark) { (void)mark; }

/* ---- Time and memory ---- */

int64_t gdn_now(void)
{
    LARGE_INTEGER ticks, per_second;
    (void)QueryPerformanceCounter(&ticks);
    (void)QueryPerformanceFrequency(&per_second);
    const int64_t seconds = ticks.QuadPart / per_second.QuadPart, rest = ticks.QuadPart % per_second.QuadPart;
    return seconds * 1000000000 + rest * 1000000000 / per_second.QuadPart;
}

uint64_t gdn_memory_total(void)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    return GlobalMemoryStatusEx(&memory) ? memory.ullTotalPhys : 0;
}

void *gdn_aligned_alloc(uint64_t alignment, uint64_t bytes)
{
    return bytes > SIZE_MAX ? NULL : _aligned_malloc((size_t)bytes, (size_t)alignment);
}

void gdn_aligned_free(void *memory) { _aligned_free(memory); }

/* ---- Dynamic libraries ---- */

/* Not from the current folder. */
void *gdn_library_open(const char *name) { return LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS); }
void *gdn_library_find(void *library, const char *symbol) { return (void *)(uintptr_t)GetProcAddress(library, symbol); }
void gdn_library_close(void *library) { (void)FreeLibrary(library); }

void *gdn_program_find(const char *symbol)
{
    enum { MOST = 1024 };
    HMODULE module[MOST];
    DWORD bytes = 0;
    void *found = NULL;
    if (!EnumProcessModules(GetCurrentProcess(), module, sizeof module, &bytes)) return NULL;
    for (DWORD i = 0; !found && i < bytes / sizeof module[0] && i < MOST; i++)
        found = gdn_library_find(module[i], symbol);
    return found;
}

void gdn_module_stay(const void *address)
{
    HMODULE module;
    (void)GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, address, &module);
}
