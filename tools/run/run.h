/* What the files of `gdn run` share. run_options.c reads the command line, run_load.c opens model and engine, and
 * run_prompt.c reads prompts. run_foreign.c has other programs' names for options. prefix_file.c keeps prefixes. run.c
 * generates, run_chat.c runs conversations, run_bench.c is --bench, run_perplexity.c --perplexity. run_text.c writes
 * generated text, run_report.c the statistics. */
#ifndef GDN_TOOL_RUN_H
#define GDN_TOOL_RUN_H

#include "tools/cli/cli.h"
#include "gdn/gdn.h"
#include "tools/cli/json.h"
#include "tools/cli/progress.h"
#include "system/replace.h"
#include "tools/run/text.h"
#include "runtime/text/chat.h"
#include "runtime/base/error.h"
#include "runtime/serve/scheduler.h"

typedef struct run_options {
    const char *model, *system, *chat_template, *chat_template_kwargs, *reasoning, *save, *load, *spec, *rollback,
        *backend, *implementation, *level, *isa, *kv, *form, *prefix_file, *perplexity, *draft_model, *json_schema;
    cli_texts prompt, file, stop;
    cli_list widths;
    int64_t n_predict, parallel, draft_max, draft_vocab, device, threads, context, batch, step_rows, cells, top_k,
        repeat_last;
    int64_t memory_mib, bench_prompt, prefix_mib, prefix_interval;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty, p_min;
    const char *seed_text;
    uint64_t seed;
    int random_seed, chat, ignore_end, always_draft, stats, json, bench, raw, escape, keep_newline;
} run_options;
#define RUN_NOT_GIVEN INT64_MIN /* n_predict before its default is chosen */
extern run_options run_opt;
extern const cli_command run_command;
extern const cli_foreign run_foreign[]; /* also of gdn serve */
/* The command that was parsed, for messages: run_command or that of gdn serve. Its options are those of run_opt. */
extern const cli_command *run_caller;

typedef struct run_prompt {
    run_bytes text;
    const char *name; /* its file; NULL: the text names itself */
    int32_t *token;
    int32_t n_tokens;
    int32_t boundary[RT_CHAT_BOUNDARIES]; /* rt_request.boundary */
    int thinks;                           /* rt_request.thinks   */
} run_prompt;

/* A request: a prompt with a seed. Its number is that of the scheduler and the output. */
typedef struct run_request {
    int32_t prompt;
    uint64_t seed;
    int32_t n_max, n_read; /* most tokens to generate; decoded prompt tokens                                     */
    int string, ended;     /* ended by a stop string; ended                                                      */
} run_request;

typedef struct run_session {
    rt_gguf *file;    /* the model's                                  */
    rt_budget budget; /* --memory, and the bytes that loading took    */
    rt_model *model;
    rt_tokenizer *tokenizer;
    rt_chat *chat; /* with --chat: the template                    */
    int thinking;  /* --reasoning                                  */
    int talks;     /* 1: a conversation, in one sequence over all turns */
    rt_engine *engine;
    rt_spec spec;         /* the resolved --spec                          */
    rt_rollback rollback; /* --rollback, or the default                   */
    int32_t n_seqs;
    int32_t context; /* most tokens of a sequence                    */
    run_bytes system, stop[CLI_TEXTS_MAX];
    rt_schema *schema; /* of --json-schema, or NULL */
    rt_memory_bytes memory;
    uint64_t scratch;
    uint64_t prefixes_saved;   /* checkpoints that were written when --prefix-file was */
    file_lock prefix_lock;     /* of --prefix-file, while this process may replace it                 */
    struct run_saving *saving; /* a replacement of --prefix-file that is not finished, or NULL */
} run_session;

/* These functions print errors and return the tool's exit code; 0 = success. */
int run_load_model(run_session *s);    /* model and tokenizer                         */
int run_load_template(run_session *s); /* --chat-template, or the model's             */
int run_choose_spec(run_session *s);   /* resolves --spec                             */
int run_open_engine(run_session *s, int32_t n_seqs, rt_spec spec, rt_rollback rollback, rt_engine **engine);
/* --prefix-file (prefix_file.c): loads it, if it exists; replaces it, if the cache has new prefixes. wait 0: a thread
 * waits for the disk, and does so until run_join_prefixes() at the latest; meanwhile a call without `wait` does
 * nothing. */
int run_load_prefixes(run_session *s);
int run_save_prefixes(run_session *s, int wait);
void run_join_prefixes(run_session *s);
gdn_status run_write_bytes(void *user, const void *bytes, uint64_t n);  /* rt_write_fn of an open file */
int run_open_scheduler(const run_session *s, rt_scheduler **scheduler); /* of the session's engine */
void run_close(run_session *s);
int run_fail(const char *what);      /* "gdn run: WHAT: rt_last_error()", returns 1 */
int run_fail_file(const char *path); /* the same, with the path once, whether or not the text has it */

/* Reads a whole file, NUL-terminated, of at most `most` bytes. */
int run_read_all(FILE *f, const char *name, uint64_t most, run_bytes *to);
/* Tokens of a text without chat format. bos begins them if the vocabulary wants that, and an empty text. flags: of
 * rt_tokenize(). Free *tokens with rt_free(), also after an error. */
gdn_status run_tokenize(const rt_tokenizer *t, run_bytes text, uint32_t flags, int32_t **tokens, int64_t *count);
int run_read_prompts(run_session *s, run_prompt **prompts, int32_t *n);
void run_free_prompts(run_prompt *prompts, int32_t n);
int run_read_texts(run_session *s);  /* the system message and the stop strings     */
int run_read_schema(run_session *s); /* --json-schema                               */

/* Generated text, held back until characters are complete, no stop string can begin in it, and it is the request's turn
 * to be printed. */
typedef struct run_output run_output;
run_output *run_output_create(const run_session *s, const run_prompt *prompts, const run_request *requests, int32_t n,
                              int live);
void run_output_destroy(run_output *o);
int run_output_token(run_output *o, int32_t request, int32_t token);
int run_output_end(run_output *o, int32_t request);
run_bytes run_output_text(const run_output *o, int32_t request);

double run_now(void);
/* Name of an RT_FINISH_*; at_string: a request was cancelled at a stop string. */
const char *run_finish_name(int32_t finish, int at_string);
void run_print_stats(const run_session *s, const rt_scheduler *scheduler, int32_t n, double seconds);
/* Begins a JSON object on stdout with what both reports state about a run. */
void run_begin_json(json_writer *w, const run_session *s, rt_engine *engine);
const char *run_spec_name(rt_spec spec);
const char *run_rollback_name(rt_rollback rollback);
int run_print_json(const run_session *s, const rt_scheduler *scheduler, const run_prompt *prompts,
                   const run_request *requests, int32_t n, const run_output *output, double seconds);
int run_bench(run_session *s);
/* --perplexity: scores the text. Its logits take run_perplexity_bytes(). */
int run_perplexity(run_session *s, const run_prompt *text);
uint64_t run_perplexity_bytes(const run_session *s);
void run_print_memory(const run_session *s);
rt_sampling run_sampling(uint64_t seed);

/* The command line (run_options.c). Functions that check print errors and return 2. */
void run_set_defaults(void);
int run_check_options(void);
int run_check_engine_options(void); /* those of model, engine and drafts             */
int run_in_range(const char *name, int64_t value, int64_t low, int64_t high); /* 0: an error was printed */
int run_talks(void);                                 /* true for a conversation, false for one message per -p and -f */
int run_spec_named(const char *name, rt_spec *spec); /* 0: not a name of a kind; auto is not one           */
rt_rollback run_rollback(void);                      /* --rollback, or the default                       */
int32_t run_digits(void);                            /* --form, as rt_engine_desc.digits has it          */
int run_check_drafts(rt_spec spec); /* checks draft options for the resolved kind                         */
/* Sets those of a chat that are not given: from the model file or the defaults. *n_found: those of the file. */
int run_set_chat_sampling(const run_session *s, int *n_found);
/* Chooses the sampling parameters: in a chat from the model file or the defaults, which stderr reports. */
int run_choose_sampling(const run_session *s);
/* Report on stderr that the context is full, or that a text was cut. */
void run_tell_full(const run_session *s, const char *number, const char *hint);
void run_tell_cut(const char *number);

/* Runs a conversation with these texts, or without any with the lines of standard input. */
int run_talk(run_session *s, const run_prompt *prompts, int32_t n);

#endif
