/* Device memory, which is host memory with guards around it, and pinned host memory. */
#define _GNU_SOURCE
#include "tests/sanitized.h"
#include "tests/emulator/check.h"
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256u
#ifdef ADDRESS_SANITIZED
static const size_t guard; /* none: AddressSanitizer's are better */
#else
static const size_t guard = ALIGNMENT;
#endif
#define GUARD_BYTE 0xa7

typedef struct block {
    char *at, *memory;
    size_t bytes;
    int host, broken;
    simt_context *context;
    void *shadow; /* the checker's */
    size_t shadow_bytes;
} block;
static block *blocks; /* in order of address */
static size_t n_blocks, capacity, device_bytes;

static size_t position(const char *at) /* of the first block that ends behind `at` */
{
    size_t low = 0, high = n_blocks;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (blocks[middle].at + blocks[middle].bytes <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static block *find(const char *at, size_t bytes)
{
    const size_t i = position(at);
    if (i == n_blocks || at < blocks[i].at || bytes > (size_t)(blocks[i].at + blocks[i].bytes - at)) return NULL;
    return &blocks[i];
}

int simt_device_range(const void *at, size_t bytes) { return !bytes || find(at, bytes) != NULL; }

static int region_of(const void *at, simt_region *region)
{
    block *b = find(at, 1);
    if (b) *region = (simt_region){ b->at, b->bytes, &b->shadow, &b->shadow_bytes };
    return b != NULL;
}

__attribute__((constructor)) static void tell_checker(void) { simt_region_of = region_of; }

int simt_is_pinned(const void *at, size_t bytes)
{
    const block *b = find(at, bytes ? bytes : 1);
    return b && b->host;
}

static simt_result allocate(char **out, simt_context *context, size_t bytes, int host)
{
    if (!out || !bytes) return SIMT_INVALID_VALUE;
    *out = NULL;
    if (!host && (long long)(device_bytes + bytes) > simt_settings.memory) return SIMT_OUT_OF_MEMORY;
    if (n_blocks == capacity) {
        const size_t more = capacity ? 2 * capacity : 64;
        block *larger = realloc(blocks, more * sizeof *larger);
        if (!larger) return SIMT_OUT_OF_MEMORY;
        blocks = larger;
        capacity = more;
    }
    void *memory;
    if (bytes > (size_t)1 << 46 || posix_memalign(&memory, ALIGNMENT, bytes + 2 * guard)) return SIMT_OUT_OF_MEMORY;
    memset(memory, GUARD_BYTE, guard);
    char *at = (char *)memory + guard;
    memset(at + bytes, GUARD_BYTE, guard);
    simt_poison(at, bytes);
    const size_t i = position(at);
    memmove(blocks + i + 1, blocks + i, (n_blocks - i) * sizeof *blocks);
    blocks[i] = (block){ .at = at, .memory = memory, .bytes = bytes, .host = host, .context = context };
    n_blocks++;
    if (!host) device_bytes += bytes;
    *out = at;
    return SIMT_SUCCESS;
}

static int guard_damaged(const char *at)
{
    for (size_t i = 0; i < guard; i++)
        if ((unsigned char)at[i] != GUARD_BYTE) return 1;
    return 0;
}

const char *simt_damaged(void)
{
    static char text[160];
    for (size_t i = 0; guard && i < n_blocks; i++) {
        block *b = &blocks[i];
        const int before = guard_damaged(b->memory), after = guard_damaged(b->at + b->bytes);
        if (b->broken || (!before && !after)) continue;
        b->broken = 1;
        snprintf(text, sizeof text, "something wrote %s an allocation of %zu bytes", before ? "before" : "behind",
                 b->bytes);
        return text;
    }
    return NULL;
}

static void release(block *b)
{
    const char *damaged = simt_damaged();
    if (damaged) simt_complain("%s", damaged);
    if (!b->host) device_bytes -= b->bytes;
    if (b->shadow) simt_check->release_shadow(b->shadow, b->shadow_bytes);
    free(b->memory);
    n_blocks--;
    memmove(b, b + 1, (size_t)(blocks + n_blocks - b) * sizeof *b);
}

void simt_context_memory_gone(const simt_context *context)
{
    for (size_t i = n_blocks; i-- > 0;)
        if (blocks[i].context == context) release(&blocks[i]);
}

void simt_memory_totals(size_t *device_blocks, size_t *host_blocks)
{
    *device_blocks = *host_blocks = 0;
    for (size_t i = 0; i < n_blocks; i++) (*(blocks[i].host ? host_blocks : device_blocks))++;
}

simt_result cuMemAlloc_v2(simt_ptr *out, size_t bytes)
{
    ENTER_CONTEXT();
    if (!out) LEAVE(SIMT_INVALID_VALUE);
    const simt_result unsafe = simt_unsafe_call();
    if (unsafe) LEAVE(unsafe);
    char *at;
    const simt_result result = allocate(&at, context, bytes, 0);
    if (!result) *out = (simt_ptr)(uintptr_t)at;
    LEAVE(result);
}

static simt_result give_back(simt_context *context, char *at, int host)
{
    if (!at) return SIMT_SUCCESS;
    const simt_result unsafe = simt_unsafe_call();
    if (unsafe) return unsafe;
    block *b = find(at, 1);
    if (!b || b->host != host || b->at != at) return SIMT_INVALID_VALUE;
    if (!simt_settings.hang) simt_drain_context(context); /* it waits for what may use the memory */
    release(b);
    return context->error;
}

simt_result cuMemFree_v2(simt_ptr at)
{
    ENTER_CONTEXT();
    LEAVE(give_back(context, (char *)(uintptr_t)at, 0));
}

simt_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    if (!out || flags > 7) LEAVE(SIMT_INVALID_VALUE);
    const simt_result unsafe = simt_unsafe_call();
    if (unsafe) LEAVE(unsafe);
    char *at;
    const simt_result result = allocate(&at, context, bytes, 1);
    if (!result) *out = at;
    LEAVE(result);
}

simt_result cuMemAllocHost_v2(void **out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

simt_result cuMemFreeHost(void *at)
{
    ENTER_CONTEXT();
    LEAVE(give_back(context, at, 1));
}

/* Of what an address tells, the context that its memory is of. */
simt_result cuPointerGetAttribute(void *value, int attribute, simt_ptr at)
{
    ENTER();
    const block *b = find((char *)(uintptr_t)at, 1);
    if (!value || !b) LEAVE(SIMT_INVALID_VALUE);
    if (attribute != 1) LEAVE(SIMT_NOT_SUPPORTED);
    memcpy(value, &b->context, sizeof b->context);
    LEAVE(SIMT_SUCCESS);
}

simt_result cuMemHostGetDevicePointer_v2(simt_ptr *out, void *at, unsigned flags)
{
    ENTER_CONTEXT();
    if (!out || flags || !simt_is_pinned(at, 1)) LEAVE(SIMT_INVALID_VALUE);
    *out = (simt_ptr)(uintptr_t)at;
    LEAVE(SIMT_SUCCESS);
}
