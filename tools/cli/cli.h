/* Command-line parser of the gdn tool. A table of options per command defines both parsing and --help.
 *
 *    static const char *filter;
 *    static int json;
 *    static const cli_option options[] = {
 *        { "filter", CLI_STRING, &filter, "SUBSTR", "only cases whose name contains SUBSTR" },
 *        { "json", CLI_FLAG, &json, NULL, "print JSON" },
 *        { NULL }
 *    };
 *    static const cli_command command = { "gdn check", "compare every backend with the reference", options, NULL };
 *    int cli = cli_parse(&command, argc, argv);
 *    if (cli != CLI_RUN) return cli_exit_code(cli);
 *
 * Options are written "--name value" or "--name=value", or "-x value" if they have a letter. "--" ends the options.
 * "--help", "-h" and "--help-all" always exist. There are no operands. */
#ifndef GDN_TOOL_CLI_H
#define GDN_TOOL_CLI_H

#include <stdint.h>
#include <stdio.h>

/* Kinds of options, with the type that `target` points to. Numbers may be decimal, 0x hex or 0 octal. Lists, names and
 * texts may be given several times and accumulate: "--backend a --backend b" is "--backend a,b". Flags may be repeated;
 * options with one value may not. */
typedef enum cli_kind {
    CLI_FLAG,   /* int, set to 1                                                            */
    CLI_UNFLAG, /* int, set to 0: "--no-x" for "--x"; the later one wins                    */
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
    char text[256]; /* all names, separated by commas; "": option not given */
} cli_names;

#define CLI_TEXTS_MAX 64
typedef struct cli_texts {
    int n;
    const char *text[CLI_TEXTS_MAX];
} cli_texts;

typedef struct cli_option {
    const char *name; /* without the dashes; NULL ends the table              */
    cli_kind kind;
    void *target;         /* unchanged if the option is not given                 */
    const char *argument; /* name of the value in --help; NULL for flags          */
    const char *help;     /* one or several lines, separated by newlines; NULL: hidden from --help, for tests */
    char letter;          /* 'm' for "-m"; 0: no letter                           */
} cli_option;             /* at most 64 per command */

/* An option that other programs have: what the error says of it. Tables end with { NULL }. */
typedef struct cli_foreign {
    const char *names; /* as they are typed: "-ngl --n-gpu-layers" */
    const char *hint;
} cli_foreign;

typedef struct cli_command {
    const char *name;    /* "gdn bench": begins every message               */
    const char *summary; /* one line for --help                             */
    const cli_option *options;
    const char *notes;          /* text after the options in --help-all, or NULL   */
    const char *common;         /* "a,b": the options in --help; NULL: all, and --help is --help-all */
    const cli_foreign *foreign; /* options of other programs, or NULL              */
} cli_command;

/* Results of cli_parse(): run, or exit with cli_exit_code(). */
enum { CLI_RUN = 0, CLI_HELPED = 1, CLI_BAD = 2 };

/* Parses the options argv[1..argc). CLI_BAD: an error was printed to stderr. */
int cli_parse(const cli_command *command, int argc, char **argv);

/* True if the command line parsed last contains the option. */
int cli_given(const cli_command *command, const char *name);

/* Parses all of `text` as an integer; 0: it is not one. */
int cli_parse_uint64(const char *text, uint64_t *value);

/* 1 if `name` is one of the names, which commas separate. */
int cli_listed(const char *names, const char *name);

/* cli_has_name: 1 if `name` is among the names, or if no names were given. cli_unknown_name: the first of the names
 * that is not one of name(0) .. name(n - 1), or NULL. */
int cli_has_name(const cli_names *names, const char *name);
const char *cli_unknown_name(const cli_names *names, const char *(*name)(int i), int n);

/* 0 after --help, 2 after a bad command line. */
int cli_exit_code(int parsed);

/* Prints "NAME: message" and a hint to --help, to stderr. Returns the exit code 2. */
int cli_error(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
