/* Suites, and the reader of their fixed lists. See suite.h. */
#include "suite.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

const check_suite *const check_suites[CHECK_KERNEL_COUNT] = {
    [CHECK_KERNEL_gated_delta_net] = &check_suite_gated_delta_net,
    [CHECK_KERNEL_ssm_conv] = &check_suite_ssm_conv,
    [CHECK_KERNEL_set_rows] = &check_suite_set_rows,
};

enum { MAX_AXES = 8, MAX_TOKENS = 320, RANDOM_PARENTS = -9 };

/* Known words, of which each line has those of values that follow each other. */
static const struct {
    int first;
    const char *words;
} known[] = {
    { CHECK_NORMAL, "normal unit small subnormal zeros huge wide ties special gate_slow gate_model gate_ggml gate_edge "
                    "gate_zero gate_under nan powers" },
    { GDN_F32, "f32 f16 bf16 q8_0 i32 i64" },
    { GDN_SKIP, "skip none" },
    { CHECK_THREADS_POOL, "pool" },
    { GDN_G_RAW, "raw a_log bounded" },
    { GDN_HEADS_TILED, "tiled" },
    { DELTA_APART, "apart nowhere" }, /* CONV_APART, too */
    { RANDOM_PARENTS, "drawn" },
};

/* Variables: 26 of a letter, and how a case runs, where that is not drawn. */
enum { KIND = 26, THREADS, ENVIRONMENT, N_VARIABLES };
static const char *const way[] = { "kind", "threads", "environment" };

typedef struct axis {
    const char *names, *words; /* within the line */
    int n, index;              /* of words; of the one that is chosen */
} axis;

typedef struct reader {
    const check_suite *suite;
    const char *line, *at; /* at: what is read next */
    axis axis[MAX_AXES];
    int n_axes;
    double variable[N_VARIABLES];
    check_spec *spec;
} reader;

#define LETTER(r, c) ((r)->variable[(c) - 'a'])

static void refuse(const reader *r, const char *what)
{
    (void)fprintf(stderr, "gdn check: %s: %s at '%s'\n", r->line, what, r->at);
    exit(2);
}

static size_t name_length(const char *at)
{
    size_t n = 0;
    while (islower((unsigned char)at[n]) || isdigit((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

static int is(const char *name, const char *at, size_t length) { return !strncmp(name, at, length) && !name[length]; }

static int find_word(const char *at, size_t length, int *value)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *word = known[i].words;
        for (*value = known[i].first; *word; ++*value, word += strspn(word, " ")) {
            const size_t n = strcspn(word, " ");
            if (n == length && !strncmp(word, at, n)) return 1;
            word += n;
        }
    }
    return 0;
}

/* The word at an index, and its length. */
static const char *word(const char *at, int index, size_t *length)
{
    while (index--) at += strcspn(at, "|}") + 1;
    *length = strcspn(at, "|}");
    return at;
}

static const axis *find_axis(const reader *r, const char *at, size_t length)
{
    for (int i = 0; i < r->n_axes; i++)
        if (length && !strncmp(r->axis[i].names, at, length) && strchr(",:", r->axis[i].names[length]))
            return &r->axis[i];
    return NULL;
}

static double *find_variable(reader *r, const char *at, size_t length)
{
    for (int i = 0; i < N_VARIABLES - KIND; i++)
        if (is(way[i], at, length)) return &r->variable[KIND + i];
    return length == 1 && islower((unsigned char)*at) ? &LETTER(r, *at) : NULL;
}

static const check_member *find_member(const reader *r, const char *at, size_t length)
{
    const check_member *m = r->suite->members;
    while (m->name && !is(m->name, at, length)) m++;
    return m->name ? m : NULL;
}

static int n_elements(const check_member *m)
{
    return m->kind == 'p' ? MAX_TOKENS : m->kind == 'k' ? 1 : (int)(m->bytes / sizeof(int));
}

/* The element that s and i say. */
static void *element(const reader *r, const check_member *m)
{
    const size_t i = m->kind == 'p' || n_elements(m) == 1 ? 0 : (size_t)LETTER(r, 'i');
    return (char *)r->spec + m->offset + m->stride * (size_t)LETTER(r, 's') + i * sizeof(int);
}

static void store(const reader *r, const check_member *m, double value)
{
    static int parents[DELTA_MAX_SEQS][MAX_TOKENS]; /* of the case that is read last */
    int *const own = parents[(int)LETTER(r, 's')];
    void *const to = element(r, m);
    if (m->kind == 'i') *(int *)to = (int)value;
    else if (m->kind == 'f') *(float *)to = (float)value;
    else if (m->kind == 'k') *(uint64_t *)to = (uint64_t)value;
    else {
        own[(int)LETTER(r, 'i')] = (int)value;
        *(const int **)to = value == RANDOM_PARENTS ? NULL : own;
    }
}

static double expression(reader *r);

static void expect(reader *r, char c)
{
    if (*r->at != c) refuse(r, "another character is expected");
    r->at++;
}

/* One of several. */
static double list(reader *r, int wanted)
{
    double value[24];
    int n = 0;
    do {
        if (n == (int)(sizeof value / sizeof value[0])) refuse(r, "a list is too long");
        value[n++] = expression(r);
    } while (*r->at == ',' && r->at++);
    return value[wanted % n];
}

/* Does a chosen word contain the text, up to a ')'? */
static int has(reader *r)
{
    const size_t bytes = strcspn(r->at, ")");
    int found = 0;
    for (int i = 0; i < r->n_axes; i++) {
        size_t length;
        const char *at = word(r->axis[i].words, r->axis[i].index, &length);
        for (; length >= bytes; at++, length--) found |= !strncmp(at, r->at, bytes);
    }
    r->at += bytes;
    return found;
}

static double named(reader *r)
{
    const char *const at = r->at;
    const size_t length = name_length(at);
    const double *const variable = find_variable(r, at, length);
    const check_member *const m = find_member(r, at, length);
    r->at += length;
    if (variable) return *variable;
    if (m && m->kind == 'i') return *(int *)element(r, m);
    if (*r->at == '(') {
        double value = 0;
        r->at++;
        if (is("has", at, length)) value = has(r);
        else if (is("pick", at, length)) {
            const int wanted = (int)expression(r);
            expect(r, ',');
            value = list(r, wanted);
        } else refuse(r, "an unknown function");
        expect(r, ')');
        return value;
    }
    int value;
    r->at = at;
    if (!find_word(at, length, &value)) refuse(r, "an unknown name");
    r->at += length;
    return value;
}

static double primary(reader *r)
{
    const char c = *r->at;
    if (isdigit((unsigned char)c)) {
        char *end;
        const double value = strtod(r->at, &end);
        r->at = end;
        return value;
    }
    if (islower((unsigned char)c)) return named(r);
    if (!c || !strchr("-!(#", c)) refuse(r, "an expression is expected");
    r->at++;
    if (c == '-') return -primary(r);
    if (c == '!') return primary(r) == 0;
    if (c == '(') {
        const double value = expression(r);
        expect(r, ')');
        return value;
    }
    const size_t length = name_length(r->at);
    const axis *const a = find_axis(r, r->at, length);
    if (!a) refuse(r, "an unknown axis");
    r->at += length;
    return a->index;
}

/* Operators of this level and of those that bind more. */
static double operation(reader *r, int level)
{
    static const char *const operators[] = { "||", "&&", "==", "!=", "<", ">", "+", "-", "*", "/", "%" };
    static const int levels[] = { 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5 };
    double a = primary(r);
    for (;;) {
        int o = 0;
        while (o < 11 && strncmp(r->at, operators[o], strlen(operators[o])) != 0) o++;
        if (o == 11 || levels[o] < level) return a;
        r->at += strlen(operators[o]);
        const double b = operation(r, levels[o] + 1);
        switch (o) {
        case 0: a = a != 0 || b != 0; break;
        case 1: a = a != 0 && b != 0; break;
        case 2: a = a == b; break;
        case 3: a = a != b; break;
        case 4: a = a < b; break;
        case 5: a = a > b; break;
        case 6: a += b; break;
        case 7: a -= b; break;
        case 8: a *= b; break;
        case 9: a = trunc(a / b); break;
        default: a = b != 0 ? fmod(a, b) : 0;
        }
    }
}

static double expression(reader *r)
{
    const double a = operation(r, 0);
    if (*r->at != '?') return a;
    r->at++;
    const double yes = expression(r);
    expect(r, ':');
    const double no = expression(r);
    return a != 0 ? yes : no;
}

/* What a chosen word sets the name at `number` of its axis to. */
static double word_value(const axis *a, int number)
{
    size_t length;
    const char *at = word(a->words, a->index, &length);
    int value;
    if (find_word(at, length, &value)) return value;
    if (!isdigit((unsigned char)*at)) return a->index;
    while (number--) {
        while (isdigit((unsigned char)*at)) at++;
        while (!isdigit((unsigned char)*at)) at++;
    }
    return atoi(at);
}

/* Set a name to the value, or where `text` is given to what that says. */
static void assign(reader *r, const char *name, const char *text, double value, int sequences)
{
    const size_t length = name_length(name);
    double *const variable = find_variable(r, name, length);
    const check_member *const m = find_member(r, name, length);
    LETTER(r, 's') = LETTER(r, 'i') = 0;
    r->at = name;
    if (!m && !variable) refuse(r, "no member");
    if (m && m->stride && !sequences) return;
    const int n_seqs = m && m->stride ? *(int *)element(r, find_member(r, "n_seqs", 6)) : 1;
    for (int s = 0; s < n_seqs; s++)
        for (int i = 0; i < (m ? n_elements(m) : 1); i++) {
            LETTER(r, 's') = s;
            LETTER(r, 'i') = i;
            if ((r->at = text)) value = list(r, m && m->stride ? s : i);
            if (text && *r->at && *r->at != ' ') refuse(r, "no operator");
            if (m) store(r, m, value);
            else *variable = value;
        }
}

static void read_line(reader *r, int sequences)
{
    r->suite->begin(r->spec);
    for (int a = 0; a < r->n_axes; a++) {
        const char *name = r->axis[a].names;
        for (int i = 0; i == 0 || *name++ == ','; i++, name += name_length(name))
            assign(r, name, NULL, word_value(&r->axis[a], i), sequences);
    }
    for (const char *at = strchr(r->line, ' '); at; at = strchr(at, ' ')) {
        const char *value = ++at, *next;
        if (*at == '{' || !*at) continue;
        while (next = value + name_length(value), *next == '=' && next[1] != '=') value = next + 1;
        r->at = at;
        if (value == at) refuse(r, "nothing is set");
        for (; at < value; at += name_length(at) + 1) assign(r, at, value, 0, sequences);
    }
}

static void find_axes(reader *r)
{
    for (const char *at = strchr(r->line, '{'); at; at = strchr(at + 1, '{')) {
        axis a = { .names = at + 1, .words = at + strcspn(at, ":?}") + 1, .n = 1 };
        if (a.words[-1] != ':') continue;
        if (r->n_axes == MAX_AXES) refuse(r, "too many axes");
        for (const char *w = a.words; *w != '}'; w++) a.n += *w == '|';
        r->axis[r->n_axes++] = a;
    }
}

/* A reader of case `want`, with its words chosen; or where that is -1, how many cases there are. */
static int find_case(reader *r, const check_suite *suite, int want)
{
    int n = 0;
    for (int line = 0; suite->lines[line]; line++) {
        int cases = 1;
        *r = (reader){ .suite = suite, .line = suite->lines[line], .variable[ENVIRONMENT] = -1 };
        r->at = r->line;
        find_axes(r);
        for (int a = 0; a < r->n_axes; a++) cases *= r->axis[a].n;
        if (want >= n && want < n + cases) {
            want -= n;
            for (int a = r->n_axes - 1; a >= 0; want /= r->axis[a--].n) r->axis[a].index = want % r->axis[a].n;
            break;
        }
        n += cases;
    }
    return n;
}

static void find_fixed(reader *r, const check_suite *suite, int want, check_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    (void)find_case(r, suite, want);
    r->spec = spec;
    read_line(r, 0);
    read_line(r, 1);
}

int check_n_fixed(const check_suite *suite)
{
    reader r;
    return find_case(&r, suite, -1);
}

const char *check_fixed_name(const check_suite *suite, int i, char *name, size_t bytes)
{
    reader r;
    check_spec spec;
    size_t n = 0, length;
    find_fixed(&r, suite, i, &spec);
    for (r.at = r.line; *r.at && *r.at != ' ';) {
        const char *from = r.at;
        r.at++;
        if (*from != '{') length = 1;
        else {
            const axis *const a = find_axis(&r, r.at, name_length(r.at));
            if (from[strcspn(from, ":?}")] == '?') {
                const int index = (int)operation(&r, 0);
                expect(&r, '?');
                from = word(r.at, index, &length);
            } else if (a) from = word(a->words, a->index, &length);
            else refuse(&r, "an unknown axis");
            r.at += strcspn(r.at, "}") + 1;
        }
        if (n + length >= bytes) refuse(&r, "the name is too long");
        memcpy(name + n, from, length);
        n += length;
    }
    name[n] = 0;
    return name;
}

void check_fixed(const check_suite *suite, check_case *c, int i, check_rng *rng)
{
    reader r;
    check_spec spec;
    find_fixed(&r, suite, i, &spec);
    const int kind = (int)r.variable[KIND], n = (int)r.variable[THREADS], environment = (int)r.variable[ENVIRONMENT];
    if (n) c->executor = CHECK_EXECUTOR(kind, n);
    if (environment >= 0) c->environment = environment;
    suite->kernel->build(c, &spec, rng);
}

void check_random(const check_suite *suite, check_case *c, check_rng *rng)
{
    check_spec spec;
    suite->random(&spec, rng);
    suite->kernel->build(c, &spec, rng);
}
