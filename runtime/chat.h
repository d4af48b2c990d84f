/* The chat form that Qwen models are trained on (ChatML): builds the prompt of a conversation. */
#ifndef GDN_RUNTIME_CHAT_H
#define GDN_RUNTIME_CHAT_H

#include "runtime/tokenizer.h"

typedef struct rt_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
    uint64_t bytes; /* of text, which may hold any; 0: it is a string and ends at its NUL */
} rt_message;

/* Tokens of the conversation, followed by the opening of the assistant's turn. The frame's special tokens are
 * placed by us, and the messages' own text is tokenized without RT_PARSE_SPECIAL, so that nobody can forge a turn
 * by writing "<|im_end|>" into a message. capacity and *count as in rt_tokenize. GDN_INVALID_ARGUMENT: another
 * role; GDN_UNSUPPORTED: a vocabulary without the frame's tokens. */
gdn_status rt_chat_tokenize(const rt_tokenizer *t, const rt_message *messages, int32_t n_messages, int32_t *tokens,
                            int64_t capacity, int64_t *count);

/* 1 if the file's chat template (tokenizer.chat_template) is of that form. */
int rt_chat_supported(const rt_gguf *file);

#endif
