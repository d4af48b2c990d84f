/* Between the files of the fake driver. Everything here is called with the lock held. */
#ifndef GDN_SIMT_DRIVER_INTERNAL_H
#define GDN_SIMT_DRIVER_INTERNAL_H

#include "tests/emulator/core.h"
#include "tests/emulator/driver.h"
#include "tests/emulator/registry.h"

/* ---- Handles: known by their address, so that a wrong one is never followed ---- */
// clang-format off
enum simt_kind {
    SIMT_CONTEXT, SIMT_GREEN, SIMT_MODULE, SIMT_FUNCTION, SIMT_STREAM, SIMT_GRAPH, SIMT_GRAPH_EXEC, SIMT_KINDS
};
// clang-format on
typedef struct simt_handle { /* the first member of each */
    enum simt_kind kind;
    struct simt_handle *next, *previous;
    simt_context *context;
} simt_handle;
void *simt_new_handle(enum simt_kind kind, size_t bytes, simt_context *context); /* zeroed; NULL: no memory */
void simt_drop_handle(void *handle);
int simt_is(const void *handle, enum simt_kind kind);
simt_handle *simt_handles(enum simt_kind kind); /* the first */

/* ---- Work ---- */
enum simt_work_kind { SIMT_KERNEL, SIMT_COPY, SIMT_SET };
typedef struct simt_work {
    enum simt_work_kind kind;
    struct simt_work *next;
    const simt_kernel *kernel;
    simt_dim3 grid, block;
    char *to; /* copy, set */
    const char *from;
    size_t bytes;
    unsigned value; /* set; of a copy, which addresses are device memory */
    simt_context *context;
    _Alignas(16) unsigned char params[];
} simt_work;

typedef struct simt_capture {
    int mode;
    int invalid;
    unsigned long long thread;
    simt_work *first, **last;
} simt_capture;

struct simt_stream {
    simt_handle handle;
    unsigned flags;
    int legacy;
    unsigned long long thread; /* whose default stream it is; 0: none's */
    simt_work *first, **last;
    size_t n;
    simt_capture *capture;
};

struct simt_context {
    simt_handle handle;
    simt_device device;
    unsigned retained; /* of the primary context */
    int primary;
    simt_context *whole; /* the primary context of which a green one is a part; NULL: it is none */
    simt_green *green;
    simt_result error;   /* sticky */
    simt_stream *legacy; /* stream 0 */
};

struct simt_green {
    simt_handle handle; /* its context is the one that stands for it among others */
};

struct simt_module {
    simt_handle handle;
};

struct simt_function {
    simt_handle handle;
    const simt_kernel *kernel;
    simt_module *module;
};

struct simt_graph { /* and simt_graph_exec, of another kind */
    simt_handle handle;
    simt_work *first;
};

/* ---- Entering and leaving the interface ---- */
/* Takes the lock, counts the call, and finds an injected failure, or that cuInit is missing. */
simt_result simt_enter(const char *function, int needs_init);
simt_result simt_leave(simt_result result);
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        const simt_result entered = simt_enter(__func__, 1);                                                           \
        if (entered) return simt_leave(entered);                                                                       \
    } while (0)
#define LEAVE(result) return simt_leave(result)
/* The end of a function that has one result. */
#define GIVE(out, value)                                                                                               \
    do {                                                                                                               \
        if (!(out)) LEAVE(SIMT_INVALID_VALUE);                                                                         \
        *(out) = (value);                                                                                              \
        LEAVE(SIMT_SUCCESS);                                                                                           \
    } while (0)
/* With a current context in which nothing has failed, as `context`. */
#define ENTER_CONTEXT()                                                                                                \
    ENTER();                                                                                                           \
    simt_context *const context = simt_current_context();                                                              \
    if (!context) LEAVE(SIMT_INVALID_CONTEXT);                                                                         \
    if (context->error) LEAVE(context->error)

simt_context *simt_current_context(void); /* NULL: none */
void simt_set_initialized(void);
void simt_complain(const char *format, ...) __attribute__((format(printf, 1, 2))); /* stderr, simt_last_fault() */
unsigned long long simt_this_thread(void);

/* ---- Settings (control.c) ---- */
extern struct simt_settings {
    long long async, devices, driver, compute, ptx, memory, hang, quiet, cut;
} simt_settings;
extern unsigned long long simt_launches;
void simt_settings_from_environment(void);

/* ---- Memory (driver_memory.c) ---- */
int simt_device_range(const void *at, size_t bytes); /* within one live allocation that a device reaches? */
int simt_is_pinned(const void *at, size_t bytes);
const char *simt_damaged(void); /* what wrote beside an allocation; NULL: nothing */
void simt_context_memory_gone(const simt_context *context);
void simt_memory_totals(size_t *device_blocks, size_t *host_blocks);

/* ---- Streams (driver_stream.c) ---- */
/* A handle of NULL is the legacy stream, 2 the thread's own default stream; NULL comes back where it is no stream of
 * this context. */
simt_stream *simt_find_stream(simt_context *context, simt_stream *stream);
simt_work *simt_new_work(enum simt_work_kind kind, size_t params);
void simt_free_list(simt_work *first);
simt_result simt_submit(simt_stream *stream, simt_work *work); /* takes the work; it may be NULL: no memory */
int simt_run_next(simt_stream *stream);                        /* 0: there was nothing */
void simt_drain(simt_stream *stream);
void simt_drain_context(simt_context *context);
simt_stream *simt_new_stream(simt_context *context, unsigned flags);
void simt_stream_gone(simt_stream *stream);
/* May this thread make a call that captures forbid, such as an allocation? Else the capture is invalid. */
simt_result simt_unsafe_call(void);

#endif
