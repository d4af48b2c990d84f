/* Prompts of conversations, written by the chat template of a model file. See chat.h. */
#include <string.h>

#include "runtime/text/chat.h"
#include "runtime/base/error.h"

struct rt_chat {
    rt_template *form;
    const rt_tokenizer *tokenizer;
    uint64_t fingerprint;
    int has_tags;
    rt_string variables;
};

/* What the template gets besides the messages. */
typedef struct chat_options {
    int thinking, opens;
    rt_string tools, variables;
} chat_options;

/* ---- Rendering ---- */

static gdn_status check(const rt_message *messages, int32_t n_messages)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    if (n_messages < 0 || (n_messages && !messages))
        return rt_fail(GDN_INVALID_ARGUMENT, "n_messages is %d%s; 0 or more, with messages, are allowed",
                       (int)n_messages, messages ? "" : " and messages is NULL");
    for (int32_t i = 0; i < n_messages; i++) {
        const rt_message *m = &messages[i];
        if (!m->role || !m->text)
            return rt_fail(GDN_INVALID_ARGUMENT, "message %d has no %s", (int)i, m->role ? "text" : "role");
        if (m->bytes > UINT64_C(1) << 29 || m->n_reasoning > UINT64_C(1) << 29)
            return rt_fail(GDN_INVALID_ARGUMENT, "message %d has %llu bytes; 2^29 are allowed", (int)i,
                           (unsigned long long)(m->bytes > m->n_reasoning ? m->bytes : m->n_reasoning));
        size_t r = 0;
        while (r < sizeof roles / sizeof *roles && strcmp(m->role, roles[r]) != 0) r++;
        if (r == sizeof roles / sizeof *roles)
            return rt_fail(GDN_INVALID_ARGUMENT,
                           "message %d has the role \"%.32s\"; system, user, assistant and tool are allowed", (int)i,
                           m->role);
    }
    return GDN_OK;
}

/* Renders the conversation to text. */
static gdn_status text_of(const rt_chat *chat, const rt_message *messages, int32_t n_messages, const chat_options *o,
                          rt_template_text *text)
{
    *text = (rt_template_text){ 0 };
    gdn_status status = check(messages, n_messages);
    if (status) return status;
    rt_template_message *of = rt_calloc((uint64_t)n_messages, sizeof *of, "messages");
    if (!of) return GDN_OUT_OF_MEMORY;
    for (int32_t i = 0; i < n_messages; i++) {
        const rt_message *m = &messages[i];
        of[i].role = m->role;
        of[i].text = (rt_string){ m->text, m->bytes ? m->bytes : strlen(m->text) };
        of[i].reasoning = (rt_string){ m->reasoning, m->reasoning ? m->n_reasoning : 0 };
        of[i].more = m->more;
    }
    const int32_t bos = rt_tokenizer_bos(chat->tokenizer), eos = rt_tokenizer_eos(chat->tokenizer);
    rt_template_input input = { .messages = of,
                                .n_messages = n_messages,
                                .generation_prompt = o->opens,
                                .thinking = o->thinking,
                                .tools = o->tools,
                                .variables = o->variables };
    if (bos >= 0) input.bos = rt_token_bytes(chat->tokenizer, bos);
    if (eos >= 0) input.eos = rt_token_bytes(chat->tokenizer, eos);
    status = rt_template_render(chat->form, &input, text);
    rt_free(of);
    return status;
}

static int is_mark(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* GDN_UNSUPPORTED if the template writes a control token <|name|> that the vocabulary lacks: it belongs to another
 * model. */
static gdn_status check_marks(const rt_chat *chat, const rt_template_text *t)
{
    char name[64];
    for (uint64_t i = 0; i + 4 < t->bytes; i++) {
        uint64_t end = i + 2;
        if (t->text[i] != '<' || t->text[i + 1] != '|' || t->mark[i]) continue;
        while (end < t->bytes && end - i < sizeof name - 3 && is_mark(t->text[end]) && !t->mark[end]) end++;
        if (end + 1 >= t->bytes || t->text[end] != '|' || t->text[end + 1] != '>' || t->mark[end + 1]) continue;
        memcpy(name, t->text + i, (size_t)(end + 2 - i));
        name[end + 2 - i] = 0;
        if (!rt_token_is_special(chat->tokenizer, rt_tokenizer_find(chat->tokenizer, name)))
            return rt_fail(GDN_UNSUPPORTED, "the vocabulary has no %s, which the chat template writes", name);
    }
    return GDN_OK;
}

/* True if the template's text after the last message leaves a <think> block open. */
static int opens_block(const rt_template_text *t)
{
    static const char open[] = "<think>", close[] = "</think>";
    const uint64_t n = sizeof open - 1;
    for (uint64_t i = t->bytes; i-- > 0 && !t->mark[i];) {
        if (i + n <= t->bytes && !memcmp(t->text + i, open, n)) return 1;
        if (i + n < t->bytes && !memcmp(t->text + i, close, n + 1)) return 0;
    }
    return 0;
}

gdn_status rt_chat_render(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking, int opens,
                          rt_chat_prompt *prompt)
{
    const rt_string none = { NULL, 0 };
    return rt_chat_render_tools(chat, messages, n_messages, thinking, opens, none, chat->variables, prompt);
}

/* GDN_NOT_FOUND if the template writes the same text without the tools. */
static gdn_status check_tools(const rt_chat *chat, const rt_message *messages, int32_t n_messages, chat_options o,
                              const rt_template_text *with)
{
    rt_template_text without;
    o.tools = (rt_string){ NULL, 0 };
    gdn_status status = text_of(chat, messages, n_messages, &o, &without);
    if (status == GDN_UNSUPPORTED) status = GDN_OK; /* it refuses them in its own way */
    else if (!status && with->bytes == without.bytes && !memcmp(with->text, without.text, (size_t)with->bytes))
        status = rt_fail(GDN_NOT_FOUND, "the chat template does not write tools");
    rt_template_free_text(&without);
    return status;
}

gdn_status rt_chat_render_tools(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking,
                                int opens, rt_string tools, rt_string variables, rt_chat_prompt *prompt)
{
    const chat_options o = { thinking, opens, tools, variables };
    rt_template_text text;
    *prompt = (rt_chat_prompt){ 0 };
    gdn_status status = text_of(chat, messages, n_messages, &o, &text);
    if (!status && tools.text) status = check_tools(chat, messages, n_messages, o, &text);
    if (!status) status = check_marks(chat, &text);
    if (!status) { /* a token has at least one byte */
        prompt->tokens = rt_calloc(text.bytes, sizeof *prompt->tokens, "a conversation");
        status = prompt->tokens ? rt_tokenize_marked(chat->tokenizer, text.text, text.mark, text.bytes, prompt->tokens,
                                                     (int64_t)text.bytes, &prompt->n)
                                : GDN_OUT_OF_MEMORY;
    }
    if (!status) prompt->thinks = opens_block(&text);
    rt_template_free_text(&text);
    if (status) {
        rt_free(prompt->tokens);
        *prompt = (rt_chat_prompt){ 0 };
    }
    return status;
}

/* ---- Boundaries ---- */

/* Renders a beginning. *common: how many of its tokens begin the whole; *n: how many it has. Both 0: it is refused. */
static gdn_status compare(const rt_chat *chat, const rt_message *messages, int32_t n_messages, const chat_options *o,
                          const rt_chat_prompt *whole, int64_t *common, int64_t *n)
{
    rt_chat_prompt part;
    const gdn_status status =
        rt_chat_render_tools(chat, messages, n_messages, o->thinking, 0, o->tools, o->variables, &part);
    const int64_t most = part.n < whole->n ? part.n : whole->n;
    for (*common = 0; *common < most && part.tokens[*common] == whole->tokens[*common];) ++*common;
    *n = part.n;
    rt_free(part.tokens);
    return status == GDN_OUT_OF_MEMORY ? status : GDN_OK;
}

gdn_status rt_chat_boundaries(const rt_chat *chat, const rt_message *messages, int32_t n_messages, int thinking,
                              rt_string tools, rt_string variables, const rt_chat_prompt *whole,
                              int32_t boundary[RT_CHAT_BOUNDARIES])
{
    const chat_options o = { .thinking = thinking, .tools = tools, .variables = variables };
    int64_t common, n;
    int32_t n_system = 0, n_user = n_messages;
    gdn_status status = GDN_OK;
    boundary[0] = boundary[1] = 0;
    if (whole->n > INT32_MAX) return GDN_OK;
    while (n_system < n_messages && !strcmp(messages[n_system].role, "system")) n_system++;
    while (n_user > 0 && strcmp(messages[n_user - 1].role, "user")) n_user--;
    if (n_system ||
        tools.text) { /* many templates refuse system messages alone: a user's text of another byte follows */
        rt_message *const part = rt_calloc((uint64_t)n_system + 1, sizeof *part, "messages");
        if (!part) return GDN_OUT_OF_MEMORY;
        if (n_system) memcpy(part, messages, (size_t)n_system * sizeof *part);
        part[n_system] = (rt_message){ .role = "user", .text = "\1" };
        status = compare(chat, part, n_system + 1, &o, whole, &common, &n);
        if (common < n) boundary[0] = (int32_t)common;
        rt_free(part);
    }
    if (!status && n_user) status = compare(chat, messages, n_user, &o, whole, &common, &n);
    if (!status && n_user && common == n) boundary[1] = (int32_t)n;
    return status;
}

/* ---- Templates ---- */

/* Renders a test conversation. A template that omits the user's text is refused. */
static gdn_status try(const rt_chat *chat)
{
    static const rt_message message = { .role = "user", .text = "x" };
    rt_template_text text;
    uint64_t n = 0;
    const chat_options o = { .thinking = RT_THINK_AUTO, .opens = 1 };
    gdn_status status = text_of(chat, &message, 1, &o, &text);
    for (uint64_t i = 0; !status && i < text.bytes; i++) n += text.mark[i];
    if (!status && n != 1)
        status =
            rt_fail(GDN_UNSUPPORTED, "the chat template writes a message of 1 byte as %llu", (unsigned long long)n);
    if (!status) status = check_marks(chat, &text);
    rt_template_free_text(&text);
    return status;
}

gdn_status rt_chat_create(const rt_gguf *file, const rt_tokenizer *t, rt_chat **chat)
{
    static const char key[] = "tokenizer.chat_template";
    rt_string form;
    *chat = NULL;
    if (!rt_gguf_has(file, key)) return rt_fail(GDN_NOT_FOUND, "there is no %s", key);
    const gdn_status status = rt_gguf_get_string(file, key, &form);
    return status ? status : rt_chat_create_of(form.text, form.bytes, t, chat);
}

gdn_status rt_chat_create_of(const char *form, uint64_t bytes, const rt_tokenizer *t, rt_chat **chat)
{
    *chat = NULL;
    rt_chat *made = rt_calloc(1, sizeof *made, "a chat template");
    if (!made) return GDN_OUT_OF_MEMORY;
    made->tokenizer = t;
    made->fingerprint = UINT64_C(0xcbf29ce484222325); /* FNV-1a: identifies the template, not for security */
    for (uint64_t i = 0; i < bytes && i < RT_TEMPLATE_MAX; i++)
        made->fingerprint = (made->fingerprint ^ (unsigned char)form[i]) * UINT64_C(0x100000001b3);
    for (uint64_t i = 0; i + 10 <= bytes && !made->has_tags; i++) made->has_tags = !memcmp(form + i, "<function=", 10);
    gdn_status status = rt_template_parse(form, bytes, &made->form);
    if (!status) status = try(made);
    if (status) rt_chat_destroy(made);
    else *chat = made;
    return status;
}

void rt_chat_destroy(rt_chat *chat)
{
    if (!chat) return;
    rt_template_free(chat->form);
    rt_free((void *)chat->variables.text);
    rt_free(chat);
}

gdn_status rt_chat_set_variables(rt_chat *chat, const char *json)
{
    static const rt_message message = { .role = "user", .text = "x" };
    rt_chat_prompt prompt;
    const uint64_t bytes = strlen(json);
    char *const copy = rt_calloc(bytes + 1, 1, "variables of a chat template");
    if (!copy) return GDN_OUT_OF_MEMORY;
    memcpy(copy, json, (size_t)bytes);
    rt_free((void *)chat->variables.text);
    chat->variables = (rt_string){ copy, bytes };
    const gdn_status status = rt_chat_render(chat, &message, 1, RT_THINK_AUTO, 1, &prompt);
    rt_free(prompt.tokens);
    return status;
}

uint64_t rt_chat_fingerprint(const rt_chat *chat) { return chat->fingerprint; }

int rt_chat_has_tags(const rt_chat *chat) { return chat->has_tags; }

gdn_status rt_chat_check_thinking(const rt_chat *chat, int thinking)
{
    static const rt_message message = { .role = "user", .text = "x" };
    rt_chat_prompt way[2] = { { 0 }, { 0 } };
    if (thinking == RT_THINK_AUTO) return GDN_OK;
    if (thinking != RT_THINK_OFF && thinking != RT_THINK_ON)
        return rt_fail(GDN_INVALID_ARGUMENT, "thinking is %d; -1 to 1 are allowed", thinking);
    gdn_status status = rt_chat_render(chat, &message, 1, thinking, 1, &way[0]);
    if (!status) status = rt_chat_render(chat, &message, 1, !thinking, 1, &way[1]);
    /* a template that refuses the other value has a switch */
    if (status == GDN_UNSUPPORTED && way[0].tokens) status = GDN_OK;
    const int same = !status && way[1].tokens && way[0].n == way[1].n &&
                     !memcmp(way[0].tokens, way[1].tokens, (size_t)way[0].n * sizeof *way[0].tokens);
    if (same && way[0].thinks != thinking)
        status = rt_fail(GDN_UNSUPPORTED, "the chat template has no switch: its answers always begin %s",
                         way[0].thinks ? "with thinking" : "without thinking");
    rt_free(way[0].tokens);
    rt_free(way[1].tokens);
    return status;
}

/* ---- Answers ---- */

/* The end of the reasoning in bytes[from, n): before newlines and </think>, or what may become these. *after: the
 * position after </think>; 0: there is none. */
static uint64_t reasoning_end(const char *bytes, uint64_t from, uint64_t n, int last, uint64_t *after)
{
    static const char close[] = "</think>";
    const uint64_t length = sizeof close - 1;
    uint64_t end = from, here = 0;
    for (; end < n; end++) {
        here = n - end < length ? n - end : length;
        if (!memcmp(bytes + end, close, (size_t)here) && (here == length || !last)) break;
    }
    *after = end < n && here == length ? end + length : 0;
    while (end > from && bytes[end - 1] == '\n') end--;
    return end;
}

enum { SPLIT_BEGIN, SPLIT_REASONING, SPLIT_BETWEEN, SPLIT_TEXT };

void rt_chat_split_next(rt_chat_split *s, int thinks, const char *bytes, uint64_t n, int last, rt_string *reasoning,
                        rt_string *text)
{
    static const char open[] = "<think>";
    *reasoning = *text = (rt_string){ bytes, 0 };
    if (s->phase == SPLIT_BEGIN && thinks) s->phase = SPLIT_REASONING;
    if (s->phase == SPLIT_BEGIN) {
        uint64_t at = 0;
        while (at < n && (bytes[at] == ' ' || bytes[at] == '\n')) at++;
        const uint64_t here = n - at < sizeof open - 1 ? n - at : sizeof open - 1;
        const int begins = !memcmp(bytes + at, open, (size_t)here), whole = here == sizeof open - 1;
        if (begins && !whole && !last) return;
        s->phase = begins && whole ? SPLIT_REASONING : SPLIT_TEXT;
        s->at = begins && whole ? at + here : 0;
    }
    if (s->phase == SPLIT_REASONING) {
        uint64_t after;
        s->thought = 1;
        while (!s->reasons && s->at < n && bytes[s->at] == '\n') s->at++;
        const uint64_t end = reasoning_end(bytes, s->at, n, last, &after);
        *reasoning = (rt_string){ bytes + s->at, end - s->at };
        s->reasons |= end > s->at;
        s->at = after ? after : last ? n : end;
        if (after) s->phase = SPLIT_BETWEEN;
    }
    if (s->phase == SPLIT_BETWEEN) {
        while (s->at < n && bytes[s->at] == '\n') s->at++;
        if (s->at < n) s->phase = SPLIT_TEXT;
    }
    if (s->phase == SPLIT_TEXT) {
        *text = (rt_string){ bytes + s->at, n - s->at };
        s->at = n;
    }
}

void rt_chat_answer(const char *bytes, uint64_t n, int thinks, rt_message *message)
{
    rt_chat_split s = { 0 };
    rt_string reasoning, text;
    rt_chat_split_next(&s, thinks, n ? bytes : "", n, 1, &reasoning, &text);
    *message = (rt_message){ .role = "assistant", .text = text.bytes ? text.text : "", .bytes = text.bytes };
    if (!s.thought) return;
    message->reasoning = reasoning.text;
    message->n_reasoning = reasoning.bytes;
}
