/* Speculation controller for top-2 candidates: decides per step whether to verify them as a token tree, for each number
 * of sequences that generate at once (the width). A second candidate costs the time of one more row. It gives one more
 * token if the draft head's first candidate is rejected and the second one is drawn.
 *
 * How often that happens is known without verifying: a rejected first candidate shows the right token. Only the time of
 * the additional rows needs trials of a few steps. The interval between trials doubles while they change nothing. The
 * controller never changes results. */
#ifndef GDN_RUNTIME_PAYOFF_TREE_H
#define GDN_RUNTIME_PAYOFF_TREE_H

#include <stdint.h>

#include "runtime/serve/payoff.h"

typedef struct rt_payoff_tree_width {
    double seconds[2];     /* per step with drafts, smoothed: [0] without, [1] with second candidates       */
    double tokens, gained; /* per step with drafts, smoothed: drawn without second candidates; added by them */
    int32_t n[2], n_all;   /* steps in these means                                                          */
    int32_t takes;         /* 1: second candidates are verified                                             */
    int32_t trying;        /* 1: a trial of the other mode is running                                       */
    int32_t steps, wait;   /* steps since the last trial; steps until the next                              */
} rt_payoff_tree_width;

typedef struct rt_payoff_tree {
    rt_payoff_tree_width at[RT_PAYOFF_WIDTHS];
} rt_payoff_tree;

/* True if the next step, which has drafts for `width` sequences, should verify second candidates. */
int rt_payoff_tree_choose(rt_payoff_tree *p, int32_t width);
/* Records a step. with: it verified second candidates. n_tokens: tokens drawn; n_second: those of them that second
 * candidates gave, or would have given. */
void rt_payoff_tree_record(rt_payoff_tree *p, int32_t width, int with, int32_t n_tokens, int32_t n_second,
                           double seconds);

#endif
