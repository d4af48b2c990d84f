/* Ctrl-C, SIGTERM and SIGHUP, for commands that finish something before they exit. The program ends by the signal
 * itself, so that a shell sees 130, 143 or 129 and a calling script stops too. */
#ifndef GDN_SYSTEM_INTERRUPT_H
#define GDN_SYSTEM_INTERRUPT_H

#include <signal.h>

void interrupt_catch(void);  /* starts recording signals; a second one ends the program at once, unless it is SIGHUP */
int interrupt_getc(void);    /* next byte of standard input, which no other code may read; EOF with errno 0: end of
                                input; EOF with EINTR: a signal was recorded, before or during the call */
void interrupt_forget(void); /* clears the record; interrupt_catch() starts again                      */
int interrupt_is_key(void);  /* true if the signal was Ctrl-C                                          */
int interrupt_noted(void);   /* number of the recorded signal; 0: none                                 */
int interrupt_end(int code); /* ends the program by the recorded signal; returns `code` if there is none */

/* For a command that changes the terminal's modes. on_end restores them; a signal handler calls it before the program
 * ends at once. interrupt_getc() calls on_wake before each wait for input, and after SIGCONT and SIGWINCH if they have
 * handlers. */
void interrupt_hooks(void (*on_end)(void), void (*on_wake)(void));
void interrupt_restore(void); /* calls on_end, for handlers of other signals */

/* For a line on the terminal that another one replaces: Ctrl-C and SIGTERM with their default action wipe it from
 * standard error first, if *drawn. NULL: not any more. */
void interrupt_wipes(const volatile sig_atomic_t *drawn);

#endif
