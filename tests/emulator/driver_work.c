/* What a queue's pieces do when their time comes. */
#define _GNU_SOURCE
#include "tests/emulator/driver_internal.h"

#include <string.h>
#include <time.h>

/* An error that every later call in the context returns. */
static void fault(simt_context *context, simt_result result)
{
    if (!context->error) context->error = result;
    if (context->whole && !context->whole->error) context->whole->error = result;
}

void simt_miscompile(const char *kernel, size_t at) { simt_set_mistake(kernel, at); }

static void make_mistake(const simt_work *work)
{
    unsigned char *word;
    size_t at;
    if (!simt_has_mistake(work->kernel->name, &at)) return;
    memcpy(&word, work->params + at, sizeof word);
    word[0] ^= 1;
}

static void run_kernel(simt_work *work)
{
    const simt_grid grid = { .name = work->kernel->name,
                             .grid = work->grid,
                             .block = work->block,
                             .shared_bytes = work->shared_bytes,
                             .fn = work->kernel->run,
                             .arg = work->params,
                             .arg_bytes = work->kernel->param_bytes };
    const int status = simt_run_grid(&grid);
    if (!status) make_mistake(work);
    const char *damaged = simt_damaged();
    simt_launches++;
    if (status) {
        simt_complain("%s", simt_error());
        fault(work->context, SIMT_LAUNCH_FAILED);
    } else if (damaged) {
        simt_complain("kernel %s: %s", work->kernel->name, damaged);
        fault(work->context, SIMT_ILLEGAL_ADDRESS);
    }
}

void simt_execute(simt_stream *stream, simt_work *work)
{
    simt_context *context = work->context;
    (void)stream;
    if (work->kind == SIMT_RECORD) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        work->event->done = work->ticket;
        work->event->time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        return;
    }
    if (context->error) return; /* after a fault nothing is done any more */
    switch (work->kind) {
    case SIMT_KERNEL: run_kernel(work); break;
    case SIMT_COPY:
        /* The device's side has to live until the copy is made. */
        if ((work->value & 1 && !simt_device_range(work->to, work->bytes)) ||
            (work->value & 2 && !simt_device_range(work->from, work->bytes))) {
            simt_complain("a copy of %zu bytes was queued, and its device memory is freed before it runs", work->bytes);
            fault(context, SIMT_ILLEGAL_ADDRESS);
            break;
        }
        memmove(work->to, work->from, work->bytes);
        break;
    case SIMT_SET:
        if (!simt_device_range(work->to, work->bytes)) {
            simt_complain("a memset of %zu bytes was queued, and its memory is freed before it runs", work->bytes);
            fault(context, SIMT_ILLEGAL_ADDRESS);
            break;
        }
        for (size_t i = 0; i < work->bytes; i += 4) memcpy(work->to + i, &work->value, 4);
        break;
    case SIMT_WAIT: simt_until(work->event, work->ticket); break;
    case SIMT_HOST: simt_host_function(work->fn, work->data); break;
    default: break;
    }
}
