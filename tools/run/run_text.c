/* Writes generated text: collects bytes of tokens, and writes complete characters of one request after another. See
 * run.h. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/run/run.h"

enum { NAME_MAX_BYTES = 48 }; /* of a prompt, in the header of its text */

typedef struct text {
    char *bytes;                 /* terminated */
    size_t n, room, shown, held; /* held: bytes at the end that may begin a stop string */
    int ended;
} text;

struct run_output {
    const run_session *session;
    const run_prompt *prompts;
    const run_request *requests;
    int32_t n, turn; /* turn: the request that is being written; earlier ones have ended */
    int live, begun; /* begun: the header of the turn is written */
    text of[];
};

run_output *run_output_create(const run_session *s, const run_prompt *prompts, const run_request *requests, int32_t n,
                              int live)
{
    run_output *o = calloc(1, sizeof *o + (size_t)n * sizeof o->of[0]);
    if (o) *o = (run_output){ s, prompts, requests, n, 0, live, 0 };
    return o;
}

void run_output_destroy(run_output *o)
{
    if (!o) return;
    for (int32_t i = 0; i < o->n; i++) free(o->of[i].bytes);
    free(o);
}

/* Length of the complete characters in n bytes. */
static size_t whole(const char *bytes, size_t n)
{
    size_t back = 0;
    while (back < n && back < 4 && ((unsigned char)bytes[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back == n || back == 4) return n;
    const unsigned char lead = (unsigned char)bytes[n - 1 - back];
    const size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return back + 1 < wanted ? n - 1 - back : n;
}

/* ---- Stop strings ---- */

/* Checks new text for stop strings; it had `before` bytes. 1: the text ends at its first stop string. 0: bytes that may
 * begin one are held back. */
static int ends_at_string(const run_session *s, text *t, size_t before)
{
    size_t first = t->n;
    t->held = 0;
    for (int i = 0; i < run_opt.stop.n; i++) {
        const char *string = s->stop[i].bytes;
        const size_t n = (size_t)s->stop[i].n;
        for (size_t at = before < n ? 0 : before - n + 1; at < first; at++) { /* earlier ends were found before */
            const size_t here = t->n - at < n ? t->n - at : n;
            if (memcmp(t->bytes + at, string, here) != 0) continue;
            if (here == n) first = at;
            else if (t->n - at > t->held) t->held = t->n - at;
        }
    }
    if (first == t->n) return 0;
    t->n = first;
    t->bytes[first] = 0;
    t->held = 0;
    return 1;
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
    n = cut ? whole(from, NAME_MAX_BYTES) : n;
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
        text *t = &o->of[o->turn];
        const size_t to = t->ended ? t->n : whole(t->bytes, t->n - t->held);
        if (!o->begun && o->n > 1) header(o);
        o->begun = 1;
        if (to > t->shown) (void)fwrite(t->bytes + t->shown, 1, to - t->shown, stdout);
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
    text *t = &o->of[request];
    const rt_tokenizer *const tokenizer = o->session->tokenizer;
    const rt_string s = rt_token_bytes(tokenizer, token);
    const size_t before = t->n;
    if (rt_token_is_special(tokenizer, token) && !run_opt.raw) return RUN_MORE;
    if (t->n + s.bytes + 1 > t->room) {
        const size_t room = 2 * (t->n + (size_t)s.bytes) + 256;
        char *larger = realloc(t->bytes, room);
        if (!larger) return RUN_NO_MEMORY;
        t->bytes = larger;
        t->room = room;
    }
    if (s.bytes) memcpy(t->bytes + t->n, s.text, (size_t)s.bytes);
    t->n += (size_t)s.bytes;
    t->bytes[t->n] = 0;
    const int ends = ends_at_string(o->session, t, before);
    const int lost = request == o->turn ? show(o) : RUN_MORE;
    return lost ? lost : ends ? RUN_STRING : RUN_MORE;
}

int run_output_end(run_output *o, int32_t request)
{
    o->of[request].ended = 1;
    return show(o);
}

run_bytes run_output_text(const run_output *o, int32_t request)
{
    static char nothing[1];
    const text *t = &o->of[request];
    return (run_bytes){ t->bytes ? t->bytes : nothing, t->n };
}
