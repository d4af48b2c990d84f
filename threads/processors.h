/* Processors that threads may run on. */
#ifndef GDN_THREADS_PROCESSORS_H
#define GDN_THREADS_PROCESSORS_H

#if defined(__linux__)
#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header: cpu_set_t"
#endif
#include <sched.h>
#endif
#include <stdint.h>

typedef struct gdn_processors {
    int32_t n;
#if defined(__linux__)
    cpu_set_t set;
#endif
} gdn_processors;

/* Those of the calling thread. */
gdn_processors gdn_processors_of_thread(void);

/* Those of the process: of any of its threads. OpenMP (OMP_PROC_BIND) and engines bind single threads, the calling one
 * among them, while taskset and containers restrict all threads. */
gdn_processors gdn_processors_of_process(void);

/* Lets the calling thread run on all of them. */
void gdn_processors_use(const gdn_processors *p);

#endif
