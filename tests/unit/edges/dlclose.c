/* dlopen, a call on several threads, dlclose, again and again: no thread may be left to run code that is gone.
 *
 *   dlclose LIBRARY            calls on the CPU; the library goes
 *   dlclose LIBRARY BACKEND    contexts of a device: the library stays, and rounds add no threads and no memory maps */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include "call.h"

enum { ROUNDS = 50, THREADS = 4 };

/* Threads of this process; 0 where the system does not tell. */
static int threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    if (!folder) return 0;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) n += e->d_name[0] != '.';
    (void)closedir(folder);
    return n;
}

/* 1: there are as many threads as before. A thread that was joined may be listed a moment longer: qemu's user mode says
 * that it has ended before its own thread has. It polls for two minutes, so that only a thread that stays counts. */
static int are_gone(int before)
{
    for (int look = 0; look < 60000 && threads() != before; look++) (void)usleep(2000);
    return threads() == before;
}

/* 1: the library's code is in memory. */
static int is_loaded(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library) (void)dlclose(library);
    return library != NULL;
}

static int maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    int n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
    if (f) (void)fclose(f);
    return n;
}

static int of_device(const char *path, const char *backend)
{
    const uint32_t number = !strcmp(backend, "cuda")     ? GDN_BACKEND_CUDA
                            : !strcmp(backend, "vulkan") ? GDN_BACKEND_VULKAN
                                                         : GDN_BACKEND_METAL;
    int n_threads = 0, n_maps = 0;
    for (int i = 0; i < ROUNDS; i++) {
        call_api api = { 0 };
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        NEED(library);
        *(void **)&api.create = dlsym(library, "gdn_context_create");
        *(void **)&api.destroy = dlsym(library, "gdn_context_destroy");
        const gdn_context_desc desc = { .size = sizeof desc, .backend = number };
        gdn_context *ctx = NULL;
        const gdn_status status = api.create(&desc, &ctx);
        if (status == GDN_UNAVAILABLE) return SKIPPED;
        NEED(!status);
        api.destroy(ctx);
        NEED(!dlclose(library) && is_loaded(path));
        if (i == 4) n_threads = threads(), n_maps = maps(); /* a driver's own are there by then */
    }
    NEED(are_gone(n_threads) && maps() <= n_maps + 2);
    (void)printf("%d rounds, %d threads, %d maps\n", ROUNDS, n_threads, n_maps);
    return 0;
}

int main(int argc, char **argv)
{
    static call_memory expected, m;
    if (argc == 3) return of_device(argv[1], argv[2]);
    NEED(argc == 2);
    const int before = threads();
    for (int i = 0; i < ROUNDS; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        NEED(library);
        call_api api;
        *(void **)&api.create = dlsym(library, "gdn_context_create");
        *(void **)&api.destroy = dlsym(library, "gdn_context_destroy");
        *(void **)&api.query = dlsym(library, "gdn_gated_delta_net_query");
        *(void **)&api.run = dlsym(library, "gdn_gated_delta_net");
        NEED(api.create && api.destroy && api.query && api.run);
        if (!i) call_expect(&api, &expected);
        gdn_context *ctx = call_context(&api, THREADS);
        NEED(ctx && call_run(&api, ctx, &m) == GDN_OK);
        NEED(!memcmp(&m, &expected, CALL_RESULT_BYTES));
        api.destroy(ctx);
        NEED(are_gone(before));
        NEED(!dlclose(library));
        NEED(!is_loaded(argv[1]));
    }
    (void)printf("%d rounds\n", ROUNDS);
    return 0;
}
