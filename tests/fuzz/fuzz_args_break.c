/* What is made wrong with a valid call. See fuzz_args.h. */
#include "fuzz_args_source.h"

#include <string.h>

#include "core/struct_sizes.h"

static const int64_t nasty[] = { 0,
                                 1,
                                 -1,
                                 2,
                                 -2,
                                 3,
                                 15,
                                 17,
                                 257,
                                 65537,
                                 1 << 20,
                                 INT32_MAX,
                                 INT32_MIN,
                                 INT64_MAX,
                                 INT64_MIN,
                                 (int64_t)1 << 32,
                                 (int64_t)1 << 55,
                                 (int64_t)1 << 56,
                                 4,
                                 -4 };

typedef struct layout {
    size_t tensors, spans, end; /* offsets in the argument struct: scalars are in front */
    int    wide;                /* scalars are int64 */
} layout;

static layout layout_of(const check_kernel *kernel)
{
    const check_operand *o = kernel->operand;
    while (o->name && o->n_axes != CHECK_MAP)
        o++;
    return (layout){ kernel->operand->field, o->name ? o->field : kernel->workspace, kernel->workspace,
                     kernel == &check_kernel_set_rows };
}

static void break_scalar(source *in, fuzz_call *c, layout l)
{
    char *at = (char *)&c->args + 4; /* size is another mistake */
    if (l.wide && below(in, 8)) {
        const int i = below(in, (int)(l.tensors - 8) / 8);
        int64_t value;
        memcpy(&value, at + 4 + 8 * i, 8);
        value = below(in, 2) ? PICK(in, nasty) : value + PICK(in, nasty) % 3;
        memcpy(at + 4 + 8 * i, &value, 8);
    } else {
        const int i = l.wide ? 0 : below(in, (int)(l.tensors - 4) / 4);
        int32_t value;
        memcpy(&value, at + 4 * i, 4);
        value = (int32_t)(uint32_t)(below(in, 2) ? PICK(in, nasty) : value + PICK(in, nasty) % 3);
        memcpy(at + 4 * i, &value, 4);
    }
}

/* True bytes from a tensor's or span's first element to the end of its slab; 1 where it is in none, which
 * is too few for any element. */
static uint64_t honest_bytes(fuzz_call *c, const void *data, uint64_t offset)
{
    const unsigned char *first = (const unsigned char *)((uintptr_t)data + (uintptr_t)offset);
    const slab *s = arena_find(c->arena, first, 0);
    const uint64_t n = s ? s->bytes - (uint64_t)(first - s->at) : 0;
    return n ? n : 1;
}

static void break_place(source *in, fuzz_call *c, void **data, uint64_t *offset, uint64_t *bytes)
{
    const slab *s = &c->arena->slabs[below(in, c->arena->n)];
    switch (below(in, 6)) {
    case 0: *offset += (uint64_t)below(in, 9); break;
    case 1: *data = (void *)((uintptr_t)*data + (uintptr_t)below(in, 70)); break; /* also of NULL */
    case 2: *data = NULL; return;
    case 3: *offset = (uint64_t)PICK(in, nasty); break;
    case 4: { /* into, or over, another operand */
        const unsigned low = take(in), high = take(in);
        *data   = s->at + (size_t)(low | high << 8) % (s->bytes + 1) / 4 * 4;
        *offset = 0;
        break;
    }
    default: /* the same place, but less of it */
        if (*data && *bytes > 1)
            *bytes -= (uint64_t)below(in, 70) % *bytes;
        return;
    }
    *bytes = *data ? honest_bytes(c, *data, *offset) : 0;
}

static void break_tensor(source *in, fuzz_call *c, layout l)
{
    const int i = below(in, (int)((l.spans - l.tensors) / sizeof(gdn_tensor)));
    gdn_tensor *t = (gdn_tensor *)(void *)((char *)&c->args + l.tensors) + i;
    const int a = below(in, 4);
    switch (below(in, 8)) {
    case 0: t->dtype = below(in, 8) - 1; break;
    case 1: t->reserved = below(in, 2); break;
    case 2: t->stride[a] = PICK(in, nasty); break;
    case 3: t->stride[a] += 4 * (below(in, 9) - 4); break;
    case 4: t->stride[a] = 4 * below(in, 256); break;
    default: break_place(in, c, &t->data, &t->offset, &t->bytes); break;
    }
}

static void break_map(source *in, fuzz_call *c, layout l)
{
    const size_t n = (l.end - l.spans) / sizeof(gdn_span);
    gdn_span *s = (gdn_span *)(void *)((char *)&c->args + l.spans) + (n ? below(in, (int)n) : 0);
    gdn_span index = { c->args.set_rows.index.data, c->args.set_rows.index.offset, c->args.set_rows.index.bytes };
    s = n ? s : &index;
    const int what = below(in, 4);
    if (what == 3 && n) {
        break_place(in, c, &s->data, &s->offset, &s->bytes);
        return;
    }
    const size_t at = (size_t)take(in) * 4 % (s->bytes > 3 ? s->bytes - 3 : 1) / 4 * 4;
    void *entry = (void *)((uintptr_t)s->data + (uintptr_t)s->offset + at); /* may lie anywhere by now */
    if (!s->data || !arena_find(c->arena, entry, 4))
        return;
    int32_t value = what ? below(in, 20) - 4 : (int32_t)(uint32_t)PICK(in, nasty);
    memcpy(entry, &value, 4);
}

/* out into the pool, at strides of the pool's own or near them: between its slots, or on them; and the pool that is
 * written is the one that is read, in fewer rows or more, or cut otherwise. Where it is accepted, what may be written
 * is judged. */
static void break_pool(source *in, fuzz_call *c)
{
    gdn_gated_delta_net_args *d = &c->args.gated_delta_net;
    gdn_ssm_conv_args *v = &c->args.ssm_conv;
    const int delta = c->kernel == &check_kernel_gated_delta_net;
    gdn_tensor *pool = delta ? &d->state : &v->history, *written = delta ? &d->state_out : &v->history_out;
    gdn_tensor *out = delta ? &d->out : &v->out;
    if (c->kernel == &check_kernel_set_rows || !pool->data)
        return;
    const int64_t heads =
        delta ? 4 * (int64_t)d->n_heads_v * d->head_dim_k * d->head_dim_v : 4 * (int64_t)v->n_channels;
    const int64_t unit = (heads + 3) / 4 * 4, spread = below(in, 3);
    if (spread) { /* the pool with gaps, in the memory that it has */
        pool->stride[1] = spread * unit;
        const int slots = 1 + below(in, 4), more = below(in, 2);
        pool->stride[0] = pool->stride[1] * slots + (more ? unit : 0);
        if (delta)
            d->n_rows = 1 + below(in, 2), d->n_slots = 1 + below(in, 3);
        else
            v->n_rows = 1 + below(in, 2);
    }
    if (below(in, 4)) {
        *written = *pool;
        if (delta)
            d->n_rows_out = below(in, 4), d->n_slots_out = below(in, 3) ? d->n_slots : below(in, 4);
        else
            v->n_rows_out = below(in, 4);
        if (!below(in, 4))
            written->stride[below(in, 2)] += unit;
    }
    if (below(in, 4)) {
        out->data      = pool->data;
        const int units = below(in, 4), whole = below(in, 4);
        out->offset    = pool->offset + (uint64_t)(unit * units) / (whole ? 1 : 2) / 4 * 4;
        out->stride[0] = 0;
        out->stride[1] = pool->stride[below(in, 2)];
        out->bytes     = honest_bytes(c, out->data, out->offset);
    }
}

/* What a caller of the first release says, which is the least that is allowed. */
static const uint32_t first_size[CHECK_KERNEL_COUNT] = {
#define GDN_KERNEL(stem, number, title, last, end) [number] = (uint32_t)GDN_FIRST_SIZE(gdn_##stem##_args),
#include "core/kernels.def"
#undef GDN_KERNEL
};

static void break_struct(source *in, fuzz_call *c)
{
    static const uint32_t sizes[] = { 0, 3, 4, 100, 65536, 65537, UINT32_MAX };
    uint32_t known = c->args.size, first = known;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++)
        first = c->kernel == check_kernels[k] ? first_size[k] : first;
    const int more = below(in, 2) ? 1 + below(in, 200) : 0, less = below(in, 32);
    c->args.size  = more ? known + (uint32_t)more : below(in, 2) ? PICK(in, sizes) : first - (uint32_t)less;
    c->dirty_tail = more && below(in, 2);
}

static void forget_bytes(fuzz_call *c, layout l)
{
    char *args = (char *)&c->args;
    for (size_t at = l.tensors; at < l.spans; at += sizeof(gdn_tensor))
        ((gdn_tensor *)(void *)(args + at))->bytes = 0;
    for (size_t at = l.spans; at < l.end; at += sizeof(gdn_span))
        ((gdn_span *)(void *)(args + at))->bytes = 0;
}

void fuzz_break(source *in, fuzz_call *c)
{
    const layout l = layout_of(c->kernel);
    if (!c->mutations && one_in(in, 4)) /* a caller that vouches for them */
        forget_bytes(c, l);
    for (int i = 0; i < c->mutations; i++)
        switch (below(in, 16)) {
        case 0: case 1: case 2: break_scalar(in, c, l); break;
        case 3: break_struct(in, c); break;
        case 15: case 14: break_pool(in, c); break;
        case 4: c->workspace = 1 + below(in, 4); break;
        case 5: case 6: case 7: case 8: case 9: break_map(in, c, l); break;
        default: break_tensor(in, c, l); break;
        }
}
