/* gdn run - text from a hybrid model. See run.h. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "interrupt.h"
#include "output.h"

run_options run_opt;

#define NOT_GIVEN INT64_MIN

static const cli_option option_table[] = {
    { "model", CLI_STRING, &run_opt.model, "FILE",
      "the model, a GGUF file: qwen35, qwen35moe or qwen3next;\n"
      "of one in several files the first",
      'm' },
    { "prompt", CLI_TEXTS, &run_opt.prompt, "TEXT", "a prompt; may be given several times", 'p' },
    { "file", CLI_TEXTS, &run_opt.file, "FILE",
      "a file with a prompt, - is standard input; several times too.\n"
      "Without -p and -f the prompt is read from standard input",
      'f' },
    { "keep-newline", CLI_FLAG, &run_opt.keep_newline, NULL,
      "a line end at the end of a file or of standard input belongs to\n"
      "the prompt (without this option one is taken away)",
      0 },
    { "escape", CLI_FLAG, &run_opt.escape, NULL,
      "in the texts of -p, --system and --stop \\n is a line end; also\n"
      "\\r \\t \\0 \\e \\\\ \\\" \\' and \\xHH",
      'e' },
    { "no-escape", CLI_UNFLAG, &run_opt.escape, NULL, "a backslash is a backslash (default)", 0 },
    { "predict", CLI_INT, &run_opt.n_predict, "N",
      "tokens to generate at most (default 128, in a conversation -1);\n"
      "-1: until the text ends or the context is full",
      'n' },
    { "stop", CLI_TEXTS, &run_opt.stop, "TEXT",
      "end a text where TEXT would begin, which is not printed; may be\n"
      "given several times",
      0 },
    { "chat", CLI_FLAG, &run_opt.chat, NULL,
      "prompts are messages of a user to an assistant, as the model's\n"
      "chat template writes them. Without -p and -f it is a\n"
      "conversation: each line of standard input is a message",
      0 },
    { "chat-template", CLI_STRING, &run_opt.chat_template, "FILE",
      "with --chat: a chat template, in the place of the model's", 0 },
    { "system", CLI_STRING, &run_opt.system, "TEXT", "with --chat: the system message", 0 },
    { "reasoning", CLI_STRING, &run_opt.reasoning, "WAY",
      "with --chat: on or off, where the template has such a switch, or\n"
      "auto (default): as the template does it by itself",
      0 },
    { "save", CLI_STRING, &run_opt.save, "FILE",
      "with --chat: a conversation, of -p and -f too where they are\n"
      "given, that is written to FILE at its end",
      0 },
    { "load", CLI_STRING, &run_opt.load, "FILE", "with --chat: go on with a conversation that was saved", 0 },
    { "parallel", CLI_INT, &run_opt.parallel, "N",
      "sequences at once (default: one per prompt, at most 8). Fewer\n"
      "prompts than N are repeated, with the next seed",
      0 },
    { "spec", CLI_STRING, &run_opt.spec, "KIND",
      "speculation: mtp, ngram, off, or auto (default): mtp where the\n"
      "model can. The text is the same with each",
      0 },
    { "draft-max", CLI_INT, &run_opt.draft_max, "N", "tokens to draft at a time (default 2; at most 64)", 0 },
    { "draft-vocab", CLI_INT, &run_opt.draft_vocab, "N",
      "mtp: choose drafts from the first N tokens of the vocabulary, which are the\n"
      "most frequent ones where it was made by merging pairs: a draft reads N rows of\n"
      "the output matrix. 0: all (default). The text is the same",
      0 },
    { "draft-tree", CLI_STRING, &run_opt.draft_tree, "N",
      "mtp: verify second choices too, in the place of the first N drafts,\n"
      "as a tree; auto: of the first draft, while that measures as faster\n"
      "than not to; off (default). Needs the rollback log. The text is the\n"
      "same with each",
      0 },
    { "rollback", CLI_STRING, &run_opt.rollback, "WAY",
      "how drafts that were not accepted are taken back: log (default)\n"
      "repeats from an earlier state what each token did; snapshots has a\n"
      "state for each draft, and memory for them. The text is the same",
      0 },
    { "p-min", CLI_DOUBLE, &run_opt.p_min, "P", "mtp: end a draft at a token less likely than this (default 0)", 0 },
    { "always-draft", CLI_FLAG, &run_opt.always_draft, NULL, "draft even while it measures as slower than not to", 0 },
    { "temp", CLI_DOUBLE, &run_opt.temperature, "T", "temperature; 0 takes the likeliest token (default 0)", 0 },
    { "top-k", CLI_INT, &run_opt.top_k, "K", "draw among the K likeliest tokens; 0 = all (default 0)", 0 },
    { "top-p", CLI_DOUBLE, &run_opt.top_p, "P", "... that together have probability P (default 1)", 0 },
    { "min-p", CLI_DOUBLE, &run_opt.min_p, "P", "... each at least P times as likely as the likeliest (default 0)", 0 },
    { "repeat-penalty", CLI_DOUBLE, &run_opt.repeat_penalty, "X", "tokens seen lately are less likely (default 1: off)",
      0 },
    { "repeat-last", CLI_INT, &run_opt.repeat_last, "N", "how many tokens back that looks (default 64)", 0 },
    { "seed", CLI_UINT64, &run_opt.seed, "N", "seed of what is drawn (default 1)", 's' },
    { "ignore-end", CLI_FLAG, &run_opt.ignore_end, NULL, "go on after the model's end-of-text token", 0 },
    { "special", CLI_FLAG, &run_opt.raw, NULL, "special tokens may be written in prompts, and are printed", 0 },
    { "ctx", CLI_INT, &run_opt.context, "N", "tokens that one sequence can hold (default: the model's, at most 4096)",
      'c' },
    { "cells", CLI_INT, &run_opt.cells, "N",
      "KV cells of all sequences together, at least --ctx (default:\n"
      "--ctx for each of --parallel). Where they run out, the request that\n"
      "started last waits, and is read again later",
      0 },
    { "prefix-cache", CLI_INT, &run_opt.prefix_mib, "MIB",
      "keep states of prompts that were read, and start from them where\n"
      "another prompt begins alike. MIB are for states and histories, of\n"
      "which each kept prefix takes one; KV cells are --cells' (default 0:\n"
      "none are kept)",
      0 },
    { "prefix-interval", CLI_INT, &run_opt.prefix_interval, "N",
      "... every N tokens of a prompt and its text (default 256)", 0 },
    { "batch", CLI_INT, &run_opt.batch, "N", "most rows of one micro-batch (default 512)", 'b' },
    { "step", CLI_INT, &run_opt.step_rows, "N", "token budget of one step of all requests (default: as --batch)", 0 },
    { "kv", CLI_STRING, &run_opt.kv, "TYPE", "cells of attention: f16 (default), bf16 or f32", 0 },
    { "threads", CLI_INT, &run_opt.threads, "N", "threads (default: one per processor)", 't' },
    { "backend", CLI_STRING, &run_opt.backend, "NAME",
      "where the recurrent kernels run and states live: cpu (default),\n"
      "vulkan, cuda, metal, reference. Attention and its cells, and so\n"
      "set_rows, are on the host with each of them",
      0 },
    { "device", CLI_INT, &run_opt.device, "N", "which device of the backend (default 0)", 0 },
    { "impl", CLI_STRING, &run_opt.implementation, "NAME", "which implementation of the device; see gdn info", 0 },
    { "level", CLI_STRING, &run_opt.level, "NAME",
      "exact (default), or exact_ftz: the recurrent kernels flush subnormal\n"
      "numbers to zero, as a device that cannot keep them does. Everything\n"
      "else computes as before",
      0 },
    { "isa", CLI_STRING, &run_opt.isa, "NAME", "instruction set of the dense kernels: avx512, avx2, scalar", 0 },
    { "memory", CLI_INT, &run_opt.memory_mib, "MIB", "refuse to use more than this (default: what is free)", 0 },
    { "stats", CLI_FLAG, &run_opt.stats, NULL, "speed, acceptance and memory, on standard error", 0 },
    { "json", CLI_FLAG, &run_opt.json, NULL, "texts, tokens and statistics as JSON on standard output", 0 },
    { "bench", CLI_FLAG, &run_opt.bench, NULL, "measure instead: speed at several widths, with and without drafts", 0 },
    { "widths", CLI_LIST, &run_opt.widths, "LIST", "with --bench: sequences at once (default 1,2,5,8)", 0 },
    { "bench-prompt", CLI_INT, &run_opt.bench_prompt, "N", "with --bench: tokens of each prompt (default 128)", 0 },
    { "depth", CLI_INT, &run_opt.depth, "N",
      "with --bench: also measure steps after so many tokens of one\n"
      "sequence, 16384, say; they are read first, which takes its time",
      0 },
    { 0 },
};

const cli_command run_command = {
    "gdn run", "generate text with a hybrid model from a GGUF file", option_table,
    "Text goes to standard output as it is generated, everything else to standard error. Several texts come\n"
    "one after another, each below a line '==> 2: In the beginning <==' with its number and its prompt or\n"
    "file; as texts may hold such lines too, programs want --json.\n"
    "\n"
    "A conversation (--chat) is read line by line; one that ends with \\ goes on in the next. /clear begins\n"
    "anew, /exit ends it. Its JSON has \"turns\". A chat template is followed to the letter, or refused.\n"
    "\n"
    "A text ends at the model's end token, at a stop string, after -n tokens, or when the context is full, of\n"
    "which standard error tells. --json has it as \"finish\": stop, string, length, context, or cancelled after\n"
    "Ctrl-C. There \"text\" ends before the stop string, and \"tokens\" with the token that completed it.\n"
    "\n"
    "The tokens depend on the model, the prompt, the sampler, the seed and --ctx alone: not on --parallel,\n"
    "--cells, --prefix-cache, --spec, --rollback, --batch, --threads, --isa or --backend. Prompts of files\n"
    "end at 64 MiB.\n"
    "\n"
    "Exit status: 0 success; 1 failure, also when the output cannot be written; 2 wrong command line; 130 after\n"
    "Ctrl-C and 143 after SIGTERM: a first one ends the texts where they are, a second one the program.",
};

/* ---- The command line ---- */

static const struct {
    const char *name;
    rt_spec spec;
} specs[] = { { "off", RT_SPEC_OFF }, { "mtp", RT_SPEC_MTP }, { "ngram", RT_SPEC_NGRAM } };

static int in_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return 1;
    cli_error(&run_command, "--%s is %lld; %lld to %lld are allowed", name, (long long)value, (long long)low,
              (long long)high);
    return 0;
}

static void set_defaults(void)
{
    memset(&run_opt, 0, sizeof run_opt);
    run_opt.spec        = "auto";
    run_opt.backend     = "cpu";
    run_opt.kv          = "f16";
    run_opt.n_predict   = NOT_GIVEN;
    run_opt.reasoning   = "auto";
    run_opt.draft_max   = 2;
    run_opt.batch       = 512;
    run_opt.top_p       = 1;
    run_opt.repeat_penalty = 1;
    run_opt.repeat_last = 64;
    run_opt.seed        = 1;
    run_opt.bench_prompt = 128;
    run_opt.prefix_interval = RT_PREFIX_INTERVAL;
}

rt_sampling run_sampling(uint64_t seed)
{
    const rt_sampling s = { (float)run_opt.temperature,
                            (int32_t)run_opt.top_k,
                            (float)run_opt.top_p,
                            (float)run_opt.min_p,
                            (float)run_opt.repeat_penalty,
                            (int32_t)run_opt.repeat_last,
                            seed };
    return s;
}

/* With --chat: is it a conversation, rather than a message for each of -p and -f? */
static int talks(void)
{
    return run_opt.chat && !run_opt.bench &&
           (run_opt.save || run_opt.load || (!run_opt.prompt.n && !run_opt.file.n));
}

static int check_talk(void);

/* --draft-tree; -1 where it is nothing that it may be. auto is 1. */
static int32_t tree_of(const char *text)
{
    char *end;
    if (!text || !strcmp(text, "off"))
        return 0;
    if (!strcmp(text, "auto"))
        return 1;
    const long n = strtol(text, &end, 10);
    return end != text && !*end && n >= 1 && n <= run_opt.draft_max ? (int32_t)n : -1;
}

/* 0 where all is well; otherwise what is wrong was printed. */
static int check_options(void)
{
    const int64_t big = 1 << 26;
    if (!run_opt.model)
        return cli_error(&run_command, "which model? -m FILE");
    int known = !strcmp(run_opt.spec, "auto");
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        known |= !strcmp(run_opt.spec, specs[i].name);
    if (!known)
        return cli_error(&run_command, "--spec is '%s'; mtp, ngram, off and auto are allowed", run_opt.spec);
    if (run_opt.rollback && strcmp(run_opt.rollback, "log") != 0 && strcmp(run_opt.rollback, "snapshots") != 0)
        return cli_error(&run_command, "--rollback is '%s'; log and snapshots are allowed", run_opt.rollback);
    if (run_opt.draft_tree && strcmp(run_opt.draft_tree, "off") != 0 && (run_opt.bench || talks()))
        return cli_error(&run_command, "--draft-tree is for texts, not for %s",
                         run_opt.bench ? "--bench" : "conversations");
    if (run_opt.n_predict == NOT_GIVEN)
        run_opt.n_predict = talks() ? -1 : 128;
    if (run_opt.n_predict != -1 && !in_range("predict", run_opt.n_predict, 1, big))
        return 2;
    if (run_opt.n_predict == -1 && run_opt.bench)
        return cli_error(&run_command, "--predict is -1; --bench wants a number of tokens");
    if (!in_range("parallel", run_opt.parallel, 0, 1024) || !in_range("draft-max", run_opt.draft_max, 1, 64) ||
        !in_range("draft-vocab", run_opt.draft_vocab, 0, big) ||
        !in_range("threads", run_opt.threads, 0, 1024) || !in_range("ctx", run_opt.context, 0, big) ||
        !in_range("cells", run_opt.cells, 0, big) || !in_range("batch", run_opt.batch, 1, 65536) ||
        !in_range("step", run_opt.step_rows, 0, 65536) || !in_range("top-k", run_opt.top_k, 0, big) ||
        !in_range("repeat-last", run_opt.repeat_last, 0, big) || !in_range("device", run_opt.device, 0, 1024) ||
        !in_range("memory", run_opt.memory_mib, 0, INT64_C(1) << 40) ||
        !in_range("prefix-cache", run_opt.prefix_mib, 0, INT64_C(1) << 40) ||
        !in_range("prefix-interval", run_opt.prefix_interval, 1, big) ||
        !in_range("bench-prompt", run_opt.bench_prompt, 1, big) || !in_range("depth", run_opt.depth, 0, big / 2))
        return 2;
    if (tree_of(run_opt.draft_tree) < 0)
        return cli_error(&run_command, "--draft-tree is '%s'; off, auto and 1 to %lld (--draft-max) are allowed",
                         run_opt.draft_tree, (long long)run_opt.draft_max);
    const rt_sampling s = run_sampling(run_opt.seed);
    if (rt_sampling_check(&s))
        return cli_error(&run_command, "%s", rt_last_error());
    if (run_opt.bench && run_opt.prefix_mib)
        return cli_error(&run_command, "--bench measures how fast prompts are read; --prefix-cache is for texts");
    const char *const needs = run_opt.system                      ? "system"
                              : run_opt.chat_template             ? "chat-template"
                              : strcmp(run_opt.reasoning, "auto") ? "reasoning"
                              : run_opt.save                      ? "save"
                              : run_opt.load                      ? "load"
                                                                  : NULL;
    if (needs && !run_opt.chat)
        return cli_error(&run_command, "--%s needs --chat", needs);
    if (strcmp(run_opt.reasoning, "auto") && strcmp(run_opt.reasoning, "on") && strcmp(run_opt.reasoning, "off"))
        return cli_error(&run_command, "--reasoning is '%s'; on, off and auto are allowed", run_opt.reasoning);
    return talks() ? check_talk() : 0;
}

/* Of a conversation. */
static int check_talk(void)
{
    if (run_opt.load && run_opt.system)
        return cli_error(&run_command, "--system: the conversation of --load has its own");
    if (run_opt.prefix_mib)
        return cli_error(&run_command, "--prefix-cache is for texts; a conversation keeps what it has read");
    if (run_opt.parallel > 1)
        return cli_error(&run_command, "--parallel is %lld; a conversation is one sequence",
                         (long long)run_opt.parallel);
    if (run_opt.stop.n || run_opt.raw)
        return cli_error(&run_command, "--%s is for texts, not for conversations", run_opt.stop.n ? "stop" : "special");
    return 0;
}

/* ---- Generating ---- */

typedef struct generation {
    const run_session *session;
    const run_prompt  *prompts;
    run_request       *requests;
    int32_t            n;
    run_output        *output;
    progress_bar       bar;
    int64_t            total, read, drawn; /* tokens: to come at most; of prompts that were read; that were generated */
    int                counts_drawn;       /* progress goes on while text is written, as nobody sees the text         */
    int                trouble;            /* RUN_LOST, RUN_NO_MEMORY                                                 */
    int                broken;             /* the model computes no numbers for a request                             */
} generation;

static int on_token(void *user, int32_t request, int32_t token)
{
    generation *g = user;
    g->drawn++;
    if (g->counts_drawn)
        progress_to(&g->bar, g->read + g->drawn, "tokens read and generated");
    else if (output_is_terminal())
        progress_clear(&g->bar);
    else
        progress_end(&g->bar); /* one file for text and errors: no line of ours stands within the text */
    const int end = run_output_token(g->output, request, token);
    if (end == RUN_STRING)
        g->requests[request].string = 1;
    else if (end)
        g->trouble = end;
    return end || interrupt_noted();
}

static void on_prompt(void *user, int32_t request, int32_t done, int32_t total)
{
    generation *g = user;
    (void)total;
    g->read += done - g->requests[request].n_read;
    g->requests[request].n_read = done;
    progress_to(&g->bar, g->read + (g->counts_drawn ? g->drawn : 0),
                g->counts_drawn ? "tokens read and generated" : "tokens of prompts");
}

/* Request i: prompt i modulo their number; where they are repeated, with the next seed. */
static int submit(rt_scheduler *scheduler, generation *g, int32_t i, int32_t n_prompts)
{
    run_request      *q      = &g->requests[i];
    q->prompt = i % n_prompts;
    q->seed   = run_opt.seed + (uint64_t)(i / n_prompts);
    const run_prompt *prompt = &g->prompts[q->prompt];
    const int32_t     room   = g->session->context - prompt->n_tokens;
    if (room < 1) {
        (void)fprintf(
            stderr,
            "gdn run: prompt %d has %d tokens; the context holds %d (--ctx), and one must be left to generate\n",
            (int)q->prompt + 1, (int)prompt->n_tokens, (int)g->session->context);
        return 1;
    }
    q->n_max = run_opt.n_predict < 0 || run_opt.n_predict > room ? room : (int32_t)run_opt.n_predict;
    rt_request r = { 0 };
    int32_t    id;
    r.prompt     = prompt->token;
    r.n_prompt   = prompt->n_tokens;
    r.n_max      = run_opt.n_predict < 0 ? INT32_MAX : (int32_t)run_opt.n_predict;
    r.sampling   = run_sampling(q->seed);
    r.ignore_end = run_opt.ignore_end;
    r.on_token   = on_token;
    r.on_prompt  = on_prompt;
    r.user       = g;
    g->total += prompt->n_tokens + (g->counts_drawn ? q->n_max : 0);
    if (!rt_submit(scheduler, &r, &id))
        return 0;
    (void)fprintf(stderr, "gdn run: prompt %d: %s\n", (int)q->prompt + 1, rt_last_error());
    return 1;
}

/* Step by step until all requests have ended; nonzero where decoding failed. */
static int work(rt_scheduler *scheduler, generation *g)
{
    for (int busy = 1; busy;) {
        if (rt_step_run(scheduler, &busy)) {
            progress_end(&g->bar);
            return run_fail("decoding");
        }
        for (int32_t i = 0; i < g->n; i++) {
            rt_result r;
            if (interrupt_noted() || g->trouble)
                (void)rt_cancel(scheduler, i);
            if (!g->requests[i].ended && !rt_result_get(scheduler, i, &r) && r.finish != RT_FINISH_NONE) {
                g->requests[i].ended = 1;
                const int lost = run_output_end(g->output, i);
                if (lost && !g->trouble)
                    g->trouble = lost;
                if (r.finish == RT_FINISH_FAILED) {
                    progress_clear(&g->bar);
                    (void)fprintf(stderr, "gdn run: prompt %d: %s\n", (int)g->requests[i].prompt + 1, r.error);
                    g->broken = 1;
                }
            }
        }
    }
    return 0;
}

/* A text that is cut looks like one that is finished. */
static void tell_full(const rt_scheduler *scheduler, const generation *g)
{
    for (int32_t i = 0; i < g->n; i++) {
        char number[24] = "";
        if (strcmp(run_finish_name(scheduler, g->requests, i), "context") != 0)
            continue;
        if (g->n > 1)
            (void)snprintf(number, sizeof number, "text %d ", (int)i + 1);
        (void)fprintf(stderr, "gdn run: %sstopped: the context of %d tokens is full (--ctx)\n", number,
                      (int)g->session->context);
    }
}

static int generate(run_session *s, const run_prompt *prompts, int32_t n_prompts)
{
    const rt_scheduler_desc desc = { s->engine,
                                     s->tokenizer,
                                     s->n_seqs,
                                     (int32_t)run_opt.step_rows,
                                     s->spec,
                                     s->spec == RT_SPEC_OFF ? 0 : (int32_t)run_opt.draft_max,
                                     (float)run_opt.p_min,
                                     run_opt.always_draft,
                                     s->tree,
                                     s->tree_pays };
    rt_scheduler *scheduler = NULL;
    generation    g = { .session = s, .prompts = prompts, .n = n_prompts > s->n_seqs ? n_prompts : s->n_seqs };
    g.requests     = calloc((size_t)g.n, sizeof *g.requests);
    g.output       = g.requests ? run_output_create(s, prompts, g.requests, g.n, !run_opt.json) : NULL;
    g.counts_drawn = run_opt.json || (!output_is_terminal() && !output_is_errors());
    int code = 0;
    if (!g.output)
        g.trouble = RUN_NO_MEMORY;
    else if (rt_scheduler_create(&desc, &scheduler))
        code = run_fail("the scheduler");
    for (int32_t i = 0; scheduler && !code && i < g.n; i++)
        code = submit(scheduler, &g, i, n_prompts);
    if (scheduler && !code) {
        progress_begin(&g.bar, g.total);
        interrupt_catch(); /* ends between tokens, with the statistics */
        const double begin = run_now();
        code = work(scheduler, &g);
        const double seconds = run_now() - begin;
        progress_end(&g.bar);
        if (!code && !g.trouble && run_opt.json)
            code = !run_print_json(s, scheduler, prompts, g.requests, g.n, g.output, seconds);
        if (!code && !g.trouble && !run_opt.json)
            tell_full(scheduler, &g);
        if (!code && !g.trouble && run_opt.stats)
            run_print_stats(s, scheduler, g.n, seconds);
    }
    if (g.trouble == RUN_NO_MEMORY)
        (void)fprintf(stderr, "gdn run: out of memory\n");
    if (!code && g.broken)
        code = 1;
    if (g.trouble) /* of what was lost, the end of the program tells */
        code = 1;
    rt_scheduler_destroy(scheduler);
    run_output_destroy(g.output);
    free(g.requests);
    return code;
}

static int32_t sequences(int32_t n_prompts)
{
    if (run_opt.parallel)
        return (int32_t)run_opt.parallel;
    return n_prompts < 8 ? n_prompts : 8;
}

static int choose_spec(run_session *s)
{
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        if (!strcmp(run_opt.spec, specs[i].name))
            s->spec = specs[i].spec;
    if (!strcmp(run_opt.spec, "auto"))
        s->spec = s->model->hp.n_mtp ? RT_SPEC_MTP : RT_SPEC_OFF;
    s->tree      = tree_of(run_opt.draft_tree);
    s->tree_pays = run_opt.draft_tree && !strcmp(run_opt.draft_tree, "auto");
    const int can = s->spec == RT_SPEC_MTP && s->rollback == RT_ROLLBACK_LOG;
    if (s->tree && !s->tree_pays && !can)
        return cli_error(&run_command, "--draft-tree %s needs %s", run_opt.draft_tree,
                         s->spec == RT_SPEC_MTP ? "--rollback log" : "drafts of the model's MTP block (--spec mtp)");
    s->tree = can ? s->tree : 0;
    if (s->spec != RT_SPEC_MTP || s->model->hp.n_mtp)
        return 0;
    (void)fprintf(stderr, "gdn run: %s has no MTP block to draft with; --spec ngram needs none\n", run_opt.model);
    return 1;
}

int gdn_run_main(int argc, char **argv)
{
    set_defaults();
    const int cli = cli_parse(&run_command, argc, argv);
    if (cli != CLI_RUN)
        return cli_exit_code(cli);
    int code = check_options();
    if (code)
        return code;
    run_session session = { 0 };
    run_prompt *prompts = NULL;
    int32_t     n_prompts = 0;
    session.talks = talks();
    session.rollback =
        run_opt.rollback && !strcmp(run_opt.rollback, "snapshots") ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG;
    code = run_read_texts(&session);
    if (!code)
        code = run_load_model(&session);
    if (!code)
        code = choose_spec(&session);
    if (!code && run_opt.bench) {
        code = run_bench(&session);
    } else if (!code) {
        if (!session.talks || run_opt.prompt.n || run_opt.file.n)
            code = run_read_prompts(&session, &prompts, &n_prompts);
        if (!code)
            code = run_open_engine(&session, session.talks ? 2 : sequences(n_prompts), session.spec, session.rollback,
                                   &session.engine);
        if (!code)
            code = session.talks ? run_talk(&session, prompts, n_prompts) : generate(&session, prompts, n_prompts);
    }
    run_free_prompts(prompts, n_prompts);
    run_close(&session);
    return interrupt_noted() ? interrupt_end(output_end("gdn", code)) : code;
}
