/* What the parts of the scheduler share. */
#ifndef GDN_RUNTIME_SCHEDULER_INTERNAL_H
#define GDN_RUNTIME_SCHEDULER_INTERNAL_H

#include "runtime/error.h"
#include "runtime/payoff.h"
#include "runtime/payoff_tree.h"
#include "runtime/scheduler.h"

/* A request and how far it is. tokens[0, n_tokens): prompt, then what was generated. The memory holds the first of
 * them; a step decodes those that it does not hold, and draws after the last. So a drawn token is decoded by the step
 * that follows and never drawn again, and a sequence whose memory was lost is simply read again. */
typedef struct rt_job {
    rt_request request;
    int32_t    id, n_prompt, n_tokens, n_max, cut;
    int32_t   *tokens, *stop;
    int32_t    cancelled, finish, runs; /* runs: it has a sequence                          */
    int32_t    n_held; /* the most tokens that its memory held when they were taken from it */
    int32_t    n_found; /* tokens that its memory has from the prefix cache, and that were not counted yet */
    rt_result  result;
    char       error[256];
} rt_job;

struct rt_scheduler {
    rt_scheduler_desc desc;
    int32_t           n_vocab, n_ctx, n_step_rows;
    rt_sampler       *sampler;
    rt_payoff         payoff;
    rt_payoff_tree    payoff_tree;
    rt_totals         totals;
    /* Requests by id, which is the order of submission and of starting: job[id - first], NULL once it is released. */
    rt_job          **job;       /* [room]                                                                       */
    int32_t           first, end, room; /* ids below first are released, ids from end on are not given yet       */
    int32_t           next;      /* the id of the first that may have to be started                              */
    rt_job          **running;   /* [n_parallel] by sequence; NULL: free                                         */

    /* one step */
    int32_t *batch_token, *batch_seq;
    uint8_t *batch_logits;
    int32_t *batch_parent;
    int32_t *draft, *n_draft;    /* [n_parallel][draft_max + 1] by sequence                                      */
    int32_t *second, *n_second;  /* as draft: what was not its first choice; how many of them are verified       */
    rt_draft_request *ask;       /* a draft round: requests and answers                                          */
    int32_t *ask_draft, *ask_second, *ask_n;
    int32_t *first_row, *n_rows; /* [n_parallel] of the sequence in the batch                                    */
    int32_t  spare;              /* cells that are free and that the step does not take, for drafts              */
    uint8_t *generating;         /* [n_parallel] one token is to be decoded, and was drawn: drafts may follow it  */
    uint8_t *waits;              /* [n_parallel] gets no rows: another reads what it begins with                  */
};

/* Start what fits (scheduler_admit.c). */
gdn_status rt_admit(rt_scheduler *s);
/* Before a step, when `generating` is known: who started last gives its cells back until the step's rows have theirs.
 */
gdn_status rt_make_room(rt_scheduler *s);
/* The prefix cache (scheduler_prefix.c). Sequence seq, which holds a beginning of the job's tokens, goes on from the
 * longest that is kept, if that is more. */
gdn_status rt_begin_from_prefix(rt_scheduler *s, rt_job *job, int32_t seq);
/* What was found of the job is of use: rows that follow it were decoded. */
void rt_count_prefix(rt_scheduler *s, rt_job *job);
/* When `generating` is known, who waits for whom; anew when somebody does not run any more. */
void rt_wait_for_prefixes(rt_scheduler *s);
/* How many drafts are of use to sequence seq, and have cells, which they take from `spare`. Each must leave room for
 * the token that is drawn after it. */
int32_t rt_draft_room(rt_scheduler *s, int32_t seq);
/* And how many second choices besides n_draft drafts. */
int32_t rt_second_room(rt_scheduler *s, int32_t seq, int32_t n_draft);

#endif
