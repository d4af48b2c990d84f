/* Standard output with error checks. Output is buffered, so a full device or a closed pipe shows only when the buffer
 * is written. Every command ends through output_end(). Long-running commands also check output_flush() regularly and
 * stop. */
#ifndef GDN_TOOL_OUTPUT_H
#define GDN_TOOL_OUTPUT_H

/* Writes buffered output. 0: all was written; 1: something could not be written, in this call or earlier. */
int output_flush(void);

/* Ends a command: writes buffered output and returns the exit code. It is `code`, or 1 instead of 0 if something could
 * not be written; an error text goes to stderr, except for a closed pipe. */
int output_end(const char *tool, int code);

int output_is_terminal(void);
int input_is_terminal(void);

#endif
