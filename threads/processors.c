/* See processors.h. */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "threads/processors.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "threads/team.h"

#if defined(__linux__)
/* Adds those of a thread; 0: the calling one. Without effect where the system has more than fit in the set. */
static void add_thread(gdn_processors *p, pid_t thread)
{
    cpu_set_t set;
    if (!sched_getaffinity(thread, sizeof set, &set)) CPU_OR(&p->set, &p->set, &set);
    p->n = CPU_COUNT(&p->set);
}
#endif

static gdn_processors counted(gdn_processors p)
{
    const long n = p.n ? p.n : sysconf(_SC_NPROCESSORS_ONLN);
    p.n = n < 1 ? 1 : n < GDN_TEAM_MAX_THREADS ? (int32_t)n : GDN_TEAM_MAX_THREADS;
    return p;
}

gdn_processors gdn_processors_of_thread(void)
{
    gdn_processors p = { 0 };
#if defined(__linux__)
    add_thread(&p, 0);
#endif
    return counted(p);
}

gdn_processors gdn_processors_of_process(void)
{
    gdn_processors p = { 0 };
#if defined(__linux__)
    add_thread(&p, 0);
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *one; threads && (one = readdir(threads));)
        if (one->d_name[0] != '.') add_thread(&p, (pid_t)strtol(one->d_name, NULL, 10));
    if (threads) (void)closedir(threads);
#endif
    return counted(p);
}

void gdn_processors_use(const gdn_processors *p)
{
#if defined(__linux__)
    (void)sched_setaffinity(0, sizeof p->set, &p->set);
#else
    (void)p;
#endif
}
