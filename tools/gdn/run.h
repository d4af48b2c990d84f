/* `gdn run`: what its parts share. run_options.c reads the command line, run.c generates; run_load.c opens the model
 * and the engine; run_prompt.c reads prompts; run_chat.c is a conversation; run_text.c has the text that comes out;
 * run_report.c the statistics; run_bench.c is `gdn run --bench`, run_depth.c its --depth and bench/runtime_floor.c its
 * floors. */
#ifndef GDN_TOOL_RUN_H
#define GDN_TOOL_RUN_H

#include "cli.h"
#include "gdn/gdn.h"
#include "json.h"
#include "progress.h"
#include "runtime/chat.h"
#include "runtime/error.h"
#include "runtime/scheduler.h"

typedef struct run_options {
    const char *model, *system, *chat_template, *reasoning, *save, *load, *spec, *rollback, *draft_tree, *backend,
        *implementation, *level, *isa, *kv;
    cli_texts   prompt, file, stop;
    cli_list    widths;
    int64_t n_predict, parallel, draft_max, draft_vocab, device, threads, context, batch, step_rows, cells, top_k,
        repeat_last;
    int64_t memory_mib, bench_prompt, prefix_mib, prefix_interval, depth;
    double      temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty, p_min;
    const char *seed_text;
    uint64_t    seed;
    int         random_seed, chat, ignore_end, always_draft, stats, json, bench, raw, escape, keep_newline;
} run_options;
#define RUN_NOT_GIVEN INT64_MIN /* n_predict, until it is known what is generated */
extern run_options       run_opt;
extern const cli_command run_command;

typedef struct run_bytes {
    char    *bytes; /* terminated, and may hold NULs before that */
    uint64_t n;
} run_bytes;

typedef struct run_prompt {
    run_bytes   text;
    const char *name; /* the file it is from; NULL: the text names itself */
    int32_t    *token;
    int32_t     n_tokens;
} run_prompt;

/* What is asked of the scheduler: a prompt with a seed; its number is the scheduler's and the output's. */
typedef struct run_request {
    int32_t  prompt;
    uint64_t seed;
    int32_t  n_max, n_read; /* tokens to generate at most; tokens of the prompt that were read                    */
    int      string, ended; /* a stop string ended it; it has ended                                               */
} run_request;

typedef struct run_session {
    rt_gguf      *file;     /* the model's                                  */
    rt_budget     budget;   /* --memory, and what loading took of it        */
    rt_model     *model;
    rt_tokenizer *tokenizer;
    rt_chat      *chat;     /* with --chat: the template                    */
    int           thinking; /* --reasoning                                  */
    int           talks;    /* a conversation: one sequence, kept from turn to turn */
    rt_engine    *engine;
    rt_spec       spec;     /* what --spec auto came to                     */
    rt_rollback   rollback; /* --rollback, or the default                   */
    int32_t       tree;     /* --draft-tree: second choices; 0: off         */
    int           tree_pays; /* ... while they pay: auto                    */
    int32_t       n_seqs;
    int32_t       context;  /* tokens that one sequence can hold            */
    run_bytes     system, stop[CLI_TEXTS_MAX];
    rt_memory_bytes memory;
    uint64_t      scratch;
} run_session;

/* Each prints what is wrong and returns the tool's exit code; 0 = fine. */
int  run_load_model(run_session *s);                       /* model and tokenizer                         */
int  run_open_engine(run_session *s, int32_t n_seqs, rt_spec spec, rt_rollback rollback, rt_engine **engine);
void run_close(run_session *s);
int  run_fail(const char *what);                           /* "gdn run: WHAT: rt_last_error()", returns 1 */

int  run_read_prompts(run_session *s, run_prompt **prompts, int32_t *n);
void run_free_prompts(run_prompt *prompts, int32_t n);
int  run_read_texts(run_session *s);                       /* the system message and the stop strings     */

/* Bytes of generated text, kept until they are whole characters, cannot be the beginning of a stop string, and their
 * request's turn has come. */
typedef struct run_output run_output;
enum {
    RUN_MORE,
    RUN_STRING,
    RUN_LOST,
    RUN_NO_MEMORY
}; /* go on; the text ends at a stop string; it cannot be written */
run_output *run_output_create(const run_session *s, const run_prompt *prompts, const run_request *requests, int32_t n,
                              int live);
void        run_output_destroy(run_output *o);
int         run_output_token(run_output *o, int32_t request, int32_t token);
int         run_output_end(run_output *o, int32_t request);
run_bytes   run_output_text(const run_output *o, int32_t request);

double      run_now(void);
const char *run_finish_name(const rt_scheduler *scheduler, const run_request *requests, int32_t i);
void        run_print_stats(const run_session *s, const rt_scheduler *scheduler, int32_t n, double seconds);
/* On stdout, an object that begins with what both reports say of a run. */
void        run_begin_json(json_writer *w, const run_session *s, rt_engine *engine);
const char *run_rollback_name(rt_rollback rollback);
int run_print_json(const run_session *s, const rt_scheduler *scheduler, const run_prompt *prompts,
                   const run_request *requests, int32_t n, const run_output *output, double seconds);
int         run_bench(run_session *s);
void        run_print_memory(const run_session *s);
rt_sampling run_sampling(uint64_t seed);

/* The command line (run_options.c). Functions that check print what is wrong and return 2. */
void    run_set_defaults(void);
int     run_check_options(void);
int     run_talks(void);                 /* is it a conversation, rather than a message for each of -p and -f? */
int32_t run_tree_of(const char *text);   /* --draft-tree; -1 where it is nothing that it may be; auto is 1     */
int     run_spec_named(const char *name, rt_spec *spec); /* 0: it is not the name of one, as auto is not       */
int     run_check_drafts(rt_spec spec);  /* options of drafts, once it is known which there are                */
/* How tokens are drawn: in a chat by the model's file or the usual values, of which standard error is told. */
int     run_choose_sampling(const run_session *s);
/* On standard error: a text or an answer was cut. */
void    run_tell_full(const run_session *s, const char *number, const char *hint);
void    run_tell_cut(const char *number);

/* A conversation: these texts, or where there are none the lines of standard input. */
int         run_talk(run_session *s, const run_prompt *prompts, int32_t n);

/* What the machine can do with all threads: bytes that it reads of the model's weights, and products of floats.
 * Products of bytes, as quantised weights have, are four for one of floats: an instruction multiplies four times as
 * many. */
typedef struct run_floor { double bytes_per_second, products_per_second; } run_floor;
/* Measures the machine's limits and keeps the larger of these and *f, which is zeros at first. Reports progress to
 * `wait`. Returns 0, or an exit status as above. */
int    run_floor_measure(const run_session *s, progress_bar *wait, run_floor *f);
/* Least seconds of a step of n_rows tokens each of n_seqs sequences that see n_cells; of prompts. */
double run_floor_step(const run_session *s, const run_floor *f, int32_t n_seqs, int32_t n_rows, double n_cells);
double run_floor_prompts(const run_session *s, const run_floor *f, int32_t n_seqs, int32_t length);

/* --depth: steps of a sequence that is that long, on an engine of its own. tokens: RUN_DEPTH_ROWS more than that. */
enum { RUN_DEPTHS = 3, RUN_DEPTH_ROWS = 8 };
typedef struct run_depth {
    double  prompt, prompt_floor;                    /* seconds of reading the tokens                   */
    int32_t n_rows[RUN_DEPTHS];                      /* of a step                                       */
    double  step[RUN_DEPTHS], floor[RUN_DEPTHS];     /* seconds                                         */
} run_depth;
int  run_depth_measure(run_session *s, run_floor *f, const int32_t *tokens, progress_bar *bar, run_depth *d);
int  run_bench_wait(void *bar); /* a stop function of an engine, which shows that it works: a progress_bar  */
void run_depth_print(const run_depth *d);
void run_depth_json(json_writer *w, const run_depth *d);

#endif
