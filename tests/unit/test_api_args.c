/* Every argument out of its documented range: the status, what the text says, and that nothing is written. */
#include "test_api.h"

#include "check/environment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;
static gdn_ssm_conv_args *const c = &conv_args.args;
static gdn_set_rows_args *const r = &rows_args;

/* "member is value": what every text about a number begins with. */
static const char *is(const char *member, long long value)
{
    static char text[4][128];
    static int next;
    next = (next + 1) % 4;
    (void)snprintf(text[next], sizeof text[next], "%s is %lld", member, value);
    return text[next];
}

/* ---- Sizes --------------------------------------------------------------------------------------------- */

/* `with` makes the part whose member it is. */
static void refuse_sizes(const api_fixture *f, void (*with)(void), const char *member, size_t field,
                         const int64_t *values, size_t n, int wide, const char *allowed)
{
    for (size_t i = 0; i < n; i++) {
        f->reset();
        if (with) with();
        const int32_t narrow = (int32_t)values[i];
        memcpy((char *)f->args + field, wide ? (const void *)&values[i] : (const void *)&narrow, wide ? 8 : 4);
        api_refuse(f, __LINE__, GDN_INVALID_ARGUMENT, (const char *const[]){ is(member, values[i]), allowed, NULL });
    }
}
#define SIZES(f, with, call, of, member, wide, allowed, ...)                                                           \
    refuse_sizes(&(f), with, #member, offsetof(call, of member), (const int64_t[]){ __VA_ARGS__ },                     \
                 sizeof((const int64_t[]){ __VA_ARGS__ }) / 8, wide, allowed)
#define DELTA(member, allowed, ...) SIZES(on_delta, NULL, delta_call, args., member, 0, allowed, __VA_ARGS__)
#define INPUT(member, allowed, ...) SIZES(on_delta, with_inputs, delta_call, , member, 0, allowed, __VA_ARGS__)
#define CONV(member, allowed, ...)  SIZES(on_conv, NULL, conv_call, args., member, 0, allowed, __VA_ARGS__)
#define ROWS(member, allowed, ...)  SIZES(on_rows, NULL, gdn_set_rows_args, , member, 1, allowed, __VA_ARGS__)

static void with_inputs(void) { (void)inputs(); }

static void delta_sizes(void)
{
    DELTA(n_seqs, "0 to 16777216 are allowed", -1, INT32_MIN, 16777217, INT32_MAX);
    DELTA(n_tokens, "0 to 2147483647 are allowed", -1, INT32_MIN);
    DELTA(n_heads_k, "1 to 65536 are allowed", 0, -1, 65537, INT32_MAX);
    DELTA(n_heads_v, "1 to 65536 are allowed", 0, -4, 65537, INT32_MIN);
    DELTA(head_dim_k, "16 to 256 are allowed", 0, 15, 257, -16, INT32_MAX);
    DELTA(head_dim_v, "16 to 256 are allowed", 0, 15, 257, -16, INT32_MAX);
    DELTA(head_map, "0 to 1 are allowed", -1, 2);
    DELTA(gate, "0 to 1 are allowed", -1, 2);
    DELTA(state_layout, "0 to 1 are allowed", -1, 2);
    DELTA(state.n_rows, "1 to 2147483647 are allowed", 0, -1, INT32_MIN);
    DELTA(state.n_slots, "1 to 2147483647 are allowed", 0, -1);
    DELTA(state_out.n_rows, "1 to 2147483647 are allowed", -1, INT32_MIN);
    DELTA(n_snapshots, "0 to 1048576 are allowed", -1, 1048577);
    REFUSED(on_delta, (d->state_out.n_rows = 3, d->state_out.n_slots = 0), "state_out.n_slots is 0; 1 to");
    REFUSED(on_delta, (d->state_out = d->state, d->state_out.n_slots = -1), "state_out.n_slots is -1; 1 to");
    REFUSED(on_delta, (d->state_out = d->state, d->state_out.n_rows = 0), "state_out.n_rows is 0; 1 to");
    REFUSED(on_delta, d->n_snapshots = 0, "n_snapshots is 0 and state_dst is given");
    REFUSED(on_delta, d->n_heads_v = 3, "n_heads_v is 3 and n_heads_k is 2", "multiple");
    REFUSED(on_delta, (d->state.n_rows = 65536, d->state.n_slots = 32768), "state.n_rows * n_slots is 2147483648");
    REFUSED(on_delta, d->state.reserved = 1, "state.reserved is 1; it must be 0");
    REFUSED(on_delta, (d->n_seqs = 1 << 24, d->n_snapshots = 1 << 10), "n_seqs * n_snapshots is 17179869184");
    REFUSED(on_delta, (d->state_out = d->state, d->state_out.n_rows = 65536, d->state_out.n_slots = 32768),
            "state_out.n_rows * n_slots is 2147483648");
    INPUT(inputs.qk_norm, "0 to 2 are allowed", -1, 3);
    INPUT(inputs.gate_input, "0 to 4 are allowed", -1, 5, INT32_MAX);
    REFUSED(on_delta, inputs()->lower_bound = -5, "inputs.lower_bound is -5", "must be 0");
    REFUSED(on_delta, inputs()->gate_input = GDN_G_BOUNDED, "inputs.lower_bound is 0", "a negative one");
    REFUSED(on_delta, (inputs()->gate_input = GDN_G_BOUNDED, inputs()->lower_bound = 5), "inputs.lower_bound is 5 and",
            "a negative one");
    REFUSED(on_delta, (inputs()->gate_input = GDN_G_BOUNDED, inputs()->lower_bound = -INFINITY),
            "inputs.lower_bound is -inf", "finite");
    INPUT(inputs.beta_input, "0 to 1 are allowed", -1, 2);
    REFUSED(on_delta, inputs()->beta_factor = 0, "inputs.beta_factor is 0; set it", "1 by GDN_INIT");
    REFUSED(on_delta, inputs()->beta_factor = -0.0f, "inputs.beta_factor is 0; set it");
    REFUSED(on_delta, inputs()->beta_factor = INFINITY, "inputs.beta_factor is inf", "finite");
    REFUSED(on_delta, (inputs()->qk_norm = GDN_NORM_ADD, inputs()->qk_norm_eps = NAN), "inputs.qk_norm_eps is nan",
            "finite");
    REFUSED(on_delta, (inputs()->qk_norm = GDN_NORM_ADD, inputs()->qk_norm_eps = -1e-6f),
            "inputs.qk_norm_eps is -1e-06", "0 and above");
    REFUSED(on_delta, inputs()->qk_norm_eps = 1e-6f, "inputs.qk_norm_eps is 1e-06", "GDN_NORM_NONE");
    REFUSED(on_delta, inputs()->ssm_a = d->beta, "inputs.ssm_a is given and inputs.gate_input is 0", "GDN_G_RAW (2)");
    REFUSED(on_delta, (inputs()->gate_input = GDN_G_LINEAR, inputs()->dt_bias = d->beta),
            "inputs.dt_bias is given and inputs.gate_input is 1");
    REFUSED(on_delta, inputs()->gate_input = GDN_G_RAW, "inputs.ssm_a.data is NULL");
    REFUSED(on_delta, d->n_seqs = 0, "n_seqs is 0 and n_tokens is 5");
    REFUSED(on_delta, (d->state_out.n_rows = 2, d->state_out.n_slots = 1),
            "state_out.n_rows is 2 and state_out.data is NULL", "both or neither");
    REFUSED(on_delta, d->state_out.n_slots = 2, "state_out.n_rows is 0");
    REFUSED(on_delta, d->state_out.n_slots = -1, "state_out.n_rows is 0");
}

/* In every floating-point mode of the caller, with the same text. */
static void scales(void)
{
    static const struct {
        uint32_t bits;
        const char *text;
    } bad[] = { { 0x7f800000u, "scale is inf;" },      { 0x00000000u, "scale is 0; set it" },
                { 0x80000000u, "scale is 0; set it" }, { 0xff800000u, "scale is -inf;" },
                { 0x7fc00000u, "scale is nan;" },      { 0x7f800001u, "scale is nan;" },
                { 0xffa00000u, "scale is -nan;" } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int mode = 0; mode < CHECK_ENV_COUNT; mode++) {
            on_delta.reset();
            memcpy(&d->scale, &bad[i].bits, 4);
            const uint64_t caller = check_environment_enter(mode);
            api_refuse(&on_delta, __LINE__, GDN_INVALID_ARGUMENT,
                       (const char *const[]){ bad[i].text, i == 1 || i == 2 ? "GDN_INIT" : "finite", NULL });
            check_environment_put(caller);
        }
}

static void conv_sizes(void)
{
    CONV(n_seqs, "0 to 16777216 are allowed", -1, 16777217, INT32_MIN);
    CONV(n_tokens, "0 to 2147483647 are allowed", -1, INT32_MIN);
    CONV(n_channels, "1 to 2147483647 are allowed", 0, -1, INT32_MIN);
    CONV(kernel_width, "1 to 16 are allowed", 0, 17, -1, INT32_MAX);
    REFUSED(on_conv, (c->kernel_width = INT32_MIN, c->history.n_slots = 0), "kernel_width is -2147483648");
    CONV(activation, "0 to 1 are allowed", -1, 2, INT32_MIN, INT32_MAX);
    CONV(history.n_rows, "1 to 2147483647 are allowed", 0, -1);
    CONV(history.n_slots, "3 to 2147483647 are allowed", 2, 1, 0, -1);
    REFUSED(on_conv, (c->history_out = c->history, c->history_out.n_rows = -1), "history_out.n_rows is -1; 1 to");
    REFUSED(on_conv, (c->history_out = c->history, c->history_out.n_rows = 0), "history_out.n_rows is 0; 1 to");
    REFUSED(on_conv, (c->history_out = c->history, c->history_out.n_slots = 4),
            "history_out.n_slots is 4 and history.n_slots is 5; they must be the same");
    REFUSED(on_conv, (c->history_out = c->history, c->history_out.n_slots = 0), "history_out.n_slots is 0 and");
    REFUSED(on_conv, c->n_seqs = 0, "n_seqs is 0 and n_tokens is 5");
    REFUSED(on_conv, c->history_out.n_rows = -1, "history_out.n_rows is -1; 1 to");
    REFUSED(on_conv, c->history_out.n_slots = 5, "history_out.n_rows is 0; 1 to");
    REFUSED(on_conv, c->history_out.n_slots = -7, "history_out.n_rows is 0; 1 to");
    REFUSED(on_conv, (c->history_out.n_rows = 2, c->history_out.n_slots = 5),
            "history_out.n_rows is 2 and history_out.data is NULL", "both or neither");
    REFUSED(on_conv, c->history.data = NULL, "history.n_rows is 3 and history.data is NULL", "both or neither");
    REFUSED(on_conv, (c->history.data = NULL, c->history.n_rows = 0), "history.n_rows is 0; 1 to");
    REFUSED(on_conv, (c->history_out = c->history, c->history.data = NULL, c->history.n_rows = c->history.n_slots = 0),
            "history_out is given and history is absent");
}

static void rows_sizes(void)
{
    const int64_t huge = ((int64_t)1 << 40) + 1;
    ROWS(n_columns, "1 to 1099511627776 are allowed", 0, -1, huge, INT64_MIN);
    ROWS(n_rows, "0 to 1099511627776 are allowed", -1, huge, INT64_MAX);
    ROWS(n_rows_dst, "1 to 1099511627776 are allowed", 0, -1, huge);
    ROWS(n_batch[0], "1 to 1073741824 are allowed", -1, 1073741825, INT64_MAX);
    ROWS(n_batch[1], "1 to 1073741824 are allowed", -1, 1073741825);
    ROWS(index_batch[0], "1 to 2 are allowed", -1, 3, INT64_MAX);
    ROWS(index_batch[1], "1 to 1 are allowed", -1, 2);
    for (int i = 0; i < 2; i++) { /* of a struct that was only zeroed */
        REFUSED(on_rows, r->n_batch[i] = 0, i ? "n_batch[1] is 0" : "n_batch[0] is 0", "set it, 1 by GDN_INIT");
        REFUSED(on_rows, r->index_batch[i] = 0, i ? "index_batch[1] is 0" : "index_batch[0] is 0",
                "set it, 1 by GDN_INIT");
    }
    REFUSED(on_rows, (r->n_batch[0] = 3, r->index_batch[0] = 2), "index_batch[0] is 2", "n_batch[0]", "3");
    REFUSED(on_rows, r->flags = 1, "flags is 0x1", "must be 0");
    REFUSED(on_rows, (r->dst.dtype = GDN_Q8_0, r->n_columns = 31), "dst has rows of 31 elements", "multiple of 32");
}

/* ---- Operands: the same mistakes for each -------------------------------------------------------------- */

static gdn_tensor *tensor_of(const api_fixture *f, const check_operand *o)
{
    f->reset();
    return check_tensor(f->args, o);
}

/* It begins as a tensor does. */
static int is_pool(const check_operand *o)
{
    return !strncmp(o->name, "state", 5) || !strncmp(o->name, "history", 7) || !strcmp(o->name, "log.entries");
}

static void refuse_operand(const api_fixture *f, int line, const char *name, const char *member, const char *text)
{
    char about[64];
    (void)snprintf(about, sizeof about, "%s%s", name, member);
    api_refuse(f, line, GDN_INVALID_ARGUMENT, (const char *const[]){ about, text, NULL });
}
#define OPERAND(change, member, text)                                                                                  \
    do {                                                                                                               \
        gdn_tensor *t = tensor_of(f, o);                                                                               \
        change;                                                                                                        \
        refuse_operand(f, __LINE__, o->name, member, text);                                                            \
    } while (0)

static void refuse_strides(const api_fixture *f, const check_operand *o)
{
    const int alignment = (int)check_alignment(tensor_of(f, o)->dtype);
    char member[32];
    for (int a = 0; a < 4; a++) {
        (void)snprintf(member, sizeof member, ".stride[%d] is ", a);
        if (a >= o->n_axes) {
            OPERAND(t->stride[a] = 1024, member, "the others must be 0");
            continue;
        }
        OPERAND(t->stride[a] = -4, member, "-4; 0 (packed) to 2^56 - 1 are allowed");
        OPERAND(t->stride[a] = INT64_MIN, member, "are allowed");
        OPERAND(t->stride[a] = INT64_MAX, member, "are allowed");
        OPERAND(t->stride[a] = (int64_t)1 << 56, member, "are allowed");
        OPERAND(t->stride[a] = 4096 + alignment / 2, member, "needs a multiple of");
        OPERAND(t->stride[a] = 4097, member, "needs a multiple of");
    }
}

static void operands(void)
{
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for
            EACH_OPERAND(f, o)
            {
                const int alignment = (int)check_alignment(tensor_of(f, o)->dtype);
                char bytes[64], offset[64];
                (void)snprintf(bytes, sizeof bytes, ".bytes is %llu; the call reaches %llu",
                               (unsigned long long)tensor_of(f, o)->bytes - 1,
                               (unsigned long long)tensor_of(f, o)->bytes);
                (void)snprintf(offset, sizeof offset, "it must be a multiple of %d", alignment);
                OPERAND(t->dtype = -1, ".dtype is -1 (?)", "allowed: ");
                OPERAND(t->dtype = GDN_DIGITS3, ".dtype is 7 (DIGITS3)", "allowed: ");
                OPERAND(t->dtype = 8, ".dtype is 8 (?)", "allowed: ");
                OPERAND(t->dtype = INT32_MAX, ".dtype is ", "allowed: ");
                OPERAND(t->dtype = strcmp(o->name, "index") ? GDN_I32 : GDN_F32, ".dtype is ", "allowed: ");
                if (!is_pool(o)) OPERAND(t->reserved = 1, ".reserved is 1", "must be 0");
                OPERAND(t->bytes--, "", bytes);
                OPERAND(t->bytes = 1, ".bytes is 1", "the call reaches");
                OPERAND(t->offset = (uint64_t)1 << 56, ".offset is", "below 2^56");
                OPERAND(t->offset = UINT64_MAX, ".offset is", "below 2^56");
                OPERAND((t->data = (char *)t->data + 1, t->bytes = 0), " begins at", offset);
                OPERAND((t->offset = (uint64_t)alignment / 2, t->bytes = 0), " begins at", offset);
                if (!o->optional) OPERAND(t->data = NULL, ".data is NULL", "the call reaches");
                refuse_strides(f, o);
            }
        for
            EACH_MAP(f, o)
            {
                f->reset();
                gdn_span *s = check_span(f->args, o);
                s->bytes--;
                refuse_operand(f, __LINE__, o->name, ".bytes is", "the call reaches");
                f->reset();
                s->data = (char *)s->data + 2;
                s->bytes = 0;
                refuse_operand(f, __LINE__, o->name, " begins at", "multiple of 4");
                f->reset();
                s->offset = (uint64_t)1 << 56;
                refuse_operand(f, __LINE__, o->name, ".offset is", "below 2^56");
            }
    }
}

/* Which element types an operand takes is listed in the text; each of the others is refused by its name. */
static void dtypes(void)
{
    enum { FLOATS = 1 << GDN_F32 | 1 << GDN_F16 | 1 << GDN_BF16, TYPES = GDN_DIGITS3 + 2 /* one that there is not */ };
    static const char *const names[TYPES] = { "F32", "F16", "BF16", "Q8_0", "I32", "I64", "DIGITS2", "DIGITS3", "?" };
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for
            EACH_OPERAND(f, o)
            {
                const int index = !strcmp(o->name, "index"), dst = !strcmp(o->name, "dst");
                const int taken = index ? 1 << GDN_I32 | 1 << GDN_I64 : dst ? FLOATS | 1 << GDN_Q8_0 : FLOATS;
                const char *const says = index ? ": I32, I64" : dst ? ": F32, F16, BF16, Q8_0" : ": F32, F16, BF16";
                for (int32_t dtype = 0; dtype < TYPES; dtype++) {
                    char member[32];
                    if (taken >> dtype & 1) continue;
                    (void)snprintf(member, sizeof member, ".dtype is %d (%s)", (int)dtype, names[dtype]);
                    tensor_of(f, o)->dtype = dtype;
                    refuse_operand(f, __LINE__, o->name, member, says);
                }
            }
    }
    REFUSED(on_delta, (inputs()->gate_input = GDN_G_RAW, inputs()->ssm_a = d->beta, inputs()->ssm_a.dtype = GDN_Q8_0),
            "inputs.ssm_a.dtype is 3 (Q8_0)", "allowed: F32, F16, BF16");
    REFUSED(on_delta, (d->state_out = d->state, d->state_out.dtype = GDN_Q8_0), "state_out.dtype is 3 (Q8_0)",
            "allowed: F32, F16, BF16");
}

static void conv_dtypes(void)
{
    REFUSED(on_conv, (c->history_out = c->history, c->history_out.dtype = GDN_BF16), "history_out.dtype is 2 (BF16)",
            "history.dtype is 0 (F32)");
    REFUSED(on_conv, (c->history_out = c->history, c->history.dtype = GDN_F16), "history_out.dtype is 0 (F32)",
            "history.dtype is 1 (F16)");
    REFUSED(on_conv, (c->x.dtype = GDN_BF16, c->x.stride[1] = 81), "x.stride[1] is 81", "BF16 needs a multiple of 2");
}

/* Sizes and addresses whose sums and products do not fit. */
static void overflows(void)
{
    const int64_t far = (int64_t)1 << 55; /* 512 times that is 0 in 64 bits */
    void *const last = (void *)(UINTPTR_MAX - 63);
    REFUSED(on_rows, (r->n_rows_dst = 513, r->dst.stride[2] = far, r->dst.bytes = 0), "dst covers 2^56 bytes or more");
    REFUSED(on_delta, (d->out.stride[1] = far, d->out.bytes = 0), "out covers 2^56 bytes or more");
    REFUSED(on_delta, (d->q.data = last, d->q.bytes = 0), "q begins at", "beyond the end of memory");
    REFUSED(on_conv, (c->x.data = last, c->x.offset = 64, c->x.bytes = 0), "x begins at 0", "beyond the end of memory");
    REFUSED(on_conv, (c->seq_start.data = last, c->seq_start.offset = 128, c->seq_start.bytes = 0),
            "seq_start begins at 0x40", "beyond the end of memory");
}

/* Rows of an operand must not share bytes, read or written. */
typedef struct overlap {
    int axis, stride;
    const char *says;
} overlap;
static void refuse_overlaps(const api_fixture *f, int64_t *stride, const char *name, const overlap *of, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char member[32];
        (void)snprintf(member, sizeof member, ".stride[%d] is %d", of[i].axis, of[i].stride);
        f->reset();
        stride[of[i].axis] = of[i].stride;
        refuse_operand(f, __LINE__, name, member, of[i].says);
    }
}
#define OVERLAPS(f, args, operand, ...)                                                                                \
    refuse_overlaps(&(f), (args)->operand.stride, #operand, (const overlap[]){ __VA_ARGS__ },                          \
                    sizeof((const overlap[]){ __VA_ARGS__ }) / sizeof(overlap))
/* A stride of sequence 0's place that is a token's, of a ragged operand; the text names what was set, not a packed one.
 */
static void strides_of_tokens(void)
{
    OVERLAPS(
        on_delta, d, q, { 2, 60, "head axis" }, { 1, 64, "token axis" },
        { 0, 320, "of the sequence axis, so that rows of q overlap; 0 (sequences follow each other) and at least" });
    OVERLAPS(on_delta, d, v, { 1, 4, "token axis" });
    OVERLAPS(on_delta, d, out, { 0, 512, "sequence axis" });
    OVERLAPS(on_conv, c, x, { 1, 4, "token axis" }, { 0, 80, "sequence axis" });
    OVERLAPS(on_rows, r, src, { 2, 4, "row axis" });
}

static void strides_of_results(void)
{
    OVERLAPS(on_delta, d, out, { 2, 124, "at least 128 bytes" }, { 1, 508, "at least 512 bytes" },
             { 0, 256, "overlap" });
    OVERLAPS(on_delta, d, state, { 3, 60, "at least 64 bytes" }, { 2, 1024, "at least 2048 bytes" },
             { 1, 4, "overlap" }, { 0, 12288, "overlap" });
    OVERLAPS(on_conv, c, out, { 1, 76, "at least 80 bytes" });
    OVERLAPS(on_conv, c, history, { 1, 40, "at least 80 bytes" }, { 0, 240, "at least 400 bytes" });
    OVERLAPS(on_rows, r, dst, { 2, 62, "at least 64 bytes" }, { 0, 2, "overlap" });
}

/* ---- Workspace, stream, struct sizes ---------------------------------------------------------------------- */

static void workspaces(void)
{
    int needed = 0;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for (int i = 0; i < api_target_count; i++) {
            gdn_context *ctx = api_target_list[i].ctx;
            gdn_capability cap = { .size = sizeof cap };
            f->reset();
            memcpy(f->before, f->memory, f->memory_bytes);
            REQUIRE(f->kernel->query(ctx, f->args, &cap) == GDN_OK);
            if (!cap.workspace_bytes) continue; /* this implementation works without */
            needed++;
            char bytes[64];
            (void)snprintf(bytes, sizeof bytes, "%llu bytes", (unsigned long long)cap.workspace_bytes);
#define WORKSPACE(change, text1, text2)                                                                                \
    do {                                                                                                               \
        f->reset();                                                                                                    \
        gdn_span *w = check_workspace(f->kernel, f->args);                                                             \
        change;                                                                                                        \
        REQUIRE(f->kernel->run(ctx, f->args, NULL) == GDN_INVALID_ARGUMENT);                                           \
        REQUIRE(strstr(gdn_last_error(), text1));                                                                      \
        REQUIRE(strstr(gdn_last_error(), text2));                                                                      \
        REQUIRE(!memcmp(f->memory, f->before, f->memory_bytes));                                                       \
    } while (0)
            WORKSPACE(w->data = NULL, "workspace.data is NULL", bytes);
            WORKSPACE(w->bytes = cap.workspace_bytes - 1, "workspace.bytes is", bytes);
            WORKSPACE(w->data = (char *)w->data + 32, "workspace begins at", "multiple of 64");
            WORKSPACE(w->offset = 1, "workspace begins at", "multiple of 64");
            WORKSPACE(w->offset = (uint64_t)1 << 56, "workspace.offset is", "below 2^56");
            /* Each operand and map in turn; the first one is in front of the others, so the workspace is
             * long enough to reach several. */
            for
                EACH_OPERAND(f, o)
                {
                    gdn_tensor *t = tensor_of(f, o);
                    WORKSPACE((w->data = t->data, w->bytes = 0), "overlaps", "workspace");
                }
            for
                EACH_MAP(f, o)
                {
                    gdn_span *s = check_span(f->args, o);
                    f->reset();
                    WORKSPACE((w->data = s->data, w->bytes = 0), "overlaps", "workspace");
                }
        }
    }
    printf("workspace is needed by %d of %d pairs of kernel and target\n", needed,
           CHECK_KERNEL_COUNT * api_target_count);
}

static void streams(void)
{
    int on_the_stack;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        for (int i = 0; i < api_target_count; i++) {
            api_fixtures[k]->reset();
            memcpy(api_fixtures[k]->before, api_fixtures[k]->memory, api_fixtures[k]->memory_bytes);
            REQUIRE(api_fixtures[k]->kernel->run(api_target_list[i].ctx, api_fixtures[k]->args, &on_the_stack) ==
                    GDN_INVALID_ARGUMENT);
            REQUIRE(strstr(gdn_last_error(), "stream is "));
            REQUIRE(strstr(gdn_last_error(), "must be NULL"));
            REQUIRE(!memcmp(api_fixtures[k]->memory, api_fixtures[k]->before, api_fixtures[k]->memory_bytes));
        }
}

/* ---- Contents of maps ------------------------------------------------------------------------------------ */

static void delta_maps(void)
{
    delta_memory *m = &delta_mem;
    REFUSED(on_delta, m->seq_start[0] = -1, "seq_start[0] is -1; 0 ");
    REFUSED(on_delta, m->seq_start[1] = 6, "seq_start[1] is 6; 0 ", "to 5 (n_tokens)");
    REFUSED(on_delta, MAP(m->seq_start, 3, 2, 5), "seq_start[1] is 2; 3 (the entry before)");
    REFUSED(on_delta, m->seq_start[2] = 6, "seq_start[2] is 6", "to 5");
    REFUSED(on_delta, m->seq_start[2] = INT32_MAX, "seq_start[2] is 2147483647");
    REFUSED(on_delta, m->seq_start[2] = INT32_MIN, "seq_start[2] is -2147483648");
    REFUSED(on_delta, m->state_src[1] = -3, "state_src[1] is -3; 0 to 5, GDN_NONE and GDN_SKIP are allowed");
    REFUSED(on_delta, m->state_src[0] = 6, "state_src[0] is 6; 0 to 5");
    REFUSED(on_delta, m->state_src[0] = INT32_MIN, "state_src[0] is -2147483648");
    /* Entries that are used, in sequences that have tokens; see unused_entries in test_api_calls.c. */
    REFUSED(on_delta, m->state_dst[1] = 6, "state_dst[0][1] is 6; 0 to 5 and GDN_NONE are allowed");
    REFUSED(on_delta, m->state_dst[2] = GDN_SKIP, "state_dst[1][0] is -2; 0 to 5");
    REFUSED(on_delta, m->state_dst[3] = INT32_MAX, "state_dst[1][1] is 2147483647");
    /* Written twice: by one sequence, and by two. */
    REFUSED(on_delta, MAP(m->state_dst, 1, 1, 2, -1), "state_dst[0][1] is 1", "which state_dst[0][0] writes too");
    REFUSED(on_delta, MAP(m->state_dst, 1, 0, 2, 1), "state_dst[1][1] is 1", "which state_dst[0][0] writes too");
    /* Sequence 1 reads slot 3, which sequence 0 writes; its own slot it may write. */
    REFUSED(on_delta, MAP(m->state_dst, 3, 0, 2, -1), "state_src[1] is 3", "another sequence", "state_dst");
    REFUSED(on_delta, MAP(m->state_src, 0, 1), "state_src[1] is 1", "another sequence", "state_dst");
}

static void conv_maps(void)
{
    conv_memory *m = &conv_mem;
    REFUSED(on_conv, m->seq_start[1] = -1, "seq_start[1] is -1; 0 ");
    REFUSED(on_conv, m->position[0] = -1, "position[0] is -1; 0 to 2147483645 are allowed for its 2 tokens");
    REFUSED(on_conv, m->position[1] = INT32_MAX - 2, "position[1] is 2147483645; 0 to 2147483644", "3 tokens");
    REFUSED(on_conv, m->position[1] = INT32_MIN, "position[1] is -2147483648");
    REFUSED(on_conv, m->history_src[0] = 3, "history_src[0] is 3; 0 to 2, GDN_NONE and GDN_SKIP are allowed");
    REFUSED(on_conv, m->history_src[1] = -3, "history_src[1] is -3");
    REFUSED(on_conv, m->history_dst[0] = 3, "history_dst[0]", "is 3; 0 to 2 and GDN_NONE are allowed");
    REFUSED(on_conv, m->history_dst[1] = GDN_SKIP, "history_dst[1]", "is -2");
    REFUSED(on_conv, MAP(m->history_dst, 2, 2), "history_dst[1]", "is 2", "which history_dst[0] writes too");
    REFUSED(on_conv, MAP(m->history_dst, 1, 2), "history_src[1] is 1", "another sequence", "history_dst");
    REFUSED(on_conv, (c->history.data = NULL, c->history.n_rows = c->history.n_slots = 0), "history_src[0] is 0");
    REFUSED(on_conv, (c->history_src.data = NULL, c->history.n_rows = 1, MAP(m->history_dst, 0, -1)),
            "n_seqs (without history_src) is 2; 0 to 1");
    REFUSED(on_conv, (c->history_dst.data = NULL, c->history.n_rows = 1, MAP(m->history_src, 0, -1)),
            "n_seqs (without history_dst) is 2; 0 to 1");
    REFUSED(on_conv, c->seq_start.data = NULL, "n_tokens is 5 and n_seqs is 2");
}

/* ---- Overlaps -------------------------------------------------------------------------------------------- */

static void overlaps(void)
{
    /* Each written operand on each other operand and map. */
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for
            EACH_OPERAND(f, o)
        for (int map = 0; o->written && map < 2; map++)
            for (const check_operand *w = api_next(f, NULL, map); w; w = api_next(f, w, map)) {
                if (w == o) continue;
                gdn_tensor *to = tensor_of(f, o), *at = check_tensor(f->args, w);
                /* The first element of one is the first of a map, or the last of the other. */
                to->data = *check_data(f->args, w);
                if (!map) to->data = (char *)at->data + at->bytes - check_alignment(at->dtype);
                to->bytes = 0;
                api_refuse(f, __LINE__, GDN_INVALID_ARGUMENT,
                           (const char *const[]){ o->name, "is written and overlaps", NULL });
            }
    }
    /* A second pool: the same one shifted, or with other strides, is neither the same nor apart. */
    REFUSED(on_delta, (d->state_out = d->state, d->state_out.bytes = 0, d->state_out.offset = 4), "state_out",
            "overlaps state ");
    REFUSED(on_delta, (d->state_out = d->state, d->state_out.n_rows = 6, d->state_out.n_slots = 1, d->n_snapshots = 2),
            "state_out", "overlaps state ");
    REFUSED(on_delta, d->state_out = ((gdn_pool){ .data = delta_mem.out, .n_rows = 3, .n_slots = 2 }), "out",
            "overlaps");
    REFUSED(on_conv, (c->history_out = c->history, c->history_out.bytes = 0, c->history_out.offset = 80), "history_out",
            "overlaps history ");
}

/* States of two heads in slots of `unit` bytes, every other unit of the memory; out is to lie in the units between. */
enum { SLOT = 2 * 32 * 16 * 4, COLUMN = 20 * 4 };

static void apart_slots(int row_units, int n_rows, int n_rows_out)
{
    d->n_heads_v = 2;
    d->state.n_rows = n_rows;
    d->state.bytes = d->out.bytes = 0;
    d->state.stride[0] = row_units * SLOT, d->state.stride[1] = 2 * SLOT;
    d->out.data = (char *)d->state.data + SLOT, d->out.stride[1] = 2 * SLOT;
    if (n_rows_out) {
        d->state_out = d->state;
        d->state_out.n_rows = n_rows_out;
    }
    MAP(delta_mem.state_src, GDN_NONE, 1);
    MAP(delta_mem.state_dst, 0, GDN_NONE, 1, GDN_NONE);
}

static void apart_columns(int row_units, int n_rows, int n_rows_out)
{
    c->history.n_rows = n_rows, c->history.n_slots = 3;
    c->history.bytes = c->out.bytes = 0;
    c->history.stride[0] = row_units * COLUMN, c->history.stride[1] = 2 * COLUMN;
    c->out.data = (char *)c->history.data + COLUMN, c->out.stride[1] = 2 * COLUMN;
    if (n_rows_out) c->history_out = c->history, c->history_out.n_rows = n_rows_out;
    MAP(conv_mem.history_src, GDN_NONE, 0);
    MAP(conv_mem.history_dst, GDN_NONE, 0);
}

/* out between the slots of a state. If rows do not begin at a multiple of a slot's stride, the second row overlaps out.
 * That holds also if the tensor that is read, or the one that is written, has fewer rows. */
static void interleaved(void)
{
    REFUSED(on_delta, apart_slots(5, 2, 0), "out", "is written and overlaps state");
    REFUSED(on_delta, apart_slots(5, 2, 1), "out", "is written and overlaps state");
    REFUSED(on_delta, apart_slots(5, 1, 2), "out", "is written and overlaps state");
    REFUSED(on_delta, apart_slots(5, 2, 2), "out", "is written and overlaps state");
    REFUSED(on_conv, apart_columns(7, 2, 0), "out", "is written and overlaps history");
    REFUSED(on_conv, apart_columns(7, 2, 1), "out", "is written and overlaps history");
    REFUSED(on_conv, apart_columns(7, 1, 2), "out", "is written and overlaps history");
    for (int rows = 1; rows <= 2; rows++)
        for (int out = 0; out <= 2; out++) {
            ACCEPTED(on_delta, apart_slots(4, rows, out));
            ACCEPTED(on_conv, apart_columns(6, rows, out));
        }
    ACCEPTED(on_delta, apart_slots(5, 1, 0));
    ACCEPTED(on_delta, apart_slots(5, 1, 1));
    ACCEPTED(on_conv, apart_columns(7, 1, 1));
    /* A pool of its own between the slots of another, and on one of them. */
    REFUSED(on_delta, apart_slots(4, 2, 2); d->out = ((gdn_tensor){ .data = delta_mem.out });
            d->state_out.offset = SLOT / 2, "state_out", "is written and overlaps state");
    ACCEPTED(on_delta, apart_slots(4, 2, 2); d->out = ((gdn_tensor){ .data = delta_mem.out });
             d->state_out.offset = SLOT);
    /* The same tensor cut into other slots is another pool, on the same memory. */
    REFUSED(on_delta, d->state_out = d->state; d->state_out.n_rows = 1; d->state_out.n_slots = 4;
            d->n_snapshots = 2, "state_out", "overlaps state ");
    REFUSED(on_delta, d->state_out = d->state; d->state_out.stride[0] = 2 * 16384;
            d->state_out.n_rows = 1, "state_out", "overlaps state ");
    REFUSED(on_conv, c->history_out = c->history; c->history_out.stride[0] = 480;
            c->history_out.n_rows = 2, "history_out", "overlaps history ");
}

void test_api_arguments(void)
{
    delta_sizes();
    scales();
    conv_sizes();
    rows_sizes();
    operands();
    dtypes();
    conv_dtypes();
    overflows();
    strides_of_results();
    strides_of_tokens();
    workspaces();
    streams();
    delta_maps();
    conv_maps();
    overlaps();
    interleaved();
}
