/* Does drafting pay? Measured, per number of sequences that generate at once: steps with drafts against steps without,
 * in tokens per second. Only the choice of a path depends on it, never a result. */
#ifndef GDN_RUNTIME_PAYOFF_H
#define GDN_RUNTIME_PAYOFF_H

#include <stdint.h>

enum { RT_PAYOFF_WIDTHS = 64 };

typedef struct rt_payoff {
    struct {
        double plain, drafted;
        int32_t n_plain, n_drafted;
    } rate[RT_PAYOFF_WIDTHS]; /* tokens per second, smoothed */
    int32_t steps;
} rt_payoff;

/* Should the coming step of `width` sequences draft? Tries both ways at first, and now and then again. */
int rt_payoff_choose(rt_payoff *p, int32_t width);
void rt_payoff_record(rt_payoff *p, int32_t width, int drafted, int32_t n_tokens, double seconds);

#endif
