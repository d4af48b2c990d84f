/* Compares an unmodified llama.cpp with and without libggml-gdn: a model must give the same tokens.
 *
 *     test_llama model.gguf libggml-gdn.so [FOLDER model.golden]
 *
 * Each scenario runs in a context without the plugin, then in one with it. The second run gets the tokens that the
 * first one chose, so that logits can be compared to the end. A different token is an error unless it is a near-tie:
 * the two logits differ by at most twice the largest difference of their step. Activations are rounded to 8 or 16 bits
 * before most products, so a difference in the last bit may become a rounding step; the bound on logits allows for
 * that.
 *
 * With a golden, whose logits come from unrounded activations (tests/runtime/fixtures/README.md), logits with the
 * plugin may not be farther from it than those without, except for such rounding steps. */
#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden.h"

enum { MAX_SEQS = 4, PROMPT = 70, STEPS = 40 };

typedef struct scenario {
    const char *name;
    int n_seqs, n_ubatch, n_snapshots; /* n_snapshots: tokens that can be rolled back */
    int n_threads;
    bool save; /* halfway the sequences are saved, cleared and restored in reverse order */
    bool fork; /* a second sequence continues a copy of the first */
} scenario;

typedef struct tape { /* result of a run: logits of every step, and chosen tokens */
    float *logits;
    llama_token *tokens;
    size_t n, cap;
} tape;

static int n_vocab;

static void die(const char *what)
{
    fprintf(stderr, "test_llama: %s\n", what);
    exit(1);
}

static void record(tape *t, const float *logits)
{
    if (!logits) die("llama.cpp has no logits");
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 256;
        t->logits = realloc(t->logits, t->cap * (size_t)n_vocab * sizeof(float));
        t->tokens = realloc(t->tokens, t->cap * sizeof(llama_token));
        if (!t->logits || !t->tokens) die("out of memory");
    }
    float *to = t->logits + t->n * (size_t)n_vocab;
    int best = 0;
    for (int i = 0; i < n_vocab; i++) {
        to[i] = logits[i];
        if (to[i] > to[best]) best = i;
    }
    t->tokens[t->n++] = best;
}

static void add(struct llama_batch *b, llama_token token, int position, int seq, bool logits)
{
    const int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = position;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = seq;
    b->logits[i] = logits;
}

static void run_batch(struct llama_context *ctx, struct llama_batch *b, tape *t)
{
    if (llama_decode(ctx, *b)) die("llama_decode failed");
    for (int i = 0; i < b->n_tokens; i++)
        if (b->logits[i]) record(t, llama_get_logits_ith(ctx, i));
    b->n_tokens = 0;
}

static void save_and_restore(struct llama_context *ctx, int n_seqs)
{
    uint8_t *data[MAX_SEQS];
    size_t size[MAX_SEQS];
    for (int s = 0; s < n_seqs; s++) {
        size[s] = llama_state_seq_get_size(ctx, s);
        data[s] = malloc(size[s]);
        if (!data[s] || llama_state_seq_get_data(ctx, data[s], size[s], s) != size[s])
            die("a sequence cannot be saved");
    }
    llama_memory_clear(llama_get_memory(ctx), true);
    for (int s = n_seqs - 1; s >= 0; s--) { /* so that they get other rows */
        if (llama_state_seq_set_data(ctx, data[s], size[s], s) != size[s]) die("a sequence cannot be restored");
        free(data[s]);
    }
}

/* Runs a prompt for each sequence, then steps of one token each. With snapshots each step also tries two wrong tokens
 * and rolls them back. script: the tokens to use; NULL: those chosen here. */
static tape play(struct llama_model *model, const scenario *c, const tape *script)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 512 * MAX_SEQS;
    p.n_batch = 512;
    p.n_ubatch = (uint32_t)c->n_ubatch;
    p.n_seq_max = MAX_SEQS;
    p.n_rs_seq = (uint32_t)c->n_snapshots;
    p.n_threads = p.n_threads_batch = c->n_threads;
    struct llama_context *ctx = llama_init_from_model(model, p);
    if (!ctx) die("llama.cpp makes no context");
    struct llama_batch b = llama_batch_init(512, 0, 1);
    tape t = { 0 };
    int at[MAX_SEQS], last[MAX_SEQS];
    const int first = c->fork ? 1 : c->n_seqs;
    const int n_wrong = llama_n_rs_seq(ctx) ? 2 : 0; /* 0: not supported for this architecture */
    for (int s = 0; s < first; s++)
        for (int i = 0; i < PROMPT; i++)
            add(&b, (llama_token)((s * 131 + i * i * 7 + 11) % (n_vocab / 2)), i, s, i == PROMPT - 1);
    run_batch(ctx, &b, &t);
    for (int s = 0; s < c->n_seqs; s++) {
        at[s] = PROMPT;
        last[s] = s; /* index of its newest token on the tape */
        if (s >= first) {
            llama_memory_seq_cp(llama_get_memory(ctx), 0, s, -1, -1);
            last[s] = 0;
        }
    }
    for (int step = 0; step < STEPS; step++) {
        if (c->save && step == STEPS / 2) save_and_restore(ctx, c->n_seqs);
        int next = (int)t.n;
        for (int s = 0; s < c->n_seqs; s++) {
            llama_token token = script ? script->tokens[last[s]] : t.tokens[last[s]];
            if (c->fork && step == 0) token = (token + s) % n_vocab; /* from here on the sequences differ */
            add(&b, token, at[s]++, s, true);
            last[s] = next++;
            for (int k = 0; k < n_wrong; k++) add(&b, (token + 5 * k + 3) % n_vocab, at[s] + k, s, true), next++;
        }
        run_batch(ctx, &b, &t);
        for (int s = 0; s < c->n_seqs && n_wrong; s++)
            if (!llama_memory_seq_rm(llama_get_memory(ctx), s, at[s], -1)) die("tokens cannot be taken back");
    }
    llama_batch_free(b);
    llama_free(ctx);
    return t;
}

/* Compares the runs; false: a different token that is not a near-tie. */
static bool same(const char *name, const tape *a, const tape *b)
{
    double most = 0, largest = 0;
    size_t ties = 0, wrong = a->n != b->n, far = 0;
    for (size_t i = 0; i < a->n && a->n == b->n; i++) {
        const float *x = a->logits + i * (size_t)n_vocab, *y = b->logits + i * (size_t)n_vocab;
        double here = 0;
        for (int k = 0; k < n_vocab; k++) {
            here = fmax(here, fabs((double)x[k] - y[k]));
            largest = fmax(largest, fabs((double)x[k]));
            wrong += isnan(y[k]);
        }
        most = fmax(most, here);
        far += here > 0.02 * largest;
        if (a->tokens[i] == b->tokens[i]) continue;
        if (x[a->tokens[i]] - x[b->tokens[i]] <= 2 * here) ties++;
        else wrong++;
    }
    const bool good = !wrong && 20 * far <= a->n;
    printf("%-34s %4zu steps, %zu wrong tokens, %zu near-ties, %zu steps far off; at most %.2e of %.1f: %s\n", name,
           a->n, wrong, ties, far, most, largest, good ? "ok" : "FAILED");
    return good;
}

/* ---- A golden ---------------------------------------------------------------------------------------- */

/* Root mean squared difference from the golden's logits. */
static double distance(struct llama_model *model, const gdng_file *g)
{
    const gdng_tensor *tokens = gdng_find(g, "tokens"), *rows = gdng_find(g, "rows"), *logits = gdng_find(g, "logits");
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = 512;
    p.n_threads = p.n_threads_batch = 1;
    struct llama_context *ctx = llama_init_from_model(model, p);
    struct llama_batch b = llama_batch_init(512, 0, 1);
    tape t = { 0 };
    double sum = 0;
    if (!ctx) die("llama.cpp makes no context");
    if (!tokens || !rows || !logits) die("the golden has not all arrays");
    for (int i = 0; i < tokens->dims[0]; i++) { /* half in one batch, half one by one */
        add(&b, ((const int32_t *)tokens->data)[i], i, 0, true);
        if (i + 1 >= tokens->dims[0] / 2) run_batch(ctx, &b, &t);
    }
    for (int r = 0; r < rows->dims[0]; r++) {
        const float *got = t.logits + ((const int32_t *)rows->data)[r] * (size_t)n_vocab,
                    *want = (const float *)logits->data + r * (size_t)n_vocab;
        for (int k = 0; k < n_vocab; k++) sum += ((double)got[k] - want[k]) * ((double)got[k] - want[k]);
    }
    free(t.logits);
    free(t.tokens);
    llama_batch_free(b);
    llama_free(ctx);
    return sqrt(sum / ((double)rows->dims[0] * n_vocab));
}

static const scenario scenarios[] = {
    { "one sequence", 1, 512, 0, 1, false, false },
    { "one sequence, 2 threads", 1, 512, 0, 2, false, false },
    { "prompts in micro-batches of 32", 2, 32, 0, 2, false, false },
    { "four sequences", 4, 512, 0, 2, false, false },
    { "a sequence copied", 3, 512, 0, 2, false, true },
    { "rollback", 1, 512, 3, 1, false, false },
    { "rollback of three", 3, 512, 3, 2, false, false },
    { "saved and restored", 3, 512, 0, 2, true, false },
};

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv)
{
    enum { N = sizeof scenarios / sizeof *scenarios };
    tape alone[N];
    int failed = 0;
    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: %s model.gguf libggml-gdn.so [FOLDER model.golden]\n", argv[0]);
        return 2;
    }
    setenv("GDN_GGML", "all", 0); /* by default also nodes that would not be faster */
    llama_log_set(quiet, NULL);
    ggml_backend_load_all();
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    /* ggml 0.25.3 by itself gives wrong logits for 2 sequences and more with weights in AMX's buffers. */
    params.use_extra_bufts = false;
    struct llama_model *model = llama_model_load_from_file(argv[1], params);
    if (!model) die("the model cannot be loaded");
    n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < N; i++) alone[i] = play(model, &scenarios[i], NULL);
    gdng_file g;
    if (argc == 5) gdng_load(&g, argv[3], argv[4]);
    const double without = argc == 5 ? distance(model, &g) : 0;

    if (!ggml_backend_load(argv[2])) die("the plugin cannot be loaded"); /* contexts created from here on use it */
    for (int i = 0; i < N; i++) {
        tape with = play(model, &scenarios[i], &alone[i]);
        failed += !same(scenarios[i].name, &alone[i], &with);
        free(with.logits);
        free(with.tokens);
        free(alone[i].logits);
        free(alone[i].tokens);
    }
    if (argc == 5) {
        const double with = distance(model, &g);
        const bool good = with <= 1.1 * without;
        printf("from the golden's logits: %.3e with the plugin, %.3e without: %s\n", with, without,
               good ? "ok" : "FAILED");
        failed += !good;
    }
    llama_model_free(model);
    printf("%d of %d scenarios with the tokens of llama.cpp alone\n", N - failed, (int)N);
    return failed != 0;
}
