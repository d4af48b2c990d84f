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

/* An operand of `n` axes outside a contiguous one. ragged: axis 0 is the sequence, which tokens (axis 1) may
 * ignore. Strides packed, with gaps, or with the axes in another order. */
static void operand(source *in, arena *a, gdn_tensor *t, int32_t dtype, int n, const int64_t *extent, int64_t inner,
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
        operand(&plain, a, t, dtype, n, extent, inner, ragged, n_tokens, wild);
        return;
    }
    slab *s = arena_take(a, covered ? (size_t)covered : 1, (size_t)unit, below(in, 4) != 3);
    if (dtype != GDN_I32 && dtype != GDN_I64)
        fill(in, s, dtype, wild);
    point(in, t, s);
}

static int32_t *map(arena *a, gdn_span *span, int n)
{
    slab *s = arena_take(a, n ? 4 * (size_t)n : 1, 4, 1);
    *span = (gdn_span){ .data = s->at, .bytes = s->bytes };
    return (int32_t *)(void *)s->at;
}

/* ---- Sequences and pools --------------------------------------------------------------------------------- */

enum { MAX_SEQS = 5, MAX_SLOTS = 512, POOL_FLOATS = 1 << 13, PRODUCTS = 1 << 13 };

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
        operand(in, c->arena, &a->q, PICK(in, floats), 3, tokens, dk, 1, b.n_tokens, wild);
        operand(in, c->arena, &a->k, PICK(in, floats), 3, tokens, dk, 1, b.n_tokens, wild);
        operand(in, c->arena, &a->v, PICK(in, floats), 3, values, dv, 1, b.n_tokens, wild);
    }
    operand(in, c->arena, &a->g, GDN_F32, 3, values, a->gate ? dk : 1, 1, b.n_tokens, wild);
    operand(in, c->arena, &a->beta, GDN_F32, 3, values, 1, 1, b.n_tokens, wild);
    operand(in, c->arena, &a->out, GDN_F32, 3, values, dv, 1, b.n_tokens, 0);
    const int64_t lines = a->state_layout == GDN_STATE_KV ? dk : dv, inner = a->state_layout == GDN_STATE_KV ? dv : dk;
    operand(in, c->arena, &a->state, GDN_F32, 4, (int64_t[]){ rows, slots, hv, lines }, inner, 0, 0, wild);
    if (!same)
        operand(in, c->arena, &a->state_out, GDN_F32, 4, (int64_t[]){ rows_out, slots_out, hv, lines }, inner, 0, 0, 0);
    else if (other)
        a->state_out = a->state;
    if (b.ragged)
        memcpy(map(c->arena, &a->seq_start, b.n_seqs + 1), b.start, 4 * (size_t)(b.n_seqs + 1));
    int32_t *dst = with_dst ? map(c->arena, &a->state_dst, b.n_seqs * entries) : NULL;
    int32_t *src = with_src ? map(c->arena, &a->state_src, b.n_seqs) : NULL;
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
    operand(in, c->arena, &a->x, GDN_F32, 2, tokens, channels, 1, b.n_tokens, wild);
    operand(in, c->arena, &a->out, GDN_F32, 2, tokens, channels, 1, b.n_tokens, 0);
    operand(in, c->arena, &a->weight, GDN_F32, 2, (int64_t[]){ channels, width }, 1, 0, 0, wild);
    if (below(in, 2))
        operand(in, c->arena, &a->bias, GDN_F32, 0, NULL, channels, 0, 0, wild);
    if (b.ragged)
        memcpy(map(c->arena, &a->seq_start, b.n_seqs + 1), b.start, 4 * (size_t)(b.n_seqs + 1));
    if (below(in, 2)) {
        int32_t *position = map(c->arena, &a->position, b.n_seqs);
        for (int s = 0; s < b.n_seqs; s++)
            position[s] = one_in(in, 16) ? INT32_MAX - (b.start[s + 1] - b.start[s]) - below(in, 4) : below(in, 40);
    }
    if (!with_history)
        return;
    a->n_rows    = rows;
    a->n_columns = columns == width - 1 && below(in, 2) ? 0 : columns;
    operand(in, c->arena, &a->history, GDN_F32, 2, (int64_t[]){ rows, columns }, channels, 0, 0, wild);
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
        operand(in, c->arena, &a->history_out, GDN_F32, 2, (int64_t[]){ rows_out, columns }, channels, 0, 0, 0);
    }
    int32_t *dst = with_dst ? map(c->arena, &a->history_dst, b.n_seqs) : NULL;
    int32_t *src = with_src ? map(c->arena, &a->history_src, b.n_seqs) : NULL;
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
    operand(in, c->arena, &a->src, PICK(in, from), 3, (int64_t[]){ batches[0], batches[1], n }, columns, 0, 0, wild);
    operand(in, c->arena, &a->dst, dtype, 3, (int64_t[]){ batches[0], batches[1], n_dst }, columns, 0, 0, wild);
    operand(in, c->arena, &a->index, type, 3, (int64_t[]){ index[0], index[1], n }, 1, 0, 0, 0);
    /* Every 4 or 8 bytes, gaps included. */
    slab *s = arena_find(c->arena, (char *)a->index.data + a->index.offset, 1);
    for (size_t i = 0; i + check_alignment(type) <= s->bytes; i += check_alignment(type)) {
        check_store_index(s->at + i, type, (int64_t)(noise(in) % (unsigned)(n_dst + 1)) - 1);
    }
}

/* ---- What calls have learned since the first seeds were picked: from the bytes behind theirs, so that those stay what
 * they are. */

/* A tensor of floats in a type that is no wider: its memory and its strides serve both. */
static void narrow(source *in, gdn_tensor *t)
{
    static const int32_t types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    if (t->dtype == GDN_F32)
        t->dtype = PICK(in, types);
}

/* Checkpoints of a call: where they are described, and what of the call says which slots they may have. */
typedef struct checkpoints {
    int32_t  *interval, *n;
    gdn_span *position, *map;
    const gdn_span *start, *src, *dst;
    int n_seqs, n_tokens, n_entries, src_slots, dst_slots, dst_size, same;
} checkpoints;

static int entry_of(const gdn_span *map, int i, int absent)
{
    return map->data ? ((const int32_t *)map->data)[i] : absent;
}

/* In slots of the pool that nobody else has to do with, where the call is valid so far; anywhere, where it is not. */
static void draw_checkpoints(source *in, fuzz_call *c, const checkpoints *k)
{
    static const int32_t intervals[] = { 0, 0, 0, 1, 2, 3, 5, 16, INT32_MAX };
    int taken[MAX_SLOTS] = { 0 }, reader[MAX_SLOTS], source_of[MAX_SEQS], first[MAX_SEQS + 1];
    *k->interval = PICK(in, intervals);
    if (!*k->interval || k->n_seqs < 1 || k->n_seqs > MAX_SEQS || k->dst_size > MAX_SLOTS) {
        *k->interval = 0;
        return;
    }
    *k->n = 1 + below(in, 3);
    int32_t *const map_at = map(c->arena, k->map, k->n_seqs * *k->n);
    int32_t *const given = !k->position->data && below(in, 4) ? map(c->arena, k->position, k->n_seqs) : NULL;
    for (int s = 0; given && s < k->n_seqs; s++)
        given[s] = one_in(in, 16) ? INT32_MAX - 100 : below(in, 20);
    if (c->mutations) {
        for (int i = 0; i < k->n_seqs * *k->n; i++)
            map_at[i] = below(in, 12) - 2;
        return;
    }
    for (int i = 0; i < MAX_SLOTS; i++)
        reader[i] = -1;
    for (int s = 0; s <= k->n_seqs; s++)
        first[s] = entry_of(k->start, s, s * (k->n_tokens / k->n_seqs));
    for (int s = 0; s < k->n_seqs; s++) {
        const int length = first[s + 1] - first[s], slot = source_of[s] = entry_of(k->src, s, s * k->src_slots);
        if (slot >= 0 && slot < MAX_SLOTS && length && k->same)
            reader[slot] = reader[slot] < 0 || reader[slot] == s ? s : MAX_SEQS;
        for (int r = 0; slot != GDN_SKIP && r < length && r < k->n_entries; r++) {
            const int target = entry_of(k->dst, s * k->n_entries + r, s * k->dst_slots + r);
            if (target >= 0 && target < MAX_SLOTS)
                taken[target] = 1;
        }
    }
    for (int s = 0; s < k->n_seqs; s++) {
        const int64_t kept = check_checkpoints(*k->interval, entry_of(k->position, s, 0), first[s + 1] - first[s]),
                      used = source_of[s] == GDN_SKIP ? 0 : kept;
        for (int i = 0; i < *k->n; i++) {
            int32_t *entry = &map_at[s * *k->n + i];
            const int wish = below(in, k->dst_size);
            *entry = i < used ? GDN_NONE : (int32_t)noise(in);
            for (int turn = 0; i < used && turn < k->dst_size && *entry < 0; turn++) {
                const int slot = (wish + turn) % k->dst_size;
                if (!taken[slot] && (reader[slot] < 0 || reader[slot] == s)) {
                    taken[slot] = 1;
                    *entry      = slot;
                }
            }
        }
    }
}

/* Something wrong with them, at times. */
static void break_checkpoints(source *in, fuzz_call *c, const checkpoints *k)
{
    switch (c->mutations ? below(in, 32) : 0) {
    case 31: *k->interval = below(in, 2) ? -1 : 0; break;
    case 30: *k->n = below(in, 3) - 1; break;
    case 29: k->map->data = NULL; break;
    case 28: k->map->bytes /= 2; break;
    case 27: k->map->offset = 2; break;
    case 26: k->position->data = NULL; break;
    default: break;
    }
}

static void later_delta(source *in, fuzz_call *c, int wild)
{
    static const float eps[] = { 0, 1e-6f, 1e-40f, 1 }, factors[] = { 0, 2, -1, 1e-40f };
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    gdn_tensor *const tensors[] = { &a->g, &a->beta, &a->out };
    for (int i = 0; i < 3; i++)
        narrow(in, tensors[i]);
    a->qk_norm     = below(in, 3);
    a->qk_norm_eps = a->qk_norm ? PICK(in, eps) : 0;
    a->g_form      = below(in, 4);
    a->beta_form   = below(in, 2);
    a->beta_factor = PICK(in, factors);
    if (a->g_form >= GDN_G_RAW && a->n_heads_v > 0 && a->n_heads_v <= 64 && a->head_dim_k > 0 && a->head_dim_k <= 256) {
        const int64_t heads = a->n_heads_v;
        operand(in, c->arena, &a->ssm_a, GDN_F32, 1, &heads, 1, 0, 0, wild);
        narrow(in, &a->ssm_a);
        if (below(in, 2)) {
            operand(in, c->arena, &a->dt_bias, GDN_F32, 1, &heads, a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1, 0,
                    0, wild);
            narrow(in, &a->dt_bias);
        }
    }
    switch (c->mutations ? below(in, 32) : 0) { /* something wrong */
    case 31: a->qk_norm = 3 - below(in, 5); break;
    case 30: a->g_form = 4 - below(in, 6); break;
    case 29: a->beta_form = 2 - below(in, 4); break;
    case 28: a->qk_norm_eps = -1; break;
    case 27: a->beta_factor = below(in, 2) ? __builtin_inff() : __builtin_nanf(""); break;
    case 26: a->ssm_a = a->beta; break;
    case 25: a->dt_bias = a->beta; break;
    case 24: a->reserved2 = 1; break;
    case 23: a->out = a->ssm_a; break;
    default: break;
    }
    const int slots = a->n_slots ? a->n_slots : 1, own = a->state_out.data != NULL;
    const int slots_out = own && a->n_slots_out ? a->n_slots_out : slots;
    const int64_t size = (int64_t)(own && a->n_rows_out ? a->n_rows_out : a->n_rows) * slots_out;
    const checkpoints k = {
        &a->checkpoint_interval, &a->n_checkpoints, &a->position, &a->state_checkpoint, &a->seq_start, &a->state_src,
        &a->state_dst, a->n_seqs, a->n_tokens, a->n_snapshots ? a->n_snapshots : slots_out, slots, slots_out,
        size > 0 && size <= MAX_SLOTS ? (int)size : MAX_SLOTS + 1, !own || a->state_out.data == a->state.data,
    };
    draw_checkpoints(in, c, &k);
    break_checkpoints(in, c, &k);
}

static void later_conv(source *in, fuzz_call *c)
{
    gdn_ssm_conv_args *a = &c->args.ssm_conv;
    gdn_tensor *const tensors[] = { &a->x, &a->weight, &a->bias, &a->out, &a->history };
    for (int i = 0; i < 5; i++)
        narrow(in, tensors[i]);
    if (a->history_out.dtype == GDN_F32 && (!c->mutations || below(in, 32) != 31))
        a->history_out.dtype = a->history.dtype;
    if (!a->history.data)
        return;
    const int own = a->history_out.data != NULL, rows = own && a->n_rows_out ? a->n_rows_out : a->n_rows;
    const checkpoints k = {
        &a->checkpoint_interval, &a->n_checkpoints, &a->position, &a->history_checkpoint, &a->seq_start,
        &a->history_src, &a->history_dst, a->n_seqs, a->n_tokens, 1, 1, 1,
        rows > 0 && rows <= MAX_SLOTS ? rows : MAX_SLOTS + 1, !own || a->history_out.data == a->history.data,
    };
    draw_checkpoints(in, c, &k);
    break_checkpoints(in, c, &k);
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
    if (c->kernel == &check_kernel_gated_delta_net)
        later_delta(&in, c, wild);
    else if (c->kernel == &check_kernel_ssm_conv)
        later_conv(&in, c);
    c->args_bytes = c->args.size > 65536 || c->args.size < 4 ? 4 : c->args.size;
}
