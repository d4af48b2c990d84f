/* Sleeping on a word by Linux's futexes; see system.h. */
#define _GNU_SOURCE /* syscall */
#include "system/system.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(SYS_futex) /* 32-bit machines that came after 2038's problem */
#define SYS_futex SYS_futex_time64
#endif

void gdn_sleepers_init(gdn_sleepers *sleepers) { (void)sleepers; }
void gdn_sleepers_destroy(gdn_sleepers *sleepers) { (void)sleepers; }

void gdn_sleep_on(gdn_sleepers *sleepers, _Atomic uint32_t *word, uint32_t seen)
{
    (void)sleepers;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void gdn_wake(gdn_sleepers *sleepers, _Atomic uint32_t *word, int32_t n)
{
    (void)sleepers;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
