/* Opens GGUF files and finds tensors by name. See gguf.h. */
#include "runtime/files/gguf_internal.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/error.h"
#include "system/files.h"

int gguf_compare(rt_string a, rt_string b)
{
    const uint64_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int order = common ? memcmp(a.text, b.text, (size_t)common) : 0;
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

const rt_string *gguf_lookup(const rt_string *const *index, int64_t n, const char *name, uint64_t bytes)
{
    const rt_string wanted = { name, bytes };
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = gguf_compare(*index[middle], wanted);
        if (!order) return index[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

static int numbers_are_little_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

static gdn_status open_bytes(const void *bytes, uint64_t n, int mapped, const char *path, rt_budget *budget,
                             rt_gguf **file)
{
    const size_t length = strlen(path);
    if (!numbers_are_little_endian())
        return rt_fail(GDN_UNSUPPORTED,
                       "%s: GGUF files have little-endian numbers, which this processor cannot use in place", path);
    rt_gguf *f = rt_calloc(1, sizeof *f, "the file's description");
    char *copy = f ? rt_calloc(length + 1, 1, "the file's path") : NULL;
    if (!copy) {
        rt_free(f);
        return GDN_OUT_OF_MEMORY;
    }
    memcpy(copy, path, length);
    f->bytes = bytes;
    f->n_bytes = n;
    f->path = copy;
    f->label = *file_name(copy) ? file_name(copy) : copy;
    const gdn_status status = gguf_parse(f, budget);
    if (status) {
        rt_gguf_close(f); /* the file does not own the mapping yet */
        return status;
    }
    f->mapped = mapped;
    *file = f;
    return GDN_OK;
}

gdn_status gguf_open_bytes(const void *bytes, uint64_t n, rt_budget *budget, rt_gguf **file)
{
    *file = NULL;
    if (!bytes && n) return rt_fail(GDN_INVALID_ARGUMENT, "bytes is NULL, but n is %llu", (unsigned long long)n);
    return open_bytes(bytes, n, 0, "memory", budget, file);
}

gdn_status gguf_open_file(const char *path, rt_budget *budget, rt_gguf **file)
{
    const void *bytes = NULL;
    uint64_t n = 0;
    *file = NULL;
    if (!path || !*path) return rt_fail(GDN_INVALID_ARGUMENT, "no path of a model file is given");
    const int why = file_map(path, &bytes, &n);
    if (why == ENOENT) return rt_fail(GDN_NOT_FOUND, "there is no file %s", path);
    if (why == EINVAL) return rt_fail(GDN_INVALID_ARGUMENT, "%s is not a regular file", path);
    if (why == ENOMEM) return rt_fail(GDN_OUT_OF_MEMORY, "cannot map %s (%llu bytes)", path, (unsigned long long)n);
    if (why) return rt_fail(GDN_INVALID_ARGUMENT, "cannot open %s: %s", path, strerror(why));
    if (!n) return rt_fail(GDN_INVALID_ARGUMENT, "%s is empty", path);
    const gdn_status status = open_bytes(bytes, n, 1, path, budget, file);
    if (status) file_unmap(bytes, n);
    return status;
}

void rt_gguf_close(rt_gguf *file)
{
    if (!file) return;
    if (file->mapped) file_unmap(file->bytes, file->n_bytes);
    gguf_close_parts(file);
    rt_free(file->path);
    rt_free(file->keys);
    rt_free(file->tensors);
    rt_free(file->key_index);
    rt_free(file->tensor_index);
    rt_free(file->string_at);
    rt_free(file);
}

int64_t rt_gguf_n_tensors(const rt_gguf *file) { return file->n_tensors; }

const rt_gguf_tensor *rt_gguf_tensor_at(const rt_gguf *file, int64_t index)
{
    return index >= 0 && index < file->n_tensors ? &file->tensors[index] : NULL;
}

const rt_gguf_tensor *rt_gguf_find(const rt_gguf *file, const char *name)
{
    return (const rt_gguf_tensor *)gguf_lookup(file->tensor_index, file->n_tensors, name, strlen(name));
}
