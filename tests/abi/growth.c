/* The promise that structs grow and programs keep working, in both directions.
 *
 * This program is compiled twice: against first/gdn/, the headers as they were first released, and (GDN_TEST_GROWN)
 * against those of a later release, in which grow.py has given every struct that has a size one more member. Both are
 * linked with today's library and with one that was compiled against the later headers, and run with its name:
 *
 *   test_growth_first_today  today      a program of the first release, today
 *   test_growth_first_grown  grown      the older caller: the library knows more than the program
 *   test_growth_grown_today  today      the newer caller: the program knows more than the library
 *   test_growth_grown_grown  grown      what the newer caller gets where the library is as new
 *
 * Every struct lies in front of a page that nobody may touch, so that what the library reads or writes behind the
 * caller's size is a fault. The numbers are small integers, with which all of it is exact in any order. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#define _DARWIN_C_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/struct_sizes.h"

static int failures, library_is_older;

#define CHECK(condition)                                                                                               \
    ((condition) ? (void)0 : (void)(failures++, printf("%s:%d: FAILED: %s\n  last error: %s\n", __FILE__, __LINE__,    \
                                                       #condition, gdn_last_error())))
#define FAILS(call, status, text) CHECK((call) == (status) && strstr(gdn_last_error(), (text)))

static void fault(int number)
{
    static const char text[] = "growth: FAILED: the library touched what lies behind a caller's struct\n";
    (void)number;
    _exit(write(STDOUT_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

/* Room for `bytes`, with a page behind it that faults. Kept until the program ends. */
static void *at_end(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *base = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || bytes > page || mprotect(base + page, page, PROT_NONE)) {
        perror("growth: mmap");
        exit(2);
    }
    return base + page - bytes;
}

static void *put(const void *object, size_t bytes)
{
    return memcpy(at_end(bytes), object, bytes);
}

/* ---- What callers of every age may expect ---------------------------------------------------------------------- */

static const char *too_short(size_t first, const char *name)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "%s->size is %zu; set it to sizeof the struct, at least %zu", name, first - 1,
                   first);
    return text;
}

/* `call` fills the struct `at`: all of it, nothing behind it, and with zeros what the library does not know. */
#ifdef GDN_TEST_GROWN
#  define CHECK_GROWN(at) CHECK((at)->grown == 0)
#else
#  define CHECK_GROWN(at) (void)0
#endif
#define FILLS(type, name, call)                                                                                        \
    do {                                                                                                               \
        type *at = at_end(sizeof(type)), before;                                                                       \
        memset(at, 0x54, sizeof *at);                                                                                  \
        at->size = (uint32_t)GDN_FIRST_SIZE(type) - 1;                                                                 \
        before   = *at;                                                                                                \
        FAILS(call, GDN_INVALID_ARGUMENT, too_short(GDN_FIRST_SIZE(type), name));                                      \
        CHECK(!memcmp(at, &before, sizeof before));                                                                    \
        at->size = (uint32_t)sizeof(type);                                                                             \
        CHECK((call) == GDN_OK);                                                                                       \
        before = *at;                                                                                                  \
        memset(at, 0xab, sizeof *at);                                                                                  \
        at->size = (uint32_t)sizeof(type);                                                                             \
        CHECK((call) == GDN_OK);                                                                                       \
        CHECK(at->size == sizeof(type) && !memcmp(at, &before, sizeof before));                                        \
        CHECK_GROWN(at);                                                                                               \
    } while (0)

/* `call` reads the struct `at`, whose contents are `value`: it takes it as it is, but not shorter than it ever was, and
 * what it does not know only if that is zero. Otherwise it gives `status`, with `text` in the last error. */
#ifdef GDN_TEST_GROWN
#  define CHECK_OLDER(type, name, call, status, text)                                                                  \
      do {                                                                                                             \
          at->grown = UINT64_MAX;                                                                                      \
          if (library_is_older)                                                                                        \
              FAILS(call, GDN_INVALID_ARGUMENT, older(name, offsetof(type, grown)));                                   \
          else                                                                                                         \
              CHECK((call) == (status) && ((status) == GDN_OK || strstr(gdn_last_error(), (text))));                   \
      } while (0)

static const char *older(const char *name, size_t byte)
{
    static char text[256];
    const unsigned version = gdn_version();
    (void)snprintf(text, sizeof text, "%s has a member at byte %zu that this library, version %u.%u.%u, ABI %u, ", name,
                   byte, version >> 16, version >> 8 & 255, version & 255, (unsigned)gdn_abi_version());
    return strstr(gdn_last_error(), "does not have; it is older than") ? text : "a text that says so";
}
#else
#  define CHECK_OLDER(type, name, call, status, text) (void)0
#endif
#define READS(type, name, value, call, status, text)                                                                   \
    do {                                                                                                               \
        type *at = put(&(value), sizeof(type));                                                                        \
        CHECK((call) == (status) && ((status) == GDN_OK || strstr(gdn_last_error(), (text))));                         \
        CHECK_OLDER(type, name, call, status, text);                                                                   \
        at->size = (uint32_t)GDN_FIRST_SIZE(type) - 1;                                                                 \
        FAILS(call, GDN_INVALID_ARGUMENT, too_short(GDN_FIRST_SIZE(type), name));                                      \
    } while (0)

/* ---- Lists and contexts ------------------------------------------------------------------------------------------ */

static void lists(void)
{
    for (uint32_t backend = 0; backend < GDN_BACKEND_METAL + 1u; backend++)
        FILLS(gdn_backend_info, "info", gdn_backend_describe(backend, at));
    for (uint32_t backend = GDN_BACKEND_CPU; backend <= GDN_BACKEND_REFERENCE; backend++) {
        FILLS(gdn_device_info, "info", gdn_device_describe(backend, 0, at));
        FILLS(gdn_implementation_info, "info", gdn_implementation_describe(backend, 0, 0, at));
    }
    CHECK(gdn_version() && gdn_abi_version() == GDN_ABI_VERSION);
    CHECK(!strcmp(gdn_status_name(GDN_BAD_MAP), "GDN_BAD_MAP"));
}

static int allocated, lines;

static void *take(void *user, uint64_t bytes, uint64_t alignment)
{
    void *memory = NULL;
    CHECK(user == &allocated);
    allocated++;
    return posix_memalign(&memory, (size_t)alignment, (size_t)bytes) ? NULL : memory;
}

static void give(void *user, void *memory)
{
    CHECK(user == &allocated);
    allocated--;
    free(memory);
}

static void line(void *user, int32_t level, const char *message)
{
    CHECK(user == &lines && level >= GDN_LOG_ERROR && level <= GDN_LOG_DEBUG && message[0]);
    lines++;
}

static gdn_status open_and_close(const gdn_context_desc *desc)
{
    gdn_context *ctx;
    const gdn_status status = gdn_context_create(desc, &ctx);
    CHECK(!status == (ctx != NULL));
    gdn_context_destroy(ctx);
    return status;
}

static gdn_context *open(uint32_t backend)
{
    gdn_context *ctx = NULL;
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    desc.backend    = backend;
    desc.n_threads  = 2;
    desc.log        = line;
    desc.log_user   = &lines;
    desc.alloc      = take;
    desc.free       = give;
    desc.alloc_user = &allocated;
    READS(gdn_context_desc, "desc", desc, open_and_close(at), GDN_OK, "");
    CHECK(gdn_context_create(put(&desc, sizeof desc), &ctx) == GDN_OK && lines && allocated);
    return ctx;
}

/* The descriptions of the caller's devices: read before a driver is looked for, so no machine needs one. */
#define READS_NATIVE(number, type, value, text)                                                                        \
    do {                                                                                                               \
        gdn_backend_info about = GDN_INIT(gdn_backend_info);                                                           \
        gdn_context_desc desc = GDN_INIT(gdn_context_desc);                                                            \
        CHECK(gdn_backend_describe((number), &about) == GDN_OK);                                                       \
        desc.backend = (number);                                                                                       \
        if (about.built)                                                                                               \
            READS(type, "native", value, (desc.native = at, open_and_close(&desc)), GDN_INVALID_ARGUMENT, text);       \
        else                                                                                                           \
            printf("growth: this build has no %s backend\n", about.name);                                             \
    } while (0)

static void natives(void)
{
    gdn_cuda_desc   cuda   = GDN_INIT(gdn_cuda_desc);
    gdn_vulkan_desc vulkan = GDN_INIT(gdn_vulkan_desc);
    gdn_metal_desc  metal  = GDN_INIT(gdn_metal_desc);
    cuda.flags = metal.flags = 1;
    vulkan.device      = &vulkan;
    vulkan.device_name = "both";
    READS_NATIVE(GDN_BACKEND_CUDA, gdn_cuda_desc, cuda, "native->flags is 0x1");
    READS_NATIVE(GDN_BACKEND_VULKAN, gdn_vulkan_desc, vulkan, "native->device and native->device_name are both given");
    READS_NATIVE(GDN_BACKEND_METAL, gdn_metal_desc, metal, "native->flags is 0x1");
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static float small(int i)
{
    return (float)(i * 7 % 5 - 2);
}

/* A workspace as the query says, a run, and the query's own struct. */
#define RUNS(ctx, stem, a)                                                                                             \
    do {                                                                                                               \
        gdn_capability can = GDN_INIT(gdn_capability);                                                                 \
        FILLS(gdn_capability, "capability", gdn_##stem##_query((ctx), put(&(a), sizeof(a)), at));                      \
        READS(gdn_##stem##_args, "args", a, gdn_##stem##_query((ctx), at, &can), GDN_OK, "");                          \
        CHECK(gdn_##stem##_query((ctx), put(&(a), sizeof(a)), &can) == GDN_OK); /* those that fail leave it empty */   \
        CHECK(can.supported && can.exact && can.implementation[0]);                                                    \
        CHECK(!can.workspace_bytes || gdn_buffer_create((ctx), can.workspace_bytes, &(a).workspace) == GDN_OK);        \
        (a).workspace.bytes = can.workspace_bytes;                                                                     \
        CHECK(gdn_##stem((ctx), put(&(a), sizeof(a)), NULL) == GDN_OK);                                                \
        CHECK(gdn_synchronize((ctx), NULL) == GDN_OK && gdn_poll(ctx) == GDN_OK);                                      \
        (a).n_tokens_or_rows = 0; /* the rest is about the struct and must not compute again */                        \
        READS(gdn_##stem##_args, "args", a, gdn_##stem((ctx), at, NULL), GDN_OK, "");                                  \
        gdn_buffer_destroy((ctx), &(a).workspace);                                                                     \
    } while (0)

enum { SEQS = 2, TOKENS = 3, HEADS = 2, D = 16 };

static void gated_delta_net(gdn_context *ctx)
{
    static float q[SEQS * TOKENS][D], k[SEQS * TOKENS][D], v[SEQS * TOKENS][HEADS][D], beta[SEQS * TOKENS][HEADS];
    static float g[SEQS * TOKENS][HEADS], out[SEQS * TOKENS][HEADS][D], want[SEQS * TOKENS][HEADS][D];
    static float state[SEQS][HEADS][D][D], expected[SEQS][HEADS][D][D]; /* [v][k] */
    for (int t = 0; t < SEQS * TOKENS; t++)
        for (int i = 0; i < D; i++) {
            q[t][i] = small(t + 3 * i);
            k[t][i] = i % 4 == t % 4 ? small(t + i) : 0;
            for (int h = 0; h < HEADS; h++) {
                v[t][h][i] = small(t + h + i);
                beta[t][h] = 1;
            }
        }
    for (int i = 0; i < SEQS * HEADS * D * D; i++)
        (&state[0][0][0][0])[i] = (&expected[0][0][0][0])[i] = small(i);
    for (int t = 0; t < SEQS * TOKENS; t++)
        for (int h = 0; h < HEADS; h++)
            for (int j = 0; j < D; j++) {
                float *row = expected[t / TOKENS][h][j], kv = 0, o = 0;
                for (int i = 0; i < D; i++)
                    kv += row[i] * k[t][i];
                for (int i = 0; i < D; i++)
                    o += (row[i] += k[t][i] * (v[t][h][j] - kv)) * q[t][i];
                want[t][h][j] = o;
            }
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs    = a.n_rows = SEQS;
    a.n_tokens  = SEQS * TOKENS;
    a.n_heads_k = 1;
    a.n_heads_v = HEADS;
    a.head_dim_k = a.head_dim_v = D;
    a.scale      = 1;
    a.q.data     = q;
    a.k.data     = k;
    a.v.data     = v;
    a.g.data     = g;
    a.beta.data  = beta;
    a.out.data   = out;
    a.state.data = state;
#define n_tokens_or_rows n_tokens
    RUNS(ctx, gated_delta_net, a);
    CHECK(!memcmp(out, want, sizeof want));
    CHECK(!memcmp(state, expected, sizeof expected));
}

static void ssm_conv(gdn_context *ctx)
{
    enum { CHANNELS = 3, WIDTH = 4 };
    float x[TOKENS][CHANNELS], weight[CHANNELS][WIDTH], bias[CHANNELS], out[TOKENS][CHANNELS];
    float history[WIDTH - 1][CHANNELS];
    int32_t source = GDN_NONE, target = 0;
    for (int i = 0; i < TOKENS * CHANNELS; i++)
        x[i / CHANNELS][i % CHANNELS] = small(i);
    for (int i = 0; i < CHANNELS * WIDTH; i++)
        weight[i / WIDTH][i % WIDTH] = small(i + 1);
    for (int c = 0; c < CHANNELS; c++)
        bias[c] = small(c + 2);
    gdn_ssm_conv_args a = GDN_INIT(gdn_ssm_conv_args);
    a.n_seqs           = a.n_rows = 1;
    a.n_tokens         = TOKENS;
    a.n_channels       = CHANNELS;
    a.kernel_width     = WIDTH;
    a.x.data           = x;
    a.weight.data      = weight;
    a.bias.data        = bias;
    a.out.data         = out;
    a.history.data     = history;
    a.history_src.data = &source;
    a.history_dst.data = &target;
    RUNS(ctx, ssm_conv, a);
#undef n_tokens_or_rows
    for (int t = 0; t < TOKENS; t++)
        for (int c = 0; c < CHANNELS; c++) {
            float u = bias[c];
            for (int j = 0; j < WIDTH; j++)
                u += t + j < WIDTH - 1 ? 0 : weight[c][j] * x[t + j - WIDTH + 1][c];
            CHECK(out[t][c] == u && history[t][c] == x[t][c]);
        }
}

static void set_rows(gdn_context *ctx)
{
    enum { COLUMNS = 5, ROWS = 2, ALL = 3 };
    float src[ROWS][COLUMNS], dst[ALL][COLUMNS];
    const int32_t index[ROWS] = { 2, 0 };
    for (int i = 0; i < ROWS * COLUMNS; i++)
        src[i / COLUMNS][i % COLUMNS] = small(i);
    for (int i = 0; i < ALL * COLUMNS; i++)
        dst[i / COLUMNS][i % COLUMNS] = 99;
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    a.n_columns   = COLUMNS;
    a.n_rows      = ROWS;
    a.n_rows_dst  = ALL;
    a.src.data    = src;
    a.dst.data    = dst;
    a.index.data  = (void *)index;
    a.index.dtype = GDN_I32;
#define n_tokens_or_rows n_rows
    RUNS(ctx, set_rows, a);
    for (int i = 0; i < COLUMNS; i++)
        CHECK(dst[2][i] == src[0][i] && dst[0][i] == src[1][i] && dst[1][i] == 99);
}

static void contexts(void)
{
    for (uint32_t backend = GDN_BACKEND_CPU; backend <= GDN_BACKEND_REFERENCE; backend++) {
        gdn_context *ctx = open(backend);
        gdn_span span;
        void *semaphore;
        uint64_t value = 1;
        if (!ctx)
            return;
        FILLS(gdn_device_info, "device", gdn_context_describe(ctx, at, NULL));
        FILLS(gdn_implementation_info, "implementation", gdn_context_describe(ctx, NULL, at));
        CHECK(gdn_buffer_create(ctx, sizeof value, &span) == GDN_OK);
        CHECK(gdn_buffer_write(ctx, &span, 0, &value, sizeof value) == GDN_OK);
        value = 0;
        CHECK(gdn_buffer_read(ctx, &span, 0, &value, sizeof value) == GDN_OK && value == 1);
        gdn_buffer_destroy(ctx, &span);
        FAILS(gdn_vulkan_timeline(ctx, &semaphore, &value), GDN_UNSUPPORTED, "has no timeline semaphore");
        gated_delta_net(ctx);
        ssm_conv(ctx);
        set_rows(ctx);
        gdn_context_destroy(ctx);
        CHECK(allocated == 0);
    }
}

#ifndef GDN_TEST_GROWN
/* The sizes that the library remembers are those of the first headers. */
#  define CHECK_FIRST(type, last, size)                                                                                \
      _Static_assert(sizeof(type) == GDN_FIRST_SIZE_##type, "first/ and core/struct_sizes.h: " #type);
GDN_FIRST_STRUCTS(CHECK_FIRST)
#  define GDN_KERNEL(stem, number, title, last, end) CHECK_FIRST(gdn_##stem##_args, last, end)
#  include "core/kernels.def"
#endif

int main(int argc, char **argv)
{
    if (argc != 2 || (strcmp(argv[1], "today") && strcmp(argv[1], "grown"))) {
        (void)fprintf(stderr, "usage: %s today|grown\n", argv[0]);
        return 2;
    }
    (void)signal(SIGSEGV, fault);
    (void)signal(SIGBUS, fault);
    library_is_older = !strcmp(argv[1], "today"); /* than a program of the later headers */
    lists();
    contexts();
    natives();
    printf("growth: %d failed\n", failures);
    return failures ? 1 : 0;
}
