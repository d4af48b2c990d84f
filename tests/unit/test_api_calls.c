/* Calls that are allowed: defaults mean what the header says, operands may lie as it says, and many threads
 * may call at the same time. Every one is run on every target and compared with the reference's bits. */
#include "test_api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/system.h"

static gdn_gated_delta_net_args *const d = &delta_args.args;
static gdn_ssm_conv_args *const c = &conv_args.args;
static gdn_set_rows_args *const r = &rows_args;

#define STRIDES(tensor, ...) memcpy((tensor).stride, (int64_t[4]){ __VA_ARGS__ }, 4 * sizeof(int64_t))

/* ---- Defaults are these values, bit for bit --------------------------------------------------------------- */

static void delta_defaults(void)
{
    ACCEPTED(on_delta, (void)0);
    SAME(on_delta, d->state_out = d->state);
    SAME(on_delta, d->state_out.n_slots = 1); /* as GDN_INIT has it */
    SAME(on_delta, (void)inputs());
    SAME(on_delta, (inputs()->qk_norm = GDN_NORM_NONE, inputs()->beta_factor = 1));
    SAME(on_delta, STRIDES(d->q, 0, 128, 64));
    SAME(on_delta, STRIDES(d->v, 0, 512, 128));
    SAME(on_delta, STRIDES(d->g, 0, 16, 4));
    SAME(on_delta, STRIDES(d->beta, 0, 16, 4));
    SAME(on_delta, STRIDES(d->out, 0, 512, 128));
    SAME(on_delta, STRIDES(d->state, 16384, 8192, 2048, 64));
    SAME(on_delta, (d->q.bytes = 0, d->state.bytes = 0, d->out.bytes = 0, d->state_src.bytes = 0));
    SAME(on_delta, (d->k.data = (char *)d->k.data - 4096, d->k.offset = 4096));
    SAME(on_delta, (d->seq_start.data = (char *)d->seq_start.data - 8, d->seq_start.offset = 8));

    /* One slot, one snapshot; and none, for which nothing is written. */
    ACCEPTED(on_delta, (d->state.n_slots = 1, d->n_snapshots = 1, d->state.n_rows = 6); MAP(delta_mem.state_dst, 1, 3));
    ACCEPTED(on_delta, (d->n_snapshots = 0, d->state_dst.data = NULL));
    REQUIRE(!memcmp(((delta_memory *)on_delta.first)->state, delta_mem.state, sizeof delta_mem.state));
    REQUIRE(!memcmp(delta_mem.state, ((delta_memory *)on_delta.before)->state, sizeof delta_mem.state));
    SAME(on_delta, MAP(delta_mem.state_dst, -1, -1, -1, -1);
         MAP(((delta_memory *)on_delta.first)->state_dst, -1, -1, -1, -1));
    ACCEPTED(on_delta, (d->n_snapshots = 0, d->state_dst.data = NULL);
             d->state_out = ((gdn_pool)POOL(delta_mem.state_out, 3, 2)));
    REQUIRE(!memcmp(delta_mem.state_out, ((delta_memory *)on_delta.before)->state_out, sizeof delta_mem.state_out));

    /* Maps: row s, slot 0; slot r of row s; the same number of tokens each. */
    ACCEPTED(on_delta, (d->n_tokens = 4, d->seq_start.data = d->state_src.data = d->state_dst.data = NULL));
    SAME(on_delta, (d->n_tokens = 4, MAP(delta_mem.seq_start, 0, 2, 4), d->state_src.data = d->state_dst.data = NULL);
         MAP(((delta_memory *)on_delta.first)->seq_start, 0, 2, 4));
    SAME(on_delta, d->n_tokens = 4; d->seq_start.data = NULL; MAP(delta_mem.state_src, 0, 2);
         MAP(delta_mem.state_dst, 0, 1, 2, 3); MAP(((delta_memory *)on_delta.first)->seq_start, 0, 2, 5);
         MAP(((delta_memory *)on_delta.first)->state_src, 0, 2);
         MAP(((delta_memory *)on_delta.first)->state_dst, 0, 1, 2, 3));

    /* A sequence stride says where tokens are without seq_start's help; this one says what packed says. */
    ACCEPTED(on_delta, (d->n_tokens = 4, d->seq_start.data = d->state_src.data = d->state_dst.data = NULL));
    SAME(on_delta, (d->n_tokens = 4, d->seq_start.data = d->state_src.data = d->state_dst.data = NULL);
         STRIDES(d->q, 256); STRIDES(d->out, 1024); STRIDES(d->v, 1024));

    /* A dimension that has no exact square root. */
    ACCEPTED(on_delta, d->n_tokens = 4; d->n_heads_k = d->n_heads_v = 1; d->head_dim_k = 20; d->seq_start.data = NULL;
             d->scale = (float)(1.0 / sqrt(20.0)));
}

static void conv_defaults(void)
{
    ACCEPTED(on_conv, (void)0);
    SAME(on_conv, c->history_out = c->history);
    SAME(on_conv, STRIDES(c->x, 0, 80));
    SAME(on_conv, STRIDES(c->out, 0, 80));
    SAME(on_conv, STRIDES(c->weight, 16, 4));
    SAME(on_conv, STRIDES(c->history, 400, 80));
    /* As few slots as the kernel looks back. */
    ACCEPTED(on_conv, c->history.n_slots = 3);
    /* Maps: row s, position 0, equal shares. */
    ACCEPTED(on_conv, c->n_tokens = 4;
             c->seq_start.data = c->position.data = c->history_src.data = c->history_dst.data = NULL);
#define FIRST ((conv_memory *)on_conv.first)
    SAME(on_conv, c->n_tokens = 4; c->seq_start.data = c->history_src.data = c->history_dst.data = NULL;
         MAP(conv_mem.position, 0, 0); MAP(FIRST->position, 0, 0));
    SAME(on_conv, c->n_tokens = 4; c->seq_start.data = c->position.data = c->history_dst.data = NULL;
         MAP(conv_mem.history_src, 0, 1); MAP(FIRST->position, 7, 1); MAP(FIRST->history_src, 0, 1));
    SAME(on_conv, c->n_tokens = 4; c->seq_start.data = c->position.data = c->history_src.data = NULL;
         MAP(conv_mem.history_dst, 0, 1); MAP(FIRST->history_dst, 0, 1));
    /* Without a bias: a bias of zero. */
    ACCEPTED(on_conv, c->bias.data = NULL; memset(conv_mem.bias, 0, sizeof conv_mem.bias));
    SAME(on_conv, memset(conv_mem.bias, 0, sizeof conv_mem.bias));
    /* Without a history: zeros, and none is kept. */
    ACCEPTED(on_conv, c->history.data = c->history_src.data = c->history_dst.data = NULL;
             c->history.n_rows = c->history.n_slots = 0);
    SAME(on_conv, MAP(conv_mem.history_src, -1, -1); MAP(conv_mem.history_dst, -1, -1); MAP(FIRST->history_src, -1, -1);
         MAP(FIRST->history_dst, -1, -1));
    SAME(on_conv, c->history.data = NULL; c->history.n_rows = c->history.n_slots = 0; MAP(conv_mem.history_src, -1, -1);
         MAP(conv_mem.history_dst, -1, -1));
    SAME(on_conv, c->history.data = c->history_src.data = NULL; c->history.n_rows = c->history.n_slots = 0;
         MAP(conv_mem.history_src, -1, -1); MAP(conv_mem.history_dst, -1, -1));
#undef FIRST
}

static void rows_defaults(void)
{
    ACCEPTED(on_rows, (void)0);
    SAME(on_rows, STRIDES(r->src, 384, 384, 128));
    SAME(on_rows, STRIDES(r->dst, 320, 320, 64));
    SAME(on_rows, STRIDES(r->index, 24, 24, 8));
    SAME(on_rows, r->index = ((gdn_tensor){ .data = rows_mem.index32, .bytes = 12, .dtype = GDN_I32 }));
    SAME(on_rows, (r->n_batch[0] = 1, r->n_batch[1] = 2));
}

/* ---- What may lie where ------------------------------------------------------------------------------------ */

static void fuse(int with_bytes)
{
    /* Of a token: q of 2 heads, k of 2 heads, v of 4 heads, as a projection leaves them. */
    const uint64_t whole = sizeof delta_mem.fused;
    gdn_tensor *const t[] = { &d->q, &d->k, &d->v };
    const uint64_t at[] = { 0, 128, 256 };
    for (int i = 0; i < 3; i++)
        *t[i] = (gdn_tensor)FIELDS(.data = delta_mem.fused, .offset = at[i], .bytes = with_bytes ? whole - at[i] : 0,
                                   .stride = { 0, 768, i == 2 ? 128 : 64 });
}

/* Floats as numbers of 16 bits, without those that would be infinite or NaN. Any NaN may result from two, so their
 * bytes cannot be compared. */
static void tame(float *x, size_t bytes)
{
    uint16_t half;
    for (size_t i = 0; i < bytes; i += sizeof half) {
        memcpy(&half, (char *)x + i, sizeof half);
        half &= 0xbfff; /* no exponent is as large */
        memcpy((char *)x + i, &half, sizeof half);
    }
}

static void layouts(void)
{
    ACCEPTED(on_delta, fuse(0));
    SAME(on_delta, fuse(1));
    /* The output in the gap between fused rows: the value heads take its place, and are packed themselves. */
    ACCEPTED(on_delta, fuse(0); d->v = (gdn_tensor){ .data = delta_mem.v };
             d->out = ((gdn_tensor){ .data = delta_mem.fused, .offset = 256, .stride = { 0, 768, 128 } }));
    REFUSED(on_delta, fuse(0); d->v = (gdn_tensor){ .data = delta_mem.v };
            d->out = ((gdn_tensor){ .data = delta_mem.fused, .offset = 252, .stride = { 0, 768, 128 } }), "out",
            "overlaps k");
    REFUSED(on_delta, fuse(0); d->v = (gdn_tensor){ .data = delta_mem.v };
            d->out = ((gdn_tensor){ .data = delta_mem.fused, .offset = 260, .stride = { 0, 768, 128 } }), "out",
            "overlaps q");
    /* Inputs may overlap each other. */
    ACCEPTED(on_delta, d->k = d->q);
    ACCEPTED(on_delta, d->beta = d->g);
    ACCEPTED(on_conv, c->bias = c->x);
    ACCEPTED(on_conv, (c->bias = c->weight, c->bias.bytes = 80));
    /* Heads outermost; a weight by taps. */
    ACCEPTED(on_delta, STRIDES(d->q, 0, 64, 320); STRIDES(d->out, 0, 128, 640));
    ACCEPTED(on_conv, STRIDES(c->weight, 4, 80));
    /* Sequences at a stride of their own: the memory ends with the last token, not with a box of the longest. */
    ACCEPTED(on_delta, MAP(delta_mem.seq_start, 0, 3, 5));
    SAME(on_delta, MAP(delta_mem.seq_start, 0, 3, 5); d->out.stride[0] = d->v.stride[0] = 3 * 512);
    REFUSED(on_delta, MAP(delta_mem.seq_start, 0, 3, 5);
            (d->out.stride[0] = 3 * 512, d->out.bytes -= 1), "out.bytes is 2559; the call reaches 2560 bytes of it");
    ACCEPTED(on_conv, MAP(conv_mem.seq_start, 0, 3, 5));
    SAME(on_conv, MAP(conv_mem.seq_start, 0, 3, 5); c->x.stride[0] = c->out.stride[0] = 3 * 80);
    /* A vector of zeros stays zero, however small eps is. */
    ACCEPTED(on_delta, memset(delta_mem.k, 0, sizeof delta_mem.k);
             (inputs()->qk_norm = GDN_NORM_CLAMP, inputs()->qk_norm_eps = 1e-20f));
    SAME(on_delta, memset(delta_mem.k, 0, sizeof delta_mem.k);
         (inputs()->qk_norm = GDN_NORM_CLAMP, inputs()->qk_norm_eps = 1e-40f));
    /* Types. */
    ACCEPTED(on_delta, (d->q.dtype = GDN_F16, d->k.dtype = GDN_BF16, d->v.dtype = GDN_F16);
             tame(delta_mem.q, sizeof delta_mem.q); tame(delta_mem.k, sizeof delta_mem.k);
             tame(delta_mem.v, sizeof delta_mem.v));
    ACCEPTED(on_rows, r->dst.dtype = GDN_BF16);
    ACCEPTED(on_rows, (r->dst.dtype = GDN_Q8_0));
    ACCEPTED(on_rows, (r->src.dtype = GDN_F16));
    ACCEPTED(on_rows, (r->src.dtype = GDN_BF16, r->dst.dtype = GDN_BF16, r->n_columns = 31));
    ACCEPTED(on_rows, (r->dst.dtype = GDN_F32, r->n_columns = 7));
    /* Variants of the kernels. */
    ACCEPTED(on_delta, (d->gate = GDN_GATE_CHANNEL, d->g.bytes = 0));
    ACCEPTED(on_delta, d->state_layout = GDN_STATE_KV);
    ACCEPTED(on_delta, d->head_map = GDN_HEADS_TILED);
    ACCEPTED(on_conv, c->activation = GDN_ACTIVATION_NONE);
    ACCEPTED(on_conv, (c->kernel_width = 1, c->weight.bytes = 80));
    /* One token in place: the ring of a kernel of width 1 may have no slots. */
    ACCEPTED(on_conv, c->kernel_width = 1; c->weight.bytes = 80; c->history.n_slots = 0; conv_mem.seq_start[1] = 1);
    /* Another pool to write to. */
    ACCEPTED(on_delta, d->state_out = ((gdn_pool)POOL(delta_mem.state_out, 3, 2)));
    ACCEPTED(on_delta, d->state_out = ((gdn_pool)POOL(delta_mem.state_out, 1, 4)); MAP(delta_mem.state_src, 3, 3));
    ACCEPTED(on_conv, c->history_out = ((gdn_pool)POOL(conv_mem.history_out, 3, 5)));
}

/* Maps that are absent, and indices. */
static void delta_default_maps(void)
{
    REFUSED(on_delta, d->seq_start.data = NULL, "n_tokens is 5 and n_seqs is 2", "n_tokens / n_seqs");
    /* As many rows as sequences, where the maps that say otherwise are absent. */
    REFUSED(on_delta, (d->state_src.data = NULL, d->state.n_rows = 1, d->state.n_slots = 6),
            "n_seqs (without state_src) is 2; 0 to 1");
    REFUSED(on_delta, (d->state_dst.data = NULL, d->state.n_rows = 1, d->state.n_slots = 6),
            "n_seqs (without state_dst) is 2; 0 to 1");
    REFUSED(on_delta, (d->state_dst.data = NULL, d->n_snapshots = 3), "n_snapshots (without state_dst) is 3; 1 to 2");
    /* The default target of sequence 0 is the slot that sequence 1 reads. */
    REFUSED(on_delta, d->state_dst.data = NULL;
            MAP(delta_mem.state_src, 2, 0),
            "state_src[0] is 2, which another sequence's state_dst[1][0] (the default) writes");
}

static void rows_index(void)
{
    REFUSED(on_rows, rows_mem.index[1] = 5, "index[0][0][1] is 5; 0 to 4 and GDN_NONE are allowed");
    REFUSED(on_rows, rows_mem.index[2] = -2, "index[0][0][2] is -2");
    REFUSED(on_rows, rows_mem.index[0] = (int64_t)1 << 32, "index[0][0][0] is 4294967296");
    REFUSED(on_rows, rows_mem.index[0] = INT64_MIN, "index[0][0][0] is -9223372036854775808");
    on_rows.reset();
    r->index = (gdn_tensor){ .data = rows_mem.index32, .bytes = 12, .dtype = GDN_I32 };
    rows_mem.index32[2] = 5;
    api_refuse(&on_rows, __LINE__, GDN_INVALID_ARGUMENT, (const char *const[]){ "index[0][0][2] is 5; 0 to 4", NULL });
}

/* Memory that an accepted call may not touch, by hand. */
static void untouched(void)
{
    const delta_memory *before = on_delta.before, *now = on_delta.first;
    const size_t slot = 4 * 32 * 16, out = 4 * 32;
    /* Sequence 0 is padding; sequence 1 starts from zero and keeps its newest state only, in slot 2. */
    ACCEPTED(on_delta, MAP(delta_mem.state_src, GDN_SKIP, GDN_NONE));
    REQUIRE(!memcmp(now->out, before->out, 2 * out * 4));
    REQUIRE(memcmp(now->out + 2 * out, before->out + 2 * out, 3 * out * 4));
    REQUIRE(!memcmp(now->state, before->state, 2 * slot * 4));
    REQUIRE(memcmp(now->state + 2 * slot, before->state + 2 * slot, slot * 4));
    REQUIRE(!memcmp(now->state + 3 * slot, before->state + 3 * slot, 3 * slot * 4));
    /* What padding would write conflicts with nothing. */
    ACCEPTED(on_delta, MAP(delta_mem.state_src, GDN_SKIP, GDN_NONE); MAP(delta_mem.state_dst, 2, 3, 2, 3));
    /* Sequence 0 has no tokens, so it neither reads nor writes, and its entries conflict with nothing. */
    ACCEPTED(on_delta, MAP(delta_mem.seq_start, 2, 2, 5); MAP(delta_mem.state_dst, 3, 2, 2, 0));
    REQUIRE(!memcmp(now->out, before->out, 2 * out * 4));
    /* One token of two entries: the second is not written. */
    ACCEPTED(on_delta, MAP(delta_mem.seq_start, 0, 1, 2); MAP(delta_mem.state_dst, 0, 2, 2, 0));
    REQUIRE(!memcmp(now->state + slot, before->state + slot, slot * 4));
    REQUIRE(!memcmp(now->state + 3 * slot, before->state + 3 * slot, 3 * slot * 4));
    REQUIRE(!memcmp(now->out + 2 * out, before->out + 2 * out, 3 * out * 4));
    /* All maps say no. */
    ACCEPTED(on_delta, MAP(delta_mem.state_dst, -1, -1, -1, -1));
    REQUIRE(!memcmp(now->state, before->state, sizeof now->state));
    ACCEPTED(on_conv, MAP(conv_mem.history_src, GDN_SKIP, GDN_SKIP));
    REQUIRE(!memcmp(on_conv.before, on_conv.first, offsetof(conv_memory, workspace)));
    ACCEPTED(on_rows, memset(rows_mem.index, 0xff, sizeof rows_mem.index));
    REQUIRE(!memcmp(on_rows.before, on_rows.first, offsetof(rows_memory, workspace)));
    /* The later of two rows with one target wins. */
    ACCEPTED(on_rows, rows_mem.index[0] = 0);
    SAME(on_rows, rows_mem.index[0] = GDN_NONE; ((rows_memory *)on_rows.first)->index[0] = GDN_NONE);
}

/* Of state_dst, what is not used is not looked at: of padding, of sequences without tokens, and of more snapshots than
 * tokens. The other maps have an entry per sequence, which has to be in range always. */
static void unused_entries(void)
{
    delta_memory *m = &delta_mem;
    const delta_memory *before = on_delta.before, *now = on_delta.first;
    const size_t slot = 4 * 32 * 16;
    ACCEPTED(on_delta, MAP(m->state_src, GDN_SKIP, 3); MAP(m->state_dst, 77, INT32_MIN, 2, GDN_NONE));
    REQUIRE(!memcmp(now->state, before->state, 2 * slot * 4));
    ACCEPTED(on_delta, MAP(m->seq_start, 2, 2, 5); MAP(m->state_dst, INT32_MAX, GDN_SKIP, 2, 0));
    ACCEPTED(on_delta, MAP(m->seq_start, 0, 1, 2); MAP(m->state_dst, 0, 6, 2, -3));
    REQUIRE(!memcmp(now->state + slot, before->state + slot, slot * 4));
    REQUIRE(!memcmp(now->state + 3 * slot, before->state + 3 * slot, 3 * slot * 4));
    REFUSED(on_delta, MAP(m->seq_start, 0, 1, 3); MAP(m->state_dst, 0, 6, 2, -3), "state_dst[1][1] is -3");
    REFUSED(on_delta, MAP(m->seq_start, 2, 2, 5); m->state_src[0] = 6, "state_src[0] is 6; 0 to 5");
    REFUSED(on_conv, MAP(conv_mem.seq_start, 2, 2, 5); conv_mem.history_src[0] = 3, "history_src[0] is 3");
    REFUSED(on_conv, MAP(conv_mem.seq_start, 2, 2, 5); conv_mem.history_dst[0] = 3, "history_dst[0] is 3");
    REFUSED(on_conv, MAP(conv_mem.seq_start, 2, 2, 5); conv_mem.position[0] = -1, "position[0] is -1");
    REFUSED(on_conv, conv_mem.history_src[0] = GDN_SKIP; conv_mem.history_dst[0] = 3, "history_dst[0] is 3");
}

/* Sizes at their limits. Their operands are not in memory. Sums and products of the queries must not overflow; a
 * sanitizer's build also sees harmless overflows. One call has maps that name one slot of a large pool. */
static void limits(void)
{
    enum { SEQS = 46342, SLOTS = 46342 }; /* together more than 2^31 */
    const int64_t large = (int64_t)1 << 40;
    int32_t *maps = calloc(3 * SEQS + 1, sizeof *maps);
    float *pool = calloc(SLOTS, 1024); /* one page of which is touched */
    REQUIRE(maps && pool);
    for (int i = 0; i < api_target_count; i++) {
        gdn_context *ctx = api_target_list[i].ctx;
        gdn_capability cap = { .size = sizeof cap };
        gdn_gated_delta_net_args a = FIELDS(.size = sizeof a, .n_seqs = 2, .n_tokens = INT32_MAX, .n_heads_k = 1,
                                            .n_heads_v = 1, .head_dim_k = 64, .head_dim_v = 64, .n_snapshots = 1,
                                            .scale = 1, .state = { .n_rows = 2, .n_slots = 1 });
        REQUIRE(!gdn_gated_delta_net_query(ctx, &a, &cap));
        if (!strstr(cap.implementation, "scalar")) /* long prompts */
            REQUIRE(strstr(cap.implementation, "/columns"));
        a.n_seqs = 1 << 24, a.n_heads_k = a.n_heads_v = 1 << 16, a.head_dim_k = a.head_dim_v = 256;
        a.state.n_rows = 1 << 20, a.n_snapshots = 127;
        REQUIRE(!gdn_gated_delta_net_query(ctx, &a, &cap));
        gdn_ssm_conv_args b =
            FIELDS(.size = sizeof b, .n_seqs = 1 << 24, .n_tokens = INT32_MAX, .n_channels = INT32_MAX,
                   .kernel_width = 16, .history = { .n_rows = INT32_MAX, .n_slots = 15 });
        REQUIRE(!gdn_ssm_conv_query(ctx, &b, &cap)); /* data is absent, so how far it reaches is not judged */
        b.history.n_rows = b.history.n_slots = 0;
        REQUIRE(!gdn_ssm_conv_query(ctx, &b, &cap));
        gdn_set_rows_args s = FIELDS(.size = sizeof s, .n_columns = large, .n_rows = large, .n_rows_dst = 1,
                                     .n_batch = { 1, 1 }, .index_batch = { 1, 1 });
        s.index.dtype = GDN_I32;
        (void)gdn_set_rows_query(ctx, &s, &cap); /* which of them are too large is the operands' matter */
        s.n_columns = 1, s.n_batch[0] = s.n_batch[1] = 1 << 30;
        (void)gdn_set_rows_query(ctx, &s, &cap);
        s.n_rows = large, s.n_rows_dst = 1, s.index_batch[0] = s.index_batch[1] = 1 << 30;
        (void)gdn_set_rows_query(ctx, &s, &cap);
        s = (gdn_set_rows_args)FIELDS(.size = sizeof s, .n_columns = (int64_t)1 << 34, .n_rows = (int64_t)1 << 34,
                                      .n_rows_dst = 1, .n_batch = { 256, 256 }, .index_batch = { 1, 1 });
        s.n_columns = 1, s.src.stride[0] = (int64_t)1 << 45, s.src.stride[1] = (int64_t)1 << 37, s.src.stride[2] = 4;
        s.dst.stride[0] = (int64_t)1 << 46, s.dst.stride[1] = (int64_t)1 << 37;
        s.index.dtype = GDN_I32;
        REQUIRE(!gdn_set_rows_query(ctx, &s, &cap));

        int32_t *start = maps, *src = start + SEQS + 1, *dst = src + SEQS;
        for (int k = 0; k < SEQS; k++) src[k] = dst[k] = GDN_NONE;
        start[SEQS] = 1;
        src[SEQS - 1] = 0, dst[SEQS - 1] = SLOTS - 1;
        float row[16] = { 1 };
        _Alignas(64) static unsigned char workspace[API_WORKSPACE];
        float out[16];
        a = (gdn_gated_delta_net_args)FIELDS(.size = sizeof a, .n_seqs = SEQS, .n_tokens = 1, .n_snapshots = 1,
                                             .n_heads_k = 1, .n_heads_v = 1, .head_dim_k = 16, .head_dim_v = 16,
                                             .scale = 0.25f, .state = { .n_rows = 1, .n_slots = SLOTS });
        a.q.data = a.k.data = a.v.data = a.g.data = a.beta.data = row;
        a.out.data = out, a.state.data = pool;
        a.seq_start.data = start, a.state_src.data = src, a.state_dst.data = dst;
        a.workspace = (gdn_span){ .data = workspace, .bytes = sizeof workspace };
        REQUIRE(!gdn_gated_delta_net(ctx, &a, NULL), "%s: %s", api_target_list[i].name, gdn_last_error());
    }
    free(maps);
    free(pool);
}

static void nothing_to_do(void)
{
    ACCEPTED(on_delta, d->n_tokens = 0; MAP(delta_mem.seq_start, 0, 0, 0));
    ACCEPTED(on_delta, d->n_tokens = 0; d->n_seqs = 0; d->seq_start.data = NULL);
    ACCEPTED(on_delta, d->n_tokens = 0; d->q.data = d->k.data = d->v.data = d->g.data = d->beta.data = d->out.data =
                                            d->state.data = d->seq_start.data = d->state_src.data = d->state_dst.data =
                                                d->workspace.data = NULL);
    ACCEPTED(on_conv, c->n_tokens = 0; MAP(conv_mem.seq_start, 0, 0, 0));
    ACCEPTED(on_conv, c->n_tokens = 0; c->n_seqs = 0; c->seq_start.data = NULL);
    ACCEPTED(on_rows, r->n_rows = 0);
    ACCEPTED(on_rows, r->n_rows = 0; r->n_rows_dst = 0;
             r->src.data = r->dst.data = r->index.data = r->workspace.data = NULL);
    /* A stream is refused also where there is nothing to do. */
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        for (int i = 0; i < api_target_count; i++) {
            int on_the_stack;
            api_fixtures[k]->reset();
            d->n_tokens = d->n_seqs = c->n_tokens = c->n_seqs = 0;
            d->seq_start.data = c->seq_start.data = NULL;
            r->n_rows = 0;
            REQUIRE(api_fixtures[k]->kernel->run(api_target_list[i].ctx, api_fixtures[k]->args, &on_the_stack) ==
                    GDN_INVALID_ARGUMENT);
        }
}

/* ---- Queries ------------------------------------------------------------------------------------------------ */

static void strip(const api_fixture *f)
{
    for (const check_operand *o = f->kernel->operand; o->name; o++)
        if (!check_is_known_by_data(o->name)) *check_data(f->args, o) = NULL;
    check_workspace(f->kernel, f->args)->data = NULL;
}

static void queries(void)
{
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        for (int i = 0; i < api_target_count; i++) {
            gdn_context *ctx = api_target_list[i].ctx;
            gdn_implementation_info info = { .size = sizeof info };
            gdn_capability full = { .size = sizeof full }, bare = { .size = sizeof bare };
            REQUIRE(!gdn_context_describe(ctx, NULL, &info));
            api_fixtures[k]->reset();
            REQUIRE(api_fixtures[k]->kernel->query(ctx, api_fixtures[k]->args, &full) == GDN_OK);
            /* Data, maps and workspace may be absent: 5 tokens of 2 sequences are ragged all the same. */
            strip(api_fixtures[k]);
            REQUIRE(!api_fixtures[k]->kernel->query(ctx, api_fixtures[k]->args, &bare),
                    "%s_query on %s without data: %s", api_fixtures[k]->kernel->name, api_target_list[i].name,
                    gdn_last_error());
            REQUIRE(!memcmp(&full, &bare, sizeof full) && full.supported == 1);
            REQUIRE(full.exact == (int)(info.levels >> GDN_EXACT & 1) && full.emulated == 0 &&
                    !strcmp(full.reason, ""));
            REQUIRE(!strncmp(full.implementation, info.name, strlen(info.name)));
            /* It reads no maps. */
            api_fixtures[k]->reset();
            memset(delta_mem.seq_start, 0x7f, sizeof delta_mem.seq_start);
            memset(conv_mem.position, 0xff, sizeof conv_mem.position);
            memset(rows_mem.index, 0x7f, sizeof rows_mem.index);
            REQUIRE(api_fixtures[k]->kernel->query(ctx, api_fixtures[k]->args, &bare) == GDN_OK);
        }
    /* Another pool to write to can be asked about before it exists. */
    on_delta.reset();
    d->state_out.n_rows = 7;
    d->state_out.n_slots = 3;
    strip(&on_delta);
    gdn_capability cap = { .size = sizeof cap };
    REQUIRE(!delta_query(api_target_list[0].ctx, &delta_args, &cap), "a query about a state_out without data: %s",
            gdn_last_error());
}

/* ---- Threads ------------------------------------------------------------------------------------------------ */

enum { THREADS = 6, ROUNDS = 60 };

typedef struct worker {
    gdn_context *ctx;
    delta_memory delta;
    conv_memory conv;
    rows_memory rows;
    int number, failed;
} worker;

static void *pointer_into(void *data, void *from, void *to)
{
    return data ? (char *)to + ((char *)data - (char *)from) : NULL;
}

/* The fixture's call on memory of one's own. */
static void *move_args(const api_fixture *f, void *memory, void *args)
{
    memcpy(args, f->args, f->kernel->args_size);
    for (const check_operand *o = f->kernel->operand; o->name; o++)
        *check_data(args, o) = pointer_into(*check_data(args, o), f->memory, memory);
    gdn_span *w = check_workspace(f->kernel, args);
    w->data = pointer_into(w->data, f->memory, memory);
    w->bytes = 0;
    return args;
}

static void *work(void *arg)
{
    worker *w = arg;
    delta_call da;
    conv_call ca;
    gdn_set_rows_args ra;
    for (int i = 0; i < ROUNDS && !w->failed; i++) {
        memcpy(&w->delta, on_delta.before, sizeof w->delta);
        memcpy(&w->conv, on_conv.before, sizeof w->conv);
        memcpy(&w->rows, on_rows.before, sizeof w->rows);
        w->failed = delta_run(w->ctx, move_args(&on_delta, &w->delta, &da), NULL) ||
                    conv_run(w->ctx, move_args(&on_conv, &w->conv, &ca), NULL) ||
                    gdn_set_rows(w->ctx, move_args(&on_rows, &w->rows, &ra), NULL) ||
                    memcmp(&w->delta, on_delta.first, on_delta.result_bytes) ||
                    memcmp(&w->conv, on_conv.first, on_conv.result_bytes) ||
                    memcmp(&w->rows, on_rows.first, on_rows.result_bytes);
        /* Errors are the thread's own. */
        ca.args.n_channels = -1 - i - w->number * ROUNDS;
        char text[32];
        (void)snprintf(text, sizeof text, "n_channels is %d;", (int)ca.args.n_channels);
        if (conv_run(w->ctx, &ca, NULL) != GDN_INVALID_ARGUMENT || !strstr(gdn_last_error(), text)) w->failed = 1;
    }
    return NULL;
}

/* contexts[i % n] for thread i: one for all, or one each. */
static void run_threads(gdn_context *const *contexts, int n, const char *name)
{
    gdn_thread thread[THREADS];
    worker *w = gdn_aligned_alloc(64, THREADS * sizeof *w);
    REQUIRE(w);
    memset(w, 0, THREADS * sizeof *w);
    for (int i = 0; i < THREADS; i++) {
        w[i].ctx = contexts[i % n];
        w[i].number = i;
        NEED(gdn_thread_start(&thread[i], 0, work, &w[i]));
    }
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        gdn_thread_join(thread[i]);
        failed += w[i].failed;
    }
    gdn_aligned_free(w);
    REQUIRE(!failed, "%d of %d threads got other bits, or an error, on %s with %d contexts", failed, THREADS, name, n);
}

static void threads(void)
{
    ACCEPTED(on_delta, (void)0);
    ACCEPTED(on_conv, (void)0);
    ACCEPTED(on_rows, (void)0);
    for (int i = 0; i < api_target_count; i++) run_threads(&api_target_list[i].ctx, 1, api_target_list[i].name);
    /* Different contexts at the same time. */
    gdn_context *all[API_MAX_TARGETS];
    for (int i = 0; i < api_target_count; i++) all[i] = api_target_list[i].ctx;
    run_threads(all, api_target_count, "all targets");
}

/* The caller's threads, which here is the calling one, from the last task to the first. */
typedef struct executor {
    int32_t calls, tasks;
} executor;

static void backwards(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    executor *e = user;
    e->calls++;
    e->tasks += n;
    while (n-- > 0) task(arg, n);
}

static void parallel_for(void)
{
    executor e = { 0 };
    gdn_context_desc desc =
        FIELDS(.size = sizeof desc, .n_threads = API_THREADS, .parallel_for = backwards, .parallel_user = &e);
    gdn_implementation_info info = { .size = sizeof info };
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        api_fixtures[k]->reset();
        api_accept(api_fixtures[k], __LINE__);
    }
    for (uint32_t i = 0; gdn_implementation_describe(GDN_BACKEND_CPU, 0, i, &info) == GDN_OK; i++) {
        gdn_context *ctx = NULL;
        desc.implementation = info.name;
        REQUIRE(!gdn_context_create(&desc, &ctx));
        for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
            const int32_t calls = e.calls;
            e.tasks = 0;
            api_fixtures[k]->reset();
            REQUIRE(api_fixtures[k]->kernel->run(ctx, api_fixtures[k]->args, NULL) == GDN_OK);
            REQUIRE(!memcmp(api_fixtures[k]->memory, api_fixtures[k]->first, api_fixtures[k]->result_bytes));
            REQUIRE(e.calls - calls <= 1 && e.tasks <= API_THREADS);
        }
        gdn_context_destroy(ctx);
    }
    REQUIRE(e.calls > 0);
}

void test_api_calls(void)
{
    RUN(delta_defaults);
    RUN(conv_defaults);
    RUN(rows_defaults);
    RUN(layouts);
    RUN(delta_default_maps);
    RUN(rows_index);
    RUN(untouched);
    RUN(nothing_to_do);
    RUN(queries);
    RUN(threads);
    RUN(parallel_for);
    RUN(unused_entries);
    RUN(limits);
}
