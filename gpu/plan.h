/* What the GPU backends share: from a problem to the number and shape of thread blocks, decided once, and to the block
 * that kernels receive. A backend chooses the device kernel, launches it, and reports what its device cannot run. */
#ifndef GDN_GPU_PLAN_H
#define GDN_GPU_PLAN_H

#include "core/backend.h"

typedef struct gdn_gpu_device {
    uint64_t most_blocks;  /* of a launch                                                          */
    uint64_t most_slots;   /* of the tables of set_rows                                            */
    uint64_t params_bytes; /* at the start of each workspace, for the block                        */
    int addresses;         /* 0: operands are bound, without addresses                             */
    int chunked;           /* 1: it has the chunked form                                           */
    uint64_t bad;          /* address of the words for bad maps                                    */
} gdn_gpu_device;

/* Plans. gpu/<kernel>.c fills plan->gpu.blocks, n_items and more. `width` belongs to a thread block: value channels of
 * gated_delta_net (the caller has set plan->variant), threads of ssm_conv, elements of a row of set_rows. */
void gdn_gpu_plan_gated_delta_net(const gdn_gpu_device *dev, const gdn_gated_delta_net_call *p, uint32_t width,
                                  gdn_plan *plan);
void gdn_gpu_plan_ssm_conv(const gdn_gpu_device *dev, const gdn_ssm_conv_call *p, uint32_t width, gdn_plan *plan);
void gdn_gpu_plan_set_rows(const gdn_gpu_device *dev, const gdn_set_rows_call *p, uint32_t width, gdn_plan *plan);

/* The blocks that kernels receive: the problem's, and the device's members from the plan that was made for it. */
gdn_gated_delta_net_call gdn_gpu_call_gated_delta_net(const gdn_gpu_device *dev, const gdn_problem *problem,
                                                      const gdn_plan *plan);
gdn_ssm_conv_call gdn_gpu_call_ssm_conv(const gdn_gpu_device *dev, const gdn_problem *problem, const gdn_plan *plan);
gdn_set_rows_call gdn_gpu_call_set_rows(const gdn_gpu_device *dev, const gdn_problem *problem, const gdn_plan *plan);

/* 1 if the call uses anything of its inputs (gdn_delta_inputs). */
int gdn_gpu_has_forms(const gdn_gated_delta_net_call *p);

/* The block of the second launch, after the pieces, which has plan->gpu.n_after thread blocks. */
gdn_ssm_conv_call gdn_gpu_call_history(const gdn_ssm_conv_call *pieces);
/* Thread blocks of the set_rows launches that clear the table and that enter rows into it. */
uint64_t gdn_gpu_clear_blocks(const gdn_set_rows_call *call, uint32_t threads);
uint64_t gdn_gpu_enter_blocks(const gdn_set_rows_call *call, uint32_t threads);

/* Alignment of the rows of a tensor or pool: the bits of its address and strides, for `% 16`. */
uint64_t gdn_gpu_token_bits(const gdn_token_view *t);
uint64_t gdn_gpu_pool_bits(const gdn_pool_view *t);

/* For gpu/<kernel>.c. */
/* a * b, or INT64_MAX if that is larger. */
uint64_t gdn_gpu_product(uint64_t a, uint64_t b);
/* n / of, rounded up. */
uint64_t gdn_gpu_parts(uint64_t n, uint64_t of);

/* ---- bad_maps.c ---- */
/* Takes and clears the words that kernels have set. Returns `status` if that is a failure, else BAD_MAP if a word is
 * set. */
gdn_status gdn_gpu_take_bad_maps(uint32_t bad[GDN_BAD_WORDS], gdn_status status);

#endif
