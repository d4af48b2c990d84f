/* What the files of the scheduler share. */
#ifndef GDN_RUNTIME_SCHEDULER_INTERNAL_H
#define GDN_RUNTIME_SCHEDULER_INTERNAL_H

#include "runtime/base/error.h"
#include "runtime/serve/speculation.h"
#include "runtime/schema/mask.h"
#include "runtime/serve/scheduler.h"

/* A request and its progress. tokens[0, n_tokens): the prompt, then the generated tokens. The memory holds a prefix of
 * them; a step decodes the others, and draws a token after the last. So the next step decodes a drawn token, and a
 * sequence whose memory was released is decoded again without drawing. */
typedef struct rt_job {
    rt_request request;
    int32_t id, n_prompt, n_tokens, n_max, cut;
    int32_t *tokens, *stop;
    int32_t cancelled, finish, runs; /* runs: it has a sequence                          */
    int32_t n_held;                  /* most tokens in its memory at a preemption */
    int32_t n_scored;                /* tokens of the prompt behind the first that on_prompt_logprobs has had */
    rt_schema_state *state;          /* after the generated tokens; NULL: the request has no schema */
    int32_t n_found;                 /* tokens from the prefix cache, not counted in totals yet */
    rt_result result;
    char error[256];
} rt_job;

/* A sequence: the request that runs in it, and its part of a step. */
typedef struct rt_slot {
    rt_job *job;           /* NULL: free                                                                      */
    int generating;        /* 1: only its last drawn token is undecoded; drafts may follow                    */
    int waits;             /* 1: gets no rows, while another sequence decodes its prefix                      */
    int32_t share, served; /* rows that the step has for its prompt; 1: it has got them                       */
    const int32_t *draft;  /* [n_draft] in ask_draft                                                          */
    int32_t n_draft;
    int32_t first_row, n_rows; /* its rows in the batch                                                         */
} rt_slot;

struct rt_scheduler {
    rt_scheduler_desc desc;
    int32_t n_vocab, n_ctx, n_step_rows;
    rt_sampler *sampler;
    rt_mask *mask; /* NULL until a request has a schema */
    rt_speculation speculation;
    rt_totals totals;
    /* Requests by id, in the order of submission: job[id - first]; NULL once released. */
    rt_job **job;             /* [room]                                                                       */
    int32_t first, end, room; /* ids in [first, end) were given and not all released                   */
    int32_t next;             /* first id that may have to be started                                         */
    rt_slot *slot;            /* [n_parallel] by sequence                                                     */
    int32_t *order, n_order;  /* [n_order]: the sequences with requests, the oldest request's first           */

    /* one step */
    int32_t *batch_token, *batch_seq; /* its rows, as rt_batch has them                                       */
    uint8_t *batch_logits;
    rt_draft_request *ask; /* a draft round: its requests and results                                         */
    int32_t *ask_draft, *ask_n;
    int32_t spare; /* free cells that the step leaves for drafts                                       */
};

/* Starts the requests that fit (scheduler_admit.c). */
gdn_status rt_scheduler_admit(rt_scheduler *s);
/* Preempts the requests that started last until the step's rows have cells. Call before a step, after `generating` is
 * set. */
gdn_status rt_scheduler_make_room(rt_scheduler *s);
/* Sets `order`. Call when a request has got a sequence or lost it (scheduler_share.c). */
void rt_scheduler_sort(rt_scheduler *s);
/* Sets `share` of all slots for a step that has this many rows for prompts. With fewer rows no share is larger. Call
 * after `generating` and `waits` are set. */
void rt_scheduler_share(rt_scheduler *s, int32_t rows);
/* The prefix cache (scheduler_prefix.c). Extends sequence seq, which holds a prefix of the job's tokens, to the longest
 * cached prefix if that is longer. */
gdn_status rt_scheduler_begin_from_prefix(rt_scheduler *s, rt_job *job, int32_t seq);
/* Counts the job's tokens from the prefix cache. Call when rows after them were decoded. */
void rt_scheduler_count_prefix(rt_scheduler *s, rt_job *job);
/* Sets `waits` of all slots. Call after `generating` is set, and again when a request stops running. */
void rt_scheduler_wait_for_prefixes(rt_scheduler *s);
/* Where a step that decodes the prompt from `begin` on ends at the latest: a boundary, or the last token. */
int32_t rt_scheduler_next_stop(const rt_job *job, int32_t begin);
/* True while tokens of the prompt need log-probabilities. */
int rt_scheduler_scores(const rt_job *job);
/* True if the prefix cache keeps the job's end. */
int rt_scheduler_keeps_end(const rt_job *job);
/* Keeps the end of the job, which sequence seq has. */
gdn_status rt_scheduler_keep_end(rt_scheduler *s, const rt_job *job, int32_t seq);
/* Keeps a checkpoint if sequence seq, of the job, is at one of its boundaries. */
gdn_status rt_scheduler_keep_boundary(rt_scheduler *s, const rt_job *job, int32_t seq);
/* Cells that sequence `seq` needs for n more tokens, besides its reserved ones (scheduler_admit.c). */
int32_t rt_scheduler_cells_for(const rt_memory *m, int32_t seq, int64_t n);

#endif
