/* POSIX; see system.h. linux.c and bsd.c have what it leaves open. */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT; macOS and FreeBSD need no such word */
#include "system/system.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char *const gdn_cuda_libraries[] = { "libcuda.so.1", "libcuda.so", NULL };
#if defined(__APPLE__)
const char *const gdn_vulkan_libraries[] = { "libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib", NULL };
#else
const char *const gdn_vulkan_libraries[] = { "libvulkan.so.1", "libvulkan.so", NULL };
#endif

/* ---- Threads ---- */

void gdn_mutex_init(gdn_mutex *mutex) { (void)pthread_mutex_init(mutex, NULL); }
void gdn_mutex_destroy(gdn_mutex *mutex) { (void)pthread_mutex_destroy(mutex); }
void gdn_mutex_lock(gdn_mutex *mutex) { (void)pthread_mutex_lock(mutex); }
void gdn_mutex_unlock(gdn_mutex *mutex) { (void)pthread_mutex_unlock(mutex); }

#if defined(__APPLE__) /* conditions have no clock, and wait for a time from now */
void gdn_condition_init(gdn_condition *condition) { (void)pthread_cond_init(condition, NULL); }

int gdn_condition_wait_for(gdn_condition *condition, gdn_mutex *mutex, double seconds)
{
    const int64_t ns = (int64_t)(seconds * 1e9);
    const struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
    return pthread_cond_timedwait_relative_np(condition, mutex, &time) == 0;
}
#else
void gdn_condition_init(gdn_condition *condition)
{
    pthread_condattr_t monotonic; /* the system's time may be set back */
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

int gdn_condition_wait_for(gdn_condition *condition, gdn_mutex *mutex, double seconds)
{
    const int64_t until = gdn_now() + (int64_t)(seconds * 1e9);
    const struct timespec time = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
    return pthread_cond_timedwait(condition, mutex, &time) == 0;
}
#endif

void gdn_condition_destroy(gdn_condition *condition) { (void)pthread_cond_destroy(condition); }
void gdn_condition_signal(gdn_condition *condition) { (void)pthread_cond_signal(condition); }
void gdn_condition_broadcast(gdn_condition *condition) { (void)pthread_cond_broadcast(condition); }
void gdn_condition_wait(gdn_condition *condition, gdn_mutex *mutex) { (void)pthread_cond_wait(condition, mutex); }

/* Blocks the program's signals, except those that a fault sends to its own thread. */
static void block_signals(sigset_t *before)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    sigset_t set;
    (void)sigfillset(&set);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) (void)sigdelset(&set, own[i]);
    (void)pthread_sigmask(SIG_SETMASK, &set, before);
}

int gdn_thread_start(gdn_thread *thread, size_t stack_bytes, void *(*run)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    sigset_t before;
    if (pthread_attr_init(&attributes)) return 0;
    if (stack_bytes) (void)pthread_attr_setstacksize(&attributes, stack_bytes);
    block_signals(&before);
    /* The second attempt is for programs whose thread-local variables alone fill a stack of that size. */
    const int failed = pthread_create(thread, &attributes, run, arg) && pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return !failed;
}

void gdn_thread_join(gdn_thread thread) { (void)pthread_join(thread, NULL); }
void gdn_thread_yield(void) { (void)sched_yield(); }

void gdn_sleep(int64_t ns)
{
    (void)nanosleep(&(struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) }, NULL);
}

/* ---- Processes, time, memory ---- */

int64_t gdn_process_id(void) { return getpid(); }

int64_t gdn_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void *gdn_aligned_alloc(uint64_t alignment, uint64_t bytes)
{
    const uint64_t whole = (bytes + alignment - 1) / alignment * alignment;
    return whole < bytes || whole > SIZE_MAX ? NULL : aligned_alloc((size_t)alignment, (size_t)whole);
}

void gdn_aligned_free(void *memory) { free(memory); }

/* ---- Dynamic libraries ---- */

void *gdn_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void *gdn_library_find(void *library, const char *symbol) { return dlsym(library, symbol); }
void gdn_library_close(void *library) { (void)dlclose(library); }
void *gdn_program_find(const char *symbol) { return dlsym(RTLD_DEFAULT, symbol); }

void gdn_module_stay(const void *address)
{
    Dl_info info;
    if (dladdr(address, &info)) (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}
