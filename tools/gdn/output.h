/* Standard output, of which nothing is lost without a word.
 *
 * Writing is buffered, so a device that is full or a pipe that nobody reads shows only when the buffer is written:
 * every command ends through output_end(), and those that work for long look at output_flush() now and then and stop.
 */
#ifndef GDN_TOOL_OUTPUT_H
#define GDN_TOOL_OUTPUT_H

/* Before anything is opened: gives the standard streams that the caller closed a place, so that no file takes it. */
void output_begin(void);

/* Write what is buffered. 0, or 1 when something could not be written, now or earlier. */
int output_flush(void);

/* The last thing a command does: its exit code, which is `code` where all was written. Otherwise 1 or `code`, and
 * standard error says why; but for a pipe that nobody reads any more, of which nobody wants to hear. */
int output_end(const char *tool, int code);

/* Is it a terminal? Is it the same file as standard error? */
int output_is_terminal(void);
int output_is_errors(void);

/* Is standard input a terminal? */
int input_is_terminal(void);

#endif
