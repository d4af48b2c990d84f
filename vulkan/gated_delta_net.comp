// gated_delta_net: eight lanes share C value channels of a head, four or fewer. They keep this part of the state in
// registers for all tokens of the call.
//
// Lane l of the eight has the keys i = 32 m + 4 l + e, m = 0 .. DK/32, e = 0 .. 3, which are the residues 4l .. 4l+3 of
// dot32. So 32 keys of a row are one coalesced load of 128 bytes. The tree's steps h = 16, 8, 4 are exchanges with the
// lanes l^4, l^2, l^1; h = 2, 1 stay within a lane. The addition commutes, so either of the two lanes may add. The
// exchanges are subgroup shuffles, or go through shared memory (no GDN_SUBGROUP).
//
// Steps, numbered as in docs/reference/kernels/gated_delta_net.md and in every other version:
//   0 prepare   1 load state, replay the log, commit, follow a branch   2 decay   3 read kv   4 delta   5 update
//   6 output   7 round, snapshot, checkpoint, log
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef GDN_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "memory.glsl"
#include "call/gated_delta_net.h"

layout(local_size_x_id = 0) in;
#ifdef GDN_GENERAL // any head_dim_k: a loop over its blocks of 32 keys
const int NB = 8;
const bool GENERAL = true;
int n_blocks;
#define EACH_BLOCK(m) [[dont_unroll]] for (int m = 0; m < n_blocks; m++)
#else              // head_dim_k is 32 NB: all indices are constants, so the state is in registers
layout(constant_id = 1) const int NB = 4;
const bool GENERAL = false;
#define EACH_BLOCK(m) [[unroll]] for (int m = 0; m < NB; m++)
#endif
layout(constant_id = 2) const int SHAPE = 0;   // bits below: they remove code that a call does not need
layout(constant_id = 3) const int WIDE = 0;    // access to four elements: 0 one by one, 1 as 16 bytes, 2 as 2 x 8 bytes
#define EACH_VALUE(c) [[unroll]] for (int c = 0; c < C; c++)
const bool CHANNEL = (SHAPE & 1) != 0;   // a gate per key channel
const bool KEY_MAJOR = (SHAPE & 2) != 0; // the outer dimension of the state is the key
const bool NARROW = (SHAPE & 4) != 0;    // operands may be 16-bit
const bool FORMS = (SHAPE & 8) != 0;     // q, k, g or beta may need conversion (norm, gate_input, beta_input), or a
                                         // read key is given
#define has_read_key() (FORMS && (p.has & GDN_HAS_READ_KEY) != 0)
const bool CHECKPOINTS = (SHAPE & 16) != 0;
const bool LOG = (SHAPE & 32) != 0;      // a replay log. Implies CHECKPOINTS, though the call may have none
#ifdef GDN_GENERAL
const bool TREE = (SHAPE & 64) != 0;     // `parent` names the token that each follows. Implies LOG
#else
const bool TREE = false;
#endif
#ifdef GDN_STORAGE_16
const bool STATE16 = (SHAPE & 256) != 0;    // 16-bit states, of any layout. With LOG and TREE the call may have neither
#else
const bool STATE16 = false;
#endif

// How many value channels a lane's registers can hold, and whether they also hold the next token's operands. The host
// chooses both (dispatch_gated_delta_net.c). GENERAL and STATE16 have four channels and no prefetch.
const int C = 4 >> (SHAPE >> 9 & 3);
const bool AHEAD = (SHAPE & 2048) != 0;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Params { gdn_gated_delta_net_call p; };

#include "exchange.glsl"

vec4 load_quad(uint64_t at)
{
    if (WIDE == 1)
        return Quad(at).x;
    if (WIDE == 2)
        return vec4(uintBitsToFloat(unpackUint2x32(Pair(at).x)), uintBitsToFloat(unpackUint2x32(Pair(at + 8).x)));
    return vec4(Float(at).x, Float(at + 4).x, Float(at + 8).x, Float(at + 12).x);
}

void store_quad(uint64_t at, vec4 x)
{
    if (WIDE == 1) {
        Quad(at).x = x;
    } else if (WIDE == 2) {
        Pair(at).x = packUint2x32(floatBitsToUint(x.xy));
        Pair(at + 8).x = packUint2x32(floatBitsToUint(x.zw));
    } else {
        Float(at).x = x.x;
        Float(at + 4).x = x.y;
        Float(at + 8).x = x.z;
        Float(at + 12).x = x.w;
    }
}

// Which of the keys i .. i + 3 exist. Folds to a constant unless GENERAL.
int n_keys;
bool whole(int i)
{
    return !GENERAL || i + 4 <= n_keys;
}
bvec4 present(int i)
{
    return lessThan(ivec4(i) + ivec4(0, 1, 2, 3), ivec4(n_keys));
}

// Stores those of elements i .. i + 3 of an F32 row that exist. WIDE tells how the row is aligned.
void store_row(uint64_t row, vec4 x, int i)
{
    bvec4 there = present(i);
    if (whole(i)) {
        store_quad(row + 4 * i, x);
    } else {
        [[unroll]] for (int e = 0; e < 4; e++)
            if (there[e])
                Float(row + 4 * (i + e)).x = x[e];
    }
}

float load_typed(uint64_t at, int dtype)
{
    return NARROW ? load_element(at, dtype) : Float(at).x;
}

// Elements i .. i + 3 of a row of any alignment; those beyond the head are 0.
vec4 load_elements(uint64_t row, int dtype, int i)
{
    vec4 x = vec4(0);
    bvec4 there = present(i);
    int bytes = element_bytes(dtype);
    [[unroll]] for (int e = 0; e < 4; e++)
        if (there[e])
            x[e] = load_typed(row + bytes * (i + e), dtype);
    return x;
}

// The same. WIDE tells how F32 rows are aligned.
vec4 load_row(uint64_t row, int any_dtype, int i)
{
    const int dtype = NARROW ? any_dtype : GDN_F32;
    if (dtype == GDN_F32 && whole(i))
        return load_quad(row + 4 * i);
    if (dtype != GDN_F32 || GENERAL)
        return load_elements(row, dtype, i);
    return vec4(0);
}

// Sums of keys that do not exist are left unchanged: fma(0, 0, -0) would be +0.
vec4 sum_step(vec4 x, vec4 y, vec4 sum, int i)
{
    vec4 next = fma4(x, y, sum);
    return GENERAL ? mix(sum, next, present(i)) : next;
}

// ---- A head of a sequence, and this lane's part of it ----

gdn_gated_delta_net_call p;

#define has_tree()   (TREE && (!STATE16 || (p.has & GDN_HAS_TREE) != 0))
#define WITH_LOG     (LOG && p.log.n_slots != 0)
#define WITH_TREE    has_tree()
#define WITH_CHANNEL CHANNEL
#define WITH_STATE16 STATE16
#define WITH_CHUNKED false
#include "call/sequence.h"

gdn_sequence seq;

struct Item {
    int  h;          // value head
    uint l;          // lane of the eight
    int  i0;         // the lane's first key
    int  j, values;  // first value channel of the eight lanes, how many of the C exist
    int  mine;       // the value channel whose sum fold() gives this lane
};
Item at;

// After fold() several lanes may have one value channel's sum. True in the first of them.
bool is_first_of_value()
{
    return at.l % uint(8 / C) == 0 && at.mine < at.values;
}

// Offsets in a log entry.
int64_t key_in_log, delta_in_log, decay_in_log;

// Addresses of the current token's operands; with AHEAD, of the next token to load.
uint64_t q_at, k_at, v_at, g_at, beta_at, out_at;
uint64_t read_at; // this token's read key, if there is one
vec4     q[NB], k[NB];
vec4     decay[NB]; // of keys; CHANNEL only
float    a;         // of the head, else
float    v, beta;

vec4     S[NB][4];      // S[m][c] has value channel j + c; those from C on are never used
float    rate, bias;    // of a raw gate
vec4     key_bias[NB];  // bias with CHANNEL

#include "gated_delta_net_log.glsl"

// False if the sequence is skipped, or if a map is bad, which is reported.
bool find_sequence(int row)
{
    seq = gdn_sequence_of(row / p.n_heads_v);
    at.h = row % p.n_heads_v;
    if (seq.bad < 0 && seq.T > push.most_tokens) // the driver could stop loops
        seq.bad = GDN_BAD_SEQ_START;
    if (seq.bad >= 0) {
        report(p.bad, seq.bad);
        return false;
    }
    if (seq.commit == GDN_BAD)
        report(p.bad, GDN_BAD_COMMIT);
    return gdn_has_work(seq);
}

uint64_t token_at(gdn_token_view view, int head)
{
    return view.data + head * view.stride_head +
           (view.stride_seq != 0 ? seq.s * view.stride_seq : int64_t(seq.first) * view.stride_token);
}

// Computes the addresses of this lane's operands.
void find_operands(int block)
{
    at.l = lane_of_workgroup() & 7u;
    at.i0 = 4 * int(at.l);
    at.j = C * (block * int(gl_WorkGroupSize.x / 8) + int(lane_of_workgroup() / 8));
    at.values = clamp(p.head_dim_v - at.j, 0, C);
    at.mine = int(at.l) / (8 / C);
    const int kappa = gdn_key_head(at.h);
    q_at = token_at(p.q, kappa);
    k_at = token_at(p.k, kappa);
    if (has_read_key())
        read_at = token_at(p.read_key, kappa);
    v_at = token_at(p.v, at.h) + (at.j + at.mine) * element_bytes(p.v.dtype);
    g_at = token_at(p.g, at.h);
    beta_at = token_at(p.beta, at.h);
    out_at = token_at(p.result, at.h) + (at.j + at.mine) * (NARROW ? element_bytes(p.result.dtype) : 4);
    if (LOG) {
        key_in_log = 4 * gdn_log_key(kappa);
        delta_in_log = 4 * (gdn_log_delta(at.h) + at.j);
        decay_in_log = 4 * gdn_log_decay(at.h);
    }
}

uint64_t state_at(gdn_pool_view pool, int entry, int n_slots)
{
    return pool.data + int64_t(entry / n_slots) * pool.stride_row + int64_t(entry % n_slots) * pool.stride_slot +
           at.h * pool.stride_head;
}

#include "gated_delta_net_state16.glsl"

// ---- Steps ----

// 1: load state, of an entry of a pool, or zeros
void load_state(gdn_pool_view pool, int from, int n_slots)
{
    EACH_BLOCK(m)
        EACH_VALUE(c)
            S[m][c] = vec4(0);
    if (from < 0)
        return;
    const uint64_t entry = state_at(pool, from, n_slots);
    EACH_BLOCK(m) {
        const int i = 32 * m + at.i0;
        if (!KEY_MAJOR) {
            EACH_VALUE(c)
                if (c < at.values)
                    S[m][c] = load_row(entry + (at.j + c) * pool.stride_line, GDN_F32, i);
        } else {
            bvec4 there = present(i);
            [[unroll]] for (int e = 0; e < 4; e++) {
                const uint64_t key_row = entry + (i + e) * pool.stride_line + 4 * at.j;
                if (C == 4 && at.values == 4 && there[e]) {
                    const vec4 x = load_quad(key_row);
                    S[m][0][e] = x[0];
                    S[m][1][e] = x[1];
                    S[m][2][e] = x[2];
                    S[m][3][e] = x[3];
                } else if (C == 2 && WIDE != 0 && at.values == 2) {
                    const vec2 x = uintBitsToFloat(unpackUint2x32(Pair(key_row).x));
                    S[m][0][e] = x[0];
                    S[m][1][e] = x[1];
                } else if (there[e]) {
                    [[unroll]] for (int c = 0; c < min(C, 3); c++)
                        if (c < at.values)
                            S[m][c][e] = Float(key_row + 4 * c).x;
                }
            }
        }
    }
}

// 5 without the sums, for the keys of block m, and 7: replays a token
void update_only(int m, vec4 delta)
{
    EACH_VALUE(c) {
        precise vec4 kept = (!CHANNEL ? vec4(a) : decay[m]) * S[m][c];
        S[m][c] = rounded(fma4(k[m], vec4(delta[c]), kept));
    }
}

// 1: replay the log, from one position to another
void replay_log_entries(int from, int to)
{
    for (int position = from; position < to; position++) {
        const uint64_t entry = log_at(position);
        rounds = gdn_rounds_at(position + 1);
        vec4 delta = vec4(0);
        EACH_VALUE(c)
            if (c < at.values)
                delta[c] = Float(entry + delta_in_log + 4 * c).x;
        if (!CHANNEL)
            a = Float(entry + decay_in_log).x;
        EACH_BLOCK(m) {
            k[m] = load_row(entry + key_in_log, GDN_F32, 32 * m + at.i0);
            if (CHANNEL)
                decay[m] = load_row(entry + decay_in_log, GDN_F32, 32 * m + at.i0);
        }
        EACH_BLOCK(m)
            update_only(m, delta);
    }
}

#include "gated_delta_net_token.glsl"
#include "gated_delta_net_forms.glsl"
#ifdef GDN_GENERAL
#include "gated_delta_net_tree.glsl"
#endif

// 3: read kv, of this lane's value channel
float read_kv()
{
    vec4 sum[4];
    EACH_VALUE(c)
        sum[c] = vec4(0);
    EACH_BLOCK(m) {
        const vec4 key = has_read_key() ? load_row(read_at, p.read_key.dtype, 32 * m + at.i0) : k[m];
        precise vec4 with = !CHANNEL ? key : decay[m] * key;
        EACH_VALUE(c)
            sum[c] = sum_step(S[m][c], with, sum[c], 32 * m + at.i0);
    }
    if (has_read_key())
        read_at += p.read_key.stride_token;
    precise float kv = fold(sum, at.l, 0, 1, 2);
    if (!CHANNEL)
        kv = a * kv;
    return kv;
}

// 5: update, and the sums of 6: output
float update(vec4 delta)
{
    vec4 sum[4];
    EACH_VALUE(c)
        sum[c] = vec4(0);
    EACH_BLOCK(m) {
        EACH_VALUE(c) {
            precise vec4 kept = (!CHANNEL ? vec4(a) : decay[m]) * S[m][c];
            S[m][c] = fma4(k[m], vec4(delta[c]), kept);
            sum[c] = sum_step(S[m][c], q[m], sum[c], 32 * m + at.i0);
            S[m][c] = rounded(S[m][c]); // 7
        }
    }
    return fold(sum, at.l, 1, 2, 1);
}

void store_entry(gdn_pool_view pool, uint64_t entry)
{
    EACH_BLOCK(m) {
        const int i = 32 * m + at.i0;
        bvec4 there = present(i);
        if (!KEY_MAJOR) {
            EACH_VALUE(c)
                if (c < at.values)
                    store_row(entry + (at.j + c) * pool.stride_line, S[m][c], i);
        } else {
            [[unroll]] for (int e = 0; e < 4; e++) {
                const uint64_t line = entry + (i + e) * pool.stride_line + 4 * at.j;
                if (C == 4 && at.values == 4 && there[e]) {
                    store_quad(line, vec4(S[m][0][e], S[m][1][e], S[m][2][e], S[m][3][e]));
                } else if (C == 2 && WIDE != 0 && at.values == 2) {
                    Pair(line).x = packUint2x32(floatBitsToUint(vec2(S[m][0][e], S[m][1][e])));
                } else if (there[e]) {
                    [[unroll]] for (int c = 0; c < min(C, 3); c++)
                        if (c < at.values)
                            Float(line + 4 * c).x = S[m][c][e];
                }
            }
        }
    }
}

// Stores the state to an entry. `word` reports a bad entry.
void store_state(int dst, int word)
{
    if (dst == GDN_BAD)
        report(p.bad, word);
    if (dst < 0)
        return;
    const uint64_t entry = state_at(p.state_out, dst, p.state_out.n_slots);
    if (STATE16)
        store_state16(p.state_out, entry);
    else
        store_entry(p.state_out, entry);
}

// Computes a token: all steps except keeping the state.
void compute_token(int t)
{
    take_token(t);
    if (has_norm())
        normalise();
    if (FORMS)
        beta = delta_factor(beta);
    make_decays();
    const float kv = read_kv();

    // 4: delta
    precise float d = beta * (v - kv);
    const vec4 delta = gather_values(d, 0);

    rounds = gdn_rounds_at(seq.position + (has_tree() ? depth : t + 1));
    precise float o = p.scale * update(delta);
    // 6: output
    if (is_first_of_value()) {
        if (NARROW)
            store_element(out_at, p.result.dtype, o);
        else
            Float(out_at).x = o;
    }
    if (LOG && seq.row >= 0)
        log_token(t, d);
    out_at += p.result.stride_token;
}

void main()
{
    if (item() >= push.n_items)
        return;
    Params params = Params(push.params);
    p = params.p;
    n_keys = GENERAL ? p.head_dim_k : 32 * NB;
#ifdef GDN_GENERAL
    n_blocks = (n_keys + 31) / 32;
#endif
    if (!find_sequence(int(item() / uint(p.blocks))))
        return;
#ifdef GDN_GENERAL
    if (has_tree() && !is_tree(p.parent, seq.first, seq.T, p.bad))
        return;
#endif
    depth = 0;
    find_operands(int(item() % uint(p.blocks)));
    if (FORMS)
        load_gate();
#ifndef GDN_GENERAL
    if (AHEAD && seq.T != 0)
        load_ahead();
#endif
    if (STATE16)
        load_state16(p.state, seq.src, p.state.n_slots);
    else
        load_state(p.state, seq.src, p.state.n_slots);
    if (LOG && !STATE16)
        replay_log_entries(seq.base_position, seq.position);

    // Iterations before the first token replay the log and commit. STATE16 has two: -2 replays up to `kept` and
    // commits, -1 replays the rest. Without STATE16, -1 commits.
    const int commits = STATE16 ? -2 : -1;
    for (int t = LOG ? commits : 0; t < seq.T; t++) {
        if (STATE16 && t < 0)
            replay_log_entries(t == commits ? seq.base_position : seq.kept, t == commits ? seq.kept : seq.position);
#ifdef GDN_GENERAL
        if (has_tree() && t >= 0)
            follow(t);
#endif
        if (!LOG || t >= 0)
            compute_token(t);
        if (CHECKPOINTS) {
            const bool before = LOG && t < 0;
            [[dont_unroll]] for (int kept = !before ? 0 : t == commits ? 1 : 2; kept < 2; kept++)
                store_state(before ? seq.commit : kept == 0 ? gdn_snapshot_of(seq, t) : gdn_checkpoint_of(seq.s, t),
                            before      ? GDN_BAD_COMMIT
                            : kept == 0 ? GDN_BAD_STATE_DST
                                        : GDN_BAD_CHECKPOINT);
        } else if (seq.T - 1 - t < p.n_snapshots) {
            store_state(gdn_snapshot_of(seq, t), GDN_BAD_STATE_DST);
        }
    }
}
