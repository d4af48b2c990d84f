/* Comparing. See compare.h. */
#include "compare.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/convert.h"
#include "values.h"

void check_say(check_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text->at + text->used, sizeof text->at - text->used, format, args);
    va_end(args);
    if (n > 0) text->used += (size_t)n;
    if (text->used >= sizeof text->at) text->used = sizeof text->at - 1;
}

static int is_poison(const void *element, int32_t dtype)
{
    uint16_t half[2];
    memcpy(half, element, dtype == GDN_F32 ? 4 : 2);
    return half[0] == CHECK_POISON && (dtype != GDN_F32 || half[1] == CHECK_POISON);
}

static int is_float(int32_t dtype) { return dtype == GDN_F32 || dtype == GDN_F16 || dtype == GDN_BF16; }

int check_same(const void *a, const void *b, int32_t dtype)
{
    if (dtype == GDN_Q8_0) return !memcmp((const char *)a + 2, (const char *)b + 2, 32) && check_same(a, b, GDN_F16);
    if (!memcmp(a, b, check_unit_bytes(dtype))) return 1;
    return is_float(dtype) && check_is_nan(a, dtype) && check_is_nan(b, dtype) && !is_poison(a, dtype) &&
           !is_poison(b, dtype);
}

void check_say_value(check_text *text, const void *element, int32_t dtype)
{
    uint64_t bits = 0;
    if (dtype == GDN_Q8_0) {
        uint16_t scale;
        memcpy(&scale, element, 2);
        check_say(text, "scale %#06x, quants", scale);
        for (int i = 0; i < 32; i++) check_say(text, " %d", ((const int8_t *)element)[2 + i]);
        return;
    }
    if (dtype == GDN_I64) {
        memcpy(&bits, element, 8);
        check_say(text, "%lld", (long long)bits);
    } else if (dtype == GDN_I32) {
        int32_t value;
        memcpy(&value, element, 4);
        check_say(text, "%d", (int)value);
    } else if (dtype == GDN_F32) {
        memcpy(&bits, element, 4);
        check_say(text, "%#010llx (%.9g)", (unsigned long long)(uint32_t)bits,
                  (double)gdn_load_element(element, dtype, 0));
        if (is_poison(element, dtype)) check_say(text, " = poison");
    } else if (!is_float(dtype)) {
        check_say(text, "byte %d", (int)*(const int8_t *)element);
    } else {
        uint16_t half;
        memcpy(&half, element, 2);
        check_say(text, "%#06x (%.9g)", half, (double)gdn_load_element(element, dtype, 0));
        if (is_poison(element, dtype)) check_say(text, " = poison");
    }
}

/* The element that holds the byte at `at` (from the image's begin): its first byte and its index. */
static int decode(const check_case *c, const check_view *v, int64_t at, int64_t *element, int64_t index[CHECK_MAX_AXES])
{
    int64_t rest = at - (int64_t)c->memory[v->memory].before - v->first;
    const int64_t unit = (int64_t)check_unit_bytes(v->dtype);
    int done[CHECK_MAX_AXES] = { 0 };
    if (rest < 0) return 0;
    for (int n = 0; n < v->rank; n++) {
        int widest = -1;
        for (int a = 0; a < v->rank; a++)
            if (!done[a] && (widest < 0 || v->stride[a] > v->stride[widest])) widest = a;
        done[widest] = 1;
        index[widest] = v->extent[widest] > 1 ? rest / v->stride[widest] : 0;
        if (index[widest] >= v->extent[widest]) index[widest] = v->extent[widest] - 1;
        rest -= index[widest] * v->stride[widest];
    }
    if (rest >= unit) return 0;
    for (int a = 0; a < v->rank; a++)
        if (!v->extent[a]) return 0;
    *element = at - rest;
    return 1;
}

/* The operand and element that a byte belongs to; NULL for canaries and gaps. */
static const check_view *find_element(const check_case *c, int memory, uint64_t at, int64_t *element,
                                      int64_t index[CHECK_MAX_AXES])
{
    for (int i = 0; i < c->n_views; i++)
        if (c->view[i].memory == memory && decode(c, &c->view[i], (int64_t)at, element, index)) return &c->view[i];
    return NULL;
}

static void say_names(const check_case *c, int memory, check_text *text)
{
    int said = 0;
    for (int i = 0; i < c->n_views; i++)
        if (c->view[i].memory == memory) check_say(text, "%s%s", said++ ? "/" : "", c->view[i].name);
}

static void say_first(const check_case *c, int m, uint64_t at, const unsigned char *expected,
                      const unsigned char *actual, check_text *text)
{
    const check_memory *memory = &c->memory[m];
    int64_t element, index[CHECK_MAX_AXES] = { 0 };
    const check_view *v = find_element(c, m, at, &element, index);
    if (!v) {
        const int64_t from_body = (int64_t)at - (int64_t)memory->before;
        if (from_body < 0) check_say(text, "canary, %lld bytes before the first element", (long long)-from_body);
        else if ((uint64_t)from_body >= memory->body)
            check_say(text, "canary, %lld bytes after the end", (long long)((uint64_t)from_body - memory->body));
        else check_say(text, "gap between elements, at byte %lld", (long long)from_body);
        check_say(text, ": expected %#04x, got %#04x", expected[at], actual[at]);
        return;
    }
    check_say(text, "%s", v->name);
    for (int a = 0; a < v->rank; a++) check_say(text, "[%s %lld]", v->axis[a] ? v->axis[a] : "i", (long long)index[a]);
    check_say(text, ": expected ");
    check_say_value(text, expected + element, v->dtype);
    check_say(text, ", got ");
    check_say_value(text, actual + element, v->dtype);
}

static int64_t compare_memory(const check_case *c, int m, const unsigned char *expected, const unsigned char *actual,
                              check_text *text)
{
    const check_memory *memory = &c->memory[m];
    int64_t differ = 0;
    uint64_t first = 0;
    if (!memcmp(expected, actual, memory->bytes)) return 0;
    for (uint64_t at = 0; at < memory->bytes; at++) {
        int64_t element, index[CHECK_MAX_AXES];
        const check_view *v;
        if (at + 64 <= memory->bytes && !memcmp(expected + at, actual + at, 64)) {
            at += 63;
            continue;
        }
        if (expected[at] == actual[at]) continue;
        v = find_element(c, m, at, &element, index);
        const uint64_t end = v ? (uint64_t)element + check_unit_bytes(v->dtype) : at + 1;
        if (!v || !memory->written || !check_same(expected + element, actual + element, v->dtype))
            if (!differ++) first = at;
        at = end - 1;
    }
    if (differ && text) {
        check_say(text, "  ");
        say_names(c, m, text);
        check_say(text, ": %lld differ%s; first ", (long long)differ, differ == 1 ? "s" : "");
        say_first(c, m, first, expected, actual, text);
        check_say(text, "\n");
    }
    return differ;
}

int64_t check_compare(const check_case *c, unsigned char *const *expected, unsigned char *const *actual,
                      check_text *text)
{
    int64_t differ = 0;
    for (int m = 0; m < c->n_memories; m++) differ += compare_memory(c, m, expected[m], actual[m], text);
    return differ;
}

int64_t check_confined(const check_case *c, unsigned char *const *actual, check_text *text)
{
    int64_t differ = 0;
    for (int m = 0; m < c->n_memories; m++) {
        const check_memory *memory = &c->memory[m];
        if (!memory->n_ranges) {
            differ += compare_memory(c, m, memory->image, actual[m], text);
            continue;
        }
        unsigned char *allowed = check_alloc(memory->bytes);
        memcpy(allowed, memory->image, memory->bytes);
        for (int i = 0; i < memory->n_ranges; i++)
            memcpy(allowed + memory->range[i][0], actual[m] + memory->range[i][0],
                   memory->range[i][1] - memory->range[i][0]);
        differ += compare_memory(c, m, allowed, actual[m], text);
        free(allowed);

        int64_t element, index[CHECK_MAX_AXES];
        const check_view *v = find_element(c, m, memory->range[0][0], &element, index);
        int64_t unwritten = 0;
        for (int i = 0; v && v->dtype == GDN_F32 && i < memory->n_ranges; i++)
            for (uint64_t at = memory->range[i][0]; at < memory->range[i][1]; at += 4)
                unwritten += is_poison(actual[m] + at, GDN_F32);
        if (unwritten && text) check_say(text, "  %s: %lld results were not written\n", v->name, (long long)unwritten);
        differ += unwritten;
    }
    return differ;
}

uint64_t check_hash(uint64_t hash, const void *from, uint64_t bytes)
{
    if (!bytes) return hash; /* from may be NULL */
    const unsigned char *at = from, *const end = at + bytes;
    uint64_t word = 0;
    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    for (; at < end; at++) hash = check_mix(hash, *at);
    return hash;
}

/* Every NaN of the results is the same one. */
static void unify_nans(unsigned char *at, unsigned char *end, int32_t dtype)
{
    const uint32_t wide = 0x7FC00000, half = dtype == GDN_BF16 ? 0x7FC0 : 0x7E00;
    const int32_t type = dtype == GDN_Q8_0 ? GDN_F16 : dtype; /* its scale */
    const uint64_t unit = check_unit_bytes(dtype), bytes = check_unit_bytes(type);
    for (; is_float(type) && at < end; at += unit)
        if (check_is_nan(at, type) && !is_poison(at, type)) memcpy(at, type == GDN_F32 ? &wide : &half, (size_t)bytes);
}

uint64_t check_digest(const check_case *c, unsigned char *const *image)
{
    uint64_t digest = 0;
    for (int m = 0; m < c->n_memories; m++) {
        const check_memory *memory = &c->memory[m];
        if (!memory->n_ranges) {
            digest += memcmp(image[m], memory->image, (size_t)memory->bytes) != 0;
            continue;
        }
        int64_t element, index[CHECK_MAX_AXES];
        const check_view *v = find_element(c, m, memory->range[0][0], &element, index);
        unsigned char *plain = check_alloc(memory->bytes);
        memcpy(plain, image[m], memory->bytes);
        for (int i = 0; v && i < memory->n_ranges; i++)
            unify_nans(plain + memory->range[i][0], plain + memory->range[i][1], v->dtype);
        digest = check_hash(digest, plain, memory->bytes);
        free(plain);
    }
    return digest;
}
