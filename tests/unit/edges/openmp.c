/* Calls on the threads of an OpenMP runtime, which is loaded by its name. With "none" there is no runtime. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>
#include <sys/prctl.h>

#include "call.h"

/* The file itself, since GOMP_PARALLEL selects an interface of a runtime that has both. */
gdn_status tested_threads(gdn_context_desc *desc);
#define gdn_openmp_threads tested_threads
#include "cpu/openmp.c"

enum { THREADS = 4, MOST_TASKS = 40, ROUNDS = 50 };

static const call_api api = { gdn_context_create, gdn_context_destroy, gdn_gated_delta_net_query, gdn_gated_delta_net };
static call_memory expected;
static gdn_context_desc found = { .size = sizeof found, .n_threads = THREADS };

typedef struct count {
    const struct count *within; /* its tasks run one of these in each */
    int32_t n;
    _Atomic int32_t times[MOST_TASKS];
} count;

static void count_task(void *arg, int32_t index)
{
    count *c = arg;
    NEED(index >= 0 && index < c->n);
    (void)atomic_fetch_add(&c->times[index], 1);
    if (c->within) {
        count inner = { .n = c->within->n };
        found.parallel_for(found.parallel_user, inner.n, count_task, &inner);
        for (int i = 0; i < inner.n; i++) NEED(inner.times[i] == 1);
    }
}

/* Every task once, also from within a task. */
static void *each_once(void *unused)
{
    (void)unused;
    const count three = { .n = 3 };
    for (int round = 0; round < ROUNDS; round++)
        for (int nested = 0; nested < 2; nested++) {
            count c = { .within = nested ? &three : NULL, .n = 1 + round % MOST_TASKS };
            found.parallel_for(found.parallel_user, c.n, count_task, &c);
            for (int i = 0; i < MOST_TASKS; i++) NEED(c.times[i] == (i < c.n));
        }
    return NULL;
}

static gdn_context *opened(void)
{
    gdn_context *ctx = NULL;
    NEED(gdn_context_create(&found, &ctx) == GDN_OK);
    return ctx;
}

static void call_on(gdn_context *ctx)
{
    static call_memory memory;
    NEED(call_run(&api, ctx, &memory) == GDN_OK && !memcmp(&memory, &expected, CALL_RESULT_BYTES));
}

static void child(gdn_context *inherited)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* should it hang, it ends with the test */
    call_on(inherited);
    (void)each_once(NULL);
    NEED(tested_threads(&found) == GDN_OK);
    gdn_context *mine = opened();
    call_on(mine);
    gdn_context_destroy(mine);
    gdn_context_destroy(inherited);
    _exit(0);
}

static int threads_of_process(void)
{
    int n = 0;
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *one; threads && (one = readdir(threads));) n += one->d_name[0] != '.';
    if (threads) (void)closedir(threads);
    return n;
}

int main(int argc, char **argv)
{
    NEED(argc == 2);
    gdn_context_desc wrong = { .size = 4 };
    NEED(tested_threads(NULL) == GDN_INVALID_ARGUMENT && tested_threads(&wrong) == GDN_INVALID_ARGUMENT);
    if (!strcmp(argv[1], "none")) {
        const gdn_context_desc before = found;
        NEED(tested_threads(&found) == GDN_UNAVAILABLE && !memcmp(&before, &found, sizeof found));
        NEED(strstr(gdn_last_error(), "no OpenMP runtime"));
        return 0;
    }
    if (!dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
        (void)printf("%s is not on this machine\n", argv[1]);
        return 77;
    }
    call_expect(&api, &expected);
    const int before = threads_of_process();
    NEED(tested_threads(&found) == GDN_OK && found.n_threads == THREADS);
    gdn_context *ctx = opened();
    NEED(threads_of_process() == before); /* a context starts none of its own */
    call_on(ctx);
    (void)each_once(NULL);
    const char *limit = getenv("OMP_THREAD_LIMIT");
    if (before) NEED((threads_of_process() > before) == !limit); /* the runtime has started its own */
    pthread_t other;
    NEED(!pthread_create(&other, NULL, each_once, NULL));
    (void)each_once(NULL);
    NEED(!pthread_join(other, NULL));
    call_on(ctx);
    int status = 0;
    const pid_t pid = fork();
    if (!pid) child(ctx);
    NEED(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    call_on(ctx);
    gdn_context_destroy(ctx);
    return 0;
}
