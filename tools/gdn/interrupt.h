/* Ctrl-C and SIGTERM, for commands that have something to finish first. Whatever happens, the program ends by the
 * signal, so that a shell sees 130 or 143 and a script that called it stops too. */
#ifndef GDN_TOOL_INTERRUPT_H
#define GDN_TOOL_INTERRUPT_H

void interrupt_catch(void);  /* from now on a signal is noted; a second one ends the program at once  */
int interrupt_getc(void);    /* the next byte of standard input, which nobody else may read; or EOF with
                                errno: 0 at the end, EINTR when a signal was noted, before or meanwhile */
void interrupt_forget(void); /* as if none had come; the next interrupt_catch() notes again            */
int interrupt_is_key(void);  /* was it Ctrl-C?                                                         */
int interrupt_noted(void);   /* the signal's number, or 0                                              */
int interrupt_end(int code); /* end by the signal that was noted; where there was none, return `code` */

#endif
