/* The forward pass: tokens of many sequences in, logits out. One engine = one model on one device. */
#ifndef GDN_RUNTIME_ENGINE_H
#define GDN_RUNTIME_ENGINE_H

#include "runtime/dense.h"
#include "runtime/memory.h"
#include "runtime/prefix_cache.h"

typedef struct rt_engine rt_engine;

typedef struct rt_engine_desc {
    const rt_model *model;
    uint32_t        backend;        /* GDN_BACKEND_*: where the three kernels run and the states live       */
    uint32_t        device;
    const char     *implementation; /* of that backend, NULL = best                                         */
    const char     *isa;            /* of the dense kernels, NULL = best                                    */
    int32_t         n_threads;      /* 0 = all                                                              */
    int32_t         n_seqs;
    int32_t         n_ctx;          /* most tokens of one sequence                                          */
    int32_t         n_batch;        /* most rows of one micro-batch; 0 = 512                                */
    int32_t         n_rollback;
    int32_t         kv_type;        /* GDN_F32, GDN_F16 or GDN_BF16                                         */
    int32_t         draft;          /* 1: keep the MTP block ready for rt_draft_mtp                         */
    int32_t         n_cells;        /* KV cells of all sequences together, n_ctx or more; 0 = n_ctx for each */
    int32_t         n_prefixes;     /* checkpoints of the prefix cache (prefix_cache.h), 0 = none; no more than
                                       n_cells / prefix_interval are made                                   */
    int32_t         prefix_interval; /* tokens between them; 0 = RT_PREFIX_INTERVAL                         */
    rt_rollback     rollback;       /* snapshots (0) or a replay log, as commit_after: see rt_memory_desc   */
    int32_t         commit_after;
    uint32_t        level;          /* GDN_EXACT or GDN_EXACT_FTZ: of the kernels on that backend           */
    int32_t         draft_vocab;    /* rt_draft_mtp() looks at the first so many tokens of the vocabulary; 0 or as many
                                       as it has = at all. What is drafted differs, and nothing else        */
} rt_engine_desc;

/* Bytes of the host's memory that creating it would take besides the weights, and then decoding with logits for each
 * draft, sampling and scheduling. Not counted: what a device and its driver take, and the kernels' workspace. */
gdn_status rt_engine_size(const rt_engine_desc *desc, rt_memory_bytes *memory, uint64_t *scratch);
gdn_status rt_engine_create(const rt_engine_desc *desc, rt_engine **engine);
void       rt_engine_destroy(rt_engine *engine);
/* What it was created with, zeros filled in. */
typedef struct rt_engine_limits {
    int32_t n_vocab, n_seqs, n_ctx, n_batch, n_rollback, draft, n_cells, n_prefixes, prefix_interval;
    int32_t n_tree; /* rows of a sequence in a batch, where they are a tree: n_rollback with a log, otherwise 0 */
} rt_engine_limits;
rt_engine_limits rt_engine_limits_of(const rt_engine *engine);
rt_memory *rt_engine_memory(rt_engine *engine);
rt_dense  *rt_engine_dense(rt_engine *engine);

/* Tokens in any order: several of one sequence, several sequences, interleaved. Those of one sequence continue it, in
 * the order given. Runs in micro-batches; the bits do not depend on how. logits[i] asks for row i's logits.
 * With a prefix cache it keeps checkpoints on the way; rt_prefix_start() on the engine's memory starts from them.
 * Fails with nothing changed (bad token, sequence or memory); after a failure of the device, what rt_step_cancel says.
 */
typedef struct rt_batch {
    int32_t        n_rows;
    const int32_t *token, *seq;
    const uint8_t *logits;          /* NULL = of each sequence's last row                                   */
    int            no_follow;       /* 1: the draft head does not read these rows now. It catches up when drafts are
                                       asked for, as far back as it can: see rt_draft_mtp()                 */
    const int32_t *parent;          /* trees: which of its sequence's rows of the batch, counted from 0, a row follows;
                                       GDN_NONE for the first. Where not each follows the one before, the sequence has
                                       at most n_tree rows (rt_engine_limits) and goes on with its rows as far as each
                                       does, and rt_seq_branch() takes another branch. NULL: there are none */
} rt_batch;
gdn_status rt_decode(rt_engine *engine, const rt_batch *batch);

/* The engine calls `stop` between the parts of every layer, from the thread that decodes. Where it returns nonzero the
 * call fails with RT_STOPPED, as it does after a failure of the device: a sequence of that micro-batch may have lost
 * its state. NULL: none. */
typedef int (*rt_stop_fn)(void *user);
enum { RT_STOPPED = 1000 }; /* a gdn_status of the runtime alone */
void rt_engine_stop_when(rt_engine *engine, rt_stop_fn stop, void *user);

/* Logits of row i of the last batch, n_vocab of them; NULL if they were not asked for. */
const float *rt_logits(const rt_engine *engine, int32_t row);

/* One draft round for several sequences at once. For each: catch up on the tokens the draft head has not seen, as far
 * back as their rows are kept, which is RT_HIDDEN_ROWS positions at most: of what is older it knows what it has read,
 * or nothing (rt_draft_from()). A sequence without the row before its end gets no drafts; its next token brings it.
 * Feed `token` (drawn, not decoded yet, at position length), and go on with its own argmax for up to n_max tokens,
 * stopping a sequence where the draft's probability falls below p_min. draft[i * n_max ..] receives n_draft[i] tokens.
 */
typedef struct rt_draft_request { int32_t seq, token, n_max; } rt_draft_request;
enum { RT_HIDDEN_ROWS = 32 }; /* or n_batch where that is less, or n_rollback + 1 where that is more */
gdn_status rt_draft_mtp(rt_engine *engine, const rt_draft_request *request, int32_t n, int32_t n_max, float p_min,
                        int32_t *draft, int32_t *n_draft);
/* The same, and in second[i * n_max ..] the head's second choice in the place of each draft; -1: there is no other. */
gdn_status rt_draft_mtp_two(rt_engine *engine, const rt_draft_request *request, int32_t n, int32_t n_max, float p_min,
                            int32_t *draft, int32_t *second, int32_t *n_draft);

/* Counters, for tests and --stats: what was launched and moved since creation. */
typedef struct rt_counters {
    uint64_t steps;             /* micro-batches                                                            */
    uint64_t recurrent_launches;/* gated_delta_net calls of micro-batches                                   */
    uint64_t folds;             /* rt_memory_folds()                                                        */
    uint64_t transfers;         /* between host and device, either way; 0 where they share memory            */
    uint64_t rows, draft_rows;  /* through the trunk, through the draft head                                */
    uint64_t draft_passes;      /* of the draft head, each for rows of many sequences                       */
} rt_counters;
rt_counters rt_engine_counters(const rt_engine *engine);

/* Called after every layer of every micro-batch with the residual stream, when set: for tests and debugging.
 * layer -1: embeddings; n_layer: after the final norm. */
typedef void (*rt_tap_fn)(void *user, int32_t layer, const float *rows, int32_t n_rows, int32_t n_embd,
                          const int32_t *row_of_batch);
void rt_engine_tap(rt_engine *engine, rt_tap_fn tap, void *user);

#endif
