/* Crashes. See crash.h. A signal handler may do little. So all texts are made before the case runs, and the handler
 * writes them with write(2). The user ends a case that does not return: SIGINT and SIGTERM also print its name. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE   700 /* sigaltstack */
#include "crash.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/json.h"
#include "kernel.h"

enum { STACK_BYTES = 1 << 16 };

static struct {
    int json, terminal;
    uint64_t seed;
    size_t n_text, n_document; /* bytes that the handler writes */
    char text[CHECK_REPEAT_MAX + 64], document[4 * CHECK_REPEAT_MAX];
} now;
static atomic_flag reported = ATOMIC_FLAG_INIT;

static const struct {
    int number;
    const char *name;
} signals[] = {
    { SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" }, { SIGILL, "SIGILL" },
    { SIGABRT, "SIGABRT" }, { SIGTRAP, "SIGTRAP" }, { SIGINT, "SIGINT" }, { SIGTERM, "SIGTERM" },
};
enum { N_SIGNALS = sizeof signals / sizeof signals[0] };
static struct sigaction before[N_SIGNALS];

static void put(int file, const char *text, size_t bytes)
{
    while (bytes) {
        const ssize_t n = write(file, text, bytes);
        if (n <= 0) return; /* the reader is gone: give up */
        text += n;
        bytes -= (size_t)n;
    }
}

static void put_text(int file, const char *text) { put(file, text, strlen(text)); }

static void on_signal(int number)
{
    const int stopped = number == SIGINT || number == SIGTERM;
    const char *name = "a signal";
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i].number == number) name = signals[i].name;
    if (atomic_flag_test_and_set(&reported))
        for (;;) pause();                                 /* another thread is writing, and then leaves */
    if (stopped && now.terminal) put_text(2, "\r\033[K"); /* a bar of progress */
    put_text(2, stopped ? "STOPPED: " : "\nCRASH: memory outside of the operands, a failed assertion, ...: ");
    put_text(2, name);
    put_text(2, "\n");
    put(2, now.text, now.n_text);
    if (now.json && now.n_document) { /* open at the object "crash" */
        put(1, now.document, now.n_document);
        put_text(1, ",\n    \"signal\": \"");
        put_text(1, name);
        put_text(1, "\"\n  }\n}\n");
    }
    if (!stopped) _exit(1);
    (void)signal(number, SIG_DFL); /* and ends as without a handler, once this one returns */
    (void)raise(number);
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
}

void check_crash_catch(int json, uint64_t seed)
{
    static char stack[STACK_BYTES]; /* a stack that has run over has no room for a handler */
    const stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action;
    now.json = json;
    now.terminal = isatty(2);
    now.seed = seed;
    check_crash_note(NULL, NULL, NULL, NULL);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = sigaltstack(&other, NULL) ? 0 : SA_ONSTACK;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) /* not those that are ignored, as in the background */
        if (!sigaction(signals[i].number, NULL, &before[i]) && before[i].sa_handler != SIG_IGN)
            sigaction(signals[i].number, &action, NULL);
}

void check_crash_end(void)
{
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i].number, &before[i], NULL);
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
    if (!strcmp(kind, "interrupt")) raise(SIGINT);
    if (!strcmp(kind, "stop")) raise(SIGTERM);
    abort();
}
