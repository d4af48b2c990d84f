/* gdn - the command-line tool: lists devices, checks results, measures speed, runs models. It uses only the public
 * header (and the runtime over it), so it is also an example of a program on top of libgdn. */
#include <stdio.h>
#include <string.h>

#include "tools/cli/commands.h"
#include "gdn/gdn.h"
#include "system/streams.h"
#include "tools/cli/output.h"

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
    { "serve", "serve a model over HTTP, with OpenAI's interface and Anthropic's", gdn_serve_main },
#endif
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fputs("gdn - kernels of hybrid language models, with the same bits on every backend\n\n"
          "Usage: gdn COMMAND [OPTION]...\n\nCommands:\n",
          out);
    for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs(
        "\nOptions:\n  -h, --help     print this text; 'gdn COMMAND --help' and 'gdn help COMMAND' describe a command\n"
        "  -V, --version  print the versions of the tool and of the library it runs on\n\n"
        "Environment:\n"
        "  GDN_PROGRESS       seconds between two lines of progress where standard error is no terminal\n"
        "                     (default 10; 0 prints every step), or 'off' for no progress at all\n"
        "  GDN_NUM_THREADS    threads of the CPU, where no option sets them\n"
        "  GDN_IMPLEMENTATION the implementation, as in cpu:avx2, where no option names one\n"
        "  GDN_LOG            error, warning, info or debug: lines of the library on standard error\n"
        "  GDN_KNOWN_ANSWERS  off: do not test the kernels of GPUs before their first use\n\n"
        "Exit status: 0 success, 1 a check or run failed or its output could not be written, 2 wrong command\n"
        "line; 128 + N after signal N: 130 after Ctrl-C, 143 after SIGTERM,\n"
        "129 after SIGHUP.\n",
        out);
}

static int print_version(void)
{
    uint32_t v = gdn_version();
    printf("gdn %d.%d.%d (library %u.%u.%u, ABI %u)\n", GDN_VERSION_MAJOR, GDN_VERSION_MINOR, GDN_VERSION_PATCH,
           v >> 16, v >> 8 & 0xff, v & 0xff, gdn_abi_version());
    return 0;
}

static const command *find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) return &commands[i];
    fprintf(stderr, "gdn: unknown %s '%s'\nTry 'gdn --help'.\n", name[0] == '-' ? "option" : "command", name);
    return NULL;
}

/* gdn help [COMMAND] */
static int help(const char *name)
{
    char option[] = "--help";
    if (!name) {
        print_help(stdout);
        return 0;
    }
    const command *c = find(name);
    char *arguments[] = { option, option, NULL }; /* argv[0] is the command's name, which it ignores */
    return c ? c->run(2, arguments) : 2;
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        if (argc == 2) return print_version();
        fprintf(stderr, "gdn: unexpected operand '%s' behind %s\nTry 'gdn --help'.\n", argv[2], name);
        return 2;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) return help(argv[2]);
    const command *c = find(name);
    return c ? c->run(argc - 1, argv + 1) : 2;
}

int main(int argc, char **argv)
{
    streams_begin(&argc, &argv);
    return output_end("gdn", run(argc, argv));
}
