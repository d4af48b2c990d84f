/* Digests. See digests.h. A file is a line that says what it is, and a line per call: its key and its digest. */
#include "digests.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "system/files.h"
#include "write_calls.h"

static const char magic[] = "gdn check --record 2\n";

typedef struct noted {
    uint64_t key, digest;
    int of_file;
} noted;

static void *entries; /* a tree of tsearch() */
static uint64_t seed;
static int64_t n_found;
static FILE *file;

static int by_key(const void *a, const void *b)
{
    const uint64_t x = ((const noted *)a)->key, y = ((const noted *)b)->key;
    return (x > y) - (x < y);
}

static void note(uint64_t key, uint64_t digest, int of_file)
{
    noted *e = check_alloc(sizeof *e);
    *e = (noted){ key, digest, of_file };
    if (!tsearch(e, &entries, by_key)) abort(); /* no memory */
}

static int look_up(uint64_t key, uint64_t *digest)
{
    noted *const *there = tfind(&(noted){ .key = key }, &entries, by_key);
    if (!there) return 0;
    *digest = (*there)->digest;
    n_found += (*there)->of_file;
    return 1;
}

int check_digests_record(const char *path, uint32_t level, char *message, uint64_t message_bytes)
{
    seed = level;
    file = file_open(path, "w");
    if (file && fputs(magic, file) >= 0) return 1;
    (void)snprintf(message, message_bytes, "%s cannot be written", path);
    return 0;
}

int check_digests_expect(const char *path, uint32_t level, char *message, uint64_t message_bytes)
{
    char line[64] = "", end;
    unsigned long long key, digest;
    FILE *from = file_open(path, "r");
    seed = level;
    int good = from && fgets(line, sizeof line, from) && !strcmp(line, magic);
    while (good && fgets(line, sizeof line, from)) {
        good = sscanf(line, "%16llx %16llx%c", &key, &digest, &end) == 3 && end == '\n';
        if (good) note(key, digest, 1);
    }
    if (from) (void)fclose(from);
    if (!good)
        (void)snprintf(message, message_bytes, "%s is no file that gdn check --record of this version wrote", path);
    return good;
}

int check_digests_close(int64_t *n_of_file)
{
    int good = !file || !ferror(file);
    if (file && fclose(file)) good = 0;
    *n_of_file = n_found;
    file = NULL;
    return good;
}

/* All that a call consists of, as numbers: the same on every machine. */
static uint64_t key_of(const check_case *c, int environment)
{
    const int64_t settings[] = { c->n_memories, c->n_views, c->placement, c->use_offset, c->executor, environment };
    uint64_t key = check_calls_hash(check_hash(check_mix_text(seed, c->kernel->name), settings, 6), c);
    for (const check_view *v = c->view; v < c->view + c->n_views; v++) {
        const int64_t numbers[] = { v->memory, v->first, v->dtype, v->rank, v->is_span, (int64_t)v->stated };
        key = check_hash(check_mix_text(key, v->name), numbers, 6);
        key = check_hash(check_hash(key, v->extent, v->rank), v->stride, v->rank);
        key = check_hash_view(check_hash(key, v->given, 4), c, v);
    }
    for (const check_memory *m = c->memory; m < c->memory + c->n_memories; m++) {
        const uint64_t sizes[] = { m->bytes, m->before, m->body, (uint64_t)m->written, (uint64_t)m->n_ranges };
        key = check_hash(check_hash(key, sizes, 5), m->range, 2 * m->n_ranges);
    }
    return key;
}

/* Run c on the reference, and make sure that it only wrote what it may, and makes the same in the floating-point mode
 * of c. Where the digest is known of what it makes in the default mode, it runs only in that of c. 1 if it is fit to
 * compare with; otherwise unexpected(expected) is the outcome. */
static int expect(check_target *reference, const check_case *c, const uint64_t *digest, check_result *expected,
                  check_text *text)
{
    check_case plain = *c; /* always in the default mode: a mode that leaks into both must show */
    check_text found = { "", 0 };
    plain.environment = CHECK_ENV_DEFAULT;
    if (!digest) {
        check_target_run(reference, &plain, expected);
        if (expected->outcome != CHECK_RAN) {
            check_say(text, "  the reference: %s\n", expected->text);
            return 0;
        }
        check_calls_write(c, expected->image); /* whatever is said of it below */
    }
    if (c->environment != CHECK_ENV_DEFAULT) {
        check_result again;
        memset(&again, 0, sizeof again);
        check_target_run(reference, c, &again);
        const int same =
            again.outcome == CHECK_RAN && (digest ? check_digest(c, again.image) == *digest
                                                  : !check_compare(c, expected->image, again.image, &found));
        expected->outcome = again.outcome == CHECK_ERROR ? CHECK_ERROR : CHECK_RAN;
        if (!same)
            check_say(text, "  the reference in the mode %s%s: %s\n%s", check_environment_name(c->environment),
                      again.outcome == CHECK_ERROR ? "" : " differs from itself", again.text, found.at);
        check_result_free(&again);
        if (!same) return 0;
    }
    if (!digest && check_confined(c, expected->image, &found)) {
        check_say(text,
                  "  the reference wrote what it should not, or did not write what it should; 'expected' is before the "
                  "call\n%s",
                  found.at);
        return 0;
    }
    return 1;
}

static check_outcome unexpected(const check_result *expected)
{
    return expected->outcome == CHECK_ERROR ? CHECK_ERROR : CHECK_FAILED;
}

static check_outcome run_on(check_target *t, const check_case *c, check_result *result, check_text *text)
{
    check_target_run(t, c, result);
    if (result->outcome == CHECK_SKIPPED && check_target_describe(t)->backend.backend == GDN_BACKEND_CPU) {
        check_say(text, "  the CPU supports everything, but here: %s\n", result->text);
        return CHECK_FAILED;
    }
    if (result->outcome != CHECK_RAN) check_say(text, result->outcome == CHECK_SKIPPED ? "%s" : "  %s\n", result->text);
    return result->outcome;
}

int check_known(check_target *reference, const check_case *c, uint64_t *digest, check_outcome *outcome,
                check_text *text)
{
    static check_result expected;
    const uint64_t plain = key_of(c, CHECK_ENV_DEFAULT);
    const int strange = c->environment != CHECK_ENV_DEFAULT;
    const uint64_t key = strange ? key_of(c, c->environment) : plain;
    if (strange && look_up(key, digest)) return 1;
    const int known = look_up(plain, digest);
    if (known && !strange) return 1;
    if (!expect(reference, c, known ? digest : NULL, &expected, text)) {
        *outcome = unexpected(&expected);
        return 0;
    }
    if (!known) {
        *digest = check_digest(c, expected.image);
        note(plain, *digest, 0);
        if (file) (void)fprintf(file, "%016llx %016llx\n", (unsigned long long)plain, (unsigned long long)*digest);
    }
    if (strange) note(key, *digest, 0);
    return 1;
}

check_outcome check_judge_known(check_target *t, check_target *reference, const check_case *c, uint64_t digest,
                                check_result *result, check_text *text)
{
    static check_result expected;
    const check_outcome outcome = run_on(t, c, result, text);
    if (outcome != CHECK_RAN) return outcome;
    result->digest = check_digest(c, result->image);
    if (result->digest == digest) return outcome;
    if (expect(reference, c, NULL, &expected, text) && !check_compare(c, expected.image, result->image, text))
        check_say(text, "  the digest is not that of what the reference has made, nor of what it makes here\n");
    return CHECK_FAILED;
}
