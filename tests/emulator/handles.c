/* Lists of what is alive, so that a handle is only followed where it is one. */
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>

static simt_handle *first[SIMT_KINDS];

simt_handle *simt_handles(enum simt_kind kind) { return first[kind]; }

void *simt_new_handle(enum simt_kind kind, size_t bytes, simt_context *context)
{
    simt_handle *handle = calloc(1, bytes);
    if (!handle) return NULL;
    handle->kind = kind;
    handle->context = context;
    handle->next = first[kind];
    if (first[kind]) first[kind]->previous = handle;
    first[kind] = handle;
    return handle;
}

void simt_drop_handle(void *object)
{
    simt_handle *handle = object;
    if (handle->next) handle->next->previous = handle->previous;
    if (handle->previous) handle->previous->next = handle->next;
    else first[handle->kind] = handle->next;
    free(handle);
}

int simt_is(const void *object, enum simt_kind kind)
{
    for (const simt_handle *handle = first[kind]; handle; handle = handle->next)
        if ((const void *)handle == object) return 1;
    return 0;
}
