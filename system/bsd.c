/* macOS and FreeBSD; see system.h. */
#include "system/system.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>
#if !defined(__APPLE__)
#include <pthread_np.h>
#endif

const char *const gdn_cuda_libraries[] = { "libcuda.so.1", "libcuda.so", NULL };
#if defined(__APPLE__)
const char *const gdn_vulkan_libraries[] = { "libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib", NULL };
#else
const char *const gdn_vulkan_libraries[] = { "libvulkan.so.1", "libvulkan.so", NULL };
#endif

/* ---- Threads ---- */

#if defined(__APPLE__)
void gdn_thread_name(const char *name) { (void)pthread_setname_np(name); }
void gdn_condition_init(gdn_condition *condition) { (void)pthread_cond_init(condition, NULL); }

/* Conditions have no clock, and wait for a time from now. */
int gdn_condition_wait_for(gdn_condition *condition, gdn_mutex *mutex, double seconds)
{
    const int64_t ns = (int64_t)(seconds * 1e9);
    const struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
    return pthread_cond_timedwait_relative_np(condition, mutex, &time) == 0;
}
#else
void gdn_thread_name(const char *name) { pthread_set_name_np(pthread_self(), name); }

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

/* ---- Processors and processes ---- */

static gdn_processors online(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return (gdn_processors){ .n = n < 1 ? 1 : (int32_t)n };
}

gdn_processors gdn_processors_of_thread(void) { return online(); }
gdn_processors gdn_processors_of_process(void) { return online(); }
void gdn_processors_use(const gdn_processors *processors) { (void)processors; }
int gdn_processor_tiles(void) { return 0; }

const char *gdn_process_variable(const char *name) { return issetugid() ? NULL : getenv(name); }
int *gdn_fork_mark(void) { return NULL; }
void gdn_fork_mark_free(int *mark) { (void)mark; }

uint64_t gdn_memory_total(void)
{
    uint64_t bytes = 0;
    size_t n = sizeof bytes;
#if defined(__APPLE__)
    const char *const name = "hw.memsize";
#else
    const char *const name = "hw.physmem";
#endif
    return sysctlbyname(name, &bytes, &n, NULL, 0) ? 0 : bytes;
}
