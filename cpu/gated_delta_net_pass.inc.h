/* gated_delta_net on the CPU, a pass: one traversal of a block of value channels of a state, with value channels as
 * vector lanes. It decays and updates the state, and takes its products with this token's q and the next token's k. The
 * orders "columns" and "lines" share it. */
#ifndef GDN_CPU_GATED_DELTA_NET_PASS_INC_H
#define GDN_CPU_GATED_DELTA_NET_PASS_INC_H

#include "cpu/gated_delta_net_item.inc.h"

enum {
    COLUMN_VECTORS = 2, /* each broadcast of k, q and a serves two vectors */
    FOLD = 8            /* partial sums per dot product that are left after the steps h = 16 and 8 */
};

/* One pass over a block of value channels. */
typedef struct delta_pass {
    const float *from; /* the state before, [key][channel] */
    int64_t from_pitch;
    float *to; /* the state after                 */
    int64_t to_pitch;
    const float *q, *k, *a, *read; /* of this token; read: for the next token's kv                */
    const char *ahead;             /* FOLD cache lines to prefetch during the pass                */
    float decay;
    int32_t n;
    vf d[COLUMN_VECTORS];
} delta_pass;

/* Sums over some of the keys, for each vector of value channels. */
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

/* The compile-time constants of a pass. */
typedef struct delta_form {
    int width;   /* vectors of value channels                          */
    int n;       /* keys, a multiple of 32, or 0 = any number          */
    bool packed; /* from and to are scratch, and the same              */
    bool channel;
    bool update; /* no: only read kv                                   */
    bool next;   /* read the next token's kv too                       */
    bool stream; /* stores bypass the caches                           */
    int round;   /* round the state after to this type; GDN_F32: no rounding; packed only */
    bool ahead;  /* prefetch one line at a time: eight at once would stall */
} delta_form;

/* The index of key i in scratch: keys are stored in the order in which the pass below visits them. So a pass is one
 * sequential traversal of the L1 cache. In key order its steps would be 32 lines of 128 bytes apart. Every load would
 * then be 4096 bytes from a pending store, and processors compare only low address bits at first (4K aliasing). */
GDN_INLINE int32_t pass_place(int32_t n, int32_t i)
{
    const int32_t leaf = i % 32, of_four = leaf / 16 + leaf / 8 % 2 * 2; /* l, l + 16, l + 8, l + 24 */
    const int32_t visit = leaf % FOLD * 4 + of_four;
    return visit * ((n + 31) / 32) + i / 32;
}

/* The partial sums l, which are over the keys l, l + 32, l + 64, ... */
GDN_INLINE dots pass_leaf(const delta_pass *x, delta_form form, int32_t l)
{
    const int32_t n_steps = form.n ? form.n / 32 : (x->n - l + 31) / 32;
    const int64_t from_pitch = form.packed ? form.width * GDN_VL : 32 * x->from_pitch; /* of steps */
    const int64_t to_pitch = form.packed ? form.width * GDN_VL : 32 * x->to_pitch;
    const int32_t first = form.packed ? pass_place(form.n ? form.n : x->n, l) : 0;
    const float *from = form.packed ? x->from + first * from_pitch : x->from + l * x->from_pitch;
    float *to = form.packed ? x->to + first * to_pitch : x->to + l * x->to_pitch;
    dots sum;
    for (int w = 0; w < COLUMN_VECTORS; w++) sum.q[w] = sum.k[w] = v_zero();
    /* Lines of a state in memory are often whole pages apart: load all before the first store, see pass_place(). */
    const bool first_all = !form.packed && form.update && form.n == 128;
    vf loaded[4][COLUMN_VECTORS];
    for (int32_t step = 0; first_all && step < 4; step++)
        for (int w = 0; w < form.width; w++) loaded[step][w] = v_load(from + step * from_pitch + w * GDN_VL);
#pragma GCC unroll 4
    for (int32_t step = 0; step < n_steps; step++) {
        const int32_t i = l + 32 * step;
        vf a, k, q, read;
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
                if (form.round != GDN_F32) {
                    sum.q[w] = v_fma(s, q, sum.q[w]);
                    s = v_round_typed(s, form.round);
                }
                if (form.stream) v_stream(to + step * to_pitch + w * GDN_VL, s);
                else v_store(to + step * to_pitch + w * GDN_VL, s);
                if (form.round == GDN_F32) sum.q[w] = v_fma(s, q, sum.q[w]);
            }
            if (form.next) sum.k[w] = v_fma(s, read, sum.k[w]);
        }
    }
    return sum;
}

#endif
