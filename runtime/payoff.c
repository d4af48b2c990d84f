/* Does drafting pay? See payoff.h. */
#include "runtime/payoff.h"

enum {
    FIRST   = 3,    /* steps of a way before it is judged at all                                                     */
    ENOUGH  = 16,   /* draft rounds of single sequences in a try with drafts: how many are accepted differs much ... */
    BAD     = 6,    /* ... and after so many it ends where it is far behind                                          */
    LONGEST = 64,   /* steps of a try, recorded or not                                                               */
    AGAIN   = 64,   /* steps to the next try at least                                                                */
    SHARE   = 100,  /* of the time since a try, what it cost is at most this part when the next begins               */
    SMOOTH  = 32
};
static const double KEEP = 0.97, FAR = 0.75; /* drafting goes on while it is so fast; it is far behind below     */

static int32_t slot(int32_t width) { return width < 1 ? 0 : width >= RT_PAYOFF_WIDTHS ? RT_PAYOFF_WIDTHS - 1 : width; }

static double rate(const rt_payoff_width *a, int drafted) { return a->way[drafted].tokens / a->way[drafted].seconds; }

int rt_payoff_pays(const rt_payoff *p, int32_t width)
{
    const rt_payoff_width *a = &p->at[slot(width)];
    return !a->judged || a->takes != (a->trying > 0);
}

static int begin_try(rt_payoff_width *a)
{
    const int other = !a->takes;
    a->trying  = 1;
    a->settles = other;
    a->steps   = 0;
    a->seconds = a->owed = 0;
    a->way[other].n = other ? 0 : FIRST; /* what it was some time ago counts little, or less */
    return other;
}

int rt_payoff_choose(rt_payoff *p, int32_t width)
{
    rt_payoff_width *a = &p->at[slot(width)];
    if (a->way[0].n < FIRST) return 0;
    if (!a->judged && !a->trying) return begin_try(a);
    if (a->trying && a->trying++ < LONGEST) return !a->takes;
    a->trying = 0;
    if (++a->steps < AGAIN || a->owed * SHARE > a->seconds) return a->takes;
    return begin_try(a);
}

/* One step more of a way. What takes far longer than others was interrupted by something else. */
static void smooth(rt_payoff_way *way, int32_t n_tokens, double seconds)
{
    const double part = way->n < SMOOTH ? way->n + 1 : SMOOTH;
    if (way->n > 1 && seconds > 2 * way->seconds) seconds = 2 * way->seconds;
    if (way->n && way->n < FIRST && way->seconds > 2 * seconds) way->seconds = seconds;
    way->tokens += (n_tokens - way->tokens) / part;
    way->seconds += (seconds - way->seconds) / part;
    way->n++;
}

/* Has the try seen enough? */
static int is_over(const rt_payoff_width *a, int32_t width)
{
    const int32_t n = a->way[!a->takes].n;
    width = width < RT_PAYOFF_WIDTHS ? width : RT_PAYOFF_WIDTHS;
    if (a->takes) return n >= 2 * FIRST;
    return n >= FIRST && (n * width >= ENOUGH || (n * width >= BAD && rate(a, 1) < FAR * rate(a, 0)));
}

void rt_payoff_record(rt_payoff *p, int32_t width, int drafted, int32_t n_tokens, double seconds)
{
    rt_payoff_width *a = &p->at[slot(width)];
    if (seconds <= 0) return;
    const int trying = a->trying && drafted != a->takes, settles = trying && drafted && a->settles;
    a->seconds += seconds;
    if (trying) {
        const double most = 16 * a->way[a->takes].seconds; /* or it was interrupted */
        a->owed += (seconds < most ? seconds : most) - n_tokens / rate(a, a->takes);
    }
    if (settles) {
        a->settles = 0;
        return;
    }
    smooth(&a->way[drafted], n_tokens, seconds);
    if (trying ? !is_over(a, width) : a->judged ? !a->takes : a->way[0].n < FIRST || a->way[1].n < FIRST) return;
    const int takes = rate(a, 1) >= (a->takes ? KEEP : 1) * rate(a, 0);
    a->trying = 0;
    a->judged = 1;
    if (takes != a->takes) a->owed = 0;
    a->takes = takes;
}
