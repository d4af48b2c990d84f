/* Fibers: stacks that are switched by hand, so that the threads of a block run on one thread of the machine. */
#ifndef GDN_SIMT_FIBER_H
#define GDN_SIMT_FIBER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simt_fiber {
    void *sp;    /* where its registers lie while it does not run */
    char *stack; /* the lowest byte of its stack */
    size_t size;
    void *fake; /* AddressSanitizer's own */
} simt_fiber;

/* Make room for `count` fibers; existing ones stay. 0, or -1 if memory runs out. */
int simt_fibers_reserve(unsigned count);

/* The fiber with this number, set up to call entry() when it is first switched to. entry never returns. */
void simt_fiber_start(simt_fiber *fiber, unsigned number, void (*entry)(void));

/* Suspend `from` and go on with `to`. `last`: `from` is never switched to again. */
void simt_fiber_switch(simt_fiber *from, simt_fiber *to, int last);

/* The first thing that a started fiber calls. */
void simt_fiber_entered(simt_fiber *self);

#ifdef __cplusplus
}
#endif
#endif
