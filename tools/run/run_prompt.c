/* Reads prompts from the command line, files and standard input, and tokenizes them. See run.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"
#include "tools/cli/output.h"
#include "tools/run/run.h"

enum { PROMPT_MAX_MIB = 64 };

static int no_memory(void)
{
    (void)fprintf(stderr, "gdn run: out of memory\n");
    return 1;
}

int run_read_all(FILE *f, const char *name, uint64_t most, run_bytes *to)
{
    size_t room = 1 << 16; /* pipes and devices have no size to query */
    to->bytes = malloc(room + 1);
    while (to->bytes) {
        to->n += fread(to->bytes + to->n, 1, room - to->n, f);
        if (ferror(f)) {
            (void)fprintf(stderr, "gdn run: %s: %s\n", name, strerror(errno));
            return 1;
        }
        if (to->n > most) {
            (void)fprintf(stderr, "gdn run: %s: the prompt is longer than %d MiB, which is the limit\n", name,
                          (int)(most >> 20));
            return 1;
        }
        if (to->n < room) {
            to->bytes[to->n] = 0;
            return 0;
        }
        char *larger = realloc(to->bytes, (room *= 2) + 1);
        if (!larger) free(to->bytes);
        to->bytes = larger;
    }
    to->n = 0;
    return no_memory();
}

int run_read_schema(run_session *s)
{
    const char *const path = run_opt.json_schema;
    run_bytes text = { NULL, 0 };
    if (!path) return 0;
    FILE *const f = file_open(path, "r");
    if (!f) {
        (void)fprintf(stderr, "gdn run: --json-schema: %s: %s\n", path, strerror(errno));
        return 1;
    }
    int code = run_read_all(f, path, (uint64_t)PROMPT_MAX_MIB << 20, &text);
    (void)fclose(f);
    if (!code && rt_schema_compile(text.bytes, text.n, &s->schema)) code = run_fail_file(path);
    free(text.bytes);
    return code;
}

static int read_file(const char *path, run_prompt *p)
{
    const int from_stdin = !strcmp(path, "-");
    FILE *f = from_stdin ? stdin : file_open(path, "r");
    p->name = from_stdin ? "standard input" : path;
    if (!f) {
        (void)fprintf(stderr, "gdn run: %s: %s\n", path, strerror(errno));
        return 1;
    }
    if (from_stdin && input_is_terminal())
        (void)fprintf(stderr, "gdn run: type the prompt; Ctrl-D on an empty line ends it\n");
    const int code = run_read_all(f, p->name, (uint64_t)PROMPT_MAX_MIB << 20, &p->text);
    if (!from_stdin) (void)fclose(f);
    run_bytes *t = &p->text;
    if (!code && !run_opt.keep_newline && t->n &&
        t->bytes[t->n - 1] == '\n') { /* drop the final newline that editors and echo add */
        t->n -= t->n > 1 && t->bytes[t->n - 2] == '\r' ? 2 : 1;
        t->bytes[t->n] = 0;
    }
    return code;
}

/* Value of a hexadecimal digit; -1: not one. */
static int digit(char c)
{
    const char *const digits = "0123456789abcdef0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) & 15 : -1;
}

/* Takes a text of the command line; with --escape replaces \n and the like. */
static int take_text(const char *option, const char *text, run_bytes *to)
{
    static const char names[] = "nrt0e\\\"'", values[] = "\n\r\t\0\033\\\"'";
    to->n = 0;
    to->bytes = malloc(strlen(text) + 1);
    if (!to->bytes) return no_memory();
    for (const char *at = text; *at; at++) {
        char c = *at;
        if (run_opt.escape && c == '\\') {
            const char *name = *++at ? strchr(names, *at) : NULL;
            if (name) {
                c = values[name - names];
            } else if (*at == 'x' && digit(at[1]) >= 0 && digit(at[2]) >= 0) {
                c = (char)(16 * digit(at[1]) + digit(at[2]));
                at += 2;
            } else {
                return cli_error(&run_command,
                                 "--%s: with --escape a backslash begins one of \\n \\r \\t \\0 \\e \\\\ \\\" \\' "
                                 "\\xHH, not '\\%.3s'",
                                 option, at);
            }
        }
        to->bytes[to->n++] = c;
    }
    to->bytes[to->n] = 0;
    return 0;
}

int run_read_texts(run_session *s)
{
    int code = run_opt.system ? take_text("system", run_opt.system, &s->system) : 0;
    for (int i = 0; !code && i < run_opt.stop.n; i++) {
        code = take_text("stop", run_opt.stop.text[i], &s->stop[i]);
        if (!code && !s->stop[i].n)
            code = cli_error(&run_command, "--stop is empty; a text of one byte or more is allowed");
    }
    return code;
}

gdn_status run_tokenize(const rt_tokenizer *t, run_bytes text, uint32_t flags, int32_t **tokens, int64_t *count)
{
    const int bos = rt_tokenizer_bos(t) >= 0 && (rt_tokenizer_add_bos(t) || !text.n);
    *tokens = rt_calloc(text.n + 1, sizeof **tokens, "a prompt"); /* a token has at least one byte */
    if (!*tokens) return GDN_OUT_OF_MEMORY;
    if (bos) (*tokens)[0] = rt_tokenizer_bos(t);
    const gdn_status status = rt_tokenize(t, text.bytes, text.n, flags, *tokens + bos, (int64_t)text.n, count);
    *count += bos;
    return status;
}

/* Tokens of a conversation with one message. */
static gdn_status tokens_of_message(const run_session *s, run_prompt *p, int32_t **tokens, int64_t *count)
{
    rt_chat_prompt rendered;
    const rt_message messages[2] = { { .role = "system", .text = s->system.bytes, .bytes = s->system.n },
                                     { .role = "user", .text = p->text.bytes, .bytes = p->text.n } };
    const int first = !s->system.bytes;
    const char *const kwargs = run_opt.chat_template_kwargs;
    const rt_string none = { NULL, 0 }, variables = { kwargs, kwargs ? strlen(kwargs) : 0 };
    gdn_status status = rt_chat_render(s->chat, messages + first, 2 - first, s->thinking, 1, &rendered);
    if (!status && run_opt.prefix_mib)
        status = rt_chat_boundaries(s->chat, messages + first, 2 - first, s->thinking, none, variables, &rendered,
                                    p->boundary);
    *tokens = rendered.tokens;
    *count = rendered.n;
    p->thinks = rendered.thinks;
    return status;
}

static gdn_status tokens_of(const run_session *s, run_prompt *p, int32_t **tokens, int64_t *count)
{
    return run_tokenize(s->tokenizer, p->text, run_opt.raw ? RT_PARSE_SPECIAL : 0, tokens, count);
}

/* i: the prompt's index, for error texts; n: their number. */
static int tokenize(const run_session *s, run_prompt *p, int i, int n)
{
    int64_t count = 0;
    int32_t *tokens = NULL;
    int code = (run_opt.chat ? tokens_of_message : tokens_of)(s, p, &tokens, &count) != 0;
    if (code)
        (void)fprintf(stderr, "gdn run: prompt %d: %s%s\n", i + 1, rt_last_error(),
                      run_opt.chat && n > 1 ? "; each prompt begins a conversation of its own, and --save or --load "
                                              "makes them turns of one"
                                            : "");
    if (!code && (count < 1 || count > INT32_MAX / 4)) {
        (void)fprintf(stderr, "gdn run: prompt %d is %s\n", i + 1, count < 1 ? "empty" : "too long");
        code = 1;
    }
    if (!code && !(p->token = malloc((size_t)count * sizeof *p->token))) code = no_memory();
    if (!code) {
        p->n_tokens = (int32_t)count;
        memcpy(p->token, tokens, (size_t)count * sizeof *p->token);
    }
    rt_free(tokens);
    return code;
}

int run_read_prompts(run_session *s, run_prompt **prompts, int32_t *n)
{
    const int from_stdin = !run_opt.prompt.n && !run_opt.file.n;
    const int count = from_stdin ? 1 : run_opt.prompt.n + run_opt.file.n;
    *prompts = calloc((size_t)count, sizeof **prompts);
    if (!*prompts) return no_memory();
    *n = count;
    for (int i = 0; i < count; i++) {
        run_prompt *p = &(*prompts)[i];
        int code = from_stdin             ? read_file("-", p)
                   : i < run_opt.prompt.n ? take_text("prompt", run_opt.prompt.text[i], &p->text)
                                          : read_file(run_opt.file.text[i - run_opt.prompt.n], p);
        if (!code && !s->talks) code = tokenize(s, p, i, count); /* a turn is rendered with those before it */
        if (code) return code;
    }
    return 0;
}

void run_free_prompts(run_prompt *prompts, int32_t n)
{
    for (int32_t i = 0; prompts && i < n; i++) {
        free(prompts[i].text.bytes);
        free(prompts[i].token);
    }
    free(prompts);
}
