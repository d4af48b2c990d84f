/* float_modes BACKEND...: contexts that are created, used and destroyed in floating-point modes which trap, flush or
 * round otherwise. Each mode has a process of its own, in which the backend's driver is loaded in that mode. The device
 * is as exact as it is in the default mode, results have the reference's bits, and the mode stays as it was. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/environment.h"
#include "tests/device/suite.h"

#if defined(__x86_64__) || defined(__i386__)
/* All exceptions trap; all but inexact; flushing; rounding up, down, to zero; flushing and rounding up. */
static const uint64_t modes[] = { 0x1f80, 0x0000, 0x1900, 0x9fc0, 0x5f80, 0x3f80, 0x7f80, 0xdfc0 };
#elif defined(__aarch64__)
static const uint64_t modes[] = { 0, 1u << 24, 1u << 22, 2u << 22, 3u << 22, 1u << 24 | 1u << 22 };
#else
static const uint64_t modes[] = { 0 };
#endif

/* In the child. What it prints is the name of the step that fails. */
static void in_mode(uint32_t backend, uint64_t mode)
{
    step_on on = { 0 };
    gdn_context *ctx = NULL;
    const gdn_context_desc desc = FIELDS(.size = sizeof desc, .backend = backend, .n_threads = 2);
    gdn_backend_info info = { .size = sizeof info };
    gdn_implementation_info found = { .size = sizeof found }, opened = { .size = sizeof opened };
    const char *failed = NULL;
    check_environment_put(mode);
#define STEP(done)                                                                                                     \
    do {                                                                                                               \
        if (!failed && !((done) && check_environment_get() == mode)) failed = #done;                                   \
    } while (0)
    STEP(!gdn_backend_describe(backend, &info));
    if (!failed && !info.available && mode == modes[0]) _exit(77);
    STEP(!gdn_implementation_describe(backend, 0, 0, &found) && (found.levels >> GDN_EXACT & 1));
    STEP(!gdn_context_create(&desc, &ctx));
    STEP(!gdn_context_describe(ctx, NULL, &opened) && (opened.levels >> GDN_EXACT & 1));
    STEP(!step_put(&on, ctx, &start));
    STEP(!step_run(&on, NULL));
    STEP(!step_run(&on, NULL));
    STEP(!gdn_synchronize(ctx, NULL));
    STEP(!gdn_poll(ctx));
    STEP(step_same(&on, &wanted_twice));
    STEP((gdn_context_destroy(ctx), 1)); /* with its buffers */
    check_environment_put(modes[0]);
    if (failed) (void)printf("mode %#llx: %s: %s\n", (unsigned long long)mode, failed, gdn_last_error());
    (void)fflush(stdout);
    _exit(failed != NULL);
}

static const char *const names[] = { "cpu", "reference", "cuda", "vulkan", "metal" };

int main(int argc, char **argv)
{
    suite_init();
    for (int a = 1; a < argc; a++) {
        uint32_t backend = 0;
        while (strcmp(argv[a], names[backend]) != 0) NEED(++backend < GDN_BACKEND_COUNT);
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
            (void)fflush(stdout);
            const pid_t child = fork();
            NEED(child >= 0);
            if (!child) in_mode(backend, modes[m]);
            int status = 0;
            NEED(waitpid(child, &status, 0) == child);
            if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return 77; /* no device */
            REQUIRE(WIFEXITED(status) && !WEXITSTATUS(status), "%s in mode %#llx: status %d, signal %d", argv[a],
                    (unsigned long long)modes[m], WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                    WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        }
    }
    return test_summary();
}
