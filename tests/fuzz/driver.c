/* Runs a fuzz target without libFuzzer, with any compiler:
 *
 *   driver [--random N] [--seed S] [--first I] [--kinds K] [--list] [FILE | FILE.seeds]...
 *
 * A FILE is one input, FILE.seeds is text with one input per line in hexadecimal and comments after #. Lines "#= TEXT"
 * are kinds that the next input has to be of, as the target says in fuzz_outcome(). Then N random inputs. Input I of
 * seed S is always the same. A handler prints the number of a failure, so --first I --random 1 runs it alone. With
 * --kinds K, all inputs together have to be of at least K kinds. With --list, the kinds and how many inputs were of
 * each are printed. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *fuzz_outcome(void);
/* For targets that tell no kinds apart. */
__attribute__((weak)) const char *fuzz_outcome(void) { return ""; }

static uint8_t input[1 << 16];
static char about[600]; /* the input that runs */
static long count;

static void on_abort(int number)
{
    (void)fprintf(stderr, "driver: signal %d in %s\n", number, about);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void run(size_t size)
{
    (void)LLVMFuzzerTestOneInput(input, size);
    count++;
}

/* ---- Kinds: the lines of fuzz_outcome(). ----------------------------------------------------------------- */

enum { MAX_KINDS = 4096 };
static char *kinds[MAX_KINDS];
static long n_of_kind[MAX_KINDS];
static int n_kinds, n_wanted;
static char wanted[8][300];

/* Length of the line at `at`, and whether the last input is of that kind. */
static size_t line_length(const char *at) { return strcspn(at, "\n"); }

static int is_of_kind(const char *kind)
{
    for (const char *at = fuzz_outcome(); *at; at += line_length(at) + 1)
        if (line_length(at) == strlen(kind) && !strncmp(at, kind, strlen(kind))) return 1;
    return 0;
}

/* Take the last input's kinds to what was seen. */
static void learn(void)
{
    for (const char *at = fuzz_outcome(); *at; at += line_length(at) + 1) {
        int i = 0;
        while (i < n_kinds && (strlen(kinds[i]) != line_length(at) || strncmp(kinds[i], at, line_length(at)))) i++;
        if (i == MAX_KINDS) abort();
        n_of_kind[i]++;
        if (i < n_kinds) continue;
        kinds[n_kinds] = calloc(1, line_length(at) + 1);
        if (!kinds[n_kinds]) abort();
        memcpy(kinds[n_kinds], at, line_length(at));
        n_kinds++;
    }
}

static int hex(int c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static int run_seeds(FILE *file, const char *path)
{
    static char line[2 * sizeof input + 2];
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        size_t n = 0;
        if (!strncmp(line, "#= ", 3) && n_wanted < (int)(sizeof wanted / sizeof wanted[0]))
            (void)snprintf(wanted[n_wanted++], sizeof wanted[0], "%.*s", (int)line_length(line + 3), line + 3);
        if (line[0] == '#') continue;
        for (; n < sizeof input && hex(line[2 * n]) >= 0 && hex(line[2 * n + 1]) >= 0; n++)
            input[n] = (uint8_t)(hex(line[2 * n]) << 4 | hex(line[2 * n + 1]));
        (void)snprintf(about, sizeof about, "%s, line %d", path, number);
        if (line[2 * n + strspn(line + 2 * n, " \r\n")]) {
            (void)fprintf(stderr, "driver: %s is not hexadecimal\n", about);
            return 2;
        }
        run(n);
        learn();
        for (; n_wanted; n_wanted--)
            if (!is_of_kind(wanted[n_wanted - 1])) {
                (void)fprintf(stderr,
                              "driver: %s is not \"%s\" any more, but\n%sIf the decoder has changed, pick new seeds.\n",
                              about, wanted[n_wanted - 1], fuzz_outcome());
                return 2;
            }
    }
    return 0;
}

static int run_path(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        (void)fprintf(stderr, "driver: cannot read %s\n", path);
        return 2;
    }
    int failed = 0;
    const size_t length = strlen(path);
    if (length > 6 && !strcmp(path + length - 6, ".seeds")) {
        failed = run_seeds(file, path);
    } else {
        (void)snprintf(about, sizeof about, "%s", path);
        run(fread(input, 1, sizeof input, file));
    }
    (void)fclose(file);
    return failed;
}

int main(int argc, char **argv)
{
    uint64_t n = 0, seed = 1, first = 0, kinds_wanted = 0;
    int list = 0;
    (void)signal(SIGABRT, on_abort);
    (void)signal(SIGSEGV, on_abort);
    (void)signal(SIGFPE, on_abort);
    for (int i = 1; i < argc; i++) {
        uint64_t *number = !strcmp(argv[i], "--random")  ? &n
                           : !strcmp(argv[i], "--seed")  ? &seed
                           : !strcmp(argv[i], "--first") ? &first
                           : !strcmp(argv[i], "--kinds") ? &kinds_wanted
                                                         : NULL;
        if (!strcmp(argv[i], "--list")) {
            list = 1;
        } else if (number && i + 1 < argc) {
            *number = strtoull(argv[++i], NULL, 0);
        } else if (number || argv[i][0] == '-') {
            (void)fprintf(stderr, "usage: driver [--random N] [--seed S] [--first I] [--kinds K] [--list] [FILE | "
                                  "FILE.seeds]...\n");
            return 2;
        } else if (run_path(argv[i])) {
            return 2;
        }
    }
    for (uint64_t i = first; i < first + n; i++) {
        uint64_t state = seed * 0xD6E8FEB86659FD93u + i;
        const size_t size = 8 + (size_t)(test_random(&state) % 250);
        for (size_t k = 0; k < size; k++) input[k] = (uint8_t)(test_random(&state) >> 56);
        (void)snprintf(about, sizeof about, "--seed %llu --first %llu --random 1", (unsigned long long)seed,
                       (unsigned long long)i);
        run(size);
        learn();
    }
    for (int i = 0; list && i < n_kinds; i++) printf("%8ld %s\n", n_of_kind[i], kinds[i]);
    printf("%ld inputs of %d kinds ran\n", count, n_kinds);
    if ((uint64_t)n_kinds < kinds_wanted)
        (void)fprintf(stderr, "driver: %d kinds, and %llu are wanted\n", n_kinds, (unsigned long long)kinds_wanted);
    return count == 0 || (uint64_t)n_kinds < kinds_wanted;
}
