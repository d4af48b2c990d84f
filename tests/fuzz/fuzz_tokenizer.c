/* Fuzz target: the tokenizer. The first byte of an input selects the form of words and the flags. The others are a
 * text. Its tokens' bytes are the text again, and a message of this text has exactly the tokens of the frame around it.
 * With 0x40 in the first byte, 12 bytes before the text change the vocabulary's file, in triples of two bytes of
 * position and a value. It is refused; or a text is refused, for bytes without a token; or all holds as before. */
#include "../runtime/gguf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/chat.h"
#include "runtime/base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_FORMS = 3, MAX_TEXT = 1 << 16, CHANGE_BYTES = 12 };

static rt_tokenizer *tokenizers[N_FORMS];

static void stop(const char *problem)
{
    (void)fprintf(stderr, "fuzz_tokenizer: %s; the last error is \"%s\"\n", problem, rt_last_error());
    abort();
}

static void create(void)
{
    static const char *const forms[N_FORMS] = { "qwen2", "qwen35", "default" };
    static gguf_build built;
    for (int f = 0; f < N_FORMS; f++) {
        rt_gguf *file;
        build_vocabulary(&built, forms[f]);
        if (rt_gguf_open_memory(built.bytes, built.n, NULL, &file) || rt_tokenizer_create(file, NULL, &tokenizers[f]))
            stop("no tokenizer");
        rt_gguf_close(file);
    }
}

/* A tokenizer of a changed vocabulary, or NULL. */
static rt_tokenizer *create_changed(const uint8_t *changes)
{
    static gguf_build built;
    rt_gguf *file;
    rt_tokenizer *t = NULL;
    build_vocabulary(&built, changes[0] & 1 ? "qwen35" : NULL);
    for (int i = 0; i < CHANGE_BYTES; i += 3)
        built.bytes[(uint64_t)(changes[i] << 8 | changes[i + 1]) % built.n] = changes[i + 2];
    unsigned char *copy = malloc((size_t)built.n);
    if (!copy) return NULL;
    memcpy(copy, built.bytes, (size_t)built.n);
    if (!rt_gguf_open_memory(copy, built.n, NULL, &file)) {
        const gdn_status status = rt_tokenizer_create(file, NULL, &t);
        if (!status != !!t || (status && !*rt_last_error())) stop("neither a tokenizer nor an error");
        rt_gguf_close(file);
    }
    free(copy);
    return t;
}

static void check_text(const rt_tokenizer *t, const char *text, uint64_t bytes, uint32_t flags, int changed)
{
    static int32_t tokens[MAX_TEXT];
    int64_t count = 0, asked = 0;
    uint64_t at = 0;
    if (rt_tokenize(t, text, bytes, flags, tokens, MAX_TEXT, &count) ||
        rt_tokenize(t, text, bytes, flags, NULL, 0, &asked)) {
        if (changed && strstr(rt_last_error(), "no token for the byte")) return;
        stop("no tokens");
    }
    if (count != asked || count > (int64_t)bytes) stop("another count");
    for (int64_t i = 0; i < count; i++) {
        const rt_string piece = rt_token_bytes(t, tokens[i]);
        if (!piece.bytes || piece.bytes > bytes - at || memcmp(piece.text, text + at, (size_t)piece.bytes))
            stop("another text");
        if (!(flags & RT_PARSE_SPECIAL) && rt_token_is_special(t, tokens[i]))
            stop("a control token that was not asked for");
        at += piece.bytes;
    }
    if (at != bytes) stop("a shorter text");
}

static void check_chat(const rt_tokenizer *t, const char *text, int changed)
{
    static const char form[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    const rt_message message = { "user", text };
    rt_chat *chat = NULL;
    rt_chat_prompt prompt = { 0 };
    int64_t frame = 0;
    if (rt_chat_create_of(form, sizeof form - 1, t, &chat) ||
        rt_chat_render(chat, &message, 1, RT_THINK_AUTO, 0, &prompt)) {
        if (!changed) stop("no chat"); /* the frame's tokens, or those of its bytes, may not be there */
    } else {
        for (int64_t i = 0; i < prompt.n; i++) frame += rt_token_is_special(t, prompt.tokens[i]);
        if (frame != 2) stop("a forged frame");
    }
    rt_free(prompt.tokens);
    rt_chat_destroy(chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!tokenizers[0]) create();
    if (size < 1 || size > MAX_TEXT) return 0;
    const int changed = data[0] & 0x40 && size > CHANGE_BYTES;
    const size_t skip = changed ? 1 + CHANGE_BYTES : 1, bytes = size - skip;
    rt_tokenizer *t = changed ? create_changed(data + 1) : tokenizers[data[0] % N_FORMS];
    char *text = malloc(bytes ? bytes : 1); /* of their size, for AddressSanitizer */
    char *terminated = malloc(bytes + 1);
    if (t && text && terminated) {
        memcpy(text, data + skip, bytes);
        memcpy(terminated, data + skip, bytes);
        terminated[bytes] = 0;
        check_text(t, text, bytes, data[0] & 0x80 ? RT_PARSE_SPECIAL : 0, changed);
        check_chat(t, terminated, changed);
    }
    if (changed) rt_tokenizer_destroy(t);
    free(text);
    free(terminated);
    return 0;
}
