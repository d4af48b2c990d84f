/* Memory runs out while a file is opened, a tokenizer is created, a text and a conversation are tokenized: every
 * allocation in turn fails once; each time there is a status and a text, and nothing is left behind. */
#include "expect.h"

#if defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#    define SANITIZED 1
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)

#include "runtime/chat.h"

#define REPLACED __attribute__((visibility("default")))

enum { MAX_LIVE = 256 };

static void *live[MAX_LIVE]; /* what aligned_alloc gave and free has not got; the runtime takes all memory from it */
static int   n_live;
static long  fail_at = -1;   /* the allocation that fails; -1: none */
static long  n_calls;

void *__libc_memalign(size_t alignment, size_t bytes);
void  __libc_free(void *memory);

REPLACED void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (n_calls++ == fail_at || n_live == MAX_LIVE)
        return NULL;
    void *memory = __libc_memalign(alignment, bytes);
    if (memory)
        live[n_live++] = memory;
    return memory;
}

REPLACED void free(void *memory)
{
    for (int i = 0; memory && i < n_live; i++)
        if (live[i] == memory) {
            live[i] = live[--n_live];
            break;
        }
    __libc_free(memory);
}

/* Everything once, as far as it gets. */
static gdn_status use(const char *path)
{
    static const rt_message hello = { "user", "the river keeps what it is given" };
    int32_t       tokens[64];
    int64_t       count = 0;
    rt_gguf      *f     = NULL;
    rt_tokenizer *t     = NULL;
    gdn_status    status = rt_gguf_open(path, &f);
    EXPECT(!status == !!f, "status %d, and the file is %p", (int)status, (void *)f);
    if (!status) {
        status = rt_tokenizer_create(f, &t);
        EXPECT(!status == !!t, "status %d, and the tokenizer is %p", (int)status, (void *)t);
    }
    if (!status)
        status = rt_tokenize(t, hello.text, strlen(hello.text), 0, tokens, 64, &count);
    if (!status)
        status = rt_chat_tokenize(t, &hello, 1, tokens, 64, &count);
    EXPECT(!status == !!count, "status %d, and there are %d tokens", (int)status, (int)count);
    rt_tokenizer_destroy(t);
    rt_gguf_close(f);
    return status;
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc != 2)
        return 2;
    (void)snprintf(path, sizeof path, "%s/fixtures/vocab_qwen35.gguf", argv[1]);
    EXPECT(!use(path) && !n_live, "%d pieces of memory are left", n_live);
    const long n = n_calls;
    EXPECT(n > 20, "%ld allocations", n);
    long n_optional = 0;
    for (long i = 0; i < n; i++) {
        n_calls = 0;
        fail_at = i;
        (void)rt_fail(GDN_OK, "%s", "");
        const gdn_status status = use(path);
        /* PCRE2's compiler to machine code may fail: then it interprets, and all succeeds */
        const int optional = !status && strstr(rt_last_error(), "no memory for the regular expression");
        EXPECT(optional || (status == GDN_OUT_OF_MEMORY && strstr(rt_last_error(), "no memory for")),
               "allocation %ld gives status %d", i,
               (int)status);
        n_optional += optional;
        EXPECT(!n_live, "allocation %ld leaves %d pieces of memory", i, n_live);
        n_live = 0;
    }
    EXPECT(n_optional < n / 2, "%ld of %ld failures change nothing", n_optional, n);
    return expect_summary();
}

#else

int main(void)
{
    printf("skipped: another allocator is in place\n");
    return 0;
}

#endif
