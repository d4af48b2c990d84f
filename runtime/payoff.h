/* Does drafting pay? Measured, per number of sequences that generate at once: steps with drafts against steps without,
 * in tokens per second. Only the choice of a path depends on it, never a result.
 *
 * The way that is not taken is tried again for a few steps now and then, as texts change. What the first steps and each
 * try cost beyond what their tokens would have cost on the way that is taken, the draft head's catching up above all,
 * is owed: the next try waits until that is one eightieth of the time since, and twice as long with each try that
 * changes nothing, until it is one in 640; at once where drafts would not pay if all of them were accepted. */
#ifndef GDN_RUNTIME_PAYOFF_H
#define GDN_RUNTIME_PAYOFF_H

#include <stdint.h>

enum { RT_PAYOFF_WIDTHS = 64 };

typedef struct rt_payoff_way {
    double tokens, seconds; /* of a step, smoothed */
    int32_t n;
} rt_payoff_way;

/* Of one width. Ways: 0 without drafts, 1 with. */
typedef struct rt_payoff_width {
    rt_payoff_way way[2];
    int32_t judged;  /* both ways were measured: `takes` is the better one */
    int32_t takes;   /* the way that is taken                              */
    int32_t trying;  /* steps of a try of the other way so far; 0: none    */
    int32_t settles; /* the coming step with drafts pays for catching up: it says nothing about those after it */
    int32_t steps;   /* since the last try                                 */
    int32_t share;   /* what that cost is to be one part in so many of the time before the next */
    double seconds;  /* since the last try                                 */
    double owed;     /* seconds                                            */
} rt_payoff_width;

typedef struct rt_payoff {
    int32_t most; /* tokens that a step with drafts gives each sequence where all are accepted; 0: not known */
    rt_payoff_width at[RT_PAYOFF_WIDTHS];
} rt_payoff;

/* Should the coming step of `width` sequences draft? Tries both ways at first, and now and then again. */
int rt_payoff_choose(rt_payoff *p, int32_t width);
/* As the last step, where both ways were measured; otherwise 1. For steps that are not recorded. */
int rt_payoff_pays(const rt_payoff *p, int32_t width);
void rt_payoff_record(rt_payoff *p, int32_t width, int drafted, int32_t n_tokens, double seconds);

#endif
