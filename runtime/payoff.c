/* Does drafting pay? See payoff.h. */
#include "runtime/payoff.h"

enum { TRIES = 4, AGAIN = 64 };

static int32_t slot(int32_t width) { return width < 1 ? 0 : width >= RT_PAYOFF_WIDTHS ? RT_PAYOFF_WIDTHS - 1 : width; }

int rt_payoff_choose(rt_payoff *p, int32_t width)
{
    const int32_t w = slot(width);
    p->steps++;
    if (p->rate[w].n_drafted < TRIES)
        return 1;
    if (p->rate[w].n_plain < TRIES)
        return 0;
    const int better = p->rate[w].drafted >= p->rate[w].plain;
    return p->steps % AGAIN == 0 ? !better : better; /* texts change: look at the other way again */
}

void rt_payoff_record(rt_payoff *p, int32_t width, int drafted, int32_t n_tokens, double seconds)
{
    const int32_t w = slot(width);
    if (seconds <= 0)
        return;
    const double rate = n_tokens / seconds;
    double  *mean = drafted ? &p->rate[w].drafted : &p->rate[w].plain;
    int32_t *n    = drafted ? &p->rate[w].n_drafted : &p->rate[w].n_plain;
    *mean = *n ? *mean + (rate - *mean) / (*n < 16 ? *n + 1 : 16) : rate;
    ++*n;
}
