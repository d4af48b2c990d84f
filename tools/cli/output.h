/* Standard output with error checks. Output is buffered, so a full device or a closed pipe shows only when the buffer
 * is written. Every command ends through output_end(). Long-running commands also check output_flush() regularly and
 * stop. */
#ifndef GDN_TOOL_OUTPUT_H
#define GDN_TOOL_OUTPUT_H

/* Begins the program. Ignores SIGXFSZ. Opens the standard streams that the caller closed, so that no other file gets
 * their numbers. Call before opening files. */
void output_begin(void);

/* Writes buffered output. 0: all was written; 1: something could not be written, in this call or earlier. */
int output_flush(void);

/* Ends a command: writes buffered output and returns the exit code. It is `code`, or 1 instead of 0 if something could
 * not be written; an error text goes to stderr, except for a closed pipe. */
int output_end(const char *tool, int code);

/* True if stdout is a terminal; true if it is the same file as stderr. */
int output_is_terminal(void);
int output_is_errors(void);

/* True if standard input is a terminal. */
int input_is_terminal(void);

#endif
