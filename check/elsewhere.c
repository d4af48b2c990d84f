/* The reference in another process. See elsewhere.h.
 *
 * Both sides are libgdn on 64-bit little-endian machines, whose structs are alike; they compare sizes before the first
 * call. What is an address goes over as what is there. */
#define _POSIX_C_SOURCE 200809L
#include "elsewhere.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trial.h"
#include "tools/cli/target.h"

/* Who speaks, and in which words. */
typedef struct hello {
    char magic[16];
    uint32_t version, level, sizes[4];
} hello;

typedef struct call_head {
    int32_t kernel, n_memories, n_views, placement, use_offset, executor;
    check_args args;
} call_head;

typedef struct memory_head {
    uint64_t bytes, before, body;
    int32_t written, n_ranges;
} memory_head;

typedef struct view_head {
    check_view view;
    char name[32], axis[CHECK_MAX_AXES][32]; /* "": NULL */
} view_head;

typedef struct answer_head {
    int32_t expectable, outcome, status, exact, emulated;
    char why[sizeof((check_result *)0)->text], implementation[GDN_NAME_MAX];
    check_text text;
} answer_head;

static struct {
    FILE *in, *out;
    pid_t child;
} other;

static int put(FILE *out, const void *from, uint64_t bytes)
{
    return !bytes ||
           fwrite(from, 1, (size_t)bytes, out) == bytes; /* nothing may lie at NULL, which fwrite() may not get */
}

static int get(FILE *in, void *to, uint64_t bytes) { return !bytes || fread(to, 1, (size_t)bytes, in) == bytes; }

static hello my_hello(uint32_t level)
{
    return (hello){ "gdn check calls",
                    gdn_version(),
                    level,
                    { sizeof(check_case), sizeof(check_view), sizeof(check_args), sizeof(check_text) } };
}

/* ---- Asking --------------------------------------------------------------------------------------------------- */

/* What the child's standard input and output are in this process. */
static int start(const char *program, uint32_t level, int *to, int *from)
{
    int asked[2], answered[2];
    if (pipe(asked)) return 0;
    if (pipe(answered)) {
        close(asked[0]), close(asked[1]);
        return 0;
    }
    other.child = fork();
    if (!other.child) {
        if (dup2(asked[0], 0) == 0 && dup2(answered[1], 1) == 1) {
            close(asked[0]), close(asked[1]), close(answered[0]), close(answered[1]);
            execl(program, program, "check", "--serve", "--level", target_level_names[level], (char *)NULL);
        }
        _exit(127);
    }
    close(asked[0]), close(answered[1]);
    *to = asked[1], *from = answered[0];
    return other.child > 0;
}

int check_elsewhere_open(const char *program, uint32_t level, char *message, uint64_t message_bytes)
{
    const hello mine = my_hello(level);
    hello theirs;
    int to = -1, from = -1;
    memset(&theirs, 0, sizeof theirs);
    (void)signal(SIGPIPE, SIG_IGN); /* where it ends, a call has failed, and says so */
    if (!start(program, level, &to, &from) || !(other.out = fdopen(to, "wb")) || !(other.in = fdopen(from, "rb")))
        (void)snprintf(message, message_bytes, "%s cannot be started", program);
    else if (!put(other.out, &mine, sizeof mine) || fflush(other.out) || !get(other.in, &theirs, sizeof theirs) ||
             memcmp(&mine, &theirs, sizeof mine))
        (void)snprintf(message, message_bytes, "%s is no gdn of this version and for such a machine", program);
    else return 1;
    check_elsewhere_close();
    return 0;
}

int check_elsewhere_is_open(void) { return other.out != NULL; }

void check_elsewhere_close(void)
{
    if (other.out) (void)fclose(other.out); /* its input ends, and so does it */
    if (other.in) (void)fclose(other.in);
    if (other.child > 0) (void)waitpid(other.child, NULL, 0);
    memset(&other, 0, sizeof other);
}

static int copy_name(char *to, uint64_t bytes, const char *name)
{
    memset(to, 0, (size_t)bytes);
    return !name || snprintf(to, (size_t)bytes, "%s", name) < (int)bytes;
}

static int ask(FILE *out, const check_case *c)
{
    call_head head;
    memset(&head, 0, sizeof head);
    while (check_kernels[head.kernel] != c->kernel)
        if (++head.kernel == CHECK_KERNEL_COUNT) return 0; /* a test's */
    head.n_memories = c->n_memories, head.n_views = c->n_views;
    head.placement = c->placement, head.use_offset = c->use_offset, head.executor = c->executor;
    head.args = c->args;
    int good = put(out, &head, sizeof head);
    for (int i = 0; good && i < c->n_views; i++) {
        view_head v = { .view = c->view[i] };
        good = copy_name(v.name, sizeof v.name, c->view[i].name);
        for (int a = 0; a < CHECK_MAX_AXES; a++)
            good = good && copy_name(v.axis[a], sizeof v.axis[a], c->view[i].axis[a]);
        good = good && put(out, &v, sizeof v);
    }
    for (int i = 0; good && i < c->n_memories; i++) {
        const check_memory *m = &c->memory[i];
        const memory_head h = { m->bytes, m->before, m->body, m->written, m->n_ranges };
        good = put(out, &h, sizeof h) && put(out, m->image, m->bytes) &&
               put(out, m->range, sizeof m->range[0] * (uint64_t)m->n_ranges);
    }
    return good && !fflush(out);
}

static void make_room(check_result *r, int m, uint64_t bytes)
{
    if (r->room[m] > bytes) return;
    free(r->image[m]);
    r->room[m] = bytes + bytes / 2 + 1;
    r->image[m] = check_alloc(r->room[m]);
}

int check_elsewhere_expect(const check_case *c, check_result *expected, check_text *text)
{
    static answer_head answer;
    int good = ask(other.out, c) && get(other.in, &answer, sizeof answer);
    for (int m = 0; good && answer.expectable && m < c->n_memories; m++) {
        make_room(expected, m, c->memory[m].bytes);
        good = get(other.in, expected->image[m], c->memory[m].bytes);
    }
    if (!good) {
        expected->outcome = CHECK_ERROR;
        check_say(text, "  the reference: its process could not be asked, or gave no answer\n");
        return 0;
    }
    expected->outcome = (check_outcome)answer.outcome;
    expected->status = (gdn_status)answer.status;
    expected->exact = answer.exact, expected->emulated = answer.emulated;
    memcpy(expected->text, answer.why, sizeof expected->text);
    memcpy(expected->implementation, answer.implementation, sizeof expected->implementation);
    check_say(text, "%s", answer.text.at);
    return answer.expectable;
}

/* ---- Answering ------------------------------------------------------------------------------------------------ */

/* names: one for each view, which point into it. */
static int hear(FILE *in, check_case *c, view_head *names)
{
    call_head head;
    if (!get(in, &head, sizeof head) || head.kernel < 0 || head.kernel >= CHECK_KERNEL_COUNT || head.n_memories < 0 ||
        head.n_memories > CHECK_MAX_MEMORIES || head.n_views < 0 || head.n_views > CHECK_MAX_VIEWS)
        return 0;
    check_case_init(c, check_kernels[head.kernel]);
    c->args = head.args;
    c->placement = head.placement, c->use_offset = head.use_offset, c->executor = head.executor;
    for (int i = 0; i < head.n_views; i++, c->n_views++) {
        view_head *v = &names[i];
        if (!get(in, v, sizeof *v) || v->view.memory < 0 || v->view.memory >= head.n_memories) return 0;
        c->view[i] = v->view;
        c->view[i].name = v->name;
        for (int a = 0; a < CHECK_MAX_AXES; a++) c->view[i].axis[a] = v->axis[a][0] ? v->axis[a] : NULL;
    }
    for (int i = 0; i < head.n_memories; i++) {
        memory_head h;
        if (!get(in, &h, sizeof h) || h.n_ranges < 0) return 0;
        c->memory[i] = (check_memory){ .image = check_alloc(h.bytes + 1),
                                       .bytes = h.bytes,
                                       .before = h.before,
                                       .body = h.body,
                                       .written = h.written,
                                       .n_ranges = h.n_ranges,
                                       .room = h.n_ranges };
        c->n_memories++;
        const uint64_t bytes = sizeof c->memory[i].range[0] * (uint64_t)h.n_ranges;
        c->memory[i].range = check_alloc(bytes);
        if (!get(in, c->memory[i].image, h.bytes) || !get(in, c->memory[i].range, bytes)) return 0;
    }
    return 1;
}

static int answer(FILE *out, check_target *reference, const check_case *c)
{
    static check_result result;
    static answer_head head;
    memset(&head, 0, sizeof head);
    head.expectable = check_expect(reference, c, &result, &head.text);
    head.outcome = (int32_t)result.outcome, head.status = (int32_t)result.status;
    head.exact = result.exact, head.emulated = result.emulated;
    memcpy(head.why, result.text, sizeof head.why);
    memcpy(head.implementation, result.implementation, sizeof head.implementation);
    int good = put(out, &head, sizeof head);
    for (int m = 0; good && head.expectable && m < c->n_memories; m++)
        good = put(out, result.image[m], c->memory[m].bytes);
    return good && !fflush(out);
}

int check_elsewhere_serve(check_target *reference, uint32_t level)
{
    static check_case c;
    static view_head names[CHECK_MAX_VIEWS];
    const hello mine = my_hello(level);
    hello theirs;
    if (!get(stdin, &theirs, sizeof theirs) || !put(stdout, &mine, sizeof mine) || fflush(stdout)) return 1;
    for (;;) {
        const int next = getc(stdin);
        if (next == EOF) return 0;
        (void)ungetc(next, stdin);
        const int good = hear(stdin, &c, names) && answer(stdout, reference, &c);
        check_case_free(&c);
        if (!good) return 1;
    }
}
