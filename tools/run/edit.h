/* Edits lines at a terminal with libedit: UTF-8, history, and pastes of several lines as one text. */
#ifndef GDN_TOOL_EDIT_H
#define GDN_TOOL_EDIT_H

#include "tools/run/line.h"

/* Changes the terminal's modes until edit_end(); a signal that stops or ends the program restores them. 0: standard
 * input is no terminal or neither standard error nor output is one, there is no memory, or this build has no libedit.
 */
int edit_begin(void);
/* Reads a line without its end and appends it to `line`. Its bytes are those that were typed, also where they are no
 * UTF-8. */
line_kind edit_line(line_text *line);
/* Adds an earlier message to the history. */
void edit_remember(const char *text, uint64_t n);
void edit_end(void);

#endif
