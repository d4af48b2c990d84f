/* The fake's own interface: settings, injected failures, counts. And the lock of the whole driver. */
#define _GNU_SOURCE
#include "tests/emulator/check.h"
#include "tests/emulator/driver_internal.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simt_settings simt_settings = { .devices = 1, .driver = 13000, .compute = 90, .ptx = 90, .memory = 8ll << 30 };
unsigned long long simt_launches;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized;
static char last_fault[2048];

static struct counter {
    const char *name;
    unsigned long long calls;
    unsigned long long fail_from, fail_to; /* calls, counted from 1 */
    simt_result result;
} counters[256];
static unsigned n_counters;

static struct counter *counter(const char *name)
{
    for (unsigned i = 0; i < n_counters; i++)
        if (counters[i].name == name || strcmp(counters[i].name, name) == 0) return &counters[i];
    if (n_counters == sizeof counters / sizeof *counters) return NULL;
    counters[n_counters].name = name;
    return &counters[n_counters++];
}

simt_result simt_enter(const char *function, int needs_init)
{
    pthread_mutex_lock(&lock);
    struct counter *c = counter(function);
    if (c) {
        c->calls++;
        if (c->calls >= c->fail_from && c->calls < c->fail_to) return c->result;
    }
    return needs_init && !initialized ? SIMT_NOT_INITIALIZED : SIMT_SUCCESS;
}

simt_result simt_leave(simt_result result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

void simt_set_initialized(void) { initialized = 1; }

void simt_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_fault, sizeof last_fault, format, arguments);
    va_end(arguments);
    if (!simt_settings.quiet) fprintf(stderr, "simt: %s\n", last_fault);
}

const char *simt_last_fault(void) { return last_fault; }

unsigned long long simt_this_thread(void)
{
    static _Thread_local char here;
    return (unsigned long long)(uintptr_t)&here;
}

static int fail_call(const char *function, unsigned nth, simt_result result, unsigned times)
{
    struct counter *c = counter(function);
    if (!c || !nth) return -1;
    if (c->name == function) { /* a new one: the name has to stay */
        c->name = strdup(function);
        if (!c->name) c->name = "";
    }
    c->fail_from = c->calls + nth;
    c->fail_to = times ? c->fail_from + times : ~0ull;
    c->result = result;
    return 0;
}

int simt_fail_call(const char *function, unsigned nth, simt_result result, unsigned times)
{
    pthread_mutex_lock(&lock);
    const int status = fail_call(function, nth, result, times);
    pthread_mutex_unlock(&lock);
    return status;
}

unsigned long long simt_calls(const char *function)
{
    unsigned long long calls = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_counters; i++)
        if (strcmp(counters[i].name, function) == 0) calls = counters[i].calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

static int control(const char *name, size_t length, long long value)
{
    const struct {
        const char *name;
        long long *to;
    } settings[] = {
        { "async", &simt_settings.async },   { "devices", &simt_settings.devices },
        { "driver", &simt_settings.driver }, { "compute", &simt_settings.compute },
        { "ptx", &simt_settings.ptx },       { "memory", &simt_settings.memory },
        { "hang", &simt_settings.hang },     { "quiet", &simt_settings.quiet },
        { "unwritten", &simt_unwritten },    { "cut", &simt_settings.cut },
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strlen(settings[i].name) == length && memcmp(settings[i].name, name, length) == 0) {
            *settings[i].to = value;
            return 0;
        }
    if (length == 4 && memcmp(name, "seed", 4) == 0) {
        simt_set_seed((uint64_t)value);
    } else if (length == 4 && memcmp(name, "lose", 4) == 0) {
        for (simt_handle *h = simt_handles(SIMT_CONTEXT); h; h = h->next)
            ((simt_context *)(void *)h)->error = (simt_result)value;
    } else {
        return -1;
    }
    return 0;
}

int simt_control(const char *name, long long value)
{
    pthread_mutex_lock(&lock);
    const int status = control(name, strlen(name), value);
    pthread_mutex_unlock(&lock);
    return status;
}

void simt_settings_from_environment(void)
{
    for (const char *at = getenv("GDN_SIMT_CONTROL"); at && *at;) {
        const char *equal = strchr(at, '=');
        char *end = NULL;
        if (!equal || control(at, (size_t)(equal - at), strtoll(equal + 1, &end, 0)) || (*end && *end != ',')) {
            fprintf(stderr, "simt: GDN_SIMT_CONTROL: not understood: %s\n", at);
            break;
        }
        at = *end ? end + 1 : end;
    }
    const char *fail = getenv("GDN_SIMT_FAIL");
    char function[64];
    unsigned nth;
    int result;
    if (fail && (sscanf(fail, "%63[^:]:%u:%d", function, &nth, &result) != 3 || fail_call(function, nth, result, 1)))
        fprintf(stderr, "simt: GDN_SIMT_FAIL: not understood: %s\n", fail);
}

long long simt_count(const char *what)
{
    static const char *const kinds[SIMT_KINDS] = { [SIMT_CONTEXT] = "contexts",
                                                   [SIMT_MODULE] = "modules",
                                                   [SIMT_STREAM] = "streams",
                                                   [SIMT_GRAPH] = "graphs",
                                                   [SIMT_GRAPH_EXEC] = "graph execs" };
    long long count = 0, queued = 0;
    size_t device_blocks, host_blocks;
    pthread_mutex_lock(&lock);
    simt_memory_totals(&device_blocks, &host_blocks);
    for (int kind = 0; kind < SIMT_KINDS; kind++)
        for (simt_handle *h = simt_handles((enum simt_kind)kind); h; h = h->next) {
            const simt_stream *stream = kind == SIMT_STREAM ? (simt_stream *)(void *)h : NULL;
            if (stream) queued += (long long)stream->n;
            count += kinds[kind] && !strcmp(what, kinds[kind]) && !(stream && (stream->legacy || stream->thread));
        }
    if (!strcmp(what, "device blocks")) count = (long long)device_blocks;
    if (!strcmp(what, "host blocks")) count = (long long)host_blocks;
    if (!strcmp(what, "launches")) count = (long long)simt_launches;
    if (!strcmp(what, "queued")) count = queued;
    pthread_mutex_unlock(&lock);
    return count;
}
