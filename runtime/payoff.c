/* Does drafting pay? See payoff.h. */
#include "runtime/payoff.h"

enum {
    FIRST   = 3,    /* steps of a way before it is judged at all                                                     */
    ENOUGH  = 16,   /* draft rounds of single sequences in a try with drafts: how many are accepted differs much   */
    LONGEST = 64,   /* steps of a try, recorded or not                                                               */
    AGAIN   = 64,   /* steps to the next try at least                                                                */
    OFTEN   = 80,   /* of the time since a try, what it cost is at most this part when the next begins, ...          */
    RARELY  = 640,  /* ... and with each try that changes nothing half as much, down to this part                    */
    SMOOTH  = 32
};
static const double KEEP = 0.97; /* drafting goes on while it is so fast                                            */
static const double FAR = 1.6; /* what takes so much longer than other steps of its way was interrupted            */
/* A try with drafts ends early where it is behind by more than chance makes it: what is accepted in a round differs by
 * about two fifths of its mean, so the mean of n rounds by 0.4 / sqrt(n), and this is the square of 2.2 times 0.4. */
static const double CLEAR = 0.8;

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
    if (++a->steps < AGAIN || a->owed * a->share > a->seconds) return a->takes;
    return begin_try(a);
}

/* One step more of a way. What takes far longer than others was interrupted by something else. */
static void smooth(rt_payoff_way *way, int32_t n_tokens, double seconds)
{
    const double part = way->n < SMOOTH ? way->n + 1 : SMOOTH;
    if (way->n > 1 && seconds > FAR * way->seconds) seconds = FAR * way->seconds;
    if (way->n && way->n < FIRST && way->seconds > FAR * seconds) way->seconds = seconds;
    way->tokens += (n_tokens - way->tokens) / part;
    way->seconds += (seconds - way->seconds) / part;
    way->n++;
}

/* Would drafts not pay if all were accepted? */
static int is_hopeless(const rt_payoff *p, const rt_payoff_width *a)
{
    return p->most > 0 && a->way[1].seconds > p->most * a->way[0].seconds;
}

/* Has the try seen enough? */
static int is_over(const rt_payoff *p, const rt_payoff_width *a, int32_t width)
{
    const int32_t n = a->way[!a->takes].n;
    width = width < RT_PAYOFF_WIDTHS ? width : RT_PAYOFF_WIDTHS;
    if (a->takes) return n >= 2 * FIRST;
    if (n >= FIRST && is_hopeless(p, a)) return 1;
    const double behind = 1 - rate(a, 1) / rate(a, 0);
    return n >= FIRST && (n * width >= ENOUGH || (behind > 0 && n * width * behind * behind > CLEAR));
}

void rt_payoff_record(rt_payoff *p, int32_t width, int drafted, int32_t n_tokens, double seconds)
{
    rt_payoff_width *a = &p->at[slot(width)];
    if (seconds <= 0) return;
    const int trying = a->trying && drafted != a->takes, settles = trying && drafted && a->settles;
    a->seconds += seconds;
    if (trying) {
        const double most = 8 * a->way[a->takes].seconds; /* or it was interrupted */
        a->owed += (seconds < most ? seconds : most) - n_tokens / rate(a, a->takes);
    }
    if (settles) {
        a->settles = 0;
        return;
    }
    smooth(&a->way[drafted], n_tokens, seconds);
    if (trying ? !is_over(p, a, width) : a->judged ? !a->takes : a->way[0].n < FIRST || a->way[1].n < FIRST) return;
    const int takes = rate(a, 1) >= (a->takes ? KEEP : 1) * rate(a, 0);
    if (!a->judged || takes != a->takes) a->share = OFTEN;
    else if (a->trying && a->share < RARELY) a->share *= 2;
    if (!takes && is_hopeless(p, a)) a->share = a->judged ? RARELY : RARELY / 2; /* once may be a mistake */
    a->trying = 0;
    a->judged = 1;
    if (takes != a->takes) a->owed = 0;
    a->takes = takes;
}
