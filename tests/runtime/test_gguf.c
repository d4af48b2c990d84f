/* The reader of GGUF files: values of well-formed files, error texts of malformed ones. The bytes have a block of their
 * size, so that AddressSanitizer sees what is read outside. fuzz_gguf cuts and changes files anywhere. */
#include "runtime/base/error.h"
#include "tests/harness.h"
#include "gguf_build.h"
#include "gguf_walk.h"

static gguf_build file;

static uint64_t bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void put_header_and_keys(uint64_t n_tensors)
{
    build_header(&file, n_tensors, 17);
    build_key_string(&file, "general.architecture", "test");
    build_key_number(&file, "u8", RT_GGUF_U8, 255);
    build_key_number(&file, "i8", RT_GGUF_I8, 0x80);
    build_key_number(&file, "u16", RT_GGUF_U16, 65535);
    build_key_number(&file, "i16", RT_GGUF_I16, 0x8000);
    build_key_number(&file, "u32", RT_GGUF_U32, UINT32_MAX);
    build_key_number(&file, "i32", RT_GGUF_I32, 0xFFFFFFFF);
    build_key_number(&file, "f32", RT_GGUF_F32, 0x3FC00000);
    build_key_number(&file, "yes", RT_GGUF_BOOL, 1);
    build_key_number(&file, "u64", RT_GGUF_U64, UINT64_MAX);
    build_key_number(&file, "i64", RT_GGUF_I64, (uint64_t)1 << 63);
    build_key_number(&file, "f64", RT_GGUF_F64, bits_of_double(-0.25));
    build_key_array(&file, "strings", RT_GGUF_STRING, 3);
    build_string(&file, "one");
    build_string(&file, "");
    build_string(&file, "three");
    build_key_array(&file, "ints", RT_GGUF_I16, 3);
    build_number(&file, 0xFFFE, 2);
    build_number(&file, 7, 2);
    build_number(&file, 300, 2);
    build_key_array(&file, "bools", RT_GGUF_BOOL, 2);
    build_number(&file, 1, 1);
    build_number(&file, 0, 1);
    build_key_array(&file, "nothing", RT_GGUF_STRING, 0);
    build_key_number(&file, "wide", RT_GGUF_F64, bits_of_double(1e39));
}

/* A file with keys of all kinds and three tensors: F32 {3, 2}, Q8_0 {32, 2, 1, 2}, and an unknown type. */
static void put_all(void)
{
    const uint64_t a[] = { 3, 2 }, q[] = { 32, 2, 1, 2 }, x[] = { 5 };
    put_header_and_keys(3);
    build_tensor(&file, "zeta.weight", 2, a, 0, 0);
    build_tensor(&file, "alpha.weight", 4, q, 8, 32);
    build_tensor(&file, "unknown", 1, x, 4096, 192);
    build_pad(&file, 32);
    for (int i = 0; i < 200; i++) build_number(&file, (uint64_t)i, 1);
}

/* Opens a copy of the first n bytes, in memory of that size. */
static gdn_status open_copy(const unsigned char *bytes, uint64_t n, rt_gguf **f, void **copy)
{
    *copy = malloc(n ? (size_t)n : 1);
    if (!*copy) exit(2);
    memcpy(*copy, bytes, (size_t)n);
    return rt_gguf_open_memory(*copy, n, NULL, f);
}

static void test_numbers(const rt_gguf *f)
{
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {
        { "u8", 255 },         { "i8", -128 }, { "u16", 65535 },     { "i16", -32768 },
        { "u32", UINT32_MAX }, { "i32", -1 },  { "i64", INT64_MIN },
    };
    int64_t got = 0;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        REQUIRE(!rt_gguf_get_int(f, ints[i].key, INT64_MIN, INT64_MAX, &got) && got == ints[i].value, "%s",
                ints[i].key);
        REQUIRE(!rt_gguf_get_int(f, ints[i].key, ints[i].value, ints[i].value, &got), "%s", ints[i].key);
    }
    REQUIRE(rt_gguf_get_int(f, "u8", 0, 254, &got) == GDN_INVALID_ARGUMENT, "u8 is too high");
    REQUIRE(strstr(rt_last_error(), "u8 is 255; 0 to 254 are allowed"));
    REQUIRE(rt_gguf_get_int(f, "i8", -127, 0, &got) == GDN_INVALID_ARGUMENT, "i8 is too low");
    REQUIRE(rt_gguf_get_int(f, "u64", 0, INT64_MAX, &got) == GDN_INVALID_ARGUMENT, "u64 does not fit");
    REQUIRE(strstr(rt_last_error(), "18446744073709551615"));
    FAILS(rt_gguf_get_int(f, "f32", 0, 9, &got), GDN_INVALID_ARGUMENT, "f32 is of kind f32");
    REQUIRE(rt_gguf_get_int(f, "yes", 0, 9, &got) == GDN_INVALID_ARGUMENT, "a bool is no integer");
    FAILS(rt_gguf_get_int(f, "u", 0, 9, &got), GDN_NOT_FOUND, "has no key u");
    REQUIRE(rt_gguf_get_int(f, "u88", 0, 9, &got) == GDN_NOT_FOUND, "longer than a key");
    float real = 0;
    REQUIRE(!rt_gguf_get_float(f, "f32", &real) && real == 1.5f, "f32 %g", (double)real);
    REQUIRE(!rt_gguf_get_float(f, "f64", &real) && real == -0.25f, "f64 %g", (double)real);
    REQUIRE(rt_gguf_get_float(f, "u8", &real) == GDN_INVALID_ARGUMENT, "an integer is no float");
    FAILS(rt_gguf_get_float(f, "wide", &real), GDN_INVALID_ARGUMENT, "wide is 1e+39; -3.40282e+38 to 3.40282e+38");
    int truth = 0;
    REQUIRE(!rt_gguf_get_bool(f, "yes", &truth) && truth == 1, "bool");
    REQUIRE(rt_gguf_get_bool(f, "u8", &truth) == GDN_INVALID_ARGUMENT, "an integer is no bool");
}

static int is(rt_string s, const char *text)
{
    return s.text && s.bytes == strlen(text) && !memcmp(s.text, text, (size_t)s.bytes);
}

static void test_strings_and_arrays(const rt_gguf *f)
{
    rt_string text;
    rt_gguf_kind kind = RT_GGUF_U8;
    int64_t count = 0, values[3] = { 0, 0, 99 };
    REQUIRE(!rt_gguf_get_string(f, "general.architecture", &text) && is(text, "test"), "string");
    FAILS(rt_gguf_get_string(f, "strings", &text), GDN_INVALID_ARGUMENT, "array of string");
    REQUIRE(!rt_gguf_get_strings(f, "strings", &count) && count == 3, "strings");
    REQUIRE(is(rt_gguf_string_at(f, "strings", 0), "one") && is(rt_gguf_string_at(f, "strings", 1), ""));
    REQUIRE(is(rt_gguf_string_at(f, "strings", 2), "three") && is(rt_gguf_string_at(f, "strings", 3), ""));
    REQUIRE(is(rt_gguf_string_at(f, "strings", -1), "") && is(rt_gguf_string_at(f, "ints", 0), ""), "outside");
    REQUIRE(!rt_gguf_get_strings(f, "nothing", &count) && count == 0, "an empty array");
    REQUIRE(rt_gguf_get_strings(f, "ints", &count) == GDN_INVALID_ARGUMENT, "not strings");
    REQUIRE(!rt_gguf_get_ints(f, "ints", 0, values, 2, &count) && count == 3, "ints");
    REQUIRE(values[0] == -2 && values[1] == 7 && values[2] == 99, "no more than the capacity");
    REQUIRE(!rt_gguf_get_ints(f, "ints", 0, NULL, 0, &count) && count == 3, "capacity 0");
    REQUIRE(!rt_gguf_get_ints(f, "bools", 0, values, 3, &count) && count == 2 && values[0] == 1 && values[1] == 0);
    REQUIRE(rt_gguf_get_ints(f, "strings", 0, values, 3, &count) == GDN_INVALID_ARGUMENT, "strings are no ints");
    REQUIRE(rt_gguf_get_ints(f, "u8", 0, values, 3, &count) == GDN_INVALID_ARGUMENT, "a number is no array");
    REQUIRE(rt_gguf_element(f, "ints", &count) == RT_GGUF_I16 && count == 3 && rt_gguf_element(f, "u8", NULL) == -1);
    REQUIRE(rt_gguf_n_keys(f) == 17, "%lld keys", (long long)rt_gguf_n_keys(f));
    REQUIRE(is(rt_gguf_key_at(f, 1, &kind), "u8") && kind == RT_GGUF_U8, "key 1");
    REQUIRE(is(rt_gguf_key_at(f, 13, &kind), "ints") && kind == RT_GGUF_ARRAY, "key 13");
    REQUIRE(!rt_gguf_key_at(f, 17, &kind).text && !rt_gguf_key_at(f, -1, NULL).text, "keys outside");
}

static void test_tensors(const rt_gguf *f, const unsigned char *bytes)
{
    const rt_gguf_tensor *t = rt_gguf_find(f, "alpha.weight");
    REQUIRE(rt_gguf_n_tensors(f) == 3 && t && t == rt_gguf_tensor_at(f, 1), "alpha.weight");
    if (!t) return;
    REQUIRE(t->type == 8 && t->n_dims == 4 && t->ne[0] == 32 && t->ne[1] == 2 && t->ne[2] == 1 && t->ne[3] == 2);
    REQUIRE(t->bytes == 4 * 34 && t->data[0] == 32 && (t->data - bytes) % 32 == 0, "data");
    t = rt_gguf_find(f, "zeta.weight");
    REQUIRE(t && t == rt_gguf_tensor_at(f, 0) && t->ne[2] == 1 && t->ne[3] == 1 && t->bytes == 24 && t->data[1] == 1);
    t = rt_gguf_find(f, "unknown");
    REQUIRE(t && !t->data && !t->bytes && t->type == 4096, "a type nobody knows");
    REQUIRE(!rt_gguf_find(f, "alpha") && !rt_gguf_find(f, "alpha.weight2") && !rt_gguf_find(f, ""), "no such tensors");
    REQUIRE(!rt_gguf_tensor_at(f, 3) && !rt_gguf_tensor_at(f, -1), "tensors outside");
}

static void test_values(void)
{
    rt_gguf *f;
    void *copy;
    put_all();
    REQUIRE(!open_copy(file.bytes, file.n, &f, &copy), "open");
    if (f) {
        test_numbers(f);
        test_strings_and_arrays(f);
        test_tensors(f, copy);
    }
    rt_gguf_close(f);
    rt_gguf_close(NULL);
    file.bytes[4] = 2;
    free(copy);
    REQUIRE(!open_copy(file.bytes, file.n, &f, &copy), "version 2");
    rt_gguf_close(f);
    free(copy);
}

/* 3000 names: lookups find each of them. */
static void test_many(void)
{
    rt_gguf *f = NULL;
    char name[16];
    build_header(&file, 0, 3000);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "%d", i * 7919 % 3000);
        build_key_number(&file, name, RT_GGUF_U16, (uint64_t)i);
    }
    REQUIRE(file.n < GGUF_BUILD_MAX - 32 && !rt_gguf_open_memory(file.bytes, file.n, NULL, &f), "many keys");
    int wrong = 0;
    for (int i = 0; f && i < 3000; i++) {
        int64_t value = -1;
        (void)snprintf(name, sizeof name, "%d", i * 7919 % 3000);
        wrong += rt_gguf_get_int(f, name, 0, 3000, &value) || value != i;
    }
    REQUIRE(!wrong, "%d keys are not found", wrong);
    rt_gguf_close(f);
}

/* Strings of several lengths, more than the index has places for: found at random and one after another. */
static void test_many_strings(void)
{
    enum { N = 1003 };
    rt_gguf *f = NULL;
    char text[16];
    build_header(&file, 0, 3);
    build_key_array(&file, "a", RT_GGUF_STRING, 5);
    for (int i = 0; i < 5; i++) build_string(&file, "before");
    build_key_array(&file, "list", RT_GGUF_STRING, N);
    for (int i = 0; i < N; i++) {
        (void)snprintf(text, sizeof text, "%.*s%d", i % 4, "....", i);
        build_string(&file, text);
    }
    build_key_array(&file, "ints", RT_GGUF_U16, 600);
    for (uint64_t i = 0; i < 600; i++) build_number(&file, i * i & 0xFFFF, 2);
    REQUIRE(!rt_gguf_open_memory(file.bytes, file.n, NULL, &f), "many strings");
    int wrong = 0;
    rt_string next = f ? rt_gguf_string_at(f, "list", 0) : (rt_string){ "", 0 };
    for (int i = 0; f && i < N; i++) {
        const int at = i * 571 % N;
        (void)snprintf(text, sizeof text, "%.*s%d", at % 4, "....", at);
        wrong += !is(rt_gguf_string_at(f, "list", at), text);
        (void)snprintf(text, sizeof text, "%.*s%d", i % 4, "....", i);
        wrong += !is(next, text);
        if (i + 1 < N) next = rt_gguf_string_next(next);
    }
    REQUIRE(!wrong, "%d strings are not those of the file", wrong);
    int64_t values[8] = { 0 }, count = 0;
    REQUIRE(f && !rt_gguf_get_ints(f, "ints", 250, values, 8, &count) && count == 600 && values[0] == 62500 &&
            values[7] == (257 * 257 & 0xFFFF));
    values[2] = -7;
    REQUIRE(f && !rt_gguf_get_ints(f, "ints", 598, values, 8, &count) && values[1] == (599 * 599 & 0xFFFF) &&
            values[2] == -7);
    REQUIRE(f && !rt_gguf_get_ints(f, "ints", 600, values, 8, &count) && count == 600 && values[2] == -7);
    REQUIRE(f && rt_gguf_get_ints(f, "ints", -1, values, 8, &count) == GDN_INVALID_ARGUMENT, "before it");
    rt_gguf_close(f);
}

/* What the reader allocates is counted in one; test_split.c tries every limit. */
static void test_budget(void)
{
    rt_budget full = { 100, 40 };
    REQUIRE(rt_budget_take(&full, UINT64_MAX, "it all") == GDN_OUT_OF_MEMORY && full.used == 40, "no sum wraps around");
    REQUIRE(rt_budget_take(&full, 61, "it all") == GDN_OUT_OF_MEMORY && !rt_budget_take(&full, 60, "it all"), "limit");
    rt_budget counter = { 0, 40 };
    REQUIRE(rt_budget_take(&counter, UINT64_MAX, "it all") == GDN_OUT_OF_MEMORY && counter.used == 40);
    REQUIRE(!rt_budget_take(NULL, UINT64_MAX, "it all"), "no budget, no limit");
}

/* ---- Malformed files ---- */

static void refused(const char *what, gdn_status wanted, const char *text)
{
    rt_gguf *f = (rt_gguf *)&file;
    void *copy;
    const gdn_status status = open_copy(file.bytes, file.n, &f, &copy);
    REQUIRE(status == wanted && !f, "%s gives status %d", what, (int)status);
    REQUIRE(strstr(rt_last_error(), text), "%s: \"%s\" is expected", what, text);
    rt_gguf_close(status ? NULL : f);
    free(copy);
}

static void malformed(const char *what, const char *text) { refused(what, GDN_INVALID_ARGUMENT, text); }

static void test_malformed_header(void)
{
    put_all();
    file.n = 23;
    malformed("a short file", "the file has 23 bytes; a GGUF file has at least 24");
    put_all();
    file.bytes[0] = 'g';
    malformed("another magic", "no GGUF file: it begins with 67 47 55 46");
    put_all();
    file.bytes[4] = 1;
    refused("version 1", GDN_UNSUPPORTED, "the version is 1; 2 and 3 can be read");
    put_all();
    file.bytes[4] = 0;
    file.bytes[7] = 3;
    refused("a big-endian file", GDN_UNSUPPORTED, "big-endian");
    build_header(&file, 0, UINT64_MAX);
    malformed("keys without end", "at byte 16: 18446744073709551615 keys do not fit");
    build_header(&file, UINT64_MAX, 0);
    malformed("tensors without end", "at byte 8: 18446744073709551615 tensors do not fit");
    build_header(&file, 0, (uint64_t)1 << 63); /* times the least size of a key it is 0 */
    for (int i = 0; i < 100; i++) build_key_number(&file, "k", RT_GGUF_U8, 0);
    malformed("keys whose size overflows", "keys do not fit");
    rt_gguf *f;
    REQUIRE(rt_gguf_open_memory(NULL, 7, NULL, &f) == GDN_INVALID_ARGUMENT && !f, "NULL");
    REQUIRE(rt_gguf_open_memory(NULL, 0, NULL, &f) == GDN_INVALID_ARGUMENT && !f, "nothing");
}

/* A file of one key, of an array where `count` is not 0: its name, its kind or its elements', and what follows. */
static const struct {
    const char *name;
    uint32_t kind;
    uint64_t count, value;
    int bytes, more; /* of the value, and of zeros behind it */
    const char *says;
} bad_keys[] = {
    { "k", RT_GGUF_STRING, 0, UINT64_MAX, 8, 0,
      "key \"k\", at byte 37: the value has 18446744073709551615 bytes; 0 are left" },
    { "", RT_GGUF_U8, 0, 0, 8, 0, "key 0, at byte 24: the name has 0 bytes" },
    { "k", 13, 0, 0, 8, 0, "key \"k\", at byte 33: the kind is 13" },
    { "k", RT_GGUF_U64, 0, 0, 7, 0, "at byte 37: the file ends in the value: the file is incomplete" },
    { "k", RT_GGUF_BOOL, 0, 2, 1, 0, "key \"k\", at byte 37: a bool is 2" },
    { "\x01\xFFk", 99, 0, 0, 8, 0, "key \"?\?k\"" },
    /* 4 times the count is 4 */
    { "list", RT_GGUF_U32, ((uint64_t)1 << 62) + 1, 0, 8, 0,
      "key \"list\", at byte 44: an array has 4611686018427387905 elements" },
    { "list", RT_GGUF_U32, 3, 0, 8, 3, "3 elements of at least 4 bytes; 11 bytes are left in the" },
    { "list", RT_GGUF_STRING, 1000, 2, 8, 2, "an array has 1000 elements of at least 8 bytes" },
    { "list", RT_GGUF_ARRAY, 1, 0, 8, 0, "key \"list\", at byte 40: arrays of arrays" },
    { "list", 77, 1, 0, 8, 0, "an array's elements have kind 77" },
    { "list", RT_GGUF_BOOL, 3, 0x070100, 3, 0, "key \"list\", at byte 54: a bool is 7" },
};

static void test_malformed_keys(void)
{
    for (size_t i = 0; i < sizeof bad_keys / sizeof *bad_keys; i++) {
        build_header(&file, 0, 1);
        if (bad_keys[i].count) build_key_array(&file, bad_keys[i].name, bad_keys[i].kind, bad_keys[i].count);
        else build_key(&file, bad_keys[i].name, bad_keys[i].kind);
        build_number(&file, bad_keys[i].value, bad_keys[i].bytes);
        build_number(&file, 0, bad_keys[i].more);
        refused(bad_keys[i].says, bad_keys[i].kind == RT_GGUF_ARRAY ? GDN_UNSUPPORTED : GDN_INVALID_ARGUMENT,
                bad_keys[i].says);
    }
    build_header(&file, 0, 1);
    build_number(&file, UINT64_MAX - 7, 8);
    build_number(&file, 0, 8);
    malformed("a name without end", "key 0, at byte 24: the name has 18446744073709551608 bytes");
    build_header(&file, 0, 3);
    build_key_number(&file, "twice", RT_GGUF_U8, 1);
    build_key_number(&file, "between", RT_GGUF_U8, 2);
    build_key_number(&file, "twice", RT_GGUF_U8, 3);
    malformed("a key twice", "key \"twice\", at byte 70: the name is there twice");
    build_header(&file, 0, 1);
    build_key_array(&file, "list", RT_GGUF_STRING, 2);
    build_string(&file, "ab");
    build_number(&file, 4, 8);
    build_bytes(&file, "abc", 3);
    malformed("a string too long", "has 4 bytes; 3 are left in the file: the file is incomplete");
}

static void put_alignment(rt_gguf_kind kind, uint64_t value)
{
    build_header(&file, 0, 1);
    build_key_number(&file, "general.alignment", kind, value);
}

static void test_malformed_tensors(void)
{
    const uint64_t huge = (uint64_t)1 << 32;
    const struct { /* a tensor "t" with 64 bytes of data */
        uint32_t n_dims;
        uint64_t ne[5];
        uint32_t type;
        uint64_t offset;
        const char *says;
    } bad[] = {
        { 0, { 0 }, 0, 0, "tensor \"t\", at byte 33: it has 0 dimensions; 1 to 4" },
        { 5, { 1, 1, 1, 1, 1 }, 0, 0, "it has 5 dimensions" },
        { 2, { 4, 0 }, 0, 0, "tensor \"t\", at byte 45: dimension 1 is 0" },
        { 1, { UINT64_MAX }, 0, 0, "dimension 0 is 18446744073709551615" },
        { 4,
          { huge, huge, huge, huge },
          0,
          0,
          "dimension 1 is 4294967296; 1 or more are allowed, and 2^63 - 1 elements in all" },
        { 2, { huge, huge / 4 }, 0, 0, "blocks of 4 bytes; 2^64 - 1 bytes are allowed" }, /* times 4 bytes it is 2^64 */
        { 1,
          { 17 },
          0,
          0,
          "tensor \"t\", at byte 32: the file ends at byte 128, where the tensor needs 68 bytes from byte 64 on: the "
          "file is incomplete" },
        { 1, { 16 }, 0, 32, "needs 64 bytes from byte 96 on: the file is incomplete" },
        { 1, { 4 }, 0, 4, "the offset 4 is not a multiple of the alignment, 32" },
        { 1,
          { 4 },
          0,
          96,
          "the file ends at byte 128, and the tensor's data begins at byte 64 + 96: the file is incomplete" },
        { 1, { 4 }, 0, UINT64_MAX - 31, "begins at byte 64 + 18446744073709551584" },
        { 1, { 16 }, 2, 0, "rows have 16 elements, which is no multiple of 32, the block of Q4_0" },
        { 1, { 1 }, 0x80000000, 0, "the type is 2147483648" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        build_header(&file, 1, 0);
        build_tensor(&file, "t", bad[i].n_dims, bad[i].ne, bad[i].type, bad[i].offset);
        build_pad(&file, 32);
        for (int k = 0; k < 64; k++) build_number(&file, 1, 1);
        malformed(bad[i].says, bad[i].says);
    }
    const uint64_t one[] = { 1 };
    build_header(&file, 2, 0);
    build_tensor(&file, "t", 1, one, 0, 0);
    build_tensor(&file, "t", 1, one, 0, 32);
    build_pad(&file, 32);
    for (int k = 0; k < 64; k++) build_number(&file, 1, 1);
    malformed("a tensor twice", "tensor \"t\", at byte 65: the name is there twice");
}

/* Counts that the file has room for, and no model has. */
static void test_too_many(void)
{
    const uint64_t n = 24 + (uint64_t)33 * ((1 << 18) + 1);
    unsigned char *bytes = calloc((size_t)n, 1);
    rt_gguf *f;
    if (!bytes) exit(2);
    build_header(&file, 0, (1 << 16) + 1);
    memcpy(bytes, file.bytes, 24);
    REQUIRE(rt_gguf_open_memory(bytes, n, NULL, &f) == GDN_INVALID_ARGUMENT && !f &&
            strstr(rt_last_error(), "there are 65537 keys; at most 65536 are allowed"));
    build_header(&file, (1 << 18) + 1, 0);
    memcpy(bytes, file.bytes, 24);
    REQUIRE(rt_gguf_open_memory(bytes, n, NULL, &f) == GDN_INVALID_ARGUMENT && !f &&
            strstr(rt_last_error(), "there are 262145 tensors; at most 262144 are allowed"));
    free(bytes);
}

/* Two tensors of 64 and 32 bytes at offsets a and b. */
static void put_two(uint64_t a, uint64_t b)
{
    const uint64_t first[] = { 16 }, second[] = { 8 };
    build_header(&file, 2, 0);
    build_tensor(&file, "large", 1, first, 0, a);
    build_tensor(&file, "small", 1, second, 0, b);
    build_pad(&file, 32);
    for (int i = 0; i < 256; i++) build_number(&file, 1, 1);
}

/* Each tensor begins where the one before it ends. */
static void test_offsets(void)
{
    static const struct {
        uint64_t a, b;
        const char *text;
    } cases[] = {
        { 0, 32, "tensor \"small\", at byte 69: the offset is 32; 64 is expected, where the tensor before it ends" },
        { 0, 0, "the offset is 0; 64 is expected" },
        { 0, 96, "tensor \"small\", at byte 69: the offset is 96; 64 is expected" },
        { 32, 0, "tensor \"large\", at byte 32: the offset is 32; 0 is expected" },
        { 32, 96, "tensor \"large\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_two(cases[i].a, cases[i].b);
        malformed("tensors with a hole, or that overlap", cases[i].text);
    }
    /* the size of the second is not known: the third may begin anywhere behind it */
    const uint64_t ne[] = { 16 }, third[] = { 64, 96, 160, 32 };
    for (size_t i = 0; i < sizeof third / sizeof *third; i++) {
        rt_gguf *f;
        build_header(&file, 3, 0);
        build_tensor(&file, "known", 1, ne, 0, 0);
        build_tensor(&file, "unknown", 1, ne, 4096, 64);
        build_tensor(&file, "last", 1, ne, 0, third[i]);
        build_pad(&file, 32);
        for (int k = 0; k < 256; k++) build_number(&file, 1, 1);
        if (third[i] < 64) {
            malformed("a tensor in another", "tensor \"last\", at byte 108: the offset is 32; 64 or more is expected");
            continue;
        }
        REQUIRE(!rt_gguf_open_memory(file.bytes, file.n, NULL, &f), "offset %d", (int)third[i]);
        rt_gguf_close(f);
    }
}

static void test_alignment(void)
{
    rt_gguf *f;
    const uint64_t one[] = { 1 };
    put_alignment(RT_GGUF_U32, 0);
    malformed("alignment 0", "general.alignment is 0; 8 to 1048576 are allowed");
    put_alignment(RT_GGUF_U32, 24);
    malformed("alignment 24", "general.alignment is 24; powers of two");
    put_alignment(RT_GGUF_U64, (uint64_t)1 << 63);
    malformed("alignment 2^63", "general.alignment is 9223372036854775808");
    put_alignment(RT_GGUF_F32, 32);
    malformed("alignment as f32", "general.alignment is of kind f32");
    for (uint64_t alignment = 8; alignment <= 128; alignment *= 4) {
        build_header(&file, 2, 1);
        build_key_number(&file, "general.alignment", RT_GGUF_U32, alignment);
        build_tensor(&file, "a", 1, one, 24, 0);
        build_tensor(&file, "b", 1, one, 24, alignment);
        build_pad(&file, alignment);
        build_number(&file, 5, 1);
        build_pad(&file, alignment);
        build_number(&file, 6, 1);
        REQUIRE(!rt_gguf_open_memory(file.bytes, file.n, NULL, &f), "alignment %d", (int)alignment);
        REQUIRE(f && rt_gguf_find(f, "a")->data[0] == 5 && rt_gguf_find(f, "b")->data[0] == 6, "alignment %d",
                (int)alignment);
        rt_gguf_close(f);
    }
}

static void test_paths(const char *folder)
{
    char path[1024];
    rt_gguf *f;
    int64_t count = 0;
    REQUIRE(rt_gguf_open("/nowhere/model.gguf", NULL, &f) == GDN_NOT_FOUND && !f, "no file");
    REQUIRE(strstr(rt_last_error(), "there is no file /nowhere/model.gguf"));
    REQUIRE(rt_gguf_open("", NULL, &f) == GDN_INVALID_ARGUMENT && rt_gguf_open(NULL, NULL, &f) == GDN_INVALID_ARGUMENT,
            "no path");
    (void)snprintf(path, sizeof path, "%s/fixtures/tokens.bin", folder);
    FAILS(rt_gguf_open(path, NULL, &f), GDN_INVALID_ARGUMENT, "tokens.bin: the header");
    (void)snprintf(path, sizeof path, "%s/fixtures/vocab_qwen2.gguf", folder);
    REQUIRE(!rt_gguf_open(path, NULL, &f), "a file that another program wrote");
    REQUIRE(f && !rt_gguf_get_strings(f, "tokenizer.ggml.tokens", &count) && count > 500, "its tokens");
    if (f) walk_gguf(f);
    rt_gguf_close(f);
}

int main(int argc, char **argv)
{
    NEED(argc == 2, "test_rt_gguf FOLDER");
    test_values();
    test_many();
    test_many_strings();
    test_budget();
    test_malformed_header(), test_malformed_keys(), test_malformed_tensors();
    test_too_many();
    test_offsets();
    test_alignment();
    test_paths(argv[1]);
    return test_summary();
}
