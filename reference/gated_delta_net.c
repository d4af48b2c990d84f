/* gated_delta_net, scalar: the specification. It processes a few value channels (columns) of the state at a time and
 * keeps them in `S` over all tokens, as the GPU backends do. Channels are independent of each other. They are grouped
 * only because steps 0 and 2 of a token are the same for all of them, and are most of the work.
 *
 * Steps, numbered as in docs/reference/kernels/gated_delta_net.md and in every other version:
 *   0 prepare   1 load state, replay the log, commit; in a tree, follow a branch   2 decay   3 read kv   4 delta
 *   5 update   6 output   7 round, snapshot, checkpoint, log */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "reference/chunked.h"
#include "reference/operands.h"

enum { COLUMNS = 16 };

/* 7: rounds S to the 16-bit type, if the token that gives the sequence `length` tokens is one with a rounding. */
static void round_column(const gdn_gated_delta_net_call *p, int32_t length, float *S)
{
    for (int32_t i = 0; gdn_rounds_at(p, length) && i < p->head_dim_k; i++)
        S[i] = p->state.dtype == GDN_F16 ? gdn_from_f16(gdn_to_f16(S[i])) : gdn_from_bf16(gdn_to_bf16(S[i]));
}

/* 1, with a log: replays the entries of positions `at` to last - 1 */
static void replay(const gdn_gated_delta_net_call *p, const gdn_sequence *q, int32_t h, int32_t j, float *S, int32_t at,
                   int32_t last)
{
    const int32_t kappa = gdn_key_head(p, h);
    for (; at < last; at++) {
        const char *entry = gdn_log_at(p, q->row, at);
        const float d = gdn_load_element(entry, GDN_F32, gdn_log_delta(p, h) + j);
        for (int32_t i = 0; i < p->head_dim_k; i++) {
            const float k = gdn_load_element(entry, GDN_F32, gdn_log_key(p, kappa) + i);
            const float a =
                gdn_load_element(entry, GDN_F32, gdn_log_decay(p, h) + (p->gate == GDN_GATE_CHANNEL ? i : 0));
            S[i] = gdn_fma(k, d, gdn_mul(a, S[i]));
        }
        round_column(p, at + 1, S);
    }
}

/* 7, with a log: logs the delta of value channel j. Channel 0 also logs the decay, and for the first value head of a
 * key head the key. */
static void log_token(const gdn_gated_delta_net_call *p, const gdn_sequence *q, int32_t h, int32_t j, int32_t position,
                      const float *k, const float *a, float d)
{
    if (q->row < 0) return;
    char *entry = gdn_log_at(p, q->row, position);
    memcpy(entry + 4 * (gdn_log_delta(p, h) + j), &d, 4);
    if (j) return;
    const int32_t n = p->head_dim_k, n_a = p->gate == GDN_GATE_CHANNEL ? n : 1;
    memcpy(entry + 4 * gdn_log_decay(p, h), a, 4 * (size_t)n_a);
    if (gdn_logs_key(p, h)) memcpy(entry + 4 * gdn_log_key(p, gdn_key_head(p, h)), k, 4 * (size_t)n);
}

/* 2, for all keys of token t: a decay per head or per key channel */
static void load_decays(const gdn_gated_delta_net_call *p, const gdn_sequence *q, int32_t t, int32_t h, float *a)
{
    for (int32_t i = 0; i < p->head_dim_k; i++)
        a[i] = p->gate == GDN_GATE_CHANNEL || !i ? gate(p, gdn_decay, gdn_token_at(&p->g, q->s, q->first, t, h), h, i)
                                                 : a[0];
}

/* 1, for a token of a tree that does not follow the token before it: restores value channels j0 <= j < end of its
 * parent's state. It starts from `base`, the state at the sequence's position, and replays the parent's path from the
 * root. The path's deltas are in the log. */
static void follow(const gdn_gated_delta_net_call *p, const gdn_sequence *q, int32_t h, int32_t j0, int32_t end,
                   int32_t parent, float base[][MAX_DIM], float columns_of_state[][MAX_DIM])
{
    float k[MAX_DIM], a[MAX_DIM];
    memcpy(columns_of_state, base, sizeof(float[MAX_DIM]) * (size_t)(end - j0));
    for (int32_t left = gdn_depth_of(p, q->first, parent); left-- > 0;) {
        const int32_t t = gdn_ancestor_of(p, q->first, parent, left);
        const char *entry = gdn_log_at(p, q->row, q->position + t);
        load_key(p, &p->k, gdn_token_at(&p->k, q->s, q->first, t, gdn_key_head(p, h)), k);
        load_decays(p, q, t, h, a);
        for (int32_t j = j0; j < end; j++) {
            float *const S = columns_of_state[j - j0];
            const float d = gdn_load_element(entry, GDN_F32, gdn_log_delta(p, h) + j);
            for (int32_t i = 0; i < p->head_dim_k; i++) S[i] = gdn_fma(k[i], d, gdn_mul(a[i], S[i]));
            round_column(p, gdn_length_at(p, q, t), S);
        }
    }
}

/* Stores value channel j to an entry. 16-bit states have been rounded before. */
static void store_column(const gdn_gated_delta_net_call *p, int32_t target, int32_t h, int32_t j, const float *S)
{
    for (int32_t i = 0; target >= 0 && i < p->head_dim_k; i++)
        gdn_store_elements(column_element(p, &p->state_out, gdn_state_at(&p->state_out, target, h), i, j),
                           p->state_out.dtype, &S[i], 1);
}

/* Value channels j0 <= j < end of a head, at most COLUMNS. */
static void columns(const gdn_gated_delta_net_call *p, const gdn_sequence *q, int32_t h, int32_t j0, int32_t end)
{
    const int32_t n = p->head_dim_k, s = q->s, first = q->first;
    const gdn_token_view *const read_key = (p->has & GDN_HAS_READ_KEY) ? &p->read_key : &p->k;
    float columns_of_state[COLUMNS][MAX_DIM], query[MAX_DIM], k[MAX_DIM], r[MAX_DIM], a[MAX_DIM], ar[MAX_DIM];
    float base[COLUMNS][MAX_DIM]; /* of a tree: the state at the position */

    /* 1: load state, replay the log, commit */
    for (int32_t j = j0; j < end; j++) {
        float *const S = columns_of_state[j - j0];
        for (int32_t i = 0; i < n; i++) {
            S[i] = 0;
            if (q->src >= 0)
                S[i] = gdn_load_element(column_element(p, &p->state, gdn_state_at(&p->state, q->src, h), i, j),
                                        p->state.dtype, 0);
        }
        replay(p, q, h, j, S, q->base_position, q->kept);
        store_column(p, q->commit, h, j, S);
        replay(p, q, h, j, S, q->kept, q->position);
    }
    if ((p->has & GDN_HAS_TREE)) memcpy(base, columns_of_state, sizeof base[0] * (size_t)(end - j0));

    for (int32_t t = 0; t < q->T; t++) {
        const int32_t kappa = gdn_key_head(p, h), parent = gdn_parent_of(p, first, t);
        if (parent != t - 1) follow(p, q, h, j0, end, parent, base, columns_of_state);
        /* 0: prepare */
        load_key(p, &p->q, gdn_token_at(&p->q, s, first, t, kappa), query);
        load_key(p, &p->k, gdn_token_at(&p->k, s, first, t, kappa), k);
        load_key(p, read_key, gdn_token_at(read_key, s, first, t, kappa), r);
        const float beta = delta_factor(p, gdn_token_at(&p->beta, s, first, t, h));

        /* 2: decay */
        load_decays(p, q, t, h, a);
        for (int32_t i = 0; i < n; i++) ar[i] = gdn_mul(a[i], r[i]);

        for (int32_t j = j0; j < end; j++) {
            float *const S = columns_of_state[j - j0];
            const float v = gdn_load_element(gdn_token_at(&p->v, s, first, t, h), p->v.dtype, j);

            /* 3: read kv */
            const float kv = p->gate == GDN_GATE_CHANNEL ? gdn_dot32(S, ar, n) : gdn_mul(a[0], gdn_dot32(S, r, n));

            /* 4: delta */
            const float d = gdn_mul(beta, gdn_sub(v, kv));

            /* 5: update */
            for (int32_t i = 0; i < n; i++) S[i] = gdn_fma(k[i], d, gdn_mul(a[i], S[i]));

            /* 6: output */
            const float o = gdn_mul(p->scale, gdn_dot32(S, query, n));
            gdn_store_elements(gdn_token_at(&p->result, s, first, t, h) +
                                   (p->result.dtype == GDN_F32 ? 4 : 2) * (int64_t)j,
                               p->result.dtype, &o, 1);

            /* 7: round, snapshot, checkpoint, log */
            round_column(p, gdn_length_at(p, q, t), S);
            store_column(p, gdn_snapshot_of(p, *q, t), h, j, S);
            store_column(p, gdn_checkpoint_of(p, s, t), h, j, S);
            log_token(p, q, h, j, q->position + t, k, a, d);
        }
    }
}

int64_t GDN_REF(gated_delta_net_items)(const gdn_gated_delta_net_call *p)
{
    return (int64_t)p->n_seqs * (p->digits ? p->n_heads_k : p->n_heads_v);
}

void GDN_REF(gated_delta_net)(const gdn_gated_delta_net_call *p, int64_t item, void *scratch)
{
    if (p->digits) {
        GDN_REF(chunked)(p, item, scratch);
        return;
    }
    const int32_t s = (int32_t)(item / p->n_heads_v), h = (int32_t)(item % p->n_heads_v);
    const gdn_sequence q = gdn_sequence_of(p, s);
    for (int32_t j = 0; gdn_has_work(q) && j < p->head_dim_v; j += COLUMNS)
        columns(p, &q, h, j, p->head_dim_v - j < COLUMNS ? p->head_dim_v : j + COLUMNS);
}
