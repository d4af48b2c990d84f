/* What the GPU backends share: from a problem to the number and shape of thread blocks, decided once, and to the
 * parameter block. A backend chooses the device kernel, launches it, and reports what its device cannot run. */
#ifndef GDN_GPU_PLAN_H
#define GDN_GPU_PLAN_H

#include "core/backend.h"
#include "gpu/params.h"

typedef struct gdn_gpu_device {
    uint64_t most_blocks;  /* of a launch                                                          */
    uint64_t most_slots;   /* of the tables of set_rows                                            */
    uint64_t most_rounds;  /* ssm_conv: iterations along a sequence that is not split; 0: any      */
    uint64_t params_bytes; /* at the start of each workspace, for the parameter block             */
    uint64_t (*address)(const void *backend, const gdn_place *at); /* NULL: operands are bound, without addresses */
    const void *backend;
    uint64_t bad; /* address of the words for bad maps                                    */
} gdn_gpu_device;

/* Plans and parameter blocks. gpu/<kernel>.c fills plan->blocks, n_items and more. `width` belongs to a thread block:
 * value channels of gated_delta_net (the caller has set plan->form), threads of ssm_conv, elements of a row of
 * set_rows. gdn_gpu_params_<stem>() needs a plan that was made for the problem. */
void gdn_gpu_plan_gated_delta_net(const gdn_gpu_device *dev, const gdn_gated_delta_net_problem *p, uint32_t width,
                                  gdn_plan *plan);
gdn_gpu_gated_delta_net gdn_gpu_params_gated_delta_net(const gdn_gpu_device *dev, const gdn_gated_delta_net_problem *p,
                                                       const gdn_plan *plan);
void gdn_gpu_plan_ssm_conv(const gdn_gpu_device *dev, const gdn_ssm_conv_problem *p, uint32_t width, gdn_plan *plan);
gdn_gpu_ssm_conv gdn_gpu_params_ssm_conv(const gdn_gpu_device *dev, const gdn_ssm_conv_problem *p,
                                         const gdn_plan *plan);
void gdn_gpu_plan_set_rows(const gdn_gpu_device *dev, const gdn_set_rows_problem *p, uint32_t width, gdn_plan *plan);
gdn_gpu_set_rows gdn_gpu_params_set_rows(const gdn_gpu_device *dev, const gdn_set_rows_problem *p,
                                         const gdn_plan *plan);

/* 1 if q, k, g or beta need more than the recurrence (norm, gate_input, beta_input), or if there is a read key. */
int gdn_gpu_has_forms(const gdn_gated_delta_net_problem *p);

/* Parameters of the second launch, after the pieces, which has plan->n_after thread blocks. */
gdn_gpu_ssm_conv gdn_gpu_history_ssm_conv(const gdn_gpu_ssm_conv *pieces);
/* Thread blocks of the set_rows launches that clear the table and that enter rows into it. */
uint64_t gdn_gpu_clear_blocks(const gdn_gpu_set_rows *params, uint32_t threads);
uint64_t gdn_gpu_enter_blocks(const gdn_gpu_set_rows *params, uint32_t threads);

/* Alignment of the rows of a tensor or state: the bits of all its addresses, for `% 16`. */
uint64_t gdn_gpu_token_bits(const gdn_gpu_tokens *t);
uint64_t gdn_gpu_pool_bits(const gdn_gpu_pool *t);

/* For gpu/<kernel>.c. */
uint64_t gdn_gpu_address(const gdn_gpu_device *dev, const gdn_place *at);
gdn_gpu_tokens gdn_gpu_tokens_of(const gdn_gpu_device *dev, const gdn_token_view *view);
gdn_gpu_pool gdn_gpu_pool_of(const gdn_gpu_device *dev, const gdn_state_view *view);
/* GDN_GPU_ONE_POOL if the pool that is read is in the buffer that is written; *apart: the bytes between them. */
int32_t gdn_gpu_one_pool(const gdn_place *in, const gdn_place *out, int64_t *apart);
/* a * b, or INT64_MAX if that is larger. */
uint64_t gdn_gpu_product(uint64_t a, uint64_t b);
/* n / of, rounded up. */
uint64_t gdn_gpu_parts(uint64_t n, uint64_t of);

/* ---- bad_maps.c ---- */
/* Takes and clears the words that kernels have set. Returns `status` if that is a failure, else BAD_MAP if a word is
 * set. */
gdn_status gdn_gpu_take_bad_maps(uint32_t bad[GDN_GPU_BAD_WORDS], gdn_status status);

#endif
