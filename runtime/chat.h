/* Prompts of conversations: in the form that Qwen models are trained on (ChatML), and as the chat template of a model's
 * file writes them, which adds to that form what the model was trained with besides. */
#ifndef GDN_RUNTIME_CHAT_H
#define GDN_RUNTIME_CHAT_H

#include "runtime/template.h"
#include "runtime/tokenizer.h"

typedef struct rt_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
    uint64_t bytes;        /* of text, which may hold any; 0: it is a string and ends at its NUL */
    const char *reasoning; /* what the assistant thought before; NULL: nothing. For templates only */
    uint64_t n_reasoning;
} rt_message;

/* Tokens of the conversation, followed by the opening of the assistant's turn. The frame's special tokens are
 * placed by us, and the messages' own text is tokenized without RT_PARSE_SPECIAL, so that nobody can forge a turn
 * by writing "<|im_end|>" into a message. capacity and *count as in rt_tokenize. GDN_INVALID_ARGUMENT: another
 * role; GDN_UNSUPPORTED: a vocabulary without the frame's tokens. */
gdn_status rt_chat_tokenize(const rt_tokenizer *t, const rt_message *messages, int32_t n_messages, int32_t *tokens,
                            int64_t capacity, int64_t *count);

/* ---- With the chat template of a model's file ---- */

/* A template and what makes tokens of it. Immutable: any number of threads may use it, while the tokenizer lives. */
typedef struct rt_chat rt_chat;

enum { RT_THINK_AUTO = -1, RT_THINK_OFF = 0, RT_THINK_ON = 1 }; /* the template's enable_thinking: not defined, ... */

/* tokenizer.chat_template of the file. GDN_NOT_FOUND: it has none; GDN_UNSUPPORTED, with the reason: one that cannot be
 * followed to the letter, see template.h. The file may be closed afterwards. */
gdn_status rt_chat_create(const rt_gguf *file, const rt_tokenizer *t, rt_chat **chat);
/* The same with a template of the caller's, of `bytes` bytes, which may be freed afterwards. */
gdn_status rt_chat_create_of(const char *form, uint64_t bytes, const rt_tokenizer *t, rt_chat **chat);
void rt_chat_destroy(rt_chat *chat);

/* GDN_UNSUPPORTED where `thinking` is on or off and the template has no such switch, or refuses that value. */
gdn_status rt_chat_check_thinking(const rt_chat *chat, int thinking);

typedef struct rt_chat_prompt {
    int32_t *tokens;
    int64_t n;
    int thinks; /* the template has opened a block <think>: what is generated begins within it */
} rt_chat_prompt;

/* The tokens of the conversation as the template writes it, with the opening of the assistant's turn where `opens`.
 * Control tokens are in what the template writes only, so that nobody forges a turn by writing one into a message.
 * GDN_INVALID_ARGUMENT: a message as in rt_chat_tokenize(); GDN_UNSUPPORTED: the template cannot be followed, or
 * refuses the conversation, or writes a control token (<|...|>) that the vocabulary lacks. Free tokens with rt_free().
 */
gdn_status rt_chat_render(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking, int opens,
                          rt_chat_prompt *prompt);

/* Sets what the assistant wrote as its message: text within <think> is its reasoning, as it is where `thinks` until the
 * block ends, and what follows is its text. Points into `bytes`. */
void rt_chat_answer(const char *bytes, uint64_t n, int thinks, rt_message *message);

/* Of the template's text: tells conversations of one template from those of another. */
uint64_t rt_chat_fingerprint(const rt_chat *chat);

#endif
