/* Lines of the chunked form and dot() of them, over vectors: rows, which are multiplied with lines of the lanes.
 *
 * A group has 16 lanes. Its lines are [element / 4][digit][16][4]: 64 bytes for 4 elements and a digit. Names are those
 * of docs/reference/numerics-chunked.md. Included by chunked.inc.h. */
#ifndef GDN_CPU_CHUNKED_LINES_INC_H
#define GDN_CPU_CHUNKED_LINES_INC_H

#include <stdbool.h>
#include <string.h>

#include "numerics/chunked.h"
#include "simd/tiles.h"
#include "simd/typed.inc.h"

enum { GROUP = 16 };
enum { TILE_ROWS = GDN_VL == 8 ? 4 : 8 }; /* rows of products at a time: what registers hold */

/* The digits of integers, as integers whose lowest bytes are the digits. */
GDN_INLINE void split(vi n, const int digits, vi d[GDN_MOST_DIGITS])
{
    d[digits - 1] = n;
    d[digits - 2] = vi_sar(vi_add(n, vi_set1(0x80)), 8);
    if (digits == 3) d[0] = vi_sar(vi_add(n, vi_set1(0x8080)), 16);
}

GDN_INLINE vi low_byte(vi x) { return vi_sar(vi_shl(x, 24), 24); }

/* Lines of lanes, by the largest bits of each: what makes their digits, and their factors. bad: these are NaN. */
GDN_INLINE void lane_lines(vi most, const int digits, vf *scale, vf *factor, vm *bad)
{
    const vi field = vi_and(vi_shr(v_bits(v_mul(v_from_bits(most), v_set1(GDN_LINE_HEADROOM))), 23), vi_set1(255));
    const vi least = vi_set1(GDN_LINE_EXPONENT), e = vi_larger(vi_sub(field, vi_set1(126)), least);
    *bad = vi_gt(most, vi_set1(GDN_INF_BITS - 1));
    *scale = v_from_bits(vi_shl(vi_sub(vi_set1(8 * digits - 1 + 127), e), 23));
    *factor =
        v_sel(*bad, v_from_bits(vi_set1((int32_t)GDN_NAN_BITS)), v_from_bits(vi_shl(vi_add(e, vi_set1(120)), 23)));
}

GDN_INLINE vi lane_integer(vf x, vf scale, vm bad)
{
    return vi_sel(bad, vi_set1(0), v_to_int_rne(v_sel(bad, v_zero(), v_mul(x, scale))));
}

/* Four elements of each lane as their digits' bytes: a word a digit. */
GDN_INLINE void quad_digits(const vi n[4], const int digits, vi word[GDN_MOST_DIGITS])
{
    vi d[4][GDN_MOST_DIGITS];
    if (digits == 2) { /* numbers of 16 bits, and with what they carry to the top digit */
        const vi carry = vi_set1(0x800080), low = vi_set1(0xff00ff);
        const vi even = vi_merge(vi_set1(0xffff), n[0], vi_shl(n[2], 16)), even_top = vi_add_halves(even, carry);
        const vi odd = vi_merge(vi_set1(0xffff), n[1], vi_shl(n[3], 16)), odd_top = vi_add_halves(odd, carry);
        word[0] = vi_merge(low, vi_shr(even_top, 8), odd_top);
        word[1] = vi_merge(low, even, vi_shl(odd, 8));
        return;
    }
    for (int c = 0; c < 4; c++) split(n[c], digits, d[c]);
    for (int a = 0; a < digits; a++) {
        const vi of[4] = { d[0][a], d[1][a], d[2][a], d[3][a] };
        word[a] = vi_low_bytes(of);
    }
}

/* The same, stored as digits of lines of lanes. */
GDN_INLINE void store_quad(int8_t *to, const vi n[4], const int digits)
{
    vi word[GDN_MOST_DIGITS];
    quad_digits(n, digits, word);
    for (int a = 0; a < digits; a++) vi_store((int32_t *)(void *)(to + 64 * a), word[a]);
}

/* Digits of n lanes of F32, `step` floats apart, whose largest bits are given. Returns the lanes' factors. */
GDN_INLINE vf make_lanes(const float *x, int32_t n, int32_t step, vi most, const int digits, int8_t *to)
{
    vf scale, factor;
    vm bad;
    vi quad[4];
    lane_lines(most, digits, &scale, &factor, &bad);
    if (__builtin_expect(vm_any(bad), 0)) {
        for (int32_t i = 0; i < n; i += 4) {
            for (int c = 0; c < 4; c++) quad[c] = lane_integer(v_load(x + (int64_t)(i + c) * step), scale, bad);
            store_quad(to + (int64_t)(i / 4) * digits * 64, quad, digits);
        }
        return factor;
    }
    for (int32_t i = 0; i < n; i += 4) {
        for (int c = 0; c < 4; c++) quad[c] = v_to_int_rne(v_mul(v_load(x + (int64_t)(i + c) * step), scale));
        store_quad(to + (int64_t)(i / 4) * digits * 64, quad, digits);
    }
    return factor;
}

/* Digits of rows of n elements, n a multiple of 16, at most GDN_VL rows: [row][digit][n], and factors of GDN_VL rows.
 * Those of a row that is not finite are any digits: its factor is NaN, and only digits of states are stored. */
GDN_INLINE void make_rows(const float *const *row, int32_t rows, int32_t n, const int digits, int8_t *bytes,
                          float *factor)
{
    vf most_of[GDN_VL], scale, factors;
    vm bad;
    float scale_of[GDN_VL];
    for (int32_t r = 0; r < GDN_VL; r++) {
        vi most = vi_set1(0);
        for (int32_t i = 0; r < rows && i < n; i += GDN_VL) most = vi_larger(v_bits(v_abs(v_load(row[r] + i))), most);
        most_of[r] = v_from_bits(most);
    }
    v_transpose(most_of);
    vi most = v_bits(most_of[0]);
    for (int r = 1; r < GDN_VL; r++) most = vi_larger(v_bits(most_of[r]), most);
    lane_lines(most, digits, &scale, &factors, &bad);
    v_store(factor, factors);
    v_store(scale_of, scale);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t i = 0; i < n; i += 4 * GDN_VL) {
            const int32_t quads = (n - i) / 4 < GDN_VL ? (n - i) / 4 : GDN_VL;
            float some[4 * GDN_VL] = { 0 };
            vf x[4];
            vi integer[4], word[GDN_MOST_DIGITS];
            if (quads < GDN_VL) memcpy(some, row[r] + i, 16 * (size_t)quads);
            v_load4(quads < GDN_VL ? some : row[r] + i, x);
            for (int c = 0; c < 4; c++) integer[c] = v_to_int_rne(v_mul(x[c], v_set1(scale_of[r])));
            quad_digits(integer, digits, word);
            for (int a = 0; a < digits; a++)
                v_store_some((float *)(void *)(bytes + ((int64_t)r * digits + a) * n + i), v_from_bits(word[a]), quads);
        }
}

/* Rows as lanes: their bytes, [row][digit][n], to [n / 4][digit][16 lanes][4]. */
GDN_INLINE void rows_to_lanes(const int8_t *bytes, int32_t rows, int32_t n, const int digits, int8_t *to)
{
    enum { FEW = GDN_VL / 4 };
    for (int32_t r = 0; rows <= FEW && r < rows; r++)
        for (int a = 0; a < digits; a++)
            for (int32_t i = 0; i < n / 4; i++)
                memcpy(to + ((int64_t)i * digits + a) * 64 + 4 * r, bytes + ((int64_t)r * digits + a) * n + 4 * i, 4);
    for (int32_t i = 0; rows > FEW && i < n / 4; i += GDN_VL)
        for (int a = 0; a < digits; a++) {
            const int32_t quads = n / 4 - i < GDN_VL ? n / 4 - i : GDN_VL;
            vf quad[GDN_VL];
            for (int32_t r = 0; r < GDN_VL; r++) {
                const int8_t *const row = bytes + ((int64_t)(r < rows ? r : 0) * digits + a) * n;
                quad[r] = v_load_some((const float *)(const void *)row + i, quads);
            }
            v_transpose(quad);
            for (int32_t l = 0; l < quads; l++)
                v_store((float *)(void *)(to + ((int64_t)(i + l) * digits + a) * 64), quad[l]);
        }
}

/* The factor of a lane's elements. With 3 digits the least would be subnormal. */
GDN_INLINE vf element_factor(vf factor, const int digits)
{
    return digits == 2 ? v_mul(factor, v_set1(0x1p-8f)) : factor;
}

/* The element c of a quad of digits, times the factor of its lane's elements. */
GDN_INLINE vf element_of(const int8_t *quad, const int c, const int digits, vf factor)
{
    vi n = vi_set1(0);
    for (int a = 0; a < digits; a++)
        n = quad_byte(vi_shl(n, 8), vi_load((const int32_t *)(const void *)(quad + 64 * a)), c);
    return v_mul(digits == 2 ? v_from_int(n) : v_mul(v_from_int(n), v_set1(0x1p-16f)), factor);
}

/* ---- Products ---- */

GDN_INLINE vf dot_of(const vi g[GDN_MOST_DIGITS], const int digits)
{
    return digits == 2
               ? v_fma(v_set1(256), v_from_int(g[0]), v_from_int(g[1]))
               : v_fma(v_set1(0x1p-8f), v_fma(v_set1(0x1p-8f), v_from_int(g[2]), v_from_int(g[1])), v_from_int(g[0]));
}

/* dot() of rows with the lines of the lanes at `lane`: quads of elements, `digits` times 64 bytes apart. Words of rows
 * are [digit][part][quad][quad_step], those of a quad one after the other. With two ways every other quad has sums of
 * its own, so that a few rows do not wait for their sums, and what is `ahead` bytes further is fetched. */
GDN_INLINE void dots_of(const int rows, const int ways, const int digits, const int8_t *lane, int64_t ahead,
                        int32_t quads, const int32_t *word, int64_t quad_step, const int32_t (*sum)[GDN_MOST_DIGITS],
                        vf *dot)
{
    const int64_t part_step = quads * quad_step;
    vi g[2][TILE_ROWS][GDN_MOST_DIGITS];
    for (int r = 0; r < rows; r++)
        for (int m = 0, below = 0; m < digits; m++) {
            below += GDN_QUAD_BIAS ? sum[r][m] : 0;
            g[0][r][m] = vi_set1(-GDN_QUAD_BIAS * below);
            g[1][r][m] = vi_set1(0);
        }
    for (int32_t i = 0; i < quads; i += ways)
        for (int way = 0; way < ways; way++, lane += digits * 64, word += quad_step) {
            vquad l[GDN_MOST_DIGITS];
            for (int a = 0; a < digits; a++) {
                l[a] = quad_load(lane + a * 64);
                if (ways > 1) v_prefetch_l2(lane + a * 64 + ahead);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
                for (int x = 0; x < digits; x++)
#pragma GCC unroll 8
                    for (int y = 0; x + y < digits; y++)
                        g[way][r][x + y] =
                            quad_dot(g[way][r][x + y], l[y], word + x * GDN_QUAD_PARTS * part_step + r, part_step);
        }
    for (int r = 0; r < rows; r++) {
        for (int m = 0; m < digits && ways > 1; m++) g[0][r][m] = vi_add(g[0][r][m], g[1][r][m]);
        dot[r] = dot_of(g[0][r], digits);
    }
}

/* Functions of their own, whose sums are all in registers. There are not enough for a tile with 3 digits. */
#define GDN_DOTS(name, rows, parts, ways, digits)                                                                      \
    static __attribute__((noinline)) void name(const int8_t *lane, int64_t ahead, int32_t quads, const int32_t *word,  \
                                               int64_t quad_step, const int32_t(*sum)[GDN_MOST_DIGITS], vf *dot)       \
    {                                                                                                                  \
        for (int r = 0; r < (rows); r += (rows) / (parts))                                                             \
            dots_of((rows) / (parts), ways, digits, lane, ahead, quads, word + r, quad_step, sum + r, dot + r);        \
    }
GDN_DOTS(dots_2, 2, 1, 2, 2)
GDN_DOTS(dots_3, 2, 1, 2, 3)
GDN_DOTS(dots_tile_2, TILE_ROWS, 1, 1, 2)
GDN_DOTS(dots_tile_3, TILE_ROWS, 2, 1, 3)

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
