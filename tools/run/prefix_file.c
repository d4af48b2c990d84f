/* --prefix-file: prefixes of the cache that outlive the process. See run.h. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "system/files.h"
#include "system/replace.h"
#include "system/system.h"
#include "tools/run/run.h"

enum { WAIT = 10 }; /* seconds for another process that writes the same file */

static int trouble(const char *what)
{
    (void)fprintf(stderr, "%s: --prefix-file: cannot %s %s: %s\n", run_caller->name, what, run_opt.prefix_file,
                  replace_error());
    return 1;
}

/* Loads the file, if there is one. */
static int load(run_session *s)
{
    rt_prefix_saved loaded;
    const void *bytes = NULL;
    uint64_t n = 0;
    errno = file_map(run_opt.prefix_file, &bytes, &n);
    if (errno == ENOENT) return 0;
    if (errno) return trouble("read");
    const gdn_status status =
        rt_memory_prefix_load(rt_engine_memory(s->engine), rt_engine_bits(s->engine), bytes, n, &loaded);
    file_unmap(bytes, n);
    if (status) {
        (void)fprintf(stderr, "%s: --prefix-file: %s: %s\n%*s  the file stays as it is; remove it, or name another\n",
                      run_caller->name, run_opt.prefix_file, rt_last_error(), (int)strlen(run_caller->name), "");
        return 1;
    }
    (void)fprintf(stderr, "%s: note: %s: %d prefixes read, %d had no room\n", run_caller->name, run_opt.prefix_file,
                  (int)loaded.n, (int)loaded.n_left_out);
    return 0;
}

int run_load_prefixes(run_session *s)
{
    replacement test;
    if (!run_opt.prefix_file) return 0;
    if (!*run_opt.prefix_file) return cli_error(run_caller, "--prefix-file is empty; the name of a file is needed");
    if (!s->prefix_lock.beside && !file_lock_take(&s->prefix_lock, run_opt.prefix_file, WAIT))
        return trouble(errno == EWOULDBLOCK ? "use" : "write beside");
    if (!replace_begin(&test, run_opt.prefix_file, WAIT)) return trouble("write beside");
    (void)replace_end(&test, 0);
    return load(s);
}

gdn_status run_write_bytes(void *user, const void *bytes, uint64_t n)
{
    if (fwrite(bytes, 1, (size_t)n, user) == n) return GDN_OK;
    return rt_fail(GDN_INTERNAL, "%s", strerror(errno));
}

/* A save whose bytes are written, and the thread that waits until they are on the disk and renames the file. */
struct run_saving {
    run_session *session;
    replacement file;
    uint64_t n_written;
    gdn_thread thread;
    int code;
    atomic_int done;
};

static void *finish(void *user)
{
    struct run_saving *const g = user;
    g->code = replace_end(&g->file, 1) ? 0 : trouble("write");
    atomic_store(&g->done, 1);
    return NULL;
}

/* Takes the result of finish(). */
static int end_saving(struct run_saving *g)
{
    const int code = g->code;
    if (!code) g->session->prefixes_saved = g->n_written;
    rt_free(g);
    return code;
}

void run_join_prefixes(run_session *s)
{
    struct run_saving *const g = s->saving;
    if (!g) return;
    s->saving = NULL;
    gdn_thread_join(g->thread);
    (void)end_saving(g); /* it said what failed */
}

/* Writes the prefixes into a file beside. NULL: failed, and *code is 1, or there are no new ones. */
static struct run_saving *write_prefixes(run_session *s, int wait, int *code)
{
    rt_memory *const m = rt_engine_memory(s->engine);
    const uint64_t n_written = rt_memory_prefix_stats_of(m).n_written;
    if (n_written == s->prefixes_saved) return NULL;
    struct run_saving *const g = rt_calloc(1, sizeof *g, "saving prefixes");
    rt_prefix_saved saved = { 0 };
    *code = 1;
    if (!g) {
        (void)run_fail(run_opt.prefix_file);
    } else if (!replace_begin(&g->file, run_opt.prefix_file, wait ? WAIT : 0)) {
        (void)trouble("write beside");
    } else if (rt_memory_prefix_save(m, rt_engine_bits(s->engine), (uint64_t)run_opt.prefix_mib << 20, run_write_bytes,
                                     g->file.file, &saved)) {
        (void)run_fail(run_opt.prefix_file);
        (void)replace_end(&g->file, 0);
    } else {
        g->session = s;
        g->n_written = n_written;
        *code = 0;
    }
    if (saved.n_left_out)
        (void)fprintf(stderr, "%s: note: %s: %d prefixes written, %d are more than --prefix-cache %lld\n",
                      run_caller->name, run_opt.prefix_file, (int)saved.n, (int)saved.n_left_out,
                      (long long)run_opt.prefix_mib);
    if (!*code) return g;
    rt_free(g);
    return NULL;
}

int run_save_prefixes(run_session *s, int wait)
{
    int code = 0;
    if (!run_opt.prefix_file || (!wait && s->saving && !atomic_load(&s->saving->done))) return 0;
    run_join_prefixes(s); /* if that one failed, this is the next attempt */
    struct run_saving *const g = write_prefixes(s, wait, &code);
    if (!g) return code;
    if (!wait && gdn_thread_start(&g->thread, 0, finish, g)) {
        s->saving = g;
        return 0;
    }
    (void)finish(g);
    return end_saving(g);
}
