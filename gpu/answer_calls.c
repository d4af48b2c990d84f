/* The calls whose answers are known. See answers.h. They are as small as a call can be that takes all steps of a
 * kernel: two value heads on one key head, 16 value columns, a few tokens. Every number is a small integer times a
 * power of two, so that no compiler's arithmetic has a say in them, and so that each is exact in 16 bits. */
#include <string.h>

#include "gpu/answers.h"

/* What an operand holds. */
enum {
    OF_ONE /* n / 128 */,
    OF_SIXTEENTHS /* n / 2048, of keys */,
    GATES /* -(0 .. 63) / 64 */,
    SHARES /* (1 .. 64) / 64 */
};

enum { ALIGNMENT = 64, HEADS = 2, COLUMNS = 16, SLOTS = 3, CHANNELS = 40, WORKSPACE_BYTES = 8192 };

static uint64_t bytes_of(int32_t dtype, uint64_t n)
{
    return dtype == GDN_Q8_0 ? n / 32 * 34 : n * (dtype == GDN_F32 || dtype == GDN_I32 ? 4 : 2);
}

static uint64_t add(gdn_gpu_answer_call *c, gdn_gpu_part part)
{
    part.at = (c->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    c->bytes = part.at + bytes_of(part.dtype, part.n);
    c->part[c->n_parts++] = part;
    return part.at;
}

static gdn_tensor tensor(gdn_gpu_answer_call *c, int32_t dtype, int n, int values)
{
    const uint64_t at = add(c, (gdn_gpu_part){ .n = (uint32_t)n, .dtype = dtype, .values = values });
    return (gdn_tensor){ .data = c->data, .offset = at, .bytes = c->bytes - at, .dtype = dtype };
}

static gdn_span map(gdn_gpu_answer_call *c, const int32_t *values, int n)
{
    const uint64_t at = add(c, (gdn_gpu_part){ .n = (uint32_t)n, .dtype = GDN_I32, .map = values });
    return (gdn_span){ .data = c->data, .offset = at, .bytes = c->bytes - at };
}

static gdn_span workspace(const gdn_gpu_answer_call *c)
{
    return (gdn_span){ .data = c->data, .offset = GDN_ANSWER_BYTES - WORKSPACE_BYTES, .bytes = WORKSPACE_BYTES };
}

static void begin_results(gdn_gpu_answer_call *c)
{
    c->bytes = c->written = (c->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Maps of trees: the first token follows the state, the next two follow it, the last one the second. */
static const int32_t parents[] = { GDN_NONE, 0, 0, 1 };
enum { TREE_TOKENS = 4 };

/* ---- gated_delta_net ---- */

/* Forms of the call: kernels differ by them. The last three have states of 16 bits. */
enum { FEW, MANY, CHECKPOINTS, LOG, LONG_LOG, TREE, HALF_FEW, HALF_MANY, HALF_TREE };
static const int32_t head_sizes[] = { 32, 64, 96, 128, 160, 192, 224, 256, 48, 200 };
enum { N_HEAD_SIZES = sizeof head_sizes / sizeof head_sizes[0] };
_Static_assert((HALF_TREE + 1) * N_HEAD_SIZES * 16 == GDN_ANSWER_DELTA, "as many calls as answers.h says");

static void delta(int number, gdn_gpu_answer_call *c)
{
    static const int32_t position[] = { 3 }, zero[] = { 0 }, stands[] = { 1 }, second[] = { 1 }, third[] = { 2 };
    const int forms = number & 1, typed = number >> 1 & 1, key_major = number >> 2 & 1, channel = number >> 3 & 1;
    const int form = number / 16 / N_HEAD_SIZES, size = head_sizes[number / 16 % N_HEAD_SIZES];
    const int half = form >= HALF_FEW, tree = form == TREE || form == HALF_TREE;
    const int tokens = tree ? TREE_TOKENS : form == MANY || form == LONG_LOG || form == HALF_MANY ? 10 : 3;
    const int gates = HEADS * (channel ? size : 1), log = form == LOG || form == LONG_LOG || tree;
    const int columns = !log ? 0 : form == LONG_LOG ? 16 : 8;
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    *a = (gdn_gated_delta_net_args){ .size = sizeof *a,
                                     .n_seqs = 1,
                                     .n_tokens = tokens,
                                     .n_heads_k = 1,
                                     .n_heads_v = HEADS,
                                     .head_dim_k = size,
                                     .head_dim_v = COLUMNS,
                                     .n_rows = 1,
                                     .n_slots = SLOTS,
                                     .n_snapshots = log ? 0 : 2 };
    a->flags = tree ? GDN_DELTA_TREE : 0;
    a->gate = channel ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR;
    a->state_layout = key_major ? GDN_STATE_KV : GDN_STATE_VK;
    a->q = tensor(c, typed ? GDN_BF16 : GDN_F32, tokens * size, OF_ONE);
    a->k = tensor(c, typed ? GDN_BF16 : GDN_F32, tokens * size, OF_SIXTEENTHS);
    a->v = tensor(c, typed ? GDN_F16 : GDN_F32, tokens * HEADS * COLUMNS, OF_ONE);
    a->g = tensor(c, GDN_F32, tokens * gates, forms ? OF_ONE : GATES);
    a->beta = tensor(c, typed ? GDN_BF16 : GDN_F32, tokens * HEADS, forms ? OF_ONE : SHARES);
    if (forms) {
        a->qk_norm = GDN_NORM_ADD;
        a->qk_norm_eps = 0x1p-20f;
        a->g_form = GDN_G_RAW;
        a->beta_form = GDN_BETA_LOGIT;
        a->ssm_a = tensor(c, GDN_F32, HEADS, GATES);
        a->dt_bias = tensor(c, GDN_F32, gates, OF_ONE);
    }
    if (form == CHECKPOINTS) {
        a->checkpoint_interval = 2;
        a->n_checkpoints = 1;
        a->position = map(c, zero, 1);
        a->state_checkpoint = map(c, third, 1);
    }
    if (log) {
        a->n_log_rows = 1;
        a->n_log_columns = columns;
        a->position = map(c, position, 1);
        a->state_position = map(c, stands, 1);
        a->state_commit = map(c, second, 1);
    }
    if (tree) a->parent = map(c, parents, TREE_TOKENS);
    begin_results(c);
    a->out = tensor(c, typed ? GDN_BF16 : GDN_F32, tokens * HEADS * COLUMNS, OF_ONE);
    a->state = tensor(c, half ? GDN_BF16 : GDN_F32, SLOTS * HEADS * COLUMNS * size, OF_ONE);
    if (log) { /* columns as kernels for whole blocks of keys want them */
        const int entry = (size + HEADS * COLUMNS + gates + 15) / 16 * 16;
        a->log = tensor(c, GDN_F32, columns * entry, OF_SIXTEENTHS);
        a->log.stride[0] = 4 * (int64_t)columns * entry;
        a->log.stride[1] = 4 * (int64_t)entry;
    }
    a->workspace = workspace(c);
}

/* ---- ssm_conv ---- */

enum { WHOLE, PIECES, CONV_TREE, N_CONV_FORMS, WIDTHS = 16 };
_Static_assert(N_CONV_FORMS *WIDTHS * 4 == GDN_ANSWER_CONV, "as many calls as answers.h says");

static void conv(int number, gdn_gpu_answer_call *c)
{
    static const int32_t position[] = { 2 };
    const int silu = number & 1, typed = number >> 1 & 1, width = 1 + number / 4 % WIDTHS;
    const int form = number / 4 / WIDTHS, tokens = form == CONV_TREE ? TREE_TOKENS : form == PIECES ? 70 : 5;
    const int columns = width - 1 + TREE_TOKENS, dtype = typed ? GDN_BF16 : GDN_F32;
    gdn_ssm_conv_args *a = &c->args.ssm_conv;
    *a = (gdn_ssm_conv_args){ .size = sizeof *a,
                              .n_seqs = 1,
                              .n_tokens = tokens,
                              .n_channels = CHANNELS,
                              .kernel_width = width,
                              .n_rows = 1,
                              .n_columns = columns };
    a->flags = (uint32_t)((silu ? GDN_CONV_SILU : 0) | (form == CONV_TREE ? GDN_CONV_TREE : 0));
    a->x = tensor(c, dtype, tokens * CHANNELS, OF_ONE);
    a->weight = tensor(c, typed ? GDN_F16 : GDN_F32, CHANNELS * width, OF_ONE);
    a->bias = tensor(c, GDN_F32, CHANNELS, OF_ONE);
    a->position = map(c, position, 1);
    if (form == CONV_TREE) a->parent = map(c, parents, TREE_TOKENS);
    begin_results(c);
    a->out = tensor(c, dtype, tokens * CHANNELS, OF_ONE);
    a->history = tensor(c, dtype, columns * CHANNELS, OF_ONE);
    a->workspace = workspace(c);
}

/* ---- set_rows ---- */

enum { MOST_ROWS = 70, FEWEST_ROWS = 3, TARGETS = 80, ROW = 64 };
_Static_assert(GDN_ANSWER_ROWS == 4, "as many calls as answers.h says");

static void rows(int number, gdn_gpu_answer_call *c)
{
    /* Rows 0 and 2 name one target, of which the later is right; row 1 is not written. The others are their own. */
    static const int32_t index[MOST_ROWS] = { 7,  GDN_NONE, 7,  3,  4,  5,  6,  0,  8,  9,  10, 11, 12, 13,
                                              14, 15,       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
                                              28, 29,       30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41,
                                              42, 43,       44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55,
                                              56, 57,       58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69 };
    const int typed = number & 1, n = number >> 1 ? MOST_ROWS : FEWEST_ROWS;
    gdn_set_rows_args *a = &c->args.set_rows;
    *a = (gdn_set_rows_args){ .size = sizeof *a, .n_columns = ROW, .n_rows = n, .n_rows_dst = TARGETS };
    const gdn_span to = map(c, index, n);
    a->src = tensor(c, GDN_F32, n * ROW, OF_SIXTEENTHS);
    a->index = (gdn_tensor){ .data = to.data, .offset = to.offset, .bytes = to.bytes, .dtype = GDN_I32 };
    begin_results(c);
    a->dst = tensor(c, typed ? GDN_Q8_0 : GDN_F32, TARGETS * ROW, OF_ONE);
    a->workspace = workspace(c);
}

void gdn_gpu_answer_call_of(int number, void *data, gdn_gpu_answer_call *c)
{
    memset(c, 0, sizeof *c);
    c->data = data;
    if (number < GDN_ANSWER_DELTA) {
        c->kernel = GDN_KERNEL_gated_delta_net;
        delta(number, c);
    } else if (number < GDN_ANSWER_DELTA + GDN_ANSWER_CONV) {
        c->kernel = GDN_KERNEL_ssm_conv;
        conv(number - GDN_ANSWER_DELTA, c);
    } else {
        c->kernel = GDN_KERNEL_set_rows;
        rows(number - GDN_ANSWER_DELTA - GDN_ANSWER_CONV, c);
    }
}

/* ---- Contents ---- */

static uint32_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

/* n / 2^shift as an element of the type. */
static uint32_t element(int32_t dtype, int n, int shift)
{
    uint32_t magnitude = (uint32_t)(n < 0 ? -n : n);
    const uint32_t sign = n < 0 ? 1 : 0;
    const int top = dtype == GDN_F16 ? 10 : dtype == GDN_BF16 ? 7 : 23, bias = dtype == GDN_F16 ? 15 : 127;
    const int sign_at = dtype == GDN_F32 ? 31 : 15;
    if (!magnitude) return 0;
    int exponent = bias + top - shift;
    for (; magnitude < 1u << top; magnitude <<= 1) exponent--;
    return sign << sign_at | (uint32_t)exponent << top | (magnitude & ((1u << top) - 1));
}

static uint32_t value(const gdn_gpu_part *part, uint64_t *random)
{
    const uint32_t x = next(random);
    switch (part->values) {
    case GATES:
        return element(part->dtype, -(int)(x & 63), 6);
    case SHARES:
        return element(part->dtype, 1 + (int)(x & 63), 6);
    case OF_SIXTEENTHS:
        return element(part->dtype, (int)(x & 255) - 128, 11);
    default:
        return element(part->dtype, (int)(x & 255) - 128, 7);
    }
}

void gdn_gpu_answer_fill(const gdn_gpu_answer_call *c, unsigned char *memory)
{
    uint64_t random = 1;
    memset(memory, 0, c->bytes);
    for (uint32_t i = 0; i < c->n_parts; i++) {
        const gdn_gpu_part *part = &c->part[i];
        unsigned char *at = memory + part->at;
        if (part->map) {
            memcpy(at, part->map, 4 * (size_t)part->n);
            continue;
        }
        const size_t bytes = part->dtype == GDN_F32 ? 4 : 2;
        for (uint64_t e = 0; part->dtype != GDN_Q8_0 && e < part->n; e++) { /* rows of Q8_0 are only written */
            const uint32_t whole = value(part, &random);
            const uint16_t half = (uint16_t)whole;
            if (bytes == 4) memcpy(at + 4 * e, &whole, 4);
            else memcpy(at + 2 * e, &half, 2);
        }
    }
}

uint64_t gdn_gpu_answer_digest(const gdn_gpu_answer_call *c, const unsigned char *memory)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (uint64_t i = c->written; i < c->bytes; i++) h = (h ^ memory[i]) * UINT64_C(0x100000001b3);
    return h;
}
