/* macOS and FreeBSD; see system.h. */
#include "system/system.h"

#include <stdlib.h>
#include <sys/types.h>
#include <sys/sysctl.h>
#include <unistd.h>
#if !defined(__APPLE__)
#include <pthread_np.h>
#endif

#if defined(__APPLE__)
void gdn_thread_name(const char *name) { (void)pthread_setname_np(name); }
#else
void gdn_thread_name(const char *name) { pthread_set_name_np(pthread_self(), name); }
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
