/* See gguf_build.h. */
#include "gguf_build.h"

#include <string.h>

#include "tests/harness.h"

void build_bytes(gguf_build *b, const void *bytes, uint64_t n)
{
    if (n > GGUF_BUILD_MAX - b->n) return;
    memcpy(b->bytes + b->n, bytes, (size_t)n);
    b->n += n;
}

void build_number(gguf_build *b, uint64_t value, int bytes)
{
    unsigned char raw[8];
    for (int i = 0; i < bytes; i++) raw[i] = (unsigned char)(value >> 8 * i);
    build_bytes(b, raw, (uint64_t)bytes);
}

void build_string(gguf_build *b, const char *text)
{
    build_number(b, strlen(text), 8);
    build_bytes(b, text, strlen(text));
}

void build_pad(gguf_build *b, uint64_t alignment)
{
    while (b->n % alignment) build_number(b, 0, 1);
}

void build_header(gguf_build *b, uint64_t n_tensors, uint64_t n_keys)
{
    b->n = 0;
    build_bytes(b, "GGUF", 4);
    build_number(b, 3, 4);
    build_number(b, n_tensors, 8);
    build_number(b, n_keys, 8);
}

void build_key(gguf_build *b, const char *name, uint32_t kind)
{
    build_string(b, name);
    build_number(b, kind, 4);
}

void build_key_number(gguf_build *b, const char *name, rt_gguf_kind kind, uint64_t bits)
{
    static const int bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    build_key(b, name, (uint32_t)kind);
    build_number(b, bits, bytes[kind]);
}

void build_key_float(gguf_build *b, const char *name, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    build_key_number(b, name, RT_GGUF_F32, bits);
}

void build_key_string(gguf_build *b, const char *name, const char *value)
{
    build_key(b, name, RT_GGUF_STRING);
    build_string(b, value);
}

void build_key_array(gguf_build *b, const char *name, uint32_t element, uint64_t count)
{
    build_key(b, name, RT_GGUF_ARRAY);
    build_number(b, element, 4);
    build_number(b, count, 8);
}

void build_tensor(gguf_build *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    build_string(b, name);
    build_number(b, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++) build_number(b, ne[d], 8);
    build_number(b, type, 4);
    build_number(b, offset, 8);
}

/* The byte in GPT-2's alphabet, as a text. */
static void letter_of(int byte, char *text)
{
    int c = byte;
    if (byte <= 0x20) c = 0x100 + byte;
    else if (byte >= 0x7F && byte <= 0xA0) c = 0x121 + byte - 0x7F;
    else if (byte == 0xAD) c = 0x143;
    if (c >= 0x80) {
        *text++ = (char)(0xC0 | c >> 6);
        c = 0x80 | (c & 0x3F);
    }
    *text++ = (char)c;
    *text = 0;
}

void build_vocabulary(gguf_build *b, const char *pre)
{
    /* In GPT-2's alphabet "\xC4\xA0" is the space, "\xC4\x8A" a line's end, "\xC3\x83\xC2\xA9" the bytes of e with
     * an acute accent. The last three join bytes that stand together in no UTF-8 text: a0 80 after ed, 80 80
     * after e0, c0 80. */
    static const char *const merged[] =
        FIELDS("he", "in", "th", "the", "\xC4\xA0t", "\xC4\xA0the", "\xC4\xA0\xC4\xA0", "aa", "\xC4\x8A\xC4\x8A",
               "\xC3\x83\xC2\xA9", "\xC5\x82\xC4\xA2", "\xC4\xA2\xC4\xA2", "\xC3\x80\xC4\xA2");
    static const char *const merges[] =
        FIELDS("h e", "i n", "t h", "t he", "\xC4\xA0 t", "\xC4\xA0t he", "\xC4\xA0 \xC4\xA0", "a a",
               "\xC4\x8A \xC4\x8A", "\xC3\x83 \xC2\xA9", "\xC5\x82 \xC4\xA2", "\xC4\xA2 \xC4\xA2", "\xC3\x80 \xC4\xA2");
    static const char *const special[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "<|im_end|>x" };
    build_header(b, 0, pre ? 6 : 5);
    build_key_string(b, "tokenizer.ggml.model", "gpt2");
    if (pre) build_key_string(b, "tokenizer.ggml.pre", pre);
    build_key_array(b, "tokenizer.ggml.tokens", RT_GGUF_STRING, BUILD_N_TOKENS);
    for (int i = 0; i < 256; i++) {
        char text[4];
        letter_of(i, text);
        build_string(b, text);
    }
    for (int i = 0; i < BUILD_N_MERGES; i++) build_string(b, merged[i]);
    for (int i = 0; i < 5; i++) build_string(b, special[i]);
    build_key_array(b, "tokenizer.ggml.token_type", RT_GGUF_I32, BUILD_N_TOKENS);
    for (int i = 0; i < BUILD_N_TOKENS; i++) build_number(b, i < BUILD_ENDOFTEXT ? 1 : i == BUILD_THINK ? 4 : 3, 4);
    build_key_array(b, "tokenizer.ggml.merges", RT_GGUF_STRING, BUILD_N_MERGES);
    for (int i = 0; i < BUILD_N_MERGES; i++) build_string(b, merges[i]);
    build_key_number(b, "tokenizer.ggml.eos_token_id", RT_GGUF_U32, BUILD_IM_END);
}
