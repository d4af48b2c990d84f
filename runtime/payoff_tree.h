/* Do second choices pay? A step with drafts may verify the draft head's second choices beside them, as a tree: each is
 * a row more, which costs time, and one token more where it is what comes. Per number of sequences that generate at
 * once.
 *
 * How often they are what comes is known of every step with drafts, without verifying them: a first choice that was
 * refused shows what should have stood there. So only the time of the rows has to be tried: a few steps with them now
 * and then, farther and farther apart while they do not pay. Only the choice of a path depends on it, never a result.
 */
#ifndef GDN_RUNTIME_PAYOFF_TREE_H
#define GDN_RUNTIME_PAYOFF_TREE_H

#include <stdint.h>

#include "runtime/payoff.h"

typedef struct rt_payoff_tree_width {
    double seconds[2];     /* of a step with drafts, smoothed: without second choices, with them            */
    double tokens, gained; /* of a step with drafts, smoothed: drawn without second choices, and more with them */
    int32_t n[2], n_all;   /* steps in these                                                                */
    int32_t takes;         /* 1: second choices are verified                                                */
    int32_t trying;        /* steps of a try of the other way so far; 0: none                               */
    int32_t steps, wait;   /* since the last try; so many until the next                                    */
} rt_payoff_tree_width;

typedef struct rt_payoff_tree {
    rt_payoff_tree_width at[RT_PAYOFF_WIDTHS];
} rt_payoff_tree;

/* Should the coming step, which has drafts for `width` sequences, verify second choices? */
int rt_payoff_tree_choose(rt_payoff_tree *p, int32_t width);
/* It did, or did not. n_tokens: drawn; n_second: of those that second choices gave, or would have given. */
void rt_payoff_tree_record(rt_payoff_tree *p, int32_t width, int with, int32_t n_tokens, int32_t n_second,
                           double seconds);

#endif
