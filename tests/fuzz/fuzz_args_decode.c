/* Bytes to a call. See fuzz_args.h. First a valid call in any of the forms the header allows, then, for
 * four inputs in ten, up to three things wrong with it. Byte 0 always means the plainest choice, so a short
 * input is a plain call. `bytes` members never claim more memory than there is.
 * Two takes never stand in one expression, or list of arguments, whose parts a compiler may compute in either order: an
 * input is the same call with every compiler. */
#include "fuzz_args_source.h"

#include <string.h>

/* ---- Operands ------------------------------------------------------------------------------------------ */

/* Values of a float type. Wild ones are any bits, NaN and subnormals included. */
static void fill(source *in, slab *s, int32_t dtype, int wild)
{
    for (size_t i = 0; i + check_alignment(dtype) <= s->bytes; i += check_alignment(dtype)) {
        const uint32_t r = noise(in);
        uint32_t bits = r;
        if (!wild) {
            const float x = (float)(int32_t)r * 0x1p-31f;
            memcpy(&bits, &x, 4);
        }
        if (check_alignment(dtype) == 4) {
            memcpy(s->at + i, &bits, 4);
        } else {
            const uint16_t half = (uint16_t)(wild ? r : dtype == GDN_F16 ? 0x3800u | (r & 0x83ffu) : bits >> 16);
            memcpy(s->at + i, &half, 2);
        }
    }
}

static void point(source *in, gdn_tensor *t, slab *s)
{
    static const uint64_t offsets[] = { 0, 0, 8, 64, 4096, 1 << 20 };
    t->offset = PICK(in, offsets);
    t->data   = (void *)((uintptr_t)s->at - t->offset);
    t->bytes  = s->bytes;
}

void fuzz_operand(source *in, arena *a, gdn_tensor *t, int32_t dtype, int n, const int64_t *extent, int64_t inner,
                    int ragged, int64_t n_tokens, int wild)
{
    const int64_t unit = (int64_t)check_alignment(dtype);
    const int form = below(in, 8), by_sequence = ragged && form >= 6;
    int order[4], from = ragged && !by_sequence ? 1 : 0;
    int64_t e[4], stride[4] = { 0 }, inside = (int64_t)check_row_bytes(dtype, inner);
    uint64_t covered = (uint64_t)inside;
    for (int i = 0; i < n; i++) {
        e[i]     = extent[i];
        order[i] = n - 1 - i; /* innermost first */
    }
    if (from)
        e[1] = n_tokens;
    if (form >= 4 && n - from > 1) {
        const int i = below(in, n - from - 1), swap = order[i];
        order[i] = order[i + 1], order[i + 1] = swap;
    }
    for (int i = 0; i < n; i++) {
        const int axis = order[i];
        if (axis < from)
            continue;
        stride[axis] = inside + (form % 4 == 3 ? unit * below(in, 9) : 0);
        inside       = (e[axis] > 0 ? e[axis] : 1) * stride[axis];
        if (e[axis] <= 0)
            covered = 0;
        else if (covered)
            covered += (uint64_t)(e[axis] - 1) * (uint64_t)stride[axis];
    }
    *t = (gdn_tensor){ .dtype = dtype };
    for (int i = 0; i < n && form >= 2; i++) /* forms 0 and 1 are packed and say so by zeros */
        t->stride[i] = stride[i];
    if (covered + 64 > SLAB_BYTES) { /* too large with its gaps: packed */
        source plain = { .noise = noise(in) };
        fuzz_operand(&plain, a, t, dtype, n, extent, inner, ragged, n_tokens, wild);
        return;
    }
    slab *s = arena_take(a, covered ? (size_t)covered : 1, (size_t)unit, below(in, 4) != 3);
    if (dtype != GDN_I32 && dtype != GDN_I64)
        fill(in, s, dtype, wild);
    point(in, t, s);
}

int32_t *fuzz_map(arena *a, gdn_span *span, int n)
{
    slab *s = arena_take(a, n ? 4 * (size_t)n : 1, 4, 1);
    *span = (gdn_span){ .data = s->at, .bytes = s->bytes };
    return (int32_t *)(void *)s->at;
}

/* ---- Sequences and pools --------------------------------------------------------------------------------- */

enum { POOL_FLOATS = 1 << 13, PRODUCTS = 1 << 13 };

typedef struct batch {
    int n_seqs, n_tokens, longest, ragged, start[MAX_SEQS + 1];
} batch;

static batch make_batch(source *in, int long_ones)
{
    batch b = { .n_seqs = 1 };
    static const int counts[] = { 1, 2, 3, 5, 1, 2, 4, 0 };
    static const int lengths[] = { 1, 2, 3, 4, 1, 5, 0, 7 };
    b.n_seqs = PICK(in, counts);
    b.ragged = b.n_seqs && below(in, 2);
    if (!b.ragged) {
        const int each = long_ones && one_in(in, 16) ? 13 + below(in, b.n_seqs > 1 ? 12 : 60) : PICK(in, lengths);
        b.n_tokens = b.n_seqs * each;
        b.longest  = b.n_seqs ? each : 0;
        for (int s = 0; s <= b.n_seqs; s++)
            b.start[s] = s * each;
        return b;
    }
    b.start[0] = one_in(in, 8) ? below(in, 3) : 0; /* tokens that belong to nobody */
    for (int s = 0; s < b.n_seqs; s++) {
        const int length = long_ones && one_in(in, 32) ? 13 + below(in, 12) : PICK(in, lengths);
        b.start[s + 1] = b.start[s] + length;
        b.longest      = length > b.longest ? length : b.longest;
    }
    b.n_tokens = b.start[b.n_seqs] + (one_in(in, 8) ? below(in, 3) : 0);
    return b;
}

/* Entries that are allowed: every slot written once at most, and none that another sequence reads. */
static void fill_pool_maps(source *in, const batch *b, int entries, int32_t *src, int src_slots, int src_size,
                           int32_t *dst, int dst_size, int same, int unused_too)
{
    int reader[MAX_SLOTS], taken[MAX_SLOTS] = { 0 };
    for (int i = 0; i < MAX_SLOTS; i++)
        reader[i] = -1;
    for (int s = 0; s < b->n_seqs; s++) {
        int slot = s * src_slots;
        if (src) {
            const int what = below(in, 8);
            slot = what == 7 ? GDN_SKIP : what == 6 ? GDN_NONE : below(in, src_size);
            /* Default targets: the slots of the own row are what no other sequence writes. */
            if (slot >= 0 && !dst && same)
                slot = s * src_slots + slot % src_slots;
            src[s] = slot;
        }
        if (slot >= 0 && slot < MAX_SLOTS)
            reader[slot] = reader[slot] < 0 || reader[slot] == s ? s : MAX_SEQS; /* several */
    }
    for (int s = 0; dst && s < b->n_seqs; s++)
        for (int r = 0; r < entries; r++) {
            int32_t *entry = &dst[s * entries + r];
            if (unused_too && (r >= b->start[s + 1] - b->start[s] || (src && src[s] == GDN_SKIP)) && one_in(in, 2)) {
                *entry = (int32_t)noise(in); /* nobody looks at it */
                continue;
            }
            const int wish = below(in, dst_size);
            *entry = GDN_NONE;
            for (int i = 0; i < dst_size && !one_in(in, 8); i++) {
                const int slot = (wish + i) % dst_size;
                if (!taken[slot] && !(same && reader[slot] >= 0 && reader[slot] != s)) {
                    taken[slot] = 1;
                    *entry      = slot;
                    break;
                }
            }
        }
}

/* ---- Valid calls ------------------------------------------------------------------------------------------ */

static void fuse(source *in, fuzz_call *c, gdn_gated_delta_net_args *a)
{
    /* q, k and v of a token side by side, as a projection leaves them. */
    const int64_t q = 4 * (int64_t)a->n_heads_k * a->head_dim_k, v = 4 * (int64_t)a->n_heads_v * a->head_dim_v;
    slab *s = arena_take(c->arena, (size_t)((2 * q + v) * a->n_tokens), 4, 1);
    gdn_tensor *const t[] = { &a->q, &a->k, &a->v };
    const int64_t at[] = { 0, q, 2 * q };
    fill(in, s, GDN_F32, 0);
    for (int i = 0; i < 3; i++)
        *t[i] = (gdn_tensor){ .data = s->at + at[i], .bytes = s->bytes - (uint64_t)at[i],
                              .stride = { 0, 2 * q + v, i < 2 ? 4 * a->head_dim_k : 4 * a->head_dim_v } };
}

static void make_delta(source *in, fuzz_call *c, int wild)
{
    static const int dims[] = { 16, 32, 17, 33, 48, 64, 20, 31, 16, 128 };
    static const int32_t floats[] = { GDN_F32, GDN_F16, GDN_BF16 };
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    const batch b = make_batch(in, 1);
    static const int many[] = { 1, 2, 3, 1, 2, 4, 9, 40 };
    const int hk = 1 + below(in, 3) % 2, with_src = below(in, 2), with_dst = below(in, 2), other = below(in, 3) == 2;
    int hv = hk * (1 + below(in, 3)), dk = PICK(in, dims), dv = PICK(in, dims);
    int slots = PICK(in, many), rows = (b.n_seqs ? b.n_seqs : 1) + below(in, 2);
    /* Small pools and little arithmetic, which an instrumented reference takes most of the time for. */
    const int scale = one_in(in, 32) ? 8 : 1;
    for (int turn = 0;
         (int64_t)rows * hv * dk * dv > scale * POOL_FLOATS || (int64_t)b.n_tokens * hv * dk * dv > scale * PRODUCTS;
         turn++) {
        if (hv > hk)
            hv = hk;
        else if (dk > 20 && (dk >= dv || dv <= 20))
            dk = turn % 2 ? 16 : 20;
        else if (dv > 20)
            dv = turn % 2 ? 17 : 16;
        else
            break; /* long sequences of the smallest heads */
    }
    const int room =
        scale * POOL_FLOATS / (hv * dk * dv) < MAX_SLOTS ? scale * POOL_FLOATS / (hv * dk * dv) : MAX_SLOTS;
    slots = slots * rows <= room ? slots : 1;
    *a = (gdn_gated_delta_net_args){ .size = sizeof *a,
                                     .n_seqs = b.n_seqs, .n_tokens = b.n_tokens, .n_heads_k = hk, .n_heads_v = hv,
                                     .head_dim_k = dk, .head_dim_v = dv, .n_rows = rows,
                                     .n_slots = slots };
    a->head_map = below(in, 2), a->gate = below(in, 2), a->state_layout = below(in, 2);
    a->scale = below(in, 4) == 3 ? 0.5f : 0;
    int rows_out = rows, slots_out = slots;
    const int same = !other || rows * slots + 1 > room || below(in, 2);
    if (other && !same) {
        slots_out     = below(in, 2) ? 1 : slots;
        a->n_rows_out = rows_out = rows + (slots_out == 1), a->n_slots_out = slots_out;
    } else if (other && with_src && with_dst) { /* the same tensor, of which either side may state fewer rows */
        a->n_rows     = 1 + below(in, rows);
        a->n_rows_out = rows_out = 1 + below(in, rows);
    }
    int entries = slots_out;
    if (with_dst)
        a->n_snapshots = entries = 1 + below(in, 4);
    else if (below(in, 2))
        a->n_snapshots = entries = 1;
    const int64_t tokens[] = { b.n_seqs, b.longest, hk }, values[] = { b.n_seqs, b.longest, hv };
    if (b.n_tokens && below(in, 4) == 3) {
        fuse(in, c, a);
    } else {
        fuzz_operand(in, c->arena, &a->q, PICK(in, floats), 3, tokens, dk, 1, b.n_tokens, wild);
        fuzz_operand(in, c->arena, &a->k, PICK(in, floats), 3, tokens, dk, 1, b.n_tokens, wild);
        fuzz_operand(in, c->arena, &a->v, PICK(in, floats), 3, values, dv, 1, b.n_tokens, wild);
    }
    fuzz_operand(in, c->arena, &a->g, GDN_F32, 3, values, a->gate ? dk : 1, 1, b.n_tokens, wild);
    fuzz_operand(in, c->arena, &a->beta, GDN_F32, 3, values, 1, 1, b.n_tokens, wild);
    fuzz_operand(in, c->arena, &a->out, GDN_F32, 3, values, dv, 1, b.n_tokens, 0);
    const int64_t lines = a->state_layout == GDN_STATE_KV ? dk : dv, inner = a->state_layout == GDN_STATE_KV ? dv : dk;
    fuzz_operand(in, c->arena, &a->state, GDN_F32, 4, (int64_t[]){ rows, slots, hv, lines }, inner, 0, 0, wild);
    if (!same)
        fuzz_operand(in, c->arena, &a->state_out, GDN_F32, 4, (int64_t[]){ rows_out, slots_out, hv, lines }, inner,
                     0, 0, 0);
    else if (other)
        a->state_out = a->state;
    if (b.ragged)
        memcpy(fuzz_map(c->arena, &a->seq_start, b.n_seqs + 1), b.start, 4 * (size_t)(b.n_seqs + 1));
    int32_t *dst = with_dst ? fuzz_map(c->arena, &a->state_dst, b.n_seqs * entries) : NULL;
    int32_t *src = with_src ? fuzz_map(c->arena, &a->state_src, b.n_seqs) : NULL;
    fill_pool_maps(in, &b, entries, src, slots, a->n_rows * slots, dst, rows_out * slots_out, same, 1);
}

static void make_conv(source *in, fuzz_call *c, int wild)
{
    gdn_ssm_conv_args *a = &c->args.ssm_conv;
    const batch b = make_batch(in, 1);
    static const int sizes[] = { 1, 3, 16, 17, 33, 64, 100, 257 };
    const int pick = PICK(in, sizes), channels = b.n_tokens > 100 && pick > 100 ? 37 : pick,
              width = 1 + (3 + below(in, 16)) % 16, with_history = below(in, 4) != 3;
    const int columns = width - 1 + below(in, 3), rows = (b.n_seqs ? b.n_seqs : 1) + below(in, 2),
              other = below(in, 3) == 2;
    *a = (gdn_ssm_conv_args){ .size = sizeof *a,
                              .flags = (uint32_t)below(in, 2), .n_seqs = b.n_seqs, .n_tokens = b.n_tokens,
                              .n_channels = channels,
                              .kernel_width = width };
    const int64_t tokens[] = { b.n_seqs, b.longest };
    fuzz_operand(in, c->arena, &a->x, GDN_F32, 2, tokens, channels, 1, b.n_tokens, wild);
    fuzz_operand(in, c->arena, &a->out, GDN_F32, 2, tokens, channels, 1, b.n_tokens, 0);
    fuzz_operand(in, c->arena, &a->weight, GDN_F32, 2, (int64_t[]){ channels, width }, 1, 0, 0, wild);
    if (below(in, 2))
        fuzz_operand(in, c->arena, &a->bias, GDN_F32, 0, NULL, channels, 0, 0, wild);
    if (b.ragged)
        memcpy(fuzz_map(c->arena, &a->seq_start, b.n_seqs + 1), b.start, 4 * (size_t)(b.n_seqs + 1));
    if (below(in, 2)) {
        int32_t *position = fuzz_map(c->arena, &a->position, b.n_seqs);
        for (int s = 0; s < b.n_seqs; s++)
            position[s] = one_in(in, 16) ? INT32_MAX - (b.start[s + 1] - b.start[s]) - below(in, 4) : below(in, 40);
    }
    if (!with_history)
        return;
    a->n_rows    = rows;
    a->n_columns = columns == width - 1 && below(in, 2) ? 0 : columns;
    fuzz_operand(in, c->arena, &a->history, GDN_F32, 2, (int64_t[]){ rows, columns }, channels, 0, 0, wild);
    int rows_out = rows;
    const int with_src = below(in, 2), with_dst = below(in, 2), same = !other || below(in, 2);
    if (other && same) {
        a->history_out = a->history;
        if (with_src && with_dst) { /* either side may state fewer rows */
            a->n_rows     = 1 + below(in, rows);
            a->n_rows_out = rows_out = 1 + below(in, rows);
        }
    } else if (other) {
        a->n_rows_out = rows_out = rows + below(in, 2);
        fuzz_operand(in, c->arena, &a->history_out, GDN_F32, 2, (int64_t[]){ rows_out, columns }, channels, 0, 0, 0);
    }
    int32_t *dst = with_dst ? fuzz_map(c->arena, &a->history_dst, b.n_seqs) : NULL;
    int32_t *src = with_src ? fuzz_map(c->arena, &a->history_src, b.n_seqs) : NULL;
    fill_pool_maps(in, &b, 1, src, 1, a->n_rows, dst, rows_out, same, 0);
}

static void make_rows(source *in, fuzz_call *c, int wild)
{
    static const int32_t from[] = { GDN_F32, GDN_F16, GDN_BF16 }, to[] = { GDN_F16, GDN_F32, GDN_BF16, GDN_Q8_0 };
    static const int sizes[] = { 32, 1, 7, 33, 64, 96, 100, 15 };
    gdn_set_rows_args *a = &c->args.set_rows;
    const int32_t dtype = PICK(in, to), type = below(in, 2) ? GDN_I64 : GDN_I32;
    int columns = PICK(in, sizes);
    columns = dtype == GDN_Q8_0 ? (columns + 31) / 32 * 32 : columns;
    const int n = below(in, 8), n_dst = 1 + below(in, 9);
    int batches[2], index[2];
    for (int i = 0; i < 2; i++) {
        batches[i] = 1 + below(in, 4);
        index[i]   = 1 + below(in, batches[i]);
        index[i]   = batches[i] % index[i] ? 1 : index[i];
    }
    *a = (gdn_set_rows_args){ .size = sizeof *a, .n_columns = columns, .n_rows = n, .n_rows_dst = n_dst };
    for (int i = 0; i < 2; i++) {
        a->n_batch[i]     = batches[i] == 1 && below(in, 2) ? 0 : batches[i];
        a->index_batch[i] = index[i] == 1 && below(in, 2) ? 0 : index[i];
    }
    fuzz_operand(in, c->arena, &a->src, PICK(in, from), 3, (int64_t[]){ batches[0], batches[1], n }, columns, 0, 0,
                 wild);
    fuzz_operand(in, c->arena, &a->dst, dtype, 3, (int64_t[]){ batches[0], batches[1], n_dst }, columns, 0, 0, wild);
    fuzz_operand(in, c->arena, &a->index, type, 3, (int64_t[]){ index[0], index[1], n }, 1, 0, 0, 0);
    /* Every 4 or 8 bytes, gaps included. */
    slab *s = arena_find(c->arena, (char *)a->index.data + a->index.offset, 1);
    for (size_t i = 0; i + check_alignment(type) <= s->bytes; i += check_alignment(type)) {
        check_store_index(s->at + i, type, (int64_t)(noise(in) % (unsigned)(n_dst + 1)) - 1);
    }
}

/* By the kernels' numbers. An input's first byte chooses among these three, and the seeds rely on it: a kernel that is
 * added has to be chosen by something else. */
static void (*const makers[])(source *in, fuzz_call *c, int wild) = {
    [CHECK_KERNEL_gated_delta_net] = make_delta,
    [CHECK_KERNEL_ssm_conv] = make_conv,
    [CHECK_KERNEL_set_rows] = make_rows,
};

void fuzz_decode(const uint8_t *data, size_t size, arena *a, fuzz_call *c)
{
    source in = { data, size, 0 };
    memset(c, 0, sizeof *c);
    arena_reset(a);
    c->arena          = a;
    const int number  = below(&in, sizeof makers / sizeof makers[0]);
    c->kernel         = check_kernels[number];
    c->implementation = below(&in, 16);
    in.noise          = take(&in);
    const int wild    = one_in(&in, 4);
    const unsigned n  = take(&in);
    c->mutations        = n >= 240 ? 3 : n >= 216 ? 2 : n >= 152 ? 1 : 0;
    c->capability_extra = one_in(&in, 8) ? below(&in, 100) : 0;
    makers[number](&in, c, wild);
    fuzz_break(&in, c);
    fuzz_later(&in, c, wild);
    c->args_bytes = c->args.size > 65536 || c->args.size < 4 ? 4 : c->args.size;
}
