/* Crashes. See crash.h. Little may be done in a signal handler, so all texts are made before the case runs, and
 * the handler writes them with write(2).
 *
 * Hangs. A thread looks once in a second at the processor time that the process has used since the case began:
 *   - BUSY_SECONDS of it: an endless loop. One case takes a few at most, even where a software Vulkan driver compiles
 * for it or sanitizers watch. Waiting for a turn on a busy machine costs none.
 *   - none, IDLE_LOOKS times in a row: all threads sleep, and nobody will wake them. Looks are counted, not time: each
 * is a moment in which this process had its turn, so one that is stopped or starved does not count any; and half an
 * hour of sleep is far from what a disk, a swap or another program's use of a device can explain. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE   700 /* sigaltstack */
#include "crash.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/json.h"
#include "kernel.h"

enum { BUSY_SECONDS = 1200, IDLE_LOOKS = 1800, STACK_BYTES = 1 << 16 };

static struct {
    int json;
    uint64_t seed;
    size_t n_text, n_document; /* bytes that the handler writes */
    char text[CHECK_REPEAT_MAX + 64], document[4 * CHECK_REPEAT_MAX];
} now;
static atomic_flag reported = ATOMIC_FLAG_INIT;
static struct {
    _Atomic uint64_t number; /* of the case; 0: none runs */
    _Atomic double busy_seconds;
    atomic_int idle_looks;
    int started;
} watch = { .busy_seconds = BUSY_SECONDS, .idle_looks = IDLE_LOOKS };

static const struct {
    int number;
    const char *name;
} signals[] = {
    { SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },
    { SIGILL, "SIGILL" },   { SIGABRT, "SIGABRT" }, { SIGTRAP, "SIGTRAP" },
};
enum { N_SIGNALS = sizeof signals / sizeof signals[0] };

static void put(int file, const char *text, size_t bytes)
{
    while (bytes) {
        const ssize_t n = write(file, text, bytes);
        if (n <= 0) return; /* nobody reads: there is nothing left to do about it */
        text += n;
        bytes -= (size_t)n;
    }
}

static void put_text(int file, const char *text) { put(file, text, strlen(text)); }

static void leave(const char *what, const char *name)
{
    if (atomic_flag_test_and_set(&reported))
        for (;;) pause(); /* another thread is writing, and then leaves */
    put_text(2, what);
    put_text(2, name);
    put_text(2, "\n");
    put(2, now.text, now.n_text);
    if (now.json && now.n_document) { /* open at the object "crash" */
        put(1, now.document, now.n_document);
        put_text(1, ",\n    \"signal\": \"");
        put_text(1, name);
        put_text(1, "\"\n  }\n}\n");
    }
    _exit(1);
}

static void on_crash(int number)
{
    const char *name = "a signal";
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i].number == number) name = signals[i].name;
    leave("\nCRASH: memory outside of the operands, a failed assertion, ...: ", name);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t = { 0, 0 };
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the others of the process have used of processors. */
static double used(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID); }

static void *look(void *unused)
{
    const struct timespec second = { 1, 0 };
    uint64_t number = 0;
    double begin = 0, last = 0;
    int idle = 0;
    for (;;) {
        (void)nanosleep(&second, NULL);
        const uint64_t runs = atomic_load(&watch.number);
        const double now_used = used();
        if (!runs || runs != number) { /* another case: its time began somewhere since the last look */
            number = runs;
            begin = now_used;
            idle = 0;
        } else {
            idle = now_used - last < 1e-4 ? idle + 1 : 0;
            if (now_used - begin > atomic_load(&watch.busy_seconds))
                leave("\nHANG: the case does not end, whatever processor time it is given: ", "HANG");
            if (idle >= atomic_load(&watch.idle_looks))
                leave("\nHANG: all threads of the case sleep, and nothing wakes them: ", "HANG");
        }
        last = now_used;
    }
    return unused;
}

/* Without a thread to be had, hangs are not noticed here; ctest's limit remains. */
static void start_watch(void)
{
    pthread_t thread;
    sigset_t all, old;
    if (watch.started) return;
    watch.started = 1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the threads that work */
    if (!pthread_create(&thread, NULL, look, NULL)) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Everything of the document but the signal. */
static void write_document(const char *kernel, const char *name, const check_target_info *info, const char *repeat)
{
    json_writer w;
    FILE *file = fmemopen(now.document, sizeof now.document, "w");
    now.n_document = 0;
    if (!file) return;
    json_open(&w, file);
    json_object(&w, NULL);
    json_bool(&w, "crashed", 1);
    json_uint(&w, "seed", now.seed);
    json_object(&w, "crash");
    json_string(&w, "kernel", kernel);
    json_string(&w, "case", name);
    json_string(&w, "backend", info ? info->backend.name : NULL);
    json_string(&w, "device", info ? info->device.name : NULL);
    json_string(&w, "implementation", info ? info->implementation.name : NULL);
    json_string(&w, "repeat", repeat);
    const long bytes = ftell(file);
    const int good = !w.failed && !ferror(file) && bytes > 0 && bytes < (long)sizeof now.document;
    if (fclose(file) == 0 && good) now.n_document = (size_t)bytes;
}

void check_crash_note(const char *kernel, const char *name, const check_target_info *info, const char *repeat)
{
    const int n = snprintf(now.text, sizeof now.text, "  to repeat: %s\n", repeat ? repeat : "(before the first case)");
    now.n_text = n < 0 ? 0 : (size_t)n < sizeof now.text ? (size_t)n : sizeof now.text - 1;
    if (now.json) write_document(kernel, name, info, repeat);
    if (repeat) atomic_fetch_add(&watch.number, 1);
}

void check_crash_catch(int json, uint64_t seed)
{
    static char stack[STACK_BYTES]; /* a stack that has run over has no room for a handler */
    const stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action;
    now.json = json;
    now.seed = seed;
    check_crash_note(NULL, NULL, NULL, NULL);
    start_watch();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    action.sa_flags = sigaltstack(&other, NULL) ? 0 : SA_ONSTACK;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i].number, &action, NULL);
}

void check_crash_end(void)
{
    atomic_store(&watch.number, 0);
    for (int i = 0; i < N_SIGNALS; i++) signal(signals[i].number, SIG_DFL);
}

/* ---- For tests ------------------------------------------------------------------------------------------------ */

static void *volatile nowhere;

static void *touch(void *unused)
{
    *(volatile char *)nowhere = 1;
    return unused;
}

static volatile int enough = 1 << 30;

static int deeper(int depth)
{
    volatile char block[4096];
    block[0] = (char)depth;
    return depth < enough ? deeper(depth + 1) + block[0] : 0;
}

static const check_kernel *late; /* whose calls time out */

static gdn_status run_late(gdn_context *ctx, const void *args, gdn_stream stream)
{
    gdn_device_info info = { .size = sizeof info };
    return gdn_context_describe(ctx, &info, NULL) || info.backend != GDN_BACKEND_REFERENCE
               ? GDN_TIMEOUT
               : late->run(ctx, args, stream);
}

const check_kernel *check_crash_timeout(const check_kernel *kernel)
{
    static check_kernel copy;
    late = kernel;
    copy = *kernel;
    copy.run = run_late;
    return &copy;
}

void check_crash_now(const char *kind)
{
    pthread_t thread;
    if (!kind || !strcmp(kind, "timeout")) return;
    nowhere = (void *)(uintptr_t)sysconf(_SC_PAGESIZE); /* not NULL, which sanitizers see before it happens */
    if (!strcmp(kind, "memory")) touch(NULL);
    if (!strcmp(kind, "thread") && !pthread_create(&thread, NULL, touch, NULL)) pthread_join(thread, NULL);
    if (!strcmp(kind, "stack")) (void)deeper(0);
    if (!strcmp(kind, "hang"))
        for (atomic_store(&watch.idle_looks, 2);;) pause();
    if (!strcmp(kind, "spin"))
        for (atomic_store(&watch.busy_seconds, 0.5);;) enough = 1 << 30;
    abort();
}
