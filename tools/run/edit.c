/* Lines at a terminal, with libedit. See edit.h. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE /* SIGWINCH */
#include "tools/run/edit.h"

#if !GDN_HAVE_LIBEDIT
int edit_begin(void) { return 0; }
line_kind edit_line(line_text *line)
{
    (void)line;
    return LINE_END;
}
void edit_remember(const char *text, uint64_t n) { (void)text, (void)n; }
void edit_end(void) {}
#else

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/text/utf8.h"
#include "system/interrupt.h"

enum { N_HISTORY = 1000 };

/* libedit has wide characters. Surrogates, which no text has, are for bytes that are no UTF-8, and for characters that
 * libedit would take for a command or for the end. */
enum { OF_BYTE = 0xDC00, OF_CHARACTER = 0xD800 };

static EditLine *editor;
static HistoryW *messages;
static int screen; /* where lines are drawn: standard error, or else standard output */
static int pastes; /* the terminal marks pastes */

/* ---- The terminal's modes ---- */

static struct termios before, during; /* outside and inside of a conversation */
static volatile sig_atomic_t changed, redraw;

static void set_modes(const struct termios *modes)
{
    while (tcsetattr(STDIN_FILENO, TCSANOW, modes) && errno == EINTR) {
    }
}

static void say(const char *what)
{
    const ssize_t written = write(screen, what, strlen(what));
    (void)written; /* a terminal that is gone needs none */
}

/* leave() and enter() are for signal handlers too. */
static void leave(void)
{
    if (!changed) return;
    changed = 0;
    if (pastes) say("\033[?2004l");
    set_modes(&before);
}

static void enter(void)
{
    changed = 1;
    set_modes(&during);
    if (pastes) say("\033[?2004h");
}

/* In the background the terminal is another program's, and setting its modes would stop this one before it ends. */
static struct termios theirs;
static int behind;

static void step_aside(void)
{
    if (tcgetpgrp(STDIN_FILENO) == getpgrp() || tcgetattr(STDIN_FILENO, &theirs)) return;
    (void)signal(SIGTTOU, SIG_IGN);
    behind = 1;
}

static void step_back(void)
{
    if (behind) set_modes(&theirs);
    behind = 0;
}

/* Ctrl-Z and Ctrl-\: the default action, with the terminal's modes restored. */
static void stop(int number)
{
    const int why = errno;
    struct sigaction with = { 0 }, own;
    sigset_t this_one, masked;
    leave();
    with.sa_handler = SIG_DFL;
    (void)sigaction(number, &with, &own);
    (void)sigemptyset(&this_one);
    (void)sigaddset(&this_one, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &this_one, &masked); /* here the program stops or ends */
    (void)sigprocmask(SIG_SETMASK, &masked, NULL);
    (void)sigaction(number, &own, NULL);
    errno = why;
}

/* The program goes on, or the window has another size. A program in the background leaves the terminal alone. */
static void go_on(int number)
{
    const int why = errno;
    if (number == SIGCONT && tcgetpgrp(STDIN_FILENO) == getpgrp()) enter();
    redraw = 1;
    errno = why;
}

static const struct {
    int number;
    void (*handler)(int);
} handlers[] = { { SIGTSTP, stop }, { SIGQUIT, stop }, { SIGCONT, go_on }, { SIGWINCH, go_on } };
enum { N_HANDLERS = sizeof handlers / sizeof handlers[0] };

static void watch(int on)
{
    for (int i = 0; i < N_HANDLERS; i++) {
        struct sigaction now, with = { 0 };
        with.sa_handler = on ? handlers[i].handler : SIG_DFL;
        with.sa_flags = SA_RESTART;
        (void)sigemptyset(&with.sa_mask);
        if (!sigaction(handlers[i].number, NULL, &now) && now.sa_handler != SIG_IGN)
            (void)sigaction(handlers[i].number, &with, NULL);
    }
}

static void on_wake(void)
{
    if (!redraw) return;
    redraw = 0;
    el_resize(editor);
    (void)el_wset(editor, EL_REFRESH);
}

/* ---- Characters ---- */

/* The first character of n bytes, as libedit has it. *length: its bytes. */
static wchar_t wide_of(const char *bytes, uint64_t n, int *length)
{
    uint32_t code = 0;
    *length = utf8_character(bytes, n, &code);
    if (*length == 1 && code == 0xfffd) code = OF_BYTE | (unsigned char)bytes[0];
    else if (code >= 0x80 && code <= 0xff) code |= OF_CHARACTER;
    return (wchar_t)code;
}

/* The next character for libedit. 1: read; 0: the input ends; -1: a signal was recorded. */
static int next(EditLine *e, wchar_t *to)
{
    static char bytes[4]; /* read, and not yet a character */
    static int n;
    int length = 0;
    (void)e;
    for (;;) {
        const unsigned char lead = (unsigned char)bytes[0];
        const int wanted = !n || lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
        if (n >= wanted || (n > 1 && (bytes[n - 1] & 0xc0) != 0x80)) break;
        const int c = interrupt_getc();
        if (c == EOF && !interrupt_noted()) return 0;
        if (c == EOF) {
            step_aside();
            return -1;
        }
        bytes[n++] = (char)c;
    }
    *to = wide_of(bytes, (uint64_t)n, &length);
    n -= length;
    memmove(bytes, bytes + length, (size_t)n);
    return 1;
}

static int add_character(line_text *line, wchar_t wide)
{
    const uint32_t c = (uint32_t)wide, low = c & 0xff, code = (c & ~0xffu) == OF_CHARACTER ? low : c;
    char b[4];
    size_t n = 0;
    if ((c & ~0xffu) == OF_BYTE) {
        b[n++] = (char)low;
    } else if (code < 0x80) {
        b[n++] = (char)code;
    } else {
        if (code >= 0x10000) {
            b[n++] = (char)(0xf0 | code >> 18);
            b[n++] = (char)(0x80 | (code >> 12 & 63));
        } else if (code >= 0x800) {
            b[n++] = (char)(0xe0 | code >> 12);
        }
        b[n] = (char)(code >= 0x800 ? 0x80 | (code >> 6 & 63) : 0xc0 | code >> 6);
        n++;
        b[n++] = (char)(0x80 | (code & 63));
    }
    return line_add(line, b, n);
}

/* ---- Editing ---- */

static wchar_t *prompt(EditLine *e)
{
    static wchar_t text[] = L"> ";
    (void)e;
    return text;
}

/* Inserts what the terminal sends between its marks of a paste, with line ends as newlines. */
static unsigned char paste(EditLine *e, wint_t key)
{
    static const wchar_t mark[] = L"\033[201~";
    enum { N_MARK = sizeof mark / sizeof mark[0] - 1 };
    wchar_t *text = NULL, c = 0, last = 0;
    size_t n = 0, room = 0;
    unsigned char result = CC_REFRESH;
    (void)key;
    for (;; last = c) {
        if (n + 2 > room) {
            wchar_t *const larger = realloc(text, (room = 2 * room + 1024) * sizeof *text);
            if (!larger) break;
            text = larger;
        }
        if (next(e, &c) != 1) {
            result = CC_EOF;
            break;
        }
        if (c == '\n' && last == '\r') continue;
        text[n++] = c == '\r' ? L'\n' : c ? c : OF_CHARACTER;
        if (n < N_MARK || memcmp(text + n - N_MARK, mark, N_MARK * sizeof *mark) != 0) continue;
        n -= N_MARK;
        break;
    }
    if (text) text[n] = 0;
    if (result == CC_REFRESH && (!text || (n && el_winsertstr(e, text)))) result = CC_ERROR;
    free(text);
    return result;
}

static int bind(const wchar_t *key, const wchar_t *function) { return !el_wset(editor, EL_BIND, key, function, NULL); }

int edit_begin(void)
{
    static int registered;
    const char *const terminal = getenv("TERM");
    HistEventW event;
    FILE *const out = isatty(STDERR_FILENO) ? stderr : stdout;
    screen = fileno(out);
    if (!isatty(STDIN_FILENO) || !isatty(screen) || tcgetattr(STDIN_FILENO, &before)) return 0;
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) (void)setlocale(LC_CTYPE, "C.UTF-8"); /* to show characters */
    editor = el_init("gdn", stdin, out, out);
    messages = history_winit();
    if (editor && messages && !history_w(messages, &event, H_SETSIZE, N_HISTORY) &&
        !el_wset(editor, EL_EDITOR, L"emacs") && !el_wset(editor, EL_HIST, history_w, messages) &&
        !el_wset(editor, EL_PROMPT, prompt) && !el_wset(editor, EL_GETCFN, next) &&
        !el_wset(editor, EL_ADDFN, L"gdn-paste", L"inserts a paste", paste) && bind(L"\\e[200~", L"gdn-paste") &&
        bind(L"\\t", L"ed-insert") && bind(L"^R", L"em-inc-search-prev") &&
        /* Between lines too the terminal keeps all that is typed, and shows nothing of it. */
        !el_wset(editor, EL_SETTY, L"-x", L"-icanon", L"-echo", L"-icrnl", L"-inlcr", NULL) &&
        !el_wset(editor, EL_SETTY, L"-d", L"-icrnl", L"-inlcr", NULL) && !el_wset(editor, EL_PREP_TERM, 1) &&
        !tcgetattr(STDIN_FILENO, &during)) {
        pastes = terminal && strcmp(terminal, "dumb") != 0;
        if (!registered) (void)atexit(leave);
        registered = 1;
        interrupt_hooks(leave, on_wake);
        watch(1);
        enter();
        return 1;
    }
    set_modes(&before);
    if (editor) el_end(editor);
    if (messages) history_wend(messages);
    editor = NULL;
    messages = NULL;
    return 0;
}

line_kind edit_line(line_text *line)
{
    HistEventW event;
    int n;
    const wchar_t *const text = el_wgets(editor, &n);
    step_back();
    if (interrupt_noted()) return LINE_INTERRUPTED;
    if (!text || n <= 0) return LINE_END;
    if (text[n - 1] == '\n' || text[n - 1] == '\r') n--;
    for (int i = 0; i < n; i++)
        if (!add_character(line, text[i])) return LINE_TROUBLE;
    if (n) (void)history_w(messages, &event, H_ENTER, text);
    return LINE_TEXT;
}

void edit_remember(const char *text, uint64_t n)
{
    wchar_t *const wide = malloc((n + 1) * sizeof *wide);
    HistEventW event;
    size_t count = 0;
    if (!wide) return; /* the history is a convenience */
    for (int length; n; text += length, n -= (uint64_t)length) {
        const wchar_t c = wide_of(text, n, &length);
        wide[count++] = c ? c : OF_CHARACTER;
    }
    wide[count] = 0;
    if (count) (void)history_w(messages, &event, H_ENTER, wide);
    free(wide);
}

void edit_end(void)
{
    watch(0);
    interrupt_hooks(NULL, NULL);
    step_aside();
    el_end(editor);
    history_wend(messages);
    leave();
    step_back();
    editor = NULL;
    messages = NULL;
}
#endif
