/* Messages from standard input. See line.h. */
#include "tools/run/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/interrupt.h"
#include "system/streams.h"
#include "tools/cli/output.h"
#include "tools/run/edit.h"

enum { MOST_MIB = 64 };

static int typed, edited; /* standard input is a terminal; edit.h reads it */

void line_begin(void)
{
    typed = input_is_terminal();
    edited = typed && edit_begin();
}

void line_end(void)
{
    if (edited) edit_end();
    edited = 0;
}

void line_remember(const char *text, uint64_t n)
{
    if (edited) edit_remember(text, n);
}

int line_is_typed(void) { return typed; }

int line_add(line_text *line, const char *bytes, size_t n)
{
    run_bytes *const b = &line->bytes;
    if (b->n + n > (uint64_t)MOST_MIB << 20) {
        (void)fprintf(stderr, "gdn run: a message is longer than %d MiB, which is the limit\n", (int)MOST_MIB);
        return 0;
    }
    if (b->n + n + 1 > line->room) {
        const uint64_t room = 2 * (b->n + n) + 256;
        char *const larger = realloc(b->bytes, (size_t)room);
        if (!larger) {
            (void)fprintf(stderr, "gdn run: out of memory\n");
            return 0;
        }
        b->bytes = larger;
        line->room = room;
    }
    if (n) memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    b->bytes[b->n] = 0;
    return 1;
}

/* Appends a line that is not edited here. *whole 0: the terminal may have dropped its end. */
static line_kind plain_line(line_text *line, int *whole)
{
    for (uint64_t n = 0;; n++) {
        const int c = interrupt_getc();
        const char byte = (char)c;
        if (c == EOF && errno && !interrupt_noted()) {
            (void)fprintf(stderr, "gdn run: standard input: %s\n", strerror(errno));
            return LINE_TROUBLE;
        }
        if (interrupt_noted()) return LINE_INTERRUPTED;
        if (c == EOF && !line->bytes.n) return LINE_END;
        if (c == EOF || c == '\n') {
            if (line->bytes.n && line->bytes.bytes[line->bytes.n - 1] == '\r') line->bytes.n--;
            if (typed && n > (uint64_t)streams_line_most()) *whole = 0;
            return c == EOF ? LINE_END : LINE_TEXT;
        }
        if (!line_add(line, &byte, 1)) return LINE_TROUBLE;
    }
}

/* The same, of several lines. */
static line_kind message(line_text *line, int *whole)
{
    line->bytes.n = 0;
    *whole = 1;
    if (!line_add(line, "", 0)) return LINE_TROUBLE;
    interrupt_catch(); /* before the prompt appears: from here Ctrl-C ends the conversation properly */
    if (typed && !edited) (void)fputs("> ", stderr);
    (void)fflush(stderr);
    for (;;) {
        run_bytes *const b = &line->bytes;
        const line_kind kind = edited ? edit_line(line) : plain_line(line, whole);
        if (kind == LINE_END && b->n) return LINE_TEXT; /* the input ends without a line end */
        if (kind != LINE_TEXT || !b->n || b->bytes[b->n - 1] != '\\') return kind;
        b->bytes[b->n - 1] = '\n';
    }
}

line_kind line_read(line_text *line)
{
    int whole;
    line_kind kind = message(line, &whole);
    while (kind == LINE_TEXT && !whole) {
        (void)fprintf(stderr,
                      "gdn run: a line of this terminal has at most %d bytes, and this one has more, so its end may be "
                      "lost and it is no message; a line that ends with \\ goes on in the next\n",
                      streams_line_most());
        kind = message(line, &whole);
    }
    line->bytes.bytes[line->bytes.n] = 0;
    return kind;
}
