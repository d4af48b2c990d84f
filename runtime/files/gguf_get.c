/* Reads metadata of GGUF files; gguf_parse.c has checked all values. See gguf.h. */
#include "runtime/files/gguf_internal.h"

#include <float.h>
#include <string.h>

#include "runtime/base/error.h"

static const char *kind_name(int32_t kind)
{
    static const char *const names[] = { "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64" };
    return names[kind];
}

static const gguf_key *find_key(const rt_gguf *file, const char *name)
{
    return (const gguf_key *)gguf_lookup(file->key_index, file->n_keys, name, strlen(name));
}

static int is_int(int32_t kind)
{
    return kind >= 0 && kind != RT_GGUF_F32 && kind != RT_GGUF_F64 && kind != RT_GGUF_BOOL && gguf_kind_bytes(kind);
}

/* Predicates for find_kind(). */
static int has_int(const gguf_key *key) { return is_int(key->kind); }
static int has_float(const gguf_key *key) { return key->kind == RT_GGUF_F32 || key->kind == RT_GGUF_F64; }
static int has_number(const gguf_key *key) { return gguf_kind_bytes(key->kind) != 0; }
static int has_bool(const gguf_key *key) { return key->kind == RT_GGUF_BOOL; }
static int has_string(const gguf_key *key) { return key->kind == RT_GGUF_STRING; }
static int has_strings(const gguf_key *key) { return key->element == RT_GGUF_STRING; }
static int has_ints(const gguf_key *key) { return is_int(key->element) || key->element == RT_GGUF_BOOL; }

/* Finds a key by name. Fails if it is absent, or if `fits` returns 0; `wanted` describes the expected kind. */
static gdn_status find_kind(const rt_gguf *file, const char *name, int (*fits)(const gguf_key *key), const char *wanted,
                            const gguf_key **found)
{
    const gguf_key *key = *found = find_key(file, name);
    if (!key) return rt_fail(GDN_NOT_FOUND, "%.100s has no key %s", file->label, name);
    if (fits(key)) return GDN_OK;
    return rt_fail(GDN_INVALID_ARGUMENT, "%s is of kind %s%s%s; %s is wanted", name, kind_name(key->kind),
                   key->element < 0 ? "" : " of ", key->element < 0 ? "" : kind_name(key->element), wanted);
}

/* Loads an integer or bool. Returns 0 if it does not fit into int64_t. */
static int load_int(const unsigned char *at, int32_t kind, int64_t *value)
{
    const int bytes = gguf_kind_bytes(kind);
    const uint64_t raw = gguf_load(at, bytes);
    const int has_sign = kind == RT_GGUF_I8 || kind == RT_GGUF_I16 || kind == RT_GGUF_I32 || kind == RT_GGUF_I64;
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    if (has_sign && raw & sign) {
        *value = -(int64_t)(sign - (raw & (sign - 1)) - 1) - 1; /* avoids an implementation-defined conversion */
        return 1;
    }
    *value = raw > INT64_MAX ? INT64_MAX : (int64_t)raw;
    return raw <= INT64_MAX;
}

static rt_string load_string(const unsigned char *at)
{
    const rt_string string = { (const char *)at + 8, gguf_load(at, 8) };
    return string;
}

int rt_gguf_has(const rt_gguf *file, const char *key) { return find_key(file, key) != NULL; }

gdn_status rt_gguf_get_int(const rt_gguf *file, const char *name, int64_t low, int64_t high, int64_t *value)
{
    const gguf_key *key;
    int64_t got = 0;
    const gdn_status status = find_kind(file, name, has_int, "an integer", &key);
    if (status) return status;
    if (!load_int(key->value, key->kind, &got))
        return rt_fail(GDN_INVALID_ARGUMENT, "%s is %llu; %lld to %lld are allowed", name,
                       (unsigned long long)gguf_load(key->value, 8), (long long)low, (long long)high);
    if (got < low || got > high)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s is %lld; %lld to %lld are allowed", name, (long long)got,
                       (long long)low, (long long)high);
    *value = got;
    return GDN_OK;
}

gdn_status rt_gguf_get_float(const rt_gguf *file, const char *name, float *value)
{
    const gguf_key *key;
    double wide = 0;
    gdn_status status = find_kind(file, name, has_float, "f32 or f64", &key);
    if (!status) status = rt_gguf_get_number(file, name, &wide);
    if (status) return status;
    if (wide - wide == 0.0 && (wide > (double)FLT_MAX || wide < -(double)FLT_MAX)) /* finite, but out of range for
                                                                                      float */
        return rt_fail(GDN_INVALID_ARGUMENT, "%s is %g; %g to %g are allowed", name, wide, -(double)FLT_MAX,
                       (double)FLT_MAX);
    *value = (float)wide;
    return GDN_OK;
}

gdn_status rt_gguf_get_number(const rt_gguf *file, const char *name, double *value)
{
    const gguf_key *key;
    int64_t whole = 0;
    const gdn_status status = find_kind(file, name, has_number, "a number", &key);
    if (status) return status;
    const uint64_t bits = gguf_load(key->value, gguf_kind_bytes(key->kind));
    float narrow = 0;
    if (key->kind == RT_GGUF_F64) memcpy(value, &bits, sizeof *value);
    else if (key->kind == RT_GGUF_F32) {
        const uint32_t low = (uint32_t)bits;
        memcpy(&narrow, &low, sizeof narrow);
        *value = (double)narrow;
    } else *value = load_int(key->value, key->kind, &whole) ? (double)whole : (double)bits;
    return GDN_OK;
}

gdn_status rt_gguf_get_bool(const rt_gguf *file, const char *name, int *value)
{
    const gguf_key *key;
    const gdn_status status = find_kind(file, name, has_bool, "a bool", &key);
    if (!status) *value = key->value[0];
    return status;
}

gdn_status rt_gguf_get_string(const rt_gguf *file, const char *name, rt_string *value)
{
    const gguf_key *key;
    const gdn_status status = find_kind(file, name, has_string, "a string", &key);
    if (!status) *value = load_string(key->value);
    return status;
}

gdn_status rt_gguf_get_strings(const rt_gguf *file, const char *name, int64_t *count)
{
    const gguf_key *key;
    const gdn_status status = find_kind(file, name, has_strings, "an array of strings", &key);
    if (!status) *count = (int64_t)key->count;
    return status;
}

rt_string rt_gguf_string_at(const rt_gguf *file, const char *name, int64_t index)
{
    const rt_string none = { "", 0 };
    const gguf_key *key = find_key(file, name);
    if (!key || key->element != RT_GGUF_STRING || index < 0 || (uint64_t)index >= key->count) return none;
    rt_string string = load_string(file->bytes + file->string_at[key->first_mark + (uint64_t)index / GGUF_MARK]);
    for (int64_t i = index % GGUF_MARK; i > 0; i--) string = rt_gguf_string_next(string);
    return string;
}

rt_string rt_gguf_string_next(rt_string string)
{
    return load_string((const unsigned char *)string.text + string.bytes);
}

gdn_status rt_gguf_get_ints(const rt_gguf *file, const char *name, int64_t first, int64_t *values, int64_t capacity,
                            int64_t *count)
{
    const gguf_key *key;
    const gdn_status status = find_kind(file, name, has_ints, "an array of integers or bools", &key);
    if (status) return status;
    const uint64_t size = (uint64_t)gguf_kind_bytes(key->element);
    if (first < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s: elements from %lld on; 0 and more are allowed", name,
                       (long long)first);
    for (uint64_t i = (uint64_t)first; i < key->count && (int64_t)i - first < capacity; i++)
        if (!load_int(key->value + i * size, key->element, &values[(int64_t)i - first]))
            return rt_fail(GDN_INVALID_ARGUMENT, "%s[%llu] is %llu; at most 2^63 - 1 is allowed", name,
                           (unsigned long long)i, (unsigned long long)gguf_load(key->value + i * size, 8));
    *count = (int64_t)key->count;
    return GDN_OK;
}

int64_t rt_gguf_n_keys(const rt_gguf *file) { return file->n_keys; }

rt_string rt_gguf_key_at(const rt_gguf *file, int64_t index, rt_gguf_kind *kind)
{
    const rt_string none = { NULL, 0 };
    if (index < 0 || index >= file->n_keys) return none;
    if (kind) *kind = (rt_gguf_kind)file->keys[index].kind;
    return file->keys[index].name;
}

rt_string rt_gguf_value_at(const rt_gguf *file, int64_t index)
{
    if (index < 0 || index >= file->n_keys) return (rt_string){ "", 0 };
    const gguf_key *key = &file->keys[index];
    const int strings = key->element == RT_GGUF_STRING;
    uint64_t n = (uint64_t)gguf_kind_bytes(key->kind);
    if (key->element >= 0 && !strings) n = key->count * (uint64_t)gguf_kind_bytes(key->element);
    for (uint64_t i = key->kind == RT_GGUF_STRING ? 1 : strings ? key->count : 0; i > 0; i--)
        n += 8 + gguf_load(key->value + n, 8);
    return (rt_string){ (const char *)key->value, n };
}

int rt_gguf_element(const rt_gguf *file, const char *name, int64_t *count)
{
    const gguf_key *key = find_key(file, name);
    if (!key || key->element < 0) return -1;
    if (count) *count = (int64_t)key->count;
    return key->element;
}
