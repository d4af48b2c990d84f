/* --prefix-file: prefixes of the cache that outlive the process. See run.h. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/replace.h"
#include "tools/run/run.h"

static int trouble(const char *what)
{
    (void)fprintf(stderr, "%s: --prefix-file: cannot %s %s: %s\n", run_caller->name, what, run_opt.prefix_file,
                  strerror(errno));
    return 1;
}

/* Loads the open file. */
static int load(run_session *s, int fd)
{
    struct stat about;
    rt_prefix_saved loaded;
    if (fstat(fd, &about)) return trouble("read");
    if (!S_ISREG(about.st_mode)) {
        (void)fprintf(stderr, "%s: --prefix-file: %s is no regular file\n", run_caller->name, run_opt.prefix_file);
        return 1;
    }
    const size_t n = (size_t)about.st_size;
    void *const bytes = n ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (bytes == MAP_FAILED) return trouble("read");
    const gdn_status status =
        rt_memory_prefix_load(rt_engine_memory(s->engine), rt_engine_bits(s->engine), bytes, n, &loaded);
    if (bytes) (void)munmap(bytes, n);
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
    if (!replace_begin(&test, run_opt.prefix_file)) return trouble("write beside");
    (void)replace_end(&test, 0);
    const int fd = open(run_opt.prefix_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? 0 : trouble("open");
    const int code = load(s, fd);
    (void)close(fd);
    return code;
}

static gdn_status write_bytes(void *user, const void *bytes, uint64_t n)
{
    if (fwrite(bytes, 1, (size_t)n, user) == n) return GDN_OK;
    return rt_fail(GDN_INTERNAL, "%s", strerror(errno));
}

int run_save_prefixes(run_session *s)
{
    if (!run_opt.prefix_file) return 0;
    rt_memory *const m = rt_engine_memory(s->engine);
    const uint64_t n_written = rt_memory_prefix_stats_of(m).n_written;
    if (n_written == s->prefixes_saved) return 0; /* the file has them */
    replacement r;
    rt_prefix_saved saved;
    if (!replace_begin(&r, run_opt.prefix_file)) return trouble("write beside");
    const gdn_status status = rt_memory_prefix_save(m, rt_engine_bits(s->engine), (uint64_t)run_opt.prefix_mib << 20,
                                                    write_bytes, r.file, &saved);
    const int good = replace_end(&r, !status);
    if (status) return run_fail(run_opt.prefix_file);
    if (!good) return trouble("write");
    s->prefixes_saved = n_written;
    if (saved.n_left_out)
        (void)fprintf(stderr, "%s: note: %s: %d prefixes written, %d are more than --prefix-cache %lld\n",
                      run_caller->name, run_opt.prefix_file, (int)saved.n, (int)saved.n_left_out,
                      (long long)run_opt.prefix_mib);
    return 0;
}
