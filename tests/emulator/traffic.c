/* Counts the bytes that kernels read and write in pieces of device memory, for simt_watch(). The checker says what
 * there is to count (check.c). */
#include "tests/emulator/check.h"
#include "tests/emulator/driver.h"

#include <stdlib.h>

enum { MOST = 0xffff };

typedef struct piece {
    uintptr_t at;
    size_t bytes;
    uint16_t *reads, *writes; /* of each byte, at most MOST */
    simt_traffic sums;
} piece;

static piece pieces[SIMT_WATCHED];
static unsigned long long accesses; /* of any piece */
int simt_counts;
long long simt_unwritten;

int simt_watch(unsigned which, simt_ptr at, size_t bytes)
{
    if (which >= SIMT_WATCHED || !simt_check) return -1;
    piece *p = &pieces[which];
    simt_counts -= p->bytes != 0;
    free(p->reads);
    *p = (piece){ 0 };
    if (!bytes) return 0;
    uint16_t *times = calloc(2 * bytes, sizeof *times);
    if (!times) return -1;
    *p = (piece){ (uintptr_t)at, bytes, times, times + bytes, { 0 } };
    simt_counts++;
    return 0;
}

void simt_count_bytes(const void *at, size_t bytes, int writes)
{
    for (unsigned which = 0; which < SIMT_WATCHED; which++) {
        piece *p = &pieces[which];
        const uintptr_t from = (uintptr_t)at > p->at ? (uintptr_t)at : p->at;
        const uintptr_t end = (uintptr_t)at + bytes, stop = end < p->at + p->bytes ? end : p->at + p->bytes;
        uint16_t *times = writes ? p->writes : p->reads;
        if (from < stop && !p->sums.first) p->sums.first = ++accesses;
        for (uintptr_t i = from; i < stop; i++) {
            *(writes ? &p->sums.written : &p->sums.read) += 1;
            times[i - p->at] = (uint16_t)(times[i - p->at] + (times[i - p->at] < MOST));
        }
    }
}

int simt_traffic_of(unsigned which, simt_traffic *traffic)
{
    if (which >= SIMT_WATCHED || !pieces[which].bytes) return -1;
    const piece *p = &pieces[which];
    *traffic = p->sums;
    for (size_t i = 0; i < p->bytes; i++) {
        traffic->bytes_read += p->reads[i] > 0;
        traffic->bytes_written += p->writes[i] > 0;
        if (p->reads[i] > traffic->most_reads) traffic->most_reads = p->reads[i];
        if (p->writes[i] > traffic->most_writes) traffic->most_writes = p->writes[i];
    }
    return 0;
}
