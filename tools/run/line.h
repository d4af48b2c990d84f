/* Reads messages from standard input: lines. At a terminal they are edited, where edit.h can. */
#ifndef GDN_TOOL_LINE_H
#define GDN_TOOL_LINE_H

#include "tools/run/text.h"

typedef enum line_kind { LINE_TEXT, LINE_END, LINE_INTERRUPTED, LINE_TROUBLE } line_kind;

/* Begins as zeros; free bytes.bytes. */
typedef struct line_text {
    run_bytes bytes;
    uint64_t room;
} line_text;

void line_begin(void);                            /* before the first line */
void line_end(void);                              /* after the last one    */
void line_remember(const char *text, uint64_t n); /* an earlier message, for the history of a terminal */
int line_is_typed(void);                          /* true if standard input is a terminal */

/* Reads a message without its end. A line that ends with a backslash continues in the next. LINE_TROUBLE: an error was
 * printed. */
line_kind line_read(line_text *line);

/* Appends bytes, and keeps the text NUL-terminated. 0: the limit or no memory; an error was printed. */
int line_add(line_text *line, const char *bytes, size_t n);

#endif
