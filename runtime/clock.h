/* Seconds of a clock that nobody sets: only differences mean anything. What took how long decides whether drafts pay,
 * and a step of the system's time must not. */
#ifndef GDN_RUNTIME_CLOCK_H
#define GDN_RUNTIME_CLOCK_H

double rt_now(void);

#endif
