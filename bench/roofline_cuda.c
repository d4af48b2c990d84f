/* The roofline of CUDA devices: a copy within device memory by the driver; see roofline.h. It links no CUDA:
 * it looks up functions in the driver that the library has opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "system/system.h"

/* The functions of the driver that this file needs. Handles are pointers; result 0 is success. */
typedef unsigned long long device_address;
static struct {
    int (*PointerGetAttribute)(void *value, int attribute, device_address at);
    int (*CtxPushCurrent)(void *context);
    int (*CtxPopCurrent)(void **context);
    int (*StreamCreate)(void **stream, unsigned flags);
    int (*StreamDestroy)(void *stream);
    int (*MemcpyDtoDAsync)(device_address to, device_address from, size_t bytes, void *stream);
} cu;
enum { ATTRIBUTE_CONTEXT = 1, STREAM_NON_BLOCKING = 1 };

enum { ALIGNMENT = 512, FEWEST_PIECES = 4, SHIFT = 64, SHIFTS = 64 };

struct roofline_copier {
    gdn_context *ctx;
    gdn_span from, to; /* n_pieces of `stride` bytes each */
    void *context, *stream;
    int64_t stride, n_pieces, next;
};

static char why[320];

static const char *failed(const char *call, int result)
{
    (void)snprintf(why, sizeof why, "the device copy: %s returned CUDA error %d", call, result);
    return why;
}

static const char *refused(void) /* error text of a refused library call */
{
    (void)snprintf(why, sizeof why, "the device copy: %.*s", (int)sizeof why - 32, gdn_last_error());
    return why;
}

static device_address address(const gdn_span *span) { return (device_address)(uintptr_t)span->data + span->offset; }

const char *roofline_copy(roofline_copier *c, int64_t bytes)
{
    const device_address at = (device_address)(c->next * c->stride);
    c->next = (c->next + 1) % c->n_pieces;
    int result = cu.CtxPushCurrent(c->context);
    if (result) return failed("cuCtxPushCurrent", result);
    result = cu.MemcpyDtoDAsync(address(&c->to) + at, address(&c->from) + at, (size_t)bytes, c->stream);
    (void)cu.CtxPopCurrent(&c->context);
    if (result) return failed("cuMemcpyDtoDAsync", result);
    return gdn_synchronize(c->ctx, c->stream) ? refused() : NULL; /* waits as for a kernel */
}

/* Creates a stream in the CUDA context of the library's buffers. */
static const char *find_stream(roofline_copier *c)
{
    int result = cu.PointerGetAttribute(&c->context, ATTRIBUTE_CONTEXT, address(&c->from));
    if (result || !c->context) return failed("cuPointerGetAttribute", result);
    if ((result = cu.CtxPushCurrent(c->context))) return failed("cuCtxPushCurrent", result);
    result = cu.StreamCreate(&c->stream, STREAM_NON_BLOCKING);
    (void)cu.CtxPopCurrent(&c->context);
    return result ? failed("cuStreamCreate", result) : NULL;
}

/* Checks that the first copies arrive and that nothing after them changes, since an incomplete copy would look fast.
 * `numbers` has stride + SHIFT * SHIFTS bytes, which differ between adjacent pieces. */
static const char *fill_and_try(roofline_copier *c, int64_t bytes, const char *numbers, char *back)
{
    for (int64_t i = 0; i < c->n_pieces; i++) {
        const uint64_t at = (uint64_t)(i * c->stride), n = (uint64_t)c->stride;
        if (gdn_buffer_write(c->ctx, &c->from, at, numbers + i % SHIFTS * SHIFT, n)) return refused();
        if (gdn_buffer_write(c->ctx, &c->to, at, numbers + (i + 1) % SHIFTS * SHIFT, n)) return refused();
    }
    for (int64_t i = 0; i < 2; i++) {
        const char *error = roofline_copy(c, bytes);
        if (error) return error;
    }
    for (int64_t i = 0; i < 3; i++) { /* two copied pieces, and one that was not copied */
        const int64_t copied = i < 2 ? bytes : 0;
        if (gdn_buffer_read(c->ctx, &c->to, (uint64_t)(i * c->stride), back, (uint64_t)c->stride)) return refused();
        if (memcmp(back, numbers + i * SHIFT, (size_t)copied) != 0 ||
            memcmp(back + copied, numbers + (i + 1) * SHIFT + copied, (size_t)(c->stride - copied)) != 0)
            return "the device copy did not copy what it was told to";
    }
    return NULL;
}

void roofline_copy_close(roofline_copier *c)
{
    if (c->stream && !cu.CtxPushCurrent(c->context)) {
        (void)cu.StreamDestroy(c->stream);
        (void)cu.CtxPopCurrent(&c->context);
    }
    if (c->from.data) gdn_buffer_destroy(c->ctx, &c->from);
    if (c->to.data) gdn_buffer_destroy(c->ctx, &c->to);
    free(c);
}

const char *roofline_copy_open(gdn_context *ctx, int64_t bytes, int64_t rotate_bytes, roofline_copier **out)
{
    roofline_copier *c = bench_alloc(sizeof *c);
    *out = c;
    c->ctx = ctx;
    c->stride = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    c->n_pieces = rotate_bytes / 2 / c->stride;
    if (c->n_pieces < FEWEST_PIECES) c->n_pieces = FEWEST_PIECES;
    const uint64_t all = (uint64_t)(c->n_pieces * c->stride);
    if (gdn_buffer_create(ctx, all, &c->from) || gdn_buffer_create(ctx, all, &c->to)) return refused();
    const char *error = find_stream(c);
    if (error) return error;

    const int64_t words = (c->stride + SHIFT * SHIFTS) / 8;
    uint64_t *numbers = bench_alloc(words * 8);
    char *back = bench_alloc(c->stride);
    bench_random random = { 9 };
    for (int64_t i = 0; i < words; i++) numbers[i] = bench_random_bits(&random);
    error = fill_and_try(c, bytes, (const char *)numbers, back);
    free(numbers);
    free(back);
    return error;
}

int roofline_has_copy(void)
{
    /* An object pointer can hold a function's where there are dynamic libraries; ISO C has no cast for it. */
    static const struct {
        const char *symbol;
        void *function;
    } wanted[] = {
        { "cuPointerGetAttribute", &cu.PointerGetAttribute }, { "cuCtxPushCurrent_v2", &cu.CtxPushCurrent },
        { "cuCtxPopCurrent_v2", &cu.CtxPopCurrent },          { "cuStreamCreate", &cu.StreamCreate },
        { "cuStreamDestroy_v2", &cu.StreamDestroy },          { "cuMemcpyDtoDAsync_v2", &cu.MemcpyDtoDAsync },
    };
    void *driver = NULL;
    for (int i = 0; !driver && gdn_cuda_libraries[i]; i++) driver = gdn_library_open(gdn_cuda_libraries[i]);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *found = driver ? gdn_library_find(driver, wanted[i].symbol) : NULL;
        if (!found) return 0;
        memcpy(wanted[i].function, &found, sizeof found);
    }
    return 1;
}
