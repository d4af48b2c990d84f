/* Allocations fail while a file is opened, a tokenizer is created, and a text and a conversation are tokenized. Each
 * allocation fails once; the call then returns a status with a text and leaks nothing. The memory of a large vocabulary
 * is what the budget counted, and little compared to its file.
 *
 * Linked with --wrap=rt_calloc and --wrap=rt_free, which give the runtime all its memory. */
#include "gguf_build.h"
#include "runtime/base/error.h"
#include "runtime/text/chat.h"
#include "tests/harness.h"

static long n_live;       /* blocks */
static long fail_at = -1; /* the allocation that fails; -1: none */
static long n_calls;
static uint64_t n_bytes; /* of all that was asked for */

void *__real_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what)
{
    if (n_calls++ == fail_at) n = UINT64_C(1) << 60; /* more than there can be */
    else n_bytes += (n * size + 63) / 64 * 64;
    void *memory = __real_rt_calloc(n, size, what);
    n_live += memory != NULL;
    return memory;
}
void __real_rt_free(void *memory);
void __wrap_rt_free(void *memory);
void __wrap_rt_free(void *memory)
{
    n_live -= memory != NULL;
    __real_rt_free(memory);
}

/* Everything once, as far as it gets. */
static gdn_status use(const char *path)
{
    static const rt_message hello = { "user", "the river keeps what it is given" };
    int32_t tokens[64];
    int64_t count = 0;
    rt_chat *chat = NULL;
    rt_chat_prompt prompt = { 0 };
    rt_gguf *f = NULL;
    rt_tokenizer *t = NULL;
    gdn_status status = rt_gguf_open(path, NULL, &f);
    REQUIRE(!status == !!f, "status %d, and the file is %p", (int)status, (void *)f);
    if (!status) {
        status = rt_tokenizer_create(f, NULL, &t);
        REQUIRE(!status == !!t, "status %d, and the tokenizer is %p", (int)status, (void *)t);
    }
    if (!status) status = rt_tokenize(t, hello.text, strlen(hello.text), 0, tokens, 64, &count);
    if (!status) {
        status = rt_chat_create(f, t, &chat);
        REQUIRE(!status == !!chat, "status %d, and the template is %p", (int)status, (void *)chat);
    }
    if (!status) status = rt_chat_set_variables(chat, "{\"a\": [1.5, {\"b\": \"c\"}]}");
    if (!status) status = rt_chat_render(chat, &hello, 1, RT_THINK_AUTO, 1, &prompt);
    REQUIRE(!status == !!prompt.n, "status %d, and there are %d tokens", (int)status, (int)prompt.n);
    rt_free(prompt.tokens);
    rt_chat_destroy(chat);
    rt_tokenizer_destroy(t);
    rt_gguf_close(f);
    return status;
}

/* A vocabulary of one normal token and n - 1 empty ones of type `type`; merges of "a a" come to n_merges. */
static unsigned char *large_vocabulary(uint64_t n, int type, uint64_t n_merges, uint64_t *bytes)
{
    static gguf_build b;
    unsigned char *all = malloc((size_t)(2000 + 9 * n + 11 * n_merges)), *at = all;
    if (!all) exit(2);
    build_header(&b, 0, 4);
    build_key_string(&b, "tokenizer.ggml.model", "gpt2");
    build_key_array(&b, "tokenizer.ggml.tokens", RT_GGUF_STRING, n);
    build_string(&b, "a");
    build_string(&b, "aa");
    memcpy(at, b.bytes, (size_t)b.n);
    at += b.n;
    memset(at, 0, 8 * (size_t)(n - 2));
    at += 8 * (n - 2);
    b.n = 0;
    build_key_array(&b, "tokenizer.ggml.token_type", RT_GGUF_U8, n);
    build_number(&b, 1, 1);
    build_number(&b, 1, 1);
    memcpy(at, b.bytes, (size_t)b.n);
    at += b.n;
    memset(at, type, (size_t)(n - 2));
    at += n - 2;
    b.n = 0;
    build_key_array(&b, "tokenizer.ggml.merges", RT_GGUF_STRING, n_merges);
    memcpy(at, b.bytes, (size_t)b.n);
    at += b.n;
    b.n = 0;
    build_string(&b, "a a");
    for (uint64_t i = 0; i < n_merges; i++, at += b.n) memcpy(at, b.bytes, (size_t)b.n);
    *bytes = (uint64_t)(at - all);
    return all;
}

static void test_counted(void)
{
    static const struct {
        uint64_t n;
        int type;
        uint64_t n_merges;
    } cases[] = { { 200000, 1, 0 }, { 200000, 3, 0 }, { 300, 1, 200000 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t size;
        unsigned char *const bytes = large_vocabulary(cases[i].n, cases[i].type, cases[i].n_merges, &size);
        rt_budget budget = { 0, 0 };
        rt_gguf *f = NULL;
        rt_tokenizer *t = NULL;
        n_bytes = 0;
        REQUIRE(!rt_gguf_open_memory(bytes, size, &budget, &f), "open");
        REQUIRE(f && !rt_tokenizer_create(f, &budget, &t), "create");
        REQUIRE(n_bytes <= budget.used + (64 << 10) && budget.used <= n_bytes,
                "%llu bytes were counted, and %llu asked for", (unsigned long long)budget.used,
                (unsigned long long)n_bytes);
        REQUIRE(n_bytes < 2 * size, "a file of %llu bytes takes %llu more", (unsigned long long)size,
                (unsigned long long)n_bytes);
        rt_tokenizer_destroy(t);
        for (int less = 0; less < 2; less++) {
            rt_budget b = { budget.used - (uint64_t)less, 0 };
            rt_gguf *again = NULL;
            const gdn_status status = rt_gguf_open_memory(bytes, size, &b, &again) ? GDN_INVALID_ARGUMENT
                                                                                   : rt_tokenizer_create(again, &b, &t);
            REQUIRE(status == (less ? GDN_OUT_OF_MEMORY : GDN_OK) && (t == NULL) == less,
                    "with %d bytes less: status %d", less, (int)status);
            REQUIRE(!less || strstr(rt_last_error(), "not enough memory: "));
            rt_tokenizer_destroy(t);
            rt_gguf_close(again);
        }
        rt_gguf_close(f);
        free(bytes);
    }
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc != 2) return 2;
    (void)snprintf(path, sizeof path, "%s/fixtures/vocab_qwen35.gguf", argv[1]);
    test_counted();
    n_calls = 0;
    REQUIRE(!use(path) && !n_live, "%ld pieces of memory are left", n_live);
    const long n = n_calls;
    REQUIRE(n > 20, "%ld allocations", n);
    for (long i = 0; i < n; i++) {
        n_calls = 0;
        fail_at = i;
        (void)rt_fail(GDN_OK, "%s", "");
        const gdn_status status = use(path);
        REQUIRE(status == GDN_OUT_OF_MEMORY && strstr(rt_last_error(), "no memory for"),
                "allocation %ld gives status %d", i, (int)status);
        REQUIRE(!n_live, "allocation %ld leaves %ld pieces of memory", i, n_live);
        n_live = 0;
    }
    return test_summary();
}
