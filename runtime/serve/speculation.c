/* Speculation controller: see speculation.h. */
#include "runtime/serve/speculation.h"

enum {
    FIRST = 3,    /* steps of a mode before it is judged                                                           */
    ENOUGH = 16,  /* draft rounds (steps * width) of a trial with drafts: acceptance varies much                 */
    LONGEST = 64, /* most steps of a trial, recorded or not                                                        */
    AGAIN = 64,   /* least steps between trials                                                                    */
    OFTEN = 80,   /* initial share: a trial may cost 1 / 80 of the time until the next                             */
    RARELY = 640, /* smallest share: doubled up to here while trials change nothing                                */
    SMOOTH = 32
};
static const double KEEP = 0.97; /* drafting continues at this relative speed or more                               */
static const double FAR = 1.6;   /* steps slower than this factor times the mean count as interrupted                */
/* A trial with drafts ends early if it is slower by more than chance explains. The accepted tokens of a round vary by
 * about 0.4 of their mean, so the mean of n rounds by 0.4 / sqrt(n). This is the square of 2.2 * 0.4. */
static const double CLEAR = 0.8;

static int32_t slot(int32_t width)
{
    return width < 1 ? 0 : width >= RT_SPECULATION_WIDTHS ? RT_SPECULATION_WIDTHS - 1 : width;
}

static double rate(const rt_speculation_width *a, int drafted)
{
    return a->way[drafted].tokens / a->way[drafted].seconds;
}

int rt_speculation_pays(const rt_speculation *p, int32_t width)
{
    const rt_speculation_width *a = &p->at[slot(width)];
    return !a->judged || a->takes != (a->trying > 0);
}

static int begin_try(rt_speculation_width *a)
{
    const int other = !a->takes;
    a->trying = 1;
    a->settles = other;
    a->steps = 0;
    a->seconds = a->owed = 0;
    a->way[other].n = other ? 0 : FIRST; /* old measurements of drafting are dropped, others count less */
    return other;
}

int rt_speculation_choose(rt_speculation *p, int32_t width)
{
    rt_speculation_width *a = &p->at[slot(width)];
    if (a->way[0].n < FIRST) return 0;
    if (!a->judged && !a->trying) return begin_try(a);
    if (a->trying && a->trying++ < LONGEST) return !a->takes;
    a->trying = 0;
    if (++a->steps < AGAIN || a->owed * a->share > a->seconds) return a->takes;
    return begin_try(a);
}

/* Adds a step to a mode's means, and limits the effect of interrupted steps. */
static void smooth(rt_speculation_way *way, int32_t n_tokens, double seconds)
{
    const double part = way->n < SMOOTH ? way->n + 1 : SMOOTH;
    if (way->n > 1 && seconds > FAR * way->seconds) seconds = FAR * way->seconds;
    if (way->n && way->n < FIRST && way->seconds > FAR * seconds) way->seconds = seconds;
    way->tokens += (n_tokens - way->tokens) / part;
    way->seconds += (seconds - way->seconds) / part;
    way->n++;
}

/* True if drafts would not pay even with all of them accepted. */
static int is_hopeless(const rt_speculation *p, const rt_speculation_width *a)
{
    return p->most > 0 && a->way[1].seconds > p->most * a->way[0].seconds;
}

/* True if the trial has enough steps. */
static int is_over(const rt_speculation *p, const rt_speculation_width *a, int32_t width)
{
    const int32_t n = a->way[!a->takes].n;
    width = width < RT_SPECULATION_WIDTHS ? width : RT_SPECULATION_WIDTHS;
    if (a->takes) return n >= 2 * FIRST;
    if (n >= FIRST && is_hopeless(p, a)) return 1;
    const double behind = 1 - rate(a, 1) / rate(a, 0);
    return n >= FIRST && (n * width >= ENOUGH || (behind > 0 && n * width * behind * behind > CLEAR));
}

void rt_speculation_record(rt_speculation *p, int32_t width, int drafted, int32_t n_tokens, double seconds)
{
    rt_speculation_width *a = &p->at[slot(width)];
    if (seconds <= 0) return;
    const int trying = a->trying && drafted != a->takes, settles = trying && drafted && a->settles;
    a->seconds += seconds;
    if (trying) {
        const double most = 8 * a->way[a->takes].seconds; /* longer: it was interrupted */
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
    if (!takes && is_hopeless(p, a)) a->share = a->judged ? RARELY : RARELY / 2; /* one measurement may be wrong */
    a->trying = 0;
    a->judged = 1;
    if (takes != a->takes) a->owed = 0;
    a->takes = takes;
}
