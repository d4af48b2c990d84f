/* Monotonic clock in seconds; only differences are meaningful. Changes of the system time do not affect it, so the
 * speculation controller can rely on measured times. */
#ifndef GDN_RUNTIME_CLOCK_H
#define GDN_RUNTIME_CLOCK_H

double rt_now(void);

#endif
