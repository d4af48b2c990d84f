/* Continuous batching of many requests, with lossless speculation.
 *
 * Requests start in the order of their submission, as soon as there are KV cells for their tokens and for a little
 * more. Where cells run out later, the request that started last gives its own back; it is read again when there is
 * room, and its stream is the same. One sequence never has more than n_ctx tokens, whatever runs beside it.
 *
 * Where the engine has a prefix cache, requests start from what it has of their tokens. */
#ifndef GDN_RUNTIME_SCHEDULER_H
#define GDN_RUNTIME_SCHEDULER_H

#include "runtime/engine.h"
#include "runtime/sampler.h"
#include "runtime/tokenizer.h"

typedef enum rt_spec { RT_SPEC_OFF, RT_SPEC_MTP, RT_SPEC_NGRAM } rt_spec;
/* Whether an engine can speculate so, with drafts of up to draft_max tokens. */
gdn_status rt_spec_check(const rt_engine_limits *limits, rt_spec spec, int32_t draft_max);

/* Whether it can verify trees: a log, and draft_max + draft_tree + 1 rows of a sequence (n_rollback). */
gdn_status rt_tree_check(const rt_engine_limits *limits, rt_spec spec, int32_t draft_max, int32_t draft_tree);

typedef struct rt_scheduler_desc {
    rt_engine          *engine;
    const rt_tokenizer *tokenizer;    /* for end tokens; may be NULL                                         */
    int32_t             n_parallel;   /* sequences that run at once                                          */
    int32_t             n_step_rows;  /* token budget of a step; 0 = the engine's n_batch                    */
    rt_spec             spec;
    int32_t             draft_max;    /* <= n_rollback of the engine                                         */
    float               p_min;
    int                 always;       /* 1: draft even where it does not pay (tests, benchmarks)             */
    int32_t             draft_tree;   /* RT_SPEC_MTP: with its drafts the draft head's second choices in the place of
                                         the first so many of them are verified, as a tree; 0: none. Only in steps
                                         that read no prompt. See rt_tree_check()                            */
    int                 tree_pays;    /* 1: only while that is measured to pay                               */
} rt_scheduler_desc;

enum { RT_FINISH_NONE, RT_FINISH_STOP, RT_FINISH_LENGTH, RT_FINISH_CONTEXT, RT_FINISH_CANCELLED, RT_FINISH_FAILED };

/* What a request hears about: called in the order of its tokens. Return nonzero to end it there: tokens behind an
 * accepted window's cut are as if they had never been drawn. */
typedef int (*rt_token_fn)(void *user, int32_t request, int32_t token);
typedef void (*rt_prompt_fn)(void *user, int32_t request, int32_t done, int32_t total);

typedef struct rt_request {
    const int32_t *prompt;            /* copied                                                             */
    int32_t        n_prompt;
    int32_t        n_max;             /* tokens to generate at most                                         */
    rt_sampling    sampling;
    const int32_t *stop;              /* further end tokens; copied                                         */
    int32_t        n_stop;
    int            ignore_end;
    rt_token_fn    on_token;
    rt_prompt_fn   on_prompt;         /* may be NULL                                                        */
    void          *user;
} rt_request;

typedef struct rt_result {
    int32_t n_tokens, finish;
    int32_t n_drafted, n_accepted, n_rounds;
    int32_t n_preempted; /* how often it gave its cells to others, and was read again                              */
    int32_t n_prefix; /* tokens that were not read, as the engine's prefix cache had them                             */
    double  prompt_seconds, generation_seconds;
    const char *error; /* what is wrong where it failed, the scheduler's; otherwise NULL. Its tokens until then stand,
                          and other requests go on                                                               */
} rt_result;

typedef struct rt_scheduler rt_scheduler;
gdn_status rt_scheduler_create(const rt_scheduler_desc *desc, rt_scheduler **scheduler);
void       rt_scheduler_destroy(rt_scheduler *scheduler);
/* GDN_INVALID_ARGUMENT, with a text, for one that can never be: a prompt that leaves no room in n_ctx, among others. */
gdn_status rt_submit(rt_scheduler *s, const rt_request *request, int32_t *id);
/* One that runs ends after the token or piece of prompt that is under way, one that waits at once. */
gdn_status rt_cancel(rt_scheduler *s, int32_t id);
/* One step; *busy = 0 when nothing is left to do. */
gdn_status rt_step_run(rt_scheduler *s, int *busy);
gdn_status rt_result_get(const rt_scheduler *s, int32_t id, rt_result *result);
/* Frees a request that has ended, with its tokens and its result. What serves requests without end releases each, or
 * its memory grows. Its id is not given again. GDN_INVALID_ARGUMENT: it has not ended. Not from on_token or on_prompt.
 */
gdn_status rt_release(rt_scheduler *s, int32_t id);
/* Sums over all requests. The time of a step that both reads prompts and generates is split by rows. */
typedef struct rt_totals {
    double  prompt_seconds, generation_seconds;
    int64_t prompt_tokens, generated_tokens; /* what was read, and what was drawn                             */
    int64_t decoded_tokens;                  /* those of generated_tokens that generation_seconds were spent on:
                                                each request's first one is drawn by its prompt's step       */
    int64_t drafted, accepted, rounds, rollbacks; /* drafts and second choices that were verified, and so on  */
    int64_t tree_drafted, tree_accepted;     /* those of them that were second choices                        */
    int64_t second_places, second_right;     /* places where the first choice was refused and there was a second one,
                                                verified or not (draft_tree); where that was what came        */
    int64_t preemptions;                     /* requests that gave their cells to others                       */
    int64_t reread_tokens;                   /* those of prompt_tokens that were read again after that         */
    int64_t prefix_tokens;                   /* that were not read, and are not among prompt_tokens, as the
                                                engine's prefix cache had them                                 */
} rt_totals;
rt_totals rt_scheduler_totals(const rt_scheduler *s);
/* Tokens generated so far. */
const int32_t *rt_result_tokens(const rt_scheduler *s, int32_t id, int32_t *n);

#endif
