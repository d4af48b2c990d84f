/* Fuzz target: the arguments of the three kernels. See fuzz_args.h for its parts. Of every input:
 *   - a call that breaks no rule runs;
 *   - a call that fails says why and has written nothing, and so has every query;
 *   - a call that runs has written only what it may, and no access of it leaves the memory it was given;
 *   - the reference makes the same bits of it, or refuses it with the same text. */
#include "fuzz_args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/values.h"

static arena memory;

/* Worker 3 of 3 first: any order is allowed, and this one is the same every time. */
static void backwards(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    (void)user;
    while (n-- > 0) task(arg, n);
}

enum { MAX_TARGETS = 8 };

static gdn_context *reference, *target[MAX_TARGETS];
static int n_targets;

/* With FUZZ_ARGS_STATISTICS in the environment: how many calls of each kernel ran, and how many were refused. */
static long ran[CHECK_KERNEL_COUNT], refused[CHECK_KERNEL_COUNT];

static void print_statistics(void)
{
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        (void)fprintf(stderr, "%-16s %8ld ran, %8ld refused\n", check_kernels[k]->name, ran[k], refused[k]);
}

static void count(const fuzz_call *call, gdn_status status)
{
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        if (check_kernels[k] == call->kernel) (status ? refused : ran)[k]++;
}

static void open_targets(void)
{
    if (getenv("FUZZ_ARGS_STATISTICS")) (void)atexit(print_statistics);
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    FUZZ_REQUIRE(!gdn_context_create(&desc, &reference), "%s", gdn_last_error());
    gdn_implementation_info info = { .size = sizeof info };
    desc = (gdn_context_desc){ .size = sizeof desc, .n_threads = 3, .parallel_for = backwards };
    while (n_targets < MAX_TARGETS && !gdn_implementation_describe(GDN_BACKEND_CPU, 0, (uint32_t)n_targets, &info)) {
        desc.implementation = info.name;
        FUZZ_REQUIRE(!gdn_context_create(&desc, &target[n_targets++]), "%s", gdn_last_error());
    }
}

/* Each struct in memory of exactly the size that it says it has; the arguments first. */
static void place_args(fuzz_call *call, slab *const at[MAX_PIECES])
{
    for (int i = 0; i < call->n_pieces; i++) {
        const fuzz_piece *p = &call->piece[i];
        void *const to = call->used[i] && i ? at[i]->at : NULL;
        if (p->pointer) memcpy((char *)&call->args + p->pointer, &to, sizeof to);
    }
    for (int i = 0; i < call->n_pieces; i++) {
        const fuzz_piece *p = &call->piece[i];
        if (!call->used[i]) continue;
        memset(at[i]->at, 0, at[i]->bytes);
        memcpy(at[i]->at, (char *)&call->args + p->at, p->known < at[i]->bytes ? p->known : at[i]->bytes);
        if (call->dirty[i] && at[i]->bytes > p->known) at[i]->at[at[i]->bytes - 1] = 1;
    }
}

static void take_args(fuzz_call *call, slab *at[MAX_PIECES])
{
    for (int i = 0; i < call->n_pieces; i++) {
        const uint32_t size = *fuzz_size(call, i);
        at[i] = call->used[i] ? arena_take(&memory, size > 65536 || size < 4 ? 4 : size, 8, 1) : NULL;
    }
}

static void require_unwritten(const char *what, gdn_status status)
{
    for (int i = 0; i < memory.n; i++) {
        const slab *s = &memory.slabs[i];
        for (size_t k = 0; k < s->bytes && memcmp(s->at, s->before, s->bytes); k++)
            FUZZ_REQUIRE(s->at[k] == s->before[k], "%s gave %s (%s) and wrote byte %zu of slab %d", what,
                         gdn_status_name(status), gdn_last_error(), k, i);
    }
}

/* The library's functions, with the structs as they lie in memory. */
static gdn_status query_kernel(const fuzz_call *call, gdn_context *ctx, const void *args, gdn_capability *answer)
{
    return call->kernel == &check_kernel_gated_delta_net ? gdn_gated_delta_net_query(ctx, args, answer)
           : call->kernel == &check_kernel_ssm_conv      ? gdn_ssm_conv_query(ctx, args, answer)
                                                         : gdn_set_rows_query(ctx, args, answer);
}

static gdn_status run_kernel(const fuzz_call *call, gdn_context *ctx, const void *args)
{
    return call->kernel == &check_kernel_gated_delta_net ? gdn_gated_delta_net(ctx, args, NULL)
           : call->kernel == &check_kernel_ssm_conv      ? gdn_ssm_conv(ctx, args, NULL)
                                                         : gdn_set_rows(ctx, args, NULL);
}

/* The answer in memory of its own, which the query may fill and nothing else. */
static gdn_status ask(gdn_context *ctx, const fuzz_call *call, const slab *args, gdn_capability *answer)
{
    slab *s = arena_take(&memory, sizeof *answer + (size_t)call->capability_extra, 8, 1);
    const uint32_t size = (uint32_t)s->bytes;
    memset(s->at, 0xab, s->bytes);
    memcpy(s->at, &size, 4);
    const gdn_status status = query_kernel(call, ctx, args->at, (void *)s->at);
    memcpy(answer, s->at, sizeof *answer);
    FUZZ_REQUIRE(!status ||
                     (!answer->supported && !strncmp(answer->reason, gdn_last_error(), sizeof answer->reason - 1)),
                 "a query that failed says supported %d, \"%s\"", (int)answer->supported, answer->reason);
    memory.n--; /* its memory is not the call's */
    return status;
}

/* Give the workspace that the query asked for, or what the input wants to be wrong with it. */
static void give_workspace(fuzz_call *call, uint64_t bytes)
{
    gdn_span *w = check_workspace(call->kernel, &call->args);
    *w = (gdn_span){ 0 };
    FUZZ_REQUIRE(bytes < SLAB_BYTES - 4096, "a workspace of %llu bytes for a small call", (unsigned long long)bytes);
    if (!bytes || call->workspace == WORKSPACE_ABSENT) return;
    if (call->workspace == WORKSPACE_SHARED) {
        const slab *s = &memory.slabs[memory.n - 1];
        *w = (gdn_span){ .data = (void *)(((uintptr_t)s->at + 63) / 64 * 64), .bytes = 0 };
        w->bytes =
            s->at + s->bytes > (unsigned char *)w->data ? (uint64_t)(s->at + s->bytes - (unsigned char *)w->data) : 1;
        return;
    }
    /* The last byte of the workspace is the last one before the page that must not be touched, or nearly. */
    slab *s = arena_take(&memory, (size_t)bytes, 64, 1);
    *w = (gdn_span){ .data = s->at, .bytes = bytes };
    if (call->workspace == WORKSPACE_SHORT) w->bytes -= 1 + bytes % 3;
    if (call->workspace == WORKSPACE_SKEWED) w->data = s->at + 4, w->bytes -= 4;
}

/* ---- What may be written ---------------------------------------------------------------------------------------- */

/* Marked, and not beyond the bytes that the caller gave. */
static void mask_element(void *user, const gdn_tensor *of, unsigned char *at, uint64_t bytes)
{
    const uint64_t offset = (uint64_t)(at - (unsigned char *)of->data) - of->offset,
                   unit = of->dtype == GDN_Q8_0 ? 1 : check_unit_bytes(of->dtype);
    FUZZ_REQUIRE(!of->bytes || offset + bytes <= of->bytes,
                 "an accepted call writes bytes %lld to %lld of an operand that has %llu", (long long)offset,
                 (long long)(offset + bytes), (unsigned long long)of->bytes);
    slab *s = arena_find(user, at, (size_t)bytes);
    FUZZ_REQUIRE(s, "an accepted call writes outside of all memory");
    unsigned char *mask = s->mask + (at - s->at);
    for (uint64_t i = 0; i < bytes; i++) mask[i] = (unsigned char)(i % unit ? MASK_INSIDE : 1 + of->dtype);
}

/* out, which is marked by now, overlaps no state, in whatever rows the call names. */
static void require_apart(void *user, unsigned char *at, uint64_t bytes)
{
    const slab *s = arena_find(user, at, (size_t)bytes);
    FUZZ_REQUIRE(s, "an accepted call has a pool outside of all memory");
    for (const unsigned char *mask = s->mask + (at - s->at), *end = mask + bytes; mask < end; mask++)
        FUZZ_REQUIRE(!*mask, "an accepted call writes out into a pool, %lld bytes from a line's begin",
                     (long long)(bytes - (uint64_t)(end - mask)));
}

static int is_ours(void *user, const void *at, uint64_t bytes) { return arena_find(user, at, (size_t)bytes) != NULL; }

/* ---- Judging ------------------------------------------------------------------------------------------------------
 */

enum { BLOCK = 256 };

/* All of a block is as it was and may not be written, or is written with the same bytes, and nothing needs a closer
 * look. */
static int same_block(const slab *s, size_t k)
{
    static const unsigned char no[BLOCK];
    if (k + BLOCK > s->bytes || memcmp(s->result + k, s->at + k, BLOCK)) return 0;
    return memcmp(s->mask + k, no, BLOCK) ? !memchr(s->mask + k, MASK_NO, BLOCK)
                                          : !memcmp(s->at + k, s->before + k, BLOCK);
}

/* `at` is what the reference made, `result` what the target made of `before`. */
static void compare(const char *implementation)
{
    for (int i = 0; i < memory.n; i++) {
        const slab *s = &memory.slabs[i];
        for (size_t k = 0; k < s->bytes;) {
            if (k % BLOCK == 0 && same_block(s, k)) { /* byte by byte would take most of the time */
                k += BLOCK;
                continue;
            }
            const int kind = s->mask[k];
            const int type = kind == MASK_NO || kind == MASK_INSIDE || kind == 1 + GDN_Q8_0
                                 ? -1
                                 : kind - 1; /* of an element, or a byte */
            const size_t n = type < 0 ? 1 : (size_t)check_unit_bytes(type);
            FUZZ_REQUIRE(kind != MASK_NO || s->result[k] == s->before[k],
                         "%s wrote byte %zu of slab %d, which it may not", implementation, k, i);
            FUZZ_REQUIRE(kind != MASK_NO || s->at[k] == s->before[k],
                         "the reference wrote byte %zu of slab %d, which it may not", k, i);
            FUZZ_REQUIRE(!memcmp(s->result + k, s->at + k, n) ||
                             (type >= 0 && check_is_nan(s->result + k, type) && check_is_nan(s->at + k, type)),
                         "%s and the reference differ at byte %zu of slab %d", implementation, k, i);
            k += n;
        }
    }
}

/* ---- What an input was, for the driver to choose seeds by. See fuzz_outcome(). -------------------------------- */

static char outcome[1024];

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

static const char *few(int64_t n) { return n > 1 ? "some" : n ? "1" : "no"; }
static const char *given(const void *data) { return data ? "given" : "absent"; }
static const char *pool_of(const gdn_pool *in, const gdn_pool *out)
{
    return !in->data ? "none" : !out->data ? "in place" : out->data == in->data ? "the same" : "apart";
}
static const char *form_of(const gdn_tensor *t)
{
    return t->stride[0] ? "by sequence" : t->stride[1] ? "with strides" : "packed";
}

static void say_refused(const fuzz_call *call, const char *text)
{
    char plain[256];
    size_t n = 0;
    for (const char *s = text; *s && n + 1 < sizeof plain;) {
        const size_t sign = *s == '-', digits = strspn(s + sign, "0123456789");
        const int number = digits && (s == text || s[-1] == ' ' || s[-1] == '[' || s[-1] == '.');
        plain[n++] = number ? '#' : *s;
        s += number ? sign + strspn(s + sign, "0123456789abcdefx") : 1; /* addresses, too */
    }
    plain[n] = 0;
    say("%s refused: %s\n", call->kernel->name, plain);
}

static void say_ran(const fuzz_call *call)
{
    const delta_call *delta = &call->args.gated_delta_net;
    const conv_call *conv = &call->args.ssm_conv;
    const gdn_gated_delta_net_args *d = &delta->args;
    const gdn_ssm_conv_args *c = &conv->args;
    const gdn_set_rows_args *r = &call->args.set_rows;
    if (call->kernel == &check_kernel_gated_delta_net) {
        say("gated_delta_net ran: gate %d, layout %d, pool %s\n", (int)d->gate, (int)d->state_layout,
            pool_of(&d->state, &d->state_out));
        say("gated_delta_net ran: q %d, k %d, v %d\n", (int)d->q.dtype, (int)d->k.dtype, (int)d->v.dtype);
        say("gated_delta_net ran: %s sequences, %s tokens, seq_start %s\n", few(d->n_seqs), few(d->n_tokens),
            given(d->seq_start.data));
        say("gated_delta_net ran: state_src %s, state_dst %s, %s snapshots, pool %s\n", given(d->state_src.data),
            given(d->state_dst.data), few(d->n_snapshots), pool_of(&d->state, &d->state_out));
        say("gated_delta_net ran: head_map %d, head_dim_k %d\n", (int)d->head_map, (int)d->head_dim_k);
        say("gated_delta_net ran: q %s, out %s\n", form_of(&d->q), form_of(&d->out));
        say("gated_delta_net ran: qk_norm %d, g_form %d, beta_form %d\n", (int)delta->inputs.qk_norm,
            (int)delta->inputs.gate_input, (int)delta->inputs.beta_input);
        if (delta->log.size)
            say("gated_delta_net ran: log, row %s, base_position %s, commit %s, %s snapshots\n",
                given(delta->log.row.data), given(delta->log.base_position.data), given(delta->log.commit.data),
                few(d->n_snapshots));
        if (delta->tree.size)
            say("gated_delta_net ran: tree, parent %s, gate %d, layout %d\n", given(delta->tree.parent.data),
                (int)d->gate, (int)d->state_layout);
        if (d->state.dtype != GDN_F32)
            say("gated_delta_net ran: state %d, interval %s, gate %d, layout %d\n", (int)d->state.dtype,
                few(delta->rounding.interval), (int)d->gate, (int)d->state_layout);
        if (delta->checkpoints.size)
            say("gated_delta_net ran: %s checkpoints, position %s, pool %s\n", few(delta->checkpoints.n),
                given(d->position.data), pool_of(&d->state, &d->state_out));
        say("gated_delta_net ran: g %d, beta %d, out %d\n", (int)d->g.dtype, (int)d->beta.dtype, (int)d->out.dtype);
    } else if (call->kernel == &check_kernel_ssm_conv) {
        say("ssm_conv ran: width %d, activation %d\n", (int)c->kernel_width, (int)c->activation);
        say("ssm_conv ran: %s sequences, %s tokens, seq_start %s, position %s\n", few(c->n_seqs), few(c->n_tokens),
            given(c->seq_start.data), given(c->position.data));
        say("ssm_conv ran: history_src %s, history_dst %s, pool %s\n", given(c->history_src.data),
            given(c->history_dst.data), pool_of(&c->history, &c->history_out));
        if (conv->tree.size)
            say("ssm_conv ran: tree, parent %s, pool %s\n", given(conv->tree.parent.data),
                pool_of(&c->history, &c->history_out));
        if (conv->checkpoints.size)
            say("ssm_conv ran: %s checkpoints, position %s, pool %s\n", few(conv->checkpoints.n),
                given(c->position.data), pool_of(&c->history, &c->history_out));
        say("ssm_conv ran: bias %s, x %s, out %s\n", given(c->bias.data), form_of(&c->x), form_of(&c->out));
        say("ssm_conv ran: x %d, weight %d, out %d, history %d\n", (int)c->x.dtype, (int)c->weight.dtype,
            (int)c->out.dtype, (int)c->history.dtype);
    } else {
        say("set_rows ran: from %d to %d by %d\n", (int)r->src.dtype, (int)r->dst.dtype, (int)r->index.dtype);
        say("set_rows ran: %s rows, %s by %s batches, %s by %s of the index\n", few(r->n_rows), few(r->n_batch[0]),
            few(r->n_batch[1]), few(r->index_batch[0]), few(r->index_batch[1]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_call call;
    gdn_capability answer, other;
    char said[512];
    outcome[0] = 0;
    if (!reference) open_targets();
    fuzz_decode(data, size, &memory, &call);
    gdn_context *ctx = target[call.implementation % n_targets];
    slab *pieces[MAX_PIECES], *args;
    take_args(&call, pieces);
    args = pieces[0];
    const int operands = memory.n;
    place_args(&call, pieces);
    arena_remember(&memory);

    const gdn_status asked = ask(ctx, &call, args, &answer);
    require_unwritten("the query", asked);
    FUZZ_REQUIRE(asked || call.mutations || (answer.supported && answer.exact), "a valid call is not supported: %s",
                 answer.reason);
    (void)snprintf(said, sizeof said, "%s", gdn_last_error());
    if (!asked) {
        give_workspace(&call, answer.workspace_bytes);
        place_args(&call, pieces);
        arena_remember(&memory);
    }
    const gdn_status status = run_kernel(&call, ctx, args->at);
    arena_check_canaries(&memory);
    count(&call, status);
    FUZZ_REQUIRE(call.mutations || !status, "a valid call was refused: %s", gdn_last_error());
    /* Texts may differ: the call reads the maps first. */
    FUZZ_REQUIRE(!asked || status, "the call ran, but the query says \"%s\"", said);
    if (status) {
        FUZZ_REQUIRE(status == GDN_INVALID_ARGUMENT && gdn_last_error()[0], "refused with %s and \"%s\"",
                     gdn_status_name(status), gdn_last_error());
        require_unwritten("the call", status);
    } else {
        const check_writes writes = { &memory, mask_element, require_apart, is_ours };
        const char *wrong = call.kernel->writes(&call.args, &writes);
        FUZZ_REQUIRE(!wrong, "an accepted call has a bad value in %s, or reads beyond it", wrong);
        for (int i = 0; i < memory.n; i++) memcpy(memory.slabs[i].result, memory.slabs[i].at, memory.slabs[i].bytes);
    }
    (void)snprintf(said, sizeof said, "%s", gdn_last_error());
    if (status && call.workspace == WORKSPACE_GOOD) say_refused(&call, said);
    else if (call.workspace == WORKSPACE_GOOD) say_ran(&call);

    /* The reference needs no workspace, so it cannot refuse a wrong one. */
    memory.n = operands;
    arena_restore(&memory);
    *check_workspace(call.kernel, &call.args) = (gdn_span){ 0 };
    place_args(&call, pieces);
    memcpy(args->before, args->at, args->bytes); /* the workspace is absent now */
    memcpy(args->result, args->at, args->bytes);
    FUZZ_REQUIRE(ask(reference, &call, args, &other) == asked, "the reference's query disagrees");
    const gdn_status expected = run_kernel(&call, reference, args->at);
    arena_check_canaries(&memory);
    if (call.workspace != WORKSPACE_GOOD && status) {
        FUZZ_REQUIRE(expected ? !strcmp(said, gdn_last_error()) || strstr(said, "workspace") != NULL
                              : strstr(said, "workspace") != NULL,
                     "refused with \"%s\", and not for the workspace", said);
        return 0;
    }
    FUZZ_REQUIRE(expected == status && (!status || !strcmp(said, gdn_last_error())),
                 "%s: \"%s\", the reference: %s: \"%s\"", gdn_status_name(status), said, gdn_status_name(expected),
                 gdn_last_error());
    if (!status) compare(answer.implementation);
    return 0;
}
