/* Asynchronous copies to shared memory: made as late as the language allows. */
#include "tests/emulator/check.h"
#include "tests/emulator/core_internal.h"

#include <string.h>

/* A thread's copies, oldest first. Few kernels have more than a few in flight. */
#define MAX_COPIES 64
typedef struct copy {
    char *to;
    const char *from;
    unsigned bytes, group;
} copy;
static struct {
    copy copies[MAX_COPIES];
    unsigned n, group;
} flight[SIMT_MAX_THREADS];

void simt_copies_forget(void)
{
    for (unsigned i = 0; i < simt_current.n_threads; i++) flight[i].n = flight[i].group = 0;
}

void simt_copy_async(void *to, const void *from, unsigned bytes, simt_site site)
{
    unsigned *n = &flight[simt_self->number].n;
    if (bytes != 4 && bytes != 8 && bytes != 16)
        simt_fault("%s:%d: an asynchronous copy of %u bytes; 4, 8 and 16 can be", site.file, site.line, bytes);
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
        simt_fault("%s:%d: an asynchronous copy is not aligned to its %u bytes", site.file, site.line, bytes);
    if (*n == MAX_COPIES) simt_fault("%s:%d: more than %d copies in flight", site.file, site.line, MAX_COPIES);
    flight[simt_self->number].copies[(*n)++] = (copy){ to, from, bytes, flight[simt_self->number].group };
    if (simt_check) simt_check->copy_started(to, bytes);
    simt_poison(to, bytes);
}

void simt_copy_commit(void) { flight[simt_self->number].group++; }

void simt_copy_wait(unsigned pending)
{
    const unsigned group = flight[simt_self->number].group, n = flight[simt_self->number].n;
    copy *copies = flight[simt_self->number].copies;
    unsigned i = 0;
    for (; i < n && copies[i].group + pending < group; i++) {
        if (simt_check) simt_check->copy_done(copies[i].to, copies[i].from, copies[i].bytes);
        memcpy(copies[i].to, copies[i].from, copies[i].bytes);
    }
    memmove(copies, copies + i, (n - i) * sizeof *copies);
    flight[simt_self->number].n = n - i;
}
