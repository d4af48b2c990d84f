/* Every argument out of its documented range: the status, what the text says, and that nothing is written. */
#include "test_api.h"

#include "core/struct_sizes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args;
static gdn_ssm_conv_args *const c = &conv_args;
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

static void refuse_sizes(const api_fixture *f, const char *member, size_t field, const int64_t *values, size_t n,
                         int wide, const char *allowed)
{
    for (size_t i = 0; i < n; i++) {
        f->reset();
        const int32_t narrow = (int32_t)values[i];
        memcpy((char *)f->args + field, wide ? (const void *)&values[i] : (const void *)&narrow, wide ? 8 : 4);
        api_refuse(f, __LINE__, GDN_INVALID_ARGUMENT, (const char *const[]){ is(member, values[i]), allowed, NULL });
    }
}
#define SIZES(f, args, member, wide, allowed, ...)                                                     \
    refuse_sizes(&(f), #member, offsetof(args, member), (const int64_t[]){ __VA_ARGS__ },              \
                 sizeof((const int64_t[]){ __VA_ARGS__ }) / 8, wide, allowed)
#define DELTA(member, allowed, ...) SIZES(delta_fixture, gdn_gated_delta_net_args, member, 0, allowed, __VA_ARGS__)
#define CONV(member, allowed, ...)  SIZES(conv_fixture, gdn_ssm_conv_args, member, 0, allowed, __VA_ARGS__)
#define ROWS(member, allowed, ...)  SIZES(rows_fixture, gdn_set_rows_args, member, 1, allowed, __VA_ARGS__)

static void delta_sizes(void **state)
{
    (void)state;
    DELTA(n_seqs, "0 to 16777216 are allowed", -1, INT32_MIN, 16777217, INT32_MAX);
    DELTA(n_tokens, "0 to 2147483647 are allowed", -1, INT32_MIN);
    DELTA(n_heads_k, "1 to 65536 are allowed", 0, -1, 65537, INT32_MAX);
    DELTA(n_heads_v, "1 to 65536 are allowed", 0, -4, 65537, INT32_MIN);
    DELTA(head_dim_k, "16 to 256 are allowed", 0, 15, 257, -16, INT32_MAX);
    DELTA(head_dim_v, "16 to 256 are allowed", 0, 15, 257, -16, INT32_MAX);
    DELTA(head_map, "0 to 1 are allowed", -1, 2);
    DELTA(gate, "0 to 1 are allowed", -1, 2);
    DELTA(state_layout, "0 to 1 are allowed", -1, 2);
    DELTA(n_rows, "1 to 2147483647 are allowed", 0, -1);
    DELTA(n_slots, "1 to 2147483647 are allowed", -1);
    DELTA(n_rows_out, "1 to 2147483647 are allowed", -1);
    DELTA(n_slots_out, "1 to 2147483647 are allowed", -1);
    DELTA(n_snapshots, "1 to 1048576 are allowed", -1, 1048577);
    REFUSED(delta_fixture, (d->n_snapshots = 0, d->n_slots_out = 1 << 21), "n_snapshots (n_slots_out, the default) is");
    REFUSED(delta_fixture, (d->n_snapshots = d->n_rows_out = d->n_slots_out = 0, d->n_rows = 1, d->n_slots = 1 << 21),
            "n_snapshots (n_slots, the default) is 2097152");
    REFUSED(delta_fixture, d->flags = 2, "flags is 0x2", "must be 0");
    REFUSED(delta_fixture, d->reserved = 1, "reserved is 0x1", "must be 0");
    REFUSED(delta_fixture, d->flags = 0x80000000u, "flags is 0x80000000");
    REFUSED(delta_fixture, d->n_heads_v = 3, "n_heads_v is 3 and n_heads_k is 2", "multiple");
    REFUSED(delta_fixture, (d->n_rows = 65536, d->n_slots = 32768), "n_rows * n_slots is 2147483648");
    REFUSED(delta_fixture, (d->n_seqs = 1 << 24, d->n_snapshots = 1 << 10), "n_seqs * n_snapshots is 17179869184");
    REFUSED(delta_fixture, (d->state_out = d->state, d->n_rows_out = 65536, d->n_slots_out = 32768),
            "n_rows_out * n_slots_out is 2147483648");
    REFUSED(delta_fixture, d->scale = NAN, "scale is nan", "finite");
    REFUSED(delta_fixture, d->scale = -INFINITY, "scale is -inf", "finite");
    DELTA(qk_norm, "0 to 2 are allowed", -1, 3);
    DELTA(g_form, "0 to 3 are allowed", -1, 4, INT32_MAX);
    DELTA(beta_form, "0 to 1 are allowed", -1, 2);
    REFUSED(delta_fixture, d->reserved2 = 1, "reserved2 is 0x1", "must be 0");
    REFUSED(delta_fixture, d->beta_factor = INFINITY, "beta_factor is inf", "finite");
    REFUSED(delta_fixture, (d->qk_norm = GDN_NORM_ADD, d->qk_norm_eps = NAN), "qk_norm_eps is nan", "finite");
    REFUSED(delta_fixture, (d->qk_norm = GDN_NORM_ADD, d->qk_norm_eps = -1e-6f), "qk_norm_eps is negative",
            "0 and above");
    REFUSED(delta_fixture, d->qk_norm_eps = 1e-6f, "qk_norm_eps is given", "GDN_NORM_NONE");
    REFUSED(delta_fixture, d->ssm_a = d->beta, "ssm_a is given and g_form is 0", "GDN_G_RAW (2)");
    REFUSED(delta_fixture, (d->g_form = GDN_G_LINEAR, d->dt_bias = d->beta), "dt_bias is given and g_form is 1");
    REFUSED(delta_fixture, d->g_form = GDN_G_RAW, "ssm_a.data is NULL");
    REFUSED(delta_fixture, d->n_seqs = 0, "n_seqs is 0 and n_tokens is 5");
    REFUSED(delta_fixture, d->n_rows_out = 2, "n_rows_out is 2", "state_out is absent");
    REFUSED(delta_fixture, d->n_slots_out = 1, "n_slots_out is 1", "state_out is absent");
}

static void conv_sizes(void **state)
{
    (void)state;
    CONV(n_seqs, "0 to 16777216 are allowed", -1, 16777217, INT32_MIN);
    CONV(n_tokens, "0 to 2147483647 are allowed", -1, INT32_MIN);
    CONV(n_channels, "1 to 2147483647 are allowed", 0, -1, INT32_MIN);
    CONV(kernel_width, "1 to 16 are allowed", 0, 17, -1, INT32_MAX);
    REFUSED(conv_fixture, (c->kernel_width = INT32_MIN, c->n_columns = 0), "kernel_width is -2147483648");
    CONV(n_rows, "1 to 2147483647 are allowed", 0, -1);
    CONV(n_columns, "3 to 2147483647 are allowed", 2, 1, -1);
    CONV(n_rows_out, "1 to 2147483647 are allowed", -1);
    CONV(reserved, "must be 0", 1, -1);
    REFUSED(conv_fixture, c->flags = 4, "flags is 0x4", "GDN_CONV_SILU");
    REFUSED(conv_fixture, c->flags = 0x80000001u, "flags is 0x80000001", "GDN_CONV_SILU");
    REFUSED(conv_fixture, c->n_seqs = 0, "n_seqs is 0 and n_tokens is 5");
    REFUSED(conv_fixture, c->n_rows_out = 2, "n_rows_out is 2", "history_out is absent");
    REFUSED(conv_fixture, (c->history_out = c->history, c->history.data = NULL),
            "history_out is given and history is absent");
}

static void rows_sizes(void **state)
{
    (void)state;
    const int64_t huge = ((int64_t)1 << 40) + 1;
    ROWS(n_columns, "1 to 1099511627776 are allowed", 0, -1, huge, INT64_MIN);
    ROWS(n_rows, "0 to 1099511627776 are allowed", -1, huge, INT64_MAX);
    ROWS(n_rows_dst, "1 to 1099511627776 are allowed", 0, -1, huge);
    ROWS(n_batch[0], "1 to 1073741824 are allowed", -1, 1073741825, INT64_MAX);
    ROWS(n_batch[1], "1 to 1073741824 are allowed", -1, 1073741825);
    ROWS(index_batch[0], "1 to 2 are allowed", -1, 3, INT64_MAX);
    ROWS(index_batch[1], "1 to 1 are allowed", -1, 2);
    REFUSED(rows_fixture, (r->n_batch[0] = 3, r->index_batch[0] = 2), "index_batch[0] is 2", "n_batch[0]", "3");
    REFUSED(rows_fixture, r->flags = 1, "flags is 0x1", "must be 0");
    REFUSED(rows_fixture, (r->dst.dtype = GDN_Q8_0, r->n_columns = 31), "dst has rows of 31 elements",
            "multiple of 32");
}

/* ---- Operands: the same mistakes for each -------------------------------------------------------------- */

static gdn_tensor *tensor_of(const api_fixture *f, const check_operand *o)
{
    f->reset();
    return check_tensor(f->args, o);
}

static void refuse_operand(const api_fixture *f, int line, const char *name, const char *member, const char *text)
{
    char about[64];
    (void)snprintf(about, sizeof about, "%s%s", name, member);
    api_refuse(f, line, GDN_INVALID_ARGUMENT, (const char *const[]){ about, text, NULL });
}
#define OPERAND(change, member, text)                                                                  \
    do {                                                                                               \
        gdn_tensor *t = tensor_of(f, o);                                                               \
        change;                                                                                        \
        refuse_operand(f, __LINE__, o->name, member, text);                                            \
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
        OPERAND(t->stride[a] = -4, member, "-4; 0 (packed) to 2^56 are allowed");
        OPERAND(t->stride[a] = INT64_MIN, member, "are allowed");
        OPERAND(t->stride[a] = INT64_MAX, member, "are allowed");
        OPERAND(t->stride[a] = (int64_t)1 << 56, member, "are allowed");
        OPERAND(t->stride[a] = 4096 + alignment / 2, member, "needs a multiple of");
        OPERAND(t->stride[a] = 4097, member, "needs a multiple of");
    }
}

static void operands(void **state)
{
    (void)state;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for EACH_OPERAND(f, o) {
            const int alignment = (int)check_alignment(tensor_of(f, o)->dtype);
            char bytes[64], offset[64];
            (void)snprintf(bytes, sizeof bytes, ".bytes is %llu; the call reaches %llu",
                           (unsigned long long)tensor_of(f, o)->bytes - 1, (unsigned long long)tensor_of(f, o)->bytes);
            (void)snprintf(offset, sizeof offset, "it must be a multiple of %d", alignment);
            OPERAND(t->dtype = -1, ".dtype is -1 (?)", "allowed: ");
            OPERAND(t->dtype = 6, ".dtype is 6 (?)", "allowed: ");
            OPERAND(t->dtype = INT32_MAX, ".dtype is ", "allowed: ");
            OPERAND(t->dtype = strcmp(o->name, "index") ? GDN_I32 : GDN_F32, ".dtype is ", "allowed: ");
            OPERAND(t->reserved = 1, ".reserved is 1", "must be 0");
            OPERAND(t->bytes--, "", bytes);
            OPERAND(t->bytes = 1, ".bytes is 1", "the call reaches");
            OPERAND(t->offset = (uint64_t)1 << 56, ".offset is", "below 2^56");
            OPERAND(t->offset = UINT64_MAX, ".offset is", "below 2^56");
            OPERAND((t->data = (char *)t->data + 1, t->bytes = 0), " begins at", offset);
            OPERAND((t->offset = (uint64_t)alignment / 2, t->bytes = 0), " begins at", offset);
            if (!o->optional)
                OPERAND(t->data = NULL, ".data is NULL", "the call reaches");
            refuse_strides(f, o);
        }
        for EACH_MAP(f, o) {
            f->reset();
            gdn_span *s = check_span(f->args, o);
            s->bytes--;
            refuse_operand(f, __LINE__, o->name, ".bytes is", "the call reaches");
            f->reset();
            s->data  = (char *)s->data + 2;
            s->bytes = 0;
            refuse_operand(f, __LINE__, o->name, " begins at", "multiple of 4");
            f->reset();
            s->offset = (uint64_t)1 << 56;
            refuse_operand(f, __LINE__, o->name, ".offset is", "below 2^56");
        }
    }
}

/* Which element types an operand takes is listed in the text; each of the others is refused by its name. */
static void dtypes(void **state)
{
    enum { FLOATS = 1 << GDN_F32 | 1 << GDN_F16 | 1 << GDN_BF16, TYPES = GDN_I64 + 2 /* one that there is not */ };
    static const char *const names[TYPES] = { "F32", "F16", "BF16", "Q8_0", "I32", "I64", "?" };
    (void)state;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for EACH_OPERAND(f, o) {
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
    REFUSED(delta_fixture, (d->g_form = GDN_G_RAW, d->ssm_a = d->beta, d->ssm_a.dtype = GDN_Q8_0),
            "ssm_a.dtype is 3 (Q8_0)", "allowed: F32, F16, BF16");
    REFUSED(delta_fixture, (d->state_out = d->state, d->state_out.dtype = GDN_Q8_0), "state_out.dtype is 3 (Q8_0)",
            "allowed: F32, F16, BF16");
}

static void conv_dtypes(void **state)
{
    (void)state;
    REFUSED(conv_fixture, (c->history_out = c->history, c->history_out.dtype = GDN_BF16),
            "history_out.dtype is 2 (BF16)", "history.dtype is 0 (F32)");
    REFUSED(conv_fixture, (c->history_out = c->history, c->history.dtype = GDN_F16), "history_out.dtype is 0 (F32)",
            "history.dtype is 1 (F16)");
    REFUSED(conv_fixture, (c->x.dtype = GDN_BF16, c->x.stride[1] = 81), "x.stride[1] is 81",
            "BF16 needs a multiple of 2");
}

/* Sizes and addresses whose sums and products do not fit. */
static void overflows(void **state)
{
    (void)state;
    const int64_t far = (int64_t)1 << 55; /* 512 times that is 0 in 64 bits */
    void *const last = (void *)(UINTPTR_MAX - 63);
    REFUSED(rows_fixture, (r->n_rows_dst = 513, r->dst.stride[2] = far, r->dst.bytes = 0),
            "dst covers 2^56 bytes or more");
    REFUSED(delta_fixture, (d->out.stride[1] = far, d->out.bytes = 0), "out covers 2^56 bytes or more");
    REFUSED(delta_fixture, (d->q.data = last, d->q.bytes = 0), "q begins at", "beyond the end of memory");
    REFUSED(conv_fixture, (c->x.data = last, c->x.offset = 64, c->x.bytes = 0), "x begins at 0",
            "beyond the end of memory");
    REFUSED(conv_fixture, (c->seq_start.data = last, c->seq_start.offset = 128, c->seq_start.bytes = 0),
            "seq_start begins at 0x40", "beyond the end of memory");
}

/* Rows of an operand must not share bytes, read or written. */
typedef struct overlap { int axis, stride; const char *says; } overlap;
static void refuse_overlaps(const api_fixture *f, gdn_tensor *t, const char *name, const overlap *of, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char member[32];
        (void)snprintf(member, sizeof member, ".stride[%d] is %d", of[i].axis, of[i].stride);
        f->reset();
        t->stride[of[i].axis] = of[i].stride;
        refuse_operand(f, __LINE__, name, member, of[i].says);
    }
}
#define OVERLAPS(f, args, operand, ...)                                                                \
    refuse_overlaps(&(f), &(args)->operand, #operand, (const overlap[]){ __VA_ARGS__ },                \
                    sizeof((const overlap[]){ __VA_ARGS__ }) / sizeof(overlap))
/* A stride of sequence 0's place that is a token's, of a ragged operand; the text names what was set, not a packed one.
 */
static void strides_of_tokens(void **state)
{
    (void)state;
    OVERLAPS(
        delta_fixture, d, q, { 2, 60, "head axis" }, { 1, 64, "token axis" },
        { 0, 320, "of the sequence axis, so that rows of q overlap; 0 (sequences follow each other) and at least" });
    OVERLAPS(delta_fixture, d, v, { 1, 4, "token axis" });
    OVERLAPS(delta_fixture, d, out, { 0, 512, "sequence axis" });
    OVERLAPS(conv_fixture, c, x, { 1, 4, "token axis" }, { 0, 80, "sequence axis" });
    OVERLAPS(rows_fixture, r, src, { 2, 4, "row axis" });
}

static void strides_of_results(void **state)
{
    (void)state;
    OVERLAPS(delta_fixture, d, out, { 2, 124, "at least 128 bytes" }, { 1, 508, "at least 512 bytes" },
             { 0, 256, "overlap" });
    OVERLAPS(delta_fixture, d, state, { 3, 60, "at least 64 bytes" }, { 2, 1024, "at least 2048 bytes" },
             { 1, 4, "overlap" }, { 0, 12288, "overlap" });
    OVERLAPS(conv_fixture, c, out, { 1, 76, "at least 80 bytes" });
    OVERLAPS(conv_fixture, c, history, { 1, 40, "at least 80 bytes" }, { 0, 240, "at least 400 bytes" });
    OVERLAPS(rows_fixture, r, dst, { 2, 62, "at least 64 bytes" }, { 0, 2, "overlap" });
}

/* ---- Workspace, stream, struct sizes ---------------------------------------------------------------------- */

static void workspaces(void **state)
{
    (void)state;
    int needed = 0;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for (int i = 0; i < api_target_count; i++) {
            gdn_context *ctx = api_target_list[i].ctx;
            gdn_capability cap = { .size = sizeof cap };
            f->reset();
            memcpy(f->before, f->memory, f->memory_bytes);
            assert_int_equal(f->kernel->query(ctx, f->args, &cap), GDN_OK);
            if (!cap.workspace_bytes)
                continue; /* this implementation works without */
            needed++;
            char bytes[64];
            (void)snprintf(bytes, sizeof bytes, "%llu bytes", (unsigned long long)cap.workspace_bytes);
#define WORKSPACE(change, text1, text2)                                                                                \
    do {                                                                                                               \
        f->reset();                                                                                                    \
        gdn_span *w = check_workspace(f->kernel, f->args);                                                             \
        change;                                                                                                        \
        assert_int_equal(f->kernel->run(ctx, f->args, NULL), GDN_INVALID_ARGUMENT);                                    \
        assert_non_null(strstr(gdn_last_error(), text1));                                                              \
        assert_non_null(strstr(gdn_last_error(), text2));                                                              \
        assert_memory_equal(f->memory, f->before, f->memory_bytes);                                                    \
    } while (0)
            WORKSPACE(w->data = NULL, "workspace.data is NULL", bytes);
            WORKSPACE(w->bytes = cap.workspace_bytes - 1, "workspace.bytes is", bytes);
            WORKSPACE(w->data = (char *)w->data + 32, "workspace begins at", "multiple of 64");
            WORKSPACE(w->offset = 1, "workspace begins at", "multiple of 64");
            WORKSPACE(w->offset = (uint64_t)1 << 56, "workspace.offset is", "below 2^56");
            /* Each operand and map in turn; the first one is in front of the others, so the workspace is
             * long enough to reach several. */
            for EACH_OPERAND(f, o) {
                gdn_tensor *t = tensor_of(f, o);
                WORKSPACE((w->data = t->data, w->bytes = 0), "overlaps", "workspace");
            }
            for EACH_MAP(f, o) {
                gdn_span *s = check_span(f->args, o);
                f->reset();
                WORKSPACE((w->data = s->data, w->bytes = 0), "overlaps", "workspace");
            }
        }
    }
    print_message("workspace is needed by %d of %d pairs of kernel and target\n", needed,
                  CHECK_KERNEL_COUNT * api_target_count);
}

static void streams(void **state)
{
    (void)state;
    int on_the_stack;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        for (int i = 0; i < api_target_count; i++) {
            api_fixtures[k]->reset();
            memcpy(api_fixtures[k]->before, api_fixtures[k]->memory, api_fixtures[k]->memory_bytes);
            assert_int_equal(api_fixtures[k]->kernel->run(api_target_list[i].ctx, api_fixtures[k]->args, &on_the_stack),
                             GDN_INVALID_ARGUMENT);
            assert_non_null(strstr(gdn_last_error(), "stream is 0x"));
            assert_non_null(strstr(gdn_last_error(), "must be NULL"));
            assert_memory_equal(api_fixtures[k]->memory, api_fixtures[k]->before, api_fixtures[k]->memory_bytes);
        }
}

static void struct_sizes(void **state)
{
    (void)state;
    _Alignas(16) static unsigned char grown[2048];
#define GDN_KERNEL(stem, number, title, last, end) [CHECK_KERNEL_##stem] = (uint32_t)GDN_FIRST_SIZE(gdn_##stem##_args),
    static const uint32_t first[] = {
#include "core/kernels.def"
    };
#undef GDN_KERNEL
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        const uint32_t sizes[] = { 0, 1, 3, 4, 8, first[k] - 1, first[k] - 8, 65537, UINT32_MAX };
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            f->reset();
            memcpy(f->args, &sizes[i], 4);
            api_refuse(f, __LINE__, GDN_INVALID_ARGUMENT, (const char *const[]){ is("args->size", sizes[i]), NULL });
        }
        /* A newer caller: what we do not know must be zero. */
        for (int i = 0; i < api_target_count; i++) {
            gdn_context *ctx = api_target_list[i].ctx;
            const uint32_t size = (uint32_t)f->kernel->args_size + 64;
            gdn_capability cap = { .size = sizeof cap };
            f->reset();
            memset(grown, 0, sizeof grown);
            memcpy(grown, f->args, f->kernel->args_size);
            memcpy(grown, &size, 4);
            memcpy(f->before, f->memory, f->memory_bytes);
            for (uint32_t at = (uint32_t)f->kernel->args_size; at < size; at += 21) {
                char text[64];
                grown[at] = 1;
                (void)snprintf(text, sizeof text, "a member at byte %u", (unsigned)at);
                assert_int_equal(f->kernel->run(ctx, grown, NULL), GDN_INVALID_ARGUMENT);
                assert_non_null(strstr(gdn_last_error(), text));
                assert_int_equal(f->kernel->query(ctx, grown, &cap), GDN_INVALID_ARGUMENT);
                assert_memory_equal(f->memory, f->before, f->memory_bytes);
                grown[at] = 0;
            }
            grown[size] = 1; /* beyond what the caller says it has */
            assert_int_equal(f->kernel->query(ctx, grown, &cap), GDN_OK);
            assert_int_equal(f->kernel->run(ctx, grown, NULL), GDN_OK);
        }
        /* NULL for each pointer. */
        f->reset();
        memcpy(f->before, f->memory, f->memory_bytes);
        gdn_context *ctx = api_target_list[0].ctx;
        gdn_capability cap = { .size = sizeof cap };
#define NULLS(call, text)                                                                              \
    assert_int_equal(call, GDN_INVALID_ARGUMENT);                                                      \
    assert_non_null(strstr(gdn_last_error(), text " is NULL"))
        NULLS(f->kernel->run(NULL, f->args, NULL), "ctx");
        NULLS(f->kernel->run(ctx, NULL, NULL), "args");
        NULLS(f->kernel->query(NULL, f->args, &cap), "ctx");
        NULLS(f->kernel->query(ctx, NULL, &cap), "args");
        NULLS(f->kernel->query(ctx, f->args, NULL), "capability");
        cap.size = sizeof cap - 1;
        assert_int_equal(f->kernel->query(ctx, f->args, &cap), GDN_INVALID_ARGUMENT);
        assert_non_null(strstr(gdn_last_error(), "capability->size is"));
        assert_memory_equal(f->memory, f->before, f->memory_bytes);
    }
}

/* ---- Contents of maps ------------------------------------------------------------------------------------ */

static void delta_maps(void **state)
{
    (void)state;
    delta_memory *m = &delta_mem;
    REFUSED(delta_fixture, m->seq_start[0] = -1, "seq_start[0] is -1; 0 ");
    REFUSED(delta_fixture, m->seq_start[1] = 6, "seq_start[1] is 6; 0 ", "to 5 (n_tokens)");
    REFUSED(delta_fixture, MAP(m->seq_start, 3, 2, 5), "seq_start[1] is 2; 3 (the entry before)");
    REFUSED(delta_fixture, m->seq_start[2] = 6, "seq_start[2] is 6", "to 5");
    REFUSED(delta_fixture, m->seq_start[2] = INT32_MAX, "seq_start[2] is 2147483647");
    REFUSED(delta_fixture, m->seq_start[2] = INT32_MIN, "seq_start[2] is -2147483648");
    REFUSED(delta_fixture, m->state_src[1] = -3, "state_src[1] is -3; 0 to 5, GDN_NONE and GDN_SKIP are allowed");
    REFUSED(delta_fixture, m->state_src[0] = 6, "state_src[0] is 6; 0 to 5");
    REFUSED(delta_fixture, m->state_src[0] = INT32_MIN, "state_src[0] is -2147483648");
    /* Entries that are used, in sequences that have tokens; see unused_entries in test_api_calls.c. */
    REFUSED(delta_fixture, m->state_dst[1] = 6, "state_dst[0][1] is 6; 0 to 5 and GDN_NONE are allowed");
    REFUSED(delta_fixture, m->state_dst[2] = GDN_SKIP, "state_dst[1][0] is -2; 0 to 5");
    REFUSED(delta_fixture, m->state_dst[3] = INT32_MAX, "state_dst[1][1] is 2147483647");
    /* Written twice: by one sequence, and by two. */
    REFUSED(delta_fixture, MAP(m->state_dst, 1, 1, 2, -1), "state_dst[0][1] is 1", "another entry writes");
    REFUSED(delta_fixture, MAP(m->state_dst, 1, 0, 2, 1), "state_dst[1][1] is 1", "another entry writes");
    /* Sequence 1 reads slot 3, which sequence 0 writes; its own slot it may write. */
    REFUSED(delta_fixture, MAP(m->state_dst, 3, 0, 2, -1), "state_src[1] is 3", "another sequence", "state_dst");
    REFUSED(delta_fixture, MAP(m->state_src, 0, 1), "state_src[1] is 1", "another sequence", "state_dst");
}

static void conv_maps(void **state)
{
    (void)state;
    conv_memory *m = &conv_mem;
    REFUSED(conv_fixture, m->seq_start[1] = -1, "seq_start[1] is -1; 0 ");
    REFUSED(conv_fixture, m->position[0] = -1, "position[0] is -1; 0 to 2147483645 are allowed for its 2 tokens");
    REFUSED(conv_fixture, m->position[1] = INT32_MAX - 2, "position[1] is 2147483645; 0 to 2147483644", "3 tokens");
    REFUSED(conv_fixture, m->position[1] = INT32_MIN, "position[1] is -2147483648");
    REFUSED(conv_fixture, m->history_src[0] = 3, "history_src[0] is 3; 0 to 2, GDN_NONE and GDN_SKIP are allowed");
    REFUSED(conv_fixture, m->history_src[1] = -3, "history_src[1] is -3");
    REFUSED(conv_fixture, m->history_dst[0] = 3, "history_dst[0]", "is 3; 0 to 2 and GDN_NONE are allowed");
    REFUSED(conv_fixture, m->history_dst[1] = GDN_SKIP, "history_dst[1]", "is -2");
    REFUSED(conv_fixture, MAP(m->history_dst, 2, 2), "history_dst[1]", "is 2", "another entry writes");
    REFUSED(conv_fixture, MAP(m->history_dst, 1, 2), "history_src[1] is 1", "another sequence", "history_dst");
    REFUSED(conv_fixture, (c->history.data = NULL, c->n_rows = c->n_columns = 0), "history_src[0] is 0");
    REFUSED(conv_fixture, (c->history_src.data = NULL, c->n_rows = 1, MAP(m->history_dst, 0, -1)),
            "n_seqs (without history_src) is 2; 0 to 1");
    REFUSED(conv_fixture, (c->history_dst.data = NULL, c->n_rows = 1, MAP(m->history_src, 0, -1)),
            "n_seqs (without history_dst) is 2; 0 to 1");
    REFUSED(conv_fixture, c->seq_start.data = NULL, "n_tokens is 5 and n_seqs is 2");
}

/* ---- Overlaps -------------------------------------------------------------------------------------------- */

static void overlaps(void **state)
{
    (void)state;
    /* Each written operand on each other operand and map. */
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        const api_fixture *f = api_fixtures[k];
        for EACH_OPERAND(f, o)
            for (int map = 0; o->written && map < 2; map++)
                for (const check_operand *w = api_next(f, NULL, map); w; w = api_next(f, w, map)) {
                    if (w == o)
                        continue;
                    gdn_tensor *to = tensor_of(f, o), *at = check_tensor(f->args, w);
                    /* The first element of one is the first of a map, or the last of the other. */
                    to->data  = *check_data(f->args, w);
                    if (!map)
                        to->data = (char *)at->data + at->bytes - check_alignment(at->dtype);
                    to->bytes = 0;
                    api_refuse(f, __LINE__, GDN_INVALID_ARGUMENT,
                               (const char *const[]){ o->name, "is written and overlaps", NULL });
                }
    }
    /* A second pool: the same one shifted, or with other strides, is neither the same nor apart. */
    REFUSED(delta_fixture, (d->state_out = d->state, d->state_out.bytes = 0, d->state_out.offset = 4), "state_out",
            "overlaps state ");
    REFUSED(delta_fixture, (d->state_out = d->state, d->n_rows_out = 6, d->n_slots_out = 1, d->n_snapshots = 2),
            "state_out", "overlaps state ");
    REFUSED(delta_fixture, (d->state_out = d->out, d->state_out.bytes = 0), "out", "overlaps");
    REFUSED(conv_fixture, (c->history_out = c->history, c->history_out.bytes = 0, c->history_out.offset = 80),
            "history_out", "overlaps history ");
}

/* States of two heads in slots of `unit` bytes, every other unit of the memory; out is to lie in the units between. */
enum { SLOT = 2 * 32 * 16 * 4, COLUMN = 20 * 4 };

static void apart_slots(int row_units, int n_rows, int n_rows_out)
{
    d->n_heads_v = 2;
    d->n_rows = n_rows;
    d->state.bytes = d->out.bytes = 0;
    d->state.stride[0] = row_units * SLOT, d->state.stride[1] = 2 * SLOT;
    d->out.data = (char *)d->state.data + SLOT, d->out.stride[1] = 2 * SLOT;
    if (n_rows_out) {
        d->state_out   = d->state;
        d->n_rows_out  = n_rows_out;
        d->n_slots_out = 2;
    }
    MAP(delta_mem.state_src, GDN_NONE, 1);
    MAP(delta_mem.state_dst, 0, GDN_NONE, 1, GDN_NONE);
}

static void apart_columns(int row_units, int n_rows, int n_rows_out)
{
    c->n_rows = n_rows, c->n_columns = 3;
    c->history.bytes = c->out.bytes = 0;
    c->history.stride[0] = row_units * COLUMN, c->history.stride[1] = 2 * COLUMN;
    c->out.data = (char *)c->history.data + COLUMN, c->out.stride[1] = 2 * COLUMN;
    if (n_rows_out)
        c->history_out = c->history, c->n_rows_out = n_rows_out;
    MAP(conv_mem.history_src, GDN_NONE, 0);
    MAP(conv_mem.history_dst, GDN_NONE, 0);
}

/* out between the slots of a state. Where rows do not begin at a multiple of a slot's stride, the second row lies on
 * it, also where the tensor that is read or the one that is written states fewer rows. */
static void interleaved(void **state)
{
    (void)state;
    REFUSED(delta_fixture, apart_slots(5, 2, 0), "out", "is written and overlaps state");
    REFUSED(delta_fixture, apart_slots(5, 2, 1), "out", "is written and overlaps state");
    REFUSED(delta_fixture, apart_slots(5, 1, 2), "out", "is written and overlaps state");
    REFUSED(delta_fixture, apart_slots(5, 2, 2), "out", "is written and overlaps state");
    REFUSED(conv_fixture, apart_columns(7, 2, 0), "out", "is written and overlaps history");
    REFUSED(conv_fixture, apart_columns(7, 2, 1), "out", "is written and overlaps history");
    REFUSED(conv_fixture, apart_columns(7, 1, 2), "out", "is written and overlaps history");
    for (int rows = 1; rows <= 2; rows++)
        for (int out = 0; out <= 2; out++) {
            ACCEPTED(delta_fixture, apart_slots(4, rows, out));
            ACCEPTED(conv_fixture, apart_columns(6, rows, out));
        }
    ACCEPTED(delta_fixture, apart_slots(5, 1, 0));
    ACCEPTED(delta_fixture, apart_slots(5, 1, 1));
    ACCEPTED(conv_fixture, apart_columns(7, 1, 1));
    /* A pool of its own between the slots of another, and on one of them. */
    REFUSED(delta_fixture, apart_slots(4, 2, 2); d->out = ((gdn_tensor){ .data = delta_mem.out });
            d->state_out.offset = SLOT / 2, "state_out", "is written and overlaps state");
    ACCEPTED(delta_fixture, apart_slots(4, 2, 2); d->out = ((gdn_tensor){ .data = delta_mem.out });
             d->state_out.offset = SLOT);
    /* The same tensor cut into other slots is another pool, on the same memory. */
    REFUSED(delta_fixture, d->state_out = d->state; d->n_rows_out = 1; d->n_slots_out = 4;
            d->n_snapshots = 2, "state_out", "overlaps state ");
    REFUSED(delta_fixture, d->state_out = d->state; d->state_out.stride[0] = 2 * 16384;
            d->n_rows_out = 1, "state_out", "overlaps state ");
    REFUSED(conv_fixture, c->history_out = c->history; c->history_out.stride[0] = 480;
            c->n_rows_out = 2, "history_out", "overlaps history ");
}

const struct CMUnitTest api_argument_tests[] = {
    cmocka_unit_test(delta_sizes),
    cmocka_unit_test(conv_sizes),
    cmocka_unit_test(rows_sizes),
    cmocka_unit_test(operands),
    cmocka_unit_test(dtypes),
    cmocka_unit_test(conv_dtypes),
    cmocka_unit_test(overflows),
    cmocka_unit_test(strides_of_results),
    cmocka_unit_test(strides_of_tokens),
    cmocka_unit_test(workspaces),
    cmocka_unit_test(streams),
    cmocka_unit_test(struct_sizes),
    cmocka_unit_test(delta_maps),
    cmocka_unit_test(conv_maps),
    cmocka_unit_test(overlaps),
    cmocka_unit_test(interleaved),
};
const size_t api_n_argument_tests = sizeof api_argument_tests / sizeof api_argument_tests[0];
