/* Reads all that an open GGUF file answers, so that a sanitizer sees where an answer leaves the bytes. */
#ifndef GDN_TESTS_RUNTIME_GGUF_WALK_H
#define GDN_TESTS_RUNTIME_GGUF_WALK_H

#include <stdlib.h>
#include <string.h>

#include "runtime/files/gguf.h"

static inline unsigned walk_bytes(const void *bytes, uint64_t n)
{
    unsigned sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += ((const unsigned char *)bytes)[i];
    return sum;
}

static inline unsigned walk_key(const rt_gguf *f, rt_string name)
{
    char *key = malloc((size_t)name.bytes + 1); /* the getters want it terminated */
    int64_t values[8], number = 0, count = 0;
    float real = 0;
    int truth = 0;
    unsigned sum = 0;
    rt_string text = { "", 0 };
    if (!key) return 0;
    memcpy(key, name.text, (size_t)name.bytes);
    key[name.bytes] = 0;
    if (!rt_gguf_get_int(f, key, INT64_MIN, INT64_MAX, &number)) sum += (unsigned)number;
    if (!rt_gguf_get_float(f, key, &real)) sum += real > 0;
    if (!rt_gguf_get_bool(f, key, &truth)) sum += (unsigned)truth;
    if (!rt_gguf_get_string(f, key, &text)) sum += walk_bytes(text.text, text.bytes);
    if (!rt_gguf_get_strings(f, key, &count))
        for (int64_t i = -1; i <= count; i++) {
            text = rt_gguf_string_at(f, key, i);
            sum += walk_bytes(text.text, text.bytes);
        }
    if (!rt_gguf_get_ints(f, key, 0, values, 8, &count))
        for (int64_t i = 0; i < count && i < 8; i++) sum += (unsigned)values[i];
    sum += (unsigned)rt_gguf_has(f, key) + (unsigned)rt_gguf_element(f, key, &count);
    free(key);
    return sum;
}

static volatile unsigned walk_sum; /* so that no compiler leaves the reading out */

static inline void walk_gguf(const rt_gguf *f)
{
    unsigned sum = 0;
    rt_gguf_kind kind;
    for (int64_t i = 0; i < rt_gguf_n_keys(f); i++) {
        const rt_string name = rt_gguf_key_at(f, i, &kind);
        sum += walk_bytes(name.text, name.bytes) + walk_key(f, name);
    }
    for (int64_t i = 0; i < rt_gguf_n_tensors(f); i++) {
        const rt_gguf_tensor *t = rt_gguf_tensor_at(f, i);
        sum += walk_bytes(t->name.text, t->name.bytes) + walk_bytes(t->data, t->bytes);
    }
    walk_sum = sum;
}

#endif
