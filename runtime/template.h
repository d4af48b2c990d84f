/* Chat templates: the text under tokenizer.chat_template, a program in Jinja that writes a conversation the way the
 * model was trained on. What is here follows Jinja 3 as transformers sets it up (trim_blocks, lstrip_blocks, the tags
 * break, continue and generation), for what conversations of text need. Whatever it does not know (a filter, a method,
 * a tag) is an error that names it and its line, when it is come to: a conversation is rendered right, or refused. */
#ifndef GDN_RUNTIME_TEMPLATE_H
#define GDN_RUNTIME_TEMPLATE_H

#include "runtime/gguf.h"

typedef struct rt_template rt_template;

/* A message as the template sees it. reasoning is what the assistant thought before it said text; NULL: none, and the
 * template finds no reasoning_content. Nothing is terminated. */
typedef struct rt_template_message {
    const char *role;
    rt_string text;
    rt_string reasoning;
} rt_template_message;

typedef struct rt_template_input {
    const rt_template_message *messages;
    int32_t n_messages;
    int generation_prompt; /* add_generation_prompt                              */
    int thinking;          /* enable_thinking: 0 false, 1 true, -1 not defined   */
    rt_string bos;         /* bos_token; NULL: not defined                       */
    rt_string eos;         /* eos_token; NULL: a template that asks is refused   */
} rt_template_input;

/* What was written, and of each byte whether it is of a message (1) or of the template (0). Free with
 * rt_template_free_text(). */
typedef struct rt_template_text {
    char *text;
    unsigned char *mark;
    uint64_t bytes;
} rt_template_text;

enum { RT_TEMPLATE_MAX = 1 << 20 }; /* bytes of a template; those of models have up to about 20,000 */

/* The text may be freed afterwards. GDN_UNSUPPORTED, with the line: not Jinja, or nothing that is known here. A
 * template is immutable: any number of threads may render it. */
gdn_status rt_template_parse(const char *text, uint64_t bytes, rt_template **t);
void rt_template_free(rt_template *t);

/* GDN_UNSUPPORTED: it needs what is not known here, or refuses the conversation itself. Time and memory are bounded by
 * the messages' bytes, whatever the template does: GDN_UNSUPPORTED as well beyond that. */
gdn_status rt_template_render(const rt_template *t, const rt_template_input *input, rt_template_text *out);
void rt_template_free_text(rt_template_text *text);

#endif
