/* The checker of memory accesses: hooks that the core and the driver call where it is linked (check.c). */
#ifndef GDN_SIMT_CHECK_H
#define GDN_SIMT_CHECK_H

#include "tests/emulator/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An allocation of device memory, with room for what the checker keeps about it. */
typedef struct simt_region {
    char *at;
    size_t bytes;
    void **shadow; /* the checker's, freed by release_shadow() */
    size_t *shadow_bytes;
} simt_region;

typedef struct simt_checker {
    void (*grid)(const void *params, size_t bytes);
    void (*block)(void);
    void (*barrier)(void);                         /* all threads of the block have come */
    void (*sync)(simt_warp *warp, uint32_t lanes); /* __syncwarp: these lanes */
    void (*release_shadow)(void *shadow, size_t bytes);
} simt_checker;

/* traffic.c: a kernel reads or writes bytes of device memory; to be called where simt_counts is not 0. */
extern int simt_counts;
void simt_count_bytes(const void *at, size_t bytes, int writes);
extern long long simt_unwritten; /* what simt_control() makes of "unwritten" */

/* check.c: an access of the thread that runs. */
enum simt_access { SIMT_READ, SIMT_WRITE, SIMT_ATOMIC };
void simt_accessed(const void *at, size_t bytes, enum simt_access access, const void *pc);

extern const simt_checker *simt_check;                             /* NULL: kernels are not watched */
extern int (*simt_region_of)(const void *at, simt_region *region); /* the driver's: 0 where there is none */

#ifdef __cplusplus
}
#endif
#endif
