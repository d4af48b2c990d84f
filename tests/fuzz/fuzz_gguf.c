/* Fuzz target: the reader of GGUF files. An input that begins with "GGUF" is a file; of any other, its bytes are
 * changes of a well-formed file: first where to cut it, then positions and values. A file opens and everything in
 * it can be read, or it is refused with a text. */
#include "../runtime/gguf_build.h"
#include "../runtime/gguf_walk.h"

#include <stdio.h>

#include "runtime/base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void build_file(gguf_build *b)
{
    const uint64_t f32[] = { 4, 2 }, q8[] = { 32, 1, 2 };
    build_header(b, 2, 7);
    build_key_string(b, "a", "text");
    build_key_number(b, "b", RT_GGUF_I16, 0x8001);
    build_key_number(b, "c", RT_GGUF_BOOL, 1);
    build_key_array(b, "d", RT_GGUF_STRING, 2);
    build_string(b, "x");
    build_string(b, "yz");
    build_key_array(b, "e", RT_GGUF_I32, 3);
    build_bytes(b, "\1\2\3\4\5\6\7\10\11\12\13\14", 12);
    build_key_number(b, "f", RT_GGUF_F64, 0);
    build_key_number(b, "general.alignment", RT_GGUF_U32, 8);
    build_tensor(b, "s", 2, f32, 0, 0);
    build_tensor(b, "t", 3, q8, 8, 32);
    build_pad(b, 8);
    for (int i = 0; i < 100; i++) build_number(b, (uint64_t)i, 1);
}

/* Triples (two bytes of position, value) are put over the file; the first two bytes say where it ends. */
static size_t change_file(const uint8_t *data, size_t size, unsigned char *bytes, size_t n)
{
    size_t length = n;
    if (size >= 2 && data[0] < 0x40) /* one in four is cut */
        length = (size_t)(data[0] << 8 | data[1]) % n;
    for (size_t i = 2; i + 3 <= size; i += 3) bytes[(size_t)(data[i] << 8 | data[i + 1]) % n] = data[i + 2];
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gguf_build whole;
    rt_gguf *file;
    size_t n = size;
    const int is_file = size >= 4 && !memcmp(data, "GGUF", 4);
    if (!is_file) {
        build_file(&whole);
        /* few changes leave most of the file as it is, so that the reader gets far */
        n = change_file(data, size > 2 + 3 * 4 ? 2 + 3 * (1 + data[size - 1] % 4u) : size, whole.bytes,
                        (size_t)whole.n);
    }
    unsigned char *copy = malloc(n ? n : 1); /* of its size, for AddressSanitizer */
    if (!copy) return 0;
    memcpy(copy, is_file ? data : whole.bytes, n);
    const gdn_status status = rt_gguf_open_memory(copy, n, NULL, &file);
    if (status && (file || !*rt_last_error())) {
        (void)fprintf(stderr, "fuzz_gguf: status %d without a text, or with a file\n", (int)status);
        abort();
    }
    if (!status) walk_gguf(file);
    rt_gguf_close(file);
    free(copy);
    return 0;
}
