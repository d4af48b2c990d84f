/* See machine.h. */
#define _GNU_SOURCE /* madvise, getloadavg, sysconf's cache sizes; macOS and FreeBSD need no such word */
#include "system/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if !defined(MAP_NORESERVE) /* FreeBSD never reserves */
#define MAP_NORESERVE 0
#endif

/* ---- Pages ---- */

static void *map(uint64_t bytes, int access, int flags)
{
    if (bytes > SIZE_MAX) return NULL;
    void *at = mmap(NULL, (size_t)bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

uint64_t pages_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }
void *pages_reserve(uint64_t bytes) { return map(bytes, PROT_NONE, 0); }
int pages_open(void *pages, uint64_t bytes) { return !mprotect(pages, (size_t)bytes, PROT_READ | PROT_WRITE); }

void *pages_sparse(uint64_t bytes)
{
    void *const at = map(bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE);
#if defined(MADV_NOHUGEPAGE)
    if (at) (void)madvise(at, (size_t)bytes, MADV_NOHUGEPAGE);
#endif
    return at;
}

int pages_touched(const void *pages, uint64_t n, unsigned char *touched)
{
    void *at;
    memcpy(&at, &pages, sizeof at); /* mincore() takes a pointer without const */
    if (mincore(at, (size_t)(n * pages_size()), (void *)touched)) return 0;
    for (uint64_t i = 0; i < n; i++) touched[i] &= 1;
    return 1;
}

void pages_free(void *pages, uint64_t bytes) { (void)munmap(pages, (size_t)bytes); }

int pages_huge(void)
{
    char text[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r"); /* Linux */
    if (!f) return 0;
    if (!fgets(text, sizeof text, f)) text[0] = 0;
    (void)fclose(f);
    return text[0] && !strstr(text, "[never]");
}

void pages_ask_huge(void *begin, uint64_t bytes)
{
#if defined(MADV_HUGEPAGE)
    (void)madvise(begin, (size_t)bytes, MADV_HUGEPAGE);
#else
    (void)begin, (void)bytes;
#endif
}

/* ---- The machine ---- */

int32_t machine_processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int32_t)n : 1;
}

/* From Linux; sysconf may return that of the whole package. */
int64_t machine_l3_bytes(void)
{
    long kib = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    const int n_read = f ? fscanf(f, "%ldK", &kib) : 0;
    if (f) (void)fclose(f);
    if (n_read == 1 && kib > 0) return (int64_t)kib << 10;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    const long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size > 0 ? size : 0;
#else
    return 0;
#endif
}

uint64_t machine_memory_available(void)
{
    FILE *f = fopen("/proc/meminfo", "r"); /* Linux */
    char line[128];
    unsigned long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (f) (void)fclose(f);
    return (uint64_t)kib << 10;
}

int machine_load(double load[3])
{
    const int n = getloadavg(load, 3);
    return n > 0 ? n : 0;
}

int machine_random(void *bytes, size_t n)
{
    FILE *f = fopen("/dev/urandom", "rb");
    const int good = f && fread(bytes, 1, n, f) == n;
    if (f) (void)fclose(f);
    return good;
}

/* ---- The process ---- */

double process_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t process_interruptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}
