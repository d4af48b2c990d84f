/* The text of tokens, and where it ends. See text.h. */
#include "tools/run/text.h"

#include <stdlib.h>
#include <string.h>

size_t run_whole(const char *bytes, size_t n)
{
    size_t back = 0;
    while (back < n && back < 4 && ((unsigned char)bytes[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back == n || back == 4) return n;
    const unsigned char lead = (unsigned char)bytes[n - 1 - back];
    const size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return back + 1 < wanted ? n - 1 - back : n;
}

/* Checks new text for stop strings; it had `before` bytes. 1: the text ends at its first stop string. 0: bytes that may
 * begin one are held back. */
static int ends_at_string(run_text *t, size_t before, const run_bytes *stop, int n_stop)
{
    size_t first = t->n;
    t->held = 0;
    for (int i = 0; i < n_stop; i++) {
        const char *string = stop[i].bytes;
        const size_t n = (size_t)stop[i].n;
        const size_t old = before < n ? 0 : before - n + 1; /* earlier ends were found before */
        for (size_t at = old > t->begin ? old : t->begin; at < first; at++) {
            const size_t here = t->n - at < n ? t->n - at : n;
            if (memcmp(t->bytes + at, string, here) != 0) continue;
            if (here == n) {
                first = at;
                t->stop = i + 1;
            } else if (t->n - at > t->held) {
                t->held = t->n - at;
            }
        }
    }
    if (first == t->n) return 0;
    t->n = first;
    t->bytes[first] = 0;
    t->held = 0;
    return 1;
}

int run_text_add(run_text *t, const rt_tokenizer *tokenizer, int32_t token, int raw, const run_bytes *stop, int n_stop)
{
    const rt_string s = rt_token_bytes(tokenizer, token);
    const size_t before = t->n;
    if (rt_token_is_special(tokenizer, token) && !raw) return RUN_MORE;
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
    return ends_at_string(t, before, stop, n_stop) ? RUN_STRING : RUN_MORE;
}

size_t run_text_ready(const run_text *t) { return run_whole(t->bytes, t->n - t->held); }
