// gated_delta_net: eight lanes hold four value columns of a head's state in registers over all tokens of the call.
//
// Lane l of the eight has the keys i = 32 m + 4 l + e, m = 0 .. DK/32, e = 0 .. 3: the residues 4l .. 4l+3 of
// dot32. So a row of 32 keys is one coalesced load of 128 bytes; the tree's steps h = 16, 8, 4 are exchanges with
// the lanes l^4, l^2, l^1, and h = 2, 1 stay within a lane. The addition commutes, so it does not matter which of
// the two lanes adds. The exchanges are subgroup shuffles, or go through shared memory (no GDN_SUBGROUP).
//
// Steps, numbered as in docs/kernels/gated_delta_net.md and in every other version:
//   1 load state   2 decay   3 read kv   4 delta   5 update   6 output   7 snapshot
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef GDN_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "memory.glsl"
#include "arithmetic.glsl"
#include "elementary.glsl"

layout(local_size_x_id = 0) in;
#ifdef GDN_GENERAL // any head_dim_k: a loop over its blocks of 32 keys
const int NB = 8;
const bool GENERAL = true;
int n_blocks;
#define EACH_BLOCK(m) [[dont_unroll]] for (int m = 0; m < n_blocks; m++)
#else              // head_dim_k is 32 NB: all indices are constants, so that the state is in registers
layout(constant_id = 1) const int NB = 4;
const bool GENERAL = false;
#define EACH_BLOCK(m) [[unroll]] for (int m = 0; m < NB; m++)
#endif
layout(constant_id = 2) const int SHAPE = 0;   // bits below: what would otherwise be code that never runs
layout(constant_id = 3) const int WIDE = 0;    // rows of four: 0 element by element, 1 as 16 bytes, 2 as 2 x 8 bytes
const bool CHANNEL = (SHAPE & 1) != 0;   // a gate per key channel
const bool KEY_MAJOR = (SHAPE & 2) != 0; // the state's lines are keys
const bool NARROW = (SHAPE & 4) != 0;    // q, k or v may be of 16 bits

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Params { gdn_gpu_gated_delta_net p; };

#define HEADS_TILED 1
#define SKIP -2

#ifdef GDN_SUBGROUP
uint lane_of_workgroup()
{
    return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
}
vec4 exchange(vec4 x, uint mask, uint turn)
{
    return subgroupShuffleXor(x, mask);
}
void exchange_two(inout vec4 x, inout vec4 y, uint mask, uint turn)
{
    x = subgroupShuffleXor(x, mask);
    y = subgroupShuffleXor(y, mask);
}
vec4 gather_columns(float x, uint turn)
{
    uint first = gl_SubgroupInvocationID & ~7u;
    return vec4(subgroupShuffle(x, first), subgroupShuffle(x, first + 2), subgroupShuffle(x, first + 4),
                subgroupShuffle(x, first + 6));
}
#else
// Exchanges between lanes through shared memory, in three areas ("boards") that are used one after the other: a lane that
// writes to one has passed the barrier of a later exchange, before which every lane has read it. So an exchange costs one
// barrier instead of two, as long as two exchanges in a row never use the same area.
shared vec4 board[6 * gl_WorkGroupSize.x];
uint lane_of_workgroup()
{
    return gl_LocalInvocationIndex;
}
uint place(uint turn, uint lane)
{
    return 2 * (turn * gl_WorkGroupSize.x + lane);
}
void exchange_two(inout vec4 x, inout vec4 y, uint mask, uint turn)
{
    board[place(turn, gl_LocalInvocationIndex)] = x;
    board[place(turn, gl_LocalInvocationIndex) + 1] = y;
    barrier();
    x = board[place(turn, gl_LocalInvocationIndex ^ mask)];
    y = board[place(turn, gl_LocalInvocationIndex ^ mask) + 1];
}
vec4 exchange(vec4 x, uint mask, uint turn)
{
    board[place(turn, gl_LocalInvocationIndex)] = x;
    barrier();
    return board[place(turn, gl_LocalInvocationIndex ^ mask)];
}
vec4 gather_columns(float x, uint turn)
{
    uint first = gl_LocalInvocationIndex & ~7u;
    board[place(turn, gl_LocalInvocationIndex)].x = x;
    barrier();
    return vec4(board[place(turn, first)].x, board[place(turn, first + 2)].x, board[place(turn, first + 4)].x,
                board[place(turn, first + 6)].x);
}
#endif

// Columns of a lane group after fold(): column 2 * bit 2 + bit 1 of the lane. t0, t1, t2: boards of the exchanges.
float fold(vec4 partial[4], uint lane, uint t0, uint t1, uint t2)
{
    bool upper = (lane & 4) != 0, right = (lane & 2) != 0;
    // h = 16: of four columns each half of the lanes keeps two
    vec4 from0 = upper ? partial[0] : partial[2], from1 = upper ? partial[1] : partial[3];
    exchange_two(from0, from1, 4, t0);
    precise vec4 a = (upper ? partial[2] : partial[0]) + from0;
    precise vec4 b = (upper ? partial[3] : partial[1]) + from1;
    // h = 8: of two columns, one
    precise vec4 c = (right ? b : a) + exchange(right ? a : b, 2, t1);
    // h = 4
    precise vec4 s = c + exchange(c, 1, t2);
    // h = 2, 1
    precise vec2 pair = s.xy + s.zw;
    precise float sum = pair.x + pair.y;
    return sum;
}

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

float load_any(uint64_t at, int dtype)
{
    return NARROW ? load_element(at, dtype) : Float(at).x;
}

// Elements i .. i + 3 of a row; those beyond the head are 0.
vec4 load_row(uint64_t row, int dtype, int i)
{
    vec4 x = vec4(0);
    if (dtype == GDN_GPU_F32 && whole(i)) {
        x = load_quad(row + 4 * i);
    } else if (dtype != GDN_GPU_F32 || GENERAL) {
        bvec4 there = present(i);
        int bytes = dtype == GDN_GPU_F32 ? 4 : 2;
        [[unroll]] for (int e = 0; e < 4; e++)
            if (there[e])
                x[e] = load_any(row + bytes * (i + e), dtype);
    }
    return x;
}

// Sums of keys that do not exist stay as they are: fma(0, 0, -0) would be +0.
vec4 sum_step(vec4 x, vec4 y, vec4 sum, int i)
{
    vec4 next = fma4(x, y, sum);
    return GENERAL ? mix(sum, next, present(i)) : next;
}

void main()
{
    if (item() >= push.n_items)
        return;
    Params params = Params(push.params);
    gdn_gpu_gated_delta_net p = params.p;
    n_keys = GENERAL ? p.head_dim_k : 32 * NB;
#ifdef GDN_GENERAL
    n_blocks = (n_keys + 31) / 32;
#endif
    const uint lane = lane_of_workgroup() & 7u;
    const int block = int(item() % uint(p.blocks)), row = int(item() / uint(p.blocks));
    const int s = row / p.n_heads_v, h = row % p.n_heads_v;

    // The maps, guarded: a bad value makes the sequence one that is skipped.
    const int first = p.seq_start != 0 ? Int(p.seq_start + 4 * int64_t(s)).x : s * p.even_tokens;
    const int after = p.seq_start != 0 ? Int(p.seq_start + 4 * int64_t(s) + 4).x : first + p.even_tokens;
    const int src = map_at(p.state_src, s, s * p.slots_in);
    if (first < 0 || after < first || after > p.n_tokens) {
        report(p.bad, GDN_GPU_BAD_SEQ_START);
        return;
    }
    if (src < SKIP || src >= p.entries_in) {
        report(p.bad, GDN_GPU_BAD_STATE_SRC);
        return;
    }
    const int T = after - first;
    if (src == SKIP || T == 0)
        return;

    // Where things of this lane lie. Columns j .. j + 3 belong to the eight lanes.
    const int j = 4 * (block * int(gl_WorkGroupSize.x / 8) + int(lane_of_workgroup() / 8));
    const int columns = clamp(p.head_dim_v - j, 0, 4);
    const int mine = int(lane >> 1); // the column that fold() gives this lane
    const int kappa = p.head_map == HEADS_TILED ? h % p.n_heads_k : h / (p.n_heads_v / p.n_heads_k);
    const int i0 = 4 * int(lane);
    const int64_t token0 = first;
    uint64_t q_at = p.q.base + kappa * p.q.head + (p.q.seq != 0 ? s * p.q.seq : token0 * p.q.token);
    uint64_t k_at = p.k.base + kappa * p.k.head + (p.k.seq != 0 ? s * p.k.seq : token0 * p.k.token);
    uint64_t v_at = p.v.base + h * p.v.head + (p.v.seq != 0 ? s * p.v.seq : token0 * p.v.token) +
                    (j + mine) * (p.v_dtype == GDN_GPU_F32 ? 4 : 2);
    uint64_t g_at = p.g.base + h * p.g.head + (p.g.seq != 0 ? s * p.g.seq : token0 * p.g.token);
    uint64_t beta_at = p.beta.base + h * p.beta.head + (p.beta.seq != 0 ? s * p.beta.seq : token0 * p.beta.token);
    uint64_t out_at = p.result.base + h * p.result.head +
                      (p.result.seq != 0 ? s * p.result.seq : token0 * p.result.token) + 4 * (j + mine);

    // 1: load state. S[m][c] has column j + c
    vec4 S[NB][4];
    EACH_BLOCK(m)
        [[unroll]] for (int c = 0; c < 4; c++)
            S[m][c] = vec4(0);
    if (src >= 0) {
        uint64_t at = p.state_in.base + int64_t(src / p.slots_in) * p.state_in.row +
                      int64_t(src % p.slots_in) * p.state_in.slot + h * p.state_in.head;
        EACH_BLOCK(m) {
            const int i = 32 * m + i0;
            if (!KEY_MAJOR) {
                [[unroll]] for (int c = 0; c < 4; c++)
                    if (c < columns)
                        S[m][c] = load_row(at + (j + c) * p.state_in.line, GDN_GPU_F32, i);
            } else {
                bvec4 there = present(i);
                [[unroll]] for (int e = 0; e < 4; e++) {
                    const uint64_t key_row = at + (i + e) * p.state_in.line + 4 * j;
                    if (columns == 4 && there[e]) {
                        const vec4 x = load_quad(key_row);
                        S[m][0][e] = x[0];
                        S[m][1][e] = x[1];
                        S[m][2][e] = x[2];
                        S[m][3][e] = x[3];
                    } else if (there[e]) {
                        [[unroll]] for (int c = 0; c < 3; c++)
                            if (c < columns)
                                S[m][c][e] = Float(key_row + 4 * c).x;
                    }
                }
            }
        }
    }

    for (int t = 0; t < T; t++) {
        // Rows of this token
        vec4 k[NB], q[NB];
        EACH_BLOCK(m) {
            k[m] = load_row(k_at, NARROW ? p.k_dtype : GDN_GPU_F32, 32 * m + i0);
            q[m] = load_row(q_at, NARROW ? p.q_dtype : GDN_GPU_F32, 32 * m + i0);
        }
        const float v = mine < columns ? load_any(v_at, p.v_dtype) : 0.0;
        const float beta = Float(beta_at).x;

        // 2: decay
        float a = 0.0;
        vec4 decay[NB];
        if (!CHANNEL) {
            a = gdn_exp(Float(g_at).x);
        } else {
            EACH_BLOCK(m) {
                const vec4 g = load_row(g_at, GDN_GPU_F32, 32 * m + i0);
                decay[m] = vec4(gdn_exp(g.x), gdn_exp(g.y), gdn_exp(g.z), gdn_exp(g.w));
            }
        }

        // 3: read kv
        vec4 sum[4];
        [[unroll]] for (int c = 0; c < 4; c++)
            sum[c] = vec4(0);
        EACH_BLOCK(m) {
            precise vec4 with = !CHANNEL ? k[m] : decay[m] * k[m];
            [[unroll]] for (int c = 0; c < 4; c++)
                sum[c] = sum_step(S[m][c], with, sum[c], 32 * m + i0);
        }
        precise float kv = fold(sum, lane, 0, 1, 2);
        if (!CHANNEL)
            kv = a * kv;

        // 4: delta
        precise float d = beta * (v - kv);
        const vec4 delta = gather_columns(d, 0);

        // 5: update, 6: output
        [[unroll]] for (int c = 0; c < 4; c++)
            sum[c] = vec4(0);
        EACH_BLOCK(m) {
            [[unroll]] for (int c = 0; c < 4; c++) {
                precise vec4 kept = (!CHANNEL ? vec4(a) : decay[m]) * S[m][c];
                S[m][c] = fma4(k[m], vec4(delta[c]), kept);
                sum[c] = sum_step(S[m][c], q[m], sum[c], 32 * m + i0);
            }
        }
        precise float o = p.scale * fold(sum, lane, 1, 2, 1);
        if ((lane & 1u) == 0 && mine < columns)
            Float(out_at).x = o;

        // 7: snapshot, r tokens before the newest
        const int r = T - 1 - t;
        if (r < p.n_snapshots) {
            const int dst = map_at(p.state_dst, int64_t(s) * p.n_snapshots + r, s * p.slots_out + r);
            if (dst < -1 || dst >= p.entries_out)
                report(p.bad, GDN_GPU_BAD_STATE_DST);
            if (dst >= 0 && dst < p.entries_out) {
                uint64_t at = p.state_out.base + int64_t(dst / p.slots_out) * p.state_out.row +
                              int64_t(dst % p.slots_out) * p.state_out.slot + h * p.state_out.head;
                EACH_BLOCK(m) {
                    const int i = 32 * m + i0;
                    bvec4 there = present(i);
                    if (!KEY_MAJOR) {
                        [[unroll]] for (int c = 0; c < 4; c++) {
                            const uint64_t line = at + (j + c) * p.state_out.line + 4 * i;
                            if (c < columns && whole(i)) {
                                store_quad(line, S[m][c]);
                            } else if (c < columns) {
                                [[unroll]] for (int e = 0; e < 4; e++)
                                    if (there[e])
                                        Float(line + 4 * e).x = S[m][c][e];
                            }
                        }
                    } else {
                        [[unroll]] for (int e = 0; e < 4; e++) {
                            const uint64_t line = at + (i + e) * p.state_out.line + 4 * j;
                            if (columns == 4 && there[e]) {
                                store_quad(line, vec4(S[m][0][e], S[m][1][e], S[m][2][e], S[m][3][e]));
                            } else if (there[e]) {
                                [[unroll]] for (int c = 0; c < 3; c++)
                                    if (c < columns)
                                        Float(line + 4 * c).x = S[m][c][e];
                            }
                        }
                    }
                }
            }
        }

        q_at += p.q.token;
        k_at += p.k.token;
        v_at += p.v.token;
        g_at += p.g.token;
        beta_at += p.beta.token;
        out_at += p.result.token;
    }
}
