/* Opens split models as gguf-split writes them: NAME-00001-of-00003.gguf and so on. The first part has the metadata;
 * each part has some of the tensors. Keys: split.no is the part's number from 0, split.count the number of parts,
 * split.tensors.count the total number of tensors. Each part is checked like a single file, then all are joined. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/files/gguf_internal.h"

enum {
    MAX_PARTS = 4096,
    MAX_TENSORS = 1 << 18, /* of all parts; the limit of a single file */
    DIGITS = 5
};

static const char NO[] = "split.no", COUNT[] = "split.count", TENSORS[] = "split.tensors.count";

typedef struct split {
    int64_t no, count, tensors;
} split; /* count 0: not a part */

/* Reads the split keys of a file. */
static gdn_status read_split(const rt_gguf *f, split *s)
{
    *s = (split){ 0, 0, -1 };
    if (!rt_gguf_has(f, COUNT)) {
        const char *left = rt_gguf_has(f, NO) ? NO : rt_gguf_has(f, TENSORS) ? TENSORS : NULL;
        return left ? rt_fail(GDN_INVALID_ARGUMENT, "%.100s: it has %s, but no %s", f->label, left, COUNT) : GDN_OK;
    }
    gdn_status status = rt_gguf_get_int(f, COUNT, 1, MAX_PARTS, &s->count);
    if (!status) status = rt_gguf_get_int(f, NO, 0, s->count - 1, &s->no);
    if (!status && rt_gguf_has(f, TENSORS)) status = rt_gguf_get_int(f, TENSORS, 0, MAX_TENSORS, &s->tensors);
    return status;
}

/* Length of `name` before -00001-of-00003.gguf with these numbers; -1: it has another ending. */
static int64_t stem(const char *name, int64_t no, int64_t count)
{
    char end[40];
    const size_t length = strlen(name);
    const size_t n = (size_t)snprintf(end, sizeof end, "-%0*d-of-%0*d.gguf", DIGITS, (int)no + 1, DIGITS, (int)count);
    return length > n && !strcmp(name + length - n, end) ? (int64_t)(length - n) : -1;
}

/* Error for opening a part that is not the first; names the file to open. */
static gdn_status not_first(const rt_gguf *f, const split *s)
{
    const int64_t at = stem(f->label, s->no, s->count);
    if (at < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "%.100s is part %d of %d of a model; open the first part", f->label,
                       (int)s->no + 1, (int)s->count);
    return rt_fail(GDN_INVALID_ARGUMENT,
                   "%.100s is part %d of %d of a model; open the first part, %.*s-%0*d-of-%0*d.gguf", f->label,
                   (int)s->no + 1, (int)s->count, at > 100 ? 100 : (int)at, f->label, DIGITS, 1, DIGITS, (int)s->count);
}

/* ---- Sources of parts ---- */

typedef struct source {
    const rt_gguf_part *memory; /* NULL: files in the directory of the first one */
    int32_t n_memory;
} source;

static gdn_status open_file_part(const rt_gguf *first, int64_t no, int64_t count, rt_budget *budget, rt_gguf **part)
{
    const int64_t at = stem(first->path, 0, count);
    const size_t bytes = strlen(first->path) + 1;
    char *path = rt_calloc(bytes, 1, "the path of a part");
    if (!path) return GDN_OUT_OF_MEMORY;
    (void)snprintf(path, bytes, "%.*s-%0*d-of-%0*d.gguf", (int)at, first->path, DIGITS, (int)no + 1, DIGITS,
                   (int)count);
    gdn_status status = gguf_open_file(path, budget, part);
    if (status == GDN_NOT_FOUND)
        status = rt_fail(GDN_NOT_FOUND, "part %d of %d of the model is missing: there is no file %s", (int)no + 1,
                         (int)count, path);
    rt_free(path);
    return status;
}

static gdn_status open_part(const rt_gguf *first, const source *from, int64_t no, int64_t count, rt_budget *budget,
                            rt_gguf **part)
{
    *part = NULL;
    if (!from->memory) return open_file_part(first, no, count, budget, part);
    if (no >= from->n_memory)
        return rt_fail(GDN_NOT_FOUND, "part %d of %d of the model is missing: %d are in memory", (int)no + 1,
                       (int)count, (int)from->n_memory);
    return gguf_open_bytes(from->memory[no].at, from->memory[no].n, budget, part);
}

/* ---- One part ---- */

static int begins(rt_string name, const char *with)
{
    return name.bytes >= strlen(with) && !memcmp(name.text, with, strlen(with));
}

/* Checks part `no` against the first part's keys `whole`. */
static gdn_status check_part(const rt_gguf *part, int64_t no, const split *whole)
{
    split s;
    const gdn_status status = read_split(part, &s);
    if (status) return status;
    if (s.count != whole->count || s.no != no)
        return rt_fail(GDN_INVALID_ARGUMENT, "%.100s: split.no is %d and split.count %d; %d and %d are expected",
                       part->label, (int)s.no, (int)s.count, (int)no, (int)whole->count);
    if (s.tensors >= 0 && s.tensors != whole->tensors)
        return rt_fail(GDN_INVALID_ARGUMENT, "%.100s: %s is %d; the first part has %d", part->label, TENSORS,
                       (int)s.tensors, (int)whole->tensors);
    for (int64_t i = 0; i < part->n_keys; i++) { /* a key that nothing reads must not be there */
        const rt_string name = part->keys[i].name;
        if (!begins(name, "split.") && !begins(name, "general."))
            return rt_fail(GDN_INVALID_ARGUMENT, "%.100s: it has the key %.*s; only the first part has a model's keys",
                           part->label, name.bytes > 64 ? 64 : (int)name.bytes, name.text);
    }
    return GDN_OK;
}

/* ---- Joining parts ---- */

static const rt_gguf *part_at(const rt_gguf *first, int32_t no) { return no ? first->part[no - 1] : first; }

/* The part that contains tensor `at` of the joined list, which has n_first tensors of the first part, then part by
 * part. */
static const rt_gguf *part_of(const rt_gguf *first, int64_t n_first, int64_t at)
{
    if (at < n_first) return first;
    at -= n_first;
    int32_t p = 0;
    while (at >= first->part[p]->n_tensors) at -= first->part[p++]->n_tensors;
    return first->part[p];
}

/* Replaces the first part's tensor list and index by those of all parts. */
static gdn_status join_tensors(rt_gguf *first, uint64_t n, rt_budget *budget)
{
    gdn_status status =
        rt_budget_take(budget, n * (sizeof *first->tensors + sizeof *first->tensor_index), "the tensors of all parts");
    if (status) return status;
    rt_gguf_tensor *tensors = rt_calloc(n, sizeof *tensors, "descriptions of tensors");
    if (!tensors) return GDN_OUT_OF_MEMORY;
    const int64_t n_first = first->n_tensors;
    uint64_t at = 0;
    for (int32_t p = 0; p <= first->n_parts; p++) {
        const rt_gguf *part = part_at(first, p);
        if (part->n_tensors) memcpy(tensors + at, part->tensors, (size_t)part->n_tensors * sizeof *tensors);
        at += (uint64_t)part->n_tensors;
    }
    int64_t twice;
    const rt_string **index = gguf_index(tensors, sizeof *tensors, (int64_t)n, &twice);
    status = index ? GDN_OK : GDN_OUT_OF_MEMORY;
    if (index && twice) {
        const rt_string *const name = index[twice];
        const int64_t a = (const rt_gguf_tensor *)index[twice - 1] - tensors,
                      b = (const rt_gguf_tensor *)name - tensors;
        status = rt_fail(GDN_INVALID_ARGUMENT, "tensor %.*s is in two parts: %.100s and %.100s",
                         name->bytes > 64 ? 64 : (int)name->bytes, name->text,
                         part_of(first, n_first, a < b ? a : b)->label, part_of(first, n_first, a < b ? b : a)->label);
    }
    if (status) {
        rt_free(tensors);
        rt_free((void *)index);
        return status;
    }
    rt_free(first->tensors);
    rt_free((void *)first->tensor_index);
    first->tensors = tensors;
    first->tensor_index = index;
    first->n_tensors = (int64_t)n;
    return GDN_OK;
}

static gdn_status join(rt_gguf *first, const source *from, rt_budget *budget)
{
    split s;
    gdn_status status = read_split(first, &s);
    if (status || !s.count) return status;
    if (s.no) return not_first(first, &s);
    if (s.tensors < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "%.100s: it has %s, but no %s", first->label, COUNT, TENSORS);
    if (s.count > 1 && !from->memory && stem(first->path, 0, s.count) < 0)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "%.100s is the first of %d parts of a model, but its name does not end in -%0*d-of-%0*d.gguf",
                       first->label, (int)s.count, DIGITS, 1, DIGITS, (int)s.count);
    const uint64_t others = (uint64_t)s.count - 1;
    if (others)
        status =
            rt_budget_take(budget, others * (sizeof *first->part + sizeof **first->part), "the parts of the model");
    if (!status && others) {
        first->part = rt_calloc(others, sizeof *first->part, "parts");
        status = first->part ? GDN_OK : GDN_OUT_OF_MEMORY;
    }
    uint64_t n = (uint64_t)first->n_tensors;
    for (int64_t no = 1; !status && no < s.count; no++) {
        status = open_part(first, from, no, s.count, budget, &first->part[no - 1]);
        if (status) break;
        first->n_parts = (int32_t)no;
        status = check_part(first->part[no - 1], no, &s);
        n += (uint64_t)first->part[no - 1]->n_tensors;
    }
    if (!status && n != (uint64_t)s.tensors)
        status = rt_fail(GDN_INVALID_ARGUMENT, "%.100s: %s is %d; the %d parts have %llu", first->label, TENSORS,
                         (int)s.tensors, (int)s.count, (unsigned long long)n);
    return status || !others ? status : join_tensors(first, n, budget);
}

static gdn_status joined(gdn_status status, const source *from, rt_budget *budget, rt_gguf **file)
{
    if (status) return status;
    status = join(*file, from, budget);
    if (status) {
        rt_gguf_close(*file);
        *file = NULL;
    }
    return status;
}

gdn_status rt_gguf_open(const char *path, rt_budget *budget, rt_gguf **file)
{
    const source files = { NULL, 0 };
    return joined(gguf_open_file(path, budget, file), &files, budget, file);
}

gdn_status rt_gguf_open_memory(const void *bytes, uint64_t n, rt_budget *budget, rt_gguf **file)
{
    const rt_gguf_part one = { bytes, n };
    return rt_gguf_open_memory_parts(&one, 1, budget, file);
}

gdn_status rt_gguf_open_memory_parts(const rt_gguf_part *parts, int32_t n_parts, rt_budget *budget, rt_gguf **file)
{
    const source memory = { parts, n_parts };
    *file = NULL;
    if (!parts || n_parts < 1)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_parts is %d; 1 or more are allowed, and parts", (int)n_parts);
    return joined(gguf_open_bytes(parts[0].at, parts[0].n, budget, file), &memory, budget, file);
}

void gguf_close_parts(rt_gguf *first)
{
    for (int32_t p = 0; p < first->n_parts; p++) rt_gguf_close(first->part[p]);
    rt_free((void *)first->part);
}
