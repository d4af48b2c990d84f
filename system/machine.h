/* Pages of memory, and what a machine has and is doing, for the checks, the benchmarks and the tool. */
#ifndef GDN_SYSTEM_MACHINE_H
#define GDN_SYSTEM_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Whole pages. Those of pages_reserve() cannot be accessed until pages_open(). Those of pages_sparse() are zeros, and
 * take memory only once they are touched. NULL: the system gives none. */
uint64_t pages_size(void);
void *pages_reserve(uint64_t bytes);
int pages_open(void *pages, uint64_t bytes); /* 0: failed */
void *pages_sparse(uint64_t bytes);
int pages_touched(const void *pages, uint64_t n, unsigned char *touched); /* 1 or 0 for each of n; 0: unknown */
void pages_free(void *pages, uint64_t bytes);
int pages_huge(void);                             /* 1: the system provides huge pages on request */
void pages_ask_huge(void *begin, uint64_t bytes); /* a failure costs only speed */

int32_t machine_processors(void);
int64_t machine_l3_bytes(void);            /* of the L3 cache that a processor can use; 0: unknown */
uint64_t machine_memory_available(void);   /* in bytes; 0: unknown */
int machine_load(double load[3]);          /* averages of 1, 5 and 15 minutes; returns how many are known */
int machine_random(void *bytes, size_t n); /* of the system's generator; 0: failed */

double process_seconds(void);        /* processor time of all threads */
int64_t process_interruptions(void); /* how often the system took a processor away; 0: unknown */

#endif
