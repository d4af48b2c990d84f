/* What is made wrong with a valid call. Two numbers are never drawn in one expression, or list of arguments, whose
 * parts a compiler may compute in either order: an input is the same call with every compiler. See fuzz_args.h. */
#include "fuzz_args.h"

static int below(check_rng *in, int n) { return check_between(in, 0, n - 1); }

static const int64_t nasty[] = { 0,         1,         -1,        2,         -2,        3,        4,
                                 -4,        15,        17,        257,       65537,     1 << 20,  INT32_MAX,
                                 INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 32, 1LL << 55, 1LL << 56 };

/* In place of a number: another, or one beside it. */
static int64_t wrong_number(check_rng *in, int64_t value)
{
    const int64_t other = CHECK_PICK(in, nasty);
    return below(in, 2) ? other : value + other % 3;
}

static void break_int32(check_rng *in, void *at)
{
    int32_t value;
    memcpy(&value, at, 4);
    value = (int32_t)(uint32_t)wrong_number(in, value);
    memcpy(at, &value, 4);
}

/* The tensors (map 0) or maps (map 1) of the parts that the call uses; their number. */
static int operands_of(int map, const check_operand *list[])
{
    int n = 0;
    for (const check_operand *o = call.kernel->operand; o->name; o++) {
        int owner = 0;
        for (int i = 0; i < call.n_parts; i++)
            if (o->field >= call.part[i].at && o->field < call.part[i].at + call.part[i].known) owner = i;
        if ((o->n_axes == CHECK_MAP) == map && call.used[owner]) list[n++] = o;
    }
    return n;
}

static int used_part(check_rng *in)
{
    const int i = below(in, call.n_parts);
    return call.used[i] ? i : 0;
}

/* A number of the arguments or of a part, in front of its operands. */
static void break_number(check_rng *in)
{
    const int i = used_part(in), wide = call.number == CHECK_KERNEL_set_rows;
    char *const at = (char *)&call.args + call.part[i].at;
    const int k = below(in, (int)(fuzz_numbers(i) / (wide ? 8 : 4)));
    if (wide && k) {
        int64_t value;
        memcpy(&value, at + 8 * k, 8);
        value = wrong_number(in, value);
        memcpy(at + 8 * k, &value, 8);
    } else if (wide || k) break_int32(in, at + 4 * (wide ? 1 : k)); /* size is another mistake */
}

static gdn_pool *pool_of(int i)
{
    delta_call *d = &call.args.gated_delta_net;
    conv_call *c = &call.args.ssm_conv;
    gdn_pool *const of_delta[] = { &d->args.state, &d->args.state_out, &d->log.entries };
    gdn_pool *const of_conv[] = { &c->args.history, &c->args.history_out, &c->args.history };
    return (call.number == CHECK_KERNEL_ssm_conv ? of_conv : of_delta)[i];
}

/* Bytes from a tensor's or span's first element to the end of its slab. 1 if it is in no slab, which is too few for any
 * element. 0 if it is absent. */
static uint64_t honest_bytes(const void *data, uint64_t offset)
{
    const uintptr_t first = (uintptr_t)data + (uintptr_t)offset;
    const slab *s = fuzz_find((const void *)first, 1);
    return !data ? 0 : s ? s->end - (first - (uintptr_t)s->base) : 1;
}

/* Of a span, or of a tensor, which begins alike. */
static void break_place(check_rng *in, gdn_span *t)
{
    const slab *s = &fuzz_slabs[below(in, fuzz_n_slabs)];
    switch (below(in, 6)) {
    case 0: t->offset += (uint64_t)below(in, 9); break;
    case 1: t->data = (void *)((uintptr_t)t->data + (uintptr_t)below(in, 70)); break; /* also of NULL */
    case 2: t->data = NULL; return;
    case 3: t->offset = (uint64_t)CHECK_PICK(in, nasty); break;
    case 4: /* into, or over, another operand */
        t->data = s->base + s->begin + check_next(in) % (s->end - s->begin + 1) / 4 * 4;
        t->offset = 0;
        break;
    default: /* the same place, but less of it */
        if (t->data && t->bytes > 1) t->bytes -= (uint64_t)below(in, 70) % t->bytes;
        return;
    }
    t->bytes = honest_bytes(t->data, t->offset);
}

static void break_tensor(check_rng *in)
{
    const check_operand *list[CHECK_MAX_VIEWS];
    const check_operand *o = list[below(in, operands_of(0, list))];
    gdn_tensor *t = check_tensor(&call.args, o); /* or a pool, which has its number of rows in place of `reserved` */
    int64_t *const stride = &t->stride[below(in, 4)];
    switch (below(in, 8)) {
    case 0: t->dtype = below(in, 8) - 1; break;
    case 1: t->reserved = below(in, 2); break;
    case 2: *stride = CHECK_PICK(in, nasty); break;
    case 3: *stride += 4 * (below(in, 9) - 4); break;
    case 4: *stride = 4 * below(in, 256); break;
    default: break_place(in, check_span(&call.args, o)); break;
    }
}

static void break_map(check_rng *in)
{
    const check_operand *list[CHECK_MAX_VIEWS] = { &call.kernel->operand[2] }; /* set_rows' index is a tensor */
    const int n = operands_of(1, list);
    gdn_span *s = check_span(&call.args, list[n ? below(in, n) : 0]);
    if (n && !below(in, 4)) {
        break_place(in, s);
        return;
    }
    const size_t at = (size_t)below(in, 256) * 4 % (s->bytes > 3 ? (size_t)s->bytes - 3 : 64) / 4 * 4;
    void *entry = (void *)((uintptr_t)s->data + (uintptr_t)s->offset + at); /* may lie anywhere by now */
    if (!s->data || !fuzz_find(entry, 4)) return;
    const int32_t value = below(in, 20) - 4;
    memcpy(entry, &value, 4);
    if (below(in, 4)) break_int32(in, entry);
}

/* Puts out into the pool, at the pool's strides or near them: between its slots, or on them. The written pool is the
 * one that is read, with fewer rows or more, or divided otherwise. If the call is accepted, the writes are checked. */
static void break_pool(check_rng *in)
{
    const gdn_gated_delta_net_args *d = &call.args.gated_delta_net.args;
    const int delta = call.number == CHECK_KERNEL_gated_delta_net;
    gdn_pool *pool = pool_of(0), *written = pool_of(1);
    gdn_tensor *out = delta ? &call.args.gated_delta_net.args.out : &call.args.ssm_conv.args.out;
    if (call.number == CHECK_KERNEL_set_rows || !pool->data) return;
    const int64_t unit = 4 * (delta ? (int64_t)d->n_heads_v * d->head_dim_k * d->head_dim_v
                                    : (int64_t)call.args.ssm_conv.args.n_channels);
    const int spread = below(in, 3);
    if (spread) { /* the pool with gaps, in the memory that it has */
        const int slots = 1 + below(in, 4), more = below(in, 2);
        pool->stride[1] = spread * unit;
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
        const int units = below(in, 4), whole = below(in, 4);
        out->data = pool->data;
        out->offset = pool->offset + (uint64_t)(unit * units) / (whole ? 1 : 2) / 4 * 4;
        out->stride[0] = 0;
        out->stride[1] = pool->stride[below(in, 2)];
        out->bytes = honest_bytes(out->data, out->offset);
    }
}

static void break_struct(check_rng *in)
{
    static const uint32_t sizes[] = { 0, 3, 4, 100, 65536, 65537, UINT32_MAX };
    const int i = used_part(in), how = below(in, 4), more = 1 + below(in, 200);
    const uint32_t other = CHECK_PICK(in, sizes);
    *fuzz_size(i) = how < 2    ? (uint32_t)call.part[i].known + (uint32_t)more
                    : how == 2 ? other
                               : (uint32_t)call.part[i].first - (uint32_t)(more % 32);
    call.dirty[i] = how == 0;
}

/* A part more, with what memory of zeros says, or one less. */
static void break_parts(check_rng *in)
{
    const int i = below(in, call.n_parts);
    if (!i) return;
    call.used[i] = !call.used[i];
    *fuzz_size(i) = call.used[i] ? (uint32_t)call.part[i].known : 0;
}

void fuzz_break(check_rng *in)
{
    /* It says how many bytes there are, so that what it reaches beyond them is refused. */
    for (const check_operand *o = call.kernel->operand; o->name; o++) {
        gdn_span *s = check_span(&call.args, o);
        s->bytes = honest_bytes(s->data, s->offset);
    }
    for (int i = 0; i < call.mutations; i++) {
        const int what = below(in, 18);
        if (what < 3) break_number(in);
        else if (what < 8) break_map(in);
        else if (what < 10) break_pool(in);
        else if (what == 10) break_struct(in);
        else if (what == 11) call.workspace = 1 + below(in, 4);
        else if (what == 12) break_parts(in);
        else if (what > 13) break_tensor(in);
        else if (call.number != CHECK_KERNEL_set_rows) { /* the sizes of a pool */
            gdn_pool *pool = pool_of(below(in, 3));
            break_int32(in, below(in, 2) ? &pool->n_rows : &pool->n_slots);
        }
    }
}
