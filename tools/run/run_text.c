/* Writes generated text: collects bytes of tokens, and writes complete characters of one request after another. See
 * run.h. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/run/run.h"

enum { NAME_MAX_BYTES = 48 }; /* of a prompt, in the header of its text */

typedef struct text {
    run_text of;
    size_t shown;
    int ended;
} text;

struct run_output {
    const run_session *session;
    const run_prompt *prompts;
    const run_request *requests;
    int32_t n, turn; /* turn: the request that is being written; earlier ones have ended */
    int live, begun; /* begun: the header of the turn is written */
    text text[];
};

run_output *run_output_create(const run_session *s, const run_prompt *prompts, const run_request *requests, int32_t n,
                              int live)
{
    run_output *o = calloc(1, sizeof *o + (size_t)n * sizeof o->text[0]);
    if (o) *o = (run_output){ s, prompts, requests, n, 0, live, 0 };
    return o;
}

void run_output_destroy(run_output *o)
{
    if (!o) return;
    for (int32_t i = 0; i < o->n; i++) free(o->text[i].of.bytes);
    free(o);
}

/* ---- Writing ---- */

/* With several texts, writes a header such as "==> 2: In the beginning <==", as head and tail do. */
static void header(const run_output *o)
{
    const run_request *r = &o->requests[o->turn];
    const run_prompt *p = &o->prompts[r->prompt];
    char name[NAME_MAX_BYTES + 1];
    const char *from = p->name ? p->name : p->text.bytes;
    size_t n = p->name ? strlen(p->name) : (size_t)p->text.n;
    const int cut = n > NAME_MAX_BYTES;
    n = cut ? run_whole(from, NAME_MAX_BYTES) : n;
    for (size_t i = 0; i < n; i++) name[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? ' ' : from[i];
    name[n] = 0;
    (void)printf("%s==> %d: %s%s", o->turn ? "\n" : "", (int)o->turn + 1, name, cut ? "..." : "");
    if (r->seed != run_opt.seed) /* a repeated prompt */
        (void)printf(", seed %llu", (unsigned long long)r->seed);
    (void)printf(" <==\n");
}

/* Writes what can be written: of the current request, and of the following ones once it has ended. */
static int show(run_output *o)
{
    while (o->live && o->turn < o->n) {
        text *t = &o->text[o->turn];
        const size_t to = t->ended ? t->of.n : run_text_ready(&t->of);
        if (!o->begun && o->n > 1) header(o);
        o->begun = 1;
        if (to > t->shown) (void)fwrite(t->of.bytes + t->shown, 1, to - t->shown, stdout);
        t->shown = to > t->shown ? to : t->shown;
        if (!t->ended) break;
        (void)fputs("\n", stdout);
        o->turn++;
        o->begun = 0;
    }
    return o->live && output_flush() ? RUN_LOST : RUN_MORE;
}

int run_output_token(run_output *o, int32_t request, int32_t token)
{
    const run_session *const s = o->session;
    const int end = run_text_add(&o->text[request].of, s->tokenizer, token, run_opt.raw, s->stop, run_opt.stop.n);
    if (end == RUN_NO_MEMORY) return end;
    const int lost = request == o->turn ? show(o) : RUN_MORE;
    return lost ? lost : end;
}

int run_output_end(run_output *o, int32_t request)
{
    o->text[request].ended = 1;
    return show(o);
}

run_bytes run_output_text(const run_output *o, int32_t request)
{
    static char nothing[1];
    const text *t = &o->text[request];
    return (run_bytes){ t->of.bytes ? t->of.bytes : nothing, t->of.n };
}
