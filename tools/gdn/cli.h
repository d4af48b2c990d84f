/* Command lines of the gdn tool: a table of options per command, from which parsing and --help both come.
 *
 *     static const char *filter;  static int json;
 *     static const cli_option options[] = {
 *         { "filter", CLI_STRING, &filter, "SUBSTR", "only cases whose name contains SUBSTR" },
 *         { "json",   CLI_FLAG,   &json,   NULL,     "print JSON" },
 *         { NULL }
 *     };
 *     static const cli_command command = { "gdn check", "compare every backend with the reference", options, NULL };
 *     int cli = cli_parse(&command, argc, argv);
 *     if (cli != CLI_RUN) return cli_exit_code(cli);
 *
 * Both "--name value" and "--name=value" work, and "-x value" where an option has a letter; "--" ends the options,
 * "--help" and "-h" are always there.
 * There are no operands. */
#ifndef GDN_TOOL_CLI_H
#define GDN_TOOL_CLI_H

#include <stdint.h>
#include <stdio.h>

/* Kinds of option, and what `target` points to. Numbers may be written in decimal, 0x hex or 0 octal.
 * Lists, names and texts may be given several times and accumulate: "--backend a --backend b" is "--backend a,b".
 * Flags may be repeated; what has one value may not. */
typedef enum cli_kind {
    CLI_FLAG,   /* int, set to 1                                                            */
    CLI_UNFLAG, /* int, set to 0: "--no-x" beside "--x", of which the later one holds       */
    CLI_STRING, /* const char *, points into argv                                           */
    CLI_INT,    /* int64_t                                                                  */
    CLI_UINT64, /* uint64_t: seeds                                                          */
    CLI_DOUBLE, /* double, finite                                                           */
    CLI_LIST,   /* cli_list: positive integers, "1,2,8"                                     */
    CLI_NAMES,  /* cli_names: "a,b", none of them empty                                     */
    CLI_TEXTS   /* cli_texts: any texts, one each time the option is given; point into argv */
} cli_kind;

#define CLI_LIST_MAX 16
typedef struct cli_list {
    int n;
    int value[CLI_LIST_MAX];
} cli_list;

typedef struct cli_names {
    char text[256]; /* all of them, separated by commas; "" where the option was not given */
} cli_names;

#define CLI_TEXTS_MAX 64
typedef struct cli_texts {
    int         n;
    const char *text[CLI_TEXTS_MAX];
} cli_texts;

typedef struct cli_option {
    const char *name;     /* without the dashes; NULL ends the table              */
    cli_kind    kind;
    void       *target;   /* left alone when the option is not given              */
    const char *argument; /* how --help calls the value; NULL for flags           */
    const char *help;     /* one line, or several separated by newlines; NULL: for tests, --help leaves it out */
    char        letter;   /* 'm' where "-m" means the same; 0 where none does     */
} cli_option; /* at most 64 of a command */

typedef struct cli_command {
    const char       *name;     /* "gdn bench": begins every message               */
    const char       *summary;  /* one line for --help                             */
    const cli_option *options;
    const char       *notes;    /* text after the options in --help, or NULL       */
} cli_command;

/* What the caller does next: run, or leave with cli_exit_code(). */
enum { CLI_RUN = 0, CLI_HELPED = 1, CLI_BAD = 2 };

/* Parse argv[1..argc), which are options: CLI_BAD has printed to stderr what is wrong. */
int cli_parse(const cli_command *command, int argc, char **argv);

/* Was the option given in the command line that was parsed last? */
int cli_given(const cli_command *command, const char *name);

/* Whole of `text` as an integer; 0: it is none. */
int cli_parse_uint64(const char *text, uint64_t *value);

/* 1 if `name` is among the names, or if none were given. The first of the names that is not one of
 * name(0) .. name(n - 1), or NULL. */
int         cli_has_name(const cli_names *names, const char *name);
const char *cli_unknown_name(const cli_names *names, const char *(*name)(int i), int n);

/* 0 after --help, 2 after a bad command line. */
int cli_exit_code(int parsed);

/* "NAME: message" and a hint at --help, to stderr. Returns 2, the exit code. */
int cli_error(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
