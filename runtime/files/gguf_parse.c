/* Checks all bytes of a GGUF file once, so that the getters need no checks. See gguf.h.
 *
 * The format is:
 * - magic, version, number of tensors, number of keys
 * - keys with values
 * - names, shapes, types and offsets of tensors
 * - zeros up to a multiple of general.alignment
 * - the data, from which offsets count
 *
 * Each number is checked
 * against the remaining bytes before it is used. */
#include "runtime/files/gguf_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"

enum {
    HEADER_BYTES = 24,
    MIN_KEY_BYTES = 8 + 1 + 4 + 1, /* size of the shortest key, to bound their number */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
    MAX_NAME = 65535,
    MAX_KEYS = 1 << 16,    /* models have dozens                */
    MAX_TENSORS = 1 << 18, /* models have hundreds; 4096 layers of 64 */
    MAX_ALIGNMENT = 1 << 20,
    SHOWN = 64 /* most bytes of a name in error texts */
};

typedef struct parser {
    rt_gguf *file;
    rt_budget *budget;
    uint64_t at;           /* position of the next byte, at most the end */
    uint64_t n_marks;      /* of all arrays so far                             */
    uint64_t next;         /* where the data of the next tensor begins, from the begin of the data */
    int at_least;          /* 1: or later, since the size of the tensor before is not known        */
    char what[SHOWN + 24]; /* "key "general.name"": what is being read       */
} parser;

/* ggml's element types by number: names for texts, and block sizes of types that files contain. block 0: unknown. */
static const struct {
    const char *name;
    uint16_t block, bytes;
} types[] = {
    [0] = { "F32", 1, 4 },         [1] = { "F16", 1, 2 },         [2] = { "Q4_0", 32, 18 },
    [3] = { "Q4_1", 32, 20 },      [4] = { "Q4_2", 0, 0 },        [5] = { "Q4_3", 0, 0 },
    [6] = { "Q5_0", 32, 22 },      [7] = { "Q5_1", 32, 24 },      [8] = { "Q8_0", 32, 34 },
    [9] = { "Q8_1", 0, 0 },        [10] = { "Q2_K", 256, 84 },    [11] = { "Q3_K", 256, 110 },
    [12] = { "Q4_K", 256, 144 },   [13] = { "Q5_K", 256, 176 },   [14] = { "Q6_K", 256, 210 },
    [15] = { "Q8_K", 0, 0 },       [16] = { "IQ2_XXS", 256, 66 }, [17] = { "IQ2_XS", 256, 74 },
    [18] = { "IQ3_XXS", 256, 98 }, [19] = { "IQ1_S", 256, 50 },   [20] = { "IQ4_NL", 32, 18 },
    [21] = { "IQ3_S", 256, 110 },  [22] = { "IQ2_S", 256, 82 },   [23] = { "IQ4_XS", 256, 136 },
    [24] = { "I8", 1, 1 },         [25] = { "I16", 1, 2 },        [26] = { "I32", 1, 4 },
    [27] = { "I64", 1, 8 },        [28] = { "F64", 1, 8 },        [29] = { "IQ1_M", 256, 56 },
    [30] = { "BF16", 1, 2 },       [31] = { "Q4_0_4_4", 0, 0 },   [32] = { "Q4_0_4_8", 0, 0 },
    [33] = { "Q4_0_8_8", 0, 0 },   [34] = { "TQ1_0", 256, 54 },   [35] = { "TQ2_0", 256, 66 },
    [36] = { "IQ4_NL_4_4", 0, 0 }, [37] = { "IQ4_NL_4_8", 0, 0 }, [38] = { "IQ4_NL_8_8", 0, 0 },
    [39] = { "MXFP4", 32, 17 },    [40] = { "NVFP4", 64, 36 },    [41] = { "Q1_0", 0, 0 },
    [42] = { "Q2_0", 0, 0 },
};

const char *rt_gguf_type_name(int32_t type)
{
    return type >= 0 && (size_t)type < sizeof types / sizeof *types ? types[type].name : "unknown";
}

int gguf_kind_bytes(int64_t kind)
{
    static const signed char bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return kind >= 0 && kind < (int64_t)sizeof bytes ? bytes[kind] : 0;
}

/* Writes `what "name"` for error texts; the name may contain any bytes. */
static void describe(parser *p, const char *what, rt_string name)
{
    char shown[SHOWN + 1];
    const int n = name.bytes < SHOWN ? (int)name.bytes : SHOWN;
    for (int i = 0; i < n; i++) shown[i] = name.text[i] >= ' ' && name.text[i] <= '~' ? name.text[i] : '?';
    shown[n] = 0;
    (void)snprintf(p->what, sizeof p->what, "%s \"%s\"%s", what, shown, name.bytes > SHOWN ? "..." : "");
}

static gdn_status fail(const parser *p, uint64_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static gdn_status fail(const parser *p, uint64_t at, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return rt_fail(GDN_INVALID_ARGUMENT, "%.100s: %s, at byte %llu: %s", p->file->label, p->what,
                   (unsigned long long)at, text);
}

static uint64_t left(const parser *p) { return p->file->n_bytes - p->at; }

static gdn_status take(parser *p, int bytes, const char *name, uint64_t *value)
{
    if (left(p) < (uint64_t)bytes) return fail(p, p->at, "the file ends in %s: the file is incomplete", name);
    *value = gguf_load(p->file->bytes + p->at, bytes);
    p->at += (uint64_t)bytes;
    return GDN_OK;
}

static gdn_status take_string(parser *p, const char *name, rt_string *string)
{
    const uint64_t at = p->at;
    gdn_status status = take(p, 8, name, &string->bytes);
    if (!status && string->bytes > left(p))
        status = fail(p, at, "%s has %llu bytes; %llu are left in the file: the file is incomplete or damaged", name,
                      (unsigned long long)string->bytes, (unsigned long long)left(p));
    if (!status) {
        string->text = (const char *)p->file->bytes + p->at;
        p->at += string->bytes;
    }
    return status;
}

static gdn_status take_name(parser *p, const char *what, int64_t number, rt_string *name)
{
    (void)snprintf(p->what, sizeof p->what, "%s %lld", what, (long long)number);
    const uint64_t at = p->at;
    gdn_status status = take_string(p, "the name", name);
    if (!status && (name->bytes < 1 || name->bytes > MAX_NAME))
        status = fail(p, at, "the name has %llu bytes; 1 to %d are allowed", (unsigned long long)name->bytes, MAX_NAME);
    if (!status) describe(p, what, *name);
    return status;
}

static gdn_status check_bools(const parser *p, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (p->file->bytes[at + i] > 1)
            return fail(p, at + i, "a bool is %d; 0 and 1 are allowed", (int)p->file->bytes[at + i]);
    return GDN_OK;
}

static gdn_status parse_array(parser *p, gguf_key *key)
{
    uint64_t element = 0;
    uint64_t at = p->at;
    gdn_status status = take(p, 4, "the kind of an array's elements", &element);
    if (!status && element == RT_GGUF_ARRAY)
        return rt_fail(GDN_UNSUPPORTED, "%.100s: %s, at byte %llu: arrays of arrays cannot be read", p->file->label,
                       p->what, (unsigned long long)at);
    if (!status && element != RT_GGUF_STRING && !gguf_kind_bytes((int64_t)element))
        status = fail(p, at, "an array's elements have kind %llu; 0 to 12 are allowed", (unsigned long long)element);
    at = p->at;
    if (!status) status = take(p, 8, "an array's length", &key->count);
    const int size = gguf_kind_bytes((int64_t)element);
    const uint64_t least = size ? (uint64_t)size : 8; /* a string has at least 8 bytes */
    if (!status && key->count > left(p) / least)
        status = fail(p, at,
                      "an array has %llu elements of at least %d bytes; %llu bytes are left in the file: the file is "
                      "incomplete or damaged",
                      (unsigned long long)key->count, (int)least, (unsigned long long)left(p));
    if (status) return status;
    key->element = (int32_t)element;
    key->value = p->file->bytes + p->at;
    if (element == RT_GGUF_STRING) {
        rt_string ignored;
        key->first_mark = p->n_marks;
        p->n_marks += (key->count + GGUF_MARK - 1) / GGUF_MARK;
        for (uint64_t i = 0; !status && i < key->count; i++) status = take_string(p, "a string of an array", &ignored);
        return status;
    }
    if (element == RT_GGUF_BOOL) status = check_bools(p, p->at, key->count);
    p->at += key->count * (uint64_t)size;
    return status;
}

static gdn_status parse_key(parser *p, int64_t number, gguf_key *key)
{
    uint64_t kind = 0;
    gdn_status status = take_name(p, "key", number, &key->name);
    uint64_t at = p->at;
    if (!status) status = take(p, 4, "the kind", &kind);
    if (!status && kind > RT_GGUF_F64)
        status = fail(p, at, "the kind is %llu; 0 to 12 are allowed", (unsigned long long)kind);
    if (status) return status;
    key->kind = (int32_t)kind;
    key->element = -1;
    at = p->at;
    key->value = p->file->bytes + at;
    if (kind == RT_GGUF_ARRAY) return parse_array(p, key);
    if (kind == RT_GGUF_STRING) {
        rt_string ignored;
        return take_string(p, "the value", &ignored);
    }
    uint64_t ignored;
    status = take(p, gguf_kind_bytes((int64_t)kind), "the value", &ignored);
    return status || kind != RT_GGUF_BOOL ? status : check_bools(p, at, 1);
}

static int by_name(const void *a, const void *b)
{
    const rt_string *const *left_name = a, *const *right_name = b;
    return gguf_compare(**left_name, **right_name);
}

const rt_string **gguf_index(const void *entries, uint64_t stride, int64_t n, int64_t *twice)
{
    const rt_string **index = rt_calloc((uint64_t)n, sizeof *index, "the index of names");
    *twice = 0;
    for (int64_t i = 0; index && i < n; i++)
        index[i] = (const rt_string *)(const void *)((const char *)entries + (uint64_t)i * stride);
    if (index && n > 1) qsort(index, (size_t)n, sizeof *index, by_name);
    for (int64_t i = 1; index && i < n && !*twice; i++)
        if (!gguf_compare(*index[i - 1], *index[i])) *twice = i;
    return index;
}

static gdn_status build_index(parser *p, const char *what, const void *entries, uint64_t stride, int64_t n,
                              const rt_string ***index)
{
    int64_t twice;
    *index = gguf_index(entries, stride, n, &twice);
    if (!*index) return GDN_OUT_OF_MEMORY;
    if (!twice) return GDN_OK;
    const char *first = (*index)[twice - 1]->text, *second = (*index)[twice]->text;
    describe(p, what, *(*index)[twice]);
    return fail(p, (uint64_t)((const unsigned char *)(first > second ? first : second) - p->file->bytes),
                "the name is there twice");
}

/* Stores the position of every GGUF_MARK-th string of each array. A string has at least 8 bytes in the file, and costs
 * half a byte of index. */
static gdn_status index_strings(parser *p)
{
    rt_gguf *f = p->file;
    const gdn_status status = rt_budget_take(p->budget, p->n_marks * sizeof *f->string_at, "positions of strings");
    if (status) return status;
    f->string_at = rt_calloc(p->n_marks, sizeof *f->string_at, "the index of strings");
    if (!f->string_at) return GDN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < f->n_keys; k++) {
        const gguf_key *key = &f->keys[k];
        uint64_t at = (uint64_t)(key->value - f->bytes);
        for (uint64_t i = 0; key->element == RT_GGUF_STRING && i < key->count; i++) {
            if (i % GGUF_MARK == 0) f->string_at[key->first_mark + i / GGUF_MARK] = at;
            at += 8 + gguf_load(f->bytes + at, 8);
        }
    }
    return GDN_OK;
}

/* Parses a tensor's description. `bytes` gets its offset in the data, and data stays NULL: the begin of the data is not
 * known yet. */
static gdn_status parse_tensor(parser *p, int64_t number, rt_gguf_tensor *t)
{
    uint64_t n_dims = 0, elements = 1, type = 0;
    gdn_status status = take_name(p, "tensor", number, &t->name);
    uint64_t at = p->at;
    if (!status) status = take(p, 4, "the number of dimensions", &n_dims);
    if (!status && (n_dims < 1 || n_dims > 4))
        status = fail(p, at, "it has %llu dimensions; 1 to 4 are allowed", (unsigned long long)n_dims);
    t->n_dims = (int32_t)n_dims;
    for (int d = 0; !status && d < 4; d++) {
        uint64_t ne = 1;
        at = p->at;
        if (d < t->n_dims) status = take(p, 8, "the dimensions", &ne);
        if (!status && (ne < 1 || ne > (uint64_t)INT64_MAX / elements))
            status = fail(p, at, "dimension %d is %llu; 1 or more are allowed, and 2^63 - 1 elements in all", d,
                          (unsigned long long)ne);
        elements *= ne;
        t->ne[d] = (int64_t)ne;
    }
    at = p->at;
    if (!status) status = take(p, 4, "the type", &type);
    if (!status && type > INT32_MAX)
        status = fail(p, at, "the type is %llu; ggml's types are allowed", (unsigned long long)type);
    t->type = (int32_t)type;
    return status ? status : take(p, 8, "the offset", &t->bytes);
}

/* Checks that the tensor begins where the one before it ends, as ggml demands. Tensors thus share no bytes: otherwise a
 * small file could request any amount of memory for converted tensors. */
static gdn_status follow(parser *p, const rt_gguf_tensor *t, uint64_t at, uint64_t offset, uint64_t alignment)
{
    if (p->at_least ? offset < p->next : offset != p->next)
        return fail(p, at, "the offset is %llu; %llu%s is expected, where the tensor before it ends",
                    (unsigned long long)offset, (unsigned long long)p->next, p->at_least ? " or more" : "");
    p->at_least = !t->data;
    p->next = offset + (t->bytes + alignment - 1) / alignment * alignment;
    return GDN_OK;
}

static gdn_status place_tensor(parser *p, rt_gguf_tensor *t, uint64_t data, uint64_t alignment)
{
    const uint64_t offset = t->bytes;
    const int known = (uint64_t)t->type < sizeof types / sizeof *types && types[t->type].block;
    describe(p, "tensor", t->name);
    const uint64_t at = (uint64_t)((const unsigned char *)t->name.text - p->file->bytes);
    t->bytes = 0;
    if (offset % alignment)
        return fail(p, at, "the offset %llu is not a multiple of the alignment, %llu", (unsigned long long)offset,
                    (unsigned long long)alignment);
    const uint64_t n_bytes = p->file->n_bytes;
    if (data > n_bytes || offset > n_bytes - data)
        return fail(p, at,
                    "the file ends at byte %llu, and the tensor's data begins at byte %llu + %llu: the file is "
                    "incomplete",
                    (unsigned long long)n_bytes, (unsigned long long)data, (unsigned long long)offset);
    if (!known) return follow(p, t, at, offset, alignment);
    const uint64_t block = types[t->type].block, block_bytes = types[t->type].bytes;
    if ((uint64_t)t->ne[0] % block)
        return fail(p, at, "rows have %lld elements, which is no multiple of %d, the block of %s", (long long)t->ne[0],
                    (int)block, rt_gguf_type_name(t->type));
    const uint64_t blocks = (uint64_t)t->ne[0] / block * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
    const uint64_t room = n_bytes - data - offset;
    if (blocks > UINT64_MAX / block_bytes)
        return fail(p, at, "the data has %llu blocks of %d bytes; 2^64 - 1 bytes are allowed",
                    (unsigned long long)blocks, (int)block_bytes);
    if (blocks * block_bytes > room)
        return fail(p, at,
                    "the file ends at byte %llu, where the tensor needs %llu bytes from byte %llu on: the file "
                    "is incomplete",
                    (unsigned long long)n_bytes, (unsigned long long)(blocks * block_bytes),
                    (unsigned long long)(data + offset));
    t->data = p->file->bytes + data + offset;
    t->bytes = blocks * block_bytes;
    return follow(p, t, at, offset, alignment);
}

static gdn_status parse_header(parser *p, uint64_t *n_tensors, uint64_t *n_keys)
{
    const unsigned char *bytes = p->file->bytes;
    if (p->file->n_bytes < HEADER_BYTES)
        return fail(p, 0, "the file has %llu bytes; a GGUF file has at least %d", (unsigned long long)p->file->n_bytes,
                    HEADER_BYTES);
    if (memcmp(bytes, "GGUF", 4))
        return fail(p, 0, "this is no GGUF file: it begins with %02x %02x %02x %02x", bytes[0], bytes[1], bytes[2],
                    bytes[3]);
    const uint64_t version = gguf_load(bytes + 4, 4);
    if (version != 2 && version != 3)
        return rt_fail(GDN_UNSUPPORTED, "%.100s: the header, at byte 4: the version is %llu%s; 2 and 3 can be read",
                       p->file->label, (unsigned long long)version,
                       version && !(version & 0xFFFF) ? ", which looks like a big-endian file" : "");
    *n_tensors = gguf_load(bytes + 8, 8);
    *n_keys = gguf_load(bytes + 16, 8);
    p->at = HEADER_BYTES;
    if (*n_keys > left(p) / MIN_KEY_BYTES)
        return fail(p, 16, "%llu keys do not fit into the file: the file is incomplete or damaged",
                    (unsigned long long)*n_keys);
    if (*n_keys > MAX_KEYS)
        return fail(p, 16, "there are %llu keys; at most %d are allowed", (unsigned long long)*n_keys, MAX_KEYS);
    if (*n_tensors > left(p) / MIN_TENSOR_BYTES)
        return fail(p, 8, "%llu tensors do not fit into the file: the file is incomplete or damaged",
                    (unsigned long long)*n_tensors);
    if (*n_tensors > MAX_TENSORS)
        return fail(p, 8, "there are %llu tensors; at most %d are allowed", (unsigned long long)*n_tensors,
                    MAX_TENSORS);
    return GDN_OK;
}

/* Allocates an array. The budget counts it with `more` bytes per element for what is derived from it; NULL after a
 * failure. */
static void *take_array(parser *p, uint64_t n, uint64_t size, uint64_t more, const char *counted, const char *what)
{
    return rt_budget_take(p->budget, n * (size + more), counted) ? NULL : rt_calloc(n, size, what);
}

static gdn_status parse_keys(parser *p, uint64_t n_keys)
{
    rt_gguf *f = p->file;
    gdn_status status = GDN_OK;
    f->keys = take_array(p, n_keys, sizeof *f->keys, sizeof *f->key_index, "the keys", "keys");
    if (!f->keys) return GDN_OUT_OF_MEMORY;
    for (uint64_t i = 0; !status && i < n_keys; i++) status = parse_key(p, (int64_t)i, &f->keys[i]);
    f->n_keys = (int64_t)n_keys;
    if (!status) status = build_index(p, "key", f->keys, sizeof *f->keys, f->n_keys, &f->key_index);
    return status ? status : index_strings(p);
}

gdn_status gguf_parse(rt_gguf *file, rt_budget *budget)
{
    parser p = { .file = file, .budget = budget, .what = "the header" };
    uint64_t n_tensors = 0, n_keys = 0;
    int64_t alignment = 32;
    gdn_status status = file->n_bytes >> 62
                            ? fail(&p, 0, "a file of %llu bytes cannot be read", (unsigned long long)file->n_bytes)
                            : parse_header(&p, &n_tensors, &n_keys);
    if (!status) status = parse_keys(&p, n_keys);
    if (!status && rt_gguf_has(file, "general.alignment"))
        status = rt_gguf_get_int(file, "general.alignment", 8, MAX_ALIGNMENT, &alignment);
    if (!status && (alignment & (alignment - 1)))
        status = rt_fail(GDN_INVALID_ARGUMENT, "general.alignment is %lld; powers of two from 8 to %d are allowed",
                         (long long)alignment, MAX_ALIGNMENT);
    if (status) return status;
    file->tensors = take_array(&p, n_tensors, sizeof *file->tensors, sizeof *file->tensor_index, "the tensors",
                               "descriptions of tensors");
    if (!file->tensors) return GDN_OUT_OF_MEMORY;
    for (uint64_t i = 0; !status && i < n_tensors; i++) status = parse_tensor(&p, (int64_t)i, &file->tensors[i]);
    file->n_tensors = (int64_t)n_tensors;
    const uint64_t step = (uint64_t)alignment, data = (p.at + step - 1) / step * step;
    for (uint64_t i = 0; !status && i < n_tensors; i++) status = place_tensor(&p, &file->tensors[i], data, step);
    if (!status)
        status = build_index(&p, "tensor", file->tensors, sizeof *file->tensors, file->n_tensors, &file->tensor_index);
    return status;
}
