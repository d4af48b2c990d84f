/* Memory for the fuzz target. See fuzz_args.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fuzz_args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/sanitized.h"

#ifdef ADDRESS_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#ifndef ADDRESS_SANITIZED
enum { CANARY = 0xc5, CANARY_BYTES = 512 }; /* looked at on each side */
#endif

void fuzz_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)fputs("fuzz_args: ", stderr);
    (void)vfprintf(stderr, format, list);
    (void)fputc('\n', stderr);
    va_end(list);
    abort();
}

/* Slabs descend, with room between them that must not be touched. */
static void make(arena *a, slab *s)
{
    const size_t apart = 4 * (size_t)SLAB_BYTES, page = (size_t)sysconf(_SC_PAGESIZE), bytes = MAX_SLABS * apart + page;
    if (!a->all) {
        a->all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        FUZZ_REQUIRE(a->all != MAP_FAILED, "no memory for slabs");
    }
    s->base = a->all + (size_t)(MAX_SLABS - 1 - (s - a->slabs)) * apart + page;
    s->before = malloc(SLAB_BYTES);
    s->result = malloc(SLAB_BYTES);
    s->mask = malloc(SLAB_BYTES);
    FUZZ_REQUIRE(!mprotect(s->base, SLAB_BYTES, PROT_READ | PROT_WRITE) && s->before && s->result && s->mask,
                 "no memory for a slab");
    s->at = s->base;
    ASAN_POISON_MEMORY_REGION(s->base, SLAB_BYTES);
}

#ifndef ADDRESS_SANITIZED
/* The canaries next to the accessible bytes. */
static void canaries(const slab *s, unsigned char **front, size_t *n_front, unsigned char **back, size_t *n_back)
{
    const size_t left = (size_t)(s->at - s->base), right = SLAB_BYTES - left - s->bytes;
    *n_front = left < CANARY_BYTES ? left : CANARY_BYTES;
    *front = s->at - *n_front;
    *n_back = right < CANARY_BYTES ? right : CANARY_BYTES;
    *back = s->at + s->bytes;
}
#endif

void arena_reset(arena *a) { a->n = 0; }

slab *arena_take(arena *a, size_t bytes, size_t alignment, int at_end)
{
    FUZZ_REQUIRE(a->n < MAX_SLABS && bytes > 0 && bytes + 64 <= SLAB_BYTES, "the decoder wants %zu bytes", bytes);
    slab *s = &a->slabs[a->n++];
    if (!s->base) make(a, s);
    ASAN_POISON_MEMORY_REGION(s->at, s->bytes); /* what was in use; the rest is poisoned always */
    s->bytes = bytes;
    s->at = s->base + (at_end ? (SLAB_BYTES - bytes) / alignment * alignment : 0);
    ASAN_UNPOISON_MEMORY_REGION(s->at, bytes);
    memset(s->at, 0, bytes);
#ifndef ADDRESS_SANITIZED
    unsigned char *front, *back;
    size_t n_front, n_back;
    canaries(s, &front, &n_front, &back, &n_back);
    memset(front, CANARY, n_front);
    memset(back, CANARY, n_back);
#endif
    return s;
}

slab *arena_find(arena *a, const void *p, size_t bytes)
{
    const uintptr_t at = (uintptr_t)p;
    for (int i = 0; i < a->n; i++) {
        slab *s = &a->slabs[i];
        const uintptr_t begin = (uintptr_t)s->at;
        if (at >= begin && at - begin <= s->bytes && bytes <= s->bytes - (at - begin)) return s;
    }
    return NULL;
}

void arena_remember(arena *a)
{
    for (int i = 0; i < a->n; i++) {
        memcpy(a->slabs[i].before, a->slabs[i].at, a->slabs[i].bytes);
        memset(a->slabs[i].mask, MASK_NO, a->slabs[i].bytes);
    }
}

void arena_restore(arena *a)
{
    for (int i = 0; i < a->n; i++) memcpy(a->slabs[i].at, a->slabs[i].before, a->slabs[i].bytes);
}

void arena_check_canaries(arena *a)
{
#ifdef ADDRESS_SANITIZED
    (void)a; /* poisoned: the access itself was reported */
#else
    for (int i = 0; i < a->n; i++) {
        unsigned char *front, *back;
        size_t n_front, n_back;
        canaries(&a->slabs[i], &front, &n_front, &back, &n_back);
        for (size_t k = 0; k < n_front; k++)
            FUZZ_REQUIRE(front[k] == CANARY, "slab %d was written %zu bytes before its begin", i, n_front - k);
        for (size_t k = 0; k < n_back; k++)
            FUZZ_REQUIRE(back[k] == CANARY, "slab %d was written %zu bytes behind its end", i, k);
    }
#endif
}
