/* Renders chat templates: tokenizer.chat_template of a model file, a Jinja program that writes a conversation in the
 * form of the model's training. It implements Jinja 3 as transformers configures it (trim_blocks, lstrip_blocks, the
 * tags break, continue and generation), as far as text conversations need. An unknown filter, method or tag is an
 * error, which names it and its line, when it is executed. So a conversation is rendered as Jinja does, or refused. */
#ifndef GDN_RUNTIME_TEMPLATE_H
#define GDN_RUNTIME_TEMPLATE_H

#include "runtime/files/gguf.h"

typedef struct rt_template rt_template;

/* A message as the template sees it. reasoning: the assistant's thinking before text; reasoning.text NULL: none, and
 * reasoning_content is undefined. Strings are not terminated. */
typedef struct rt_template_message {
    const char *role;
    rt_string text;
    rt_string reasoning;
    rt_string more; /* further members, a JSON object: tool_calls, tool_call_id, name; text NULL: none */
} rt_template_message;

typedef struct rt_template_input {
    const rt_template_message *messages;
    int32_t n_messages;
    int generation_prompt; /* add_generation_prompt                              */
    int thinking;          /* enable_thinking: 0 false, 1 true, -1 undefined     */
    rt_string bos;         /* bos_token; NULL: undefined                         */
    rt_string eos;         /* eos_token; NULL: templates that use it fail        */
    int64_t now;           /* of strftime_now(): seconds since 1970; 0: the clock's */
    rt_string tools;       /* a JSON array; text NULL: none                      */
    rt_string variables;   /* a JSON object of further variables; text NULL: none. It cannot replace
                              those above, except that its enable_thinking counts where thinking is -1 */
} rt_template_input;

/* The rendered text. mark[i]: byte i comes from a message (1) or the template (0). Free with rt_template_free_text().
 */
typedef struct rt_template_text {
    char *text;
    unsigned char *mark;
    uint64_t bytes;
} rt_template_text;

enum { RT_TEMPLATE_MAX = 1 << 20 }; /* most bytes of a template; models have up to about 20,000 */

/* Parses a template. The text may be freed afterwards. GDN_UNSUPPORTED, with the line: not Jinja, or an unimplemented
 * construct. A template is immutable: any number of threads may render it. */
gdn_status rt_template_parse(const char *text, uint64_t bytes, rt_template **t);
void rt_template_free(rt_template *t);

/* Renders a conversation. GDN_UNSUPPORTED: the template uses something unimplemented, refuses the conversation, or
 * exceeds the limits of time and memory, which depend only on the number and bytes of the messages.
 * GDN_INVALID_ARGUMENT: the variables are no JSON object, or one of them is set in another way. */
gdn_status rt_template_render(const rt_template *t, const rt_template_input *input, rt_template_text *out);
void rt_template_free_text(rt_template_text *text);

#endif
