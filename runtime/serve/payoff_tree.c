/* Speculation controller for second candidates: see payoff_tree.h. */
#include "runtime/serve/payoff_tree.h"

enum {
    FIRST = 8,     /* steps of a mode before it is judged                 */
    SEEN = 64,     /* steps before the gain in tokens is known            */
    AGAIN = 256,   /* steps to the next trial ...                         */
    RARELY = 8192, /* ... doubled after each trial without a change, up to this */
    SMOOTH = 32,
    SMOOTH_TOKENS = 512
};

static const double FAR = 1.25;

static int32_t slot(int32_t width) { return width < 1 ? 0 : width >= RT_PAYOFF_WIDTHS ? RT_PAYOFF_WIDTHS - 1 : width; }

int rt_payoff_tree_choose(rt_payoff_tree *p, int32_t width)
{
    rt_payoff_tree_width *a = &p->at[slot(width)];
    if (a->n_all < SEEN) return 0;
    if (a->trying) return !a->takes;
    if (a->wait && ++a->steps < a->wait) return a->takes;
    a->trying = 1;
    a->steps = 0;
    a->n[!a->takes] = 0; /* drops old measurements of this mode */
    return !a->takes;
}

static void smooth(double *mean, double x, int32_t n, int32_t most) { *mean += (x - *mean) / (n < most ? n : most); }

void rt_payoff_tree_record(rt_payoff_tree *p, int32_t width, int with, int32_t n_tokens, int32_t n_second,
                           double seconds)
{
    rt_payoff_tree_width *a = &p->at[slot(width)];
    if (seconds <= 0) return;
    a->n_all += a->n_all < SMOOTH_TOKENS;
    smooth(&a->tokens, with ? n_tokens - n_second : n_tokens, a->n_all, SMOOTH_TOKENS);
    smooth(&a->gained, n_second, a->n_all, SMOOTH_TOKENS);
    a->n[with] += a->n[with] < SMOOTH;
    /* Limit the effect of interrupted steps. */
    if (a->n[with] > 1 && seconds > FAR * a->seconds[with]) seconds = FAR * a->seconds[with];
    if (a->n[with] > 1 && a->n[with] <= FIRST && a->seconds[with] > FAR * seconds) a->seconds[with] = seconds;
    smooth(&a->seconds[with], seconds, a->n[with], SMOOTH);
    if (!a->trying || with == a->takes || a->n[with] < FIRST) return;
    const double longer = a->seconds[1] > a->seconds[0] ? a->seconds[1] : a->seconds[0]; /* additional rows cannot
                                                                                            make a step faster */
    const int takes = (a->tokens + a->gained) * a->seconds[0] > a->tokens * longer;
    a->trying = 0;
    a->wait = takes == a->takes && a->wait ? (a->wait < RARELY ? 2 * a->wait : RARELY) : AGAIN;
    a->takes = takes;
}
