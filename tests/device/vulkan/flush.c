/* A device that flushes subnormal numbers: Mesa's driver for CPUs, whose own threads run in the processor's flushing
 * mode. The arithmetic of all other threads stays as it is. Linux and x86 only.
 *
 * As a library to be preloaded (flush.sh, run.py of tests/mutations), it flushes by the rule of GDN_EXACT_FTZ where the
 * environment has GDN_TEST_FLUSH. */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr, REG_* */
#include "flush.h"

#ifdef GDN_TEST_CAN_FLUSH
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <xmmintrin.h>

enum { MOST_THREADS = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t threads[MOST_THREADS];
static int n_threads;
static unsigned mode; /* of them */
static sem_t changed;

typedef struct work_t {
    void *(*start)(void *);
    void *argument;
} work_t;

/* ---- The driver's threads ---- */

static unsigned with(unsigned csr, unsigned bits) { return (csr & ~(unsigned)GDN_TEST_FLUSH_BOTH) | bits; }

static void *run(void *argument)
{
    const work_t work = *(work_t *)argument;
    sigset_t signals;
    free(argument);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGUSR2);
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL); /* the driver blocks all of them */
    (void)pthread_mutex_lock(&lock);
    _mm_setcsr(with(_mm_getcsr(), mode));
    if (n_threads < MOST_THREADS) threads[n_threads++] = pthread_self();
    (void)pthread_mutex_unlock(&lock);
    void *const result = work.start(work.argument);
    (void)pthread_mutex_lock(&lock);
    for (int i = 0; i < n_threads; i++)
        if (pthread_equal(threads[i], pthread_self())) threads[i--] = threads[--n_threads];
    (void)pthread_mutex_unlock(&lock);
    return result;
}

static int is_driver(const void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname &&
           (strstr(info.dli_fname, "libvulkan_") || strstr(info.dli_fname, "libgallium"));
}

/* In place of the C library's, also for the driver. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*start)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *const symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &symbol, sizeof real);
    work_t *const work = is_driver(__builtin_return_address(0)) ? malloc(sizeof *work) : NULL;
    if (!work) return real(thread, attributes, start, argument);
    *work = (work_t){ start, argument };
    const int status = real(thread, attributes, run, work);
    if (status) free(work);
    return status;
}

/* ---- Their mode ---- */

void gdn_test_flush(unsigned bits)
{
    (void)pthread_mutex_lock(&lock);
    mode = bits;
    (void)pthread_mutex_unlock(&lock);
}

/* What a handler returns to has the mode that is kept there. */
static void change(int number, siginfo_t *info, void *context)
{
    const ucontext_t *const to = context;
    (void)number, (void)info;
    to->uc_mcontext.fpregs->mxcsr = with(to->uc_mcontext.fpregs->mxcsr, mode);
    (void)sem_post(&changed);
}

void gdn_test_flush_now(unsigned bits)
{
    struct sigaction action = { .sa_sigaction = change, .sa_flags = SA_SIGINFO | SA_RESTART };
    (void)sigemptyset(&action.sa_mask);
    (void)pthread_mutex_lock(&lock);
    (void)sem_init(&changed, 0, 0);
    (void)sigaction(SIGUSR2, &action, NULL);
    mode = bits;
    int n = 0;
    for (int i = 0; i < n_threads; i++) n += !pthread_kill(threads[i], SIGUSR2);
    while (n)
        if (!sem_wait(&changed)) n--;
    (void)pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void read_environment(void)
{
    mode = getenv("GDN_TEST_FLUSH") ? GDN_TEST_FLUSH_BOTH : 0;
}
#else
void gdn_test_flush(unsigned bits) { (void)bits; }
void gdn_test_flush_now(unsigned bits) { (void)bits; }
#endif
