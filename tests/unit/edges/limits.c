/* Threads cannot be made (RLIMIT_NPROC, as a container's pids.max). A context is created all the same. It computes the
 * same on the threads that it got, or on the caller alone. The limit does not apply to root, so as root this takes
 * another user id first. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "call.h"

enum { NOBODY = 65534 };

static void *nothing(void *arg) { return arg; }

static int skip(const char *why)
{
    (void)printf("skipped: %s\n", why);
    (void)fflush(stdout);
    _exit(SKIPPED);
}

int main(void)
{
    static const call_api api = { gdn_context_create, gdn_context_destroy, gdn_gated_delta_net_query,
                                  gdn_gated_delta_net };
    static call_memory expected, m;
    call_expect(&api, &expected);
    if (!geteuid() && (setgid(NOBODY) || setuid(NOBODY)))
        return skip("root cannot become another user here, and is above the limit itself");
    for (rlim_t most = 3; most > 0; most--) { /* for all processes of this user: some threads, perhaps, and then none */
        const struct rlimit limit = { most, 3 };
        NEED(!setrlimit(RLIMIT_NPROC, &limit));
        for (uint32_t n_threads = 2; n_threads <= 16; n_threads *= 2) {
            gdn_context *ctx = call_context(&api, n_threads);
            NEED(ctx && call_run(&api, ctx, &m) == GDN_OK);
            NEED(!memcmp(&m, &expected, CALL_RESULT_BYTES));
            gdn_context_destroy(ctx);
        }
    }
    pthread_t thread;
    if (!pthread_create(&thread, NULL, nothing, NULL)) return skip("the system makes threads beyond RLIMIT_NPROC");
    (void)printf("no threads, the same results\n");
    (void)fflush(stdout);
    _exit(0); /* a leak checker would want a thread */
}
