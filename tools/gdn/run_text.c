/* Prompts in, text out. See run.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* ---- Prompts ---- */

static int read_file(const char *path, run_prompt *p)
{
    FILE  *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    size_t room = 1 << 16, n = 0;
    char  *text = f ? malloc(room) : NULL;
    int    bad = !f;
    while (text && !feof(f)) {
        if (n == room) {
            char *larger = realloc(text, room *= 2);
            if (!larger)
                break;
            text = larger;
        }
        n += fread(text + n, 1, room - n, f);
        if (ferror(f)) {
            bad = 1;
            break;
        }
    }
    if (bad)
        (void)fprintf(stderr, "gdn run: %s: %s\n", path, strerror(errno));
    else if (!text || !feof(f))
        (void)fprintf(stderr, "gdn run: %s: out of memory\n", path);
    const int whole = text && f && feof(f) && !bad;
    if (f && f != stdin)
        (void)fclose(f);
    p->text  = text;
    p->bytes = n;
    return whole ? 0 : 1;
}

static int take_text(const char *text, run_prompt *p)
{
    p->bytes = strlen(text);
    p->text  = malloc(p->bytes + 1);
    if (!p->text) {
        (void)fprintf(stderr, "gdn run: out of memory\n");
        return 1;
    }
    memcpy(p->text, text, p->bytes + 1);
    return 0;
}

/* Tokens of one prompt into `to`, at most `capacity`; capacity 0 only counts. */
static gdn_status tokens_of(const run_session *s, const run_prompt *p, int32_t *to, int64_t capacity, int64_t *count)
{
    if (run_opt.chat) {
        rt_message messages[2];
        int32_t    n = 0;
        if (run_opt.system)
            messages[n++] = (rt_message){ "system", run_opt.system };
        messages[n++] = (rt_message){ "user", p->text };
        return rt_chat_tokenize(s->tokenizer, messages, n, to, capacity, count);
    }
    /* an empty prompt is the beginning of a text */
    const int bos = rt_tokenizer_bos(s->tokenizer) >= 0 && (rt_tokenizer_add_bos(s->tokenizer) || !p->bytes);
    if (bos && capacity)
        to[0] = rt_tokenizer_bos(s->tokenizer);
    const gdn_status status = rt_tokenize(s->tokenizer, p->text, p->bytes, run_opt.raw ? RT_PARSE_SPECIAL : 0, capacity ? to + bos : NULL,
                                          capacity ? capacity - bos : 0, count);
    *count += bos;
    return status;
}

static int tokenize(const run_session *s, run_prompt *p)
{
    int64_t count = 0;
    if (tokens_of(s, p, NULL, 0, &count))
        return run_fail("a prompt");
    if (count < 1 || count > INT32_MAX / 4) {
        (void)fprintf(stderr, "gdn run: %s\n", count < 1 ? "the prompt is empty" : "the prompt is too long");
        return 1;
    }
    p->token    = calloc((size_t)count, sizeof *p->token);
    p->n_tokens = (int32_t)count;
    if (!p->token) {
        (void)fprintf(stderr, "gdn run: out of memory\n");
        return 1;
    }
    return tokens_of(s, p, p->token, count, &count) ? run_fail("a prompt") : 0;
}

int run_read_prompts(run_session *s, run_prompt **prompts, int32_t *n)
{
    if (run_opt.chat && !rt_chat_supported(s->model->file)) {
        (void)fprintf(stderr, "gdn run: %s has no chat template of the ChatML form; without --chat it continues texts\n", run_opt.model);
        return 1;
    }
    const int from_stdin = !run_opt.prompt.n && !run_opt.file.n;
    const int count = from_stdin ? 1 : run_opt.prompt.n + run_opt.file.n;
    *prompts = calloc((size_t)count, sizeof **prompts);
    if (!*prompts) {
        (void)fprintf(stderr, "gdn run: out of memory\n");
        return 1;
    }
    *n = count;
    for (int i = 0; i < count; i++) {
        run_prompt *p = &(*prompts)[i];
        int code = from_stdin             ? read_file("-", p)
                   : i < run_opt.prompt.n ? take_text(run_opt.prompt.text[i], p)
                                          : read_file(run_opt.file.text[i - run_opt.prompt.n], p);
        if (!code && run_opt.chat) { /* messages are strings */
            char *string = realloc(p->text, p->bytes + 1);
            if (string)
                (p->text = string)[p->bytes] = 0;
            code = !string;
        }
        if (!code)
            code = tokenize(s, p);
        if (code)
            return code;
    }
    return 0;
}

void run_free_prompts(run_prompt *prompts, int32_t n)
{
    for (int32_t i = 0; prompts && i < n; i++) {
        free(prompts[i].text);
        free(prompts[i].token);
    }
    free(prompts);
}

/* ---- Text out ---- */

typedef struct text {
    char  *bytes; /* terminated */
    size_t n, room, shown;
    int    ended;
} text;

struct run_output {
    const rt_tokenizer *tokenizer;
    text               *of;
    int32_t             n, turn; /* the request whose text is on the terminal; earlier ones have ended */
    int                 live;
};

run_output *run_output_create(const rt_tokenizer *tokenizer, int32_t n_requests, int live)
{
    run_output *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->tokenizer = tokenizer;
    o->n         = n_requests;
    o->live      = live;
    o->of        = calloc((size_t)n_requests, sizeof *o->of);
    if (!o->of) {
        free(o);
        return NULL;
    }
    return o;
}

void run_output_destroy(run_output *o)
{
    if (!o)
        return;
    for (int32_t i = 0; i < o->n; i++)
        free(o->of[i].bytes);
    free(o->of);
    free(o);
}

/* How many of the n bytes are whole characters: all but the beginning of one at the end. */
static size_t whole(const char *bytes, size_t n)
{
    size_t back = 0;
    while (back < n && back < 4 && ((unsigned char)bytes[n - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == n || back == 4)
        return n;
    const unsigned char lead = (unsigned char)bytes[n - 1 - back];
    const size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return back + 1 < wanted ? n - 1 - back : n;
}

/* What can be shown now: of the request whose turn it is, and of those after it once it has ended. */
static void show(run_output *o)
{
    while (o->live && o->turn < o->n) {
        text        *t  = &o->of[o->turn];
        const size_t to = t->ended ? t->n : whole(t->bytes, t->n);
        if (to > t->shown)
            (void)fwrite(t->bytes + t->shown, 1, to - t->shown, stdout);
        t->shown = to > t->shown ? to : t->shown;
        if (!t->ended)
            break;
        (void)fputs(++o->turn < o->n ? "\n\n" : "\n", stdout);
    }
    if (o->live)
        (void)fflush(stdout);
}

int run_output_token(run_output *o, int32_t request, int32_t token)
{
    text           *t = &o->of[request];
    const rt_string s = rt_token_bytes(o->tokenizer, token);
    if (rt_token_is_special(o->tokenizer, token) && !run_opt.raw)
        return 0;
    if (t->n + s.bytes + 1 > t->room) {
        const size_t room   = 2 * (t->n + (size_t)s.bytes) + 256;
        char        *larger = realloc(t->bytes, room);
        if (!larger)
            return 1;
        t->bytes = larger;
        t->room  = room;
    }
    if (s.bytes)
        memcpy(t->bytes + t->n, s.text, (size_t)s.bytes);
    t->n += (size_t)s.bytes;
    t->bytes[t->n] = 0;
    if (request == o->turn)
        show(o);
    return 0;
}

void run_output_end(run_output *o, int32_t request)
{
    o->of[request].ended = 1;
    show(o);
}

const char *run_output_text(const run_output *o, int32_t request) { return o->of[request].bytes ? o->of[request].bytes : ""; }
