/* Converts a conversation into prompt tokens, with the chat template of the model file. */
#ifndef GDN_RUNTIME_CHAT_H
#define GDN_RUNTIME_CHAT_H

#include "runtime/text/template.h"
#include "runtime/text/tokenizer.h"

typedef struct rt_message {
    const char *role; /* "system", "user", "assistant", "tool" */
    const char *text;
    uint64_t bytes;        /* length of text, which may contain NUL bytes; 0: text is a NUL-terminated string */
    const char *reasoning; /* the assistant's thinking before text; NULL: none */
    uint64_t n_reasoning;
    rt_string more; /* further members for the template, a JSON object: tool_calls, tool_call_id, name; NULL: none */
} rt_message;

/* A chat template with its tokenizer. Immutable: any number of threads may use it. The tokenizer must outlive it. */
typedef struct rt_chat rt_chat;

enum { RT_THINK_AUTO = -1, RT_THINK_OFF = 0, RT_THINK_ON = 1 }; /* enable_thinking: undefined, false, true */

/* Parses the file's tokenizer.chat_template. GDN_NOT_FOUND: the file has none. GDN_UNSUPPORTED, with the reason: the
 * template uses something that template.h does not implement. The file may be closed afterwards. */
gdn_status rt_chat_create(const rt_gguf *file, const rt_tokenizer *t, rt_chat **chat);
/* The same with the caller's template `form` of `bytes` bytes, which may be freed afterwards. */
gdn_status rt_chat_create_of(const char *form, uint64_t bytes, const rt_tokenizer *t, rt_chat **chat);
void rt_chat_destroy(rt_chat *chat);

/* GDN_UNSUPPORTED: `thinking` is on or off, and the template's answers always begin the other way, or
 * it refuses that value. */
gdn_status rt_chat_check_thinking(const rt_chat *chat, int thinking);

/* Sets the template's variables of later renderings, as --chat-template-kwargs: a JSON object, which is copied. Errors
 * are those of rt_chat_render(). Not thread-safe. */
gdn_status rt_chat_set_variables(rt_chat *chat, const char *json);

typedef struct rt_chat_prompt {
    int32_t *tokens;
    int64_t n;
    int thinks; /* 1: the template opened a <think> block, so the generated text begins inside it */
} rt_chat_prompt;

/* Renders the conversation with the template and tokenizes it. `opens` adds the opening of the assistant's turn.
 * Control tokens are recognised only in text that the template writes, so that a message cannot forge a turn.
 * GDN_INVALID_ARGUMENT: a role that is unknown, or a message without text. GDN_UNSUPPORTED: the template uses something
 * unknown, refuses the conversation, or writes a control token (<|...|>) that the vocabulary lacks. Free prompt->tokens
 * with rt_free(). */
gdn_status rt_chat_render(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking, int opens,
                          rt_chat_prompt *prompt);

/* The same with tools, a JSON array (text NULL: none), and with these variables, a JSON object, instead of those of
 * rt_chat_set_variables(). GDN_NOT_FOUND: the template writes the same without the tools. GDN_INVALID_ARGUMENT also:
 * the variables are no object, or one of them is set in another way. */
gdn_status rt_chat_render_tools(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking,
                                int opens, rt_string tools, rt_string variables, rt_chat_prompt *prompt);

/* Finds positions in a rendered conversation where other conversations go on, for a prefix cache. boundary[0] is the
 * end of what comes before the first user's text, where there is a system message or tools. boundary[1] is the end of
 * the last user's message. 0: none, where the rendering of that part is refused or does not begin the whole. `whole` is
 * a rendering by rt_chat_render_tools() with the same arguments. */
enum { RT_CHAT_BOUNDARIES = 2 };
gdn_status rt_chat_boundaries(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking,
                              rt_string tools, rt_string variables, const rt_chat_prompt *whole,
                              int32_t boundary[RT_CHAT_BOUNDARIES]);

/* Splits the assistant's output into message->reasoning (inside <think>) and message->text (after it). thinks: the
 * output begins inside a <think> block. The message points into `bytes`. */
void rt_chat_answer(const char *bytes, uint64_t n, int thinks, rt_message *message);

/* The same piece by piece, while the output grows. A split begins as zeros. Each call gets the output so far, n bytes,
 * and sets what is new and certain: reasoning first, then text. last: the output has ended. All pieces together are
 * what rt_chat_answer() gives. */
typedef struct rt_chat_split {
    int phase;   /* before reasoning, inside it, between, text */
    int thought; /* 1: there is reasoning, which may be empty  */
    int reasons; /* 1: some reasoning was given                */
    uint64_t at; /* bytes of the output that are done          */
} rt_chat_split;
void rt_chat_split_next(rt_chat_split *s, int thinks, const char *bytes, uint64_t n, int last, rt_string *reasoning,
                        rt_string *text);

/* 1: the template has calls of tools in tags, as <function=NAME>. */
int rt_chat_has_tags(const rt_chat *chat);

/* Hash of the template's text. Saved conversations store it, to refuse loading with another template. */
uint64_t rt_chat_fingerprint(const rt_chat *chat);

#endif
