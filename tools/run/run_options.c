/* The command line of `gdn run`: options, checks, and sampling parameters. See run.h. */
#include <string.h>
#include <time.h>

#include "system/machine.h"
#include "tools/run/run.h"
#include "tools/cli/target.h"
#include "runtime/decode/sampling_defaults.h"

run_options run_opt;

enum { PERPLEXITY_WINDOW = 512, PERPLEXITY_LEAST = 8 }; /* tokens of a window: the default, and the fewest allowed */

static const cli_option option_table[] = {
    { "model", CLI_STRING, &run_opt.model, "FILE",
      "the model, a GGUF file (qwen35, qwen35moe, qwen3next); of a\n"
      "model in several files the first",
      'm' },
    { "prompt", CLI_TEXTS, &run_opt.prompt, "TEXT", "a prompt; may be given several times", 'p' },
    { "file", CLI_TEXTS, &run_opt.file, "FILE",
      "a file with a prompt; - is standard input. May be given several\n"
      "times. Without -p and -f the prompt is read from standard input",
      'f' },
    { "keep-newline", CLI_FLAG, &run_opt.keep_newline, NULL,
      "keep the newline at the end of a file or of standard input;\n"
      "without this option it is removed",
      0 },
    { "escape", CLI_FLAG, &run_opt.escape, NULL,
      "in -p, --system and --stop, replace \\n by a newline; also\n"
      "\\r \\t \\0 \\e \\\\ \\\" \\' and \\xHH",
      'e' },
    { "no-escape", CLI_UNFLAG, &run_opt.escape, NULL, "keep backslashes (default)", 0 },
    { "predict", CLI_INT, &run_opt.n_predict, "N",
      "most tokens to generate (default 128; with --chat a quarter of\n"
      "--ctx); -1: until the text ends or the context is full",
      'n' },
    { "stop", CLI_TEXTS, &run_opt.stop, "TEXT", "end the output before TEXT; may be given several times", 0 },
    { "chat", CLI_FLAG, &run_opt.chat, NULL,
      "prompts are user messages, formatted with the model's chat\n"
      "template. Without -p and -f: a conversation, one message per\n"
      "line of standard input",
      0 },
    { "chat-template", CLI_STRING, &run_opt.chat_template, "FILE",
      "with --chat: use this chat template instead of the model's", 0 },
    { "chat-template-kwargs", CLI_STRING, &run_opt.chat_template_kwargs, "JSON",
      "with --chat: an object of variables for the chat template, as in\n"
      "'{\"reasoning_effort\": \"low\"}'. --reasoning sets its enable_thinking",
      0 },
    { "system", CLI_STRING, &run_opt.system, "TEXT", "with --chat: the system message", 0 },
    { "reasoning", CLI_STRING, &run_opt.reasoning, "WAY",
      "with --chat: on or off, if the template can begin answers so;\n"
      "auto (default): the template's own default",
      0 },
    { "save", CLI_STRING, &run_opt.save, "FILE", "with --chat: write the conversation to FILE at its end", 0 },
    { "load", CLI_STRING, &run_opt.load, "FILE", "with --chat: continue a saved conversation", 0 },
    { "json-schema", CLI_STRING, &run_opt.json_schema, "FILE",
      "generate JSON that is valid under the JSON schema in FILE;\n"
      "{\"type\": \"object\"} is any object",
      0 },
    { "parallel", CLI_INT, &run_opt.parallel, "N",
      "sequences at once (default: one per prompt, at most 8). Fewer\n"
      "prompts than N are repeated with the next seed",
      0 },
    { "spec", CLI_STRING, &run_opt.spec, "KIND",
      "speculative decoding: mtp, ngram, off, or auto (default): mtp if\n"
      "the model supports it. It does not change the text",
      0 },
    { "draft-model", CLI_STRING, &run_opt.draft_model, "FILE",
      "mtp: a GGUF file with the model's MTP block only, as llama.cpp's\n"
      "converter writes it with --mtp",
      0 },
    { "draft-max", CLI_INT, &run_opt.draft_max, "N", "most draft tokens per step (default 2; at most 64)", 0 },
    { "draft-vocab", CLI_INT, &run_opt.draft_vocab, "N",
      "mtp: draft only the first N tokens of the vocabulary, often the\n"
      "most frequent ones. It reads fewer rows of the output matrix.\n"
      "0: all (default). It does not change the text",
      0 },
    { "rollback", CLI_STRING, &run_opt.rollback, "WAY",
      "how rejected drafts are undone: log (default) recomputes the\n"
      "state from an earlier one; snapshots keeps a state per draft,\n"
      "which takes more memory. It does not change the text",
      0 },
    { "p-min", CLI_DOUBLE, &run_opt.p_min, "P", "mtp: stop drafting at a token less likely than P (default 0)", 0 },
    { "always-draft", CLI_FLAG, &run_opt.always_draft, NULL, "draft even while it is slower", 0 },
    { "temp", CLI_DOUBLE, &run_opt.temperature, "T",
      "temperature; 0: the most likely token (default 0). With --chat\n"
      "the defaults of the sampling options are the model file's, or\n"
      "temperature 0.8, top-k 40, top-p 0.95, min-p 0.05",
      0 },
    { "top-k", CLI_INT, &run_opt.top_k, "K", "sample among the K most likely tokens; 0: all (default 0)", 0 },
    { "top-p", CLI_DOUBLE, &run_opt.top_p, "P", "... whose probabilities sum to P (default 1)", 0 },
    { "min-p", CLI_DOUBLE, &run_opt.min_p, "P",
      "... each at least P times as likely as the most likely\n"
      "(default 0)",
      0 },
    { "repeat-penalty", CLI_DOUBLE, &run_opt.repeat_penalty, "X",
      "penalty for recent tokens, 1e-6 to 100 (default 1: off)", 0 },
    { "presence-penalty", CLI_DOUBLE, &run_opt.presence_penalty, "X",
      "subtract X from the logits of recent tokens (default 0)", 0 },
    { "frequency-penalty", CLI_DOUBLE, &run_opt.frequency_penalty, "X", "... and X for each occurrence (default 0)",
      0 },
    { "repeat-last", CLI_INT, &run_opt.repeat_last, "N", "how many tokens count as recent (default 64)", 0 },
    { "seed", CLI_STRING, &run_opt.seed_text, "N",
      "seed of sampling (default 1); -1: a random one, which is printed\n"
      "to standard error",
      's' },
    { "ignore-end", CLI_FLAG, &run_opt.ignore_end, NULL, "continue after the model's end-of-text token", 0 },
    { "special", CLI_FLAG, &run_opt.raw, NULL, "parse special tokens in prompts, and print them", 0 },
    { "ctx", CLI_INT, &run_opt.context, "N", "context size in tokens (default: the model's, at most 4096)", 'c' },
    { "cells", CLI_INT, &run_opt.cells, "N",
      "KV cells of all sequences together, at least --ctx (default:\n"
      "--ctx for each of --parallel). If they run out, the request that\n"
      "started last is preempted and decoded again later",
      0 },
    { "prefix-cache", CLI_INT, &run_opt.prefix_mib, "MIB",
      "reuse the states of prompts that begin alike. MIB is memory for\n"
      "states and convolution histories, one per cached prefix; KV cells\n"
      "are those of --cells (default 0: no cache)",
      0 },
    { "prefix-interval", CLI_INT, &run_opt.prefix_interval, "N",
      "... with a checkpoint every N tokens (default 256), and in chats\n"
      "after the system message, the last user's message and the answer",
      0 },
    { "prefix-file", CLI_STRING, &run_opt.prefix_file, "FILE",
      "... and keep them in FILE, of at most the MIB of --prefix-cache:\n"
      "read at the start and replaced at the end",
      0 },
    { "batch", CLI_INT, &run_opt.batch, "N", "most rows of a micro-batch (default 512)", 'b' },
    { "step", CLI_INT, &run_opt.step_rows, "N", "token budget of a step of all requests (default: --batch)", 0 },
    { "kv", CLI_STRING, &run_opt.kv, "TYPE",
      "type of KV cells: f16 (default), bf16, f32, or q8_0, which takes\n"
      "half the memory of f16 and rounds more",
      0 },
    { "form", CLI_STRING, &run_opt.form, "NAME",
      "numerical form of gated_delta_net: recurrence (default), chunked\n"
      "(3 digits) or chunked2 (2 digits). It changes the text",
      0 },
    { "threads", CLI_INT, &run_opt.threads, "N", "threads (default: one per processor)", 't' },
    { "backend", CLI_STRING, &run_opt.backend, "NAME",
      "backend of the recurrent kernels and states: cpu (default),\n"
      "vulkan, cuda, metal, reference. Attention and its cache are on\n"
      "the host with each of them",
      0 },
    { "device", CLI_INT, &run_opt.device, "N", "number of the backend's device (default 0)", 0 },
    { "impl", CLI_STRING, &run_opt.implementation, "NAME", "implementation of the device; see gdn info", 0 },
    { "level", CLI_STRING, &run_opt.level, "NAME",
      "exact (default), or exact_ftz: the recurrent kernels flush\n"
      "subnormal numbers to zero, as some devices do",
      0 },
    { "isa", CLI_STRING, &run_opt.isa, "NAME",
      "instruction set of the dense kernels:\navx512_vnni, avx512, avx2, neon, scalar", 0 },
    { "memory", CLI_INT, &run_opt.memory_mib, "MIB", "limit of memory (default: what is free)", 0 },
    { "stats", CLI_FLAG, &run_opt.stats, NULL, "print speed, acceptance and memory to standard error", 0 },
    { "json", CLI_FLAG, &run_opt.json, NULL, "print texts, tokens and statistics as JSON", 0 },
    { "bench", CLI_FLAG, &run_opt.bench, NULL, "measure speed by number of sequences, with and without drafts", 0 },
    { "perplexity", CLI_STRING, &run_opt.perplexity, "FILE",
      "print the perplexity of the text in FILE (- is standard input),\n"
      "by windows of --ctx tokens (default 512), as llama-perplexity\n"
      "does: the second half of each is scored",
      0 },
    { "widths", CLI_LIST, &run_opt.widths, "LIST", "with --bench: numbers of sequences (default 1,2,5,8)", 0 },
    { "bench-prompt", CLI_INT, &run_opt.bench_prompt, "N", "with --bench: tokens of each prompt (default 128)", 0 },
    { 0 },
};

const cli_command run_command = {
    "gdn run",
    "generate text with a hybrid model from a GGUF file",
    option_table,
    "Generated text goes to standard output, everything else to standard error. Several texts are printed one\n"
    "after another, each after a line '==> 2: In the beginning <==' with its number and its prompt or file. A\n"
    "text may contain such a line, so programs should use --json.\n"
    "\n"
    "A conversation (--chat) reads one message per line; a line that ends with \\ continues on the next, and several\n"
    "lines that are pasted at a terminal are one message. /clear resets it, /exit ends it, /help lists the commands.\n"
    "Its JSON has \"turns\".\n"
    "\n"
    "A text ends at the model's end token, at a stop string, after -n tokens, or when the context is full. The\n"
    "JSON has the reason as \"finish\": stop, string, length, context, or cancelled after Ctrl-C. \"text\" ends\n"
    "before the stop string, \"tokens\" after the token that completed it.\n"
    "\n"
    "The tokens depend only on the model, the prompt, the sampling options, the seed, --ctx, --kv and --form (and on\n"
    "the date, where a chat template writes it). They do not depend on --parallel, --cells, --prefix-cache, --spec, "
    "--rollback, --batch, --threads, --isa or --backend.\n"
    "A prompt has at most 64 MiB.\n"
    "\n"
    "Exit status: 0 success; 1 failure, also if the output cannot be written; 2 wrong command line; 130 after\n"
    "Ctrl-C, 143 after SIGTERM, 129 after SIGHUP. The first signal ends the texts, a second Ctrl-C or SIGTERM the\n"
    "program.",
    "model,prompt,file,predict,chat,system,temp,seed,ctx,threads,backend,json",
    run_foreign,
};

const cli_command *run_caller = &run_command;

/* ---- The command line ---- */

static const struct {
    const char *name;
    rt_spec spec;
} specs[] = { { "off", RT_SPEC_OFF }, { "mtp", RT_SPEC_MTP }, { "ngram", RT_SPEC_NGRAM } };

int run_spec_named(const char *name, rt_spec *spec)
{
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        if (!strcmp(name, specs[i].name)) {
            *spec = specs[i].spec;
            return 1;
        }
    return 0;
}

rt_rollback run_rollback(void)
{
    return run_opt.rollback && !strcmp(run_opt.rollback, "snapshots") ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG;
}

int32_t run_digits(void) { return !strcmp(run_opt.form, "recurrence") ? 0 : !strcmp(run_opt.form, "chunked2") ? 2 : 3; }

int run_in_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high) return 1;
    cli_error(run_caller, "--%s is %lld; %lld to %lld are allowed", name, (long long)value, (long long)low,
              (long long)high);
    return 0;
}

void run_set_defaults(void)
{
    memset(&run_opt, 0, sizeof run_opt);
    run_opt.spec = "auto";
    run_opt.backend = "cpu";
    run_opt.kv = "f16";
    run_opt.form = "recurrence";
    run_opt.n_predict = RUN_NOT_GIVEN;
    run_opt.reasoning = "auto";
    run_opt.draft_max = 2;
    run_opt.batch = 512;
    run_opt.top_p = 1;
    run_opt.repeat_penalty = 1;
    run_opt.repeat_last = 64;
    run_opt.seed = 1;
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
                            seed,
                            (float)run_opt.presence_penalty,
                            (float)run_opt.frequency_penalty };
    return s;
}

/* True for a conversation (with --chat), false for one message per -p and -f. */
int run_talks(void)
{
    return run_opt.chat && !run_opt.bench && (run_opt.save || run_opt.load || (!run_opt.prompt.n && !run_opt.file.n));
}

static int check_talk(void);
static int check_effects(void);

/* Parses --seed. A random seed has 32 bits, so that it is easy to retype. */
static int parse_seed(void)
{
    if (!run_opt.seed_text) return 1;
    if (strcmp(run_opt.seed_text, "-1") != 0) return cli_parse_uint64(run_opt.seed_text, &run_opt.seed);
    uint32_t drawn = (uint32_t)time(NULL) ^ (uint32_t)clock() * 2654435761U;
    (void)machine_random(&drawn, sizeof drawn); /* else the time has to do */
    run_opt.seed = drawn;
    run_opt.random_seed = 1;
    return 1;
}

/* Checks --form, and refuses options that do not go with the chunked form. */
static int check_form(void)
{
    const int32_t digits = run_digits();
    uint32_t backend;
    if (strcmp(run_opt.form, rt_form_name(digits)) != 0)
        return cli_error(run_caller, "--form is '%s'; recurrence, chunked and chunked2 are allowed", run_opt.form);
    if (!digits) return 0;
    if (target_backend(run_opt.backend, &backend) && (backend == GDN_BACKEND_VULKAN || backend == GDN_BACKEND_METAL))
        return cli_error(run_caller, "--form %s: backend %s has no chunked form; cpu, cuda and reference have it",
                         run_opt.form, run_opt.backend);
    if (run_rollback() != RT_ROLLBACK_LOG)
        return cli_error(run_caller, "--rollback snapshots: --form %s always has a log", run_opt.form);
    if (run_opt.prefix_interval % RT_CHUNK)
        return cli_error(run_caller, "--prefix-interval is %lld; with --form %s it is a multiple of %d",
                         (long long)run_opt.prefix_interval, run_opt.form, RT_CHUNK);
    return 0;
}

int run_check_engine_options(void)
{
    const int64_t big = 1 << 26;
    if (!run_opt.model) return cli_error(run_caller, "which model? -m FILE");
    if (strcmp(run_opt.reasoning, "auto") && run_opt.chat_template_kwargs &&
        strstr(run_opt.chat_template_kwargs, "\"enable_thinking\""))
        return cli_error(run_caller, "--reasoning and --chat-template-kwargs: both set enable_thinking; give one");
    rt_spec spec;
    if (strcmp(run_opt.spec, "auto") && !run_spec_named(run_opt.spec, &spec))
        return cli_error(run_caller, "--spec is '%s'; mtp, ngram, off and auto are allowed", run_opt.spec);
    if (run_opt.rollback && strcmp(run_opt.rollback, "log") != 0 && strcmp(run_opt.rollback, "snapshots") != 0)
        return cli_error(run_caller, "--rollback is '%s'; log and snapshots are allowed", run_opt.rollback);
    if (check_form()) return 2;
    return run_in_range("parallel", run_opt.parallel, 0, 1024) && run_in_range("draft-max", run_opt.draft_max, 1, 64) &&
                   run_in_range("draft-vocab", run_opt.draft_vocab, 0, big) &&
                   run_in_range("threads", run_opt.threads, 0, 1024) && run_in_range("ctx", run_opt.context, 0, big) &&
                   run_in_range("cells", run_opt.cells, 0, big) && run_in_range("batch", run_opt.batch, 1, 65536) &&
                   run_in_range("step", run_opt.step_rows, 0, 65536) &&
                   run_in_range("device", run_opt.device, 0, 1024) &&
                   run_in_range("memory", run_opt.memory_mib, 0, INT64_C(1) << 40) &&
                   run_in_range("prefix-cache", run_opt.prefix_mib, 0, INT64_C(1) << 40) &&
                   run_in_range("prefix-interval", run_opt.prefix_interval, 1, big)
               ? 0
               : 2;
}

/* --perplexity reads its file as that of -f, without drafts. Refuses all options but these. */
static int check_perplexity(void)
{
    static const char useful[] =
        "model,keep-newline,no-escape,special,ctx,batch,kv,form,threads,backend,device,impl,level,"
        "isa,memory,json,perplexity";
    if (!run_opt.perplexity) return 0;
    for (const cli_option *o = option_table; o->name; o++)
        if (cli_given(&run_command, o->name) && !cli_listed(useful, o->name))
            return cli_error(&run_command, "--%s has no effect with --perplexity", o->name);
    run_opt.file = (cli_texts){ .n = 1, .text = { run_opt.perplexity } };
    run_opt.spec = "off";
    if (!cli_given(&run_command, "ctx")) run_opt.context = PERPLEXITY_WINDOW;
    return run_in_range("ctx", run_opt.context, PERPLEXITY_LEAST, 1 << 26) ? 0 : 2;
}

/* Checks the options. 0: valid; otherwise an error was printed. */
int run_check_options(void)
{
    const int64_t big = 1 << 26;
    if (run_check_engine_options() || check_perplexity()) return 2;
    if (run_opt.n_predict == RUN_NOT_GIVEN && (run_opt.bench || !run_opt.chat)) run_opt.n_predict = 128;
    if (run_opt.bench && !run_in_range("predict", run_opt.n_predict, 1, big)) return 2;
    if (run_opt.n_predict != RUN_NOT_GIVEN && run_opt.n_predict != -1 &&
        (run_opt.n_predict < 1 || run_opt.n_predict > big))
        return cli_error(&run_command,
                         "--predict is %lld; 1 to %lld are allowed, and -1: until the text ends or the context is full",
                         (long long)run_opt.n_predict, (long long)big);
    if (!run_in_range("top-k", run_opt.top_k, 0, big) || !run_in_range("repeat-last", run_opt.repeat_last, 0, big) ||
        !run_in_range("bench-prompt", run_opt.bench_prompt, 1, big))
        return 2;
    if (!parse_seed())
        return cli_error(&run_command, "--seed is '%s'; -1 (random) and 0 to 2^64 - 1 are allowed", run_opt.seed_text);
    const rt_sampling s = run_sampling(run_opt.seed);
    if (rt_sampling_check(&s)) return cli_error(&run_command, "%s", rt_last_error());
    if (run_opt.bench && run_opt.prefix_mib)
        return cli_error(&run_command, "--bench measures how fast prompts are read; --prefix-cache is for texts");
    const char *const needs = run_opt.system                      ? "system"
                              : run_opt.chat_template             ? "chat-template"
                              : run_opt.chat_template_kwargs      ? "chat-template-kwargs"
                              : strcmp(run_opt.reasoning, "auto") ? "reasoning"
                              : run_opt.save                      ? "save"
                              : run_opt.load                      ? "load"
                                                                  : NULL;
    if (needs && !run_opt.chat) return cli_error(&run_command, "--%s needs --chat", needs);
    if (strcmp(run_opt.reasoning, "auto") && strcmp(run_opt.reasoning, "on") && strcmp(run_opt.reasoning, "off"))
        return cli_error(&run_command, "--reasoning is '%s'; on, off and auto are allowed", run_opt.reasoning);
    const int code = run_talks() ? check_talk() : 0;
    return code ? code : check_effects();
}

/* Checks the options of a conversation. */
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

/* ---- Options without effect ---- */

/* Refuses an option that is given and has no effect: prints why and returns 2. */
static int no_effect(const char *name, int useless, const char *why)
{
    return useless && cli_given(run_caller, name) ? cli_error(run_caller, "--%s %s", name, why) : 0;
}

int run_check_drafts(rt_spec spec)
{
    static const char *const of_all[] = { "draft-max", "always-draft", "rollback" }, *const of_mtp[] = {
        "draft-model", "p-min", "draft-vocab"
    };
    const int off = spec == RT_SPEC_OFF && !(run_opt.bench && strcmp(run_opt.spec, "off") != 0);
    const char *const why = strcmp(run_opt.spec, "auto") ? "has no effect with --spec off"
                                                         : "has no effect: the model has no MTP block to draft with, "
                                                           "and --spec auto is off then; --spec ngram needs none";
    int code = 0;
    for (size_t i = 0; !code && i < sizeof of_all / sizeof of_all[0]; i++) code = no_effect(of_all[i], off, why);
    for (size_t i = 0; !code && i < sizeof of_mtp / sizeof of_mtp[0]; i++)
        code = no_effect(of_mtp[i], spec != RT_SPEC_MTP, "is for drafts of the model's MTP block (--spec mtp)");
    return code;
}

static int check_effects(void)
{
    const int bench = run_opt.bench, talk = run_talks(), asked = run_opt.prompt.n || run_opt.file.n;
    const int from_file = run_opt.file.n || (!asked && !talk && !bench);
    const int texts = run_opt.prompt.n || run_opt.system || run_opt.stop.n;
    const struct {
        const char *name;
        int useless;
        const char *why;
    } list[] = {
        { "widths", !bench, "needs --bench" },
        { "bench-prompt", !bench, "needs --bench" },
        { "prefix-interval", !run_opt.prefix_mib, "needs --prefix-cache" },
        { "prefix-file", !run_opt.prefix_mib, "needs --prefix-cache" },
        { "keep-newline", !from_file, "is for prompts of -f and of standard input" },
        { "escape", !texts, "is for the texts of -p, --system and --stop" },
        { "chat", bench && !asked, "needs -p or -f with --bench" },
        { "save", bench, "is for conversations, not for --bench" },
        { "load", bench, "is for conversations, not for --bench" },
        { "stop", bench, "is for texts, not for --bench" },
        { "special", bench && !asked, "needs -p or -f with --bench" },
        { "json-schema", bench, "is for texts, not for --bench" },
        { "ignore-end", run_opt.json_schema != NULL, "does not go with --json-schema: the text ends after the JSON" },
        { "stop", run_opt.json_schema != NULL, "does not go with --json-schema: it cuts the JSON" },
        { "special", run_opt.json_schema != NULL, "does not go with --json-schema: the end token is no JSON" },
        { "ignore-end", bench, "has no effect with --bench, which always goes on" },
        { "parallel", bench, "is for texts; --bench has --widths" },
        { "step", bench || talk, "is for texts, not for conversations and --bench" },
        { "stats", bench, "is for texts; --bench prints what it measures" },
    };
    int code = 0;
    for (size_t i = 0; !code && i < sizeof list / sizeof list[0]; i++)
        code = no_effect(list[i].name, list[i].useless, list[i].why);
    rt_spec spec;
    return !code && run_spec_named(run_opt.spec, &spec) ? run_check_drafts(spec) : code;
}

/* ---- Sampling ---- */

/* Refuses sampling options that have no effect with the others. */
static int check_sampling_effects(void)
{
    const int greedy = run_opt.temperature == 0, bench_text = run_opt.bench && !run_opt.prompt.n && !run_opt.file.n;
    const int penalties =
        run_opt.repeat_penalty != 1 || run_opt.presence_penalty != 0 || run_opt.frequency_penalty != 0;
    const char *const why = "has no effect where the temperature is 0 (--temp): the likeliest token is taken";
    int code = no_effect("top-k", greedy && run_opt.top_k != 0, why);
    if (!code) code = no_effect("top-p", greedy && run_opt.top_p != 1, why);
    if (!code) code = no_effect("min-p", greedy && run_opt.min_p != 0, why);
    if (!code) code = no_effect("seed", greedy && !bench_text, why);
    if (!code)
        code =
            no_effect("repeat-last", !penalties, "needs --repeat-penalty, --presence-penalty or --frequency-penalty");
    return code;
}

/* Sets a member from its option if that is given. */
#define UNLESS_GIVEN(option, member, value)                                                                            \
    if (!cli_given(run_caller, option)) run_opt.member = value

int run_set_chat_sampling(const run_session *s, int *n_found)
{
    rt_sampling of = rt_sampling_usual(run_opt.seed);
    if (rt_sampling_of_model(s->model->file, &of, n_found)) return run_fail_file(run_opt.model);
    UNLESS_GIVEN("temp", temperature, (double)of.temperature);
    UNLESS_GIVEN("top-k", top_k, of.top_k);
    UNLESS_GIVEN("top-p", top_p, (double)of.top_p);
    UNLESS_GIVEN("min-p", min_p, (double)of.min_p);
    UNLESS_GIVEN("repeat-penalty", repeat_penalty, (double)of.repeat_penalty);
    UNLESS_GIVEN("repeat-last", repeat_last, of.repeat_last);
    return 0;
}

int run_choose_sampling(const run_session *s)
{
    int n_found = 0;
    if (run_opt.chat && !run_opt.bench && run_set_chat_sampling(s, &n_found)) return 1;
    const rt_sampling chosen = run_sampling(run_opt.seed);
    if (rt_sampling_check(&chosen))
        return cli_error(&run_command, "%s%s", rt_last_error(),
                         n_found
                             ? "; the model's file has values of its own (general.sampling.*), and options go before "
                               "them"
                             : "");
    const int code = check_sampling_effects();
    if (code) return code;
    if (run_opt.chat && !run_opt.bench) {
        (void)fprintf(stderr, "gdn run: sampling: ");
        if (run_opt.temperature == 0) (void)fprintf(stderr, "the likeliest token (temp 0)");
        else
            (void)fprintf(stderr, "temp %g, top-k %lld, top-p %g, min-p %g, seed %llu", (double)chosen.temperature,
                          (long long)run_opt.top_k, (double)chosen.top_p, (double)chosen.min_p,
                          (unsigned long long)run_opt.seed);
        if (run_opt.repeat_penalty != 1) (void)fprintf(stderr, ", repeat-penalty %g", (double)chosen.repeat_penalty);
        (void)fprintf(stderr, "%s\n", n_found ? "; the file's general.sampling.* are the defaults" : "");
    } else if (run_opt.random_seed) {
        (void)fprintf(stderr, "gdn run: seed %llu\n", (unsigned long long)run_opt.seed);
    }
    return 0;
}
