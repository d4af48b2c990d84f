/* Command-line parser of the gdn tool; see cli.h. */
#include "tools/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 26 }; /* column of the help texts */

int cli_exit_code(int parsed) { return parsed == CLI_BAD ? 2 : 0; }

int cli_error(const cli_command *command, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", command->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry '%s --help'.\n", command->name);
    return 2;
}

static void print_option(FILE *out, char letter, const char *name, const char *argument, const char *help)
{
    int column = letter ? fprintf(out, "  -%c, ", letter) : fprintf(out, "  ");
    column += fprintf(out, "--%s%s%s", name, argument ? " " : "", argument ? argument : "");
    for (;;) {
        const char *end = strchr(help, '\n');
        int length = end ? (int)(end - help) : (int)strlen(help);
        if (column > HELP_COLUMN - 2) {
            fputc('\n', out);
            column = 0;
        }
        fprintf(out, "%*s%.*s", HELP_COLUMN - column, "", length, help);
        if (!end) break;
        help = end + 1;
        column = HELP_COLUMN; /* forces a new line */
    }
    fputc('\n', out);
}

/* 1: the n bytes at `word` are a word of the list; `between` separates its words. */
static int has_word(const char *list, char between, const char *word, size_t n)
{
    const char end[] = { between, 0 };
    for (size_t part; *list; list += part + (list[part] != 0)) {
        part = strcspn(list, end);
        if (part == n && !strncmp(list, word, n)) return 1;
    }
    return 0;
}

int cli_listed(const char *names, const char *name) { return has_word(names, ',', name, strlen(name)); }

static void print_help(const cli_command *command, FILE *out, int all)
{
    all |= !command->common;
    fprintf(out, "%s - %s\n\nUsage: %s [OPTION]...\n\nOptions:\n", command->name, command->summary, command->name);
    for (const cli_option *o = command->options; o && o->name; o++)
        if (o->help && (all || cli_listed(command->common, o->name)))
            print_option(out, o->letter, o->name, o->argument, o->help);
    print_option(out, 'h', "help", NULL, "print this text");
    if (command->common) print_option(out, 0, "help-all", NULL, "print all options");
    if (all && command->notes) fprintf(out, "\n%s\n", command->notes);
}

/* Parses all of `text` as an integer. */
static int parse_int64(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 0);
    return end != text && *end == 0 && errno == 0;
}

int cli_parse_uint64(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    if (strchr(text, '-')) return 0; /* strtoull accepts negative numbers */
    *value = strtoull(text, &end, 0);
    return end != text && *end == 0 && errno == 0;
}

static int parse_double(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*value);
}

static int parse_list(const char *text, cli_list *list)
{
    while (list->n < CLI_LIST_MAX) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || value < 1 || value > 1 << 20) return 0;
        list->value[list->n++] = (int)value;
        if (*end == 0) return 1;
        if (*end != ',') return 0;
        text = end + 1;
    }
    return 0;
}

static int parse_names(const char *text, cli_names *names)
{
    const size_t length = strlen(text), used = strlen(names->text);
    if (!length || text[0] == ',' || text[length - 1] == ',' || strstr(text, ",,") ||
        used + length + 2 > sizeof names->text)
        return 0;
    sprintf(names->text + used, "%s%s", used ? "," : "", text);
    return 1;
}

int cli_has_name(const cli_names *names, const char *name) { return !names->text[0] || cli_listed(names->text, name); }

const char *cli_unknown_name(const cli_names *names, const char *(*name)(int i), int n)
{
    static char part[sizeof names->text];
    for (const char *at = names->text; *at;) {
        const size_t length = strcspn(at, ",");
        int i = 0;
        snprintf(part, sizeof part, "%.*s", (int)length, at);
        while (i < n && strcmp(name(i), part)) i++;
        if (i == n) return part;
        at += length + (at[length] == ',');
    }
    return NULL;
}

/* Stores `text` as the option's kind. Returns NULL, or what was expected. */
static const char *store(const cli_option *option, const char *text)
{
    switch (option->kind) {
    case CLI_FLAG: *(int *)option->target = 1; return NULL;
    case CLI_UNFLAG: *(int *)option->target = 0; return NULL;
    case CLI_STRING: *(const char **)option->target = text; return NULL;
    case CLI_INT: return parse_int64(text, option->target) ? NULL : "an integer";
    case CLI_UINT64: return cli_parse_uint64(text, option->target) ? NULL : "an integer from 0 to 2^64 - 1";
    case CLI_DOUBLE: return parse_double(text, option->target) ? NULL : "a number";
    case CLI_LIST: return parse_list(text, option->target) ? NULL : "up to 16 positive integers like 1,2,8, in all";
    case CLI_NAMES: return parse_names(text, option->target) ? NULL : "names like a,b";
    case CLI_TEXTS: {
        cli_texts *texts = option->target;
        if (texts->n == CLI_TEXTS_MAX) return "to be given at most 64 times";
        texts->text[texts->n++] = text;
        return NULL;
    }
    }
    return "nothing";
}

/* Finds the option whose name is the first `length` bytes of `arg`, or NULL. */
static const cli_option *find(const cli_command *command, const char *arg, size_t length)
{
    for (const cli_option *o = command->options; o && o->name; o++) {
        if (o->letter && length == 2 && arg[1] == o->letter) return o;
        if (length > 2 && arg[1] == '-' && strlen(o->name) == length - 2 && !strncmp(arg + 2, o->name, length - 2))
            return o;
    }
    return NULL;
}

/* What is said of an option of another program, or NULL. */
static const char *foreign(const cli_command *command, const char *arg, size_t length)
{
    for (const cli_foreign *f = command->foreign; f && f->names; f++)
        if (has_word(f->names, ' ', arg, length)) return f->hint;
    return NULL;
}

static uint64_t given; /* bit i: option i of the table was given */

int cli_given(const cli_command *command, const char *name)
{
    for (const cli_option *o = command->options; o && o->name; o++)
        if (!strcmp(o->name, name)) return (int)(given >> (o - command->options) & 1);
    return 0;
}

int cli_parse(const cli_command *command, int argc, char **argv)
{
    int only_operands = 0;
    given = 0;
    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];
        if (only_operands || arg[0] != '-' || arg[1] == 0) {
            cli_error(command, "unexpected operand '%s'", arg);
            return CLI_BAD;
        }
        if (!strcmp(arg, "--")) {
            only_operands = 1;
            continue;
        }
        const int all = !strcmp(arg, "--help-all");
        if (all || !strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            print_help(command, stdout, all);
            return CLI_HELPED;
        }

        size_t length = strcspn(arg, "=");
        const char *value = arg[length] ? arg + length + 1 : NULL;
        const char *const hint = find(command, arg, length) ? NULL : foreign(command, arg, length);
        if (hint) {
            cli_error(command, "unknown option '%.*s': %s", (int)length, arg, hint);
            return CLI_BAD;
        }
        if (arg[1] != '-' && length > 2) { /* -n5 */
            length = 2;
            value = arg + 2;
        }
        const cli_option *option = find(command, arg, length);
        if (!option) {
            cli_error(command, "unknown option '%.*s'", (int)length, arg);
            return CLI_BAD;
        }
        const int is_flag = option->kind == CLI_FLAG || option->kind == CLI_UNFLAG;
        if (is_flag && value) {
            cli_error(command, "option '--%s' takes no value", option->name);
            return CLI_BAD;
        }
        if (!is_flag && !value) {
            if (i + 1 == argc) {
                cli_error(command, "option '--%s' needs a value (%s)", option->name, option->argument);
                return CLI_BAD;
            }
            value = argv[++i];
        }
        const uint64_t bit = UINT64_C(1) << (option - command->options);
        if (given & bit && !is_flag && option->kind != CLI_LIST && option->kind != CLI_NAMES &&
            option->kind != CLI_TEXTS) {
            cli_error(command, "option '--%s' is given twice; it has one value", option->name);
            return CLI_BAD;
        }
        given |= bit;
        const char *expected = store(option, value);
        if (expected) {
            cli_error(command, "option '--%s' wants %s, not '%s'", option->name, expected, value);
            return CLI_BAD;
        }
    }
    return CLI_RUN;
}
