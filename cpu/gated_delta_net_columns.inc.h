/* gated_delta_net by columns: lanes run across value columns, COLUMN_VECTORS vectors of them at a time, or
 * one where fewer are left. Part of gated_delta_net.inc.h.
 *
 * The state of a block of columns is packed in scratch as [key][column], where it stays in the L1 cache for
 * a chunk of tokens. All 32 partial sums of a dot product are whole vectors, so the tree needs no shuffles:
 * the keys are visited in an order in which partial sums that belong together are made after each other
 * and are added while still in registers. */

enum {
    COLUMN_VECTORS = 2, /* so that k, q and a, once spread over the lanes, serve two vectors */
    FOLD = 8 /* partial sums per dot product that are left to memory, after the steps h = 16 and 8 */
};

/* One pass over a block of columns. */
typedef struct columns_pass {
    const float *from; /* the state before, [key][column] */
    int64_t      from_pitch;
    float       *to;   /* the state after                 */
    int64_t      to_pitch;
    const float *q, *k, *a, *read; /* of this token; read: what the state after is read with next */
    const char  *ahead;            /* FOLD lines to ask for on the way                            */
    float        decay;
    int32_t      n;
    vf           d[COLUMN_VECTORS];
} columns_pass;

/* Sums over some of the keys, for each vector of columns. */
typedef struct dots {
    vf q[COLUMN_VECTORS], k[COLUMN_VECTORS];
} dots;

GDN_INLINE dots dots_add(dots a, dots b, int width)
{
    for (int w = 0; w < width; w++) {
        a.q[w] = v_add(a.q[w], b.q[w]);
        a.k[w] = v_add(a.k[w], b.k[w]);
    }
    return a;
}

/* What a compiled version of the pass fixes. */
typedef struct columns_form {
    int  width;   /* vectors of columns                                 */
    int  n;       /* keys, a multiple of 32, or 0 = any number          */
    bool packed;  /* from and to are scratch, and the same              */
    bool channel;
    bool update;  /* no: only read kv                                   */
    bool next;    /* read the next token's kv too                       */
    bool stream;  /* write past the caches                              */
    bool ahead;   /* ask for what comes after, a line at a time: eight at once are waited for */
} columns_form;

/* Where key i lies in scratch: in the order in which the pass below visits keys. A pass is then one walk through the
 * L1 cache. In the order of the keys its steps would be 32 lines of 128 bytes apart, and every load would lie 4096
 * bytes from a store that is still under way, which processors take for its target at first. */
GDN_INLINE int32_t columns_place(int32_t n, int32_t i)
{
    const int32_t leaf = i % 32, of_four = leaf / 16 + leaf / 8 % 2 * 2; /* l, l + 16, l + 8, l + 24 */
    const int32_t visit = leaf % FOLD * 4 + of_four;
    return visit * ((n + 31) / 32) + i / 32;
}

/* The partial sums l, over the keys l, l + 32, l + 64, ... */
GDN_INLINE dots columns_leaf(const columns_pass *x, columns_form form, int32_t l)
{
    const int32_t n_steps = form.n ? form.n / 32 : (x->n - l + 31) / 32;
    const int64_t from_pitch = form.packed ? form.width * GDN_VL : 32 * x->from_pitch; /* of steps */
    const int64_t to_pitch = form.packed ? form.width * GDN_VL : 32 * x->to_pitch;
    const int32_t first = form.packed ? columns_place(form.n ? form.n : x->n, l) : 0;
    const float  *from = form.packed ? x->from + first * from_pitch : x->from + l * x->from_pitch;
    float        *to = form.packed ? x->to + first * to_pitch : x->to + l * x->to_pitch;
    dots          sum;
    for (int w = 0; w < COLUMN_VECTORS; w++) sum.q[w] = sum.k[w] = v_zero();
    /* Lines of a state in memory are often whole pages apart: no load after a store, see columns_place(). */
    const bool first_all = !form.packed && form.update && form.n == 128;
    vf         loaded[4][COLUMN_VECTORS];
    for (int32_t step = 0; first_all && step < 4; step++)
        for (int w = 0; w < form.width; w++) loaded[step][w] = v_load(from + step * from_pitch + w * GDN_VL);
#pragma GCC unroll 4
    for (int32_t step = 0; step < n_steps; step++) {
        const int32_t i = l + 32 * step;
        vf            a, k, q, read;
        if (form.update) {
            a = v_set1(form.channel ? x->a[i] : x->decay);
            k = v_set1(x->k[i]);
            q = v_set1(x->q[i]);
        }
        if (form.next) read = v_set1(x->read[i]);
        for (int w = 0; w < form.width; w++) {
            vf s = first_all ? loaded[step & 3][w] : v_load(from + step * from_pitch + w * GDN_VL);
            if (form.update) {
                s = v_fma(k, x->d[w], v_mul(a, s));
                if (form.stream) v_stream(to + step * to_pitch + w * GDN_VL, s);
                else v_store(to + step * to_pitch + w * GDN_VL, s);
                sum.q[w] = v_fma(s, q, sum.q[w]);
            }
            if (form.next) sum.k[w] = v_fma(s, read, sum.k[w]);
        }
    }
    return sum;
}

/* 5: update, with 6: the sums of the output and 3: the next token's kv. */
GDN_INLINE dots columns_form_run(const columns_pass *pass, columns_form form)
{
    const columns_pass x = *pass;
    dots               part[FOLD];
    for (int32_t l = 0; l < FOLD; l++) {
        dots even = dots_add(columns_leaf(&x, form, l), columns_leaf(&x, form, l + 16), form.width);
        dots odd = dots_add(columns_leaf(&x, form, l + 8), columns_leaf(&x, form, l + 24), form.width);
        part[l] = dots_add(even, odd, form.width);
        if (form.ahead) v_prefetch(x.ahead + 64 * l);
    }
    for (int h = FOLD / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++) part[l] = dots_add(part[l], part[l + h], form.width);
    return part[0];
}

/* What a sequence needs once per block of columns, compiled for any number of keys: its first pass, which only reads
 * kv, and its last, which has no next token. */
#define COLUMNS_FORM(...) columns_form_run(pass, (columns_form){__VA_ARGS__, 0, 0})
static dots columns_wide_read(const columns_pass *pass) { return COLUMNS_FORM(COLUMN_VECTORS, 0, 1, 0, 0, 1); }
static dots columns_wide_last(const columns_pass *pass) { return COLUMNS_FORM(COLUMN_VECTORS, 0, 1, 0, 1, 0); }
static dots columns_wide_channel_last(const columns_pass *pass) { return COLUMNS_FORM(COLUMN_VECTORS, 0, 1, 1, 1, 0); }
static dots columns_one_read(const columns_pass *pass) { return COLUMNS_FORM(1, 0, 1, 0, 0, 1); }
static dots columns_one_last(const columns_pass *pass) { return COLUMNS_FORM(1, 0, 1, 0, 1, 0); }
static dots columns_one_channel_last(const columns_pass *pass) { return COLUMNS_FORM(1, 0, 1, 1, 1, 0); }
#undef COLUMNS_FORM

typedef dots columns_fn(const columns_pass *pass);
static columns_fn *columns_last(int32_t width, bool channel)
{
    if (width < COLUMN_VECTORS) return channel ? columns_one_channel_last : columns_one_last;
    return channel ? columns_wide_channel_last : columns_wide_last;
}

/* Up to GDN_VL columns or keys of a snapshot. */
GDN_INLINE void save_vector(float *to, vf a, int32_t lanes, bool stream)
{
    if (lanes < GDN_VL) v_store_n(to, a, lanes);
    else if (stream) v_stream(to, a);
    else v_store(to, a);
}

/* A block of value columns; state is its place in scratch, which holds it between chunks. */
typedef struct columns_block {
    int32_t j, n_columns, width;
    float  *state;
} columns_block;

/* 1 and 7: a block of value columns between memory and scratch. In memory, line is a value column (VK, to be
 * transposed) or a key (KV). */
static void columns_load(const head_view *x, const float *source, const columns_block *b)
{
    const int64_t line = x->p->state_in.stride_line / 4, pitch = (int64_t)b->width * GDN_VL;
    if (x->p->state_layout == GDN_STATE_KV) {
        for (int32_t i = 0; i < x->n; i++)
            for (int32_t w = 0; w < b->width; w++) {
                const int32_t lanes = min_i32(GDN_VL, b->n_columns - w * GDN_VL);
                const float  *from = source + i * line + x->j0 + b->j + w * GDN_VL;
                v_store(b->state + columns_place(x->n, i) * pitch + w * GDN_VL, v_load_n(from, lanes));
            }
        return;
    }
    for (int32_t w = 0; w < b->width; w++)
        for (int32_t i = 0; i < x->n; i += GDN_VL) {
            const int32_t rows = min_i32(GDN_VL, b->n_columns - w * GDN_VL), keys = min_i32(GDN_VL, x->n - i);
            const float  *tile = source + (x->j0 + b->j + w * GDN_VL) * line + i;
            vf            r[GDN_VL];
            for (int32_t m = 0; m < GDN_VL; m++) r[m] = m < rows ? v_load_n(tile + m * line, keys) : v_zero();
            v_transpose(r);
            for (int32_t m = 0; m < keys; m++)
                v_store(b->state + columns_place(x->n, i + m) * pitch + w * GDN_VL, r[m]);
        }
}

/* Whole cache lines go past the caches, see snapshots_of(). */
static void columns_save(const head_view *x, float *target, const columns_block *b)
{
    const int64_t line = x->p->state_out.stride_line / 4, pitch = (int64_t)b->width * GDN_VL;
    const bool    stream = GDN_VL == 16 && ((uintptr_t)target | (uintptr_t)(4 * line)) % 64 == 0;
    if (x->p->state_layout == GDN_STATE_KV) {
        for (int32_t i = 0; i < x->n; i++)
            for (int32_t w = 0; w < b->width; w++) {
                const int32_t lanes = min_i32(GDN_VL, b->n_columns - w * GDN_VL);
                float        *to = target + i * line + x->j0 + b->j + w * GDN_VL;
                save_vector(to, v_load(b->state + columns_place(x->n, i) * pitch + w * GDN_VL), lanes, stream);
            }
        return;
    }
    for (int32_t w = 0; w < b->width; w++)
        for (int32_t i = 0; i < x->n; i += GDN_VL) {
            const int32_t rows = min_i32(GDN_VL, b->n_columns - w * GDN_VL), keys = min_i32(GDN_VL, x->n - i);
            float        *tile = target + (x->j0 + b->j + w * GDN_VL) * line + i;
            vf            r[GDN_VL];
            for (int32_t m = 0; m < GDN_VL; m++)
                r[m] = m < keys ? v_load(b->state + columns_place(x->n, i + m) * pitch + w * GDN_VL) : v_zero();
            v_transpose(r);
            for (int32_t m = 0; m < rows; m++) save_vector(tile + m * line, r[m], keys, stream);
        }
}

/* A chunk of tokens for one block of columns. The loop over tokens is compiled with the pass, so that d and the sums it
 * comes from, the only things a token waits for from the one before, stay in registers. */
GDN_INLINE void columns_tokens(const head_view *x, const chunk *c, const columns_block *b, columns_form form)
{
    const gdn_gated_delta_net_problem *p = x->p;
    const int32_t block = form.width * GDN_VL, j = b->j, group = c->group;
    const int32_t n_next = c->more ? c->n_tokens : c->n_tokens - 1;        /* tokens after which there is another */
    const int32_t kept = x->n_tokens - p->n_snapshots - c->first;          /* from there on states are kept       */
    const vf      scale = v_set1(p->scale);
    const int64_t out_step = p->out.stride_token;
    char         *out = gdn_token_at(&p->out, x->s, x->first, c->first, x->h) + 4 * (int64_t)(x->j0 + j);
    columns_pass  pass = {.from = b->state, .to = b->state, .n = x->n, .q = c->q, .k = c->k, .a = c->a, .read = c->ak};
    dots          sum;
    ahead_rows    ahead[AHEAD_ROWS];
    const int32_t n_ahead = chunk_ahead(c, x, j / block, x->n_columns / block, ahead);
    /* 1: load state, and 3: read kv; for later chunks, the chunk before has read it */
    if (c->first == 0) {
        if (x->source) columns_load(x, x->source, b);
        else memset(b->state, 0, 4 * (size_t)round_up(x->n, 32) * (size_t)block);
        sum = form.width == 1 ? columns_one_read(&pass) : columns_wide_read(&pass);
    } else {
        for (int32_t w = 0; w < form.width; w++) sum.k[w] = v_load(c->kv + j + w * GDN_VL);
    }
    for (int32_t t = 0; t < c->n_tokens; t++, out += out_step) {
        for (int32_t w = 0; w < form.width; w++) {
            const vf v = v_load(c->v + t * group + j + w * GDN_VL);
            pass.d[w] = v_mul(v_set1(c->beta[t]), v_sub(v, v_mul(v_set1(c->decay[t]), sum.k[w]))); /* 4: delta d */
        }
        pass.decay = c->decay[t];
        pass.read += x->pitch;
        pass.ahead = n_ahead > 0 && t < ahead[0].count ? ahead[0].at + t * ahead[0].step : (const char *)pass.q;
        if (t < n_next) sum = columns_form_run(&pass, form);
        else sum = columns_last(form.width, form.channel)(&pass);
        pass.q += x->pitch;
        pass.k += x->pitch;
        pass.a += x->pitch;
        for (int32_t i = 0; i < n_ahead; i++)
            if (t < ahead[i].count)
                prefetch_bytes(ahead[i].at + t * ahead[i].step, i == 0 ? 64 * FOLD : 0, ahead[i].bytes);
        for (int32_t w = 0; w < form.width; w++) /* 6: the output */
            save_vector((float *)(void *)out + w * GDN_VL, v_mul(scale, sum.q[w]),
                        min_i32(GDN_VL, b->n_columns - w * GDN_VL), false);
        float *snapshot = t >= kept ? snapshot_of(x, c->first + t) : NULL;
        if (snapshot) columns_save(x, snapshot, b); /* 7 */
    }
    for (int32_t w = 0; c->more && w < form.width; w++) v_store(c->kv + j + w * GDN_VL, sum.k[w]);
}

/* One compiled version for each form: constants are width, n, channel. */
static void columns_block_any(const head_view *x, const chunk *c, const columns_block *b)
{
#define COLUMNS_VERSION(width, n, channel) columns_tokens(x, c, b, (columns_form){width, n, 1, channel, 1, 1, 0, 1})
#define COLUMNS_VERSIONS(width, n)                         \
    do {                                                   \
        if (x->channel) COLUMNS_VERSION(width, n, 1);      \
        else COLUMNS_VERSION(width, n, 0);                 \
    } while (0)
    if (b->width < COLUMN_VECTORS) COLUMNS_VERSIONS(1, 0);
    else if (x->n == 64) COLUMNS_VERSIONS(COLUMN_VECTORS, 64);
    else if (x->n == 128) COLUMNS_VERSIONS(COLUMN_VECTORS, 128);
    else if (x->n == 256) COLUMNS_VERSIONS(COLUMN_VECTORS, 256);
    else COLUMNS_VERSIONS(COLUMN_VECTORS, 0);
#undef COLUMNS_VERSIONS
#undef COLUMNS_VERSION
}

/* A chunk of tokens. */
static void columns(const head_view *x, const chunk *c, float *state)
{
    for (int32_t j = 0; j < x->n_columns;) {
        const int32_t width = x->n_columns - j >= COLUMN_VECTORS * GDN_VL ? COLUMN_VECTORS : 1;
        const int32_t n_columns = min_i32(width * GDN_VL, x->n_columns - j);
        columns_block_any(x, c, &(columns_block){j, n_columns, width, state + (int64_t)j * round_up(x->n, 32)});
        j += n_columns;
    }
}
