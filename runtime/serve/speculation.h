/* Speculation controller: decides per step whether to draft. It compares the measured tokens per second of steps with
 * drafts and steps without, for each number of sequences that generate at once (the width). It never changes results.
 *
 * Since texts change, the controller now and then tries the mode that is not in use, for a few steps. The cost of a
 * trial is its extra time over the same tokens in the mode in use, mostly the draft head's catching up. The exploration
 * budget limits it: the next trial begins when the cost is at most 1/80 of the time since the last one. Each trial
 * without a change of mode halves that share, down to 1/640. If drafts would not pay even with all accepted, the share
 * is 1/640, or 1/320 after the first judgement. */
#ifndef GDN_RUNTIME_SPECULATION_H
#define GDN_RUNTIME_SPECULATION_H

#include <stdint.h>

enum { RT_SPECULATION_WIDTHS = 64 };

typedef struct rt_speculation_way {
    double tokens, seconds; /* per step, smoothed */
    int32_t n;
} rt_speculation_way;

/* State of one width. Modes (ways): 0 without drafts, 1 with drafts. */
typedef struct rt_speculation_width {
    rt_speculation_way way[2];
    int32_t judged;  /* 1: both modes were measured, `takes` is the better one */
    int32_t takes;   /* mode in use                                        */
    int32_t trying;  /* steps of the current trial; 0: no trial            */
    int32_t settles; /* 1: the next step with drafts includes catching up and is not measured */
    int32_t steps;   /* since the last trial                               */
    int32_t share;   /* the cost of a trial may be 1 / share of the time until the next */
    double seconds;  /* since the last trial                               */
    double owed;     /* cost of the trial in seconds                       */
} rt_speculation_width;

typedef struct rt_speculation {
    int32_t most; /* tokens per sequence of a step whose drafts are all accepted; 0: unknown */
    rt_speculation_width at[RT_SPECULATION_WIDTHS];
} rt_speculation;

/* True if the next step of `width` sequences should draft. Runs trials of both modes at first and again later. */
int rt_speculation_choose(rt_speculation *p, int32_t width);
/* The mode in use, or of the current trial, without advancing it; 1 before the first judgement. For unrecorded steps.
 */
int rt_speculation_pays(const rt_speculation *p, int32_t width);
void rt_speculation_record(rt_speculation *p, int32_t width, int drafted, int32_t n_tokens, double seconds);

#endif
