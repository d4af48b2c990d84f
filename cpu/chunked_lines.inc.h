/* Lines of the chunked form and dot() of them, over vectors: rows, which are multiplied with lines of the lanes.
 *
 * A group has 16 lanes. Its lines are [element / 4][digit][16][4]: 64 bytes for 4 elements and a digit. Names are those
 * of docs/reference/numerics-chunked.md. Included by chunked.inc.h. */
#ifndef GDN_CPU_CHUNKED_LINES_INC_H
#define GDN_CPU_CHUNKED_LINES_INC_H

#include <string.h>

#include "numerics/chunked.h"
#include "simd/tiles.h"
#include "simd/typed.inc.h"

enum { GROUP = 16 };

GDN_INLINE vi larger_bits(vi a, vi b) { return vi_sel(vi_gt(a, b), a, b); }

/* The digits of integers, as integers whose lowest bytes are the digits. */
GDN_INLINE void split(vi n, const int digits, vi d[GDN_MOST_DIGITS])
{
    d[digits - 1] = n;
    d[digits - 2] = vi_sar(vi_add(n, vi_set1(0x80)), 8);
    if (digits == 3) d[0] = vi_sar(vi_add(n, vi_set1(0x8080)), 16);
}

GDN_INLINE vi low_byte(vi x) { return vi_sar(vi_shl(x, 24), 24); }

/* A row: a line over n elements, n a multiple of 16. Its digits also go to `bytes`, [digit][n]. If it is not finite
 * they are any digits: its factor is NaN, and only digits of states are stored. */
GDN_INLINE void make_row(const float *x, int32_t n, const int digits, int8_t *bytes, int32_t *word, float *factor,
                         int32_t sum[GDN_MOST_DIGITS])
{
    int32_t lane[GDN_VL], most = 0;
    vi bits = vi_set1(0), sums[GDN_MOST_DIGITS] = { vi_set1(0), vi_set1(0), vi_set1(0) };
    for (int32_t i = 0; i < n; i += GDN_VL) bits = larger_bits(v_bits(v_abs(v_load(x + i))), bits);
    vi_store(lane, bits);
    for (int i = 0; i < GDN_VL; i++) most = lane[i] > most ? lane[i] : most;
    const gdn_line line = gdn_line_of((uint32_t)most, digits);
    for (int32_t i = 0; i < n; i += GDN_VL) {
        vi d[GDN_MOST_DIGITS];
        split(v_to_int_rne(v_mul(v_load(x + i), v_set1(line.scale))), digits, d);
        for (int a = 0; a < digits; a++) {
            vi_store_low_bytes(bytes + a * n + i, d[a]);
            if (GDN_QUAD_BIAS) sums[a] = vi_add(sums[a], low_byte(d[a]));
        }
    }
    for (int a = 0; a < digits; a++) {
        sum[a] = 0;
        vi_store(lane, sums[a]);
        for (int i = 0; GDN_QUAD_BIAS && i < GDN_VL; i++) sum[a] += lane[i];
        quad_words(word + a * GDN_QUAD_PARTS * (n / 4), bytes + a * n, n);
    }
    *factor = gdn_left_factor(line.factor, digits);
}

/* Lines of lanes, by the largest bits of each: what makes their digits, and their factors. bad: these are NaN. */
GDN_INLINE void lane_lines(vi most, const int digits, vf *scale, vf *factor, vm *bad)
{
    const vi field = vi_and(vi_shr(v_bits(v_mul(v_from_bits(most), v_set1(GDN_LINE_HEADROOM))), 23), vi_set1(255));
    const vi least = vi_set1(GDN_LINE_EXPONENT), e = larger_bits(vi_sub(field, vi_set1(126)), least);
    *bad = vi_gt(most, vi_set1(GDN_INF_BITS - 1));
    *scale = v_from_bits(vi_shl(vi_sub(vi_set1(8 * digits - 1 + 127), e), 23));
    *factor =
        v_sel(*bad, v_from_bits(vi_set1((int32_t)GDN_NAN_BITS)), v_from_bits(vi_shl(vi_add(e, vi_set1(120)), 23)));
}

GDN_INLINE vi lane_integer(vf x, vf scale, vm bad)
{
    return vi_sel(bad, vi_set1(0), v_to_int_rne(v_sel(bad, v_zero(), v_mul(x, scale))));
}

/* Four elements of each lane as their digits' bytes: one word a digit, digits 64 bytes apart. */
GDN_INLINE void store_quad(int8_t *to, const vi n[4], const int digits)
{
    vi d[4][GDN_MOST_DIGITS];
    for (int c = 0; c < 4; c++) split(n[c], digits, d[c]);
    for (int a = 0; a < digits; a++) {
        const vi low = vi_or(vi_and(d[0][a], vi_set1(255)), vi_shl(vi_and(d[1][a], vi_set1(255)), 8));
        const vi high = vi_or(vi_shl(vi_and(d[2][a], vi_set1(255)), 16), vi_shl(d[3][a], 24));
        vi_store((int32_t *)(void *)(to + 64 * a), vi_or(low, high));
    }
}

/* Digits of n lanes of F32, `step` floats apart. */
GDN_INLINE vf make_lanes(const float *x, int32_t n, int32_t step, const int digits, int8_t *to)
{
    vi most = vi_set1(0);
    vf scale, factor;
    vm bad;
    for (int32_t i = 0; i < n; i++) most = larger_bits(v_bits(v_abs(v_load(x + (int64_t)i * step))), most);
    lane_lines(most, digits, &scale, &factor, &bad);
    for (int32_t i = 0; i < n; i += 4) {
        vi quad[4];
        for (int c = 0; c < 4; c++) quad[c] = lane_integer(v_load(x + (int64_t)(i + c) * step), scale, bad);
        store_quad(to + (int64_t)(i / 4) * digits * 64, quad, digits);
    }
    return factor;
}

/* The element c of a quad of digits, times the factor of its lane. */
GDN_INLINE vf element_of(const int8_t *quad, const int c, const int digits, vf factor)
{
    vi n = vi_set1(0);
    for (int a = 0; a < digits; a++) {
        const vi word = vi_load((const int32_t *)(const void *)(quad + 64 * a));
        const vi digit = c == 0   ? vi_sar(vi_shl(word, 24), 24)
                         : c == 1 ? vi_sar(vi_shl(word, 16), 24)
                         : c == 2 ? vi_sar(vi_shl(word, 8), 24)
                                  : vi_sar(word, 24);
        n = vi_add(vi_shl(n, 8), digit);
    }
    return v_mul(v_mul(v_from_int(n), v_set1(digits == 2 ? 0x1p-8f : 0x1p-16f)), factor);
}

/* ---- Products ---- */

GDN_INLINE vf dot_of(const vi g[GDN_MOST_DIGITS], const int digits)
{
    return digits == 2
               ? v_fma(v_set1(256), v_from_int(g[0]), v_from_int(g[1]))
               : v_fma(v_set1(0x1p-8f), v_fma(v_set1(0x1p-8f), v_from_int(g[2]), v_from_int(g[1])), v_from_int(g[0]));
}

/* dot() of rows, whose words begin at word[r], with the lines of the lanes at `lane`: quads of elements, `digits` times
 * 64 bytes apart. Words of parts, digits and quads are so far apart. */
GDN_INLINE void dots_of(const int rows, const int digits, const int8_t *lane, int32_t quads, const int32_t *const *word,
                        int64_t part_step, int64_t digit_step, int64_t quad_step,
                        const int32_t (*const *sum)[GDN_MOST_DIGITS], vf *dot)
{
    vi g[8][GDN_MOST_DIGITS];
    for (int r = 0; r < rows; r++)
        for (int m = 0, below = 0; m < digits; m++) {
            below += GDN_QUAD_BIAS ? (*sum[r])[m] : 0;
            g[r][m] = vi_set1(-GDN_QUAD_BIAS * below);
        }
    for (int32_t i = 0; i < quads; i++) {
        vquad l[GDN_MOST_DIGITS];
        for (int a = 0; a < digits; a++) l[a] = quad_load(lane + ((int64_t)i * digits + a) * 64);
        for (int r = 0; r < rows; r++)
            for (int x = 0; x < digits; x++)
                for (int y = 0; x + y < digits; y++)
                    g[r][x + y] = quad_dot(g[r][x + y], l[y], word[r] + x * digit_step + i * quad_step, part_step);
    }
    for (int r = 0; r < rows; r++) dot[r] = dot_of(g[r], digits);
}

/* dot() of 16 rows with the 16 lines of a group over n elements: see tile_sums(). */
GDN_INLINE void tile_dots(const int digits, const int8_t *row, int64_t row_step, int64_t digit_step, const int8_t *lane,
                          int32_t n, float (*dot)[GROUP])
{
    int32_t sum[GDN_MOST_DIGITS][GROUP][GROUP] __attribute__((aligned(64)));
    tile_sums(digits, row, row_step, digit_step, lane, n, sum);
    for (int r = 0; r < GROUP; r++) {
        vi g[GDN_MOST_DIGITS];
        for (int m = 0; m < digits; m++) g[m] = vi_load(sum[m][r]);
        v_store(dot[r], dot_of(g, digits));
    }
}

#endif
