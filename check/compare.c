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

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
    return hash ^ hash >> 32;
}

uint64_t check_hash(uint64_t hash, const void *numbers, int n)
{
    for (uint64_t word; n > 0; n--, numbers = (const char *)numbers + 8) {
        memcpy(&word, numbers, 8);
        hash = hash_word(hash, word);
    }
    return hash;
}

/* Elements as numbers, whose bytes may lie in either order. Every NaN is the same one, but for poison. `infinity`: as a
 * number, or UINT64_MAX for integers. `same`: a byte that counts as the first of poison, or -1. */
static inline uint64_t hash_units(uint64_t hash, const unsigned char *at, const unsigned char *end, int unit,
                                  uint64_t infinity, int same)
{
    const uint64_t magnitude = (UINT64_C(1) << (8 * unit - 1)) - 1;
    const uint64_t poison = unit == 4 ? CHECK_POISON * UINT64_C(0x10001) : CHECK_POISON;
    uint64_t word = 0;
    int bits = 0;
    for (; at < end; at += unit) {
        uint64_t n = *at;
        uint32_t whole;
        uint16_t half;
        if (unit == 8) memcpy(&n, at, 8);
        if (unit == 4) n = (memcpy(&whole, at, 4), whole);
        if (unit == 2) n = (memcpy(&half, at, 2), half);
        if (unit == 1 && (int)n == same) n = CHECK_POISON & 0xFF;
        if ((n & magnitude) > infinity && n != poison) n = infinity + 1;
        word |= n << bits;
        bits = (bits + 8 * unit) & 63;
        if (bits) continue;
        hash = hash_word(hash, word);
        word = 0;
    }
    return hash_word(hash, word);
}

static uint64_t hash_elements(uint64_t hash, const unsigned char *at, const unsigned char *end, int32_t dtype, int same)
{
    switch (dtype) {
    case GDN_I64: return hash_units(hash, at, end, 8, UINT64_MAX, -1);
    case GDN_I32: return hash_units(hash, at, end, 4, UINT64_MAX, -1);
    case GDN_F32: return hash_units(hash, at, end, 4, 0x7F800000, -1);
    case GDN_F16: return hash_units(hash, at, end, 2, 0x7C00, -1);
    case GDN_BF16: return hash_units(hash, at, end, 2, 0x7F80, -1);
    default: return hash_units(hash, at, end, 1, UINT64_MAX, same);
    }
}

/* Elements without gaps between them: for Q8_0 whole blocks, for states of digits the state of a head. */
static uint64_t hash_row(uint64_t hash, const check_case *c, int32_t dtype, const unsigned char *at, uint64_t bytes,
                         int same)
{
    const unsigned char *const end = at + bytes;
    if (dtype == GDN_DIGITS2 ||
        dtype == GDN_DIGITS3) { /* a factor of F32 for each value channel is behind the digits */
        const unsigned char *const factors = end - 4 * (int64_t)c->args.gated_delta_net.args.head_dim_v;
        return hash_elements(hash_elements(hash, at, factors, dtype, same), factors, end, GDN_I32, same);
    }
    if (dtype != GDN_Q8_0) return hash_elements(hash, at, end, dtype, same);
    for (; at < end; at += 34) /* a step, and 32 bytes */
        hash = hash_elements(hash_elements(hash, at, at + 2, GDN_F16, same), at + 2, at + 34, GDN_DIGITS2, same);
    return hash;
}

uint64_t check_hash_view(uint64_t hash, const check_case *c, const check_view *v)
{
    const check_memory *m = &c->memory[v->memory];
    const int inner = v->rank - 1;
    int64_t rows = 1;
    for (int a = 0; a < inner; a++) rows *= v->extent[a];
    for (int64_t row = 0; row < rows; row++) {
        const unsigned char *at = m->image + m->before + v->first;
        int64_t rest = row;
        for (int a = inner - 1; a >= 0; rest /= v->extent[a--]) at += rest % v->extent[a] * v->stride[a];
        hash = hash_row(hash, c, v->dtype, at, check_unit_bytes(v->dtype) * (uint64_t)v->extent[inner],
                        CHECK_POISON >> 8); /* the order of poison's bytes is the machine's */
    }
    return hash;
}

/* Of what the call may write in a memory. *changed: whether anything else is not as before. */
static uint64_t hash_written(uint64_t hash, const check_case *c, int m, const unsigned char *image, int *changed)
{
    const check_memory *memory = &c->memory[m];
    int64_t element, index[CHECK_MAX_AXES];
    const check_view *v = find_element(c, m, memory->range[0][0], &element, index);
    unsigned char *rest = check_alloc(memory->bytes);
    memcpy(rest, image, memory->bytes);
    for (uint64_t(*range)[2] = memory->range; range < memory->range + memory->n_ranges; range++) {
        const uint64_t at = (*range)[0], bytes = (*range)[1] - at;
        hash = hash_row(hash, c, v ? v->dtype : GDN_I32, image + at, v ? bytes : 0, -1);
        memcpy(rest + at, memory->image + at, bytes);
    }
    *changed = memcmp(rest, memory->image, memory->bytes) != 0;
    free(rest);
    return hash;
}

uint64_t check_digest(const check_case *c, unsigned char *const *image)
{
    uint64_t digest = 0;
    int n_changed = 0;
    for (int m = 0; m < c->n_memories; m++) {
        int changed;
        if (c->memory[m].n_ranges) digest = hash_written(digest, c, m, image[m], &changed);
        else changed = memcmp(image[m], c->memory[m].image, c->memory[m].bytes) != 0;
        n_changed += changed;
    }
    return hash_word(digest, (uint64_t)n_changed);
}
