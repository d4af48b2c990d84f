/* Preloaded, it makes CLOCK_REALTIME an hour ahead of the system's, as after the system's time was set back. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    const long failed = syscall(SYS_clock_gettime, clock, t);
    if (!failed && clock == CLOCK_REALTIME) t->tv_sec += 3600;
    return (int)failed;
}
