/* Fuzz target: the tokenizer. The first byte of an input selects the form of words and the flags, the others are a
 * text: its tokens' bytes are the text again, and a message of this text is framed by exactly the tokens of the frame. */
#include "../runtime/gguf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/chat.h"
#include "runtime/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_FORMS = 3, MAX_TEXT = 1 << 16 };

static rt_tokenizer *tokenizers[N_FORMS];

static void stop(const char *problem)
{
    (void)fprintf(stderr, "fuzz_tokenizer: %s; the last error is \"%s\"\n", problem, rt_last_error());
    abort();
}

static void create(void)
{
    static const char *const forms[N_FORMS] = { "qwen2", "qwen35", "default" };
    static gguf_build        built;
    for (int f = 0; f < N_FORMS; f++) {
        rt_gguf *file;
        build_vocabulary(&built, forms[f]);
        if (rt_gguf_open_memory(built.bytes, built.n, &file) || rt_tokenizer_create(file, &tokenizers[f]))
            stop("no tokenizer");
        rt_gguf_close(file);
    }
}

static void check_text(const rt_tokenizer *t, const char *text, uint64_t bytes, uint32_t flags)
{
    static int32_t tokens[MAX_TEXT];
    int64_t        count = 0, asked = 0;
    uint64_t       at    = 0;
    if (rt_tokenize(t, text, bytes, flags, tokens, MAX_TEXT, &count) || rt_tokenize(t, text, bytes, flags, NULL, 0, &asked))
        stop("no tokens");
    if (count != asked || count > (int64_t)bytes)
        stop("another count");
    for (int64_t i = 0; i < count; i++) {
        const rt_string piece = rt_token_bytes(t, tokens[i]);
        if (!piece.bytes || piece.bytes > bytes - at || memcmp(piece.text, text + at, (size_t)piece.bytes))
            stop("another text");
        if (!(flags & RT_PARSE_SPECIAL) && rt_token_is_special(t, tokens[i]))
            stop("a control token that was not asked for");
        at += piece.bytes;
    }
    if (at != bytes)
        stop("a shorter text");
}

static void check_chat(const rt_tokenizer *t, const char *text)
{
    static int32_t   tokens[MAX_TEXT + 64];
    const rt_message message = { "user", text };
    int64_t          count = 0, frame = 0;
    if (rt_chat_tokenize(t, &message, 1, tokens, MAX_TEXT + 64, &count))
        stop("no chat");
    for (int64_t i = 0; i < count; i++)
        frame += rt_token_is_special(t, tokens[i]);
    if (frame != 3)
        stop("a forged frame");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!tokenizers[0])
        create();
    if (size < 1 || size > MAX_TEXT)
        return 0;
    const size_t bytes = size - 1;
    char        *text  = malloc(bytes + 1), *terminated = malloc(bytes + 1);
    if (text && terminated) {
        memcpy(text, data + 1, bytes);
        memcpy(terminated, data + 1, bytes);
        terminated[bytes] = 0;
        char *exact = realloc(text, bytes ? bytes : 1); /* of its size, for AddressSanitizer */
        text        = exact ? exact : text;
        check_text(tokenizers[data[0] % N_FORMS], text, bytes, data[0] & 0x80 ? RT_PARSE_SPECIAL : 0);
        check_chat(tokenizers[data[0] % N_FORMS], terminated);
    }
    free(text);
    free(terminated);
    return 0;
}
