/* fork() after calls on several threads, and while another thread is inside one, as Python's multiprocessing does it.
 * The child must be able to use the context that it inherited, a new one, and to destroy both. The new one has no
 * threads with the argument "inherited", as qemu's user mode aborts where the child of a process with threads starts
 * some, and under AddressSanitizer. Its allocator's locks stay locked in a child if a thread held them, so calls
 * allocate nothing. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>
#include <sys/prctl.h>

#include "call.h"
#include "tests/sanitized.h"

enum { THREADS = 4, FORKS_AT_REST = 4, FORKS_AT_WORK = 20 };

static const call_api api = { gdn_context_create, gdn_context_destroy, gdn_gated_delta_net_query, gdn_gated_delta_net };
static call_memory expected, memory, others_memory;
static int only_inherited;
static atomic_int leave, n_calls;

static void call_with(gdn_context *ctx, call_memory *m)
{
    NEED(ctx && call_run(&api, ctx, m) == GDN_OK);
    NEED(!memcmp(m, &expected, CALL_RESULT_BYTES));
}
static void call_on(gdn_context *ctx) { call_with(ctx, &memory); }

static void child(gdn_context *inherited)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* should it hang, it ends with the test */
    call_on(inherited);
    call_on(inherited);
    gdn_context *mine = call_context(&api, only_inherited ? 1 : THREADS);
    call_on(mine);
    call_on(inherited);
    gdn_context_destroy(inherited);
    call_on(mine);
    gdn_context_destroy(mine);
    _exit(0);
}

static void fork_one(gdn_context *ctx)
{
    int status = 0;
    const pid_t pid = fork();
    if (!pid) child(ctx);
    NEED(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *call_until_told(void *ctx)
{
    while (!atomic_load(&leave)) {
        call_with(ctx, &others_memory);
        atomic_fetch_add(&n_calls, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
#if defined(ADDRESS_SANITIZED)
    only_inherited = 1;
#else
    only_inherited = argc > 1 && !strcmp(argv[1], "inherited");
#endif
    (void)argc, (void)argv;
    call_expect(&api, &expected);
    gdn_context *ctx = call_context(&api, THREADS);
    fork_one(ctx); /* before any call */
    for (int i = 0; i < FORKS_AT_REST; i++) {
        call_on(ctx);
        fork_one(ctx);
    }
    pthread_t other;
    NEED(!pthread_create(&other, NULL, call_until_told, ctx));
    while (!atomic_load(&n_calls)) (void)sched_yield();
    for (int i = 0; i < FORKS_AT_WORK; i++) fork_one(ctx);
    atomic_store(&leave, 1);
    NEED(!pthread_join(other, NULL));
    call_on(ctx);
    gdn_context_destroy(ctx);
    (void)printf("%d forks at rest, %d beside %d calls\n", FORKS_AT_REST + 1, FORKS_AT_WORK, (int)n_calls);
    return 0;
}
