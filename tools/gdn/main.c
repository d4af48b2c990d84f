/* gdn - the command line tool: what is on this machine, is it right, is it fast.
 *
 * It uses only the public header (and the runtime over it), so it is also an example of a program on top of libgdn. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "gdn/gdn.h"

typedef struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    { "info", "list backends, devices and implementations", gdn_info_main },
    { "check", "compare every implementation with the reference, bit for bit", gdn_check_main },
    { "bench", "time the kernels against the limits of this machine", gdn_bench_main },
#if GDN_HAVE_RUNTIME
    { "run", "generate text with a hybrid model from a GGUF file", gdn_run_main },
#endif
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fputs("gdn - kernels of hybrid language models, with the same bits on every backend\n\n"
          "Usage: gdn COMMAND [OPTION]...\n\nCommands:\n", out);
    for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\nOptions:\n  --help     print this text; 'gdn COMMAND --help' describes a command\n"
          "  --version  print the versions of the tool and of the library it runs on\n\n"
          "Exit status: 0 success, 1 a check or run failed, 2 wrong command line.\n", out);
}

static int print_version(void)
{
    uint32_t v = gdn_version();
    printf("gdn %d.%d.%d (library %u.%u.%u, ABI %u)\n", GDN_VERSION_MAJOR, GDN_VERSION_MINOR, GDN_VERSION_PATCH,
           v >> 16, v >> 8 & 0xff, v & 0xff, gdn_abi_version());
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--version")) return print_version();
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return 0;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) return commands[i].run(argc - 1, argv + 1);

    if (argc < 2) print_help(stderr);
    else fprintf(stderr, "gdn: unknown %s '%s'\nTry 'gdn --help'.\n", name[0] == '-' ? "option" : "command", name);
    return 2;
}
