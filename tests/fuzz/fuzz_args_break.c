/* What is made wrong with a valid call. See fuzz_args.h. */
#include "fuzz_args_source.h"

#include <string.h>

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

/* The operands (map 0) or maps (map 1) of the parts that the call uses; their number. */
static int operands_of(const fuzz_call *c, int map, const check_operand *list[])
{
    int n = 0;
    for (const check_operand *o = c->kernel->operand; o->name; o++) {
        int owner = 0;
        for (int i = 0; i < c->n_pieces; i++)
            if (o->field >= c->piece[i].at && o->field < c->piece[i].at + c->piece[i].known) owner = i;
        if ((o->n_axes == CHECK_MAP) == map && c->used[owner]) list[n++] = o;
    }
    return n;
}

/* A number of the arguments or of a part, in front of its operands. */
static void break_scalar(source *in, fuzz_call *c)
{
    const int wanted = below(in, c->n_pieces), i = c->used[wanted] ? wanted : 0;
    const int wide = c->kernel == &check_kernel_set_rows;
    size_t end = c->piece[i].known;
    for (const check_operand *o = c->kernel->operand; o->name; o++)
        if (o->field > c->piece[i].at && o->field < c->piece[i].at + end) end = o->field - c->piece[i].at;
    char *at = (char *)&c->args + c->piece[i].at;
    if (wide && below(in, 8)) {
        const int k = 1 + below(in, (int)(end / 8) - 1);
        int64_t value;
        memcpy(&value, at + 8 * k, 8);
        value = below(in, 2) ? PICK(in, nasty) : value + PICK(in, nasty) % 3;
        memcpy(at + 8 * k, &value, 8);
    } else if (end >= 8) { /* size is another mistake */
        const int k = 1 + below(in, wide ? 1 : (int)(end / 4) - 1);
        int32_t value;
        memcpy(&value, at + 4 * k, 4);
        value = (int32_t)(uint32_t)(below(in, 2) ? PICK(in, nasty) : value + PICK(in, nasty) % 3);
        memcpy(at + 4 * k, &value, 4);
    }
}

/* The sizes of a pool. */
static void break_pool_sizes(source *in, fuzz_call *c)
{
    gdn_gated_delta_net_args *d = &c->args.gated_delta_net.args;
    gdn_ssm_conv_args *v = &c->args.ssm_conv.args;
    gdn_pool *const of_delta[] = { &d->state, &d->state_out, &c->args.gated_delta_net.log.entries };
    gdn_pool *const of_conv[] = { &v->history, &v->history_out };
    if (c->kernel == &check_kernel_set_rows) return;
    gdn_pool *pool = c->kernel == &check_kernel_ssm_conv ? of_conv[below(in, 2)] : of_delta[below(in, 3)];
    int32_t *n = below(in, 2) ? &pool->n_rows : &pool->n_slots;
    *n = (int32_t)(uint32_t)(below(in, 2) ? PICK(in, nasty) : *n + PICK(in, nasty) % 3);
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
        *data = s->at + (size_t)(low | high << 8) % (s->bytes + 1) / 4 * 4;
        *offset = 0;
        break;
    }
    default: /* the same place, but less of it */
        if (*data && *bytes > 1) *bytes -= (uint64_t)below(in, 70) % *bytes;
        return;
    }
    *bytes = *data ? honest_bytes(c, *data, *offset) : 0;
}

static void break_tensor(source *in, fuzz_call *c)
{
    const check_operand *list[CHECK_MAX_VIEWS];
    const check_operand *o = list[below(in, operands_of(c, 0, list))];
    gdn_tensor *t = check_tensor(&c->args, o); /* or a pool, which has its number of rows in place of `reserved` */
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

static void break_map(source *in, fuzz_call *c)
{
    const check_operand *list[CHECK_MAX_VIEWS];
    const int n = operands_of(c, 1, list);
    const gdn_tensor *rows = &c->args.set_rows.index;
    gdn_span index = { rows->data, rows->offset, rows->bytes };
    gdn_span *s = n ? check_span(&c->args, list[below(in, n)]) : &index;
    const int what = below(in, 4);
    if (what == 3 && n) {
        break_place(in, c, &s->data, &s->offset, &s->bytes);
        return;
    }
    const size_t at = (size_t)take(in) * 4 % (s->bytes > 3 ? (size_t)s->bytes - 3 : 64) / 4 * 4;
    void *entry = (void *)((uintptr_t)s->data + (uintptr_t)s->offset + at); /* may lie anywhere by now */
    if (!s->data || !arena_find(c->arena, entry, 4)) return;
    int32_t value = what ? below(in, 20) - 4 : (int32_t)(uint32_t)PICK(in, nasty);
    memcpy(entry, &value, 4);
}

/* out into the pool, at strides of the pool's own or near them: between its slots, or on them; and the pool that is
 * written is the one that is read, in fewer rows or more, or cut otherwise. Where it is accepted, what may be written
 * is judged. */
static void break_pool(source *in, fuzz_call *c)
{
    gdn_gated_delta_net_args *d = &c->args.gated_delta_net.args;
    gdn_ssm_conv_args *v = &c->args.ssm_conv.args;
    const int delta = c->kernel == &check_kernel_gated_delta_net;
    gdn_pool *pool = delta ? &d->state : &v->history, *written = delta ? &d->state_out : &v->history_out;
    gdn_tensor *out = delta ? &d->out : &v->out;
    if (c->kernel == &check_kernel_set_rows || !pool->data) return;
    const int64_t heads =
        delta ? 4 * (int64_t)d->n_heads_v * d->head_dim_k * d->head_dim_v : 4 * (int64_t)v->n_channels;
    const int64_t unit = (heads + 3) / 4 * 4, spread = below(in, 3);
    if (spread) { /* the pool with gaps, in the memory that it has */
        pool->stride[1] = spread * unit;
        const int slots = 1 + below(in, 4), more = below(in, 2);
        pool->stride[0] = pool->stride[1] * slots + (more ? unit : 0);
        pool->n_rows = 1 + below(in, 2);
        if (delta) pool->n_slots = 1 + below(in, 3);
    }
    if (below(in, 4)) {
        *written = *pool;
        written->n_rows = below(in, 4);
        if (delta && !below(in, 3)) written->n_slots = below(in, 4);
        if (!below(in, 4)) written->stride[below(in, 2)] += unit;
    }
    if (below(in, 4)) {
        out->data = pool->data;
        const int units = below(in, 4), whole = below(in, 4);
        out->offset = pool->offset + (uint64_t)(unit * units) / (whole ? 1 : 2) / 4 * 4;
        out->stride[0] = 0;
        out->stride[1] = pool->stride[below(in, 2)];
        out->bytes = honest_bytes(c, out->data, out->offset);
    }
}

static void break_struct(source *in, fuzz_call *c)
{
    static const uint32_t sizes[] = { 0, 3, 4, 100, 65536, 65537, UINT32_MAX };
    const int wanted = below(in, c->n_pieces), i = c->used[wanted] ? wanted : 0;
    const fuzz_piece *p = &c->piece[i];
    const int more = below(in, 2) ? 1 + below(in, 200) : 0, less = below(in, 32);
    *fuzz_size(c, i) = more           ? (uint32_t)p->known + (uint32_t)more
                       : below(in, 2) ? PICK(in, sizes)
                                      : (uint32_t)p->first - (uint32_t)less;
    c->dirty[i] = more && below(in, 2);
}

/* A part more, with what memory of zeros says, or one less. */
static void break_parts(source *in, fuzz_call *c)
{
    const int i = below(in, c->n_pieces);
    if (!i) return;
    c->used[i] = !c->used[i];
    *fuzz_size(c, i) = c->used[i] ? (uint32_t)c->piece[i].known : 0;
}

/* A wrong call says how many bytes there are, so that what it reaches beyond them is refused. */
static void state_bytes(fuzz_call *c)
{
    for (const check_operand *o = c->kernel->operand; o->name; o++)
        if (o->n_axes == CHECK_MAP) {
            gdn_span *s = check_span(&c->args, o);
            s->bytes = s->data ? honest_bytes(c, s->data, s->offset) : 0;
        } else {
            gdn_tensor *t = check_tensor(&c->args, o);
            t->bytes = t->data ? honest_bytes(c, t->data, t->offset) : 0;
        }
}

void fuzz_break(source *in, fuzz_call *c)
{
    if (c->mutations) state_bytes(c);
    for (int i = 0; i < c->mutations; i++) switch (below(in, 18)) {
        case 0:
        case 1:
        case 2: break_scalar(in, c); break;
        case 3: break_struct(in, c); break;
        case 4: c->workspace = 1 + below(in, 4); break;
        case 5:
        case 6:
        case 7:
        case 8:
        case 9: break_map(in, c); break;
        case 14:
        case 15: break_pool(in, c); break;
        case 16: break_pool_sizes(in, c); break;
        case 17: break_parts(in, c); break;
        default: break_tensor(in, c); break;
        }
}
