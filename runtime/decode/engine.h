/* The forward pass: decodes tokens of many sequences and returns logits. An engine is one model on one device. */
#ifndef GDN_RUNTIME_ENGINE_H
#define GDN_RUNTIME_ENGINE_H

#include "runtime/dense/dense.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/prefix_cache.h"

typedef struct rt_engine rt_engine;

typedef struct rt_engine_desc {
    const rt_model *model;
    uint32_t backend; /* GDN_BACKEND_*: runs the three kernels, holds the states              */
    uint32_t device;
    const char *implementation; /* of that backend; NULL = the best, which has to be exact              */
    const char *isa;            /* of the dense kernels (dense.h); NULL = best                          */
    int32_t n_threads;          /* 0 = all                                                              */
    int32_t n_seqs;
    int32_t n_ctx;   /* most tokens of a sequence                                            */
    int32_t n_batch; /* most rows of one micro-batch; 0 = 512                                */
    int32_t n_rollback;
    int32_t kv_type;         /* GDN_F32, GDN_F16, GDN_BF16 or GDN_Q8_0; rt_memory_desc                */
    int32_t draft;           /* 1: allocate for rt_draft_mtp                                         */
    int32_t n_cells;         /* KV cells of all sequences together, at least n_ctx;
                                0 = n_seqs * n_ctx */
    int32_t n_prefixes;      /* checkpoints of the prefix cache (prefix_cache.h), 0 = none; at most n_cells */
    int32_t prefix_interval; /* tokens between checkpoints; 0 = RT_PREFIX_INTERVAL                  */
    rt_rollback rollback;    /* snapshots (0) or replay log; commit_after: see rt_memory_desc        */
    int32_t commit_after;
    uint32_t level;      /* GDN_EXACT or GDN_EXACT_FTZ, for the kernels of the backend           */
    int32_t draft_vocab; /* rt_draft_mtp() chooses among the first draft_vocab tokens of the vocabulary;
                            0 = all. It changes drafts only, never results */
    int32_t digits;      /* 0: the recurrence; 2 or 3: the chunked form with so many digits. It has a log, so
                            `rollback` has no effect, and its prefix_interval is a multiple of 32 */
} rt_engine_desc;

/* Host memory in bytes that rt_engine_create() would allocate, without the weights: *memory for the memory's pools,
 * *scratch for buffers, including logits, drafting, sampling and scheduling. Not counted: memory of the device and its
 * driver, and the kernels' workspace. */
gdn_status rt_engine_size(const rt_engine_desc *desc, rt_memory_bytes *memory, uint64_t *scratch);
gdn_status rt_engine_create(const rt_engine_desc *desc, rt_engine **engine);
void rt_engine_destroy(rt_engine *engine);
/* The parameters of creation, with zeros replaced by the defaults. */
typedef struct rt_engine_limits {
    int32_t n_vocab, n_seqs, n_ctx, n_batch, n_rollback, draft, n_cells, n_prefixes, prefix_interval;
} rt_engine_limits;
rt_engine_limits rt_engine_limits_of(const rt_engine *engine);
/* A number for what changes the bits of states besides the model and KV type: the level, and kernels that are not
 * exact.
 */
uint64_t rt_engine_bits(const rt_engine *engine);
rt_memory *rt_engine_memory(rt_engine *engine);
rt_dense *rt_engine_dense(rt_engine *engine);

/* Decodes a batch. Rows may be in any order and interleave sequences; the rows of a sequence extend it in the order
 * given. The engine splits the batch into micro-batches; the bits do not depend on the split. logits[i] != 0 requests
 * the logits of row i.
 *
 * With a prefix cache the engine writes checkpoints during decoding; rt_memory_prefix_start() on the engine's memory
 * starts sequences from them. A bad token or sequence, or lack of memory, changes nothing. After a device failure
 * rt_memory_step_cancel() (memory.h) says what remains. */
typedef struct rt_batch {
    int32_t n_rows;
    const int32_t *token, *seq;
    const uint8_t *logits; /* NULL = each sequence's last row only                                 */
    int no_follow;         /* 1: the draft head does not process these rows. It catches up at the next
                              rt_draft_mtp(), as far back as hidden rows are kept */
} rt_batch;
gdn_status rt_engine_decode(rt_engine *engine, const rt_batch *batch);

/* Sets a callback that can abort decoding, or NULL. The engine calls it between the parts of every layer, on the
 * decoding thread. If it returns nonzero, the call fails with RT_STOPPED. The effect is that of a device failure: a
 * sequence of the micro-batch may have lost its state. */
typedef int (*rt_stop_fn)(void *user);
enum { RT_STOPPED = 1000 }; /* an additional status, of the runtime only */
void rt_engine_stop_when(rt_engine *engine, rt_stop_fn stop, void *user);

/* Logits of row `row` of the last batch, [n_vocab]; NULL if they were not requested. */
const float *rt_engine_logits(const rt_engine *engine, int32_t row);

/* Drafts tokens with the MTP block, for several sequences at once. For each request:
 * - The draft head first processes tokens of the sequence that it has not seen, as far back as their hidden rows are
 *   kept (at least RT_HIDDEN_ROWS positions). For older ones see rt_memory_draft_from().
 * - It then processes `token`, which is drawn but not decoded (at position length), and its own argmax, up to n_max
 *   times.
 * - It stops a sequence when the probability of the draft falls below p_min.
 *
 * draft[i * n_max ..] receives n_draft[i] tokens. n_draft[i] is 0 if the hidden row before the end of the sequence is
 * not kept; decoding the next token restores it. */
typedef struct rt_draft_request {
    int32_t seq, token, n_max;
} rt_draft_request;
enum { RT_HIDDEN_ROWS = 32 }; /* limited to n_batch, and at least n_rollback + 1 */
gdn_status rt_draft_mtp(rt_engine *engine, const rt_draft_request *request, int32_t n, int32_t n_max, float p_min,
                        int32_t *draft, int32_t *n_draft);

/* Has the draft head process the tokens of a sequence that it has not seen, if their hidden rows are kept. */
gdn_status rt_draft_catch_up(rt_engine *engine, int32_t seq);

/* Counters since creation, for tests and --stats. */
typedef struct rt_counters {
    uint64_t steps;              /* micro-batches                                                            */
    uint64_t recurrent_launches; /* gated_delta_net calls of micro-batches                                   */
    uint64_t folds;              /* see rt_memory_folds()                                                    */
    uint64_t transfers;          /* copies between host and device; 0 where memory is shared                  */
    uint64_t rows, draft_rows;   /* rows of the trunk, rows of the draft head                                */
    uint64_t draft_passes;       /* calls of the draft head, each for many sequences                         */
} rt_counters;
rt_counters rt_engine_counters(const rt_engine *engine);

/* Sets a callback for tests and debugging, called after every layer of every micro-batch with the residual stream.
 * layer -1: embeddings; n_layer: after the final norm. */
typedef void (*rt_tap_fn)(void *user, int32_t layer, const float *rows, int32_t n_rows, int32_t n_embd,
                          const int32_t *row_of_batch);
void rt_engine_tap(rt_engine *engine, rt_tap_fn tap, void *user);

#endif
