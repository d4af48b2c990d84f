/* What the runtime makes of a chat template, for tests in Python that know what it should be. Reads commands from
 * standard input, a line each, and answers with a line each. HEX is of the bytes, - of none:
 *
 *   template HEX
 *       the template that is rendered from then on
 *   render OPENS THINKING BOS EOS [ROLE TEXT REASONING]...
 *       the conversation: OPENS 0 or 1, THINKING -1 to 1, BOS, EOS and texts as HEX, and * where there is none. The
 *       answer has the text, and for each byte 0 or 1: is it of a message
 *   answer THINKS TEXT
 *       the text and the reasoning of what an assistant wrote
 *
 * An answer is `ok` with those, or `refused STATUS` with a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/chat.h"
#include "runtime/base/error.h"

enum { LINE = 1 << 25, MESSAGES = 256 };

static char line[LINE];

static int nibble(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

/* Decodes in place. */
static rt_string hex(char *word)
{
    rt_string s = { word, 0 };
    if (!word || *word == '*') return (rt_string){ NULL, 0 };
    if (*word == '-') return s;
    for (char *at = word; at[0] && at[1]; at += 2) word[s.bytes++] = (char)(nibble(at[0]) << 4 | nibble(at[1]));
    return s;
}

static void print(rt_string s)
{
    if (!s.text) {
        printf(" *");
        return;
    }
    printf(s.bytes ? " " : " -");
    for (uint64_t i = 0; i < s.bytes; i++) printf("%02x", (unsigned char)s.text[i]);
}

static void render(const rt_template *t)
{
    rt_template_message messages[MESSAGES];
    rt_template_input input = { .messages = messages };
    rt_template_text text;
    input.generation_prompt = atoi(strtok(NULL, " \n"));
    input.thinking = atoi(strtok(NULL, " \n"));
    input.bos = hex(strtok(NULL, " \n"));
    input.eos = hex(strtok(NULL, " \n"));
    for (char *role; input.n_messages < MESSAGES && (role = strtok(NULL, " \n"));) {
        rt_template_message *m = &messages[input.n_messages++];
        m->role = role;
        m->text = hex(strtok(NULL, " \n"));
        m->reasoning = hex(strtok(NULL, " \n"));
    }
    const gdn_status status = rt_template_render(t, &input, &text);
    if (status) {
        printf("refused %d %s\n", (int)status, rt_last_error());
        return;
    }
    printf("ok");
    print((rt_string){ text.text, text.bytes });
    printf(" ");
    for (uint64_t i = 0; i < text.bytes; i++) putchar('0' + text.mark[i]);
    printf("\n");
    rt_template_free_text(&text);
}

int main(void)
{
    rt_template *t = NULL;
    while (fgets(line, sizeof line, stdin)) {
        const char *const what = strtok(line, " \n");
        if (what && !strcmp(what, "template")) {
            const rt_string form = hex(strtok(NULL, " \n"));
            rt_template_free(t);
            const gdn_status status = rt_template_parse(form.text, form.bytes, &t);
            if (status) printf("refused %d %s\n", (int)status, rt_last_error());
            else printf("ok\n");
        } else if (what && !strcmp(what, "render") && t) {
            render(t);
        } else if (what && !strcmp(what, "answer")) {
            rt_message m;
            const int thinks = atoi(strtok(NULL, " \n"));
            const rt_string text = hex(strtok(NULL, " \n"));
            rt_chat_answer(text.text, text.bytes, thinks, &m);
            printf("ok");
            print((rt_string){ m.text, m.bytes });
            print((rt_string){ m.reasoning, m.n_reasoning });
            printf("\n");
        } else {
            printf("refused 0 what is this\n");
        }
        (void)fflush(stdout);
    }
    rt_template_free(t);
    return 0;
}
