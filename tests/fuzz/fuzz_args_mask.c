/* What an accepted call may write. See fuzz_args.h. Written from include/gdn/gdn.h, not from core/. */
#include "fuzz_args.h"

#include <string.h>

typedef struct place {
    unsigned char *at;
    uint64_t       bytes;
    int64_t        stride[4];
} place;

static uint64_t dtype_bytes(int32_t dtype, int64_t n)
{
    switch (dtype) {
    case GDN_F16:
    case GDN_BF16: return 2 * (uint64_t)n;
    case GDN_Q8_0: return 34 * (uint64_t)n / 32;
    case GDN_I64: return 8 * (uint64_t)n;
    default: return 4 * (uint64_t)n;
    }
}

/* A stride of 0 is the extent of everything inside the axis. Axis 0 of a ragged operand stays 0. */
static place resolve(const gdn_tensor *t, int n_axes, const int64_t *extent, int64_t inner, int ragged)
{
    /* NULL + 0 is undefined, and an absent operand says so by NULL. */
    place p = { t->data ? (unsigned char *)t->data + t->offset : NULL, t->bytes, { 0 } };
    int64_t inside = (int64_t)dtype_bytes(t->dtype, inner);
    for (int a = n_axes - 1; a >= 0; a--) {
        p.stride[a] = t->stride[a];
        if (!t->stride[a] && !(ragged && a == 0))
            p.stride[a] = inside;
        const int64_t step = p.stride[a] > inside ? p.stride[a] : inside;
        inside = (extent[a] > 0 ? extent[a] : 1) * step;
    }
    return p;
}

static void allow(fuzz_call *call, const place *p, int64_t offset, uint64_t bytes, int kind)
{
    static const unsigned width[] = { [MASK_F32] = 4, [MASK_F16] = 2, [MASK_BF16] = 2, [MASK_BYTE] = 1 };
    FUZZ_REQUIRE(offset >= 0 && (!p->bytes || (uint64_t)offset + bytes <= p->bytes),
                 "an accepted call writes bytes %lld to %lld of an operand that has %llu", (long long)offset,
                 (long long)(offset + (int64_t)bytes), (unsigned long long)p->bytes);
    slab *s = arena_find(call->arena, p->at + offset, (size_t)bytes);
    FUZZ_REQUIRE(s, "an accepted call writes outside of all memory");
    unsigned char *mask = s->mask + (p->at + offset - s->at);
    for (uint64_t i = 0; i < bytes; i++)
        mask[i] = (unsigned char)(i % width[kind] ? MASK_INSIDE : kind);
}

/* Entry of a map, or what it is when the map is absent. */
static int64_t entry(fuzz_call *call, const gdn_span *map, int64_t i, int64_t absent)
{
    int32_t value;
    if (!map->data)
        return absent;
    const char *at = (const char *)map->data + map->offset + 4 * i;
    FUZZ_REQUIRE((!map->bytes || 4 * (uint64_t)i + 4 <= map->bytes) && arena_find(call->arena, at, 4), "an accepted call reads beyond a map");
    memcpy(&value, at, 4);
    return value;
}

typedef struct sequence {
    int64_t first, length;
} sequence;

static sequence sequence_of(fuzz_call *call, const gdn_span *seq_start, int64_t s, int64_t n_seqs, int64_t n_tokens)
{
    const int64_t share = n_tokens / n_seqs, first = entry(call, seq_start, s, s * share);
    return (sequence){ first, entry(call, seq_start, s + 1, (s + 1) * share) - first };
}

static void mask_tokens(fuzz_call *call, const place *out, sequence q, int64_t s, int64_t heads, uint64_t bytes)
{
    for (int64_t t = 0; t < q.length; t++)
        for (int64_t h = 0; h < heads; h++) {
            const int64_t token = out->stride[0] ? s * out->stride[0] + t * out->stride[1] : (q.first + t) * out->stride[1];
            allow(call, out, token + (heads > 1 ? h * out->stride[2] : 0), bytes, MASK_F32);
        }
}

/* Nothing that has been marked so far lies in the pool: out overlaps no state, in whatever rows the call names. */
static void require_apart(fuzz_call *call, const place *pool, const int64_t n[4], uint64_t inner)
{
    int64_t i[4];
    for (i[0] = 0; pool->at && i[0] < n[0]; i[0]++)
        for (i[1] = 0; i[1] < n[1]; i[1]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++)
                for (i[3] = 0; i[3] < n[3]; i[3]++) {
                    const int64_t offset = i[0] * pool->stride[0] + i[1] * pool->stride[1] + i[2] * pool->stride[2] + i[3] * pool->stride[3];
                    const slab *s = arena_find(call->arena, pool->at + offset, (size_t)inner);
                    FUZZ_REQUIRE(s, "an accepted call has a pool outside of all memory");
                    const unsigned char *mask = s->mask + (pool->at + offset - s->at);
                    for (uint64_t k = 0; k < inner; k += 2)
                        FUZZ_REQUIRE(!mask[k] && !mask[k + 1], "an accepted call writes out into a pool, %lld bytes from its begin",
                                     (long long)(offset + (int64_t)k));
                }
}

static void mask_delta(fuzz_call *call, const gdn_gated_delta_net_args *a)
{
    const int own = a->state_out.data != NULL, kv = a->state_layout == GDN_STATE_KV;
    const int64_t slots_in = a->n_slots ? a->n_slots : 1, rows = own && a->n_rows_out ? a->n_rows_out : a->n_rows;
    const int64_t slots = own && a->n_slots_out ? a->n_slots_out : slots_in;
    const int64_t snapshots = a->n_snapshots ? a->n_snapshots : slots;
    const int64_t lines = kv ? a->head_dim_k : a->head_dim_v, inner = kv ? a->head_dim_v : a->head_dim_k;
    const place out = resolve(&a->out, 3, (int64_t[]){ a->n_seqs, a->n_tokens, a->n_heads_v }, a->head_dim_v, 1);
    const place state = resolve(own ? &a->state_out : &a->state, 4, (int64_t[]){ rows, slots, a->n_heads_v, lines }, inner, 0);
    for (int64_t s = 0; s < a->n_seqs; s++) {
        const sequence q = sequence_of(call, &a->seq_start, s, a->n_seqs, a->n_tokens);
        const int64_t source = entry(call, &a->state_src, s, s * slots_in);
        FUZZ_REQUIRE(source >= GDN_SKIP && source < a->n_rows * slots_in, "an accepted call has state_src %lld", (long long)source);
        if (source == GDN_SKIP)
            continue;
        mask_tokens(call, &out, q, s, a->n_heads_v, 4 * (uint64_t)a->head_dim_v);
    }
    const place read = resolve(&a->state, 4, (int64_t[]){ a->n_rows, slots_in, a->n_heads_v, lines }, inner, 0);
    require_apart(call, &read, (int64_t[]){ a->n_rows, slots_in, a->n_heads_v, lines }, 4 * (uint64_t)inner);
    require_apart(call, &state, (int64_t[]){ rows, slots, a->n_heads_v, lines }, 4 * (uint64_t)inner);
    for (int64_t s = 0; s < a->n_seqs; s++) {
        const sequence q = sequence_of(call, &a->seq_start, s, a->n_seqs, a->n_tokens);
        if (entry(call, &a->state_src, s, s * slots_in) == GDN_SKIP)
            continue;
        for (int64_t r = 0; r < snapshots && r < q.length; r++) {
            const int64_t target = entry(call, &a->state_dst, s * snapshots + r, s * slots + r);
            FUZZ_REQUIRE(target >= GDN_NONE && target < rows * slots, "an accepted call has state_dst %lld", (long long)target);
            for (int64_t h = 0; h < a->n_heads_v && target >= 0; h++)
                for (int64_t line = 0; line < lines; line++)
                    allow(call, &state, target / slots * state.stride[0] + target % slots * state.stride[1] +
                          h * state.stride[2] + line * state.stride[3], 4 * (uint64_t)inner, MASK_F32);
        }
    }
}

static void mask_conv(fuzz_call *call, const gdn_ssm_conv_args *a)
{
    const int own = a->history_out.data != NULL;
    const int64_t W = !a->history.data ? 0 : a->n_columns ? a->n_columns : a->kernel_width - 1;
    const int64_t rows = own && a->n_rows_out ? a->n_rows_out : a->n_rows;
    const place out = resolve(&a->out, 2, (int64_t[]){ a->n_seqs, a->n_tokens }, a->n_channels, 1);
    const place history = resolve(own ? &a->history_out : &a->history, 2, (int64_t[]){ rows, W }, a->n_channels, 0);
    for (int64_t s = 0; s < a->n_seqs; s++) {
        const sequence q = sequence_of(call, &a->seq_start, s, a->n_seqs, a->n_tokens);
        if (entry(call, &a->history_src, s, s) == GDN_SKIP)
            continue;
        mask_tokens(call, &out, q, s, 1, 4 * (uint64_t)a->n_channels);
    }
    const place read = resolve(&a->history, 2, (int64_t[]){ a->n_rows, W }, a->n_channels, 0);
    require_apart(call, &read, (int64_t[]){ a->n_rows, W, 1, 1 }, 4 * (uint64_t)a->n_channels);
    require_apart(call, &history, (int64_t[]){ rows, W, 1, 1 }, 4 * (uint64_t)a->n_channels);
    for (int64_t s = 0; s < a->n_seqs; s++) {
        const sequence q = sequence_of(call, &a->seq_start, s, a->n_seqs, a->n_tokens);
        const int64_t end = entry(call, &a->position, s, 0) + q.length;
        if (entry(call, &a->history_src, s, s) == GDN_SKIP)
            continue;
        const int64_t row = entry(call, &a->history_dst, s, s);
        for (int64_t p = end > W ? end - W : 0; p < end && q.length && row >= 0 && W; p++) {
            FUZZ_REQUIRE(row < rows, "an accepted call has history_dst %lld", (long long)row);
            allow(call, &history, row * history.stride[0] + p % W * history.stride[1], 4 * (uint64_t)a->n_channels, MASK_F32);
        }
    }
}

static void mask_rows(fuzz_call *call, const gdn_set_rows_args *a)
{
    static const int kind[] = { [GDN_F32] = MASK_F32, [GDN_F16] = MASK_F16, [GDN_BF16] = MASK_BF16, [GDN_Q8_0] = MASK_BYTE };
    const int64_t n[2] = { a->n_batch[0] ? a->n_batch[0] : 1, a->n_batch[1] ? a->n_batch[1] : 1 };
    const int64_t m[2] = { a->index_batch[0] ? a->index_batch[0] : 1, a->index_batch[1] ? a->index_batch[1] : 1 };
    const place dst = resolve(&a->dst, 3, (int64_t[]){ n[0], n[1], a->n_rows_dst }, a->n_columns, 0);
    const place index = resolve(&a->index, 3, (int64_t[]){ m[0], m[1], a->n_rows }, 1, 0);
    for (int64_t b = 0; b < n[0] && a->n_rows; b++)
        for (int64_t c = 0; c < n[1]; c++)
            for (int64_t i = 0; i < a->n_rows; i++) {
                const int64_t offset = b % m[0] * index.stride[0] + c % m[1] * index.stride[1] + i * index.stride[2];
                const size_t  width = a->index.dtype == GDN_I64 ? 8 : 4;
                int32_t narrow;
                int64_t row;
                FUZZ_REQUIRE((!index.bytes || (uint64_t)offset + width <= index.bytes) && arena_find(call->arena, index.at + offset, width),
                             "an accepted call reads beyond the index");
                memcpy(&narrow, index.at + offset, 4);
                memcpy(&row, index.at + offset, width);
                row = width == 4 ? narrow : row;
                FUZZ_REQUIRE(row >= GDN_NONE && row < a->n_rows_dst, "an accepted call has index %lld", (long long)row);
                if (row >= 0)
                    allow(call, &dst, b * dst.stride[0] + c * dst.stride[1] + row * dst.stride[2],
                          dtype_bytes(a->dst.dtype, a->n_columns), kind[a->dst.dtype]);
            }
}

void fuzz_mask(fuzz_call *call)
{
    if (call->kernel == DELTA && call->args.delta.n_tokens)
        mask_delta(call, &call->args.delta);
    if (call->kernel == CONV && call->args.conv.n_tokens)
        mask_conv(call, &call->args.conv);
    if (call->kernel == ROWS)
        mask_rows(call, &call->args.rows);
}
