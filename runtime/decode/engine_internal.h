/* What the engine's files share: the buffers of a micro-batch, and the layers as functions. */
#ifndef GDN_RUNTIME_ENGINE_INTERNAL_H
#define GDN_RUNTIME_ENGINE_INTERNAL_H

#include "runtime/decode/engine.h"
#include "runtime/base/error.h"
#include "runtime/decode/stage.h"

/* Positions and KV cells of a micro-batch's rows, for attention. Filled from a step, or by the draft
 * head. */
typedef struct rt_rows {
    int32_t n;
    const int32_t *rope;         /* [n] rotary positions                          */
    const int32_t *new_cell;     /* [n] cell that each row writes                 */
    const int32_t *const *cells; /* [n] cells of the row's sequence, by position  */
    const int32_t *n_cells;      /* [n] number of these that the row attends to   */
} rt_rows;

/* Index maps of a step's kernel calls, in e->maps. */
typedef struct rt_step_maps {
    gdn_span seq_start, state_src, state_dst, position, conv_src, conv_dst, state_checkpoint, conv_checkpoint;
    gdn_span log_row, base_position, commit;
} rt_step_maps;

struct rt_engine {
    const rt_model *model;
    rt_memory *memory;
    rt_threads *threads;
    rt_dense *dense;
    rt_rope *rope;
    gdn_context *device, *host; /* equal if the device is the CPU                 */
    int32_t shared;             /* 1: the device reads host memory                */
    int32_t n_seqs, n_ctx, n_cells, n_positions, n_batch, n_rollback, n_snapshots, n_hidden, kv_type, draft;
    uint32_t level;                      /* of rt_engine_desc                   */
    int32_t digits;                      /* likewise                            */
    int32_t n_prefixes, prefix_interval; /* 0: no prefix cache                   */
    int32_t n_log;                       /* entries of a replay log row; 0: no log             */
    float attention_scale;

    /* buffers of a micro-batch; engine.c has the sizes */
    float *x, *xn, *gate, *proj, *ba, *qg, *k, *v, *attn, *ff_a, *ff_b, *router;
    int32_t *expert;
    float *hidden;                                   /* output rows of the trunk                       */
    rt_weight draft_head;                            /* rows of the model's mtp_head that drafts are chosen from */
    float *draft_hidden, *draft_feed, *draft_logits; /* [n_batch][E], [n_seqs][E], [n_seqs][draft_head] */
    int32_t *draft_ahead;                            /* [n_seqs] by span: draft length after the step, or 0 */
    int32_t *draft_active, *draft_last;              /* [n_seqs] of a draft round                  */
    int32_t *draft_rows_token;                       /* [n_batch]                                      */
    int32_t *row_rope, *row_cell, *row_cells_n;      /* rows that the draft head creates */
    const int32_t **row_cells;
    const float **row_hidden;
    float *scratch, *attn_scratch;
    rt_stage mixed, delta_out, maps; /* shared with the device; mixed: projections, see layers.c */
    gdn_span conv_out;               /* device memory only                             */
    rt_stage *recurrent_weight;      /* [n_recurrent]                                  */
    rt_step_maps step_maps;
    gdn_span workspace;
    int32_t workspace_spans, workspace_rows;   /* the last shape that it was found large enough for */
    int32_t *order, *row_token, *row_of_batch; /* the batch sorted by sequence */
    rt_token_run *spans;

    /* results of the last batch */
    float *logits;
    int32_t n_logits, logits_capacity;
    int32_t *logits_row; /* [n_rows of the batch] row of logits, or -1     */
    int32_t n_rows, rows_capacity;

    rt_counters counters;
    rt_tap_fn tap;
    void *tap_user;
    rt_stop_fn stop;
    void *stop_user;
};

/* Copies the step's maps to the device, where all recurrent layers read them. Call before the layers. */
gdn_status rt_layers_begin(rt_engine *e, const rt_step *step);
/* x += mixer(x), and x += feed_forward(x), of a layer; e->x holds rows.n rows. */
gdn_status rt_layer_recurrent(rt_engine *e, const rt_layer *layer, const rt_step *step);
gdn_status rt_layer_attention(rt_engine *e, const rt_layer *layer, const rt_rows *rows);
void rt_layer_feed_forward(rt_engine *e, const rt_layer *layer, int32_t n);
/* Arguments of a layer's experts for n rows, without rows and memory: enough for rt_experts_scratch. */
rt_experts_args rt_layer_experts(const rt_model *model, const rt_layer *layer, int32_t n);

/* Grows the kernels' workspace for a micro-batch of n_rows in n_spans sequences; changes nothing else. */
gdn_status rt_engine_reserve_workspace(rt_engine *e, int32_t n_spans, int32_t n_rows);

/* Writes the embedding rows of n tokens to y, as F32. */
void rt_engine_embed(const rt_weight *embeddings, const int32_t *token, int32_t n, int32_t n_embd, float *y);

/* Stores e->hidden in the memory after a committed step. If the memory cannot keep all rows that the draft head needs,
 * the head processes them first, for all sequences together; not if `follow` is 0. token: tokens of the step's rows. */
gdn_status rt_draft_follow(rt_engine *e, const rt_token_run *spans, int32_t n_spans, const int32_t *token, int follow);

#endif
