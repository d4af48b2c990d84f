/* Fuzz target: the arguments of the three kernels. gdn check's builder makes a valid call, which the input's bytes
 * draw; for every other input, fuzz_args_break.c makes up to three things wrong with it. Of every input:
 *   - a call that breaks no rule runs;
 *   - a call that fails says why and has written nothing, and so has every query;
 *   - a call that runs has written only what it may, and no access of it leaves the memory it was given;
 *   - the reference makes the same bits of it, or refuses it with the same text.
 * Which bytes a call may write is known to check/kernel.h, from the header's words alone. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fuzz_args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/struct_sizes.h"
#include "tests/sanitized.h"
#include "check/executor.h"
#include "check/specs.h"

#ifdef ADDRESS_SANITIZED
#include <sanitizer/asan_interface.h>
enum { MARGIN = 0 }; /* all around is poisoned */
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
enum { MARGIN = 512 }; /* so many bytes around have to stay as they are, too */
#endif

enum { MAX_SLABS = 40, MAX_TARGETS = 8, BREAK_BYTES = 32 };

slab fuzz_slabs[MAX_SLABS];
int fuzz_n_slabs;
fuzz_call call;

static gdn_context *reference, *target[MAX_TARGETS];
static int n_targets;

void fuzz_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)fputs("fuzz_args: ", stderr);
    (void)vfprintf(stderr, format, list);
    (void)fputc('\n', stderr);
    va_end(list);
    abort();
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* All slabs are in one mapping, at the same distances in every build and on every machine. So an operand that is too
 * long, or at a wrong address, always overlaps the same others. */
static slab *take_slab(size_t bytes, size_t alignment, int at_end)
{
    static unsigned char *all;
    const size_t apart = 4 * (size_t)SLAB_BYTES;
    slab *s = &fuzz_slabs[fuzz_n_slabs++];
    FUZZ_REQUIRE(fuzz_n_slabs <= MAX_SLABS && bytes && bytes + 64 <= SLAB_BYTES, "a call wants %zu bytes", bytes);
    if (!all) all = mmap(NULL, MAX_SLABS * apart, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FUZZ_REQUIRE(all != MAP_FAILED, "no memory for slabs");
    if (!s->base) {
        s->base = all + (size_t)(s - fuzz_slabs) * apart + SLAB_BYTES;
        FUZZ_REQUIRE(!mprotect(s->base, SLAB_BYTES, PROT_READ | PROT_WRITE), "no memory for a slab");
        ASAN_POISON_MEMORY_REGION(s->base, SLAB_BYTES);
    }
    ASAN_POISON_MEMORY_REGION(s->base + s->begin, s->end - s->begin);
    s->begin = at_end ? (SLAB_BYTES - bytes) / alignment * alignment : 0;
    s->end = s->begin + bytes;
    s->low = s->begin < MARGIN ? 0 : s->begin - MARGIN;
    s->high = SLAB_BYTES - s->end < MARGIN ? SLAB_BYTES : s->end + MARGIN;
    ASAN_UNPOISON_MEMORY_REGION(s->base + s->begin, bytes);
    memset(s->base + s->low, 0xc5, s->high - s->low);
    memset(s->base + s->begin, 0, bytes);
    return s;
}

slab *fuzz_find(const void *p, uint64_t bytes)
{
    for (slab *s = fuzz_slabs; s < fuzz_slabs + fuzz_n_slabs; s++) {
        const uintptr_t at = (uintptr_t)p - (uintptr_t)s->base;
        if (at >= s->begin && at <= s->end && bytes <= s->end - at) return s;
    }
    return NULL;
}

enum { TO_BEFORE, TO_RESULT, FROM_BEFORE, FROM_RESULT };

static void copy_slabs(int way)
{
    for (slab *s = fuzz_slabs; s < fuzz_slabs + fuzz_n_slabs; s++) {
        unsigned char *const copy = way == TO_RESULT || way == FROM_RESULT ? s->result : s->before;
        memcpy((way <= TO_RESULT ? copy : s->base) + s->low, (way <= TO_RESULT ? s->base : copy) + s->low,
               s->high - s->low);
        if (way == TO_BEFORE) memset(s->mask + s->low, 0, s->high - s->low);
    }
}

/* Nothing beside the slabs was written, the workspace included. */
static void require_margins(void)
{
    for (const slab *s = fuzz_slabs; s < fuzz_slabs + fuzz_n_slabs; s++)
        FUZZ_REQUIRE(!memcmp(s->base + s->low, s->before + s->low, s->begin - s->low) &&
                         !memcmp(s->base + s->end, s->before + s->end, s->high - s->end),
                     "slab %d was written before its begin or behind its end", (int)(s - fuzz_slabs));
}

/* All bytes are what they were. */
static void require_unwritten(const char *who, const char *what)
{
    for (const slab *s = fuzz_slabs; s < fuzz_slabs + fuzz_n_slabs; s++)
        for (size_t k = s->low; k < s->high && memcmp(s->base + s->low, s->before + s->low, s->high - s->low); k++)
            FUZZ_REQUIRE(s->base[k] == s->before[k], "%s %s and wrote byte %zd of %zu of slab %d", who, what,
                         (ptrdiff_t)(k - s->begin), s->end - s->begin, (int)(s - fuzz_slabs));
}

/* ---- The call ------------------------------------------------------------------------------------------------------
 */

#define PART(call, member, type, pointer)                                                                              \
    {                                                                                                                  \
        offsetof(call, member), sizeof(type), GDN_FIRST_SIZE(type), pointer                                            \
    }
#define DELTA_PART(member, type) PART(delta_call, member, type, offsetof(gdn_gated_delta_net_args, member))
#define CONV_PART(member, type)  PART(conv_call, member, type, offsetof(gdn_ssm_conv_args, member))
static const fuzz_part parts[CHECK_KERNEL_COUNT][MAX_PARTS] = {
    [CHECK_KERNEL_gated_delta_net] = { PART(delta_call, args, gdn_gated_delta_net_args, 0),
                                       DELTA_PART(inputs, gdn_delta_inputs), DELTA_PART(log, gdn_replay_log),
                                       DELTA_PART(checkpoints, gdn_checkpoints), DELTA_PART(tree, gdn_token_tree),
                                       DELTA_PART(rounding, gdn_state_rounding),
                                       DELTA_PART(chunked, gdn_chunked_form) },
    [CHECK_KERNEL_ssm_conv] = { PART(conv_call, args, gdn_ssm_conv_args, 0), CONV_PART(checkpoints, gdn_checkpoints),
                                CONV_PART(tree, gdn_token_tree) },
    [CHECK_KERNEL_set_rows] = { { 0, sizeof(gdn_set_rows_args), GDN_FIRST_SIZE(gdn_set_rows_args), 0 } },
};

/* A call in the chunked form: sequences at any position, whose calls keep their tokens or verify them. */
static void draw_chunked(delta_spec *spec, check_rng *rng)
{
    const int kept = check_one_in(rng, 2);
    delta_random_chunked(spec, rng);
    spec->n_snapshots = spec->map_dst = kept;
    spec->log_slots = check_between(rng, 32, 80);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *const seq = &spec->seq[s];
        const int chunks = check_between(rng, 0, 3), length = check_between(rng, 0, kept ? 70 : spec->log_slots - 31);
        seq->n_replayed = check_between(rng, 0, 31);
        seq->position = 32 * chunks + seq->n_replayed;
        seq->length = length;
        seq->log_row = s;
        seq->dst[0] = kept ? seq->src : GDN_NONE;
        seq->commit = kept ? GDN_NONE : seq->src;
    }
}

/* Small pools and little arithmetic, which an instrumented reference takes most of the time for. */
static void draw(check_case *made, check_rng *rng)
{
    check_spec spec;
    uint64_t bytes = 0;
    check_case_init(made, call.kernel);
    if (call.number == CHECK_KERNEL_gated_delta_net && check_one_in(rng, 5)) draw_chunked(&spec.gated_delta_net, rng);
    else if (call.number == CHECK_KERNEL_gated_delta_net) delta_random(&spec.gated_delta_net, rng, 20000);
    else call.kernel->random(&spec, rng);
    call.kernel->build(made, &spec, rng);
    for (int m = 0; m < made->n_memories; m++) bytes += made->memory[m].body;
    if (bytes < 1 << 18) return;
    check_case_free(made);
    draw(made, rng); /* another, of what is left of the bytes */
}

/* Each memory in a slab, whose end or begin is the memory's own. */
static void place_memories(const check_case *made, check_rng *in)
{
    gdn_span where[CHECK_MAX_MEMORIES];
    const int ends = check_between(in, 0, 255), use_offset = check_between(in, 0, 1);
    for (int m = 0; m < made->n_memories; m++) {
        const check_memory *memory = &made->memory[m];
        const size_t from = (size_t)memory->before | 64, alignment = from & (~from + 1);
        slab *s = take_slab(memory->body ? (size_t)memory->body : 1, alignment, !(ends >> m % 8 & 1));
        memcpy(s->base + s->begin, memory->image + memory->before, (size_t)memory->body);
        where[m] = (gdn_span){ .data = (void *)((uintptr_t)s->base + s->begin - (uintptr_t)memory->before) };
    }
    check_bind(made, where, use_offset, &call.args);
}

static void make_call(check_rng *in, check_rng *rng)
{
    check_case made;
    memset(&call, 0, sizeof call);
    call.number = check_between(in, 0, CHECK_KERNEL_COUNT - 1);
    call.kernel = check_kernels[call.number];
    call.part = parts[call.number];
    draw(&made, rng);
    call.args = made.args;
    place_memories(&made, in);
    check_case_free(&made);
    for (; call.n_parts < MAX_PARTS && call.part[call.n_parts].known; call.n_parts++)
        call.used[call.n_parts] = *fuzz_size(call.n_parts) != 0;
}

/* Each struct into memory of exactly the size that it says it has; the arguments first. */
static void place_args(slab *const at[MAX_PARTS])
{
    for (int i = 1; i < call.n_parts; i++) {
        void *const to = call.used[i] ? at[i]->base + at[i]->begin : NULL;
        memcpy((char *)&call.args + call.part[i].pointer, &to, sizeof to);
    }
    for (int i = 0; i < call.n_parts; i++) {
        if (!call.used[i]) continue;
        const size_t known = call.part[i].known, has = at[i]->end - at[i]->begin;
        memset(at[i]->base + at[i]->begin, 0, has);
        memcpy(at[i]->base + at[i]->begin, (char *)&call.args + call.part[i].at, known < has ? known : has);
        if (call.dirty[i] && has > known) at[i]->base[at[i]->end - 1] = 1;
    }
}

/* The library's functions, with the structs as they lie in memory; `answer` NULL: the call. */
static gdn_status enter(gdn_context *ctx, const slab *args, void *answer)
{
    const void *a = args->base + args->begin;
    if (call.kernel == &check_kernel_gated_delta_net)
        return answer ? gdn_gated_delta_net_query(ctx, a, answer) : gdn_gated_delta_net(ctx, a, NULL);
    if (call.kernel == &check_kernel_ssm_conv)
        return answer ? gdn_ssm_conv_query(ctx, a, answer) : gdn_ssm_conv(ctx, a, NULL);
    if (call.kernel == &check_kernel_set_rows)
        return answer ? gdn_set_rows_query(ctx, a, answer) : gdn_set_rows(ctx, a, NULL);
    return GDN_INVALID_ARGUMENT;
}

/* The answer in memory of its own, which the query may fill and nothing else. */
static gdn_status ask(gdn_context *ctx, const slab *args, gdn_capability *answer)
{
    slab *s = take_slab(sizeof *answer + (size_t)call.capability_extra, 8, 1);
    const uint32_t size = (uint32_t)(s->end - s->begin);
    memset(s->base + s->begin, 0xab, size);
    memcpy(s->base + s->begin, &size, 4);
    const gdn_status status = enter(ctx, args, s->base + s->begin);
    memcpy(answer, s->base + s->begin, sizeof *answer);
    FUZZ_REQUIRE(!status ||
                     (!answer->supported && !strncmp(answer->reason, gdn_last_error(), sizeof answer->reason - 1)),
                 "a query that failed says supported %d, \"%s\"", (int)answer->supported, answer->reason);
    fuzz_n_slabs--; /* its memory is not the call's */
    return status;
}

/* Give the workspace that a query asked for, or what is to be wrong with it. */
static void give_workspace(uint64_t bytes, int how)
{
    gdn_span *w = check_workspace(call.kernel, &call.args);
    FUZZ_REQUIRE(bytes < SLAB_BYTES - 4096, "a workspace of %llu bytes for a small call", (unsigned long long)bytes);
    if (!bytes || how == WORKSPACE_ABSENT) return;
    /* Its last byte is the last one before memory that must not be touched, or nearly. */
    const slab *s = how == WORKSPACE_SHARED ? &fuzz_slabs[fuzz_n_slabs - 1] : take_slab((size_t)bytes, 64, 1);
    const uint64_t begin = (s->begin + 63) / 64 * 64, left = s->end > begin ? s->end - begin : 1;
    *w = (gdn_span){ .data = s->base + begin, .bytes = left };
    if (how == WORKSPACE_SHORT) w->bytes -= 1 + bytes % 3;
    if (how == WORKSPACE_SKEWED) w->data = s->base + s->begin + 4, w->bytes -= 4;
}

/* ---- Judging a call that ran ------------------------------------------------------------------------------------- */

static const char *judged; /* the implementation */

/* Elements that may be written are as the reference has them, and not beyond the bytes that the caller gave. What was
 * compared is put back: then nothing else may have changed. */
static void judge_elements(void *user, const gdn_tensor *of, unsigned char *at, uint64_t bytes)
{
    const uint64_t offset = (uint64_t)(at - (unsigned char *)of->data) - of->offset, unit = check_unit_bytes(of->dtype);
    slab *s = fuzz_find(at, bytes);
    (void)user;
    FUZZ_REQUIRE(!of->bytes || offset + bytes <= of->bytes,
                 "an accepted call writes bytes %lld to %lld of an operand that has %llu", (long long)offset,
                 (long long)(offset + bytes), (unsigned long long)of->bytes);
    FUZZ_REQUIRE(s, "an accepted call writes outside of all memory");
    const size_t from = (size_t)(at - s->base);
    for (uint64_t i = 0; i < bytes; i += unit)
        FUZZ_REQUIRE(!memcmp(at + i, s->result + from + i, unit) ||
                         (of->dtype != GDN_Q8_0 && check_is_nan(at + i, of->dtype) &&
                          check_is_nan(s->result + from + i, of->dtype)),
                     "%s and the reference differ at byte %zu of slab %d", judged, from - s->begin + (size_t)i,
                     (int)(s - fuzz_slabs));
    memcpy(s->result + from, s->before + from, (size_t)bytes);
    memcpy(at, s->before + from, (size_t)bytes);
    memset(s->mask + from, 1, (size_t)bytes);
}

/* out, which is marked by now, overlaps no state, in whatever rows the call names. */
static void judge_pool(void *user, unsigned char *at, uint64_t bytes)
{
    const slab *s = fuzz_find(at, bytes);
    (void)user;
    FUZZ_REQUIRE(s, "an accepted call has a pool outside of all memory");
    FUZZ_REQUIRE(!memchr(s->mask + (at - s->base), 1, (size_t)bytes), "an accepted call writes out into a pool");
}

static int is_ours(void *user, const void *at, uint64_t bytes) { return (void)user, fuzz_find(at, bytes) != NULL; }

/* The reference's results are in place. */
static void judge(const char *implementation)
{
    judged = implementation;
    const char *wrong = call.kernel->writes(&call.args, &(check_writes){ NULL, judge_elements, judge_pool, is_ours });
    FUZZ_REQUIRE(!wrong, "an accepted call has a bad value in %s, or reads beyond it", wrong);
    require_unwritten("the reference", "ran");
    copy_slabs(FROM_RESULT);
    require_unwritten(implementation, "ran");
}

/* ---- Kinds of calls: the driver demands that its inputs are of many, and lists them. ----------------------------- */

static char outcome[8192];

const char *fuzz_outcome(void) { return outcome; }

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    const size_t used = strlen(outcome);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(outcome + used, sizeof outcome - used, format, list);
    va_end(list);
}

/* The text without its numbers, which may be addresses. */
static void say_refused(const char *text)
{
    say("%s refused\n%s refused: ", call.kernel->name, call.kernel->name);
    for (const char *s = text; *s;) {
        const size_t sign = *s == '-', digits = strspn(s + sign, "0123456789");
        const int number = digits && (s == text || s[-1] == ' ' || s[-1] == '[' || s[-1] == '.');
        say("%c", number ? '#' : *s);
        s += number ? sign + strspn(s + sign, "0123456789abcdefx") : 1;
    }
    say("\n");
}

/* The numbers of the parts, by where they are, and the operands. */
static void say_ran(void)
{
    const char *name = call.kernel->name;
    say("%s ran\n", name);
    for (int i = 0; i < call.n_parts; i++)
        for (size_t k = 4; call.used[i] && k < fuzz_numbers(i); k += 4) {
            int32_t value;
            memcpy(&value, (char *)&call.args + call.part[i].at + k, 4);
            if (value < 9 && value >= 0) say("%s ran: number %zu of part %d is %d\n", name, k / 4, i, (int)value);
            else say("%s ran: number %zu of part %d is another\n", name, k / 4, i);
        }
    for (const check_operand *o = call.kernel->operand; o->name; o++) {
        const gdn_tensor *t = check_tensor(&call.args, o); /* or a span, which begins alike */
        if (o->n_axes == CHECK_MAP || !t->data) say("%s ran: %s %s\n", name, o->name, t->data ? "given" : "absent");
        else
            say("%s ran: %s %d, strides %d %d %d %d\n", name, o->name, (int)t->dtype, t->stride[0] != 0,
                t->stride[1] != 0, t->stride[2] != 0, t->stride[3] != 0);
    }
}

/* ---- One input ----------------------------------------------------------------------------------------------------
 */

static void open_targets(void)
{
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    FUZZ_REQUIRE(!gdn_context_create(&desc, &reference), "%s", gdn_last_error());
    gdn_implementation_info info = { .size = sizeof info };
    desc = (gdn_context_desc){ .size = sizeof desc, .n_threads = 3, .parallel_for = check_reverse_run };
    while (n_targets < MAX_TARGETS && !gdn_implementation_describe(GDN_BACKEND_CPU, 0, (uint32_t)n_targets, &info)) {
        desc.implementation = info.name;
        FUZZ_REQUIRE(!gdn_context_create(&desc, &target[n_targets++]), "%s", gdn_last_error());
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *const middle = data + (size < BREAK_BYTES ? size : BREAK_BYTES);
    check_rng in = { 1, data, middle }, rng = { 2, middle, data + size }; /* what is wrong; and the call */
    gdn_capability answer, other;
    char said[512];
    slab *at[MAX_PARTS], *args;
    if (!reference) open_targets();
    outcome[0] = 0;
    fuzz_n_slabs = 0;
    const int how_wrong = check_between(&in, 0, 255);
    gdn_context *ctx = target[check_between(&in, 0, n_targets - 1)];
    for (int i = 0; i < 2; i++) rng.state = check_mix(rng.state, check_next(&in)); /* behind the last byte */
    make_call(&in, &rng);
    call.mutations = how_wrong >= 240 ? 3 : how_wrong >= 208 ? 2 : how_wrong >= 128 ? 1 : 0;
    call.capability_extra = check_one_in(&in, 8) ? check_between(&in, 0, 99) : 0;
    if (call.mutations) fuzz_break(&in);
    for (int i = 0; i < call.n_parts; i++) {
        const uint32_t bytes = *fuzz_size(i);
        if (call.used[i]) at[i] = take_slab(bytes > 65536 || bytes < 4 ? 4 : bytes, 8, 1);
    }
    args = at[0];
    const int operands = fuzz_n_slabs;
    place_args(at);
    copy_slabs(TO_BEFORE);

    const gdn_status asked = ask(ctx, args, &answer);
    require_unwritten("the query", gdn_status_name(asked));
    FUZZ_REQUIRE(asked || call.mutations || (answer.supported && answer.exact), "a valid call is not supported: %s",
                 answer.reason);
    (void)snprintf(said, sizeof said, "%s", gdn_last_error());
    if (!asked) {
        give_workspace(answer.workspace_bytes, call.workspace);
        place_args(at);
        copy_slabs(TO_BEFORE);
    }
    const gdn_status status = enter(ctx, args, NULL);
    require_margins();
    FUZZ_REQUIRE(call.mutations || !status, "a valid call was refused: %s", gdn_last_error());
    /* Texts may differ: the call reads the maps first. */
    FUZZ_REQUIRE(!asked || status, "the call ran, but the query says \"%s\"", said);
    (void)snprintf(said, sizeof said, "%s", gdn_last_error());
    FUZZ_REQUIRE(!status || (status == GDN_INVALID_ARGUMENT && said[0]), "refused with %s and \"%s\"",
                 gdn_status_name(status), said);
    if (status) require_unwritten("the call", said);
    else copy_slabs(TO_RESULT);
    if (call.workspace == WORKSPACE_GOOD) status ? say_refused(said) : say_ran();

    /* The reference has a right workspace, so it cannot refuse a wrong one. */
    fuzz_n_slabs = operands;
    copy_slabs(FROM_BEFORE);
    *check_workspace(call.kernel, &call.args) = (gdn_span){ 0 };
    place_args(at);
    FUZZ_REQUIRE(ask(reference, args, &other) == asked, "the reference's query disagrees");
    if (!asked) give_workspace(other.workspace_bytes, WORKSPACE_GOOD);
    place_args(at);
    fuzz_n_slabs = operands; /* the workspace is not judged */
    memcpy(args->before + args->begin, args->base + args->begin, args->end - args->begin);
    memcpy(args->result + args->begin, args->base + args->begin, args->end - args->begin);
    const gdn_status expected = enter(reference, args, NULL);
    if (call.workspace != WORKSPACE_GOOD && status) {
        FUZZ_REQUIRE((expected && !strcmp(said, gdn_last_error())) || strstr(said, "workspace"),
                     "refused with \"%s\", and not for the workspace", said);
        return 0;
    }
    FUZZ_REQUIRE(expected == status && (!status || !strcmp(said, gdn_last_error())),
                 "%s: \"%s\", the reference: %s: \"%s\"", gdn_status_name(status), said, gdn_status_name(expected),
                 gdn_last_error());
    if (!status) judge(answer.implementation);
    return 0;
}
