/* Linux; see system.h. */
#define _GNU_SOURCE
#include "system/system.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void gdn_thread_name(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

/* ---- Processors ---- */

_Static_assert(sizeof(cpu_set_t) == sizeof((gdn_processors *)0)->set, "gdn_processors.set is a cpu_set_t");

/* Adds those of a thread; 0: the calling one. Without effect where the system has more than fit in the set. */
static void add_thread(cpu_set_t *all, pid_t thread)
{
    cpu_set_t set;
    if (!sched_getaffinity(thread, sizeof set, &set)) CPU_OR(all, all, &set);
}

static gdn_processors counted(const cpu_set_t *set)
{
    gdn_processors p = { .n = CPU_COUNT(set) };
    memcpy(p.set, set, sizeof *set);
    if (!p.n) p.n = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (p.n < 1) p.n = 1;
    return p;
}

gdn_processors gdn_processors_of_thread(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    add_thread(&set, 0);
    return counted(&set);
}

gdn_processors gdn_processors_of_process(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    add_thread(&set, 0);
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *one; threads && (one = readdir(threads));)
        if (one->d_name[0] != '.') add_thread(&set, (pid_t)strtol(one->d_name, NULL, 10));
    if (threads) (void)closedir(threads);
    return counted(&set);
}

void gdn_processors_use(const gdn_processors *processors)
{
    (void)sched_setaffinity(0, sizeof processors->set, (const cpu_set_t *)(const void *)processors->set);
}

/* Linux gives the memory of tiles to a process that asks for it. */
int gdn_processor_tiles(void)
{
#if defined(SYS_arch_prctl)
    enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILES = 18 /* XFEATURE_XTILEDATA */ };
    return syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
#else
    return 0;
#endif
}

/* ---- Processes and memory ---- */

const char *gdn_process_variable(const char *name) { return secure_getenv(name); }

int *gdn_fork_mark(void)
{
#if defined(MADV_WIPEONFORK)
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    int *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if (!madvise(page, bytes, MADV_WIPEONFORK)) {
        *page = 1;
        return page;
    }
    (void)munmap(page, bytes);
#endif
    return NULL;
}

void gdn_fork_mark_free(int *mark)
{
    if (mark) (void)munmap(mark, (size_t)sysconf(_SC_PAGESIZE));
}

uint64_t gdn_memory_total(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}
