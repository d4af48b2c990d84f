/* Continuous batching of many requests, with lossless speculation.
 *
 * Requests start in the order of submission, as soon as there are KV cells for their tokens and a few
 * more. When cells run out, the scheduler preempts the request that started last: it releases the cells, and decodes
 * the request's tokens again later. Its output does not change. A sequence has at most n_ctx tokens.
 *
 * With a prefix cache in the engine, requests start from the longest cached prefix of their tokens. */
#ifndef GDN_RUNTIME_SCHEDULER_H
#define GDN_RUNTIME_SCHEDULER_H

#include "runtime/decode/engine.h"
#include "runtime/decode/sampler.h"
#include "runtime/schema/schema.h"
#include "runtime/text/chat.h"

typedef enum rt_spec { RT_SPEC_OFF, RT_SPEC_MTP, RT_SPEC_NGRAM } rt_spec;

typedef struct rt_scheduler_desc {
    rt_engine *engine;
    const rt_tokenizer *tokenizer; /* for end tokens; may be NULL                                         */
    int32_t n_parallel;            /* sequences that run at once                                          */
    int32_t n_step_rows;           /* token budget of a step; 0 = the engine's n_batch. Raised to one row and
                                      drafts per sequence */
    rt_spec spec;
    int32_t draft_max; /* <= n_rollback of the engine                                         */
    float p_min;
    int always; /* 1: draft always, without the controller (--always-draft)            */
} rt_scheduler_desc;

enum { RT_FINISH_NONE, RT_FINISH_STOP, RT_FINISH_LENGTH, RT_FINISH_CONTEXT, RT_FINISH_CANCELLED, RT_FINISH_FAILED };

/* Callbacks of a request. rt_token_fn is called for each token, in order; return nonzero to end the request after it.
 * Accepted drafts after that token are dropped. rt_prompt_fn is called as the prompt is decoded. */
typedef int (*rt_token_fn)(void *user, int32_t request, int32_t token);
typedef void (*rt_prompt_fn)(void *user, int32_t request, int32_t done, int32_t total);
/* Called when a request that ran ends, unless it failed. Returns how many of its tokens the next prompt begins with:
 * the prefix cache keeps a checkpoint there, if the sequence can be rolled back so far. 0: none. */
typedef int32_t (*rt_end_fn)(void *user, int32_t request);

/* Called before rt_token_fn with the token's log-probability at logprob[0] and the n_top most likely tokens behind it,
 * as rt_logprobs() gives them. */
typedef void (*rt_logprobs_fn)(void *user, int32_t request, const rt_logprob *logprob, int32_t n_top);

typedef struct rt_request {
    const int32_t *prompt; /* copied                                                             */
    int32_t n_prompt;
    int32_t n_max; /* most tokens to generate                                            */
    int32_t n_min; /* fewest: the tokenizer's end tokens are not drawn before. 0 with a schema */
    rt_sampling sampling;
    const int32_t *stop; /* additional end tokens; copied                                      */
    int32_t n_stop;
    int ignore_end;
    int32_t boundary[RT_CHAT_BOUNDARIES]; /* positions in the prompt where other prompts may go on, in ascending order;
                                             0: none. With one, the prefix cache keeps a checkpoint at each and at the
                                             end of the text, or where on_end says */
    uint32_t owner; /* it shares cached prefixes with requests of the same owner alone, and no other can learn by
                       n_prefix or by the time what its prompt is */
    rt_token_fn on_token;
    rt_prompt_fn on_prompt; /* may be NULL, like on_end                                           */
    rt_end_fn on_end;
    void *user;
    rt_logprobs_fn on_logprobs;        /* NULL: no log-probabilities                                     */
    int32_t n_top;                     /* of on_logprobs: 0 to RT_TOP_LOGPROBS, and at most the vocabulary */
    rt_logprobs_fn on_prompt_logprobs; /* NULL: none. Called for each token of the prompt but the first, before
                                          on_logprobs. The prompt is decoded anew, in small parts */
    const rt_schema *schema; /* the text is one that it allows, unless it is cut. NULL: any text. It must outlive the
                                request. Not with ignore_end; the tokenizer has an end token */
    int thinks;              /* with schema: the text begins inside a <think> block, and what it allows after it */
} rt_request;

typedef struct rt_result {
    int32_t n_tokens, finish;
    int32_t n_drafted, n_accepted, n_rounds;
    int32_t n_preempted; /* number of preemptions                                                                  */
    int32_t n_prefix; /* prompt tokens that came from the prefix cache                                                */
    double prompt_seconds, generation_seconds;
    gdn_status status; /* of an error */
    const char *error; /* error text if it failed (RT_FINISH_FAILED), owned by the scheduler; otherwise NULL. Tokens
                          drawn before remain valid, and other requests continue */
} rt_result;

typedef struct rt_scheduler rt_scheduler;
gdn_status rt_scheduler_create(const rt_scheduler_desc *desc, rt_scheduler **scheduler);
void rt_scheduler_destroy(rt_scheduler *scheduler);
/* Submits a request. GDN_INVALID_ARGUMENT, with a text: it can never run, for example since its prompt fills n_ctx. */
gdn_status rt_scheduler_submit(rt_scheduler *s, const rt_request *request, int32_t *id);
/* Cancels a request. A running one ends after the current token or part of its prompt, a waiting one at once. From
 * on_prompt: no token is drawn after this part. */
gdn_status rt_scheduler_cancel(rt_scheduler *s, int32_t id);
/* Runs one step; *busy = 0: nothing is left to do. */
gdn_status rt_scheduler_step(rt_scheduler *s, int *busy);
gdn_status rt_scheduler_result(const rt_scheduler *s, int32_t id, rt_result *result);
/* Frees an ended request with its tokens and result. A long-running server must release each request, or memory grows.
 * Ids are not reused. GDN_INVALID_ARGUMENT: the request has not ended. Do not call from on_token or on_prompt. */
gdn_status rt_scheduler_release(rt_scheduler *s, int32_t id);
/* Sums over all requests. The time of a step that both prefills and generates is split by rows. */
typedef struct rt_totals {
    double prompt_seconds, generation_seconds;
    int64_t prompt_tokens, generated_tokens;      /* tokens decoded as prompt, and tokens drawn                    */
    int64_t decoded_tokens;                       /* those of generated_tokens drawn in generation_seconds: all but the
                                                     first of each request, which its prompt's step draws */
    int64_t drafted, accepted, rounds, rollbacks; /* verified drafts, and so on                                */
    int64_t preemptions;                          /* preemptions of requests                                        */
    int64_t reread_tokens;                        /* those of prompt_tokens decoded again after a preemption        */
    int64_t prefix_tokens;                        /* tokens from the prefix cache, not in prompt_tokens */
} rt_totals;
rt_totals rt_scheduler_totals(const rt_scheduler *s);
/* Requests that have a sequence; the others that have not ended wait for one. */
int32_t rt_scheduler_running(const rt_scheduler *s);
/* Tokens generated so far; *n: their number. */
const int32_t *rt_scheduler_tokens(const rt_scheduler *s, int32_t id, int32_t *n);

#endif
