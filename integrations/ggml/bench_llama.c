/* Measures how libggml-gdn changes the time of an unmodified llama.cpp.
 *
 *     bench_llama model.gguf libggml-gdn.so [threads [rounds [case]]]
 *
 * There are two contexts of one model, one without the plugin and one with it. Each round runs a case in both,
 * alternating which is first, and takes the ratio of the two times, which is stable on a busy machine. With one thread
 * the time is CPU time, which excludes other programs. The output is the median over the rounds, and the quartiles. */
#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SEQS = 8, PROMPT = 8, MAX_ROUNDS = 101 };

typedef struct bench_case {
    const char *name;
    int n_seqs, n_tokens, n_snapshots, n_steps; /* n_tokens: tokens per sequence and step */
} bench_case;

static const bench_case cases[] = {
    { "decode, 1 sequence", 1, 1, 0, 16 },
    { "decode, 8 sequences", 8, 1, 0, 8 },
    { "decode, 1 sequence, 4 snapshots", 1, 1, 3, 16 },
    { "decode, 8 sequences, 4 snapshots", 8, 1, 3, 8 },
    { "verify 4 tokens, 1 sequence, 4 snapshots", 1, 4, 3, 8 },
    { "verify 4 tokens, 8 sequences, 4 snapshots", 8, 4, 3, 4 },
    { "prompt of 512", 1, 512, 0, 1 },
};

static void die(const char *what)
{
    fprintf(stderr, "bench_llama: %s\n", what);
    exit(1);
}

static struct llama_context *context(struct llama_model *model, const bench_case *c, int n_threads)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 1280 * (uint32_t)c->n_seqs;
    p.n_batch = p.n_ubatch = 512;
    p.n_seq_max = (uint32_t)c->n_seqs;
    p.n_rs_seq = (uint32_t)c->n_snapshots;
    p.n_threads = p.n_threads_batch = n_threads;
    struct llama_context *ctx = llama_init_from_model(model, p);
    if (!ctx) die("llama.cpp makes no context");
    return ctx;
}

/* Decodes n tokens of each sequence, from position `at` on. */
static void step(struct llama_context *ctx, struct llama_batch *b, const bench_case *c, int at, int n)
{
    b->n_tokens = 0;
    for (int s = 0; s < c->n_seqs; s++)
        for (int t = 0; t < n; t++) {
            const int i = b->n_tokens++;
            b->token[i] = 10 + ((at + t) * 3 + s) % 1000;
            b->pos[i] = at + t;
            b->n_seq_id[i] = 1;
            b->seq_id[i][0] = s;
            b->logits[i] = t == n - 1;
        }
    if (llama_decode(ctx, *b)) die("llama_decode failed");
    llama_synchronize(ctx);
}

static double now(int n_threads)
{
    struct timespec t;
    clock_gettime(n_threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs the steps of a case `times` times; returns the seconds. */
static double seconds(struct llama_context *ctx, struct llama_batch *b, const bench_case *c, int n_threads, int times)
{
    double taken = 0;
    for (int i = 0; i < times; i++) {
        llama_memory_clear(llama_get_memory(ctx), true);
        step(ctx, b, c, 0, PROMPT);
        step(ctx, b, c, PROMPT, c->n_tokens); /* the first step of a shape builds the graph */
        int at = PROMPT + c->n_tokens;
        const double begin = now(n_threads);
        for (int k = 0; k < c->n_steps; k++, at += c->n_tokens) step(ctx, b, c, at, c->n_tokens);
        taken += now(n_threads) - begin;
    }
    return taken;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv)
{
    enum { N = sizeof cases / sizeof *cases };
    const int n_threads = argc > 3 ? atoi(argv[3]) : 1, n_rounds = argc > 4 ? atoi(argv[4]) : 9;
    if (argc < 3 || n_threads < 1 || n_rounds < 1 || n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: %s model.gguf libggml-gdn.so [threads [rounds, up to %d [case]]]\n", argv[0],
                MAX_ROUNDS);
        return 2;
    }
    int only = -1; /* the case: its number or its name */
    for (int i = 0; argc > 5 && i < N; i++) {
        char number[12];
        snprintf(number, sizeof number, "%d", i);
        if (!strcmp(argv[5], number) || !strcmp(argv[5], cases[i].name)) only = i;
    }
    if (argc > 5 && only < 0) {
        fprintf(stderr, "bench_llama: the case is '%s'; 0 to %d are allowed, and their names:\n", argv[5], N - 1);
        for (int i = 0; i < N; i++) fprintf(stderr, "  %d %s\n", i, cases[i].name);
        return 2;
    }
    llama_log_set(quiet, NULL);
    ggml_backend_load_all();
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[1], params);
    struct llama_batch b = llama_batch_init(512, 0, 1);
    struct llama_context *without[N], *with[N];
    if (!model) die("the model cannot be loaded");
    for (int i = 0; i < N; i++) without[i] = context(model, &cases[i], n_threads);
    if (!ggml_backend_load(argv[2])) die("the plugin cannot be loaded"); /* contexts created from here on use it */
    for (int i = 0; i < N; i++) with[i] = context(model, &cases[i], n_threads);
    printf("llama.cpp's time without the plugin / with it, %d threads, %d rounds\n", n_threads, n_rounds);
    for (int i = 0; i < N; i++) {
        double quotient[MAX_ROUNDS];
        if (only >= 0 && i != only) continue;
        seconds(with[i], &b, &cases[i], n_threads, 1);
        const double once = seconds(without[i], &b, &cases[i], n_threads, 1);
        const int times = once < 0.1 ? (int)(0.1 / once) + 1 : 1;
        for (int r = 0; r < n_rounds; r++) {
            double a = 0, o = 0;
            if (r % 2 == 0) a = seconds(without[i], &b, &cases[i], n_threads, times);
            o = seconds(with[i], &b, &cases[i], n_threads, times);
            if (r % 2) a = seconds(without[i], &b, &cases[i], n_threads, times);
            quotient[r] = a / o;
        }
        qsort(quotient, (size_t)n_rounds, sizeof *quotient, ascending);
        printf("%-44s %.2fx  (%.2f to %.2f)\n", cases[i].name, quotient[n_rounds / 2], quotient[n_rounds / 4],
               quotient[n_rounds * 3 / 4]);
        fflush(stdout);
    }
    for (int i = 0; i < N; i++) llama_free(without[i]), llama_free(with[i]);
    llama_batch_free(b);
    llama_model_free(model);
    return 0;
}
